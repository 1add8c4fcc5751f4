//! `baseten_trace`: completions as they were recorded, a row with the prompt itself, its time and the lengths. Rows of one session are
//! sent in the order of their times, each as a whole request. The table is Parquet, of which `outside` makes the lines that are read here.

use aiperf_core::plan::{CompletionsPlan, EndpointKind};
use serde_json::{Map, Value};

use super::record::Record;
use super::row::{Placed, Row, read, shown, string, time, wrong};
use crate::error::RowProblem;

/// The form's name.
pub(super) const FORM: &str = "baseten_trace";
pub(super) const AT: &str = "timestamp_start_unix_ms";
const PROMPT: &str = "prompt";
const INPUT: &str = "input_tokens";
const OUTPUT: &str = "output_tokens";
const LATENCY: &str = "duration_e2e_ms";
const HASHES: &str = "total_hashes";
const BLOCK: &str = "block_size";
/// What sessions are called by the source of the trace, and what was derived for those that were not.
const SESSIONS: [&str; 2] = ["provided_session_id", "poor_man_session_id"];
/// What every row has.
pub(super) const NEEDED: [&str; 4] = [AT, PROMPT, INPUT, OUTPUT];

/// What of a row is read and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Where the session is named: in the first of these that a row has.
    sessions: [Option<&'static str>; 2],
    /// The answer is to be no shorter than it was.
    min_tokens: bool,
    /// The ids of the prompt's blocks are sent with it.
    blocks: bool,
}

impl Fields {
    /// Those that the plan wants, of a table that `has` the names.
    pub(super) fn of(plan: CompletionsPlan, has: impl Fn(&str) -> bool) -> Self {
        let found = Self::of_lines(plan).sessions.into_iter().flatten().find(|name| has(name));
        Self { sessions: [found, None], ..Self::of_lines(plan) }
    }

    /// The same of a file whose rows have names of their own.
    pub(super) fn of_lines(plan: CompletionsPlan) -> Self {
        let [provided, derived] = SESSIONS.map(Some);
        Self {
            sessions: if plan.derived_sessions { [derived, provided] } else { [provided, derived] },
            min_tokens: plan.min_tokens.unwrap_or(true),
            blocks: !plan.omits_blocks.unwrap_or(false),
        }
    }

    /// The names that are read.
    pub(super) fn names(self) -> Vec<&'static str> {
        let blocks: &[&str] = if self.blocks { &[HASHES, BLOCK] } else { &[] };
        NEEDED
            .into_iter()
            .chain([LATENCY])
            .chain(self.sessions.into_iter().flatten())
            .chain(blocks.iter().copied())
            .collect()
    }

    /// Fields of a request that rows say, and the option that leaves each out of them.
    pub(super) fn said(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let blocks = [("hash_ids", "--omit-kv-hints"), ("block_size", "--omit-kv-hints")];
        let min_tokens = self.min_tokens.then_some((MIN_TOKENS, "--no-force-min-tokens"));
        min_tokens.into_iter().chain(blocks.into_iter().filter(move |_| self.blocks))
    }
}

/// The field of a request by which an answer is no shorter.
const MIN_TOKENS: &str = "min_tokens";

/// Reads a line for requests of the type `api`.
pub(super) fn parse(line: &[u8], fields: Fields, api: EndpointKind) -> Result<Record, Placed> {
    record(read(line)?, fields, api).map_err(|problem| (None, problem))
}

