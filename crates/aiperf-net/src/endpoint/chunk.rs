//! The JSON of answers, read typed and borrowed, and lenient about shapes: a field of an unexpected type is no text, never an
//! error, for a server's oddity in one field must not cost the rest.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// What a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Text,
    Call,
    Reasoning,
}

/// The texts of one chunk.
#[derive(Debug, Default)]
pub(super) struct Piece<'a> {
    /// Answer text without calls.
    pub(super) prose: Cow<'a, str>,
    pub(super) calls: Vec<CallPart<'a>>,
    pub(super) reasoning: Cow<'a, str>,
}

/// A tool call, or a part of one.
#[derive(Debug, Default)]
pub(super) struct CallPart<'a> {
    /// Its place in the server's list.
    pub(super) index: Option<i64>,
    /// The server's name for it.
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: Cow<'a, str>,
    /// It belongs to no call that was there before.
    pub(super) is_whole: bool,
}

impl<'a> Piece<'a> {
    /// Answer text without calls.
    pub(super) fn prose(prose: Cow<'a, str>) -> Self {
        Self { prose, ..Self::default() }
    }

    /// Reasoning alone.
    pub(super) fn reasoning(reasoning: Cow<'a, str>) -> Self {
        Self { reasoning, ..Self::default() }
    }

    /// Part of a tool call.
    pub(super) fn call(part: CallPart<'a>) -> Self {
        Self { calls: vec![part], ..Self::default() }
    }

    /// Whether it has no text.
    pub(super) fn is_silent(&self) -> bool {
        let calls = |c: &CallPart<'_>| c.name.is_empty() && c.arguments.is_empty();
        self.prose.is_empty() && self.reasoning.is_empty() && self.calls.iter().all(calls)
    }

    /// Its text and what that is, if it is one thing: arguments of a call only without a name.
    pub(super) fn only(&self) -> Option<(Channel, &str)> {
        match (self.prose.is_empty(), self.reasoning.is_empty(), self.calls.as_slice()) {
            (false, true, []) => Some((Channel::Text, &self.prose)),
            (true, false, []) => Some((Channel::Reasoning, &self.reasoning)),
            (true, true, [call]) if call.name.is_empty() && !call.is_whole => {
                Some((Channel::Call, &call.arguments))
            }
            _ => None,
        }
    }
}

/// The top of an answer or of a streamed chunk.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    /// Not looked at, but told from answer to answer.
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    /// The same.
    #[serde(borrow, default)]
    pub(super) created: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) object: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    /// What kind of error it is, in TGI's form.
    #[serde(borrow, default)]
    pub(super) error_type: Text<'a>,
    /// The error of frameworks that have no other field.
    #[serde(borrow, default)]
    pub(super) detail: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) metrics: Option<&'a RawValue>,
}

/// One choice of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Message<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

impl<'a> Choice<'a> {
    /// The server's word for why it stopped. SGLang's own form is an object with a type.
    pub(super) fn finish_reason(&self) -> Option<Cow<'a, str>> {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(rename = "type", borrow, default)]
            kind: Text<'a>,
        }
        let raw = self.finish_reason?.get();
        let word = if raw.starts_with('{') {
            serde_json::from_str::<Typed<'a>>(raw).ok()?.kind.0
        } else {
            serde_json::from_str::<Text<'a>>(raw).ok()?.0
        };
        (!word.is_empty()).then_some(word)
    }

    /// Which of several choices this is; 0 where the server does not say it in a whole number.
    pub(super) fn index(&self) -> i64 {
        self.index.and_then(|raw| raw.get().parse().ok()).unwrap_or(0)
    }
}

/// A message or a delta of one.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub(super) content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<Option<ToolCall<'a>>>>,
    #[serde(borrow, default)]
    pub(super) function_call: Option<Function<'a>>,
}

/// A call of a tool.
#[derive(Debug, Deserialize)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
    /// What a custom tool has in the place of a function.
    #[serde(borrow, default)]
    custom: Option<Function<'a>>,
}

impl<'a> ToolCall<'a> {
    /// The part of a call that it is, of a message that is whole or of a delta.
    pub(super) fn part(self, is_whole: bool) -> Option<CallPart<'a>> {
        let index = self.index.and_then(|raw| raw.get().parse().ok());
        let part = self.function.or(self.custom)?.part();
        Some(CallPart { index, id: self.id.0, is_whole, ..part })
    }
}

/// Name and arguments of a call, or parts of them.
#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

impl<'a> Function<'a> {
    /// What the model wrote. Arguments given as an object instead of a string are taken as its JSON.
    pub(super) fn part(self) -> CallPart<'a> {
        let raw = self.arguments.or(self.input).map(RawValue::get).filter(|raw| *raw != "null");
        let arguments = raw.map_or(Cow::Borrowed(""), |raw| {
            let plain = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            match plain.filter(|text| !text.contains('\\')) {
                Some(text) => Cow::Borrowed(text),
                None => serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(raw), Cow::Owned),
            }
        });
        CallPart { name: self.name.0, arguments, ..CallPart::default() }
    }
}

/// Parses one answer object with `read`. `Err` when it is not a JSON object or a named field has a shape that cannot hold what
/// it names.
pub(super) fn with_object<T>(
    json: &str,
    mut read: impl FnMut(&str) -> Result<T, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    // A derived reader would take a list for an object, field by field.
    if !json.trim_start().starts_with('{') {
        return Err(serde::de::Error::custom("not an object"));
    }
    if let Ok(found) = read(json) {
        return Ok(found);
    }
    // A key given twice stops the typed reader; a tree keeps the last one. The text is then read again.
    let tree: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)?;
    read(&serde_json::to_string(&tree)?)
}

/// A text field of any shape: a string, the joined `text` of a list of parts, else nothing.
#[derive(Debug, Default)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut joined = Cow::Borrowed("");
        while let Some(Text(part)) = seq.next_element()? {
            if joined.is_empty() {
                joined = part;
            } else {
                joined.to_mut().push_str(&part);
            }
        }
        Ok(joined)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut text = Cow::Borrowed("");
        while let Some(Text(key)) = map.next_key()? {
            if key == "text" {
                text = map.next_value::<Text<'de>>()?.0;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}
