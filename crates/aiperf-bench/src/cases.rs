//! The cases. Each checks what it made, so that a case cannot become fast by doing nothing.

use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use aiperf_core::conversation::Conversation;
use aiperf_core::outcome::Outcome;
use aiperf_core::plan::{Arrival, PhaseKind, RatePlan};
use aiperf_core::ticket::{Ticket, Uuid};
use aiperf_data::{Visit, Workload};
use aiperf_load::Arrivals;
use aiperf_metrics::{ErrorSummary, Recorder, Window};
use aiperf_net::sse::SseScanner;
use aiperf_net::{Familiar, Request};
use aiperf_report::jsonl::{self, Meta, PhaseMeta};
use aiperf_report::{Report, csv, json};
use bytes::Bytes;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::case::{Case, Work};
use crate::material::{ANCHOR, CAPABILITIES, CHUNKS, Material, endpoint, plain_facts};
use crate::ring::{Ahead, Ring};

/// Records of the export case.
const EXPORTED: u64 = 100_000;
/// Chunks of each of them.
const EXPORTED_CHUNKS: u64 = 16;
/// Prompts of a short run.
const FIRST_PROMPTS: u64 = 100;
/// A recorder starts anew after so many records, as memory is not what is measured.
const RECORDED: u64 = 10_000;

/// All of them; the first one is the yardstick of the machine.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "yardstick",
        unit: "block",
        about: "hash 4 KiB byte by byte: what the others are set in relation to",
        units: 20_000,
        counted: 500,
        make: |_| yardstick(),
    },
    Case {
        name: "schedule-constant",
        unit: "arrival",
        about: "a million arrivals at a constant rate",
        units: 1_000_000,
        counted: 1_000_000,
        make: |_| schedule(Arrival::Constant),
    },
    Case {
        name: "schedule-poisson",
        unit: "arrival",
        about: "a million Poisson arrivals",
        units: 1_000_000,
        counted: 1_000_000,
        make: |_| schedule(Arrival::Poisson),
    },
    Case {
        name: "schedule-gamma",
        unit: "arrival",
        about: "a million gamma arrivals of smoothness 2.5",
        units: 1_000_000,
        counted: 1_000_000,
        make: |_| schedule(Arrival::Gamma { smoothness: 2.5 }),
    },
    Case {
        name: "prompt-128",
        unit: "prompt",
        about: "make the first hundred prompts of 128 tokens: each reads parts of the corpus for the first time",
        units: FIRST_PROMPTS,
        counted: FIRST_PROMPTS,
        make: |m| first_prompts(m, 128),
    },
    Case {
        name: "prompt-1024",
        unit: "prompt",
        about: "the same of 1024 tokens",
        units: FIRST_PROMPTS,
        counted: FIRST_PROMPTS,
        make: |m| first_prompts(m, 1024),
    },
    Case {
        name: "prompt-8192",
        unit: "prompt",
        about: "the same of 8192 tokens",
        units: FIRST_PROMPTS,
        counted: FIRST_PROMPTS,
        make: |m| first_prompts(m, 8192),
    },
    Case {
        name: "prompt-open-1024",
        unit: "prompt",
        about: "make a prompt of 1024 tokens where the corpus is open",
        units: 5000,
        counted: 500,
        make: |m| prompts(m, 1024),
    },
    Case {
        name: "count",
        unit: "token",
        about: "count the tokens of a prompt of 1024",
        units: 1024 * 1000,
        counted: 1024 * 50,
        make: count,
    },
    Case {
        name: "encode-128",
        unit: "request",
        about: "write the body of a chat request of 128 tokens",
        units: 50_000,
        counted: 2000,
        make: |m| encode(m, 128),
    },
    Case {
        name: "encode-8192",
        unit: "request",
        about: "the same of 8192 tokens",
        units: 2000,
        counted: 100,
        make: |m| encode(m, 8192),
    },
    Case {
        name: "texts-1024",
        unit: "request",
        about: "find the texts of a body of 1024 tokens, to count them",
        units: 5000,
        counted: 500,
        make: |m| texts(m, 1024),
    },
    Case {
        name: "ring",
        unit: "session",
        about: "hand a conversation over, one thread putting and taking",
        units: 1_000_000,
        counted: 100_000,
        make: |_| ring(),
    },
    Case {
        name: "ring-threads",
        unit: "session",
        about: "the same between two threads, the ring full as in a run",
        units: 200_000,
        counted: 0,
        make: |_| ring_between_threads(),
    },
    Case {
        name: "sse-scan",
        unit: "stream",
        about: "frame a stream of 128 chunks whole",
        units: 2000,
        counted: 100,
        make: |m| scan(m, false),
    },
    Case {
        name: "sse-scan-cut",
        unit: "stream",
        about: "the same, looking again at each read of 100 bytes",
        units: 2000,
        counted: 100,
        make: |m| scan(m, true),
    },
    Case {
        name: "sse-read",
        unit: "stream",
        about: "read the answer of a stream of 128 chunks, each in a read of its own",
        units: 2000,
        counted: 100,
        make: |m| read(m, None),
    },
    Case {
        name: "sse-read-cut",
        unit: "stream",
        about: "the same from reads of 100 bytes",
        units: 2000,
        counted: 100,
        make: |m| read(m, Some(100)),
    },
    Case {
        name: "record",
        unit: "record",
        about: "run the formulas over a record of 128 chunks and keep its values",
        units: RECORDED,
        counted: 1000,
        make: |_| record(),
    },
    Case {
        name: "jsonl",
        unit: "line",
        about: "write the line of such a record",
        units: 5000,
        counted: 500,
        make: line,
    },
    Case {
        name: "behind",
        unit: "request",
        about: "all the reader does for it: read, count, record, line",
        units: 2000,
        counted: 100,
        make: behind,
    },
    Case {
        name: "export-100k",
        unit: "export",
        about: "summarise 100,000 records of 16 chunks and write JSON and CSV",
        units: 2,
        counted: 1,
        make: |_| export(),
    },
];

