//! OpenAI responses.
//!
//! A stream tells each text twice, piece by piece and then whole, and a last event tells the whole answer again. What came
//! piece by piece counts as it came; a whole that adds nothing is no content, so that neither tokens nor the end of the
//! answer are counted where the server only repeats itself. A server that sends nothing but the whole is read as well.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::body::{Field, Fields};
use super::chunk::{CallPart, Piece, Text};
use super::event::{Said, filled, part};
use super::message::{Content, Form, Message, MessageList, write_json};
use super::{Answer, Request, SaidCall};

/// The API's own fields of a request.
pub(super) fn fields<'a>(request: &Request<'a>, streaming: bool) -> Fields<'a> {
    let turn = request.turn;
    let mut fields = vec![
        ("input", Field::Messages(MessageList { request: *request, form: Form::Responses })),
        ("model", Field::Text(&turn.model)),
        ("stream", Field::Flag(streaming)),
    ];
    if let Some(system) = request.system.filter(|t| !t.is_empty()) {
        fields.push(("instructions", Field::Text(system)));
    }
    if let Some(limit) = turn.max_tokens {
        fields.push(("max_output_tokens", Field::Count(limit)));
    }
    Fields::new(fields)
}

/// The items of `answer` in a later request: its prose, and each tool call; an answer without either has none. Ids and states of the server's own items stay
/// out, for nothing is stored there that they could name.
pub(super) fn reply(answer: &Answer, out: &mut Vec<u8>) -> bool {
    let prose = answer.prose();
    if !prose.is_empty() {
        Message { role: "assistant", content: Content::Plain(&prose) }.write(Form::Responses, out);
    }
    // Each call is an item of its own.
    for (place, call) in answer.said_calls().enumerate() {
        if place > 0 || !prose.is_empty() {
            out.push(b',');
        }
        let SaidCall { id, name, arguments } = call;
        let item = json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments});
        write_json(&item, out);
    }
    !prose.is_empty() || !answer.calls.is_empty()
}

/// Where the fields of these names end that stand one after the other in `body` from `at` on; `None` if they do not.
pub(super) fn behind(body: &[u8], mut at: usize, fields: &[&str]) -> Option<usize> {
    for name in fields {
        let rest = body.get(at..)?;
        let value = rest.strip_prefix(b",\"")?.strip_prefix(name.as_bytes())?.strip_prefix(b"\":")?;
        let mut values = serde_json::Deserializer::from_slice(value).into_iter::<serde::de::IgnoredAny>();
        values.next()?.ok()?;
        at += rest.len() - value.len() + values.byte_offset();
    }
    Some(at)
}

/// What carries text in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Carrier {
    Text,
    Refusal,
    Reasoning,
    Summary,
    Call,
}

impl Carrier {
    /// By an event's type: the carrier, and whether the event has its whole text.
    fn of(event: &str) -> Option<(Self, bool)> {
        let (what, step) = event.strip_prefix("response.")?.rsplit_once('.')?;
        let carrier = match what {
            "output_text" => Self::Text,
            "refusal" => Self::Refusal,
            "reasoning_text" => Self::Reasoning,
            "reasoning_summary_text" => Self::Summary,
            "function_call_arguments" | "custom_tool_call_input" => Self::Call,
            _ => return None,
        };
        match step {
            "delta" => Some((carrier, false)),
            "done" => Some((carrier, true)),
            _ => None,
        }
    }

    /// What tells the same thoughts in other words: of both only the first to come is content.
    const fn rival(self) -> Option<Self> {
        match self {
            Self::Reasoning => Some(Self::Summary),
            Self::Summary => Some(Self::Reasoning),
            Self::Text | Self::Refusal | Self::Call => None,
        }
    }
}

/// Which parts of the output have been read: carrier, item, part of the item.
#[derive(Debug, Default)]
pub(super) struct Parts(BTreeSet<(Carrier, i64, i64)>);

impl Parts {
    fn has_any(&self, carrier: Carrier, item: i64) -> bool {
        self.0.range((carrier, item, i64::MIN)..=(carrier, item, i64::MAX)).next().is_some()
    }
}

/// An event of a stream; of a whole answer, what tells that it is one.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    object: Text<'a>,
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    delta: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow, default)]
    arguments: Text<'a>,
    #[serde(borrow, default)]
    input: Text<'a>,
    #[serde(borrow, default)]
    output_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The answer as an object.
#[derive(Debug, Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_text: Text<'a>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
}

/// An item of the output, or a part of one.
#[derive(Debug, Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    call_id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Text<'a>,
    #[serde(borrow, default)]
    input: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
}

impl Item<'_> {
    fn is_call(&self) -> bool {
        matches!(&*self.kind.0, "function_call" | "custom_tool_call")
    }
}

impl Event<'_> {
    /// Whether it says itself what it is.
    pub(super) fn is_typed(&self) -> bool {
        !self.kind.0.is_empty()
    }
}

