//! Contents of synthetic requests, each made to its length: a shared system message, a user context, prefixes, and the texts of
//! turns.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use aiperf_core::conversation::Marker;
use aiperf_core::plan::{CorpusPlan, Plan, SyntheticPlan};
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;

use crate::corpus::{SONNET, coding};
use crate::cut::Cutter;
use crate::error::DataError;
use crate::random::{Parity, Random};
use crate::slot::{Slot, words_from};

const SYSTEM: &str = "dataset.prompt.system";
const CONTEXT: &str = "dataset.prompt.context";
/// Contents tried for one that counts the same alone and in its message.
const ATTEMPTS: u64 = 24;
/// Further contents of an entry have numbers beyond those of all entries.
const ATTEMPT_SHIFT: u32 = 40;

/// Makes texts by position.
#[derive(Debug)]
pub(crate) struct Texts {
    tokenizer: Arc<dyn Tokenizer>,
    source: Source,
    key: Key,
    prefix_tokens: usize,
    /// Prefixes cut from a corpus, made when first asked for.
    prefixes: Box<[OnceLock<Result<Prefix, usize>>]>,
}

/// Where texts come from.
#[derive(Debug)]
enum Source {
    Cut(Cutter),
    Random(Box<Random>),
}

/// A beginning that prompts share, in parts whose counts add up.
#[derive(Debug, Clone)]
struct Prefix {
    text: String,
    /// End of the part that what stands before the prefix may change the count of.
    head: usize,
    /// Tokens behind the head.
    rest_tokens: usize,
}

impl Texts {
    /// Reads nothing yet.
    pub(crate) fn new(
        plan: &Plan,
        set: &SyntheticPlan,
        tokenizer: Arc<dyn Tokenizer>,
    ) -> Result<Self, DataError> {
        let cut = |corpus| Source::Cut(Cutter::new(corpus, Arc::clone(&tokenizer)));
        let source = match set.corpus {
            CorpusPlan::Sonnet => cut(Arc::clone(&SONNET)),
            CorpusPlan::Coding => cut(coding(plan.seed)),
            CorpusPlan::Random => {
                Source::Random(Box::new(Random::new(set, plan.seed, Arc::clone(&tokenizer))?))
            }
        };
        let prefixes = set.prefixes.map_or(0, |prefixes| prefixes.pool);
        Ok(Self {
            source,
            key: Key::new(plan.seed),
            prefix_tokens: set.prefixes.map_or(0, |prefixes| prefixes.tokens as usize),
            prefixes: (0..prefixes).map(|_| OnceLock::new()).collect(),
            tokenizer,
        })
    }

    /// The draws of another tool, where prompts are its.
    pub(crate) fn parity(&self) -> Option<&Parity> {
        match &self.source {
            Source::Random(random) => random.parity(),
            Source::Cut(_) => None,
        }
    }

    /// The shared system message of exactly `tokens` tokens, a marker that lands on it inside. `fits` says whether one is as good
    /// inside the request; the first that is good alone is taken where none of some is.
    pub(crate) fn system(
        &self,
        tokens: usize,
        marker: Option<&Marker>,
        fits: &dyn Fn(&str) -> bool,
    ) -> Result<String, DataError> {
        self.fitting(SYSTEM, 0, tokens, marker, fits)
    }

    /// The user context of an entry, as the system message.
    pub(crate) fn context(
        &self,
        entry: u64,
        tokens: usize,
        fits: &dyn Fn(&str) -> bool,
    ) -> Result<String, DataError> {
        self.fitting(CONTEXT, entry, tokens, None, fits)
    }

    fn fitting(
        &self,
        purpose: &'static str,
        number: u64,
        tokens: usize,
        marker: Option<&Marker>,
        fits: &dyn Fn(&str) -> bool,
    ) -> Result<String, DataError> {
        let first = self.content(purpose, number, tokens, marker)?;
        if fits(&first) {
            return Ok(first);
        }
        let other =
            |attempt: u64| self.content(purpose, number + (attempt << ATTEMPT_SHIFT), tokens, marker).ok();
        Ok((1..ATTEMPTS).filter_map(other).find(|content| fits(content)).unwrap_or(first))
    }

    fn content(
        &self,
        purpose: &'static str,
        number: u64,
        tokens: usize,
        marker: Option<&Marker>,
    ) -> Result<String, DataError> {
        let slot = Slot {
            before: marker.map_or("", Marker::before),
            after: marker.map_or("", Marker::after),
            is_tight: true,
            ..Slot::bare(tokens)
        };
        let made = match &self.source {
            Source::Cut(cutter) => cut(cutter, self.key.purpose(purpose), number, slot),
            Source::Random(random) => random.other(purpose, number, slot),
        };
        let text = self.told(made, slot)?;
        Ok([slot.before, text.as_str(), slot.after].concat())
    }

