//! What is asked of a server, before it has the form of any API. Made by `aiperf-data`, encoded by `aiperf-net`.

use serde_json::{Map, Value};

/// One entry of a workload: one or more turns, sent in order within a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// `session_000000` …, or the file's own id.
    pub id: String,
    /// How a turn's request comes about.
    pub context: ContextMode,
    /// Text of the system message before all turns.
    pub system: Option<String>,
    /// Text of a user message between the system message and the first turn.
    pub user_context: Option<String>,
    /// Turns in order; at least one.
    pub turns: Vec<Turn>,
}

/// What a turn's request holds beside the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextMode {
    /// Each turn is a whole request.
    SelfContained,
    /// The turns before it, each with the answer that the server gave.
    History,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Model to name in the body.
    pub model: String,
    /// Role of the message; `None` is `user`.
    pub role: Option<String>,
    /// Texts of the turn: one gives a plain string, several give a list of parts (chat) or a list of prompts (completions).
    pub texts: Vec<String>,
    /// Output limit asked for.
    pub max_tokens: Option<u64>,
    /// Think time after the end of the turn before it.
    pub delay_ns: Option<u64>,
    /// Merged into the body last.
    pub extra: Map<String, Value>,
    /// Lengths, when the turn was made to one.
    pub length: Option<TurnLength>,
}

/// Input lengths of a turn that was made to one, tokens.
///
/// A first turn's are those of the whole request: with a chat template what that renders to, without one the sum over all
/// contents. A later turn's are those of its own part alone, for the answers before it are the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnLength {
    /// What was asked for.
    pub asked: u64,
    /// What was made. Differs from `asked` only where a length cannot be had and the user wants the nearest.
    pub made: u64,
}
