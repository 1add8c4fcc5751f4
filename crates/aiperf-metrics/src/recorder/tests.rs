use super::*;
use crate::facts::{ChunkFact, TrafficFacts, WireFacts};
use aiperf_core::usage::Usage;
use proptest::prelude::*;

const ALL: Capabilities = Capabilities {
    streaming: true,
    produces_tokens: true,
    tokenizes_input: true,
    reasoning: true,
    compares_usage: true,
};
const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_700_000_000_000_000_000 };

/// Starts at `start_ms`, `tokens` chunks of one token 10 ms apart.
fn request(outcome: Outcome, start_ms: u64, tokens: u64) -> Facts {
    let start_ns = start_ms * 1_000_000;
    let chunks = (1..=tokens).map(|i| ChunkFact { at_ns: start_ns + i * 10_000_000, answer: true }).collect();
    let usage = Usage {
        prompt_tokens: Some(55),
        completion_tokens: Some(tokens),
        total_tokens: Some(55 + tokens),
        reasoning_tokens: None,
        ..Usage::default()
    };
    Facts {
        outcome,
        start_ns,
        end_ns: start_ns + tokens * 10_000_000,
        scheduled_ns: None,
        chunks,
        isl: Some(50),
        asked_isl: Some(50),
        output_tokens: Some(tokens),
        reasoning_tokens: None,
        requested_osl: Some(10),
        usage: Some(usage),
        wire: WireFacts { dispatched_ns: Some(start_ns), ..WireFacts::default() },
        ..Facts::default()
    }
}

fn scalar(summary: &Summary, tag: &str) -> Option<f64> {
    match summary.get(tag)? {
        Stats::Scalar { value, .. } => Some(*value),
        Stats::Distribution { .. } | Stats::Part { .. } => None,
    }
}

#[test]
fn a_worked_run() {
    let mut recorder = Recorder::new(ALL, ANCHOR);
    recorder.record(&request(Outcome::Completed, 100, 10));
    recorder.record(&request(Outcome::Completed, 150, 5));
    recorder.record(&request(Outcome::Failed, 160, 3));
    recorder.record(&request(Outcome::Cancelled, 170, 0));
    recorder.set_scheduled(6);
    recorder.set_unsent(1);
    let summary = recorder.summarise(Window::new(0, 500_000_000));

    assert!(summary.tally.adds_up());
    assert_eq!((summary.tally.sent, summary.tally.lost), (5, 1));
    for (tag, expected) in [
        ("request_count", 2.0),
        ("error_request_count", 2.0),
        ("completed_request_count", 4.0),
        ("request_error_rate", 50.0),
        ("scheduled_request_count", 6.0),
        ("sent_request_count", 5.0),
        ("unsent_request_count", 1.0),
        ("cancelled_request_count", 1.0),
        ("lost_request_count", 1.0),
        ("total_isl", 100.0),
        ("total_osl", 15.0),
        ("total_output_tokens", 15.0),
        ("total_error_isl", 100.0),
        ("osl_mismatch_count", 1.0),
        ("usage_discrepancy_count", 0.0),
        ("total_usage_prompt_tokens", 110.0),
        ("total_usage_completion_tokens", 15.0),
        ("total_usage_total_tokens", 125.0),
        ("request_throughput", 4.0),
        ("output_token_throughput", 30.0),
        ("input_token_throughput", 200.0),
        ("total_token_throughput", 230.0),
        ("benchmark_duration", 0.1),
        ("min_request_timestamp", 1_700_000_000_100_000_000.0),
        ("max_response_timestamp", 1_700_000_000_200_000_000.0),
    ] {
        let value = scalar(&summary, tag).expect(tag);
        assert!((value - expected).abs() <= 1e-9 * expected, "{tag}: {value} is not {expected}");
    }
    for tag in [
        "total_reasoning_tokens",
        "total_usage_prompt_cache_read_tokens",
        "overall_usage_prompt_cache_read_pct",
    ] {
        assert!(summary.get(tag).is_none(), "{tag} was not measured");
    }
    let Some(Stats::Distribution { unit, values }) = summary.get("request_latency") else {
        panic!("request_latency is a distribution")
    };
    assert_eq!((unit.name(), values.count, values.max, values.min), ("ms", 2, 100.0, 50.0));
    assert_eq!(summary.get("inter_chunk_latency").and_then(|s| s.get("count")), Some(13.0));
    assert_eq!(summary.get("error_isl").and_then(|s| s.get("sum")), Some(100.0));
    assert_eq!(summary.early, EarlyEnds { compared: 2, early: 1, stopped: 0, beyond: 0 });
}

