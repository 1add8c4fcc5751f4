//! The same as [`crate::cut`] for tokenizers whose counts do not add up: every candidate is counted whole.
//!
//! It knows nothing of the tokenizer but `count`. From the longest run of pieces that is not too long it goes on letter by
//! letter, then with other pieces in place of the last ones, then from the next start.

use aiperf_tokens::Tokenizer;

use crate::corpus::{Corpus, Place, is_tight};
use crate::cut::Start;
use crate::slot::{SHORTEST, Slot};

/// Starts tried, one piece after the other.
const STARTS: usize = 16;
/// Pieces that may be nothing to a tokenizer, one after the other, before it is given up.
const MOST_IDLE: usize = 1 << 23;
/// Most pieces given up at the end to make room for others.
const MOST_GIVEN_UP: usize = 4;
/// Pieces tried in place of those given up.
const LOOK_AHEAD: usize = 24;
/// Letters tried at the end when no piece fits: most vocabularies have them as single tokens.
const LETTERS: &str = "aIoes1290tnrxzq";

/// A text that has exactly the slot's tokens in it, from near `start`, or the nearest count found.
pub(crate) fn search(
    corpus: &Corpus,
    tokenizer: &dyn Tokenizer,
    start: Start,
    slot: Slot<'_>,
) -> Result<String, usize> {
    let mut tries = Tries { tokenizer, slot, nearest: 0 };
    (0..STARTS)
        .find_map(|shift| tries.from(corpus, Start { first: corpus.later(start.first, shift), ..start }))
        .or_else(|| SHORTEST.into_iter().find(|text| tries.fits(text)).map(str::to_owned))
        .ok_or(tries.nearest)
}

struct Tries<'a> {
    tokenizer: &'a dyn Tokenizer,
    slot: Slot<'a>,
    /// The count nearest to the slot's of all tried.
    nearest: usize,
}

impl Tries<'_> {
    fn count(&mut self, text: &str) -> usize {
        let count = self.slot.count(self.tokenizer, text);
        if count.abs_diff(self.slot.tokens) < self.nearest.abs_diff(self.slot.tokens) {
            self.nearest = count;
        }
        count
    }

    fn fits(&mut self, text: &str) -> bool {
        !text.is_empty() && is_tight(text) && self.count(text) == self.slot.tokens
    }

    fn from(&mut self, corpus: &Corpus, start: Start) -> Option<String> {
        let pieces = self.longest(corpus, start)?;
        let joins = self.slot.joins;
        let mut text = start.text(corpus, pieces, joins);
        if self.fits(&text) {
            return Some(text);
        }
        let next = if pieces == 0 { start.first } else { corpus.later(start.second(corpus), pieces - 1) };
        self.grow(&mut text, corpus.piece(next)).or_else(|| self.replace(corpus, start, pieces, next))
    }

    /// Adds the beginning of `piece`, letter by letter.
    fn grow(&mut self, text: &mut String, piece: &str) -> Option<String> {
        let piece = if text.is_empty() && !self.slot.joins { piece.trim_start() } else { piece };
        for letter in piece.chars() {
            text.push(letter);
            if self.fits(text) {
                return Some(std::mem::take(text));
            }
        }
        None
    }

    /// Puts later pieces, or single letters, in place of the last pieces.
    fn replace(&mut self, corpus: &Corpus, start: Start, pieces: usize, next: Place) -> Option<String> {
        for given_up in 0..=pieces.min(MOST_GIVEN_UP) {
            let base = start.text(corpus, pieces - given_up, self.slot.joins);
            let mut candidate = next;
            for _ in 0..LOOK_AHEAD {
                candidate = corpus.later(candidate, 1);
                let text = format!("{base}{}", corpus.piece(candidate).trim_end());
                let text = if base.is_empty() && !self.slot.joins { text.trim_start() } else { &text };
                if self.fits(text) {
                    return Some(text.to_owned());
                }
            }
            let space = if (base.is_empty() && !self.slot.joins) || !is_tight(&base) { "" } else { " " };
            for letter in LETTERS.chars() {
                for text in [format!("{base}{space}{letter}"), format!("{base}{letter}")] {
                    if self.fits(&text) {
                        return Some(text);
                    }
                }
            }
        }
        None
    }

    /// The most pieces that are not more than the tokens asked for, supposing that more pieces are not fewer tokens; `None` when
    /// no number of pieces reaches them.
    fn longest(&mut self, corpus: &Corpus, start: Start) -> Option<usize> {
        let (mut low, mut low_count) = (0, 0);
        let (tokens, joins) = (self.slot.tokens, self.slot.joins);
        let mut high = tokens.max(1);
        let mut high_count = self.count(&start.text(corpus, high, joins));
        while high_count <= tokens {
            if high_count == tokens {
                return Some(high);
            }
            if high_count <= low_count && high > tokens.saturating_mul(8).max(MOST_IDLE) {
                return None;
            }
            (low, low_count) = (high, high_count);
            high *= 2;
            high_count = self.count(&start.text(corpus, high, joins));
        }
        // Interpolation lands within a few pieces of the end at once; halving in turn bounds the number of steps.
        let mut halve = false;
        while high - low > 1 {
            let share = (tokens - low_count) as f64 / (high_count - low_count) as f64;
            let guess = if halve { low.midpoint(high) } else { low + ((high - low) as f64 * share) as usize };
            halve = !halve;
            let middle = guess.clamp(low + 1, high - 1);
            let count = self.count(&start.text(corpus, middle, joins));
            if count <= tokens {
                (low, low_count) = (middle, count);
            } else {
                (high, high_count) = (middle, count);
            }
        }
        Some(low)
    }
}
