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

/// The first line that is not blank, with its number.
pub(crate) fn first(path: &Path, file: &File) -> Result<Option<(u64, Vec<u8>)>, DataError> {
    let mut lines = Lines::new(path, file);
    Ok(lines.next()?.map(|line| (line.number, line.row().to_vec())))
}

/// Gives every line that is not blank to `take`, in order, reading the file once.
pub(crate) fn each(
    path: &Path,
    file: &File,
    mut take: impl FnMut(Line<'_>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut lines = Lines::new(path, file);
    while let Some(line) = lines.next()? {
        take(line)?;
    }
    Ok(())
}

/// The lines of a file that are not blank.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<&'a File>,
    at: u64,
    number: u64,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn new(path: &'a Path, file: &'a File) -> Self {
        Self { path, reader: BufReader::with_capacity(BUFFER, file), at: 0, number: 0, line: Vec::new() }
    }

    fn next(&mut self) -> Result<Option<Line<'_>>, DataError> {
        let mut start;
        loop {
            self.line.clear();
            let read = self
                .reader
                .read_until(b'\n', &mut self.line)
                .map_err(|source| DataError::Read { path: self.path.to_owned(), source })?;
            if read == 0 {
                return Ok(None);
            }
            start = self.at;
            self.at += read as u64;
            self.number += 1;
            if self.number == 1 {
                if self.line.starts_with(GZIP) {
                    return Err(DataError::Compressed { path: self.path.to_owned() });
                }
                if self.line.starts_with(BYTE_ORDER_MARK) {
                    self.line.drain(..BYTE_ORDER_MARK.len());
                    start += BYTE_ORDER_MARK.len() as u64;
                }
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        Ok(Some(Line { number: self.number, start, end: self.at, bytes: &self.line }))
    }
}
