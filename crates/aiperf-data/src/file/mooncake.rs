//! `mooncake_trace`: rows that say how long a request was and of which blocks, in place of its text; or that hold a text, messages,
//! or a whole body.

use std::hash::{DefaultHasher, Hash, Hasher};

use aiperf_core::plan::EndpointKind;
use aiperf_trace::MOST_TOKENS;
use serde_json::{Map, Value};

use super::record::Record;
use super::row::{Placed, Row, length, pause, read, shown, string, time, wrong};
use crate::Blocks;
use crate::error::RowProblem;

/// Tokens of a block, where nobody says otherwise; Mooncake's own.
pub(super) const BLOCK: usize = 512;
const SOURCES: [&str; 4] = ["input_length", "text_input", "messages", "payload"];

/// A text that a row gives as a length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// At least one.
    pub(super) tokens: usize,
    /// Ids of its blocks; what they do not reach is text of its own.
    pub(super) ids: Vec<u64>,
}

impl Made {
    /// `field` says that it has `tokens` tokens; their ids are those of blocks of `size`.
    pub(super) fn new(
        field: &'static str,
        tokens: u64,
        ids: Vec<u64>,
        size: usize,
    ) -> Result<Self, RowProblem> {
        if tokens > MOST_TOKENS {
            return Err(wrong(field, "at most 134217728 tokens", &Value::from(tokens)));
        }
        let made = Self { tokens: tokens as usize, ids };
        made.blocks(size).check().map_err(RowProblem::Blocks)?;
        Ok(made)
    }

    pub(super) fn blocks(&self, size: usize) -> Blocks<'_> {
        Blocks { tokens: self.tokens, size, ids: &self.ids }
    }
}

/// Reads a line for requests of the type `api` and blocks of `size` tokens.
pub(super) fn parse(line: &[u8], api: EndpointKind, size: usize) -> Result<Record, Placed> {
    record(read(line)?, api, size).map_err(|problem| (None, problem))
}

fn record(value: Value, api: EndpointKind, size: usize) -> Result<Record, RowProblem> {
    let Value::Object(map) = value else {
        return Err(RowProblem::NotAnObject { found: shown(&value) });
    };
    let (mut row, mut record) = (Row::default(), Record::default());
    let (mut input, mut ids, mut messages, mut tools) = (None, None, None, None);
    let given: Vec<&str> =
        SOURCES.into_iter().filter(|key| map.get(*key).is_some_and(|v| !v.is_null())).collect();
    let &[source] = given.as_slice() else {
        return Err(RowProblem::Sources { found: given.join("', '") });
    };
    for (key, value) in map {
        match key.as_str() {
            _ if value.is_null() => {}
            "input_length" => input = Some(length("input_length", &value)?),
            "hash_ids" => ids = Some(numbers(&value)?),
            "text_input" => row.texts = vec![string("text_input", value)?],
            "messages" => messages = Some(messages_of(value)?),
            "tools" => match value {
                Value::Array(list) if !list.is_empty() => tools = Some(Value::Array(list)),
                other => return Err(wrong("tools", "a list with a tool in it", &other)),
            },
            "payload" => match value {
                Value::Object(body) if !body.is_empty() => {
                    row.payload = Some(Value::Object(body).to_string().into_bytes());
                }
                other => return Err(wrong("payload", "an object, the whole body", &other)),
            },
            "output_length" => row.output_length = Some(length("output_length", &value)?),
            "timestamp" => row.at_ns = Some(time("timestamp", &value)?),
            "delay" => (row.delay_ns, row.endless_delay) = pause(&value)?,
            "duration_e2e_ms" => row.latency_ns = Some(time("duration_e2e_ms", &value)?),
            "session_id" => record.session_id = Some(name(value)?).filter(|s| !s.is_empty()),
            "extra" => match value {
                Value::Object(extra) => row.extra = extra,
                other => return Err(wrong("extra", "an object", &other)),
            },
            "type" if value == "mooncake_trace" => {}
            "type" => return Err(wrong("type", "\"mooncake_trace\"", &value)),
            // Made traces have them for who looks into how they were made.
            "group_id" | "is_restart" => {}
            _ => record.unknown.push(key),
        }
    }
    if ids.is_some() && source != "input_length" {
        return Err(RowProblem::OnlyWith { field: "hash_ids", with: "input_length" });
    }
    if let Some(tools) = tools {
        if source != "messages" {
            return Err(RowProblem::OnlyWith { field: "tools", with: "messages" });
        }
        row.extra.insert("tools".to_owned(), tools);
    }
    if let Some(tokens) = input {
        row.made = Some(Made::new("input_length", tokens, ids.unwrap_or_default(), size)?);
    }
    if let Some(messages) = messages {
        lay_messages(&mut row, messages, api)?;
    }
    record.turns.push(row);
    Ok(record)
}

/// Puts messages in the place of texts, for requests of the type `api`.
pub(super) fn lay_messages(row: &mut Row, messages: Value, api: EndpointKind) -> Result<(), RowProblem> {
    let field = api.messages_field().filter(|_| api.has_messages());
    let Some(field) = field else { return Err(RowProblem::NoMessages { api: api.name() }) };
    let mut over = Map::new();
    over.insert(field.to_owned(), messages);
    over.append(&mut row.extra);
    row.extra = over;
    Ok(())
}