    /// The content of a prompt: text number `number` of the workload, behind its prefix where it has one, with its marker, in a
    /// slot that says what stands around the content and what all of it is to be. And what it is: other tools' prompts do not always
    /// have the length that was drawn for them.
    pub(crate) fn prompt(
        &self,
        number: u64,
        slot: Slot<'_>,
        marker: Option<&Marker>,
        prefix: Option<usize>,
    ) -> Result<(String, usize), DataError> {
        let (before, after) = (marker.map_or("", Marker::before), marker.map_or("", Marker::after));
        match &self.source {
            Source::Random(random) => {
                let wrapped;
                let inner = match slot.render {
                    Some(render) if marker.is_some() => {
                        wrapped = move |text: &str| render(&[before, text, after].concat());
                        Slot { render: Some(&wrapped), ..slot }
                    }
                    _ => slot,
                };
                let (lead, trail) = ([slot.before, before].concat(), [after, slot.after].concat());
                let inner = Slot { before: &lead, after: &trail, ..inner };
                let made = random.prompt(number, inner, prefix);
                let (text, tokens) = made.map_err(|nearest| self.untold(nearest, slot))?;
                Ok(([before, text.as_str(), after].concat(), tokens))
            }
            Source::Cut(cutter) => {
                let prefix = prefix.map(|at| self.prefix(cutter, at)).transpose()?;
                let shared = prefix.map_or("", |prefix| prefix.text.as_str());
                let wrapped;
                let render = match slot.render {
                    Some(render) => {
                        wrapped = move |text: &str| render(&[before, shared, text, after].concat());
                        Some(&wrapped as &dyn Fn(&str) -> usize)
                    }
                    None => None,
                };
                let (lead, trail) = ([slot.before, before].concat(), [after, slot.after].concat());
                let (lead, known) = match prefix {
                    Some(prefix) => {
                        let known = prefix.tokens_behind(&*self.tokenizer, &lead);
                        ([lead.as_str(), shared].concat(), Some(known))
                    }
                    None => (lead, None),
                };
                let inner = Slot {
                    before: &lead,
                    after: &trail,
                    joins: prefix.is_some(),
                    before_tokens: known,
                    render,
                    ..slot
                };
                // Behind a prefix nothing need follow.
                let is_near = known.is_some_and(|known| inner.tokens <= known + trail.len());
                if prefix.is_some() && is_near && inner.count(&*self.tokenizer, "") == inner.tokens {
                    return Ok(([before, shared, after].concat(), slot.tokens));
                }
                let stream = self.key.purpose("dataset.prompt.corpus");
                let text = self.told(cut(cutter, stream, number, inner), slot)?;
                Ok(([before, shared, text.as_str(), after].concat(), slot.tokens))
            }
        }
    }

    /// The text of prefix number `at`.
    pub(crate) fn shared(&self, at: usize) -> Result<Cow<'_, str>, DataError> {
        Ok(match &self.source {
            Source::Cut(cutter) => self.prefix(cutter, at)?.text.as_str().into(),
            Source::Random(random) => self.tokenizer.decode(random.prefix(at)).into(),
        })
    }

    fn prefix(&self, cutter: &Cutter, at: usize) -> Result<&Prefix, DataError> {
        let slot = Slot::bare(self.prefix_tokens);
        let made = self.prefixes[at].get_or_init(|| {
            let text = cut(cutter, self.key.purpose("dataset.prompt.prefix"), at as u64, slot)?;
            Ok(Prefix::new(&*self.tokenizer, text))
        });
        made.as_ref().map_err(|nearest| self.untold(*nearest, slot))
    }

    fn told(&self, made: Result<String, usize>, slot: Slot<'_>) -> Result<String, DataError> {
        made.map_err(|nearest| self.untold(nearest, slot))
    }

    fn untold(&self, nearest: usize, slot: Slot<'_>) -> DataError {
        DataError::NoTextOfLength { tokenizer: self.tokenizer.name().to_owned(), asked: slot.tokens, nearest }
    }
}

fn cut(cutter: &Cutter, stream: Stream, number: u64, slot: Slot<'_>) -> Result<String, usize> {
    cutter.cut(cutter.corpus().start(stream, number), slot)
}

impl Prefix {
    /// Words at the start that are counted again with what stands before them.
    const HEAD_WORDS: usize = 4;

    fn new(tokenizer: &dyn Tokenizer, text: String) -> Self {
        let head = words_from(&text).nth(Self::HEAD_WORDS).unwrap_or(text.len());
        let whole = tokenizer.count(&text);
        let head_tokens = tokenizer.count(&text[..head]);
        Self { head, rest_tokens: whole.saturating_sub(head_tokens), text }
    }

    /// Tokens of `before` and the prefix together.
    fn tokens_behind(&self, tokenizer: &dyn Tokenizer, before: &str) -> usize {
        tokenizer.count(&[before, &self.text[..self.head]].concat()) + self.rest_tokens
    }
}
