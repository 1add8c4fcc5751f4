//! Arrival instants of an open loop.
//!
//! The schedule is absolute: arrival 0 is the phase's start and no later instant depends on what happened in between, so a
//! late send is late and never moves the ones behind it. Each shard computes the whole schedule and keeps its own part.

use aiperf_core::plan::{Arrival, RatePlan};
use aiperf_core::time::NS_PER_S;
use aiperf_rng::Key;

use crate::curve::RateCurve;

/// The instants of one phase as offsets from its start, nanoseconds, without end.
///
/// Arrival 0 is at 0, and arrival `i` where the integral of the rate reaches the sum of `i` gaps of mean 1 (of time
/// stretched by the rate: a process of rate 1 becomes one of any rate):
/// - constant: every gap is 1;
/// - Poisson: gaps are exponential;
/// - gamma: gaps have shape `k` (smoothness) and scale `1 / k`: coefficient of variation `1/√k`.
///
/// Gap `i` (between arrivals `i − 1` and `i`) is drawn by (seed, purpose, phase, `i`) alone. Of a steady rate, constant
/// arrivals are each rounded on their own and gaps are rounded one by one, so no error adds up in either.
#[derive(Debug, Clone)]
pub struct Arrivals {
    curve: RateCurve,
    /// The rate if there is but one.
    steady: Option<f64>,
    arrival: Arrival,
    gaps: aiperf_rng::Stream,
    next: u64,
    last_ns: u64,
    sum: Sum,
    piece: usize,
}

impl Arrivals {
    /// The schedule of phase number `phase`.
    pub fn new(rate: &RatePlan, arrival: Arrival, seed: u64, phase: u16) -> Self {
        let curve = RateCurve::new(rate, seed, phase);
        let gaps = Key::new(seed).purpose("timing.arrival.gap").lane(u64::from(phase));
        let steady = curve.steady();
        Self { curve, steady, arrival, gaps, next: 0, last_ns: 0, sum: Sum::default(), piece: 0 }
    }

    /// The gap before an arrival, of mean 1.
    fn gap(&self, index: u64) -> f64 {
        let mut draws = self.gaps.at(index);
        match self.arrival {
            Arrival::Constant => 1.0,
            Arrival::Poisson => draws.exp1(),
            Arrival::Gamma { smoothness } => draws.gamma(smoothness) / smoothness,
        }
    }

    fn at_steady(&self, index: u64, per_second: f64) -> u64 {
        if self.arrival == Arrival::Constant {
            return (index as f64 / per_second * NS_PER_S as f64).round() as u64;
        }
        let gap_ns = (self.gap(index) / per_second * NS_PER_S as f64).round() as u64;
        self.last_ns.saturating_add(gap_ns)
    }

    fn on_curve(&mut self, index: u64) -> u64 {
        self.sum.add(self.gap(index));
        let pieces = self.curve.pieces();
        while pieces.get(self.piece + 1).is_some_and(|next| next.before < self.sum.high) {
            self.piece += 1;
        }
        let piece = &pieces[self.piece];
        piece.reaches_ns(self.sum.above(piece.before)).max(self.last_ns)
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.next;
        self.next += 1;
        if index > 0 {
            self.last_ns = match self.steady {
                Some(per_second) => self.at_steady(index, per_second),
                None => self.on_curve(index),
            };
        }
        Some(self.last_ns)
    }
}

