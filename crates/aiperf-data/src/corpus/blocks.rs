//! Blocks of pieces, made on first use.

use std::ops::Range;
use std::sync::OnceLock;

use aiperf_rng::{Draws, Permutation, Stream};

use super::packed::{Packed, table};
use crate::cut::Start;

/// A text as pieces, block by block.
#[derive(Debug)]
pub(crate) struct Corpus {
    source: Source,
    blocks: Box<[OnceLock<Block>]>,
}

/// Where blocks come from.
#[derive(Debug)]
enum Source {
    Packed(Vec<Packed>),
    /// Block `i` is written from the draws of index `i`.
    Made(Stream, fn(&mut Draws) -> String),
}

/// Some lines of the corpus.
#[derive(Debug)]
pub(crate) struct Block {
    text: String,
    /// Where each piece begins; one more at the end.
    starts: Box<[u32]>,
}

/// A piece of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Which block.
    pub(crate) block: usize,
    /// Which of the block's pieces.
    pub(crate) at: usize,
}

/// Whether a text may end here: chat templates can drop white space at the end of a message, and then it would not count.
pub(crate) fn is_tight(text: &str) -> bool {
    !text.ends_with(|c: char| c.is_whitespace())
}

impl Corpus {
    /// Unpacks nothing yet.
    pub(super) fn packed(packed: &'static [u8]) -> Self {
        let packed = table(packed);
        Self { blocks: packed.iter().map(|_| OnceLock::new()).collect(), source: Source::Packed(packed) }
    }

    /// Writes nothing yet.
    pub(super) fn made(blocks: usize, stream: Stream, write: fn(&mut Draws) -> String) -> Self {
        Self { blocks: (0..blocks).map(|_| OnceLock::new()).collect(), source: Source::Made(stream, write) }
    }

    /// Number of blocks; at least one.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// A block, made on first use.
    pub(crate) fn block(&self, index: usize) -> &Block {
        self.blocks[index].get_or_init(|| match &self.source {
            Source::Packed(packed) => {
                let block = Block::new(packed[index].words());
                assert_eq!(block.len(), packed[index].words, "the table counts the words of each block");
                block
            }
            Source::Made(stream, write) => Block::new(write(&mut stream.at(index as u64))),
        })
    }

    /// Where text number `index` of a workload begins. No two are the same as long as pieces last; beyond that the number of
    /// pieces left out behind the first tells them apart.
    pub(crate) fn start(&self, stream: Stream, index: u64) -> Start {
        let shuffled =
            |lane: u64, len: usize, at: u64| Permutation::new(stream.lane(lane), len as u64).at(at) as usize;
        match &self.source {
            Source::Packed(packed) => {
                let words = packed.last().map_or(1, |last| last.first_word + last.words);
                let word = shuffled(0, words, index % words as u64);
                let block = packed.partition_point(|b| b.first_word <= word) - 1;
                let first = Place { block, at: word - packed[block].first_word };
                Start { first, skip: (index / words as u64) as usize }
            }
            // How many pieces there are is not known before all blocks are written; so the blocks come in a shuffled order, and
            // the pieces of each in one of its own.
            Source::Made(..) => {
                let blocks = self.len() as u64;
                let block = shuffled(0, self.len(), index % blocks);
                let pieces = self.block(block).len() as u64;
                let round = index / blocks;
                let at = shuffled(1 + block as u64, pieces as usize, round % pieces);
                Start { first: Place { block, at }, skip: (round / pieces) as usize }
            }
        }
    }

    /// A piece, with the space before it.
    pub(crate) fn piece(&self, place: Place) -> &str {
        self.block(place.block).slice(place.at..place.at + 1)
    }

    /// The piece that comes `pieces` later. The first of all follows the last.
    pub(crate) fn later(&self, place: Place, pieces: usize) -> Place {
        let Place { mut block, at } = place;
        let mut ahead = at + pieces;
        loop {
            let here = self.block(block).len();
            if ahead < here {
                return Place { block, at: ahead };
            }
            ahead -= here;
            block = (block + 1) % self.len();
        }
    }

    /// Appends `count` pieces from `place` on to `out`. The first of all follows the last.
    pub(crate) fn append(&self, place: Place, count: usize, out: &mut String) {
        let Place { mut block, mut at } = place;
        let mut left = count;
        while left > 0 {
            let text = self.block(block);
            let end = text.len().min(at + left);
            out.push_str(text.slice(at..end));
            left -= end - at;
            (block, at) = ((block + 1) % self.len(), 0);
        }
    }
}

impl Block {
    fn new(text: String) -> Self {
        let starts = starts(text.as_bytes()).into();
        Self { text, starts }
    }

    /// Number of pieces; at least one.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Pieces side by side.
    pub(crate) fn slice(&self, pieces: Range<usize>) -> &str {
        &self.text[self.starts[pieces.start] as usize..self.starts[pieces.end] as usize]
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Its pieces in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        self.starts.windows(2).map(|ends| &self.text[ends[0] as usize..ends[1] as usize])
    }
}

