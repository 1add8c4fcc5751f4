//! `bailian_trace`: Alibaba's trace of lengths and blocks, whose rows say which chat they go on with. The rows of one root are a
//! conversation, in the order of their turns.

use aiperf_core::text::for_terminal;
use serde_json::Value;

use super::index::{Groups, MOST_TURNS};
use super::mooncake::{Made, numbers};
use super::record::Record;
use super::row::{Placed, Row, length, read, seconds, shown, string, wrong};
use super::starts::Starts;
use crate::error::RowProblem;

/// Tokens of a block, where nobody says otherwise; the trace's own.
pub(super) const BLOCK: usize = 16;
/// The parent of a chat that has none.
const NO_PARENT: i64 = -1;
const NEEDED: [&str; 4] = ["chat_id", "timestamp", "input_length", "output_length"];
const ID: &str = "a whole number of up to 64 bits";

/// Where a row belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    chat: i64,
    /// The chat it goes on with.
    parent: i64,
    turn: u32,
}

/// Reads a line for blocks of `size` tokens.
pub(super) fn parse(line: &[u8], size: usize) -> Result<Record, Placed> {
    record(read(line)?, size).map_err(|problem| (None, problem))
}

fn record(value: Value, size: usize) -> Result<Record, RowProblem> {
    let Value::Object(map) = value else {
        return Err(RowProblem::NotAnObject { found: shown(&value) });
    };
    if let Some(field) = NEEDED.into_iter().find(|key| map.get(*key).is_none_or(Value::is_null)) {
        return Err(RowProblem::Lacks { field, form: "bailian_trace" });
    }
    let (mut row, mut record) = (Row::default(), Record::default());
    let mut link = Link { chat: 0, parent: NO_PARENT, turn: 1 };
    let (mut input, mut ids) = (0, Vec::new());
    for (key, value) in map {
        match key.as_str() {
            _ if value.is_null() => {}
            "chat_id" => link.chat = id("chat_id", &value)?,
            "parent_chat_id" => link.parent = id("parent_chat_id", &value)?,
            "turn" => {
                let turn = value.as_u64().and_then(|turn| u32::try_from(turn).ok());
                link.turn = turn.ok_or_else(|| wrong("turn", "a whole number of up to 32 bits", &value))?;
            }
            "timestamp" => row.at_ns = Some(seconds("timestamp", &value)?),
            "input_length" => input = length("input_length", &value)?,
            "output_length" if value == 0 => {
                record.is_raised = true;
                row.output_length = Some(1);
            }
            "output_length" => row.output_length = Some(length("output_length", &value)?),
            "hash_ids" => ids = numbers(&value)?,
            "type" => {
                record.was = Some(string("type", value)?).filter(|was| was != "text" && !was.is_empty());
            }
            _ => record.unknown.push(key),
        }
    }
    row.made = Some(Made::new("input_length", input, ids, size)?);
    record.link = Some(link);
    record.turns.push(row);
    Ok(record)
}

fn id(field: &'static str, value: &Value) -> Result<i64, RowProblem> {
    value.as_i64().ok_or_else(|| wrong(field, ID, value))
}

/// Where all rows belong: 28 bytes a row, until they are conversations.
#[derive(Debug, Default)]
pub(super) struct Links {
    chats: Vec<i64>,
    parents: Vec<i64>,
    turns: Vec<u32>,
    at_ns: Vec<u64>,
}

/// The conversations of a trace.
#[derive(Debug)]
pub(super) struct Chats {
    pub(super) groups: Groups,
    /// The root of each.
    pub(super) roots: Vec<i64>,
    pub(super) begins: Starts,
    /// Rows whose parent is not in the file.
    pub(super) strays: u64,
    /// Rows that are their own forefathers.
    pub(super) rings: u64,
    /// Rows with the chat of an earlier one, and the first of them.
    pub(super) doubled: Option<(u64, usize)>,
}

/// A row whose root is not known, or is being looked for.
const OPEN: u32 = u32::MAX;
const SOUGHT: u32 = u32::MAX - 1;

impl Links {
    /// Adds the next row, sent at `at_ns`.
    pub(super) fn push(&mut self, link: Link, at_ns: u64) -> Result<(), RowProblem> {
        if self.chats.len() >= SOUGHT as usize {
            return Err(RowProblem::TooManyRows { max: SOUGHT as usize });
        }
        self.chats.push(link.chat);
        self.parents.push(link.parent);
        self.turns.push(link.turn);
        self.at_ns.push(at_ns);
        Ok(())
    }

