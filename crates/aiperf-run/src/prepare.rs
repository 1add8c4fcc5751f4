//! The composer: turns the workload into request bodies ahead of the send, on its own thread.
//!
//! For each session in order it finds the conversation, encodes its turns, finds their tokens (the *sent* length: known for a
//! prompt that was made to a length, else counted) and puts them into the [`Ring`]. What it makes for the first time also goes
//! into `inputs.json`, streamed beside the run. Conversations that will be sent again as they are, are kept up to a byte
//! budget; beyond it they are made again, since a workload is a function.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use aiperf_core::conversation::{ContextMode, Conversation, TurnHeaders, TurnLength};
use aiperf_core::plan::{EndpointKind, PhaseKind, Plan};
use aiperf_core::text::for_terminal;
use aiperf_data::{Sampler, Visit, Workload};
use aiperf_load::FixedSchedule;
use aiperf_net::{Endpoint, Request};
use bytes::Bytes;

use crate::artifacts::InputsFile;
use crate::count::{BodyCounter, changes_count};
use crate::error::RunError;
use crate::ring::Ring;

/// Bytes of bodies kept for sessions that send a conversation again.
const KEPT_BYTES: usize = 256 << 20;
/// Most characters of a conversation's id in an error.
const SHOWN_ID: usize = 80;

/// A conversation ready for the wire.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its id.
    pub id: String,
    /// Position in the workload.
    pub entry: usize,
    /// Its turns in order; at least one.
    pub turns: Vec<PreparedTurn>,
    /// Bytes that are free once its session gives it back: none of one turn, and none of what is kept for other sessions.
    pub weight: u64,
}

/// A request ready for the wire.
#[derive(Debug)]
pub(crate) struct PreparedTurn {
    /// The whole JSON body, without what was said in turns before it.
    pub body: Bytes,
    /// Where in the body the elements of its list of messages stand, when it is part of a conversation: what was said before
    /// goes in front of them, and they are part of what is said after.
    pub list: Option<Range<usize>>,
    /// Tokens of it as the tokenizer counts; `None` without a tokenizer, and where what was said before goes in: then the body
    /// is counted once it was sent.
    pub isl: Option<u64>,
    /// Length the turn was made to.
    pub length: Option<TurnLength>,
    /// Tokens it has for having been made to a length: none where they say nothing of the body's count.
    pub made: Option<u64>,
    /// Output limit asked for.
    pub requested_osl: Option<u64>,
    /// Vectors or scores that should answer it, where that is known.
    pub results: Option<u64>,
    /// Images that the body has.
    pub images: u32,
    /// How long its audio plays; 0 where there is none, or where that cannot be told.
    pub audio_ns: u64,
    /// Position of its model in the plan's list.
    pub model: u16,
    /// Headers that it has alone.
    pub headers: Option<Arc<TurnHeaders>>,
    /// What was said before it is forgotten.
    pub resets: bool,
    /// Think time after the turn before it.
    pub delay_ns: Option<u64>,
    /// The workload's own time for it.
    pub at_ns: Option<u64>,
}

impl PreparedTurn {
    /// Its own part of a conversation: the elements of its list of messages.
    pub(crate) fn elements(&self) -> &[u8] {
        self.list.clone().map_or(&[], |list| &self.body[list])
    }
}

impl Prepared {
    /// Bytes of it in memory.
    fn bytes(&self) -> usize {
        self.turns.iter().map(|t| t.body.len() + size_of::<PreparedTurn>()).sum()
    }

    /// Images of the request of turn `turn`, with those of turns that are sent again before it: none where the server keeps them.
    pub(crate) fn images(&self, turn: usize, is_chained: bool) -> u64 {
        self.shown(turn, is_chained, |turn| turn.images.into())
    }

    /// How long the audio of that request plays.
    pub(crate) fn audio_ns(&self, turn: usize, is_chained: bool) -> u64 {
        self.shown(turn, is_chained, |turn| turn.audio_ns)
    }

    fn shown(&self, turn: usize, is_chained: bool, of: impl Fn(&PreparedTurn) -> u64) -> u64 {
        let own = &self.turns[turn];
        if is_chained {
            return of(own);
        }
        let before = self.turns[..turn].iter().zip(&self.turns[1..=turn]).rev();
        let again = before.take_while(|(_, next)| own.list.is_some() && !next.resets).map(|(turn, _)| turn);
        // What is its author's own list is not said again.
        let again = again.filter(|turn| turn.list.is_some());
        std::iter::once(own).chain(again).map(of).fold(0, u64::saturating_add)
    }

