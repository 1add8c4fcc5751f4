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
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) text: Cow<'a, str>,
    /// From where on `text` is tool calls.
    pub(super) calls_from: usize,
    pub(super) reasoning: Cow<'a, str>,
}

impl<'a> Piece<'a> {
    /// Answer text without calls.
    pub(super) fn prose(text: Cow<'a, str>) -> Self {
        Self { calls_from: text.len(), text, reasoning: Cow::Borrowed("") }
    }

    /// Reasoning alone.
    pub(super) fn reasoning(reasoning: Cow<'a, str>) -> Self {
        Self { text: Cow::Borrowed(""), calls_from: 0, reasoning }
    }

    /// What the text is, if it is one thing.
    pub(super) fn text_channel(&self) -> Option<Channel> {
        match self.calls_from {
            end if end == self.text.len() => Some(Channel::Text),
            0 => Some(Channel::Call),
            _ => None,
        }
    }

    /// Part of a tool call.
    pub(super) fn call(text: Cow<'a, str>) -> Self {
        Self { text, calls_from: 0, reasoning: Cow::Borrowed("") }
    }
}

/// The top of an answer or of a streamed chunk.
#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
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
    pub(super) finish_reason: Text<'a>,
}

impl Choice<'_> {
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
    pub(super) function: Option<Function<'a>>,
}

/// Name and arguments of a call, or parts of them.
#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl Function<'_> {
    /// Appends the text the model wrote. Arguments given as an object instead of a string are taken as its JSON.
    pub(super) fn append_to(&self, out: &mut String) {
        out.push_str(&self.name.0);
        if let Some(raw) = self.arguments.map(RawValue::get) {
            match serde_json::from_str::<Cow<'_, str>>(raw) {
                Ok(text) => out.push_str(&text),
                Err(_) => out.push_str(raw),
            }
        }
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
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

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
