//! One turn of a file of prompts as a JSON object: a row of `single_turn`, a part of one of `multi_turn`.
//!
//! `null` is absence everywhere, and so are an empty `text` and an empty `texts`; of `timestamp` and `delay` only one may be above
//! zero, as in AIPerf.

use std::borrow::Cow;

use aiperf_core::conversation::{Media, TextGroup, TurnHeaders};
use aiperf_core::headers::{is_own_name, is_value};
use aiperf_core::text::{for_terminal, nearest, without_place};
use aiperf_trace::{is_endless_delay, with_named_delays};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::media::Given;
use super::mooncake::Made;
use crate::error::RowProblem;

/// Milliseconds to nanoseconds.
const NS_PER_MS: f64 = 1e6;
/// Seconds to nanoseconds.
const NS_PER_S: f64 = 1e9;
/// Most characters of a value repeated in a message.
const SHOWN: usize = 40;

/// What a row asks for.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Row {
    /// All texts, in order; at least one where nothing stands in their place or beside them.
    pub(crate) texts: Vec<String>,
    /// Images, audio and video as the row says them: files are not read yet.
    pub(crate) media: Vec<Media>,
    /// Their names, where any has one.
    pub(crate) groups: Vec<TextGroup>,
    pub(crate) role: Option<String>,
    /// Rows of one session are sent in order.
    pub(crate) session_id: Option<String>,
    /// Output limit, tokens; at least 1.
    pub(crate) output_length: Option<u64>,
    /// Merged into the request body.
    pub(crate) extra: Map<String, Value>,
    /// Headers of its request alone.
    pub(crate) headers: TurnHeaders,
    /// When to be sent, nanoseconds; 0 is a moment like any other.
    pub(crate) at_ns: Option<u64>,
    /// Think time, nanoseconds.
    pub(crate) delay_ns: Option<u64>,
    /// A think time that is no number or never ends; it counts as none.
    pub(crate) endless_delay: bool,
    /// How long the recorded answer took, nanoseconds.
    pub(crate) latency_ns: Option<u64>,
    /// Keys that mean nothing here, as AIPerf ignores them.
    pub(crate) unknown: Vec<String>,
    /// What was said before it is forgotten.
    pub(super) resets: bool,
    /// The length that a text is made to, in the place of texts.
    pub(super) made: Option<Made>,
    /// The whole body, in the place of texts.
    pub(super) payload: Option<Vec<u8>>,
}

/// A problem and the byte of the line (from 1) where it is, if one is to blame.
pub(crate) type Placed = (Option<usize>, RowProblem);

impl Row {
    /// Reads a line without its line end.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Placed> {
        Self::from_value(read(line)?).map_err(|problem| (None, problem))
    }

    pub(super) fn from_value(value: Value) -> Result<Self, RowProblem> {
        let Value::Object(map) = value else {
            return Err(RowProblem::NotAnObject { found: shown(&value) });
        };
        let mut row = Self::default();
        let mut text = None;
        let mut texts = Vec::new();
        let mut media = Given::default();
        for (key, value) in map {
            if value.is_null() {
                continue;
            }
            let Some(value) = media.take(&key, value)? else { continue };
            match key.as_str() {
                "text" => text = Some(string("text", value)?).filter(|t| !t.is_empty()),
                "texts" => (texts, row.groups) = contents(value, &mut row.unknown)?,
                "role" => row.role = Some(string("role", value)?),
                "session_id" => row.session_id = Some(string("session_id", value)?).filter(|s| !s.is_empty()),
                "output_length" => row.output_length = Some(length("output_length", &value)?),
                "timestamp" => row.at_ns = Some(time("timestamp", &value)?),
                "delay" => (row.delay_ns, row.endless_delay) = pause(&value)?,
                "duration_e2e_ms" => row.latency_ns = Some(time("duration_e2e_ms", &value)?),
                "reset_context" => match value {
                    Value::Bool(resets) => row.resets = resets,
                    other => return Err(wrong("reset_context", "true or false", &other)),
                },
                "extra" => match value {
                    Value::Object(extra) => row.extra = extra,
                    other => return Err(wrong("extra", "an object", &other)),
                },
                "headers" => row.headers = headers(value)?,
                "type" if value == "single_turn" => {}
                "type" => return Err(wrong("type", "\"single_turn\"", &value)),
                _ => row.unknown.push(key),
            }
        }
        if row.at_ns.is_some_and(|t| t > 0) && row.delay_ns.is_some_and(|d| d > 0) {
            return Err(RowProblem::BothTimes);
        }
        row.media = media.finish()?;
        row.texts = match (text, texts.is_empty()) {
            (Some(_), false) => return Err(RowProblem::Both { one: "text", several: "texts" }),
            (Some(text), true) => vec![text],
            (None, false) => texts,
            // Fields may bring whole messages.
            (None, true) if row.media.is_empty() && row.extra.is_empty() => {
                return Err(no_text(&row.unknown));
            }
            (None, true) => Vec::new(),
        };
        Ok(row)
    }
}

