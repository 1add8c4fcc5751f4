//! How long a request is beside the texts that are made for it, where lengths are those of the rendered request.
//!
//! The first user message owns what the request has once (BOS, a default system message, the beginning of the answer) and its own
//! wrap. A system message and a user-context message each add their content and their own wrap. A later user message owns its
//! part of the rendered request: from the end mark of the reply before it, which is the reply's, to its own.

use aiperf_tokens::TemplateError;

use crate::error::DataError;
use crate::layout::{Layout, Message, Renderer};
use crate::slot::{Slot, tight};

/// A content to measure wraps with; one that nothing merges with.
const SAMPLE: &str = "words and more words";
/// A content with white space around it.
const LOOSE: &str = " \n words and more words \n\n";
/// A reply that few templates would write otherwise.
const FIGURES: &str = "8 2 0 9 4 7";
/// What a request counts that the template refuses: more than any that is asked for.
const REFUSED: usize = u32::MAX as usize;
/// Roles as templates know them.
const SYSTEM: &str = "system";
const USER: &str = "user";
const ASSISTANT: &str = "assistant";

/// The lengths of a workload's requests.
#[derive(Debug)]
pub(crate) struct Framing {
    renderer: Renderer,
    /// The first request: system message and user context, where there are any, and the user message.
    opening: Layout,
    roles: Vec<&'static str>,
    /// Tokens of [`SAMPLE`].
    sample: usize,
    /// Tokens of a request with it as the only message, and as every content of the first request.
    alone: usize,
    full: usize,
    /// What system message and user context add beside their contents, tokens; less than none where a content merges with what
    /// stands around it.
    wraps: isize,
    later: Later,
    edges: Edges,
}

/// What becomes of white space around the first content of a request. All others are made without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edges {
    Kept,
    Dropped,
    /// Something else: the request has to be rendered.
    Odd,
}

/// A later user message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Later {
    /// What stands around it from wall to wall, and tokens of its part that stand outside.
    Around { before: String, after: String, outside: isize },
    /// The template does more than put something around it; counted as what a talk with it has above these tokens.
    Rendered { without: usize },
}

/// Where the text of a user message goes.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// What stands before it.
    pub(crate) before: String,
    /// What stands behind it.
    pub(crate) after: String,
    /// Tokens that are counted and stand outside; less than none where the slot holds some that are not the message's.
    pub(crate) outside: isize,
    /// The request has to be rendered to be counted.
    pub(crate) is_rendered: bool,
}

impl Place {
    /// One of which only rendering tells what stands around it.
    const fn rendered() -> Self {
        Self { before: String::new(), after: String::new(), outside: 0, is_rendered: true }
    }

    /// The slot in which all is `tokens`.
    pub(crate) fn slot(&self, tokens: usize) -> Slot<'_> {
        Slot { before: &self.before, after: &self.after, is_tight: true, ..Slot::bare(tokens) }
    }
}

impl Framing {
    /// For requests with a system message or a user context, or without. `later` if there are later turns.
    pub(crate) fn new(
        renderer: Renderer,
        has_system: bool,
        has_context: bool,
        later: bool,
    ) -> Result<Self, DataError> {
        let generation = renderer.generation();
        let file = renderer.file();
        let refuses = |what: &'static str| {
            let file = &file;
            move |problem: TemplateError| DataError::Template { file: file.clone(), what, problem }
        };
        let plain = renderer.layout(&[USER], generation).map_err(refuses("a user message"))?;
        let mut roles = Vec::new();
        let mut wraps = 0;
        let mut before: Vec<Message<'_>> = Vec::new();
        let count = |messages: &[Message<'_>]| Ok(renderer.count(messages, generation)? as isize);
        let sample = renderer.bare(SAMPLE);
        let own = |with: isize, without: isize| with - without - sample as isize;
        if has_system {
            roles.push(SYSTEM);
            before.push((SYSTEM, SAMPLE));
            let refused = refuses("a system message (--system-prompt, --shared-system-prompt-length)");
            let with = count(&[(SYSTEM, SAMPLE), (USER, SAMPLE)]).map_err(refused)?;
            let without = count(&[(USER, SAMPLE)]).map_err(refused)?;
            let opening = renderer.layout(&[SYSTEM, USER], generation).map_err(refused)?;
            wraps += if opening.is_verbatim && is_replaced(&plain, &opening) {
                // The template's own system message makes way, so what the user's costs is seen where a second one is added.
                match count(&[(SYSTEM, SAMPLE), (SYSTEM, SAMPLE), (USER, SAMPLE)]) {
                    Ok(twice) if own(twice, with) > 0 => own(twice, with),
                    _ => own(with, without),
                }
            } else {
                own(with, without)
            };
        }
        if has_context {
            let refused =
                refuses("a user context before the first user message (--user-context-prompt-length)");
            roles.push(USER);
            let with = [before.as_slice(), &[(USER, SAMPLE), (USER, SAMPLE)]].concat();
            let without = [before.as_slice(), &[(USER, SAMPLE)]].concat();
            wraps += own(count(&with).map_err(refused)?, count(&without).map_err(refused)?);
        }
        roles.push(USER);
        let opening = renderer.layout(&roles, generation).map_err(refuses("these messages"))?;
        let later = if later {
            Later::of(&renderer)
                .map_err(refuses("a user message behind an answer (--conversation-turn-mean)"))?
        } else {
            Later::Rendered { without: 0 }
        };
        let edges = Edges::of(&renderer, &opening, &roles).map_err(refuses("these messages"))?;
        let alone = renderer.count(&[(USER, SAMPLE)], generation).map_err(refuses("a user message"))?;
        let mut framing = Self { renderer, opening, roles, sample, alone, full: 0, wraps, later, edges };
        framing.prove();
        Ok(framing)
    }