/// Names of sessions are numbers in some traces.
fn name(value: Value) -> Result<String, RowProblem> {
    match value {
        Value::Number(number) => Ok(number.to_string()),
        other => string("session_id", other),
    }
}

pub(super) fn numbers(value: &Value) -> Result<Vec<u64>, RowProblem> {
    // Negative ids are ids all the same: one number each.
    let number = |v: &Value| v.as_u64().or_else(|| v.as_i64().map(i64::cast_unsigned));
    let list = value.as_array().and_then(|list| list.iter().map(number).collect());
    list.ok_or_else(|| RowProblem::Field {
        field: "hash_ids",
        wanted: "a list of whole numbers of up to 64 bits",
        found: shown(value),
    })
}

pub(super) fn messages_of(value: Value) -> Result<Value, RowProblem> {
    let has_role = |message: &Value| message.get("role").is_some_and(Value::is_string);
    match value {
        Value::Array(list) if !list.is_empty() && list.iter().all(has_role) => Ok(Value::Array(list)),
        other => Err(RowProblem::Field {
            field: "messages",
            wanted: "a list of messages, each with its role",
            found: shown(&other),
        }),
    }
}

/// What the rows of a conversation have said so far of how they belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// One row, or rows that hold messages or bodies: each is a whole request.
    Whole,
    /// Rows that hold a text of their own, whose conversation is all of them.
    Adds,
    /// Rows whose blocks begin with the blocks of the row before: each already holds what was said before it.
    Grows,
}

/// Follows the rows of each conversation that has a name. One without is one row, of which nothing is kept: 32 bytes for each of ten
/// million rows are most of what an index would cost.
#[derive(Debug, Default)]
pub(super) struct Histories {
    seen: Vec<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    history: History,
    /// 0 stands for a conversation without a name, before the last that has one.
    rows: u32,
    is_whole: bool,
    /// Tokens of the last row, how many whole blocks it has, and a digest of their ids.
    tokens: usize,
    blocks: usize,
    digest: u64,
}

impl Histories {
    /// Whether a row may go on with conversation `at`.
    pub(super) fn check(&self, at: Option<usize>, row: &Row) -> Result<(), RowProblem> {
        let before = at.and_then(|at| self.seen.get(at));
        if before.is_some_and(|seen| seen.is_whole != is_whole(row)) {
            return Err(RowProblem::MixedRows);
        }
        Ok(())
    }

    /// Takes in the next row of the named conversation `at`, which was checked; a new one has a higher number than those before it.
    pub(super) fn push(&mut self, at: usize, row: &Row, size: usize) {
        let is_whole = is_whole(row);
        let (tokens, ids) = row.made.as_ref().map_or((0, &[][..]), |made| (made.tokens, &made.ids[..]));
        let blocks = ids.len().min(tokens / size);
        let now = Seen {
            history: if is_whole { History::Whole } else { History::Grows },
            rows: 1,
            is_whole,
            tokens,
            blocks,
            digest: digest(&ids[..blocks]),
        };
        let Some(last) = self.seen.get_mut(at) else {
            let unnamed =
                Seen { history: History::Whole, rows: 0, is_whole, tokens: 0, blocks: 0, digest: 0 };
            self.seen.resize(at, unnamed);
            self.seen.push(now);
            return;
        };
        let goes_on = last.blocks > 0
            && last.blocks <= ids.len()
            && last.tokens <= tokens
            && digest(&ids[..last.blocks]) == last.digest;
        let history = match last.history {
            History::Grows if !goes_on => History::Adds,
            before => before,
        };
        *last = Seen { history, rows: last.rows.saturating_add(1), ..now };
    }

    /// How many conversations have rows that hold their history.
    pub(super) fn growing(&self) -> usize {
        (0..self.seen.len()).filter(|at| self.of(*at) == History::Grows).count()
    }

    /// Of conversation `at`.
    pub(super) fn of(&self, at: usize) -> History {
        self.seen.get(at).map_or(History::Whole, |seen| match seen.history {
            History::Grows if seen.rows == 1 => History::Whole,
            history => history,
        })
    }
}

/// Whether a row says all of its request.
const fn is_whole(row: &Row) -> bool {
    row.made.is_none() && row.texts.is_empty()
}

