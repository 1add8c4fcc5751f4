//! When requests leave and when they stop: pure machines fed with time.
//!
//! [`arrival`] gives the instants of an open loop as integer nanoseconds computed from (plan, seed) alone, along a [`curve`];
//! [`window`] says what may still be sent and what must be dropped at a given moment; [`share`] splits a run among its
//! shards. Nothing here sleeps, sends or knows a socket; `aiperf-run` asks and acts.

pub mod arrival;
pub mod curve;
mod ramp;
pub mod share;
pub mod window;

pub use arrival::Arrivals;
pub use curve::RateCurve;
pub use window::{PhaseWindow, Stage};
