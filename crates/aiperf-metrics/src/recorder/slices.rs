//! A phase cut into slices of time.
//!
//! Two views of each slice. Under the names of the summary what AIPerf 0.13 does: a request belongs as a whole to the slice it was
//! sent in, every metric is computed again on the requests of a slice, rates are divided by its length. On a flat load that tells of a falling rate:
//! the first slice has the requests in flight at its end, too. So beside it, under names of their own ([`SLICED`]), work is where it happened: a
//! completion at its end, tokens at their chunk, a latency at its arrival.
//!
//! The grid begins with the first request sent, as AIPerf's does: the phase itself may begin long before anything happens, and records
//! alone do not tell when. That instant is known for sure only when all requests are back, so slices are made then, of the columns of the
//! recorder: [`Trace`] keeps which value is of which request (bits, of every request, on disk when they are many), and the columns are gone
//! through for as many slices at once as memory allows.

use aiperf_core::outcome::Outcome;
use aiperf_core::plan::ArtifactsPlan;

use super::analysis::Extent;
use super::{Recorder, folded, keep};
use crate::column::IntColumn;
use crate::derived::Cell;
use crate::intervals::shares;
use crate::latencies;
use crate::rows::{RequestRow, RequestRows};
use crate::spec::{Compute, Fold, Value};
use crate::steady::Busy;
use crate::store::{Disk, Store};
use crate::summary::{Row, Stats, Summary, Window};
use crate::table::METRICS;
use crate::tally::Ledger;
use crate::unit::Unit;

/// Most slices of one run.
pub const MAX_SLICES: u64 = ArtifactsPlan::MOST_SLICES;
/// Values of the slices that are made at once, and how many slices these may be: some 200 MB at most.
const VALUES: u64 = 16 << 20;
const AT_ONCE: usize = 2048;
/// Values of a request beside its gaps, about.
const PER_REQUEST: u64 = 40;
/// What a slice does not know of itself.
const UNKNOWN: [&str; 3] = ["scheduled_request_count", "unsent_request_count", "lost_request_count"];

/// A result that is there for slices alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlicedSpec {
    /// Key in files.
    pub tag: &'static str,
    /// Name in tables.
    pub header: &'static str,
    /// Unit it is written in.
    pub unit: Unit,
    /// The rule in one sentence.
    pub formula: &'static str,
}

/// Results that say what happened in a slice, in the order of files.
pub static SLICED: [SlicedSpec; 6] = [
    SlicedSpec {
        tag: "sliced_request_count",
        header: "Sliced Request Count",
        unit: Unit::Requests,
        formula: "Requests that completed in the slice.",
    },
    SlicedSpec {
        tag: "sliced_request_throughput",
        header: "Sliced Request Throughput",
        unit: Unit::RequestsPerSecond,
        formula: "sliced_request_count ÷ length of the slice.",
    },
    SlicedSpec {
        tag: "sliced_output_token_throughput",
        header: "Sliced Output Token Throughput",
        unit: Unit::TokensPerSecond,
        formula: "Output tokens whose chunk came in the slice ÷ its length; the tokens of an answer are spread evenly over its chunks.",
    },
    SlicedSpec {
        tag: "sliced_input_token_throughput",
        header: "Sliced Input Token Throughput",
        unit: Unit::TokensPerSecond,
        formula: "Prompt tokens of completed requests whose first content came in the slice ÷ its length.",
    },
    SlicedSpec {
        tag: "sliced_concurrency",
        header: "Sliced Concurrency",
        unit: Unit::Requests,
        formula: "Requests in flight, averaged over the slice.",
    },
    SlicedSpec {
        tag: "sliced_request_latency",
        header: "Sliced Request Latency",
        unit: Unit::Milliseconds,
        formula: "Last content − arrival, of completed requests that arrived in the slice: at their scheduled time where there is a schedule, \
                  else when they were sent.",
    },
];

/// One slice of time.
#[derive(Debug, Clone)]
pub struct Slice {
    /// Its beginning, monotonic nanoseconds.
    pub start_ns: u64,
    /// Its end, monotonic nanoseconds: of the last one the end of the last request.
    pub end_ns: u64,
    /// It has its whole length.
    pub is_complete: bool,
    /// Every metric of the requests that were sent in it; `None` when none was.
    pub summary: Option<Summary>,
    /// What happened in it, in the order of [`SLICED`].
    pub sliced: Vec<(&'static SlicedSpec, Stats)>,
}

/// A slice this short makes too many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManySlices {
    /// How many there would be.
    pub slices: u64,
}

