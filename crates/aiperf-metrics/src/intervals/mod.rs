//! How far a result may be off for having been measured on so many requests and no more: 95 % intervals of means, rates and
//! percentiles, and which percentiles so few values cannot tell.
//!
//! - Means and rates: block bootstrap over bins of time, keyed by the seed of the run.
//! - Percentiles: order statistics, by the binomial law. Values at neighbouring times are alike and tell less than as many independent
//!   ones; so the law is asked for as many as the block bootstrap finds there are: n · (variance of the mean of independent values) ÷
//!   (variance of the mean found).

mod binomial;
mod bootstrap;

use aiperf_core::outcome::Outcome;

use crate::formulas::decode_steps;
use crate::recorder::Recorder;
use crate::rows::RequestRow;
use crate::statistics::{Distribution, Rank};
use crate::summary::Window;
use crate::table::find;
use bootstrap::{BINS, Bins, Blocks};

/// Share of such intervals that hold the truth.
pub const LEVEL: f64 = 0.95;
const TAIL: f64 = (1.0 - LEVEL) / 2.0;

/// Percentiles whose interval is given, by their name in files.
pub const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)];
/// Percentiles that are said to be unsupported where they are.
const TOLD: [(&str, f64); 10] = [
    ("p1", 0.01),
    ("p5", 0.05),
    ("p10", 0.1),
    ("p25", 0.25),
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99_9", 0.999),
];

/// Two ends, in a metric's display unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    fn scaled(self, factor: f64) -> Self {
        Self { low: self.low * factor, high: self.high * factor }
    }
}

/// What is uncertain of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricUncertainty {
    /// The metric.
    pub tag: &'static str,
    /// Values; absent for a rate.
    pub count: Option<u64>,
    /// As many independent values would tell as much; absent for a rate and where so few cannot tell.
    pub independent: Option<u64>,
    /// Of the mean, or of the rate.
    pub avg: Option<Interval>,
    /// Of each of [`QUANTILES`]: the value, and its interval where there are values enough.
    pub quantiles: Vec<(f64, Option<Interval>)>,
    /// Names of statistics that so few values cannot tell.
    pub unsupported: Vec<&'static str>,
}

/// What is uncertain of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Uncertainty {
    /// Metrics in the order of this list: latencies, lengths, rates.
    pub metrics: Vec<MetricUncertainty>,
}

impl Uncertainty {
    /// Of a metric by its tag.
    pub fn get(&self, tag: &str) -> Option<&MetricUncertainty> {
        self.metrics.iter().find(|m| m.tag == tag)
    }
}

/// Whether a metric's `values` values are too few for its p99: by what `uncertainty` says of them, which knows how far they depend on
/// each other; of a metric that it does not tell of, by their number alone.
pub fn too_few_for_p99(uncertainty: Option<&Uncertainty>, tag: &str, values: u64) -> bool {
    match uncertainty.and_then(|all| all.get(tag)).filter(|metric| metric.count.is_some()) {
        Some(metric) => metric.unsupported.contains(&"p99"),
        None => values < least_count(99.0),
    }
}

/// How many values a percentile (0 to 100) needs for its interval to have two ends.
pub fn least_count(percentile: f64) -> u64 {
    binomial::least_count(percentile / 100.0, TAIL)
}

/// Value of a metric in its stored unit, from a row of a completed request.
type OfRow = fn(&RequestRow) -> Option<f64>;

/// Metrics with a value per request, and what makes it of a row.
const PER_REQUEST: [(&str, OfRow); 8] = [
    ("request_latency", |r| between(Some(r.start_ns), r.last_ns)),
    ("scheduled_latency", |r| between(r.scheduled_ns, r.last_ns)),
    ("time_to_first_token", |r| between(Some(r.start_ns), r.first_ns)),
    ("scheduled_time_to_first_token", |r| between(r.scheduled_ns, r.first_ns)),
    ("inter_token_latency", pace),
    ("output_token_throughput_per_user", |r| Some(1e9 / pace(r)?).filter(|v| v.is_finite())),
    ("output_sequence_length", |r| r.osl.map(f64::from)),
    ("input_sequence_length", |r| r.isl.map(f64::from)),
];
/// The metric with a value per gap.
const GAPS: &str = "inter_chunk_latency";

