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
    /// The highest session that sent a request, plus one: so many conversations are used up.
    pub sessions: AtomicU64,
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

    /// Whether nothing more is sent, whatever comes due: the cap was reached, or no more bodies come.
    pub(crate) fn is_spent(&self) -> bool {
        self.ring.is_closed() || self.counters.sent.load(Ordering::Relaxed) >= self.window.max_requests
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
