//! The draws of vLLM and SGLang, in their order: all input lengths, all output lengths, all offsets, the prefixes, and then the
//! top-ups of one text after the other.
//!
//! All but the top-ups are drawn once, twelve bytes an entry. How many top-ups a text takes is only known when it is made,
//! so texts are made in order up to the one asked for, and the top-ups of each are kept, a few numbers; a text that was made
//! before is made again from them, without waiting for anything.

use std::sync::{Mutex, PoisonError};

use aiperf_core::plan::{PrefixPlan, RandomStyle, SyntheticPlan, WindowPlan};
use aiperf_rng::numpy::{LegacyMt19937, Pcg64};

use super::Pools;
use super::correct::correct;
use crate::error::DataError;
use crate::spread::{Window, window_text};

/// The most entries whose draws are kept: 600 MB.
const MOST_ENTRIES: usize = 50_000_000;

/// One run of a tool's generator.
#[derive(Debug)]
pub(crate) struct Parity {
    style: RandomStyle,
    seed: u64,
    batch: u64,
    inputs: Box<[u32]>,
    outputs: Box<[u32]>,
    offsets: Box<[u32]>,
    /// Ids of the prefixes; none without a prefix.
    prefixes: Vec<Vec<u32>>,
    serial: Mutex<Serial>,
}

/// What is drawn as texts are made.
#[derive(Debug)]
struct Serial {
    engine: Engine,
    /// Top-ups of the texts made so far.
    top_ups: Vec<u32>,
    /// Where the top-ups of each text begin; one more, where those of the next do.
    starts: Vec<u64>,
}

/// The tools' generators.
#[derive(Debug, Clone)]
enum Engine {
    Vllm(Pcg64),
    Sglang(LegacyMt19937),
}

impl Engine {
    fn below(&mut self, bound: u64) -> u64 {
        self.within(0, bound.saturating_sub(1))
    }

    /// Both ends included.
    fn within(&mut self, low: u64, high: u64) -> u64 {
        match self {
            Self::Vllm(rng) => rng.integers(low, high + 1),
            Self::Sglang(rng) => rng.randint(low, high + 1),
        }
    }
}

impl Parity {
    /// Draws everything that does not depend on texts, and the prefixes.
    pub(crate) fn new(
        set: &SyntheticPlan,
        window: &WindowPlan,
        seed: u64,
        pools: &Pools,
    ) -> Result<Self, DataError> {
        if set.entries > MOST_ENTRIES {
            return Err(DataError::TooManyEntries { entries: set.entries, most: MOST_ENTRIES });
        }
        let specials = pools.tokenizer.prompt_specials() as u64;
        let input = Window::of_input(set.style, window, specials);
        let prefix_tokens = set.prefixes.map_or(0, |p| p.tokens);
        if prefix_tokens + input.low < 1 && set.style == RandomStyle::Vllm {
            return Err(DataError::EmptyWindow { isl: window.isl, ratio: window.isl_ratio, specials });
        }
        let mut engine = match set.style {
            RandomStyle::Vllm => Engine::Vllm(Pcg64::new(seed)),
            RandomStyle::Sglang | RandomStyle::SglangStrict => Engine::Sglang(LegacyMt19937::folded(seed)),
        };
        let vocabulary = pools.tokenizer.vocab_size() as u64;
        let output = Window::of_output(set.style, window);
        let mut draw = |low: u64, high: u64| -> Result<Box<[u32]>, DataError> {
            let most = u64::from(u32::MAX);
            if high > most {
                return Err(DataError::TooLong { asked: high, most });
            }
            Ok((0..set.entries).map(|_| engine.within(low, high) as u32).collect())
        };
        let mut inputs = draw(input.low, input.high)?;
        for input in &mut inputs {
            *input = window_text(set.style, u64::from(*input), specials) as u32;
        }
        let outputs = draw(output.low, output.high)?;
        let offsets = draw(0, vocabulary.saturating_sub(1))?;

        let mut serial = Serial { engine, top_ups: Vec::new(), starts: vec![0] };
        let prefixes = set.prefixes.map_or_else(Vec::new, |p| serial.prefixes(pools, p));
        Ok(Self {
            style: set.style,
            seed,
            batch: set.batch as u64,
            inputs,
            outputs,
            offsets,
            prefixes,
            serial: serial.into(),
        })
    }

