//! Takes the lengths of requests in and says how well they agree.

use super::difference::{LengthDifference, Pairs};

/// Lengths of one request that was sent, tokens; what is not known is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LengthFacts {
    /// The length its turn was to have.
    pub asked: Option<u64>,
    /// The length its turn was given.
    pub made: Option<u64>,
    /// Our count of the whole request.
    pub sent: Option<u64>,
    /// The server's.
    pub counted: Option<u64>,
    /// It holds answers that the server gave before. Then what was asked for and made is its last message alone, and each
    /// message adds its own part of a chat template.
    pub later: bool,
    /// Equal for equal prompts.
    pub prompt: u64,
}

impl LengthFacts {
    /// What stands against what was asked: the whole request, or of a later one its own part.
    fn given(&self) -> Option<u64> {
        if self.later { self.made } else { self.whole() }
    }

    /// The whole request; one whose turn is all of it has the turn's length even if nobody counted it again.
    fn whole(&self) -> Option<u64> {
        self.sent.or(self.made.filter(|_| !self.later))
    }

    /// A server that tells no tokens for a prompt has not counted it.
    fn told(&self) -> Option<u64> {
        self.counted.filter(|n| *n > 0)
    }
}

/// Collects the lengths of one phase.
#[derive(Debug, Clone, Default)]
pub struct LengthLedger {
    asked: Errors,
    counted: Errors,
    later: Errors,
    compared: u64,
    equal: u64,
    pairs: Pairs,
    is_corrected: bool,
}

/// Two lengths beside each other, over all requests of which both are known. An error is the second − the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Requests of which both are known.
    pub requests: u64,
    /// Those without error.
    pub exact: u64,
    /// The least error, tokens.
    pub min_error: i64,
    /// The greatest.
    pub max_error: i64,
    /// Their mean.
    pub mean_error: f64,
}

impl Agreement {
    /// Whether no request differs.
    pub const fn is_exact(&self) -> bool {
        self.exact == self.requests
    }
}

/// What a ledger comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthSummary {
    /// Asked against sent: requests, and the own parts of later ones, that were made to a length.
    pub asked_sent: Option<Agreement>,
    /// Sent against counted: requests whose usage the server told.
    pub sent_counted: Option<Agreement>,
    /// The same for requests alone that hold answers.
    pub later: Option<Agreement>,
    /// Requests that both comparisons have.
    pub compared: u64,
    /// Those that agree in both.
    pub equal: u64,
    /// The kind of difference between sent and counted, over requests that hold no answers; none where some of what was said to be
    /// sent was wrong.
    pub difference: Option<LengthDifference>,
}

impl LengthLedger {
    /// Takes one request in.
    pub fn add(&mut self, facts: &LengthFacts) {
        let asked = facts.asked.zip(facts.given());
        let counted = facts.whole().zip(facts.told());
        if let Some((asked, given)) = asked {
            self.asked.add(asked, given);
        }
        if let Some((sent, counted)) = counted {
            self.counted.add(sent, counted);
            if facts.later {
                self.later.add(sent, counted);
            } else {
                self.pairs.add(sent, counted, facts.prompt);
            }
        }
        if let (Some((asked, given)), Some((sent, counted))) = (asked, counted) {
            self.compared += 1;
            self.equal += u64::from(asked == given && sent == counted);
        }
    }

    /// Takes back what was `said` of some of its requests, and takes in what was `found` of the same ones. What kind of difference
    /// there is to the server's counts is not known from then on, for it was looked for in what was said.
    pub fn correct(&mut self, said: &Self, found: &Self) {
        self.is_corrected = true;
        self.asked.correct(&said.asked, &found.asked);
        self.counted.correct(&said.counted, &found.counted);
        self.later.correct(&said.later, &found.later);
        self.equal = self.equal.saturating_sub(said.equal) + found.equal;
    }

