//! When requests leave and when they stop: pure machines fed with time.
//!
//! - [`arrival`]: the instants of an open loop as integer nanoseconds computed from (plan, seed) alone, along the rate's curve;
//! - [`schedule`]: those of a workload that brings its own times; [`user_centric`]: those of users with clocks of their own;
//! - [`limit_ramp`]: the way of a limit to its value;
//! - [`window`]: what may still be sent and what must be dropped at a given moment; [`threshold`]: when failures end it;
//! - [`share`]: how a run is split among its shards; [`targets`]: which server a session goes to; [`cancel_draw`]: which
//!   requests are dropped on purpose.
//!
//! Nothing here sleeps, sends or knows a socket; `aiperf-run` asks and acts.

pub mod arrival;
pub mod cancel_draw;
mod curve;
pub mod limit_ramp;
mod ramp;
pub mod schedule;
pub mod share;
pub mod targets;
pub mod threshold;
pub mod user_centric;
pub mod window;

pub use arrival::Arrivals;
pub use cancel_draw::CancelDraw;
pub use limit_ramp::{LimitCurve, Limited};
pub use schedule::{FixedSchedule, ScheduleEntry, ScheduleError, ScheduleWindow};
pub use targets::Targets;
pub use threshold::FailureThreshold;
pub use user_centric::{UserClock, UserSession, UserSessions};
pub use window::{PhaseWindow, Stage};
