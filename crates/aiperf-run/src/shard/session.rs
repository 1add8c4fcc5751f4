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
mod tests {
    use std::sync::Arc;

    use aiperf_core::conversation::{ContextMode, Conversation};
    use aiperf_core::outcome::CancelReason;
    use aiperf_core::plan::{Cancellation, EndpointKind, PhasePlan, Ramp, RampShape};
    use aiperf_core::url::BaseUrl;
    use aiperf_data::{DataError, Visit, Workload, WorkloadFacts};
    use aiperf_sim::scripted::{Reply, ScriptedServer};
    use serde_json::{Value, json};

    use super::super::tests::Alone;
    use super::super::{Command, Ended};
    use super::*;
    use crate::again::{Again, Maker, Rests};
    use crate::prepare::{Composer, Sessions};
    use crate::toys::{self, Given};

    /// A closed loop of one place on its way to a server that plays `replies`; sessions take `conversations` in order.
    struct Talk {
        server: ScriptedServer,
        phase: Arc<Phase>,
        shard: Alone,
    }

    impl Talk {
        fn start(conversations: &[Conversation], replies: Vec<Reply>, requests: u64) -> Self {
            let plan = PhasePlan { requests: Some(requests), ..toys::closed_loop() };
            Self::start_as(plan, conversations, replies)
        }

        fn start_as(plan: PhasePlan, conversations: &[Conversation], replies: Vec<Reply>) -> Self {
            Self::start_with(plan, conversations, replies, false)
        }

        /// One whose sessions end with a failed turn.
        fn start_aborting(plan: PhasePlan, conversations: &[Conversation], replies: Vec<Reply>) -> Self {
            Self::start_with(plan, conversations, replies, true)
        }

        fn start_with(
            plan: PhasePlan,
            conversations: &[Conversation],
            replies: Vec<Reply>,
            aborts: bool,
        ) -> Self {
            Self::in_phase(toys::phase(plan, mono_ns()), conversations, replies, aborts)
        }

        fn in_phase(
            phase: Arc<Phase>,
            conversations: &[Conversation],
            replies: Vec<Reply>,
            aborts: bool,
        ) -> Self {
            let server = ScriptedServer::start(replies).expect("it listens");
            for conversation in conversations {
                phase.ring.put(toys::prepared(conversation.clone()), 0).expect("there is room");
            }
            let mut endpoint = toys::endpoint(EndpointKind::Chat);
            endpoint.targets[0].url = BaseUrl::parse(&server.url()).expect("a good URL");
            endpoint.timeout_ns = 60_000_000_000;
            // A reply that breaks off is the server's last word here.
            endpoint.resend = false;
            let shard = Alone::start_as(endpoint, aborts);
            shard.commands.send(Command::Phase(phase.clone())).expect("the shard listens");
            Self { server, phase, shard }
        }

        /// Waits for the end and demands that every scheduled request was sent and ended.
        fn finish(self, requests: u64) -> (Vec<Ended>, Vec<Vec<(String, String)>>) {
            let ended = self.shard.finish();
            let counters = &self.phase.counters;
            let counts = [&counters.scheduled, &counters.sent, &counters.ended, &counters.unsent]
                .map(|c| c.load(Ordering::Relaxed));
            assert_eq!(counts, [requests, requests, requests, 0]);
            // A request that was dropped may still be on its way to the server's thread.
            let bodies = self.server.wait_requests(requests as usize);
            (ended, bodies.iter().map(|r| said(&r.body)).collect())
        }
    }

    /// Roles and contents of a body.
    fn said(body: &[u8]) -> Vec<(String, String)> {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        let field = |message: &Value, name: &str| message[name].as_str().expect("a text").to_owned();
        let messages = body["messages"].as_array().expect("a list");
        messages.iter().map(|m| (field(m, "role"), field(m, "content"))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(r, c)| ((*r).to_owned(), (*c).to_owned())).collect()
    }