fn record(value: Value, fields: Fields, api: EndpointKind) -> Result<Record, RowProblem> {
    let Value::Object(map) = value else {
        return Err(RowProblem::NotAnObject { found: shown(&value) });
    };
    let session_in = fields.sessions.into_iter().flatten().find(|name| map.contains_key(*name));
    let (mut record, mut row) = (Record::default(), Row::default());
    let (mut prompt, mut output, mut hashes, mut block) = (None, None, None, None);
    for (key, value) in map {
        match key.as_str() {
            _ if value.is_null() => {}
            AT => row.at_ns = Some(time(AT, &value)?),
            PROMPT => prompt = Some(string(PROMPT, value)?),
            INPUT => record.input_length = Some(count(INPUT, &value)?),
            OUTPUT => output = Some(count(OUTPUT, &value)?),
            LATENCY => row.latency_ns = Some(time(LATENCY, &value)?),
            HASHES if fields.blocks => hashes = Some(ids(value)?),
            BLOCK if fields.blocks => match count(BLOCK, &value)? {
                0 => return Err(wrong(BLOCK, "a whole number above 0", &value)),
                tokens => block = Some(tokens),
            },
            HASHES | BLOCK => {}
            _ => match session_in.filter(|name| *name == key) {
                Some(name) => record.session_id = session(name, &value)?,
                None => record.unknown.push(key),
            },
        }
    }
    let lacks = |field| RowProblem::Lacks { field, form: FORM };
    row.at_ns.ok_or(lacks(AT))?;
    row.texts.push(prompt.ok_or(lacks(PROMPT))?);
    record.input_length.ok_or(lacks(INPUT))?;
    let output = output.ok_or(lacks(OUTPUT))?;
    record.is_raised = output == 0;
    row.output_length = Some(output.max(1));
    if fields.min_tokens && api.traits().produces_tokens {
        // Its value is that of the limit, once that is known.
        row.extra.insert(MIN_TOKENS.to_owned(), Value::Null);
    }
    row.extra
        .extend(hashes.filter(|ids| !ids.is_empty()).map(|ids| ("hash_ids".to_owned(), Value::Array(ids))));
    row.extra.extend(block.map(|tokens| ("block_size".to_owned(), tokens.into())));
    record.turns.push(row);
    Ok(record)
}

/// Says how short the answer of a request may be, which may be `limit` tokens long.
pub(super) fn force(extra: &mut Map<String, Value>, limit: Option<u64>) {
    if let Some(least) = extra.get_mut(MIN_TOKENS) {
        *least = limit.into();
    }
}

/// A number of tokens; 16.0 is 16.
fn count(field: &'static str, value: &Value) -> Result<u64, RowProblem> {
    let whole = |f: &f64| f.fract() == 0.0 && (0.0..9e15).contains(f);
    let number = value.as_u64().or_else(|| value.as_f64().filter(whole).map(|f| f as u64));
    number.ok_or_else(|| wrong(field, "a whole number from 0", value))
}

/// Ids of blocks, which go as they are.
fn ids(value: Value) -> Result<Vec<Value>, RowProblem> {
    match value {
        Value::Array(ids) if ids.iter().all(|id| id.is_u64() || id.is_i64()) => Ok(ids),
        other => Err(wrong(HASHES, "a list of whole numbers", &other)),
    }
}

