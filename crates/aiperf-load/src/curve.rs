//! A rate over the time of a phase: its value, its integral, and the moment at which the integral reaches a number.
//!
//! A curve is a row of pieces, each with a closed form of value and integral: a straight line, or a way that goes with the
//! square of the time. Pieces begin on whole nanoseconds and count their own time from there, so that a long phase loses no
//! precision. Only basic operations and the square root are used, so a curve has the same bits on every platform.

use aiperf_core::plan::{Ramp, RampShape, RatePlan, RateShape};
use aiperf_core::time::NS_PER_S;
use aiperf_rng::Key;
use aiperf_rng::elementary::{exp, ln};

use crate::ramp;

const NS: f64 = NS_PER_S as f64;
/// Fewest and most steps of a rate's Poisson ramp. Between them there is one for each arrival per second of the way.
const RATE_STEPS: (f64, f64) = (10.0, 1000.0);
/// Newton's method on a cubic ends after about five steps; this many say only that it ends.
const MOST_STEPS: u32 = 64;

/// Arrivals per second from the start of a phase on, without end.
///
/// First the ramp, then the rate itself; a series begins when the ramp is over. The last value is held. A Poisson ramp goes
/// in equal steps at times drawn evenly from the ramp's duration by (seed, phase, step): one for each arrival per second of
/// the way, but at least 10 and at most 1000.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RateCurve {
    pieces: Vec<Piece>,
}

/// A part of a curve with one form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Piece {
    start_ns: u64,
    /// Without end for the last.
    seconds: f64,
    from: f64,
    to: f64,
    form: Form,
    /// The integral up to its start.
    pub(crate) before: f64,
}

/// How a piece comes from its first value to its last.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    /// They are the same.
    Flat,
    /// A straight line.
    Line,
    /// With the square of the time.
    Square,
}

impl RateCurve {
    /// The curve of a plan in phase number `phase`.
    pub(crate) fn new(plan: &RatePlan, seed: u64, phase: u16) -> Self {
        let mut curve = Self { pieces: Vec::new() };
        let ramp_end_ns = match plan.ramp {
            Some(ramp) if ramp.duration_ns > 0 => {
                curve.ramp(&ramp, plan.target(), seed, phase);
                ramp.duration_ns
            }
            _ => 0,
        };
        match &plan.shape {
            RateShape::Steady(rate) => curve.hold(ramp_end_ns, *rate),
            RateShape::Series(points) => {
                let mut last = (ramp_end_ns, plan.target());
                for point in points {
                    let next = (ramp_end_ns.saturating_add(point.at_ns), point.per_second);
                    curve.push(last.0, next.0, last.1, next.1, Form::Line);
                    last = next;
                }
                curve.hold(last.0, last.1);
            }
        }
        curve
    }

    /// The rate, if it is the same all the time.
    pub(crate) fn steady(&self) -> Option<f64> {
        match self.pieces.as_slice() {
            [only] => Some(only.from),
            _ => None,
        }
    }

    /// Arrivals per second at `offset_ns` after the start. Where the rate jumps it has the new value already.
    #[cfg(test)]
    pub(crate) fn at(&self, offset_ns: u64) -> f64 {
        let piece = self.piece_at(offset_ns);
        piece.value(piece.seconds_to(offset_ns))
    }

    /// Arrivals expected before `offset_ns`: the integral from the start to there.
    #[cfg(test)]
    pub(crate) fn integral(&self, offset_ns: u64) -> f64 {
        let piece = self.piece_at(offset_ns);
        piece.before + piece.area(piece.seconds_to(offset_ns))
    }

    /// The first moment at which the integral is `count`; `u64::MAX` if it never is or that is further away than the clock
    /// reaches.
    #[cfg(test)]
    pub(crate) fn inverse(&self, count: f64) -> u64 {
        let next = self.pieces.partition_point(|p| p.before < count);
        let piece = &self.pieces[next.saturating_sub(1)];
        piece.reaches_ns(count - piece.before)
    }

