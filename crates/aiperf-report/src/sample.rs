//! A small run for the tests: three answers, a failure, a cancellation, a lost and an unsent request.

use aiperf_core::outcome::{Failure, FailureKind, Finish, Outcome, Stage};
use aiperf_core::plan::{PhaseKind, SloPlan};
use aiperf_core::spec_decode::SpecDecode;
use aiperf_core::ticket::{SessionId, Uuid};
use aiperf_core::time::ClockAnchor;
use aiperf_core::usage::Usage;
use aiperf_metrics::{
    Analysis, Arrivals, Asked, Capabilities, ChunkFact, ClockHealth, Connections, CpuShare, Distribution,
    ErrorGroup, ErrorSummary, Facts, HandOver, Health, InFlight, IntColumn, LagHistogram, LengthFacts,
    LengthLedger, LengthSummary, Names, PhaseHealth, RecordValues, Recorder, ShardHealth, Span, Spread,
    Summary, TargetRecorder, TrafficFacts, Window, WireFacts,
};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::jsonl::{Meta, PhaseMeta};
use crate::lengths::{Counting, InputLengths, ServerCount, Verified, WrongLength};
use crate::load::TargetResult;
use crate::network::{NetworkLatency, TargetRtt};
use crate::report::{FileLine, Report};

/// 2026-11-30 03:00:00 UTC at monotonic 0.
pub(crate) const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_796_007_600_000_000_000 };

const CAPABILITIES: Capabilities = Capabilities {
    streaming: true,
    produces_tokens: true,
    tokenizes_input: true,
    reasoning: true,
    compares_usage: true,
};

pub(crate) fn failure(code: i64, message: &str) -> Failure {
    Failure {
        kind: FailureKind::HttpStatus,
        stage: Stage::Answer,
        code: Some(code),
        type_name: "Service Unavailable".to_owned(),
        message: message.to_owned(),
        retryable: true,
        server_code: Some("overloaded".to_owned()),
    }
}

/// What a server tells of 10 steps with three draft tokens each.
pub(crate) fn spec_decode() -> SpecDecode {
    SpecDecode {
        mean_acceptance_length: 2.5,
        draft_acceptance_rate: 0.5,
        histogram: vec![2, 3, 0, 5],
        accepted: 18,
        drafted: 30,
        steps: 10,
        width: Some(3),
        per_step_accepted: None,
        per_step_drafted: None,
    }
}

pub(crate) fn cancelled() -> Failure {
    Failure {
        kind: FailureKind::Cancelled,
        stage: Stage::InStream,
        code: Some(499),
        type_name: "RequestCancellationError".to_owned(),
        message: "the phase was over".to_owned(),
        retryable: false,
        server_code: None,
    }
}

fn request(outcome: Outcome, start_ms: u64, tokens: u64) -> Facts {
    let start_ns = start_ms * 1_000_000;
    let at = |i: u64| ChunkFact { at_ns: start_ns + 25_123_456 + i * 8_654_321, answer: i > 0 };
    let usage = Usage {
        prompt_tokens: Some(54),
        completion_tokens: Some(tokens),
        total_tokens: Some(54 + tokens),
        reasoning_tokens: None,
        ..Usage::default()
    };
    Facts {
        outcome,
        start_ns,
        end_ns: start_ns + 200_000_000,
        scheduled_ns: Some(start_ns - 900_000),
        chunks: (0..tokens).map(at).collect(),
        isl: Some(50),
        asked_isl: Some(50),
        output_tokens: Some(tokens),
        reasoning_tokens: None,
        requested_osl: Some(20),
        usage: Some(usage),
        first_event_ns: Some(start_ns + 22_000_000),
        token_gaps: vec![8_654_321; tokens.saturating_sub(1) as usize],
        finish: if tokens < 20 { Finish::Stop } else { Finish::Length },
        spec_decode: (tokens == 20).then(spec_decode),
        wire: WireFacts {
            dispatched_ns: Some(start_ns - 200_000),
            send_start_ns: Some(start_ns + 300_000),
            headers_ns: Some(start_ns + 20_000_000),
            read_lag_ns: Some(40_000),
            send_end_ns: Some(start_ns + 350_000),
            first_byte_ns: Some(start_ns + 21_000_000),
            last_byte_ns: Some(start_ns + 199_000_000),
            blocked_ns: Some(0),
            dns_ns: Some(50_000),
            tcp_ns: Some(80_000),
            tls_ns: Some(120_000),
            reused: Some(false),
            traffic: Some(TrafficFacts {
                body_sent: 512,
                body_received: 1536 + tokens * 100,
                wire_sent: 812,
                wire_received: 1836 + tokens * 110,
                chunks_sent: 1,
                chunks_received: tokens + 2,
            }),
        },
        ..Facts::default()
    }
}