fn digest(ids: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    ids.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Result<Record, String> {
        parse(line.as_bytes(), EndpointKind::Chat, 16).map_err(|(_, problem)| problem.to_string())
    }

    #[test]
    fn a_row_says_one_thing() {
        let made = row(
            r#"{"timestamp":10,"input_length":50,"output_length":4,"hash_ids":[46,-1,48,5],"session_id":7}"#,
        );
        let made = made.expect("a good row");
        let turn = &made.turns[0];
        let wanted = Made { tokens: 50, ids: vec![46, u64::MAX, 48, 5] };
        assert_eq!(
            (turn.made.as_ref(), turn.at_ns, turn.output_length),
            (Some(&wanted), Some(10_000_000), Some(4))
        );
        assert_eq!(made.session_id.as_deref(), Some("7"));
        assert_eq!(row(r#"{"text_input":"Hello"}"#).expect("a text").turns[0].texts, ["Hello"]);
        let said = row(
            r#"{"messages":[{"role":"user","content":"hey"}],"tools":[{"type":"function"}],"extra":{"top_k":1}}"#,
        );
        let said = said.expect("messages").turns.remove(0);
        let keys: Vec<&str> = said.extra.keys().map(String::as_str).collect();
        assert_eq!((keys, said.texts.len()), (vec!["messages", "top_k", "tools"], 0));
        let body = row(r#"{"payload":{"prompt":"raw","max_tokens":5}}"#).expect("a body").turns.remove(0);
        assert_eq!(body.payload.as_deref(), Some(&br#"{"prompt":"raw","max_tokens":5}"#[..]));
        assert_eq!(row(r#"{"input_length":5,"mood":1}"#).expect("a length").unknown, ["mood"]);
    }

    #[test]
    fn rows_that_make_no_sense_are_refused() {
        for (line, said) in [
            (
                "{}",
                "'input_length', 'text_input', 'messages' or 'payload' says what is sent, and none of them is there",
            ),
            (
                r#"{"text_input":"a","input_length":4}"#,
                "'input_length', 'text_input', 'messages' or 'payload' says what is sent, and there is more than one: 'input_length', \
                 'text_input'",
            ),
            (r#"{"input_length":0}"#, "'input_length' must be a whole number above 0, not 0"),
            (
                r#"{"input_length":5,"hash_ids":[1.5]}"#,
                "'hash_ids' must be a list of whole numbers of up to 64 bits, not [1.5]",
            ),
            (
                r#"{"input_length":32,"hash_ids":[1,2,3]}"#,
                "3 blocks of 16 tokens are more than a prompt of 32 tokens holds, the last one cut short; --isl-block-size says how many \
                 tokens a block has",
            ),
            (
                r#"{"text_input":"a","hash_ids":[1]}"#,
                "'hash_ids' is there without 'input_length', which it belongs to",
            ),
            (
                r#"{"text_input":"a","tools":[{}]}"#,
                "'tools' is there without 'messages', which it belongs to",
            ),
            (
                r#"{"messages":[{"content":"a"}]}"#,
                "'messages' must be a list of messages, each with its role, not [{\"content\":\"a\"}]",
            ),
            (r#"{"payload":{}}"#, "'payload' must be an object, the whole body, not {}"),
        ] {
            assert_eq!(row(line).map(|_| ()), Err(said.to_owned()), "{line}");
        }
        let messages = br#"{"messages":[{"role":"user","content":"a"}]}"#;
        let (_, problem) = parse(messages, EndpointKind::Completions, 16).expect_err("no messages");
        assert!(problem.to_string().contains("completions"), "{problem}");
    }

    #[test]
    fn rows_tell_whether_they_hold_what_was_before_them() {
        let made = |tokens: usize, ids: &[u64]| Row {
            made: Some(Made { tokens, ids: ids.to_vec() }),
            ..Row::default()
        };
        let told = |rows: &[Row]| {
            let mut histories = Histories::default();
            for row in rows {
                histories.push(0, row, 16);
            }
            histories.of(0)
        };
        assert_eq!(told(&[made(64, &[1, 2])]), History::Whole);
        assert_eq!(told(&[made(32, &[1, 2]), made(64, &[1, 2, 3, 4])]), History::Grows);
        // A block that was cut short is whole, or another one, in the next row.
        assert_eq!(told(&[made(40, &[1, 2, 3]), made(64, &[1, 2, 9, 4])]), History::Grows);
        assert_eq!(told(&[made(32, &[1, 2]), made(64, &[1, 2, 3, 4]), made(32, &[5])]), History::Adds);
        assert_eq!(told(&[made(32, &[]), made(64, &[])]), History::Adds);
        assert_eq!(told(&[made(32, &[1, 2]), made(16, &[1])]), History::Adds);
        // Conversations without a name between those that have one.
        let mut mixed = Histories::default();
        for (at, ids) in [(2, &[1][..]), (5, &[7]), (2, &[1, 2])] {
            mixed.push(at, &made(16 * ids.len(), ids), 16);
        }
        let kinds: Vec<History> = (0..7).map(|at| mixed.of(at)).collect();
        let grown = |at| if at == 2 { History::Grows } else { History::Whole };
        assert_eq!(kinds, (0..7).map(grown).collect::<Vec<_>>());
        let body = Row { payload: Some(b"{}".to_vec()), ..Row::default() };
        assert_eq!(told(&[body.clone(), body.clone()]), History::Whole);
        let mut histories = Histories::default();
        histories.push(0, &body, 16);
        assert_eq!(histories.check(Some(0), &made(5, &[])), Err(RowProblem::MixedRows));
        assert_eq!((histories.check(Some(0), &body), histories.check(None, &made(5, &[]))), (Ok(()), Ok(())));
    }
}