    /// All pieces in order; at least one.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    fn ramp(&mut self, ramp: &Ramp, to: f64, seed: u64, phase: u16) {
        let from = ramp.from.unwrap_or(0.0);
        let end_ns = ramp.duration_ns;
        match ramp.shape {
            RampShape::Linear => self.push(0, end_ns, from, to, Form::Line),
            RampShape::Exponential => self.push(0, end_ns, from, to, Form::Square),
            RampShape::Poisson => {
                let steps = (to - from).abs().ceil().clamp(RATE_STEPS.0, RATE_STEPS.1) as usize;
                let stream = Key::new(seed).purpose("timing.ramp.rate").lane(u64::from(phase));
                let (mut start_ns, mut value) = (0, from);
                for (step, at_ns) in ramp::times(stream, steps, end_ns).into_iter().enumerate() {
                    self.push(start_ns, at_ns, value, value, Form::Flat);
                    let share = (step + 1) as f64 / steps as f64;
                    (start_ns, value) = (at_ns, from + (to - from) * share);
                }
                self.push(start_ns, end_ns, to, to, Form::Flat);
            }
        }
    }

    /// Adds a piece behind the last one, unless it takes no time.
    fn push(&mut self, start_ns: u64, end_ns: u64, from: f64, to: f64, form: Form) {
        if end_ns > start_ns {
            self.add(start_ns, (end_ns - start_ns) as f64 / NS, from, to, form);
        }
    }

    fn hold(&mut self, start_ns: u64, rate: f64) {
        self.add(start_ns, f64::INFINITY, rate, rate, Form::Flat);
    }

    fn add(&mut self, start_ns: u64, seconds: f64, from: f64, to: f64, form: Form) {
        let before = self.pieces.last().map_or(0.0, |p| p.before + p.area(p.seconds));
        self.pieces.push(Piece { start_ns, seconds, from, to, form, before });
    }

    #[cfg(test)]
    fn piece_at(&self, offset_ns: u64) -> &Piece {
        // The first piece begins at 0.
        &self.pieces[self.pieces.partition_point(|p| p.start_ns <= offset_ns) - 1]
    }
}

impl Piece {
    #[cfg(test)]
    fn seconds_to(&self, offset_ns: u64) -> f64 {
        (offset_ns - self.start_ns) as f64 / NS
    }

    fn value(&self, t: f64) -> f64 {
        let x = t / self.seconds;
        let way = self.to - self.from;
        match self.form {
            Form::Flat => self.from,
            Form::Line => self.from + way * x,
            Form::Square => self.from + way * x * x,
        }
    }

    /// The integral from its start to `t` seconds behind it.
    fn area(&self, t: f64) -> f64 {
        let x = t / self.seconds;
        let way = self.to - self.from;
        match self.form {
            Form::Flat => t * self.from,
            Form::Line => t * (self.from + way * x / 2.0),
            Form::Square => t * (self.from + way * x * x / 3.0),
        }
    }

    /// The first moment, since the start of the phase, at which the integral from the start of this piece is `area`.
    pub(crate) fn reaches_ns(&self, area: f64) -> u64 {
        if area <= 0.0 {
            return self.start_ns;
        }
        let t = match self.form {
            Form::Flat => area / self.from,
            Form::Line => {
                // The root of from·t + slope·t²/2 = area in the form that cancels nothing.
                let slope = (self.to - self.from) / self.seconds;
                let square = self.from * self.from + 2.0 * slope * area;
                2.0 * area / (self.from + square.max(0.0).sqrt())
            }
            Form::Square => self.cubic_root(area),
        };
        self.start_ns.saturating_add((t.min(self.seconds) * NS).round() as u64)
    }

