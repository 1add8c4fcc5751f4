//! Which turns of which sessions a phase sends, in which order, and when: what its schedule says, with answers that take no time.
//!
//! Where answers decide, sessions follow one another. What a cache without end finds of them all does not depend on that order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use aiperf_core::plan::{Pacing, PhasePlan};
use aiperf_load::{Arrivals, FixedSchedule, PhaseWindow, UserClock, UserSessions};
use aiperf_report::dry_run::Bound;

use crate::error::RunError;
use crate::phase::{Starts, Users};

/// Who looks at the requests.
pub(super) trait Looker {
    /// A session with what it has sent.
    type Talk;

    /// Session number `session` of the phase begins.
    fn begin(&mut self, session: u64) -> Result<Self::Talk, RunError>;

    /// Turns it has.
    fn turns(talk: &Self::Talk) -> usize;

    /// The workload's own time and think time of a turn, nanoseconds.
    fn times(talk: &Self::Talk, turn: usize) -> (Option<u64>, Option<u64>);

    /// It sends a turn, so long after the start of the phase where that is planned.
    fn turn(&mut self, talk: &mut Self::Talk, turn: usize, at_ns: Option<u64>) -> Result<(), RunError>;
}

/// What a walk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walked {
    /// Sessions that sent something, or more exactly the highest one and those before it.
    pub sessions: u64,
    /// What the number of requests is.
    pub bound: Bound,
    /// The cap on requests came first.
    pub is_cut: bool,
}

/// See the module.
pub(super) struct Walk<'a> {
    plan: &'a PhasePlan,
    starts: &'a Starts,
    number: u16,
    seed: u64,
    base: u64,
    conversations: u64,
    window: PhaseWindow,
}

/// Asked after each request, with their number so far: whether to stop.
type Stop<'a> = &'a mut dyn FnMut(u64) -> bool;

/// The requests of a walk so far.
struct Sent<'a> {
    requests: u64,
    sessions: u64,
    most: u64,
    is_stopped: bool,
    stop: Stop<'a>,
}

impl Sent<'_> {
    fn is_over(&self) -> bool {
        self.is_stopped || self.requests == self.most
    }

    fn turn<L: Looker>(
        &mut self,
        look: &mut L,
        (session, talk): (u64, &mut L::Talk),
        turn: usize,
        at_ns: Option<u64>,
    ) -> Result<(), RunError> {
        look.turn(talk, turn, at_ns)?;
        self.requests += 1;
        self.sessions = self.sessions.max(session + 1);
        self.is_stopped = (self.stop)(self.requests);
        Ok(())
    }

    /// All turns of a session, at `times`; `false` when these are over.
    fn session<L: Looker>(
        &mut self,
        look: &mut L,
        session: u64,
        times: &mut impl Iterator<Item = Option<u64>>,
    ) -> Result<bool, RunError> {
        let mut talk = None;
        let mut turn = 0;
        loop {
            if self.is_over() {
                return Ok(false);
            }
            if talk.as_ref().is_some_and(|talk| turn == L::turns(talk)) {
                return Ok(true);
            }
            let Some(at_ns) = times.next() else { return Ok(false) };
            let talk = match &mut talk {
                Some(talk) => talk,
                None => talk.insert(look.begin(session)?),
            };
            self.turn(look, (session, talk), turn, at_ns)?;
            turn += 1;
        }
    }
}

impl<'a> Walk<'a> {
    /// Over phase number `number`, behind `base` sessions of others.
    pub(super) fn of(
        plan: &'a PhasePlan,
        starts: &'a Starts,
        number: u16,
        seed: u64,
        base: u64,
        conversations: u64,
    ) -> Self {
        Self { plan, starts, number, seed, base, conversations, window: PhaseWindow::start(plan, 0) }
    }