fn between(from: Option<u64>, to: Option<u64>) -> Option<f64> {
    Some(to?.checked_sub(from?)? as f64)
}

/// The `inter_token_latency` of a row.
pub(crate) fn pace(row: &RequestRow) -> Option<f64> {
    let steps = decode_steps(row.osl?.into(), row.first_chunk_tokens.map(u64::from))?;
    Some(between(row.first_ns, row.last_ns)? / steps as f64)
}

/// Sums over time as requests go by; [`finish`](Self::finish) makes intervals of them.
#[derive(Debug)]
pub(crate) struct Gatherer {
    start_ns: u64,
    width_ns: u64,
    per_request: Vec<Bins>,
    gaps: Bins,
    completed: Bins,
    output: Bins,
    input: Bins,
}

impl Gatherer {
    /// For requests between these stamps.
    pub(crate) fn new(start_ns: u64, end_ns: u64) -> Self {
        Self {
            start_ns,
            width_ns: (end_ns.saturating_sub(start_ns) / BINS as u64) + 1,
            per_request: vec![Bins::default(); PER_REQUEST.len()],
            gaps: Bins::default(),
            completed: Bins::default(),
            output: Bins::default(),
            input: Bins::default(),
        }
    }

    fn bin(&self, at_ns: u64) -> usize {
        ((at_ns.saturating_sub(self.start_ns) / self.width_ns) as usize).min(BINS - 1)
    }

    /// Takes in a request: latencies and lengths belong to its start, the completion to its end, prompt tokens to its first content,
    /// output tokens and gaps to their chunks.
    pub(crate) fn add(&mut self, row: &RequestRow, chunks: &[u64]) {
        if row.outcome != Outcome::Completed {
            return;
        }
        let start = self.bin(row.start_ns);
        for ((_, of), bins) in PER_REQUEST.iter().zip(&mut self.per_request) {
            if let Some(value) = of(row) {
                bins.add(start, value);
            }
        }
        self.completed.add_whole(self.bin(row.end_ns), 1);
        if let (Some(tokens), Some(first)) = (row.isl, row.first_ns) {
            self.input.add_whole(self.bin(first), tokens.into());
        }
        for (at_ns, tokens) in shares(row, chunks) {
            self.output.add_whole(self.bin(at_ns), tokens);
        }
        for pair in chunks.windows(2) {
            self.gaps.add_whole(self.bin(pair[1]), pair[1] - pair[0]);
        }
    }

    /// Intervals of what `recorder` holds, over `window`.
    pub(crate) fn finish(self, recorder: &Recorder, window: Window, seed: u64) -> Uncertainty {
        let blocks = Blocks::drawn(seed);
        let mut metrics: Vec<MetricUncertainty> = PER_REQUEST
            .iter()
            .map(|(tag, _)| *tag)
            .zip(&self.per_request)
            .chain([(GAPS, &self.gaps)])
            .filter_map(|(tag, bins)| of_values(recorder, tag, bins, &blocks))
            .collect();
        // Of several phases together the time between them is no part of a rate.
        let seconds = Some(window.duration_ns() as f64 * 1e-9).filter(|s| *s > 0.0);
        if let Some(seconds) = seconds.filter(|_| window.pooled_ns().is_none()) {
            let total = [&self.input, &self.output].into_iter().fold(Bins::default(), Bins::plus);
            for (tag, bins) in [
                ("request_throughput", &self.completed),
                ("output_token_throughput", &self.output),
                ("input_token_throughput", &self.input),
                ("total_token_throughput", &total),
            ] {
                metrics.extend(of_rate(recorder, tag, bins, seconds, &blocks));
            }
        }
        Uncertainty { metrics }
    }
}