#[test]
fn failed_requests_run_error_metrics_and_those_of_every_outcome() {
    let mut recorder = Recorder::new(ALL, ANCHOR);
    for outcome in [Outcome::Failed, Outcome::Cancelled] {
        let values = recorder.record(&request(outcome, 0, 5));
        assert_eq!(
            values.iter().map(|(spec, _)| spec.tag).collect::<Vec<_>>(),
            ["credit_to_start_latency", "effective_latency", "error_isl"]
        );
    }
    for outcome in [Outcome::Lost, Outcome::Unsent] {
        assert!(recorder.record(&request(outcome, 0, 5)).is_empty());
    }
    let completed = recorder.record(&request(Outcome::Completed, 0, 5));
    assert_eq!(completed.get("error_isl"), None);
    assert_eq!(completed.get("output_sequence_length"), Some(&Value::Int(5)));
    assert_eq!(completed.get("inter_chunk_latency"), Some(&Value::List(vec![10_000_000; 4])));
}

#[test]
fn a_run_that_failed_whole_still_counts() {
    let mut recorder = Recorder::new(ALL, ANCHOR);
    recorder.record(&request(Outcome::Failed, 0, 0));
    let summary = recorder.summarise(Window::new(0, 1_000_000_000));
    assert_eq!(scalar(&summary, "request_count"), Some(0.0));
    assert_eq!(scalar(&summary, "request_throughput"), Some(0.0));
    assert_eq!(scalar(&summary, "request_error_rate"), Some(100.0));
    assert!(summary.get("benchmark_duration").is_none());
    assert!(summary.get("output_token_throughput").is_none());
}

#[test]
fn good_requests_are_counted_and_failed_ones_are_none() {
    let slo = |tag: &str, threshold| SloPlan { tag: tag.into(), threshold };
    // Answers of 10, 5 and 20 tokens end after 100, 50 and 200 ms.
    let slos = [slo("request_latency", 150.0), slo("output_sequence_length", 8.0)];
    let mut recorder = Recorder::new(ALL, ANCHOR).with_slos(&slos);
    let good: Vec<Option<Value>> = [10, 5, 20]
        .map(|tokens| recorder.record(&request(Outcome::Completed, 0, tokens)))
        .iter()
        .map(|values| values.get("good_request_count").cloned())
        .collect();
    assert_eq!(good, [Some(Value::Int(1)), Some(Value::Int(0)), Some(Value::Int(0))]);
    let mut second = Recorder::new(ALL, ANCHOR).with_slos(&slos);
    assert!(second.record(&request(Outcome::Failed, 0, 10)).get("good_request_count").is_none());
    recorder.merge(second);
    let summary = recorder.summarise(Window::new(0, 500_000_000));
    for (tag, expected) in [("good_request_count", 1.0), ("goodput", 2.0), ("good_request_fraction", 0.25)] {
        assert_eq!(scalar(&summary, tag), Some(expected), "{tag}");
    }
    let met: Vec<(u64, u64)> = summary.slos.iter().map(|slo| (slo.met, slo.requests)).collect();
    assert_eq!(met, [(2, 4), (2, 4)]);
}

#[test]
fn of_failed_requests_alone_none_is_good() {
    let slos = [SloPlan { tag: "request_latency".into(), threshold: 150.0 }];
    let mut recorder = Recorder::new(ALL, ANCHOR).with_slos(&slos);
    recorder.record(&request(Outcome::Failed, 0, 0));
    let summary = recorder.summarise(Window::new(0, 500_000_000));
    assert_eq!(scalar(&summary, "good_request_count"), Some(0.0));
    assert_eq!(scalar(&summary, "goodput"), Some(0.0));
    let none = Recorder::new(ALL, ANCHOR).summarise(Window::default());
    assert!(none.get("good_request_count").is_none(), "without objectives there is none");
}

