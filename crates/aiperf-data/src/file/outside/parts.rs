//! Messages in parts, as recorders of traces have them (OpenTelemetry's `gen_ai`), in the form of the chat API.

use serde_json::{Map, Value, json};

use crate::error::RowProblem;
use crate::file::row::{shown, wrong};

/// A list of objects, which may stand in a text.
fn objects(value: Value, field: &'static str) -> Result<Vec<Value>, RowProblem> {
    let wrong = |found: String| RowProblem::Field { field, wanted: "a JSON list of objects", found };
    let list = match &value {
        Value::String(text) => serde_json::from_str(text).map_err(|_| wrong(shown(&value)))?,
        _ => value,
    };
    match list {
        Value::Array(list) if list.iter().all(Value::is_object) => Ok(list),
        other => Err(wrong(shown(&other))),
    }
}

/// A text as it is, anything else as JSON.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The text of a part, whose absence is nothing.
fn text_of(part: &Value, field: &str) -> String {
    match &part[field] {
        Value::Null | Value::Bool(false) => String::new(),
        other => as_text(other),
    }
}

/// What the model was told before all messages: parts of a message, or a text.
pub(super) fn instructions(value: Value) -> Result<Vec<Value>, RowProblem> {
    const FIELD: &str = "gen_ai.system_instructions";
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => match objects(Value::String(text.clone()), FIELD) {
            Ok(parts) => message(&json!({"role": "system", "parts": parts})),
            Err(_) => Ok(vec![json!({"role": "system", "content": text})]),
        },
        other => Err(wrong(FIELD, "a text", &other)),
    }
}

pub(super) fn all_messages(value: Value) -> Result<Vec<Value>, RowProblem> {
    const FIELD: &str = "gen_ai.input.messages";
    let messages = objects(value, FIELD)?;
    if messages.is_empty() {
        return Err(wrong(FIELD, "a list with a message in it", &Value::Array(Vec::new())));
    }
    let each = messages.iter().map(message).collect::<Result<Vec<_>, _>>()?;
    Ok(each.into_iter().flatten().collect())
}

/// What a message has of text, thoughts and calls, until something else comes.
#[derive(Default)]
struct Said {
    content: String,
    thoughts: Vec<String>,
    calls: Vec<Value>,
    has_text: bool,
}

impl Said {
    fn is_empty(&self) -> bool {
        !self.has_text && self.thoughts.is_empty() && self.calls.is_empty()
    }

    fn message(self, role: &str) -> Value {
        let role = if role == "developer" { "system" } else { role };
        let mut message = json!({"role": role, "content": self.content});
        if !self.thoughts.is_empty() {
            message["reasoning_content"] = self.thoughts.concat().into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.into();
        }
        message
    }
}

/// A message in parts as the API has it: answers of tools are messages of their own.
fn message(given: &Value) -> Result<Vec<Value>, RowProblem> {
    const FIELD: &str = "parts";
    let role = given["role"].as_str().ok_or_else(|| wrong("role", "a text", &given["role"]))?;
    let parts = given[FIELD].as_array().ok_or_else(|| wrong(FIELD, "a list", &given[FIELD]))?;
    let (mut said, mut all) = (Said::default(), Vec::new());
    for part in parts {
        match part["type"].as_str() {
            Some("text") => {
                said.content.push_str(&text_of(part, "content"));
                said.has_text = true;
            }
            Some("thinking") => said.thoughts.push(text_of(part, "thinking")),
            Some("tool_call") => {
                let function = json!({"name": part["name"], "arguments": as_text(&part["arguments"])});
                said.calls.push(json!({"id": part["id"], "type": "function", "function": function}));
            }
            Some("tool_call_response") => {
                if !said.is_empty() {
                    all.push(std::mem::take(&mut said).message(role));
                }
                let content = as_text(&part["result"]);
                all.push(json!({"role": "tool", "tool_call_id": part["id"], "content": content}));
            }
            _ => {
                let wanted = "text, thinking, tool_call or tool_call_response";
                return Err(RowProblem::Field { field: "type", wanted, found: shown(&part["type"]) });
            }
        }
    }
    if !said.is_empty() || all.is_empty() {
        all.push(said.message(role));
    }
    Ok(all)
}

/// Tools that were offered.
pub(super) fn tools(value: Value) -> Result<Option<Value>, RowProblem> {
    const FIELD: &str = "gen_ai.tool.definitions";
    if value.is_null() {
        return Ok(None);
    }
    let one = |tool: &Value| {
        if tool["type"] != "function" {
            let wanted = "tools of the type function";
            return Err(RowProblem::Field { field: FIELD, wanted, found: shown(&tool["type"]) });
        }
        let named = ["name", "description", "parameters"];
        let function: Map<String, Value> =
            named.into_iter().map(|name| (name.to_owned(), tool[name].clone())).collect();
        Ok(json!({"type": "function", "function": function}))
    };
    let tools = objects(value, FIELD)?.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok((!tools.is_empty()).then_some(Value::Array(tools)))
}
