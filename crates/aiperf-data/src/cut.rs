//! A text of exactly so many tokens, cut from a corpus.
//!
//! The usual way costs an encoding of a few words, whatever the length: the first pieces are counted as they stand, and the rest
//! comes from running sums ([`PieceSums`]), which were checked block by block. Where the pieces do not end on the number asked
//! for, or end in white space, later ones that fit come behind, if need be in place of the last. Every seam, where two pieces
//! meet that no checked block holds side by side, is counted again; vocabularies that are not known to keep words apart have the
//! whole text counted. Where sums are not the truth for a tokenizer, or
//! nothing fits, [`crate::search`] counts whole texts instead.

use std::sync::{Arc, OnceLock};

use aiperf_tokens::{Kind, Tokenizer};

use crate::corpus::{Corpus, PieceSums, Place, is_tight};
use crate::search::search;
use crate::slot::Slot;

/// Pieces at the start that are counted as they stand: what comes before them differs from the middle of a text.
const HEAD_PIECES: usize = 2;
/// Most pieces given up at the end to make room for one that fits.
const MOST_GIVEN_UP: usize = 32;
/// Most pieces put in their place, or in the place of one that is too long.
const MOST_FILLED: usize = 32;
/// How far behind the end pieces that fit are looked for.
const LOOK_AHEAD: usize = 512;
/// Starts from which running sums are tried where they have to be proven by counting the whole.
const WHOLE_TRIES: usize = 4;
/// Bytes of text per token to make room for; English has 4.4 with the vocabularies of 2024, code less.
const BYTES_PER_TOKEN: usize = 5;

/// Where a text begins: at a piece, with some pieces left out behind it.
///
/// Leaving out a different number makes a different text from the same start, for workloads with more texts than the
/// corpus has pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Start {
    /// The first piece.
    pub(crate) first: Place,
    /// Pieces left out behind the first.
    pub(crate) skip: usize,
}

impl Start {
    /// The second piece.
    pub(crate) fn second(self, corpus: &Corpus) -> Place {
        corpus.later(self.first, 1 + self.skip)
    }

    /// The first `count` pieces as a text, without the space before the first unless it `joins` a text before it.
    pub(crate) fn text(self, corpus: &Corpus, count: usize, joins: bool) -> String {
        let mut text = String::new();
        if count > 0 {
            let first = corpus.piece(self.first);
            match first.strip_prefix(' ') {
                // A piece at the start of a line has none of its own.
                None if joins => text.extend([" ", first]),
                Some(bare) if !joins => text.push_str(bare),
                _ => text.push_str(first),
            }
            corpus.append(self.second(corpus), count - 1, &mut text);
        }
        text
    }
}

/// Cuts texts from one corpus for one tokenizer. Every answer depends on its arguments alone.
#[derive(Debug)]
pub(crate) struct Cutter {
    corpus: Arc<Corpus>,
    tokenizer: Arc<dyn Tokenizer>,
    sums: PieceSums,
    /// Known once it is asked.
    apart: OnceLock<bool>,
}

/// Pieces in the middle of a text: the longest run that is not too long.
#[derive(Default)]
struct Run {
    pieces: usize,
    /// Tokens still missing.
    missing: usize,
    /// Numbers of the pieces that begin another block.
    crossings: Vec<usize>,
}

impl Cutter {
    /// Reads nothing yet.
    pub(crate) fn new(corpus: Arc<Corpus>, tokenizer: Arc<dyn Tokenizer>) -> Self {
        let sums = PieceSums::new(Arc::clone(&corpus), Arc::clone(&tokenizer));
        Self { sums, corpus, tokenizer, apart: OnceLock::new() }
    }