    #[test]
    fn each_turn_repeats_the_conversation_and_the_server_s_own_replies() {
        let texts = ["Hel", "lo \"you\"\n", " \u{e9}"];
        let replies =
            vec![Reply::chat_stream(&texts), Reply::chat("  second\t", 1, 1), Reply::chat("third", 1, 1)];
        let mut conversation = toys::conversation(&["one", "two", "three"]);
        conversation.system = Some("be brief".into());
        let (ended, bodies) = Talk::start(&[conversation], replies, 3).finish(3);
        let all = pairs(&[
            ("system", "be brief"),
            ("user", "one"),
            ("assistant", &texts.concat()),
            ("user", "two"),
            ("assistant", "  second\t"),
            ("user", "three"),
        ]);
        assert_eq!(bodies, [&all[..2], &all[..4], &all[..]]);
        // What is handed over is what was sent.
        let handed: Vec<_> = ended.iter().map(|e| said(&e.body)).collect();
        assert_eq!(handed, bodies);
        assert_eq!(ended.iter().map(|e| e.ticket.turn).collect::<Vec<_>>(), [0, 1, 2]);
        let id = ended[0].ticket.correlation_id.clone();
        assert!(ended.iter().all(|e| e.ticket.correlation_id == id));
        assert_ne!(ended[0].ticket.request_id, ended[1].ticket.request_id);
        // The last reply is of no use to a later turn, so that it is read behind the run.
        let read: Vec<_> = ended.iter().map(|e| e.answer.as_ref().map(|a| a.text.as_str())).collect();
        assert_eq!(read, [Some(&*texts.concat()), Some("  second\t"), None]);
    }

