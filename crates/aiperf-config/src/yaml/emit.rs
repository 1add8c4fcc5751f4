//! Writes a JSON value as YAML in block style. Texts that a reader could take for something else are quoted as JSON
//! quotes them, which YAML reads alike.

use std::fmt::Write as _;

use serde_json::Value as Json;

/// The value as YAML, ending with a line feed.
pub(crate) fn emit(value: &Json) -> String {
    let mut out = String::new();
    match value {
        Json::Object(map) if !map.is_empty() => block(value, 0, &mut out),
        Json::Array(items) if !items.is_empty() => block(value, 0, &mut out),
        other => {
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
    out
}

fn block(value: &Json, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Json::Object(map) => {
            for (key, value) in map {
                out.push_str(&pad);
                out.push_str(&text(key));
                out.push(':');
                below(value, indent + 2, indent, out);
            }
        }
        Json::Array(items) => {
            for item in items {
                out.push_str(&pad);
                out.push('-');
                if matches!(item, Json::Object(map) if !map.is_empty()) {
                    // The first key of a mapping stands beside the dash.
                    let mut inner = String::new();
                    block(item, indent + 2, &mut inner);
                    out.push(' ');
                    out.push_str(inner.trim_start());
                } else {
                    below(item, indent + 2, indent + 2, out);
                }
            }
        }
        other => out.push_str(&scalar(other)),
    }
}

fn below(value: &Json, map_indent: usize, list_indent: usize, out: &mut String) {
    match value {
        Json::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, map_indent, out);
        }
        Json::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, list_indent, out);
        }
        other => {
            out.push(' ');
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
}

fn scalar(value: &Json) -> String {
    match value {
        Json::String(s) => text(s),
        other => other.to_string(),
    }
}

/// Plain if it can only be this text, quoted otherwise.
fn text(s: &str) -> String {
    let plain = s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/')
        && s.chars().all(|c| c.is_ascii_alphanumeric() || "_-./@+".contains(c) || c == ':')
        && !s.ends_with(':')
        && !["null", "true", "false", "yes", "no", "on", "off", "y", "n"]
            .contains(&s.to_ascii_lowercase().as_str());
    if plain { s.to_owned() } else { quoted(s) }
}

/// As JSON quotes it, and with escapes for what YAML does not allow to stand in a text.
fn quoted(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    for c in Json::from(s).to_string().chars() {
        match c {
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{7f}'..='\u{9f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::load_text;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn reads_well() {
        let value =
            json!({"a": {"b": [1, {"c": "x y", "d": []}, [2, 3]], "e": {}}, "u": "http://h:80", "t": "true"});
        assert_eq!(
            emit(&value),
            "a:\n  b:\n  - 1\n  - c: \"x y\"\n    d: []\n  -\n    - 2\n    - 3\n  e: {}\nu: http://h:80\nt: \"true\"\n"
        );
    }

    fn json_tree() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Json::from),
            "[^${}%]{0,12}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map("[a-zA-Z :#'\"é-]{1,8}", inner, 0..4)
                    .prop_filter("<< merges", |m| !m.contains_key("<<"))
                    .prop_map(|m| m.into_iter().collect::<serde_json::Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in json_tree()) {
            let text = emit(&value);
            let read = load_text(&"c.yaml".into(), &text, &|_| None).map(|s| s.root.to_json());
            let expected = if value.is_null() { json!({}) } else { value };
            prop_assert_eq!(read.map_err(|e| e[0].to_string()), Ok(expected), "{}", text);
        }
    }
}
