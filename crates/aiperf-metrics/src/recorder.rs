//! Takes finished requests in, keeps their values, gives statistics out.

mod analysis;
mod slices;
#[cfg(test)]
mod slices_tests;

use aiperf_core::outcome::Outcome;
use aiperf_core::plan::SloPlan;
use aiperf_core::time::ClockAnchor;

use crate::column::{IntColumn, RealColumn};
use crate::derived::{Cell, Context};
use crate::facts::{Capabilities, Facts};
use crate::formulas;
use crate::over_time::OverTime;
use crate::rows::{RequestRow, RequestRows};
use crate::slo::Objective;
use crate::spec::{Compute, Flags, Fold, MetricSpec, Value};
use crate::statistics::{PERCENTILES, PartStats, nearest_rank};
use crate::store::Disk;
use crate::summary::{EarlyEnds, Finishes, Row, Stats, Summary, Window};
use crate::table::METRICS;
use crate::tally::{Ledger, Tally};

pub use analysis::Analysis;
use slices::Trace;
pub use slices::{MAX_SLICES, SLICED, Slice, SlicedSpec, Slices, TooManySlices};

/// Values of one request in the stored units, in table order.
#[derive(Debug, Clone, Default)]
pub struct RecordValues {
    values: Vec<(&'static MetricSpec, Value)>,
}

impl RecordValues {
    /// Metrics and values in table order, internal ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&'static MetricSpec, &Value)> {
        self.values.iter().map(|(spec, value)| (*spec, value))
    }

