//! One session: its place, its body, its turns one after the other.

use std::sync::atomic::Ordering;

use aiperf_core::outcome::Disposition;
use aiperf_core::ticket::{SessionId, Ticket};
use aiperf_load::Stage;
use aiperf_net::Outgoing;
use aiperf_os::mono_ns;

use super::{Cancel, Ended, Shard};
use crate::history::History;
use crate::phase::Phase;

impl Shard {
    /// Waits for a place among the live sessions, in order of arrival, then runs the session.
    pub(super) async fn session_with_place(&self, phase: &Phase, cancel: &Cancel, session: u64, at_ns: u64) {
        let Some(permits) = &phase.permits else {
            return self.session(phase, cancel, session, Some(at_ns)).await;
        };
        let place = tokio::select! {
            biased;
            place = permits.acquire() => place.ok(),
            _ = cancel.wait() => None,
            () = self.sending_over(phase) => None,
        };
        if place.is_some() {
            self.session(phase, cancel, session, Some(at_ns)).await;
        } else {
            phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
            phase.counters.unsent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Resolves when the phase stops sending; never without a duration.
    async fn sending_over(&self, phase: &Phase) {
        match phase.window.sending_end_ns {
            u64::MAX => std::future::pending().await,
            end_ns => self.deadlines.until(end_ns).await,
        }
    }

    /// The turns of one session, strictly one after the other.
    pub(super) async fn session(
        &self,
        phase: &Phase,
        cancel: &Cancel,
        session: u64,
        scheduled_ns: Option<u64>,
    ) {
        let prepared = tokio::select! {
            biased;
            prepared = phase.ring.take(session) => prepared.ok(),
            _ = cancel.wait() => None,
            () = self.sending_over(phase) => None,
        };
        let Some(prepared) = prepared else {
            if scheduled_ns.is_some() {
                phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
                phase.counters.unsent.fetch_add(1, Ordering::Relaxed);
            }
            return;
        };
        let correlation_id: SessionId = self.ids.take().into();
        let mut scheduled_ns = scheduled_ns;
        let mut history = History::default();
        for (turn, request) in prepared.turns.iter().enumerate() {
            if let Some(at_ns) = scheduled_ns.filter(|_| turn > 0) {
                tokio::select! {
                    biased;
                    _ = cancel.wait() => return,
                    () = self.sending_over(phase) => return,
                    () = self.deadlines.until(at_ns) => {}
                }
            }
            let body = history.body(request);
            let dispatched_ns = mono_ns();
            if cancel.fired() || !phase.claim(dispatched_ns) {
                // A first turn of an open loop came due and is counted; what else the caps cut off never did.
                if turn == 0 && scheduled_ns.is_some() {
                    phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
                    phase.counters.unsent.fetch_add(1, Ordering::Relaxed);
                }
                return;
            }
            phase.counters.scheduled.fetch_add(1, Ordering::Relaxed);
            phase.counters.sessions.fetch_max(session + 1, Ordering::Relaxed);
            let ticket = Ticket {
                phase: phase.number,
                session,
                entry: prepared.entry,
                turn: turn as u16,
                shard: self.index as u16,
                target: 0,
                request_id: self.ids.take(),
                correlation_id: correlation_id.clone(),
                scheduled_ns,
                dispatched_ns,
            };
            let out = Outgoing::new(body.clone(), ticket.request_id, correlation_id.clone());
            let exchange = self.client.exchange(out, cancel.wait()).await;
            let end_ns = exchange.stamps.end_ns;
            let cancelled = matches!(exchange.disposition, Disposition::Cancelled { .. });
            let stage = phase.window.stage(end_ns);
            let is_last = cancelled || stage == Stage::Over;
            // Only what can still be said again is read here; the rest is read behind the run.
            let is_repeated = !cancelled && stage == Stage::Sending && prepared.is_remembered(turn);
            if is_repeated {
                // What came for others meanwhile is stamped before a long reply is read.
                tokio::task::yield_now().await;
            }
            let answer = is_repeated.then(|| self.api.read(&exchange));
            if let Some(answer) = &answer {
                history.add(request, &self.api, answer);
            }
            phase.counters.ended.fetch_add(1, Ordering::Relaxed);
            self.hand_over(Ended { ticket, exchange, prepared: prepared.clone(), body, answer });
            if is_last {
                return;
            }
            scheduled_ns =
                prepared.turns.get(turn + 1).map(|next| end_ns.saturating_add(next.delay_ns.unwrap_or(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aiperf_core::conversation::{ContextMode, Conversation};
    use aiperf_core::outcome::CancelReason;
    use aiperf_core::plan::{EndpointKind, PhasePlan};
    use aiperf_core::url::BaseUrl;
    use aiperf_sim::scripted::{Reply, ScriptedServer};
    use serde_json::{Value, json};

    use super::super::tests::Alone;
    use super::super::{Command, Ended};
    use super::*;
    use crate::toys;

    /// A closed loop of one place on its way to a server that plays `replies`; sessions take `conversations` in order.
    struct Talk {
        server: ScriptedServer,
        phase: Arc<Phase>,
        shard: Alone,
    }

    impl Talk {
        fn start(conversations: &[Conversation], replies: Vec<Reply>, requests: u64) -> Self {
            let server = ScriptedServer::start(replies).expect("it listens");
            let plan = PhasePlan { requests: Some(requests), ..toys::closed_loop() };
            let phase = toys::phase(plan, mono_ns());
            for conversation in conversations {
                phase.ring.put(toys::prepared(conversation.clone()), 0).expect("there is room");
            }
            let mut endpoint = toys::endpoint(EndpointKind::Chat);
            endpoint.targets[0].url = BaseUrl::parse(&server.url()).expect("a good URL");
            endpoint.timeout_ns = 60_000_000_000;
            let shard = Alone::start(endpoint);
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
            let bodies = self.server.requests();
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
    fn turns_that_are_whole_requests_repeat_nothing() {
        let mut conversation = toys::conversation(&["one", "two"]);
        conversation.context = ContextMode::SelfContained;
        let (ended, bodies) = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1)], 2).finish(2);
        assert_eq!(bodies, [pairs(&[("user", "one")]), pairs(&[("user", "two")])]);
        assert!(ended.iter().all(|e| e.answer.is_none()));
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

    #[test]
    fn an_author_s_own_messages_are_sent_as_they_are() {
        let mut conversation = toys::conversation(&["one", "two"]);
        let own = json!([{"role": "user", "content": "mine"}]);
        conversation.turns[1].extra.insert("messages".into(), own);
        let (_, bodies) = Talk::start(&[conversation], vec![Reply::chat("a", 1, 1)], 2).finish(2);
        assert_eq!(bodies[1], pairs(&[("user", "mine")]));
    }
}
