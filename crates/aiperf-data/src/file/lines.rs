//! A line-based file, from its first row to its last.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::ops::ControlFlow;
use std::path::Path;

use aiperf_files::{BYTE_ORDER_MARK, Input};

use super::row::Placed;
use crate::error::DataError;

const BUFFER: usize = 1 << 20;

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

/// The first line that is not blank, with its number.
pub(crate) fn first(input: &Input) -> Result<Option<(u64, Vec<u8>)>, DataError> {
    let mut lines = Lines::new(&input.name, &input.file)?;
    Ok(lines.next()?.map(|line| (line.number, line.row().to_vec())))
}

/// Gives every line that is not blank to `take`, in order, reading the file once.
pub(crate) fn each(
    input: &Input,
    mut take: impl FnMut(Line<'_>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    each_until(input, |line| take(line).map(ControlFlow::Continue))
}

/// The same, as far as `take` wants them.
pub(crate) fn each_until(
    input: &Input,
    mut take: impl FnMut(Line<'_>) -> Result<ControlFlow<()>, DataError>,
) -> Result<(), DataError> {
    let mut lines = Lines::new(&input.name, &input.file)?;
    while let Some(line) = lines.next()? {
        if take(line)?.is_break() {
            break;
        }
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
    fn new(path: &'a Path, mut file: &'a File) -> Result<Self, DataError> {
        file.rewind().map_err(|source| DataError::Read { path: path.to_owned(), source })?;
        let reader = BufReader::with_capacity(BUFFER, file);
        Ok(Self { path, reader, at: 0, number: 0, line: Vec::new() })
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
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
                start += BYTE_ORDER_MARK.len() as u64;
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        Ok(Some(Line { number: self.number, start, end: self.at, bytes: &self.line }))
    }
}
