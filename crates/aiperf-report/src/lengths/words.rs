//! The lengths in words: one line when all is well, one more for each thing that is not.

use aiperf_metrics::{Agreement, LengthDifference};

use super::{Counting, InputLengths, ServerCount, Verified};
use crate::console::count;

/// A difference from which a completions server's extra tokens are no begin or end mark any more.
const MARKS: i64 = 2;
/// Most wrong lengths that are shown.
const SHOWN: usize = 3;

impl InputLengths<'_> {
    /// How many agree, in one line; none when nothing could be compared. Where some requests of a sample have another length than was
    /// said, so may others that were asked for it.
    pub fn agreement(&self) -> Option<String> {
        let s = &self.summary;
        let is_sample = self.verified.is_some_and(|v| v.wrong > 0 && !v.all);
        let exact = |names: &str, a: &Agreement| {
            let at_most = if is_sample && names.starts_with("asked") { "at most " } else { "" };
            let errors = if a.is_exact() {
                String::new()
            } else {
                format!(" (errors {:+} to {:+}, mean {:+.1})", a.min_error, a.max_error, a.mean_error)
            };
            format!("{names} in {at_most}{} of {} requests{errors}", count(a.exact), count(a.requests))
        };
        let line = match (&s.asked_sent, &s.sent_counted) {
            (None, None) => return None,
            (Some(asked), Some(counted)) => {
                let together = asked.requests == s.compared && counted.requests == s.compared;
                if together && asked.is_exact() && counted.is_exact() {
                    exact("asked = sent = counted", asked)
                } else {
                    format!("{}; {}", exact("asked = sent", asked), exact("sent = counted", counted))
                }
            }
            (Some(asked), None) if self.counting == Counting::Ranked => exact("asked = sent", asked),
            (Some(asked), None) => {
                format!("{}; the server told no counts", exact("asked = sent", asked))
            }
            (None, Some(counted)) => exact("sent = counted", counted),
        };
        Some(format!("Input lengths: {line}."))
    }

    /// What differs and why, one sentence or two each, most important first.
    pub fn findings(&self) -> Vec<String> {
        let mut out = Vec::new();
        out.extend(self.verified.and_then(|v| self.wrong(v)));
        let s = &self.summary;
        out.extend(s.difference.and_then(|d| self.difference(d)));
        let is_new = s.difference.is_none_or(|d| d == LengthDifference::None);
        if let Some(later) = s.later.filter(|later| !later.is_exact() && is_new) {
            out.push(format!(
                "Requests that hold earlier answers are counted differently ({:+} to {:+} tokens): the server may render answers that it \
                 gets back otherwise than it gave them.",
                later.min_error, later.max_error,
            ));
        }
        out.extend(self.verified.and_then(skipped));
        out
    }

    fn tokenizer(&self) -> String {
        self.tokenizer.map_or_else(|| "ours".to_owned(), |name| format!("'{name}'"))
    }

    /// Why the server's counts differ from ours.
    fn difference(&self, difference: LengthDifference) -> Option<String> {
        let tokenizer = self.tokenizer();
        Some(match difference {
            LengthDifference::None => return None,
            LengthDifference::Constant { tokens: n } | LengthDifference::Undecided { tokens: n, .. }
                if n > 0 && n.unsigned_abs() == self.between() =>
            {
                format!(
                    "The server counts {} than were sent, in each request: the line ends that it puts between the texts of a message \
                     (--batch-size).",
                    more(n)
                )
            }
            LengthDifference::Constant { tokens: n } => format!(
                "The server counts {} than were sent, in each request: {}",
                more(n),
                self.constant(n, &tokenizer)
            ),
            LengthDifference::Undecided { tokens, sent } => format!(
                "The server counts {} where {} were sent. {} and another tokenizer than {tokenizer} look the same over so few prompts of one \
                 length; more prompts tell them apart, or lengths that vary (--isl-stddev).",
                count(sent.saturating_add_signed(tokens)),
                count(sent),
                match self.counting {
                    Counting::Prompts { .. } | Counting::Ranked =>
                        format!("{} around each prompt", amount(tokens)),
                    Counting::Messages { .. } => format!("A chat template of {}", amount(tokens)),
                    Counting::Rendered =>
                        format!("A chat template that differs by {} from ours", amount(tokens)),
                },
            ),
            LengthDifference::Factor { factor, tokens } => {
                let beside = if tokens == 0 {
                    String::new()
                } else {
                    format!(" and {} in each request", more(tokens))
                };
                format!(
                    "The server counts {factor:.3} times the tokens that were sent{beside}: its tokenizer is not {tokenizer}. Lengths are true \
                     for the tokenizer they were made with; give the model's own with --tokenizer."
                )
            }
            LengthDifference::Spread { min, max } => format!(
                "The server's counts differ from ours by {min:+} to {max:+} tokens, which neither one chat template nor one factor explains: its \
                 tokenizer is not {tokenizer}, or it changes prompts before it counts them.",
            ),
        })
    }

    /// Tokens of the line ends that a server puts between the texts of a request.
    const fn between(&self) -> u64 {
        match self.counting {
            Counting::Messages { between, .. } => between,
            Counting::Rendered | Counting::Prompts { .. } | Counting::Ranked => 0,
        }
    }

    fn constant(&self, tokens: i64, tokenizer: &str) -> String {
        let joints = match self.between() {
            0 => String::new(),
            n => format!("the line ends between the texts of a message ({}) and ", amount(n as i64)),
        };
        let own = "a tokenizer that has the model's chat template, and --apply-chat-template,";
        match self.counting {
            Counting::Rendered => {
                format!("its chat template is not the one of {tokenizer}, or it gives it other variables.")
            }
            Counting::Messages { .. } if tokens < 0 => "it does not count all that was sent.".to_owned(),
            Counting::Messages { has_template: true, .. } => {
                format!(
                    "{joints}its chat template. With --apply-chat-template it is part of the length that is asked for."
                )
            }
            Counting::Messages { has_template: false, .. } => {
                format!("{joints}its chat template. With {own} it is part of the length that is asked for.")
            }
            Counting::Prompts { specials } if tokens < 0 && tokens.unsigned_abs() == specials => {
                format!("it leaves out what {tokenizer} puts around each prompt (BOS).")
            }
            Counting::Prompts { .. } | Counting::Ranked if tokens < 0 => {
                "it does not count all that was sent.".to_owned()
            }
            Counting::Prompts { .. } if tokens <= MARKS => {
                format!("marks such as a BOS, which {tokenizer} does not add.")
            }
            Counting::Prompts { .. } | Counting::Ranked => {
                "it puts text of its own around each prompt.".to_owned()
            }
        }
    }

    fn wrong(&self, verified: &Verified) -> Option<String> {
        if verified.wrong == 0 {
            return None;
        }
        let shown: Vec<String> = verified
            .examples
            .iter()
            .take(SHOWN)
            .map(|e| {
                format!(
                    "{} turn {} has {} and not {}",
                    e.conversation_id,
                    e.turn_index,
                    count(e.counted),
                    count(e.said)
                )
            })
            .collect();
        Some(format!(
            "WARNING: {} of {} requests that were counted again as a whole have another length than was said ({}). Lengths that were made \
             with {} are not exact.",
            count(verified.wrong),
            count(verified.requests),
            shown.join("; "),
            self.tokenizer(),
        ))
    }
}