    /// Tokens of the texts of an entry, without a prefix. A tool has one turn each; later turns have none of its lengths.
    pub(crate) fn input(&self, entry: u64) -> Option<u64> {
        self.inputs.get(entry as usize).copied().map(u64::from)
    }

    /// The output length asked for with an entry.
    pub(crate) fn output(&self, entry: u64) -> Option<u64> {
        self.outputs.get(entry as usize).copied().map(u64::from)
    }

    /// Where in the vocabulary text number `text` begins, if the tool drew it.
    pub(crate) fn offset(&self, text: u64) -> Option<u64> {
        self.offsets.get(text as usize).copied().map(u64::from)
    }

    /// The ids of a prefix.
    pub(crate) fn prefix(&self, at: usize) -> Option<&[u32]> {
        self.prefixes.get(at).map(Vec::as_slice)
    }

    /// What a user should know of the seed: SGLang's generator takes 32 bits of it.
    pub(crate) fn note(&self) -> Option<String> {
        let folded = u64::from(LegacyMt19937::fold(self.seed));
        (self.style != RandomStyle::Vllm && folded != self.seed).then(|| {
            format!(
                "seed {} is folded to {folded}, for SGLang's generator takes 32 bits; pass --random-seed {folded} to name it",
                self.seed
            )
        })
    }

    /// Texts whose offset the tool drew: the first ones. A tool sends one text a request; further texts of a batch have no
    /// offset of its.
    pub(crate) fn drawn_offsets(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Text number `text`, below [`Self::drawn_offsets`], behind its prefix where there is one, and its tokens, which the tools do
    /// not always make as many as they drew.
    pub(crate) fn text(&self, pools: &Pools, text: u64) -> (String, usize) {
        let ids = |text: u64| -> Vec<u32> {
            let offset = self.offset(text).unwrap_or_default();
            let prefix = self.prefixes.get(text as usize % self.prefixes.len().max(1));
            let body = pools.row(offset, text, self.input(text / self.batch).unwrap_or(1) as usize);
            prefix.into_iter().flatten().copied().chain(body).collect()
        };
        if self.style == RandomStyle::SglangStrict {
            let text = pools.tokenizer.decode(&ids(text));
            let tokens = pools.tokenizer.count(&text);
            return (text, tokens);
        }
        let pool = pools.top_ups();
        let tokenizer = pools.tokenizer.as_ref();
        let mut serial = self.serial.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = serial.top_ups_of(text) {
            drop(serial);
            let ids = ids(text);
            let tokens = ids.len();
            let mut known = known.into_iter();
            // The same text takes the same top-ups, so none is missing.
            return correct(tokenizer, &ids, tokens, || known.next().unwrap_or_default()).into_parts();
        }
        loop {
            let next = serial.starts.len() as u64 - 1;
            let ids = ids(next);
            let tokens = ids.len();
            let Serial { engine, top_ups, starts } = &mut *serial;
            let made = correct(tokenizer, &ids, tokens, || {
                let id = pool[engine.below(pool.len() as u64) as usize];
                top_ups.push(id);
                id
            });
            starts.push(top_ups.len() as u64);
            if next == text {
                return made.into_parts();
            }
        }
    }
}

impl Serial {
    /// The prefixes: each drawn id by id, corrected, and encoded again.
    fn prefixes(&mut self, pools: &Pools, prefixes: PrefixPlan) -> Vec<Vec<u32>> {
        let pool = pools.top_ups();
        let mut prefix = || {
            let drawn: Vec<u32> = (0..prefixes.tokens)
                .map(|_| pools.body[self.engine.below(pools.body.len() as u64) as usize])
                .collect();
            let top_up = || pool[self.engine.below(pool.len() as u64) as usize];
            correct(pools.tokenizer.as_ref(), &drawn, prefixes.tokens as usize, top_up).ids
        };
        (0..prefixes.pool).map(|_| prefix()).collect()
    }

    /// The top-ups of a text that was made before.
    fn top_ups_of(&self, text: u64) -> Option<Vec<u32>> {
        let text = usize::try_from(text).ok()?;
        let (from, to) = (*self.starts.get(text)?, *self.starts.get(text + 1)?);
        Some(self.top_ups[from as usize..to as usize].to_vec())
    }
}
