//! From the conversation of a request, in the form of its API, to the messages and tools that a chat template is given.

use serde_json::{Map, Value, json};

use crate::refusal::Refusal;
use crate::request::Api;

/// The messages of a request: those of chat with their parts made texts, the items of responses after their instructions, the
/// messages of Anthropic after their system text.
pub(crate) fn messages(api: Api, input: &str, system: Option<&str>) -> Result<Value, Refusal> {
    let input: Value = parse(input)?;
    let system: Option<Value> = system.map(parse).transpose()?;
    let mut out = Vec::new();
    match api {
        Api::Chat | Api::Completions | Api::Tgi { .. } | Api::Sglang | Api::Solido => {
            let Value::Array(list) = input else { return Err(Refusal::bad("messages must be a list")) };
            for message in list {
                let Value::Object(mut message) = message else {
                    return Err(Refusal::bad("each message must be an object"));
                };
                flatten(&mut message)?;
                out.push(Value::Object(message));
            }
        }
        Api::Responses => {
            if let Some(instructions) = system {
                let text =
                    instructions.as_str().ok_or_else(|| Refusal::bad("instructions must be a text"))?;
                out.push(json!({"role": "system", "content": text}));
            }
            match input {
                Value::String(text) => out.push(json!({"role": "user", "content": text})),
                Value::Array(items) if items.is_empty() => {
                    return Err(Refusal::bad("input must not be empty"));
                }
                Value::Array(items) => {
                    for item in items {
                        out.extend(response_item(item)?);
                    }
                }
                _ => return Err(Refusal::bad("input must be a text or a list")),
            }
        }
        Api::Messages => {
            if let Some(system) = system {
                // vLLM puts the blocks of a system text together without anything between them.
                let text = system_text(&system)?;
                out.push(json!({"role": "system", "content": text}));
            }
            let Value::Array(list) = input else { return Err(Refusal::bad("messages must be a list")) };
            if list.is_empty() {
                return Err(Refusal::bad("messages must not be empty"));
            }
            for message in list {
                anthropic_message(message, &mut out)?;
            }
        }
    }
    if out.is_empty() {
        return Err(Refusal::bad("messages must not be empty"));
    }
    Ok(Value::Array(out))
}

/// The tools of a request in the form of chat.
pub(crate) fn tools(api: Api, raw: Option<&str>) -> Result<Option<Value>, Refusal> {
    let Some(raw) = raw else { return Ok(None) };
    let tools: Value = parse(raw)?;
    if matches!(api, Api::Chat | Api::Completions) {
        return Ok(Some(tools));
    }
    let Value::Array(list) = tools else { return Err(Refusal::bad("tools must be a list")) };
    let schema = if api == Api::Messages { "input_schema" } else { "parameters" };
    let mut out = Vec::with_capacity(list.len());
    for mut tool in list {
        let mut function = Map::new();
        for (from, to) in [("name", "name"), ("description", "description"), (schema, "parameters")] {
            if let Some(value) = tool.get_mut(from).map(Value::take).filter(|v| !v.is_null()) {
                function.insert(to.to_owned(), value);
            }
        }
        if !function.contains_key("name") {
            return Err(Refusal::bad("only tools that are functions with a name are known here"));
        }
        out.push(json!({"type": "function", "function": function}));
    }
    Ok(Some(Value::Array(out)).filter(|list| list.as_array().is_some_and(|l| !l.is_empty())))
}

/// Text parts become one text joined by newlines and `developer` becomes `system`, as vLLM renders them. Images, audio and video are
/// taken and add no tokens: there is no model that sees or hears.
fn flatten(message: &mut Map<String, Value>) -> Result<(), Refusal> {
    if message.get("role").and_then(Value::as_str).is_none() {
        return Err(Refusal::bad("each message needs a role"));
    }
    if message["role"] == "developer" {
        message.insert("role".to_owned(), Value::from("system"));
    }
    if let Some(Value::Array(parts)) = message.get("content") {
        let text = joined(parts, &["text"])?;
        message.insert("content".to_owned(), Value::from(text));
    }
    Ok(())
}

/// Parts that are no text, and the field that each must have.
const MEDIA: [(&str, &str); 5] = [
    ("image_url", "image_url"),
    ("input_image", "image_url"),
    ("image", "source"),
    ("input_audio", "input_audio"),
    ("video_url", "video_url"),
];

