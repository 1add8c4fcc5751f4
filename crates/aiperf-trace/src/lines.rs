//! A file of lines, read from its beginning as often as wanted.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use aiperf_files::{BYTE_ORDER_MARK, InputError};

const BUFFER: usize = 1 << 20;

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system's word.
    #[error("cannot read '{}'", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It cannot be opened or unpacked.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Not a row could be read of it.
    #[error("'{}' is no trace: none of its {lines} lines is a JSON object; line {first}: {why}", path.display())]
    NoTrace {
        /// The file.
        path: PathBuf,
        /// Lines that are not blank.
        lines: u64,
        /// The first of them.
        first: u64,
        /// What is wrong with it.
        why: String,
    },
    /// It has no line that is not blank.
    #[error("'{}' holds no rows", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Somebody writes it.
    #[error("'{}' was changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

/// An open file, unpacked.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    /// Opens a file, or standard input (`-`).
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let input = aiperf_files::open(path)?;
        Ok(Self { path: input.name, file: input.file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives every line that is not blank, without white space around it and with its number (from 1), until `take` says false.
    pub(crate) fn each(&mut self, mut take: impl FnMut(u64, &[u8]) -> bool) -> Result<(), ReadError> {
        let read = |source| ReadError::Io { path: self.path.clone(), source };
        self.file.seek(SeekFrom::Start(0)).map_err(read)?;
        let mut reader = BufReader::with_capacity(BUFFER, &self.file);
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line).map_err(read)? == 0 {
                return Ok(());
            }
            number += 1;
            let mut row = &line[..];
            if number == 1 {
                row = row.strip_prefix(BYTE_ORDER_MARK).unwrap_or(row);
            }
            let row = row.trim_ascii();
            if !row.is_empty() && !take(number, row) {
                return Ok(());
            }
        }
    }
}
