//! What a line of a file of prompts holds, in each of the forms that are made of rows with texts.

use aiperf_core::conversation::ContextMode;
use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;
use serde_json::Value;

use super::bailian::{self, Link};
use super::burst_gpt::{self, Columns};
use super::detect::CONTENT;
use super::mooncake;
use super::row::{Placed, Row, read, shown, string};
use super::{baseten, random_pool, sagemaker};
use crate::error::RowProblem;
use crate::workload::WorkloadKind;

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `single_turn`: a line is a self-contained request; lines of one session are sent in order.
    SingleTurn,
    /// `multi_turn`: a line is turns of a conversation, each behind the turns and answers before it; lines of one session go on.
    MultiTurn,
    /// `mooncake_trace`: a line is a request of a length, in blocks; lines of one session go on.
    Mooncake {
        /// Tokens of a block.
        block: usize,
    },
    /// `bailian_trace`: the same, and the chat that goes on.
    Bailian {
        /// Tokens of a block.
        block: usize,
    },
    /// `burst_gpt_trace`: below a line with names of columns, a line is the time and the lengths of a request.
    BurstGpt(Columns),
    /// `baseten_trace`: a line is a completion as it was recorded; lines of one session are sent in the order of their times.
    Baseten(baseten::Fields),
    /// `random_pool`: a line is texts, which conversations are drawn from.
    RandomPool,
    /// `sagemaker_data_capture`: a line is a request as it was recorded.
    SageMaker,
}

/// What a turn of a conversation is sent with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// What was said before it, and what the server answered.
    #[default]
    LiveReplies,
    /// What was said before it, and the answers that the file has: turns of the assistant, which are not sent themselves.
    RecordedReplies,
    /// Nothing: it is a whole request.
    Whole,
}

impl Mode {
    const ALL: [Self; 3] = [Self::LiveReplies, Self::RecordedReplies, Self::Whole];

    /// AIPerf's name, which files hold.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::LiveReplies => "deltas_without_responses",
            Self::RecordedReplies => "deltas_with_responses",
            Self::Whole => "message_array_with_responses",
        }
    }

    fn of(value: &Value) -> Result<Self, RowProblem> {
        let named = value.as_str().and_then(|name| Self::ALL.into_iter().find(|mode| mode.name() == name));
        named.ok_or_else(|| RowProblem::Field {
            field: "context_mode",
            wanted: "deltas_without_responses, deltas_with_responses or message_array_with_responses",
            found: shown(value),
        })
    }

    /// Whether a turn is sent, not an answer that was recorded.
    pub(super) fn sends(self, row: &Row) -> bool {
        self != Self::RecordedReplies || row.role.as_deref() != Some("assistant")
    }
}

/// A line.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Lines of one session belong together.
    pub(super) session_id: Option<String>,
    /// At least one.
    pub(super) turns: Vec<Row>,
    /// Keys that mean nothing here, those of its turns too.
    pub(super) unknown: Vec<String>,
    /// The chat it belongs to, in a trace whose rows say it.
    pub(super) link: Option<Link>,
    /// What kind of request it was, where that was none of text alone.
    pub(super) was: Option<String>,
    /// A length of 0 was made 1.
    pub(super) is_raised: bool,
    /// How long its prompt was, where that is recorded beside the prompt, tokens.
    pub(super) input_length: Option<u64>,
    /// What its turns are sent with, if it says so.
    pub(super) mode: Option<Mode>,
}

impl Form {
    pub(super) const fn kind(self) -> WorkloadKind {
        match self {
            Self::SingleTurn => WorkloadKind::SingleTurn,
            Self::MultiTurn => WorkloadKind::MultiTurn,
            Self::Mooncake { .. } => WorkloadKind::Mooncake,
            Self::Bailian { .. } => WorkloadKind::Bailian,
            Self::BurstGpt(_) => WorkloadKind::BurstGpt,
            Self::RandomPool => WorkloadKind::RandomPool,
            Self::SageMaker => WorkloadKind::SageMaker,
            Self::Baseten(_) => WorkloadKind::Baseten,
        }
    }

    pub(super) const fn context(self) -> ContextMode {
        match self {
            Self::SingleTurn | Self::BurstGpt(_) | Self::RandomPool | Self::SageMaker | Self::Baseten(_) => {
                ContextMode::SelfContained
            }
            Self::MultiTurn | Self::Mooncake { .. } | Self::Bailian { .. } => ContextMode::History,
        }
    }

    /// A recording of requests, whose rows say lengths.
    pub(super) const fn is_trace(self) -> bool {
        matches!(self, Self::Mooncake { .. } | Self::Bailian { .. } | Self::BurstGpt(_))
    }

    /// A recording whose prompts are sent as they were. Its times count from the first one, and its rows stand in no order.
    pub(super) const fn is_verbatim_trace(self) -> bool {
        matches!(self, Self::SageMaker | Self::Baseten(_))
    }