/// The texts of parts of these types, joined by newlines. Media among them have to be whole.
fn joined(parts: &[Value], kinds: &[&str]) -> Result<String, Refusal> {
    let mut texts = Vec::with_capacity(parts.len());
    for part in parts {
        let kind = part.get("type").and_then(Value::as_str);
        match part.get("text").and_then(Value::as_str) {
            Some(text) if kind.is_none_or(|k| kinds.contains(&k)) => texts.push(text),
            _ => {
                let kind = kind.unwrap_or("without a type");
                let Some((_, field)) = MEDIA.into_iter().find(|(known, _)| *known == kind) else {
                    return Err(Refusal::bad(format!("content parts '{kind}' are not known here")));
                };
                medium(kind, &part[field])?;
            }
        }
    }
    Ok(texts.join("\n"))
}

/// Whether the `held` of a part is what its kind has to hold.
fn medium(kind: &str, held: &Value) -> Result<(), Refusal> {
    let has = |name: &str| held[name].as_str().is_some();
    let is_whole = match kind {
        "image_url" | "video_url" => has("url"),
        "input_image" => held.is_string(),
        "input_audio" => has("data") && has("format"),
        _ => (has("data") && has("media_type")) || has("url"),
    };
    if is_whole {
        Ok(())
    } else {
        Err(Refusal::bad(format!("a content part '{kind}' lacks what it shows or plays")))
    }
}

/// A content that is a text or a list of parts.
fn content(value: &Value, kinds: &[&str]) -> Result<String, Refusal> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => joined(parts, kinds),
        Value::Null => Ok(String::new()),
        _ => Err(Refusal::bad("content must be a text or a list of parts")),
    }
}

fn call(id: &Value, name: &Value, arguments: &Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// One item of a response's input.
fn response_item(item: Value) -> Result<Option<Value>, Refusal> {
    const TEXTS: [&str; 3] = ["input_text", "output_text", "text"];
    let Value::Object(item) = item else { return Err(Refusal::bad("each item of input must be an object")) };
    let of = |field: &str| item.get(field).unwrap_or(&Value::Null);
    match item.get("type").and_then(Value::as_str) {
        None | Some("message") => {
            let role = of("role").as_str().ok_or_else(|| Refusal::bad("each message needs a role"))?;
            let role = if role == "developer" { "system" } else { role };
            Ok(Some(json!({"role": role, "content": content(of("content"), &TEXTS)?})))
        }
        Some("function_call") => {
            let call = call(of("call_id"), of("name"), of("arguments"));
            Ok(Some(json!({"role": "assistant", "content": "", "tool_calls": [call]})))
        }
        Some("function_call_output") => {
            let output = content(of("output"), &TEXTS)?;
            Ok(Some(json!({"role": "tool", "tool_call_id": of("call_id"), "content": output})))
        }
        // What was thought in an earlier turn is not shown to the model again.
        Some("reasoning") => Ok(None),
        Some(other) => Err(Refusal::bad(format!("items of the type '{other}' are not known here"))),
    }
}

/// The text of Anthropic's `system`.
fn system_text(system: &Value) -> Result<String, Refusal> {
    match system {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let texts: Option<Vec<&str>> = blocks.iter().map(|b| b.get("text")?.as_str()).collect();
            Ok(texts.ok_or_else(|| Refusal::bad("system must be a text or a list of text blocks"))?.concat())
        }
        _ => Err(Refusal::bad("system must be a text or a list of text blocks")),
    }
}

/// One of Anthropic's messages: results of tools become messages of their own, before what else is said.
fn anthropic_message(message: Value, out: &mut Vec<Value>) -> Result<(), Refusal> {
    let Value::Object(message) = message else { return Err(Refusal::bad("each message must be an object")) };
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    if !matches!(role, "user" | "assistant") {
        return Err(Refusal::bad("the role of a message must be user or assistant"));
    }
    let blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks,
        Some(Value::String(text)) => {
            out.push(json!({"role": role, "content": text}));
            return Ok(());
        }
        _ => return Err(Refusal::bad("content must be a text or a list of blocks")),
    };
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    let mut results = false;
    for block in blocks {
        let of = |field: &str| block.get(field).unwrap_or(&Value::Null);
        match of("type").as_str() {
            Some("tool_use") => calls.push(call(of("id"), of("name"), of("input"))),
            Some("tool_result") => {
                results = true;
                let result = content(of("content"), &["text"])?;
                out.push(json!({"role": "tool", "tool_call_id": of("tool_use_id"), "content": result}));
            }
            // What was thought in an earlier turn is not shown to the model again.
            Some("thinking" | "redacted_thinking") => {}
            _ => texts.push(joined(std::slice::from_ref(block), &["text"])?),
        }
    }
    if texts.is_empty() && calls.is_empty() && results {
        return Ok(());
    }
    let mut said = json!({"role": role, "content": texts.join("\n")});
    if !calls.is_empty() {
        said["tool_calls"] = Value::from(calls);
    }
    out.push(said);
    Ok(())
}

