//! The texts of a request body that count as input, found in the body itself, so that what is counted is what was sent.
//!
//! Order and choice are AIPerf's: messages (or input items), then tool schemas; a plain `prompt`, `input`, query with
//! passages, or `inputs` only where there is no list of messages.

use serde_json::{Map, Value};

/// Every text, in order.
pub(super) fn of(body: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    if let Ok(Value::Object(body)) = serde_json::from_slice(body) {
        let messages = walk_messages(&body, &mut out);
        walk_tools(&body, &mut out);
        if !messages {
            walk_plain(&body, &mut out);
        }
    }
    out
}

fn walk_messages(body: &Map<String, Value>, out: &mut Vec<String>) -> bool {
    let mut found = false;
    for key in ["messages", "input"] {
        let Some(items) = body.get(key).and_then(Value::as_array) else { continue };
        // A list of strings under `input` is for embeddings; items have a role or a type.
        if !items.iter().any(|i| i.get("role").is_some() || i.get("type").is_some()) {
            continue;
        }
        found = true;
        for item in items.iter().filter_map(Value::as_object) {
            walk_item(item, out);
        }
    }
    found
}

fn walk_item(item: &Map<String, Value>, out: &mut Vec<String>) {
    match item.get("content") {
        Some(Value::String(text)) => out.push(text.clone()),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter(|p| p.get("type").and_then(Value::as_str) == Some("text"));
            out.extend(texts.filter_map(|p| p.get("text")?.as_str().map(str::to_owned)));
        }
        _ => {}
    }
    for call in item.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        if let Some(function) = call.get("function").and_then(Value::as_object) {
            push_texts(function, &["name", "arguments"], out);
        }
    }
    match item.get("type").and_then(Value::as_str) {
        Some("function_call") => push_texts(item, &["name", "arguments"], out),
        Some("function_call_output") => push_texts(item, &["output"], out),
        _ => {}
    }
}

fn walk_tools(body: &Map<String, Value>, out: &mut Vec<String>) {
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let function = tool.get("function").and_then(Value::as_object);
        for source in function.into_iter().chain(tool.as_object()) {
            push_texts(source, &["name", "description"], out);
            if let Some(parameters @ Value::Object(_)) = source.get("parameters") {
                out.push(parameters.to_string());
            }
        }
    }
}

fn walk_plain(body: &Map<String, Value>, out: &mut Vec<String>) {
    for key in ["prompt", "input"] {
        match body.get(key) {
            Some(Value::String(text)) => return out.push(text.clone()),
            Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
                return out.extend(list.iter().filter_map(|t| t.as_str().map(str::to_owned)));
            }
            // Token ids are counted, not read.
            Some(Value::Array(list)) if list.iter().all(|t| t.is_number() || t.is_array()) => return,
            _ => {}
        }
    }
    match (body.get("query"), body.get("passages")) {
        (Some(Value::String(query)), Some(Value::Array(passages))) => {
            out.push(query.clone());
            let texts = passages.iter().filter_map(|p| p.as_str().or_else(|| p.get("text")?.as_str()));
            out.extend(texts.map(str::to_owned));
        }
        _ => out.extend(body.get("inputs").and_then(Value::as_str).map(str::to_owned)),
    }
}

fn push_texts(source: &Map<String, Value>, keys: &[&str], out: &mut Vec<String>) {
    let texts = keys.iter().filter_map(|k| source.get(*k)?.as_str());
    out.extend(texts.filter(|t| !t.is_empty()).map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(body: &Value) -> Vec<String> {
        of(body.to_string().as_bytes())
    }

    #[test]
    fn chat_texts_are_contents_calls_and_tool_schemas() {
        let body = json!({
            "messages": [
                {"role": "system", "content": "sys"},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}, 3]},
                {"role": "user", "content": ""},
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"z": 1, "a": 2}}}],
            "prompt": "not counted",
        });
        assert_eq!(texts(&body), ["sys", "a", "b", "f", "{}", "", "f", "d", r#"{"z":1,"a":2}"#]);
    }

    #[test]
    fn plain_bodies_have_their_prompts() {
        assert_eq!(texts(&json!({"prompt": "p"})), ["p"]);
        assert_eq!(texts(&json!({"prompt": ["p", "q"]})), ["p", "q"]);
        assert_eq!(texts(&json!({"prompt": [1, 2], "inputs": "no"})), Vec::<String>::new());
        assert_eq!(texts(&json!({"input": ["a", "b"]})), ["a", "b"]);
        assert_eq!(texts(&json!({"query": "q", "passages": ["x", {"text": "y"}, 1]})), ["q", "x", "y"]);
        assert_eq!(texts(&json!({"inputs": "i"})), ["i"]);
    }

    #[test]
    fn what_is_no_object_has_no_texts() {
        for body in [&b""[..], b"[]", b"\"x\"", b"{", b"\xff"] {
            assert!(of(body).is_empty());
        }
    }
}
