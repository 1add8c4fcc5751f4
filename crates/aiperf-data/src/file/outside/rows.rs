//! Files of entries, in whatever clothes: which one it is, its first entry, and all of them in order.

use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use aiperf_files::{BYTE_ORDER_MARK, Input};
use serde_json::Value;

use super::{Entry, tables};
use crate::error::{DataError, RowProblem};
use crate::file::lines;
use crate::file::row::{self, Placed, shown};
use crate::file::walk::Walk;

/// Bytes by which a file is told.
const START: usize = 4096;

/// How entries stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A JSON object on each line.
    Lines,
    /// One JSON list of objects.
    Array,
    /// Text with this between its columns.
    Csv(u8),
    Parquet,
}

impl Kind {
    /// What an entry is called.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Lines => "line",
            Self::Array => "element",
            Self::Csv(_) | Self::Parquet => "row",
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Lines => "lines of JSON with a 'prompt'",
            Self::Array => "a JSON list",
            Self::Csv(_) => "CSV",
            Self::Parquet => "Parquet",
        }
    }
}

/// What goes through entries: the number of each, from 1 (of lines their number), and what it says, or why that cannot be told.
pub(super) type Take<'a> =
    &'a mut dyn FnMut(u64, Result<Entry, DataError>) -> Result<ControlFlow<()>, DataError>;

/// Tells a file by its first bytes; CSV by its name, unless the user has said that it is some kind of table or talk (`is_named`).
pub(super) fn kind_of(input: &Input, is_named: bool) -> Result<Option<Kind>, DataError> {
    let mut start = Vec::with_capacity(START);
    rewound(input, 0)?.take(START as u64).read_to_end(&mut start).map_err(|e| reading(input, e))?;
    if start.starts_with(b"PAR1") {
        return Ok(Some(Kind::Parquet));
    }
    let text = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start).trim_ascii_start();
    let name = input.name.to_string_lossy().to_ascii_lowercase();
    let name =
        [".gz", ".gzip", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let is_table = [".csv", ".tsv"].iter().any(|end| name.ends_with(end));
    Ok(match text.first() {
        Some(b'[') => Some(Kind::Array),
        Some(b'{') => Some(Kind::Lines),
        Some(_) if is_table || is_named => {
            let header = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let is_tabbed = header.contains(&b'\t') && !header.contains(&b',');
            Some(Kind::Csv(if is_tabbed { b'\t' } else { b',' }))
        }
        Some(_) | None => None,
    })
}

/// The entries of a file.
pub(super) struct Rows<'a> {
    input: &'a Input,
    kind: Kind,
}

impl<'a> Rows<'a> {
    pub(super) const fn new(input: &'a Input, kind: Kind) -> Self {
        Self { input, kind }
    }

    /// A problem of an entry as an error of the file.
    pub(super) fn error(&self, number: u64, problem: RowProblem) -> DataError {
        let path = self.input.name.clone();
        match self.kind {
            Kind::Lines => lines::placed_error(&path, number, (None, problem)),
            kind => DataError::Entry { path, place: format!("{} {number}", kind.unit()), problem },
        }
    }

    /// The first entry, with all its names; behind broken ones where they are to `skip`. A table without rows has them, too.
    pub(super) fn look(&self, skip: bool) -> Result<Entry, DataError> {
        match self.kind {
            Kind::Csv(between) => tables::csv_columns(self.input, between),
            Kind::Parquet => tables::parquet_columns(self.input),
            Kind::Lines | Kind::Array => {
                let mut first = None;
                self.each(&[], &mut |_, entry| {
                    match entry {
                        Ok(entry) => first = Some(entry),
                        Err(_) if skip => return Ok(ControlFlow::Continue(())),
                        Err(error) => return Err(error),
                    }
                    Ok(ControlFlow::Break(()))
                })?;
                first.ok_or_else(|| DataError::EmptyFile { path: self.input.name.clone() })
            }
        }
    }

    /// Gives each entry to `take`, as far as it wants; of tables `columns` alone.
    pub(super) fn each(&self, columns: &[&str], take: Take<'_>) -> Result<(), DataError> {
        match self.kind {
            Kind::Csv(between) => tables::csv(self.input, between, columns, take),
            Kind::Parquet => tables::parquet(self.input, columns, take),
            Kind::Array => array(self.input, take),
            Kind::Lines => lines::each_until(self.input, |line| {
                let entry = entry_of(line.row()).map_err(|placed| line.error(&self.input.name, placed));
                take(line.number, entry)
            }),
        }
    }
}

fn entry_of(row: &[u8]) -> Result<Entry, Placed> {
    object(row::read(row)?).map_err(|problem| (None, problem))
}

fn object(value: Value) -> Result<Entry, RowProblem> {
    match value {
        Value::Object(entry) => Ok(entry),
        other => Err(RowProblem::NotAnObject { found: shown(&other) }),
    }
}

/// Goes through one JSON list without keeping it.
fn array(input: &Input, take: Take<'_>) -> Result<(), DataError> {
    let mut walk = Walk::new(input)?;
    if !walk.takes(b'[')? {
        return Err(walk.unexpected("a list of objects"));
    }
    let (mut number, mut is_first) = (0, true);
    while walk.item(&mut is_first)? {
        number += 1;
        let raw = walk.value()?;
        let entry = serde_json::from_slice(raw.bytes).map_err(|error| raw.error(input, &error));
        let entry = entry.and_then(|value| {
            object(value).map_err(|problem| DataError::Entry {
                path: input.name.clone(),
                place: format!("element {number}"),
                problem,
            })
        });
        if take(number, entry)?.is_break() {
            return Ok(());
        }
    }
    walk.end()
}

/// The file of `input` at a place.
pub(super) fn rewound(input: &Input, at: u64) -> Result<&std::fs::File, DataError> {
    (&input.file).seek(SeekFrom::Start(at)).map_err(|error| reading(input, error))?;
    Ok(&input.file)
}

pub(super) fn reading(input: &Input, source: std::io::Error) -> DataError {
    DataError::Read { path: input.name.clone(), source }
}
