//! How honest the load was: what the shards measure of themselves while they send, in constant memory, and what it adds up to.
//!
//! [`ShardHealth`] is filled on a shard's own thread; [`PhaseHealth`] puts the shards of a phase and what its records say together;
//! [`Health`] is the run. [`verdict`] draws the conclusion, by rules that stand in one place.

mod health;
mod in_flight;
mod lag;
mod span;
mod verdict;
#[cfg(test)]
mod verdict_tests;

pub use health::{
    Arrivals, Asked, ClockHealth, ComposerWaits, Connections, CpuShare, HandOver, Health, PhaseHealth,
    ShardHealth, Spread,
};
pub use in_flight::InFlight;
pub use lag::LagHistogram;
pub use span::Span;
pub use verdict::{Limit, LoadWarning, Verdict, WarningCode, late_after_ns, verdict};