/// JSON of the request's body.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(raw: &str) -> Result<T, Refusal> {
    serde_json::from_str(raw).map_err(|e| Refusal::wrong(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(api: Api, input: &Value, system: Option<&Value>) -> Result<Value, String> {
        let system = system.map(Value::to_string);
        messages(api, &input.to_string(), system.as_deref()).map_err(|r| r.message)
    }

    #[test]
    fn the_items_of_responses_are_messages() {
        let said = seen(Api::Responses, &json!("Hi"), Some(&json!("Be brief."))).expect("a good request");
        assert_eq!(
            said,
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
        );
        let items = json!([
            {"type": "message", "role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c", "annotations": []}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "42"},
        ]);
        assert_eq!(
            seen(Api::Responses, &items, None).expect("a good request"),
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "a\nb"},
                {"role": "assistant", "content": "c"},
                {"role": "assistant", "content": "", "tool_calls":
                    [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "1", "content": "42"},
            ])
        );
    }

    #[test]
    fn the_blocks_of_messages_are_texts_calls_and_results() {
        let system = json!([{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]);
        let said = json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "c"}, {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content":
                [{"type": "text", "text": "42"}]}]},
            {"role": "user", "content": "d"},
        ]);
        assert_eq!(
            seen(Api::Messages, &said, Some(&system)).expect("a good request"),
            json!([
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "a\nb"},
                {"role": "assistant", "content": "c", "tool_calls":
                    [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
                {"role": "tool", "tool_call_id": "1", "content": "42"},
                {"role": "user", "content": "d"},
            ])
        );
    }

    #[test]
    fn media_are_taken_and_add_no_text() {
        let of = |api, parts: Value| {
            let said = seen(api, &json!([{"role": "user", "content": parts}]), None)?;
            Ok::<_, String>(said[0]["content"].clone())
        };
        let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}});
        let sound = json!({"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}});
        let film = json!({"type": "video_url", "video_url": {"url": "http://h/v.mp4"}});
        let text = json!({"type": "text", "text": "a"});
        assert_eq!(of(Api::Chat, json!([text, image, sound, film, text])), Ok(json!("a\na")));
        assert_eq!(of(Api::Chat, json!([image])), Ok(json!("")));
        let plain = json!({"type": "input_image", "image_url": "http://h/i"});
        assert_eq!(of(Api::Responses, json!([plain, sound])), Ok(json!("")));
        let source = json!({"type": "base64", "media_type": "image/png", "data": "QQ=="});
        assert_eq!(of(Api::Messages, json!([{"type": "image", "source": source}])), Ok(json!("")));
        assert!(of(Api::Chat, json!([{"type": "input_audio", "input_audio": {"data": "QQ=="}}])).is_err());
    }

    #[test]
    fn tools_take_the_form_of_chat() {
        let form = json!([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"a": 1}}}]);
        let responses = json!([{"type": "function", "name": "f", "description": "d", "parameters": {"a": 1}, "strict": true}]);
        let anthropic = json!([{"name": "f", "description": "d", "input_schema": {"a": 1}}]);
        for (api, tools_in) in [(Api::Chat, &form), (Api::Responses, &responses), (Api::Messages, &anthropic)]
        {
            assert_eq!(tools(api, Some(&tools_in.to_string())), Ok(Some(form.clone())), "{api:?}");
        }
        assert_eq!(tools(Api::Messages, Some("[]")), Ok(None));
        assert!(tools(Api::Responses, Some(r#"[{"type":"web_search"}]"#)).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (api, input, word) in [
            (Api::Responses, json!(7), "input must be"),
            (Api::Responses, json!([]), "empty"),
            (Api::Responses, json!([{"type": "web_search_call"}]), "'web_search_call'"),
            (Api::Responses, json!([{"content": "x"}]), "role"),
            (
                Api::Responses,
                json!([{"role": "user", "content": [{"type": "input_image"}]}]),
                "'input_image'",
            ),
            (Api::Messages, json!([]), "empty"),
            (Api::Messages, json!([{"role": "system", "content": "x"}]), "user or assistant"),
            (Api::Messages, json!([{"role": "user"}]), "content"),
            (Api::Messages, json!([{"role": "user", "content": [{"type": "image"}]}]), "'image'"),
        ] {
            let message = seen(api, &input, None).expect_err("a bad request");
            assert!(message.contains(word), "{input}: {message}");
        }
        assert!(seen(Api::Messages, &json!([{"role": "user", "content": "x"}]), Some(&json!(1))).is_err());
        assert!(seen(Api::Responses, &json!("x"), Some(&json!(1))).is_err());
    }
}