    /// Value of a metric by its tag.
    pub fn get(&self, tag: &str) -> Option<&Value> {
        self.values.iter().find(|(spec, _)| spec.tag == tag).map(|(_, value)| value)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Collects one phase. Several readers may each have their own and [`merge`](Self::merge) them.
#[derive(Debug, Clone)]
pub struct Recorder {
    anchor: ClockAnchor,
    cells: Vec<Cell>,
    disk: Option<Disk>,
    rows: RequestRows,
    ledger: Ledger,
    tally: Tally,
    early: EarlyEnds,
    slos: Vec<Objective>,
    /// All its requests follow the times of a file.
    is_replay: bool,
    network_rtt_ns: Option<f64>,
    /// Which request each value is of, when slices of time are wanted.
    trace: Option<Trace>,
    finishes: Finishes,
    acceptance_histogram: Vec<u64>,
}

impl Recorder {
    /// An empty one with the metrics these capabilities allow; `anchor` turns stamps into wall-clock times.
    pub fn new(cap: Capabilities, anchor: ClockAnchor) -> Self {
        let cells = METRICS
            .iter()
            .map(|spec| match spec.compute {
                _ if !spec.applies(&cap) => Cell::Off,
                Compute::Record(_) => Cell::Int(IntColumn::default()),
                Compute::Aggregate(..) => Cell::Running(None),
                Compute::Derived(_)
                | Compute::Adjusted(_)
                | Compute::AtLeast(_)
                | Compute::OverTime(_)
                | Compute::NetworkRtt
                | Compute::NetworkAdjusted(_) => Cell::Derived,
                // Until there are objectives.
                Compute::Good => Cell::Off,
            })
            .collect();
        Self { cells, ..Self::bare(anchor) }
    }

    /// One without metrics.
    fn bare(anchor: ClockAnchor) -> Self {
        Self {
            anchor,
            cells: Vec::new(),
            disk: None,
            rows: RequestRows::default(),
            ledger: Ledger::default(),
            tally: Tally::default(),
            early: EarlyEnds::default(),
            slos: Vec::new(),
            is_replay: false,
            network_rtt_ns: None,
            trace: None,
            finishes: Finishes::default(),
            acceptance_histogram: Vec::new(),
        }
    }

    /// The same, still empty, which tells which requests keep these objectives.
    #[must_use]
    pub fn with_slos(mut self, slos: &[SloPlan]) -> Self {
        self.slos = slos.iter().filter_map(Objective::of).collect();
        for (spec, cell) in METRICS.iter().zip(&mut self.cells) {
            if matches!(spec.compute, Compute::Good) && !self.slos.is_empty() {
                *cell = Cell::Running(None);
            }
        }
        self
    }

    /// The same, still empty, of requests that follow the times of a file, or do not.
    #[must_use]
    pub const fn of_replay(mut self, is_replay: bool) -> Self {
        self.is_replay = is_replay;
        self
    }

    /// The same, still empty, whose columns go to `disk` when they grow long. Recorders that are merged share one.
    #[must_use]
    pub fn on(mut self, disk: &Disk) -> Self {
        for cell in &mut self.cells {
            if let Cell::Int(column) = cell {
                *column = IntColumn::on(Some(disk));
            }
        }
        self.rows = RequestRows::on(Some(disk));
        self.trace = self.trace.map(|_| Trace::on(Some(disk)));
        self.disk = Some(disk.clone());
        self
    }

    /// The same, still empty, able to give [`slices`](Self::slices). Recorders that are merged are all so, or none is.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.trace = Some(Trace::on(self.disk.as_ref()));
        self
    }

    /// Takes one request in and returns its values. Lost and unsent requests are tallied and have none.
    pub fn record(&mut self, facts: &Facts) -> RecordValues {
        let count = match facts.outcome {
            Outcome::Completed => &mut self.ledger.completed,
            Outcome::Failed => &mut self.ledger.failed,
            Outcome::Cancelled => &mut self.ledger.cancelled,
            Outcome::Lost => &mut self.ledger.lost,
            Outcome::Unsent => &mut self.ledger.unsent,
        };
        *count += 1;
        self.tally = self.ledger.tally();
        let errors = match facts.outcome {
            Outcome::Completed => false,
            Outcome::Failed | Outcome::Cancelled => true,
            Outcome::Lost | Outcome::Unsent => return RecordValues::default(),
        };
        self.rows.push(&RequestRow::of(facts));
        if !errors {
            self.finishes.add(facts.finish);
            let steps = facts.spec_decode.as_ref().map_or(&[][..], |s| &s.histogram);
            add_places(&mut self.acceptance_histogram, steps);
        }
        if let Some(early) = formulas::ended_early(facts).filter(|_| !errors) {
            self.early.compared += 1;
            self.early.early += u64::from(early);
        }
        let mut values = Vec::with_capacity(if errors { 1 } else { 32 });
        if let Some(trace) = &mut self.trace {
            trace.begin();
        }
        for (at, (spec, cell)) in METRICS.iter().zip(&mut self.cells).enumerate() {
            let wanted = spec.flags.has(Flags::ERROR_ONLY) == errors
                || spec.flags.has(Flags::EVERY_OUTCOME)
                || matches!(spec.compute, Compute::Good);
            if matches!(cell, Cell::Off) || !wanted {
                continue;
            }
            match spec.compute {
                Compute::Good if errors => {
                    keep_sum(cell, 0);
                    if let Some(trace) = &mut self.trace {
                        trace.note_running(at, 0);
                    }
                }
                Compute::Good => {
                    // Each is counted, so none may be left out once one is not met.
                    let kept =
                        self.slos.iter_mut().filter_map(|slo| slo.judge(&values).then_some(())).count();
                    let is_good = u64::from(kept == self.slos.len());
                    keep_sum(cell, is_good);
                    if let Some(trace) = &mut self.trace {
                        trace.note_running(at, is_good);
                    }
                    values.push((spec, Value::Int(is_good)));
                }
                Compute::Record(rule) => {
                    if let Some(value) = rule(facts) {
                        keep(cell, &value, self.disk.as_ref());
                        if let Some(trace) = &mut self.trace {
                            trace.note(at, &value);
                        }
                        values.push((spec, value));
                    }
                }
                Compute::Aggregate(fold, rule) => {
                    if let (Cell::Running(running), Some(value)) = (cell, rule(facts, &self.anchor)) {
                        *running = Some(folded(fold, *running, value));
                        if let Some(trace) = &mut self.trace {
                            trace.note_running(at, value);
                        }
                    }
                }
                Compute::Derived(_)
                | Compute::Adjusted(_)
                | Compute::AtLeast(_)
                | Compute::OverTime(_)
                | Compute::NetworkRtt
                | Compute::NetworkAdjusted(_) => {}
            }
        }
        if let Some(trace) = &mut self.trace {
            trace.end();
        }
        RecordValues { values }
    }

    /// What became of the requests so far.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Tells how many requests the schedule asked for. What is then neither unsent nor seen again counts as lost.
    pub fn set_scheduled(&mut self, requests: u64) {
        self.ledger.scheduled = Some(requests);
        self.tally = self.ledger.tally();
    }

    /// Tells how long a round trip to the servers takes, nanoseconds: latencies are then told without one, too.
    pub const fn set_network_rtt(&mut self, ns: f64) {
        self.network_rtt_ns = Some(ns);
    }

    /// Tells how many requests were never sent, in place of what records said.
    pub fn set_unsent(&mut self, requests: u64) {
        self.ledger.unsent = requests;
        self.tally = self.ledger.tally();
    }

    /// Takes in what another reader of the same phase collected; its requests count as arrived after ours.
    pub fn merge(&mut self, other: Self) {
        self.ledger.merge(&other.ledger);
        self.tally = self.ledger.tally();
        self.rows.append(other.rows);
        self.is_replay &= other.is_replay;
        self.network_rtt_ns = self.network_rtt_ns.or(other.network_rtt_ns);
        if let (Some(ours), Some(theirs)) = (&mut self.trace, other.trace) {
            ours.append(theirs);
        }
        self.early.compared += other.early.compared;
        self.early.early += other.early.early;
        for (ours, theirs) in self.slos.iter_mut().zip(&other.slos) {
            ours.met += theirs.met;
        }
        self.finishes.merge(&other.finishes);
        add_places(&mut self.acceptance_histogram, &other.acceptance_histogram);
        for ((spec, ours), theirs) in METRICS.iter().zip(&mut self.cells).zip(other.cells) {
            match (ours, theirs) {
                (Cell::Int(ours), Cell::Int(theirs)) => ours.append(theirs),
                (Cell::Real(ours), Cell::Real(theirs)) => ours.append(theirs),
                // A record column starts as Int and turns Real at its first real value; the other one is empty then.
                (ours @ Cell::Int(_), theirs @ Cell::Real(_)) => *ours = theirs,
                (Cell::Running(ours), Cell::Running(Some(theirs))) => {
                    let fold = match spec.compute {
                        Compute::Aggregate(fold, _) => fold,
                        _ => Fold::Sum,
                    };
                    *ours = Some(folded(fold, *ours, theirs));
                }
                _ => {}
            }
        }
    }

    /// Its requests that were sent, each as a whole, in the order in which they were recorded.
    pub const fn rows(&self) -> &RequestRows {
        &self.rows
    }

    /// Statistics of one record metric in its stored unit; `None` when it has no value.
    pub fn distribution(&self, tag: &str) -> Option<crate::Distribution> {
        match self.cells.get(crate::table::index_of(tag)?)? {
            Cell::Int(column) => column.distribution(),
            Cell::Real(column) => column.distribution(),
            _ => None,
        }
    }

    /// The values of a metric without one round trip, which may take longer than the whole request did.
    fn without_round_trip(&self, tag: &str) -> Option<crate::Distribution> {
        let rtt_ns = self.network_rtt_ns?;
        let Cell::Int(column) = self.cells.get(crate::table::index_of(tag)?)? else { return None };
        let mut less = RealColumn::on(self.disk.as_ref());
        for ns in column.iter() {
            less.push((ns as f64 - rtt_ns).max(0.0));
        }
        less.distribution().filter(|d| d.count == column.len() as u64)
    }

    /// Bytes its columns hold in memory, as used.
    pub fn bytes(&self) -> usize {
        self.cells
            .iter()
            .map(|cell| match cell {
                Cell::Int(column) => column.bytes(),
                Cell::Real(column) => column.bytes(),
                _ => 0,
            })
            .sum::<usize>()
            + self.rows.bytes()
    }

    /// Statistics of everything taken in; rates are divided by `window`.
    pub fn summarise(&self, window: Window) -> Summary {
        let replay_lag = self.replay_lag();
        let context = Context { cells: &self.cells, tally: self.tally, window, replay_lag };
        let over_time = self.over_time(window);
        let rows = METRICS
            .iter()
            .zip(&self.cells)
            .filter_map(|(spec, cell)| {
                let factor = spec.factor();
                let unit = spec.display;
                let scalar = |value: f64| Stats::Scalar { unit, value: factor.map_or(value, |f| value * f) };
                let stats = match (cell, spec.compute) {
                    (Cell::Int(column), _) => distribution(unit, column.distribution()?, factor),
                    (Cell::Real(column), _) => distribution(unit, column.distribution()?, factor),
                    (Cell::Running(value), _) => scalar((*value)? as f64),
                    (Cell::Derived, Compute::Adjusted(tag)) => {
                        let values = self.adjusted(tag)?;
                        Stats::Part { unit, values: factor.map_or(values, |f| values.scaled(f)) }
                    }
                    (Cell::Derived, Compute::OverTime(curve)) => {
                        Stats::Part { unit, values: over_time.as_ref()?.get(curve)? }
                    }
                    (Cell::Derived, Compute::AtLeast(rule)) => {
                        distribution(unit, self.at_least(rule)?, factor)
                    }
                    (Cell::Derived, Compute::NetworkRtt) => {
                        distribution(unit, constant(self.network_rtt_ns?)?, factor)
                    }
                    (Cell::Derived, Compute::NetworkAdjusted(tag)) => {
                        distribution(unit, self.without_round_trip(tag)?, factor)
                    }
                    (Cell::Derived, Compute::Derived(rule)) => {
                        scalar(rule(&context).filter(|v| v.is_finite())?)
                    }
                    _ => return None,
                };
                Some(Row { spec, stats })
            })
            .collect();
        let slos = self.slos.iter().map(|slo| slo.attainment(self.tally.ended())).collect();
        Summary {
            rows,
            tally: self.tally,
            window,
            early: self.early,
            slos,
            over_time,
            finishes: self.finishes,
            acceptance_histogram: self.acceptance_histogram.clone(),
        }
    }

    fn over_time(&self, window: Window) -> Option<OverTime> {
        let gaps = match self.cells.get(crate::table::index_of("inter_chunk_latency")?)? {
            Cell::Int(column) => Some(column),
            _ => None,
        };
        OverTime::of(&self.rows, gaps, window)
    }

    /// How late requests of a file's times were handed to the transport, behind the least late of them: p50, p90 and p99, milliseconds.
    /// AIPerf's rule; what all of them were late by is in `send_lag` alone.
    fn replay_lag(&self) -> Option<[f64; 3]> {
        let offsets = || {
            let late = |row: RequestRow| Some(i128::from(row.start_ns) - i128::from(row.scheduled_ns?));
            self.rows.iter().filter_map(late)
        };
        let least = offsets().min().filter(|_| self.is_replay)?;
        let mut column = IntColumn::on(self.disk.as_ref());
        offsets().for_each(|late| column.push((late - least) as u64));
        let lag = column.distribution().filter(|_| self.rows.is_readable())?;
        Some([lag.p50(), lag.p90(), lag.p99()].map(|ns| ns * 1e-6))
    }

    /// AIPerf's error-adjusted statistics: over the values and one infinity for each request that failed or was cancelled, with
    /// percentiles at the nearest rank. What is infinite is absent.
    fn adjusted(&self, tag: &str) -> Option<PartStats> {
        let errors = self.tally.errors() as usize;
        let cell = self.cells.get(crate::table::index_of(tag)?)?;
        let values = match cell {
            Cell::Int(column) => column.len(),
            Cell::Real(column) => column.len(),
            _ => 0,
        };
        if errors == 0 || values == 0 {
            return None;
        }
        let ranks = PERCENTILES.map(|q| nearest_rank(q, values + errors));
        let mut wanted: Vec<usize> = ranks.into_iter().filter(|r| *r < values).chain([0]).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let found = match cell {
            Cell::Int(column) => column.sorted_at(&wanted)?,
            Cell::Real(column) => column.sorted_at(&wanted)?,
            _ => return None,
        };
        let value = |rank: usize| wanted.binary_search(&rank).ok().map(|at| found[at]);
        let count = Some((values + errors) as u64);
        Some(PartStats { min: value(0), percentiles: ranks.map(value), count, ..PartStats::default() })
    }

    /// Statistics of a value of each request that was sent; `None` when all of them completed.
    fn at_least(&self, rule: fn(&RequestRow) -> Option<u64>) -> Option<crate::Distribution> {
        if self.tally.errors() == 0 {
            return None;
        }
        let mut column = IntColumn::on(self.disk.as_ref());
        self.rows.iter().filter_map(|row| rule(&row)).for_each(|v| column.push(v));
        column.distribution().filter(|_| self.rows.is_readable())
    }
}

/// Adds `counts` to `sums`, place by place.
fn add_places(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(sums.len().max(counts.len()), 0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn distribution(unit: crate::Unit, values: crate::Distribution, factor: Option<f64>) -> Stats {
    Stats::Distribution { unit, values: factor.map_or(values, |f| values.scaled(f)) }
}

/// The statistics of one value.
fn constant(value: f64) -> Option<crate::Distribution> {
    let mut column = RealColumn::default();
    column.push(value);
    column.distribution()
}

fn keep(cell: &mut Cell, value: &Value, disk: Option<&Disk>) {
    match (&mut *cell, value) {
        (Cell::Int(column), Value::Int(v)) => column.push(*v),
        (Cell::Int(column), Value::List(list)) => list.iter().for_each(|v| column.push(*v)),
        (Cell::Real(column), Value::Real(v)) => column.push(*v),
        (Cell::Int(column), Value::Real(v)) if column.is_empty() => {
            let mut real = RealColumn::on(disk);
            real.push(*v);
            *cell = Cell::Real(real);
        }
        // A rule gives one kind of value only; the table test proves it.
        _ => {}
    }
}

/// Adds to a running sum.
fn keep_sum(cell: &mut Cell, value: u64) {
    if let Cell::Running(running) = cell {
        *running = Some(folded(Fold::Sum, *running, value));
    }
}

fn folded(fold: Fold, running: Option<u64>, value: u64) -> u64 {
    match (fold, running) {
        (_, None) => value,
        (Fold::Sum, Some(r)) => r + value,
        (Fold::Min, Some(r)) => r.min(value),
        (Fold::Max, Some(r)) => r.max(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ChunkFact, TrafficFacts, WireFacts};
    use aiperf_core::usage::Usage;
    use proptest::prelude::*;

    const ALL: Capabilities = Capabilities {
        streaming: true,
        produces_tokens: true,
        tokenizes_input: true,
        reasoning: true,
        server_token_count: false,
    };
    const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_700_000_000_000_000_000 };

    /// Starts at `start_ms`, `tokens` chunks of one token 10 ms apart.
    fn request(outcome: Outcome, start_ms: u64, tokens: u64) -> Facts {
        let start_ns = start_ms * 1_000_000;
        let chunks =
            (1..=tokens).map(|i| ChunkFact { at_ns: start_ns + i * 10_000_000, answer: true }).collect();
        let usage = Usage {
            prompt_tokens: Some(55),
            completion_tokens: Some(tokens),
            total_tokens: Some(55 + tokens),
            reasoning_tokens: None,
            ..Usage::default()
        };
        Facts {
            outcome,
            start_ns,
            end_ns: start_ns + tokens * 10_000_000,
            scheduled_ns: None,
            chunks,
            isl: Some(50),
            asked_isl: Some(50),
            output_tokens: Some(tokens),
            reasoning_tokens: None,
            requested_osl: Some(10),
            usage: Some(usage),
            wire: WireFacts { dispatched_ns: Some(start_ns), ..WireFacts::default() },
            ..Facts::default()
        }
    }

    fn scalar(summary: &Summary, tag: &str) -> Option<f64> {
        match summary.get(tag)? {
            Stats::Scalar { value, .. } => Some(*value),
            Stats::Distribution { .. } | Stats::Part { .. } => None,
        }
    }

    #[test]
    fn a_worked_run() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        recorder.record(&request(Outcome::Completed, 100, 10));
        recorder.record(&request(Outcome::Completed, 150, 5));
        recorder.record(&request(Outcome::Failed, 160, 3));
        recorder.record(&request(Outcome::Cancelled, 170, 0));
        recorder.set_scheduled(6);
        recorder.set_unsent(1);
        let summary = recorder.summarise(Window::new(0, 500_000_000));

        assert!(summary.tally.adds_up());
        assert_eq!((summary.tally.sent, summary.tally.lost), (5, 1));
        for (tag, expected) in [
            ("request_count", 2.0),
            ("error_request_count", 2.0),
            ("completed_request_count", 4.0),
            ("request_error_rate", 50.0),
            ("scheduled_request_count", 6.0),
            ("sent_request_count", 5.0),
            ("unsent_request_count", 1.0),
            ("cancelled_request_count", 1.0),
            ("lost_request_count", 1.0),
            ("total_isl", 100.0),
            ("total_osl", 15.0),
            ("total_output_tokens", 15.0),
            ("total_error_isl", 100.0),
            ("osl_mismatch_count", 1.0),
            ("usage_discrepancy_count", 0.0),
            ("total_usage_prompt_tokens", 110.0),
            ("total_usage_completion_tokens", 15.0),
            ("total_usage_total_tokens", 125.0),
            ("request_throughput", 4.0),
            ("output_token_throughput", 30.0),
            ("input_token_throughput", 200.0),
            ("total_token_throughput", 230.0),
            ("benchmark_duration", 0.1),
            ("min_request_timestamp", 1_700_000_000_100_000_000.0),
            ("max_response_timestamp", 1_700_000_000_200_000_000.0),
        ] {
            let value = scalar(&summary, tag).expect(tag);
            assert!((value - expected).abs() <= 1e-9 * expected, "{tag}: {value} is not {expected}");
        }
        for tag in [
            "total_reasoning_tokens",
            "total_usage_prompt_cache_read_tokens",
            "overall_usage_prompt_cache_read_pct",
        ] {
            assert!(summary.get(tag).is_none(), "{tag} was not measured");
        }
        let Some(Stats::Distribution { unit, values }) = summary.get("request_latency") else {
            panic!("request_latency is a distribution")
        };
        assert_eq!((unit.name(), values.count, values.max, values.min), ("ms", 2, 100.0, 50.0));
        assert_eq!(summary.get("inter_chunk_latency").and_then(|s| s.get("count")), Some(13.0));
        assert_eq!(summary.get("error_isl").and_then(|s| s.get("sum")), Some(100.0));
        assert_eq!(summary.early, EarlyEnds { compared: 2, early: 1 });
    }

    #[test]
    fn failed_requests_run_error_metrics_and_those_of_every_outcome() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        for outcome in [Outcome::Failed, Outcome::Cancelled] {
            let values = recorder.record(&request(outcome, 0, 5));
            assert_eq!(
                values.iter().map(|(spec, _)| spec.tag).collect::<Vec<_>>(),
                ["credit_to_start_latency", "effective_latency", "error_isl"]
            );
        }
        for outcome in [Outcome::Lost, Outcome::Unsent] {
            assert!(recorder.record(&request(outcome, 0, 5)).is_empty());
        }
        let completed = recorder.record(&request(Outcome::Completed, 0, 5));
        assert_eq!(completed.get("error_isl"), None);
        assert_eq!(completed.get("output_sequence_length"), Some(&Value::Int(5)));
        assert_eq!(completed.get("inter_chunk_latency"), Some(&Value::List(vec![10_000_000; 4])));
    }

    #[test]
    fn a_run_that_failed_whole_still_counts() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        recorder.record(&request(Outcome::Failed, 0, 0));
        let summary = recorder.summarise(Window::new(0, 1_000_000_000));
        assert_eq!(scalar(&summary, "request_count"), Some(0.0));
        assert_eq!(scalar(&summary, "request_throughput"), Some(0.0));
        assert_eq!(scalar(&summary, "request_error_rate"), Some(100.0));
        assert!(summary.get("benchmark_duration").is_none());
        assert!(summary.get("output_token_throughput").is_none());
    }