    /// Takes in the requests of another phase.
    pub fn merge(&mut self, other: &Self) {
        self.asked.merge(&other.asked);
        self.counted.merge(&other.counted);
        self.later.merge(&other.later);
        self.compared += other.compared;
        self.equal += other.equal;
        self.pairs.merge(&other.pairs);
        self.is_corrected |= other.is_corrected;
    }

    /// What it comes to.
    pub fn summary(&self) -> LengthSummary {
        LengthSummary {
            asked_sent: self.asked.agreement(),
            sent_counted: self.counted.agreement(),
            later: self.later.agreement(),
            compared: self.compared,
            equal: self.equal,
            difference: self.pairs.difference().filter(|_| !self.is_corrected),
        }
    }
}

/// Errors of one comparison.
#[derive(Debug, Clone, Default)]
struct Errors {
    requests: u64,
    exact: u64,
    bounds: Option<(i64, i64)>,
    sum: i128,
}

impl Errors {
    fn add(&mut self, first: u64, second: u64) {
        let error = i128::from(second) - i128::from(first);
        let error = error.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        self.requests += 1;
        self.exact += u64::from(error == 0);
        self.sum += i128::from(error);
        self.bound(error, error);
    }

    fn merge(&mut self, other: &Self) {
        if let Some((low, high)) = other.bounds {
            self.bound(low, high);
        }
        self.requests += other.requests;
        self.exact += other.exact;
        self.sum += other.sum;
    }

    fn bound(&mut self, low: i64, high: i64) {
        let (least, most) = self.bounds.unwrap_or((low, high));
        self.bounds = Some((least.min(low), most.max(high)));
    }

    /// Bounds only widen: which request had which error is not kept.
    fn correct(&mut self, said: &Self, found: &Self) {
        if let Some((low, high)) = found.bounds {
            self.bound(low, high);
        }
        self.exact = self.exact.saturating_sub(said.exact) + found.exact;
        self.sum += found.sum - said.sum;
    }