/// Where pieces begin: at the last space before a word and at a line's first letter. And where the last ends.
///
/// Two places more would look right and are not: some vocabularies cut numbers out first, so that all the white space before
/// one is a token (DeepSeek-V3), and some join a line end with slashes behind it (o200k).
fn starts(text: &[u8]) -> Vec<u32> {
    let is_space = |b: u8| matches!(b, b' ' | b'\n' | b'\t' | b'\r');
    let mut starts = vec![0];
    for i in 1..text.len() {
        let (before, here) = (text[i - 1], text[i]);
        let begins_word = here == b' '
            && text
                .get(i + 1)
                .is_some_and(|next| !is_space(*next) && (!is_space(before) || !next.is_ascii_digit()));
        let begins_line = before == b'\n' && !is_space(here) && here != b'/';
        if begins_word || begins_line {
            starts.push(i as u32);
        }
    }
    starts.push(text.len() as u32);
    starts
}

#[cfg(test)]
impl Corpus {
    /// The pieces of all blocks; writes or unpacks them.
    pub(crate) fn pieces(&self) -> usize {
        (0..self.len()).map(|i| self.block(i).len()).sum()
    }

    /// The piece that is number `index` of all.
    pub(crate) fn nth(&self, index: usize) -> Place {
        self.later(Place { block: 0, at: 0 }, index % self.pieces())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};
    use std::sync::Arc;

    use aiperf_rng::Key;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::corpus::{SONNET, coding};

    fn packed() -> &'static [Packed] {
        match &SONNET.source {
            Source::Packed(packed) => packed,
            Source::Made(..) => unreachable!("the sonnet corpus is packed"),
        }
    }

    #[test]
    fn the_sonnet_text_is_the_published_one() {
        let mut hash = Sha256::new();
        let mut bytes = 0;
        for packed in packed() {
            let text = packed.raw();
            bytes += text.len();
            hash.update(text);
        }
        assert_eq!(bytes, 5_020_475);
        let hex: Vec<String> = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex.concat(), "e0e13a826912a4a81bb3a582aa73c4af0675bdeee6ddf6d505efb63d562d496f");
    }

    #[test]
    fn sonnet_pieces_are_words_behind_single_spaces() {
        let mut words = 0;
        for i in 0..SONNET.len() {
            let block = SONNET.block(i);
            assert_eq!(packed()[i].first_word, words);
            let split: Vec<&str> = block.text().split(' ').skip(1).collect();
            assert!(split.iter().all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric())));
            assert_eq!(split.len(), block.len());
            assert!(block.pieces().map(str::trim_start).eq(split.iter().copied()));
            assert_eq!(block.slice(7..10), format!(" {}", split[7..10].join(" ")));
            assert_eq!(block.slice(7..7), "");
            words += split.len();
        }
        assert_eq!((words, SONNET.pieces()), (963_106, 963_106));
    }

    #[test]
    fn pieces_are_found_and_go_around() {
        let start = Place { block: 0, at: 0 };
        assert_eq!(SONNET.piece(SONNET.later(start, 1)), " SONNETS");
        assert_eq!(SONNET.later(start, 963_106), start);
        let fifth = SONNET.later(start, packed()[5].first_word);
        assert_eq!(fifth, Place { block: 5, at: 0 });
        let last = SONNET.later(start, 963_105);
        let mut text = String::new();
        SONNET.append(last, 4, &mut text);
        assert_eq!(text, format!("{} THE SONNETS 1", SONNET.piece(last)));
    }

    #[test]
    fn pieces_begin_at_words_and_lines() {
        let pieces =
            |text: &str| -> Vec<String> { Block::new(text.to_owned()).pieces().map(str::to_owned).collect() };
        assert_eq!(
            pieces("def f(a, b):\n    return a\n\nx = 1\n"),
            ["def", " f(a,", " b):\n   ", " return", " a\n\n", "x", " =", " 1\n"]
        );
        assert_eq!(pieces("a\n\tb  c"), ["a\n\tb ", " c"]);
        assert_eq!(pieces("a 1  2\n// b"), ["a", " 1  2\n//", " b"]);
        assert_eq!(pieces(" one"), [" one"]);
        assert_eq!(pieces("é ü"), ["é", " ü"]);
    }

    #[test]
    fn no_two_starts_are_the_same() {
        let stream = Key::new(4).purpose("test.starts");
        for (corpus, wrap) in [(Arc::clone(&SONNET), 963_106u64), (coding(4), 5000)] {
            let indices: BTreeSet<u64> = (0..3000).chain(wrap - 3000..wrap + 3000).collect();
            let starts: HashSet<Start> = indices.iter().map(|i| corpus.start(stream, *i)).collect();
            assert_eq!(starts.len(), indices.len());
        }
    }

    #[test]
    fn a_made_block_is_a_function_of_seed_and_position() {
        let (a, b, other) = (coding(1), coding(1), coding(2));
        b.block(9);
        assert_eq!(a.block(5).text(), b.block(5).text());
        assert_ne!(a.block(5).text(), a.block(6).text());
        assert_ne!(a.block(5).text(), other.block(5).text());
    }
}
