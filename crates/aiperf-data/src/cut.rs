//! A text of exactly so many tokens, cut from a corpus.
//!
//! The usual way costs an encoding of a few words, whatever the length: the first words are counted as they stand, and the rest
//! comes from running sums ([`WordSums`]), which were checked block by block. Where the words do not end on the number asked
//! for (one prompt in five or so), the last of them give way to a later word of the right count. Every seam, where two words
//! meet that no checked block holds side by side, is counted again. Where sums are not the truth for a tokenizer, or
//! nothing fits, [`crate::search`] counts whole texts instead.

use std::sync::Arc;

use aiperf_tokens::Tokenizer;

use crate::corpus::{Corpus, WordSums};
use crate::search::search;

/// Words at the start that are counted as they stand: what comes before them differs from the middle of a text.
const HEAD_WORDS: usize = 2;
/// Most words given up at the end to make room for one that fits.
const MOST_GIVEN_UP: usize = 32;
/// How far behind the end a word that fits is looked for.
const LOOK_AHEAD: usize = 512;
/// Bytes of text per token to make room for; English has 4.4 with the vocabularies of 2024.
const BYTES_PER_TOKEN: usize = 5;

/// Where a text begins: at a word, with some words left out behind it.
///
/// Leaving out a different number makes a different text from the same start, for workloads with more entries than the
/// corpus has words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Position of the first word.
    pub(crate) word: usize,
    /// Words left out behind the first.
    pub(crate) skip: usize,
}

impl Start {
    /// Position of the second word.
    pub(crate) fn second(self) -> usize {
        self.word + 1 + self.skip
    }

    /// The first `count` words as a text.
    pub(crate) fn text(self, corpus: &Corpus, count: usize) -> String {
        let mut text = String::new();
        if count > 0 {
            text.push_str(corpus.word(self.word));
            corpus.append(self.second(), count - 1, &mut text);
        }
        text
    }
}

/// Cuts texts from one corpus for one tokenizer. Every answer depends on its arguments alone.
#[derive(Debug)]
pub(crate) struct Cutter {
    corpus: &'static Corpus,
    tokenizer: Arc<dyn Tokenizer>,
    sums: WordSums,
}

/// Words in the middle of a text: the longest run that is not too long.
#[derive(Default)]
struct Run {
    words: usize,
    /// Tokens still missing.
    missing: usize,
    /// Words that begin another block.
    crossings: Vec<usize>,
}

impl Cutter {
    /// Reads nothing yet.
    pub(crate) fn new(corpus: &'static Corpus, tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { corpus, sums: WordSums::new(corpus, Arc::clone(&tokenizer)), tokenizer }
    }

    /// The tokenizer that texts are exact for.
    pub(crate) fn tokenizer(&self) -> &dyn Tokenizer {
        self.tokenizer.as_ref()
    }

    /// A text of exactly `tokens` tokens without specials; lengths beyond the corpus go around it again. The error is the
    /// nearest count there is.
    pub(crate) fn cut(&self, start: Start, tokens: usize) -> Result<String, usize> {
        match self.by_sums(start, tokens) {
            Some(text) => Ok(text),
            None => search(self.corpus, self.tokenizer(), start, tokens),
        }
    }

    /// As [`Self::cut`] from running sums alone; `None` where they do not get there.
    pub(crate) fn by_sums(&self, start: Start, tokens: usize) -> Option<String> {
        let (head, head_words, head_tokens) = self.head(start, tokens)?;
        let from = start.second() + head_words - 1;
        let run = self.run(from, tokens - head_tokens)?;
        let (words, last) = self.close(from, &run)?;

        let mut text = head;
        if words == 0 {
            // So short that its only seam is all of it.
            let Some(word) = last else { return Some(text) };
            self.corpus.append(word, 1, &mut text);
            return (self.tokenizer.count(&text) == tokens).then_some(text);
        }
        let end = from + words;
        let seams = run.crossings.iter().filter(|word| **word < end).map(|word| (word - 1, *word));
        let closing = last.map(|word| (end - 1, word));
        if !seams.chain(closing).all(|(left, right)| self.adds_up(left, right)) {
            return None;
        }
        text.reserve_exact(tokens.saturating_mul(BYTES_PER_TOKEN));
        self.corpus.append(from, words, &mut text);
        if let Some(word) = last {
            self.corpus.append(word, 1, &mut text);
        }
        Some(text)
    }

    /// Whether two words side by side count as they do apart.
    fn adds_up(&self, left: usize, right: usize) -> bool {
        let sum = self.tokens_of(left).zip(self.tokens_of(right)).map(|(left, right)| left + right);
        let together = format!("{} {}", self.corpus.word(left), self.corpus.word(right));
        sum.is_some() && self.sums.inside(&together) == sum
    }

    /// The first words that are not too many tokens, their number and their count.
    fn head(&self, start: Start, tokens: usize) -> Option<(String, usize, usize)> {
        (1..=HEAD_WORDS).rev().find_map(|words| {
            let text = start.text(self.corpus, words);
            let count = self.tokenizer.count(&text);
            (count <= tokens).then_some((text, words, count))
        })
    }