/// What kind of value something is, without what it says.
const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text with a line break or another control character",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Headers of a request: names with texts.
fn headers(value: Value) -> Result<TurnHeaders, RowProblem> {
    let Value::Object(map) = value else {
        // What stands there may be a key: no value is shown.
        let found = if value.is_string() { "a text" } else { kind_of(&value) };
        let wanted = "an object of names and texts";
        return Err(RowProblem::Field { field: "headers", wanted, found: found.to_owned() });
    };
    map.into_iter()
        .map(|(name, value)| {
            if !is_own_name(&name) {
                let wanted = "names of headers that a request may choose: not Host, Content-Length, Transfer-Encoding, TE or the ids";
                return Err(wrong("headers", wanted, &Value::String(name)));
            }
            match value {
                Value::String(text) if is_value(&text) => Ok((name, text)),
                other => {
                    let found = format!("'{}' with {}", for_terminal(&name, SHOWN), kind_of(&other));
                    Err(RowProblem::Field { field: "headers", wanted: "names with texts of one line", found })
                }
            }
        })
        .collect()
}

/// Keys of other forms, and what they hold there.
const ELSEWHERE: [(&str, &str, &str); 2] = [
    ("turns", "multi_turn", r#"a list of rows with texts: {"turns": [{"text": "…"}]}"#),
    ("data", "inputs_json", r#"a list of sessions: {"data": [{"session_id": "…", "payloads": [{…}]}]}"#),
];

/// Nothing to send in a row with these keys that mean nothing; the nearest right thing where they show one.
fn no_text(unknown: &[String]) -> RowProblem {
    let is_there = |key: &str| unknown.iter().any(|found| found == key);
    if let Some((key, form, what)) = ELSEWHERE.into_iter().find(|(key, ..)| is_there(key)) {
        return RowProblem::NoTextBut {
            hint: format!("'{key}' is a key of {form} (--custom-dataset-type), where it is {what}"),
        };
    }
    let near =
        |key: &'_ String| nearest(key, ["text", "texts"]).map(|meant| (for_terminal(key, SHOWN), meant));
    match unknown.iter().find_map(near) {
        Some((key, meant)) => {
            RowProblem::NoTextBut { hint: format!("'{key}' is there, and '{meant}' may be meant") }
        }
        None => RowProblem::NoText,
    }
}

/// A line as JSON. Pauses that other tools write as `NaN`, `Infinity` or a number beyond all floats, which JSON does not have, are
/// texts of that name.
pub(super) fn read(line: &[u8]) -> Result<Value, Placed> {
    let line = std::str::from_utf8(line).map_err(|e| (Some(e.valid_up_to() + 1), RowProblem::NotUtf8))?;
    serde_json::from_str(line).or_else(|error| match with_named_delays(line) {
        Cow::Owned(named) => serde_json::from_str(&named).map_err(|_| broken(&error)),
        Cow::Borrowed(_) => Err(broken(&error)),
    })
}

/// A think time; one that is no number or never ends is none, which the second tells.
pub(super) fn pause(value: &Value) -> Result<(Option<u64>, bool), RowProblem> {
    if value.as_str().is_some_and(is_endless_delay) {
        return Ok((None, true));
    }
    time("delay", value).map(|ns| (Some(ns), false))
}

/// What the JSON parser says, without the line number it counts in this one line.
pub(crate) fn broken(error: &serde_json::Error) -> Placed {
    if error.is_eof() {
        return (Some(error.column()), RowProblem::Truncated);
    }
    (Some(error.column()), RowProblem::Json { reason: without_place(&error.to_string()).to_owned() })
}

/// Strings, or objects with a list of `contents` and perhaps a `name`; their texts in order, and the names of all if any has one.
/// Other keys of objects mean nothing.
fn contents(value: Value, unknown: &mut Vec<String>) -> Result<(Vec<String>, Vec<TextGroup>), RowProblem> {
    const NAME: &str = "a list whose objects have a text as their 'name'";
    const WANTED: &str = "a list of strings or of objects with a list of strings named 'contents'";
    let Value::Array(items) = value else {
        return Err(wrong("texts", WANTED, &value));
    };
    let mut texts = Vec::with_capacity(items.len());
    let mut groups = Vec::new();
    for item in items {
        let before = texts.len();
        let mut name = String::new();
        match item {
            Value::String(text) => texts.push(text),
            Value::Object(mut object) => match object.remove("contents") {
                Some(Value::Array(parts)) => {
                    for part in parts {
                        texts.push(match part {
                            Value::String(text) => text,
                            other => return Err(wrong("texts", WANTED, &other)),
                        });
                    }
                    match object.remove("name") {
                        None | Some(Value::Null) => {}
                        Some(Value::String(given)) => name = given,
                        Some(other) => return Err(wrong("texts", NAME, &other)),
                    }
                    unknown.extend(object.into_iter().map(|(key, _)| format!("texts[].{key}")));
                }
                Some(other) => return Err(wrong("texts", WANTED, &other)),
                None => return Err(wrong("texts", WANTED, &Value::Object(object))),
            },
            other => return Err(wrong("texts", WANTED, &other)),
        }
        groups.push(TextGroup { name, count: texts.len() - before });
    }
    if groups.iter().all(|group| group.name.is_empty()) {
        groups.clear();
    }
    Ok((texts, groups))
}

pub(super) fn string(field: &'static str, value: Value) -> Result<String, RowProblem> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(field, "a string", &other)),
    }
}

/// A count of tokens; 16.0 is 16.
pub(super) fn length(field: &'static str, value: &Value) -> Result<u64, RowProblem> {
    let whole = value
        .as_u64()
        .or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..9e15).contains(f)).map(|f| f as u64));
    whole.filter(|n| *n > 0).ok_or_else(|| wrong(field, "a whole number above 0", value))
}

