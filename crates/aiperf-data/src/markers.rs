//! Cache-bust markers: short texts that make a prompt's beginning (or end) one that no prefix cache has seen.
//!
//! A marker is a function of the run's id and of which session it belongs to, so every request of one session carries the same
//! one, and no two sessions do. The texts are AIPerf's.

use std::fmt::Write as _;

use aiperf_core::conversation::Marker;
use aiperf_core::plan::{CacheBustPlan, MarkerTarget};
use aiperf_tokens::Tokenizer;
use sha2::{Digest, Sha256};

use crate::workload::Visit;

/// Hexadecimal digits of a digest that a marker shows.
const DIGITS: usize = 12;
/// Markers that the estimate of their cost is the mean of.
const SAMPLES: u64 = 8;

/// The marker of a session: of the run `benchmark_id`, the `pass`-th time through the data, session number `index`, for
/// the conversation `trace`. The blank line that parts it from the text is inside.
pub fn marker(target: MarkerTarget, benchmark_id: &str, pass: u64, index: u64, trace: &str) -> String {
    if target.is_warmup_isolation() {
        return "[warmup]\n\n".to_owned();
    }
    let digest = Sha256::digest(format!("{benchmark_id}:{pass}:{index}:{trace}"));
    let mut out = String::with_capacity(DIGITS + 8);
    if target.is_suffix() {
        out.push_str("\n\n");
    }
    out.push_str("[rid:");
    for byte in &digest[..DIGITS / 2] {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out.push(']');
    if !target.is_suffix() {
        out.push_str("\n\n");
    }
    out
}

/// The markers of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marking {
    target: MarkerTarget,
    run_id: String,
}

impl Marking {
    /// The markers of `plan` in the run `run_id`, which a pinned id replaces.
    pub(crate) fn new(plan: &CacheBustPlan, run_id: &str) -> Self {
        let run_id = plan.run_id.clone().unwrap_or_else(|| run_id.to_owned());
        Self { target: plan.target, run_id }
    }

    /// Where markers land.
    pub(crate) const fn target(&self) -> MarkerTarget {
        self.target
    }

    /// The marker of the session `visit`, whose conversation is called `trace`; the warm-up family marks warm-up alone.
    pub(crate) fn marker(&self, visit: Visit, trace: &str) -> Option<Marker> {
        if self.target.is_warmup_isolation() && !visit.warmup {
            return None;
        }
        Some(self.of(visit.session, trace))
    }

    fn of(&self, session: u64, trace: &str) -> Marker {
        Marker { text: marker(self.target, &self.run_id, session, session, trace), target: self.target }
    }

    /// The most tokens that a marker of this run can make of a text, whatever its digest is cut into. `count` counts a text in its
    /// place.
    pub(crate) fn most_tokens(&self, text: &str, count: &dyn Fn(&str) -> usize) -> usize {
        if self.target.is_warmup_isolation() {
            return count(&self.of(0, "").put(text));
        }
        // The first and the last digit may merge with what is beside them; no vocabulary cuts an ASCII letter in two, so the others are
        // at most a token each.
        let with = |(first, last): (char, char)| {
            let text = if self.target.is_suffix() {
                format!("{text}\n\n[rid:{first}{last}]")
            } else {
                format!("[rid:{first}{last}]\n\n{text}")
            };
            // Two that are one token side by side are two apart.
            count(&text).max(count(&text.replacen(&format!("{first}{last}"), &first.to_string(), 1)) + 1)
                + DIGITS
                - 2
        };
        let digits = || "0123456789abcdef".chars();
        digits().flat_map(|first| digits().map(move |last| (first, last))).map(with).max().unwrap_or_default()
    }
}

/// What markers cost, tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerCost {
    /// AIPerf's estimate: the mean of the samples, rounded, halves to even; 0 for warm-up isolation, which marks no measured
    /// request.
    pub estimate: usize,
    /// Tokens of eight markers, each counted alone.
    pub samples: Vec<usize>,
}

/// Counts markers of `target` as `tokenizer` does.
pub fn marker_cost(tokenizer: &dyn Tokenizer, target: MarkerTarget) -> MarkerCost {
    let samples: Vec<usize> = (0..SAMPLES)
        .map(|i| tokenizer.count(&marker(target, "estimator", i, i, &format!("estimator-{i}"))))
        .collect();
    let estimate = if target.is_warmup_isolation() { 0 } else { mean(&samples) };
    MarkerCost { estimate, samples }
}

