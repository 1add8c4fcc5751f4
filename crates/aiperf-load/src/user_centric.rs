//! Users who each keep a clock of their own and together send at a rate.
//!
//! A user is a session. Its turns are a gap of `users / rate` apart, users start `1 / rate` apart, and where one is expected to
//! end another one follows, whether or not it did: an open loop over users. From the first second the mix is that of a run
//! which has been going on for long: users are given a past, in which they sent some of their turns already. All moments are
//! whole multiples ("slots") of `1 / rate`, and of any `users` slots in a row each is one user's, so that the rate holds from
//! the first slot on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aiperf_core::time::NS_PER_S;

/// A session of a phase that is paced by users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserSession {
    /// Number of the session in the phase, from 0: which conversation it takes.
    pub session: u64,
    /// Number of the user, from 1: the session's correlation id as text.
    pub user: u64,
    /// How many turns it sends, the first ones of its conversation; at least 1.
    pub turns: u32,
    /// When its first turn is due, from the start of the phase.
    pub start_ns: u64,
}

/// The sessions of a phase in the order in which they start, without end.
///
/// The first `users` sessions are numbered by age, not by their start: the one that starts first, in place of a user who is
/// done before the phase begins, has number `users − 1`.
#[derive(Debug)]
pub struct UserSessions<F> {
    per_second: f64,
    users: u64,
    turns_of: F,
    /// Those with a past and the first without, in the order of their start.
    first: std::vec::IntoIter<(u64, UserSession)>,
    /// Slots at which users who started are expected to be done.
    ends: BinaryHeap<Reverse<u64>>,
    next_session: u64,
}

impl<F: FnMut(u64) -> u32> UserSessions<F> {
    /// `users` at a time send `per_second` requests together; conversations have `mean_turns` turns in the mean, see
    /// [`mean_turns`], and session `i` has `turns_of(i)`.
    ///
    /// With a lifetime of L = max(1, mean − 1) gaps, user `i` of N has lived ⌊(N − i)·L / N⌋ of them and sends what is left, but
    /// no more turns than its conversation has. User 0 has none left and is only counted. Starts are spread so that
    /// neighbours differ in age: at slot N − ((N − i)·L mod N), or N − (i·s mod N) where N and L have a common divisor, with
    /// the smallest s > 1 that has none with N.
    pub fn new(per_second: f64, users: u32, mean_turns: u32, mut turns_of: F) -> Self {
        let users = u64::from(users.max(1));
        let lifetime = u64::from(mean_turns.saturating_sub(1).max(1));
        let spread = if gcd(users, lifetime) > 1 { Some(step(users)) } else { None };
        let mut first = Vec::with_capacity(users as usize);
        for i in 1..users {
            let age = (users - i) * lifetime;
            let left = (lifetime - age / users) as u32;
            let slot = users - spread.map_or(age % users, |step| i * step % users);
            first.push((slot, i - 1, i + 1, left));
        }
        first.push((0, users - 1, users + 1, u32::MAX));
        let mut first: Vec<(u64, UserSession)> = first
            .into_iter()
            .map(|(slot, session, user, most)| {
                let turns = most.min(turns_of(session)).max(1);
                (slot, UserSession { session, user, turns, start_ns: slot_ns(slot, per_second) })
            })
            .collect();
        first.sort_unstable_by_key(|(slot, _)| *slot);
        Self {
            per_second,
            users,
            turns_of,
            first: first.into_iter(),
            ends: BinaryHeap::new(),
            next_session: users,
        }
    }
}

impl<F: FnMut(u64) -> u32> Iterator for UserSessions<F> {
    type Item = UserSession;

    fn next(&mut self) -> Option<UserSession> {
        // Whoever follows another starts behind all of the first: those are within the first round of slots.
        let (slot, next) = if let Some(first) = self.first.next() {
            first
        } else {
            let Reverse(slot) = self.ends.pop()?;
            let session = self.next_session;
            self.next_session += 1;
            let start_ns = slot_ns(slot, self.per_second);
            (
                slot,
                UserSession { session, user: session + 2, turns: (self.turns_of)(session).max(1), start_ns },
            )
        };
        let end = slot.saturating_add(u64::from(next.turns).saturating_mul(self.users));
        self.ends.push(Reverse(end));
        Some(next)
    }
}

/// The clock of each user: when its next turn is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserClock {
    gap_ns: u64,
}

impl UserClock {
    /// For `users` who together send `per_second` requests.
    pub fn new(per_second: f64, users: u32) -> Self {
        Self { gap_ns: slot_ns(u64::from(users), per_second) }
    }

    /// When the turn behind one that was due at `due_ns` and ended at `end_ns` is due: a gap later, or at once when that is
    /// over. The turns behind a late one keep their gap to it.
    pub fn next_ns(self, due_ns: u64, end_ns: u64) -> u64 {
        due_ns.saturating_add(self.gap_ns).max(end_ns)
    }
}

