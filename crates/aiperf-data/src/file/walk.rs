//! A walk through one JSON document of any size: its lists and objects item by item, one value in memory at a time.
//!
//! The walk finds where values end and leaves it to the caller to parse them, so that the document goes through the fast reader of
//! slices and not byte by byte through the reader of streams.

use std::io::Read;

use aiperf_files::Input;
use memchr::{memchr_iter, memchr2, memrchr};

use super::row::broken;
use crate::error::{DataError, RowProblem};

const PIECE: usize = 1 << 18;

/// Where a walk stands.
pub(super) struct Walk<'a> {
    input: &'a Input,
    buffer: Vec<u8>,
    /// The next byte of the buffer.
    at: usize,
    /// Where the value begins that is gone through, if it is to be kept.
    from: Option<usize>,
    /// Where the buffer begins in the file.
    start: u64,
    /// The line in which the buffer begins, and the bytes of it that are before the buffer.
    line: u64,
    column: usize,
    ended: bool,
    /// Least bytes that are read at once.
    piece: usize,
}

/// A value as it stands in the file, and where that is. That it is JSON is not checked yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'b> {
    pub(super) start: u64,
    pub(super) bytes: &'b [u8],
    before: Before<'b>,
}

/// What stands before a byte: where that begins, and some of it.
#[derive(Debug, Clone, Copy)]
struct Before<'b> {
    line: u64,
    column: usize,
    bytes: &'b [u8],
}

impl Before<'_> {
    /// The line of the byte behind it, and how many bytes of that line are before it.
    fn place(&self) -> (u64, usize) {
        match memrchr(b'\n', self.bytes) {
            Some(end) => {
                (self.line + memchr_iter(b'\n', self.bytes).count() as u64, self.bytes.len() - end - 1)
            }
            None => (self.line, self.column + self.bytes.len()),
        }
    }
}

impl Raw<'_> {
    /// What the JSON reader found in it, with the place in the file.
    pub(super) fn error(&self, input: &Input, error: &serde_json::Error) -> DataError {
        let (line, before) = self.before.place();
        let (column, mut problem) = broken(error);
        // The file goes on behind it.
        if problem == RowProblem::Truncated {
            problem = RowProblem::Json { reason: "a value ends too early".to_owned() };
        }
        let before = if error.line() <= 1 { before } else { 0 };
        let line = line + (error.line() as u64).saturating_sub(1);
        DataError::Row { path: input.name.clone(), line, column: column.map(|c| c + before), problem }
    }
}

impl<'a> Walk<'a> {
    /// From the beginning of the text of `input`.
    pub(super) fn new(input: &'a Input) -> Result<Self, DataError> {
        let start = input.to_text().map_err(|source| DataError::Read { path: input.name.clone(), source })?;
        Ok(Self {
            input,
            buffer: Vec::with_capacity(PIECE),
            at: 0,
            from: None,
            start,
            line: 1,
            column: 0,
            ended: false,
            piece: PIECE,
        })
    }

    /// Reads on and drops what is not needed any more. Whether there was more.
    fn fill(&mut self) -> Result<bool, DataError> {
        if self.ended {
            return Ok(false);
        }
        let needed = self.from.unwrap_or(self.at);
        (self.line, self.column) = self.before(needed).place();
        self.buffer.copy_within(needed.., 0);
        self.buffer.truncate(self.buffer.len() - needed);
        self.start += needed as u64;
        self.at -= needed;
        self.from = self.from.map(|_| 0);
        // A value of any size is copied a bounded number of times.
        let more = self.piece.max(self.buffer.len()) as u64;
        let read = Read::take(&self.input.file, more).read_to_end(&mut self.buffer);
        let read = read.map_err(|source| DataError::Read { path: self.input.name.clone(), source })?;
        self.ended = read == 0;
        Ok(read > 0)
    }

