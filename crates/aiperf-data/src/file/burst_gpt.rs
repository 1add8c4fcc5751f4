//! `burst_gpt_trace`: a table with a line of names, whose lines are a time and the lengths of a request and of its answer.

use aiperf_core::text::for_terminal;
use csv_core::{ReadRecordResult, Reader};

use super::mooncake::{BLOCK, Made};
use super::record::Record;
use super::row::{Placed, Row, SECONDS, seconds_ns};
use crate::error::RowProblem;

const AT: &str = "Timestamp";
const INPUT: &str = "Request tokens";
const OUTPUT: &str = "Response tokens";

/// Where the columns are that are read, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Columns {
    at: usize,
    input: usize,
    output: usize,
}

impl Columns {
    /// Finds them in the line of names, and those that are not read. `Err` when one is missing.
    pub(super) fn find(header: &[u8]) -> Result<(Self, Vec<String>), RowProblem> {
        let names = cells(header);
        let find = |name: &'static str| {
            names
                .iter()
                .position(|cell| cell.trim() == name)
                .ok_or_else(|| RowProblem::NoColumn { name, found: for_terminal(&names.join("', '"), 120) })
        };
        let columns = Self { at: find(AT)?, input: find(INPUT)?, output: find(OUTPUT)? };
        let read = [AT, INPUT, OUTPUT];
        let unread = names.iter().map(|name| name.trim()).filter(|name| !read.contains(name));
        Ok((columns, unread.map(str::to_owned).collect()))
    }

    /// Whether a line has the names.
    pub(super) fn are_in(header: &[u8]) -> bool {
        Self::find(header).is_ok()
    }
}

/// Reads a line.
pub(super) fn parse(line: &[u8], columns: Columns) -> Result<Record, Placed> {
    record(&cells(line), columns).map_err(|problem| (None, problem))
}

fn record(cells: &[String], columns: Columns) -> Result<Record, RowProblem> {
    let cell = |at: usize, name: &'static str| {
        let text = cells.get(at).map(|cell| cell.trim());
        text.ok_or(RowProblem::NoCell { name, cells: cells.len() })
    };
    let wrong = |field, wanted, found: &str| {
        let found = format!("'{}'", for_terminal(found, 40));
        RowProblem::Field { field, wanted, found }
    };
    let at = cell(columns.at, AT)?;
    let ns = at.parse().ok().and_then(seconds_ns).ok_or_else(|| wrong(AT, SECONDS, at))?;
    let count = |at: usize, name: &'static str| {
        let text = cell(at, name)?;
        text.parse::<u64>().map_err(|_| wrong(name, "a whole number of tokens", text))
    };
    let (input, output) = (count(columns.input, INPUT)?, count(columns.output, OUTPUT)?);
    let row = Row {
        at_ns: Some(ns),
        output_length: Some(output.max(1)),
        made: Some(Made::new(INPUT, input.max(1), Vec::new(), BLOCK)?),
        ..Row::default()
    };
    Ok(Record { turns: vec![row], is_raised: input == 0 || output == 0, ..Record::default() })
}

/// The cells of a line; bytes that are no text are replaced.
fn cells(line: &[u8]) -> Vec<String> {
    let line = line.trim_ascii();
    let (mut text, mut ends) = (vec![0; line.len() + 1], vec![0; line.len() + 2]);
    let mut reader = Reader::new();
    let (mut read, mut written, mut found) = (0, 0, 0);
    loop {
        let (result, took, put, more) =
            reader.read_record(&line[read..], &mut text[written..], &mut ends[found..]);
        read += took;
        written += put;
        found += more;
        // The end of the line is the end of the input: it is asked for once more, with nothing.
        if !matches!(result, ReadRecordResult::InputEmpty) {
            break;
        }
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let spans = starts.zip(&ends[..found]);
    spans.map(|(start, end)| String::from_utf8_lossy(&text[start..*end]).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type";

    fn row(line: &str) -> Result<(usize, Option<u64>, Option<u64>, bool), String> {
        let (columns, _) = Columns::find(HEADER.as_bytes()).expect("all are there");
        let record = parse(line.as_bytes(), columns).map_err(|(_, problem)| problem.to_string())?;
        let turn = &record.turns[0];
        let made = turn.made.as_ref().expect("a length").tokens;
        Ok((made, turn.output_length, turn.at_ns, record.is_raised))
    }

    #[test]
    fn columns_are_found_by_their_names() {
        let (columns, unread) = Columns::find(HEADER.as_bytes()).expect("all are there");
        assert_eq!(columns, Columns { at: 0, input: 2, output: 3 });
        assert_eq!(unread, ["Model", "Total tokens", "Log Type"]);
        assert!(Columns::are_in(b"\"Response tokens\",\"Request tokens\",Timestamp\r\n"));
        assert!(!Columns::are_in(b"{\"Timestamp\":1}"));
        let problem = Columns::find(b"Timestamp,Request tokens").expect_err("one is missing").to_string();
        assert_eq!(
            problem,
            "no column is called 'Response tokens', which burst_gpt_trace has; there are 'Timestamp', 'Request tokens'"
        );
    }

    #[test]
    fn rows_are_times_and_lengths() {
        assert_eq!(
            row("5,ChatGPT,12,30,42,Conversation log"),
            Ok((12, Some(30), Some(5_000_000_000), false))
        );
        assert_eq!(row("45.5,\"a, \"\"b\"\"\",20,7,27,x"), Ok((20, Some(7), Some(45_500_000_000), false)));
        assert_eq!(row("60,GPT-4,0,9,9,x\n7,a,1,1,1,x"), Ok((1, Some(9), Some(60_000_000_000), true)));
        assert_eq!(row("60, GPT-4, 4, 0, 9, x"), Ok((4, Some(1), Some(60_000_000_000), true)));
        for (line, said) in [
            ("bad,GPT-4,1,1,2,x", "'Timestamp' must be a number of seconds from 0 to 18446744073, not 'bad'"),
            ("nan,GPT-4,1,1,2,x", "'Timestamp' must be a number of seconds from 0 to 18446744073, not 'nan'"),
            ("1,GPT-4,-1,1,2,x", "'Request tokens' must be a whole number of tokens, not '-1'"),
            ("1,GPT-4,1,1.5,2,x", "'Response tokens' must be a whole number of tokens, not '1.5'"),
            ("1,GPT-4,1", "the row has 3 cells, and none for 'Response tokens'"),
            ("", "the row has 0 cells, and none for 'Timestamp'"),
        ] {
            assert_eq!(row(line), Err(said.to_owned()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_cells_come_back(cells_in in prop::collection::vec("[a-z\", ]{1,6}", 1..6)) {
            let quoted: Vec<String> = cells_in.iter().map(|c| format!("\"{}\"", c.replace('"', "\"\""))).collect();
            prop_assert_eq!(cells(quoted.join(",").as_bytes()), cells_in);
        }

        #[test]
        fn no_line_panics(line in prop::collection::vec(any::<u8>(), 0..40)) {
            let columns = Columns { at: 0, input: 1, output: 2 };
            if let Ok(record) = parse(&line, columns) {
                prop_assert_eq!(record.turns.len(), 1);
            }
        }
    }
}
