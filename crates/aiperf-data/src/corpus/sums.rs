//! Token counts of pieces and their running sums, for one corpus and one tokenizer.
//!
//! Byte-pair vocabularies split text where pieces begin, so the count of a slice is the sum of its pieces' counts, and a text
//! of n tokens is a binary search and a copy. That is not true of every tokenizer, so it is checked for each block, whole,
//! before the block's sums are used: [`PieceSums::block`] gives none where the sum is not the count.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aiperf_tokens::Tokenizer;
use rustc_hash::FxHashMap;

use crate::corpus::Corpus;

/// What a piece's count is measured behind, if it begins with a space and if it begins a line. Alone, a piece could get what
/// some vocabularies put before each text.
const BEFORE: [&str; 2] = ["the", "the\n"];
/// Counts kept; the words of a language are fewer, the numbers and names in code are not worth keeping.
const MOST_COUNTS: usize = 1 << 17;

/// `sums[i]` is the count of a block's first `i` pieces.
type Sums = Box<[u32]>;

/// Running token counts of a corpus, made block by block on first use.
#[derive(Debug)]
pub(crate) struct PieceSums {
    corpus: Arc<Corpus>,
    tokenizer: Arc<dyn Tokenizer>,
    before: [usize; 2],
    /// Tokens by piece.
    counts: Mutex<FxHashMap<Box<str>, u32>>,
    /// By block; `None` where pieces do not add up.
    blocks: Box<[OnceLock<Option<Sums>>]>,
}

impl PieceSums {
    /// No block is read yet.
    pub(crate) fn new(corpus: Arc<Corpus>, tokenizer: Arc<dyn Tokenizer>) -> Self {
        let before = BEFORE.map(|text| tokenizer.count(text));
        let blocks = (0..corpus.len()).map(|_| OnceLock::new()).collect();
        Self { corpus, tokenizer, before, counts: Mutex::default(), blocks }
    }

    /// The running sums of a block, or `None` when the tokenizer does not count it as the sum of its pieces.
    pub(crate) fn block(&self, index: usize) -> Option<&[u32]> {
        self.blocks[index].get_or_init(|| self.make(index)).as_deref()
    }

    /// Tokens of `text` as it counts in the middle of a prompt.
    pub(crate) fn inside(&self, text: &str) -> Option<usize> {
        let kind = usize::from(!text.starts_with(' '));
        let whole = [BEFORE[kind], text].concat();
        self.tokenizer.count(&whole).checked_sub(self.before[kind])
    }

    fn make(&self, index: usize) -> Option<Sums> {
        let block = self.corpus.block(index);
        let mut sums = Vec::with_capacity(block.len() + 1);
        let mut sum = 0u32;
        sums.push(sum);
        {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            for piece in block.pieces() {
                sum += if let Some(count) = counts.get(piece) {
                    *count
                } else {
                    let count = u32::try_from(self.inside(piece)?).ok()?;
                    if counts.len() < MOST_COUNTS {
                        counts.insert(piece.into(), count);
                    }
                    count
                };
                sums.push(sum);
            }
        }
        (self.inside(block.text()) == Some(sum as usize)).then(|| sums.into())
    }
}
