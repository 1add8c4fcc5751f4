//! Whether every line is a row that a replay takes.

use std::path::Path;

use crate::findings::Severity;
use crate::lines::{Lines, ReadError};
use crate::row::Row;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validation {
    /// Rows that are good.
    pub rows: u64,
    /// The first that are not, in order.
    pub bad: Vec<BadRow>,
    /// It was given up at the last of them.
    pub is_cut: bool,
}

/// A line that no replay takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRow {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub why: Vec<String>,
}

/// Reads `path` up to the bad line number `most`.
pub fn validate(path: &Path, most: usize) -> Result<Validation, ReadError> {
    let mut found = Validation { rows: 0, bad: Vec::new(), is_cut: false };
    let mut row = Row::default();
    Lines::open(path)?.each(|line, text| {
        let why = if let Err(why) = row.read(text) {
            vec![why]
        } else {
            let refused = row.problems.drain(..).filter(|p| p.kind.severity() == Severity::Refused);
            refused.map(|problem| problem.told).collect()
        };
        if why.is_empty() {
            found.rows += 1;
            return true;
        }
        found.bad.push(BadRow { line, why });
        found.is_cut = found.bad.len() >= most;
        !found.is_cut
    })?;
    Ok(found)
}
