//! What servers say they found in their prefix cache, beside what was there to be found.

use aiperf_core::usage::Usage;

/// What a prefix cache that evicts nothing finds of a request's prompt, given the requests before it. Tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheFacts {
    /// The prompt as the server has it.
    pub prompt: u64,
    /// In blocks of prompts that were sent before.
    pub cached: u64,
    /// Of these, in blocks that a warm-up sent.
    pub warmup: u64,
    /// In blocks of prompts or of the answers behind them.
    pub with_replies: u64,
}

/// Sums over whole answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheLedger {
    /// Answers whose server says how long the prompt was and how much of it was cached.
    pub requests: u64,
    /// Answers whose server says how long it was and nothing of a cache.
    pub silent: u64,
    /// Prompt tokens of the first ones, as the server counts them.
    pub prompt_tokens: u64,
    /// Of these, from its cache, as it says.
    pub cached_tokens: u64,
    /// Those of which is known what was to be found.
    pub expected: ExpectedSums,
}

/// Sums over answers of which both is known: what the server says, and what was to be found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExpectedSums {
    /// Answers.
    pub requests: u64,
    /// What was to be found.
    pub facts: CacheFacts,
    /// Their prompt tokens, as the server counts them.
    pub told_prompt_tokens: u64,
    /// Of these, from its cache, as it says.
    pub told_cached_tokens: u64,
}

impl CacheLedger {
    /// Takes in a whole answer.
    pub(crate) fn add(&mut self, usage: Option<&Usage>, expected: Option<&CacheFacts>) {
        let Some(prompt) = usage.and_then(|usage| usage.prompt_tokens) else { return };
        let Some(cached) = usage.and_then(|usage| usage.cached_tokens) else {
            self.silent += 1;
            return;
        };
        self.requests += 1;
        self.prompt_tokens += prompt;
        self.cached_tokens += cached;
        if let Some(facts) = expected {
            let sums = &mut self.expected;
            sums.requests += 1;
            sums.facts += *facts;
            sums.told_prompt_tokens += prompt;
            sums.told_cached_tokens += cached;
        }
    }

    /// Takes in what others added.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.silent += other.silent;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.expected.requests += other.expected.requests;
        self.expected.facts += other.expected.facts;
        self.expected.told_prompt_tokens += other.expected.told_prompt_tokens;
        self.expected.told_cached_tokens += other.expected.told_cached_tokens;
    }

    /// Share of prompt tokens that servers say they found, 0 to 1; absent where none says so.
    pub fn hit_rate(&self) -> Option<f64> {
        share(self.cached_tokens, self.prompt_tokens)
    }
}

impl ExpectedSums {
    /// Share of prompt tokens that was to be found, 0 to 1; absent where nobody looked.
    pub fn hit_rate(&self) -> Option<f64> {
        share(self.facts.cached, self.facts.prompt)
    }

    /// The same of servers that keep what they decode.
    pub fn hit_rate_with_replies(&self) -> Option<f64> {
        share(self.facts.with_replies, self.facts.prompt)
    }

    /// Share that the servers say they found of the same prompts.
    pub fn told_hit_rate(&self) -> Option<f64> {
        share(self.told_cached_tokens, self.told_prompt_tokens)
    }
}

impl std::ops::AddAssign for CacheFacts {
    fn add_assign(&mut self, other: Self) {
        self.prompt += other.prompt;
        self.cached += other.cached;
        self.warmup += other.warmup;
        self.with_replies += other.with_replies;
    }
}

fn share(of: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| of as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usage(prompt: Option<u64>, cached: Option<u64>) -> Usage {
        Usage { prompt_tokens: prompt, cached_tokens: cached, ..Usage::default() }
    }

    #[test]
    fn what_is_not_said_is_not_counted() {
        let mut ledger = CacheLedger::default();
        ledger.add(None, None);
        ledger.add(Some(&usage(None, Some(5))), None);
        assert_eq!(ledger, CacheLedger::default());
        ledger.add(Some(&usage(Some(10), None)), Some(&CacheFacts { prompt: 10, ..CacheFacts::default() }));
        assert_eq!((ledger.silent, ledger.requests, ledger.hit_rate()), (1, 0, None));
        ledger.add(Some(&usage(Some(10), Some(0))), None);
        assert_eq!(ledger.hit_rate(), Some(0.0), "nothing found is a finding");
        assert_eq!(ledger.expected.hit_rate(), None);
        let facts = CacheFacts { prompt: 32, cached: 16, warmup: 16, with_replies: 32 };
        ledger.add(Some(&usage(Some(30), Some(8))), Some(&facts));
        assert_eq!(ledger.hit_rate(), Some(0.2), "8 of 40");
        let expected = ledger.expected;
        assert_eq!((expected.hit_rate(), expected.hit_rate_with_replies()), (Some(0.5), Some(1.0)));
        assert_eq!(expected.told_hit_rate(), Some(8.0 / 30.0), "of the same answers alone");
    }

    proptest! {
        #[test]
        fn parts_together_are_the_whole(
            answers in prop::collection::vec((0u64..99, prop::option::of(0u64..50), prop::option::of(1u64..9)), 0..30),
            at in 0usize..30,
        ) {
            let add = |ledger: &mut CacheLedger, answers: &[(u64, Option<u64>, Option<u64>)]| {
                for (prompt, cached, expected) in answers {
                    let facts =
                        expected.map(|n| CacheFacts { prompt: 9, cached: n, warmup: n / 2, with_replies: n });
                    ledger.add(Some(&usage(Some(*prompt), *cached)), facts.as_ref());
                }
            };
            let (mut whole, mut first, mut second) =
                (CacheLedger::default(), CacheLedger::default(), CacheLedger::default());
            let at = at.min(answers.len());
            add(&mut whole, &answers);
            add(&mut first, &answers[..at]);
            add(&mut second, &answers[at..]);
            first.merge(&second);
            prop_assert_eq!(first, whole);
            let found: u64 = answers.iter().filter_map(|(_, cached, _)| *cached).sum();
            prop_assert_eq!(whole.cached_tokens, found);
        }
    }
}
