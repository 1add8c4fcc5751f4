//! What a chat template puts around the contents of a request, found by rendering.
//!
//! A template is a program, so it is asked and not read: requests with telling contents are rendered, and what stands between
//! those contents is what it puts around any. That is true of templates that write contents as they are (all public ones do,
//! but for white space at the edges); whether this one does is tried with awkward contents before it is believed.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aiperf_core::plan::EndpointPlan;
use aiperf_tokens::{Conversation, TemplateClock, TemplateError, TemplateFields, Tokenizer};
use serde_json::{Value, json};

/// Contents that a template would have to treat in a way of its own to change: markup, code, line ends, quotes.
const AWKWARD: [&str; 4] = [
    "x",
    "Two lines\nof text, \"quoted\" & <b>marked</b> {{ not.a.variable }}",
    "def f(a):\n\n    return {'k': [1, 2]}  # 100%\n\nend",
    "[rid:0123456789ab]\n\nwords and more words 42",
];
/// Counts of long surroundings that are kept: the same system message stands before every prompt.
const KEPT: usize = 8;

/// A message of a request.
pub(crate) type Message<'a> = (&'a str, &'a str);

/// Where the tokenizer's template is, for messages.
pub(crate) fn template_file(tokenizer: &dyn Tokenizer) -> String {
    tokenizer.origin().template.map_or_else(|| tokenizer.name().to_owned(), |path| path.display().to_string())
}

/// Renders and counts requests as the server does.
#[derive(Debug)]
pub(crate) struct Renderer {
    tokenizer: Arc<dyn Tokenizer>,
    now: TemplateClock,
    fields: TemplateFields,
    known: Mutex<Vec<(String, usize)>>,
}

/// Text around contents: a piece, the first content, a piece, and so on to a last piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pieces: Vec<Piece>,
    /// The template writes contents as they are.
    pub(crate) is_verbatim: bool,
}

/// Text of the template between two contents.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    text: String,
    /// Where its first and its last special token stand.
    walls: Option<(Range<usize>, Range<usize>)>,
}

/// What stands around one content when the others are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Around {
    /// From the nearest wall on, or from the beginning.
    pub(crate) before: String,
    /// Up to the nearest wall, wall included, or to the end.
    pub(crate) after: String,
    /// Tokens of all that stands outside.
    pub(crate) outside: usize,
}

impl Renderer {
    /// For requests with the tools and template variables that the endpoint's extra fields name.
    pub(crate) fn new(tokenizer: Arc<dyn Tokenizer>, now: TemplateClock, endpoint: &EndpointPlan) -> Self {
        let fields = TemplateFields::of(endpoint.kind, &endpoint.extra);
        Self { tokenizer, now, fields, known: Mutex::default() }
    }

    /// Where the template is.
    pub(crate) fn file(&self) -> String {
        template_file(&*self.tokenizer)
    }

    /// Whether requests end with the beginning of the answer.
    pub(crate) const fn generation(&self) -> bool {
        self.fields.generation()
    }

    /// The text that the server's tokenizer gets to see. `generation` puts the beginning of an answer at the end.
    pub(crate) fn render(&self, messages: &[Message<'_>], generation: bool) -> Result<String, TemplateError> {
        let messages: Vec<Value> =
            messages.iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
        let Some(template) = self.tokenizer.chat_template() else { return Ok(String::new()) };
        template.render_with(&Conversation {
            add_generation_prompt: generation,
            ..self.fields.conversation(&messages.into(), self.now)
        })
    }

    /// Tokens of [`Self::render`].
    pub(crate) fn count(&self, messages: &[Message<'_>], generation: bool) -> Result<usize, TemplateError> {
        Ok(self.tokenizer.count(&self.render(messages, generation)?))
    }

    /// What stands around the contents of messages with these roles.
    pub(crate) fn layout(&self, roles: &[&str], generation: bool) -> Result<Layout, TemplateError> {
        let telling: Vec<String> = (0..roles.len()).map(|i| format!("Zq{i}vkXw{i}Jh")).collect();
        let messages = |contents: &[String]| {
            let messages: Vec<Message<'_>> =
                roles.iter().copied().zip(contents.iter().map(String::as_str)).collect();
            self.render(&messages, generation)
        };
        let text = messages(&telling)?;
        let Some(pieces) = split(&text, &telling) else {
            return Ok(Layout { pieces: Vec::new(), is_verbatim: false });
        };
        let pieces = pieces.into_iter().map(|text| self.piece(text)).collect();
        let mut layout = Layout { pieces, is_verbatim: true };
        for shift in 0..AWKWARD.len() {
            let contents: Vec<String> =
                (0..roles.len()).map(|i| AWKWARD[(i + shift) % AWKWARD.len()].to_owned()).collect();
            layout.is_verbatim &= messages(&contents)? == layout.join(&contents);
        }
        Ok(layout)
    }

    fn piece(&self, text: &str) -> Piece {
        Piece { text: text.to_owned(), walls: self.walls(text) }
    }

    /// Where the first and the last special token of `text` stand.
    pub(crate) fn walls(&self, text: &str) -> Option<(Range<usize>, Range<usize>)> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, &mut ids);
        let specials: Vec<String> = ids
            .iter()
            .filter_map(|id| {
                let token = self.tokenizer.decode(&[*id]);
                (self.tokenizer.token_id(&token) == Some(*id)).then_some(token)
            })
            // What stands for letters that the vocabulary lacks is no part of the text.
            .filter(|token| !token.is_empty() && text.contains(token.as_str()))
            .collect();
        let (first, last) = specials.first().zip(specials.last())?;
        let (a, b) = (text.find(first.as_str())?, text.rfind(last.as_str())?);
        Some((a..a + first.len(), b..b + last.len()))
    }

