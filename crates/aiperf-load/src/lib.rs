//! When requests leave and when they stop: pure machines fed with time.
//!
//! [`arrival`] gives the instants of an open loop as integer nanoseconds computed from (plan, seed) alone, along a [`curve`];
//! [`limit_ramp`] a limit's way to its value; [`window`] says what may still be sent and what must be dropped at a given moment; [`share`] splits a run among its
//! shards; [`user_centric`] gives the sessions of users with clocks of their own. Nothing here sleeps, sends or knows a socket; `aiperf-run` asks and acts.

pub mod arrival;
pub mod curve;
pub mod limit_ramp;
mod ramp;
pub mod share;
pub mod user_centric;
pub mod window;

pub use arrival::Arrivals;
pub use curve::RateCurve;
pub use limit_ramp::{LimitCurve, Limited};
pub use user_centric::{UserClock, UserSession, UserSessions};
pub use window::{PhaseWindow, Stage};