/// The recorder and the values of each request that ended: three completed, one failed, one cancelled (from index 3 on).
pub(crate) fn recorder_and_values() -> (Recorder, Vec<RecordValues>) {
    let slos = [("request_latency", 100.0), ("output_token_throughput_per_user", 50.0)]
        .map(|(tag, threshold)| SloPlan { tag: tag.to_owned(), threshold });
    let mut recorder = Recorder::new(CAPABILITIES, ANCHOR).with_slos(&slos);
    let values = [
        request(Outcome::Completed, 10, 4),
        request(Outcome::Completed, 20, 20),
        request(Outcome::Completed, 30, 20),
        request(Outcome::Failed, 40, 0),
        request(Outcome::Cancelled, 50, 3),
    ];
    let values = values.iter().map(|facts| recorder.record(facts)).collect();
    recorder.set_scheduled(7);
    recorder.set_unsent(1);
    (recorder, values)
}

/// The same requests, ready to be cut into slices of time.
pub(crate) fn traced() -> Recorder {
    let mut recorder = Recorder::new(CAPABILITIES, ANCHOR).traced();
    for (outcome, start_ms, tokens) in [
        (Outcome::Completed, 10, 4),
        (Outcome::Completed, 20, 20),
        (Outcome::Completed, 30, 20),
        (Outcome::Failed, 40, 0),
        (Outcome::Cancelled, 50, 3),
    ] {
        recorder.record(&request(outcome, start_ms, tokens));
    }
    recorder
}

/// Of forty requests in two turns, each a little slower than the one before.
fn analysis() -> Analysis {
    let mut recorder = Recorder::new(CAPABILITIES, ANCHOR);
    for i in 0..40 {
        let mut facts = request(Outcome::Completed, 10 + 5 * i, 20);
        facts.place.turn = (i % 2) as u16;
        facts.chunks.iter_mut().for_each(|chunk| chunk.at_ns += i * 100_000);
        recorder.record(&facts);
    }
    recorder
        .analyse(Window::new(5_000_000, 405_000_000), Names::default(), 42)
        .unwrap_or_else(|| panic!("rows"))
}

/// The lengths of the same requests: the third prompt came out one short, and the server's template takes four.
fn lengths() -> LengthSummary {
    let mut ledger = LengthLedger::default();
    for (prompt, sent, counted) in
        [(0, 50, Some(54)), (1, 50, Some(54)), (2, 24, Some(28)), (3, 50, None), (4, 50, None)]
    {
        let asked = if prompt == 2 { 25 } else { sent };
        ledger.add(&LengthFacts {
            asked: Some(asked),
            made: Some(sent),
            sent: Some(sent),
            counted,
            later: false,
            prompt,
        });
    }
    ledger.summary()
}

fn verified() -> Verified {
    let example =
        WrongLength { conversation_id: "session_000002".to_owned(), turn_index: 0, said: 24, counted: 25 };
    Verified { all: false, requests: 4, wrong: 1, skipped: 1, examples: vec![example] }
}