/// Output tokens of a completed request by the chunks they came with: as even as whole tokens can be, none lost.
pub(crate) fn shares(row: &RequestRow, chunks: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let (tokens, n) = (u64::from(row.osl.unwrap_or(0)), chunks.len() as u64);
    let upto = move |i: u64| tokens * i / n.max(1);
    chunks.iter().zip(0..).map(move |(at_ns, i)| (*at_ns, upto(i + 1) - upto(i)))
}

fn of_values(
    recorder: &Recorder,
    tag: &'static str,
    bins: &Bins,
    blocks: &Blocks,
) -> Option<MetricUncertainty> {
    let values = recorder.distribution(tag)?;
    let factor = find(tag)?.factor().unwrap_or(1.0);
    let found = bins.mean(blocks);
    let independent = found.map_or(values.count, |found| independent(&values, found.variance));
    let n = values.count as usize;
    let inner: Vec<Option<(usize, usize)>> = QUANTILES
        .iter()
        .map(|(_, q)| {
            found?;
            let (low, high) = binomial::ranks(independent as usize, *q, TAIL)?;
            // The same place among all values.
            let share = n as f64 / independent as f64;
            let low = (low as f64 * share).floor() as usize;
            let high = ((high + 1) as f64 * share).ceil() as usize - 1;
            Some((low, high.min(n - 1)))
        })
        .collect();
    let at: Vec<Rank> = QUANTILES.iter().map(|(_, q)| Rank::of(q * 100.0, n)).collect();
    let outer = at.iter().map(|rank| (rank.low, rank.high));
    let mut wanted: Vec<usize> =
        inner.iter().flatten().copied().chain(outer).flat_map(|(a, b)| [a, b]).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let sorted = recorder.at_ranks(tag, &wanted)?;
    let value = |rank: usize| wanted.binary_search(&rank).map_or(0.0, |at| sorted[at]) * factor;
    let quantiles = at
        .iter()
        .zip(&inner)
        .map(|(rank, inner)| {
            let interval = inner.map(|(low, high)| Interval { low: value(low), high: value(high) });
            (rank.between(value(rank.low), value(rank.high)), interval)
        })
        .collect();
    let few = |q: f64| found.is_none() || independent < binomial::least_count(q, TAIL);
    let avg = found.is_none().then_some("avg");
    Some(MetricUncertainty {
        tag,
        count: Some(values.count),
        independent: found.map(|_| independent),
        avg: found.map(|f| f.interval.scaled(factor)),
        quantiles,
        unsupported: avg.into_iter().chain(TOLD.iter().filter(|t| few(t.1)).map(|t| t.0)).collect(),
    })
}

/// How many independent values would leave their mean this variance; never more than there are.
fn independent(values: &Distribution, variance: f64) -> u64 {
    let n = values.count;
    let alone = values.std * values.std;
    if variance * n as f64 <= alone { n } else { ((alone / variance) as u64).clamp(1, n) }
}