    /// The first `most` conversations, in the order in which their first rows stand in the file. `Err` with a row of one that has
    /// too many turns.
    pub(super) fn finish(self, most: Option<usize>) -> Result<Chats, (usize, RowProblem)> {
        let by_chat = self.by_chat();
        let (roots_of, strays, rings) = self.roots(&by_chat);
        let doubled = self.doubled(&by_chat);
        drop(by_chat);
        let mut number_of = vec![OPEN; self.chats.len()];
        let (mut roots, mut turns): (Vec<u32>, Vec<usize>) = (Vec::new(), Vec::new());
        let most = most.unwrap_or(usize::MAX);
        for (row, root) in roots_of.iter().map(|root| *root as usize).enumerate() {
            if number_of[root] == OPEN && roots.len() < most {
                number_of[root] = roots.len() as u32;
                roots.push(root as u32);
                turns.push(0);
            }
            if let Some(turns) = turns.get_mut(number_of[root] as usize) {
                *turns += 1;
                if *turns > MOST_TURNS {
                    let session = self.chats[root].to_string();
                    return Err((row, RowProblem::TooManyTurns { session, max: MOST_TURNS }));
                }
            }
        }
        let mut starts = Vec::with_capacity(turns.len() + 1);
        starts.push(0);
        for turns in &turns {
            starts.push(starts[starts.len() - 1] + turns);
        }
        let mut rows = vec![0; starts[starts.len() - 1]];
        let mut next = starts.clone();
        for (row, root) in roots_of.iter().enumerate() {
            if let Some(next) = next.get_mut(number_of[*root as usize] as usize) {
                rows[*next] = row;
                *next += 1;
            }
        }
        let mut begins = Starts::default();
        for of in starts.windows(2) {
            rows[of[0]..of[1]].sort_by_key(|row| self.turns[*row]);
            begins.push(Some(self.at_ns[rows[of[0]]]));
        }
        let roots: Vec<i64> = roots.iter().map(|root| self.chats[*root as usize]).collect();
        let unnamed = vec![0; roots.len()];
        let groups = Groups::Sessions { rows, starts, unnamed };
        Ok(Chats { groups, roots, begins, strays, rings, doubled })
    }

    /// The rows, by their chat.
    fn by_chat(&self) -> Vec<u32> {
        let mut by_chat: Vec<u32> = (0..self.chats.len() as u32).collect();
        by_chat.sort_by_key(|row| self.chats[*row as usize]);
        by_chat
    }

    /// How many rows have the chat of an earlier one, and which is the first of them.
    fn doubled(&self, by_chat: &[u32]) -> Option<(u64, usize)> {
        let chat = |row: u32| self.chats[row as usize];
        let again = by_chat.windows(2).filter(|pair| chat(pair[0]) == chat(pair[1])).map(|pair| pair[1]);
        let first = again.clone().min()?;
        Some((again.count() as u64, first as usize))
    }

    /// The row of the root of each row, how many rows have a parent that is not there, and how many go in a ring.
    fn roots(&self, by_chat: &[u32]) -> (Vec<u32>, u64, u64) {
        // Of the rows of one chat the last says what it goes on with, as in AIPerf.
        let row_of = |chat: i64| {
            let behind = by_chat.partition_point(|row| self.chats[*row as usize] <= chat);
            let row = by_chat[behind.checked_sub(1)?] as usize;
            (self.chats[row] == chat).then_some(row)
        };
        let mut roots = vec![OPEN; self.chats.len()];
        let (mut strays, mut rings) = (0, 0);
        let mut path = Vec::new();
        for row in 0..self.chats.len() {
            let mut at = row_of(self.chats[row]).unwrap_or(row);
            let root = loop {
                match roots[at] {
                    OPEN => {}
                    // Round in a ring: where it closes stands for a root.
                    SOUGHT => {
                        rings += 1;
                        break at as u32;
                    }
                    known => break known,
                }
                path.push(at);
                roots[at] = SOUGHT;
                let parent = self.parents[at];
                if parent == NO_PARENT {
                    break at as u32;
                }
                let Some(next) = row_of(parent) else {
                    strays += 1;
                    break at as u32;
                };
                at = next;
            };
            for at in path.drain(..) {
                roots[at] = root;
            }
            roots[row] = root;
        }
        (roots, strays, rings)
    }
}

