//! Conversations on their way: what each turn says, when it is sent, and how it ends.

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
    let all = [("user", "one"), ("assistant", "good"), ("user", "two"), ("user", "three"), ("user", "four")];
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