/// A sum of many small numbers that keeps what rounding drops (Neumaier 1974, for terms that are not above the sum or 0).
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let (large, small) = if term > self.high { (term, self.high) } else { (self.high, term) };
        let sum = large + small;
        self.low += (large - sum) + small;
        self.high = sum;
    }

    /// By how much it is above `less`.
    fn above(&self, less: f64) -> f64 {
        (self.high - less) + self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_core::plan::{Ramp, RampShape, RatePoint, RateShape};
    use proptest::prelude::*;

    fn steady(rate: f64, arrival: Arrival, seed: u64, phase: u16) -> Arrivals {
        Arrivals::new(&RatePlan::steady(rate), arrival, seed, phase)
    }

    fn gaps(arrival: Arrival, rate: f64, n: usize) -> Vec<f64> {
        let at: Vec<u64> = steady(rate, arrival, 7, 0).take(n + 1).collect();
        at.windows(2).map(|w| (w[1] - w[0]) as f64 / NS_PER_S as f64).collect()
    }

    /// Mean and coefficient of variation.
    fn moments(gaps: &[f64]) -> (f64, f64) {
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
        (mean, var.sqrt() / mean)
    }

    /// From 0 to `rate` within 10 s, along `shape`.
    fn ramped(rate: f64, shape: RampShape) -> RatePlan {
        RatePlan {
            ramp: Some(Ramp { duration_ns: 10 * NS_PER_S, shape, from: None }),
            ..RatePlan::steady(rate)
        }
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let at: Vec<u64> = steady(3.0, Arrival::Constant, 1, 0).take(30_001).collect();
        assert_eq!(&at[..4], &[0, 333_333_333, 666_666_667, 1_000_000_000]);
        assert_eq!(at[30_000], 10_000 * NS_PER_S);
    }

    /// What a seed means must not change between versions.
    #[test]
    fn a_seed_keeps_its_schedule() {
        for (rate, arrival, first, last) in [
            (3.0, Arrival::Constant, [0, 333_333_333, 666_666_667, 1_000_000_000], 33_333_333_333_333),
            (100.0, Arrival::Poisson, [0, 13_463_493, 19_155_430, 40_223_169], 995_923_152_132),
            (
                0.7,
                Arrival::Gamma { smoothness: 4.0 },
                [0, 455_547_432, 1_797_618_306, 2_784_697_075],
                142_972_731_776_066,
            ),
            (123_456.7, Arrival::Gamma { smoothness: 0.25 }, [0, 110, 4_026, 4_030], 812_853_322),
        ] {
            let at: Vec<u64> = steady(rate, arrival, 7, 2).take(100_001).collect();
            assert_eq!((&at[..4], at[100_000]), (&first[..], last), "{arrival:?}");
        }
    }

    /// A way from one rate to the same one is a steady rate that goes through the sum and the inverse.
    #[test]
    fn ten_million_gaps_on_a_curve_drift_by_nothing() {
        let flat = |rate| RatePlan {
            ramp: Some(Ramp { duration_ns: NS_PER_S, shape: RampShape::Linear, from: Some(rate) }),
            ..RatePlan::steady(rate)
        };
        let last = Arrivals::new(&flat(3000.0), Arrival::Constant, 7, 0).nth(9_000_000);
        assert_eq!(last, Some(3000 * NS_PER_S));
        let n = 10_000_000;
        let (own, curve) = (
            steady(1000.0, Arrival::Poisson, 7, 0).nth(n).expect("endless"),
            Arrivals::new(&flat(1000.0), Arrival::Poisson, 7, 0).nth(n).expect("endless"),
        );
        // Rounding each gap is a walk of 0.29 ns a step: 0.9 µs after so many; four times that is never seen.
        assert!(own.abs_diff(curve) < 3_700, "{own} {curve}");
    }

    #[test]
    fn arrivals_follow_a_ramp_from_nothing() {
        let at: Vec<u64> =
            Arrivals::new(&ramped(10.0, RampShape::Linear), Arrival::Constant, 7, 0).take(61).collect();
        // The integral is t²/2: 50 within the ramp, then 10 a second.
        assert_eq!((at[0], at[2], at[8], at[50]), (0, 2 * NS_PER_S, 4 * NS_PER_S, 10 * NS_PER_S));
        assert_eq!((at[55], at[60]), (10_500_000_000, 11 * NS_PER_S));
        let at: Vec<u64> =
            Arrivals::new(&ramped(30.0, RampShape::Exponential), Arrival::Constant, 7, 0).take(131).collect();
        // 0.1 t³.
        assert_eq!((at[0], at[100], at[130]), (0, 10 * NS_PER_S, 11 * NS_PER_S));
        assert!(at[1].abs_diff(2_154_434_690) <= 1, "{}", at[1]);
    }

    #[test]
    fn poisson_arrivals_have_the_curves_density() {
        for shape in [RampShape::Linear, RampShape::Exponential, RampShape::Poisson] {
            let plan = ramped(2000.0, shape);
            let curve = RateCurve::new(&plan, 7, 3);
            let at: Vec<u64> = Arrivals::new(&plan, Arrival::Poisson, 7, 3)
                .skip(1)
                .take_while(|t| *t < 12 * NS_PER_S)
                .collect();
            for s in 0..12 {
                let (from, to) = (s * NS_PER_S, (s + 1) * NS_PER_S);
                let want = curve.integral(to) - curve.integral(from);
                let got = at.iter().filter(|t| (from..to).contains(t)).count() as f64;
                assert!(
                    (got - want).abs() <= 4.5 * want.max(1.0).sqrt(),
                    "{shape:?} {s}: {got}, want {want}"
                );
            }
        }
    }

    #[test]
    fn poisson_gaps_have_mean_and_spread_of_the_exponential() {
        let (mean, cv) = moments(&gaps(Arrival::Poisson, 100.0, 50_000));
        assert!((mean - 0.01).abs() < 0.01 * 3.0 / 50_000f64.sqrt(), "mean {mean}");
        assert!((cv - 1.0).abs() < 0.02, "cv {cv}");
    }

    #[test]
    fn gamma_of_one_is_poisson_and_four_halves_the_spread() {
        let (mean, cv) = moments(&gaps(Arrival::Gamma { smoothness: 1.0 }, 100.0, 50_000));
        assert!((mean - 0.01).abs() < 0.000_15 && (cv - 1.0).abs() < 0.02, "{mean} {cv}");
        let (mean, cv) = moments(&gaps(Arrival::Gamma { smoothness: 4.0 }, 100.0, 50_000));
        assert!((mean - 0.01).abs() < 0.000_1 && (cv - 0.5).abs() < 0.01, "{mean} {cv}");
        let (_, cv) = moments(&gaps(Arrival::Gamma { smoothness: 0.25 }, 100.0, 50_000));
        assert!((cv - 2.0).abs() < 0.08, "{cv}");
    }

    #[test]
    fn the_schedule_is_a_function_of_plan_seed_and_phase() {
        let take = |seed, phase| steady(50.0, Arrival::Poisson, seed, phase).take(100).collect::<Vec<_>>();
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(2, 0));
        assert_ne!(take(1, 0), take(1, 1));
    }

    fn arrivals(smoothness: f64) -> [Arrival; 3] {
        [Arrival::Constant, Arrival::Poisson, Arrival::Gamma { smoothness }]
    }

    proptest! {
        #[test]
        fn instants_never_go_back(rate in 0.01f64..1e6, seed: u64, shape in 0.1f64..20.0) {
            for arrival in arrivals(shape) {
                let at: Vec<u64> = steady(rate, arrival, seed, 0).take(200).collect();
                prop_assert_eq!(at[0], 0);
                prop_assert!(at.windows(2).all(|w| w[0] <= w[1]));
            }
        }

        /// On any curve too, and constant arrival `i` is where the integral is `i`.
        #[test]
        fn instants_are_the_inverse_of_the_curve(
            rates in prop::collection::vec(0.5f64..1e5, 2..5),
            from in prop::option::of(0.0f64..1e5),
            shape in prop::sample::select(vec![RampShape::Linear, RampShape::Exponential, RampShape::Poisson]),
            smoothness in 0.1f64..20.0,
            seed: u64,
        ) {
            let points = rates
                .iter()
                .enumerate()
                .map(|(i, rate)| RatePoint { at_ns: i as u64 * 20_000_000, per_second: *rate })
                .collect();
            let ramp = Ramp { duration_ns: 30_000_000, shape, from };
            let plan = RatePlan { shape: RateShape::Series(points), ramp: Some(ramp) };
            for arrival in arrivals(smoothness) {
                let at: Vec<u64> = Arrivals::new(&plan, arrival, seed, 0).take(2000).collect();
                prop_assert_eq!(at[0], 0);
                prop_assert!(at.windows(2).all(|w| w[0] <= w[1]));
                if arrival == Arrival::Constant {
                    let curve = RateCurve::new(&plan, seed, 0);
                    prop_assert!(at.iter().enumerate().all(|(i, t)| *t == curve.inverse(i as f64)));
                }
            }
        }
    }
}