/// Which values are of which request, beside the columns.
#[derive(Debug, Clone)]
pub(super) struct Trace {
    /// A bit for each metric that a request gave a value to.
    masks: Store<u64>,
    mask: Vec<u64>,
    /// What requests gave to the metrics that the recorder only adds up.
    running: Vec<IntColumn>,
    /// Metrics that have several values for a request, and how many: in order of requests, then of metrics.
    is_list: Vec<bool>,
    lengths: IntColumn,
}

impl Trace {
    pub(super) fn on(disk: Option<&Disk>) -> Self {
        Self {
            masks: Store::on(disk.cloned()),
            mask: vec![0; METRICS.len().div_ceil(64)],
            running: vec![IntColumn::on(disk); METRICS.len()],
            is_list: vec![false; METRICS.len()],
            lengths: IntColumn::on(disk),
        }
    }

    pub(super) fn begin(&mut self) {
        self.mask.fill(0);
    }

    pub(super) fn note(&mut self, metric: usize, value: &Value) {
        match value {
            // No column keeps it.
            Value::Real(v) if !v.is_finite() => return,
            Value::Int(_) | Value::Real(_) => {}
            Value::List(list) => {
                self.is_list[metric] = true;
                self.lengths.push(list.len() as u64);
            }
        }
        self.mask[metric / 64] |= 1 << (metric % 64);
    }

    pub(super) fn note_running(&mut self, metric: usize, value: u64) {
        self.running[metric].push(value);
        self.mask[metric / 64] |= 1 << (metric % 64);
    }

    pub(super) fn end(&mut self) {
        self.mask.iter().for_each(|word| self.masks.push(*word));
    }

    pub(super) fn append(&mut self, other: Self) {
        self.masks.append(other.masks);
        self.lengths.append(other.lengths);
        self.running.iter_mut().zip(other.running).for_each(|(ours, theirs)| ours.append(theirs));
        self.is_list.iter_mut().zip(other.is_list).for_each(|(ours, theirs)| *ours |= theirs);
    }
}

/// What happened in each slice.
#[derive(Debug, Clone, Default)]
struct Work {
    /// Requests sent in it, and their values.
    sent: u64,
    values: u64,
    completed: u64,
    output: u64,
    input: u64,
    arrived: u64,
    busy_ns: u64,
}

impl Work {
    /// Whether there is anything to tell.
    fn is_any(&self) -> bool {
        self.sent + self.completed + self.output + self.input + self.arrived + self.busy_ns > 0
    }
}

/// See the module.
#[derive(Debug)]
pub struct Slices<'a> {
    recorder: &'a Recorder,
    trace: &'a Trace,
    extent: Extent,
    width_ns: u64,
    work: Vec<Work>,
    has_output: bool,
    has_input: bool,
}

/// A request's arrival: when it was wanted, or sent.
fn arrival(row: &RequestRow) -> u64 {
    row.scheduled_ns.unwrap_or(row.start_ns)
}

impl Recorder {
    /// Its slices of `width_ns`; `None` without a request, where it was not [`traced`](Self::traced), and when rows cannot be read back.
    pub fn slices(&self, width_ns: u64) -> Result<Option<Slices<'_>>, TooManySlices> {
        let width_ns = width_ns.max(1);
        let (Some(extent), Some(trace)) = (self.extent(), &self.trace) else { return Ok(None) };
        let slices = (extent.end_ns - extent.start_ns) / width_ns + 1;
        if slices > MAX_SLICES {
            return Err(TooManySlices { slices });
        }
        let mut all = Slices {
            recorder: self,
            trace,
            extent,
            width_ns,
            work: vec![Work::default(); slices as usize],
            has_output: false,
            has_input: false,
        };
        Ok(all.count().then_some(all))
    }
}

