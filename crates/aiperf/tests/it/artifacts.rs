//! The files beside summary and records: answers, single phases, the mark of a finished run.

use std::sync::atomic::{AtomicUsize, Ordering};

use aiperf_sim::scripted::{Reply, Script, Signal};
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, cycling, scripted, sim, url};

/// The entries of `outputs.json`.
fn outputs(done: &Done) -> Vec<Value> {
    let file = done.json("outputs.json");
    assert_eq!(file["schema_version"], "1.0");
    file["data"].as_array().expect("a list").clone()
}

fn places(entries: &[Value]) -> Vec<(u64, u64)> {
    let number = |entry: &Value, key: &str| entry[key].as_u64().expect("a number");
    entries.iter().map(|e| (number(e, "session_num"), number(e, "turn_index"))).collect()
}

#[test]
fn answers_stand_in_the_order_of_sessions_and_turns() {
    // The first request is answered when the last that does not follow it is.
    let (signal, seen) = (Signal::new(), AtomicUsize::new(0));
    let server = Script::by_request(move |_| match seen.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::new().wait_for(&signal).step(first_step(&Reply::chat("late", 1, 1))),
        10 => Reply::chat("last", 1, 1).raise(&signal),
        n => Reply::chat(&format!("answer {n}"), 1, 1),
    })
    .start()
    .expect("it listens");
    let done = Run::profile(&server.url())
        .args("--concurrency 3 --conversation-turn-mean 2 --num-conversations 6 --export-outputs-json --slice-duration 5")
        .run()
        .expect_exit(0)
        .ends(Tally::of(12, 0));
    let entries = outputs(&done);
    let expected: Vec<(u64, u64)> = (0..6).flat_map(|s| [(s, 0), (s, 1)]).collect();
    assert_eq!(places(&entries), expected);
    let came: Vec<Value> = done.records().iter().map(|r| r["metadata"]["x_request_id"].clone()).collect();
    let stands: Vec<Value> = entries.iter().map(|e| e["x_request_id"].clone()).collect();
    assert_ne!(came, stands, "they came back in another order");
    // Each entry is its record's.
    for entry in &entries {
        let records = done.records();
        let record = records.iter().find(|r| r["metadata"]["x_request_id"] == entry["x_request_id"]);
        let record = record.expect("a record");
        for key in ["session_num", "conversation_id", "turn_index", "request_start_ns", "request_end_ns"] {
            assert_eq!(entry[key], record["metadata"][key], "{key}");
        }
        for (tag, value) in entry["metrics"].as_object().expect("an object") {
            assert_eq!(*value, record["metrics"][tag]["value"], "{tag}");
        }
        assert!(entry["metrics"]["request_latency"].is_number() && entry["response_text"].is_string());
    }
    let foot = ["Timeslice CSV Export: ", "Timeslice JSON Export: ", "Outputs JSON: "]
        .map(|name| done.stdout.find(name));
    assert!(foot[0].is_some() && foot.is_sorted(), "in AIPerf's order: {}", done.stdout);
    assert_eq!(done.summary()["input_config"]["artifacts"]["export_outputs_json"], true);
}

fn first_step(reply: &Reply) -> aiperf_sim::scripted::Step {
    reply.steps()[0].clone()
}

#[test]
fn a_text_is_whole_with_reasoning_and_calls_and_null_when_there_is_none() {
    let event = |delta: Value| event_of(&delta);
    let call = json!({"tool_calls": [{"index": 0, "function": {"name": "find", "arguments": "{\"a\":1}"}}]});
    let server = cycling(vec![
        Reply::sse_head()
            .event(&event(json!({"reasoning_content": "let me  "})))
            .event(&event(json!({"reasoning_content": "see\n"})))
            .event(&event(json!({"content": "na\u{ef}ve "})))
            .event(&event(json!({"content": "\u{1f642}"})))
            .event(&event(call))
            .event("[DONE]")
            .end_chunks(),
        Reply::json(500, "{\"error\":{\"message\":\"busy\"}}"),
    ]);
    let done = Run::profile(&server.url())
        .args("--streaming --request-count 2 --warmup-request-count 2 --export-outputs-json --export-level summary")
        .run()
        .expect_exit(0);
    let entries = outputs(&done);
    assert_eq!(places(&entries), [(0, 0), (1, 0)], "nothing of the warm-up");
    assert_eq!(entries[0]["response_text"], "let me  see\nna\u{ef}ve \u{1f642}find{\"a\":1}");
    assert!(entries[0]["metrics"]["time_to_first_token"].is_number(), "{}", entries[0]);
    assert!(entries[1]["response_text"].is_null());
    assert_eq!(entries[1]["metrics"], json!({}));
}

