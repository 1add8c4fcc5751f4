//! What kind of difference lies between the lengths that were sent and those that the server counted.
//!
//! A chat template adds the same to every request; another tokenizer counts another share of every text. So the differences of all requests
//! are laid beside the lengths, and the simpler rule that explains them is the finding. Whatever neither explains is told as a range.

/// Different prompts of one length that all differ by the same: another tokenizer would have hit one of them otherwise.
pub(super) const CONVINCING: usize = 8;
/// Requests from which a constant and a factor are told apart in one sum. Two points always lie on a line.
const LINE: u64 = 8;
/// No count of tokens is larger. What a server claims beyond is cut to it, so that sums of squares cannot overflow.
const MOST: u64 = 1 << 40;

/// How the server's counts lie beside ours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LengthDifference {
    /// No request differs.
    None,
    /// Every request differs by the same, and a factor would have shown.
    Constant {
        /// Counted − sent.
        tokens: i64,
    },
    /// Every request differs by the same, and all are of about one length: a constant and a factor look alike.
    Undecided {
        /// Counted − sent.
        tokens: i64,
        /// What was sent in the shortest request.
        sent: u64,
    },
    /// The difference grows with the length.
    Factor {
        /// Counted ÷ sent.
        factor: f64,
        /// What each request has beside it; 0 where the factor alone explains the counts.
        tokens: i64,
    },
    /// Neither.
    Spread {
        /// The least counted − sent.
        min: i64,
        /// The greatest.
        max: i64,
    },
}

/// Lengths sent and what the server counted on top, in sums.
#[derive(Debug, Clone, Default)]
pub(super) struct Pairs {
    n: i128,
    least: Option<(u64, i64)>,
    most: (u64, i64),
    s: i128,
    s_s: i128,
    d: i128,
    s_d: i128,
    d_d: i128,
    /// The first different prompts.
    prompts: Vec<u64>,
}

impl Pairs {
    /// Takes in a request of `prompt`; requests with the same prompt have the same number.
    pub(super) fn add(&mut self, sent: u64, counted: u64, prompt: u64) {
        let sent = sent.min(MOST);
        let diff = counted.min(MOST) as i64 - sent as i64;
        let (s, d) = (i128::from(sent), i128::from(diff));
        self.n += 1;
        self.bound(sent, diff);
        self.s += s;
        self.s_s += s * s;
        self.d += d;
        self.s_d += s * d;
        self.d_d += d * d;
        self.meet(prompt);
    }

    /// Takes in the requests of another one.
    pub(super) fn merge(&mut self, other: &Self) {
        if let Some(least) = other.least {
            self.bound(least.0, least.1);
            self.bound(other.most.0, other.most.1);
        }
        self.n += other.n;
        self.s += other.s;
        self.s_s += other.s_s;
        self.d += other.d;
        self.s_d += other.s_d;
        self.d_d += other.d_d;
        for prompt in &other.prompts {
            self.meet(*prompt);
        }
    }

    fn bound(&mut self, sent: u64, diff: i64) {
        match &mut self.least {
            None => (self.least, self.most) = (Some((sent, diff)), (sent, diff)),
            Some(least) => {
                *least = (least.0.min(sent), least.1.min(diff));
                self.most = (self.most.0.max(sent), self.most.1.max(diff));
            }
        }
    }

    fn meet(&mut self, prompt: u64) {
        if self.prompts.len() < CONVINCING && !self.prompts.contains(&prompt) {
            self.prompts.push(prompt);
        }
    }

    /// The finding; none without a request.
    pub(super) fn difference(&self) -> Option<LengthDifference> {
        let (low, high) = (self.least?, self.most);
        if low.1 == high.1 {
            return Some(self.same(low.0, high.0, low.1));
        }
        Some(self.varying(low.1, high.1))
    }

