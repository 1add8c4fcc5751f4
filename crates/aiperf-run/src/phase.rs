//! What the shards of one phase share: plain counters and permit counts. No message is exchanged per request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::PhasePlan;
use aiperf_data::{Sampler, Workload};
use aiperf_load::{FixedSchedule, PhaseWindow};
use tokio::sync::Notify;

use crate::again::Again;
use crate::limit::Limits;
use crate::prepare::Prepared;
use crate::ring::Ring;

/// One running phase, seen by all shards.
#[derive(Debug)]
pub(crate) struct Phase {
    /// Position in the plan.
    pub number: u16,
    /// What was asked.
    pub plan: PhasePlan,
    /// Its start and ends.
    pub window: PhaseWindow,
    /// Bodies, in session order.
    pub ring: Arc<Ring<Arc<Prepared>>>,
    /// Bodies that were given back, once more.
    pub again: Arc<Again>,
    /// What may be at once.
    pub limits: Limits,
    /// When sessions start, where that is not when a place is free.
    pub starts: Starts,
    /// Sessions that earlier phases used up.
    pub base: u64,
    /// Next session, where sessions are numbered as they start.
    pub next_session: AtomicU64,
    /// Requests on the wire to each server.
    pub to_targets: Vec<AtomicU64>,
    /// What happened so far.
    pub counters: Counters,
    /// A shard's wish that the run stop.
    pub stop: Stop,
    /// Told when the cap on requests is reached.
    pub spent: Notify,
    /// Told when the last session has its number.
    pub started: Notify,
}

/// When the sessions of a phase start.
#[derive(Debug, Clone)]
pub(crate) enum Starts {
    /// Whenever a place is free.
    Places,
    /// At each arrival; the number of the arrival is that of the session.
    Arrivals,
    /// At each arrival that no turn of an earlier session is ready for.
    Ticks,
    /// At the times of the workload.
    Schedule(Arc<FixedSchedule>),
    /// As users come, each with a clock of its own.
    Users(Arc<Users>),
}

/// Users who together send at a rate, and what they say.
#[derive(Debug)]
pub(crate) struct Users {
    /// Requests per second of all together.
    pub per_second: f64,
    /// How many at a time.
    pub at_once: u32,
    /// Turns of a conversation in the mean.
    pub mean_turns: u32,
    /// Where their conversations come from.
    pub workload: Arc<dyn Workload>,
    /// Which of them each session takes.
    pub sampler: Sampler,
}

/// A shard's wish that the run stop, seen by the control.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: OnceLock<CancelReason>,
    wanted: Notify,
}

impl Stop {
    /// Asks for the stop; the first reason stands.
    pub(crate) fn ask(&self, reason: CancelReason) {
        let _ = self.reason.set(reason);
        self.wanted.notify_one();
    }

    /// The reason, once there is one.
    pub(crate) async fn wanted(&self) -> CancelReason {
        loop {
            let wanted = self.wanted.notified();
            if let Some(reason) = self.reason.get() {
                return *reason;
            }
            wanted.await;
        }
    }
}

/// Counts of one phase.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Requests that came due.
    pub scheduled: AtomicU64,
    /// Requests handed to the transport (a cap counts these).
    pub sent: AtomicU64,
    /// Requests whose end was handed to the reader.
    pub ended: AtomicU64,
    /// Requests that came due and were not sent.
    pub unsent: AtomicU64,
    /// Of these, left out by the policy for arrivals without a place.
    pub skipped: AtomicU64,
    /// The highest session that sent a request, plus one: so many conversations are used up.
    pub sessions: AtomicU64,
}

impl Counters {
    /// A request came due and is not sent.
    pub(crate) fn leave_out(&self) {
        self.scheduled.fetch_add(1, Ordering::Relaxed);
        self.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests on the wire.
    pub(crate) fn in_flight(&self) -> u64 {
        let ended = self.ended.load(Ordering::Relaxed);
        self.sent.load(Ordering::Relaxed).saturating_sub(ended)
    }
}

impl Phase {
    /// Claims the right to send one request at `now_ns`: false when a cap was reached or sending is over.
    pub(crate) fn claim(&self, now_ns: u64) -> bool {
        // The count never passes the cap, not even for a moment: others read it as the number sent.
        let before = self.counters.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sent| {
            self.window.may_send(sent, now_ns).then_some(sent + 1)
        });
        if before.is_ok_and(|sent| sent + 1 == self.window.max_requests) {
            self.spent.notify_waiters();
        }
        before.is_ok()
    }

    /// Whether no session starts any more, whatever comes due: the cap was reached, or no more bodies come.
    pub(crate) fn is_spent(&self) -> bool {
        self.ring.is_closed() || self.has_reached_cap()
    }

    fn has_reached_cap(&self) -> bool {
        self.counters.sent.load(Ordering::Relaxed) >= self.window.max_requests
    }

    /// Resolves when every session has its number, where sessions are numbered as they start.
    pub(crate) async fn all_started(&self) {
        loop {
            let started = self.started.notified();
            if !self.window.admits(self.next_session.load(Ordering::Relaxed)) {
                return;
            }
            started.await;
        }
    }

    /// Resolves when the cap on requests was reached; never without one.
    pub(crate) async fn reached_cap(&self) {
        if self.window.max_requests == u64::MAX {
            std::future::pending::<()>().await;
        }
        loop {
            let spent = self.spent.notified();
            if self.has_reached_cap() {
                return;
            }
            spent.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys;

    #[test]
    fn claims_stop_at_the_cap_whoever_asks() {
        let phase = toys::phase(PhasePlan { requests: Some(1000), ..toys::closed_loop() }, 1);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let phase = phase.clone();
                std::thread::spawn(move || (0..1000).filter(|_| phase.claim(2)).count())
            })
            .collect();
        let won: usize = threads.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert_eq!(won, 1000);
        assert_eq!(phase.counters.in_flight(), 1000);
        assert!(phase.is_spent());
    }
}