impl Chats {
    /// What rows say that is not so; `line` is that of a row.
    pub(super) fn notes(&self, line: impl Fn(usize) -> u64) -> Vec<String> {
        let say = |count: u64, one: &str, more: &str| match count {
            0 => None,
            1 => Some(format!("1 row {one}")),
            _ => Some(format!("{count} rows {more}")),
        };
        let strays = say(
            self.strays,
            "has a parent_chat_id that no row has as its chat_id: it begins a conversation",
            "have a parent_chat_id that no row has as its chat_id: each begins a conversation",
        );
        let rings = say(
            self.rings,
            "goes on with itself through its parents: it begins a conversation",
            "go on with themselves through their parents: each begins a conversation",
        );
        let doubled = self.doubled.map(|(rows, first)| {
            let line = line(first);
            if rows == 1 {
                format!("the row in line {line} has the chat_id of an earlier one: both are turns of one conversation")
            } else {
                format!(
                    "{rows} rows have the chat_id of an earlier one (line {line} is the first): they are turns of one conversation with it"
                )
            }
        });
        strays.into_iter().chain(rings).chain(doubled).collect()
    }
}

/// Kinds of requests that were not made of text alone.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    names: Vec<String>,
    more: bool,
    rows: super::ranked::Seen,
}

impl Kinds {
    const MOST: usize = 4;

    pub(super) fn add(&mut self, was: String, line: u64) {
        self.rows.add(line);
        if !self.names.contains(&was) {
            if self.names.len() < Self::MOST {
                self.names.push(was);
            } else {
                self.more = true;
            }
        }
    }

