//! Arrival instants of an open loop.
//!
//! The schedule is absolute: arrival 0 is the phase's start and no later instant depends on what happened in between, so a
//! late send is late and never moves the ones behind it. Each shard computes the whole schedule and keeps its own part.

use aiperf_core::plan::Arrival;
use aiperf_core::time::NS_PER_S;
use aiperf_rng::Key;

/// The instants of one phase as offsets from its start, nanoseconds, without end.
///
/// - constant: arrival `i` is at `i / rate`, each rounded on its own, so that no error adds up;
/// - Poisson: gaps are exponential with mean `1 / rate`;
/// - gamma: gaps have shape `k` (smoothness) and scale `1 / (rate·k)`: mean `1 / rate`, coefficient of variation `1/√k`.
///
/// Gap `i` (between arrivals `i − 1` and `i`) is drawn by (seed, purpose, phase, `i`) alone.
#[derive(Debug, Clone)]
pub struct Arrivals {
    per_second: f64,
    arrival: Arrival,
    gaps: aiperf_rng::Stream,
    next: u64,
    last_ns: u64,
}

impl Arrivals {
    /// The schedule of phase number `phase` at `per_second` arrivals (> 0, finite).
    pub fn new(per_second: f64, arrival: Arrival, seed: u64, phase: u16) -> Self {
        let gaps = Key::new(seed).purpose("timing.arrival.gap").lane(u64::from(phase));
        Self { per_second, arrival, gaps, next: 0, last_ns: 0 }
    }

    fn gap_ns(&self, index: u64) -> u64 {
        let mut draws = self.gaps.at(index);
        let unit = match self.arrival {
            Arrival::Constant => 1.0,
            Arrival::Poisson => draws.exp1(),
            Arrival::Gamma { smoothness } => draws.gamma(smoothness) / smoothness,
        };
        (unit / self.per_second * NS_PER_S as f64).round() as u64
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.next;
        self.next += 1;
        self.last_ns = match self.arrival {
            _ if index == 0 => 0,
            Arrival::Constant => (index as f64 / self.per_second * NS_PER_S as f64).round() as u64,
            _ => self.last_ns.saturating_add(self.gap_ns(index)),
        };
        Some(self.last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gaps(arrival: Arrival, rate: f64, n: usize) -> Vec<f64> {
        let at: Vec<u64> = Arrivals::new(rate, arrival, 7, 0).take(n + 1).collect();
        at.windows(2).map(|w| (w[1] - w[0]) as f64 / NS_PER_S as f64).collect()
    }

    /// Mean and coefficient of variation.
    fn moments(gaps: &[f64]) -> (f64, f64) {
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n;
        (mean, var.sqrt() / mean)
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let at: Vec<u64> = Arrivals::new(3.0, Arrival::Constant, 1, 0).take(30_001).collect();
        assert_eq!(&at[..4], &[0, 333_333_333, 666_666_667, 1_000_000_000]);
        assert_eq!(at[30_000], 10_000 * NS_PER_S);
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
        let take =
            |seed, phase| Arrivals::new(50.0, Arrival::Poisson, seed, phase).take(100).collect::<Vec<_>>();
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(2, 0));
        assert_ne!(take(1, 0), take(1, 1));
    }

    proptest! {
        #[test]
        fn instants_never_go_back(rate in 0.01f64..1e6, seed: u64, shape in 0.1f64..20.0) {
            for arrival in [Arrival::Constant, Arrival::Poisson, Arrival::Gamma { smoothness: shape }] {
                let at: Vec<u64> = Arrivals::new(rate, arrival, seed, 0).take(200).collect();
                prop_assert_eq!(at[0], 0);
                prop_assert!(at.windows(2).all(|w| w[0] <= w[1]));
            }
        }
    }
}