#[test]
fn the_lag_of_a_replay_is_behind_its_least_late_request() {
    let of = |is_replay, late_ms: &[u64]| {
        let mut recorder = Recorder::new(ALL, ANCHOR).of_replay(is_replay);
        for late in late_ms {
            let facts = request(Outcome::Completed, 1000 + late, 3);
            recorder.record(&Facts { scheduled_ns: Some(1_000_000_000), ..facts });
        }
        // Of one that failed nothing is told, as in AIPerf.
        recorder.record(&Facts { scheduled_ns: Some(0), ..request(Outcome::Failed, 3000, 3) });
        recorder.summarise(Window::new(0, 3_000_000_000))
    };
    let late = [40, 10, 30, 20, 1010];
    let summary = of(true, &late);
    // 0, 10, 20, 30 and 1000 ms behind: ranks 2, 3.6 and 3.96.
    for (tag, expected) in [
        ("replay_sched_lag_p50", 20.0),
        ("replay_sched_lag_p90", 30.0 + 0.6 * 970.0),
        ("replay_sched_lag_p99", 30.0 + 0.96 * 970.0),
        ("replay_sched_degraded", 1.0),
    ] {
        let found = scalar(&summary, tag).expect(tag);
        assert!((found - expected).abs() < 1e-9, "{tag}: {found}");
    }
    assert_eq!(scalar(&of(true, &late[..4]), "replay_sched_degraded"), Some(0.0));
    assert_eq!(scalar(&of(false, &late), "replay_sched_lag_p50"), None);
    assert_eq!(scalar(&of(true, &[]), "replay_sched_degraded"), None);
}

#[test]
fn failures_are_at_the_far_end_of_adjusted_statistics() {
    let mut recorder = Recorder::new(ALL, ANCHOR);
    for tokens in 1..=10 {
        recorder.record(&request(Outcome::Completed, 0, tokens));
    }
    assert!(recorder.summarise(Window::default()).get("adj_request_latency").is_none());
    recorder.record(&request(Outcome::Failed, 0, 7));
    let summary = recorder.summarise(Window::new(0, 1_000_000_000));
    let adjusted = summary.get("adj_request_latency").expect("a failure");
    // numpy.percentile([10, 20 … 100, inf], q, method="nearest"): ranks 0.1, 0.5, 1, 2.5, 5, 7.5, 9, 9.5, 9.9.
    for (name, expected) in [
        ("p1", Some(10.0)),
        ("p5", Some(10.0)),
        ("p10", Some(20.0)),
        ("p25", Some(30.0)),
        ("p50", Some(60.0)),
        ("p75", Some(90.0)),
        ("p90", Some(100.0)),
        ("p95", None),
        ("p99", None),
        ("min", Some(10.0)),
        ("count", Some(11.0)),
        ("avg", None),
        ("max", None),
        ("std", None),
        ("sum", None),
    ] {
        assert_eq!(adjusted.get(name).map(f64::round), expected, "{name}");
    }
    // A failure after 70 ms: the answer would have taken that at least.
    let least = summary.get("request_latency_at_least").expect("a failure");
    assert_eq!((least.get("count"), least.get("max")), (Some(11.0), Some(100.0)));
    assert!((least.avg().expect("a mean") - 620.0 / 11.0).abs() < 1e-9);
    let first = summary.get("time_to_first_token_at_least").expect("a failure");
    assert_eq!((first.get("count"), first.get("max")), (Some(11.0), Some(70.0)));
}

#[test]
fn nothing_at_all_is_no_rate_and_no_share() {
    let summary = Recorder::new(ALL, ANCHOR).summarise(Window::default());
    let tags: Vec<&str> = summary.rows.iter().map(|row| row.spec.tag).collect();
    assert_eq!(
        tags,
        [
            "scheduled_request_count",
            "sent_request_count",
            "unsent_request_count",
            "failed_request_count",
            "cancelled_request_count",
            "lost_request_count"
        ]
    );
}

#[test]
fn without_a_window_rates_divide_by_the_duration() {
    let mut recorder = Recorder::new(ALL, ANCHOR);
    recorder.record(&request(Outcome::Completed, 0, 10));
    let summary = recorder.summarise(Window::default());
    assert!((scalar(&summary, "request_throughput").expect("a rate") - 10.0).abs() < 1e-9);
}

