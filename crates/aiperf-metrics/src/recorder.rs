//! Takes finished requests in, keeps their values, gives statistics out.

mod analysis;
mod slices;
#[cfg(test)]
mod slices_tests;

use aiperf_core::outcome::{Finish, Outcome};
use aiperf_core::plan::SloPlan;
use aiperf_core::time::ClockAnchor;

use crate::cache::CacheLedger;
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
    cache: CacheLedger,
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
            cache: CacheLedger::default(),
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
            self.cache.add(facts.usage.as_ref(), facts.cache.as_ref());
            let steps = facts.spec_decode.as_ref().map_or(&[][..], |s| &s.histogram);
            add_places(&mut self.acceptance_histogram, steps);
        }
        if let Some(early) = formulas::ended_early(facts).filter(|_| !errors) {
            self.early.compared += 1;
            self.early.early += u64::from(early);
            self.early.beyond += u64::from(formulas::went_beyond(facts) == Some(true));
            self.early.stopped += u64::from(early && facts.finish == Finish::Stop);
        }
        let mut values = Vec::with_capacity(if errors { 8 } else { 64 });
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
        self.early.stopped += other.early.stopped;
        self.early.beyond += other.early.beyond;
        for (ours, theirs) in self.slos.iter_mut().zip(&other.slos) {
            ours.met += theirs.met;
        }
        self.finishes.merge(&other.finishes);
        self.cache.merge(&other.cache);
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
            cache: self.cache,
            acceptance_histogram: self.acceptance_histogram.clone(),
            is_of_records: false,
        }
    }

    fn over_time(&self, window: Window) -> Option<OverTime> {
        let gaps = match self.cells.get(crate::table::index_of("inter_chunk_latency")?)? {
            Cell::Int(column) => Some(column),
            _ => None,
        };
        OverTime::of(&self.rows, gaps, window)
    }

    /// How late completed requests of a file's times were handed to the transport, behind the least late of them: p50, p90 and p99,
    /// milliseconds. AIPerf's rule; what all of them were late by is in `send_lag` alone.
    fn replay_lag(&self) -> Option<[f64; 3]> {
        let offsets = || {
            let late = |row: RequestRow| Some(i128::from(row.start_ns) - i128::from(row.scheduled_ns?));
            self.rows.iter().filter(|row| row.outcome == Outcome::Completed).filter_map(late)
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
mod tests;
