//! Which requests are dropped on purpose.

use aiperf_core::plan::Cancellation;
use aiperf_rng::{Key, Stream};

/// Chooses a share of the requests of a phase, each by a draw of its own: by (seed, phase, session, turn) alone, so that a
/// request's fate does not depend on when it is sent, or by which shard.
#[derive(Debug, Clone, Copy)]
pub struct CancelDraw {
    cancellation: Cancellation,
    draws: Stream,
    phase: u16,
}

impl CancelDraw {
    /// For phase number `phase`.
    pub fn new(cancellation: Cancellation, seed: u64, phase: u16) -> Self {
        Self { cancellation, draws: Key::new(seed).purpose("timing.request.cancellation"), phase }
    }

    /// How long after its last byte went out turn `turn` of session `session` is dropped; `None` lets it end.
    pub fn after_ns(&self, session: u64, turn: u32) -> Option<u64> {
        let lane = u64::from(self.phase) << 32 | u64::from(turn);
        let is_chosen = self.draws.lane(lane).at(session).unit() < self.cancellation.share;
        is_chosen.then_some(self.cancellation.delay_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(share: f64, seed: u64, phase: u16) -> Vec<(u64, u32)> {
        let draw = CancelDraw::new(Cancellation { share, delay_ns: 9 }, seed, phase);
        let turns = (0..5000).flat_map(|session| (0..4).map(move |turn| (session, turn)));
        turns.filter(|(session, turn)| draw.after_ns(*session, *turn) == Some(9)).collect()
    }

    #[test]
    fn the_share_is_kept_in_every_turn() {
        let all = chosen(0.3, 7, 1);
        for turn in 0..4 {
            let n = all.iter().filter(|(_, t)| *t == turn).count() as f64;
            assert!((n - 1500.0).abs() < 4.0 * (5000.0f64 * 0.3 * 0.7).sqrt(), "turn {turn}: {n}");
        }
    }

    #[test]
    fn turns_of_a_session_are_chosen_apart() {
        let all = chosen(0.5, 7, 1);
        let both = (0..5000).filter(|s| all.contains(&(*s, 0)) && all.contains(&(*s, 1))).count() as f64;
        assert!((both - 1250.0).abs() < 4.0 * (5000.0f64 * 0.25 * 0.75).sqrt(), "{both}");
    }

    #[test]
    fn everything_and_nothing() {
        assert_eq!(chosen(1.0, 7, 1).len(), 20_000);
        assert!(chosen(0.0, 7, 1).is_empty());
    }

    #[test]
    fn a_choice_is_a_function_of_seed_and_phase() {
        assert_eq!(chosen(0.1, 7, 1), chosen(0.1, 7, 1));
        assert_ne!(chosen(0.1, 7, 1), chosen(0.1, 8, 1));
        assert_ne!(chosen(0.1, 7, 1), chosen(0.1, 7, 2));
    }
}