#[cfg(unix)]
#[test]
fn answers_are_private_and_only_written_when_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let run = || Run::profile(&server.url()).args("--request-count 1");
    let done = run().run().expect_exit(0);
    assert!(!done.path("outputs.json").exists());
    let done = run().arg("--export-outputs-json").run().expect_exit(0);
    let mode = std::fs::metadata(done.path("outputs.json")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    run()
        .args("--export-outputs-json --profile-export-prefix outputs")
        .run()
        .expect_exit(2)
        .says(&["outputs"]);
}

#[test]
fn a_disk_without_room_for_answers_loses_nothing_else() {
    let server = scripted(vec![Reply::chat(&"x".repeat(200_000), 1, 1)]);
    let done = Run::profile(&server.url())
        .args("--request-count 3 --export-outputs-json")
        .disk_full_after(400)
        .run()
        .expect_exit(1)
        .says(&["outputs.json"]);
    assert!(!done.path("outputs.json").exists() && !done.path("outputs.json.part").exists());
    assert_eq!(done.summary()["request_count"]["avg"], 3.0);
    let ready = done.json(".aiperf_results_ready.json");
    assert_eq!(ready, json!({"ready": true, "was_cancelled": false, "partial": true}));
}

#[test]
fn a_finished_run_is_marked() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url()).args("--request-count 1").run().expect_exit(0);
    assert_eq!(
        done.text(".aiperf_results_ready.json"),
        r#"{"ready":true,"was_cancelled":false,"partial":false}"#
    );
    assert!(!done.path("phase_manifest.json").exists() && !done.path("phases").exists(), "it has one phase");
}

#[test]
fn each_phase_has_its_own_summary_and_its_line_in_the_manifest() {
    let server = sim("ttft=0&itl=0");
    let config = "benchmark:\n  phases:\n    - {name: warmup, concurrency: 1, requests: 2}\n    - {name: low, kind: profiling, \
                  concurrency: 1, requests: 3}\n    - {name: high-2, kind: profiling, concurrency: 4, requests: 5}\n";
    let done = Run::profile(&url(&server)).file("c.yaml", config).args("-f c.yaml").run().expect_exit(0);
    let manifest = done.json("phase_manifest.json");
    assert_eq!(manifest["schema_version"], 1);
    let phases = manifest["phases"].as_array().expect("a list");
    let expected = [("warmup", "warmup", 2), ("low", "profiling", 3), ("high-2", "profiling", 5)];
    assert_eq!(phases.len(), expected.len());
    for (at, (phase, (name, kind, count))) in phases.iter().zip(expected).enumerate() {
        assert_eq!((&phase["phase_name"], &phase["phase_kind"]), (&json!(name), &json!(kind)));
        assert_eq!(phase["phase_index"], at);
        assert_eq!(phase["profiling_index"], at.checked_sub(1).map_or(Value::Null, Value::from));
        assert_eq!(
            (&phase["total_request_count"], &phase["error_request_count"]),
            (&json!(count), &json!(0))
        );
        assert!(phase["start_ns"].as_u64() < phase["end_ns"].as_u64(), "{phase}");
        assert!(phase.as_object().is_some_and(|keys| keys.keys().is_sorted()), "{phase}");
        let summary = done.json(phase["metrics_json"].as_str().expect("a path"));
        assert_eq!(summary["request_count"]["avg"], f64::from(count));
        assert_eq!(summary["schema_version"], "1.4");
        assert!(summary.get("warmup_metrics").is_none());
        assert_eq!(summary["load_health"]["phases"].as_array().map(Vec::len), Some(1));
        let csv = done.text(phase["metrics_csv"].as_str().expect("a path"));
        assert!(csv.contains(&format!("Request Count,{count}.00\r\n")), "{csv}");
        assert_eq!(phase["metrics_csv"], format!("phases/{name}/profile_export_aiperf.csv"));
    }
    // Together they are the run.
    let sum = |tag: &str| -> f64 {
        ["low", "high-2"]
            .iter()
            .map(|name| {
                let file = done.json(&format!("phases/{name}/profile_export_aiperf.json"));
                file[tag]["sum"].as_f64().expect("a sum")
            })
            .sum()
    };
    let (whole, parts) = (done.stat("output_sequence_length", "sum"), sum("output_sequence_length"));
    assert!((whole - parts).abs() < 1e-9, "{whole} is not {parts}");
    // A next run moves them away with the rest.
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url()).args("--request-count 1").run_in(done).expect_exit(0);
    assert!(!done.path("phases").exists() && done.path("previous-1/phases/low").is_dir());
    assert!(done.path("previous-1/.aiperf_results_ready.json").is_file());
}

