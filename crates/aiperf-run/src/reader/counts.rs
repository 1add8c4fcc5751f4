//! Tokens of a request and of its answer.

use aiperf_metrics::{token_gaps, tokens_of_chunks};
use aiperf_net::Answer;

use crate::count::BodyCounter;
use crate::item::{TurnFacts, is_in_sample};

/// Requests whose tokens are looked at chunk by chunk whatever comes, the first ones of the run.
const GAPS_FIRST: u64 = 256;
/// Behind them, one of 2 to the power of this.
const GAPS_EVERY_BITS: u32 = 4;

/// Lengths, tokens.
pub(super) struct Counts {
    pub isl: Option<u64>,
    pub output: Option<u64>,
    pub reasoning: Option<u64>,
}

impl Counts {
    /// Ours, or the server's when there is no counter. An input length is known before the request is sent, but for a turn that says
    /// again what the server answered: that is counted as it was sent, in `body`.
    pub(super) fn of(
        counter: Option<&mut BodyCounter>,
        answer: &Answer,
        turn: &TurnFacts,
        body: &[u8],
    ) -> Self {
        let Some(counter) = counter else {
            let usage = answer.usage.unwrap_or_default();
            let reasoning = usage.reasoning_tokens;
            return Self {
                isl: usage.prompt_tokens,
                output: usage.completion_tokens.map(|c| c.saturating_sub(reasoning.unwrap_or(0))),
                reasoning,
            };
        };
        let mut tokens = |text: &str, is_remembered: bool| {
            (!text.is_empty())
                .then(|| if is_remembered { counter.remembered(text) } else { counter.answer(text) })
        };
        let sum = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).reduce(|a, b| a + b);
        // Each choice is a text of its own; only the first is part of the next request.
        let (mut output, mut reasoning) = (None, None);
        for (at, (text, thoughts)) in answer.choices().enumerate() {
            output = sum(output, tokens(text, turn.is_remembered && at == 0));
            reasoning = sum(reasoning, tokens(thoughts, false));
        }
        let isl = turn.isl.or_else(|| turn.is_part.then(|| counter.body(body)).flatten());
        Self { isl, output, reasoning }
    }

    /// Gaps between the tokens of a streamed answer, if it is one of the sample. Where there are as many chunks as tokens each is taken to
    /// bring one; else every chunk is counted for itself.
    pub(super) fn token_gaps(&self, counter: &BodyCounter, number: u64, answer: &Answer) -> Vec<u64> {
        // Chunks of several choices say nothing of the pace of one.
        if !is_in_sample(number, GAPS_FIRST, GAPS_EVERY_BITS) || !answer.others.is_empty() {
            return Vec::new();
        }
        let tokens = self.output.unwrap_or(0) + self.reasoning.unwrap_or(0);
        let brought = if tokens == answer.chunks.len() as u64 {
            vec![1; answer.chunks.len()]
        } else {
            let (mut text, mut reasoning) = (0, 0);
            let of = |whole: &str, from: usize, to: usize| match whole.get(from..to) {
                Some(piece) if !piece.is_empty() => counter.answer(piece),
                _ => 0,
            };
            let alone = answer.chunks.iter().map(|chunk| {
                let own = of(&answer.text, text, chunk.text_end)
                    + of(&answer.reasoning, reasoning, chunk.reasoning_end);
                (text, reasoning) = (chunk.text_end, chunk.reasoning_end);
                own
            });
            tokens_of_chunks(&alone.collect::<Vec<_>>(), tokens)
        };
        token_gaps(answer.chunks.iter().map(|chunk| chunk.at_ns).zip(brought))
    }
}
