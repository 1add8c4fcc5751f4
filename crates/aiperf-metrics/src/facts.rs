//! What is known of one request once its answer was read and counted: the only input of every formula.

use aiperf_core::outcome::Outcome;
use aiperf_core::usage::Usage;

/// What the endpoint and the run can give; decides which metrics exist at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Answers come as server-sent events.
    pub streaming: bool,
    /// Answers are text that is counted in tokens.
    pub produces_tokens: bool,
    /// Prompts are counted in tokens.
    pub tokenizes_input: bool,
    /// Answers may have a reasoning channel.
    pub reasoning: bool,
    /// ISL and OSL are the server's own counts, so comparing them with its usage says nothing.
    pub server_token_count: bool,
}

/// One event or body that carried content (answer text, reasoning or a tool call). Role-only, empty, usage-only and end-marker events
/// are not chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkFact {
    /// When its content was whole: the read that brought the last byte of its data, monotonic nanoseconds.
    pub at_ns: u64,
    /// Whether it carries answer text or a tool call, not reasoning alone.
    pub answer: bool,
}

/// One request as the formulas see it. Stamps are monotonic nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The class it ended in.
    pub outcome: Outcome,
    /// The transport took the request, before DNS, TCP and TLS.
    pub start_ns: u64,
    /// The end, however it came; trailing usage and end markers included.
    pub end_ns: u64,
    /// When the schedule wanted it sent; absent in closed loop.
    pub scheduled_ns: Option<u64>,
    /// Content chunks in order of arrival; a whole body is one chunk.
    pub chunks: Vec<ChunkFact>,
    /// Input length, tokens.
    pub isl: Option<u64>,
    /// Input length that the turn was to have, tokens; absent when it was not made to a length.
    pub asked_isl: Option<u64>,
    /// Answer tokens, reasoning excluded.
    pub output_tokens: Option<u64>,
    /// Reasoning tokens.
    pub reasoning_tokens: Option<u64>,
    /// Output length asked for, tokens.
    pub requested_osl: Option<u64>,
    /// What the server counted.
    pub usage: Option<Usage>,
}
