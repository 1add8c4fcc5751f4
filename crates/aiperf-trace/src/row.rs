//! A row of a trace, read leniently: what is wrong with it is told beside what could be read of it.

use std::borrow::Cow;

use aiperf_core::text::{edit_distance, for_terminal, nearest, without_place};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::delays::{self, is_endless_delay, with_named_delays};
use crate::findings::Kind;

/// Most tokens of a request that a replay takes.
pub const MOST_TOKENS: u64 = 1 << 27;
/// Longest time that a replay takes, milliseconds.
pub(crate) const MOST_MS: f64 = 18_446_744_073_709.0;
/// More tokens than any model that is served takes.
const HUGE: u64 = 1 << 21;
/// Most characters of a value in a message.
const SHOWN: usize = 40;
/// Keys of a row.
const KEYS: [&str; 13] = [
    "input_length",
    "text_input",
    "messages",
    "payload",
    "output_length",
    "hash_ids",
    "timestamp",
    "delay",
    "duration_e2e_ms",
    "session_id",
    "tools",
    "extra",
    "type",
];
/// Which of them are numbers and texts, or lists of numbers: what is wrong with one shows when it is read.
const IS_PLAIN: [bool; 13] =
    [true, true, false, false, true, true, true, true, true, true, false, false, true];
/// Keys that those who make traces write beside them; a replay needs none of them.
const BESIDE: [&str; 2] = ["group_id", "is_restart"];
/// How many of them say what is sent.
const SOURCES: usize = 4;

/// What a row says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// Tokens of the prompt.
    pub input: Option<u64>,
    /// Tokens of the answer.
    pub output: Option<u64>,
    /// Ids of the prompt's blocks, negative ones as their 64 bits.
    pub ids: Vec<u64>,
    /// When to be sent, milliseconds.
    pub timestamp: Option<f64>,
    /// Time since the answer of the turn before, milliseconds; none where it is no number or never ends.
    pub delay: Option<f64>,
    /// The conversation that the row belongs to.
    pub session: Option<String>,
    /// The session was given as a number.
    pub is_numbered: bool,
    /// It holds a whole request: messages or a body.
    pub is_whole: bool,
    /// Its `input_length` is there, and no length.
    pub is_input_wrong: bool,
    /// The same of `output_length`.
    pub is_output_wrong: bool,
    /// What a replay would not take, or would take for something else.
    pub problems: Vec<Problem>,
    /// Keys that mean nothing.
    pub unknown: Vec<String>,
}

/// Something wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Of which kind it is.
    pub kind: Kind,
    /// What was found, in words.
    pub told: String,
}

impl Row {
    /// Reads a line; what was there before is forgotten. An error is why it is no JSON object.
    pub fn read(&mut self, line: &[u8]) -> Result<(), String> {
        self.clear();
        let text = std::str::from_utf8(line)
            .map_err(|e| format!("it is not UTF-8 from byte {} on", e.valid_up_to() + 1))?;
        let given = self.fields(text).or_else(|error| match with_named_delays(text) {
            Cow::Owned(named) => {
                self.clear();
                self.fields(&named).map_err(|_| error)
            }
            Cow::Borrowed(_) => Err(error),
        });
        let told = |e: serde_json::Error| {
            format!("column {}: {}", e.column(), for_terminal(without_place(&e.to_string()), 120))
        };
        let (given, is_readable) = given.map_err(told)?;
        if !is_readable {
            // As a replay reads it, which takes the whole row as values.
            let whole = |text: &str| serde_json::from_str::<Value>(text);
            whole(text)
                .or_else(|error| match with_named_delays(text) {
                    Cow::Owned(named) => whole(&named).map_err(|_| error),
                    Cow::Borrowed(_) => Err(error),
                })
                .map_err(told)?;
        }
        self.check(given);
        Ok(())
    }