/// A number of milliseconds as nanoseconds. Whole ones are exact, as wall times in milliseconds would not be as floats.
pub(super) fn time(field: &'static str, value: &Value) -> Result<u64, RowProblem> {
    let whole = value.as_u64().and_then(|ms| ms.checked_mul(NS_PER_MS as u64));
    // Nanoseconds end after 584 years.
    let part = || value.as_f64().filter(|ms| (0.0..u64::MAX as f64 / NS_PER_MS).contains(ms));
    // The fraction by itself, for a float holds no wall time in nanoseconds.
    let parts = |ms: f64| {
        (ms.trunc() as u64 * NS_PER_MS as u64).saturating_add((ms.fract() * NS_PER_MS).round() as u64)
    };
    whole
        .or_else(|| part().map(parts))
        .ok_or_else(|| wrong(field, "a number of milliseconds from 0 to 18446744073709", value))
}

/// A moment in ISO 8601 as nanoseconds since 1970; one that names no zone is UTC.
pub(super) fn moment_ns(text: &str) -> Option<u64> {
    let text = text.trim();
    let moment = text.parse::<Timestamp>().ok().or_else(|| {
        let civil = text.parse::<DateTime>().ok()?;
        TimeZone::UTC.to_timestamp(civil).ok()
    });
    u64::try_from(moment?.as_nanosecond()).ok()
}