    /// The root of from·t + (to − from)·t³/(3·seconds²) = area, by Newton's method from the side on which every step goes
    /// towards the root and none over it: from above on a way up, whose integral is convex, from below on a way down.
    fn cubic_root(&self, area: f64) -> f64 {
        let is_up = self.to > self.from;
        let mut t = if is_up {
            // Each part of the sum alone would come to `area` later than both do.
            let cube = 3.0 * area / (self.to - self.from) * self.seconds * self.seconds;
            // A little more than the cube root, for that is not good to the last bit.
            (exp(ln(cube) / 3.0) * (1.0 + 1e-12)).min(area / self.from).min(self.seconds)
        } else {
            area / self.from
        };
        for _ in 0..MOST_STEPS {
            let next = t - (self.area(t) - area) / self.value(t);
            // At the root the steps turn around, for there only rounding is left.
            if !next.is_finite() || (if is_up { next >= t } else { next <= t }) {
                break;
            }
            t = next;
        }
        t
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values that are exact by construction")]
mod tests {
    use super::*;
    use aiperf_core::plan::RatePoint;
    use proptest::prelude::*;

    const S: u64 = NS_PER_S;

    fn ramp(seconds: u64, shape: RampShape, from: Option<f64>) -> Ramp {
        Ramp { duration_ns: seconds * S, shape, from }
    }

    fn curve(shape: RateShape, ramp: Option<Ramp>) -> RateCurve {
        RateCurve::new(&RatePlan { shape, ramp }, 7, 1)
    }

    fn series(points: &[(u64, f64)]) -> RateShape {
        RateShape::Series(
            points.iter().map(|(s, rate)| RatePoint { at_ns: s * S, per_second: *rate }).collect(),
        )
    }

    #[test]
    fn a_steady_rate_is_one_piece() {
        let steady = curve(RateShape::Steady(4.0), None);
        assert_eq!(steady.steady(), Some(4.0));
        assert_eq!((steady.at(0), steady.at(9 * S)), (4.0, 4.0));
        assert_eq!((steady.integral(5 * S / 2), steady.inverse(10.0)), (10.0, 5 * S / 2));
        assert_eq!(steady.inverse(0.0), 0);
        assert_eq!(steady.inverse(1e300), u64::MAX);
    }

    #[test]
    fn a_series_is_straight_lines_and_holds_its_ends() {
        let curve = curve(series(&[(10, 5.0), (20, 15.0), (30, 1.0)]), None);
        let at = [0, 10, 15, 20, 25, 30, 1000].map(|s| curve.at(s * S));
        assert_eq!(at, [5.0, 5.0, 10.0, 15.0, 8.0, 1.0, 1.0]);
        let sums = [0, 10, 20, 30, 40].map(|s| curve.integral(s * S));
        assert_eq!(sums, [0.0, 50.0, 150.0, 230.0, 240.0]);
        assert_eq!([50.0, 150.0, 230.0, 240.0].map(|n| curve.inverse(n)), [10, 20, 30, 40].map(|s| s * S));
        // 5t + t²/2 = 37.5 five seconds behind the tenth.
        assert_eq!(curve.inverse(87.5), 15 * S);
        assert_eq!(curve.steady(), None);
    }

    #[test]
    fn ramps_go_up_and_down_and_a_series_follows() {
        let up = curve(RateShape::Steady(10.0), Some(ramp(10, RampShape::Linear, None)));
        assert_eq!([0, 5, 10, 20].map(|s| up.at(s * S)), [0.0, 5.0, 10.0, 10.0]);
        assert_eq!([5, 10, 11].map(|s| up.integral(s * S)), [12.5, 50.0, 60.0]);
        assert_eq!((up.inverse(12.5), up.inverse(60.0)), (5 * S, 11 * S));
        let down = curve(RateShape::Steady(10.0), Some(ramp(10, RampShape::Linear, Some(30.0))));
        assert_eq!([0, 5, 10].map(|s| down.at(s * S)), [30.0, 20.0, 10.0]);
        assert_eq!((down.integral(10 * S), down.inverse(125.0)), (200.0, 5 * S));
        let square = curve(RateShape::Steady(9.0), Some(ramp(3, RampShape::Exponential, None)));
        assert_eq!([0, 1, 2, 3].map(|s| square.at(s * S).round()), [0.0, 1.0, 4.0, 9.0]);
        assert!((square.integral(3 * S) - 9.0).abs() < 1e-12);
        assert_eq!((square.inverse(1.0 / 3.0), square.inverse(9.0), square.inverse(18.0)), (S, 3 * S, 4 * S));
        let fall = curve(RateShape::Steady(1.0), Some(ramp(3, RampShape::Exponential, Some(10.0))));
        assert_eq!([0, 1, 2, 3].map(|s| fall.at(s * S).round()), [10.0, 9.0, 6.0, 1.0]);
        // 10t − t³/3.
        assert_eq!(fall.inverse(10.0 - 1.0 / 3.0), S);
        let then = curve(series(&[(0, 4.0), (2, 8.0)]), Some(ramp(2, RampShape::Linear, None)));
        assert_eq!([0, 1, 2, 3, 4, 9].map(|s| then.at(s * S)), [0.0, 2.0, 4.0, 6.0, 8.0, 8.0]);
    }

    #[test]
    fn a_poisson_ramp_goes_in_equal_steps_at_drawn_times() {
        for (from, to, steps) in [(None, 3.0, 10), (Some(150.0), 20.0, 130), (None, 5000.0, 1000)] {
            let plan =
                RatePlan { shape: RateShape::Steady(to), ramp: Some(ramp(60, RampShape::Poisson, from)) };
            let curve = RateCurve::new(&plan, 7, 1);
            let values: Vec<f64> = curve.pieces.iter().map(|p| p.from).collect();
            // One piece a step, one before the first and one behind the ramp.
            assert_eq!(values.len(), steps + 2);
            let step = (to - from.unwrap_or(0.0)) / steps as f64;
            assert!(values[..=steps].windows(2).all(|w| (w[1] - w[0] - step).abs() < 1e-9), "{values:?}");
            assert_eq!((values[0], values[steps], values[steps + 1]), (from.unwrap_or(0.0), to, to));
            assert!(curve.pieces.windows(2).all(|w| w[0].start_ns < w[1].start_ns));
            assert_eq!(curve, RateCurve::new(&plan, 7, 1));
            assert_ne!(curve, RateCurve::new(&plan, 8, 1));
            assert_ne!(curve, RateCurve::new(&plan, 7, 2));
        }
    }

    #[test]
    fn a_rate_of_nothing_is_never_reached() {
        let curve = curve(RateShape::Steady(0.0), Some(ramp(2, RampShape::Linear, Some(2.0))));
        assert_eq!((curve.inverse(2.0), curve.inverse(2.1)), (2 * S, u64::MAX));
    }

    fn shapes() -> impl Strategy<Value = RampShape> {
        prop::sample::select(vec![RampShape::Linear, RampShape::Exponential, RampShape::Poisson])
    }

    proptest! {
        /// Value, integral and inverse are of one curve: the integral grows by the value, and the inverse finds the way back.
        #[test]
        fn the_inverse_inverts(
            from in prop::option::of(0.0f64..5000.0),
            shape in shapes(),
            seconds in 1u64..10_000,
            rates in prop::collection::vec(0.01f64..5000.0, 1..6),
            parts in prop::collection::vec(0.0f64..1.3, 20),
        ) {
            let rate = match rates.as_slice() {
                [only] => RateShape::Steady(*only),
                many => series(&many.iter().enumerate().map(|(i, r)| (i as u64 * 40, *r)).collect::<Vec<_>>()),
            };
            let curve = curve(rate, Some(ramp(seconds, shape, from)));
            let end_s = seconds as f64 + 200.0;
            for part in parts {
                let at_ns = (part * end_s * NS) as u64;
                let count = curve.integral(at_ns);
                let back = curve.inverse(count);
                // Where the rate is nothing the first of many moments is found.
                let error = (curve.integral(back) - count).abs();
                prop_assert!(back <= at_ns.saturating_add(1_000_000) || curve.at(at_ns) < 1e-3, "{at_ns} {back}");
                prop_assert!(error <= 1e-12 * count + 1e-9 * (1.0 + curve.at(back)), "{at_ns} {back} {error}");
                let step = curve.integral(at_ns + 1000) - count;
                let most = curve.at(at_ns).max(curve.at(at_ns + 1000)).max(1.0);
                prop_assert!(step >= -1e-12 * count && step <= most * 1e-6 * 5001.0 + 1e-9 * count);
            }
        }
    }
}