    fn before(&self, at: usize) -> Before<'_> {
        Before { line: self.line, column: self.column, bytes: &self.buffer[..at] }
    }

    /// Where the next byte is in the file.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.at as u64
    }

    fn fault(&self, at: usize, problem: RowProblem) -> DataError {
        let (line, column) = self.before(at).place();
        DataError::Row { path: self.input.name.clone(), line, column: Some(column + 1), problem }
    }

    /// The next byte does not go on as JSON would, or the file ends.
    pub(super) fn unexpected(&self, expected: &str) -> DataError {
        if self.at == self.buffer.len() {
            let (line, column) = self.before(self.at).place();
            let problem = RowProblem::Truncated;
            return DataError::Row { path: self.input.name.clone(), line, column: Some(column), problem };
        }
        self.fault(self.at, RowProblem::Json { reason: format!("expected {expected}") })
    }

    /// The next byte that is not blank; it is still to be taken.
    fn peek(&mut self) -> Result<Option<u8>, DataError> {
        loop {
            while let Some(byte) = self.buffer.get(self.at) {
                if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                    return Ok(Some(*byte));
                }
                self.at += 1;
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Takes `byte`, if it is the next one that is not blank; `[` and `{` enter a list and an object.
    pub(super) fn takes(&mut self, byte: u8) -> Result<bool, DataError> {
        let is_next = self.peek()? == Some(byte);
        self.at += usize::from(is_next);
        Ok(is_next)
    }

    /// Whether another item follows in a list; if not, its end is taken. `is_first` is kept by the caller.
    pub(super) fn item(&mut self, is_first: &mut bool) -> Result<bool, DataError> {
        self.follows(b']', "`,` or `]`", is_first)
    }

    /// The next key of an object, whose value is next then, or nothing at its end.
    pub(super) fn key(&mut self, is_first: &mut bool) -> Result<Option<String>, DataError> {
        if !self.follows(b'}', "`,` or `}`", is_first)? {
            return Ok(None);
        }
        if self.peek()? != Some(b'"') {
            return Err(self.unexpected("a key in quotes"));
        }
        let input = self.input;
        let raw = self.value()?;
        let key = serde_json::from_slice(raw.bytes).map_err(|error| raw.error(input, &error))?;
        if self.takes(b':')? { Ok(Some(key)) } else { Err(self.unexpected("`:`")) }
    }

    fn follows(&mut self, closing: u8, expected: &str, is_first: &mut bool) -> Result<bool, DataError> {
        let was_first = std::mem::replace(is_first, false);
        if self.takes(closing)? {
            return Ok(false);
        }
        if was_first {
            return if self.peek()?.is_some() { Ok(true) } else { Err(self.unexpected("")) };
        }
        if !self.takes(b',')? {
            return Err(self.unexpected(expected));
        }
        if self.peek()? == Some(closing) {
            return Err(self.fault(self.at, RowProblem::Json { reason: "trailing comma".to_owned() }));
        }
        Ok(true)
    }

    /// The next value. It is in memory until the walk goes on.
    pub(super) fn value(&mut self) -> Result<Raw<'_>, DataError> {
        self.pass(true)?;
        let from = self.from.take().unwrap_or(self.at);
        let (start, bytes) = (self.start + from as u64, &self.buffer[from..self.at]);
        Ok(Raw { start, bytes, before: self.before(from) })
    }

    /// Passes by the next value, whatever its size.
    pub(super) fn skip(&mut self) -> Result<(), DataError> {
        self.pass(false)
    }

    /// Nothing but blanks may follow.
    pub(super) fn end(&mut self) -> Result<(), DataError> {
        match self.peek()? {
            None => Ok(()),
            Some(_) => {
                Err(self.fault(self.at, RowProblem::Json { reason: "trailing characters".to_owned() }))
            }
        }
    }

    /// Goes behind the next value.
    fn pass(&mut self, keep: bool) -> Result<(), DataError> {
        if let Some(b',' | b':' | b']' | b'}') | None = self.peek()? {
            return Err(self.unexpected("a value"));
        }
        self.from = keep.then_some(self.at);
        let mut depth = 0_usize;
        loop {
            let Some(byte) = self.buffer.get(self.at).copied() else {
                if self.fill()? {
                    continue;
                }
                // A number or a word may end with the file.
                return if depth == 0 { Ok(()) } else { Err(self.unexpected("")) };
            };
            match byte {
                b'"' => {
                    self.at += 1;
                    self.text()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                // The end of a number or a word.
                b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return Ok(()),
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                _ => {
                    self.at += 1;
                    continue;
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Goes behind the end of a text whose first quote was taken.
    fn text(&mut self) -> Result<(), DataError> {
        loop {
            match memchr2(b'"', b'\\', &self.buffer[self.at..]) {
                Some(found) if self.buffer[self.at + found] == b'"' => {
                    self.at += found + 1;
                    return Ok(());
                }
                Some(found) if self.at + found + 1 < self.buffer.len() => self.at += found + 2,
                found => {
                    self.at = found.map_or(self.buffer.len(), |found| self.at + found);
                    if !self.fill()? {
                        self.at = self.buffer.len();
                        return Err(self.unexpected(""));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn input(text: &str) -> Input {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("written");
        Input { file, name: PathBuf::from("a.json"), is_spooled: true }
    }

    /// Walks to the given depth and makes the document anew of what it finds.
    fn walked(walk: &mut Walk<'_>, text: &str, depth: u8) -> Result<Value, DataError> {
        let mut is_first = true;
        if depth > 0 && walk.takes(b'[')? {
            let mut list = Vec::new();
            while walk.item(&mut is_first)? {
                list.push(walked(walk, text, depth - 1)?);
            }
            return Ok(Value::Array(list));
        }
        if depth > 0 && walk.takes(b'{')? {
            let mut object = serde_json::Map::new();
            while let Some(key) = walk.key(&mut is_first)? {
                object.insert(key, walked(walk, text, depth - 1)?);
            }
            return Ok(Value::Object(object));
        }
        let (input, raw) = (walk.input, walk.value()?);
        assert_eq!(text.as_bytes()[raw.start as usize..][..raw.bytes.len()], *raw.bytes);
        serde_json::from_slice(raw.bytes).map_err(|error| raw.error(input, &error))
    }

    fn whole(text: &str, piece: usize, depth: u8) -> Result<Value, String> {
        let input = input(text);
        let mut walk = Walk { piece, ..Walk::new(&input).expect("opened") };
        let value = walked(&mut walk, text, depth).map_err(|error| error.to_string())?;
        walk.end().map_err(|error| error.to_string())?;
        Ok(value)
    }

    #[test]
    fn faults_have_their_place_in_the_file() {
        for (text, wanted) in [
            ("", ":1:0: the row ends in the middle of its JSON; is the file cut off?"),
            (" [1, \n\"ab", ":2:3: the row ends in the middle of its JSON; is the file cut off?"),
            ("[1 2]", ":1:4: not valid JSON: expected `,` or `]`"),
            ("[1,]", ":1:4: not valid JSON: trailing comma"),
            ("[1,\n{\"a\":tru}]", ":2:8: not valid JSON: a value ends too early"),
            ("[\n\n {\"a\"\n:\n[1}", ":5:3: not valid JSON: expected `,` or `]`"),
            ("[{\"a\" 1}]", ":1:7: not valid JSON: expected `:`"),
            ("[{1:1}]", ":1:3: not valid JSON: expected a key in quotes"),
            ("[}", ":1:2: not valid JSON: expected a value"),
            ("[]]", ":1:3: not valid JSON: trailing characters"),
        ] {
            for piece in [1, 2, 7, PIECE] {
                let found = whole(text, piece, 2).expect_err(text);
                assert_eq!(found, format!("a.json{wanted}"), "{text} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn what_is_skipped_is_not_kept() {
        let text = format!("[{{\"a\":\"{}\\\"\",\"b\":[1,{{}}]}} ,-1.5e3, 7]", "x".repeat(5000));
        let input = input(&text);
        let mut walk = Walk { piece: 16, ..Walk::new(&input).expect("opened") };
        assert!(walk.takes(b'[').expect("read"));
        let mut is_first = true;
        for _ in 0..2 {
            assert!(walk.item(&mut is_first).expect("read"));
            walk.skip().expect("a value");
            assert!(walk.buffer.len() <= 64, "{}", walk.buffer.len());
        }
        assert!(walk.item(&mut is_first).expect("read"));
        assert_eq!(walk.value().expect("a value").bytes, b"7");
        assert!(!walk.item(&mut is_first).expect("read"));
        walk.end().expect("the end");
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
            "[a-zä\"\\\\{}\\[\\], :\n]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"{}]{0,4}", inner, 0..5).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        /// However deep it walks and whatever the pieces: the document comes back.
        #[test]
        fn a_document_comes_back(document in documents(), pretty: bool, piece in 1_usize..40, depth in 0_u8..4) {
            let text = if pretty { format!("{document:#}") } else { document.to_string() };
            prop_assert_eq!(whole(&text, piece, depth), Ok(document));
        }

        /// Damage is told or makes another document; it is the same as the JSON reader's verdict where all is parsed at once.
        #[test]
        fn damage_is_found(document in documents(), at: prop::sample::Index, with in "[\"\\\\{}\\[\\],:1 ]?", piece in 1_usize..40, depth in 0_u8..4) {
            let mut text = document.to_string();
            let from = (0..text.len()).filter(|i| text.is_char_boundary(*i)).collect::<Vec<_>>();
            let from = from[at.index(from.len())];
            let to = from + text[from..].chars().next().map_or(0, char::len_utf8);
            text.replace_range(from..to, &with);
            let parsed: Result<Value, _> = serde_json::from_str(&text);
            prop_assert_eq!(whole(&text, piece, depth).ok(), parsed.ok());
        }
    }
}
