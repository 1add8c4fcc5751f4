//! Elements of a body's list of messages, in the forms the APIs want them.
//!
//! A request that opens its conversation carries what stands before the first turn; a later one carries its turn alone, for
//! the rest is history by then ([`join`](super::Endpoint::join)).

use serde::{Serialize, Serializer};

use super::Request;

/// What stands between a configured system text and one that the conversation brings along.
const BLANK_LINE: &str = "\n\n";

/// How an API writes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenAI chat: the system text is a message.
    Chat,
    /// OpenAI responses: items that say that they are messages; the system text has a field of its own.
    Responses,
    /// Anthropic messages: the system text has a field of its own.
    Messages,
}

/// The list of a request.
#[derive(Debug)]
pub(super) struct MessageList<'a> {
    pub(super) request: Request<'a>,
    pub(super) form: Form,
}

impl Serialize for MessageList<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Request { turn, opens, system, user_context, .. } = self.request;
        let role = turn.role.as_deref().filter(|r| !r.is_empty()).unwrap_or("user");
        let own = Message { role, content: Content::Texts(&turn.texts) };
        let system = system.filter(|t| opens && !t.is_empty() && self.form == Form::Chat);
        let context = user_context.filter(|t| opens && !t.is_empty());
        let context = context.map(|text| Message { role: "user", content: Content::Plain(text) });
        let (system, own) = match system {
            None => (None, Some(own)),
            // Many servers mistreat a second system message, so both become one.
            Some(text) if role == "system" => {
                (Some(Message { role, content: Content::Below(text, &turn.texts) }), None)
            }
            Some(text) => (Some(Message { role: "system", content: Content::Plain(text) }), Some(own)),
        };
        let form = self.form;
        let element = |message, is_own| Element { message, form, is_own };
        s.collect_seq(
            [
                system.map(|m| element(m, true)),
                context.map(|m| element(m, false)),
                own.map(|m| element(m, true)),
            ]
            .into_iter()
            .flatten(),
        )
    }
}

/// A message with a role.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) role: &'a str,
    pub(super) content: Content<'a>,
}

impl Message<'_> {
    /// Appends the message as compact JSON.
    pub(super) fn write(self, form: Form, out: &mut Vec<u8>) {
        let element = Element { message: self, form, is_own: true };
        serde_json::to_writer(out, &element).expect("texts have a JSON form, and a vector takes all bytes");
    }
}

/// Appends what a message of no plain form is.
pub(super) fn write_json(value: &serde_json::Value, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a value has a JSON form, and a vector takes all bytes");
}

/// A message in an API's form.
struct Element<'a> {
    message: Message<'a>,
    form: Form,
    /// It is a turn's own or a reply, not the context before the first turn: the reference writes the type of the one last
    /// and of the other first.
    is_own: bool,
}

impl Serialize for Element<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Message { role, content } = &self.message;
        let kind = ("type", Part::Text("message"));
        let is_typed = self.form == Form::Responses;
        let tag = match (self.form, *role) {
            (Form::Responses, "assistant") => "output_text",
            (Form::Responses, _) => "input_text",
            (Form::Chat | Form::Messages, _) => "text",
        };
        let fields = [("role", Part::Text(role)), ("content", Part::Content(content, tag))];
        let first = (is_typed && !self.is_own).then_some(&kind);
        let last = (is_typed && self.is_own).then_some(&kind);
        s.collect_map(first.into_iter().chain(&fields).chain(last).map(|(name, value)| (name, value)))
    }
}

/// What a message says. One text is a plain string (some servers refuse lists); several are parts; none is the empty string,
/// for an empty list is refused everywhere.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Plain(&'a str),
    Texts(&'a [String]),
    /// Texts below a system text.
    Below(&'a str, &'a [String]),
}

impl Content<'_> {
    fn serialize<S: Serializer>(&self, tag: &'static str, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Plain(text) => s.serialize_str(text),
            Self::Texts([one]) => s.serialize_str(one),
            Self::Texts(texts) if texts.iter().all(String::is_empty) => s.serialize_str(""),
            Self::Texts(texts) => s.collect_seq(parts(texts, tag)),
            Self::Below(text, texts) if texts.iter().all(String::is_empty) => s.serialize_str(text),
            Self::Below(text, [one]) => s.collect_str(&format_args!("{text}{BLANK_LINE}{one}")),
            Self::Below(text, texts) => {
                s.collect_seq(std::iter::once(Part::Tagged(tag, text)).chain(parts(texts, tag)))
            }
        }
    }
}

fn parts<'a>(texts: &'a [String], tag: &'static str) -> impl Iterator<Item = Part<'a>> {
    texts.iter().filter(|t| !t.is_empty()).map(move |text| Part::Tagged(tag, text))
}

enum Part<'a> {
    Text(&'a str),
    /// A message's content, and what its parts are called.
    Content(&'a Content<'a>, &'static str),
    /// `{"type":…,"text":…}`.
    Tagged(&'static str, &'a str),
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => s.serialize_str(text),
            Self::Content(content, tag) => content.serialize(tag, s),
            Self::Tagged(tag, text) => s.collect_map([("type", *tag), ("text", *text)]),
        }
    }
}
