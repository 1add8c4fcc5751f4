//! What the APIs whose streams are events of named types have in common: one object of an answer, understood.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::chunk::Piece;

/// What one object of an answer says. Made by the reader of an API, taken up by [`answer`](super::answer).
#[derive(Debug, Default)]
pub(super) struct Said<'a> {
    pub(super) piece: Option<Piece<'a>>,
    /// Counts, which replace earlier ones of the same names.
    pub(super) usage: Option<Map<String, Value>>,
    pub(super) model: Option<Cow<'a, str>>,
    pub(super) finish_reason: Option<Cow<'a, str>>,
    /// The error that it tells of or is.
    pub(super) error: Option<Value>,
    /// It is the last of its stream, or a whole answer.
    pub(super) ends: bool,
    /// It is no object of this API; what it calls itself.
    pub(super) foreign: Option<String>,
    /// Its texts are no news if they come again.
    pub(super) once: bool,
    /// There is content, and no text: vectors or scores.
    pub(super) bare: bool,
    /// The server's name for the answer as it keeps it.
    pub(super) id: Option<Cow<'a, str>>,
}

impl<'a> Said<'a> {
    pub(super) fn piece(piece: Piece<'a>) -> Self {
        Self { piece: Some(piece), ..Self::default() }
    }

    pub(super) fn foreign(name: &str) -> Self {
        Self { foreign: Some(name.chars().take(80).collect()), ..Self::default() }
    }

    /// Whether there is nothing in it but, perhaps, texts, and the like of it says as much.
    pub(super) fn is_plain(&self) -> bool {
        let Self { piece: _, usage, model, finish_reason, error, ends, foreign, once, bare, id } = self;
        usage.is_none()
            && id.is_none()
            && model.is_none()
            && finish_reason.is_none()
            && error.is_none()
            && foreign.is_none()
            && !ends
            && !once
            && !bare
    }
}

/// A part of an object, if it has the shape that is looked for: an oddity in one part must not cost the rest.
pub(super) fn part<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// A text that is there.
pub(super) fn filled(text: Cow<'_, str>) -> Option<Cow<'_, str>> {
    (!text.is_empty()).then_some(text)
}