    /// Reads the object; which keys were there, as [`Self::check`] takes them, and whether all that is looked at from outside here can
    /// be read: a number beyond all floats cannot.
    fn fields(&mut self, text: &str) -> Result<(u32, bool), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(text);
        let given = json.deserialize_any(Fields(self))?;
        json.end().map(|()| given)
    }

    fn clear(&mut self) {
        self.ids.clear();
        let ids = std::mem::take(&mut self.ids);
        *self = Self { ids, ..Self::default() };
    }

    fn tell(&mut self, kind: Kind, told: String) {
        self.problems.push(Problem { kind, told });
    }

    fn field(&mut self, at: usize, raw: &str) {
        let key = KEYS[at];
        let value = || serde_json::from_str::<Value>(raw).unwrap_or(Value::Null);
        let problem = match key {
            "input_length" | "output_length" => {
                let (into, is_wrong) = if key == "input_length" {
                    (&mut self.input, &mut self.is_input_wrong)
                } else {
                    (&mut self.output, &mut self.is_output_wrong)
                };
                *into = length(raw);
                *is_wrong = into.is_none();
                is_wrong.then_some("a whole number above 0")
            }
            "hash_ids" => match ids(raw, &mut self.ids) {
                Ok(true) => {
                    self.tell(Kind::NegativeIds, format!("hash_ids {}", shown(raw)));
                    None
                }
                Ok(false) => None,
                Err(()) => {
                    self.ids.clear();
                    Some("a list of whole numbers of up to 64 bits")
                }
            },
            "timestamp" | "delay" | "duration_e2e_ms" => match time(raw) {
                Some(ms) => {
                    match key {
                        "timestamp" => self.timestamp = Some(ms),
                        "delay" => self.delay = Some(ms),
                        _ => {}
                    }
                    None
                }
                None if key == "delay" && is_endless(raw) => None,
                None => Some("a number of milliseconds from 0 to 18446744073709"),
            },
            "session_id" => match value() {
                Value::String(name) => {
                    self.session = Some(name).filter(|name| !name.is_empty());
                    None
                }
                Value::Number(number) => {
                    self.session = Some(number.to_string());
                    self.is_numbered = true;
                    None
                }
                _ => Some("a string"),
            },
            "text_input" => (!raw.starts_with('"')).then_some("a string"),
            "payload" => {
                self.is_whole = true;
                let is_body = matches!(value(), Value::Object(body) if !body.is_empty());
                (!is_body).then_some("an object, the whole body")
            }
            "messages" => {
                self.is_whole = true;
                let has_role = |message: &Value| message.get("role").is_some_and(Value::is_string);
                let are_messages =
                    matches!(value(), Value::Array(list) if !list.is_empty() && list.iter().all(has_role));
                (!are_messages).then_some("a list of messages, each with its role")
            }
            "tools" => {
                let are_tools = matches!(value(), Value::Array(list) if !list.is_empty());
                (!are_tools).then_some("a list with a tool in it")
            }
            "extra" => (!raw.starts_with('{')).then_some("an object"),
            _ => (raw != "\"mooncake_trace\"").then_some("\"mooncake_trace\""),
        };
        if let Some(wanted) = problem {
            self.tell(Kind::WrongField, format!("'{key}' must be {wanted}, not {}", shown(raw)));
        }
    }

    /// What the row's fields are together; bit `i` of `given` is that `KEYS[i]` is there.
    fn check(&mut self, given: u32) {
        let has = |key: &str| KEYS.iter().position(|k| *k == key).is_some_and(|at| given >> at & 1 == 1);
        let sources: Vec<&str> = KEYS[..SOURCES].iter().copied().filter(|key| has(key)).collect();
        match sources[..] {
            [_] => {}
            [] => self.tell(
                Kind::NoSource,
                "none of 'input_length', 'text_input', 'messages' and 'payload' is there".to_owned(),
            ),
            _ => self.tell(Kind::SeveralSources, format!("'{}' are there", sources.join("', '"))),
        }
        for (field, with) in [("hash_ids", "input_length"), ("tools", "messages")] {
            if has(field) && !has(with) {
                self.tell(Kind::Apart, format!("'{field}' is there without '{with}', which it belongs to"));
            }
        }
        for (field, length) in [("input_length", self.input), ("output_length", self.output)] {
            match length {
                Some(0) => self.tell(Kind::ImpossibleLength, format!("'{field}' is 0")),
                Some(n) if n > MOST_TOKENS && field == "input_length" => {
                    self.tell(
                        Kind::ImpossibleLength,
                        format!("'{field}' is {n}, at most {MOST_TOKENS} are taken"),
                    );
                }
                Some(n) if n > HUGE => self.tell(Kind::HugeLength, format!("'{field}' is {n}")),
                _ => {}
            }
        }
        for key in std::mem::take(&mut self.unknown) {
            let name = key.to_lowercase();
            let free = KEYS.iter().copied().filter(|key| !has(key));
            // 'group_id' is no slip of 'session_id': only what is nearly the same is taken for a slip.
            let meant = nearest(&name, free).filter(|key| {
                let plain = |s: &str| s.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
                edit_distance(&plain(key), &plain(&name)) <= 1
            });
            if let Some(meant) = meant {
                let told = format!("'{}' is read over; '{meant}' may be meant", for_terminal(&key, SHOWN));
                self.tell(Kind::Misspelt, told);
            } else {
                self.unknown.push(key);
            }
        }
    }
}

