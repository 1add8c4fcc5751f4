//! What a run writes: where, under which names, in which form, and what of it when the disk is full.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aiperf_sim::scripted::Reply;
use serde_json::Value;

use crate::support::{Done, Run, Tally, flat, scripted, sim, tree, url};

/// The files of a run at the usual level.
const USUAL: [&str; 9] = [
    ".aiperf_results_ready.json",
    "inputs.json",
    "logs",
    "logs/aiperf.log",
    "profile_export.jsonl",
    "profile_export_aiperf.csv",
    "profile_export_aiperf.json",
    "profile_export_console.txt",
    "profile_export_run.json",
];

/// A run of five requests over a fast server of its own.
fn five(more: &str) -> Done {
    let server = sim("ttft=0&itl=0");
    Run::profile(&url(&server)).args("--request-count 5 --streaming").args(more).run()
}

fn names(done: &Done) -> BTreeSet<String> {
    tree(&done.path("")).iter().map(|p| p.display().to_string()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn the_usual_files_and_no_others() {
    let done = five("").expect_exit(0).ends(Tally::of(5, 0));
    assert_eq!(names(&done), set(&USUAL));
    let shown = flat(&done.stdout);
    for (label, file) in [
        ("CSV Export", "profile_export_aiperf.csv"),
        ("JSON Export", "profile_export_aiperf.json"),
        ("Console Export", "profile_export_console.txt"),
        ("Records", "profile_export.jsonl"),
        ("Inputs", "inputs.json"),
        ("Log File", "logs/aiperf.log"),
    ] {
        let path = done.path(file);
        assert!(shown.contains(&format!("{label}: {}", path.display())), "{label}\n{}", done.stdout);
    }
}

#[test]
fn without_a_folder_one_is_named_after_model_endpoint_and_load() {
    let server = sim("ttft=0&itl=0");
    for (args, folder) in [
        ("--model org/demo --concurrency 2", "org_demo-openai-chat-concurrency2"),
        (
            "--model demo --endpoint-type completions --request-rate 500",
            "demo-openai-completions-request_rate500.0",
        ),
        (
            "--model a,b --concurrency 3 --request-rate 500",
            "a_multi-openai-chat-concurrency3-request_rate500.0",
        ),
    ] {
        let start =
            "profile --ui none --tokenizer builtin --random-seed 1 --request-count 1 --isl 4 --osl 2 --url";
        let done = Run::new(start).arg(url(&server)).args(args).run().expect_exit(0);
        let made: Vec<PathBuf> = done.made().into_iter().filter(|p| p.ends_with("inputs.json")).collect();
        assert_eq!(made, [Path::new("artifacts").join(folder).join("inputs.json")]);
    }
}

#[test]
fn an_earlier_run_is_moved_out_of_the_way() {
    let server = sim("ttft=0&itl=0");
    let run = || Run::profile(&url(&server)).args("--request-count 1");
    let first = run().run().expect_exit(0);
    assert!(!first.stderr.contains("previous-"), "{}", first.stderr);
    let id = first.summary()["benchmark_id"].clone();
    std::fs::write(first.path("mine.txt"), "keep").expect("a file of the user's");
    let second =
        run().run_in(first).expect_exit(0).says(&["out held an earlier run", "moved to previous-1/"]);
    let told = second.stderr.lines().filter(|l| l.contains("previous-1")).count();
    assert_eq!(told, 1, "{}", second.stderr);
    let moved = set(&USUAL).iter().map(|n| format!("previous-1/{n}")).collect::<BTreeSet<_>>();
    let expected = set(&USUAL).into_iter().chain(moved).chain(set(&["mine.txt", "previous-1"])).collect();
    assert_eq!(names(&second), expected);
    assert_eq!(second.json("previous-1/profile_export_aiperf.json")["benchmark_id"], id);
    assert_ne!(second.summary()["benchmark_id"], id);
    run().run_in(second).expect_exit(0).says(&["moved to previous-2/"]);
}

#[test]
fn the_inputs_are_what_the_server_got() {
    let server = scripted(vec![Reply::chat("good day", 9, 2)]);
    let done = Run::profile(&server.url())
        .args(
            "--request-count 6 --concurrency 2 --isl-stddev 3 --extra-inputs temperature:0.5 --extra-inputs",
        )
        .arg(r#"{"nvext":{"greed":true}}"#)
        .run()
        .expect_exit(0);
    let sorted = |mut bodies: Vec<Value>| {
        bodies.sort_by_key(Value::to_string);
        bodies
    };
    let got = server.requests().iter().map(|r| serde_json::from_slice(&r.body).expect("JSON")).collect();
    assert_eq!(sorted(done.inputs()), sorted(got));
    assert_eq!(done.inputs()[0]["nvext"]["greed"], true);
    // Each record names its conversation.
    let inputs = done.json("inputs.json");
    let ids: BTreeSet<&str> =
        inputs["data"].as_array().expect("a list").iter().filter_map(|s| s["session_id"].as_str()).collect();
    let records = done.records();
    let named: BTreeSet<&str> =
        records.iter().filter_map(|r| r["metadata"]["conversation_id"].as_str()).collect();
    assert_eq!((ids.len(), &ids), (6, &named));
}

#[test]
fn records_hold_the_keys_that_scripts_read() {
    let done = five("").expect_exit(0);
    let records = done.records();
    assert_eq!(records.len(), 5);
    for record in &records {
        let meta = record["metadata"].as_object().expect("an object");
        for key in [
            "session_num",
            "x_request_id",
            "x_correlation_id",
            "conversation_id",
            "turn_index",
            "credit_issued_ns",
            "request_start_ns",
            "request_ack_ns",
            "request_end_ns",
            "worker_id",
            "record_processor_id",
            "benchmark_phase",
            "was_cancelled",
        ] {
            assert!(meta.contains_key(key), "{key} is missing in {record}");
        }
        for (tag, unit) in [
            ("time_to_first_token", "ms"),
            ("request_latency", "ms"),
            ("inter_token_latency", "ms"),
            ("input_sequence_length", "tokens"),
            ("output_sequence_length", "tokens"),
        ] {
            assert_eq!(record["metrics"][tag]["unit"], unit, "{tag} in {record}");
            assert!(record["metrics"][tag]["value"].is_number(), "{tag} in {record}");
        }
        assert!(record.get("error").is_none());
        let at = |key: &str| meta[key].as_u64().expect("nanoseconds");
        assert!(at("credit_issued_ns") <= at("request_start_ns"));
        assert!(
            at("request_start_ns") <= at("request_ack_ns") && at("request_ack_ns") <= at("request_end_ns")
        );
    }
    let sessions: BTreeSet<u64> =
        records.iter().filter_map(|r| r["metadata"]["session_num"].as_u64()).collect();
    assert_eq!(sessions, (0..5).collect());
}

#[test]
fn the_level_says_which_files_there_are() {
    let summary = five("--export-level summary").expect_exit(0);
    // Without records there is nothing to summarise again.
    let of_records = ["profile_export.jsonl", "profile_export_run.json"];
    let without = USUAL.iter().filter(|n| !of_records.contains(*n));
    assert_eq!(names(&summary), without.map(|n| (*n).to_owned()).collect());
    let raw = five("--export-level raw").expect_exit(0);
    assert_eq!(names(&raw), set(&USUAL).into_iter().chain(set(&["profile_export_raw.jsonl"])).collect());
    let lines = raw.lines("profile_export_raw.jsonl");
    assert_eq!(lines.len(), 5);
    let inputs = raw.inputs();
    for line in &lines {
        assert!(inputs.contains(&line["payload"]), "{line}");
        assert_eq!(line["status"], 200);
        assert!(!line["responses"].as_array().expect("a list").is_empty(), "{line}");
    }
}

#[test]
fn a_prefix_names_the_files() {
    for prefix in ["mine", "mine.json", "mine_raw.jsonl"] {
        let done = five(&format!("--export-level raw --profile-export-prefix {prefix}")).expect_exit(0);
        let expected = [
            ".aiperf_results_ready.json",
            "inputs.json",
            "logs",
            "logs/aiperf.log",
            "mine.csv",
            "mine.json",
            "mine.jsonl",
            "mine_console.txt",
            "mine_raw.jsonl",
            "mine_run.json",
        ];
        assert_eq!(names(&done), set(&expected));
    }
}

#[cfg(unix)]
#[test]
fn files_that_hold_prompts_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let done = five("--export-level raw").expect_exit(0);
    let mode = |name: &str| std::fs::metadata(done.path(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode("inputs.json"), 0o600);
    assert_eq!(mode("profile_export_raw.jsonl"), 0o600);
}

#[test]
fn the_csv_has_the_shape_that_scripts_read() {
    let done = five("").expect_exit(0);
    let text = done.text("profile_export_aiperf.csv");
    assert!(text.ends_with("\r\n"));
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "every line end is CRLF");
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines[0], "Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std");
    let blank = lines.iter().position(|l| l.is_empty()).expect("an empty line between the blocks");
    assert_eq!(lines[blank + 1], "Metric,Value");
    for line in &lines[1..blank] {
        assert_eq!(line.split(',').count(), 15, "{line}");
    }
    assert!(lines.iter().any(|l| l.starts_with("Time to First Token (ms),")), "{text}");
    assert!(lines.contains(&"Request Count,5.00"), "{text}");
}

#[test]
fn the_console_file_is_what_was_shown() {
    let done = five("").expect_exit(0);
    let file = done.text("profile_export_console.txt");
    assert_eq!(file, done.stdout);
    assert!(file.contains("NVIDIA AIPerf | LLM Metrics") && !file.contains('\u{1b}'), "{file}");
    assert!(file.lines().all(|l| l.chars().count() <= 140 || l.contains(": ")), "{file}");
}

#[test]
fn the_log_tells_the_phases() {
    let log = five("--warmup-request-count 1").expect_exit(0).text("logs/aiperf.log");
    for text in
        ["INFO", "phase warmup complete: 1 scheduled, 0 unsent", "phase profiling complete: 5 scheduled"]
    {
        assert!(log.contains(text), "{log}");
    }
    let quiet = five("--log-level error").expect_exit(0).text("logs/aiperf.log");
    assert_eq!(quiet, "");
}

#[test]
fn the_summary_is_what_its_schema_says() {
    let done = five("--warmup-request-count 2").expect_exit(0);
    let summary = done.summary();
    valid(&summary, &aiperf_report::summary_schema());
    assert_eq!(summary["schema_version"], "1.4");
    assert_eq!((&summary["was_cancelled"], &summary["is_complete"]), (&false.into(), &true.into()));
    assert_eq!(summary["time_to_first_token"]["count"], 5);
    assert_eq!(summary["warmup_metrics"]["request_count"]["avg"].as_f64(), Some(2.0));
    let failing = scripted(vec![Reply::json(500, "{}")]);
    let failed = Run::profile(&failing.url()).args("--request-count 2").run().expect_exit(1);
    valid(&failed.summary(), &aiperf_report::summary_schema());
}

#[test]
fn the_second_schema_has_every_key() {
    let done = five("--export-schema 2").expect_exit(0);
    let summary = done.summary();
    valid(&summary, &aiperf_report::summary_schema_2());
    assert_eq!(summary["schema_version"], "2.0");
    assert_eq!(summary["profiling"]["tally"]["completed"], 5);
    assert!(summary["warmup"].is_null());
}

/// The part of JSON Schema that our schemas use.
#[track_caller]
pub(crate) fn valid(value: &Value, schema: &Value) {
    let mut wrong = Vec::new();
    check(value, schema, schema, "$", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn check(value: &Value, schema: &Value, root: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(allowed) = schema.as_bool() {
        if !allowed {
            wrong.push(format!("{at} may not be there"));
        }
        return;
    }
    for (key, rule) in schema.as_object().expect("a schema is an object or a boolean") {
        match key.as_str() {
            "$ref" => {
                let path = rule.as_str().and_then(|r| r.strip_prefix('#')).expect("a reference into itself");
                check(value, root.pointer(path).expect("it leads somewhere"), root, at, wrong);
            }
            "allOf" => rule.as_array().expect("a list").iter().for_each(|s| check(value, s, root, at, wrong)),
            "anyOf" => {
                let fits = rule.as_array().expect("a list").iter().any(|s| {
                    let mut inner = Vec::new();
                    check(value, s, root, at, &mut inner);
                    inner.is_empty()
                });
                if !fits {
                    wrong.push(format!("{at} fits nothing of {rule}"));
                }
            }
            "type" => {
                let is = |name: &str| match name {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "number" => value.is_number(),
                    other => panic!("the type {other} is not known here"),
                };
                let fits = match rule {
                    Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
                    name => is(name.as_str().expect("a name")),
                };
                if !fits {
                    wrong.push(format!("{at} is {value}, not of type {rule}"));
                }
            }
            "const" if value != rule => wrong.push(format!("{at} is {value}, not {rule}")),
            "enum" if !rule.as_array().expect("a list").contains(value) => {
                wrong.push(format!("{at} is {value}, not of {rule}"));
            }
            "minimum" if value.as_f64().is_some_and(|v| v < rule.as_f64().expect("a number")) => {
                wrong.push(format!("{at} is {value}, below {rule}"));
            }
            "required" => {
                for key in rule.as_array().expect("a list").iter().filter_map(Value::as_str) {
                    if value.is_object() && value.get(key).is_none() {
                        wrong.push(format!("{at}.{key} is missing"));
                    }
                }
            }
            "properties" => {
                for (key, schema) in rule.as_object().expect("a mapping") {
                    if let Some(inner) = value.get(key) {
                        check(inner, schema, root, &format!("{at}.{key}"), wrong);
                    }
                }
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                for (key, inner) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|k| !k.contains_key(key)) {
                        check(inner, rule, root, &format!("{at}.{key}"), wrong);
                    }
                }
            }
            "items" => {
                for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(inner, rule, root, &format!("{at}[{i}]"), wrong);
                }
            }
            "pattern" => {
                let pattern = regex::Regex::new(rule.as_str().expect("a text")).expect("a pattern");
                if value.as_str().is_some_and(|text| !pattern.is_match(text)) {
                    wrong.push(format!("{at} is {value}, not like {rule}"));
                }
            }
            // Rules that hold (the wrong ones are above), and words for people.
            "const" | "enum" | "minimum" | "$schema" | "$defs" | "$id" | "title" | "description"
            | "examples" | "default" => {}
            other => panic!("the keyword {other} of the schema is not known here"),
        }
    }
}