/// What `json`, read as `event`, says. `name` is the name of the server-sent event, `silent` that nothing was said before.
pub(super) fn said<'a>(
    json: &'a str,
    event: Event<'a>,
    name: Option<&str>,
    parts: &mut Parts,
    silent: bool,
) -> Said<'a> {
    if event.object.0 == "response" {
        return serde_json::from_str(json).map_or_else(|_| Said::default(), |whole| whole_said(whole, true));
    }
    if let Some(error) = part::<Value>(event.error).filter(super::error::says_something) {
        return Said { error: Some(error), ..Said::default() };
    }
    let kind = if event.kind.0.is_empty() { name.unwrap_or("") } else { &*event.kind.0 };
    if let Some((carrier, is_whole)) = Carrier::of(kind) {
        return Said { piece: carried(carrier, is_whole, event, parts), once: is_whole, ..Said::default() };
    }
    match kind {
        "error" | "response.error" => Said { error: serde_json::from_str(json).ok(), ..Said::default() },
        "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            let whole = part::<Whole<'_>>(event.response);
            let mut said = whole.map(|whole| whole_said(whole, silent)).unwrap_or_default();
            if kind == "response.failed" && said.error.is_none() {
                said.error = Some(Value::from("the server says that the response failed, and not why"));
            }
            Said { ends: true, ..said }
        }
        "response.output_item.added" => {
            let index = Some(number(event.output_index).unwrap_or(0));
            let call = part::<Item<'_>>(event.item).filter(Item::is_call);
            let call = call.filter(|c| !c.name.0.is_empty());
            call.map_or_else(Said::default, |c| {
                Said::piece(Piece::call(CallPart { index, name: c.name.0, ..CallPart::default() }))
            })
        }
        // What else there is frames the texts, or names the model once more.
        _ if kind.starts_with("response.") => {
            let whole = part::<Whole<'_>>(event.response);
            let (model, id) = whole.map_or((None, None), |w| (filled(w.model.0), filled(w.id.0)));
            Said { model, id, ..Said::default() }
        }
        "keepalive" | "ping" => Said::default(),
        _ => Said::foreign(if kind.is_empty() { &event.object.0 } else { kind }),
    }
}

/// The text of an event, unless it was read before.
fn carried<'a>(carrier: Carrier, is_whole: bool, event: Event<'a>, parts: &mut Parts) -> Option<Piece<'a>> {
    let item = number(event.output_index).unwrap_or(0);
    let place = match carrier {
        Carrier::Text | Carrier::Refusal | Carrier::Reasoning => number(event.content_index).unwrap_or(0),
        Carrier::Summary => number(event.summary_index).unwrap_or(0),
        Carrier::Call => 0,
    };
    let text = filled(match (is_whole, carrier) {
        (false, _) => event.delta.0,
        (true, Carrier::Refusal) => event.refusal.0,
        (true, Carrier::Call) if event.arguments.0.is_empty() => event.input.0,
        (true, Carrier::Call) => event.arguments.0,
        (true, _) => event.text.0,
    })?;
    if carrier.rival().is_some_and(|rival| parts.has_any(rival, item)) {
        return None;
    }
    let is_new = parts.0.insert((carrier, item, place));
    if is_whole && !is_new {
        return None;
    }
    Some(match carrier {
        Carrier::Text | Carrier::Refusal => Piece::prose(text),
        Carrier::Reasoning | Carrier::Summary => Piece::reasoning(text),
        Carrier::Call => Piece::call(CallPart { index: Some(item), arguments: text, ..CallPart::default() }),
    })
}

fn number(raw: Option<&RawValue>) -> Option<i64> {
    raw?.get().parse().ok()
}

/// What the answer as an object says; its texts only with `texts`. An answer that stopped at a limit is an answer.
fn whole_said(whole: Whole<'_>, texts: bool) -> Said<'_> {
    #[derive(Deserialize)]
    struct Details<'a> {
        #[serde(borrow, default)]
        reason: Text<'a>,
    }
    let error = part::<Value>(whole.error).filter(super::error::says_something);
    let error = error.or_else(|| {
        let status = &*whole.status.0;
        matches!(status, "failed" | "cancelled")
            .then(|| Value::from(format!("the server says that the response is {status}, and not why")))
    });
    let reason = part::<Details<'_>>(whole.incomplete_details).and_then(|d| filled(d.reason.0));
    Said {
        piece: if texts { content(part(whole.output), whole.output_text.0) } else { None },
        usage: part(whole.usage),
        model: filled(whole.model.0),
        id: filled(whole.id.0),
        finish_reason: reason.or_else(|| filled(whole.status.0)),
        error,
        ends: true,
        ..Said::default()
    }
}

/// All texts of an answer's output; the convenience field only where the output has none.
fn content<'a>(output: Option<Vec<&'a RawValue>>, output_text: Cow<'a, str>) -> Option<Piece<'a>> {
    let mut piece = Piece::default();
    for item in output.into_iter().flatten().filter_map(|raw| part::<Item<'_>>(Some(raw))) {
        match &*item.kind.0 {
            "message" => {
                for part in items(item.content) {
                    match &*part.kind.0 {
                        "output_text" => piece.prose += part.text.0,
                        "refusal" => piece.prose += part.refusal.0,
                        _ => {}
                    }
                }
            }
            "reasoning" => {
                let thoughts = items(item.content).filter(|p| p.kind.0 == "reasoning_text");
                let before = piece.reasoning.len();
                thoughts.for_each(|p| piece.reasoning += p.text.0);
                if piece.reasoning.len() == before {
                    items(item.summary).for_each(|p| piece.reasoning += p.text.0);
                }
            }
            _ if item.is_call() => piece.calls.push(CallPart {
                id: item.call_id.0,
                name: item.name.0,
                arguments: item.arguments.0 + item.input.0,
                is_whole: true,
                ..CallPart::default()
            }),
            _ => {}
        }
    }
    if piece.is_silent() {
        piece = Piece::prose(output_text);
    }
    (!piece.is_silent()).then_some(piece)
}

fn items(raw: Option<&RawValue>) -> impl Iterator<Item = Item<'_>> {
    part::<Vec<&RawValue>>(raw).into_iter().flatten().filter_map(|raw| part(Some(raw)))
}
