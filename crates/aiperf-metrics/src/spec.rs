//! What one row of the table says of a metric.

use aiperf_core::time::ClockAnchor;

use crate::derived::Context;
use crate::facts::{Capabilities, Facts};
use crate::over_time::Curve;
use crate::rows::RequestRow;
use crate::statistics::STATISTICS;
use crate::unit::Unit;

/// One value of one request, in the stored unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(u64),
    /// A real number.
    Real(f64),
    /// Several whole numbers; statistics pool them over all requests.
    List(Vec<u64>),
}

/// How the values of an aggregate are folded into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// Added up.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Where a metric's numbers come from.
#[derive(Debug, Clone, Copy)]
pub enum Compute {
    /// One value per request; `None` when the request has none.
    Record(fn(&Facts) -> Option<Value>),
    /// One running value; a request may give nothing to it.
    Aggregate(Fold, fn(&Facts, &ClockAnchor) -> Option<u64>),
    /// A round trip to the servers, where somebody measured or said how long one takes.
    NetworkRtt,
    /// The values of another metric less a round trip, none below 0.
    NetworkAdjusted(&'static str),
    /// One value from the whole run.
    Derived(fn(&Context<'_>) -> Option<f64>),
    /// 1 for a request that keeps all objectives and 0 for one that does not; the run has their sum. Nothing without objectives.
    Good,
    /// The values of another record metric and, for each request that failed or was cancelled, infinity. Nothing when none was.
    Adjusted(&'static str),
    /// Statistics of a curve over time.
    OverTime(Curve),
    /// One value per request that was sent, from its row. Nothing when none failed or was cancelled.
    AtLeast(fn(&RequestRow) -> Option<u64>),
}

impl Compute {
    /// `record`, `aggregate`, `adjusted` or `derived`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Record(_) | Self::AtLeast(_) => "record",
            Self::Aggregate(..) | Self::Good => "aggregate",
            Self::Adjusted(_) | Self::NetworkRtt | Self::NetworkAdjusted(_) => "adjusted",
            Self::OverTime(_) => "over_time",
            Self::Derived(_) => "derived",
        }
    }

    /// Whether it has one value for the run.
    pub const fn is_single(&self) -> bool {
        self.statistics().len() == 1
    }

    /// Names of the statistics it has in files, in AIPerf's order; one value alone is its `avg`.
    pub const fn statistics(&self) -> &'static [&'static str] {
        match self {
            Self::Record(_) | Self::AtLeast(_) => &STATISTICS,
            Self::Adjusted(_) => {
                &["p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "count"]
            }
            Self::NetworkRtt | Self::NetworkAdjusted(_) => &[
                "avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std",
                "sum",
            ],
            Self::OverTime(_) => &["avg", "p50", "p90", "p95", "p99", "min", "max", "std"],
            Self::Aggregate(..) | Self::Derived(_) | Self::Good => &["avg"],
        }
    }
}

/// The console table a metric stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsoleGroup {
    /// Files only.
    None,
    /// `HTTP Trace Timing`, only when asked for.
    HttpTrace,
    /// `LLM Metrics: Effective`.
    Effective,
    /// `LLM Metrics: Active`.
    Active,
    /// `LLM Metrics: Usage`.
    Usage,
    /// `LLM Metrics`.
    Main,
    /// `LLM Metrics: Spec Decode`.
    SpecDecode,
}

/// Properties of a metric, a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// Needs streaming.
    pub const STREAMING: Self = Self(1);
    /// Needs answers counted in tokens.
    pub const TOKENS: Self = Self(1 << 1);
    /// Needs prompts counted in tokens.
    pub const INPUT: Self = Self(1 << 2);
    /// More is better.
    pub const LARGER_IS_BETTER: Self = Self(1 << 3);
    /// Not written per request.
    pub const NO_RECORDS: Self = Self(1 << 4);
    /// Failed and cancelled requests only; hidden on the console.
    pub const ERROR_ONLY: Self = Self(1 << 5);
    /// Needs an endpoint with a reasoning channel.
    pub const REASONING: Self = Self(1 << 6);
    /// Dropped when lengths are the server's own counts.
    pub const USAGE_DIFF: Self = Self(1 << 7);
    /// Kept out of every file and table; other metrics build on it.
    pub const INTERNAL: Self = Self(1 << 8);
    /// AIPerf 0.13 has no such tag.
    pub const OURS: Self = Self(1 << 9);
    /// Completed, failed and cancelled requests alike.
    pub const EVERY_OUTCOME: Self = Self(1 << 10);
    /// Needs objectives.
    pub const OBJECTIVES: Self = Self(1 << 11);

    /// Both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Words for the reference page, in a fixed order.
    pub fn words(self) -> Vec<&'static str> {
        [
            (Self::STREAMING, "streaming only"),
            (Self::TOKENS, "answers in tokens"),
            (Self::INPUT, "prompts in tokens"),
            (Self::REASONING, "reasoning endpoints"),
            (Self::LARGER_IS_BETTER, "larger is better"),
            (Self::NO_RECORDS, "not per request"),
            (Self::ERROR_ONLY, "failed requests only"),
            (Self::USAGE_DIFF, "not with server token counts, nor of rankings"),
            (Self::INTERNAL, "internal"),
            (Self::OURS, "not in AIPerf"),
            (Self::EVERY_OUTCOME, "failed requests too"),
            (Self::OBJECTIVES, "with --goodput"),
        ]
        .into_iter()
        .filter(|(flag, _)| self.has(*flag))
        .map(|(_, word)| word)
        .collect()
    }
}

/// One metric: the row columns, headers, units, files, console and docs are made from.
#[derive(Debug)]
pub struct MetricSpec {
    /// Key in files.
    pub tag: &'static str,
    /// Name in tables.
    pub header: &'static str,
    /// Name where space is short.
    pub short: &'static str,
    /// Unit values are kept in.
    pub unit: Unit,
    /// Unit values are shown and written in.
    pub display: Unit,
    /// Properties.
    pub flags: Flags,
    /// Console table.
    pub group: ConsoleGroup,
    /// Place in its console table; equal places stay in table order.
    pub order: u32,
    /// The rule in one sentence.
    pub formula: &'static str,
    /// The rule as code.
    pub compute: Compute,
}

impl MetricSpec {
    /// Factor from the stored to the display unit; `None` when they are the same.
    pub fn factor(&self) -> Option<f64> {
        self.unit.factor_to(self.display)
    }

    /// Whether a run with these capabilities has the metric.
    pub const fn applies(&self, cap: &Capabilities) -> bool {
        let f = self.flags;
        (cap.streaming || !f.has(Flags::STREAMING))
            && (cap.produces_tokens || !f.has(Flags::TOKENS))
            && (cap.tokenizes_input || !f.has(Flags::INPUT))
            && (cap.reasoning || !f.has(Flags::REASONING))
            && (cap.compares_usage || !f.has(Flags::USAGE_DIFF))
    }

    /// Whether files and tables may show it.
    pub const fn is_public(&self) -> bool {
        !self.flags.has(Flags::INTERNAL)
    }

    /// Whether the per-request file has it.
    pub const fn is_per_record(&self) -> bool {
        self.is_public()
            && !self.flags.has(Flags::NO_RECORDS)
            && matches!(self.compute, Compute::Record(_) | Compute::Good)
    }

    /// Whether a completed request may have a value that an objective can look at.
    pub const fn can_be_objective(&self) -> bool {
        self.is_public() && !self.flags.has(Flags::ERROR_ONLY) && matches!(self.compute, Compute::Record(_))
    }
}