#[test]
fn errors_of_a_phase_are_its_own() {
    let server =
        scripted(vec![Reply::json(500, "{\"error\":{\"message\":\"cold\"}}"), Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url())
        .args("--request-count 2 --warmup-request-count 1 --concurrency 1 --export-schema 2 --profile-export-prefix mine")
        .run()
        .expect_exit(0);
    let manifest = done.json("phase_manifest.json");
    assert_eq!(manifest["phases"][0]["error_request_count"], 1);
    let errors = &manifest["phases"][0]["error_summary"];
    assert_eq!((&errors[0]["count"], &errors[0]["error_details"]["code"]), (&json!(1), &json!(500)));
    assert_eq!(manifest["phases"][1]["error_summary"], json!([]));
    let warmup = done.json("phases/warmup/mine.json");
    assert!(warmup["profiling"].is_null());
    assert_eq!(warmup["warmup"]["tally"]["failed"], 1);
    crate::files::valid(&warmup, &aiperf_report::summary_schema_2());
}

#[test]
fn the_second_schema_s_csv_is_one_table_of_every_metric() {
    let server = sim("ttft=1&itl=1");
    let done = Run::profile(&url(&server))
        .args("--request-count 4 --warmup-request-count 1 --streaming --export-schema 2")
        .run()
        .expect_exit(0);
    let text = done.text("profile_export_aiperf.csv");
    let rows: Vec<Vec<&str>> =
        text.split("\r\n").filter(|l| !l.is_empty()).map(|l| l.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    let column = |name: &str| rows[0].iter().position(|c| *c == name).expect(name);
    let known = aiperf_metrics::METRICS.iter().filter(|m| m.is_public()).count();
    assert_eq!(rows.len(), 1 + 2 * known);
    let summary = done.json("profile_export_aiperf.json");
    for row in &rows[1..] {
        let metric = &summary[row[0]]["metrics"][row[1]];
        let number = |name: &str| row[column(name)].parse::<f64>().ok();
        for name in ["value", "denominator_seconds", "count", "avg", "p99", "std"] {
            // What reads the JSON here may be off by the last bit.
            let (cell, value) = (number(name), metric[name].as_f64());
            let near = |(a, b): (f64, f64)| (a - b).abs() <= b.abs() * 1e-14;
            assert_eq!(cell.is_some(), value.is_some(), "{name} of {row:?}");
            assert!(cell.zip(value).is_none_or(near), "{name} of {row:?}: {value:?}");
        }
    }
    let rate = &summary["profiling"]["metrics"]["request_throughput"];
    let seconds = rate["denominator_seconds"].as_f64().expect("seconds");
    assert_eq!(Some(seconds), summary["profiling"]["window"]["seconds"].as_f64());
    assert!((rate["value"].as_f64().expect("a rate") * seconds - 4.0).abs() < 1e-9);
}

#[test]
fn every_file_of_a_run_fits_its_published_schema() {
    let published = |name: &str| -> Value {
        let printed = Run::new(&format!("schema {name}")).run().expect_exit(0);
        serde_json::from_str(&printed.stdout).expect("a schema")
    };
    let broken = event_of(&json!({"content": "half"}));
    let server = cycling(vec![
        Reply::chat_stream(&["a ", "b"]),
        Reply::sse_head().event(&broken).close(),
        Reply::json(429, "{\"error\":{\"message\":\"busy\",\"code\":\"x\"}}"),
    ]);
    let list = Run::new("schema").run().expect_exit(0);
    let names: Vec<&str> = list.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    for more in ["", "--request-rate 200 --export-schema 2"] {
        let done = Run::profile(&server.url())
            .args("--streaming --request-count 9 --warmup-request-count 2 --export-level raw --export-outputs-json")
            .args(more)
            .run()
            .expect_exit(0);
        let summary = if more.is_empty() { "summary" } else { "summary-2" };
        for (name, file) in [
            (summary, "profile_export_aiperf.json"),
            (summary, "phases/warmup/profile_export_aiperf.json"),
            ("inputs", "inputs.json"),
            ("outputs", "outputs.json"),
            ("phases", "phase_manifest.json"),
            ("run", "profile_export_run.json"),
        ] {
            assert!(names.contains(&name), "{name} is not in the list");
            crate::files::valid(&done.json(file), &published(name));
        }
        for (name, file) in [("records", "profile_export.jsonl"), ("raw", "profile_export_raw.jsonl")] {
            let schema = published(name);
            let lines = done.lines(file);
            assert_eq!(lines.len(), 11);
            for line in &lines {
                crate::files::valid(line, &schema);
            }
        }
    }
    Run::new("schema summry").run().expect_exit(2).says(&["Did you mean 'summary'?"]);
}

fn event_of(delta: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
}
