//! Text for traces that give block ids in place of words: equal ids give equal text, so that a prefix cache sees what the trace meant.
//!
//! A block's text is a function of (seed, scope, id), whatever comes before it. Each begins with a word behind a space, where
//! vocabularies split a text anyhow, so blocks side by side are the sum of their tokens and need no special token between them: one
//! in a user's text would end the message for servers that read special tokens in contents. Only at the very beginning of a prompt
//! the space is left out, as templates drop it there. For a vocabulary that does not keep words apart blocks need not add up; then the prompt
//! is made exact as a whole, at the cost of its last words.

use std::sync::Arc;

use aiperf_core::plan::CorpusPlan;
use aiperf_rng::Key;
use aiperf_tokens::Tokenizer;
use sha2::{Digest, Sha256};

use crate::corpus::{SONNET, coding};
use crate::cut::Cutter;
use crate::error::DataError;
use crate::slot::Slot;

/// What a block is made behind: a word, as any other block would stand there; which one does not matter.
const BEFORE: &str = "the";
/// Purpose of the text behind the last block.
const TAIL: &str = "dataset.block.tail";

/// Makes the texts of blocks.
#[derive(Debug)]
pub struct BlockTexts {
    cutter: Cutter,
    tokenizer: Arc<dyn Tokenizer>,
    key: Key,
}

/// A prompt in blocks.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    /// Tokens of the whole prompt; at least one.
    pub tokens: usize,
    /// Tokens of a block; at least one.
    pub size: usize,
    /// Ids of its blocks in order. The last may be cut short by `tokens`; what they do not reach is text of its own.
    pub ids: &'a [u64],
}

/// Why blocks and tokens do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlocksError {
    /// A prompt of nothing, or blocks of nothing.
    #[error("a prompt and its blocks have at least 1 token each")]
    Empty,
    /// The ids reach further than the prompt.
    #[error(
        "{ids} blocks of {size} tokens are more than a prompt of {tokens} tokens holds, the last one cut short"
    )]
    TooMany {
        /// Number of ids.
        ids: usize,
        /// Tokens of a block.
        size: usize,
        /// Tokens of the prompt.
        tokens: usize,
    },
}

impl Blocks<'_> {
    /// Whether the ids fit the prompt.
    pub fn check(&self) -> Result<(), BlocksError> {
        if self.tokens == 0 || self.size == 0 {
            return Err(BlocksError::Empty);
        }
        let Self { tokens, size, ids } = *self;
        if ids.len() > tokens.div_ceil(size) {
            return Err(BlocksError::TooMany { ids: ids.len(), size, tokens });
        }
        Ok(())
    }
}

impl BlockTexts {
    /// Texts of `corpus` (random tokens have no words to be told apart by, and are sonnet here).
    pub fn new(corpus: CorpusPlan, seed: u64, tokenizer: Arc<dyn Tokenizer>) -> Self {
        let corpus = match corpus {
            CorpusPlan::Coding => coding(seed),
            CorpusPlan::Sonnet | CorpusPlan::Random => Arc::clone(&SONNET),
        };
        let cutter = Cutter::new(corpus, Arc::clone(&tokenizer));
        Self { cutter, tokenizer, key: Key::new(seed) }
    }

    /// The text of `blocks`, of exactly so many tokens. `scope` keeps the ids of one trace apart from those of another; `prompt`
    /// numbers the prompts of the trace, for text that belongs to no block.
    pub fn text(&self, scope: &str, prompt: u64, blocks: Blocks<'_>) -> Result<String, DataError> {
        blocks.check().map_err(|problem| DataError::Blocks { problem })?;
        let mut text = String::new();
        let mut left = blocks.tokens;
        for id in blocks.ids {
            let tokens = left.min(blocks.size);
            self.push(&mut text, Self::number(scope, *id), "dataset.block", tokens)?;
            left -= tokens;
        }
        if left > 0 {
            self.push(&mut text, prompt, TAIL, left)?;
        }
        self.mended(text, prompt, blocks.tokens)
    }

    /// A number for an id, from a digest over its scope and itself: two of a million ids share one once in two traces. More bits would
    /// mean more pieces of the corpus to leave out, one after the other.
    fn number(scope: &str, id: u64) -> u64 {
        const BITS: u32 = 40;
        let digest = Sha256::new().chain_update(scope).chain_update(id.to_le_bytes()).finalize();
        u64::from_le_bytes(std::array::from_fn(|i| digest[i])) >> (u64::BITS - BITS)
    }

    fn push(
        &self,
        text: &mut String,
        number: u64,
        purpose: &'static str,
        tokens: usize,
    ) -> Result<(), DataError> {
        let start = self.cutter.corpus().start(self.key.purpose(purpose), number);
        let is_first = text.is_empty();
        let slot = if is_first {
            Slot::bare(tokens)
        } else {
            let known = self.tokenizer.count(BEFORE);
            Slot { before: BEFORE, tokens: tokens + known, joins: true, ..Slot::bare(0) }
        };
        let made = self.cutter.cut(start, slot).map_err(|nearest| DataError::NoTextOfLength {
            tokenizer: self.tokenizer.name().to_owned(),
            asked: slot.tokens,
            nearest,
        })?;
        text.push_str(&made);
        Ok(())
    }

