//! One session: its body, its turns one after the other.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use aiperf_core::outcome::{CancelReason, Disposition};
use aiperf_core::plan::ConnectionReuse;
use aiperf_core::ticket::{SessionId, Ticket};
use aiperf_load::targets::least_in_flight;
use aiperf_load::{Stage, UserClock};
use aiperf_net::{Outgoing, Sticky};
use aiperf_os::mono_ns;

use super::part::{MaySend, Part};
use super::{Ended, Shard};
use crate::again::InHand;
use crate::history::History;
use crate::limit::Places;
use crate::phase::{Phase, Starts};
use crate::prepare::Prepared;

/// Where a session has what a request needs, ten times what it needs itself while it thinks.
pub(super) trait Room: 'static {
    /// `turn`, in its room.
    fn of<T>(turn: impl Future<Output = T>) -> impl Future<Output = T>;
}

/// With itself, all its life: nothing is allocated for a request.
pub(super) struct Own;

impl Room for Own {
    fn of<T>(turn: impl Future<Output = T>) -> impl Future<Output = T> {
        turn
    }
}

/// Apart, as long as the request lasts: a session that thinks is small.
pub(super) struct Apart;

impl Room for Apart {
    fn of<T>(turn: impl Future<Output = T>) -> impl Future<Output = T> {
        Box::pin(turn)
    }
}

/// A session that starts.
pub(super) struct Begin {
    session: u64,
    /// When the schedule wants its first turn sent.
    scheduled_ns: Option<u64>,
    /// Whose it is.
    user: Option<User>,
    /// What its first turn holds already.
    places: Places,
    sender: MaySend,
}

/// Who starts a session, where users have clocks of their own.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    /// Number of the user.
    pub(super) id: u64,
    /// The first so many turns of the conversation are sent.
    pub(super) turns: u32,
    /// Time from turn to turn.
    pub(super) clock: UserClock,
}

/// A session that is wanted at an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// Its number.
    pub(super) session: u64,
    /// The instant.
    pub(super) at_ns: u64,
    /// Whose it is.
    pub(super) user: Option<User>,
}

impl Begin {
    /// One that starts because a place is free.
    pub(super) fn free(session: u64, sender: MaySend) -> Self {
        Self { session, scheduled_ns: None, user: None, places: Places::default(), sender }
    }

    /// One that is wanted at `at_ns` and has its `places`.
    pub(super) fn at(arrival: Arrival, places: Places, sender: MaySend) -> Self {
        let Arrival { session, at_ns, user } = arrival;
        Self { session, scheduled_ns: Some(at_ns), user, places, sender }
    }
}

/// A session under way.
struct Talk<'a> {
    number: u64,
    correlation_id: SessionId,
    /// Its server, all through its turns.
    target: usize,
    sticky: Option<Rc<Sticky>>,
    in_hand: InHand<'a>,
    history: History,
    /// The turns that it has.
    turns: usize,
    user: Option<User>,
    /// What its next turn holds already.
    places: Places,
    sender: Option<MaySend>,
    /// When its next turn is wanted.
    scheduled_ns: Option<u64>,
}

impl Shard {
    /// The turns of one session, strictly one after the other.
    pub(super) async fn session<R: Room>(&self, part: &Part, begin: Begin) {
        let Begin { session, scheduled_ns, user, places, sender } = begin;
        let phase = &*part.phase;
        let asked_ns = mono_ns();
        let prepared = tokio::select! {
            biased;
            prepared = phase.ring.take(session) => prepared.ok(),
            () = self.stopped(part) => None,
        };
        let Some(prepared) = prepared else {
            if let Some(at_ns) = scheduled_ns {
                part.cut(at_ns);
            }
            return;
        };
        let _live = part.lives(asked_ns);
        let mut talk = Talk {
            number: session,
            correlation_id: self.name(phase, &prepared, user),
            target: self.target(phase, session),
            sticky: (self.reuse == ConnectionReuse::Sticky).then(|| Rc::new(Sticky::default())),
            turns: user.map_or(usize::MAX, |user| user.turns as usize).min(prepared.turns.len()),
            in_hand: InHand::new(&phase.again, session, prepared),
            history: History::default(),
            user,
            places,
            sender: Some(sender),
            scheduled_ns,
        };
        for turn in 0..talk.turns {
            if !self.is_due(part, &mut talk, turn).await {
                return;
            }
            let Some(wanted_ns) = R::of(self.turn(part, &mut talk, turn)).await else { return };
            if !self.rest(part, &mut talk, wanted_ns).await {
                return;
            }
            talk.scheduled_ns = match phase.starts {
                Starts::Ticks => self.tick(part, wanted_ns).await,
                _ => Some(wanted_ns),
            };
            if talk.scheduled_ns.is_none() {
                return;
            }
        }
    }