    fn agreement(&self) -> Option<Agreement> {
        let (min_error, max_error) = self.bounds?;
        Some(Agreement {
            requests: self.requests,
            exact: self.exact,
            min_error,
            max_error,
            mean_error: self.sum as f64 / self.requests as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(asked: u64, sent: u64, counted: u64) -> LengthFacts {
        LengthFacts {
            asked: Some(asked),
            made: Some(asked),
            sent: Some(sent),
            counted: Some(counted),
            later: false,
            prompt: asked,
        }
    }

    fn summary(facts: &[LengthFacts]) -> LengthSummary {
        let mut ledger = LengthLedger::default();
        for f in facts {
            ledger.add(f);
        }
        ledger.summary()
    }

    #[test]
    fn an_empty_ledger_compares_nothing() {
        assert_eq!(
            summary(&[LengthFacts::default()]),
            LengthSummary {
                asked_sent: None,
                sent_counted: None,
                later: None,
                compared: 0,
                equal: 0,
                difference: None
            }
        );
    }

    #[test]
    fn what_was_said_can_be_taken_back() {
        let ledger = |facts: &[LengthFacts]| {
            let mut ledger = LengthLedger::default();
            for f in facts {
                ledger.add(f);
            }
            ledger
        };
        let said = [first(10, 10, 12), first(16, 16, 16), first(30, 30, 30)];
        let found = [first(10, 12, 12), first(16, 15, 16)];
        let mut corrected = ledger(&said);
        corrected.correct(&ledger(&said[..2]), &ledger(&found));
        let s = corrected.summary();
        let asked = Agreement { requests: 3, exact: 1, min_error: -1, max_error: 2, mean_error: 1.0 / 3.0 };
        assert_eq!(s.asked_sent, Some(asked));
        let counted = Agreement { requests: 3, exact: 2, min_error: 0, max_error: 2, mean_error: 1.0 / 3.0 };
        assert_eq!(s.sent_counted, Some(counted));
        assert_eq!((s.compared, s.equal, s.difference), (3, 1, None));
        // In two steps as in one.
        let mut twice = ledger(&said);
        assert!(twice.summary().difference.is_some());
        twice.correct(&ledger(&said[..1]), &ledger(&found[..1]));
        twice.correct(&ledger(&said[1..2]), &ledger(&found[1..]));
        assert_eq!(twice.summary(), corrected.summary());
    }

    #[test]
    fn each_comparison_has_its_own_requests_and_errors() {
        let file = LengthFacts { sent: Some(30), counted: Some(42), ..LengthFacts::default() };
        let failed = LengthFacts { counted: None, ..first(20, 20, 0) };
        let s = summary(&[first(10, 10, 22), first(16, 15, 27), first(30, 30, 30), file, failed]);
        assert_eq!(
            s.asked_sent,
            Some(Agreement { requests: 4, exact: 3, min_error: -1, max_error: 0, mean_error: -0.25 })
        );
        assert_eq!(
            s.sent_counted,
            Some(Agreement { requests: 4, exact: 1, min_error: 0, max_error: 12, mean_error: 9.0 })
        );
        assert_eq!((s.compared, s.equal, s.later), (3, 1, None));
    }

    #[test]
    fn a_later_turn_is_asked_for_its_own_part_and_counted_whole() {
        let later = LengthFacts {
            asked: Some(10),
            made: Some(10),
            sent: Some(90),
            counted: Some(104),
            later: true,
            prompt: 0,
        };
        let s = summary(&[first(40, 40, 47), first(90, 90, 97), later]);
        assert!(s.asked_sent.is_some_and(|a| a.is_exact() && a.requests == 3));
        // The wraps of its messages would have made a factor of the constant.
        assert_eq!(s.difference, Some(LengthDifference::Constant { tokens: 7 }));
        assert_eq!(s.later.map(|a| (a.requests, a.min_error, a.max_error)), Some((1, 14, 14)));
        assert_eq!(s.sent_counted.map(|a| (a.requests, a.min_error, a.max_error)), Some((3, 7, 14)));
        // Nobody counted it whole: its own part says nothing of the request.
        let uncounted = summary(&[LengthFacts { sent: None, ..later }]);
        assert_eq!((uncounted.sent_counted, uncounted.asked_sent.map(|a| a.exact)), (None, Some(1)));
    }

    #[test]
    fn a_made_length_stands_in_where_nobody_counted() {
        let s = summary(&[LengthFacts { sent: None, ..first(10, 0, 12) }]);
        assert_eq!(s.sent_counted.map(|a| a.max_error), Some(2));
    }

    #[test]
    fn no_tokens_for_a_prompt_is_no_count() {
        assert_eq!(summary(&[first(10, 10, 0)]).sent_counted, None);
    }

    proptest! {
        #[test]
        fn the_order_of_requests_does_not_matter(
            facts in proptest::collection::vec(
                (0u64..40, 0u64..40, proptest::option::of(0u64..60), any::<bool>())
                    .prop_map(|(asked, sent, counted, later)| LengthFacts { counted, later, ..first(asked, sent, 0) }),
                0..30
            )
        ) {
            let turned: Vec<LengthFacts> = facts.iter().rev().copied().collect();
            let whole = summary(&facts);
            prop_assert_eq!(summary(&turned), whole);
            for at in [0, facts.len() / 3, facts.len()] {
                let (mut ledger, mut rest) = (LengthLedger::default(), LengthLedger::default());
                for f in &facts[..at] {
                    ledger.add(f);
                }
                for f in &facts[at..] {
                    rest.add(f);
                }
                ledger.merge(&rest);
                prop_assert_eq!(ledger.summary(), whole, "two phases are one");
            }
            if let Some(a) = whole.sent_counted {
                prop_assert!(a.min_error as f64 <= a.mean_error && a.mean_error <= a.max_error as f64);
                prop_assert!(a.exact <= a.requests && whole.equal <= whole.compared);
            }
        }
    }
}
