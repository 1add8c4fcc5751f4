//! What a line of a file of prompts holds, in each of the forms that are made of rows with texts.

use aiperf_core::conversation::ContextMode;
use aiperf_core::plan::EndpointKind;
use serde_json::Value;

use super::bailian::{self, Link};
use super::burst_gpt::{self, Columns};
use super::mooncake;
use super::row::{Placed, Row, read, shown, string};
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
}

impl Form {
    pub(super) const fn kind(self) -> WorkloadKind {
        match self {
            Self::SingleTurn => WorkloadKind::SingleTurn,
            Self::MultiTurn => WorkloadKind::MultiTurn,
            Self::Mooncake { .. } => WorkloadKind::Mooncake,
            Self::Bailian { .. } => WorkloadKind::Bailian,
            Self::BurstGpt(_) => WorkloadKind::BurstGpt,
        }
    }

    pub(super) const fn context(self) -> ContextMode {
        match self {
            Self::SingleTurn | Self::BurstGpt(_) => ContextMode::SelfContained,
            Self::MultiTurn | Self::Mooncake { .. } | Self::Bailian { .. } => ContextMode::History,
        }
    }

    /// A recording of requests, whose rows say lengths.
    pub(super) const fn is_trace(self) -> bool {
        matches!(self, Self::Mooncake { .. } | Self::Bailian { .. } | Self::BurstGpt(_))
    }

    /// Tokens of a block, where rows give lengths in the place of texts.
    pub(super) const fn block(self) -> Option<usize> {
        match self {
            Self::SingleTurn | Self::MultiTurn => None,
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
            Self::SingleTurn => {
                let mut row = Row::parse(line)?;
                let (session_id, unknown) = (row.session_id.take(), std::mem::take(&mut row.unknown));
                Ok(Record { session_id, turns: vec![row], unknown, ..Record::default() })
            }
            Self::MultiTurn => turns_of(read(line)?).map_err(|problem| (None, problem)),
        }
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
            "type" if value == "multi_turn" => {}
            "type" => return Err(wrong("type", "\"multi_turn\"", &value)),
            _ => record.unknown.push(key),
        }
    }
    for (i, turn) in given.unwrap_or_default().into_iter().enumerate() {
        let row = Row::from_value(turn)
            .map_err(|problem| RowProblem::InTurn { turn: i, problem: Box::new(problem) })?;
        record.unknown.extend(row.unknown.iter().map(|key| format!("turns[].{key}")));
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
            && self.texts.iter().any(|text| !text.is_empty())
    }

    pub(super) fn is_system(&self) -> bool {
        self.role.as_deref() == Some("system")
    }
}