    /// What is cut from.
    pub(crate) fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// A text that has exactly the slot's tokens in it; lengths beyond the corpus go around it again. The error is the nearest
    /// count there is.
    pub(crate) fn cut(&self, start: Start, slot: Slot<'_>) -> Result<String, usize> {
        let tokenizer = self.tokenizer.as_ref();
        if self.keeps_words_apart() {
            if let Some(text) = self.by_sums(start, slot) {
                return Ok(text);
            }
        } else {
            // Pieces may join over more than the seams that are looked at, so the whole is counted.
            let from = |shift| Start { first: self.corpus.later(start.first, shift), ..start };
            let whole = (0..WHOLE_TRIES).find_map(|shift| {
                self.by_sums(from(shift), slot).filter(|text| slot.count(tokenizer, text) == slot.tokens)
            });
            if let Some(text) = whole {
                return Ok(text);
            }
        }
        search(&self.corpus, tokenizer, start, slot)
    }

    /// Whether the vocabulary splits text where pieces begin before it merges anything, so that seams are all there is to look at.
    /// Vocabularies of byte pairs over bytes do, nearly all; which, two blocks show, piece by piece.
    pub(crate) fn keeps_words_apart(&self) -> bool {
        *self.apart.get_or_init(|| match self.tokenizer.origin().kind {
            Kind::Tiktoken | Kind::Tekken => true,
            Kind::ByteLevelBpe => (0..self.corpus.len().min(2)).all(|block| {
                let places = (0..self.corpus.block(block).len()).map(|at| Place { block, at });
                self.sums.block(block).is_some()
                    && places.clone().zip(places.skip(1)).all(|(left, right)| self.adds_up(left, right))
            }),
            _ => false,
        })
    }

    /// As [`Self::cut`] from running sums alone; `None` where they do not get there.
    pub(crate) fn by_sums(&self, start: Start, slot: Slot<'_>) -> Option<String> {
        if slot.render.is_some() {
            return None;
        }
        let slot = slot.near(self.tokenizer.as_ref())?;
        let corpus = self.corpus.as_ref();
        let behind = Behind::new(self, slot.after)?;
        let tokens = slot.tokens.checked_sub(behind.tokens)?;
        let (head, head_pieces, head_tokens) = self.head(start, slot, tokens)?;
        let from = corpus.later(start.second(corpus), head_pieces - 1);
        let run = self.run(from, tokens - head_tokens)?;
        let end = self.end(from, &head, &run, &behind)?;

        let mut text = head;
        if end.pieces == 0 {
            // So short that its seams are all of it.
            text.extend(end.more.iter().map(|place| corpus.piece(*place)));
            return (slot.count(self.tokenizer.as_ref(), &text) == slot.tokens).then_some(text);
        }
        let first = corpus.piece(from);
        let with_first = [slot.before, text.as_str(), first].concat();
        if self.tokenizer.count(&with_first) != head_tokens + self.tokens_of(from)? {
            return None;
        }
        for crossing in run.crossings.iter().filter(|piece| (1..end.pieces).contains(*piece)) {
            if !self.adds_up(corpus.later(from, crossing - 1), corpus.later(from, *crossing)) {
                return None;
            }
        }
        text.reserve_exact(tokens.saturating_mul(BYTES_PER_TOKEN));
        corpus.append(from, end.pieces, &mut text);
        text.extend(end.more.iter().map(|place| corpus.piece(*place)));
        Some(text)
    }

    /// Whether two pieces side by side count as they do apart.
    fn adds_up(&self, left: Place, right: Place) -> bool {
        let sum = self.tokens_of(left).zip(self.tokens_of(right)).map(|(left, right)| left + right);
        let together = [self.corpus.piece(left), self.corpus.piece(right)].concat();
        sum.is_some() && self.sums.inside(&together) == sum
    }

    /// The first pieces that are not too many tokens, their number, and their count with what stands before them.
    fn head(&self, start: Start, slot: Slot<'_>, tokens: usize) -> Option<(String, usize, usize)> {
        (1..=HEAD_PIECES).rev().find_map(|pieces| {
            let text = start.text(&self.corpus, pieces, slot.joins);
            let count = match slot.before {
                "" => self.tokenizer.count(&text),
                before => self.tokenizer.count(&[before, text.as_str()].concat()),
            };
            (count <= tokens).then_some((text, pieces, count))
        })
    }