/// An open loop of 100 requests a second over two shards, one of which had to wait for its core.
fn load() -> Health {
    const MS: u64 = 1_000_000;
    let shard = |shard: u16, cpu_ms: u64, waited_ms: u64| {
        let mut held = InFlight::start(0);
        held.add(10 * MS);
        held.add(20 * MS);
        held.remove(50 * MS);
        held.close(80 * MS);
        let mut loop_lag = LagHistogram::default();
        for ns in [40_000, 50_000, 2_000_000] {
            loop_lag.add(ns);
        }
        let mut unsent = Span::default();
        unsent.add(60 * MS);
        ShardHealth {
            shard,
            thread: CpuShare {
                wall_ns: 400 * MS,
                cpu_ns: Some(cpu_ms * MS),
                waited_ns: Some(waited_ms * MS),
            },
            loop_lag,
            in_flight: held,
            sessions: held,
            unsent,
            skipped: 1,
            connections: Connections { opened: 3, reused: 1, resent: 1, stale: 1, ..Connections::default() },
            ..ShardHealth::default()
        }
    };
    let span =
        |count, first_ms: u64, last_ms: u64| Span { count, first_ns: first_ms * MS, last_ns: last_ms * MS };
    let profiling = PhaseHealth {
        name: "profiling".to_owned(),
        is_warmup: false,
        asked: Asked { rate: Some(100.0), concurrency: Some(4), max_in_flight: Some(8), ..Asked::default() },
        arrivals: Arrivals { scheduled: 8, sent: 6, skipped: 2, cut: 0, late: 1 },
        scheduled: span(8, 10, 80),
        dispatched: span(6, 10, 80),
        send_lag: Some(Spread { p50_ns: 400_000, p99_ns: 1_200_000, max_ns: 1_250_000 }),
        queue_wait: Some(Spread { p50_ns: 100_000, p99_ns: 700_000, max_ns: 800_000 }),
        read_lag: Some(Spread { p50_ns: 40_000, p99_ns: 90_000, max_ns: 95_000 }),
        process: CpuShare { wall_ns: 400 * MS, cpu_ns: Some(100 * MS), waited_ns: None },
        shards: vec![shard(0, 40, 1), shard(1, 20, 60)],
    };
    let warmup = PhaseHealth {
        name: "warmup".to_owned(),
        is_warmup: true,
        asked: Asked { is_closed_loop: true, concurrency: Some(4), ..Asked::default() },
        arrivals: Arrivals { scheduled: 1, sent: 1, ..Arrivals::default() },
        ..PhaseHealth::default()
    };
    Health {
        clock: ClockHealth {
            source: Some("tsc".to_owned()),
            resolution_ns: Some(20),
            wall_step_ns: Some(-12_000_000),
        },
        phases: vec![warmup, profiling],
        handover: HandOver { most_requests: 5, most_bytes: 2_400_000, ..HandOver::default() },
    }
}

fn targets() -> Vec<TargetResult> {
    let mut recorder = TargetRecorder::new(2);
    for (target, outcome) in [(0, Outcome::Completed), (0, Outcome::Completed), (1, Outcome::Failed)] {
        recorder.record(target, &request(outcome, 10, 4), true);
    }
    let urls = ["http://one.example:8000/v1", "http://two.example:8000/v1"];
    let all = recorder.summarise(Window::new(5_000_000, 405_000_000));
    urls.iter().zip(all).map(|(url, summary)| TargetResult { url: (*url).to_owned(), summary }).collect()
}

/// Three probes of one server; the other one does not answer.
fn network() -> NetworkLatency {
    let mut rtt = IntColumn::default();
    for ns in [300_000, 400_000, 500_000] {
        rtt.push(ns);
    }
    let target = |url: &str, failed, rtt: Option<Distribution>| TargetRtt {
        url: url.to_owned(),
        probes: 3,
        failed,
        rtt_ns: rtt,
    };
    NetworkLatency {
        mean_ns: Some(400_000.0),
        targets: vec![
            target("http://one.example:8000/v1", 0, rtt.distribution()),
            target("http://two.example:8000/v1", 3, None),
        ],
    }
}

