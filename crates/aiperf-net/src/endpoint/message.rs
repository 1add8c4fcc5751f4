//! Elements of a body's list of messages, in the forms the APIs want them.
//!
//! A request that opens its conversation carries what stands before the first turn; a later one carries its turn alone, for
//! the rest is history by then ([`join`](super::Endpoint::join)).

use serde::{Serialize, Serializer};

use super::Request;

/// What stands between a configured system text and one that the conversation brings along.
const BLANK_LINE: &str = "\n\n";

/// The list of a request.
#[derive(Debug)]
pub(super) struct MessageList<'a>(pub(super) Request<'a>);

impl Serialize for MessageList<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Request { turn, opens, .. } = self.0;
        let role = turn.role.as_deref().filter(|r| !r.is_empty()).unwrap_or("user");
        let system = self.0.system.filter(|t| opens && !t.is_empty());
        let context = self.0.user_context.filter(|t| opens && !t.is_empty());
        let context = context.map(|text| Message { role: "user", content: Content::Plain(text) });
        let own = Message { role, content: Content::Texts(&turn.texts) };
        let messages = match system {
            None => [None, context, Some(own)],
            // Many servers mistreat a second system message, so both become one.
            Some(text) if role == "system" => {
                [Some(Message { role, content: Content::Below(text, &turn.texts) }), context, None]
            }
            Some(text) => {
                [Some(Message { role: "system", content: Content::Plain(text) }), context, Some(own)]
            }
        };
        s.collect_seq(messages.into_iter().flatten())
    }
}

/// A message with a role.
pub(super) struct Message<'a> {
    pub(super) role: &'a str,
    pub(super) content: Content<'a>,
}

impl Message<'_> {
    /// Appends the message as compact JSON.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(out, self).expect("texts have a JSON form, and a vector takes all bytes");
    }
}

impl Serialize for Message<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map([("role", Part::Text(self.role)), ("content", Part::Content(&self.content))])
    }
}

/// What a message says. One text is a plain string (some servers refuse lists); several are parts; none is the empty string,
/// for an empty list is refused everywhere.
pub(super) enum Content<'a> {
    Plain(&'a str),
    Texts(&'a [String]),
    /// Texts below a system text.
    Below(&'a str, &'a [String]),
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let filled = |texts: &'_ [String]| texts.iter().filter(|t| !t.is_empty()).count();
        match *self {
            Self::Plain(text) => s.serialize_str(text),
            Self::Texts([one]) => s.serialize_str(one),
            Self::Texts(texts) if filled(texts) == 0 => s.serialize_str(""),
            Self::Texts(texts) => s.collect_seq(parts(texts)),
            Self::Below(text, texts) if filled(texts) == 0 => s.serialize_str(text),
            Self::Below(text, [one]) => s.collect_str(&format_args!("{text}{BLANK_LINE}{one}")),
            Self::Below(text, texts) => {
                s.collect_seq(std::iter::once(Part::Tagged(text)).chain(parts(texts)))
            }
        }
    }
}

fn parts(texts: &[String]) -> impl Iterator<Item = Part<'_>> {
    texts.iter().filter(|t| !t.is_empty()).map(|t| Part::Tagged(t))
}

enum Part<'a> {
    Text(&'a str),
    Content(&'a Content<'a>),
    /// `{"type":"text","text":…}`.
    Tagged(&'a str),
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => s.serialize_str(text),
            Self::Content(content) => content.serialize(s),
            Self::Tagged(text) => s.collect_map([("type", "text"), ("text", *text)]),
        }
    }
}
