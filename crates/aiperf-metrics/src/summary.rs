//! Statistics of a whole phase.

use aiperf_core::outcome::Finish;

use crate::cache::CacheLedger;
use crate::over_time::OverTime;
use crate::slo::Attainment;
use crate::spec::MetricSpec;
use crate::statistics::{Distribution, PartStats};
use crate::tally::Tally;
use crate::unit::Unit;

/// The phase: from its start to the moment its last request in flight came back; or several phases together. Monotonic nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Phase start.
    pub start_ns: u64,
    /// Last request back.
    pub end_ns: u64,
    /// Of several phases together: the sum of their lengths, without what lies between them.
    pooled_ns: Option<u64>,
}

impl Window {
    /// Of one phase.
    pub const fn new(start_ns: u64, end_ns: u64) -> Self {
        Self { start_ns, end_ns, pooled_ns: None }
    }

    /// Of several phases together, from the first start to the last end; as long as they are one after the other, as AIPerf has it.
    /// One alone stays as it is; without any it is empty.
    pub fn pooled(phases: &[Self]) -> Self {
        match phases {
            [] => Self::default(),
            [one] => *one,
            several => Self {
                start_ns: several.iter().map(|w| w.start_ns).min().unwrap_or(0),
                end_ns: several.iter().map(|w| w.end_ns).max().unwrap_or(0),
                pooled_ns: Some(several.iter().map(Self::duration_ns).sum()),
            },
        }
    }

    /// Length, nanoseconds; 0 when the end is before the start.
    pub const fn duration_ns(&self) -> u64 {
        match self.pooled_ns {
            Some(ns) => ns,
            None => self.end_ns.saturating_sub(self.start_ns),
        }
    }

    /// Length of several phases together; `None` for one.
    pub const fn pooled_ns(&self) -> Option<u64> {
        self.pooled_ns
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
    /// Some statistics could be made, others not.
    Part {
        /// Display unit.
        unit: Unit,
        /// What there is.
        values: PartStats,
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
            Self::Distribution { unit, .. } | Self::Part { unit, .. } | Self::Scalar { unit, .. } => *unit,
        }
    }

    /// A statistic by its name in files; a scalar has `avg` alone.
    pub fn get(&self, name: &str) -> Option<f64> {
        match self {
            Self::Distribution { values, .. } => values.get(name),
            Self::Part { values, .. } => values.get(name),
            Self::Scalar { value, .. } => (name == "avg").then_some(*value),
        }
    }

    /// Mean, or the one value; some metrics have neither.
    pub fn avg(&self) -> Option<f64> {
        self.get("avg")
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

/// Answers that stopped before the output length asked for, or went on behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EarlyEnds {
    /// Completed answers whose asked and given length are both known.
    pub compared: u64,
    /// Those that are shorter than asked by more than [`osl_tolerance`](crate::osl_tolerance), and are so by the server's count too, where it
    /// gives one; else those that did not stop at their limit.
    pub early: u64,
    /// Those of them that the model ended, as the server says.
    pub stopped: u64,
    /// Answers that are longer than asked, by the server's count where it gives one.
    pub beyond: u64,
}

/// How many whole answers ended for which reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finishes([u64; Finish::ALL.len()]);

impl Finishes {
    /// Counts one answer.
    pub fn add(&mut self, finish: Finish) {
        self.0[finish as usize] += 1;
    }

    /// Takes in what others counted.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            *ours += theirs;
        }
    }

    /// Every reason with its count, in the order of [`Finish::ALL`].
    pub fn all(&self) -> impl Iterator<Item = (Finish, u64)> {
        Finish::ALL.into_iter().zip(self.0)
    }

    /// The reasons that some answer ended for.
    pub fn seen(&self) -> impl Iterator<Item = (Finish, u64)> {
        self.all().filter(|(_, count)| *count > 0)
    }
}

/// Counts that are known to the one who sent the requests, and in no record.
const OF_THE_SCHEDULE: [&str; 4] =
    ["scheduled_request_count", "sent_request_count", "unsent_request_count", "lost_request_count"];

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
    /// How many requests met each objective, in the order given.
    pub slos: Vec<Attainment>,
    /// Load over time; absent when nothing was sent.
    pub over_time: Option<OverTime>,
    /// Why whole answers ended.
    pub finishes: Finishes,
    /// What servers found in their prefix caches.
    pub cache: CacheLedger,
    /// Of speculative decoding over all whole answers: place j holds the number of steps that accepted exactly j draft tokens. Empty where
    /// no server tells.
    pub acceptance_histogram: Vec<u64>,
    /// It is of records alone, so that nobody knows what was asked for beside them: of the tally, `ended` and its parts are known.
    pub is_of_records: bool,
}

impl Summary {
    /// The same, of requests that are known by their records alone: how many were scheduled, sent, unsent and lost is not.
    #[must_use]
    pub fn of_records(mut self) -> Self {
        self.is_of_records = true;
        self.rows.retain(|row| !OF_THE_SCHEDULE.contains(&row.spec.tag));
        self
    }

    /// Result of a metric by its tag.
    pub fn get(&self, tag: &str) -> Option<&Stats> {
        self.rows.iter().find(|row| row.spec.tag == tag).map(|row| &row.stats)
    }

    /// Mean or one value of a metric by its tag.
    pub fn avg(&self, tag: &str) -> Option<f64> {
        self.get(tag).and_then(Stats::avg)
    }

    /// Rows that files and tables may show.
    pub fn public_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.spec.is_public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_together_are_as_long_as_one_after_the_other() {
        let (a, b) = (Window::new(100, 150), Window::new(170, 300));
        let both = Window::pooled(&[a, b]);
        assert_eq!((both.start_ns, both.end_ns, both.duration_ns()), (100, 300, 180));
        assert_eq!(Window::pooled(&[b, Window::new(120, 190)]).duration_ns(), 200, "overlapping ones too");
        assert_eq!(Window::pooled(&[a]), a);
        assert_eq!(Window::pooled(&[]).duration_ns(), 0);
    }
}
