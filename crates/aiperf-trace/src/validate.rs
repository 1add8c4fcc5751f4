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
    /// It was given up at the last of them, with lines behind it.
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

/// Reads `path` up to the bad line number `most`, which is at least 1.
pub fn validate(path: &Path, most: usize) -> Result<Validation, ReadError> {
    let mut found = Validation { rows: 0, bad: Vec::new(), is_cut: false };
    let mut row = Row::default();
    Lines::open(path)?.each(|line, text| {
        if found.bad.len() >= most {
            found.is_cut = true;
            return false;
        }
        let why = if let Err(why) = row.read(text) {
            vec![why]
        } else {
            let refused = row.problems.drain(..).filter(|p| p.kind.severity() == Severity::Refused);
            refused.map(|problem| problem.told).collect()
        };
        if why.is_empty() {
            found.rows += 1;
        } else {
            found.bad.push(BadRow { line, why });
        }
        true
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_where_lines_follow() {
        let found = |text: &str| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("it is written");
            let found = validate(file.path(), 2).expect("it is read");
            (found.rows, found.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), found.is_cut)
        };
        let good = "{\"input_length\": 5}\n";
        assert_eq!(found(&format!("{good}no\nno\n")), (1, vec![2, 3], false));
        assert_eq!(found(&format!("no\n{good}no\n\n \n")), (1, vec![1, 3], false), "blank lines are no rows");
        for more in ["no\n", good] {
            assert_eq!(found(&format!("no\nno\n{more}{more}")), (0, vec![1, 2], true));
        }
    }
}
