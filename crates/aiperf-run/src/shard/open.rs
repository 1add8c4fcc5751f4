//! Open loop: sessions start at their instants, whatever the others do.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use aiperf_core::outcome::CancelReason;
use aiperf_core::plan::Saturation;
use aiperf_os::mono_ns;

use super::Shard;
use super::part::{MaySend, Part};
use super::session::{Apart, Arrival, Begin, Own, User};
use crate::limit::Places;
use crate::phase::Starts;

impl Shard {
    /// Starts each of this shard's sessions at its instant. `arrivals` are all of the phase, with their instants as offsets
    /// from the start.
    pub(super) async fn open_loop(self: Rc<Self>, part: &Rc<Part>, arrivals: impl Iterator<Item = Arrival>) {
        let starting = self.start_gate(part);
        let phase = &part.phase;
        // Sessions that are left out use up no conversation, so that they have numbers only when they start. But what a schedule
        // or a user's clock sends at an instant belongs to it.
        let is_numbered_late = phase.plan.saturation == Saturation::Skip
            && !phase.limits.are_none()
            && matches!(phase.starts, Starts::Arrivals);
        let mut stopped_ns = None;
        for arrival in arrivals {
            let Arrival { session, at_ns: offset_ns, user } = arrival;
            let number = if is_numbered_late { phase.next_session.load(Ordering::Relaxed) } else { session };
            if !phase.window.has_arrival(number, offset_ns) {
                break;
            }
            if !self.owns(session) {
                continue;
            }
            let at_ns = phase.window.start_ns.saturating_add(offset_ns);
            if stopped_ns.is_none() {
                if mono_ns() >= at_ns {
                    // Behind its schedule this loop never waits, and the sessions it started would never come to their turn.
                    tokio::task::yield_now().await;
                }
                tokio::select! {
                    biased;
                    _ = part.cancel.wait() => stopped_ns = Some(mono_ns()),
                    () = self.deadlines.until(at_ns) => {}
                    () = phase.reached_cap() => break,
                }
            }
            if let Some(stopped_ns) = stopped_ns {
                if at_ns > stopped_ns {
                    break;
                }
                // It came due before the stop, though the loop was too late for it.
                part.cut(at_ns);
                continue;
            }
            if phase.is_spent() {
                break;
            }
            self.arrive(part, (!is_numbered_late).then_some(session), at_ns, user);
        }
        drop(starting);
        part.gate.notify_one();
        part.end().await;
    }

    /// A session arrives: it starts, or waits, or is left out, as limits and plan want it. Without a number it gets the next one
    /// if it is not left out.
    pub(super) fn arrive(
        self: &Rc<Self>,
        part: &Rc<Part>,
        number: Option<u64>,
        at_ns: u64,
        user: Option<User>,
    ) {
        let phase = &part.phase;
        let is_next = part.waiting.borrow().is_empty();
        let places = if is_next { phase.limits.try_all() } else { None };
        match (&places, phase.plan.saturation) {
            (Some(_), _) | (None, Saturation::Queue) => {}
            (None, Saturation::Skip) => {
                if let Some(session) = number {
                    self.drop_prepared(part, session);
                }
                return part.skip(at_ns);
            }
            (None, Saturation::Abort) => {
                part.cut(at_ns);
                return phase.stop.ask(CancelReason::Saturated);
            }
        }
        let session = number.unwrap_or_else(|| phase.next_session.fetch_add(1, Ordering::Relaxed));
        if !phase.window.admits(session) {
            return;
        }
        let arrival = Arrival { session, at_ns, user };
        if let Some(places) = places {
            self.begin(part, arrival, places);
        } else {
            part.waiting.borrow_mut().push_back(arrival);
            part.gate.notify_one();
        }
    }

    /// Takes what was prepared for a session that never starts, so that there is room for others.
    fn drop_prepared(self: &Rc<Self>, part: &Rc<Part>, session: u64) {
        let (shard, own) = (self.clone(), part.clone());
        part.spawn(async move {
            tokio::select! {
                biased;
                _ = own.phase.ring.take(session) => {}
                () = shard.stopped(&own) => {}
            }
        });
    }

    fn begin(self: &Rc<Self>, part: &Rc<Part>, arrival: Arrival, places: Places) {
        let (shard, own) = (self.clone(), part.clone());
        let begin = Begin::at(arrival, places, part.may_send());
        if part.phase.again.is_there() {
            part.spawn(async move { shard.session::<Apart>(&own, begin).await });
        } else {
            part.spawn(async move { shard.session::<Own>(&own, begin).await });
        }
    }

    /// Lets those that wait in, in order, as places come free. Ends when the returned right is given back and nobody waits.
    ///
    /// A waiting arrival is a few numbers in a queue: its session is made when it has its place, so that an open loop far
    /// behind its schedule holds little for each of them.
    pub(super) fn start_gate(self: &Rc<Self>, part: &Rc<Part>) -> Rc<MaySend> {
        let starting = Rc::new(part.may_send());
        if !part.phase.limits.are_none() {
            let (shard, own, starts) = (self.clone(), part.clone(), Rc::downgrade(&starting));
            let sender = part.may_send();
            part.spawn(async move {
                shard.gate(&own, || starts.strong_count() > 0).await;
                drop(sender);
            });
        }
        starting
    }

    async fn gate(self: &Rc<Self>, part: &Rc<Part>, may_more_come: impl Fn() -> bool) {
        let limits = &part.phase.limits;
        loop {
            if part.waiting.borrow().is_empty() {
                if !may_more_come() {
                    return;
                }
                part.gate.notified().await;
                continue;
            }
            let places = tokio::select! {
                biased;
                () = self.stopped(part) => None,
                places = limits.all() => Some(places),
            };
            let Some(places) = places.filter(|_| !part.phase.is_spent()) else {
                let left = std::mem::take(&mut *part.waiting.borrow_mut());
                for arrival in left {
                    part.cut(arrival.at_ns);
                }
                continue;
            };
            let next = part.waiting.borrow_mut().pop_front();
            if let Some(arrival) = next {
                self.begin(part, arrival, places);
            }
        }
    }
}