/// A number of seconds as nanoseconds.
pub(super) fn seconds(field: &'static str, value: &Value) -> Result<u64, RowProblem> {
    value.as_f64().and_then(seconds_ns).ok_or_else(|| wrong(field, SECONDS, value))
}

/// What [`seconds_ns`] takes.
pub(super) const SECONDS: &str = "a number of seconds from 0 to 18446744073";

/// Nanoseconds, of seconds that can be told in them.
pub(super) fn seconds_ns(seconds: f64) -> Option<u64> {
    Some(seconds * NS_PER_S).filter(|ns| (0.0..u64::MAX as f64).contains(ns)).map(|ns| ns.round() as u64)
}

pub(super) fn wrong(field: &'static str, wanted: &'static str, found: &Value) -> RowProblem {
    RowProblem::Field { field, wanted, found: shown(found) }
}

/// A value as JSON, shortened.
pub(crate) fn shown(value: &Value) -> String {
    aiperf_core::text::for_terminal(&value.to_string(), SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Row, Placed> {
        Row::parse(line.as_bytes())
    }

    fn problem(line: &str) -> RowProblem {
        parse(line).expect_err("a bad row").1
    }

    #[test]
    fn all_text_fields_are_read() {
        let row = parse(
            r#"{"type":"single_turn","text":"Hi","role":"system","session_id":"s","output_length":16,
                "delay":1.5,"timestamp":0,"extra":{"top_k":3},"note":"x"}"#,
        )
        .expect("a good row");
        assert_eq!(row.texts, ["Hi"]);
        assert_eq!((row.role.as_deref(), row.session_id.as_deref()), (Some("system"), Some("s")));
        assert_eq!((row.output_length, row.delay_ns, row.at_ns), (Some(16), Some(1_500_000), Some(0)));
        assert_eq!((row.extra["top_k"].as_i64(), row.unknown), (Some(3), vec!["note".to_owned()]));
    }

    #[test]
    fn pauses_that_never_end_are_none() {
        for delay in ["NaN", "Infinity", "-Infinity", "1e999", "\"NaN\"", " NaN "] {
            let row = parse(&format!(r#"{{"text":"\"delay\": NaN, x","delay" :{delay},"role":"user"}}"#));
            let row = row.expect("a good row");
            assert_eq!((row.delay_ns, row.endless_delay), (None, true), "{delay}");
            assert_eq!(row.texts, ["\"delay\": NaN, x"]);
        }
        // Elsewhere they are what they are in JSON: broken.
        assert!(matches!(problem(r#"{"text":"a","timestamp":NaN}"#), RowProblem::Json { .. }));
        assert!(matches!(problem(r#"{"text":"a","delay":NaNs}"#), RowProblem::Json { .. }));
        assert!(matches!(
            problem(r#"{"text":"a","delay":"soon"}"#),
            RowProblem::Field { field: "delay", .. }
        ));
        assert_eq!(
            parse(r#"{"text":"a","duration_e2e_ms":2.5}"#).expect("a good row").latency_ns,
            Some(2_500_000)
        );
    }

    #[test]
    fn texts_come_as_strings_and_as_objects() {
        let row = parse(r#"{"texts":["a",{"name":"n","contents":["b","c"]},{"contents":[]}]}"#)
            .expect("a good row");
        assert_eq!(row.texts, ["a", "b", "c"]);
        let group = |name: &str, count| TextGroup { name: name.into(), count };
        assert_eq!(row.groups, [group("", 1), group("n", 2), group("", 0)]);
        let row = parse(r#"{"texts":["a",{"contents":["b"]},{"name":null,"contents":["c"],"lang":"x"}]}"#)
            .expect("a good row");
        assert_eq!((row.texts.len(), row.groups), (3, vec![]), "nothing has a name");
        assert_eq!(row.unknown, ["texts[].lang"]);
        let row = parse(r#"{"text":null,"texts":["a"],"images":[],"audio":null,"session_id":null}"#)
            .expect("nulls are absent");
        assert_eq!((row.texts, row.session_id), (vec!["a".to_owned()], None));
        let row = parse(r#"{"text":"","texts":["a"]}"#).expect("an empty text is none");
        assert_eq!(row.texts, ["a"]);
        assert_eq!(
            parse(r#"{"text":"a","output_length":8.0}"#).expect("a whole number").output_length,
            Some(8)
        );
    }

    #[test]
    fn bad_rows_name_the_field() {
        assert_eq!(
            problem(r#"{"text":"a","texts":["b"]}"#),
            RowProblem::Both { one: "text", several: "texts" }
        );
        assert_eq!(problem(r#"{"text":"a","timestamp":5,"delay":5}"#), RowProblem::BothTimes);
        for line in [r#"{"role":"user"}"#, r#"{"text":""}"#, r#"{"texts":[]}"#, "{}"] {
            assert_eq!(problem(line), RowProblem::NoText);
        }
        for (line, hint) in [
            (
                r#"{"turns":"x"}"#,
                "; 'turns' is a key of multi_turn (--custom-dataset-type), where it is a list of rows",
            ),
            (
                r#"{"data":[]}"#,
                "; 'data' is a key of inputs_json (--custom-dataset-type), where it is a list of sessions",
            ),
            (r#"{"Text":"a"}"#, "; 'Text' is there, and 'text' may be meant"),
        ] {
            let said = problem(line).to_string();
            assert!(said.starts_with("holds neither 'text' nor 'texts'") && said.contains(hint), "{said}");
        }
        for (line, field) in [
            (r#"{"text":1}"#, "text"),
            (r#"{"texts":"a"}"#, "texts"),
            (r#"{"texts":[1]}"#, "texts"),
            (r#"{"texts":[{"name":"a"}]}"#, "texts"),
            (r#"{"texts":[{"contents":"a"}]}"#, "texts"),
            (r#"{"texts":[{"contents":[2]}]}"#, "texts"),
            (r#"{"texts":[{"name":2,"contents":["a"]}]}"#, "texts"),
            (r#"{"text":"a","role":1}"#, "role"),
            (r#"{"text":"a","session_id":1}"#, "session_id"),
            (r#"{"text":"a","output_length":0}"#, "output_length"),
            (r#"{"text":"a","output_length":-1}"#, "output_length"),
            (r#"{"text":"a","output_length":1.5}"#, "output_length"),
            (r#"{"text":"a","output_length":"16"}"#, "output_length"),
            (r#"{"text":"a","delay":-1}"#, "delay"),
            (r#"{"text":"a","timestamp":"now"}"#, "timestamp"),
            (r#"{"text":"a","extra":[]}"#, "extra"),
            (r#"{"text":"a","type":"multi_turn"}"#, "type"),
        ] {
            assert!(matches!(problem(line), RowProblem::Field { field: f, .. } if f == field), "{line}");
        }
        assert_eq!(problem("[1]"), RowProblem::NotAnObject { found: "[1]".into() });
        let long =
            problem(&format!(r#"{{"text":"a","role":{{"k":"{}"}}}}"#, "\u{1b}x".repeat(90))).to_string();
        assert!(long.len() < 120 && !long.contains('\u{1b}'), "{long}");
    }

    #[test]
    fn broken_bytes_are_placed() {
        assert_eq!(parse(r#"{"text":"a","#).expect_err("cut off"), (Some(12), RowProblem::Truncated));
        let (column, problem) = parse(r#"{"text":"a" "role":"b"}"#).expect_err("a comma is missing");
        assert_eq!(column, Some(13));
        assert_eq!(problem, RowProblem::Json { reason: "expected `,` or `}`".into() });
        assert_eq!(
            Row::parse(b"{\"text\":\"\xff\"}").expect_err("not UTF-8"),
            (Some(10), RowProblem::NotUtf8)
        );
    }

    proptest! {
        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let read = Row::parse(&line);
            prop_assert!(read.is_err() || !read.as_ref().expect("checked").texts.is_empty() || !read.expect("checked").media.is_empty());
        }

        #[test]
        fn any_text_comes_back(text in ".+", role in ".*") {
            let row = parse(&serde_json::json!({"text": text, "role": role}).to_string()).expect("a good row");
            prop_assert_eq!((row.texts, row.role), (vec![text], Some(role)));
        }
    }
}
