//! What stands in for answers: texts of their length, whose words say nothing.

use aiperf_net::{Answer, AnswerChunk};
use aiperf_sim::words::Words;
use aiperf_tokens::Tokenizer;

/// See the module.
#[derive(Debug)]
pub(super) struct Replies(Words);

impl Replies {
    /// Of a tokenizer; `None` when it has no words whose counts add up.
    pub(super) fn of(tokenizer: &dyn Tokenizer) -> Option<Self> {
        Words::find(tokenizer).ok().map(Self)
    }

    /// An answer of so many tokens.
    pub(super) fn answer(&self, tokens: u64) -> Answer {
        let mut text = String::new();
        self.0.write(0, 0, tokens, &mut text);
        let chunk = AnswerChunk { at_ns: 0, text_end: text.len(), reasoning_end: 0 };
        Answer { text, chunks: vec![chunk], ..Answer::default() }
    }
}