    #[test]
    fn a_turn_that_resets_forgets_what_was_said() {
        let mut conversation = toys::conversation(&["one", "two", "three"]);
        conversation.system = Some("be brief".into());
        conversation.turns[1].resets = true;
        let (_, bodies) = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1)], 3).finish(3);
        let anew = pairs(&[("system", "be brief"), ("user", "two"), ("assistant", "a"), ("user", "three")]);
        assert_eq!(bodies[1..], [&anew[..2], &anew[..]]);
    }

    #[test]
    fn sessions_share_nothing() {
        let conversations = [toys::conversation(&["one", "two"]), toys::conversation(&["uno", "due"])];
        let replies = ["a", "b", "c", "d"].map(|text| Reply::chat(text, 1, 1)).to_vec();
        let (ended, bodies) = Talk::start(&conversations, replies, 4).finish(4);
        assert_eq!(bodies[3], pairs(&[("user", "uno"), ("assistant", "c"), ("user", "due")]));
        assert_ne!(ended[0].ticket.correlation_id, ended[3].ticket.correlation_id);
    }

    #[test]
    fn a_session_goes_on_behind_a_failed_turn() {
        let replies = vec![
            Reply::chat("good", 1, 1),
            Reply::json(500, r#"{"error":{"message":"no"}}"#),
            Reply::close_before_answer(),
            Reply::chat("well", 1, 1),
        ];
        let conversation = toys::conversation(&["one", "two", "three", "four"]);
        let (_, bodies) = Talk::start(&[conversation], replies, 4).finish(4);
        let all =
            [("user", "one"), ("assistant", "good"), ("user", "two"), ("user", "three"), ("user", "four")];
        assert_eq!(bodies[3], pairs(&all));
    }

    #[test]
    fn a_session_ends_with_a_failed_turn_where_that_is_wanted() {
        let conversation = toys::conversation(&["one", "two", "three", "four"]);
        let mut alone = conversation.clone();
        alone.context = ContextMode::SelfContained;
        let failures = [
            Reply::json(500, r#"{"error":{"message":"no"}}"#),
            Reply::close_before_answer(),
            // A whole answer by its status, an error by its words.
            Reply::json(200, r#"{"error":{"message":"no"}}"#),
        ];
        for (failure, conversation) in failures.into_iter().zip([&conversation, &alone, &alone]) {
            let plan = PhasePlan { sessions: Some(1), requests: None, ..toys::closed_loop() };
            let replies = vec![Reply::chat("good", 1, 1), failure];
            let talk = Talk::start_aborting(plan, std::slice::from_ref(conversation), replies);
            let (ended, _) = talk.finish(2);
            assert_eq!(ended.iter().map(|e| e.ticket.abandoned_turns).collect::<Vec<_>>(), [0, 2]);
        }
    }

    #[test]
    fn turns_that_are_whole_requests_repeat_nothing() {
        let mut conversation = toys::conversation(&["one", "two"]);
        conversation.context = ContextMode::SelfContained;
        let (ended, bodies) = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1)], 2).finish(2);
        assert_eq!(bodies, [pairs(&[("user", "one")]), pairs(&[("user", "two")])]);
        assert!(ended.iter().all(|e| e.answer.is_none()));
    }

    #[test]
    fn a_ramp_is_over_when_the_last_session_has_started() {
        let ramp = Ramp { duration_ns: 3_600_000_000_000, shape: RampShape::Linear, from: None };
        let plan = PhasePlan {
            concurrency: Some(2),
            concurrency_ramp: Some(ramp),
            sessions: Some(2),
            ..toys::closed_loop()
        };
        let conversations = [toys::conversation(&["one"]), toys::conversation(&["two"])];
        let replies = vec![Reply::chat("a", 1, 1), Reply::chat("b", 1, 1)];
        let (ended, _) = Talk::start_as(plan, &conversations, replies).finish(2);
        assert_eq!(ended.iter().map(|e| e.ticket.session).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_cap_cuts_a_session_in_its_middle() {
        let conversation = toys::conversation(&["one", "two", "three"]);
        let (ended, _) =
            Talk::start(&[conversation.clone(), conversation], vec![Reply::chat("a", 1, 1)], 5).finish(5);
        let turns: Vec<_> = ended.iter().map(|e| (e.ticket.session, e.ticket.turn)).collect();
        assert_eq!(turns, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]);
    }

    #[test]
    fn a_cancelled_turn_is_the_last_one() {
        let conversation = toys::conversation(&["one", "two", "three"]);
        let talk = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1), Reply::new().stall()], 9);
        talk.server.wait_requests(2);
        let cancel = Command::Cancel(CancelReason::Interrupted);
        talk.shard.commands.send(cancel).expect("the shard listens");
        let (ended, _) = talk.finish(2);
        let cancelled: Vec<_> =
            ended.iter().map(|e| matches!(e.exchange.disposition, Disposition::Cancelled { .. })).collect();
        assert_eq!(cancelled, [false, true]);
    }

    #[test]
    fn a_session_goes_on_behind_a_turn_that_was_to_be_dropped() {
        let conversation = toys::conversation(&["one", "two"]);
        let plan = PhasePlan {
            cancellation: Some(Cancellation { share: 1.0, delay_ns: 0 }),
            requests: Some(2),
            ..toys::closed_loop()
        };
        let talk = Talk::start_as(plan, &[conversation], vec![Reply::new().stall()]);
        let (ended, bodies) = talk.finish(2);
        let asked = |e: &Ended| match e.exchange.disposition {
            Disposition::Cancelled { reason, .. } => Some(reason),
            Disposition::Finished | Disposition::Failed(_) => None,
        };
        assert_eq!(ended.iter().map(asked).collect::<Vec<_>>(), [Some(CancelReason::Asked); 2]);
        // The server may have read the second one first: they came on two connections.
        assert!(bodies.contains(&pairs(&[("user", "one"), ("user", "two")])), "{bodies:?}");
    }

    #[test]
    fn who_thinks_when_the_run_is_stopped_says_nothing_more() {
        let mut conversation = toys::conversation(&["one", "two"]);
        conversation.turns[1].delay_ns = Some(3_600_000_000_000);
        let talk = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1)], 9);
        assert_eq!(talk.shard.ended.recv().expect("it comes").len(), 1);
        let cancel = Command::Cancel(CancelReason::Interrupted);
        talk.shard.commands.send(cancel).expect("the shard listens");
        let (ended, bodies) = talk.finish(1);
        assert_eq!((ended.len(), bodies.len()), (0, 1));
    }

    #[test]
    fn think_time_begins_at_the_end_of_the_turn_before() {
        let mut conversation = toys::conversation(&["one", "two", "three"]);
        conversation.turns[1].delay_ns = Some(2_000_000);
        let (ended, _) = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1)], 3).finish(3);
        let end = |turn: usize| ended[turn].exchange.stamps.end_ns;
        let due = |turn: usize| ended[turn].ticket.scheduled_ns;
        assert_eq!([0, 1, 2].map(due), [None, Some(end(0) + 2_000_000), Some(end(1))]);
        assert!(ended[1].ticket.dispatched_ns >= end(0) + 2_000_000);
    }

    /// A conversation whose author thinks for long, in a phase in which nobody may hold anything meanwhile.
    fn resting(made: Vec<Conversation>) -> (Talk, Maker) {
        resting_on(Given { conversations: made, marked: false }, 20_000_000)
    }

    /// The same, with whoever makes the conversation again.
    fn resting_on(made: impl Workload + 'static, delay_ns: u64) -> (Talk, Maker) {
        let mut conversation = toys::conversation(&["one", "two", "three"]);
        conversation.turns[1].delay_ns = Some(delay_ns);
        conversation.turns[2].delay_ns = Some(delay_ns);
        let mut phase = toys::phase(PhasePlan { sessions: Some(1), ..toys::closed_loop() }, mono_ns());
        let own = Arc::get_mut(&mut phase).expect("nobody else has it yet");
        let composer = Composer::new(toys::composer_setup(Arc::new(made)));
        let sessions = Sessions { base: 0, limit: 1, warmup: false, order: None };
        let rests = Rests { bytes: 0, ahead_ns: 5_000_000 };
        let (again, maker) = Again::start(composer, sessions, own.ring.clone(), rests).expect("a thread");
        own.again = Arc::new(again);
        let replies = vec![Reply::chat("a", 1, 1), Reply::chat("b", 1, 1), Reply::chat("c", 1, 1)];
        (Talk::in_phase(phase, &[conversation], replies, false), maker)
    }

    #[test]
    fn who_thinks_for_long_gives_the_conversation_back_and_gets_it_again() {
        // What is made differs from what was given back, so that it is seen.
        let (talk, maker) = resting(vec![toys::conversation(&["uno", "due", "tre"])]);
        let again = talk.phase.again.clone();
        let (ended, bodies) = talk.finish(3);
        assert_eq!(bodies[0], pairs(&[("user", "one")]));
        assert_eq!(bodies[1], pairs(&[("user", "uno"), ("assistant", "a"), ("user", "due")]));
        assert_eq!(bodies[2][3..], pairs(&[("assistant", "b"), ("user", "tre")]));
        assert!(ended[1..].iter().all(|e| e.ticket.dispatched_ns >= e.ticket.scheduled_ns.expect("a time")));
        again.stop();
        maker.join().expect("no panic").expect("all is well");
    }

    /// Takes its time to make a conversation.
    #[derive(Debug)]
    struct Slow(Given);

    impl Workload for Slow {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn conversation(&self, index: usize, visit: Visit) -> Result<Conversation, DataError> {
            let until_ns = mono_ns() + 30_000_000;
            while mono_ns() < until_ns {
                std::thread::yield_now();
            }
            self.0.conversation(index, visit)
        }

        fn turn_count(&self, index: usize) -> usize {
            self.0.turn_count(index)
        }

        fn describe(&self) -> WorkloadFacts {
            self.0.describe()
        }
    }

    #[test]
    fn a_conversation_that_is_made_again_too_late_is_in_the_lag_and_counted() {
        let mut made = vec![toys::conversation(&["one", "two", "three"])];
        made[0].turns[2].delay_ns = Some(200_000_000);
        let (talk, maker) = resting_on(Slow(Given { conversations: made, marked: false }), 200_000_000);
        let again = talk.phase.again.clone();
        let (ended, health) = talk.shard.finish_measured();
        // It is asked for 5 ms before its turn is due, and takes 30.
        for turn in &ended[1..] {
            let due_ns = turn.ticket.scheduled_ns.expect("a time");
            assert!(turn.ticket.dispatched_ns >= due_ns + 25_000_000, "{:?}", turn.ticket);
        }
        assert_eq!((ended.len(), health.composer.turns), (3, 2));
        assert!(health.composer.longest_ns >= 25_000_000, "{:?}", health.composer);
        again.stop();
        maker.join().expect("no panic").expect("all is well");
    }

    #[test]
    fn a_conversation_that_cannot_be_made_again_ends_the_phase() {
        let (talk, maker) = resting(vec![]);
        let phase = talk.phase.clone();
        talk.finish(1);
        assert!(maker.join().expect("no panic").is_err());
        assert!(phase.ring.is_closed());
    }

    #[test]
    fn an_author_s_own_messages_are_sent_as_they_are() {
        let mut conversation = toys::conversation(&["one", "two"]);
        let own = json!([{"role": "user", "content": "mine"}]);
        conversation.turns[1].extra.insert("messages".into(), own);
        let (_, bodies) = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1)], 2).finish(2);
        assert_eq!(bodies[1], pairs(&[("user", "mine")]));
    }
}
