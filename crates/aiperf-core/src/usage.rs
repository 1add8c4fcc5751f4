//! Token counts as the server reports them.

use serde::Serialize;

/// The last non-empty usage object of an answer, in one vocabulary. Absent counts were not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Prompt tokens, what came from the cache or went into it included.
    pub prompt_tokens: Option<u64>,
    /// Completion tokens, reasoning included.
    pub completion_tokens: Option<u64>,
    /// Total as reported.
    pub total_tokens: Option<u64>,
    /// Reasoning tokens, a part of the completion.
    pub reasoning_tokens: Option<u64>,
    /// Prompt tokens that came from the server's cache.
    pub cached_tokens: Option<u64>,
    /// Prompt tokens that went into the server's cache.
    pub cache_write_tokens: Option<u64>,
    /// Prompt tokens that were looked for in the server's cache and were not there.
    pub cache_miss_tokens: Option<u64>,
    /// Prompt tokens that are audio.
    pub prompt_audio_tokens: Option<u64>,
    /// Length of the prompt's audio, seconds.
    pub prompt_audio_seconds: Option<f64>,
    /// Prompt tokens that results of tools took.
    pub tool_use_prompt_tokens: Option<u64>,
    /// Completion tokens that are audio.
    pub completion_audio_tokens: Option<u64>,
    /// Tokens of a predicted output that the answer has.
    pub accepted_prediction_tokens: Option<u64>,
    /// Tokens of a predicted output that the answer does not have.
    pub rejected_prediction_tokens: Option<u64>,
}
