//! Token counts of words and their running sums, for one corpus and one tokenizer.
//!
//! Byte-pair vocabularies split text before each space, so the count of a slice is the sum of its words' counts, and a text of
//! n tokens is a binary search and a copy. That is not true of every tokenizer, so it is checked for each block, whole,
//! before the block's sums are used: [`WordSums::block`] gives none where the sum is not the count.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aiperf_tokens::Tokenizer;
use rustc_hash::FxHashMap;

use crate::corpus::Corpus;

/// What a word's count is measured behind. Alone, a word could get what some vocabularies put before each text.
const BEFORE: &str = "the";

/// `sums[i]` is the count of a block's first `i` words, each with the space before it.
type Sums = Box<[u32]>;

/// Running token counts of a corpus, made block by block on first use.
#[derive(Debug)]
pub(crate) struct WordSums {
    corpus: &'static Corpus,
    tokenizer: Arc<dyn Tokenizer>,
    before: usize,
    /// Tokens of a space and the word, by word.
    counts: Mutex<FxHashMap<&'static str, u32>>,
    /// By block; `None` where words do not add up.
    blocks: Box<[OnceLock<Option<Sums>>]>,
}

impl WordSums {
    /// No block is read yet.
    pub(crate) fn new(corpus: &'static Corpus, tokenizer: Arc<dyn Tokenizer>) -> Self {
        let before = tokenizer.count(BEFORE);
        let blocks = (0..corpus.len()).map(|_| OnceLock::new()).collect();
        Self { corpus, tokenizer, before, counts: Mutex::default(), blocks }
    }

    /// The running sums of a block, or `None` when the tokenizer does not count it as the sum of its words.
    pub(crate) fn block(&self, index: usize) -> Option<&[u32]> {
        self.blocks[index].get_or_init(|| self.make(index)).as_deref()
    }

    /// Tokens of `text` behind a space, as it counts in the middle of a prompt.
    pub(crate) fn inside(&self, text: &str) -> Option<usize> {
        self.tokenizer.count(&format!("{BEFORE} {text}")).checked_sub(self.before)
    }

    fn make(&self, index: usize) -> Option<Sums> {
        let block = self.corpus.block(index);
        let mut sums = Vec::with_capacity(block.words() + 1);
        let mut sum = 0u32;
        sums.push(sum);
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            for word in block.text().split(' ') {
                sum += if let Some(count) = counts.get(word) {
                    *count
                } else {
                    let count = u32::try_from(self.inside(word)?).ok()?;
                    counts.insert(word, count);
                    count
                };
                sums.push(sum);
            }
        }
        (self.inside(block.text()) == Some(sum as usize)).then(|| sums.into())
    }
}
