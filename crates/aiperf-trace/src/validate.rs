//! Whether every line is a row that a replay takes.

use std::path::Path;

use crate::findings::{Findings, Kind, Severity};
use crate::lines::{Lines, ReadError};
use crate::row::Row;
use crate::sessions::Sessions;

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

/// Reads `path`, whose ids are of blocks of `block_size` tokens, up to the bad line number `most`; both are at least 1.
///
/// # Errors
/// A file that cannot be read, or has no rows.
pub fn validate(path: &Path, block_size: u64, most: usize) -> Result<Validation, ReadError> {
    let mut found = Validation { rows: 0, bad: Vec::new(), is_cut: false };
    let mut row = Row::default();
    let mut together = Together::default();
    let mut lines = Lines::open(path)?;
    lines.each(|line, text| {
        if found.bad.len() >= most {
            found.is_cut = true;
            return false;
        }
        let why = if let Err(why) = row.read(text) {
            vec![why]
        } else {
            let refused = row.problems.drain(..).filter(|p| p.kind.severity() == Severity::Refused);
            let mut why: Vec<String> = refused.map(|problem| problem.told).collect();
            why.extend(too_many_ids(&row, block_size));
            why.extend(together.check(line, &row, block_size));
            why
        };
        if why.is_empty() {
            found.rows += 1;
        } else {
            found.bad.push(BadRow { line, why });
        }
        true
    })?;
    if found.rows == 0 && found.bad.is_empty() {
        return Err(ReadError::Empty { path: lines.path().to_owned() });
    }
    Ok(found)
}

fn too_many_ids(row: &Row, block_size: u64) -> Option<String> {
    let (ids, tokens) = (row.ids.len() as u64, row.input?);
    (ids > tokens.div_ceil(block_size)).then(|| {
        format!(
            "{ids} blocks of {block_size} tokens are more than a prompt of {tokens} tokens holds, the last one cut short; \
             --block-size says how many tokens a block has"
        )
    })
}

/// What rows are to those before them.
#[derive(Default)]
struct Together {
    sessions: Sessions,
    /// The first row has a timestamp, which makes the file a schedule.
    is_timed: Option<bool>,
}

impl Together {
    fn check(&mut self, line: u64, row: &Row, block_size: u64) -> Vec<String> {
        let mut findings = Findings::default();
        let begins = self.sessions.push(line, row, block_size, &mut findings);
        let is_timed = *self.is_timed.get_or_insert(row.timestamp.is_some());
        let mut why = Vec::new();
        if findings.get(Kind::MixedSession).is_some() {
            why.push(
                "its session has rows with messages or whole bodies and rows with texts or lengths; a session has either"
                    .to_owned(),
            );
        }
        why.extend(findings.get(Kind::TooManyTurns).map(|found| found.example.clone()));
        if begins && is_timed && row.timestamp.is_none() {
            why.push(
                "it begins a session without a 'timestamp', and the first row has one: such a file is replayed on its times, unless \
                 --no-fixed-schedule is given"
                    .to_owned(),
            );
        }
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_replay_refuses_is_bad() {
        let found = |text: &str| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("it is written");
            validate(file.path(), 16, 9).map_err(|e| e.to_string()).map(|found| {
                let why = |bad: BadRow| {
                    let words: Vec<&str> = bad.why[0].split(' ').take(4).collect();
                    (bad.line, bad.why.len(), words.join(" "))
                };
                (found.rows, found.bad.into_iter().map(why).collect::<Vec<_>>())
            })
        };
        let bad = |line, words: &str| (line, 1, words.to_owned());
        let ids = "{\"input_length\":33,\"hash_ids\":[1,2,3]}\n";
        assert_eq!(found(ids), Ok((1, vec![])));
        assert_eq!(found(&ids.replace("33", "32")), Ok((0, vec![bad(1, "3 blocks of 16")])));
        let session =
            "{\"session_id\":\"a\",\"input_length\":3}\n{\"session_id\":\"a\",\"payload\":{\"a\":1}}\n";
        assert_eq!(found(session), Ok((1, vec![bad(2, "its session has rows")])));
        let timed = "{\"timestamp\":1,\"input_length\":3,\"session_id\":\"a\"}\n{\"input_length\":3,\"session_id\":\"a\"}\n";
        assert_eq!(found(timed), Ok((2, vec![])));
        assert_eq!(found(&format!("{timed}{ids}")), Ok((2, vec![bad(3, "it begins a session")])));
        assert_eq!(found(&format!("{ids}{timed}")), Ok((3, vec![])));
        for empty in ["", "\n \n"] {
            let said = found(empty).expect_err("it holds nothing");
            assert!(said.ends_with("' holds no rows"), "{said}");
        }
    }

    /// Of one session alone; `analyze` says it as well.
    #[test]
    fn a_session_has_no_more_turns_than_a_replay_takes() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let row = |name| format!("{{\"session_id\":\"{name}\",\"input_length\":3}}\n");
        let rows = row("a").repeat(65_535) + &row("b");
        std::fs::write(file.path(), &rows).expect("it is written");
        let found = validate(file.path(), 16, 9).expect("it is read");
        assert_eq!((found.rows, found.bad), (65_536, vec![]));
        let analysis = crate::analyze(file.path(), 16).expect("it is read");
        assert!(analysis.findings.worst() > Some(Severity::Refused), "{:?}", analysis.findings.list());
        std::fs::write(file.path(), rows + &row("a") + &row("b")).expect("it is written");
        let found = validate(file.path(), 16, 9).expect("it is read");
        let bad = BadRow { line: 65_537, why: vec!["session 'a' has more than 65535 turns".to_owned()] };
        assert_eq!((found.rows, found.bad), (65_537, vec![bad]));
        let list = crate::analyze(file.path(), 16).expect("it is read").findings.list();
        assert_eq!((list[0].kind, list[0].count, &list[0].lines[..]), (Kind::TooManyTurns, 1, &[65_537][..]));
    }

    #[test]
    fn it_is_given_up_where_lines_follow() {
        let found = |text: &str| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("it is written");
            let found = validate(file.path(), 512, 2).expect("it is read");
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