#[test]
fn several_phases_are_one_with_the_time_of_all() {
    let mut first = Recorder::new(ALL, ANCHOR);
    first.record(&request(Outcome::Completed, 100, 10));
    let mut second = Recorder::new(ALL, ANCHOR);
    second.record(&request(Outcome::Completed, 5_000, 10));
    second.record(&request(Outcome::Failed, 5_100, 0));
    let phases = [Window::new(0, 500_000_000), Window::new(5_000_000_000, 6_500_000_000)];
    assert_eq!(second.distribution("request_latency").map(|d| (d.count, d.max)), Some((1, 1e8)));
    assert_eq!(second.distribution("request_count"), None, "no column");
    first.merge(second);
    let summary = first.summarise(Window::pooled(&phases));
    // Two answers, a failure, 20 tokens; 0.5 s + 1.5 s.
    for (tag, expected) in [
        ("request_count", 2.0),
        ("error_request_count", 1.0),
        ("request_throughput", 1.0),
        ("output_token_throughput", 10.0),
        ("benchmark_duration", 2.0),
    ] {
        let value = scalar(&summary, tag).expect(tag);
        assert!((value - expected).abs() <= 1e-9 * expected, "{tag}: {value} is not {expected}");
    }
}

#[test]
fn capabilities_decide_what_exists() {
    let tags = |cap: Capabilities| -> Vec<&'static str> {
        let mut facts = request(Outcome::Completed, 0, 5);
        facts.scheduled_ns = Some(0);
        facts.reasoning_tokens = Some(1);
        Recorder::new(cap, ANCHOR).record(&facts).iter().map(|(spec, _)| spec.tag).collect()
    };
    assert!(tags(ALL).contains(&"time_to_first_output_token"));
    let plain = tags(Capabilities { streaming: false, reasoning: false, ..ALL });
    assert!(plain.contains(&"request_latency") && plain.contains(&"e2e_output_token_throughput"));
    assert!(plain.contains(&"scheduled_latency"));
    for tag in ["time_to_first_token", "inter_chunk_latency", "reasoning_token_count", "inter_token_latency"]
    {
        assert!(!plain.contains(&tag), "{tag}");
    }
    let server = tags(Capabilities { compares_usage: false, ..ALL });
    assert!(!server.iter().any(|tag| tag.starts_with("usage_") && tag.ends_with("_diff_pct")));
    let blind = tags(Capabilities { tokenizes_input: false, produces_tokens: false, ..ALL });
    assert!(!blind.iter().any(|tag| tag.contains("token") && !tag.contains("cache")), "{blind:?}");
}

#[test]
fn latencies_are_told_without_a_round_trip_when_one_is_known() {
    let mut recorder = Recorder::new(ALL, ANCHOR);
    // Latencies of 100, 50 and 10 ms; first tokens at 10 ms.
    for tokens in [10, 5, 1] {
        recorder.record(&request(Outcome::Completed, 0, tokens));
    }
    assert!(recorder.summarise(Window::default()).get("network_adjusted_request_latency").is_none());
    recorder.set_network_rtt(12_500_000.0);
    let summary = recorder.summarise(Window::default());
    let stat = |tag: &str, name: &str| summary.get(tag).and_then(|s| s.get(name)).expect(tag);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    near(stat("network_adjusted_request_latency", "max"), 87.5);
    near(stat("network_adjusted_request_latency", "p50"), 37.5);
    near(stat("network_adjusted_request_latency", "min"), 0.0);
    near(stat("network_adjusted_request_latency", "sum"), 125.0);
    near(stat("network_adjusted_time_to_first_token", "max"), 0.0);
    for name in ["avg", "min", "p1", "p99", "max", "sum"] {
        near(stat("network_rtt", name), 12.5);
    }
    near(stat("network_rtt", "std"), 0.0);
    near(stat("request_latency", "max"), 100.0);
}

#[test]
fn memory_per_request_is_what_the_crate_says() {
    let mut recorder = Recorder::new(ALL, ANCHOR);
    let mut facts = request(Outcome::Completed, 0, 1);
    facts.scheduled_ns = Some(0);
    facts.wire = WireFacts {
        dispatched_ns: Some(0),
        send_start_ns: Some(0),
        send_end_ns: Some(0),
        headers_ns: Some(0),
        first_byte_ns: Some(0),
        last_byte_ns: Some(0),
        blocked_ns: Some(0),
        dns_ns: Some(0),
        tcp_ns: Some(0),
        tls_ns: Some(0),
        reused: Some(false),
        traffic: Some(TrafficFacts::default()),
        read_lag_ns: Some(0),
    };
    facts.first_event_ns = Some(0);
    facts.usage = facts.usage.map(|u| Usage { reasoning_tokens: Some(1), cached_tokens: Some(1), ..u });
    recorder.record(&facts);
    let without_gaps = recorder.bytes();
    facts.chunks = (1..=101).map(|i| ChunkFact { at_ns: i * 10_000_000, answer: true }).collect();
    facts.output_tokens = Some(101);
    recorder.record(&facts);
    let with_gaps = recorder.bytes() - without_gaps;
    assert_eq!(with_gaps, 47 * 4 + 9 * 8 + 64 + 100 * 4);
}