    #[test]
    fn good_requests_are_counted_and_failed_ones_are_none() {
        let slo = |tag: &str, threshold| SloPlan { tag: tag.into(), threshold };
        // Answers of 10, 5 and 20 tokens end after 100, 50 and 200 ms.
        let slos = [slo("request_latency", 150.0), slo("output_sequence_length", 8.0)];
        let mut recorder = Recorder::new(ALL, ANCHOR).with_slos(&slos);
        let good: Vec<Option<Value>> = [10, 5, 20]
            .map(|tokens| recorder.record(&request(Outcome::Completed, 0, tokens)))
            .iter()
            .map(|values| values.get("good_request_count").cloned())
            .collect();
        assert_eq!(good, [Some(Value::Int(1)), Some(Value::Int(0)), Some(Value::Int(0))]);
        let mut second = Recorder::new(ALL, ANCHOR).with_slos(&slos);
        assert!(second.record(&request(Outcome::Failed, 0, 10)).get("good_request_count").is_none());
        recorder.merge(second);
        let summary = recorder.summarise(Window::new(0, 500_000_000));
        for (tag, expected) in
            [("good_request_count", 1.0), ("goodput", 2.0), ("good_request_fraction", 0.25)]
        {
            assert_eq!(scalar(&summary, tag), Some(expected), "{tag}");
        }
        let met: Vec<(u64, u64)> = summary.slos.iter().map(|slo| (slo.met, slo.requests)).collect();
        assert_eq!(met, [(2, 4), (2, 4)]);
    }

