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

use std::sync::Arc;

use aiperf_core::plan::{LengthsPlan, RandomStyle, SyntheticPlan};
use aiperf_rng::{Key, Stream};
use aiperf_tokens::Tokenizer;

use self::correct::{correct, mend};
pub(crate) use self::parity::Parity;
use crate::error::DataError;

/// Makes random texts by position.
#[derive(Debug)]
pub(crate) struct Random {
    pools: Pools,
    offsets: Stream,
    top_ups: Stream,
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
        let offsets = key.purpose("dataset.random.offset");
        let parity = match &set.lengths {
            LengthsPlan::Window(window) => Some(Parity::new(set, window, seed, &pools, None)?),
            LengthsPlan::Apart { .. } | LengthsPlan::Pairs(_) => None,
        };
        Ok(Self { pools, offsets, top_ups: key.purpose("dataset.random.top_up"), parity })
    }

    /// The tool's own draws, where there are any.
    pub(crate) fn parity(&self) -> Option<&Parity> {
        self.parity.as_ref()
    }

    /// Text number `text` of the workload, of exactly `tokens` tokens; for the tools' own draws, as long as they make it. The
    /// error is the nearest count there is.
    pub(crate) fn text(&self, text: u64, tokens: usize) -> Result<String, usize> {
        match &self.parity {
            Some(parity) => Ok(parity.text(&self.pools, text, |text| self.live_offset(text))),
            None => self.keyed(text, tokens),
        }
    }

    /// An offset that no tool drew.
    fn live_offset(&self, text: u64) -> u64 {
        self.offsets.at(text).below(self.pools.body.len() as u64)
    }

    fn keyed(&self, text: u64, tokens: usize) -> Result<String, usize> {
        let ids: Vec<u32> = self.pools.row(self.live_offset(text), text, tokens).collect();
        let pool = self.pools.top_ups();
        let mut draws = self.top_ups.at(text);
        let top_up = || pool[draws.position(pool.len())];
        let tokenizer = self.pools.tokenizer.as_ref();
        let draft = correct(tokenizer, &ids, tokens, top_up);
        if draft.ids.len() == tokens && !draft.text.is_empty() {
            return Ok(draft.text);
        }
        mend(tokenizer, &draft, tokens)
    }
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
                let made = a.text(text, tokens).expect("a length that can be had");
                assert_eq!(tokenizer.count(&made), tokens, "{made:?}");
                assert_eq!(b.text(text, tokens), Ok(made.clone()));
                seen.insert(made);
            }
            assert!(seen.len() > 395, "{}", seen.len());
        }
    }
}
