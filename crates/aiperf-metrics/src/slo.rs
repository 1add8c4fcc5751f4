//! Service level objectives: which requests kept them.

use aiperf_core::plan::SloPlan;

use crate::spec::{Flags, MetricSpec, Value};
use crate::table::find;

/// One objective while requests come in.
#[derive(Debug, Clone)]
pub(crate) struct Objective {
    spec: &'static MetricSpec,
    /// In the display unit, as it was given.
    threshold: f64,
    /// In the stored unit.
    bound: f64,
    /// Completed requests that kept it.
    pub(crate) met: u64,
}

/// How many requests of a phase met an objective.
#[derive(Debug, Clone, Copy)]
pub struct Attainment {
    /// The metric.
    pub spec: &'static MetricSpec,
    /// The bound, in the metric's display unit.
    pub threshold: f64,
    /// Completed requests whose value keeps to it.
    pub met: u64,
    /// Requests that came to an end; a failed or cancelled one meets nothing.
    pub requests: u64,
}

impl Attainment {
    /// Whether the bound is the least that is good.
    pub const fn is_floor(&self) -> bool {
        self.spec.flags.has(Flags::LARGER_IS_BETTER)
    }

    /// Share of the requests that met it, 0 to 1; `None` when there were none.
    pub fn share(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.met as f64 / self.requests as f64)
    }
}

impl Objective {
    /// Of a plan; a tag that is none of ours makes no objective.
    pub(crate) fn of(plan: &SloPlan) -> Option<Self> {
        let spec = find(&plan.tag)?;
        // AIPerf converts the bound and not the values.
        let bound = spec.display.factor_to(spec.unit).map_or(plan.threshold, |f| plan.threshold * f);
        Some(Self { spec, threshold: plan.threshold, bound, met: 0 })
    }

    /// Counts a completed request with these values; of several values each has to be good, and a missing one is not.
    pub(crate) fn judge(&mut self, values: &[(&'static MetricSpec, Value)]) -> bool {
        let value = values.iter().find(|(spec, _)| spec.tag == self.spec.tag);
        let is_met = value.is_some_and(|(_, value)| match value {
            Value::Int(v) => self.holds(*v as f64),
            Value::Real(v) => self.holds(*v),
            Value::List(all) => all.iter().all(|v| self.holds(*v as f64)),
        });
        self.met += u64::from(is_met);
        is_met
    }

    fn holds(&self, value: f64) -> bool {
        if self.spec.flags.has(Flags::LARGER_IS_BETTER) { value >= self.bound } else { value <= self.bound }
    }

    pub(crate) const fn attainment(&self, requests: u64) -> Attainment {
        Attainment { spec: self.spec, threshold: self.threshold, met: self.met, requests }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn objective(tag: &str, threshold: f64) -> Objective {
        Objective::of(&SloPlan { tag: tag.into(), threshold }).expect("a metric")
    }

    fn values(tag: &str, value: Value) -> Vec<(&'static MetricSpec, Value)> {
        vec![(find(tag).expect("a metric"), value)]
    }

    #[test]
    fn the_bound_itself_is_good() {
        // 120 ms: kept in nanoseconds.
        let mut latency = objective("request_latency", 120.0);
        assert!(latency.judge(&values("request_latency", Value::Int(120_000_000))));
        assert!(!latency.judge(&values("request_latency", Value::Int(120_000_001))));
        // More is better, and no unit to change.
        let mut pace = objective("output_token_throughput_per_user", 50.0);
        assert!(pace.judge(&values("output_token_throughput_per_user", Value::Real(50.0))));
        assert!(!pace.judge(&values("output_token_throughput_per_user", Value::Real(49.999))));
        assert_eq!((latency.met, pace.met), (1, 1));
        assert_eq!(latency.attainment(4).share(), Some(0.25));
        assert!(pace.attainment(4).is_floor() && !latency.attainment(4).is_floor());
    }

    #[test]
    fn every_gap_counts_and_what_is_missing_is_not_good() {
        let mut gaps = objective("inter_chunk_latency", 10.0);
        assert!(gaps.judge(&values("inter_chunk_latency", Value::List(vec![9_000_000, 10_000_000]))));
        assert!(!gaps.judge(&values("inter_chunk_latency", Value::List(vec![9_000_000, 10_000_001]))));
        assert!(!gaps.judge(&values("request_latency", Value::Int(1))));
        assert_eq!(gaps.attainment(0).share(), None);
        assert!(Objective::of(&SloPlan { tag: "nonsense".into(), threshold: 1.0 }).is_none());
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_values_on_the_good_side(
            latencies in proptest::collection::vec(0u64..200_000_000, 0..50),
            threshold in 0u32..200,
        ) {
            let mut objective = objective("request_latency", f64::from(threshold));
            for ns in &latencies {
                objective.judge(&values("request_latency", Value::Int(*ns)));
            }
            let good = latencies.iter().filter(|ns| **ns <= u64::from(threshold) * 1_000_000).count();
            prop_assert_eq!(objective.met, good as u64);
        }
    }
}