    /// Whether a turn behind `turn` says again what was said and heard until then.
    pub(crate) fn is_remembered(&self, turn: usize) -> bool {
        self.turns.iter().skip(turn + 1).take_while(|later| !later.resets).any(|later| later.list.is_some())
    }
}

/// The sessions of a phase.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    /// How many went before them in the run.
    pub base: u64,
    /// How many there may be.
    pub limit: u64,
    /// They belong to a warm-up.
    pub warmup: bool,
    /// Which conversations they take, in this order and each once; otherwise the sampler says it.
    pub order: Option<Arc<FixedSchedule>>,
}

/// What a composer is made of.
pub(crate) struct ComposerSetup {
    pub workload: Arc<dyn Workload>,
    /// Which conversation each session takes.
    pub sampler: Sampler,
    pub endpoint: Arc<Endpoint>,
    /// Counts what is sent; `None` when the server's counts are used.
    pub counter: Option<BodyCounter>,
    pub inputs: Option<InputsFile>,
    /// Whether sessions outnumber conversations.
    pub repeats: bool,
    /// Whether lengths that prompts were made to say nothing of a body's count.
    pub must_count: bool,
    /// The plan's models.
    pub models: Vec<String>,
}

/// Makes prepared conversations.
pub(crate) struct Composer {
    setup: ComposerSetup,
    /// Which conversations are in `inputs.json`: a bit each, in words by their number, for they may lie far apart.
    written: HashMap<usize, u64>,
    kept: HashMap<usize, Arc<Prepared>>,
    kept_bytes: usize,
}

impl Composer {
    /// A composer that has made nothing yet.
    pub(crate) fn new(setup: ComposerSetup) -> Self {
        Self { setup, written: HashMap::new(), kept: HashMap::new(), kept_bytes: 0 }
    }

    /// Another one, which makes the same conversations but keeps and writes none; `None` where no second turn waits for its time, as
    /// some do by themselves and all if the load has them wait.
    pub(crate) fn twin(&self, waits: bool) -> Option<Self> {
        let ComposerSetup { workload, sampler, endpoint, counter, must_count, models, .. } = &self.setup;
        let facts = workload.describe();
        (facts.most_turns > 1 && (facts.waits || waits)).then(|| {
            Self::new(ComposerSetup {
                workload: workload.clone(),
                sampler: *sampler,
                endpoint: endpoint.clone(),
                counter: counter.as_ref().map(BodyCounter::twin),
                inputs: None,
                repeats: false,
                must_count: *must_count,
                models: models.clone(),
            })
        })
    }

