//! Plans, phases, workloads and a tokenizer for the tests of this crate. Nothing here is ever connected to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aiperf_core::conversation::{ContextMode, Conversation, Turn};
use aiperf_core::plan::{EndpointKind, EndpointPlan, Pacing, PhaseKind, PhasePlan, Sampling};
use aiperf_core::url::BaseUrl;
use aiperf_data::{DataError, Sampler, Visit, Workload, WorkloadFacts, WorkloadKind};
use aiperf_load::PhaseWindow;
use aiperf_net::Endpoint;
use aiperf_tokens::{ChatTemplate, SpecialTokens, Tokenizer};
use serde_json::Map;
use tokio::sync::Notify;

use crate::again::Again;
use crate::limit::Limits;
use crate::phase::{Counters, Phase, Starts, Stop};
use crate::prepare::{Composer, ComposerSetup, Prepared};
use crate::ring::{Ahead, Ring};

/// One place, no end.
pub(crate) fn closed_loop() -> PhasePlan {
    PhasePlan {
        concurrency: Some(1),
        ..PhasePlan::new("profiling", PhaseKind::Profiling, Pacing::Concurrency)
    }
}

/// A phase that starts at `start_ns`, with an empty ring.
pub(crate) fn phase(plan: PhasePlan, start_ns: u64) -> Arc<Phase> {
    let starts = if plan.pacing.is_closed_loop() { Starts::Places } else { Starts::Arrivals };
    Arc::new(Phase {
        number: 0,
        window: PhaseWindow::start(&plan, start_ns),
        plan,
        ring: Arc::new(Ring::new(4, Ahead { items: 4, bytes: 0 })),
        again: Arc::new(Again::never()),
        limits: Limits::default(),
        starts,
        base: 0,
        next_session: AtomicU64::new(0),
        to_targets: vec![AtomicU64::new(0)],
        counters: Counters::default(),
        stop: Stop::default(),
        spent: Notify::new(),
        started: Notify::new(),
    })
}

/// A server on this machine.
pub(crate) fn endpoint(kind: EndpointKind) -> EndpointPlan {
    EndpointPlan {
        timeout_ns: 1_000_000_000,
        max_response_bytes: 1 << 20,
        ..EndpointPlan::new(kind, BaseUrl::parse("http://127.0.0.1:1").expect("a good URL"))
    }
}

/// What happens at the entry behind the last good one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Error,
    Panic,
}

#[derive(Debug)]
struct Breaking {
    good: usize,
    then: Then,
}

impl Workload for Breaking {
    fn len(&self) -> usize {
        usize::MAX
    }

    fn conversation(&self, index: usize, _visit: Visit) -> Result<Conversation, DataError> {
        if index < self.good {
            return Ok(conversation(&["hello"]));
        }
        assert!(self.then == Then::Error, "the workload was asked to panic");
        Err(DataError::OutOfRange { index, len: self.good })
    }

    fn turn_count(&self, _index: usize) -> usize {
        1
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::Synthetic,
            entries: self.good,
            turns: self.good as u64,
            most_turns: 1,
            waits: false,
            notes: Vec::new(),
            rows: None,
        }
    }
}

/// A composer over a workload that breaks behind `good` entries.
pub(crate) fn composer(good: usize, then: Then) -> Composer {
    Composer::new(composer_setup(Arc::new(Breaking { good, then })))
}

/// What makes a composer over `workload` for chat, without tokenizer and files.
pub(crate) fn composer_setup(workload: Arc<dyn Workload>) -> ComposerSetup {
    ComposerSetup {
        sampler: Sampler::new(Sampling::Sequential, 0, workload.len()),
        workload,
        endpoint: Arc::new(Endpoint::new(&endpoint(EndpointKind::Chat))),
        counter: None,
        inputs: None,
        repeats: false,
        must_count: false,
        models: vec!["m".into()],
    }
}

