//! Results by slices of time, how far they may be off, the steady part of a run, results by group.

use aiperf_sim::scripted::Reply;
use serde_json::Value;

use crate::support::{Done, Run, Tally, cycling, flat, sim, url};

const FILES: [&str; 2] = ["profile_export_aiperf_timeslices.json", "profile_export_aiperf_timeslices.csv"];

fn sum(slices: &[Value], tag: &str) -> f64 {
    slices.iter().filter_map(|slice| slice[tag]["avg"].as_f64()).sum()
}

fn slices(done: &Done) -> Vec<Value> {
    done.json(FILES[0])["timeslices"].as_array().expect("a list").clone()
}

#[test]
fn slices_hold_every_request_twice_over() {
    let server = sim("ttft=20&itl=2");
    let done = Run::profile(&url(&server))
        .args("--streaming --request-count 60 --request-rate 200 --warmup-request-count 5 --slice-duration 0.05")
        .run()
        .expect_exit(0)
        .ends(Tally::of(60, 0));
    let slices = slices(&done);
    assert_eq!(Some(sum(&slices, "request_count")), Some(60.0), "where they were sent");
    assert_eq!(Some(sum(&slices, "sliced_request_count")), Some(60.0), "where they ended");
    let seconds = |slice: &Value| {
        (slice["end_ns"].as_u64().zip(slice["start_ns"].as_u64())).map_or(0.0, |(e, s)| (e - s) as f64 * 1e-9)
    };
    let tokens: f64 = slices
        .iter()
        .filter_map(|s| Some(s["sliced_output_token_throughput"]["avg"].as_f64()? * seconds(s)))
        .sum();
    assert!((tokens - done.stat("total_osl", "avg")).abs() < 1e-6, "{tokens}");
    let (last, before) = slices.split_last().expect("some");
    assert_eq!(last["is_complete"], false);
    assert!(before.iter().all(|s| s.get("is_complete").is_none() && (seconds(s) - 0.05).abs() < 1e-9));
    let first = done
        .records()
        .iter()
        .filter(|r| r["metadata"]["benchmark_phase"] == "profiling")
        .filter_map(|r| r["metadata"]["request_start_ns"].as_u64())
        .min();
    assert_eq!(slices[0]["start_ns"].as_u64(), first, "the grid begins with the first measured request");
    let config = &done.json(FILES[0])["input_config"];
    assert_eq!(config["artifacts"]["slice_duration"], 0.05);
    let csv = done.text(FILES[1]);
    assert!(csv.starts_with("Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value\r\n0,"), "{csv}");
    assert!(flat(&done.stdout).contains("Timeslice CSV Export: "), "{}", done.stdout);
    // A later run in the same folder moves them with the rest.
    let done = Run::profile(&url(&server))
        .args("--request-count 3 --profile-export-prefix p --slice-duration 5")
        .run_in(done);
    let done = done.expect_exit(0);
    assert!(done.path("p_timeslices.json").is_file() && done.path("p_timeslices.csv").is_file());
    let done = Run::profile(&url(&server)).args("--request-count 3").run_in(done).expect_exit(0);
    assert!(FILES.iter().all(|file| !done.path(file).exists()));
}

#[test]
fn records_alone_give_the_same() {
    let servers = [0; 2].map(|_| sim("ttft=3&itl=1"));
    let urls = servers.each_ref().map(url);
    let done = Run::profile(&urls[0])
        .arg("--url")
        .arg(&urls[1])
        .args("--model a,b --streaming --conversation-turn-mean 2 --num-sessions 80 --concurrency 6 --slice-duration 0.1")
        .run()
        .expect_exit(0);
    let own = done.summary();
    let own_slices = FILES.map(|file| done.text(file));
    let done = Run::new("report out --force").run_in(done).expect_exit(0);
    let again = done.summary();
    assert_eq!(FILES.map(|file| done.text(file)), own_slices);
    for key in ["steady_state", "breakdown"] {
        assert!(own[key].is_object(), "{key}");
        assert_eq!(again[key], own[key], "{key}");
    }
    let metrics = own["uncertainty"]["metrics"].as_object().expect("metrics");
    for (tag, metric) in metrics.iter().filter(|(tag, _)| !tag.ends_with("_throughput")) {
        assert_eq!(&again["uncertainty"]["metrics"][tag], metric, "{tag}");
    }
}