    pub(super) fn note(&self) -> Option<String> {
        let names: Vec<String> =
            self.names.iter().map(|name| format!("'{}'", for_terminal(name, 40))).collect();
        let more = if self.more { " and more" } else { "" };
        let rows = self.rows.words()?;
        Some(format!("{rows} of type {}{more}: all are sent as texts of their length", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(line: &str) -> Result<Record, String> {
        parse(line.as_bytes(), 16).map_err(|(_, problem)| problem.to_string())
    }

    #[test]
    fn a_row_is_a_length_in_a_chat() {
        let line = r#"{"chat_id":159,"parent_chat_id":-1,"timestamp":61.114,"input_length":40,"output_length":132,
            "type":"text","turn":2,"hash_ids":[1089,1090,6326]}"#;
        let read = row(line).expect("a good row");
        let turn = &read.turns[0];
        assert_eq!(turn.made, Some(Made { tokens: 40, ids: vec![1089, 1090, 6326] }));
        assert_eq!((turn.at_ns, turn.output_length), (Some(61_114_000_000), Some(132)));
        assert_eq!(read.link, Some(Link { chat: 159, parent: -1, turn: 2 }));
        assert_eq!((read.was, read.is_raised, read.unknown.len()), (None, false, 0));
        let least =
            row(r#"{"chat_id":1,"timestamp":0,"input_length":1,"output_length":0,"type":"image","x":1}"#);
        let least = least.expect("a good row");
        assert_eq!(least.link, Some(Link { chat: 1, parent: -1, turn: 1 }));
        assert_eq!((least.was.as_deref(), least.is_raised), (Some("image"), true));
        assert_eq!((least.turns[0].output_length, least.unknown), (Some(1), vec!["x".to_owned()]));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (line, said) in [
            (
                r#"{"chat_id":1,"timestamp":0,"input_length":1}"#,
                "'output_length' is missing, which every row of bailian_trace has",
            ),
            (
                r#"{"chat_id":"a","timestamp":0,"input_length":1,"output_length":1}"#,
                "'chat_id' must be a whole number of up to 64 bits, not \"a\"",
            ),
            (
                r#"{"chat_id":1,"timestamp":-1,"input_length":1,"output_length":1}"#,
                "'timestamp' must be a number of seconds from 0 to 18446744073, not -1",
            ),
            (
                r#"{"chat_id":1,"timestamp":1,"input_length":0,"output_length":1}"#,
                "'input_length' must be a whole number above 0, not 0",
            ),
            (
                r#"{"chat_id":1,"timestamp":1,"input_length":5,"output_length":1,"turn":1.5}"#,
                "'turn' must be a whole number of up to 32 bits, not 1.5",
            ),
            (
                r#"{"chat_id":1,"timestamp":1,"input_length":5,"output_length":1,"hash_ids":[1,2]}"#,
                "2 blocks of 16 tokens are more than a prompt of 5 tokens holds, the last one cut short; --isl-block-size says how many \
                 tokens a block has",
            ),
            ("[1]", "a row must be a JSON object, not [1]"),
        ] {
            assert_eq!(row(line).map(|_| ()), Err(said.to_owned()), "{line}");
        }
    }

    fn links(rows: &[(i64, i64, u32)]) -> Links {
        let mut links = Links::default();
        for (at, (chat, parent, turn)) in rows.iter().enumerate() {
            links.push(Link { chat: *chat, parent: *parent, turn: *turn }, at as u64).expect("few rows");
        }
        links
    }

    fn grouped(rows: &[(i64, i64, u32)], most: Option<usize>) -> (Vec<(i64, Vec<usize>)>, u64, u64) {
        let chats = links(rows).finish(most).expect("few turns");
        let told = (0..chats.groups.len()).map(|i| (chats.roots[i], chats.groups.conversation(i).1));
        (told.collect(), chats.strays, chats.rings)
    }

    #[test]
    fn chats_of_one_root_are_a_conversation() {
        let rows = [(5, -1, 1), (9, 7, 3), (6, -1, 1), (7, 5, 2), (8, 99, 4), (3, 8, 1)];
        let wanted = vec![(5, vec![0, 3, 1]), (6, vec![2]), (8, vec![5, 4])];
        assert_eq!(grouped(&rows, None), (wanted.clone(), 1, 0));
        assert_eq!(grouped(&rows, Some(2)).0, wanted[..2]);
        assert_eq!(links(&rows).finish(None).expect("few turns").begins.get(2), Some(5));
        assert_eq!(grouped(&[(1, 1, 1), (2, 1, 2)], None), (vec![(1, vec![0, 1])], 0, 1));
        let (told, strays, rings) = grouped(&[(1, 3, 1), (2, 1, 2), (3, 2, 3)], None);
        assert_eq!((told, strays, rings), (vec![(1, vec![0, 1, 2])], 0, 1));
    }

    #[test]
    fn rows_of_one_chat_are_told() {
        let told = |rows: &[(i64, i64, u32)]| {
            let chats = links(rows).finish(None).expect("few turns");
            let said = chats.notes(|row| 10 + row as u64);
            (chats.groups.len(), said)
        };
        assert_eq!(told(&[(1, -1, 1), (2, 1, 2)]), (1, vec![]));
        let one = "the row in line 12 has the chat_id of an earlier one: both are turns of one conversation";
        assert_eq!(told(&[(1, -1, 1), (2, -1, 1), (1, -1, 1)]), (2, vec![one.to_owned()]));
        let more = "3 rows have the chat_id of an earlier one (line 11 is the first): they are turns of one conversation with it";
        assert_eq!(
            told(&[(1, -1, 1), (1, -1, 1), (2, 1, 2), (1, -1, 1), (2, 1, 2)]),
            (1, vec![more.to_owned()])
        );
    }

    #[test]
    fn a_chat_has_an_end() {
        let rows: Vec<_> = (0..=MOST_TURNS as i64).map(|chat| (chat, chat - 1, chat as u32)).collect();
        let (row, problem) = links(&rows).finish(None).expect_err("too many turns");
        assert_eq!(row, MOST_TURNS);
        assert_eq!(problem.to_string(), "session '0' has more than 65535 turns");
    }

    /// The root by walking from parent to parent, one row at a time.
    fn slow_root(rows: &[(i64, i64, u32)], chat: i64) -> i64 {
        let mut at = chat;
        for _ in 0..=rows.len() {
            let last = rows.iter().rev().find(|(chat, ..)| *chat == at).expect("it is there");
            if last.1 == NO_PARENT || rows.iter().all(|(chat, ..)| *chat != last.1) {
                return at;
            }
            at = last.1;
        }
        i64::MIN
    }

    proptest! {
        #[test]
        fn roots_are_those_of_a_walk(rows in prop::collection::vec((0i64..12, -1i64..14, 1u32..4), 1..40)) {
            let chats = links(&rows).finish(None).expect("few turns");
            let mut seen = 0;
            for i in 0..chats.groups.len() {
                let (first, of, _) = chats.groups.conversation(i);
                prop_assert_eq!(first, seen);
                seen += of.len();
                prop_assert!(of.windows(2).all(|w| (rows[w[0]].2, w[0]) < (rows[w[1]].2, w[1])));
                for row in of {
                    let slow = slow_root(&rows, rows[row].0);
                    // What leads into a ring has no root.
                    prop_assert!(slow == chats.roots[i] || (slow == i64::MIN && chats.rings > 0));
                }
            }
            prop_assert_eq!(seen, rows.len());
        }
    }
}
