//! `single_turn`: a JSONL file of self-contained requests.
//!
//! One streaming pass when it is opened checks every row and keeps its place; a row is read and parsed again when it is sent.
//! So a file of 10 GB costs 8 bytes a row, and nothing is found to be broken in the middle of a run unless the file is changed
//! under it, which is an error that names the row.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aiperf_core::conversation::{Conversation, Turn};
use aiperf_core::plan::{FilePlan, LengthPlan, Plan};
use aiperf_core::text::for_terminal;
use aiperf_rng::{Key, Stream};

use super::index::{Grouper, Groups, Rows};
use super::row::{Placed, Row};
use crate::error::{DataError, RowProblem};
use crate::models::Models;
use crate::synthetic::draw_length;
use crate::workload::{Workload, WorkloadFacts, WorkloadKind};

const BUFFER: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const GZIP: &[u8] = b"\x1f\x8b";
/// Most unknown keys named.
const MOST_NAMED: usize = 8;

/// Conversations of a checked file.
#[derive(Debug)]
pub(crate) struct SingleTurnFile {
    path: PathBuf,
    file: Mutex<File>,
    rows: Rows,
    groups: Groups,
    models: Models,
    osl: Option<LengthPlan>,
    outputs: Stream,
    notes: Vec<String>,
}

impl SingleTurnFile {
    /// Checks and indexes the file.
    pub(crate) fn open(plan: &Plan, set: &FilePlan) -> Result<Self, DataError> {
        let models = Models::new(plan)?;
        if set.entries == Some(0) {
            return Err(DataError::NoEntries);
        }
        let path = set.path.clone();
        let read = |source| DataError::Read { path: path.clone(), source };
        let file = File::open(&path).map_err(read)?;
        if !file.metadata().map_err(read)?.is_file() {
            return Err(DataError::NotAFile { path });
        }
        let mut scan = Scan::new(&path, set.ignore_timestamps);
        scan.whole(&file)?;
        let Scan { rows, grouper, unknown, more_unknown, .. } = scan;
        Ok(Self {
            file: Mutex::new(file),
            rows,
            groups: grouper.finish(set.entries),
            models,
            osl: set.osl,
            outputs: Key::new(plan.seed).purpose("dataset.turn.max_tokens"),
            notes: unknown_note(&unknown, more_unknown, &path).into_iter().collect(),
            path,
        })
    }

    fn row(&self, row: usize) -> Result<Row, DataError> {
        let read = |source| DataError::Read { path: self.path.clone(), source };
        let bytes = self.rows.bytes(row);
        let mut line = vec![0; (bytes.end - bytes.start) as usize];
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(bytes.start)).map_err(read)?;
            file.read_exact(&mut line).map_err(read)?;
        }
        Row::parse(line.trim_ascii()).map_err(|placed| placed_error(&self.path, self.rows.line(row), placed))
    }

    fn turn(&self, row: usize, number: usize) -> Result<(Turn, Option<String>), DataError> {
        let row = self.row(row)?;
        let number = number as u64;
        let max_tokens =
            row.output_length.or_else(|| self.osl.map(|osl| draw_length(osl, self.outputs, number)));
        let turn = Turn {
            model: self.models.of_turn(number).to_owned(),
            role: row.role,
            texts: row.texts,
            max_tokens,
            delay_ns: row.delay_ns,
            extra: row.extra,
            asked_isl: None,
        };
        Ok((turn, row.session_id))
    }
}

impl Workload for SingleTurnFile {
    fn len(&self) -> usize {
        self.groups.len()
    }

    fn conversation(&self, index: usize) -> Result<Conversation, DataError> {
        if index >= self.len() {
            return Err(DataError::OutOfRange { index, len: self.len() });
        }
        let (first, rows, unnamed) = self.groups.conversation(index);
        let mut turns = Vec::with_capacity(rows.len());
        let mut id = None;
        for (i, row) in rows.into_iter().enumerate() {
            let (turn, session) = self.turn(row, first + i)?;
            turns.push(turn);
            id = id.or(session);
        }
        Ok(Conversation { id: id.unwrap_or_else(|| format!("session_{unnamed:06}")), turns })
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::SingleTurn,
            entries: self.len(),
            turns: self.groups.rows() as u64,
            most_turns: self.groups.most_rows(),
            notes: self.notes.clone(),
        }
    }
}

/// The pass over the file when it is opened.
struct Scan<'a> {
    path: &'a Path,
    ignore_timestamps: bool,
    rows: Rows,
    grouper: Grouper,
    /// Unknown keys and the line of their first appearance.
    unknown: Vec<(String, u64)>,
    /// Unknown keys that were not kept.
    more_unknown: bool,
}

impl<'a> Scan<'a> {
    fn new(path: &'a Path, ignore_timestamps: bool) -> Self {
        Self {
            path,
            ignore_timestamps,
            rows: Rows::default(),
            grouper: Grouper::default(),
            unknown: Vec::new(),
            more_unknown: false,
        }
    }

    fn whole(&mut self, file: &File) -> Result<(), DataError> {
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let (mut at, mut number) = (0u64, 0u64);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader
                .read_until(b'\n', &mut line)
                .map_err(|source| DataError::Read { path: self.path.to_owned(), source })?;
            if read == 0 {
                break;
            }
            number += 1;
            let end = at + read as u64;
            let mut start = at;
            let mut bytes = line.as_slice();
            if number == 1 {
                if bytes.starts_with(GZIP) {
                    return Err(DataError::Compressed { path: self.path.to_owned() });
                }
                if let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK) {
                    bytes = rest;
                    start += BYTE_ORDER_MARK.len() as u64;
                }
            }
            if !bytes.trim_ascii().is_empty() {
                self.line(number, bytes).map_err(|placed| placed_error(self.path, number, placed))?;
                self.rows.push(number, start, end);
            }
            at = end;
        }
        if self.rows.len() == 0 {
            return Err(DataError::EmptyFile { path: self.path.to_owned() });
        }
        Ok(())
    }

    fn line(&mut self, number: u64, bytes: &[u8]) -> Result<(), Placed> {
        let indent = bytes.len() - bytes.trim_ascii_start().len();
        let row = Row::parse(bytes.trim_ascii()).map_err(|(column, p)| (column.map(|c| c + indent), p))?;
        // AIPerf takes a file whose first row has a timestamp for a schedule, and 0 is one.
        let timed = row.timestamp_ms.is_some_and(|t| t > 0.0 || self.rows.len() == 0);
        if timed && !self.ignore_timestamps {
            return Err((None, RowProblem::Timestamp));
        }
        for key in row.unknown {
            if self.unknown.iter().all(|(known, _)| *known != key) {
                if self.unknown.len() < MOST_NAMED {
                    self.unknown.push((key, number));
                } else {
                    self.more_unknown = true;
                }
            }
        }
        self.grouper.push(row.session_id).map_err(|problem| (None, problem))
    }
}

fn placed_error(path: &Path, line: u64, (column, problem): Placed) -> DataError {
    DataError::Row { path: path.to_owned(), line, column, problem }
}

/// One line for all keys that no field has.
fn unknown_note(unknown: &[(String, u64)], more: bool, path: &Path) -> Option<String> {
    if unknown.is_empty() {
        return None;
    }
    let names: Vec<String> =
        unknown.iter().map(|(key, line)| format!("'{}' (line {line})", for_terminal(key, 40))).collect();
    let more = if more { " and more" } else { "" };
    let file = path.display();
    Some(format!("{file}: keys that single_turn rows do not have are ignored: {}{more}", names.join(", ")))
}
