//! The same as [`crate::cut`] for tokenizers whose counts do not add up: every candidate is counted whole.
//!
//! It knows nothing of the tokenizer but `count`. From the longest run of words that is not too long it goes on letter by
//! letter, then with other words in place of the last ones, then from the next start.

use aiperf_tokens::Tokenizer;

use crate::corpus::Corpus;
use crate::cut::Start;

/// Starts tried, one word after the other.
const STARTS: usize = 16;
/// Most words given up at the end to make room for others.
const MOST_GIVEN_UP: usize = 4;
/// Words tried in place of those given up.
const LOOK_AHEAD: usize = 24;
/// Pieces tried at the end when no word fits: most vocabularies have them as single tokens.
const PIECES: &str = "aIoes1290tnrxzq";

/// A text of exactly `tokens` tokens from near `start`, or the nearest count found.
pub(crate) fn search(
    corpus: &Corpus,
    tokenizer: &dyn Tokenizer,
    start: Start,
    tokens: usize,
) -> Result<String, usize> {
    let mut tries = Tries { tokenizer, tokens, nearest: 0 };
    (0..STARTS)
        .find_map(|shift| tries.from(corpus, Start { word: start.word + shift, ..start }))
        .ok_or(tries.nearest)
}

struct Tries<'a> {
    tokenizer: &'a dyn Tokenizer,
    tokens: usize,
    /// The count nearest to `tokens` of all tried.
    nearest: usize,
}

impl Tries<'_> {
    fn count(&mut self, text: &str) -> usize {
        let count = self.tokenizer.count(text);
        if count.abs_diff(self.tokens) < self.nearest.abs_diff(self.tokens) {
            self.nearest = count;
        }
        count
    }

    fn fits(&mut self, text: &str) -> bool {
        self.count(text) == self.tokens
    }

    fn from(&mut self, corpus: &Corpus, start: Start) -> Option<String> {
        let words = self.longest(corpus, start)?;
        let mut text = start.text(corpus, words);
        if self.fits(&text) && !text.is_empty() {
            return Some(text);
        }
        let next = if words == 0 { start.word } else { start.second() + words - 1 };
        self.grow(&mut text, corpus.word(next)).or_else(|| self.replace(corpus, start, words, next))
    }

    /// Adds the beginning of `word`, letter by letter.
    fn grow(&mut self, text: &mut String, word: &str) -> Option<String> {
        if !text.is_empty() {
            text.push(' ');
        }
        for letter in word.chars() {
            text.push(letter);
            if self.fits(text) {
                return Some(std::mem::take(text));
            }
        }
        None
    }

    /// Puts later words, or single letters, in place of the last words.
    fn replace(&mut self, corpus: &Corpus, start: Start, words: usize, next: usize) -> Option<String> {
        for given_up in 0..=words.min(MOST_GIVEN_UP) {
            let base = start.text(corpus, words - given_up);
            let space = if base.is_empty() { "" } else { " " };
            for word in next + 1..=next + LOOK_AHEAD {
                let text = format!("{base}{space}{}", corpus.word(word));
                if self.fits(&text) {
                    return Some(text);
                }
            }
            for piece in PIECES.chars() {
                for text in [format!("{base}{space}{piece}"), format!("{base}{piece}")] {
                    if self.fits(&text) {
                        return Some(text);
                    }
                }
            }
        }
        None
    }

    /// The most words that are not more than the tokens asked for, supposing that more words are not fewer tokens; `None` when
    /// no number of words reaches them.
    fn longest(&mut self, corpus: &Corpus, start: Start) -> Option<usize> {
        let (mut low, mut low_count) = (0, 0);
        let mut high = self.tokens.max(1);
        let mut high_count = self.count(&start.text(corpus, high));
        while high_count <= self.tokens {
            if high_count == self.tokens {
                return Some(high);
            }
            if high_count <= low_count && high > 8 * self.tokens.max(corpus.words()) {
                return None;
            }
            (low, low_count) = (high, high_count);
            high *= 2;
            high_count = self.count(&start.text(corpus, high));
        }
        // Interpolation lands within a few words of the end at once; halving in turn bounds the number of steps.
        let mut halve = false;
        while high - low > 1 {
            let share = (self.tokens - low_count) as f64 / (high_count - low_count) as f64;
            let guess = if halve { low.midpoint(high) } else { low + ((high - low) as f64 * share) as usize };
            halve = !halve;
            let middle = guess.clamp(low + 1, high - 1);
            let count = self.count(&start.text(corpus, middle));
            if count <= self.tokens {
                (low, low_count) = (middle, count);
            } else {
                (high, high_count) = (middle, count);
            }
        }
        Some(low)
    }
}
