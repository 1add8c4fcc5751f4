//! Prompts of vocabulary tokens one after the other, as `vllm bench serve` and SGLang's benchmark make them.
//!
//! A text of n tokens is n ids in a row from a drawn place of the vocabulary on, as text. Ids seldom encode back as they were,
//! so the text is encoded, cut or topped up, and so on, until it has its length ([`correct`]).
//!
//! With a range ratio the prompts are those of the tool whose style was chosen, token for token ([`Parity`]): that tool's
//! generator, its order of draws, its windows. Without one, draws are keyed by position like all others of this crate, and a
//! text that the tools' loop leaves at a wrong length is mended.

mod correct;
#[cfg(test)]
mod goldens;
mod parity;

use std::sync::{Arc, OnceLock};

use aiperf_core::plan::{LengthsPlan, RandomStyle, SyntheticPlan};
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;

use self::correct::{correct, mend};
pub(crate) use self::parity::Parity;
use crate::error::DataError;
use crate::slot::{Slot, tight};

/// How often a text is doubled that a template makes less of.
const MOST_DOUBLINGS: usize = 8;

/// Makes random texts by position.
#[derive(Debug)]
pub(crate) struct Random {
    pools: Pools,
    key: Key,
    offsets: Stream,
    prefix_tokens: usize,
    /// Ids of the prefixes; those of a tool are in `parity`.
    prefixes: Box<[OnceLock<Vec<u32>>]>,
    parity: Option<Parity>,
}

/// The vocabulary as the styles use it.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    /// Ids that bodies and prefixes are made of.
    pub(crate) body: Vec<u32>,
    /// Ids that top-ups are drawn from, where they are others.
    pub(crate) other_top_ups: Option<Vec<u32>>,
}

impl Pools {
    pub(crate) fn new(style: RandomStyle, tokenizer: Arc<dyn Tokenizer>) -> Result<Self, DataError> {
        let all = tokenizer.token_ids();
        let body: Vec<u32> = match style {
            RandomStyle::Vllm => all.iter().copied().filter(|id| !tokenizer.is_special(*id)).collect(),
            RandomStyle::Sglang | RandomStyle::SglangStrict => all.clone(),
        };
        if body.is_empty() {
            return Err(DataError::NoVocabulary { tokenizer: tokenizer.name().to_owned() });
        }
        let other_top_ups = (body.len() != all.len()).then_some(all);
        Ok(Self { tokenizer, body, other_top_ups })
    }

    /// Ids that top-ups are drawn from.
    pub(crate) fn top_ups(&self) -> &[u32] {
        self.other_top_ups.as_deref().unwrap_or(&self.body)
    }

    /// `length` ids in a row from `offset` on, as text number `text` has them.
    pub(crate) fn row(&self, offset: u64, text: u64, length: usize) -> impl Iterator<Item = u32> + '_ {
        let pool = self.body.len() as u64;
        let from = ((offset % pool + text % pool) % pool) as usize;
        self.body[from..].iter().chain(self.body.iter().cycle()).copied().take(length)
    }
}

impl Random {
    /// With a range ratio in `set`, the tool's own draws; otherwise keyed ones.
    pub(crate) fn new(
        set: &SyntheticPlan,
        seed: u64,
        tokenizer: Arc<dyn Tokenizer>,
    ) -> Result<Self, DataError> {
        let key = Key::new(seed);
        let pools = Pools::new(set.style, tokenizer)?;
        let parity = match &set.lengths {
            LengthsPlan::Window(window) => Some(Parity::new(set, window, seed, &pools)?),
            LengthsPlan::Apart { .. } | LengthsPlan::Pairs(_) => None,
        };
        let prefixes = set.prefixes.map_or(0, |p| p.pool);
        Ok(Self {
            pools,
            key,
            offsets: key.purpose("dataset.random.offset"),
            prefix_tokens: set.prefixes.map_or(0, |p| p.tokens as usize),
            prefixes: (0..prefixes).map(|_| OnceLock::new()).collect(),
            parity,
        })
    }