#[test]
fn a_wrong_document_is_refused_by_the_schema() {
    let done = five("").expect_exit(0);
    let schema = aiperf_report::summary_schema();
    let mut wrong = Vec::new();
    let mut summary = done.summary();
    summary["request_latency"]["unit"] = "s".into();
    summary["request_latency"]["p50"] = "fast".into();
    summary["error_summary"] = Value::Null;
    summary.as_object_mut().expect("an object").remove("run_info");
    check(&summary, &schema, &schema, "$", &mut wrong);
    for text in
        ["$.request_latency.unit", "$.request_latency.p50", "$.error_summary", "$.run_info is missing"]
    {
        assert!(wrong.iter().any(|w| w.contains(text)), "{text}: {wrong:#?}");
    }
}

#[test]
fn a_disk_that_fills_up_costs_the_file_that_did_not_fit_and_nothing_else() {
    // Records are the one file that outgrows the disk here.
    let server = sim("ttft=0&itl=0");
    let run = Run::profile(&url(&server)).args("--request-count 60 --concurrency 4 --streaming");
    let done = run.disk_full_after(128).run().expect_exit(1);
    let done = done.says(&["error: cannot write out/profile_export.jsonl: "]);
    assert_eq!(names(&done), set(&USUAL));
    // What is there is whole: every line, and the documents.
    let records = done.records();
    assert!(records.len() < 60, "{} records fit", records.len());
    assert_eq!(done.inputs().len(), 60);
    let summary = done.summary();
    assert_eq!(summary["request_count"]["avg"].as_f64(), Some(60.0), "statistics need no file");
    assert_eq!(summary["is_complete"], false);
    let reason = summary["incomplete_reason"].as_str().expect("a reason");
    assert!(reason.contains("profile_export.jsonl"), "{reason}");
    assert!(flat(&done.stdout).contains("Incomplete results: cannot write out/profile_export.jsonl"));
    let named = |name: &str| done.stdout.lines().any(|line| line.ends_with(name));
    assert!(!named("/profile_export.jsonl"), "{}", done.stdout);
    assert!(named("/profile_export_aiperf.json") && named("/inputs.json"), "{}", done.stdout);
}

