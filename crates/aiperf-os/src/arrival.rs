//! From the kernel's receive stamps, which are wall times, to monotonic time.
//!
//! The two clocks run at one rate: what lies between them changes only when somebody sets the wall clock. Every reading of both
//! bounds that difference, all readings together bound it to some nanoseconds, and a reading that contradicts them is a step of
//! the wall clock. A stamp is believed only where it lies between what was known to be earlier and the moment it was read.

use std::cell::Cell;

use crate::clock::{mono_ns, wall_ns};

/// How often both clocks are read again, nanoseconds: a step smaller than what betrays itself spoils stamps for at most so long.
const CHECKED_EVERY_NS: u64 = 1_000_000;
/// Readings of the two clocks are rounded on their own; a contradiction of less than this is no step, nanoseconds.
const ROUNDING_NS: i64 = 1_000;
/// Readings to begin with: one of them is hardly ever interrupted.
const FIRST_READINGS: usize = 5;

/// The wall clock, and the monotonic one before and after it.
#[derive(Debug, Clone, Copy)]
struct Reading {
    before_ns: u64,
    wall_ns: u64,
    after_ns: u64,
}

impl Reading {
    fn take() -> Self {
        let before_ns = mono_ns();
        let wall_ns = wall_ns();
        Self { before_ns, wall_ns, after_ns: mono_ns() }
    }

    /// Between which values wall minus monotonic time lies.
    fn bounds(self) -> (i64, i64) {
        let wall = self.wall_ns as i64;
        (wall - self.after_ns as i64, wall - self.before_ns as i64)
    }
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Bounds of wall minus monotonic time.
    low: i64,
    high: i64,
    checked_ns: u64,
    steps: u64,
}

impl State {
    /// Takes in a reading; `false` when the wall clock was set since the one before.
    fn check(&mut self, reading: Reading) -> bool {
        let (low, high) = reading.bounds();
        self.checked_ns = reading.after_ns;
        let stepped = low - self.high > ROUNDING_NS || self.low - high > ROUNDING_NS;
        let narrowed = (low.max(self.low), high.min(self.high));
        (self.low, self.high) = if narrowed.0 <= narrowed.1 { narrowed } else { (low, high) };
        self.steps += u64::from(stepped);
        !stepped
    }

    /// `wall_ns` as monotonic time, if that lies in `floor_ns..=now_ns` or misses it by no more than the mapping is unsure.
    fn place(&self, wall_ns: u64, floor_ns: u64, now_ns: u64) -> Option<u64> {
        let unsure = (self.high - self.low) as u64;
        let offset = self.low + (self.high - self.low) / 2;
        let at_ns = u64::try_from((wall_ns as i64).checked_sub(offset)?).ok()?;
        (at_ns + unsure >= floor_ns && at_ns <= now_ns + unsure).then(|| at_ns.max(floor_ns).min(now_ns))
    }
}

/// Maps receive stamps to monotonic time, and notices when the wall clock is set.
#[derive(Debug)]
pub struct ArrivalClock {
    state: Cell<State>,
}

impl ArrivalClock {
    /// A clock that has read both clocks a few times.
    pub fn new() -> Self {
        Self::with((0..FIRST_READINGS).map(|_| Reading::take()))
    }

    fn with(readings: impl Iterator<Item = Reading>) -> Self {
        let mut state = State { low: i64::MIN / 2, high: i64::MAX / 2, checked_ns: 0, steps: 0 };
        for reading in readings {
            state.check(reading);
        }
        state.steps = 0;
        Self { state: Cell::new(state) }
    }

    /// How often the wall clock was found to have been set.
    pub fn steps(&self) -> u64 {
        self.state.get().steps
    }

    /// The monotonic time of a receive stamp that was read at `now_ns` and cannot be from before `floor_ns`; the result lies
    /// between the two. `None` for a stamp that cannot be true: the wall clock was set between it and now, or nobody knows.
    #[inline]
    pub fn map(&self, wall_ns: u64, floor_ns: u64, now_ns: u64) -> Option<u64> {
        self.map_with(wall_ns, floor_ns, now_ns, Reading::take)
    }

    #[inline]
    fn map_with(
        &self,
        wall_ns: u64,
        floor_ns: u64,
        now_ns: u64,
        read: impl FnOnce() -> Reading,
    ) -> Option<u64> {
        let mut state = self.state.get();
        if now_ns.saturating_sub(state.checked_ns) <= CHECKED_EVERY_NS
            && let Some(at_ns) = state.place(wall_ns, floor_ns, now_ns)
        {
            return Some(at_ns);
        }
        let steady = state.check(read());
        self.state.set(state);
        if steady { state.place(wall_ns, floor_ns, now_ns) } else { None }
    }
}