/// A conversation with one turn for each text.
pub(crate) fn conversation(texts: &[&str]) -> Conversation {
    let turn = |text: &&str| Turn {
        model: "m".into(),
        role: None,
        texts: vec![(*text).to_owned()],
        max_tokens: None,
        delay_ns: None,
        at_ns: None,
        extra: Map::new(),
        length: None,
        ..Turn::default()
    };
    Conversation {
        id: "talk".into(),
        context: ContextMode::History,
        system: None,
        user_context: None,
        turns: texts.iter().map(turn).collect(),
        marker: None,
    }
}

/// Conversations as they are given; with a mark, each tells in its id which session asked for it.
#[derive(Debug)]
pub(crate) struct Given {
    pub conversations: Vec<Conversation>,
    pub marked: bool,
}

impl Workload for Given {
    fn len(&self) -> usize {
        self.conversations.len()
    }

    fn conversation(&self, index: usize, visit: Visit) -> Result<Conversation, DataError> {
        let out_of_range = || DataError::OutOfRange { index, len: self.conversations.len() };
        let mut conversation = self.conversations.get(index).ok_or_else(out_of_range)?.clone();
        if self.marked {
            let phase = if visit.warmup { "w" } else { "p" };
            conversation.id = format!("{}-{phase}{}", conversation.id, visit.session);
        }
        Ok(conversation)
    }

    fn turn_count(&self, index: usize) -> usize {
        self.conversations[index].turns.len()
    }

    fn is_marked(&self) -> bool {
        self.marked
    }

    fn describe(&self) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::Synthetic,
            entries: self.len(),
            turns: self.conversations.iter().map(|c| c.turns.len() as u64).sum(),
            most_turns: self.conversations.iter().map(|c| c.turns.len()).max().unwrap_or(0),
            waits: self.conversations.iter().any(|c| c.turns.iter().any(|turn| turn.delay_ns.is_some())),
            notes: Vec::new(),
            rows: None,
        }
    }
}

/// A conversation ready for the wire.
pub(crate) fn prepared(conversation: Conversation) -> Arc<Prepared> {
    let workload = Given { conversations: vec![conversation], marked: false };
    Composer::new(composer_setup(Arc::new(workload))).prepared(0, Visit::default()).expect("it encodes")
}

/// A conversation ready for the wire of an API.
pub(crate) fn prepared_for(endpoint: &Endpoint, conversation: Conversation) -> Arc<Prepared> {
    let workload = Given { conversations: vec![conversation], marked: false };
    let setup = ComposerSetup { endpoint: Arc::new(endpoint.clone()), ..composer_setup(Arc::new(workload)) };
    Composer::new(setup).prepared(0, Visit::default()).expect("it encodes")
}

/// A tokenizer whose tokens are words.
#[derive(Debug)]
pub(crate) struct Toy {
    template: Option<ChatTemplate>,
    /// Texts counted so far.
    pub counted: AtomicU64,
}

impl Toy {
    /// With a chat template.
    pub(crate) fn new(template: Option<&str>) -> Self {
        let parse = |source| ChatTemplate::parse(source, &SpecialTokens::default()).expect("a good template");
        Self { template: template.map(parse), counted: AtomicU64::new(0) }
    }
}

impl Tokenizer for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        self.counted.fetch_add(1, Ordering::Relaxed);
        ids.extend(text.split_whitespace().map(|word| word.len() as u32));
    }

    fn decode(&self, ids: &[u32]) -> String {
        ids.iter().map(|n| "x".repeat(*n as usize)).collect::<Vec<_>>().join(" ")
    }

    fn vocab_size(&self) -> usize {
        100
    }

    fn token_ids(&self) -> Vec<u32> {
        (0..100).collect()
    }

    fn is_special(&self, _id: u32) -> bool {
        false
    }

    fn is_control(&self, _id: u32) -> bool {
        false
    }

    fn prompt_specials(&self) -> usize {
        1
    }

    fn chat_template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    fn bos_token(&self) -> Option<&str> {
        None
    }

    fn eos_token(&self) -> Option<&str> {
        None
    }

    fn token_id(&self, _token: &str) -> Option<u32> {
        None
    }
}
