//! Open loop over sessions of several turns: each arrival sends the next turn of a session that is ready, else it starts a
//! session. So the rate is that of all requests, whatever sessions they belong to.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use aiperf_load::Stage;
use aiperf_os::mono_ns;
use tokio::sync::oneshot;

use super::Shard;
use super::part::Part;

impl Shard {
    /// Serves this shard's `arrivals` (offsets from the start of all arrivals of the phase). A shard's arrivals serve its own
    /// sessions.
    pub(super) async fn ticks(self: Rc<Self>, part: &Rc<Part>, arrivals: impl Iterator<Item = u64>) {
        let starting = self.start_gate(part);
        let phase = &part.phase;
        // Arrivals that nothing was there for are no part of the schedule.
        let mut idle_until_ns = 0;
        let mut stopped_ns = None;
        for (number, offset_ns) in (0..).zip(arrivals) {
            let at_ns = phase.window.start_ns.saturating_add(offset_ns);
            if at_ns >= phase.window.sending_end_ns {
                break;
            }
            if !self.owns(number) || at_ns < idle_until_ns {
                continue;
            }
            if stopped_ns.is_none() {
                if mono_ns() >= at_ns {
                    tokio::task::yield_now().await;
                }
                tokio::select! {
                    biased;
                    _ = part.cancel.wait() => stopped_ns = Some(mono_ns()),
                    () = self.deadlines.until(at_ns) => {}
                    () = phase.reached_cap() => break,
                }
            }
            if stopped_ns.is_some_and(|stopped_ns| at_ns > stopped_ns) || phase.is_spent() {
                break;
            }
            if stopped_ns.is_some() || phase.window.stage(mono_ns()) != Stage::Sending {
                // It came due before the stop, though the loop was too late for it. It takes a number, so that no more are cut than
                // could have begun.
                if !phase.window.admits(phase.next_session.fetch_add(1, Ordering::Relaxed)) {
                    break;
                }
                part.cut(at_ns);
                continue;
            }
            if part.give(at_ns) {
                continue;
            }
            if phase.window.admits(phase.next_session.load(Ordering::Relaxed)) {
                self.arrive(part, None, at_ns, None);
                continue;
            }
            // All sessions have started: what is left are their later turns.
            if !self.until_ready(part).await {
                break;
            }
            idle_until_ns = mono_ns();
        }
        part.end_arrivals();
        drop(starting);
        part.gate.notify_one();
        part.end().await;
    }

    /// Waits until a turn is ready. `false` when none will be.
    async fn until_ready(&self, part: &Part) -> bool {
        loop {
            let ticked = part.ticked.notified();
            if part.has_ready() {
                return true;
            }
            // This loop itself may send, and so may the gate.
            let others = part.senders() - 1 - u64::from(!part.phase.limits.are_none());
            if others == 0 && part.waiting.borrow().is_empty() {
                return false;
            }
            tokio::select! {
                biased;
                () = self.stopped(part) => return false,
                () = ticked => {}
            }
        }
    }

    /// Waits for the arrival that sends a turn which is ready at `ready_ns`; `None` when sending is over before.
    pub(super) async fn tick(&self, part: &Part, ready_ns: u64) -> Option<u64> {
        tokio::select! {
            biased;
            () = self.deadlines.until(ready_ns) => {}
            () = self.stopped(part) => return None,
        }
        let (sender, at) = oneshot::channel();
        part.offer(ready_ns, sender);
        tokio::select! {
            biased;
            at_ns = at => at_ns.ok(),
            () = self.stopped(part) => None,
        }
    }
}