    /// Holds what walls give against rendering, and does without them where they are wrong.
    fn prove(&mut self) {
        let contents: Vec<&str> = self.roles.iter().map(|_| SAMPLE).collect();
        self.full = self.render(contents.iter().copied());
        let (user, others) = contents.split_last().unwrap_or((&"", &[]));
        let place = self.first(others);
        if place.is_rendered {
            return;
        }
        let inside = self.renderer.bare(&[place.before.as_str(), user, place.after.as_str()].concat());
        self.opening.is_verbatim = self.full as isize == place.outside + inside as isize;
    }

    /// The template writes contents otherwise than they are, so what a content makes of a request is only known by rendering.
    pub(crate) const fn rewrites(&self) -> bool {
        !self.opening.is_verbatim
    }

    /// What is left of the white space around the first content of a request.
    pub(crate) fn written<'a>(&self, content: &'a str) -> &'a str {
        if self.edges == Edges::Dropped { tight(content) } else { content }
    }

    /// Tokens that system message and user context, of `tokens` tokens alone, add to a request.
    pub(crate) fn beside(&self, contents: &[&str], tokens: u64) -> u64 {
        if self.rewrites() {
            return self.render_first(contents, SAMPLE).saturating_sub(self.alone) as u64;
        }
        tokens.saturating_add_signed(self.wraps as i64)
    }

    /// What `prefix` in front of a user message adds to a request, for a template that rewrites contents.
    pub(crate) fn prefix_rewritten(&self, contents: &[&str], prefix: &str) -> u64 {
        let with = self.render_first(contents, &[prefix, " ", SAMPLE].concat());
        with.saturating_sub(self.render_first(contents, SAMPLE)) as u64
    }

    /// Whether `content`, which is `tokens` alone, is as many as content number `at` of the first request. Where contents are
    /// rewritten, it is taken for so.
    pub(crate) fn keeps(&self, at: usize, content: &str, tokens: usize) -> bool {
        if self.rewrites() {
            return true;
        }
        let added = |in_place: usize, alone: usize| in_place as isize - alone as isize;
        if let Some((before, after)) = self.opening.walls_around(at) {
            let inside = |content: &str| self.renderer.bare(&[before, content, after].concat());
            return added(inside(content), tokens) == added(inside(SAMPLE), self.sample);
        }
        let contents = self.roles.iter().enumerate().map(|(i, _)| if i == at { content } else { SAMPLE });
        added(self.render(contents), tokens) == added(self.full, self.sample)
    }

    /// Where the first user message goes behind the contents of the messages before it.
    pub(crate) fn first(&self, others: &[&str]) -> Place {
        let is_loose = |content: &&str| tight(content) != *content;
        let is_odd = self.edges == Edges::Odd && others.iter().any(is_loose);
        if is_odd || !self.opening.is_verbatim {
            return Place::rendered();
        }
        let others: Vec<&str> = others.iter().map(|content| self.written(content)).collect();
        let around = self.renderer.around(&self.opening, &others, others.len());
        Place {
            before: around.before,
            after: around.after,
            outside: around.outside as isize,
            is_rendered: false,
        }
    }

    /// Tokens of the first request.
    pub(crate) fn render_first(&self, others: &[&str], user: &str) -> usize {
        self.render(others.iter().copied().chain([user]))
    }

    fn render<'a>(&self, contents: impl Iterator<Item = &'a str>) -> usize {
        let messages: Vec<Message<'_>> = self.roles.iter().copied().zip(contents).collect();
        // A text that the template refuses, though not others, is none that fits.
        self.renderer.count(&messages, self.renderer.generation()).unwrap_or(REFUSED)
    }

    /// Where a later user message goes, and whether it must be rendered.
    pub(crate) fn later(&self) -> Place {
        match &self.later {
            Later::Around { before, after, outside } => {
                Place { before: before.clone(), after: after.clone(), outside: *outside, is_rendered: false }
            }
            Later::Rendered { .. } => Place::rendered(),
        }
    }

    /// Tokens of a later user message's part of a request.
    pub(crate) fn render_later(&self, user: &str) -> usize {
        let Later::Rendered { without } = self.later else { return 0 };
        let talk = [(USER, SAMPLE), (ASSISTANT, FIGURES), (USER, user)];
        self.renderer.count(&talk, false).unwrap_or(REFUSED).saturating_sub(without)
    }
}

