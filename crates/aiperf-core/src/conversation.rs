//! What is asked of a server, before it has the form of any API. Made by `aiperf-data`, encoded by `aiperf-net`.

use serde_json::{Map, Value};

use crate::plan::MarkerTarget;

/// Most turns of a conversation: requests of a session are numbered in 16 bits.
pub const MOST_TURNS: u16 = u16::MAX;

/// One entry of a workload: one or more turns, sent in order within a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// `session_000000` …, or the file's own id.
    pub id: String,
    /// How a turn's request comes about.
    pub context: ContextMode,
    /// Text of the system message before all turns.
    pub system: Option<String>,
    /// Text of a user message between the system message and the first turn.
    pub user_context: Option<String>,
    /// Turns in order; at least one.
    pub turns: Vec<Turn>,
    /// The session's marker against prefix caches. The texts above have it where it belongs; whoever writes a request that is not
    /// made of them puts it in there.
    pub marker: Option<Marker>,
}

/// A text that no other session's prompts have at this edge of theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The text, with the blank line that parts it from the text it stands at.
    pub text: String,
    /// Where it goes.
    pub target: MarkerTarget,
}

impl Marker {
    /// The text where it stands alone.
    pub fn bare(&self) -> &str {
        self.text.trim()
    }

    /// Whether `text` has the marker at its end of it.
    pub fn is_on(&self, text: &str) -> bool {
        if self.target.is_suffix() { text.ends_with(self.bare()) } else { text.starts_with(self.bare()) }
    }

    /// `text` with the marker at its end of it. A text that has it already stays as it is.
    pub fn put(&self, text: &str) -> String {
        if self.is_on(text) { text.to_owned() } else { [self.before(), text, self.after()].concat() }
    }

    /// What it puts before a text.
    pub fn before(&self) -> &str {
        if self.target.is_suffix() { "" } else { &self.text }
    }

    /// What it puts behind a text.
    pub fn after(&self) -> &str {
        if self.target.is_suffix() { &self.text } else { "" }
    }
}

/// What a turn's request holds beside the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextMode {
    /// Each turn is a whole request.
    SelfContained,
    /// The turns before it, each with the answer that the server gave.
    History,
}

/// One request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// Model to name in the body.
    pub model: String,
    /// Role of the message; `None` is `user`.
    pub role: Option<String>,
    /// Texts of the turn: one gives a plain string, several give a list of parts (chat) or a list of prompts (completions).
    pub texts: Vec<String>,
    /// Names of the texts, in their order, where the dataset names them (`query`, `passages`); without them it is empty.
    pub groups: Vec<TextGroup>,
    /// Images, audio and video beside the texts, in the order they go onto the wire.
    pub media: Vec<Media>,
    /// The whole body, where the dataset has it; nothing is added to it.
    pub payload: Option<Vec<u8>>,
    /// Output limit asked for.
    pub max_tokens: Option<u64>,
    /// Think time after the end of the turn before it.
    pub delay_ns: Option<u64>,
    /// When it is sent under a fixed schedule, in the time of the workload: its zero is the file's own.
    pub at_ns: Option<u64>,
    /// What was said before it is forgotten: it opens the conversation anew.
    pub resets: bool,
    /// Merged into the body last.
    pub extra: Map<String, Value>,
    /// Headers of this request alone, names and values.
    pub headers: TurnHeaders,
    /// Lengths, when the turn was made to one.
    pub length: Option<TurnLength>,
}

/// Headers of one request beside those of all: names and values, in their order.
pub type TurnHeaders = Vec<(String, String)>;

/// A name for some of a turn's texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextGroup {
    /// The name.
    pub name: String,
    /// How many texts it is for.
    pub count: usize,
}

/// What a turn shows or plays beside what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A recording of sound.
    Audio,
    /// A film.
    Video,
}

impl MediaKind {
    /// All of them, in the order they go onto the wire behind the texts.
    pub const ALL: [Self; 3] = [Self::Image, Self::Audio, Self::Video];

    /// One of them, as rows call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }

    /// A list of them, as rows call it.
    pub const fn names(self) -> &'static str {
        match self {
            Self::Image => "images",
            Self::Audio => "audios",
            Self::Video => "videos",
        }
    }
}

