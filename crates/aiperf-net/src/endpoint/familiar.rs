//! Events that were read before, in any answer of a run, with what they mean.
//!
//! A server repeats its events from answer to answer, but for the answer's id and time, the text, and counts. The same bytes around
//! those mean the same again, so all but the first answers need no JSON reader for what is no text either: the chunk with the role, the
//! one with the finish reason, the one with the counts, and whole answers. This is about OpenAI's chat and completions, whose ids and
//! times are not looked at.

use std::ops::Range;

use aiperf_core::usage::Usage;
use memchr::memchr2;

use super::chunk::Channel;
use crate::usage::read_usage;

/// Kinds of events kept; of more, the oldest gives way.
const KINDS: usize = 16;
/// Kinds learnt at most: a server whose events are never alike is not to be learnt for ever.
const LESSONS: u32 = 128;

/// What was seen so far; see the module. One may serve all answers of one endpoint, and is best used for many.
#[derive(Debug, Default)]
pub struct Familiar {
    kinds: Vec<Kind>,
    /// Where the next new one goes once there are [`KINDS`].
    oldest: usize,
    /// Behind the last one met: events come in turn.
    next: usize,
    /// Kinds learnt so far.
    lessons: u32,
}

/// What an event says beside its text and its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meaning {
    /// The model that answers, if it is named.
    pub(super) model: Option<Box<str>>,
    /// The choice's number; none in an event without choices.
    pub(super) choice: Option<i64>,
    pub(super) finish_reason: Option<Box<str>>,
}

/// The parts of an event that differ from one like it: their places in its bytes.
#[derive(Debug, Default)]
pub(super) struct Holes {
    /// The content of the string that names the answer.
    pub(super) id: Option<Range<usize>>,
    /// The digits of its time.
    pub(super) created: Option<Range<usize>>,
    /// The content of its one text, and what that is.
    pub(super) text: Option<(Range<usize>, Channel)>,
    /// The object with the counts.
    pub(super) usage: Option<Range<usize>>,
}

/// An event that was recognized.
#[derive(Debug)]
pub(super) struct Met<'f, 'd> {
    pub(super) meaning: &'f Meaning,
    pub(super) text: Option<(&'d str, Channel)>,
    pub(super) usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hole {
    Id,
    Created,
    Text(Channel),
    Usage,
}

#[derive(Debug)]
struct Kind {
    head: Box<[u8]>,
    /// The holes in their order, each with the bytes behind it.
    rest: Vec<(Hole, Box<[u8]>)>,
    meaning: Meaning,
    /// The counts that it held last, for where all requests are alike they are too.
    counted: (Vec<u8>, Usage),
}

impl Familiar {
    /// None seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many kinds it knows.
    #[cfg(test)]
    pub(super) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// What `data` says, if it is like an event that was learnt.
    pub(super) fn meet<'d>(&mut self, data: &'d [u8]) -> Option<Met<'_, 'd>> {
        let count = self.kinds.len();
        let mut places = (self.next..count).chain(0..self.next);
        let (at, text, usage) = places.find_map(|at| {
            let (text, usage) = self.kinds[at].holds(data)?;
            Some((at, text, usage))
        })?;
        // The text of a stream comes as often as it likes, and then has a frame.
        self.next = (at + 1) % count;
        Some(Met { meaning: &self.kinds[at].meaning, text, usage })
    }

    /// Keeps what `data` said, which was valid JSON.
    pub(super) fn learn(&mut self, data: &[u8], holes: Holes, meaning: Meaning) {
        if self.lessons == LESSONS {
            return;
        }
        self.lessons += 1;
        let Some(kind) = Kind::of(data, holes, meaning) else { return };
        if self.kinds.len() < KINDS {
            self.kinds.push(kind);
        } else {
            self.kinds[self.oldest] = kind;
            self.oldest = (self.oldest + 1) % KINDS;
        }
    }
}

impl Kind {
    /// `None` for data in which the places of the holes make no sense.
    fn of(data: &[u8], holes: Holes, meaning: Meaning) -> Option<Self> {
        let mut places: Vec<(Range<usize>, Hole)> = [
            holes.id.map(|place| (place, Hole::Id)),
            holes.created.map(|place| (place, Hole::Created)),
            holes.text.map(|(place, channel)| (place, Hole::Text(channel))),
            holes.usage.map(|place| (place, Hole::Usage)),
        ]
        .into_iter()
        .flatten()
        .collect();
        places.sort_unstable_by_key(|(place, _)| place.start);
        let head = data.get(..places.first().map_or(data.len(), |(place, _)| place.start))?.into();
        let mut rest = Vec::with_capacity(places.len());
        for (i, (place, hole)) in places.iter().enumerate() {
            let end = places.get(i + 1).map_or(data.len(), |(next, _)| next.start);
            rest.push((*hole, data.get(place.end..end)?.into()));
        }
        let mut kind = Self { head, rest, meaning, counted: Default::default() };
        // What does not know itself again, because a hole holds something odd, would only be in the way.
        kind.holds(data).is_some().then_some(kind)
    }

    /// What its holes hold in `data`; `None` when `data` is not like it.
    #[expect(clippy::type_complexity, reason = "the two holes whose content matters")]
    fn holds<'d>(&mut self, data: &'d [u8]) -> Option<(Option<(&'d str, Channel)>, Option<Usage>)> {
        let mut left = data.strip_prefix(&*self.head)?;
        let (mut text, mut usage) = (None, None);
        for (i, (hole, behind)) in self.rest.iter().enumerate() {
            let len = match hole {
                Hole::Id => plain(left)?.len(),
                Hole::Created => left.iter().take_while(|b| b.is_ascii_digit()).count(),
                Hole::Text(channel) => {
                    // Without a text, other fields would be looked at.
                    let found = std::str::from_utf8(plain(left)?).ok().filter(|found| !found.is_empty())?;
                    text = Some((found, *channel));
                    found.len()
                }
                // The last hole: where an object ends, only its reader knows.
                Hole::Usage if i + 1 == self.rest.len() => left.len().checked_sub(behind.len())?,
                Hole::Usage => return None,
            };
            let (content, tail) = left.split_at(len);
            left = tail.strip_prefix(&**behind)?;
            match hole {
                Hole::Usage => {
                    if self.counted.0 != content {
                        self.counted.1 = counts(content)?;
                        self.counted.0.clear();
                        self.counted.0.extend_from_slice(content);
                    }
                    usage = Some(self.counted.1);
                }
                // A number does not begin with 0, and one must be there.
                Hole::Created if content.is_empty() || (len > 1 && content[0] == b'0') || len > 18 => {
                    return None;
                }
                _ => {}
            }
        }
        left.is_empty().then_some((text, usage))
    }
}

/// The content of a string up to its closing quote, if it needs no unescaping.
fn plain(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr2(b'"', b'\\', bytes)?;
    let text = &bytes[..end];
    (bytes[end] == b'"' && text.iter().all(|b| *b >= 0x20)).then_some(text)
}

/// The counts of a JSON object that has some; `None` too for what is no object.
fn counts(json: &[u8]) -> Option<Usage> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let usage = read_usage(&mut reader)?;
    reader.end().ok()?;
    Some(usage)
}