fn yardstick() -> Work {
    let block: Vec<u8> = (0..4096u32).map(|i| i as u8).collect();
    // FNV-1a: every step needs the one before, so compilers and wide registers change little.
    let hash = |bytes: &[u8]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
    };
    let expected = hash(&block);
    Box::new(move |n| (0..n).for_each(|_| assert_eq!(hash(black_box(&block)), expected)))
}

fn schedule(arrival: Arrival) -> Work {
    Box::new(move |n| {
        let last = Arrivals::new(&RatePlan::steady(1000.0), arrival, 7, 0).take(n as usize).last();
        assert!(n < 2 || black_box(last) > Some(0));
    })
}

/// Prompts of a workload that was just opened, [`FIRST_PROMPTS`] at a time.
fn first_prompts(material: &Material, isl: u64) -> Work {
    let material = material.clone();
    Box::new(move |n| {
        let mut workload = material.workload(isl);
        for at in 0..n {
            if at % FIRST_PROMPTS == 0 {
                workload = material.workload(isl);
            }
            prompt(&*workload, at % FIRST_PROMPTS, isl);
        }
    })
}

/// The same prompts again and again.
fn prompts(material: &Material, isl: u64) -> Work {
    let workload = material.workload(isl);
    (0..FIRST_PROMPTS).for_each(|at| prompt(&*workload, at, isl));
    Box::new(move |n| (0..n).for_each(|at| prompt(&*workload, at % FIRST_PROMPTS, isl)))
}

fn prompt(workload: &dyn Workload, at: u64, isl: u64) {
    let made = workload.conversation(at as usize, Visit::default()).expect("a prompt");
    assert_eq!(black_box(&made).turns[0].length.map(|l| l.asked), Some(isl));
}

fn count(material: &Material) -> Work {
    let tokenizer = material.tokenizer.clone();
    let text = material.prompt(1024);
    Box::new(move |n| {
        for _ in 0..n.div_ceil(1024) {
            assert_eq!(tokenizer.count(black_box(&text)), 1024);
        }
    })
}