/// Reads an object into the row; gives which keys were there, `null` being absence.
struct Fields<'r>(&'r mut Row);

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = (u32, bool);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut last, mut twice, mut is_readable) = ([None::<&'de RawValue>; KEYS.len()], None, true);
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            let raw: &'de RawValue = map.next_value()?;
            let at = KEYS.iter().position(|k| *k == key);
            is_readable &=
                at.is_some_and(|at| IS_PLAIN[at]) || serde_json::from_str::<Value>(raw.get()).is_ok();
            let Some(at) = at else {
                if !BESIDE.contains(&&*key) {
                    self.0.unknown.push(key.into_owned());
                }
                continue;
            };
            if last[at].replace(raw).is_some() {
                twice = Some(KEYS[at]);
            }
        }
        let mut given = 0;
        for (at, raw) in last.into_iter().enumerate() {
            if let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") {
                given |= 1 << at;
                self.0.field(at, raw);
            }
        }
        if let Some(key) = twice {
            self.0.tell(Kind::DoubleKey, format!("'{key}' is there more than once; the last one counts"));
        }
        Ok((given, is_readable))
    }
}

fn shown(raw: &str) -> String {
    for_terminal(raw, SHOWN)
}

/// A whole number, which may be written as a float.
fn length(raw: &str) -> Option<u64> {
    raw.parse().ok().or_else(|| {
        let number: f64 = serde_json::from_str(raw).ok()?;
        (number.fract() == 0.0 && (0.0..9e15).contains(&number)).then_some(number as u64)
    })
}

fn time(raw: &str) -> Option<f64> {
    let ms: f64 = serde_json::from_str(raw).ok()?;
    (0.0..=MOST_MS).contains(&ms).then_some(ms)
}

/// Whether a replay takes it for a delay which is none.
fn is_endless(raw: &str) -> bool {
    delays::name(raw).is_some()
        || serde_json::from_str::<String>(raw).is_ok_and(|text| is_endless_delay(&text))
}