    /// Fills `ring` with the sessions of a phase. Ends after the last one or when the ring closes.
    pub(crate) fn fill(&mut self, ring: &Ring<Arc<Prepared>>, sessions: &Sessions) -> Result<(), RunError> {
        let listed = sessions.order.as_ref().map(|schedule| schedule.entries());
        let limit = listed.map_or(u64::MAX, |entries| entries.len() as u64).min(sessions.limit);
        for session in 0..limit {
            if ring.is_closed() {
                break;
            }
            let prepared = self.session(sessions, session).inspect_err(|_| ring.close())?;
            let bytes = prepared.bytes() as u64;
            if ring.put(prepared, bytes).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// What session number `session` of a phase sends.
    pub(crate) fn session(&mut self, sessions: &Sessions, session: u64) -> Result<Arc<Prepared>, RunError> {
        let visit = Visit { session: sessions.base + session, warmup: sessions.warmup };
        let listed = sessions.order.as_ref().map(|schedule| schedule.entries());
        let entry = match listed {
            Some(entries) => entries[session as usize].conversation,
            None => self.entry_for(visit.session),
        };
        self.prepared(entry, visit)
    }

    /// Ends `inputs.json`.
    pub(crate) fn finish(self) -> Option<InputsFile> {
        self.setup.inputs
    }

    /// The conversation that session number `session` of the run takes, where no schedule says it.
    pub(crate) fn entry_for(&self, session: u64) -> usize {
        self.setup.sampler.entry_for(session)
    }

    /// Notes that a conversation is in `inputs.json`; `false` when it was before.
    fn is_new(&mut self, entry: usize) -> bool {
        let (word, bit) = (self.written.entry(entry / 64).or_default(), 1 << (entry % 64));
        let was = *word & bit != 0;
        *word |= bit;
        !was
    }

    /// What the session of `visit` sends, which takes conversation `entry`.
    pub(crate) fn prepared(&mut self, entry: usize, visit: Visit) -> Result<Arc<Prepared>, RunError> {
        // The first ones are kept.
        if let Some(kept) = self.kept.get(&entry) {
            return Ok(kept.clone());
        }
        let mut prepared = self.compose(entry, visit)?;
        let bytes = prepared.bytes();
        let is_useful = self.setup.repeats && !self.setup.workload.is_marked();
        let is_kept = is_useful && self.kept_bytes + bytes <= KEPT_BYTES;
        if !is_kept && prepared.turns.len() > 1 {
            prepared.weight = bytes as u64;
        }
        let prepared = Arc::new(prepared);
        if self.is_new(entry)
            && let Some(inputs) = &mut self.setup.inputs
        {
            inputs.entry(&prepared.id, prepared.turns.iter().map(|t| t.body.as_ref()));
        }
        if is_kept {
            self.kept_bytes += bytes;
            self.kept.insert(entry, prepared.clone());
        }
        Ok(prepared)
    }

    fn compose(&mut self, entry: usize, visit: Visit) -> Result<Prepared, RunError> {
        let conversation = self.setup.workload.conversation(entry, visit)?;
        let mut turns = Vec::with_capacity(conversation.turns.len());
        for number in 0..conversation.turns.len() {
            turns.push(self.turn(&request(&conversation, number), goes_on(&conversation))?);
        }
        Ok(Prepared { id: conversation.id, entry, turns, weight: 0 })
    }

    fn turn(&mut self, request: &Request<'_>, goes_on: bool) -> Result<PreparedTurn, RunError> {
        let turn = request.turn;
        let before = [request.system, request.user_context].into_iter().flatten();
        let texts = turn.texts.iter().map(String::as_str).chain(before.filter(|_| request.opens));
        let mut body = Vec::with_capacity(256 + texts.map(str::len).sum::<usize>() + turn.media_bytes());
        let list = self.setup.endpoint.encode(request, &mut body)?.filter(|_| goes_on);
        let kind = self.setup.endpoint.kind();
        let is_unformed = matches!(kind, EndpointKind::Template | EndpointKind::Raw);
        let must_count = self.setup.must_count
            || changes_count(&turn.extra)
            || kind == EndpointKind::Template
            || (kind.joins_texts() && turn.texts.len() > 1);
        let made = turn.length.map(|l| l.made).filter(|_| !must_count);
        let isl = match &mut self.setup.counter {
            Some(_) if list.is_some() && !request.opens => None,
            // Made to a length, with proof: counting once more would cost more than all else here.
            Some(_) if request.opens && made.is_some() => made,
            // Where bodies that are not ours have their texts is not always known. Those that a template was given are the input.
            Some(counter) if is_unformed && self.setup.endpoint.texts(&body).is_empty() => {
                (kind == EndpointKind::Template).then(|| counter.given(&turn.texts))
            }
            // Images stand in the texts of these, and are none.
            Some(counter) if kind == EndpointKind::NimEmbeddings && !turn.media.is_empty() => {
                Some(counter.given(&turn.texts))
            }
            Some(counter) => counter.body(&body),
            None => None,
        };
        let images = u32::try_from(self.setup.endpoint.images(turn, &body)).unwrap_or(u32::MAX);
        let mut audio_ns = self.setup.endpoint.audio(turn).map(aiperf_data::audio_ns);
        // A part of it says nothing.
        let audio_ns = audio_ns.try_fold(0u64, |sum, ns| Some(sum.saturating_add(ns?))).unwrap_or(0);
        Ok(PreparedTurn {
            // It is kept as long as its session lasts.
            body: Bytes::from(body.into_boxed_slice()),
            list,
            isl,
            length: turn.length,
            made,
            requested_osl: self.setup.endpoint.limit(turn),
            results: self.setup.endpoint.expected_results(turn),
            images,
            audio_ns,
            model: self.setup.models.iter().position(|m| *m == turn.model).unwrap_or(0) as u16,
            headers: (!turn.headers.is_empty()).then(|| Arc::new(turn.headers.clone())),
            resets: turn.resets,
            delay_ns: turn.delay_ns,
            at_ns: turn.at_ns,
        })
    }
}

/// Whether turns of a conversation hold what was said before them.
fn goes_on(conversation: &Conversation) -> bool {
    conversation.context == ContextMode::History && conversation.turns.len() > 1
}

/// A turn of a conversation (from 0), without what the server will have said.
fn request(conversation: &Conversation, number: usize) -> Request<'_> {
    Request {
        system: conversation.system.as_deref(),
        user_context: conversation.user_context.as_deref(),
        turn: &conversation.turns[number],
        opens: number == 0 || conversation.turns[number].resets || !goes_on(conversation),
        marker: conversation.marker.as_ref(),
    }
}

/// Makes every request whose messages are not those of the workload, so that none is found to have no place for its marker in the
/// middle of a run. What is laid over all requests is the same in each of them. Of bodies that the user makes the first is tried.
pub(crate) fn check_bodies(
    plan: &Plan,
    workload: &dyn Workload,
    endpoint: &Endpoint,
) -> Result<(), RunError> {
    let conversations = if plan.cache_bust.is_none() {
        0
    } else if workload.replaces_messages() {
        workload.len()
    } else {
        usize::from(plan.endpoint.kind.is_replaced_by(&plan.endpoint.extra))
    };
    // A template of the user's, and an API that needs bodies, are tried with the first conversation.
    let is_tried = matches!(plan.endpoint.kind, EndpointKind::Template | EndpointKind::Raw);
    let conversations = conversations.max(usize::from(is_tried));
    let warmup = plan.phases.iter().any(|phase| phase.kind == PhaseKind::Warmup);
    let mut body = Vec::new();
    for entry in 0..conversations {
        let conversation = workload.conversation(entry, Visit { session: 0, warmup })?;
        for number in 0..conversation.turns.len() {
            body.clear();
            endpoint.encode(&request(&conversation, number), &mut body).map_err(|source| {
                if !workload.replaces_messages() {
                    return source.into();
                }
                let id = for_terminal(&conversation.id, SHOWN_ID);
                RunError::EncodeTurn { conversation: id, turn: number + 1, source }
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use aiperf_core::conversation::Marker;
    use aiperf_core::plan::MarkerTarget;
    use serde_json::{Value, json};

    use super::*;
    use crate::ring::Ahead;
    use crate::toys::{self, Given, Toy};

    fn composer(conversations: Vec<Conversation>, toy: Arc<Toy>, must_count: bool) -> Composer {
        let mut setup = toys::composer_setup(Arc::new(Given { conversations, marked: false }));
        setup.counter = Some(BodyCounter::new(toy, setup.endpoint.clone(), 0, None));
        setup.must_count = must_count;
        Composer::new(setup)
    }

    fn one(conversation: Conversation, must_count: bool) -> (Arc<Prepared>, u64) {
        let toy = Arc::new(Toy::new(None));
        let prepared = composer(vec![conversation], toy.clone(), must_count).prepared(0, Visit::default());
        (prepared.expect("it encodes"), toy.counted.load(Ordering::Relaxed))
    }

    #[test]
    fn what_was_made_to_a_length_is_not_counted_again() {
        let mut conversation = toys::conversation(&["a b"]);
        conversation.turns[0].length = Some(TurnLength { asked: 4, made: 5 });
        let (prepared, counted) = one(conversation.clone(), false);
        assert_eq!((prepared.turns[0].isl, counted), (Some(5), 0));
        // The user's fields bring texts of their own.
        let (prepared, counted) = one(conversation.clone(), true);
        assert_eq!((prepared.turns[0].isl, counted), (Some(2), 1));
        let tools = json!([{"function": {"name": "tool"}}]);
        conversation.turns[0].extra.insert("tools".into(), tools);
        let (prepared, counted) = one(conversation, false);
        assert_eq!((prepared.turns[0].isl, counted), (Some(3), 2));
    }

    #[test]
    fn conversations_are_made_again_only_where_a_turn_may_wait() {
        let twin = |conversation: Conversation, waits: bool| {
            composer(vec![conversation], Arc::new(Toy::new(None)), false).twin(waits).is_some()
        };
        let (one, two) = (toys::conversation(&["a"]), toys::conversation(&["a", "b"]));
        let mut thinks = two.clone();
        thinks.turns[1].delay_ns = Some(5);
        assert_eq!([twin(one, true), twin(two.clone(), false)], [false; 2]);
        assert_eq!([twin(two, true), twin(thinks, false)], [true; 2]);
    }

    #[test]
    fn turns_of_a_conversation_are_counted_when_they_were_sent() {
        let mut conversation = toys::conversation(&["a b", "c"]);
        conversation.system = Some("s t u".into());
        let (prepared, _) = one(conversation.clone(), false);
        assert_eq!([0, 1].map(|i| prepared.turns[i].isl), [Some(5), None]);
        assert_eq!([0, 1].map(|i| prepared.is_remembered(i)), [true, false]);
        // Turns that are requests of their own say all that is to say.
        conversation.context = ContextMode::SelfContained;
        let (prepared, _) = one(conversation, false);
        assert_eq!([0, 1].map(|i| prepared.turns[i].isl), [Some(5), Some(4)]);
        assert!([0, 1].iter().all(|i| prepared.turns[*i].list.is_none() && !prepared.is_remembered(*i)));
    }

    #[test]
    fn messages_of_the_user_s_get_the_marker_and_are_counted_with_it() {
        let mut conversation = toys::conversation(&["one", "two"]);
        conversation.marker = Some(Marker { text: "[m]\n\n".into(), target: MarkerTarget::FirstTurnPrefix });
        for turn in &mut conversation.turns {
            turn.length = Some(TurnLength { asked: 9, made: 9 });
            turn.extra.insert("messages".into(), json!([{"role": "user", "content": "a b"}]));
        }
        let (prepared, _) = one(conversation, false);
        for turn in &prepared.turns {
            let body: Value = serde_json::from_slice(&turn.body).expect("JSON");
            assert_eq!((&body["messages"][0]["content"], turn.isl), (&json!("[m]\n\na b"), Some(3)));
            assert_eq!(turn.list, None);
        }
    }

    #[test]
    fn a_turn_that_resets_opens_the_conversation_anew() {
        let mut conversation = toys::conversation(&["a b", "c", "d e f"]);
        conversation.system = Some("s".into());
        conversation.turns[1].resets = true;
        let (prepared, _) = one(conversation, false);
        assert_eq!([0, 1, 2].map(|i| prepared.turns[i].isl), [Some(3), Some(2), None]);
        assert_eq!([0, 1, 2].map(|i| prepared.is_remembered(i)), [false, true, false]);
    }

    #[test]
    fn one_turn_remembers_nothing() {
        let (prepared, _) = one(toys::conversation(&["a b"]), false);
        assert!(prepared.turns[0].list.is_none() && !prepared.is_remembered(0));
    }

    /// Ids of what two sessions of a warm-up and three measured ones send.
    fn ids(marked: bool) -> (Vec<String>, usize) {
        let conversations = vec![toys::conversation(&["a"]), toys::conversation(&["b"])];
        let mut setup = toys::composer_setup(Arc::new(Given { conversations, marked }));
        setup.repeats = true;
        let mut composer = Composer::new(setup);
        let mut ids = Vec::new();
        for sessions in [
            Sessions { base: 0, limit: 2, warmup: true, order: None },
            Sessions { base: 2, limit: 3, warmup: false, order: None },
        ] {
            let ring = Ring::new(4, Ahead { items: 4, bytes: 0 });
            composer.fill(&ring, &sessions).expect("all is well");
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let taken = (0..sessions.limit).map(|s| runtime.block_on(ring.take(s)).expect("it is there"));
            ids.extend(taken.map(|p| p.id.clone()));
        }
        (ids, composer.kept.len())
    }

    #[test]
    fn sessions_are_numbered_over_the_whole_run() {
        let marked = ["talk-w0", "talk-w1", "talk-p2", "talk-p3", "talk-p4"].map(str::to_owned);
        assert_eq!(ids(true), (marked.to_vec(), 0));
        assert_eq!(ids(false), (vec!["talk".to_owned(); 5], 2));
    }

    #[test]
    fn a_later_turn_s_body_is_its_own_part() {
        let mut conversation = toys::conversation(&["a", "b"]);
        conversation.system = Some("s".into());
        conversation.user_context = Some("u".into());
        let prepared = toys::prepared(conversation);
        let contents = |turn: usize| -> Vec<String> {
            let body: Value = serde_json::from_slice(&prepared.turns[turn].body).expect("JSON");
            let messages = body["messages"].as_array().expect("a list").clone();
            messages.iter().map(|m| m["content"].as_str().expect("a text").to_owned()).collect()
        };
        assert_eq!(contents(0), ["s", "u", "a"]);
        assert_eq!(contents(1), ["b"]);
    }

    #[test]
    fn prompts_of_completions_have_their_specials() {
        let toy = Arc::new(Toy::new(None));
        let mut setup = toys::composer_setup(Arc::new(Given {
            conversations: vec![toys::conversation(&["a b"])],
            marked: false,
        }));
        setup.endpoint = Arc::new(Endpoint::new(&toys::endpoint(EndpointKind::Completions)));
        setup.counter = Some(BodyCounter::new(toy, setup.endpoint.clone(), 1, None));
        let prepared = Composer::new(setup).prepared(0, Visit::default()).expect("it encodes");
        assert_eq!(prepared.turns[0].isl, Some(3));
    }
}