fn encode(material: &Material, isl: u64) -> Work {
    let endpoint = endpoint();
    let conversation = material.workload(isl).conversation(0, Visit::default()).expect("a prompt");
    Box::new(move |n| {
        for _ in 0..n {
            let mut body = Vec::with_capacity(256 + conversation.turns[0].texts[0].len());
            endpoint.encode(black_box(&opening(&conversation)), &mut body).expect("JSON");
            assert!(black_box(body).ends_with(b"}"));
        }
    })
}

/// The first request of a conversation.
fn opening(conversation: &Conversation) -> Request<'_> {
    Request {
        system: conversation.system.as_deref(),
        user_context: conversation.user_context.as_deref(),
        turn: &conversation.turns[0],
        opens: true,
        marker: conversation.marker.as_ref(),
    }
}

fn texts(material: &Material, isl: u64) -> Work {
    let endpoint = endpoint();
    let conversation = material.workload(isl).conversation(0, Visit::default()).expect("a prompt");
    let mut body = Vec::new();
    endpoint.encode(&opening(&conversation), &mut body).expect("JSON");
    Box::new(move |n| {
        for _ in 0..n {
            assert_eq!(black_box(endpoint.texts(black_box(&body))).len(), 1);
        }
    })
}

/// A ring that is full when its slots are.
const ANY_WEIGHT: Ahead = Ahead { items: u64::MAX, bytes: 0 };

/// What a taken session gives; a ring without its item means a broken case.
fn taken<T>(poll: Poll<Result<T, crate::ring::Closed>>) -> T {
    match poll {
        Poll::Ready(Ok(item)) => item,
        _ => unreachable!("the item was put in before it was taken"),
    }
}

fn ring() -> Work {
    let ring = Ring::new(4096, ANY_WEIGHT);
    let item = Arc::new(());
    let mut session = 0;
    Box::new(move |n| {
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..n {
            ring.put(item.clone(), 1).expect("open");
            taken(pin!(ring.take(session)).poll(&mut cx));
            session += 1;
        }
    })
}

fn ring_between_threads() -> Work {
    Box::new(|n| {
        let ring = Arc::new(Ring::new(4096, ANY_WEIGHT));
        let putter = {
            let ring = ring.clone();
            std::thread::spawn(move || (0..n).filter(|_| ring.put(Arc::new(()), 1).is_ok()).count() as u64)
        };
        // A run starts with a full ring, and its sends are slower than the composer.
        let mut cx = Context::from_waker(Waker::noop());
        while pin!(ring.wait_filled(n.min(4096))).poll(&mut cx).is_pending() {
            std::thread::yield_now();
        }
        for session in 0..n {
            let mut take = pin!(ring.take(session));
            // The work of a send, some microseconds, without a system call.
            black_box((0..2000u64).fold(session, |a, b| black_box(a ^ b)));
            while take.as_mut().poll(&mut cx).is_pending() {
                std::thread::yield_now();
            }
        }
        assert_eq!(putter.join().ok(), Some(n));
    })
}

fn scan(material: &Material, cut: bool) -> Work {
    let exchange = material.stream(Some(100));
    Box::new(move |n| {
        for _ in 0..n {
            let mut scanner = SseScanner::new();
            let mut events = 0;
            let whole = &exchange.reads[exchange.reads.len() - 1..];
            for mark in if cut { &exchange.reads[..] } else { whole } {
                while let Some(event) = scanner.next(&exchange.body[..mark.body_len as usize], false) {
                    events += usize::from(black_box(event.data()).is_some());
                }
            }
            assert_eq!(events, CHUNKS + 4);
        }
    })
}

fn read(material: &Material, per_read: Option<usize>) -> Work {
    let endpoint = endpoint();
    let exchange = material.stream(per_read);
    let mut familiar = Familiar::new();
    Box::new(move |n| {
        for _ in 0..n {
            let answer = endpoint.read_with(black_box(&exchange), &mut familiar);
            assert_eq!((answer.chunks.len(), &answer.failure), (CHUNKS, &None));
        }
    })
}