/// Turns of a conversation in the mean, rounded half to even as AIPerf does.
pub fn mean_turns(turns: u64, conversations: u64) -> u32 {
    (turns as f64 / conversations.max(1) as f64).round_ties_even() as u32
}

fn slot_ns(slot: u64, per_second: f64) -> u64 {
    (slot as f64 / per_second * NS_PER_S as f64).round() as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The smallest number above 1 that has no divisor in common with `users`; 1 up to two users.
fn step(users: u64) -> u64 {
    (2..users).find(|step| gcd(users, *step) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// (start, user, session, turns) of AIPerf 0.13.0's own class in virtual time.
    type Golden = (u64, u64, u64, u32);

    fn assert_golden(users: u32, per_second: f64, turns: &[u32], want: &[Golden]) {
        let total: u32 = turns.iter().sum();
        let mean = mean_turns(u64::from(total), turns.len() as u64);
        let of = |session: u64| turns[(session % turns.len() as u64) as usize];
        let got: Vec<Golden> = UserSessions::new(per_second, users, mean, of)
            .take(want.len())
            .map(|u| (u.start_ns, u.user, u.session, u.turns))
            .collect();
        assert_eq!(got, want, "{users} users, {per_second}/s, {turns:?}");
    }

    #[test]
    fn sessions_are_those_of_the_reference() {
        assert_golden(
            15,
            1.0,
            &[20],
            &[
                (0, 16, 14, 20),
                (1_000_000_000, 5, 3, 6),
                (2_000_000_000, 9, 7, 11),
                (3_000_000_000, 13, 11, 16),
                (4_000_000_000, 2, 0, 2),
                (5_000_000_000, 6, 4, 7),
                (6_000_000_000, 10, 8, 12),
                (7_000_000_000, 14, 12, 17),
                (8_000_000_000, 3, 1, 3),
                (9_000_000_000, 7, 5, 8),
                (10_000_000_000, 11, 9, 13),
                (11_000_000_000, 15, 13, 18),
                (12_000_000_000, 4, 2, 4),
                (13_000_000_000, 8, 6, 9),
                (14_000_000_000, 12, 10, 14),
                (34_000_000_000, 17, 15, 20),
                (53_000_000_000, 18, 16, 20),
                (72_000_000_000, 19, 17, 20),
                (91_000_000_000, 20, 18, 20),
                (110_000_000_000, 21, 19, 20),
                (129_000_000_000, 22, 20, 20),
            ],
        );
        assert_golden(
            4,
            2.0,
            &[3],
            &[
                (0, 5, 3, 3),
                (500_000_000, 2, 0, 1),
                (1_000_000_000, 3, 1, 1),
                (1_500_000_000, 4, 2, 2),
                (2_500_000_000, 6, 4, 3),
                (3_000_000_000, 7, 5, 3),
                (5_500_000_000, 8, 6, 3),
                (6_000_000_000, 9, 7, 3),
                (8_500_000_000, 10, 8, 3),
                (9_000_000_000, 11, 9, 3),
            ],
        );
        assert_golden(
            6,
            3.0,
            &[4],
            &[
                (0, 7, 5, 4),
                (333_333_333, 2, 0, 1),
                (666_666_667, 3, 1, 1),
                (1_000_000_000, 4, 2, 2),
                (1_333_333_333, 5, 3, 2),
                (1_666_666_667, 6, 4, 3),
                (2_333_333_333, 8, 6, 4),
                (2_666_666_667, 9, 7, 4),
                (5_000_000_000, 10, 8, 4),
                (5_333_333_333, 11, 9, 4),
                (7_666_666_667, 12, 10, 4),
                (8_000_000_000, 13, 11, 4),
            ],
        );
        assert_golden(
            10,
            5.0,
            &[3],
            &[
                (0, 11, 9, 3),
                (200_000_000, 4, 2, 1),
                (400_000_000, 7, 5, 2),
                (600_000_000, 10, 8, 2),
                (800_000_000, 3, 1, 1),
                (1_000_000_000, 6, 4, 1),
                (1_200_000_000, 9, 7, 2),
                (1_400_000_000, 2, 0, 1),
                (1_600_000_000, 5, 3, 1),
                (1_800_000_000, 8, 6, 2),
                (2_200_000_000, 12, 10, 3),
                (2_800_000_000, 13, 11, 3),
                (3_000_000_000, 14, 12, 3),
                (3_400_000_000, 15, 13, 3),
                (3_600_000_000, 16, 14, 3),
                (4_400_000_000, 17, 15, 3),
            ],
        );
        assert_golden(
            1,
            0.5,
            &[5],
            &[
                (0, 2, 0, 5),
                (10_000_000_000, 3, 1, 5),
                (20_000_000_000, 4, 2, 5),
                (30_000_000_000, 5, 3, 5),
                (40_000_000_000, 6, 4, 5),
                (50_000_000_000, 7, 5, 5),
                (60_000_000_000, 8, 6, 5),
            ],
        );
        assert_golden(
            2,
            4.0,
            &[3],
            &[
                (0, 3, 1, 3),
                (250_000_000, 2, 0, 1),
                (750_000_000, 4, 2, 3),
                (1_500_000_000, 5, 3, 3),
                (2_250_000_000, 6, 4, 3),
                (3_000_000_000, 7, 5, 3),
                (3_750_000_000, 8, 6, 3),
                (4_500_000_000, 9, 7, 3),
            ],
        );
        assert_golden(
            5,
            2.5,
            &[1],
            &[
                (0, 6, 4, 1),
                (400_000_000, 2, 0, 1),
                (800_000_000, 3, 1, 1),
                (1_200_000_000, 4, 2, 1),
                (1_600_000_000, 5, 3, 1),
                (2_000_000_000, 7, 5, 1),
                (2_400_000_000, 8, 6, 1),
                (2_800_000_000, 9, 7, 1),
                (3_200_000_000, 10, 8, 1),
                (3_600_000_000, 11, 9, 1),
                (4_000_000_000, 12, 10, 1),
            ],
        );
        assert_golden(
            7,
            3.0,
            &[2, 5, 3],
            &[
                (0, 8, 6, 2),
                (333_333_333, 5, 3, 2),
                (666_666_667, 2, 0, 1),
                (1_000_000_000, 6, 4, 2),
                (1_333_333_333, 3, 1, 1),
                (1_666_666_667, 7, 5, 2),
                (2_000_000_000, 4, 2, 1),
                (3_000_000_000, 9, 7, 5),
                (3_666_666_667, 10, 8, 3),
                (4_333_333_333, 11, 9, 2),
                (4_666_666_667, 12, 10, 5),
                (5_000_000_000, 13, 11, 3),
                (5_666_666_667, 14, 12, 2),
            ],
        );
        assert_golden(
            12,
            7.0,
            &[9],
            &[
                (0, 13, 11, 9),
                (142_857_143, 8, 6, 5),
                (285_714_286, 3, 1, 2),
                (428_571_429, 10, 8, 6),
                (571_428_571, 5, 3, 3),
                (714_285_714, 12, 10, 8),
                (857_142_857, 7, 5, 4),
                (1_000_000_000, 2, 0, 1),
                (1_142_857_143, 9, 7, 6),
                (1_285_714_286, 4, 2, 2),
                (1_428_571_429, 11, 9, 7),
                (1_571_428_571, 6, 4, 4),
                (2_714_285_714, 14, 12, 9),
                (3_714_285_714, 15, 13, 9),
                (4_714_285_714, 16, 14, 9),
                (5_714_285_714, 17, 15, 9),
                (7_714_285_714, 18, 16, 9),
                (8_428_571_429, 19, 17, 9),
            ],
        );
    }

    #[test]
    fn nobody_sends_more_turns_than_its_conversation_has() {
        // A lifetime of 4 gaps, but every other conversation has one turn only.
        let of = |session: u64| if session.is_multiple_of(2) { 1 } else { 9 };
        let got: Vec<_> =
            UserSessions::new(1.0, 4, mean_turns(10, 2), of).take(4).map(|u| (u.session, u.turns)).collect();
        assert_eq!(got, [(3, 9), (0, 1), (1, 2), (2, 1)]);
    }

    #[test]
    fn a_late_turn_moves_those_behind_it() {
        let clock = UserClock::new(5.0, 10);
        assert_eq!(clock.next_ns(7, 100), 7 + 2 * NS_PER_S);
        assert_eq!(clock.next_ns(7, 9 * NS_PER_S), 9 * NS_PER_S);
    }

    #[test]
    fn means_are_rounded_half_to_even() {
        assert_eq!([(5, 2), (7, 2), (8, 3), (0, 0)].map(|(t, n)| mean_turns(t, n)), [2, 4, 3, 0]);
    }

    proptest! {
        /// When every answer comes in time, each slot from the first on is the turn of exactly one user.
        #[test]
        fn the_rate_holds_from_the_first_slot_on(
            users in 1u32..40,
            turns in prop::collection::vec(1u32..12, 1..5),
        ) {
            let total: u32 = turns.iter().sum();
            let mean = mean_turns(u64::from(total), turns.len() as u64);
            let of = |session: u64| turns[(session % turns.len() as u64) as usize];
            // One a second, so that a slot is a second.
            let slots = 20 * u64::from(users);
            let mut taken = vec![0; slots as usize];
            let mut last = 0;
            for session in UserSessions::new(1.0, users, mean, of) {
                let start = session.start_ns / NS_PER_S;
                prop_assert!(start >= last);
                prop_assert!((1..=of(session.session)).contains(&session.turns));
                last = start;
                if start >= slots {
                    break;
                }
                for turn in 0..u64::from(session.turns) {
                    if let Some(slot) = taken.get_mut((start + turn * u64::from(users)) as usize) {
                        *slot += 1;
                    }
                }
            }
            prop_assert!(taken.iter().all(|n| *n == 1), "{:?}", taken);
        }
    }
}
