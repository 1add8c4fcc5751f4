//! What the rules of run-level metrics may look at.

use crate::column::{IntColumn, RealColumn};
use crate::summary::Window;
use crate::table::index_of;
use crate::tally::Tally;

/// Column or running value of one metric of the table.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// Not part of this run.
    Off,
    /// Values of a record metric that are whole.
    Int(IntColumn),
    /// Values of a record metric that are real.
    Real(RealColumn),
    /// Running value of an aggregate; `None` until a request gave one.
    Running(Option<u64>),
    /// Nothing to keep.
    Derived,
}

/// A finished run as the rules of derived metrics see it.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) cells: &'a [Cell],
    pub(crate) tally: Tally,
    pub(crate) window: Window,
    /// Lag of a replay behind its least late request at p50, p90 and p99, milliseconds.
    pub(crate) replay_lag: Option<[f64; 3]>,
}

impl Context<'_> {
    /// Sum over the column of a record metric; `None` when it has no value.
    pub fn sum(&self, tag: &str) -> Option<f64> {
        match self.cells.get(index_of(tag)?)? {
            Cell::Int(column) if !column.is_empty() => Some(column.sum() as f64),
            Cell::Real(column) if !column.is_empty() => Some(column.sum()),
            _ => None,
        }
    }

    /// Value of an aggregate; `None` when no request gave one.
    pub fn running(&self, tag: &str) -> Option<u64> {
        match self.cells.get(index_of(tag)?)? {
            Cell::Running(value) => *value,
            _ => None,
        }
    }

    /// The classes of all requests.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// First start to last content chunk of the completed requests, nanoseconds; of several phases together their lengths, as in AIPerf.
    pub fn benchmark_duration_ns(&self) -> Option<u64> {
        if let Some(ns) = self.window.pooled_ns() {
            return self.running("min_request_timestamp").map(|_| ns).filter(|ns| *ns > 0);
        }
        let (first, last) = (self.running("min_request_timestamp")?, self.running("max_response_timestamp")?);
        last.checked_sub(first).filter(|ns| *ns > 0)
    }

    /// What every rate is divided by, seconds: the phase window, or the benchmark duration when the window is empty.
    pub fn window_seconds(&self) -> Option<f64> {
        let ns =
            Some(self.window.duration_ns()).filter(|ns| *ns > 0).or_else(|| self.benchmark_duration_ns())?;
        Some(ns as f64 * 1e-9)
    }

    /// One of the three percentiles of a replay's lag, milliseconds.
    pub(crate) fn replay_lag(&self, at: usize) -> Option<f64> {
        self.replay_lag.map(|lags| lags[at])
    }

    pub(crate) fn rate(&self, amount: Option<f64>) -> Option<f64> {
        Some(amount? / self.window_seconds()?)
    }
}
