//! Anthropic messages.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::body::{Field, Fields};
use super::chunk::{CallPart, Piece, Text};
use super::event::{Said, filled, part};
use super::message::{Content, Form, Message, MessageList, write_json};
use super::{Answer, Request, SaidCall};

/// The header that names the version of the API that is spoken, and the version.
pub(crate) const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
/// The header that carries the key.
pub(crate) const KEY_HEADER: &str = "x-api-key";
/// The API insists on a limit. AIPerf's, where none is asked for.
const MAX_TOKENS: u64 = 1024;

/// The API's own fields of a request.
pub(super) fn fields<'a>(request: &Request<'a>, streaming: bool) -> Fields<'a> {
    let turn = request.turn;
    let mut fields = vec![
        ("model", Field::Text(&turn.model)),
        ("messages", Field::Messages(MessageList { request: *request, form: Form::Messages })),
        ("max_tokens", Field::Count(turn.max_tokens.unwrap_or(MAX_TOKENS))),
    ];
    // The vendor's own clients leave the field out rather than say no.
    if streaming {
        fields.push(("stream", Field::Flag(true)));
    }
    if let Some(system) = request.system.filter(|t| !t.is_empty()) {
        fields.push(("system", Field::Text(system)));
    }
    Fields::new(fields)
}

/// The message of `answer` in a later request, tool calls and all, without its reasoning; the API refuses empty ones.
pub(super) fn reply(answer: &Answer, out: &mut Vec<u8>) -> bool {
    let prose = answer.prose();
    if answer.calls.is_empty() {
        if !prose.is_empty() {
            Message { role: "assistant", content: Content::Plain(&prose) }.write(Form::Messages, out);
        }
        return !prose.is_empty();
    }
    let text = Some(prose).filter(|prose| !prose.is_empty());
    let text = text.map(|text| json!({"type": "text", "text": text}));
    let call = |call: SaidCall<'_>| {
        // Half an object is none; a call without arguments has an empty one.
        let input: Value = serde_json::from_str(call.arguments).unwrap_or_default();
        let input = if input.is_object() { input } else { json!({}) };
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    };
    let blocks: Vec<Value> = text.into_iter().chain(answer.said_calls().map(call)).collect();
    write_json(&json!({"role": "assistant", "content": blocks}), out);
    true
}

/// An event of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    object: Text<'a>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

/// What is new in a block, or in the message.
#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    partial_json: Text<'a>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
}

/// A block of content.
#[derive(Debug, Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

impl Block<'_> {
    /// A call of a tool, of the client's or of the server's.
    fn is_call(&self) -> bool {
        matches!(&*self.kind.0, "tool_use" | "server_tool_use")
    }
}

impl Event<'_> {
    /// Whether it says itself what it is.
    pub(super) fn is_typed(&self) -> bool {
        !self.kind.0.is_empty()
    }
}

/// What `json`, read as `event`, says. `name` is the name of the server-sent event.
pub(super) fn said<'a>(json: &'a str, event: Event<'a>, name: Option<&str>) -> Said<'a> {
    if let Some(error) = part::<Value>(event.error).filter(super::error::says_something) {
        return Said { error: Some(error), ..Said::default() };
    }
    let kind = if event.kind.0.is_empty() { name.unwrap_or("") } else { &*event.kind.0 };
    let index = event.index.and_then(|raw| raw.get().parse().ok());
    match kind {
        "content_block_delta" => {
            event.delta.and_then(|delta| news(delta, index)).map_or_else(Said::default, Said::piece)
        }
        "content_block_start" => part(event.content_block)
            .and_then(|block| beginning(block, index))
            .map_or_else(Said::default, Said::piece),
        "message_start" => {
            let message = part::<Event<'_>>(event.message);
            let mut usage = message.as_ref().and_then(|m| part::<Map<String, Value>>(m.usage));
            if let Some(usage) = &mut usage {
                // Of an answer that has only begun; the whole count comes with the end.
                usage.remove("output_tokens");
            }
            Said { usage, model: message.and_then(|m| filled(m.model.0)), ..Said::default() }
        }
        "message_delta" => Said {
            usage: part(event.usage),
            finish_reason: event.delta.and_then(|d| filled(d.stop_reason.0)),
            ..Said::default()
        },
        "message" => Said {
            piece: content(event.content),
            usage: part(event.usage),
            model: filled(event.model.0),
            finish_reason: filled(event.stop_reason.0),
            ends: true,
            ..Said::default()
        },
        "message_stop" => Said { ends: true, ..Said::default() },
        "content_block_stop" | "ping" => Said::default(),
        "error" => Said { error: serde_json::from_str(json).ok(), ..Said::default() },
        _ => Said::foreign(if kind.is_empty() { &event.object.0 } else { kind }),
    }
}

/// The text of a delta. Signatures and citations are no output of the model's.
fn news(delta: Delta<'_>, index: Option<i64>) -> Option<Piece<'_>> {
    let call = |arguments| Piece::call(CallPart { index, arguments, ..CallPart::default() });
    match &*delta.kind.0 {
        "text_delta" => filled(delta.text.0).map(Piece::prose),
        "thinking_delta" => filled(delta.thinking.0).map(Piece::reasoning),
        "input_json_delta" => filled(delta.partial_json.0).map(call),
        _ => None,
    }
}

/// The text with which a block begins: a tool's name, hardly ever anything else.
fn beginning(block: Block<'_>, index: Option<i64>) -> Option<Piece<'_>> {
    if block.is_call() {
        let call = |name| Piece::call(CallPart { index, id: block.id.0, name, ..CallPart::default() });
        return filled(block.name.0).map(call);
    }
    filled(block.text.0).map(Piece::prose).or_else(|| filled(block.thinking.0).map(Piece::reasoning))
}

/// All texts of a whole answer.
fn content(blocks: Option<&RawValue>) -> Option<Piece<'_>> {
    let mut piece = Piece::default();
    let blocks = part::<Vec<&RawValue>>(blocks).into_iter().flatten();
    for block in blocks.filter_map(|raw| part::<Block<'_>>(Some(raw))) {
        match &*block.kind.0 {
            "text" => piece.prose += block.text.0,
            "thinking" => piece.reasoning += block.thinking.0,
            _ if block.is_call() => {
                // A call without arguments has an empty object that the model did not write.
                let arguments = block.input.map(RawValue::get).filter(|i| *i != "{}").unwrap_or("");
                piece.calls.push(CallPart {
                    id: block.id.0,
                    name: block.name.0,
                    arguments: arguments.into(),
                    is_whole: true,
                    ..CallPart::default()
                });
            }
            _ => {}
        }
    }
    (!piece.is_silent()).then_some(piece)
}
