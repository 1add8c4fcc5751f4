//! `aiperf report`: a run that was killed, summarised from its records.

use std::path::Path;

use aiperf_sim::scripted::Reply;
use serde_json::Value;

use crate::support::{Done, Run, cycling, flat, scripted, sim, url};

/// Rates over the phase's window, whose start and end no record holds.
const OF_THE_WINDOW: [&str; 5] = [
    "request_throughput",
    "goodput",
    "output_token_throughput",
    "input_token_throughput",
    "total_token_throughput",
];

/// Counts of the schedule, which no record holds.
const OF_THE_SCHEDULE: [&str; 4] =
    ["scheduled_request_count", "sent_request_count", "unsent_request_count", "lost_request_count"];

/// Curves that are looked at over the whole window.
fn is_over_the_window(tag: &str) -> bool {
    tag == "tokens_in_flight" || (tag.starts_with("effective_") && tag != "effective_latency")
}

/// Whole lines of the records so far.
fn lines(home: &Path) -> usize {
    std::fs::read(home.join("out/profile_export.jsonl"))
        .map_or(0, |bytes| bytes.split(|b| *b == b'\n').count() - 1)
}

/// Kills a run once `n` of its requests are in the file.
fn killed(run: Run, n: usize) -> Done {
    let running = run.start();
    while lines(running.home()) < n {
        std::thread::yield_now();
    }
    running.signal("KILL");
    let done = running.finish().expect_exit(-1);
    assert!(!done.path("profile_export_aiperf.json").exists());
    done
}

fn report(done: Done) -> Done {
    Run::new("report out").run_in(done)
}

/// The metrics of both kinds of phases and what a summary says of errors.
fn measured(summary: &Value) -> Vec<(&String, &Value)> {
    [summary, &summary["warmup_metrics"]]
        .into_iter()
        .filter_map(Value::as_object)
        .flatten()
        .filter(|(key, value)| value.get("unit").is_some() || *key == "error_summary")
        .filter(|(key, _)| !OF_THE_SCHEDULE.contains(&key.as_str()))
        .filter(|(key, _)| !OF_THE_WINDOW.contains(&key.as_str()) && !is_over_the_window(key))
        .collect()
}

#[test]
fn what_was_answered_before_the_kill_is_on_disk_and_summarised() {
    let answer = || Reply::chat("a b", 9, 2);
    let server = scripted(vec![answer(), answer(), answer(), Reply::new().stall()]);
    let done = killed(Run::profile(&server.url()).args("--request-count 50"), 3);
    assert_eq!(done.records().len(), 3);
    let done = report(done).expect_exit(0).says(&["made from the records alone: 3 records were read"]);
    let summary = done.summary();
    assert_eq!(summary["request_count"]["avg"], 3.0);
    assert_eq!(summary["request_latency"]["count"], 3);
    assert_eq!(summary["usage_prompt_tokens"]["avg"], 9.0);
    assert_eq!(summary["is_complete"], false);
    assert_eq!(summary["run_info"]["random_seed"], 7);
    let reason = summary["incomplete_reason"].as_str().expect("a reason");
    assert!(reason.contains("made from the records"), "{reason}");
    assert!(done.path("profile_export_aiperf.csv").is_file());
    assert_eq!(done.text("profile_export_console.txt"), done.stdout);
    // 47 were not sent, and one may have been: no record says so.
    for tag in OF_THE_SCHEDULE {
        assert!(summary.get(tag).is_none(), "{tag}");
        assert!(!done.text("profile_export_aiperf.csv").contains(tag), "{tag}");
    }
    assert!(done.stdout.contains("3 ended = 3 completed + 0 failed + 0 cancelled\n"), "{}", done.stdout);
    assert!(!done.stdout.contains("unsent"), "{}", done.stdout);
    assert!(flat(&done.stdout).contains("made from the records alone"), "{}", done.stdout);
}

#[test]
fn a_run_killed_under_load_is_summarised_to_its_last_whole_line() {
    let server = sim("ttft=0&itl=0");
    let run = Run::profile(&url(&server)).args("--streaming --concurrency 8 --request-count 1000000");
    let done = killed(run, 500);
    let whole = lines(done.home.path());
    let done = report(done).expect_exit(0);
    assert_eq!(done.summary()["request_count"]["avg"], whole as f64);
    assert_eq!(done.summary()["time_to_first_token"]["count"], whole);
}