    fn run(&self, from: Place, mut tokens: usize) -> Option<Run> {
        let Place { mut block, mut at } = from;
        let mut run = Run::default();
        let mut idle = 0;
        loop {
            let sums = self.sums.block(block)?;
            let target = (tokens as u64).saturating_add(u64::from(sums[at]));
            let end = sums.partition_point(|sum| u64::from(*sum) <= target) - 1;
            let taken = (sums[end] - sums[at]) as usize;
            run.pieces += end - at;
            tokens -= taken;
            if end + 1 < sums.len() {
                run.missing = tokens;
                return Some(run);
            }
            run.crossings.push(run.pieces);
            // A tokenizer to which all pieces are nothing would go around for ever.
            idle = if taken == 0 { idle + 1 } else { 0 };
            if idle > self.corpus.len() {
                return None;
            }
            (block, at) = ((block + 1) % self.corpus.len(), 0);
        }
    }

    /// Makes a run exact, and its end no white space.
    fn end(&self, from: Place, head: &str, run: &Run, behind_it: &Behind<'_>) -> Option<End> {
        let corpus = self.corpus.as_ref();
        let before = |pieces: usize| (pieces > 0).then(|| corpus.later(from, pieces - 1));
        let mut missing = run.missing;
        // A head alone is counted whole later on.
        let ends_well = before(run.pieces).map_or(is_tight(head), |last| self.may_end(last, behind_it));
        if missing == 0 && ends_well {
            return Some(End { pieces: run.pieces, more: Vec::new() });
        }
        let behind = corpus.later(from, run.pieces);
        for given_up in 0..=run.pieces.min(MOST_GIVEN_UP) {
            let pieces = run.pieces - given_up;
            if given_up > 0 {
                missing += self.tokens_of(corpus.later(from, pieces))?;
            }
            let more = self.fill(before(pieces), behind, missing, behind_it);
            if more.is_some() {
                return more.map(|more| End { pieces, more });
            }
        }
        None
    }

    /// Pieces from `behind` on that are `missing` tokens together, each where it fits in, the last without white space at its
    /// end.
    fn fill(
        &self,
        before: Option<Place>,
        behind: Place,
        mut missing: usize,
        behind_it: &Behind<'_>,
    ) -> Option<Vec<Place>> {
        let mut more: Vec<Place> = Vec::new();
        let mut candidate = behind;
        for _ in 0..LOOK_AHEAD {
            let tokens = self.tokens_of(candidate)?;
            let is_last = tokens == missing;
            let fits = if is_last {
                self.may_end(candidate, behind_it)
            } else {
                tokens > 0 && tokens < missing && more.len() < MOST_FILLED
            };
            let left = more.last().copied().or(before);
            if fits && left.is_none_or(|left| self.adds_up(left, candidate)) {
                more.push(candidate);
                missing -= tokens;
                if is_last {
                    return Some(more);
                }
            }
            candidate = self.corpus.later(candidate, 1);
        }
        None
    }

    /// Whether a text may end with a piece: without white space, and counting with what stands behind it as the two do apart.
    fn may_end(&self, last: Place, behind: &Behind<'_>) -> bool {
        let piece = self.corpus.piece(last);
        is_tight(piece)
            && (behind.text.is_empty()
                || self.sums.inside(&[piece, behind.text].concat())
                    == self.tokens_of(last).map(|tokens| tokens + behind.tokens))
    }

    /// Tokens of a piece in the middle of a text.
    fn tokens_of(&self, place: Place) -> Option<usize> {
        let sums = self.sums.block(place.block)?;
        Some((sums[place.at + 1] - sums[place.at]) as usize)
    }
}

/// What stands behind a text.
struct Behind<'a> {
    text: &'a str,
    /// What it adds to a text.
    tokens: usize,
}