impl Slices<'_> {
    /// Where a request that was sent then belongs.
    fn of_start(&self, at_ns: u64) -> usize {
        ((at_ns.saturating_sub(self.extent.start_ns) / self.width_ns) as usize).min(self.work.len() - 1)
    }

    /// Where something happened: what did at the very end, in the slice that ends there.
    fn of_event(&self, at_ns: u64) -> usize {
        self.of_start(at_ns.min(self.extent.end_ns.saturating_sub(1)))
    }

    /// Fills in what happened when; whether all of it could be read.
    fn count(&mut self) -> bool {
        let mut work = std::mem::take(&mut self.work);
        let bins = work.len();
        self.work = vec![Work::default(); bins];
        let mut busy = Busy::new(self.extent.start_ns, self.width_ns, bins);
        let (mut has_output, mut has_input) = (false, false);
        let is_whole = self.recorder.walk(|row, chunks| {
            busy.add(row.start_ns, row.end_ns.max(row.start_ns));
            let own = &mut work[self.of_start(row.start_ns)];
            own.sent += 1;
            own.values += PER_REQUEST + u64::from(row.chunks);
            if row.outcome != Outcome::Completed {
                return;
            }
            work[self.of_event(row.end_ns)].completed += 1;
            work[self.of_event(arrival(row))].arrived += 1;
            has_output |= row.osl.is_some();
            for (at_ns, tokens) in shares(row, chunks) {
                work[self.of_event(at_ns)].output += tokens;
            }
            if let (Some(tokens), Some(first)) = (row.isl, row.first_ns) {
                has_input = true;
                work[self.of_event(first)].input += u64::from(tokens);
            }
        });
        work.iter_mut().zip(busy.times()).for_each(|(work, ns)| work.busy_ns = ns);
        (self.work, self.has_output, self.has_input) = (work, has_output, has_input);
        is_whole
    }

    /// Gives one slice after the other, those in which nothing was sent, in flight or done left out. Returns whether all values could be read.
    pub fn for_each<E>(&self, mut give: impl FnMut(Slice) -> Result<(), E>) -> Result<bool, E> {
        let mut next = 0;
        while next < self.work.len() {
            let (from, mut values) = (next, 0);
            while next < self.work.len() && next - from < AT_ONCE && (values < VALUES || next == from) {
                values += self.work[next].values;
                next += 1;
            }
            let Some(parts) = self.parts(from, next) else { return Ok(false) };
            for (at, part) in (from..next).zip(parts) {
                if self.work[at].is_any() {
                    give(self.slice(at, part))?;
                }
            }
        }
        Ok(true)
    }

    /// Goes through the columns for the slices `from..to`.
    fn parts(&self, from: usize, to: usize) -> Option<Vec<Part>> {
        let (recorder, trace) = (self.recorder, self.trace);
        let mut parts: Vec<Part> = (from..to).map(|_| Part::of(recorder)).collect();
        let mut sources: Vec<Source<'_>> = recorder
            .cells
            .iter()
            .zip(&trace.running)
            .map(|(cell, running)| Source::of(cell, running))
            .collect();
        let mut masks = trace.masks.iter();
        let mut lengths = trace.lengths.iter();
        let inside = |at: usize| (from..to).contains(&at).then(|| at - from);
        for row in recorder.rows.iter() {
            let part = inside(self.of_start(row.start_ns));
            for first in (0..METRICS.len()).step_by(64) {
                let mut word = masks.next()?;
                while word != 0 {
                    let at = first + word.trailing_zeros() as usize;
                    word &= word - 1;
                    let n = if trace.is_list[at] { lengths.next()? } else { 1 };
                    match part {
                        Some(part) => sources[at].give(n, at, &mut parts[part].recorder),
                        None => sources[at].skip(n),
                    }
                }
            }
            if let Some(part) = part {
                parts[part].recorder.rows.push(&row);
                let ledger = &mut parts[part].recorder.ledger;
                match row.outcome {
                    Outcome::Completed => ledger.completed += 1,
                    Outcome::Failed => ledger.failed += 1,
                    _ => ledger.cancelled += 1,
                }
            }
            let arrived = arrival(&row);
            if row.outcome == Outcome::Completed
                && let Some(part) = inside(self.of_event(arrived))
                && let Some(ns) = row.last_ns.and_then(|last| last.checked_sub(arrived))
            {
                parts[part].latency.push(ns);
            }
        }
        (recorder.rows.is_readable() && trace.masks.is_readable()).then_some(parts)
    }

    fn slice(&self, at: usize, part: Part) -> Slice {
        let start_ns = self.extent.start_ns + at as u64 * self.width_ns;
        let whole_end = start_ns + self.width_ns;
        let end_ns = whole_end.min(self.extent.end_ns);
        let work = &self.work[at];
        let Part { mut recorder, latency } = part;
        recorder.tally = recorder.ledger.tally();
        let summary = (work.sent > 0).then(|| {
            let mut summary = recorder.summarise(Window::new(start_ns, end_ns));
            // Load over time is not that of the requests of a slice alone.
            let is_own = |row: &Row| !matches!(row.spec.compute, Compute::OverTime(_));
            summary.rows.retain(|row| is_own(row) && !UNKNOWN.contains(&row.spec.tag));
            summary
        });
        let seconds = (end_ns - start_ns) as f64 * 1e-9;
        let per_second = |amount: u64| amount as f64 / seconds;
        let values = [
            Some(work.completed as f64),
            Some(per_second(work.completed)),
            self.has_output.then(|| per_second(work.output)),
            self.has_input.then(|| per_second(work.input)),
            Some(work.busy_ns as f64 * 1e-9 / seconds),
        ];
        let scalars = SLICED.iter().zip(values).filter_map(|(spec, value)| {
            Some((spec, Stats::Scalar { unit: spec.unit, value: value.filter(|v| v.is_finite())? }))
        });
        let latency = latency.distribution().and_then(|values| latencies::stats("request_latency", values));
        let sliced = scalars.chain(latency.map(|stats| (&SLICED[5], stats))).collect();
        Slice { start_ns, end_ns, is_complete: whole_end <= self.extent.end_ns, summary, sliced }
    }
}

