//! How a request ended. Every scheduled request ends in exactly one [`Outcome`]:
//! scheduled = sent + unsent, and sent = completed + failed + cancelled + lost.

use serde::{Deserialize, Serialize};

/// The class a scheduled request ends in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A whole, well-formed answer with content.
    #[default]
    Completed,
    /// The server or the network did not give one; a [`Failure`] says why.
    Failed,
    /// We dropped it on purpose: grace over, interrupt, asked-for cancellation.
    Cancelled,
    /// Sent, and nothing is known of its end (a shard died).
    Lost,
    /// Scheduled and never sent (the run stopped first, or a policy skipped it).
    Unsent,
}

impl Outcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Completed, Self::Failed, Self::Cancelled, Self::Lost, Self::Unsent];
}

/// Why we dropped a request on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// The phase's duration and grace were over.
    GraceOver,
    /// The user interrupted the run.
    Interrupted,
    /// The plan asked for it: a request cancellation.
    Asked,
    /// Too many requests had failed.
    Threshold,
    /// An arrival found no place, and the run was to stop there.
    Saturated,
}

/// What the transport says of the end of a request, before its answer is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disposition {
    /// The answer came to its end on the wire (any status).
    Finished,
    /// The transport failed.
    Failed(Failure),
    /// Dropped on purpose at `at_ns` (monotonic).
    Cancelled {
        /// Why.
        reason: CancelReason,
        /// When the connection was dropped.
        at_ns: u64,
    },
}

/// Why the server stopped writing, in one vocabulary for all APIs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It did not say.
    #[default]
    Unsaid,
    /// The model ended its answer, or a stop text came.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model called tools.
    ToolCalls,
    /// A filter or a refusal ended it.
    ContentFilter,
    /// A word that is none of these.
    Other,
}

impl Finish {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Unsaid, Self::Stop, Self::Length, Self::ToolCalls, Self::ContentFilter, Self::Other];

    /// What a server's own word means, in any letter case: those of OpenAI and its followers, of Anthropic, Google, TGI and Cohere.
    pub fn of_word(word: &str) -> Self {
        match word.trim().to_ascii_lowercase().as_str() {
            "" => Self::Unsaid,
            // `completed` is the state of a whole response.
            "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" | "complete" | "completed"
            | "endoftext" => Self::Stop,
            "length"
            | "max_tokens"
            | "max_output_tokens"
            | "max_length"
            | "model_length"
            | "model_context_window_exceeded" => Self::Length,
            "tool_calls" | "tool_use" | "tool_call" | "function_call" => Self::ToolCalls,
            "content_filter" | "content_filtered" | "refusal" | "safety" | "recitation" | "blocklist"
            | "prohibited_content" | "spii" | "error_toxic" => Self::ContentFilter,
            _ => Self::Other,
        }
    }

    /// The reason that files name so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|finish| finish.name() == name)
    }

    /// The word files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unsaid => "unsaid",
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
        }
    }
}

/// Where in a request's life it broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Name resolution.
    Resolve,
    /// TCP connect.
    Connect,
    /// TLS handshake.
    Tls,
    /// Writing the request.
    Send,
    /// Sent, no byte of an answer yet.
    BeforeFirstByte,
    /// Some of the answer came.
    InStream,
    /// The answer is whole and says or holds something wrong.
    Answer,
}

impl Stage {
    /// What people read.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Resolve => "name",
            Self::Connect => "connect",
            Self::Tls => "TLS",
            Self::Send => "send",
            Self::BeforeFirstByte => "before first byte",
            Self::InStream => "in the answer",
            Self::Answer => "answer",
        }
    }
}

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A status outside 200..=299.
    HttpStatus,
    /// The name has no address.
    Resolve,
    /// No TCP connection.
    Connect,
    /// No TLS session.
    Tls,
    /// The peer closed or reset before the answer began.
    Disconnected,
    /// The peer closed or reset inside the answer, or a stream ended without saying that it is over.
    Truncated,
    /// A time limit of ours.
    Timeout,
    /// Not HTTP, or broken HTTP.
    Protocol,
    /// A server-sent error event, or an error object inside a 200 answer.
    ServerError,
    /// No event or choice with content.
    Empty,
    /// A body that is not what the endpoint answers with (HTML, broken JSON).
    Malformed,
    /// Over the response size cap.
    TooLarge,
    /// We dropped it on purpose; the outcome is [`Outcome::Cancelled`], this only words it for the files.
    Cancelled,
}

impl FailureKind {
    /// What people read.
    pub const fn words(self) -> &'static str {
        match self {
            Self::HttpStatus => "HTTP status",
            Self::Resolve => "no address",
            Self::Connect => "no connection",
            Self::Tls => "no TLS",
            Self::Disconnected => "disconnected",
            Self::Truncated => "truncated",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::ServerError => "server error",
            Self::Empty => "empty",
            Self::Malformed => "malformed",
            Self::TooLarge => "too large",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One failure as data: what, where, in whose words, and whether another try could help.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// Where it broke.
    pub stage: Stage,
    /// HTTP status or the server's own code; AIPerf's `error.code`.
    pub code: Option<i64>,
    /// The word AIPerf's scripts group by: the reason phrase for a status, else an exception name (`TimeoutError`).
    pub type_name: String,
    /// The server's own words, or ours in one sentence.
    pub message: String,
    /// Whether the same request could succeed later (429, 503, refused connection, timeout …).
    pub retryable: bool,
    /// The server's own name of the error (`rate_limit_exceeded`, `RESOURCE_EXHAUSTED`), where it has one.
    pub server_code: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_s_word_is_one_of_ours() {
        for (word, finish) in [
            ("stop", Finish::Stop),
            ("STOP", Finish::Stop),
            ("end_turn", Finish::Stop),
            ("eos_token", Finish::Stop),
            ("completed", Finish::Stop),
            ("length", Finish::Length),
            ("MAX_TOKENS", Finish::Length),
            ("max_output_tokens", Finish::Length),
            ("tool_use", Finish::ToolCalls),
            ("function_call", Finish::ToolCalls),
            ("content_filter", Finish::ContentFilter),
            ("SAFETY", Finish::ContentFilter),
            ("refusal", Finish::ContentFilter),
            ("pause_turn", Finish::Other),
            ("", Finish::Unsaid),
        ] {
            assert_eq!(Finish::of_word(word), finish, "{word}");
        }
        for finish in Finish::ALL {
            assert_eq!(Finish::named(finish.name()), Some(finish));
        }
    }
}