/// Appends the numbers of a list; whether a negative one is among them.
fn ids(raw: &str, into: &mut Vec<u64>) -> Result<bool, ()> {
    into.clear();
    let inside = raw.strip_prefix('[').and_then(|raw| raw.strip_suffix(']')).ok_or(())?.trim();
    if inside.is_empty() {
        return Ok(false);
    }
    let mut is_negative = false;
    for number in inside.split(',') {
        let number = number.trim();
        if let Ok(id) = number.parse::<u64>() {
            into.push(id);
        } else if number == "-0" {
            // A replay reads it as a float.
            return Err(());
        } else {
            is_negative = true;
            into.push(number.parse::<i64>().map_err(|_| ())?.cast_unsigned());
        }
    }
    Ok(is_negative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(line: &str) -> Row {
        let mut row =
            Row { problems: vec![Problem { kind: Kind::Apart, told: "old".into() }], ..Row::default() };
        row.read(line.as_bytes()).expect("an object");
        row
    }

    fn told(line: &str) -> Vec<(Kind, String)> {
        read(line).problems.into_iter().map(|p| (p.kind, p.told)).collect()
    }

    #[test]
    fn a_good_row() {
        let row = read(
            r#" {"timestamp":1.5,"input_length":50.0,"output_length":4,"hash_ids":[ 46, 18446744073709551615 ,5],"session_id":7,"delay":null,"group_id":3,"mood":1}"#,
        );
        let wanted = Row {
            input: Some(50),
            output: Some(4),
            ids: vec![46, u64::MAX, 5],
            timestamp: Some(1.5),
            session: Some("7".into()),
            is_numbered: true,
            unknown: vec!["mood".into()],
            ..Row::default()
        };
        assert_eq!(row, wanted);
        assert_eq!(told(r#"{"messages":[{"role":"user","content":"a"}],"tools":[{}]}"#), []);
        assert!(read(r#"{"payload":{"a":1}}"#).is_whole);
        assert_eq!(told(r#"{"text_input":"a","type":"mooncake_trace","extra":{},"delay":0}"#), []);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, kind, words) in [
            ("{}", Kind::NoSource, "none of 'input_length', 'text_input', 'messages' and 'payload' is there"),
            (
                r#"{"text_input":"a","input_length":4}"#,
                Kind::SeveralSources,
                "'input_length', 'text_input' are there",
            ),
            (r#"{"input_length":0}"#, Kind::ImpossibleLength, "'input_length' is 0"),
            (
                r#"{"input_length":134217729}"#,
                Kind::ImpossibleLength,
                "'input_length' is 134217729, at most 134217728 are taken",
            ),
            (
                r#"{"input_length":1,"output_length":99999999999}"#,
                Kind::HugeLength,
                "'output_length' is 99999999999",
            ),
            (
                r#"{"input_length":-4}"#,
                Kind::WrongField,
                "'input_length' must be a whole number above 0, not -4",
            ),
            (
                r#"{"input_length":5,"hash_ids":[1.5]}"#,
                Kind::WrongField,
                "'hash_ids' must be a list of whole numbers of up to 64 bits, not [1.5]",
            ),
            (
                r#"{"input_length":5,"hash_ids":[ -0, 2]}"#,
                Kind::WrongField,
                "'hash_ids' must be a list of whole numbers of up to 64 bits, not [ -0, 2]",
            ),
            (r#"{"input_length":5,"hash_ids":[-3]}"#, Kind::NegativeIds, "hash_ids [-3]"),
            (
                r#"{"input_length":5,"timestamp":"soon"}"#,
                Kind::WrongField,
                "'timestamp' must be a number of milliseconds from 0 to 18446744073709, not \"soon\"",
            ),
            (
                r#"{"text_input":"a","hash_ids":[1]}"#,
                Kind::Apart,
                "'hash_ids' is there without 'input_length', which it belongs to",
            ),
            (
                r#"{"input_length":5,"input_length":6}"#,
                Kind::DoubleKey,
                "'input_length' is there more than once; the last one counts",
            ),
            (
                r#"{"input_length":5,"Output-Length":6}"#,
                Kind::Misspelt,
                "'Output-Length' is read over; 'output_length' may be meant",
            ),
            (
                r#"{"input_length":5,"hash_id":[6]}"#,
                Kind::Misspelt,
                "'hash_id' is read over; 'hash_ids' may be meant",
            ),
        ] {
            assert_eq!(told(line), [(kind, words.to_owned())], "{line}");
        }
        assert_eq!(told(r#"{"input_length":5,"group_id":3,"is_restart":true,"turn":1}"#), []);
    }

    #[test]
    fn what_a_replay_cannot_read_is_no_row() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for line in [
            r#"{"input_length":5,"extra":{"a":1e999}}"#,
            r#"{"input_length":5,"mood":-1e999}"#,
            r#"{"input_length":5,"mood":[1e999],"mood":1}"#,
            r#"{"payload":{"a":1e999}}"#,
            &format!("{{\"input_length\":5,\"mood\":{deep}}}"),
        ] {
            let read = Row::default().read(line.as_bytes());
            let why = read.expect_err("a replay does not take it");
            assert!(why.contains("number out of range") || why.contains("recursion limit"), "{why}");
        }
        assert_eq!(told(r#"{"input_length":5,"extra":{"delay":1e999},"mood":{"delay":NaN}}"#), []);
    }

    #[test]
    fn times_that_a_replay_takes() {
        for delay in ["NaN", "Infinity", "-Infinity", "1e999", "\"NaN\"", " NaN "] {
            let row = read(&format!(r#"{{"input_length":5,"hash_ids":[7],"delay" :{delay},"timestamp":2}}"#));
            let wanted = Row { input: Some(5), ids: vec![7], timestamp: Some(2.0), ..Row::default() };
            assert_eq!(row, wanted, "{delay}");
        }
        let mut row = Row::default();
        assert!(row.read(br#"{"input_length":5,"timestamp":NaN}"#).is_err());
        assert!(row.read(br#"{"input_length":5,"delay":NaN,"timestamp":NaN}"#).is_err());
        for (line, field) in [
            (r#"{"input_length":5,"delay":"soon"}"#, "'delay'"),
            (r#"{"input_length":5,"timestamp":"NaN"}"#, "'timestamp'"),
            (r#"{"input_length":5,"duration_e2e_ms":-1}"#, "'duration_e2e_ms'"),
        ] {
            let told = told(line);
            assert_eq!((told.len(), told[0].0), (1, Kind::WrongField), "{line}");
            assert!(told[0].1.starts_with(field), "{told:?}");
        }
        let row = read(r#"{"input_length":5,"duration_e2e_ms":120.5}"#);
        assert_eq!(row, Row { input: Some(5), ..Row::default() }, "it is no unknown key");
    }

    #[test]
    fn of_a_key_given_twice_the_last_counts() {
        let twice = |line: &str| {
            let mut row = read(line);
            let told: Vec<Kind> = row.problems.drain(..).map(|p| p.kind).collect();
            (row, told)
        };
        let (row, told) =
            twice(r#"{"input_length":"x","output_length":4,"input_length":6,"output_length":null}"#);
        assert_eq!((row, told), (Row { input: Some(6), ..Row::default() }, vec![Kind::DoubleKey]));
        let (row, told) =
            twice(r#"{"input_length":5,"hash_ids":[-1],"hash_ids":[2],"session_id":7,"session_id":"a"}"#);
        let wanted = Row { input: Some(5), ids: vec![2], session: Some("a".into()), ..Row::default() };
        assert_eq!((row, told), (wanted, vec![Kind::DoubleKey]));
        let (row, told) = twice(r#"{"input_length":5,"text_input":"a","input_length":null}"#);
        assert_eq!((row, told), (Row::default(), vec![Kind::DoubleKey]));
        let (_, told) = twice(r#"{"input_length":5,"payload":{"a":1},"input_length":null,"payload":null}"#);
        assert_eq!(told, [Kind::DoubleKey, Kind::NoSource]);
    }

    #[test]
    fn lines_that_are_no_object() {
        let mut row = Row::default();
        for (line, words) in [
            (&b"{\"a\":"[..], "column 5: EOF while parsing a value"),
            (b"[1]", "column 1: invalid type: sequence, expected a JSON object"),
            (b"{} x", "column 4: trailing characters"),
            (b"\xff", "it is not UTF-8 from byte 1 on"),
        ] {
            assert_eq!(row.read(line), Err(words.to_owned()));
        }
    }

    proptest! {
        /// What serde writes is read, whatever the order of keys.
        #[test]
        fn rows_come_back(input in 1..1000u64, ids in prop::collection::vec(any::<u64>(), 0..6), at in 0..99_999u32, first in any::<bool>()) {
            let at = f64::from(at) / 8.0;
            let line = if first {
                json!({"hash_ids": ids, "timestamp": at, "input_length": input})
            } else {
                json!({"input_length": input, "timestamp": at, "hash_ids": ids})
            };
            let row = read(&line.to_string());
            prop_assert_eq!(&row.problems, &[]);
            prop_assert_eq!((row.input, row.ids, row.timestamp), (Some(input), ids, Some(at)));
        }

        /// No bytes make it panic.
        #[test]
        fn any_bytes(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Row::default().read(&line);
        }
    }
}