impl Default for ArrivalClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading at monotonic `at_ns` that took 20 ns, with the wall clock ahead by `offset`.
    fn reading(at_ns: u64, offset: u64) -> Reading {
        Reading { before_ns: at_ns - 10, wall_ns: at_ns + offset, after_ns: at_ns + 10 }
    }

    fn clock(offset: u64) -> ArrivalClock {
        ArrivalClock::with([reading(1_000, offset)].into_iter())
    }

    fn never() -> Reading {
        panic!("both clocks were read without need")
    }

    const OFFSET: u64 = 1_700_000_000_000_000_000;

    #[test]
    fn a_stamp_between_the_floor_and_now_is_believed() {
        let clock = clock(OFFSET);
        assert_eq!(clock.map_with(OFFSET + 1_500, 1_200, 2_000, never), Some(1_500));
        // By no more than the width of the reading outside: held in.
        assert_eq!(clock.map_with(OFFSET + 1_190, 1_200, 2_000, never), Some(1_200));
        assert_eq!(clock.map_with(OFFSET + 2_015, 1_200, 2_000, never), Some(2_000));
        assert_eq!(clock.steps(), 0);
    }

    #[test]
    fn a_stamp_that_cannot_be_true_is_not_believed() {
        let clock = clock(OFFSET);
        let again = || reading(2_100, OFFSET);
        assert_eq!(clock.map_with(OFFSET + 900, 1_200, 2_000, again), None);
        assert_eq!(clock.map_with(OFFSET + 2_500, 1_200, 2_000, again), None);
        assert_eq!(clock.map_with(0, 1_200, 2_000, again), None);
        assert_eq!(clock.map_with(u64::MAX, 1_200, 2_000, again), None);
        assert_eq!(clock.steps(), 0, "the clocks agree with what was known");
    }

    #[test]
    fn a_wall_clock_that_is_set_is_noticed_counted_and_followed() {
        for stepped in [OFFSET + 3_600_000_000_000, OFFSET - 3_600_000_000_000, OFFSET - 400_000] {
            let clock = clock(OFFSET);
            let now = 900_000;
            let after = || reading(now + 50, stepped);
            // The stamp is from after the step; the floor is recent.
            assert_eq!(clock.map_with(stepped + now - 100, now - 200, now, after), None);
            assert_eq!(clock.steps(), 1);
            let now = now + 1_000;
            assert_eq!(clock.map_with(stepped + now - 100, now - 200, now, never), Some(now - 100));
            // A stamp from before the step, read after it, does not count it again.
            assert_eq!(
                clock.map_with(OFFSET + now - 100, now - 200, now, || reading(now + 50, stepped)),
                None
            );
            assert_eq!(clock.steps(), 1);
        }
    }

    #[test]
    fn a_step_that_no_stamp_betrays_is_found_by_reading_the_clocks_again() {
        let clock = clock(OFFSET);
        let stepped = OFFSET - 5_000;
        let now = 1_000 + CHECKED_EVERY_NS + 1_000;
        // As if 5 µs old, which is plausible: the floor is long ago.
        assert_eq!(clock.map_with(stepped + now, 0, now, || reading(now + 50, stepped)), None);
        assert_eq!(clock.steps(), 1);
    }

    #[test]
    fn readings_narrow_the_difference_and_an_interrupted_one_does_no_harm() {
        let wide = Reading { before_ns: 1_000, wall_ns: OFFSET + 1_500, after_ns: 50_000 };
        let clock = ArrivalClock::with([wide, reading(60_000, OFFSET), wide].into_iter());
        let state = clock.state.get();
        assert_eq!(state.high - state.low, 20);
        assert_eq!(clock.map_with(OFFSET + 60_000, 1_000, 70_000, never), Some(60_000));
        // Off by less than clocks are read: followed, not counted.
        assert_eq!(clock.map_with(0, 0, 1, || reading(60_100, OFFSET + 500)), None);
        assert_eq!((clock.steps(), clock.state.get().low), (0, OFFSET as i64 + 490));
    }

    #[test]
    fn now_is_mapped_to_now() {
        let clock = ArrivalClock::new();
        let before = mono_ns();
        let wall = wall_ns();
        let after = mono_ns();
        let mapped = clock.map(wall, before, after);
        assert!(mapped.is_some_and(|at| (before..=after).contains(&at)), "{before} {mapped:?} {after}");
    }
}