    /// Shows `look` each request.
    pub(super) fn walk<L: Looker>(&self, look: &mut L, stop: Stop<'_>) -> Result<Walked, RunError> {
        let mut sent =
            Sent { requests: 0, sessions: 0, most: self.window.max_requests, is_stopped: false, stop };
        match (self.starts, &self.plan.pacing) {
            (Starts::Arrivals, Pacing::Rate { rate, arrival }) => {
                let arrivals = Arrivals::new(rate, *arrival, self.seed, self.number);
                for (session, at_ns) in (0..self.sessions()).zip(arrivals) {
                    if sent.is_over() || !self.window.has_arrival(session, at_ns) {
                        break;
                    }
                    sent.session(look, session, &mut std::iter::once(Some(at_ns)))?;
                }
            }
            (Starts::Ticks, Pacing::Rate { rate, arrival }) => {
                let arrivals = Arrivals::new(rate, *arrival, self.seed, self.number);
                let mut times = arrivals.take_while(|at_ns| self.is_in_time(*at_ns)).map(Some);
                for session in 0..self.sessions() {
                    if !sent.session(look, session, &mut times)? {
                        break;
                    }
                }
            }
            (Starts::Schedule(schedule), _) => self.schedule(look, schedule, &mut sent)?,
            (Starts::Users(users), _) => self.users(look, users, &mut sent)?,
            _ => {
                for session in 0..self.sessions() {
                    if !sent.session(look, session, &mut std::iter::repeat(None))? {
                        break;
                    }
                }
            }
        }
        Ok(Walked { sessions: sent.sessions, bound: self.bound(), is_cut: sent.requests == sent.most })
    }

    fn is_in_time(&self, at_ns: u64) -> bool {
        self.window.sending_end_ns == u64::MAX || at_ns < self.window.sending_end_ns
    }

    /// No number ends the phase.
    fn is_endless(&self) -> bool {
        self.plan.most_sessions().is_none()
    }

    /// Most sessions to look at.
    fn sessions(&self) -> u64 {
        let ends_in_time = self.window.sending_end_ns != u64::MAX && !matches!(self.starts, Starts::Places);
        if self.is_endless() && !ends_in_time { self.conversations } else { self.window.max_sessions }
    }

    fn bound(&self) -> Bound {
        let is_planned = match self.starts {
            Starts::Places => false,
            Starts::Arrivals | Starts::Schedule(_) => true,
            // Turns wait for the turns before them, and then for an arrival.
            Starts::Ticks | Starts::Users(_) => self.is_endless(),
        };
        let has_limits = self.plan.prefill_concurrency.is_some()
            || self.plan.max_in_flight.is_some()
            || (self.plan.concurrency.is_some() && !matches!(self.starts, Starts::Places));
        let is_timed = self.plan.duration_ns.is_some();
        match (is_timed, is_planned) {
            (false, _) if !self.is_endless() || matches!(self.starts, Starts::Schedule(_)) => Bound::Exact,
            (false, _) => Bound::OnePass,
            (true, true) if !has_limits => Bound::Exact,
            (true, false) if self.is_endless() => Bound::OnePass,
            (true, _) => Bound::Most,
        }
    }

    /// At the workload's own times, in their order. No turn comes before the one in front of it; one that is planned behind an answer comes
    /// as if that took no time.
    fn schedule<L: Looker>(
        &self,
        look: &mut L,
        schedule: &FixedSchedule,
        sent: &mut Sent<'_>,
    ) -> Result<(), RunError> {
        let mut starts = (0..).zip(schedule.entries()).map(|(session, entry)| (session, entry.offset_ns));
        let mut next_start = starts.next();
        // The turn that each session sends next: when, and whether that is planned.
        let mut due = BinaryHeap::<Reverse<(u64, u64, usize, bool)>>::new();
        let mut talks: BTreeMap<u64, L::Talk> = BTreeMap::new();
        while !sent.is_over() {
            let first = due.peek().map(|Reverse((at_ns, ..))| *at_ns);
            if let Some((session, at_ns)) =
                next_start.filter(|(_, at_ns)| first.is_none_or(|first| *at_ns <= first))
            {
                next_start = starts.next();
                if !self.window.has_arrival(session, at_ns) {
                    next_start = None;
                    continue;
                }
                talks.insert(session, look.begin(session)?);
                due.push(Reverse((at_ns, session, 0, true)));
                continue;
            }
            let Some(Reverse((at_ns, session, turn, is_planned))) = due.pop() else { break };
            let Some(talk) = talks.get_mut(&session) else { continue };
            sent.turn(look, (session, talk), turn, is_planned.then_some(at_ns))?;
            let next = turn + 1;
            if next < L::turns(talk) {
                let (own_ns, delay_ns) = L::times(talk, next);
                let is_planned = !matches!((own_ns, delay_ns), (None, _) | (Some(0), Some(_)));
                let next_ns = schedule.later_ns(0, own_ns, delay_ns, at_ns);
                if self.is_in_time(next_ns) {
                    due.push(Reverse((next_ns, session, next, is_planned)));
                    continue;
                }
            }
            talks.remove(&session);
        }
        Ok(())
    }

