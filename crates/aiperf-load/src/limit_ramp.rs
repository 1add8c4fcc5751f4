//! A limit that is a whole number and comes to its value in steps of one: live sessions, waiting prefills.

use aiperf_core::plan::{Ramp, RampShape};
use aiperf_rng::Key;

use crate::ramp;

/// Most moments drawn for a Poisson ramp. A longer way takes several steps at each.
const MOST_DRAWN: u32 = 1 << 16;

/// What is limited; each has draws of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// Sessions alive at once.
    Sessions,
    /// Requests that wait for their first content.
    Prefills,
}

impl Limited {
    const fn purpose(self) -> &'static str {
        match self {
            Self::Sessions => "timing.ramp.concurrency",
            Self::Prefills => "timing.ramp.prefill",
        }
    }
}

/// A limit from the start of a phase on.
///
/// It goes from the ramp's start (1 where nothing is said, and never less) to its target one by one, up or down:
/// - linear: step `k` of `n` is due at `k/n` of the duration, as AIPerf's are;
/// - exponential: at `√(k/n)` of it, so that the limit goes with the square of the time;
/// - Poisson: at `n` moments drawn evenly by (seed, phase, step), in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitCurve {
    start: u32,
    target: u32,
    duration_ns: u64,
    steps: Steps,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Steps {
    Linear,
    Square,
    Drawn(Vec<u64>),
}

impl LimitCurve {
    /// The way of `ramp` to `target`; without a ramp the limit is `target` all the time.
    pub fn new(target: u32, ramp: Option<&Ramp>, limited: Limited, seed: u64, phase: u16) -> Self {
        let Some(ramp) = ramp.filter(|r| r.duration_ns > 0) else {
            return Self { start: target, target, duration_ns: 0, steps: Steps::Linear };
        };
        // The conversion ends at the type's own bounds.
        let start = (ramp.from.unwrap_or(1.0).round() as u32).max(1);
        let steps = match ramp.shape {
            RampShape::Linear => Steps::Linear,
            RampShape::Exponential => Steps::Square,
            RampShape::Poisson => {
                let stream = Key::new(seed).purpose(limited.purpose()).lane(u64::from(phase));
                let count = start.abs_diff(target).min(MOST_DRAWN);
                Steps::Drawn(ramp::times(stream, count as usize, ramp.duration_ns))
            }
        };
        Self { start, target, duration_ns: ramp.duration_ns, steps }
    }

    /// The highest value it ever has.
    pub fn peak(&self) -> u32 {
        self.start.max(self.target)
    }

    /// The limit at `offset_ns` after the start.
    pub fn limit_at(&self, offset_ns: u64) -> u32 {
        self.after(self.steps_by(offset_ns))
    }

    /// When place number `k` (from 1) is first there: when the limit first is `k` or more. `None` if it never is.
    pub fn reached_ns(&self, k: u32) -> Option<u64> {
        if k <= self.limit_at(0) {
            return Some(0);
        }
        (k > self.start && k <= self.target).then(|| self.step_ns(k - self.start))
    }

    /// Every moment at which the limit changes, with the limit from there on; first the start of the phase.
    pub fn changes(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        std::iter::successors(Some(0), |at_ns| {
            let taken = self.steps_by(*at_ns);
            (taken < self.way()).then(|| self.step_ns(taken + 1))
        })
        .map(|at_ns| (at_ns, self.limit_at(at_ns)))
    }

    /// Number of steps.
    fn way(&self) -> u32 {
        self.start.abs_diff(self.target)
    }

    fn after(&self, steps: u32) -> u32 {
        if self.target >= self.start { self.start + steps } else { self.start - steps }
    }

    /// When step `k` (from 1) is taken.
    fn step_ns(&self, k: u32) -> u64 {
        let (k, way) = (u64::from(k), u64::from(self.way()));
        match &self.steps {
            Steps::Linear => {
                let (k, way) = (u128::from(k), u128::from(way));
                ((u128::from(self.duration_ns) * k + way / 2) / way) as u64
            }
            Steps::Square => {
                let part = (k as f64 / way as f64).sqrt();
                ((self.duration_ns as f64 * part).round() as u64).min(self.duration_ns)
            }
            Steps::Drawn(times) => times[(k * times.len() as u64).div_ceil(way) as usize - 1],
        }
    }

