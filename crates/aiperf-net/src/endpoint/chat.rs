//! OpenAI chat completions.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::body::{Field, Fields};
use super::chunk::{Choice, Function, Piece};
use super::message::{Content, Form, Message, MessageList, write_json};
use super::{Answer, Request, SaidCall};

/// The API's own fields of a request.
pub(super) fn fields<'a>(request: &Request<'a>, streaming: bool, legacy_max_tokens: bool) -> Fields<'a> {
    let turn = request.turn;
    let mut fields = vec![
        ("messages", Field::Messages(MessageList { request: *request, form: Form::Chat })),
        ("model", Field::Text(&turn.model)),
        ("stream", Field::Flag(streaming)),
    ];
    // Where AIPerf has the tools of a request that was recorded.
    if turn.extra.contains_key("messages")
        && let Some(tools) = turn.extra.get("tools")
    {
        fields.push(("tools", Field::Json(tools)));
    }
    if let Some(limit) = turn.max_tokens {
        let name = if legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
        fields.push((name, Field::Count(limit)));
    }
    Fields::new(fields)
}

/// The message of `answer` in a later request, tool calls and all, without its reasoning. Empty prose is a message too: it keeps the roles taking turns, which many
/// templates insist on.
pub(super) fn reply(answer: &Answer, out: &mut Vec<u8>) -> bool {
    let prose = answer.prose();
    if answer.calls.is_empty() {
        Message { role: "assistant", content: Content::Plain(&prose) }.write(Form::Chat, out);
        return true;
    }
    let call = |call: SaidCall<'_>| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        json!({"id": call.id, "type": "function", "function": function})
    };
    let content = Some(prose).filter(|prose| !prose.is_empty());
    let calls: Vec<Value> = answer.said_calls().map(call).collect();
    write_json(&json!({"role": "assistant", "content": content, "tool_calls": calls}), out);
    true
}

/// What a choice of an answer object named `object` says. An object of another name says nothing, as in AIPerf; one without
/// a name is read (AIPerf drops it), for servers that leave the name out.
pub(super) fn piece<'a>(object: &str, choice: &mut Choice<'a>) -> Option<Piece<'a>> {
    let (message, is_whole) = match object {
        "chat.completion" => (choice.message.take(), true),
        "chat.completion.chunk" => (choice.delta.take(), false),
        "" => match choice.delta.take() {
            None => (choice.message.take(), true),
            delta => (delta, false),
        },
        _ => (None, false),
    };
    let message = message?;
    let reasoning = [message.reasoning_content.0, message.reasoning.0].into_iter().find(|r| !r.is_empty());
    let calls = message.tool_calls.into_iter().flatten().flatten().filter_map(|call| call.part(is_whole));
    let calls = calls.chain(message.function_call.map(Function::part)).collect();
    // A refusal is what the model answers.
    let prose = match (message.content.0, message.refusal.0) {
        (content, refusal) if refusal.is_empty() => content,
        (content, refusal) if content.is_empty() => refusal,
        (content, refusal) => Cow::Owned(content.into_owned() + &refusal),
    };
    Some(Piece { prose, calls, reasoning: reasoning.unwrap_or_default() })
}