    /// Waits until a turn is due and has its places; `false` when it will not be sent.
    async fn is_due(&self, part: &Part, talk: &mut Talk<'_>, turn: usize) -> bool {
        if let Some(at_ns) = talk.scheduled_ns.filter(|_| turn > 0) {
            // A turn that is due looks for a stop when it claims its send, not here: that would take the lock all shards share.
            tokio::select! {
                biased;
                () = self.deadlines.until(at_ns) => {}
                () = self.stopped(part) => return false,
            }
        }
        let limits = &part.phase.limits;
        if limits.are_none() {
            return true;
        }
        tokio::select! {
            biased;
            () = limits.for_turn(&mut talk.places) => true,
            () = self.stopped(part) => {
                if let Some(at_ns) = talk.scheduled_ns {
                    part.cut(at_ns);
                }
                false
            }
        }
    }

    /// Sends a turn and waits for its end. Gives the time at which the next one is wanted; `None` when the session is over.
    async fn turn(&self, part: &Part, talk: &mut Talk<'_>, turn: usize) -> Option<u64> {
        let phase = &*part.phase;
        let prepared = talk.in_hand.get()?.clone();
        if prepared.turns[turn].resets {
            talk.history = History::default();
        }
        let body = talk.history.body(&prepared.turns, turn);
        let is_chained = talk.history.is_chained(&prepared.turns, turn);
        let dispatched_ns = mono_ns();
        if part.cancel.fired() || !phase.claim(dispatched_ns) {
            // What waited for nothing but its session is no arrival that was missed.
            if let Some(at_ns) = talk.scheduled_ns.filter(|_| turn == 0 || !phase.limits.are_none()) {
                part.cut(at_ns);
            }
            return None;
        }
        phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
        phase.counters.sessions.fetch_max(talk.number + 1, Ordering::Relaxed);
        let is_last_turn = turn + 1 == talk.turns;
        let target = talk.target;
        let mut ticket = Ticket {
            phase: phase.number,
            session: talk.number,
            entry: prepared.entry,
            turn: turn as u16,
            shard: self.index as u16,
            target: target as u16,
            request_id: self.ids.take(),
            correlation_id: talk.correlation_id.clone(),
            scheduled_ns: talk.scheduled_ns,
            dispatched_ns,
            abandoned_turns: 0,
        };
        let mut out = Outgoing::new(body.clone(), ticket.request_id, talk.correlation_id.clone());
        out.sticky.clone_from(&talk.sticky);
        out.headers.clone_from(&prepared.turns[turn].headers);
        out.cancel_after_ns = part.cancels.and_then(|draw| draw.after_ns(talk.number, ticket.turn.into()));
        let prefill = Rc::new(Cell::new(talk.places.prefill.take()));
        if phase.limits.prefills.is_some() {
            let prefill = prefill.clone();
            out.first_content = Some(Box::new(move || drop(prefill.take())));
        }
        if self.counts_targets {
            phase.to_targets[target].fetch_add(1, Ordering::Relaxed);
        }
        part.meter(|meter| meter.in_flight().add(dispatched_ns));
        // Behind the meter: the last one to go ends the time that it measures.
        if is_last_turn {
            talk.sender.take();
        }
        let exchange = self.clients[target].exchange(out, part.cancel.wait()).await;
        part.meter(|meter| meter.in_flight().remove(exchange.stamps.end_ns));
        drop((prefill.take(), talk.places.in_flight.take()));
        if self.counts_targets {
            phase.to_targets[target].fetch_sub(1, Ordering::Relaxed);
        }
        let end_ns = exchange.stamps.end_ns;
        // A request that the plan wanted dropped is a turn without a reply; the session goes on.
        let is_stopped = match &exchange.disposition {
            Disposition::Cancelled { reason, .. } => *reason != CancelReason::Asked,
            Disposition::Finished | Disposition::Failed(_) => false,
        };
        let stage = phase.window.stage(end_ns);
        let is_last = is_stopped || stage == Stage::Over;
        // Only what can still be said again is read here; the rest is read behind the run.
        let is_repeated = !is_stopped && stage == Stage::Sending && prepared.is_remembered(turn);
        // Whether a turn failed may stand in its answer.
        let may_abort = self.aborts && !is_stopped && !is_last_turn && stage == Stage::Sending;
        if is_repeated || may_abort {
            // What came for others meanwhile is stamped before a long reply is read.
            tokio::task::yield_now().await;
        }
        let answer = (is_repeated || may_abort).then(|| self.api.read(&exchange));
        if let Some(answer) = answer.as_ref().filter(|_| is_repeated) {
            talk.history.add(&prepared.turns, turn, &self.api, answer);
        }
        let has_failed = match &exchange.disposition {
            Disposition::Failed(_) => true,
            Disposition::Finished => answer.as_ref().is_some_and(|answer| answer.failure.is_some()),
            Disposition::Cancelled { .. } => false,
        };
        let is_aborted = may_abort && has_failed;
        if is_aborted {
            ticket.abandoned_turns = (talk.turns - turn - 1) as u16;
        }
        let is_over = is_last || is_last_turn || is_aborted;
        let wanted_ns = (!is_over).then(|| {
            let next = &prepared.turns[turn + 1];
            match (talk.user, &phase.starts) {
                (Some(user), _) => user.clock.next_ns(talk.scheduled_ns.unwrap_or(dispatched_ns), end_ns),
                (None, Starts::Schedule(schedule)) => {
                    schedule.later_ns(phase.window.start_ns, next.at_ns, next.delay_ns, end_ns)
                }
                (None, _) => end_ns.saturating_add(next.delay_ns.unwrap_or(0)),
            }
        });
        phase.counters.ended.fetch_add(1, Ordering::Relaxed);
        self.hand_over(Ended { ticket, exchange, prepared, body, is_chained, answer });
        wanted_ns
    }