    #[test]
    fn of_failed_requests_alone_none_is_good() {
        let slos = [SloPlan { tag: "request_latency".into(), threshold: 150.0 }];
        let mut recorder = Recorder::new(ALL, ANCHOR).with_slos(&slos);
        recorder.record(&request(Outcome::Failed, 0, 0));
        let summary = recorder.summarise(Window::new(0, 500_000_000));
        assert_eq!(scalar(&summary, "good_request_count"), Some(0.0));
        assert_eq!(scalar(&summary, "goodput"), Some(0.0));
        let none = Recorder::new(ALL, ANCHOR).summarise(Window::default());
        assert!(none.get("good_request_count").is_none(), "without objectives there is none");
    }

    #[test]
    fn the_lag_of_a_replay_is_behind_its_least_late_request() {
        let of = |is_replay, late_ms: &[u64]| {
            let mut recorder = Recorder::new(ALL, ANCHOR).of_replay(is_replay);
            for late in late_ms {
                let facts = request(Outcome::Completed, 1000 + late, 3);
                recorder.record(&Facts { scheduled_ns: Some(1_000_000_000), ..facts });
            }
            recorder.summarise(Window::new(0, 3_000_000_000))
        };
        let late = [40, 10, 30, 20, 1010];
        let summary = of(true, &late);
        // 0, 10, 20, 30 and 1000 ms behind: ranks 2, 3.6 and 3.96.
        for (tag, expected) in [
            ("replay_sched_lag_p50", 20.0),
            ("replay_sched_lag_p90", 30.0 + 0.6 * 970.0),
            ("replay_sched_lag_p99", 30.0 + 0.96 * 970.0),
            ("replay_sched_degraded", 1.0),
        ] {
            let found = scalar(&summary, tag).expect(tag);
            assert!((found - expected).abs() < 1e-9, "{tag}: {found}");
        }
        assert_eq!(scalar(&of(true, &late[..4]), "replay_sched_degraded"), Some(0.0));
        assert_eq!(scalar(&of(false, &late), "replay_sched_lag_p50"), None);
        assert_eq!(scalar(&of(true, &[]), "replay_sched_degraded"), None);
    }