fn record() -> Work {
    let facts: Vec<_> = (0..64).map(|k| plain_facts(k, CHUNKS as u64)).collect();
    let mut recorder = Recorder::new(CAPABILITIES, ANCHOR);
    Box::new(move |n| {
        for k in 0..n {
            if recorder.tally().completed >= RECORDED {
                recorder = Recorder::new(CAPABILITIES, ANCHOR);
            }
            let values = recorder.record(black_box(&facts[(k % 64) as usize]));
            assert!(values.len() > 10);
        }
    })
}

fn ticket() -> Ticket {
    Ticket {
        phase: 0,
        session: 4711,
        entry: 4711,
        turn: 0,
        shard: 0,
        target: 0,
        request_id: Uuid::from_random(0x77 << 96),
        correlation_id: Uuid::from_random(0x78 << 96).into(),
        scheduled_ns: Some(1_000_000_000),
        dispatched_ns: 1_000_010_000,
        abandoned_turns: 0,
    }
}

const PHASE: PhaseMeta<'_> =
    PhaseMeta { kind: PhaseKind::Profiling, index: 0, profiling_index: Some(0), name: "profiling" };

fn line(material: &Material) -> Work {
    let exchange = material.stream(None);
    let facts = material.facts(&exchange, &endpoint().read(&exchange));
    let values = Recorder::new(CAPABILITIES, ANCHOR).record(&facts);
    let ticket = ticket();
    let mut out = Vec::new();
    Box::new(move |n| {
        for _ in 0..n {
            out.clear();
            let meta = Meta::of(&ticket, &exchange, &ANCHOR, "session_004711", PHASE, Outcome::Completed);
            jsonl::line(&mut out, black_box(&meta), black_box(&values), jsonl::Said::default());
            assert!(out.len() > 1000);
        }
    })
}

fn behind(material: &Material) -> Work {
    let material = material.clone();
    let exchange = material.stream(None);
    let endpoint = endpoint();
    let ticket = ticket();
    let mut familiar = Familiar::new();
    let mut recorder = Recorder::new(CAPABILITIES, ANCHOR);
    let mut out = Vec::new();
    Box::new(move |n| {
        for _ in 0..n {
            if recorder.tally().completed >= RECORDED {
                recorder = Recorder::new(CAPABILITIES, ANCHOR);
            }
            out.clear();
            let answer = endpoint.read_with(black_box(&exchange), &mut familiar);
            let values = recorder.record(&material.facts(&exchange, &answer));
            let meta = Meta::of(&ticket, &exchange, &ANCHOR, "session_004711", PHASE, Outcome::Completed);
            jsonl::line(&mut out, &meta, &values, jsonl::Said::default());
            assert!(black_box(&out).len() > 1000);
        }
    })
}

fn export() -> Work {
    let mut recorder = Recorder::new(CAPABILITIES, ANCHOR);
    let mut end_ns = 0;
    for k in 0..EXPORTED {
        let facts = plain_facts(k, EXPORTED_CHUNKS);
        end_ns = facts.end_ns;
        recorder.record(&facts);
    }
    let errors = ErrorSummary::default();
    let config = json!({});
    Box::new(move |n| {
        for _ in 0..n {
            let summary = recorder.summarise(Window::new(0, end_ns));
            let report = Report {
                version: env!("CARGO_PKG_VERSION"),
                benchmark_id: "0123456789ab",
                summary: &summary,
                is_warmup: false,
                warmup: None,
                errors: errors.groups(),
                input_config: &config,
                source: None,
                seed: 1,
                cli_command: "",
                was_cancelled: false,
                incomplete_reason: None,
                anchor: ANCHOR,
                zone: TimeZone::UTC,
                title: "LLM Metrics",
                length_forced: true,
                show_trace_timing: false,
                analysis: None,
                network: None,
                rows: None,
                lengths: None,
                load: None,
                targets: &[],
                notes: &[],
                files: &[],
            };
            let files = [json::summary(&report), csv::summary(&report)].map(Bytes::from);
            assert!(black_box(files).iter().all(|f| f.len() > 1000));
        }
    })
}
