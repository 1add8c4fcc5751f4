//! One monotonic clock, paired once with the wall clock.
//!
//! Every stamp in the program is a `u64` of nanoseconds on `CLOCK_MONOTONIC` (names end in `_ns`). Wall times in files are
//! always `anchor.wall(stamp)`, so a stepped wall clock during a run cannot bend a latency.

use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// The monotonic and the wall clock read at the same moment, at the start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockAnchor {
    /// Monotonic reading, nanoseconds.
    pub mono_ns: u64,
    /// Wall clock at that moment, nanoseconds since the Unix epoch.
    pub wall_ns: u64,
}

impl ClockAnchor {
    /// Wall time (nanoseconds since the epoch) of a monotonic stamp, before or after the anchor.
    pub fn wall(&self, mono_ns: u64) -> u64 {
        if mono_ns >= self.mono_ns {
            self.wall_ns + (mono_ns - self.mono_ns)
        } else {
            self.wall_ns.saturating_sub(self.mono_ns - mono_ns)
        }
    }
}

/// Seconds as written by a user to nanoseconds, rounded to the nearest; negative and NaN give 0.
pub fn seconds_to_ns(seconds: f64) -> u64 {
    if seconds.is_nan() || seconds <= 0.0 { 0 } else { (seconds * NS_PER_S as f64).round() as u64 }
}

/// Nanoseconds to seconds, for display.
pub fn ns_to_seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

/// Nanoseconds to milliseconds, for display.
pub fn ns_to_ms(ns: u64) -> f64 {
    ns as f64 / NS_PER_MS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_follows_the_monotonic_clock_both_ways() {
        let anchor = ClockAnchor { mono_ns: 1_000, wall_ns: 5_000 };
        assert_eq!(anchor.wall(1_500), 5_500);
        assert_eq!(anchor.wall(400), 4_400);
    }

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(seconds_to_ns(0.1), 100_000_000);
        assert_eq!(seconds_to_ns(-1.0), 0);
        assert_eq!(seconds_to_ns(f64::NAN), 0);
    }
}