    /// By the clocks of users, in the order of time.
    fn users<L: Looker>(&self, look: &mut L, users: &Users, sent: &mut Sent<'_>) -> Result<(), RunError> {
        let Users { per_second, at_once, mean_turns, workload, sampler } = users;
        let clock = UserClock::new(*per_second, *at_once);
        let turns_of = |session: u64| {
            u32::try_from(workload.turn_count(sampler.entry_for(self.base + session))).unwrap_or(u32::MAX)
        };
        let mut starts = UserSessions::new(*per_second, *at_once, *mean_turns, turns_of)
            .take_while(|next| next.session < self.sessions().max(u64::from(*at_once)))
            .take_while(|next| self.window.has_arrival(next.session, next.start_ns))
            .peekable();
        // The turn that each session sends next, by its time.
        let mut due = BinaryHeap::new();
        let mut talks: BTreeMap<u64, (L::Talk, usize, u32)> = BTreeMap::new();
        while !sent.is_over() {
            let first = due.peek().map(|Reverse((at_ns, _))| *at_ns);
            if let Some(next) = starts.next_if(|next| first.is_none_or(|at_ns| next.start_ns <= at_ns)) {
                talks.insert(next.session, (look.begin(next.session)?, 0, next.turns));
                due.push(Reverse((next.start_ns, next.session)));
                continue;
            }
            let Some(Reverse((at_ns, session))) = due.pop() else { break };
            let Some((talk, turn, turns)) = talks.get_mut(&session) else { continue };
            if !self.is_in_time(at_ns) {
                break;
            }
            sent.turn(look, (session, talk), *turn, Some(at_ns))?;
            *turn += 1;
            if *turn < L::turns(talk).min(*turns as usize) {
                due.push(Reverse((clock.next_ns(at_ns, at_ns), session)));
            } else {
                talks.remove(&session);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aiperf_core::plan::{Arrival, PhaseKind};
    use aiperf_load::ScheduleWindow;

    use super::*;
    use crate::toys;

    const S: u64 = 1_000_000_000;

    /// Writes down session, turn and time; every session has so many turns.
    struct Notes {
        turns: usize,
        seen: Vec<(u64, usize, Option<u64>)>,
    }

    impl Looker for Notes {
        type Talk = (u64, usize);

        fn begin(&mut self, session: u64) -> Result<Self::Talk, RunError> {
            Ok((session, self.turns))
        }

        fn turns(talk: &Self::Talk) -> usize {
            talk.1
        }

        fn times(_talk: &Self::Talk, turn: usize) -> (Option<u64>, Option<u64>) {
            [(None, None), (Some(5 * S), None), (None, Some(S))][turn]
        }

        fn turn(&mut self, talk: &mut Self::Talk, turn: usize, at_ns: Option<u64>) -> Result<(), RunError> {
            self.seen.push((talk.0, turn, at_ns));
            Ok(())
        }
    }

    type Seen = Vec<(u64, usize, Option<u64>)>;

    fn walk(plan: &PhasePlan, starts: &Starts, turns: usize) -> (Seen, Walked) {
        let mut notes = Notes { turns, seen: Vec::new() };
        let walked =
            Walk::of(plan, starts, 0, 7, 0, 4).walk(&mut notes, &mut |_| false).expect("nothing fails");
        (notes.seen, walked)
    }

    #[test]
    fn places_take_sessions_one_after_the_other_until_a_cap() {
        let plan = PhasePlan { requests: Some(5), ..toys::closed_loop() };
        let (seen, walked) = walk(&plan, &Starts::Places, 2);
        assert_eq!(seen, [(0, 0, None), (0, 1, None), (1, 0, None), (1, 1, None), (2, 0, None)]);
        assert_eq!((walked.sessions, walked.bound, walked.is_cut), (3, Bound::Exact, true));
        let plan = PhasePlan { sessions: Some(6), ..toys::closed_loop() };
        let (seen, walked) = walk(&plan, &Starts::Places, 2);
        assert_eq!((seen.len(), walked.sessions, walked.bound, walked.is_cut), (12, 6, Bound::Exact, false));
        let plan = PhasePlan { duration_ns: Some(S), ..toys::closed_loop() };
        let (seen, walked) = walk(&plan, &Starts::Places, 2);
        assert_eq!((seen.len(), walked.bound), (8, Bound::OnePass), "as many as there are conversations");
        let plan = PhasePlan { duration_ns: Some(S), requests: Some(3), ..toys::closed_loop() };
        assert_eq!(walk(&plan, &Starts::Places, 1).1.bound, Bound::Most);
    }

    fn rate(duration_s: Option<u64>, requests: Option<u64>) -> PhasePlan {
        let pacing = Pacing::steady(2.0, Arrival::Constant);
        PhasePlan {
            duration_ns: duration_s.map(|s| s * S),
            requests,
            ..PhasePlan::new("profiling", PhaseKind::Profiling, pacing)
        }
    }

    #[test]
    fn arrivals_come_at_their_times_until_the_end() {
        let (seen, walked) = walk(&rate(Some(2), None), &Starts::Arrivals, 1);
        let at = |i: u64| (i, 0, Some(i * S / 2));
        assert_eq!(seen, [at(0), at(1), at(2), at(3)]);
        assert_eq!((walked.sessions, walked.bound), (4, Bound::Exact));
        let (seen, walked) = walk(&rate(Some(9), Some(6)), &Starts::Arrivals, 1);
        assert_eq!((seen.len(), seen[5], walked.bound), (6, at(5), Bound::Exact));
        let limited = PhasePlan { max_in_flight: Some(1), ..rate(Some(2), None) };
        assert_eq!(walk(&limited, &Starts::Arrivals, 1).1.bound, Bound::Most);
        let (seen, walked) = walk(&rate(None, None), &Starts::Arrivals, 1);
        assert_eq!((seen.len(), walked.bound), (4, Bound::OnePass));
    }

    #[test]
    fn with_conversations_each_request_takes_an_arrival() {
        let (seen, walked) = walk(&rate(Some(2), None), &Starts::Ticks, 3);
        let at = |i: u64| Some(i * S / 2);
        assert_eq!(seen, [(0, 0, at(0)), (0, 1, at(1)), (0, 2, at(2)), (1, 0, at(3))]);
        assert_eq!((walked.sessions, walked.bound), (2, Bound::Exact));
        let plan = PhasePlan { sessions: Some(2), ..rate(Some(60), None) };
        let (seen, walked) = walk(&plan, &Starts::Ticks, 3);
        assert_eq!((seen.len(), walked.bound), (6, Bound::Most));
    }

    #[test]
    fn a_schedule_has_its_own_times_and_those_of_later_turns() {
        let window = ScheduleWindow { auto_offset: true, ..ScheduleWindow::default() };
        let starts_ns = |i: usize| Some([2 * S, S, 4 * S][i]);
        let schedule = FixedSchedule::new(3, starts_ns, |i| i.to_string(), &window).expect("it has times");
        let pacing = Pacing::FixedSchedule { auto_offset: true, start_offset_ns: None, end_offset_ns: None };
        let plan = PhasePlan::new("profiling", PhaseKind::Profiling, pacing);
        let starts = Starts::Schedule(Arc::new(schedule));
        let (seen, walked) = walk(&plan, &starts, 3);
        let later = [0, 1, 2].map(|session| (session, 1, Some(4 * S)));
        assert_eq!(seen[..3], [(0, 0, Some(0)), (1, 0, Some(S)), (2, 0, Some(3 * S))]);
        assert_eq!(seen[3..6], later);
        assert_eq!(seen[6..], [0, 1, 2].map(|session| (session, 2, None)));
        assert_eq!((seen.len(), walked.bound, walked.sessions), (9, Bound::Exact, 3));
        let cut = PhasePlan { requests: Some(4), ..plan.clone() };
        assert_eq!(walk(&cut, &starts, 3).0, seen[..4], "a cap cuts what is last");
        let timed = PhasePlan { duration_ns: Some(3 * S), ..plan };
        let (seen, _) = walk(&timed, &starts, 3);
        assert_eq!(seen, [(0, 0, Some(0)), (1, 0, Some(S))], "what comes later is not sent");
    }

    #[test]
    fn who_is_stopped_stops() {
        let plan = PhasePlan { requests: Some(5), ..toys::closed_loop() };
        let mut notes = Notes { turns: 1, seen: Vec::new() };
        let walked = Walk::of(&plan, &Starts::Places, 0, 7, 0, 4)
            .walk(&mut notes, &mut |requests| requests == 2)
            .expect("nothing fails");
        assert_eq!((notes.seen.len(), walked.sessions), (2, 2));
    }
}