impl<'a> Behind<'a> {
    fn new(cutter: &Cutter, text: &'a str) -> Option<Self> {
        // Counted behind a word: what comes first in a text can get something that the middle does not.
        const WORD: &str = " the";
        let tokens = if text.is_empty() {
            0
        } else {
            let alone = cutter.sums.inside(WORD)?;
            cutter.sums.inside(&[WORD, text].concat())?.checked_sub(alone)?
        };
        Some(Self { text, tokens })
    }
}

/// How a text ends.
struct End {
    /// Pieces of the run that stay.
    pieces: usize,
    /// Pieces behind them.
    more: Vec<Place>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::corpus::SONNET;
    use crate::toys::{ALL_EXACT, Cut, Toy};

    fn at(piece: usize) -> Start {
        Start { first: SONNET.nth(piece), skip: 0 }
    }

    fn cutter(tokenizer: Arc<dyn Tokenizer>) -> Cutter {
        Cutter::new(Arc::clone(&SONNET), tokenizer)
    }

    #[test]
    fn a_start_can_leave_words_out() {
        assert_eq!(at(0).text(&SONNET, 4, false), "THE SONNETS 1 From");
        assert_eq!(Start { skip: 2, ..at(0) }.text(&SONNET, 3, false), "THE From fairest");
        assert_eq!(Start { skip: 2, ..at(0) }.text(&SONNET, 1, true), " THE");
        assert_eq!(at(5).text(&SONNET, 0, false), "");
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
            let cutter = cutter(Toy::shared(cut));
            assert_eq!(cutter.sums.block(3).is_some(), holds, "{cut:?}");
            assert_eq!(cutter.by_sums(at(1000), Slot::bare(500)).is_some(), holds, "{cut:?}");
        }
    }

    #[test]
    fn texts_are_words_of_the_corpus_from_the_start_on() {
        let cutter = cutter(Toy::shared(Cut::Words));
        let text = cutter.cut(at(3), Slot::bare(40)).expect("words end on 40 or a later one fits");
        assert!(text.starts_with("From fairest creatures we desire increase That thereby"), "{text}");
        assert!(!text.contains("  ") && !text.ends_with(' '));
    }

    #[test]
    fn lengths_beyond_the_corpus_go_around() {
        let toy = Toy::shared(Cut::FreeFirst);
        let cutter = cutter(Arc::clone(&toy));
        let words = SONNET.pieces();
        let text = cutter.cut(at(words - 2), Slot::bare(2 * words + 7)).expect("every word is one token");
        assert_eq!(toy.count(&text), 2 * words + 7);
        let around: Vec<&str> = text.split(' ').skip(2).take(3).collect();
        assert_eq!(around, ["THE", "SONNETS", "1"]);
    }

    #[test]
    fn an_impossible_length_gives_the_nearest() {
        let cutter = cutter(Toy::shared(Cut::Even));
        let nearest = cutter.cut(at(77), Slot::bare(101)).expect_err("no text has an odd count");
        assert!(nearest == 100 || nearest == 102, "{nearest}");
        assert!(cutter.cut(at(77), Slot::bare(100)).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_length_is_exact(word in 0..2_000_000usize, skip in 0..3usize, tokens in 1..3000usize, cut in 0..5usize) {
            let toy = Toy::shared(ALL_EXACT[cut]);
            let text = cutter(Arc::clone(&toy)).cut(Start { skip, ..at(word) }, Slot::bare(tokens));
            prop_assert_eq!(text.map(|t| toy.count(&t)), Ok(tokens));
        }

        #[test]
        fn every_short_length_is_exact(word in 0..2_000_000usize, tokens in 1..12usize, cut in 0..5usize) {
            let toy = Toy::shared(ALL_EXACT[cut]);
            let text = cutter(Arc::clone(&toy)).cut(at(word), Slot::bare(tokens));
            prop_assert_eq!(text.map(|t| toy.count(&t)), Ok(tokens));
        }
    }
}
