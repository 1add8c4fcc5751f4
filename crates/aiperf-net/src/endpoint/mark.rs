//! Cache-bust markers in bodies that are not made of a workload's texts: fields of the user's have replaced the messages, or the
//! system text beside them.
//!
//! A marker is one insertion at one place, which is found in the body's own bytes; all else stays as it was written, images
//! and numbers included. A system marker belongs on the first of these that is there: the system text in a field of its own,
//! a system message at the head of the list, the first user message. A first-turn marker belongs on the last of them.
//!
//! A text becomes longer; a list of parts gets a part of its own at its edge, so that what a part next to it says about itself
//! (where a cache is to end, for example) stays with the bytes it was said of. What is marked already stays as it is.

use std::collections::BTreeMap;

use aiperf_core::conversation::Marker;
use aiperf_core::plan::EndpointKind;
use serde_json::value::RawValue;

/// Bytes to be inserted into a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Insertion {
    /// Where in the body.
    pub(super) at: usize,
    pub(super) bytes: Vec<u8>,
}

/// Why a body has no place for a marker.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoPlace {
    /// The field of the body that is at fault.
    pub(super) field: &'static str,
    /// What is wrong with it, as the end of a sentence whose subject it is.
    pub(super) problem: String,
}

/// What `marker` adds to `body`, a request of the API `kind`; `None` when it is there already, and for an API without messages.
pub(super) fn insertion(
    kind: EndpointKind,
    body: &str,
    marker: &Marker,
) -> Result<Option<Insertion>, NoPlace> {
    let Some(messages) = kind.messages_field() else { return Ok(None) };
    let fields: Object<'_> = serde_json::from_str(body).unwrap_or_default();
    if marker.target.wants_system()
        && let Some(field) = kind.system_field()
        && let Some(system) = fields.get(field).filter(|raw| !is_empty(raw))
    {
        return edge(kind, body, system, marker).map_err(|found| NoPlace {
            field,
            problem: format!("is {found}, neither a text nor a list of parts"),
        });
    }
    let no_place = |problem: String| NoPlace { field: messages, problem };
    let list = fields.get(messages).copied();
    // The responses API takes a user's text for a list of one message.
    if let Some(text) = list.filter(|raw| kind == EndpointKind::Responses && is_string(raw)) {
        return Ok(in_text(body, text, marker));
    }
    let Some(items) = list.and_then(items) else {
        let found = list.map_or("missing", kind_of);
        return Err(no_place(format!("is {found}, not a list of messages")));
    };
    let items = items.into_iter().map(object);
    let with_role = |roles: &'static [&str]| move |item: &Object<'_>| roles.contains(&role(item).as_str());
    let head = items.clone().next().filter(|_| marker.target.wants_system());
    let (which, item) = match head.filter(with_role(&["system", "developer"])) {
        Some(system) => ("system", system),
        None => match items.clone().find(with_role(&["user"])) {
            Some(user) => ("first user", user),
            None => return Err(no_place("has no user message".to_owned())),
        },
    };
    let Some(content) = item.get("content") else {
        return Err(no_place(format!("has a {which} message without content")));
    };
    edge(kind, body, content, marker).map_err(|found| {
        no_place(format!(
            "has a {which} message whose content is {found}, neither a text nor a list of parts"
        ))
    })
}

/// A JSON object, its values as they are written. Of a key given twice the last counts, as for nearly every server.
type Object<'a> = BTreeMap<String, &'a RawValue>;

fn object(raw: &RawValue) -> Object<'_> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn items(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

fn string(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn role(item: &Object<'_>) -> String {
    item.get("role").and_then(|raw| string(raw)).unwrap_or_default()
}

fn is_string(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// Says nothing: no system text, whatever the form.
fn is_empty(raw: &RawValue) -> bool {
    matches!(raw.get(), "null" | r#""""#) || items(raw).is_some_and(|parts| parts.is_empty())
}

/// What a value is, for messages.
fn kind_of(raw: &RawValue) -> &'static str {
    match raw.get().as_bytes().first() {
        Some(b'"') => "a text",
        Some(b'[') => "a list",
        Some(b'{') => "an object",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The insertion at the marker's edge of a content; `Err` says what the content is that has no edge.
fn edge(
    kind: EndpointKind,
    body: &str,
    content: &RawValue,
    marker: &Marker,
) -> Result<Option<Insertion>, &'static str> {
    if is_string(content) {
        return Ok(in_text(body, content, marker));
    }
    let parts = items(content).ok_or_else(|| kind_of(content))?;
    // The texts of a turn become parts with the marker on the first text, which need not be at the edge.
    let edge = if marker.target.is_suffix() { parts.last() } else { parts.first() };
    let edge = edge.and_then(|part| text_of(part));
    let first = parts.iter().find_map(|part| text_of(part));
    if [edge, first].iter().flatten().any(|text| marker.is_on(text)) {
        return Ok(None);
    }
    let tag = if kind == EndpointKind::Responses { "input_text" } else { "text" };
    let part = format!(r#"{{"type":"{tag}","text":{}}}"#, quoted(marker.bare()));
    let bytes = match (parts.is_empty(), marker.target.is_suffix()) {
        (true, _) => part,
        (false, true) => format!(",{part}"),
        (false, false) => format!("{part},"),
    };
    Ok(Some(Insertion { at: inside(body, content, marker), bytes: bytes.into_bytes() }))
}

fn in_text(body: &str, raw: &RawValue, marker: &Marker) -> Option<Insertion> {
    if string(raw).is_some_and(|text| marker.is_on(&text)) {
        return None;
    }
    let quoted = quoted(&marker.text);
    let letters = &quoted.as_bytes()[1..quoted.len() - 1];
    Some(Insertion { at: inside(body, raw, marker), bytes: letters.to_vec() })
}

/// The text of a part of a content.
fn text_of(part: &RawValue) -> Option<String> {
    string(part).or_else(|| string(object(part).get("text")?))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The marker's edge of a string or list of `body`: between its first byte and what follows, or before its last byte.
fn inside(body: &str, raw: &RawValue, marker: &Marker) -> usize {
    let start = raw.get().as_ptr().addr() - body.as_ptr().addr();
    if marker.target.is_suffix() { start + raw.get().len() - 1 } else { start + 1 }
}
