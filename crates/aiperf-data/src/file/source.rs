//! The files that rows are in, one or several, read again at the place of a row.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use aiperf_files::Input;

use super::index::Rows;
use super::lines;
use super::row::Placed;
use crate::error::{DataError, RowProblem};

/// How long a file is and when it was last written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp(u64, Option<SystemTime>);

impl Stamp {
    /// Of a file that has a name; what was made for this run alone, nobody else changes.
    pub(super) fn of(input: &Input) -> Option<Self> {
        let about = input.file.metadata().ok().filter(|_| !input.is_spooled)?;
        Some(Self(about.len(), about.modified().ok()))
    }

    /// Whether it is another one `now`, or gone.
    pub(super) fn is_not(&self, now: io::Result<Metadata>) -> bool {
        now.map_or(true, |about| *self != Self(about.len(), about.modified().ok()))
    }
}

/// That a file was changed under a run.
pub(super) fn told(path: &Path) -> String {
    format!(
        "{}: was changed while the run read from it: some requests may be of other rows than were checked",
        path.display()
    )
}

/// Rows of all files, numbered one file after the other.
#[derive(Debug, Default)]
pub(super) struct Source {
    parts: Vec<Part>,
    len: usize,
}

/// A file.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    /// Kept open where there is one file alone.
    open: Option<Mutex<File>>,
    /// What it was like when it was read through; `None` of one without a name.
    stamp: Option<Stamp>,
    rows: Rows,
    /// Rows of the files before it.
    before: usize,
}

impl Source {
    /// Adds a file with its rows, of which `stamp` was taken before it was read; it is kept open if it is given.
    pub(super) fn push(&mut self, path: PathBuf, open: Option<File>, stamp: Option<Stamp>, rows: Rows) {
        let before = self.len;
        self.len += rows.len();
        self.parts.push(Part { path, open: open.map(Mutex::new), stamp, rows, before });
    }

    /// What to tell where a file is not what it was when it was read through: rows may have been other ones than were checked.
    pub(super) fn changed(&self) -> Option<String> {
        let is_other = |part: &&Part| {
            let now = match &part.open {
                Some(file) => file.lock().unwrap_or_else(PoisonError::into_inner).metadata(),
                None => std::fs::metadata(&part.path),
            };
            part.stamp.as_ref().is_some_and(|stamp| stamp.is_not(now))
        };
        self.parts.iter().find(is_other).map(|part| told(&part.path))
    }

    /// Number of rows.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Number of files.
    pub(super) const fn files(&self) -> usize {
        self.parts.len()
    }

    /// Number of the first row of a file, how many it has, and where it is.
    pub(super) fn file(&self, at: usize) -> (usize, usize, &Path) {
        let part = &self.parts[at];
        (part.before, part.rows.len(), &part.path)
    }

    /// The file of a row and its number there.
    fn part(&self, row: usize) -> (&Part, usize) {
        let part = &self.parts[self.parts.partition_point(|part| part.before <= row) - 1];
        (part, row - part.before)
    }

    /// The bytes of a row without white space around them.
    pub(super) fn bytes(&self, row: usize) -> Result<Vec<u8>, DataError> {
        let (part, of_part) = self.part(row);
        let place = part.rows.bytes(of_part);
        let mut bytes = vec![0; (place.end - place.start) as usize];
        let mut fetch = |file: &mut File| {
            file.seek(SeekFrom::Start(place.start))?;
            file.read_exact(&mut bytes)
        };
        match &part.open {
            Some(file) => fetch(&mut file.lock().unwrap_or_else(PoisonError::into_inner)),
            None => File::open(&part.path).and_then(|mut file| fetch(&mut file)),
        }
        .map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => self.error(row, (None, RowProblem::Changed)),
            _ => DataError::Read { path: part.path.clone(), source },
        })?;
        let behind = bytes.trim_ascii_end().len();
        bytes.truncate(behind);
        bytes.drain(..bytes.len() - bytes.trim_ascii_start().len());
        Ok(bytes)
    }

    /// The line of a row in its file, from 1.
    pub(super) fn line(&self, row: usize) -> u64 {
        let (part, row) = self.part(row);
        part.rows.line(row)
    }

    /// File and line of a row.
    pub(super) fn place(&self, row: usize) -> String {
        let (part, row) = self.part(row);
        format!("{}:{}", part.path.display(), part.rows.line(row))
    }

    /// A problem of a row as an error of its file.
    pub(super) fn error(&self, row: usize, placed: Placed) -> DataError {
        let (part, row) = self.part(row);
        lines::placed_error(&part.path, part.rows.line(row), placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RowProblem;

    #[test]
    fn rows_are_found_in_their_files() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut source = Source::default();
        for (name, text, is_open) in [("a", "1\n\n 22 \n", true), ("b", "\n333", false)] {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("written");
            let input = aiperf_files::open(&path).expect("it is there");
            let mut rows = Rows::default();
            lines::each(&input, |line| {
                rows.push(line.number, line.start, line.end);
                Ok(())
            })
            .expect("read");
            let stamp = Stamp::of(&input);
            source.push(path, is_open.then_some(input.file), stamp, rows);
        }
        let read: Vec<_> = (0..source.len()).map(|row| source.bytes(row).expect("read")).collect();
        assert_eq!(read, [&b"1"[..], b"22", b"333"]);
        assert_eq!([0, 1, 2].map(|row| source.line(row)), [1, 3, 2]);
        assert_eq!((source.files(), source.file(1).0, source.file(1).1), (2, 2, 1));
        assert!(source.place(1).ends_with("a:3"), "{}", source.place(1));
        assert_eq!(source.changed(), None);
        std::fs::write(dir.path().join("b"), "\n3334").expect("written");
        assert!(source.changed().is_some_and(|said| said.contains("b: was changed")));
        std::fs::remove_file(dir.path().join("b")).expect("removed");
        assert!(source.changed().is_some());
        let error = source.error(2, (Some(4), RowProblem::NotUtf8)).to_string();
        assert!(error.ends_with("b:2:4: is not UTF-8"), "{error}");
    }
}