/// A slice that is being made.
struct Part {
    recorder: Recorder,
    latency: IntColumn,
}

impl Part {
    fn of(whole: &Recorder) -> Self {
        let disk = whole.disk.as_ref();
        let cells = whole.cells.iter().map(|cell| match cell {
            Cell::Off => Cell::Off,
            Cell::Int(_) | Cell::Real(_) => Cell::Int(IntColumn::on(disk)),
            Cell::Running(_) => Cell::Running(None),
            Cell::Derived => Cell::Derived,
        });
        let recorder = Recorder {
            cells: cells.collect(),
            disk: whole.disk.clone(),
            rows: RequestRows::on(disk),
            ledger: Ledger::default(),
            network_rtt_ns: whole.network_rtt_ns,
            ..Recorder::bare(whole.anchor)
        };
        Self { recorder, latency: IntColumn::on(disk) }
    }
}

/// Values of a metric, one request after the other.
enum Source<'a> {
    Off,
    Int(Box<dyn Iterator<Item = u64> + 'a>),
    Real(Box<dyn Iterator<Item = f64> + 'a>),
    Running(Box<dyn Iterator<Item = u64> + 'a>),
}

impl<'a> Source<'a> {
    fn of(cell: &'a Cell, running: &'a IntColumn) -> Self {
        match cell {
            Cell::Int(column) => Self::Int(Box::new(column.iter())),
            Cell::Real(column) => Self::Real(Box::new(column.iter())),
            Cell::Running(_) => Self::Running(Box::new(running.iter())),
            Cell::Off | Cell::Derived => Self::Off,
        }
    }

    fn skip(&mut self, n: u64) {
        let Some(last) = n.checked_sub(1) else { return };
        match self {
            Self::Off => {}
            Self::Int(values) | Self::Running(values) => {
                values.nth(last as usize);
            }
            Self::Real(values) => {
                values.nth(last as usize);
            }
        }
    }

    fn give(&mut self, n: u64, metric: usize, into: &mut Recorder) {
        for _ in 0..n {
            let value = match self {
                Self::Off => None,
                Self::Int(values) => values.next().map(Value::Int),
                Self::Real(values) => values.next().map(Value::Real),
                Self::Running(values) => {
                    let fold = match METRICS[metric].compute {
                        Compute::Aggregate(fold, _) => fold,
                        _ => Fold::Sum,
                    };
                    if let (Cell::Running(running), Some(value)) = (&mut into.cells[metric], values.next()) {
                        *running = Some(folded(fold, *running, value));
                    }
                    None
                }
            };
            if let Some(value) = value {
                keep(&mut into.cells[metric], &value, into.disk.as_ref());
            }
        }
    }
}
