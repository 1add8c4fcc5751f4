//! The packed form: a table of sizes in a skippable frame, then zstd frames (`corpus/pack.py` writes it).

use std::ops::Range;
use std::sync::OnceLock;

use ruzstd::decoding::FrameDecoder;

/// Magic number of the skippable frame that holds the table.
const TABLE_MAGIC: usize = 0x184d_2a50;
/// Magic number and length of a skippable frame.
const TABLE_HEAD: usize = 8;
/// Packed length, text length, words: three little-endian `u32`.
const TABLE_ROW: usize = 12;

/// A text as words, unpacked block by block.
///
/// It is made from bytes that are part of the program, so a broken form is a broken build: every block is checked by a test,
/// and what does not fit panics with its reason.
#[derive(Debug)]
pub(crate) struct Corpus {
    blocks: Vec<Packed>,
    words: usize,
}

#[derive(Debug)]
struct Packed {
    frame: &'static [u8],
    text_len: usize,
    /// Position of the block's first word in the corpus.
    first_word: usize,
    words: usize,
    open: OnceLock<Block>,
}

/// Some lines of the corpus, joined by single spaces.
#[derive(Debug)]
pub(crate) struct Block {
    text: String,
    /// Where each word begins; one more at the end, where the next would.
    starts: Box<[u32]>,
}

impl Corpus {
    /// Reads the table at the start of `packed`; unpacks nothing.
    pub(crate) fn new(packed: &'static [u8]) -> Self {
        let word = |at: usize| -> usize {
            let bytes = packed.get(at..at + 4).and_then(|b| b.try_into().ok());
            u32::from_le_bytes(bytes.expect("a packed corpus begins with a whole table")) as usize
        };
        assert_eq!(word(0), TABLE_MAGIC, "a packed corpus begins with a table");
        let mut at = TABLE_HEAD + word(4);
        let mut words = 0;
        let mut blocks = Vec::with_capacity(word(4) / TABLE_ROW);
        for row in (TABLE_HEAD..at).step_by(TABLE_ROW) {
            let frame = packed.get(at..at + word(row)).expect("the table's sizes add up to the file");
            blocks.push(Packed {
                frame,
                text_len: word(row + 4),
                first_word: words,
                words: word(row + 8),
                open: OnceLock::new(),
            });
            at += frame.len();
            words += word(row + 8);
        }
        Self { blocks, words }
    }

    /// Number of words; at least one.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Number of blocks; at least one.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The block that holds a word, and the word's position in it. Positions wrap at the end of the corpus.
    pub(crate) fn locate(&self, word: usize) -> (usize, usize) {
        let word = word % self.words;
        let block = self.blocks.partition_point(|b| b.first_word <= word) - 1;
        (block, word - self.blocks[block].first_word)
    }

    /// A block's text, unpacked on first use.
    pub(crate) fn block(&self, index: usize) -> &Block {
        let packed = &self.blocks[index];
        packed.open.get_or_init(|| {
            let block = packed.unpack();
            assert_eq!(block.words(), packed.words, "the table counts the words of each block");
            block
        })
    }

    /// A word. Positions wrap at the end of the corpus.
    pub(crate) fn word(&self, word: usize) -> &str {
        let (block, at) = self.locate(word);
        self.block(block).slice(at..at + 1)
    }

    /// Appends `count` words from `word` on to `out`, each after a space unless `out` is empty. Wraps at the end of the corpus.
    pub(crate) fn append(&self, word: usize, count: usize, out: &mut String) {
        let (mut block, mut at) = self.locate(word);
        let mut left = count;
        while left > 0 {
            let text = self.block(block);
            let end = text.words().min(at + left);
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(text.slice(at..end));
            left -= end - at;
            (block, at) = ((block + 1) % self.len(), 0);
        }
    }
}

impl Packed {
    /// The text as it was packed, line ends included.
    fn raw(&self) -> String {
        let mut bytes = vec![0; self.text_len];
        let written = FrameDecoder::new().decode_all(self.frame, &mut bytes);
        assert_eq!(written.ok(), Some(self.text_len), "a packed block holds what its table says");
        String::from_utf8(bytes).expect("a corpus is UTF-8")
    }

    fn unpack(&self) -> Block {
        let text = self.raw();
        let text = text.trim_end().replace('\n', " ");
        let mut starts = Vec::with_capacity(self.words + 1);
        starts.push(0);
        starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b' ').map(|(i, _)| i as u32 + 1));
        starts.push(text.len() as u32 + 1);
        Block { text, starts: starts.into() }
    }
}

impl Block {
    /// Number of words.
    pub(crate) fn words(&self) -> usize {
        self.starts.len() - 1
    }

    /// Words as one text, without space around; empty for an empty range.
    pub(crate) fn slice(&self, words: Range<usize>) -> &str {
        let start = self.starts[words.start] as usize;
        let end = self.starts[words.end] as usize;
        self.text.get(start..end.saturating_sub(1)).unwrap_or_default()
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use crate::corpus::SONNET;

    #[test]
    fn the_sonnet_text_is_the_published_one() {
        let mut hash = Sha256::new();
        let mut bytes = 0;
        for packed in &SONNET.blocks {
            let text = packed.raw();
            bytes += text.len();
            hash.update(text);
        }
        assert_eq!(bytes, 5_020_475);
        let hex: Vec<String> = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex.concat(), "e0e13a826912a4a81bb3a582aa73c4af0675bdeee6ddf6d505efb63d562d496f");
    }

    #[test]
    fn blocks_are_words_joined_by_single_spaces() {
        let mut words = 0;
        for i in 0..SONNET.len() {
            let block = SONNET.block(i);
            assert_eq!(SONNET.blocks[i].first_word, words);
            let split: Vec<&str> = block.text().split(' ').collect();
            assert!(split.iter().all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric())));
            assert_eq!(split.len(), block.words());
            assert_eq!(block.slice(0..block.words()), block.text());
            assert_eq!(block.slice(7..8), split[7]);
            assert_eq!(block.slice(7..10), split[7..10].join(" "));
            assert_eq!(block.slice(7..7), "");
            words += split.len();
        }
        assert_eq!((words, SONNET.words()), (963_106, 963_106));
    }

    #[test]
    fn words_are_found_and_wrap() {
        assert_eq!(SONNET.locate(0), (0, 0));
        assert_eq!(SONNET.locate(SONNET.words()), (0, 0));
        assert_eq!(SONNET.locate(SONNET.blocks[5].first_word), (5, 0));
        assert_eq!(SONNET.locate(SONNET.blocks[5].first_word - 1), (4, SONNET.block(4).words() - 1));
        assert_eq!(SONNET.word(1), "SONNETS");
        let mut text = String::new();
        SONNET.append(SONNET.words() - 1, 4, &mut text);
        assert_eq!(text, format!("{} THE SONNETS 1", SONNET.word(SONNET.words() - 1)));
        SONNET.append(3, 1, &mut text);
        assert!(text.ends_with(" 1 From"), "{text}");
    }
}
