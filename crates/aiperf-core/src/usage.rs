//! Token counts as the server reports them.

use serde::Serialize;

/// The last non-empty usage object of an answer, in one vocabulary. Absent counts were not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Prompt tokens, cache hits included.
    pub prompt_tokens: Option<u64>,
    /// Completion tokens, reasoning included.
    pub completion_tokens: Option<u64>,
    /// Total as reported.
    pub total_tokens: Option<u64>,
    /// Reasoning tokens, a part of the completion.
    pub reasoning_tokens: Option<u64>,
    /// Prompt tokens that came from the server's cache.
    pub cached_tokens: Option<u64>,
}