    /// The tool's own draws, where there are any.
    pub(crate) fn parity(&self) -> Option<&Parity> {
        self.parity.as_ref()
    }

    /// Text number `text` of the workload, behind its prefix if it has one, both together of the slot's tokens; for the tools' own
    /// draws, as long as they make it where nothing stands around it, with how long that is. The error is the nearest count there is.
    pub(crate) fn prompt(
        &self,
        text: u64,
        slot: Slot<'_>,
        prefix: Option<usize>,
    ) -> Result<(String, usize), usize> {
        let drawn =
            self.parity.as_ref().and_then(|parity| parity.offset(text).map(|offset| (parity, offset)));
        if let Some((parity, _)) = drawn
            && slot.is_bare()
        {
            return Ok(parity.text(&self.pools, text));
        }
        let offset = drawn.map_or_else(|| self.live_offset(self.offsets, text), |(_, offset)| offset);
        let prefix = prefix.map_or(&[][..], |at| self.prefix(at));
        let made = self.keyed(offset, text, self.key.purpose("dataset.random.top_up"), slot, prefix)?;
        Ok((made, slot.tokens))
    }

    /// Text number `text` of another use than prompts: a system message, a user context. `purpose` keeps it apart from prompts, so
    /// that those begin where they would without it.
    pub(crate) fn other(&self, purpose: &'static str, text: u64, slot: Slot<'_>) -> Result<String, usize> {
        let stream = self.key.purpose(purpose);
        let top_ups = stream.lane(1);
        self.keyed(self.live_offset(stream, text), text, top_ups, slot, &[])
    }

    /// The ids of a prefix, made when first asked for.
    pub(crate) fn prefix(&self, at: usize) -> &[u32] {
        if let Some(drawn) = self.parity.as_ref().and_then(|parity| parity.prefix(at)) {
            return drawn;
        }
        let Some(cell) = self.prefixes.get(at) else { return &[] };
        cell.get_or_init(|| {
            let stream = self.key.purpose("dataset.prompt.prefix");
            let offset = self.live_offset(stream, at as u64);
            let ids: Vec<u32> = self.pools.row(offset, at as u64, self.prefix_tokens).collect();
            let pool = self.pools.top_ups();
            let mut draws = stream.lane(1).at(at as u64);
            let tokenizer = self.pools.tokenizer.as_ref();
            let made = correct(tokenizer, &ids, self.prefix_tokens, || pool[draws.position(pool.len())]);
            // What the loop leaves at a wrong length is put right together with the text behind it.
            made.ids
        })
    }

    /// A place of the vocabulary that no tool drew.
    fn live_offset(&self, stream: Stream, text: u64) -> u64 {
        stream.at(text).below(self.pools.body.len() as u64)
    }

    fn keyed(
        &self,
        offset: u64,
        text: u64,
        top_ups: Stream,
        slot: Slot<'_>,
        prefix: &[u32],
    ) -> Result<String, usize> {
        let tokenizer = self.pools.tokenizer.as_ref();
        let around = if slot.is_bare() { 0 } else { slot.count(tokenizer, "") };
        let mut bare = slot.tokens.saturating_sub(around);
        let pool = self.pools.top_ups();
        let draft_of = |bare: usize| {
            let body = self.pools.row(offset, text, bare.saturating_sub(prefix.len()));
            let ids: Vec<u32> = prefix.iter().copied().chain(body).collect();
            let mut draws = top_ups.at(text);
            correct(tokenizer, &ids, bare, || pool[draws.position(pool.len())])
        };
        let mut draft = draft_of(bare);
        if slot.is_bare() && draft.ids.len() == bare && !draft.text.is_empty() {
            // A template may drop white space around a message, so a text keeps off it even where no template is counted.
            if tight(&draft.text).len() == draft.text.len() {
                return Ok(draft.text);
            }
        }
        let slot = Slot { is_tight: true, ..slot };
        let mut made = slot.count(tokenizer, tight(&draft.text));
        if slot.render.is_some() {
            // A template that rewrites texts makes more of them, or less.
            for _ in 0..MOST_DOUBLINGS {
                if made >= slot.tokens {
                    break;
                }
                bare = (2 * bare).max(1);
                draft = draft_of(bare);
                made = slot.count(tokenizer, tight(&draft.text));
            }
        }
        if made == slot.tokens && !tight(&draft.text).is_empty() {
            return Ok(tight(&draft.text).to_owned());
        }
        if slot.render.is_some() {
            bare = longest(tokenizer, &draft.ids, slot);
        }
        mend(tokenizer, &draft, bare, slot)
    }
}

