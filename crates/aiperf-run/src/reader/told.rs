//! Oddities of answers that are told once a run, however many answers have them.

use aiperf_core::plan::EndpointKind;
use aiperf_core::text::for_terminal;
use aiperf_metrics::{Facts, fits_first_chunk};
use aiperf_net::Answer;

use crate::item::TurnFacts;

/// What was told already.
#[derive(Debug, Default)]
pub(super) struct Told {
    first_chunk: bool,
    results: bool,
    spec_decode: bool,
}

/// Whether it is the first time.
const fn is_new(told: &mut bool) -> bool {
    !std::mem::replace(told, true)
}

impl Told {
    /// The server was asked for its counts with each chunk, and gave none with the first, or one that cannot be.
    pub(super) fn first_chunk(&mut self, facts: &Facts) {
        let osl = facts.output_tokens.unwrap_or(0) + facts.reasoning_tokens.unwrap_or(0);
        let fits = facts.first_chunk_tokens.is_some_and(|first| fits_first_chunk(first, osl));
        if osl < 2 || fits || !is_new(&mut self.first_chunk) {
            return;
        }
        let what = match facts.first_chunk_tokens {
            None => "no count of tokens came with the first chunk of an answer".to_owned(),
            Some(first) => format!(
                "the server counts {first} tokens in the first chunk of an answer, which does not fit the answer"
            ),
        };
        tracing::warn!(
            "--per-chunk-usage: {what}; its inter-token latency is taken over all tokens but one. Does the server know \
             stream_options.continuous_usage_stats?"
        );
    }

    /// A good answer has not as many vectors or scores as the request has inputs.
    pub(super) fn results(&mut self, kind: EndpointKind, turn: &TurnFacts, answer: &Answer) {
        if let (Some(expected), Some(found)) = (turn.results, answer.results)
            && expected != found
            && answer.failure.is_none()
            && is_new(&mut self.results)
        {
            let what = if kind.is_ranking() { "scores" } else { "vectors" };
            tracing::warn!(
                "an answer has {found} {what} for {expected} inputs (conversation {}); it counts as completed, and others like it \
                 are not told",
                for_terminal(&turn.conversation, 80)
            );
        }
    }

    /// Counts of speculative decoding that do not agree.
    pub(super) fn spec_decode(&mut self, answer: &Answer) {
        if let Some(problem) = &answer.spec_decode_problem
            && is_new(&mut self.spec_decode)
        {
            tracing::warn!(
                "counts of speculative decoding in an answer do not agree and are left out: {problem}"
            );
        }
    }
}
