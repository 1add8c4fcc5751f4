//! What cases work on: a plan, prompts, an answer as a server streams it, what is known of a request.

use std::path::PathBuf;
use std::sync::Arc;

use aiperf_core::exchange::{Exchange, ReadMark, Stamps};
use aiperf_core::outcome::{Disposition, Outcome};
use aiperf_core::plan::{
    ArtifactsPlan, DatasetPlan, EndpointKind, EndpointPlan, ExportLevel, LengthPlan, LogLevel,
    ModelSelection, OnTurnError, Plan, RuntimePlan, Sampling, SyntheticPlan, TokenizerPlan, Ui,
    VerifyLengths,
};
use aiperf_core::time::ClockAnchor;
use aiperf_core::url::BaseUrl;
use aiperf_core::usage::Usage;
use aiperf_data::{OpenContext, Visit, Workload};
use aiperf_metrics::{Capabilities, ChunkFact, Facts, WireFacts};
use aiperf_net::{Answer, Endpoint};
use aiperf_tokens::{TemplateClock, Tokenizer};
use serde_json::{Value, json};

/// Chunks of the streamed answer.
pub(crate) const CHUNKS: usize = 128;
/// Arrival of the first chunk behind the start, and of each further one behind the one before.
const FIRST_NS: u64 = 25_123_456;
const GAP_NS: u64 = 8_654_321;
const START_NS: u64 = 1_000_000_000;

pub(crate) const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_796_007_600_000_000_000 };

pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    streaming: true,
    produces_tokens: true,
    tokenizes_input: true,
    reasoning: true,
    compares_usage: true,
};

/// What all cases share.
#[derive(Clone)]
pub(crate) struct Material {
    pub tokenizer: Arc<dyn Tokenizer>,
}

impl Material {
    /// With the tokenizer of that name.
    pub(crate) fn new(tokenizer: &str) -> Result<Self, String> {
        let plan = TokenizerPlan { name: tokenizer.to_owned() };
        aiperf_tokens::open(&plan).map(|tokenizer| Self { tokenizer }).map_err(|e| e.to_string())
    }

    /// Prompts of `isl` tokens from the sonnet corpus.
    pub(crate) fn workload(&self, isl: u64) -> Arc<dyn Workload> {
        aiperf_data::open(
            &plan(isl),
            Some(self.tokenizer.clone()),
            OpenContext { run_id: "bench", now: TemplateClock::from_wall_ns(0), parts: None },
        )
        .expect("the corpus is built in")
    }

    /// The text of the first prompt of `isl` tokens.
    pub(crate) fn prompt(&self, isl: u64) -> String {
        let mut conversation =
            self.workload(isl).conversation(0, Visit::default()).expect("prompts of this length exist");
        conversation.turns.remove(0).texts.remove(0)
    }

    /// [`CHUNKS`] chunks of one token each, as vLLM streams them. A read brings `per_read` bytes, or one event where that is
    /// `None`.
    pub(crate) fn stream(&self, per_read: Option<usize>) -> Exchange {
        let mut ids = Vec::new();
        self.tokenizer.encode(&self.prompt(CHUNKS as u64), &mut ids);
        let event = |choices: &Value, usage: Option<&Value>| {
            let mut data = json!({
                "id": "chatcmpl-3f1c9d2ab7e64f0e8a51d0c2b9e7f634",
                "object": "chat.completion.chunk",
                "created": 1_796_007_600,
                "model": "demo",
                "choices": choices,
            });
            if let Some(usage) = usage {
                data["usage"] = usage.clone();
            }
            format!("data: {data}\n\n")
        };
        let choice = |delta: &Value, finish: Option<&str>| {
            event(&json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]), None)
        };
        let mut events = vec![choice(&json!({"role": "assistant", "content": ""}), None)];
        events.extend(
            ids.iter()
                .take(CHUNKS)
                .map(|id| choice(&json!({"content": self.tokenizer.decode(&[*id])}), None)),
        );
        events.push(choice(&json!({}), Some("length")));
        events.push(event(
            &json!([]),
            Some(&json!({"prompt_tokens": 137, "completion_tokens": CHUNKS, "total_tokens": 137 + CHUNKS})),
        ));
        events.push("data: [DONE]\n\n".to_owned());

        let body = events.concat().into_bytes();
        let mut ends: Vec<usize> = match per_read {
            Some(bytes) => (bytes..body.len()).step_by(bytes).collect(),
            None => events
                .iter()
                .scan(0, |end, event| {
                    *end += event.len();
                    Some(*end)
                })
                .collect(),
        };
        if ends.last() != Some(&body.len()) {
            ends.push(body.len());
        }
        let reads: Vec<ReadMark> = ends
            .iter()
            .enumerate()
            .map(|(at, end)| ReadMark::read(START_NS + FIRST_NS + at as u64 * GAP_NS, *end))
            .collect();
        let end_ns = reads.last().map_or(START_NS, |r| r.at_ns);
        Exchange {
            stamps: Stamps {
                start_ns: START_NS,
                send_start_ns: Some(START_NS + 10_000),
                send_end_ns: Some(START_NS + 20_000),
                headers_ns: Some(START_NS + FIRST_NS),
                first_byte_ns: Some(START_NS + FIRST_NS),
                last_byte_ns: Some(end_ns),
                end_ns,
                ..Stamps::default()
            },
            reused: true,
            resent: false,
            status: Some(200),
            reason: "OK".into(),
            content_type: Some("text/event-stream; charset=utf-8".into()),
            headers: Vec::new(),
            bytes_sent: 900,
            bytes_received: body.len() as u64 + 200,
            traffic: aiperf_core::exchange::Traffic::default(),
            body,
            reads,
            disposition: Disposition::Finished,
        }
    }

    /// What the reader makes of an answer.
    pub(crate) fn facts(&self, exchange: &Exchange, answer: &Answer) -> Facts {
        let mut before = 0;
        let chunk = |chunk: &aiperf_net::AnswerChunk| {
            let answer = chunk.text_end > before;
            before = chunk.text_end;
            ChunkFact { at_ns: chunk.at_ns, answer }
        };
        Facts {
            outcome: Outcome::Completed,
            start_ns: exchange.stamps.start_ns,
            end_ns: exchange.stamps.end_ns,
            scheduled_ns: Some(exchange.stamps.start_ns - 50_000),
            chunks: answer.chunks.iter().map(chunk).collect(),
            isl: Some(128),
            asked_isl: Some(128),
            output_tokens: Some(self.tokenizer.count(&answer.text) as u64),
            reasoning_tokens: None,
            requested_osl: Some(CHUNKS as u64),
            usage: answer.usage,
            wire: WireFacts {
                dispatched_ns: Some(exchange.stamps.start_ns - 10_000),
                send_start_ns: exchange.stamps.send_start_ns,
                headers_ns: exchange.stamps.headers_ns,
                read_lag_ns: Some(20_000),
                ..WireFacts::default()
            },
            ..Facts::default()
        }
    }
}

