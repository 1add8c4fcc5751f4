//! Request bodies as ordered fields, written without building a JSON tree.

use std::borrow::Cow;
use std::ops::Range;

use aiperf_core::conversation::Turn;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::message::MessageList;

/// A field's value before it is JSON.
#[derive(Debug)]
pub(super) enum Field<'a> {
    /// The list that a conversation's history can go into.
    Messages(MessageList<'a>),
    /// The prompt of a completion: a string for one text, else a list.
    Prompt(&'a Turn),
    /// All texts of a turn as a list, however many they are.
    Inputs(&'a Turn),
    /// The same, with an image behind each.
    Paired(Vec<Cow<'a, str>>),
    /// All texts, joined by blanks.
    Joined(&'a Turn),
    /// Names and values that are always the same.
    Fixed(&'static [(&'static str, &'static str)]),
    /// Parameters of the generation in an object of their own.
    Sampling(Sampling<'a>),
    Text(&'a str),
    /// A text that is the only field of an object: `{"text": …}`.
    InObject(&'a str),
    /// The passages of a turn.
    Passages(&'a Turn),
    /// The same, each in an object.
    PassageObjects(&'a Turn),
    Flag(bool),
    Count(u64),
    Json(&'a Value),
    /// `stream_options` of the author's, with `include_usage` added.
    StreamOptions(Option<&'a Map<String, Value>>, bool),
}

/// Parameters of a generation: the limit, and what is laid over it.
#[derive(Debug)]
pub(super) struct Sampling<'a> {
    pub(super) limit: Option<u64>,
    pub(super) extra: &'a Map<String, Value>,
}

/// The fields of a body, in order, each name once.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(&'a str, Field<'a>)>);

impl<'a> Fields<'a> {
    pub(super) fn new(fields: Vec<(&'a str, Field<'a>)>) -> Self {
        Self(fields)
    }

    /// Sets a field: in its place if the name is there, else at the end.
    fn set(&mut self, name: &'a str, value: Field<'a>) {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => self.0.push((name, value)),
        }
    }

    /// Lays both sets of extra fields over the body's own, `turn` over `plan`.
    pub(super) fn merged(mut self, plan: &'a Map<String, Value>, turn: &'a Map<String, Value>) -> Self {
        for (name, value) in plan.iter().chain(turn) {
            self.set(name, Field::Json(value));
        }
        self
    }

    /// Asks for usage where that is allowed: only when the merged body asks for a stream, and never against an author's
    /// `include_usage` or a `stream_options` that is not an object; with `continuous`, for counts with every chunk as well.
    pub(super) fn with_usage(mut self, continuous: bool) -> Self {
        let streams = self.0.iter().any(|(n, f)| *n == "stream" && truthy(f));
        if streams {
            let options = self.0.iter().find(|(n, _)| *n == "stream_options").map(|(_, f)| f);
            match options {
                None | Some(Field::Json(Value::Null)) => {
                    self.set("stream_options", Field::StreamOptions(None, continuous));
                }
                Some(Field::Json(Value::Object(o))) => {
                    self.set("stream_options", Field::StreamOptions(Some(o), continuous));
                }
                Some(_) => {}
            }
        }
        self
    }

    /// Appends the body as compact JSON; gives the place of the message list's elements.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<Option<Range<usize>>, serde_json::Error> {
        let mut list = None;
        out.push(b'{');
        for (i, (name, value)) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            serde_json::to_writer(&mut *out, name)?;
            out.push(b':');
            let start = out.len();
            serde_json::to_writer(&mut *out, value)?;
            if let Field::Messages(_) = value {
                list = Some(start + 1..out.len() - 1);
            }
        }
        out.push(b'}');
        Ok(list)
    }
}

fn filled_texts(turn: &Turn) -> impl Iterator<Item = &str> {
    turn.texts.iter().map(String::as_str).filter(|t| !t.is_empty())
}

/// Python's truth of a value, which decides whether the author's `stream` means a stream.
fn truthy(field: &Field<'_>) -> bool {
    match field {
        Field::Flag(on) | Field::Json(Value::Bool(on)) => *on,
        Field::Json(Value::Number(n)) => n.as_f64() != Some(0.0),
        Field::Json(Value::String(s)) => !s.is_empty(),
        Field::Json(Value::Array(a)) => !a.is_empty(),
        Field::Json(Value::Object(o)) => !o.is_empty(),
        _ => false,
    }
}

#[derive(Serialize)]
struct InObject<'a> {
    text: &'a str,
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Messages(list) => list.serialize(s),
            Self::Prompt(turn) => {
                let mut texts = turn.texts.iter().filter(|t| !t.is_empty());
                match (texts.next(), texts.next()) {
                    (Some(one), None) => s.serialize_str(one),
                    _ => s.collect_seq(turn.texts.iter().filter(|t| !t.is_empty())),
                }
            }
            Self::Inputs(turn) => s.collect_seq(turn.texts.iter().filter(|t| !t.is_empty())),
            Self::Paired(inputs) => s.collect_seq(inputs),
            Self::Joined(turn) => s.serialize_str(&filled_texts(turn).collect::<Vec<_>>().join(" ")),
            Self::Fixed(pairs) => s.collect_map(pairs.iter().copied()),
            Self::Sampling(Sampling { limit, extra }) => {
                const LIMIT: &str = "max_new_tokens";
                let own = limit.map(Value::from);
                // In its place, whoever gives it.
                let first = own.as_ref().map(|own| (LIMIT, extra.get(LIMIT).unwrap_or(own)));
                let rest = extra.iter().map(|(name, value)| (name.as_str(), value));
                s.collect_map(
                    first.into_iter().chain(rest.filter(|(name, _)| own.is_none() || *name != LIMIT)),
                )
            }
            Self::Text(text) => s.serialize_str(text),
            Self::InObject(text) => InObject { text }.serialize(s),
            Self::Passages(turn) => s.collect_seq(turn.passages()),
            Self::PassageObjects(turn) => s.collect_seq(turn.passages().map(|text| InObject { text })),
            Self::Flag(flag) => s.serialize_bool(*flag),
            Self::Count(count) => s.serialize_u64(*count),
            Self::Json(value) => value.serialize(s),
            Self::StreamOptions(options, continuous) => {
                let own = options.iter().flat_map(|o| o.iter());
                let wanted = [("include_usage", true), ("continuous_usage_stats", *continuous)];
                let told = |name| options.is_some_and(|o| o.contains_key(name));
                let added = wanted.into_iter().filter(|(name, wanted)| *wanted && !told(*name));
                let added = added.map(|(name, _)| (name, &Value::Bool(true)));
                s.collect_map(own.map(|(k, v)| (k.as_str(), v)).chain(added))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::test_plan;
    use super::super::{Endpoint, EndpointKind, Request};
    use super::*;

    fn turn(texts: &[&str]) -> Turn {
        Turn {
            model: "m".into(),
            role: None,
            texts: texts.iter().map(|t| (*t).to_owned()).collect(),
            max_tokens: Some(20),
            delay_ns: None,
            at_ns: None,
            extra: Map::new(),
            length: None,
            ..Turn::default()
        }
    }

    fn encoded(endpoint: &Endpoint, turn: &Turn) -> String {
        let mut out = Vec::new();
        let request = Request { system: None, user_context: None, turn, opens: true, marker: None };
        endpoint.encode(&request, &mut out).expect("encodes");
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(o) => o,
            other => panic!("not an object: {other}"),
        }
    }

    fn chat(streaming: bool, extra: Value) -> Endpoint {
        let mut plan = test_plan(EndpointKind::Chat);
        plan.streaming = streaming;
        plan.extra = object(extra);
        Endpoint::new(&plan)
    }

    #[test]
    fn a_chat_body_has_the_reference_s_order() {
        assert_eq!(
            encoded(&chat(true, json!({})), &turn(&["hi \"é\"\n"])),
            r#"{"messages":[{"role":"user","content":"hi \"é\"\n"}],"model":"m","stream":true,"max_completion_tokens":20,"stream_options":{"include_usage":true}}"#
        );
        let mut plain = turn(&["a", "", "b"]);
        plain.max_tokens = None;
        plain.role = Some("system".into());
        assert_eq!(
            encoded(&chat(false, json!({})), &plain),
            r#"{"messages":[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"model":"m","stream":false}"#
        );
        assert!(encoded(&chat(false, json!({})), &turn(&[])).contains(r#""content":"""#));
        assert!(encoded(&chat(false, json!({})), &turn(&["", ""])).contains(r#""content":"""#));
    }

    #[test]
    fn extra_fields_say_another_limit() {
        let limit = |extra: Value| chat(true, extra).limit(&turn(&["a"]));
        assert_eq!(limit(json!({})), Some(20));
        assert_eq!(limit(json!({"max_completion_tokens": 2})), Some(2));
        assert_eq!(limit(json!({"max_tokens": 2})), Some(20), "the other name goes before it");
        assert_eq!(limit(json!({"max_completion_tokens": null})), None);
        assert_eq!(limit(json!({"max_completion_tokens": null, "max_tokens": 3})), Some(3));
        assert_eq!(limit(json!({"max_completion_tokens": "2"})), None, "whatever a server makes of it");
        let mut own = turn(&["a"]);
        own.extra = object(json!({"max_completion_tokens": 5}));
        assert_eq!(
            chat(true, json!({"max_completion_tokens": 2})).limit(&own),
            Some(5),
            "a row goes before the run"
        );
        own.payload = Some(b"{}".to_vec());
        assert_eq!(chat(true, json!({})).limit(&own), Some(20), "what its body says was read");
        let of = |kind, extra| {
            let mut plan = test_plan(kind);
            plan.extra = object(extra);
            Endpoint::new(&plan).limit(&Turn { max_tokens: None, ..turn(&["a"]) })
        };
        assert_eq!(of(EndpointKind::Responses, json!({"max_output_tokens": 4})), Some(4));
        assert_eq!(of(EndpointKind::HuggingfaceGenerate, json!({"max_new_tokens": 6})), Some(6));
        assert_eq!(of(EndpointKind::Completions, json!({"max_completion_tokens": 6})), None);
        let mut legacy = test_plan(EndpointKind::Chat);
        legacy.legacy_max_tokens = true;
        assert_eq!(Endpoint::new(&legacy).limit(&turn(&["a"])), Some(20));
    }

    #[test]
    fn legacy_max_tokens_is_another_name() {
        let mut plan = test_plan(EndpointKind::Chat);
        plan.legacy_max_tokens = true;
        let body = encoded(&Endpoint::new(&plan), &turn(&["a"]));
        assert!(body.contains(r#""max_tokens":20"#) && !body.contains("max_completion_tokens"));
    }

    #[test]
    fn a_completion_body_has_the_reference_s_order() {
        let mut plan = test_plan(EndpointKind::Completions);
        plan.streaming = true;
        let endpoint = Endpoint::new(&plan);
        assert_eq!(
            encoded(&endpoint, &turn(&["one"])),
            r#"{"prompt":"one","model":"m","stream":true,"max_tokens":20,"stream_options":{"include_usage":true}}"#
        );
        assert!(encoded(&endpoint, &turn(&["a", "", "b"])).starts_with(r#"{"prompt":["a","b"],"#));
        assert!(encoded(&endpoint, &turn(&[])).starts_with(r#"{"prompt":[],"#));
        let mut none = turn(&["a"]);
        none.max_tokens = Some(0);
        assert!(!encoded(&endpoint, &none).contains("max_tokens"), "0 is no limit for completions");
    }

    #[test]
    fn extra_fields_replace_in_place_and_the_turn_s_win() {
        let endpoint = chat(true, json!({"temperature": 0.5, "model": "plan", "x": null}));
        let mut t = turn(&["a"]);
        t.extra = object(json!({"x": 1, "model": "turn", "y": [1.5e300]}));
        assert_eq!(
            encoded(&endpoint, &t),
            r#"{"messages":[{"role":"user","content":"a"}],"model":"turn","stream":true,"max_completion_tokens":20,"temperature":0.5,"x":1,"y":[1.5e+300],"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn usage_is_asked_for_unless_the_author_said_otherwise() {
        let asks = |streaming, extra: Value| encoded(&chat(streaming, extra), &turn(&["a"]));
        assert!(!asks(true, json!({"stream": false})).contains("stream_options"));
        assert!(asks(false, json!({"stream": 1})).contains(r#""stream_options":{"include_usage":true}"#));
        assert!(
            asks(true, json!({"stream_options": null}))
                .contains(r#""stream_options":{"include_usage":true}"#)
        );
        assert!(
            asks(true, json!({"stream_options": {"a": 1}}))
                .contains(r#""stream_options":{"a":1,"include_usage":true}"#)
        );
        assert!(
            asks(true, json!({"stream_options": {"include_usage": false}}))
                .contains(r#""stream_options":{"include_usage":false}"#)
        );
        assert!(asks(true, json!({"stream_options": "no"})).contains(r#""stream_options":"no""#));
    }

    /// What AIPerf 0.13.0 sent for these turns and options, byte for byte.
    #[test]
    fn bodies_are_the_reference_s_to_the_byte() {
        let extra =
            r#"{"a":0.1,"b":1e-5,"c":1.5e300,"d":123456789012345678,"model":"over","e":[1,{"k":null}]}"#;
        let mut odd = turn(&["plain \"quoted\" é 東京 🙂 tab\t nl\n del\u{7f} nul\u{1} slash/ \u{2028}"]);
        odd.max_tokens = None;
        let mut several = turn(&["first", "", "second"]);
        several.max_tokens = Some(7);
        several.extra =
            serde_json::from_str(r#"{"temperature": 1e-7, "x": 1e16, "stream": true}"#).expect("JSON");
        let mut system = turn(&["with role"]);
        system.role = Some("system".into());
        system.max_tokens = None;
        let sent = [
            r#"{"messages":[{"role":"user","content":"plain \"quoted\" é 東京 🙂 tab\t nl\n del{DEL} nul\u0001 slash/ {LS}"}],"model":"over","stream":true,"a":0.1,"b":0.00001,"c":1.5e+300,"d":123456789012345678,"e":[1,{"k":null}],"stream_options":{"include_usage":true}}"#,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"first"},{"type":"text","text":"second"}]}],"model":"over","stream":true,"max_completion_tokens":7,"a":0.1,"b":0.00001,"c":1.5e+300,"d":123456789012345678,"e":[1,{"k":null}],"temperature":1e-7,"x":1e+16,"stream_options":{"include_usage":true}}"#,
            r#"{"messages":[{"role":"system","content":"with role"}],"model":"over","stream":true,"a":0.1,"b":0.00001,"c":1.5e+300,"d":123456789012345678,"e":[1,{"k":null}],"stream_options":{"include_usage":true}}"#,
            r#"{"prompt":"plain \"quoted\" é 東京 🙂 tab\t nl\n del{DEL} nul\u0001 slash/ {LS}","model":"over","stream":true,"a":0.1,"b":0.00001,"c":1.5e+300,"d":123456789012345678,"e":[1,{"k":null}],"stream_options":{"include_usage":true}}"#,
            r#"{"prompt":["first","second"],"model":"over","stream":true,"max_tokens":7,"a":0.1,"b":0.00001,"c":1.5e+300,"d":123456789012345678,"e":[1,{"k":null}],"temperature":1e-7,"x":1e+16,"stream_options":{"include_usage":true}}"#,
            r#"{"prompt":"with role","model":"over","stream":true,"a":0.1,"b":0.00001,"c":1.5e+300,"d":123456789012345678,"e":[1,{"k":null}],"stream_options":{"include_usage":true}}"#,
        ];
        let mut sent = sent.iter();
        for kind in [EndpointKind::Chat, EndpointKind::Completions] {
            let mut plan = test_plan(kind);
            plan.streaming = true;
            plan.extra = serde_json::from_str(extra).expect("JSON");
            let endpoint = Endpoint::new(&plan);
            for turn in [&odd, &several, &system] {
                let sent =
                    sent.next().expect("six bodies").replace("{DEL}", "\u{7f}").replace("{LS}", "\u{2028}");
                assert_eq!(encoded(&endpoint, turn), sent);
            }
        }
    }
}