    #[test]
    fn failures_are_at_the_far_end_of_adjusted_statistics() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        for tokens in 1..=10 {
            recorder.record(&request(Outcome::Completed, 0, tokens));
        }
        assert!(recorder.summarise(Window::default()).get("adj_request_latency").is_none());
        recorder.record(&request(Outcome::Failed, 0, 7));
        let summary = recorder.summarise(Window::new(0, 1_000_000_000));
        let adjusted = summary.get("adj_request_latency").expect("a failure");
        // numpy.percentile([10, 20 … 100, inf], q, method="nearest"): ranks 0.1, 0.5, 1, 2.5, 5, 7.5, 9, 9.5, 9.9.
        for (name, expected) in [
            ("p1", Some(10.0)),
            ("p5", Some(10.0)),
            ("p10", Some(20.0)),
            ("p25", Some(30.0)),
            ("p50", Some(60.0)),
            ("p75", Some(90.0)),
            ("p90", Some(100.0)),
            ("p95", None),
            ("p99", None),
            ("min", Some(10.0)),
            ("count", Some(11.0)),
            ("avg", None),
            ("max", None),
            ("std", None),
            ("sum", None),
        ] {
            assert_eq!(adjusted.get(name).map(f64::round), expected, "{name}");
        }
        // A failure after 70 ms: the answer would have taken that at least.
        let least = summary.get("request_latency_at_least").expect("a failure");
        assert_eq!((least.get("count"), least.get("max")), (Some(11.0), Some(100.0)));
        assert!((least.avg().expect("a mean") - 620.0 / 11.0).abs() < 1e-9);
        let first = summary.get("time_to_first_token_at_least").expect("a failure");
        assert_eq!((first.get("count"), first.get("max")), (Some(11.0), Some(70.0)));
    }

    #[test]
    fn nothing_at_all_is_no_rate_and_no_share() {
        let summary = Recorder::new(ALL, ANCHOR).summarise(Window::default());
        let tags: Vec<&str> = summary.rows.iter().map(|row| row.spec.tag).collect();
        assert_eq!(
            tags,
            [
                "scheduled_request_count",
                "sent_request_count",
                "unsent_request_count",
                "failed_request_count",
                "cancelled_request_count",
                "lost_request_count"
            ]
        );
    }

    #[test]
    fn without_a_window_rates_divide_by_the_duration() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        recorder.record(&request(Outcome::Completed, 0, 10));
        let summary = recorder.summarise(Window::default());
        assert!((scalar(&summary, "request_throughput").expect("a rate") - 10.0).abs() < 1e-9);
    }

    #[test]
    fn several_phases_are_one_with_the_time_of_all() {
        let mut first = Recorder::new(ALL, ANCHOR);
        first.record(&request(Outcome::Completed, 100, 10));
        let mut second = Recorder::new(ALL, ANCHOR);
        second.record(&request(Outcome::Completed, 5_000, 10));
        second.record(&request(Outcome::Failed, 5_100, 0));
        let phases = [Window::new(0, 500_000_000), Window::new(5_000_000_000, 6_500_000_000)];
        assert_eq!(second.distribution("request_latency").map(|d| (d.count, d.max)), Some((1, 1e8)));
        assert_eq!(second.distribution("request_count"), None, "no column");
        first.merge(second);
        let summary = first.summarise(Window::pooled(&phases));
        // Two answers, a failure, 20 tokens; 0.5 s + 1.5 s.
        for (tag, expected) in [
            ("request_count", 2.0),
            ("error_request_count", 1.0),
            ("request_throughput", 1.0),
            ("output_token_throughput", 10.0),
            ("benchmark_duration", 2.0),
        ] {
            let value = scalar(&summary, tag).expect(tag);
            assert!((value - expected).abs() <= 1e-9 * expected, "{tag}: {value} is not {expected}");
        }
    }

    #[test]
    fn capabilities_decide_what_exists() {
        let tags = |cap: Capabilities| -> Vec<&'static str> {
            let mut facts = request(Outcome::Completed, 0, 5);
            facts.scheduled_ns = Some(0);
            facts.reasoning_tokens = Some(1);
            Recorder::new(cap, ANCHOR).record(&facts).iter().map(|(spec, _)| spec.tag).collect()
        };
        assert!(tags(ALL).contains(&"time_to_first_output_token"));
        let plain = tags(Capabilities { streaming: false, reasoning: false, ..ALL });
        assert!(plain.contains(&"request_latency") && plain.contains(&"e2e_output_token_throughput"));
        assert!(plain.contains(&"scheduled_latency"));
        for tag in
            ["time_to_first_token", "inter_chunk_latency", "reasoning_token_count", "inter_token_latency"]
        {
            assert!(!plain.contains(&tag), "{tag}");
        }
        let server = tags(Capabilities { server_token_count: true, ..ALL });
        assert!(!server.iter().any(|tag| tag.starts_with("usage_") && tag.ends_with("_diff_pct")));
        let blind = tags(Capabilities { tokenizes_input: false, produces_tokens: false, ..ALL });
        assert!(!blind.iter().any(|tag| tag.contains("token") && !tag.contains("cache")), "{blind:?}");
    }

    #[test]
    fn latencies_are_told_without_a_round_trip_when_one_is_known() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        // Latencies of 100, 50 and 10 ms; first tokens at 10 ms.
        for tokens in [10, 5, 1] {
            recorder.record(&request(Outcome::Completed, 0, tokens));
        }
        assert!(recorder.summarise(Window::default()).get("network_adjusted_request_latency").is_none());
        recorder.set_network_rtt(12_500_000.0);
        let summary = recorder.summarise(Window::default());
        let stat = |tag: &str, name: &str| summary.get(tag).and_then(|s| s.get(name)).expect(tag);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        near(stat("network_adjusted_request_latency", "max"), 87.5);
        near(stat("network_adjusted_request_latency", "p50"), 37.5);
        near(stat("network_adjusted_request_latency", "min"), 0.0);
        near(stat("network_adjusted_request_latency", "sum"), 125.0);
        near(stat("network_adjusted_time_to_first_token", "max"), 0.0);
        for name in ["avg", "min", "p1", "p99", "max", "sum"] {
            near(stat("network_rtt", name), 12.5);
        }
        near(stat("network_rtt", "std"), 0.0);
        near(stat("request_latency", "max"), 100.0);
    }

    #[test]
    fn memory_per_request_is_what_the_crate_says() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        let mut facts = request(Outcome::Completed, 0, 1);
        facts.scheduled_ns = Some(0);
        facts.wire = WireFacts {
            dispatched_ns: Some(0),
            send_start_ns: Some(0),
            send_end_ns: Some(0),
            headers_ns: Some(0),
            first_byte_ns: Some(0),
            last_byte_ns: Some(0),
            blocked_ns: Some(0),
            dns_ns: Some(0),
            tcp_ns: Some(0),
            tls_ns: Some(0),
            reused: Some(false),
            traffic: Some(TrafficFacts::default()),
            connecting_ns: Some(0),
            read_lag_ns: Some(0),
        };
        facts.first_event_ns = Some(0);
        facts.usage = facts.usage.map(|u| Usage { reasoning_tokens: Some(1), cached_tokens: Some(1), ..u });
        recorder.record(&facts);
        let without_gaps = recorder.bytes();
        facts.chunks = (1..=101).map(|i| ChunkFact { at_ns: i * 10_000_000, answer: true }).collect();
        facts.output_tokens = Some(101);
        recorder.record(&facts);
        let with_gaps = recorder.bytes() - without_gaps;
        assert_eq!(with_gaps, 47 * 4 + 9 * 8 + 64 + 100 * 4);
    }

    fn stream() -> impl Strategy<Value = Vec<Facts>> {
        let outcome = prop_oneof![
            6 => Just(Outcome::Completed),
            1 => Just(Outcome::Failed),
            1 => Just(Outcome::Cancelled),
            1 => Just(Outcome::Lost),
            1 => Just(Outcome::Unsent)
        ];
        proptest::collection::vec(
            (outcome, 0u64..1000, 0u64..20).prop_map(|(o, s, n)| request(o, s, n)),
            0..40,
        )
    }

    proptest! {
        #[test]
        fn adjusted_percentiles_are_those_of_a_sort_with_infinities(
            tokens in proptest::collection::vec(1u64..30, 1..40),
            errors in 1usize..20,
        ) {
            let mut recorder = Recorder::new(ALL, ANCHOR);
            for n in &tokens {
                recorder.record(&request(Outcome::Completed, 0, *n));
            }
            for _ in 0..errors {
                recorder.record(&request(Outcome::Cancelled, 0, 3));
            }
            let mut sorted: Vec<f64> = tokens.iter().map(|n| *n as f64 * 10.0).collect();
            sorted.sort_by(f64::total_cmp);
            sorted.extend(std::iter::repeat_n(f64::INFINITY, errors));
            let summary = recorder.summarise(Window::default());
            let adjusted = summary.get("adj_request_latency").expect("errors");
            for q in PERCENTILES {
                let at = (sorted.len() - 1) as f64 * (q / 100.0);
                // The nearest; of two that are as near, the even one.
                let nearest = (0..sorted.len())
                    .min_by(|a, b| {
                        let off = |i: &usize| (*i as f64 - at).abs();
                        off(a).total_cmp(&off(b)).then((a % 2).cmp(&(b % 2)))
                    })
                    .expect("values");
                let expected = Some(sorted[nearest]).filter(|v| v.is_finite());
                prop_assert_eq!(adjusted.get(&format!("p{q}")).map(f64::round), expected, "p{}", q);
            }
        }

        #[test]
        fn no_round_trip_makes_a_latency_negative(all in stream(), rtt_ms in 0_u64..300) {
            let disk = Disk::new(tempfile::tempfile).sized(2, 3);
            let mut recorder = Recorder::new(ALL, ANCHOR).on(&disk);
            for facts in &all {
                recorder.record(facts);
            }
            recorder.set_network_rtt((rtt_ms * 1_000_000) as f64);
            let mut slow: Vec<f64> = all
                .iter()
                .filter(|f| f.outcome == Outcome::Completed)
                .filter_map(formulas::request_latency)
                .map(|ns| (ns / 1_000_000).saturating_sub(rtt_ms) as f64)
                .collect();
            slow.sort_by(f64::total_cmp);
            let summary = recorder.summarise(Window::default());
            let found = summary.get("network_adjusted_request_latency");
            prop_assert_eq!(found.is_some(), !slow.is_empty());
            for (name, expected) in [("min", slow.first()), ("max", slow.last())] {
                let found = found.and_then(|s| s.get(name)).unwrap_or_default();
                prop_assert!((found - expected.copied().unwrap_or_default()).abs() < 1e-6);
            }
        }

        #[test]
        fn several_readers_are_as_good_as_one(a in stream(), b in stream()) {
            let window = Window::new(0, 2_000_000_000);
            // What each of the two keeps is mostly on disk.
            let disk = Disk::new(tempfile::tempfile).sized(2, 3);
            let [mut one, mut first, mut second] =
                [None, Some(&disk), Some(&disk)].map(|disk| match disk {
                    Some(disk) => Recorder::new(ALL, ANCHOR).on(disk),
                    None => Recorder::new(ALL, ANCHOR),
                });
            for facts in a.iter().chain(&b) {
                one.record(facts);
            }
            for facts in &a {
                first.record(facts);
            }
            for facts in &b {
                second.record(facts);
            }
            first.merge(second);
            let (one, merged) = (one.summarise(window), first.summarise(window));
            prop_assert_eq!(one.tally, merged.tally);
            prop_assert!(one.tally.adds_up());
            prop_assert_eq!(one.early, merged.early);
            prop_assert_eq!(one.rows.len(), merged.rows.len());
            for (x, y) in one.rows.iter().zip(&merged.rows) {
                prop_assert_eq!(x.spec.tag, y.spec.tag);
                prop_assert_eq!(x.stats, y.stats);
            }
        }
    }
}
