//! A line-based file, from its first row to its last.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::row::Placed;
use crate::error::DataError;

const BUFFER: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const GZIP: &[u8] = b"\x1f\x8b";

/// A line that is not blank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Where it begins in the file.
    pub(crate) start: u64,
    /// Where the next one begins.
    pub(crate) end: u64,
    /// Without a byte order mark, with its line end.
    bytes: &'a [u8],
}

impl Line<'_> {
    /// Its bytes without white space around them.
    pub(crate) fn row(&self) -> &[u8] {
        self.bytes.trim_ascii()
    }

    /// `placed`, which was found in the row, as an error of the file.
    pub(crate) fn error(&self, path: &Path, (column, problem): Placed) -> DataError {
        let indent = self.bytes.len() - self.bytes.trim_ascii_start().len();
        placed_error(path, self.number, (column.map(|c| c + indent), problem))
    }
}

/// A problem in a row as an error of the file.
pub(crate) fn placed_error(path: &Path, line: u64, (column, problem): Placed) -> DataError {
    DataError::Row { path: path.to_owned(), line, column, problem }
}

/// Opens a regular file: it is read again while the run goes on.
pub(crate) fn open(path: &Path) -> Result<File, DataError> {
    let read = |source| DataError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    if !file.metadata().map_err(read)?.is_file() {
        return Err(DataError::NotAFile { path: path.to_owned() });
    }
    Ok(file)
}

/// Gives every line that is not blank to `take`, in order, reading the file once.
pub(crate) fn each(
    path: &Path,
    file: &File,
    mut take: impl FnMut(Line<'_>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let (mut at, mut number) = (0u64, 0u64);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader
            .read_until(b'\n', &mut line)
            .map_err(|source| DataError::Read { path: path.to_owned(), source })?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        let end = at + read as u64;
        let mut start = at;
        let mut bytes = line.as_slice();
        if number == 1 {
            if bytes.starts_with(GZIP) {
                return Err(DataError::Compressed { path: path.to_owned() });
            }
            if let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK) {
                bytes = rest;
                start += BYTE_ORDER_MARK.len() as u64;
            }
        }
        if !bytes.trim_ascii().is_empty() {
            take(Line { number, start, end, bytes })?;
        }
        at = end;
    }
}