impl ServerCount {
    /// The difference that is told before the run; none when there is none.
    pub fn difference(&self) -> Option<String> {
        if self.counted == self.sent {
            return None;
        }
        let asked = self.asked.map_or(String::new(), |n| format!(" (asked for: {})", count(n)));
        Some(format!(
            "The server counts {} tokens for a request that has {} by our count{asked}; what kind of difference it is, the end of the run tells.",
            count(self.counted),
            count(self.sent),
        ))
    }
}

fn skipped(verified: &Verified) -> Option<String> {
    (verified.skipped > 0).then(|| {
        format!(
            "{} requests were counted again as a whole, {} more of the sample were not, to stay out of the run's way; --verify-lengths all counts \
             every one.",
            count(verified.requests),
            count(verified.skipped),
        )
    })
}

/// `12 tokens more`, `1 token fewer`.
fn more(tokens: i64) -> String {
    format!("{} {}", amount(tokens), if tokens < 0 { "fewer" } else { "more" })
}

/// `12 tokens`.
fn amount(tokens: i64) -> String {
    let n = tokens.unsigned_abs();
    format!("{} token{}", count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use aiperf_metrics::{LengthFacts, LengthLedger};

    use super::*;
    use crate::lengths::WrongLength;

    const MESSAGES: Counting = Counting::Messages { has_template: true, between: 0 };

    /// Requests of `(asked, sent, counted)`.
    fn lengths(counting: Counting, requests: &[(u64, u64, u64)]) -> InputLengths<'static> {
        let mut ledger = LengthLedger::default();
        for (i, (asked, sent, counted)) in requests.iter().enumerate() {
            let some = |n: u64| (n > 0).then_some(n);
            ledger.add(&LengthFacts {
                asked: some(*asked),
                made: some(*asked),
                sent: some(*sent),
                counted: some(*counted),
                later: false,
                prompt: i as u64,
            });
        }
        InputLengths {
            summary: ledger.summary(),
            tokenizer: Some("tok"),
            counting,
            verified: None,
            server_count: None,
        }
    }

    #[test]
    fn one_line_says_what_agrees() {
        let line = |requests: &[_]| lengths(MESSAGES, requests).agreement().unwrap_or_default();
        assert_eq!(line(&[]), "");
        assert_eq!(
            line(&[(9, 9, 9), (8, 8, 8)]),
            "Input lengths: asked = sent = counted in 2 of 2 requests."
        );
        assert_eq!(line(&[(0, 9, 9)]), "Input lengths: sent = counted in 1 of 1 requests.");
        assert_eq!(
            line(&[(9, 9, 0)]),
            "Input lengths: asked = sent in 1 of 1 requests; the server told no counts."
        );
        assert_eq!(
            line(&[(9, 8, 18), (9, 9, 19), (9, 9, 0)]),
            "Input lengths: asked = sent in 2 of 3 requests (errors -1 to +0, mean -0.3); \
             sent = counted in 0 of 2 requests (errors +10 to +10, mean +10.0)."
        );
    }

    fn finding(counting: Counting, pairs: &[(u64, u64)]) -> String {
        let requests: Vec<_> = pairs.iter().map(|(sent, counted)| (*sent, *sent, *counted)).collect();
        lengths(counting, &requests).findings().join("\n")
    }

    #[test]
    fn nothing_is_found_where_nothing_differs() {
        assert_eq!(finding(MESSAGES, &[(9, 9), (100, 100)]), "");
    }

    #[test]
    fn a_constant_is_named_by_what_can_make_it() {
        let by = |counting, n: i64| {
            let pair = |sent: u64| (sent, sent.saturating_add_signed(n));
            finding(counting, &[pair(100), pair(400)])
        };
        insta::assert_snapshot!(
            [
                by(MESSAGES, 12),
                by(Counting::Messages { has_template: false, between: 0 }, 12),
                by(MESSAGES, -3),
                by(Counting::Rendered, 5),
                by(Counting::Rendered, -1),
                by(Counting::Prompts { specials: 1 }, -1),
                by(Counting::Prompts { specials: 0 }, 1),
                by(Counting::Prompts { specials: 1 }, -2),
                by(Counting::Prompts { specials: 1 }, 40),
            ]
            .join("\n")
        );
    }

    #[test]
    fn line_ends_between_texts_are_no_template() {
        let between = |n: u64| Counting::Messages { has_template: true, between: n };
        let told = finding(between(3), &[(200, 203), (300, 303)]);
        assert_eq!(
            told,
            "The server counts 3 tokens more than were sent, in each request: the line ends that it puts between the texts of a \
             message (--batch-size)."
        );
        assert_eq!(finding(between(3), &[(200, 203); 2]), told, "one length is enough to know it by");
        let more = finding(between(3), &[(200, 212), (300, 312)]);
        assert!(
            more.contains("the line ends between the texts of a message (3 tokens) and its chat template."),
            "{more}"
        );
        let fewer = finding(between(3), &[(200, 197), (300, 297)]);
        assert!(fewer.contains("it does not count all"), "{fewer}");
    }

    #[test]
    fn counts_of_what_ranks_are_not_missed() {
        assert_eq!(
            lengths(Counting::Ranked, &[(9, 9, 0)]).agreement().as_deref(),
            Some("Input lengths: asked = sent in 1 of 1 requests.")
        );
    }

    #[test]
    fn the_other_kinds_are_named() {
        let few = [(1000, 1025); 2];
        insta::assert_snapshot!(
            [
                finding(MESSAGES, &few),
                finding(Counting::Prompts { specials: 0 }, &few),
                finding(Counting::Rendered, &few),
                finding(Counting::Rendered, &[(100, 120), (200, 240)]),
                finding(MESSAGES, &[(100, 97), (100, 104), (130, 131)]),
            ]
            .join("\n")
        );
    }

    #[test]
    fn later_requests_are_told_of_when_first_ones_agree() {
        let with = |first: u64| {
            let mut ledger = LengthLedger::default();
            let facts = LengthFacts { sent: Some(100), counted: Some(first), ..LengthFacts::default() };
            ledger.add(&facts);
            ledger.add(&LengthFacts { counted: Some(114), later: true, ..facts });
            let lengths = InputLengths { summary: ledger.summary(), ..lengths(MESSAGES, &[]) };
            lengths.findings()
        };
        assert!(with(100)[0].contains("(+14 to +14 tokens)"), "{:?}", with(100));
        assert_eq!(with(112).len(), 1, "the template is told, and that is why");
    }

    #[test]
    fn wrong_and_skipped_counts_are_told() {
        let example = |n: u64| WrongLength {
            conversation_id: format!("session_{n}"),
            turn_index: 0,
            said: 128,
            counted: 128 + n,
        };
        let verified = Verified {
            all: false,
            requests: 1200,
            wrong: 4,
            skipped: 7,
            examples: (1..=4).map(example).collect(),
        };
        let told = InputLengths { verified: Some(&verified), ..lengths(MESSAGES, &[]) };
        assert_eq!(told.agreement(), None);
        insta::assert_snapshot!(told.findings().join("\n"));
    }

    #[test]
    fn a_sample_with_wrong_ones_makes_no_claim_of_the_others() {
        let line = |all: bool, wrong: u64| {
            let verified = Verified { all, requests: 2, wrong, ..Verified::default() };
            let requests = [(9, 9, 9), (9, 9, 9), (9, 8, 8)];
            InputLengths { verified: Some(&verified), ..lengths(MESSAGES, &requests) }.agreement()
        };
        let told = |at_most: &str| {
            Some(format!(
                "Input lengths: asked = sent in {at_most}2 of 3 requests (errors -1 to +0, mean -0.3); sent = counted in 3 of 3 \
                 requests."
            ))
        };
        assert_eq!(line(true, 1), told(""));
        assert_eq!(line(false, 1), told("at most "));
        assert_eq!(line(false, 0), told(""));
    }

    #[test]
    fn a_servers_count_is_told_when_it_differs() {
        let count = ServerCount { asked: Some(128), sent: 128, counted: 153 };
        assert_eq!(
            count.difference().as_deref(),
            Some(
                "The server counts 153 tokens for a request that has 128 by our count (asked for: 128); what kind of difference it is, the end of \
                 the run tells."
            )
        );
        assert_eq!(ServerCount { counted: 128, ..count }.difference(), None);
    }
}
