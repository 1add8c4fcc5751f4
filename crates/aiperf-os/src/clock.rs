//! The monotonic and the wall clock as nanosecond integers.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use aiperf_core::time::ClockAnchor;

/// Readings among which the smallest step is looked for: some tens of microseconds.
const READINGS: usize = 1000;

/// `CLOCK_MONOTONIC` in nanoseconds. On Linux the same clock in every process of the machine, so that a server's log
/// and a client's records can be laid side by side.
#[inline]
pub fn mono_ns() -> u64 {
    #[cfg(target_os = "linux")]
    {
        read_clock(libc::CLOCK_MONOTONIC).unwrap_or_else(portable_mono_ns)
    }
    #[cfg(not(target_os = "linux"))]
    {
        portable_mono_ns()
    }
}

/// Nanoseconds since the Unix epoch.
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Both clocks at (nearly) one moment: the wall reading lies between two monotonic ones, of several tries the closest pair.
pub fn anchor() -> ClockAnchor {
    let mut best = (u64::MAX, ClockAnchor { mono_ns: 0, wall_ns: 0 });
    for _ in 0..5 {
        let before = mono_ns();
        let wall_ns = wall_ns();
        let after = mono_ns();
        let width = after - before;
        if width < best.0 {
            best = (width, ClockAnchor { mono_ns: before + width / 2, wall_ns });
        }
    }
    best.1
}

/// What the monotonic clock is made of, as the system names it (`tsc`, `kvm-clock`); `None` where it does not say.
pub fn source() -> Option<String> {
    #[cfg(target_os = "linux")]
    {
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let name = std::fs::read_to_string(path).ok()?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

/// The smallest step that the monotonic clock is seen to take in some readings, nanoseconds: its resolution, or the time that
/// reading it takes when that is longer. `None` when it stood still.
pub fn smallest_step_ns() -> Option<u64> {
    let mut last = mono_ns();
    let steps = (0..READINGS).map(|_| {
        let now = mono_ns();
        now - std::mem::replace(&mut last, now)
    });
    steps.filter(|step| *step > 0).min()
}

/// How far the wall clock went beside the monotonic one between two anchors, nanoseconds: not 0 when it was set in between.
pub fn wall_step_ns(start: &ClockAnchor, end: &ClockAnchor) -> i64 {
    end.wall_ns.wrapping_sub(start.wall(end.mono_ns)) as i64
}

#[cfg(target_os = "linux")]
#[inline]
fn read_clock(id: libc::clockid_t) -> Option<u64> {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid, writable timespec for the duration of the call.
    let rc = unsafe { libc::clock_gettime(id, &raw mut ts) };
    (rc == 0).then(|| ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// Nanoseconds since the first call in this process, never 0.
fn portable_mono_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_move_forward() {
        for read in [mono_ns, portable_mono_ns] {
            let a = read();
            let b = read();
            assert!(b >= a && a > 0);
        }
    }

    #[test]
    fn the_anchor_maps_now_to_now() {
        let a = anchor();
        let mapped = a.wall(mono_ns());
        let real = wall_ns();
        assert!(mapped.abs_diff(real) < 1_000_000_000, "{mapped} {real}");
    }

    #[test]
    fn the_clock_moves_in_steps_of_some_size() {
        assert!(smallest_step_ns().is_some_and(|step| step > 0));
        assert!(source().is_none_or(|name| !name.contains('\n')));
    }

    #[test]
    fn a_wall_clock_that_was_set_is_found_both_ways() {
        let start = ClockAnchor { mono_ns: 100, wall_ns: 5_000 };
        let at = |mono_ns, wall_ns| wall_step_ns(&start, &ClockAnchor { mono_ns, wall_ns });
        assert_eq!([at(300, 5_200), at(300, 5_207), at(300, 4_200)], [0, 7, -1_000]);
    }
}
