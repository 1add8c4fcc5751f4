//! The composer at work for a phase: on its own thread, a bounded way ahead of the shards.

use std::sync::Arc;
use std::thread::JoinHandle;

use aiperf_core::plan::{Pacing, PhaseKind, PhasePlan};

use crate::again::{Again, Maker, RESTS};
use crate::error::RunError;
use crate::phase::Starts;
use crate::prepare::{Composer, Prepared, Sessions};
use crate::ring::{Ahead, Ring};

/// Slots of the ring of prepared conversations, beside two for each live session.
const RING_SLOTS: usize = 4096;
/// Bytes of bodies that may lie ready, beyond those of the first instant.
const READY_BYTES: u64 = 64 << 20;
/// Most conversations made before the start of an open loop.
const MOST_PRIMED: u64 = 1024;
/// Most of them made before the start of a closed one: more than connections can be opened while the rest is made.
const MOST_PLACES: u64 = 1 << 14;

/// Conversations on their way from the composer to the shards.
pub(crate) type Bodies = Arc<Ring<Arc<Prepared>>>;

/// The composers of a phase at work.
pub(crate) struct Filling {
    pub ring: Bodies,
    pub again: Arc<Again>,
    filler: JoinHandle<Filled>,
    maker: Option<Maker>,
}

/// Starts to compose the sessions of a phase. `base` is the number of sessions that earlier phases used up.
pub(crate) fn start(
    plan: &PhasePlan,
    starts: &Starts,
    base: u64,
    composer: Composer,
) -> Result<Filling, RunError> {
    let ahead = Ahead { items: primed(plan, starts), bytes: READY_BYTES };
    let ring = Arc::new(Ring::new(RING_SLOTS + 2 * most_at_once(plan) as usize, ahead));
    let sessions = sessions(plan, starts, base);
    // In a closed loop a turn without a time of its own follows the answer at once.
    let (again, maker) = match composer.twin(!matches!(starts, Starts::Places)) {
        Some(twin) => {
            let (again, maker) = Again::start(twin, sessions.clone(), ring.clone(), RESTS)?;
            (again, Some(maker))
        }
        None => (Again::never(), None),
    };
    let filler = spawn(composer, ring.clone(), sessions)?;
    Ok(Filling { ring, again: Arc::new(again), filler, maker })
}

/// The sessions of a phase, behind `base` of others.
pub(crate) fn sessions(plan: &PhasePlan, starts: &Starts, base: u64) -> Sessions {
    let order = match starts {
        Starts::Schedule(schedule) => Some(schedule.clone()),
        Starts::Places | Starts::Arrivals | Starts::Ticks | Starts::Users(_) => None,
    };
    let limit = most_sessions(plan, starts);
    Sessions { base, limit, warmup: plan.kind == PhaseKind::Warmup, order }
}

/// Most sessions that can start.
fn most_sessions(plan: &PhasePlan, starts: &Starts) -> u64 {
    let there = match starts {
        Starts::Schedule(schedule) => schedule.entries().len() as u64,
        Starts::Places | Starts::Arrivals | Starts::Ticks | Starts::Users(_) => u64::MAX,
    };
    plan.most_sessions().unwrap_or(u64::MAX).min(there)
}

/// Most sessions that live at once, where the plan has a number for it; else 0.
pub(crate) fn most_at_once(plan: &PhasePlan) -> u32 {
    let from = plan.concurrency_ramp.and_then(|ramp| ramp.from).unwrap_or(0.0) as u32;
    let users = match plan.pacing {
        Pacing::UserCentric { users, .. } => users,
        Pacing::Concurrency | Pacing::Rate { .. } | Pacing::FixedSchedule { .. } => 0,
    };
    plan.concurrency.unwrap_or(0).max(from).max(users)
}

/// How many conversations must be ready before arrival 0: what the first instant can ask for, and about a second of a
/// schedule.
pub(crate) fn primed(plan: &PhasePlan, starts: &Starts) -> u64 {
    let wanted = match &plan.pacing {
        Pacing::Concurrency => at_first(plan).clamp(1, MOST_PLACES),
        Pacing::Rate { rate, .. } => (rate.peak().ceil() as u64).clamp(1, MOST_PRIMED),
        // The first sessions start in another order than they are numbered in.
        Pacing::UserCentric { users, .. } => u64::from(*users).max(1),
        Pacing::FixedSchedule { .. } => MOST_PRIMED,
    };
    wanted.min(most_sessions(plan, starts))
}

/// How many places of a closed loop its first second has.
fn at_first(plan: &PhasePlan) -> u64 {
    let target = f64::from(plan.concurrency.unwrap_or(0));
    let Some(ramp) = plan.concurrency_ramp.filter(|ramp| ramp.duration_ns > 0) else { return target as u64 };
    let from = ramp.from.unwrap_or(1.0).max(1.0);
    let rise = (target - from).max(0.0) * (1e9 / ramp.duration_ns as f64).min(1.0);
    (from + rise).ceil() as u64
}

/// The composer, back from a phase, and how that ended for it.
pub(crate) type Filled = (Composer, Result<(), RunError>);

/// Closes the ring when the composer panics: sessions would wait for ever for what it does not bring.
pub(crate) struct CloseOnPanic<T>(pub(crate) Arc<Ring<T>>);

impl<T> Drop for CloseOnPanic<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

fn spawn(mut composer: Composer, ring: Bodies, sessions: Sessions) -> Result<JoinHandle<Filled>, RunError> {
    std::thread::Builder::new()
        .name("composer".into())
        .spawn(move || {
            // Being ahead must not cost the shards a core.
            aiperf_os::sched::lower_priority(5);
            let guard = CloseOnPanic(ring);
            let result = composer.fill(&guard.0, &sessions);
            (composer, result)
        })
        .map_err(RunError::Thread)
}

impl Filling {
    /// Ends the ring and takes the composer back, with what went wrong in it.
    pub(crate) fn stop(self) -> (Option<Composer>, Option<RunError>) {
        self.ring.close();
        self.again.stop();
        let again = match self.maker.map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => None,
            Some(Ok(Err(error))) => Some(error),
            Some(Err(_)) => Some(RunError::Panicked("composer")),
        };
        match self.filler.join() {
            Ok((composer, filled)) => (Some(composer), filled.err().or(again)),
            Err(_) => (None, Some(RunError::Panicked("composer"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::{Ramp, RampShape};

    use super::*;
    use crate::toys;

    #[test]
    fn what_the_first_second_needs_is_made_before_the_start() {
        let primed = |concurrency, ramp: Option<(Option<f64>, u64)>| {
            let ramp = ramp.map(|(from, seconds)| Ramp {
                from,
                duration_ns: seconds * 1_000_000_000,
                shape: RampShape::Linear,
            });
            let plan =
                PhasePlan { concurrency: Some(concurrency), concurrency_ramp: ramp, ..toys::closed_loop() };
            primed(&plan, &Starts::Places)
        };
        assert_eq!(primed(1000, None), 1000);
        assert_eq!(primed(1_000_000, None), MOST_PLACES);
        assert_eq!(primed(100_001, Some((None, 100))), 1001);
        assert_eq!(primed(10, Some((Some(500.0), 100))), 500);
        assert_eq!(primed(64, Some((None, 0))), 64);
    }
}
