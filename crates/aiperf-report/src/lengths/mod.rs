//! Input lengths of a run: what was asked for, what was sent, what the server counted, and what it means when they differ.
//!
//! The numbers come from the ledger of `aiperf-metrics`; here they get their words and their keys.

mod keys;
mod words;

use aiperf_metrics::LengthSummary;

pub(crate) use keys::{schema, schema_2, write, write_2};

/// Everything known of the input lengths of a run.
#[derive(Debug, Clone)]
pub struct InputLengths<'a> {
    /// The ledger of the profiling phase.
    pub summary: LengthSummary,
    /// Name of the tokenizer behind our counts; none when nothing was counted here.
    pub tokenizer: Option<&'a str>,
    /// What our counts are counts of.
    pub counting: Counting,
    /// Whole counts beside the run.
    pub verified: Option<&'a Verified>,
    /// What the server said of a first request before the run.
    pub server_count: Option<ServerCount>,
}

/// What a count of ours is a count of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// A request as the tokenizer's chat template renders it.
    Rendered,
    /// The texts of all messages, each alone.
    Messages {
        /// The tokenizer has a chat template.
        has_template: bool,
        /// Tokens of the line ends that a server puts between the texts of a message; they are not counted.
        between: u64,
    },
    /// Plain prompts.
    Prompts {
        /// Tokens that the tokenizer puts around each; they are counted.
        specials: u64,
    },
    /// A query and passages, each alone. A server counts the query with every passage, so its counts are not compared.
    Ranked,
}

/// Requests that were counted again as a whole, beside the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Every one was to be, not some of them.
    pub all: bool,
    /// Counted again.
    pub requests: u64,
    /// Of these, with another length than was said.
    pub wrong: u64,
    /// Chosen, and not counted because counting could not keep up.
    pub skipped: u64,
    /// The first wrong ones.
    pub examples: Vec<WrongLength>,
}

/// A request whose length is not what it was said to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongLength {
    /// Its conversation.
    pub conversation_id: String,
    /// Its turn, from 0.
    pub turn_index: u16,
    /// Tokens it was said to have.
    pub said: u64,
    /// Tokens it has.
    pub counted: u64,
}

/// What a server that can be asked for counts said of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerCount {
    /// The length its turn was to have.
    pub asked: Option<u64>,
    /// Our count.
    pub sent: u64,
    /// The server's.
    pub counted: u64,
}

impl InputLengths<'_> {
    /// Whether there is anything to tell.
    pub(crate) const fn is_empty(&self) -> bool {
        let s = &self.summary;
        s.asked_sent.is_none()
            && s.sent_counted.is_none()
            && self.verified.is_none()
            && self.server_count.is_none()
    }
}