/// Whether `opening` lacks something that `plain` has: the template's own system message. What a message only adds to, is found
/// in its two parts again.
fn is_replaced(plain: &Layout, opening: &Layout) -> bool {
    let old = plain.piece(0);
    let new = [opening.piece(0), opening.piece(1)].concat();
    let same = |pairs: &mut dyn Iterator<Item = (u8, u8)>| pairs.take_while(|(a, b)| a == b).count();
    let front = same(&mut old.bytes().zip(new.bytes()));
    let back = same(&mut old.bytes().rev().zip(new.bytes().rev()));
    front + back < old.len()
}

impl Edges {
    fn of(renderer: &Renderer, opening: &Layout, roles: &[&str]) -> Result<Self, TemplateError> {
        let contents = |first: &str| -> Vec<String> {
            roles.iter().enumerate().map(|(i, _)| if i == 0 { first } else { SAMPLE }.to_owned()).collect()
        };
        let loose = contents(LOOSE);
        let messages: Vec<Message<'_>> =
            roles.iter().copied().zip(loose.iter().map(String::as_str)).collect();
        let rendered = renderer.render(&messages, renderer.generation())?;
        Ok(match rendered {
            _ if !opening.is_verbatim => Self::Odd,
            text if text == opening.join(&loose) => Self::Kept,
            text if text == opening.join(&contents(tight(LOOSE))) => Self::Dropped,
            _ => Self::Odd,
        })
    }
}

impl Later {
    fn of(renderer: &Renderer) -> Result<Self, TemplateError> {
        let talk = renderer.layout(&[USER, ASSISTANT, USER], false)?;
        let answered = renderer.layout(&[USER, ASSISTANT], false)?;
        // Replies are rewritten by many templates (trimmed, without what was thought), so that the whole need not be verbatim.
        let user = renderer.layout(&[USER], false)?;
        if talk.piece(2).is_empty() || !user.is_verbatim {
            return Self::rendered(renderer);
        }
        let lead = talk.piece(2);
        // The reply's end mark: what ends it at the end of a talk, too.
        let mark_end = match (answered.first_wall(2), talk.first_wall(2)) {
            (Some(_), Some(wall)) => wall.end,
            _ => shared(answered.piece(2), lead),
        };
        let tail = talk.piece(3);
        let own_end = talk.first_wall(3).map_or(tail.len(), |wall| wall.end);
        let after = tail[..own_end].to_owned();
        let count = |text: &str| renderer.bare(text) as isize;
        // From the last special token on. Where that is the reply's end mark, it is counted with the text and is not the user's.
        Ok(match talk.last_wall(2) {
            Some(wall) if wall.start >= mark_end => {
                let outside = count(&lead[..wall.start]) - count(&lead[..mark_end]);
                Self::Around { before: lead[wall.start..].to_owned(), after, outside }
            }
            Some(wall) => Self::Around {
                before: lead[wall.start..].to_owned(),
                after,
                outside: -count(&lead[wall.start..mark_end]),
            },
            // Nothing keeps it apart from the reply, so it is counted behind one.
            None => Self::Around {
                before: [FIGURES, lead].concat(),
                after,
                outside: -count(&[FIGURES, &lead[..mark_end]].concat()),
            },
        })
    }

    /// By the special tokens of a rendered talk alone: behind the first one that ends the reply, up to the last of all.
    fn rendered(renderer: &Renderer) -> Result<Self, TemplateError> {
        let talk = [(USER, SAMPLE), (ASSISTANT, FIGURES), (USER, SAMPLE)];
        let whole = renderer.count(&talk, false)?;
        let answered = renderer.count(&talk[..2], false)?;
        let behind_reply = |talk: &[Message<'_>]| -> Result<Option<String>, TemplateError> {
            let text = renderer.render(talk, false)?;
            Ok(text.rsplit_once(FIGURES).map(|(_, behind)| behind.to_owned()))
        };
        let (Some(behind), Some(end)) = (behind_reply(&talk)?, behind_reply(&talk[..2])?) else {
            return Ok(Self::Rendered { without: answered });
        };
        let walls = renderer.walls(&behind);
        Ok(match (walls, renderer.walls(&end)) {
            (Some((first, last)), Some(_)) if first.end < last.end => {
                let part = renderer.bare(&behind[first.start..last.end]) - renderer.bare(&behind[first]);
                Self::Rendered { without: whole.saturating_sub(part) }
            }
            _ => Self::Rendered { without: answered },
        })
    }
}

/// Bytes that two texts begin with alike, whole letters.
fn shared(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}
