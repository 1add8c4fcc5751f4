//! What only the operating system can tell or do: clocks, precise timers, limits, priorities. The one crate that may use
//! `unsafe`; every function has a portable fallback, and the fallbacks are tested on Linux too.

pub mod arrival;
pub mod clock;
#[cfg(feature = "async")]
pub mod deadlines;
pub mod limits;
pub mod load;
pub mod memory;
#[cfg(feature = "async")]
pub mod receive;
pub mod sched;
pub mod signals;
pub mod terminal;
pub mod timer;
pub mod usage;

pub use clock::{anchor, mono_ns, wall_ns};