/// The name of a session, which is a number in some traces.
fn session(field: &'static str, value: &Value) -> Result<Option<String>, RowProblem> {
    match value {
        Value::String(name) => Ok(Some(name.clone()).filter(|name| !name.is_empty())),
        Value::Number(number) if number.is_u64() || number.is_i64() => Ok(Some(number.to_string())),
        other => Err(wrong(field, "a text or a whole number", other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(plan: CompletionsPlan) -> Fields {
        Fields::of(plan, |_| true)
    }

    fn of(row: &Value, fields: Fields) -> Result<Record, String> {
        parse(row.to_string().as_bytes(), fields, EndpointKind::Completions)
            .map_err(|(_, problem)| problem.to_string())
    }

    fn full() -> Value {
        json!({AT: 1_700_000_000_123_u64, PROMPT: "東", INPUT: 7, OUTPUT: 3, HASHES: [5, u64::MAX], BLOCK: 64, LATENCY: 250,
            "provided_session_id": "a", "poor_man_session_id": 4, "cached_tokens_reference": 2})
    }

    #[test]
    fn a_row_is_a_prompt_with_its_time_and_lengths() {
        let record = of(&full(), fields(CompletionsPlan::default())).expect("a good row");
        let row = &record.turns[0];
        assert_eq!((row.texts.as_slice(), row.output_length), (&["東".to_owned()][..], Some(3)));
        assert_eq!((row.at_ns, row.latency_ns), (Some(1_700_000_000_123_000_000), Some(250_000_000)));
        assert_eq!((record.session_id.as_deref(), record.input_length), (Some("a"), Some(7)));
        assert_eq!(record.unknown, ["poor_man_session_id", "cached_tokens_reference"]);
        let mut extra = row.extra.clone();
        force(&mut extra, row.output_length);
        assert_eq!(
            Value::Object(extra),
            json!({"min_tokens": 3, "hash_ids": [5, u64::MAX], "block_size": 64})
        );
    }

    #[test]
    fn the_plan_says_what_goes_with_it() {
        let plan =
            CompletionsPlan { min_tokens: Some(false), omits_blocks: Some(true), derived_sessions: true };
        let record = of(&full(), fields(plan)).expect("a good row");
        assert_eq!((record.session_id.as_deref(), record.turns[0].extra.len()), (Some("4"), 0));
        assert_eq!(fields(plan).said().count(), 0);
        assert_eq!(fields(plan).names(), [AT, PROMPT, INPUT, OUTPUT, LATENCY, "poor_man_session_id"]);
        let none = Fields::of(plan, |name| name == "provided_session_id");
        assert_eq!(none.sessions, [Some("provided_session_id"), None]);
        assert_eq!(Fields::of(plan, |_| false).sessions, [None, None]);
        let mut row = full();
        row.as_object_mut().expect("a row").remove("poor_man_session_id");
        let record = of(&row, Fields::of_lines(plan)).expect("a good row");
        assert_eq!(record.session_id.as_deref(), Some("a"), "each line says what it has");
        let said: Vec<_> = fields(CompletionsPlan::default()).said().map(|(key, _)| key).collect();
        assert_eq!(said, ["min_tokens", "hash_ids", "block_size"]);
        let vectors = parse(
            full().to_string().as_bytes(),
            fields(CompletionsPlan::default()),
            EndpointKind::Embeddings,
        );
        assert!(!vectors.expect("a good row").turns[0].extra.contains_key("min_tokens"));
    }

    #[test]
    fn what_is_absent_is_absent() {
        let row = json!({AT: 0, PROMPT: "", INPUT: 0, OUTPUT: 0, HASHES: null, BLOCK: null, LATENCY: null, "provided_session_id": null});
        let record =
            of(&row, fields(CompletionsPlan { min_tokens: Some(false), ..CompletionsPlan::default() }));
        let record = record.expect("a good row");
        assert_eq!((record.session_id, record.is_raised), (None, true));
        let row = &record.turns[0];
        assert_eq!(
            (row.texts.as_slice(), row.output_length, row.extra.len()),
            (&[String::new()][..], Some(1), 0)
        );
        assert_eq!((row.at_ns, row.latency_ns), (Some(0), None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (key, value, said) in [
            (AT, json!(null), "'timestamp_start_unix_ms' is missing, which every row of baseten_trace has"),
            (
                AT,
                json!(-1),
                "'timestamp_start_unix_ms' must be a number of milliseconds from 0 to 18446744073709, not -1",
            ),
            (PROMPT, json!(5), "'prompt' must be a string, not 5"),
            (INPUT, json!(1.5), "'input_tokens' must be a whole number from 0, not 1.5"),
            (OUTPUT, json!("3"), "'output_tokens' must be a whole number from 0, not \"3\""),
            (HASHES, json!([1, "b"]), "'total_hashes' must be a list of whole numbers, not [1,\"b\"]"),
            (BLOCK, json!(0), "'block_size' must be a whole number above 0, not 0"),
            (
                LATENCY,
                json!(-5),
                "'duration_e2e_ms' must be a number of milliseconds from 0 to 18446744073709, not -5",
            ),
            (
                "provided_session_id",
                json!([]),
                "'provided_session_id' must be a text or a whole number, not []",
            ),
        ] {
            let mut row = full();
            row[key] = value;
            assert_eq!(of(&row, fields(CompletionsPlan::default())).map(|_| ()), Err(said.to_owned()));
        }
    }
}
