//! What the shards of one phase share: plain counters and one permit count. No message is exchanged per request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aiperf_core::plan::PhasePlan;
use aiperf_load::PhaseWindow;
use tokio::sync::Semaphore;

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
    /// Places for live sessions in open loop; `None` is no limit. In closed loop each shard holds its share of places.
    pub permits: Option<Semaphore>,
    /// Next session of a closed loop.
    pub next_session: AtomicU64,
    /// What happened so far.
    pub counters: Counters,
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
}

impl Counters {
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
        self.counters
            .sent
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sent| {
                self.window.may_send(sent, now_ns).then_some(sent + 1)
            })
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_core::plan::{Pacing, PhaseKind};

    #[test]
    fn claims_stop_at_the_cap_whoever_asks() {
        let plan = PhasePlan {
            name: "profiling".into(),
            kind: PhaseKind::Profiling,
            pacing: Pacing::Concurrency,
            concurrency: Some(1),
            requests: Some(1000),
            duration_ns: None,
            grace_ns: None,
        };
        let phase = Arc::new(Phase {
            number: 0,
            window: PhaseWindow::start(&plan, 1),
            plan,
            ring: Arc::new(Ring::new(1)),
            permits: None,
            next_session: AtomicU64::new(0),
            counters: Counters::default(),
        });
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let phase = phase.clone();
                std::thread::spawn(move || (0..1000).filter(|_| phase.claim(2)).count())
            })
            .collect();
        let won: usize = threads.into_iter().map(|t| t.join().expect("no panic")).sum();
        assert_eq!(won, 1000);
        assert_eq!(phase.counters.in_flight(), 1000);
    }
}