/// The interval around the rate that the summary tells: what lies between phase and requests is sure to hold no work.
fn of_rate(
    recorder: &Recorder,
    tag: &'static str,
    bins: &Bins,
    seconds: f64,
    blocks: &Blocks,
) -> Option<MetricUncertainty> {
    if !recorder.has(tag) || bins.is_empty() {
        return None;
    }
    let found = bins.per_bin(blocks);
    Some(MetricUncertainty {
        tag,
        count: None,
        independent: None,
        avg: found.map(|f| f.interval.scaled(BINS as f64 / seconds)),
        quantiles: Vec::new(),
        unsupported: if found.is_none() { vec!["avg"] } else { Vec::new() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ChunkFact, Facts};
    use crate::spec::{Compute, Value};
    use proptest::prelude::*;

    fn row(osl: u32) -> RequestRow {
        RequestRow { outcome: Outcome::Completed, osl: Some(osl), ..RequestRow::default() }
    }

    #[test]
    fn a_p99_has_few_values_by_what_is_known_of_them() {
        let metric = |tag, count, unsupported: &[&'static str]| MetricUncertainty {
            tag,
            count,
            independent: count,
            avg: None,
            quantiles: Vec::new(),
            unsupported: unsupported.to_vec(),
        };
        let metrics = vec![
            metric("time_to_first_token", Some(1000), &["p99", "p99_9"]),
            metric("request_latency", Some(100), &[]),
            metric("request_throughput", None, &["avg"]),
        ];
        let known = Uncertainty { metrics };
        let few = |tag, values| too_few_for_p99(Some(&known), tag, values);
        // A thousand values that depend on each other, and the list that says so.
        assert!(few("time_to_first_token", 1000) && !few("request_latency", 100));
        for tag in ["request_throughput", "http_req_waiting"] {
            assert!(few(tag, 367) && !few(tag, 368) && too_few_for_p99(None, tag, 367), "{tag}");
        }
    }

    #[test]
    fn tokens_of_a_request_over_its_chunks() {
        // Ten tokens in four chunks: 2.5 each, so 2, 3, 2, 3.
        let all: Vec<_> = shares(&row(10), &[5, 6, 7, 9]).collect();
        assert_eq!(all, [(5, 2), (6, 3), (7, 2), (9, 3)]);
        assert_eq!(shares(&row(3), &[]).count(), 0);
    }

    #[test]
    fn alike_neighbours_count_as_fewer() {
        let values = Distribution {
            avg: 0.0,
            min: 0.0,
            max: 0.0,
            std: 3.0,
            percentiles: [0.0; 9],
            sum: 0.0,
            count: 100,
        };
        // Alone the mean of 100 would have 9 ÷ 100 = 0.09.
        assert_eq!(independent(&values, 0.36), 25);
        assert_eq!(independent(&values, 0.09), 100);
        assert_eq!(independent(&values, 0.01), 100);
        assert_eq!(independent(&values, 1e9), 1);
    }

    proptest! {
        /// A row tells nothing of a request that the request's own metrics do not tell.
        #[test]
        fn values_of_a_row_are_those_of_its_metrics(
            gaps in proptest::collection::vec(0_u64..50, 0..6),
            output in 0_u64..20,
            reasoning in proptest::option::of(0_u64..5),
            first in proptest::option::of(0_u64..20),
            scheduled in proptest::option::of(0_u64..100),
        ) {
            let mut now = 100;
            let at = |at_ns| ChunkFact { at_ns, answer: true };
            let chunks = std::iter::once(at(now)).chain(gaps.iter().map(|gap| { now += gap; at(now) })).collect();
            let facts = Facts {
                outcome: Outcome::Completed,
                start_ns: 40,
                scheduled_ns: scheduled,
                chunks,
                isl: Some(7),
                output_tokens: Some(output),
                reasoning_tokens: reasoning,
                first_chunk_tokens: first,
                ..Facts::default()
            };
            let row = RequestRow::of(&facts);
            for (tag, of_row) in PER_REQUEST {
                let Some(Compute::Record(rule)) = find(tag).map(|spec| spec.compute) else { panic!("{tag}") };
                let expected = rule(&facts).map(|value| match value {
                    Value::Int(v) => v as f64,
                    Value::Real(v) => v,
                    Value::List(_) => panic!("{tag}"),
                });
                match (of_row(&row), expected) {
                    (Some(found), Some(expected)) => {
                        prop_assert!((found - expected).abs() <= 1e-12 * expected, "{}: {} {}", tag, found, expected);
                    }
                    (found, expected) => prop_assert_eq!(found, expected, "{}", tag),
                }
            }
        }

        #[test]
        fn shares_are_even_and_whole(osl in 0u32..500, n in 1usize..100) {
            let chunks: Vec<u64> = (0..n as u64).collect();
            let all: Vec<u64> = shares(&row(osl), &chunks).map(|s| s.1).collect();
            prop_assert_eq!(all.iter().sum::<u64>(), u64::from(osl));
            let even = f64::from(osl) / n as f64;
            prop_assert!(all.iter().all(|t| (*t as f64 - even).abs() < 1.0));
        }
    }
}