#[test]
fn a_summary_from_records_is_the_run_s_own() {
    let streaming = sim("ttft=3&itl=1");
    let failing = cycling(vec![
        Reply::chat("a b c", 9, 3),
        Reply::json(503, "{\"error\":{\"message\":\"busy\"}}"),
        Reply::chat("d", 9, 1),
    ]);
    for (url, more) in [
        (url(&streaming), "--streaming --warmup-request-count 3 --request-rate 400"),
        (failing.url(), "--concurrency 3 --goodput output_sequence_length:2"),
    ] {
        let done = Run::profile(&url).args("--request-count 30").args(more).run().expect_exit(0);
        let own = done.summary();
        let done = Run::new("report out")
            .run_in(done)
            .expect_exit(2)
            .says(&["profile_export_aiperf.csv is there already; --force writes it again from the records"]);
        assert_eq!(done.summary(), own, "nothing was written");
        let done = Run::new("report out --force").run_in(done).expect_exit(0);
        let again = done.summary();
        for ((key, expected), (found_key, found)) in measured(&own).into_iter().zip(measured(&again)) {
            assert_eq!((found_key, found), (key, expected));
        }
        assert_eq!(measured(&own).len(), measured(&again).len());
        for tag in OF_THE_SCHEDULE {
            assert!(own.get(tag).is_some() && again.get(tag).is_none(), "{tag}");
        }
        assert_eq!(again["input_config"], own["input_config"]);
        assert_eq!(again["run_info"], own["run_info"]);
        assert_eq!(again["benchmark_id"], own["benchmark_id"]);
    }
}

#[test]
fn lines_that_are_not_whole_are_left_out_and_told() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url()).args("--request-count 4").run().expect_exit(0);
    let text = done.text("profile_export.jsonl");
    let all: Vec<&str> = text.lines().collect();
    let torn = &all[3][..all[3].len() / 2];
    let broken = format!("{}\n{{\"metadata\": 5}}\n{}\nnothing\n{}\n{torn}", all[0], all[1], all[2]);
    std::fs::write(done.path("profile_export.jsonl"), broken).expect("it is written");
    let done = Run::new("report out --force").run_in(done).expect_exit(0).says(&[
        "3 records were read",
        "2 lines of the records could not be read and were left out: lines 2, 4.",
        "The last line of the records, line 6, is not whole and was left out.",
    ]);
    assert_eq!(done.summary()["request_count"]["avg"], 3.0);
}

#[test]
fn a_record_that_is_there_twice_counts_once_and_one_that_ends_before_it_starts_not_at_all() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url()).args("--request-count 4").run().expect_exit(0);
    let text = done.text("profile_export.jsonl");
    let (first, rest) = text.split_once('\n').expect("several lines");
    let end = first.find("\"request_end_ns\":").expect("it has one") + "\"request_end_ns\":".len();
    let digits = first[end..].find(|c: char| !c.is_ascii_digit()).expect("more comes behind it");
    let backwards = format!("{}1{}", &first[..end], &first[end + digits..]);
    std::fs::write(done.path("profile_export.jsonl"), format!("{backwards}\n{rest}{rest}"))
        .expect("it is written");
    let done = Run::new("report out --force").run_in(done).expect_exit(0).says(&[
        "3 records were read",
        "1 line of the records could not be read and was left out: line 1.",
        "3 records of requests that an earlier line has already (by x_request_id) were left out.",
    ]);
    assert_eq!(done.summary()["request_count"]["avg"], 3.0);
}

#[test]
fn slices_that_cannot_be_made_are_no_loss_of_the_summary() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let run = Run::profile(&server.url()).args("--request-count 4 --slice-duration 60");
    let done = run.run().expect_exit(0);
    // The first request started some decades earlier.
    let mut text = done.text("profile_export.jsonl");
    for key in ["credit_issued_ns", "request_start_ns"] {
        text = text.replacen(&format!("\"{key}\":1"), &format!("\"{key}\":"), 1);
    }
    std::fs::write(done.path("profile_export.jsonl"), text).expect("it is written");
    let done = Run::new("report out --force")
        .run_in(done)
        .expect_exit(1)
        .says(&["error: --slice-duration: slices of 60 s would be", "4 records were read"]);
    assert_eq!(done.summary()["request_count"]["avg"], 4.0);
}

#[test]
fn what_is_no_run_is_told() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url()).args("--request-count 1").run().expect_exit(0);
    let done = Run::new("report nowhere").run_in(done).expect_exit(2).says(&["nowhere"]);
    std::fs::create_dir(done.home.path().join("empty")).expect("a folder");
    let done = Run::new("report empty").run_in(done).expect_exit(2).says(&["empty holds no file *_run.json"]);
    std::fs::remove_file(done.path("profile_export.jsonl")).expect("it was there");
    let done = Run::new("report out --force").run_in(done).expect_exit(2);
    assert!(done.stderr.contains("cannot read out/profile_export.jsonl"), "{}", done.stderr);
    std::fs::write(done.path("profile_export_run.json"), "{\"format\": 9}").expect("it is written");
    Run::new("report out --force").run_in(done).expect_exit(2).says(&["profile_export_run.json"]);
}

#[test]
fn a_prefix_is_found() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let run = Run::profile(&server.url()).args("--request-count 2 --profile-export-prefix mine");
    let done = run.run().expect_exit(0);
    std::fs::remove_file(done.path("mine.json")).expect("it was there");
    let done = Run::new("report out --force").run_in(done).expect_exit(0);
    assert_eq!(done.json("mine.json")["request_count"]["avg"], 2.0);
}