/// What is known of a streamed request that was number `k`, without any wire behind it: `chunks` chunks whose gaps differ.
pub(crate) fn plain_facts(k: u64, chunks: u64) -> Facts {
    let start_ns = START_NS + k * 1_000_003;
    let at = |i: u64| start_ns + FIRST_NS + (k % 977) * 10_007 + i * GAP_NS + (i * k) % 65_521;
    let chunks: Vec<ChunkFact> = (0..chunks).map(|i| ChunkFact { at_ns: at(i), answer: true }).collect();
    let tokens = chunks.len() as u64;
    Facts {
        outcome: Outcome::Completed,
        start_ns,
        end_ns: at(tokens),
        scheduled_ns: Some(start_ns - 50_000),
        chunks,
        isl: Some(100 + k % 57),
        asked_isl: Some(100 + k % 57),
        output_tokens: Some(tokens),
        reasoning_tokens: None,
        requested_osl: Some(tokens),
        usage: Some(Usage {
            prompt_tokens: Some(109 + k % 57),
            completion_tokens: Some(tokens),
            total_tokens: Some(109 + k % 57 + tokens),
            reasoning_tokens: None,
            ..Usage::default()
        }),
        wire: WireFacts::default(),
        ..Facts::default()
    }
}

/// A chat endpoint that streams.
pub(crate) fn endpoint() -> Endpoint {
    Endpoint::new(&plan(128).endpoint)
}

/// A chat run with prompts of `isl` tokens.
pub(crate) fn plan(isl: u64) -> Plan {
    let length = |mean: u64| LengthPlan::normal(mean as f64, 0.0);
    Plan {
        models: vec!["demo".into()],
        model_selection: ModelSelection::RoundRobin,
        endpoint: EndpointPlan {
            streaming: true,
            timeout_ns: 10_000_000_000,
            max_response_bytes: 1 << 24,
            ..EndpointPlan::new(EndpointKind::Chat, BaseUrl::parse("http://127.0.0.1:8000").expect("a URL"))
        },
        dataset: DatasetPlan::Synthetic(SyntheticPlan::sonnet(
            100_000,
            length(isl),
            Some(length(CHUNKS as u64)),
        )),
        sampling: Sampling::Sequential,
        on_turn_error: OnTurnError::Continue,
        tokenizer: None,
        chat_template: false,
        system_prompt: None,
        cache_bust: None,
        verify_lengths: VerifyLengths::Off,
        slos: Vec::new(),
        phases: Vec::new(),
        network: None,
        artifacts: ArtifactsPlan::new(PathBuf::new(), ExportLevel::Records),
        runtime: RuntimePlan {
            max_shards: None,
            ui: Ui::None,
            stats_interval_s: 0.0,
            log_level: LogLevel::Error,
        },
        seed: 1,
        seed_given: true,
        cli_command: "aiperf profile --model 'demo'".into(),
        input_config: json!({}),
    }
}
