//! The texts of a request body that count as input, found in the body itself, so that what is counted is what was sent.
//!
//! Choice is AIPerf's, and so is the order: a system text with a field of its own, messages (or input items), then tool
//! schemas; a plain `prompt`, `input`, query with passages, or `inputs` only where there is no list of messages. Only the
//! texts of Anthropic's tool blocks stand where their block does, not at the end.

use aiperf_core::plan::EndpointKind;
use serde_json::{Map, Value};

/// Every text of a body of the API `kind`, in order.
pub(super) fn of(kind: EndpointKind, body: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    if let Ok(Value::Object(body)) = serde_json::from_slice(body) {
        if kind.is_ranking() {
            walk_ranking(&body, &mut out);
            return out;
        }
        match kind {
            EndpointKind::Responses => walk_system(body.get("instructions"), &mut out),
            EndpointKind::Messages => walk_system(body.get("system"), &mut out),
            _ => {}
        }
        let messages = walk_messages(kind, &body, &mut out);
        walk_tools(&body, &mut out);
        if !messages {
            walk_plain(&body, &mut out);
            if out.is_empty() {
                walk_other(kind, &body, &mut out);
            }
        }
    }
    out
}

/// Query and passages, by the names that the APIs have for them. AIPerf knows those of one alone.
fn walk_ranking(body: &Map<String, Value>, out: &mut Vec<String>) {
    let passages = ["documents", "texts", "passages"].iter().filter_map(|name| body.get(*name)?.as_array());
    for text in body.get("query").into_iter().chain(passages.flatten()) {
        out.extend(text.as_str().or_else(|| text.get("text")?.as_str()).map(str::to_owned));
    }
}

/// A system text beside the messages: a string, or a list of strings and parts.
fn walk_system(system: Option<&Value>, out: &mut Vec<String>) {
    match system {
        Some(Value::String(text)) => out.push(text.clone()),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|p| p.as_str().or_else(|| p.get("text")?.as_str()));
            out.extend(texts.filter(|t| !t.is_empty()).map(str::to_owned));
        }
        _ => {}
    }
}

fn walk_messages(kind: EndpointKind, body: &Map<String, Value>, out: &mut Vec<String>) -> bool {
    let mut found = false;
    for key in ["messages", "input"] {
        let Some(items) = body.get(key).and_then(Value::as_array) else { continue };
        // A list of strings under `input` is for embeddings; items have a role or a type.
        if !items.iter().any(|i| i.get("role").is_some() || i.get("type").is_some()) {
            continue;
        }
        found = true;
        for item in items.iter().filter_map(Value::as_object) {
            walk_item(kind, item, out);
        }
    }
    found
}

fn walk_item(kind: EndpointKind, item: &Map<String, Value>, out: &mut Vec<String>) {
    match item.get("content") {
        Some(Value::String(text)) => out.push(text.clone()),
        Some(Value::Array(parts)) => {
            for part in parts.iter().filter_map(Value::as_object) {
                walk_part(kind, part, out);
            }
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

fn walk_part(kind: EndpointKind, part: &Map<String, Value>, out: &mut Vec<String>) {
    let text = |part: &Map<String, Value>| part.get("text")?.as_str().map(str::to_owned);
    match (kind, part.get("type").and_then(Value::as_str).unwrap_or("")) {
        (EndpointKind::Responses, "input_text" | "output_text")
        | (
            EndpointKind::Chat
            | EndpointKind::Completions
            | EndpointKind::Messages
            | EndpointKind::ChatEmbeddings
            | EndpointKind::Template
            | EndpointKind::Raw,
            "text",
        ) => out.extend(text(part)),
        (EndpointKind::Messages, "tool_use") => {
            push_texts(part, &["name"], out);
            out.extend(part.get("input").filter(|i| i.is_object()).map(Value::to_string));
        }
        (EndpointKind::Messages, "tool_result") => match part.get("content") {
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(Value::as_object);
                let texts = texts.filter(|p| p.get("type").and_then(Value::as_str) == Some("text"));
                out.extend(texts.filter_map(text).filter(|t| !t.is_empty()));
            }
            _ => push_texts(part, &["content"], out),
        },
        _ => {}
    }
}

fn walk_tools(body: &Map<String, Value>, out: &mut Vec<String>) {
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let function = tool.get("function").and_then(Value::as_object);
        for source in function.into_iter().chain(tool.as_object()) {
            push_texts(source, &["name", "description"], out);
            // The second is Anthropic's name for it.
            for schema in ["parameters", "input_schema"].iter().filter_map(|name| source.get(*name)) {
                out.extend(schema.is_object().then(|| schema.to_string()));
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

/// What AIPerf does not know for a text.
fn walk_other(kind: EndpointKind, body: &Map<String, Value>, out: &mut Vec<String>) {
    let keys: &[&str] = match kind {
        EndpointKind::SglangGenerate => &["text"],
        EndpointKind::SolidoRag => &["query"],
        EndpointKind::Template | EndpointKind::Raw => &["text", "texts", "query", "content"],
        _ => &[],
    };
    for value in keys.iter().filter_map(|key| body.get(*key)) {
        match value {
            Value::String(text) => out.push(text.clone()),
            Value::Array(list) => out.extend(list.iter().filter_map(|t| t.as_str().map(str::to_owned))),
            _ => {}
        }
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
        of(EndpointKind::Chat, body.to_string().as_bytes())
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
    fn a_system_text_with_a_field_of_its_own_comes_first() {
        let responses = |body: &Value| of(EndpointKind::Responses, body.to_string().as_bytes());
        let body = json!({
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "no"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "no"}]},
                {"type": "function_call", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "output": "o"},
                {"role": "user", "content": "c"},
            ],
            "instructions": "sys", "system": "no",
            "tools": [{"type": "function", "name": "g", "parameters": {"z": 1}}],
        });
        assert_eq!(responses(&body), ["sys", "a", "b", "f", "{}", "o", "c", "g", r#"{"z":1}"#]);
        assert_eq!(
            responses(&json!({"instructions": [{"text": "s"}, "t", ""], "input": "p"})),
            ["s", "t", "p"]
        );

        let messages = |body: &Value| of(EndpointKind::Messages, body.to_string().as_bytes());
        let body = json!({
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "no"},
                    {"type": "text", "text": "b"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {"z": 1, "a": 2}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "r"},
                    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "s"}, {"type": "image"}]},
                ]},
            ],
            "system": "sys", "instructions": "no",
            "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        });
        let expected = ["sys", "a", "b", "f", r#"{"z":1,"a":2}"#, "r", "s", "f", "d", r#"{"type":"object"}"#];
        assert_eq!(messages(&body), expected);
        assert_eq!(
            messages(
                &json!({"system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "a"}]})
            ),
            ["s", "a"]
        );
    }

    #[test]
    fn what_is_no_object_has_no_texts() {
        for body in [&b""[..], b"[]", b"\"x\"", b"{", b"\xff"] {
            assert!(of(EndpointKind::Chat, body).is_empty());
        }
    }
}
