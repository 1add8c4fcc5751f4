//! `${VAR}` and `${VAR:default}` in the texts of a file. A text that is nothing but one substitution becomes a boolean
//! or a number if it looks like one.

use std::collections::HashSet;

use super::{Data, Env, Node, Scalar, Source};
use crate::error::ConfigError;
use crate::place::Place;

/// Replaces all references, or says every one that does not resolve.
pub(crate) fn substitute(source: &mut Source, env: &Env<'_>) -> Result<(), Vec<ConfigError>> {
    let mut errors = Vec::new();
    let mut root = std::mem::replace(
        &mut source.root,
        Node { position: crate::place::Position::default(), data: Data::Map(Vec::new()) },
    );
    walk(&mut root, "", source, env, &mut errors);
    source.root = root;
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn walk(node: &mut Node, key: &str, source: &Source, env: &Env<'_>, errors: &mut Vec<ConfigError>) {
    let position = node.position;
    match &mut node.data {
        Data::Scalar(scalar) if scalar.is_text() && scalar.raw.contains("${") => {
            match replaced(&scalar.raw, env) {
                Ok(new) => *scalar = new,
                Err(problem) => {
                    let place: Place = source.place(position, key);
                    errors.push(ConfigError::Variable { place, problem });
                }
            }
        }
        Data::Scalar(_) => {}
        Data::List(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                walk(item, &format!("{key}[{i}]"), source, env, errors);
            }
        }
        Data::Map(entries) => {
            for entry in entries {
                let below = if key.is_empty() { entry.key.clone() } else { format!("{key}.{}", entry.key) };
                walk(&mut entry.node, &below, source, env, errors);
            }
        }
    }
}

/// The text with its references replaced.
fn replaced(text: &str, env: &Env<'_>) -> Result<Scalar, String> {
    let mut out = String::new();
    let mut rest = text;
    let mut missing = HashSet::new();
    let mut whole = false;
    while let Some(start) = rest.find("${") {
        out.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else {
            return Err(format!("'{text}' opens a reference with '${{' and never closes it"));
        };
        let (name, default) = match after[..end].split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (&after[..end], None),
        };
        if is_name(name) {
            match env(name).or_else(|| default.map(str::to_owned)) {
                Some(value) => out.push_str(&value),
                None => {
                    missing.insert(name);
                }
            }
            whole = start == 0 && rest.len() == text.len() && end + 3 == text.len();
        } else {
            // Not a reference, as for the reference tool: `${1}` is text.
            out.push_str(&rest[start..=start + 2 + end]);
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    if let Some(name) = missing.iter().min() {
        return Err(format!(
            "the environment variable {name} is not set; set it, or write ${{{name}:default}}"
        ));
    }
    Ok(if whole { Scalar::coerced(&out) } else { Scalar::text(out) })
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::super::load_text;
    use serde_json::{Value as Json, json};

    fn read(text: &str) -> Result<Json, String> {
        let env = |name: &str| match name {
            "N" => Some("4".to_owned()),
            "HOST" => Some("h".to_owned()),
            "ON" => Some("True".to_owned()),
            _ => None,
        };
        load_text(&"c.yaml".into(), text, &env)
            .map(|s| s.root.to_json())
            .map_err(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn references_become_values() {
        assert_eq!(
            read(
                "{a: '${N}', b: 'http://${HOST}:${PORT:80}/', c: '${X:1.5}', d: '${ON}', e: '${X:}', f: '${N}${N}', g: '${1}'}"
            ),
            Ok(json!({"a": 4, "b": "http://h:80/", "c": 1.5, "d": true, "e": "", "f": "44", "g": "${1}"}))
        );
    }

    #[test]
    fn all_missing_variables_are_told_with_their_places() {
        assert_eq!(
            read("a: ${NOPE}\nb:\n  - ${ALSO_NOT}\n"),
            Err("c.yaml:1:4: a: the environment variable NOPE is not set; set it, or write ${NOPE:default}\n\
                 c.yaml:2:0: "
                .replace("c.yaml:2:0: ", "c.yaml:3:5: b[0]: the environment variable ALSO_NOT is not set; set it, or write ${ALSO_NOT:default}"))
        );
        assert!(read("a: 'x ${OPEN'\n").is_err_and(|e| e.contains("never closes")));
    }
}