    fn run(&self, from: usize, mut tokens: usize) -> Option<Run> {
        let (mut block, mut at) = self.corpus.locate(from);
        let mut run = Run::default();
        if at == 0 {
            run.crossings.push(from);
        }
        let mut idle = 0;
        loop {
            let sums = self.sums.block(block)?;
            let target = (tokens as u64).saturating_add(u64::from(sums[at]));
            let end = sums.partition_point(|sum| u64::from(*sum) <= target) - 1;
            let taken = (sums[end] - sums[at]) as usize;
            run.words += end - at;
            tokens -= taken;
            if end + 1 < sums.len() {
                run.missing = tokens;
                return Some(run);
            }
            run.crossings.push(from + run.words);
            // A tokenizer to which all words are nothing would go around for ever.
            idle = if taken == 0 { idle + 1 } else { 0 };
            if idle > self.corpus.len() {
                return None;
            }
            (block, at) = ((block + 1) % self.corpus.len(), 0);
        }
    }

    /// Makes a run exact: how many of its words stay, and the word to put behind them.
    fn close(&self, from: usize, run: &Run) -> Option<(usize, Option<usize>)> {
        let mut missing = run.missing;
        if missing == 0 {
            return Some((run.words, None));
        }
        let end = from + run.words;
        for given_up in 0..=run.words.min(MOST_GIVEN_UP) {
            if given_up > 0 {
                missing += self.tokens_of(end - given_up)?;
            }
            // The word at `end` itself is too long, or the run would have it.
            for word in end + 1..=end + LOOK_AHEAD {
                if self.tokens_of(word)? == missing {
                    return Some((run.words - given_up, Some(word)));
                }
            }
        }
        None
    }

    /// Tokens of a word in the middle of a text.
    fn tokens_of(&self, word: usize) -> Option<usize> {
        let (block, at) = self.corpus.locate(word);
        let sums = self.sums.block(block)?;
        Some((sums[at + 1] - sums[at]) as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corpus::SONNET;
    use crate::toys::{ALL_EXACT, Cut, Toy};

    fn at(word: usize) -> Start {
        Start { word, skip: 0 }
    }

    #[test]
    fn a_start_can_leave_words_out() {
        assert_eq!(at(0).text(&SONNET, 4), "THE SONNETS 1 From");
        assert_eq!(Start { word: 0, skip: 2 }.text(&SONNET, 3), "THE From fairest");
        assert_eq!(Start { word: 0, skip: 2 }.text(&SONNET, 1), "THE");
        assert_eq!(at(5).text(&SONNET, 0), "");
    }

    #[test]
    fn sums_are_used_where_they_hold_and_nowhere_else() {
        for (cut, holds) in [
            (Cut::Words, true),
            (Cut::Prefixed, true),
            (Cut::Letters, true),
            (Cut::FreeFirst, true),
            (Cut::Pieces, false),
        ] {
            let cutter = Cutter::new(&SONNET, Toy::shared(cut));
            assert_eq!(cutter.sums.block(3).is_some(), holds, "{cut:?}");
            assert_eq!(cutter.by_sums(at(1000), 500).is_some(), holds, "{cut:?}");
        }
    }

    #[test]
    fn texts_are_words_of_the_corpus_from_the_start_on() {
        let cutter = Cutter::new(&SONNET, Toy::shared(Cut::Words));
        let text = cutter.cut(at(3), 40).expect("words end on 40 or a later one fits");
        assert!(text.starts_with("From fairest creatures we desire increase That thereby"), "{text}");
        assert!(!text.contains("  ") && !text.ends_with(' '));
    }

    #[test]
    fn lengths_beyond_the_corpus_go_around() {
        let toy = Toy::shared(Cut::FreeFirst);
        let cutter = Cutter::new(&SONNET, Arc::clone(&toy));
        let words = SONNET.words();
        let text = cutter.cut(at(words - 2), 2 * words + 7).expect("every word is one token");
        assert_eq!(toy.count(&text), 2 * words + 7);
        let around: Vec<&str> = text.split(' ').skip(2).take(3).collect();
        assert_eq!(around, ["THE", "SONNETS", "1"]);
    }

    #[test]
    fn an_impossible_length_gives_the_nearest() {
        let cutter = Cutter::new(&SONNET, Toy::shared(Cut::Even));
        let nearest = cutter.cut(at(77), 101).expect_err("no text has an odd count");
        assert!(nearest == 100 || nearest == 102, "{nearest}");
        assert!(cutter.cut(at(77), 100).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_length_is_exact(word in 0..2_000_000usize, skip in 0..3usize, tokens in 1..3000usize, cut in 0..5usize) {
            let toy = Toy::shared(ALL_EXACT[cut]);
            let text = Cutter::new(&SONNET, Arc::clone(&toy)).cut(Start { word, skip }, tokens);
            prop_assert_eq!(text.map(|t| toy.count(&t)), Ok(tokens));
        }

        #[test]
        fn every_short_length_is_exact(word in 0..2_000_000usize, tokens in 1..12usize, cut in 0..5usize) {
            let toy = Toy::shared(ALL_EXACT[cut]);
            let text = Cutter::new(&SONNET, Arc::clone(&toy)).cut(at(word), tokens);
            prop_assert_eq!(text.map(|t| toy.count(&t)), Ok(tokens));
        }
    }
}