/// What a [`Report`] borrows.
pub(crate) struct Sample {
    summary: Summary,
    warmup: Summary,
    errors: Vec<ErrorGroup>,
    config: Value,
    verified: Verified,
    load: Health,
    targets: Vec<TargetResult>,
    network: NetworkLatency,
    analysis: Analysis,
}

impl Sample {
    pub(crate) fn new() -> Self {
        let mut recorder = recorder_and_values().0;
        recorder.set_network_rtt(400_000.0);
        let summary = recorder.summarise(Window::new(5_000_000, 405_000_000));
        let mut warm = Recorder::new(CAPABILITIES, ANCHOR);
        warm.record(&request(Outcome::Completed, 1, 20));
        let mut errors = ErrorSummary::default();
        errors.add(&failure(
            503,
            "{\"error\":\"busy\"}\u{1b}[31m and a tail that is long enough to be broken on a narrow screen",
        ));
        errors.add(&cancelled());
        Self {
            summary,
            warmup: warm.summarise(Window::new(0, 300_000_000)),
            errors: errors.groups().to_vec(),
            config: json!({"endpoint": {"type": "chat", "streaming": true}, "otel": {}}),
            verified: verified(),
            load: load(),
            targets: targets(),
            network: network(),
            analysis: analysis(),
        }
    }

    pub(crate) fn report(&self) -> Report<'_> {
        Report {
            version: "0.1.0",
            benchmark_id: "0123456789ab",
            summary: &self.summary,
            is_warmup: false,
            warmup: Some(&self.warmup),
            errors: &self.errors,
            input_config: &self.config,
            source: None,
            seed: 42,
            cli_command: "aiperf profile --model 'm'",
            was_cancelled: false,
            incomplete_reason: None,
            anchor: ANCHOR,
            zone: TimeZone::fixed(jiff::tz::offset(2)),
            title: "LLM Metrics",
            show_trace_timing: true,
            length_forced: false,
            lengths: Some(InputLengths {
                summary: lengths(),
                tokenizer: Some("builtin"),
                counting: Counting::Messages { has_template: true, between: 0 },
                verified: Some(&self.verified),
                server_count: Some(ServerCount { asked: Some(50), sent: 50, counted: 54 }),
            }),
            load: Some(&self.load),
            targets: &self.targets,
            network: Some(&self.network),
            rows: None,
            analysis: Some(&self.analysis),
            notes: &[],
            files: &[
                FileLine { label: "CSV Export", path: "run/profile_export_aiperf.csv" },
                FileLine { label: "Log File", path: "run/logs/aiperf.log" },
            ],
        }
    }
}

/// Who sent it.
const SESSION: &SessionId = &SessionId::Random(Uuid::from_random(2));

/// Of a completed request that says no more than it must.
pub(crate) fn meta() -> Meta<'static> {
    Meta {
        session_num: 0,
        request_id: Uuid::from_random(1),
        correlation_id: SESSION,
        conversation_id: "session_000000",
        turn_index: 0,
        dispatched_ns: 1,
        start_ns: 2,
        ack_ns: Some(3),
        end_ns: 4,
        shard: 0,
        reader: 0,
        phase: PhaseMeta {
            kind: PhaseKind::Profiling,
            index: 0,
            profiling_index: Some(0),
            name: "profiling",
        },
        cancelled_ns: None,
        scheduled_ns: None,
        send_start_ns: None,
        send_end_ns: None,
        receive_start_ns: None,
        url: None,
        model: None,
        outcome: Outcome::Completed,
        finish: (Finish::Unsaid, None),
        first_chunk_tokens: None,
        abandoned_turns: 0,
        self_contained: false,
        expected_cache: None,
    }
}
