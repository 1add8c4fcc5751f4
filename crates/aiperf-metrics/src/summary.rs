//! Statistics of a whole phase.

use crate::spec::MetricSpec;
use crate::statistics::Distribution;
use crate::tally::Tally;
use crate::unit::Unit;

/// The phase: from its start to the moment its last request in flight came back. Monotonic nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Phase start.
    pub start_ns: u64,
    /// Last request back.
    pub end_ns: u64,
}

impl Window {
    /// Length, nanoseconds; 0 when the end is before the start.
    pub const fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// Result of one metric, in its display unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stats {
    /// One value per request was there.
    Distribution {
        /// Display unit.
        unit: Unit,
        /// The statistics.
        values: Distribution,
    },
    /// One value for the run.
    Scalar {
        /// Display unit.
        unit: Unit,
        /// The value; files call it `avg`.
        value: f64,
    },
}

impl Stats {
    /// Display unit.
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Distribution { unit, .. } | Self::Scalar { unit, .. } => *unit,
        }
    }

    /// A statistic by its name in files; a scalar has `avg` alone.
    pub fn get(&self, name: &str) -> Option<f64> {
        match self {
            Self::Distribution { values, .. } => values.get(name),
            Self::Scalar { value, .. } => (name == "avg").then_some(*value),
        }
    }

    /// Mean, or the one value.
    pub const fn avg(&self) -> f64 {
        match self {
            Self::Distribution { values, .. } => values.avg,
            Self::Scalar { value, .. } => *value,
        }
    }
}

/// One metric that could be measured.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The metric.
    pub spec: &'static MetricSpec,
    /// Its result.
    pub stats: Stats,
}

/// Answers that stopped before the output length asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EarlyEnds {
    /// Completed answers whose asked and given length are both known.
    pub compared: u64,
    /// Those that are shorter than asked by more than [`osl_tolerance`](crate::osl_tolerance).
    pub early: u64,
}

/// Everything known of a phase.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Measured metrics in table order, internal ones included.
    pub rows: Vec<Row>,
    /// What became of the requests.
    pub tally: Tally,
    /// What rates are divided by.
    pub window: Window,
    /// Answers that ended early.
    pub early: EarlyEnds,
}

impl Summary {
    /// Result of a metric by its tag.
    pub fn get(&self, tag: &str) -> Option<&Stats> {
        self.rows.iter().find(|row| row.spec.tag == tag).map(|row| &row.stats)
    }

    /// Mean or one value of a metric by its tag.
    pub fn avg(&self, tag: &str) -> Option<f64> {
        self.get(tag).map(Stats::avg)
    }

    /// Rows that files and tables may show.
    pub fn public_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.spec.is_public())
    }
}