    /// All requests, of `shortest` to `longest` tokens, differ by the same.
    fn same(&self, shortest: u64, longest: u64, tokens: i64) -> LengthDifference {
        if tokens == 0 {
            return LengthDifference::None;
        }
        // A factor that rounds to the same difference at both ends must lie in both of their intervals, (k ± ½) ÷ length.
        let k = i128::from(tokens.unsigned_abs());
        let is_no_factor = (2 * k - 1) * i128::from(longest) >= (2 * k + 1) * i128::from(shortest);
        if is_no_factor || self.prompts.len() >= CONVINCING {
            LengthDifference::Constant { tokens }
        } else {
            LengthDifference::Undecided { tokens, sent: shortest }
        }
    }

    /// Requests differ by different amounts. Squares of what each rule leaves unexplained decide.
    fn varying(&self, min: i64, max: i64) -> LengthDifference {
        // Sums were exact; from here on fifteen digits are plenty.
        let [n, s, s_s, d, s_d, d_d] =
            [self.n, self.s, self.s_s, self.d, self.s_d, self.d_d].map(|v| v as f64);
        let by_constant = d_d - d * d / n;
        let slope_alone = if s_s > 0.0 { s_d / s_s } else { 0.0 };
        let by_factor = d_d - slope_alone * s_d;
        let explains = by_factor * 10.0 <= d_d;
        let factor = LengthDifference::Factor { factor: 1.0 + slope_alone, tokens: 0 };
        if explains && by_factor * 4.0 <= by_constant {
            return factor;
        }
        // A template in front of another tokenizer.
        let (across, along) = (s_s - s * s / n, s_d - s * d / n);
        if self.n >= i128::from(LINE) && across > 0.0 {
            let slope = along / across;
            if (by_constant - slope * along) * 10.0 <= by_constant {
                let tokens = ((d - slope * s) / n).round() as i64;
                return LengthDifference::Factor { factor: 1.0 + slope, tokens };
            }
        }
        // Within a token or so of their mean they are a template that takes something from the text (a trimmed blank); further apart, and
        // all of about one share, they are texts cut in another way.
        let wobbles = by_constant <= n;
        if explains && !wobbles && by_factor <= by_constant * 1.5 {
            return factor;
        }
        LengthDifference::Spread { min, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LengthDifference::{Constant, Factor, None as Equal, Spread, Undecided};
    use proptest::prelude::*;

    fn found(pairs: &[(u64, u64)]) -> Option<LengthDifference> {
        let mut all = Pairs::default();
        for (i, (sent, counted)) in pairs.iter().enumerate() {
            all.add(*sent, *counted, i as u64);
        }
        all.difference()
    }

    #[test]
    fn the_findings_by_example() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(128, 128), (64, 64)]), Some(Equal));
        // A factor of 1.2 would have made 12 of the second.
        assert_eq!(found(&[(128, 153), (64, 89)]), Some(Constant { tokens: 25 }));
        assert_eq!(found(&[(128, 126), (64, 62)]), Some(Constant { tokens: -2 }));
        assert_eq!(found(&[(128, 153); 3]), Some(Undecided { tokens: 25, sent: 128 }));
        // 1.0079 rounds to one more at both lengths.
        assert_eq!(found(&[(100, 101), (140, 141)]), Some(Undecided { tokens: 1, sent: 100 }));
        assert_eq!(found(&[(100, 101), (300, 301)]), Some(Constant { tokens: 1 }));
        assert_eq!(found(&[(100, 110), (200, 220)]), Some(Factor { factor: 1.1, tokens: 0 }));
        // A template that trims some texts is none of the two.
        assert_eq!(found(&[(100, 136), (200, 235), (120, 154)]), Some(Spread { min: 34, max: 36 }));
        assert_eq!(found(&[(100, 99), (100, 103), (100, 100)]), Some(Spread { min: -1, max: 3 }));
    }

    #[test]
    fn one_length_is_decided_by_different_prompts() {
        let with = |prompts: u64| {
            let mut all = Pairs::default();
            (0..20).for_each(|i| all.add(128, 153, i % prompts));
            all.difference()
        };
        assert_eq!(with(1), Some(Undecided { tokens: 25, sent: 128 }));
        assert_eq!(with(7), Some(Undecided { tokens: 25, sent: 128 }));
        assert_eq!(with(8), Some(Constant { tokens: 25 }));
    }

    #[test]
    fn one_length_in_another_tokenizer_is_a_factor() {
        let pairs: Vec<(u64, u64)> = (0..32).map(|i| (128, 146 + (i * 7) % 11)).collect();
        let Some(Factor { factor, tokens: 0 }) = found(&pairs) else { panic!("{:?}", found(&pairs)) };
        assert!((factor - 151.0 / 128.0).abs() < 0.01, "{factor}");
    }

    #[test]
    fn wild_counts_do_not_overflow() {
        let mut all = Pairs::default();
        for i in 0..1000 {
            all.add(if i % 2 == 0 { u64::MAX } else { 0 }, if i % 3 == 0 { u64::MAX } else { 0 }, i);
        }
        assert!(all.difference().is_some());
    }

    fn lengths() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(50u64..2000, 8..60).prop_filter("they vary", |l| {
            let (least, most) = (l.iter().min().copied(), l.iter().max().copied());
            least.zip(most).is_some_and(|(least, most)| most >= 2 * least)
        })
    }

    proptest! {
        #[test]
        fn a_template_is_always_a_constant(lengths in lengths(), k in 1i64..600, fewer in any::<bool>()) {
            let k = if fewer { -(k % 40 + 1) } else { k };
            // Lengths that are at least doubled tell one token apart only from three times on.
            prop_assume!(k.abs() > 1);
            let pairs: Vec<_> = lengths.iter().map(|s| (*s, s.saturating_add_signed(k))).collect();
            prop_assert_eq!(found(&pairs), Some(Constant { tokens: k }));
        }

        #[test]
        fn another_tokenizer_is_always_a_factor(
            lengths in lengths(),
            share in prop_oneof![-0.4f64..-0.05, 0.05f64..0.8],
            noise in proptest::collection::vec(-0.3f64..0.3, 60)
        ) {
            // Texts of one length vary by some fraction of the square root of the length.
            let pairs: Vec<_> = lengths.iter().zip(&noise).map(|(s, noise)| {
                let s_f = *s as f64;
                (*s, (s_f * (1.0 + share) + noise * s_f.sqrt()).round() as u64)
            }).collect();
            match found(&pairs) {
                Some(Factor { factor, tokens }) => {
                    prop_assert!((factor - 1.0 - share).abs() < 0.03, "{factor} is not {}", 1.0 + share);
                    prop_assert!(tokens.abs() < 30, "{tokens}");
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }

        #[test]
        fn a_template_before_another_tokenizer_is_both(lengths in lengths(), share in 0.1f64..0.8, k in 5i64..200) {
            let pairs: Vec<_> = lengths.iter()
                .map(|s| (*s, ((*s as f64) * (1.0 + share)).round() as u64 + k.unsigned_abs()))
                .collect();
            match found(&pairs) {
                // Where the constant is little beside the factor's share, the factor alone says it.
                Some(Factor { factor, tokens: 0 }) => {
                    let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
                    prop_assert!((factor - 1.0) * mean > k as f64, "{factor}, {k}");
                }
                Some(Factor { factor, tokens }) => {
                    prop_assert!((factor - 1.0 - share).abs() < 0.02, "{factor}");
                    prop_assert!((tokens - k).abs() <= 4, "{tokens} is not {k}");
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }

        #[test]
        fn order_does_not_matter(pairs in proptest::collection::vec((0u64..500, 0u64..500, 0u64..5), 0..40)) {
            let sum = |pairs: &[(u64, u64, u64)]| {
                let mut all = Pairs::default();
                for (s, c, p) in pairs {
                    all.add(*s, *c, *p);
                }
                all.difference()
            };
            let mut turned = pairs.clone();
            turned.reverse();
            prop_assert_eq!(sum(&turned), sum(&pairs));
        }
    }
}
