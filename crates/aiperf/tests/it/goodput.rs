//! Good requests, failed ones among latencies, and load over time, as files and screen have them.

use aiperf_sim::scripted::Reply;
use serde_json::Value;

use crate::support::{Run, cycling, flat, sim, url};

#[test]
fn good_requests_are_told_everywhere() {
    let server = sim("ttft=0&itl=0");
    let done = Run::profile(&url(&server))
        .args("--streaming --request-count 6 --goodput")
        .arg("request_latency:60000 output_sequence_length:4")
        .run()
        .expect_exit(0);
    let summary = done.summary();
    assert_eq!(summary["good_request_count"]["avg"], 6.0);
    assert_eq!(summary["good_request_fraction"]["avg"], 1.0);
    assert_eq!(summary["goodput"]["avg"], summary["request_throughput"]["avg"]);
    let slos = serde_json::json!({"request_latency": 60000.0, "output_sequence_length": 4.0});
    assert_eq!(summary["input_config"]["slos"], slos);
    assert_eq!(summary["slo_attainment"][1]["at"], "least");
    for record in done.records() {
        assert_eq!(record["metrics"]["good_request_count"]["value"], 1);
    }
    let page = flat(&done.stdout);
    assert!(page.contains("Goodput (requests/sec)"), "{page}");
    assert!(page.contains("SLO Request Latency ≤ 60000 ms: met by 6 of 6 requests (100.0 %)"), "{page}");
    assert!(page.contains("SLO Output Sequence Length ≥ 4 tokens: met by 6 of 6"), "{page}");
}

#[test]
fn a_failed_request_is_not_good_and_a_file_says_the_same() {
    let server = cycling(vec![Reply::chat("a b c", 9, 3), Reply::json(503, "{}"), Reply::chat("d", 9, 1)]);
    let config = "benchmark: {slos: {output_sequence_length: 2}}\n";
    let done = Run::profile(&server.url())
        .file("c.yaml", config)
        .args("--config c.yaml --request-count 6 --concurrency 1")
        .run()
        .expect_exit(0);
    let summary = done.summary();
    assert_eq!(summary["good_request_count"]["avg"], 2.0);
    assert_eq!(summary["slo_attainment"][0]["met"], 2);
    assert_eq!(summary["slo_attainment"][0]["requests"], 6);
    // Four of six answered: no percentile beyond the third of five gaps.
    let adjusted = &summary["adj_request_latency"];
    assert_eq!(adjusted["count"], 6);
    assert!(adjusted["p50"].is_number() && adjusted["p75"].is_null() && adjusted["avg"].is_null());
    let least = &summary["request_latency_at_least"];
    assert!(least["p99"].is_number() && least["count"] == 6, "{least}");
    assert_eq!(summary["context_overflow_count"]["avg"], 0.0);
    assert!(summary["adj_time_to_first_token"].is_null(), "nothing was streamed");
}

#[test]
fn an_objective_that_cannot_be_met_is_told() {
    let server = sim("ttft=0&itl=0");
    let run = |slo: &str| Run::profile(&url(&server)).args("--request-count 2 --goodput").arg(slo).run();
    run("request_latncy:5").expect_exit(2).says(&["'request_latncy'", "did you mean 'request_latency'?"]);
    run("goodput:5").expect_exit(2).says(&["which has no value of its own for each request"]);
    run("request_latency").expect_exit(2).says(&["pairs of a metric and a number"]);
    let done =
        run("time_to_first_token:5").expect_exit(0).says(&["without --streaming no request will be good"]);
    assert_eq!(done.summary()["good_request_count"]["avg"], 0.0);
}

#[test]
fn a_context_that_is_too_long_is_counted() {
    let long =
        Reply::json(400, "{\"error\":{\"message\":\"This model's maximum context length is 8 tokens\"}}");
    let server = cycling(vec![Reply::chat("a", 9, 1), long]);
    let done = Run::profile(&server.url()).args("--request-count 4 --concurrency 1").run().expect_exit(0);
    assert_eq!(done.summary()["context_overflow_count"]["avg"], 2.0);
    let again = Run::new("report out --force").run_in(done).expect_exit(0).summary();
    assert_eq!(again["context_overflow_count"]["avg"], 2.0);
}

#[test]
fn load_over_time_is_in_files_and_on_the_screen() {
    let server = sim("ttft=3&itl=1");
    let done = Run::profile(&url(&server))
        .args("--streaming --request-count 40 --concurrency 4 --export-schema 2")
        .run()
        .expect_exit(0);
    let profiling = &done.summary()["profiling"];
    let metric = |tag: &str, stat: &str| {
        let value = &profiling["metrics"][tag][stat];
        value.as_f64().unwrap_or_else(|| panic!("{tag} {stat}: {value}"))
    };
    let concurrency = metric("effective_concurrency", "avg");
    assert!(concurrency > 0.0 && concurrency <= 4.0 && metric("effective_concurrency", "max") <= 4.0);
    let parts =
        metric("effective_prefill_concurrency", "avg") + metric("effective_decode_concurrency", "avg");
    assert!((parts - concurrency).abs() < 1e-6 * concurrency, "{parts} of {concurrency}");
    assert!(metric("active_decode_throughput", "avg") >= metric("effective_decode_throughput", "avg"));
    assert!(metric("tokens_in_flight", "max") <= 4.0 * 12.0);
    let over_time = &profiling["over_time"];
    assert_eq!(over_time["decode_curve"], "chunks");
    let law = &over_time["littles_law"];
    assert!(law["difference"].as_f64().is_some_and(|d| d.abs() < 1e-6), "{law}");
    let started: u64 = over_time["by_concurrency"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|bucket| bucket["requests"].as_u64())
        .sum();
    assert_eq!(started, 40);
    let page = flat(&done.stdout);
    for text in
        ["LLM Metrics: Effective", "LLM Metrics: Active", "Effective Latency (CO-aware)", "Little's law: "]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(profiling["metrics"]["replay_sched_lag_p50"]["value"].is_null());
}

#[test]
fn without_streams_only_requests_in_flight_are_counted() {
    let server = sim("ttft=0&itl=0");
    let summary = Run::profile(&url(&server)).args("--request-count 5").run().expect_exit(0).summary();
    assert!(summary["effective_concurrency"]["avg"].is_number());
    assert_eq!(summary["effective_decode_throughput"], Value::Null);
    assert_eq!(summary["over_time"]["decode_curve"], Value::Null);
}

#[test]
fn a_replay_tells_how_late_it_was() {
    let server = sim("ttft=0&itl=0");
    let prompts: Vec<String> =
        (0..5).map(|i| format!("{{\"text\":\"a {i}\",\"timestamp\":{}}}\n", i * 10)).collect();
    let run = Run::new(
        "profile --model demo --ui none --tokenizer builtin --artifact-dir out --random-seed 7 --url",
    )
    .arg(url(&server))
    .file("p.jsonl", prompts.concat())
    .args("--input-file p.jsonl --custom-dataset-type single_turn --fixed-schedule");
    let summary = run.run().expect_exit(0).summary();
    let lag = |tag: &str| summary[tag]["avg"].as_f64().unwrap_or_else(|| panic!("{tag}: {}", summary[tag]));
    assert!(lag("replay_sched_lag_p50") <= lag("replay_sched_lag_p99"));
    let degraded = if lag("replay_sched_lag_p99") > 500.0 { 1.0 } else { 0.0 };
    assert_eq!(summary["replay_sched_degraded"]["avg"], degraded);
    assert_eq!(summary["replay_sched_degraded"]["unit"], "count");
}
