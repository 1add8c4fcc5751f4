//! Elements of a body's list of messages, in the forms the APIs want them.
//!
//! A request that opens its conversation carries what stands before the first turn; a later one carries its turn alone, for
//! the rest is history by then ([`join`](super::Endpoint::join)).

use aiperf_core::conversation::Turn;
use serde::{Serialize, Serializer};

use super::Request;
use super::media::{MediaPart, parts as media};

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
        let own = Message { role, content: Content::Turn(turn) };
        let system = system.filter(|t| opens && !t.is_empty() && self.form == Form::Chat);
        let context = user_context.filter(|t| opens && !t.is_empty());
        let context = context.map(|text| Message { role: "user", content: Content::Plain(text) });
        let (system, own) = match system {
            None => (None, Some(own)),
            // Many servers mistreat a second system message, so both become one.
            Some(text) if role == "system" => {
                (Some(Message { role, content: Content::Below(text, turn) }), None)
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
        let fields = [("role", Part::Text(role)), ("content", Part::Content(content, self.form, tag))];
        let first = (is_typed && !self.is_own).then_some(&kind);
        let last = (is_typed && self.is_own).then_some(&kind);
        s.collect_map(first.into_iter().chain(&fields).chain(last).map(|(name, value)| (name, value)))
    }
}

/// What a message says. One text is a plain string (some servers refuse lists); several are parts, and so are texts with media behind
/// them; none is the empty string, for an empty list is refused everywhere.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Plain(&'a str),
    Turn(&'a Turn),
    /// A turn below a system text.
    Below(&'a str, &'a Turn),
}

impl Content<'_> {
    fn serialize<S: Serializer>(&self, form: Form, tag: &'static str, s: S) -> Result<S::Ok, S::Error> {
        let (before, turn) = match *self {
            Self::Plain(text) => return s.serialize_str(text),
            Self::Turn(turn) => (None, turn),
            Self::Below(text, turn) => (Some(text), turn),
        };
        let has_media = media(form, turn).next().is_some();
        match (before, &turn.texts[..]) {
            (None, [one]) if !has_media => s.serialize_str(one),
            (_, texts) if !has_media && texts.iter().all(String::is_empty) => {
                s.serialize_str(before.unwrap_or_default())
            }
            (Some(text), [one]) if !has_media => s.collect_str(&format_args!("{text}{BLANK_LINE}{one}")),
            (_, texts) => {
                let texts = texts.iter().map(String::as_str).filter(|t| !t.is_empty());
                let texts = before.into_iter().chain(texts).map(|text| Part::Tagged(tag, text));
                s.collect_seq(texts.chain(media(form, turn).map(Part::Media)))
            }
        }
    }
}

enum Part<'a> {
    Text(&'a str),
    /// A message's content, and what its parts of text are called.
    Content(&'a Content<'a>, Form, &'static str),
    /// `{"type":…,"text":…}`.
    Tagged(&'static str, &'a str),
    Media(MediaPart<'a>),
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => s.serialize_str(text),
            Self::Content(content, form, tag) => content.serialize(*form, tag, s),
            Self::Tagged(tag, text) => s.collect_map([("type", *tag), ("text", *text)]),
            Self::Media(part) => part.serialize(s),
        }
    }
}
