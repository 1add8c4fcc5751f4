//! Closed loop: a session starts whenever a place is free.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use aiperf_load::{LimitCurve, Limited, PhaseWindow, share};
use aiperf_os::mono_ns;

use super::Shard;
use super::part::{MaySend, Part};
use super::session::{Begin, Room};

/// The right to start further sessions, until the last one has started.
type Starting = Rc<RefCell<Option<MaySend>>>;

impl Shard {
    /// One worker per place; each starts the next session as soon as its last one ended.
    ///
    /// The places of all shards together are numbered: a ramp says from when on, or until when, each is there.
    pub(super) async fn closed_loop<R: Room>(self: Rc<Self>, part: &Rc<Part>) {
        let plan = &part.phase.plan;
        let target = plan.concurrency.unwrap_or(1);
        let curve = plan.concurrency_ramp.map(|ramp| {
            Rc::new(LimitCurve::new(target, Some(&ramp), Limited::Sessions, self.seed, part.phase.number))
        });
        let most = worth_having(curve.as_ref().map_or(target, |curve| curve.peak()), &part.phase.window);
        let starting = Rc::new(RefCell::new(Some(part.may_send())));
        for place in 0..share::places(most, self.index, self.shards) {
            let place = place * self.shards as u32 + self.index as u32;
            let reached_ns = curve.as_ref().map_or(Some(0), |curve| curve.reached_ns(place + 1));
            let Some(reached_ns) = reached_ns else { break };
            if reached_ns > 0 {
                tokio::select! {
                    biased;
                    () = self.stopped(part) => break,
                    () = part.phase.all_started() => break,
                    () = self.deadlines.until(part.phase.window.start_ns.saturating_add(reached_ns)) => {}
                }
            }
            if part.starts_no_more(mono_ns()) {
                break;
            }
            part.spawn(self.clone().worker::<R>(part.clone(), place, curve.clone(), starting.clone()));
            // Each connects and sends before the next one starts, where the server is near; all at once, the first request of
            // each would be stamped before the connections of all others were made. The kernel may answer a handshake in a
            // thread of its own that waits for this core, so the core is offered once, too.
            tokio::task::yield_now().await;
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
        part.end().await;
    }

    async fn worker<R: Room>(
        self: Rc<Self>,
        part: Rc<Part>,
        place: u32,
        curve: Option<Rc<LimitCurve>>,
        starting: Starting,
    ) {
        let phase = &part.phase;
        let start_ns = phase.window.start_ns;
        loop {
            let now_ns = mono_ns();
            let is_gone =
                curve.as_ref().is_some_and(|curve| curve.limit_at(now_ns.saturating_sub(start_ns)) <= place);
            if is_gone || part.starts_no_more(now_ns) {
                return;
            }
            let session = phase.next_session.fetch_add(1, Ordering::Relaxed);
            if !phase.window.admits(session) {
                starting.take();
                return;
            }
            let sender = part.may_send();
            if !phase.window.admits(session + 1) {
                starting.take();
                phase.started.notify_waiters();
            }
            self.session::<R>(&part, Begin::free(session, sender)).await;
            // What came for other streams at the same moment is stamped before this one's next request is made and sent:
            // in step with each other, 64 streams would else stamp their last chunks up to 64 requests late.
            tokio::task::yield_now().await;
        }
    }
}

/// Of `most` places those that can ever hold a session: a session sends at least one request.
fn worth_having(most: u32, window: &PhaseWindow) -> u32 {
    let sessions = window.max_sessions.min(window.max_requests);
    u32::try_from(sessions).map_or(most, |sessions| most.min(sessions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_core::plan::PhasePlan;

    use crate::toys;

    #[test]
    fn places_that_no_session_would_ever_take_are_not_made() {
        let of = |requests, sessions| {
            let plan = PhasePlan { requests, sessions, ..toys::closed_loop() };
            worth_having(1_000_000, &PhaseWindow::start(&plan, 0))
        };
        assert_eq!(of(Some(10), None), 10);
        assert_eq!(of(Some(10), Some(4)), 4);
        assert_eq!(of(None, Some(u64::from(u32::MAX) + 1)), 1_000_000);
        assert_eq!(of(None, None), 1_000_000);
    }
}
