//! Takes finished requests in, keeps their values, gives statistics out.

use aiperf_core::outcome::Outcome;
use aiperf_core::time::ClockAnchor;

use crate::column::{IntColumn, RealColumn};
use crate::derived::{Cell, Context};
use crate::facts::{Capabilities, Facts};
use crate::formulas;
use crate::spec::{Compute, Flags, Fold, MetricSpec, Value};
use crate::summary::{EarlyEnds, Row, Stats, Summary, Window};
use crate::table::METRICS;
use crate::tally::{Ledger, Tally};

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
    ledger: Ledger,
    tally: Tally,
    early: EarlyEnds,
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
                Compute::Derived(_) => Cell::Derived,
            })
            .collect();
        let (ledger, tally, early) = (Ledger::default(), Tally::default(), EarlyEnds::default());
        Self { anchor, cells, ledger, tally, early }
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
        if let Some(early) = formulas::ended_early(facts).filter(|_| !errors) {
            self.early.compared += 1;
            self.early.early += u64::from(early);
        }
        let mut values = Vec::with_capacity(if errors { 1 } else { 32 });
        for (spec, cell) in METRICS.iter().zip(&mut self.cells) {
            if matches!(cell, Cell::Off) || spec.flags.has(Flags::ERROR_ONLY) != errors {
                continue;
            }
            match spec.compute {
                Compute::Record(rule) => {
                    if let Some(value) = rule(facts) {
                        keep(cell, &value);
                        values.push((spec, value));
                    }
                }
                Compute::Aggregate(fold, rule) => {
                    if let (Cell::Running(running), Some(value)) = (cell, rule(facts, &self.anchor)) {
                        *running = Some(folded(fold, *running, value));
                    }
                }
                Compute::Derived(_) => {}
            }
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

    /// Tells how many requests were never sent, in place of what records said.
    pub fn set_unsent(&mut self, requests: u64) {
        self.ledger.unsent = requests;
        self.tally = self.ledger.tally();
    }

    /// Takes in what another reader of the same phase collected; its requests count as arrived after ours.
    pub fn merge(&mut self, other: Self) {
        self.ledger.merge(&other.ledger);
        self.tally = self.ledger.tally();
        self.early.compared += other.early.compared;
        self.early.early += other.early.early;
        for ((spec, ours), theirs) in METRICS.iter().zip(&mut self.cells).zip(other.cells) {
            match (ours, theirs) {
                (Cell::Int(ours), Cell::Int(theirs)) => ours.append(theirs),
                (Cell::Real(ours), Cell::Real(theirs)) => ours.append(theirs),
                // A record column starts as Int and turns Real at its first real value; the other one is empty then.
                (ours @ Cell::Int(_), theirs @ Cell::Real(_)) => *ours = theirs,
                (Cell::Running(ours), Cell::Running(Some(theirs))) => {
                    if let Compute::Aggregate(fold, _) = spec.compute {
                        *ours = Some(folded(fold, *ours, theirs));
                    }
                }
                _ => {}
            }
        }
    }

    /// Bytes its columns hold, as used.
    pub fn bytes(&self) -> usize {
        self.cells
            .iter()
            .map(|cell| match cell {
                Cell::Int(column) => column.bytes(),
                Cell::Real(column) => column.bytes(),
                _ => 0,
            })
            .sum()
    }

    /// Statistics of everything taken in; rates are divided by `window`.
    pub fn summarise(&self, window: Window) -> Summary {
        let context = Context { cells: &self.cells, tally: self.tally, window };
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
                    (Cell::Derived, Compute::Derived(rule)) => {
                        scalar(rule(&context).filter(|v| v.is_finite())?)
                    }
                    _ => return None,
                };
                Some(Row { spec, stats })
            })
            .collect();
        Summary { rows, tally: self.tally, window, early: self.early }
    }
}

fn distribution(unit: crate::Unit, values: crate::Distribution, factor: Option<f64>) -> Stats {
    Stats::Distribution { unit, values: factor.map_or(values, |f| values.scaled(f)) }
}

fn keep(cell: &mut Cell, value: &Value) {
    match (&mut *cell, value) {
        (Cell::Int(column), Value::Int(v)) => column.push(*v),
        (Cell::Int(column), Value::List(list)) => list.iter().for_each(|v| column.push(*v)),
        (Cell::Real(column), Value::Real(v)) => column.push(*v),
        (Cell::Int(column), Value::Real(v)) if column.is_empty() => {
            let mut real = RealColumn::default();
            real.push(*v);
            *cell = Cell::Real(real);
        }
        // A rule gives one kind of value only; the table test proves it.
        _ => {}
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
