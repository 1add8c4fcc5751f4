//! What is asked of a server, before it has the form of any API. Made by `aiperf-data`, encoded by `aiperf-net`.

use serde_json::{Map, Value};

/// One entry of a workload: one or more turns, sent in order within a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// `session_000000` …, or the file's own id.
    pub id: String,
    /// Turns; each is a self-contained request.
    pub turns: Vec<Turn>,
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
    /// Input length asked for, tokens, when the text was made to a length.
    pub asked_isl: Option<u64>,
}