#[test]
fn a_screen_that_cannot_be_written_to_is_a_failure_and_one_that_was_closed_is_none() {
    let server = sim("ttft=0&itl=0");
    let run = || Run::profile(&url(&server)).args("--request-count 1");
    let full = run().script("exec \"$0\" \"$@\" > /dev/full").run().expect_exit(1);
    let full = full.says(&["error: cannot write to stdout: No space left on device"]);
    assert_eq!(names(&full), set(&USUAL));
    // A reader that wants no more, as `head` does.
    let closed = run().script("{ \"$0\" \"$@\"; echo $? > code; } | true").run().expect_exit(0);
    assert_eq!(std::fs::read_to_string(closed.home.path().join("code")).expect("the code"), "0\n");
}

#[test]
fn a_document_that_does_not_fit_is_not_left_half_written() {
    let server = sim("ttft=0&itl=0");
    let run = Run::profile(&url(&server)).args("--request-count 3 --streaming --log-level error");
    // 18 KiB hold the CSV and three records, and not the summary.
    let done = run.disk_full_after(36).run().expect_exit(1);
    let done = done.says(&["error: cannot write out/profile_export_aiperf.json: "]);
    let names = names(&done);
    assert!(!names.contains("profile_export_aiperf.json"), "{names:?}");
    assert!(!names.iter().any(|n| n.contains(".part")), "{names:?}");
    assert!(names.contains("profile_export_aiperf.csv"), "{names:?}");
    assert!(!done.stdout.contains("JSON Export:") && done.stdout.contains("CSV Export:"), "{}", done.stdout);
    assert!(done.text("profile_export_aiperf.csv").ends_with("\r\n"));
    assert_eq!(done.inputs().len(), 3);
}

#[test]
fn inputs_that_do_not_fit_are_removed() {
    let server = sim("ttft=0&itl=0");
    let run = Run::unseeded(&url(&server)).args("--random-seed 7 --request-count 4 --isl 20000 --osl 4");
    let done = run.disk_full_after(128).run().expect_exit(1);
    let done = done.says(&["error: cannot write out/inputs.json: "]).ends(Tally::of(4, 0));
    assert!(!done.path("inputs.json").exists());
    assert_eq!(done.summary()["is_complete"], false);
}
