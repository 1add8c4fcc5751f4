//! How long a request is beside the texts that are made for it, where lengths are those of the rendered request.
//!
//! The first user message owns what the request has once (BOS, a default system message, the beginning of the answer) and its own
//! wrap. A system message and a user-context message each add their content and their own wrap. A later user message owns its
//! part of the rendered request: from the end mark of the reply before it, which is the reply's, to its own.

use aiperf_tokens::TemplateError;

use crate::error::DataError;
use crate::layout::{Layout, Message, Renderer};
use crate::slot::Slot;

/// A content to measure wraps with; one that nothing merges with.
const SAMPLE: &str = "words and more words";
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
    /// What system message and user context add beside their contents, tokens.
    wraps: usize,
    later: Later,
}

/// A later user message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Later {
    /// What stands around it from wall to wall, and tokens of its part that stand outside.
    Around { before: String, after: String, outside: isize },
    /// The template does more than put something around it; counted as the difference that the message makes.
    Rendered,
}

/// Where the text of a user message goes.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    /// What stands before it.
    pub(crate) before: String,
    /// What stands behind it.
    pub(crate) after: String,
    /// Tokens that are counted and stand outside; less than none where the slot holds some that are not the message's.
    pub(crate) outside: isize,
    /// The messages before it, if the request has to be rendered to be counted.
    pub(crate) rendered: Option<Vec<Message<'a>>>,
}

impl Place<'_> {
    /// The slot in which all is `tokens`.
    pub(crate) fn slot(&self, tokens: usize) -> Slot<'_> {
        Slot { before: &self.before, after: &self.after, ..Slot::bare(tokens) }
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
        let refuses =
            |what: &'static str| move |problem: TemplateError| DataError::Template { what, problem };
        let plain = renderer.layout(&[USER], generation).map_err(refuses("a user message"))?;
        let mut roles = Vec::new();
        let mut wraps = 0;
        let mut before: Vec<Message<'_>> = Vec::new();
        let count = |messages: &[Message<'_>]| renderer.count(messages, generation);
        let sample = renderer.bare(SAMPLE);
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
                    Ok(twice) if twice > with + sample => twice - with - sample,
                    _ => with.saturating_sub(without + sample),
                }
            } else {
                with.saturating_sub(without + sample)
            };
        }
        if has_context {
            let refused =
                refuses("a user context before the first user message (--user-context-prompt-length)");
            roles.push(USER);
            let with = [before.as_slice(), &[(USER, SAMPLE), (USER, SAMPLE)]].concat();
            let without = [before.as_slice(), &[(USER, SAMPLE)]].concat();
            wraps +=
                count(&with).map_err(refused)?.saturating_sub(count(&without).map_err(refused)? + sample);
        }
        roles.push(USER);
        let opening = renderer.layout(&roles, generation).map_err(refuses("these messages"))?;
        let later = if later {
            Later::of(&renderer)
                .map_err(refuses("a user message behind an answer (--conversation-turn-mean)"))?
        } else {
            Later::Rendered
        };
        let mut framing = Self { renderer, opening, roles, sample, wraps, later };
        framing.prove();
        Ok(framing)
    }

    /// Holds what walls give against rendering, and does without them where they are wrong.
    fn prove(&mut self) {
        let contents: Vec<&str> = self.roles.iter().map(|_| SAMPLE).collect();
        let (user, others) = contents.split_last().unwrap_or((&"", &[]));
        let place = self.first(others);
        if place.rendered.is_some() {
            return;
        }
        let inside = self.renderer.bare(&[place.before.as_str(), user, place.after.as_str()].concat());
        let rendered = self.render_first(others, user) as isize;
        self.opening.is_verbatim = rendered == place.outside + inside as isize;
    }

    /// What system message and user context add beside their contents.
    pub(crate) const fn wraps(&self) -> usize {
        self.wraps
    }

    /// Whether `content`, which is `tokens` alone, is as many as content number `at` of the first request. Where walls do not say,
    /// it is taken for so.
    pub(crate) fn keeps(&self, at: usize, content: &str, tokens: usize) -> bool {
        if !self.opening.is_verbatim {
            return true;
        }
        let Some((before, after)) = self.opening.walls_around(at) else { return true };
        let inside = |content: &str| self.renderer.bare(&[before, content, after].concat());
        inside(content) as isize - tokens as isize == inside(SAMPLE) as isize - self.sample as isize
    }

    /// Where the first user message goes behind the contents of the messages before it.
    pub(crate) fn first<'a>(&self, others: &[&'a str]) -> Place<'a> {
        if !self.opening.is_verbatim {
            let messages = self.roles.iter().copied().zip(others.iter().copied()).collect();
            return Place {
                before: String::new(),
                after: String::new(),
                outside: 0,
                rendered: Some(messages),
            };
        }
        let around = self.renderer.around(&self.opening, others, others.len());
        Place { before: around.before, after: around.after, outside: around.outside as isize, rendered: None }
    }

    /// Tokens of the first request.
    pub(crate) fn render_first(&self, others: &[&str], user: &str) -> usize {
        let contents = others.iter().copied().chain([user]);
        let messages: Vec<Message<'_>> = self.roles.iter().copied().zip(contents).collect();
        // What a template refuses of one text but not of another is found by whoever counts the request again.
        self.renderer.count(&messages, self.renderer.generation()).unwrap_or(0)
    }

    /// Where a later user message goes, and whether it must be rendered.
    pub(crate) fn later(&self) -> Place<'static> {
        match &self.later {
            Later::Around { before, after, outside } => {
                Place { before: before.clone(), after: after.clone(), outside: *outside, rendered: None }
            }
            Later::Rendered => {
                Place { before: String::new(), after: String::new(), outside: 0, rendered: Some(Vec::new()) }
            }
        }
    }

    /// Tokens that a later user message adds to a request.
    pub(crate) fn render_later(&self, user: &str) -> usize {
        let talk = [(USER, SAMPLE), (ASSISTANT, SAMPLE), (USER, user)];
        let count = |messages: &[Message<'_>]| self.renderer.count(messages, false).unwrap_or(0);
        count(&talk).saturating_sub(count(&talk[..2]))
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

impl Later {
    fn of(renderer: &Renderer) -> Result<Self, TemplateError> {
        let talk = renderer.layout(&[USER, ASSISTANT, USER], false)?;
        let answered = renderer.layout(&[USER, ASSISTANT], false)?;
        // Replies are rewritten by many templates (trimmed, without what was thought), so that the whole need not be verbatim.
        let user = renderer.layout(&[USER], false)?;
        if talk.piece(2).is_empty() || !user.is_verbatim {
            return Ok(Self::Rendered);
        }
        // The reply ends with a mark of its own if it does so at the end of a talk, too.
        let has_end_mark = answered.first_wall(2).is_some();
        let lead = talk.piece(2);
        let mark_end = talk.first_wall(2).filter(|_| has_end_mark).map_or(0, |wall| wall.end);
        let tail = talk.piece(3);
        let own_end = talk.first_wall(3).map_or(tail.len(), |wall| wall.end);
        // From the last special token on. Where that is the reply's end mark, it is counted with the text and is not the user's.
        let from = talk.last_wall(2).map_or(0, |wall| wall.start);
        let count = |text: &str| renderer.bare(text) as isize;
        let outside = if from >= mark_end {
            count(&lead[..from]) - count(&lead[..mark_end])
        } else {
            -count(&lead[from..mark_end])
        };
        Ok(Self::Around { before: lead[from..].to_owned(), after: tail[..own_end].to_owned(), outside })
    }
}