    /// `text`, or where blocks do not add up for a vocabulary, its beginning with an end that makes it exact.
    fn mended(&self, text: String, prompt: u64, tokens: usize) -> Result<String, DataError> {
        if self.tokenizer.count(&text) == tokens {
            return Ok(text);
        }
        let start = self.cutter.corpus().start(self.key.purpose(TAIL), prompt);
        // Some words off the end leave room for another ending.
        for words in [1usize, 2, 4, 8, 16, 32] {
            let Some((at, _)) = text.rmatch_indices(' ').nth(words - 1) else { break };
            let kept = &text[..at];
            let slot = Slot { before: kept, tokens, joins: true, ..Slot::bare(0) };
            if self.tokenizer.count(kept) < tokens
                && let Ok(end) = self.cutter.cut(start, slot)
            {
                return Ok([kept, end.as_str()].concat());
            }
        }
        let slot = Slot::bare(tokens);
        self.cutter.cut(start, slot).map_err(|nearest| DataError::NoTextOfLength {
            tokenizer: self.tokenizer.name().to_owned(),
            asked: tokens,
            nearest,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::exactness::TOKENIZERS;

    /// Shared by all tests: what a cutter knows of a corpus is dear.
    static TEXTS: LazyLock<Vec<[BlockTexts; 2]>> = LazyLock::new(|| {
        let of = |tokenizer: &Arc<dyn Tokenizer>| {
            [CorpusPlan::Sonnet, CorpusPlan::Coding].map(|c| BlockTexts::new(c, 7, Arc::clone(tokenizer)))
        };
        TOKENIZERS.iter().map(of).collect()
    });

    fn texts(tokenizer: usize, corpus: CorpusPlan) -> &'static BlockTexts {
        &TEXTS[tokenizer][usize::from(corpus == CorpusPlan::Coding)]
    }

    fn blocks(tokens: usize, size: usize, ids: &[u64]) -> Blocks<'_> {
        Blocks { tokens, size, ids }
    }

    #[test]
    fn equal_ids_give_equal_text_and_no_special_token() {
        let tokenizer = TOKENIZERS.len() - 1;
        let made = texts(tokenizer, CorpusPlan::Sonnet);
        let text =
            |prompt, ids: &[u64]| made.text("trace", prompt, blocks(16 * ids.len(), 16, ids)).expect("made");
        let one = text(0, &[1, 2, 3]);
        assert_eq!(one, text(9, &[1, 2, 3]));
        let other = text(0, &[1, 2, 4]);
        let shared = text(0, &[1, 2]);
        assert!(one.starts_with(&shared) && other.starts_with(&shared) && one != other);
        assert_ne!(one, made.text("other trace", 0, blocks(48, 16, &[1, 2, 3])).expect("made"));
        // The same ids, token by token.
        let ids = |text: &str| {
            let mut ids = Vec::new();
            TOKENIZERS[tokenizer].encode(text, &mut ids);
            ids
        };
        assert_eq!(ids(&one)[..32], ids(&other)[..32]);
        assert!(ids(&one).iter().all(|id| !TOKENIZERS[tokenizer].is_control(*id)));
    }

    #[test]
    fn one_id_may_be_a_cut_and_a_whole_block() {
        let made = texts(TOKENIZERS.len() - 1, CorpusPlan::Coding);
        let cut = made.text("t", 0, blocks(40, 32, &[5, 6])).expect("a cut block");
        let whole = made.text("t", 1, blocks(64, 32, &[5, 6])).expect("a whole one");
        let common = cut.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
        assert!(common * 10 > cut.len() * 8, "{cut:?} {whole:?}");
    }

    #[test]
    fn what_the_ids_do_not_reach_is_the_prompt_s_own() {
        let made = texts(TOKENIZERS.len() - 1, CorpusPlan::Sonnet);
        let text = |prompt| made.text("t", prompt, blocks(50, 16, &[5])).expect("made");
        assert_ne!(text(0), text(1));
        assert_eq!(text(0), text(0));
    }

    #[test]
    fn blocks_that_do_not_fit_are_refused() {
        let many = BlocksError::TooMany { ids: 3, size: 16, tokens: 32 };
        assert_eq!(blocks(32, 16, &[1, 2, 3]).check(), Err(many));
        assert_eq!(blocks(33, 16, &[1, 2, 3]).check(), Ok(()));
        assert_eq!(blocks(0, 16, &[]).check(), Err(BlocksError::Empty));
        assert_eq!(blocks(1, 0, &[]).check(), Err(BlocksError::Empty));
        let error =
            texts(0, CorpusPlan::Sonnet).text("t", 0, blocks(32, 16, &[1, 2, 3])).expect_err("too many");
        assert!(error.to_string().contains("3 blocks of 16 tokens"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn every_prompt_in_blocks_is_exact(
            tokenizer in 0..TOKENIZERS.len(),
            corpus in 0..2usize,
            tokens in 1..160usize,
            size in 8..70usize,
            share in 0.0..1.0f64,
            first: u64,
        ) {
            let corpus = [CorpusPlan::Sonnet, CorpusPlan::Coding][corpus];
            let most = tokens.div_ceil(size);
            let ids: Vec<u64> = (0..(most as f64 * share) as u64).map(|i| first.wrapping_add(i)).collect();
            let text = texts(tokenizer, corpus).text("t", 3, blocks(tokens, size, &ids)).expect("made");
            prop_assert_eq!(TOKENIZERS[tokenizer].count(&text), tokens);
        }
    }
}