#[test]
fn groups_are_those_of_the_records() {
    let server = sim("ttft=3&itl=1");
    let done = Run::profile(&url(&server))
        .args("--model a,b --streaming --conversation-turn-mean 3 --num-sessions 10 --concurrency 3")
        .run()
        .expect_exit(0)
        .ends(Tally::of(30, 0));
    let breakdown = &done.summary()["breakdown"];
    let names: Vec<&String> = breakdown.as_object().expect("an object").keys().collect();
    assert!(names.contains(&&"turn".to_owned()) && names.contains(&&"model".to_owned()), "{names:?}");
    assert!(!names.contains(&&"url".to_owned()), "one server is no way to tell requests apart");
    let records = done.records();
    for (dimension, of) in [
        (
            "turn",
            (|r: &Value| (r["metadata"]["turn_index"].as_u64().unwrap_or(0) + 1).to_string())
                as fn(&Value) -> String,
        ),
        ("model", |r| r["metadata"]["model"].as_str().unwrap_or_default().to_owned()),
    ] {
        for group in breakdown[dimension].as_array().expect("groups") {
            let own: Vec<f64> = records
                .iter()
                .filter(|r| of(r) == group["value"].as_str().unwrap_or_default())
                .filter_map(|r| r["metrics"]["time_to_first_token"]["value"].as_f64())
                .collect();
            assert_eq!(group["completed"].as_u64(), Some(own.len() as u64), "{dimension} {group}");
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            let told = group["time_to_first_token"]["avg"].as_f64().expect("measured");
            assert!((told - mean).abs() < 1e-6, "{told} {mean}");
        }
    }
    done.shows(&["Results by Turn (times in ms)", "Results by Model (times in ms)"]);
}

#[test]
fn a_few_requests_are_said_to_be_few() {
    let server = sim("ttft=2&itl=1");
    let done = Run::profile(&url(&server)).args("--streaming --request-count 8").run().expect_exit(0);
    let ttft = &done.summary()["uncertainty"]["metrics"]["time_to_first_token"];
    let unsupported: Vec<&str> =
        ttft["unsupported"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(unsupported.contains(&"p99") && unsupported.contains(&"p99_9"), "{ttft}");
    assert!(done.stat("time_to_first_token", "p99") > 0.0, "the shape of the summary stays");
    assert_eq!(done.summary()["steady_state"]["found"], false);
    done.shows(&[
        "* Fewer than 368 independent values, which a p99 takes for an interval with 95 % confidence.",
        "No steady state: 8 requests completed, and it takes 100 to tell.",
    ]);
}

#[test]
fn a_long_flat_run_has_intervals_and_a_steady_state() {
    let server = sim("ttft=4&itl=1");
    let done = Run::profile(&url(&server))
        .args("--streaming --request-count 500 --request-rate 500 --arrival-pattern constant")
        .run()
        .expect_exit(0);
    let summary = done.summary();
    let ttft = &summary["uncertainty"]["metrics"]["time_to_first_token"];
    let p50 = ttft["intervals"]["p50"].as_array().expect("two ends");
    let told = summary["time_to_first_token"]["p50"].as_f64().expect("measured");
    assert!(p50[0].as_f64() <= Some(told) && Some(told) <= p50[1].as_f64(), "{told} {ttft}");
    assert_eq!(summary["uncertainty"]["metrics"]["output_sequence_length"]["count"], 500);
    assert!(flat(&done.stdout).contains("95 % Intervals"), "{}", done.stdout);
    let steady = &summary["steady_state"];
    if steady["found"] == true {
        let at = |key: &str| steady[key].as_f64().expect(key);
        assert!(
            at("start_ns") < at("end_ns") && at("share") <= 1.0 && at("request_count") >= 50.0,
            "{steady}"
        );
        assert!(flat(&done.stdout).contains("Steady state: "), "{}", done.stdout);
    } else {
        // A machine that stood still in the middle of it.
        assert_eq!(steady["reason"], "the rate of completions did not settle");
    }
}

#[test]
fn too_many_slices_are_refused_or_told() {
    let done =
        Run::profile("sim://").args("--benchmark-duration 60 --slice-duration 0.0001").run().expect_exit(2);
    done.says(&["--slice-duration", "600000 slices", "at most 100,000"]);
    Run::profile("sim://").args("--slice-duration 0").run().expect_exit(2).says(&["--slice-duration"]);
    let server = sim("ttft=200");
    let done = Run::profile(&url(&server))
        .args("--request-count 2 --concurrency 1 --slice-duration 0.000001")
        .run()
        .expect_exit(1);
    assert_eq!(Some(done.stat("request_count", "avg")), Some(2.0), "the rest is there");
    assert!(FILES.iter().all(|file| !done.path(file).exists()));
    done.says(&["--slice-duration: slices of 0.000001 s would be", "100000 are the most"]);
}

#[test]
fn failed_requests_are_in_slices_and_groups() {
    let server =
        cycling(vec![Reply::chat("a b c", 9, 3), Reply::json(503, "{\"error\":{\"message\":\"busy\"}}")]);
    let done = Run::profile(&server.url())
        .args("--request-count 10 --concurrency 1 --slice-duration 60")
        .run()
        .expect_exit(0);
    let slices = slices(&done);
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0]["error_request_count"]["avg"], 5.0);
    assert_eq!(slices[0]["sliced_request_count"]["avg"], 5.0);
    assert!(slices[0].get("time_to_first_token").is_none());
}
