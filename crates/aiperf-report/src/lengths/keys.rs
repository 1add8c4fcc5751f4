//! The object `input_lengths` of the summary files, and its schemas.

use aiperf_metrics::{Agreement, LengthDifference};
use serde_json::{Map, Value, json};

use super::{InputLengths, ServerCount, Verified};
use crate::write::{self, Object};

/// Keys that are there when what they tell is known.
const PARTS: [&str; 6] =
    ["asked_sent", "sent_counted", "later_sent_counted", "difference", "server_count", "verified"];

/// For schema 1: what is absent has no key.
pub(crate) fn write(out: &mut Vec<u8>, lengths: &InputLengths<'_>) {
    object(out, lengths, false);
}

/// For schema 2: what is absent is null.
pub(crate) fn write_2(out: &mut Vec<u8>, lengths: &InputLengths<'_>) {
    object(out, lengths, true);
}

fn object(out: &mut Vec<u8>, lengths: &InputLengths<'_>, nulls: bool) {
    let s = &lengths.summary;
    let mut o = Object::begin(out);
    for key in PARTS {
        let mut part = Vec::new();
        match key {
            "asked_sent" => s.asked_sent.iter().for_each(|a| agreement(&mut part, a)),
            "sent_counted" => s.sent_counted.iter().for_each(|a| agreement(&mut part, a)),
            "later_sent_counted" => s.later.iter().for_each(|a| agreement(&mut part, a)),
            "difference" => s.difference.iter().for_each(|d| difference(&mut part, *d, nulls)),
            "server_count" => lengths.server_count.iter().for_each(|c| server_count(&mut part, c, nulls)),
            _ => lengths.verified.iter().for_each(|v| verified(&mut part, v)),
        }
        if !part.is_empty() {
            o.key(key).extend_from_slice(&part);
        } else if nulls {
            o.null(key);
        }
    }
    let words: Vec<String> = lengths.agreement().into_iter().chain(lengths.findings()).collect();
    list(o.key("words"), &words, |out, line| write::text(out, line));
    o.end();
}

fn agreement(out: &mut Vec<u8>, a: &Agreement) {
    let mut o = Object::begin(out);
    o.int("requests", a.requests);
    o.int("exact", a.exact);
    o.real("share_exact", a.exact as f64 / a.requests as f64);
    write::signed(o.key("min_error"), a.min_error);
    write::signed(o.key("max_error"), a.max_error);
    o.real("mean_error", a.mean_error);
    o.end();
}

fn difference(out: &mut Vec<u8>, difference: LengthDifference, nulls: bool) {
    let (kind, factor, tokens) = match difference {
        LengthDifference::None => ("none", None, None),
        LengthDifference::Constant { tokens } => ("constant", None, Some(tokens)),
        LengthDifference::Undecided { tokens, .. } => ("undecided", None, Some(tokens)),
        LengthDifference::Factor { factor, tokens } => ("factor", Some(factor), Some(tokens)),
        LengthDifference::Spread { .. } => ("spread", None, None),
    };
    let mut o = Object::begin(out);
    o.plain("kind", kind);
    match factor {
        Some(factor) => o.real("factor", factor),
        None if nulls => o.null("factor"),
        None => {}
    }
    match tokens {
        Some(tokens) => write::signed(o.key("tokens"), tokens),
        None if nulls => o.null("tokens"),
        None => {}
    }
    o.end();
}

fn server_count(out: &mut Vec<u8>, count: &ServerCount, nulls: bool) {
    let mut o = Object::begin(out);
    match count.asked {
        Some(asked) => o.int("asked", asked),
        None if nulls => o.null("asked"),
        None => {}
    }
    o.int("sent", count.sent);
    o.int("counted", count.counted);
    o.end();
}

fn verified(out: &mut Vec<u8>, v: &Verified) {
    let mut o = Object::begin(out);
    o.plain("mode", if v.all { "all" } else { "sample" });
    o.int("requests", v.requests);
    o.int("wrong", v.wrong);
    o.int("skipped", v.skipped);
    list(o.key("examples"), &v.examples, |out, e| {
        let mut o = Object::begin(out);
        o.text("conversation_id", &e.conversation_id);
        o.int("turn_index", e.turn_index.into());
        o.int("said", e.said);
        o.int("counted", e.counted);
        o.end();
    });
    o.end();
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut item: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (i, entry) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        item(out, entry);
    }
    out.push(b']');
}

/// Schema of what [`write`] writes.
pub(crate) fn schema() -> Value {
    closed(parts(false), &["words"])
}

/// Schema of what [`write_2`] writes.
pub(crate) fn schema_2() -> Value {
    let parts = parts(true);
    let keys: Vec<String> = parts.keys().cloned().collect();
    closed(parts, &keys.iter().map(String::as_str).collect::<Vec<_>>())
}

fn parts(nulls: bool) -> Map<String, Value> {
    let whole = || json!({"type": "integer"});
    let number = || json!({"type": "number"});
    let counted = || json!({"type": "integer", "minimum": 0});
    let or_null = |schema: Value| if nulls { json!({"anyOf": [schema, {"type": "null"}]}) } else { schema };
    let agreement = || {
        all_of([
            ("requests", counted()),
            ("exact", counted()),
            ("share_exact", number()),
            ("min_error", whole()),
            ("max_error", whole()),
            ("mean_error", number()),
        ])
    };
    let some_of = |keys: Vec<(&str, Value)>, required: &[&str]| {
        let always: Vec<&str> =
            if nulls { keys.iter().map(|(k, _)| *k).collect() } else { required.to_vec() };
        closed(keys.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(), &always)
    };
    let example = all_of([
        ("conversation_id", json!({"type": "string"})),
        ("turn_index", counted()),
        ("said", counted()),
        ("counted", counted()),
    ]);
    let verified = all_of([
        ("mode", json!({"type": "string"})),
        ("requests", counted()),
        ("wrong", counted()),
        ("skipped", counted()),
        ("examples", json!({"type": "array", "items": example})),
    ]);
    let difference = some_of(
        vec![
            ("kind", json!({"type": "string"})),
            ("factor", or_null(number())),
            ("tokens", or_null(whole())),
        ],
        &["kind"],
    );
    let server_count = some_of(
        vec![("asked", or_null(counted())), ("sent", counted()), ("counted", counted())],
        &["sent", "counted"],
    );
    let mut parts: Map<String, Value> = PARTS
        .into_iter()
        .zip([agreement(), agreement(), agreement(), difference, server_count, verified])
        .map(|(key, part)| (key.to_owned(), or_null(part)))
        .collect();
    parts.insert("words".to_owned(), json!({"type": "array", "items": {"type": "string"}}));
    parts
}

fn all_of<const N: usize>(keys: [(&str, Value); N]) -> Value {
    let required = keys.each_ref().map(|(key, _)| *key);
    closed(keys.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(), &required)
}

fn closed(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "required": required, "additionalProperties": false});
    schema["properties"] = Value::Object(properties);
    schema
}