    /// Tokens of a block, where rows give lengths in the place of texts.
    pub(super) const fn block(self) -> Option<usize> {
        match self {
            Self::SingleTurn | Self::MultiTurn | Self::RandomPool | Self::SageMaker | Self::Baseten(_) => {
                None
            }
            Self::Mooncake { block } | Self::Bailian { block } => Some(block),
            // No row has any.
            Self::BurstGpt(_) => Some(mooncake::BLOCK),
        }
    }

    /// Whether the first line is none of the rows: it names the columns.
    pub(super) const fn has_header(self) -> bool {
        matches!(self, Self::BurstGpt(_))
    }

    /// Whether rows that cannot be read are left out in any case.
    pub(super) const fn leaves_out(self) -> bool {
        matches!(self, Self::BurstGpt(_))
    }

    /// Reads a line without its line end, for requests of the type `api`.
    pub(super) fn parse(self, line: &[u8], api: EndpointKind) -> Result<Record, Placed> {
        match self {
            Self::Mooncake { block } => mooncake::parse(line, api, block),
            Self::Bailian { block } => bailian::parse(line, block),
            Self::BurstGpt(columns) => burst_gpt::parse(line, columns),
            Self::RandomPool => random_pool::parse(line),
            Self::SageMaker => sagemaker::parse(line, api),
            Self::Baseten(fields) => baseten::parse(line, fields, api),
            Self::SingleTurn => {
                let mut row = Row::parse(line).map_err(|(at, problem)| (at, elsewhere(problem, line)))?;
                let (session_id, unknown) = (row.session_id.take(), std::mem::take(&mut row.unknown));
                let mut record = Record { session_id, unknown, ..Record::default() };
                if std::mem::take(&mut row.resets) {
                    // Each row is a whole request anyway.
                    record.unknown.push("reset_context".to_owned());
                }
                record.turns.push(row);
                Ok(record)
            }
            Self::MultiTurn => turns_of(read(line)?).map_err(|problem| (None, problem)),
        }
    }
}

/// Where a row without a text has something else that may be meant.
fn elsewhere(problem: RowProblem, line: &[u8]) -> RowProblem {
    // What a row has beside its text.
    const BESIDE: [&str; 5] = ["role", "type", "session_id", "model", "context_mode"];
    let Ok(Value::Object(row)) = read(line) else { return problem };
    let is_other = |key: &str| !BESIDE.contains(&key) && !CONTENT.contains(&key);
    let found = row.iter().filter(|(key, _)| is_other(key)).find_map(|(key, value)| match value {
        Value::String(text) if !text.is_empty() => Some((key, "--dataset-prompt-column")),
        Value::Array(list) if list.iter().any(Value::is_object) => Some((key, "--dataset-messages-column")),
        _ => None,
    });
    match (problem, found) {
        (RowProblem::NoText, Some((key, option))) => {
            RowProblem::NoTextElsewhere { key: for_terminal(key, 40), option }
        }
        (problem, _) => problem,
    }
}

fn turns_of(value: Value) -> Result<Record, RowProblem> {
    const TURNS: &str = "a list of objects, one for each turn";
    let Value::Object(map) = value else {
        return Err(RowProblem::NotAnObject { found: shown(&value) });
    };
    let wrong = |field, wanted, found: &Value| RowProblem::Field { field, wanted, found: shown(found) };
    let mut record = Record::default();
    let mut given = None;
    for (key, value) in map {
        match key.as_str() {
            _ if value.is_null() => {}
            "session_id" => record.session_id = Some(string("session_id", value)?).filter(|s| !s.is_empty()),
            "turns" => match value {
                Value::Array(turns) => given = Some(turns),
                other => return Err(wrong("turns", TURNS, &other)),
            },
            "context_mode" => record.mode = Some(Mode::of(&value)?),
            "type" if value == "multi_turn" => {}
            "type" => return Err(wrong("type", "\"multi_turn\"", &value)),
            _ => record.unknown.push(key),
        }
    }
    for (i, turn) in given.unwrap_or_default().into_iter().enumerate() {
        let row = Row::from_value(turn)
            .map_err(|problem| RowProblem::InTurn { turn: i, problem: Box::new(problem) })?;
        // The session is the row's.
        let session = row.session_id.as_ref().map(|_| "turns[].session_id".to_owned());
        record.unknown.extend(row.unknown.iter().map(|key| format!("turns[].{key}")).chain(session));
        record.turns.push(row);
    }
    if record.turns.is_empty() {
        return Err(RowProblem::NoTurns);
    }
    Ok(record)
}

impl Row {
    /// Whether it says how the model is to behave, and no more: the system message of a conversation, not a turn of it.
    pub(super) fn is_instruction(&self) -> bool {
        self.is_system()
            && self.at_ns.is_none()
            && self.delay_ns.is_none()
            && self.output_length.is_none()
            && self.extra.is_empty()
            && self.headers.is_empty()
            && !self.resets
            && self.media.is_empty()
            && self.texts.iter().any(|text| !text.is_empty())
    }

    pub(super) fn is_system(&self) -> bool {
        self.role.as_deref() == Some("system")
    }
}
