//! Generation from a plain text: Hugging Face's text generation inference (TGI), SGLang's native API, and Solido's answers from
//! documents.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use aiperf_core::conversation::Turn;

use super::body::{Field, Fields, Sampling};
use super::chunk::{Piece, Text};
use super::error::{says_something, typed};
use super::event::{Said, filled, part};

/// TGI's own fields of a request. `extra` is laid over the parameters. Whether the answer is streamed is said by the path.
pub(super) fn tgi_fields<'a>(turn: &'a Turn, extra: &'a Map<String, Value>) -> Fields<'a> {
    Fields::new(vec![
        ("inputs", Field::Joined(turn)),
        ("parameters", Field::Sampling(Sampling { limit: turn.max_tokens, extra })),
    ])
}

/// SGLang's own fields of a request. `extra` is laid over the sampling parameters.
pub(super) fn sglang_fields<'a>(
    turn: &'a Turn,
    extra: &'a Map<String, Value>,
    streaming: bool,
) -> Fields<'a> {
    Fields::new(vec![
        ("text", Field::Joined(turn)),
        ("sampling_params", Field::Sampling(Sampling { limit: turn.max_tokens, extra })),
        ("stream", Field::Flag(streaming)),
    ])
}

/// Solido's own fields of a request: which documents are looked through is AIPerf's choice.
pub(super) fn solido_fields(turn: &Turn) -> Fields<'_> {
    Fields::new(vec![
        ("query", Field::Inputs(turn)),
        ("filters", Field::Fixed(&[("family", "Solido"), ("tool", "SDE")])),
        ("inference_model", Field::Text(&turn.model)),
    ])
}

/// An answer of TGI, or an event of its stream.
#[derive(Debug, Deserialize)]
pub(super) struct TgiEvent<'a> {
    #[serde(borrow, default)]
    token: Option<&'a RawValue>,
    #[serde(borrow, default)]
    generated_text: Text<'a>,
    #[serde(borrow, default)]
    details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error_type: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct Token<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    special: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Details<'a> {
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
    #[serde(borrow, default)]
    generated_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_length: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prefill: Option<&'a RawValue>,
}

/// What a TGI object says. Its last event tells the whole text again, which is no news when it was streamed: `silent` says
/// whether nothing was.
pub(super) fn tgi_said(event: TgiEvent<'_>, silent: bool) -> Said<'_> {
    if let Some(error) = part::<Value>(event.error).filter(says_something) {
        return Said { error: Some(typed(error, &event.error_type.0)), ..Said::default() };
    }
    let details = part::<Details<'_>>(event.details);
    let token = part::<Token<'_>>(event.token);
    let text = match token {
        // The end token is no part of what was said.
        Some(token) if token.special.is_some_and(|s| s.get() == "true") => None,
        Some(token) => filled(token.text.0),
        None => filled(event.generated_text.0).filter(|_| silent),
    };
    let usage = details.as_ref().map(tgi_usage).filter(|usage| !usage.is_empty());
    Said {
        piece: text.map(Piece::prose),
        ends: details.is_some(),
        finish_reason: details.and_then(|d| filled(d.finish_reason.0)),
        usage,
        ..Said::default()
    }
}

/// Its counts, under the names that usage has elsewhere.
fn tgi_usage(details: &Details<'_>) -> Map<String, Value> {
    let prefill = part::<Vec<&RawValue>>(details.prefill).filter(|list| !list.is_empty());
    let prompt = part::<u64>(details.input_length).or(prefill.map(|list| list.len() as u64));
    let generated = part::<u64>(details.generated_tokens);
    let counts = [("prompt_tokens", prompt), ("completion_tokens", generated)];
    counts.into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?.into()))).collect()
}

/// An answer of SGLang, or an event of its stream.
#[derive(Debug, Deserialize)]
pub(super) struct SglangEvent<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    meta_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct MetaInfo<'a> {
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    completion_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cached_tokens: Option<&'a RawValue>,
}

/// Why an answer ended.
#[derive(Debug, Deserialize)]
struct Ended<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
    #[serde(borrow, default)]
    status_code: Option<&'a RawValue>,
}

/// What an SGLang object says beside its text: which of several texts it belongs to, and that text.
pub(super) fn sglang_said(event: SglangEvent<'_>) -> (Said<'_>, i64, Text<'_>) {
    let index = part(event.index).unwrap_or(0);
    if let Some(error) = part::<Value>(event.error).filter(says_something) {
        return (Said { error: Some(error), ..Said::default() }, index, Text::default());
    }
    let Some(meta) = part::<MetaInfo<'_>>(event.meta_info) else {
        return (Said::default(), index, event.text);
    };
    let counts = [
        ("prompt_tokens", meta.prompt_tokens),
        ("completion_tokens", meta.completion_tokens),
        ("cached_tokens", meta.cached_tokens),
    ];
    let counts =
        counts.into_iter().filter_map(|(name, raw)| Some((name.to_owned(), part::<u64>(raw)?.into())));
    let usage = Some(counts.collect()).filter(|usage: &Map<String, Value>| !usage.is_empty());
    // An object with a type, or just a word.
    let word = part::<Text<'_>>(meta.finish_reason).and_then(|t| filled(t.0));
    let ended = part::<Ended<'_>>(meta.finish_reason);
    let error = ended.as_ref().filter(|e| e.kind.0 == "abort" && !e.message.0.is_empty()).map(
        |e| json!({"message": e.message.0, "code": part::<Value>(e.status_code).unwrap_or(Value::Null)}),
    );
    let finish_reason = word.or_else(|| filled(ended?.kind.0));
    (Said { usage, finish_reason, error, ..Said::default() }, index, event.text)
}

/// Solido's answer, or an event of its stream. Its sources are no text that was generated.
#[derive(Debug, Deserialize)]
pub(super) struct SolidoEvent<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// What it says.
pub(super) fn solido_said(event: SolidoEvent<'_>) -> Said<'_> {
    if let Some(error) = part::<Value>(event.error).filter(says_something) {
        return Said { error: Some(error), ..Said::default() };
    }
    Said { piece: filled(event.content.0).map(Piece::prose), usage: part(event.usage), ..Said::default() }
}