    /// A long time before a turn that is wanted at `wanted_ns` passes without its conversation, where those of all are too many.
    /// `false` when the turn will not be sent.
    async fn rest(&self, part: &Part, talk: &mut Talk<'_>, wanted_ns: u64) -> bool {
        let Some(back_ns) = talk.in_hand.back_ns(wanted_ns, mono_ns()) else { return true };
        talk.in_hand.give_back();
        talk.history.shrink();
        tokio::select! {
            biased;
            () = self.stopped(part) => false,
            is_there = async {
                self.deadlines.until(back_ns).await;
                let is_there = talk.in_hand.make().await;
                part.meter(|meter| meter.waited_for_remade(mono_ns().saturating_sub(wanted_ns)));
                is_there
            } => is_there,
        }
    }

    /// The id under which a session travels; AIPerf's, where it is the same in every run.
    fn name(&self, phase: &Phase, prepared: &Prepared, user: Option<User>) -> SessionId {
        match (&phase.starts, user) {
            (Starts::Schedule(_), _) => SessionId::fixed(&format!("fixed-schedule-{}", prepared.id)),
            (_, Some(user)) => SessionId::fixed(&user.id.to_string()),
            _ => self.ids.take().into(),
        }
    }

    /// The server of a session.
    fn target(&self, phase: &Phase, session: u64) -> usize {
        self.targets.of_session(phase.base + session).unwrap_or_else(|| {
            least_in_flight(phase.to_targets.iter().map(|count| count.load(Ordering::Relaxed)))
        })
    }
}

#[cfg(test)]
mod tests;