fn stream() -> impl Strategy<Value = Vec<Facts>> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Completed),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::Cancelled),
        1 => Just(Outcome::Lost),
        1 => Just(Outcome::Unsent)
    ];
    proptest::collection::vec((outcome, 0u64..1000, 0u64..20).prop_map(|(o, s, n)| request(o, s, n)), 0..40)
}

proptest! {
    #[test]
    fn adjusted_percentiles_are_those_of_a_sort_with_infinities(
        tokens in proptest::collection::vec(1u64..30, 1..40),
        errors in 1usize..20,
    ) {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        for n in &tokens {
            recorder.record(&request(Outcome::Completed, 0, *n));
        }
        for _ in 0..errors {
            recorder.record(&request(Outcome::Cancelled, 0, 3));
        }
        let mut sorted: Vec<f64> = tokens.iter().map(|n| *n as f64 * 10.0).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.extend(std::iter::repeat_n(f64::INFINITY, errors));
        let summary = recorder.summarise(Window::default());
        let adjusted = summary.get("adj_request_latency").expect("errors");
        for q in PERCENTILES {
            let at = (sorted.len() - 1) as f64 * (q / 100.0);
            // The nearest; of two that are as near, the even one.
            let nearest = (0..sorted.len())
                .min_by(|a, b| {
                    let off = |i: &usize| (*i as f64 - at).abs();
                    off(a).total_cmp(&off(b)).then((a % 2).cmp(&(b % 2)))
                })
                .expect("values");
            let expected = Some(sorted[nearest]).filter(|v| v.is_finite());
            prop_assert_eq!(adjusted.get(&format!("p{q}")).map(f64::round), expected, "p{}", q);
        }
    }

    #[test]
    fn no_round_trip_makes_a_latency_negative(all in stream(), rtt_ms in 0_u64..300) {
        let disk = Disk::new(tempfile::tempfile).sized(2, 3);
        let mut recorder = Recorder::new(ALL, ANCHOR).on(&disk);
        for facts in &all {
            recorder.record(facts);
        }
        recorder.set_network_rtt((rtt_ms * 1_000_000) as f64);
        let mut slow: Vec<f64> = all
            .iter()
            .filter(|f| f.outcome == Outcome::Completed)
            .filter_map(formulas::request_latency)
            .map(|ns| (ns / 1_000_000).saturating_sub(rtt_ms) as f64)
            .collect();
        slow.sort_by(f64::total_cmp);
        let summary = recorder.summarise(Window::default());
        let found = summary.get("network_adjusted_request_latency");
        prop_assert_eq!(found.is_some(), !slow.is_empty());
        for (name, expected) in [("min", slow.first()), ("max", slow.last())] {
            let found = found.and_then(|s| s.get(name)).unwrap_or_default();
            prop_assert!((found - expected.copied().unwrap_or_default()).abs() < 1e-6);
        }
    }

    #[test]
    fn several_readers_are_as_good_as_one(a in stream(), b in stream()) {
        let window = Window::new(0, 2_000_000_000);
        // What each of the two keeps is mostly on disk.
        let disk = Disk::new(tempfile::tempfile).sized(2, 3);
        let [mut one, mut first, mut second] =
            [None, Some(&disk), Some(&disk)].map(|disk| match disk {
                Some(disk) => Recorder::new(ALL, ANCHOR).on(disk),
                None => Recorder::new(ALL, ANCHOR),
            });
        for facts in a.iter().chain(&b) {
            one.record(facts);
        }
        for facts in &a {
            first.record(facts);
        }
        for facts in &b {
            second.record(facts);
        }
        first.merge(second);
        let (one, merged) = (one.summarise(window), first.summarise(window));
        prop_assert_eq!(one.tally, merged.tally);
        prop_assert!(one.tally.adds_up());
        prop_assert_eq!(one.early, merged.early);
        prop_assert_eq!(one.rows.len(), merged.rows.len());
        for (x, y) in one.rows.iter().zip(&merged.rows) {
            prop_assert_eq!(x.spec.tag, y.spec.tag);
            prop_assert_eq!(x.stats, y.stats);
        }
    }
}
