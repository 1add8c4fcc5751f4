//! Records to columns to statistics: every formula, no printing.
//!
//! A finished request arrives as [`Facts`] (stamps, token counts, outcome). [`Recorder::record`] runs the formulas of the
//! one table [`METRICS`] over it, keeps the values in exact columns and hands them back for the per-record file.
//! [`Recorder::summarise`] turns columns into [`Summary`]: one row per metric that could be measured, in table order.
//!
//! Rules that hold everywhere:
//! - A value that cannot be computed is absent, never zero.
//! - Completed requests run every metric but those marked [`Flags::ERROR_ONLY`]; failed and cancelled ones run only those and those
//!   marked [`Flags::EVERY_OUTCOME`].
//! - Statistics are computed in the stored unit (nanoseconds stay integers) and then multiplied into the display unit.
//! - Sums and means are what numpy gives on the column in order of arrival, percentiles what `numpy.percentile` gives.
//! - The [`Tally`] adds up: scheduled = sent + unsent, sent = completed + failed + cancelled + lost.
//!
//! Memory per request: 4 bytes for each integer value (12 from 2³² − 1 up: 4.29 s), 8 for each real one, 4 per chunk gap. A streaming chat run
//! with a schedule, usage and asked lengths has 47 integer and 9 real values and a row of 64 bytes: 324 bytes and 4 per gap (a test counts them);
//! 72 of them are what HTTP took, 32 how even the stream was. One request in 16 has 4 more per token, its gaps between tokens. So a
//! million requests of 8 chunks take 0.35 GB, of 128 chunks 0.86 GB, if all of it is to stay in memory. With a [`Disk`], a column keeps no
//! more than its first 2²⁰ values there and what comes then goes to a file, so memory is bounded whatever the number of requests.
//! Percentiles of long columns are selected in passes over the column, without a copy.

mod alike;
mod breakdown;
mod cache;
mod column;
mod derived;
mod errors;
mod explain;
mod facts;
mod formulas;
mod http;
mod intervals;
mod latencies;
mod lengths;
mod load;
#[cfg(test)]
mod numpy_vectors;
mod over_time;
mod recorder;
mod reference;
mod rows;
mod select;
mod slo;
mod spec;
mod statistics;
mod steady;
mod store;
mod stream;
mod summary;
mod table;
mod tally;
mod target;
mod timing;
mod unit;

pub use breakdown::{Dimension, Group, MAX_BREAKDOWN, Names, dimension_names};
pub use cache::{CacheFacts, CacheLedger, ExpectedSums};
pub use column::{IntColumn, RealColumn};
pub use derived::Context;
pub use errors::{ErrorGroup, ErrorSummary, MAX_GROUPS, is_context_overflow};
pub use explain::{Elsewhere, Explanation, TOOLS, explain, public_metrics};
pub use facts::{Capabilities, ChunkFact, Facts, Place, TrafficFacts, WireFacts};
pub use formulas::{fits_first_chunk, osl_tolerance};
pub use intervals::{
    Interval, LEVEL, MetricUncertainty, QUANTILES, Uncertainty, least_count, too_few_for_p99,
};
pub use latencies::LATENCIES;
pub use lengths::{Agreement, LengthDifference, LengthFacts, LengthLedger, LengthSummary};
pub use load::{
    Arrivals, Asked, ClockHealth, ComposerWaits, Connections, CpuShare, HandOver, Health, InFlight,
    LagHistogram, Limit, LoadWarning, PhaseHealth, ShardHealth, Span, Spread, Verdict, WarningCode,
    late_after_ns, verdict,
};
pub use over_time::{ConcurrencyBucket, Curve, DecodeShape, LittlesLaw, OverTime};
pub use recorder::{
    Analysis, MAX_SLICES, RecordValues, Recorder, SLICED, Slice, SlicedSpec, Slices, TooManySlices,
};
pub use reference::reference_markdown;
pub use rows::{RequestRow, RequestRows};
pub use slo::Attainment;
pub use spec::{Compute, ConsoleGroup, Flags, Fold, MetricSpec, Value};
pub use statistics::{
    Distribution, PERCENTILES, PartStats, STAT_NAMES, STATISTICS, pairwise_sum, percentile_of_sorted,
};
pub use steady::{NotSteady, Steadiness, SteadyState};
pub use store::{Disk, DiskProblem};
pub use stream::{token_gaps, tokens_of_chunks};
pub use summary::{EarlyEnds, Finishes, Row, Stats, Summary, Window};
pub use table::{METRICS, find, index_of};
pub use tally::Tally;
pub use target::{TargetRecorder, TargetSummary};
pub use unit::Unit;
