//! `{% generation %}` … `{% endgeneration %}`, the tag by which templates mark what the assistant wrote, for training.
//!
//! It changes nothing in the text, but it is a block of its own scope, and the interpreter does not know it. `{% with %}`
//! is the same to whitespace and scope, so the tag's name is exchanged before compiling, byte for byte around it kept.

use std::borrow::Cow;

/// `source` with each generation tag as a `with` tag.
pub(super) fn as_scopes(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        let Some((lead, name, tail)) = generation_tag(tag) else { continue };
        out.push_str(lead);
        out.push_str(if name == "generation" { "with" } else { "endwith" });
        rest = tail;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Splits what follows `{%` into what stands before the tag's name, the name, and the rest from behind the name on, if
/// it is a generation tag.
fn generation_tag(tag: &str) -> Option<(&str, &str, &str)> {
    let body = tag.strip_prefix(['-', '+']).unwrap_or(tag).trim_start();
    let name_len = body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
    let (name, tail) = body.split_at(name_len);
    if name != "generation" && name != "endgeneration" {
        return None;
    }
    let close = tail.trim_start();
    close
        .strip_prefix(['-', '+'])
        .unwrap_or(close)
        .starts_with("%}")
        .then(|| (&tag[..tag.len() - body.len()], name, tail))
}

#[cfg(test)]
mod tests {
    use super::as_scopes;

    #[test]
    fn every_whitespace_form_is_exchanged() {
        for (given, expected) in [
            ("{% generation %}x{% endgeneration %}", "{% with %}x{% endwith %}"),
            ("{%- generation -%}x{%- endgeneration -%}", "{%- with -%}x{%- endwith -%}"),
            ("{%generation%}x{%endgeneration%}", "{%with%}x{%endwith%}"),
            ("{%+  generation\n%}x{%\tendgeneration +%}", "{%+  with\n%}x{%\tendwith +%}"),
        ] {
            assert_eq!(as_scopes(given), expected);
        }
    }

    #[test]
    fn nothing_else_is() {
        for kept in [
            "{% if add_generation_prompt %}a{% endif %}",
            "{% set generation = 1 %}{{ generation }}",
            "{% generation x %}",
            "text generation {%",
            "{% generation",
        ] {
            assert_eq!(as_scopes(kept), kept);
        }
    }
}