    /// How many steps are taken by `offset_ns`.
    fn steps_by(&self, offset_ns: u64) -> u32 {
        if offset_ns >= self.duration_ns {
            return self.way();
        }
        let (mut taken, mut open) = (0, self.way());
        while taken < open {
            let middle = taken + (open - taken).div_ceil(2);
            if self.step_ns(middle) <= offset_ns { taken = middle } else { open = middle - 1 }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn curve(target: u32, seconds: u64, shape: RampShape, from: Option<f64>) -> LimitCurve {
        let ramp = Ramp { duration_ns: seconds * S, shape, from };
        LimitCurve::new(target, Some(&ramp), Limited::Sessions, 7, 1)
    }

    #[test]
    fn without_a_ramp_it_is_there_at_once() {
        let curve = LimitCurve::new(5, None, Limited::Sessions, 7, 1);
        assert_eq!((curve.limit_at(0), curve.limit_at(u64::MAX), curve.peak()), (5, 5, 5));
        assert_eq!((curve.reached_ns(5), curve.reached_ns(6)), (Some(0), None));
        assert_eq!(curve.changes().collect::<Vec<_>>(), [(0, 5)]);
    }

    /// AIPerf's steps for a ramp to 5 within 10 s.
    #[test]
    fn a_straight_way_up_has_even_steps() {
        let curve = curve(5, 10, RampShape::Linear, None);
        let changes: Vec<_> = curve.changes().collect();
        let want = [(0, 1), (5 * S / 2, 2), (5 * S, 3), (15 * S / 2, 4), (10 * S, 5)];
        assert_eq!(changes, want);
        assert_eq!((curve.limit_at(5 * S - 1), curve.limit_at(5 * S)), (2, 3));
        assert_eq!(
            (curve.reached_ns(1), curve.reached_ns(4), curve.reached_ns(6)),
            (Some(0), Some(15 * S / 2), None)
        );
    }

    #[test]
    fn a_way_down_takes_places_away() {
        let curve = curve(2, 4, RampShape::Linear, Some(4.0));
        assert_eq!(curve.changes().collect::<Vec<_>>(), [(0, 4), (2 * S, 3), (4 * S, 2)]);
        assert_eq!(curve.peak(), 4);
        assert_eq!([1, 4, 5].map(|k| curve.reached_ns(k)), [Some(0), Some(0), None]);
    }

    #[test]
    fn the_square_of_the_time_is_slow_first() {
        let up = curve(101, 10, RampShape::Exponential, None);
        // 1 + 100 (t/10)².
        assert_eq!([0, 1, 2, 5, 10].map(|s| up.limit_at(s * S)), [1, 2, 5, 26, 101]);
        let down = curve(1, 10, RampShape::Exponential, Some(101.0));
        assert_eq!([0, 1, 2, 5, 10].map(|s| down.limit_at(s * S)), [101, 100, 97, 76, 1]);
    }

    #[test]
    fn drawn_steps_are_a_function_of_seed_phase_and_limit() {
        let ramp = Ramp { duration_ns: 60 * S, shape: RampShape::Poisson, from: None };
        let of = |limited, seed, phase| LimitCurve::new(101, Some(&ramp), limited, seed, phase);
        let one = of(Limited::Sessions, 7, 1);
        assert_eq!(one, of(Limited::Sessions, 7, 1));
        for other in [of(Limited::Prefills, 7, 1), of(Limited::Sessions, 8, 1), of(Limited::Sessions, 7, 2)] {
            assert_ne!(one, other);
        }
        // Half of a hundred steps are within half of the time, give or take four standard deviations.
        assert!(one.limit_at(30 * S).abs_diff(51) <= 20, "{}", one.limit_at(30 * S));
    }

    #[test]
    fn a_long_drawn_way_takes_several_steps_at_once() {
        let curve = curve(1_000_001, 60, RampShape::Poisson, None);
        let changes: Vec<_> = curve.changes().collect();
        assert!((60_000..=65_537).contains(&changes.len()), "{}", changes.len());
        assert_eq!(changes.last().map(|c| c.1), Some(1_000_001));
        assert!(changes.windows(2).all(|w| w[0] < w[1]));
    }

    proptest! {
        /// All answers are of one curve: changes, limits, and the moments of each place.
        #[test]
        fn answers_agree(
            target in 1u32..300,
            from in prop::option::of(0.0f64..300.0),
            // So short that steps fall together, too.
            duration_ns in 1u64..500,
            shape in prop::sample::select(vec![RampShape::Linear, RampShape::Exponential, RampShape::Poisson]),
        ) {
            let ramp = Ramp { duration_ns, shape, from };
            let curve = LimitCurve::new(target, Some(&ramp), Limited::Prefills, 3, 0);
            let changes: Vec<_> = curve.changes().collect();
            prop_assert_eq!(changes[0].0, 0);
            prop_assert_eq!(changes.last().map(|c| c.1), Some(target));
            let start = (from.unwrap_or(1.0).round() as u32).max(1);
            let is_up = target > start;
            let is_step = |w: &[(u64, u32)]| w[0].0 < w[1].0 && w[0].1 != w[1].1 && (w[0].1 < w[1].1) == is_up;
            prop_assert!(changes.windows(2).all(is_step));
            let mut next = changes.iter().peekable();
            let mut limit = 0;
            for at_ns in 0..duration_ns + 2 {
                if let Some((_, new)) = next.next_if(|c| c.0 == at_ns) {
                    limit = *new;
                }
                prop_assert_eq!(curve.limit_at(at_ns), limit);
            }
            for k in 1..310 {
                let first = changes.iter().find(|c| c.1 >= k).map(|c| c.0);
                prop_assert_eq!(curve.reached_ns(k), first);
            }
        }
    }
}