/// The mean, rounded, halves to even.
fn mean(samples: &[usize]) -> usize {
    (samples.iter().sum::<usize>() as f64 / samples.len() as f64).round_ties_even() as usize
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::TokenizerPlan;

    use super::*;

    /// Digests of AIPerf 0.13.0's marker factory.
    #[test]
    fn digests_are_those_of_the_reference() {
        for (benchmark_id, number, trace, digest) in [
            ("estimator", 0, "estimator-0", "8e15353008f0"),
            ("estimator", 1, "estimator-1", "aa4ebc4be507"),
            ("estimator", 2, "estimator-2", "a3a0193ebdfe"),
            ("estimator", 3, "estimator-3", "a85a26fafbc9"),
            ("estimator", 4, "estimator-4", "d92da992430f"),
            ("estimator", 5, "estimator-5", "219645128b72"),
            ("estimator", 6, "estimator-6", "2ca036eb9f53"),
            ("estimator", 7, "estimator-7", "a9f20f688655"),
            ("bench-1", 0, "session_000000", "0a94b9f333c8"),
            ("bench-1", 1, "session_000000", "a0bcc75dcff2"),
            ("0b9f6c1e-8d2a-4f0e-9d5a-1f2e3d4c5b6a", 3, "trace/with:colon", "2b79d26f90a2"),
        ] {
            let text = |target| marker(target, benchmark_id, number, number, trace);
            for target in [MarkerTarget::SystemPrefix, MarkerTarget::FirstTurnPrefix] {
                assert_eq!(text(target), format!("[rid:{digest}]\n\n"));
            }
            for target in [MarkerTarget::SystemSuffix, MarkerTarget::FirstTurnSuffix] {
                assert_eq!(text(target), format!("\n\n[rid:{digest}]"));
            }
            for target in [MarkerTarget::WarmupIsolationSystem, MarkerTarget::WarmupIsolationFirstTurn] {
                assert_eq!(text(target), "[warmup]\n\n");
            }
        }
    }

    #[test]
    fn every_part_of_a_session_s_identity_counts() {
        let base = marker(MarkerTarget::SystemPrefix, "run", 0, 1, "a");
        for other in [
            marker(MarkerTarget::SystemPrefix, "run2", 0, 1, "a"),
            marker(MarkerTarget::SystemPrefix, "run", 1, 1, "a"),
            marker(MarkerTarget::SystemPrefix, "run", 0, 2, "a"),
            marker(MarkerTarget::SystemPrefix, "run", 0, 1, "b"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn costs_are_those_of_the_reference() {
        let builtin = aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("it is built in");
        for target in MarkerTarget::ALL {
            let cost = marker_cost(&*builtin, target);
            let (estimate, samples) = match target {
                MarkerTarget::SystemPrefix | MarkerTarget::FirstTurnPrefix => {
                    (10, vec![11, 11, 11, 10, 9, 9, 11, 10])
                }
                MarkerTarget::SystemSuffix | MarkerTarget::FirstTurnSuffix => {
                    (11, vec![12, 12, 12, 11, 10, 10, 12, 11])
                }
                _ => (0, vec![builtin.count("[warmup]\n\n"); 8]),
            };
            assert_eq!(cost, MarkerCost { estimate, samples }, "{}", target.name());
        }
    }

    #[test]
    fn the_estimate_is_the_mean_of_eight_samples_halves_to_even() {
        use crate::toys::{Cut, Toy};
        for (cut, target, samples, estimate) in [
            // 5 letters before the digest, 12 of it, and 3 behind.
            (Cut::Letters, MarkerTarget::FirstTurnPrefix, [20; 8], 20),
            (Cut::Letters, MarkerTarget::SystemSuffix, [20; 8], 20),
            (Cut::Even, MarkerTarget::FirstTurnSuffix, [40; 8], 40),
            (Cut::Pieces, MarkerTarget::SystemPrefix, [4; 8], 4),
        ] {
            let cost = marker_cost(&*Toy::shared(cut), target);
            assert_eq!(cost, MarkerCost { estimate, samples: samples.into() }, "{cut:?}");
        }
        let builtin = aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("it is built in");
        for target in MarkerTarget::ALL.into_iter().filter(|target| !target.is_warmup_isolation()) {
            let cost = marker_cost(&*builtin, target);
            let sum: usize = cost.samples.iter().sum();
            assert_eq!((sum, cost.estimate), if target.is_suffix() { (90, 11) } else { (82, 10) });
        }
        assert_eq!([[10, 11], [11, 12], [10, 12]].map(|samples| mean(&samples)), [10, 12, 11]);
    }

    #[test]
    fn names_are_distinct_and_told_apart() {
        let names: std::collections::HashSet<_> = MarkerTarget::ALL.map(MarkerTarget::name).into();
        assert_eq!(names.len(), MarkerTarget::ALL.len());
        for target in MarkerTarget::ALL {
            assert_eq!(target.name().ends_with("suffix"), target.is_suffix());
            assert_eq!(target.name().starts_with("warmup"), target.is_warmup_isolation());
        }
    }
}