/// Some media of a turn, of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Which kind.
    pub kind: MediaKind,
    /// Their name, where the dataset has one.
    pub name: String,
    /// Each as it travels: an address, a data URL, or of audio `wav,` or `mp3,` and base64. An image may be empty where it has an
    /// id: the server is to have it already.
    pub contents: Vec<String>,
    /// Ids of images, by which a server (vLLM) knows them again; one for each content, or none at all.
    pub uuids: Vec<String>,
}

impl Media {
    /// Its contents, each with its id.
    pub fn items(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.contents.iter().enumerate().map(|(i, c)| (c.as_str(), self.uuids.get(i).map(String::as_str)))
    }
}

impl Turn {
    /// Contents of one kind, in their order.
    pub fn media_of(&self, kind: MediaKind) -> impl Iterator<Item = &str> {
        let of_kind = self.media.iter().filter(move |media| media.kind == kind);
        of_kind.flat_map(|media| &media.contents).map(String::as_str)
    }

    /// Bytes of all its media.
    pub fn media_bytes(&self) -> usize {
        self.media.iter().flat_map(|media| &media.contents).map(String::len).sum()
    }

    /// The names of its texts, each with the texts it is for, in their order.
    pub fn named(&self) -> impl Iterator<Item = (&str, &[String])> {
        let mut at = 0;
        self.groups.iter().map(move |group| {
            let from = at;
            at += group.count;
            (group.name.as_str(), self.texts.get(from..at).unwrap_or_default())
        })
    }

    /// Texts of that name. A name that stands several times gives all of its texts, in their order.
    pub fn texts_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.texts_under(move |found| found == name)
    }

    /// The query of a request that has passages ranked: of several, the first.
    pub fn query(&self) -> Option<&str> {
        self.texts_under(is_query).next()
    }

    /// The passages that are ranked by the query.
    pub fn passages(&self) -> impl Iterator<Item = &str> {
        self.texts_named(PASSAGES)
    }

    fn texts_under<'a>(&'a self, wanted: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = &'a str> {
        self.named().filter(move |(name, _)| wanted(name)).flat_map(|(_, texts)| texts).map(String::as_str)
    }
}

/// The name of texts to be ranked.
pub const PASSAGES: &str = "passages";
/// The name of the text that they are ranked by.
pub const QUERY: &str = "query";

/// Whether a query goes by that name; GenAI-Perf's files have the second.
pub fn is_query(name: &str) -> bool {
    matches!(name, QUERY | "queries")
}

/// Input lengths of a turn that was made to one, tokens.
///
/// A first turn's are those of the whole request: with a chat template what that renders to, without one the sum over all
/// contents. A later turn's are those of its own part alone, for the answers before it are the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnLength {
    /// What was asked for.
    pub asked: u64,
    /// What was made. Differs from `asked` only where a length cannot be had and the user wants the nearest.
    pub made: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_their_names() {
        let group = |name: &str, count| TextGroup { name: name.to_owned(), count };
        let turn = Turn {
            texts: ["q", "p", "r", "s"].map(str::to_owned).to_vec(),
            groups: vec![group("query", 1), group("passages", 2), group("query", 1)],
            ..Turn::default()
        };
        assert_eq!(turn.texts_named("query").collect::<Vec<_>>(), ["q", "s"]);
        assert_eq!(turn.texts_named("passages").collect::<Vec<_>>(), ["p", "r"]);
        assert_eq!(turn.texts_named("image").count(), 0);
        assert_eq!((turn.query(), turn.passages().collect::<Vec<_>>()), (Some("q"), vec!["p", "r"]));
        let older = Turn { groups: vec![group("passages", 2), group("queries", 2)], ..turn.clone() };
        assert_eq!(older.query(), Some("r"));
        let unsound = Turn { texts: Vec::new(), ..turn };
        assert_eq!(unsound.texts_named("query").count(), 0, "names without texts");
    }

    #[test]
    fn a_marker_is_put_once() {
        for target in MarkerTarget::ALL {
            let text = if target.is_suffix() { "\n\n[m]" } else { "[m]\n\n" };
            let marker = Marker { text: text.to_owned(), target };
            let marked = if target.is_suffix() { "hi\n\n[m]" } else { "[m]\n\nhi" };
            assert_eq!((marker.put("hi"), marker.put(marked)), (marked.to_owned(), marked.to_owned()));
            // What stands alone in a part of its own is on it, and the other edge is not its edge.
            assert_eq!(marker.put("[m]"), "[m]");
            let other = if target.is_suffix() { "[m]\n\nhi" } else { "hi\n\n[m]" };
            assert_ne!(marker.put(other), other);
        }
    }
}
