//! The packed form: a table of sizes in a skippable frame, then zstd frames (`corpus/pack.py` writes it).

use ruzstd::decoding::FrameDecoder;

/// Magic number of the skippable frame that holds the table.
const TABLE_MAGIC: usize = 0x184d_2a50;
/// Magic number and length of a skippable frame.
const TABLE_HEAD: usize = 8;
/// Packed length, text length, words: three little-endian `u32`.
const TABLE_ROW: usize = 12;

/// One block of lines.
///
/// It is made from bytes that are part of the program, so a broken form is a broken build: every block is checked by a test,
/// and what does not fit panics with its reason.
#[derive(Debug)]
pub(super) struct Packed {
    frame: &'static [u8],
    text_len: usize,
    /// Position of the block's first word in the corpus.
    pub(super) first_word: usize,
    pub(super) words: usize,
}

/// Reads the table at the start of `packed`; unpacks nothing.
pub(super) fn table(packed: &'static [u8]) -> Vec<Packed> {
    let word = |at: usize| -> usize {
        let bytes = packed.get(at..at + 4).and_then(|b| b.try_into().ok());
        u32::from_le_bytes(bytes.expect("a packed corpus begins with a whole table")) as usize
    };
    assert_eq!(word(0), TABLE_MAGIC, "a packed corpus begins with a table");
    let mut at = TABLE_HEAD + word(4);
    let mut first_word = 0;
    let mut blocks = Vec::with_capacity(word(4) / TABLE_ROW);
    for row in (TABLE_HEAD..at).step_by(TABLE_ROW) {
        let frame = packed.get(at..at + word(row)).expect("the table's sizes add up to the file");
        let words = word(row + 8);
        blocks.push(Packed { frame, text_len: word(row + 4), first_word, words });
        at += frame.len();
        first_word += words;
    }
    blocks
}

impl Packed {
    /// The text as it was packed, line ends included.
    pub(super) fn raw(&self) -> String {
        let mut bytes = vec![0; self.text_len];
        let written = FrameDecoder::new().decode_all(self.frame, &mut bytes);
        assert_eq!(written.ok(), Some(self.text_len), "a packed block holds what its table says");
        String::from_utf8(bytes).expect("a corpus is UTF-8")
    }

    /// The text as words, each behind one space.
    pub(super) fn words(&self) -> String {
        let raw = self.raw();
        let mut text = String::with_capacity(raw.len() + 1);
        text.push(' ');
        text.extend(raw.trim_end().chars().map(|c| if c == '\n' { ' ' } else { c }));
        text
    }
}
