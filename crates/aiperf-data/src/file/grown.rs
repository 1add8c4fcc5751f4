//! Requests of a trace whose rows already hold what was said before them: which of a row's blocks are the user's, and which were
//! answers.

use std::ops::Range;

use super::mooncake::Made;

/// A message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// What the server had answered, not what the user said.
    pub(super) is_reply: bool,
    /// Of the row's ids.
    pub(super) ids: Range<usize>,
    /// Tokens of its text; beyond those of its blocks it is the row's own.
    pub(super) tokens: usize,
}

/// Goes through the rows of a conversation.
#[derive(Debug, Default)]
pub(super) struct Grown {
    /// The messages so far, in whole blocks.
    parts: Vec<(bool, usize)>,
    /// Tokens of the last answer.
    answered: usize,
}

impl Grown {
    /// The messages of the next row's request, at least one, for blocks of `size` tokens; `output` is how long its answer was. The
    /// blocks that the row before did not have begin with its answer, as many as that fills; the user says the rest.
    pub(super) fn next(&mut self, made: &Made, output: Option<u64>, size: usize) -> Vec<Part> {
        let whole = made.ids.len().min(made.tokens / size);
        let known: usize = self.parts.iter().map(|(_, blocks)| blocks).sum();
        let new = whole.saturating_sub(known);
        let is_more = made.tokens > (known + new) * size;
        let mut reply = if self.parts.is_empty() { 0 } else { self.answered.div_ceil(size).min(new) };
        if reply == new && !is_more {
            reply = reply.saturating_sub(1);
        }
        let mut parts = self.parts.clone();
        for (is_reply, blocks) in [(true, reply), (false, new - reply)] {
            match parts.last_mut() {
                // Two messages of one kind side by side are more than many templates take.
                Some(last) if last.0 == is_reply => last.1 += blocks,
                _ if blocks > 0 => parts.push((is_reply, blocks)),
                _ => {}
            }
        }
        let mut told: Vec<Part> = Vec::with_capacity(parts.len() + 1);
        let mut at = 0;
        for (is_reply, blocks) in &parts {
            told.push(Part { is_reply: *is_reply, ids: at..at + blocks, tokens: blocks * size });
            at += blocks;
        }
        // What is behind the whole blocks: one that is cut short, or text of the row's own.
        let left = made.tokens.saturating_sub(at * size);
        if left > 0 {
            let ids = at..made.ids.len().max(at);
            match told.last_mut() {
                Some(last) if !last.is_reply => {
                    last.ids.end = ids.end;
                    last.tokens += left;
                }
                _ => told.push(Part { is_reply: false, ids, tokens: left }),
            }
        }
        self.parts = parts;
        self.answered = usize::try_from(output.unwrap_or(0)).unwrap_or(usize::MAX);
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(tokens: usize, ids: &[u64]) -> Made {
        Made { tokens, ids: ids.to_vec() }
    }

    fn part(is_reply: bool, ids: Range<usize>, tokens: usize) -> Part {
        Part { is_reply, ids, tokens }
    }

    #[test]
    fn new_blocks_begin_with_the_answer() {
        let mut grown = Grown::default();
        let first = grown.next(&made(64, &[1, 2]), Some(3), 32);
        assert_eq!(first, [part(false, 0..2, 64)]);
        let second = grown.next(&made(128, &[1, 2, 3, 4]), Some(40), 32);
        assert_eq!(second, [part(false, 0..2, 64), part(true, 2..3, 32), part(false, 3..4, 32)]);
        let third = grown.next(&made(240, &[1, 2, 3, 4, 5, 6, 7, 8]), None, 32);
        assert_eq!(third[..3], second);
        assert_eq!(third[3..], [part(true, 4..6, 64), part(false, 6..8, 48)]);
        // Nobody said how long the answer was: the user goes on.
        let fourth = grown.next(&made(256, &[1, 2, 3, 4, 5, 6, 7, 8]), None, 32);
        assert_eq!(fourth[3..], [part(true, 4..6, 64), part(false, 6..8, 64)]);
    }

    #[test]
    fn the_user_always_has_the_last_word() {
        let mut grown = Grown::default();
        grown.next(&made(32, &[1]), Some(500), 32);
        assert_eq!(grown.next(&made(64, &[1, 2]), Some(9), 32), [part(false, 0..2, 64)]);
        let own = grown.next(&made(70, &[1, 2]), Some(9), 32);
        assert_eq!(own, [part(false, 0..2, 70)]);
        let answered = grown.next(&made(100, &[1, 2, 3]), Some(9), 32);
        assert_eq!(answered, [part(false, 0..2, 64), part(true, 2..3, 32), part(false, 3..3, 4)]);
    }

    proptest! {
        /// Whatever the rows: all tokens and all ids of a row are in its messages, in order, and the user has the last word.
        #[test]
        fn messages_hold_the_row(size in 1..40usize, rows in prop::collection::vec((0..4usize, 0..60usize, prop::option::of(0..200u64)), 1..8)) {
            let (mut grown, mut tokens, mut blocks) = (Grown::default(), size, 1usize);
            for (more, own, output) in rows {
                blocks += more;
                tokens = tokens.max(blocks * size) + own;
                let ids: Vec<u64> = (0..blocks as u64).collect();
                let parts = grown.next(&made(tokens, &ids), output, size);
                prop_assert_eq!(parts.iter().map(|p| p.tokens).sum::<usize>(), tokens);
                prop_assert_eq!(parts.iter().flat_map(|p| p.ids.clone()).collect::<Vec<_>>(), (0..blocks).collect::<Vec<_>>());
                prop_assert!(parts.iter().all(|p| p.tokens > 0 && p.ids.len() <= p.tokens.div_ceil(size)));
                prop_assert!(parts.windows(2).all(|pair| pair[0].is_reply != pair[1].is_reply));
                prop_assert!(!parts[0].is_reply && !parts[parts.len() - 1].is_reply);
            }
        }
    }
}