    /// Tokens of `text` alone.
    pub(crate) fn bare(&self, text: &str) -> usize {
        self.tokenizer.count(text)
    }

    /// Tokens of `text`, remembered, for the long ones come again and again.
    fn recount(&self, text: &str) -> usize {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|(one, _)| one == text) {
            return known[at].1;
        }
        drop(known);
        let count = self.tokenizer.count(text);
        known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.remove(0);
        }
        known.push((text.to_owned(), count));
        count
    }

    /// What stands around content number `at` of `layout`; the others are `contents`, in which its own place is passed over.
    pub(crate) fn around(&self, layout: &Layout, contents: &[&str], at: usize) -> Around {
        let pieces = &layout.pieces;
        // Backwards to a wall.
        let mut first = at;
        let mut before = String::new();
        let from = loop {
            let piece = &pieces[first];
            if let Some((_, last)) = &piece.walls {
                before.insert_str(0, &piece.text[last.start..]);
                break last.start;
            }
            before.insert_str(0, &piece.text);
            if first == 0 {
                break 0;
            }
            first -= 1;
            before.insert_str(0, contents[first]);
        };
        // Forwards to a wall.
        let mut last = at + 1;
        let mut after = String::new();
        let to = loop {
            let piece = &pieces[last];
            if let Some((wall, _)) = &piece.walls {
                after.push_str(&piece.text[..wall.end]);
                break wall.end;
            }
            after.push_str(&piece.text);
            if last + 1 == pieces.len() {
                break piece.text.len();
            }
            after.push_str(contents[last]);
            last += 1;
        };
        let mut outside = 0;
        // What stands before, in parts from wall to wall.
        let mut part = String::new();
        for (i, piece) in pieces.iter().enumerate().take(first + 1) {
            let end = if i == first { from } else { piece.text.len() };
            match &piece.walls {
                Some((_, wall)) if i < first => {
                    part.push_str(&piece.text[..wall.start]);
                    outside += self.recount(&part);
                    piece.text[wall.start..].clone_into(&mut part);
                }
                _ => part.push_str(&piece.text[..end]),
            }
            if i < first {
                part.push_str(contents[i]);
            }
        }
        outside += self.recount(&part);
        // Counted behind the wall, for what begins a text can count otherwise than what follows a special token.
        let wall = pieces[last].walls.as_ref().map_or("", |(wall, _)| &pieces[last].text[wall.clone()]);
        let mut rest = [wall, &pieces[last].text[to..]].concat();
        for i in last + 1..pieces.len() {
            rest.push_str(contents[i - 1]);
            rest.push_str(&pieces[i].text);
        }
        outside += self.recount(&rest) - self.recount(wall);
        Around { before, after, outside }
    }
}

impl Layout {
    /// The piece before content number `at`, or the last one.
    pub(crate) fn piece(&self, at: usize) -> &str {
        self.pieces.get(at).map_or("", |piece| piece.text.as_str())
    }

    /// Where a piece's first special token stands.
    pub(crate) fn first_wall(&self, at: usize) -> Option<Range<usize>> {
        self.pieces.get(at)?.walls.as_ref().map(|(first, _)| first.clone())
    }

    /// Where a piece's last special token stands.
    pub(crate) fn last_wall(&self, at: usize) -> Option<Range<usize>> {
        self.pieces.get(at)?.walls.as_ref().map(|(_, last)| last.clone())
    }

    /// What stands around a content, if there is a wall before and behind it.
    pub(crate) fn walls_around(&self, at: usize) -> Option<(&str, &str)> {
        let (left, right) = (self.pieces.get(at)?, self.pieces.get(at + 1)?);
        let ((_, before), (after, _)) = (left.walls.as_ref()?, right.walls.as_ref()?);
        Some((&left.text[before.start..], &right.text[..after.end]))
    }

    /// A request with these contents.
    pub(crate) fn join(&self, contents: &[String]) -> String {
        let mut text = self.pieces[0].text.clone();
        for (content, piece) in contents.iter().zip(&self.pieces[1..]) {
            text.push_str(content);
            text.push_str(&piece.text);
        }
        text
    }
}

/// `text` without the `contents`, each of which must be there once, in order.
fn split<'a>(text: &'a str, contents: &[String]) -> Option<Vec<&'a str>> {
    let mut pieces = Vec::with_capacity(contents.len() + 1);
    let mut rest = text;
    for content in contents {
        if text.matches(content.as_str()).count() != 1 {
            return None;
        }
        let (piece, behind) = rest.split_once(content.as_str())?;
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    Some(pieces)
}