/// About how many of `ids` make a text that is not too long in its place.
fn longest(tokenizer: &dyn Tokenizer, ids: &[u32], slot: Slot<'_>) -> usize {
    let (mut low, mut high) = (0, ids.len() + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        let fits = slot.count(tokenizer, tight(&tokenizer.decode(&ids[..middle]))) <= slot.tokens;
        *(if fits { &mut low } else { &mut high }) = middle;
    }
    high
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use aiperf_core::plan::{CorpusPlan, LengthPlan, TokenizerPlan};

    use super::*;

    fn builtin() -> Arc<dyn Tokenizer> {
        aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("is built in")
    }

    fn set(entries: usize, lengths: LengthsPlan, style: RandomStyle) -> SyntheticPlan {
        SyntheticPlan {
            lengths,
            corpus: CorpusPlan::Random,
            style,
            ..SyntheticPlan::sonnet(entries, LengthPlan::normal(1.0, 0.0), None)
        }
    }

    #[test]
    fn rows_go_around_the_pool() {
        let pools = Pools { body: vec![5, 6, 7], other_top_ups: None, tokenizer: builtin() };
        assert_eq!(pools.row(2, 0, 5).collect::<Vec<_>>(), [7, 5, 6, 7, 5]);
        assert_eq!(pools.row(2, 2, 2).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(pools.row(u64::MAX, u64::MAX, 1).collect::<Vec<_>>(), [5], "no overflow");
        assert_eq!(pools.top_ups(), [5, 6, 7]);
    }

    #[test]
    fn styles_differ_in_special_tokens() {
        let vllm = Pools::new(RandomStyle::Vllm, builtin()).expect("a vocabulary");
        assert_eq!((vllm.body.len(), vllm.top_ups().len()), (199_998, 200_000));
        let sglang = Pools::new(RandomStyle::Sglang, builtin()).expect("a vocabulary");
        assert_eq!((sglang.body.len(), sglang.other_top_ups.is_none()), (200_000, true));
    }

    #[test]
    fn keyed_texts_are_exact_and_a_function_of_their_position() {
        let lengths = LengthsPlan::Apart { isl: LengthPlan::normal(40.0, 0.0), osl: None };
        for style in [RandomStyle::Vllm, RandomStyle::Sglang] {
            let set = set(400, lengths.clone(), style);
            let (a, b) = (Random::new(&set, 3, builtin()), Random::new(&set, 3, builtin()));
            let (a, b) = (a.expect("a vocabulary"), b.expect("a vocabulary"));
            assert!(a.parity().is_none());
            let tokenizer = builtin();
            let mut seen = HashSet::new();
            for text in (0..400).rev() {
                let tokens = 1 + (text * 7 % 90) as usize;
                let made = a.prompt(text, Slot::bare(tokens), None).expect("a length that can be had").0;
                assert_eq!(tokenizer.count(&made), tokens, "{made:?}");
                assert_eq!(b.prompt(text, Slot::bare(tokens), None), Ok((made.clone(), tokens)));
                seen.insert(made);
            }
            assert!(seen.len() > 395, "{}", seen.len());
        }
    }
}
