//! Holds what is written against its schema, for tests.

use serde_json::Value;

/// Checks the part of JSON Schema our schemas use; an unknown keyword is an error, so nothing goes unchecked.
pub(crate) fn check(root: &Value, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let fail = |what: String| Err(format!("{path}: {what}"));
    for (keyword, rule) in schema.as_object().expect("schemas are objects") {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = rule.as_str().and_then(|r| r.strip_prefix('#')).expect("a local reference");
                check(root, root.pointer(pointer).expect("a definition"), value, path)?;
            }
            "const" if rule == value => {}
            "enum" if rule.as_array().is_some_and(|names| names.contains(value)) => {}
            "enum" => return fail(format!("{value} is none of {rule}")),
            "const" => return fail(format!("{value} is not {rule}")),
            "type" => {
                let is = |name: &Value| match name.as_str() {
                    Some("object") => value.is_object(),
                    Some("array") => value.is_array(),
                    Some("string") => value.is_string(),
                    Some("boolean") => value.is_boolean(),
                    Some("null") => value.is_null(),
                    Some("number") => value.is_number(),
                    Some("integer") => value.is_u64() || value.is_i64(),
                    other => panic!("unknown type {other:?}"),
                };
                if !rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is)) {
                    return fail(format!("{value} is no {rule}"));
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|v| v < rule.as_f64().expect("a number")) {
                    return fail(format!("{value} is below {rule}"));
                }
            }
            "pattern" => {
                let length = match rule.as_str() {
                    Some(p) if p.ends_with(r"\.\d{6}$") => 26,
                    Some(p) if p.ends_with(r"\.\d{9}[+-]\d\d:\d\d$") => 35,
                    other => panic!("unknown pattern {other:?}"),
                };
                if value.as_str().is_none_or(|s| s.len() != length || s.as_bytes()[10] != b'T') {
                    return fail(format!("{value} is no such time"));
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{path}[{i}]"))?;
                }
            }
            "allOf" => {
                for part in rule.as_array().expect("a list") {
                    check(root, part, value, path)?;
                }
            }
            "anyOf" => {
                let parts = rule.as_array().expect("a list");
                let errors: Vec<String> =
                    parts.iter().filter_map(|p| check(root, p, value, path).err()).collect();
                if errors.len() == parts.len() {
                    return fail(errors.join("; "));
                }
            }
            "properties" => {
                for (key, part) in rule.as_object().expect("an object") {
                    if let Some(inner) = value.get(key) {
                        check(root, part, inner, &format!("{path}.{key}"))?;
                    }
                }
            }
            "required" => {
                for key in rule.as_array().expect("a list") {
                    if value.get(key.as_str().expect("a name")).is_none() {
                        return fail(format!("{key} is missing"));
                    }
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let others = value.as_object().into_iter().flatten();
                for (key, inner) in
                    others.filter(|(key, _)| known.is_none_or(|known| !known.contains_key(*key)))
                {
                    if *rule == Value::Bool(false) {
                        return fail(format!("{key} is not known"));
                    }
                    check(root, rule, inner, &format!("{path}.{key}"))?;
                }
            }
            other => panic!("unknown keyword {other}"),
        }
    }
    Ok(())
}

pub(crate) fn valid(schema: &Value, bytes: &[u8]) -> Result<(), String> {
    check(schema, schema, &serde_json::from_slice(bytes).expect("JSON"), "$")
}
