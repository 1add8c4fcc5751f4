//! Which of several servers a session goes to. All its turns go there.

use aiperf_core::plan::UrlStrategy;
use aiperf_rng::{Key, Stream};

/// Gives sessions their servers, by the number of the session alone: the answer is the same on every shard and for any number
/// of them. [`UrlStrategy::LeastInFlight`] is the exception, for it looks at what is going on, see [`least_in_flight`].
#[derive(Debug, Clone)]
pub struct Targets {
    strategy: UrlStrategy,
    /// Weights up to and with each server.
    sums: Vec<f64>,
    draws: Stream,
}

impl Targets {
    /// For servers of these weights (each above 0), in the order of the plan; at least one.
    pub fn new(strategy: UrlStrategy, weights: impl IntoIterator<Item = f64>, seed: u64) -> Self {
        let sums = weights
            .into_iter()
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        Self { strategy, sums, draws: Key::new(seed).purpose("load.target") }
    }

    /// The server of session number `session` of the run, as its position in the plan. `None` if that depends on the requests
    /// in flight; a single server needs no choice.
    pub fn of_session(&self, session: u64) -> Option<usize> {
        let count = self.sums.len();
        if count <= 1 {
            return Some(0);
        }
        match self.strategy {
            UrlStrategy::RoundRobin => Some((session % count as u64) as usize),
            UrlStrategy::Random => Some(self.draws.at(session).position(count)),
            UrlStrategy::Weighted => {
                let total = self.sums.last().copied().unwrap_or(0.0);
                let at = self.draws.at(session).unit() * total;
                // Rounding may bring the product up to the total.
                Some(self.sums.partition_point(|sum| *sum <= at).min(count - 1))
            }
            UrlStrategy::LeastInFlight => None,
        }
    }
}

/// The server with the fewest requests in flight; of equals the first.
pub fn least_in_flight(in_flight: impl IntoIterator<Item = u64>) -> usize {
    in_flight.into_iter().enumerate().min_by_key(|(_, count)| *count).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 30_000;

    fn counts(targets: &Targets) -> [f64; 3] {
        let mut counts = [0.0; 3];
        for session in 0..N {
            counts[targets.of_session(session).expect("by number alone")] += 1.0;
        }
        counts
    }

    #[test]
    fn round_robin_goes_around() {
        let targets = Targets::new(UrlStrategy::RoundRobin, [1.0; 3], 7);
        let got: Vec<_> = (0..7).map(|s| targets.of_session(s)).collect();
        assert_eq!(got, [0, 1, 2, 0, 1, 2, 0].map(Some));
    }

    #[test]
    fn draws_keep_to_the_weights() {
        for (strategy, weights, shares) in [
            (UrlStrategy::Random, [1.0, 5.0, 2.0], [1.0 / 3.0; 3]),
            (UrlStrategy::Weighted, [1.0, 5.0, 2.0], [0.125, 0.625, 0.25]),
        ] {
            let targets = Targets::new(strategy, weights, 7);
            for (got, share) in counts(&targets).into_iter().zip(shares) {
                let error = 4.0 * (N as f64 * share * (1.0 - share)).sqrt();
                assert!((got - N as f64 * share).abs() < error, "{strategy:?}: {got}, want {share}");
            }
        }
    }

    #[test]
    fn a_draw_is_a_function_of_seed_and_session() {
        let of = |seed| {
            let targets = Targets::new(UrlStrategy::Random, [1.0; 5], seed);
            (0..100).map(|s| targets.of_session(s)).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        // In any order, as shards ask.
        let targets = Targets::new(UrlStrategy::Random, [1.0; 5], 1);
        let backwards: Vec<_> = (0..100).rev().map(|s| targets.of_session(s)).collect();
        assert!(of(1).iter().eq(backwards.iter().rev()));
    }

    #[test]
    fn the_least_busy_is_chosen_while_sessions_start() {
        let targets = Targets::new(UrlStrategy::LeastInFlight, [1.0; 2], 7);
        assert_eq!(targets.of_session(0), None);
        assert_eq!(Targets::new(UrlStrategy::LeastInFlight, [1.0], 7).of_session(9), Some(0));
        assert_eq!(least_in_flight([3, 1, 2, 1]), 1);
        assert_eq!((least_in_flight([0, 0]), least_in_flight([])), (0, 0));
    }
}
