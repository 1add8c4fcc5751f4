//! Load: how many requests leave, when, how many at once, with what in them, and how a run ends.
//!
//! Where a duration ends something, it is long beside the time that a crowded machine needs to send the first requests.

mod interrupts;
mod layers;
mod requests;

use std::collections::BTreeSet;
use std::time::Duration;

use aiperf_core::plan::{Arrival, RatePlan};
use aiperf_load::Arrivals;
use aiperf_sim::TruthOutcome;
use aiperf_sim::scripted::{Reply, Signal};
use serde_json::Value;

use crate::support::{Done, Run, Tally, scripted, sim, url};

/// A time stamp of a record.
pub(crate) fn at(record: &Value, key: &str) -> u64 {
    record["metadata"][key].as_u64().unwrap_or_else(|| panic!("no {key} in {record}"))
}

/// Records in the order of their sessions.
pub(crate) fn by_session(done: &Done) -> Vec<Value> {
    let mut records = done.records();
    records.sort_by_key(|r| r["metadata"]["session_num"].as_u64());
    records
}

#[test]
fn a_run_without_any_stop_is_ten_requests() {
    let server = sim("ttft=0&itl=0");
    Run::profile(&url(&server)).run().expect_exit(0).ends(Tally::of(10, 0));
    assert_eq!(server.stop().requests, 10);
}

#[test]
fn a_count_is_kept_to_the_request_on_every_number_of_threads() {
    for args in ["--concurrency 3", "--concurrency 130 --workers-max 3", "--concurrency 50"] {
        let server = sim("ttft=1&itl=0");
        let done = Run::profile(&url(&server)).args("--request-count 41").args(args).run();
        done.expect_exit(0).ends(Tally::of(41, 0));
        let totals = server.stop();
        assert_eq!((totals.requests, totals.completed), (41, 41));
    }
}

#[test]
fn a_cap_on_sessions_lets_each_go_on_to_its_last_turn() {
    let row = |(s, t): (u32, u32)| format!("{{\"text\":\"{s} {t}\",\"session_id\":\"s{s}\"}}\n");
    let rows: Vec<String> = (0..5).flat_map(|session| (0..3).map(move |turn| row((session, turn)))).collect();
    let rows = rows.concat();
    for (caps, warmed, measured) in [
        ("--num-conversations 4", 0, 12),
        ("--num-sessions 4 --request-rate 10000 --concurrency 2", 0, 12),
        ("--num-conversations 4 --request-count 7", 0, 7),
        ("--num-conversations 2 --num-warmup-sessions 1", 3, 6),
    ] {
        let server = sim("ttft=0&itl=0");
        let start = Run::unseeded(&url(&server)).args("--random-seed 7 --input-file p.jsonl --workers-max 2");
        let done = start.args(caps).file("p.jsonl", &rows).run().expect_exit(0).ends(Tally::of(measured, 0));
        assert_eq!(server.stop().requests, warmed + measured, "{caps}");
        let sessions: BTreeSet<String> =
            done.records().iter().map(|r| r["metadata"]["conversation_id"].to_string()).collect();
        let most = if caps.contains("warmup") { 3 } else { 4 };
        assert!(sessions.len() <= most, "{caps}: {sessions:?}");
    }
}

#[test]
fn concurrency_is_reached_and_never_passed() {
    // Nothing is answered before four are there, so four were there at once.
    let go = Signal::new();
    let server = scripted(vec![Reply::new().wait_for(&go).step(Reply::chat("a", 1, 1).steps()[0].clone())]);
    let running = Run::profile(&server.url()).args("--request-count 12 --concurrency 4").start();
    server.wait_requests(4);
    assert_eq!(server.connections(), 4);
    go.raise();
    running.finish().expect_exit(0).ends(Tally::of(12, 0));

    let server = sim("ttft=5&itl=0");
    let run = Run::profile(&url(&server)).args("--request-count 40 --concurrency 4 --workers-max 2");
    run.run().expect_exit(0).ends(Tally::of(40, 0));
    let totals = server.stop();
    assert!((1..=4).contains(&totals.peak_running), "{totals:?}");
    assert!(totals.peak_connections <= 4, "{totals:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_first_of_many_streams_sends_before_the_last_one_starts() {
    // Else the first request of each would be stamped before the connections of all others were made, and their time counted.
    let server = sim("ttft=0&itl=0&truth");
    let run = Run::profile(&url(&server)).args("--request-count 200 --concurrency 200 --workers-max 1");
    let done = run.run().expect_exit(0).ends(Tally::of(200, 0));
    let (_, truth, _) = server.stop_with_truth();
    let clock = aiperf_os::anchor();
    let first = truth.iter().map(|t| clock.wall(t.arrival_ns)).min().expect("requests came");
    let last = done.records().iter().map(|r| at(r, "request_start_ns")).max().expect("requests left");
    assert!(first < last, "the first request came {} ns after the last had started", first - last);
}

#[test]
fn arrivals_are_the_schedule_that_plan_and_seed_make() {
    for (pattern, arrival) in [
        ("constant", Arrival::Constant),
        ("poisson", Arrival::Poisson),
        ("gamma --arrival-smoothness 2", Arrival::Gamma { smoothness: 2.0 }),
    ] {
        let server = sim("ttft=0&itl=0&truth");
        let done = Run::profile(&url(&server))
            .args("--request-count 20 --request-rate 100 --workers-max 2 --arrival-pattern")
            .args(pattern)
            .run()
            .expect_exit(0)
            .ends(Tally::of(20, 0))
            .shows(&["asked for 100.00 requests/s"]);
        let records = by_session(&done);
        let start = at(&records[0], "scheduled_ns");
        let offsets: Vec<u64> = records.iter().map(|r| at(r, "scheduled_ns") - start).collect();
        let expected: Vec<u64> = Arrivals::new(&RatePlan::steady(100.0), arrival, 7, 0).take(20).collect();
        assert_eq!(offsets, expected, "{pattern}");
        // None leaves before its time, and each came to the server, which read it no earlier.
        assert!(records.iter().all(|r| at(r, "scheduled_ns") <= at(r, "request_start_ns")));
        let (totals, truth, _) = server.stop_with_truth();
        let clock = aiperf_os::anchor();
        for record in &records {
            let id = record["metadata"]["x_request_id"].as_str();
            let seen = truth.iter().find(|t| t.x_request_id.as_deref() == id).expect("the server saw it");
            // Two processes read the wall clock a moment apart from the monotonic one.
            let arrival = clock.wall(seen.arrival_ns) + 5_000_000;
            assert!(arrival >= at(record, "scheduled_ns"), "{pattern}: {record}");
        }
        assert_eq!(totals.requests, 20);
        let seen: BTreeSet<&str> = truth.iter().filter_map(|t| t.x_request_id.as_deref()).collect();
        let sent = records.iter().map(|r| r["metadata"]["x_request_id"].as_str().expect("an id")).collect();
        assert_eq!(seen, sent);
    }
}

#[test]
fn a_rate_does_not_wait_for_answers() {
    // A closed loop would wait for ever for the first answer.
    let go = Signal::new();
    let server = scripted(vec![Reply::new().wait_for(&go).step(Reply::chat("a", 1, 1).steps()[0].clone())]);
    let run =
        Run::profile(&server.url()).args("--request-count 6 --request-rate 500 --arrival-pattern constant");
    let running = run.start();
    server.wait_requests(6);
    go.raise();
    running.finish().expect_exit(0).ends(Tally::of(6, 0));
}

#[test]
fn a_rate_with_a_concurrency_queues_what_comes_due() {
    let server = sim("ttft=3&itl=0");
    let done = Run::profile(&url(&server))
        .args("--request-count 8 --request-rate 2000 --arrival-pattern constant --concurrency 1")
        .run()
        .expect_exit(0)
        .ends(Tally::of(8, 0));
    assert_eq!(server.stop().peak_running, 1);
    let records = by_session(&done);
    for (before, after) in records.iter().zip(&records[1..]) {
        assert!(
            at(before, "request_end_ns") <= at(after, "request_start_ns"),
            "in order of arrival, one by one"
        );
        assert!(
            at(after, "scheduled_ns") < at(after, "request_start_ns"),
            "queued, with its own due time kept"
        );
    }
}

#[test]
fn a_duration_ends_the_sending_and_its_grace_the_waiting() {
    // One answer at once, then none for longer than duration and grace.
    let server = scripted(vec![Reply::chat("a", 1, 1), Reply::new().stall()]);
    let done = Run::profile(&server.url())
        .args("--benchmark-duration 2 --benchmark-grace-period 0.1 --concurrency 1")
        .run()
        .expect_exit(0)
        .ends(Tally::of(1, 0).cancelled(1));
    let last = &done.records()[1];
    assert_eq!(last["error"]["code"], 499);
    assert_eq!(last["error"]["type"], "RequestCancellationError");
    assert_eq!(last["metadata"]["was_cancelled"], true);
    assert!(
        at(last, "cancellation_time_ns") - at(last, "request_start_ns") > 100_000_000,
        "the grace was given"
    );
    assert_eq!(done.summary()["was_cancelled"], false, "the user did not stop it");

    // Several in flight: all of them are cancelled and nothing else.
    let server = sim("ttft=60000&truth");
    let done = Run::profile(&url(&server))
        .args("--benchmark-duration 0.6 --benchmark-grace-period 0 --concurrency 3")
        .run()
        .expect_exit(1)
        .ends(Tally::default().cancelled(3));
    assert!(done.records().iter().all(|r| r["error"]["code"] == 499));
    let (_, truth, _) = server.stop_with_truth();
    assert_eq!(truth.iter().filter(|t| t.outcome == TruthOutcome::ClientGone).count(), 3, "{truth:?}");
}

#[test]
fn what_came_due_and_found_no_place_is_unsent() {
    let server = scripted(vec![Reply::new().stall()]);
    let done = Run::profile(&server.url())
        .args("--request-rate 500 --arrival-pattern constant --concurrency 1")
        .args("--benchmark-duration 0.6 --benchmark-grace-period 0")
        .run()
        .expect_exit(1);
    let tally = done.tally();
    // Arrivals every 2 ms in [0, 600 ms).
    assert_eq!((tally.scheduled, tally.sent, tally.cancelled), (300, 1, 1), "{tally:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_came_due_while_the_client_slept_is_counted_all_the_same() {
    for turns in ["", "--conversation-turn-mean 2"] {
        let server = scripted(vec![Reply::new().stall()]);
        let running = Run::profile(&server.url())
            .args("--request-rate 500 --arrival-pattern constant --concurrency 1")
            .args("--benchmark-duration 0.4 --benchmark-grace-period 0")
            .args(turns)
            .start();
        server.wait_requests(1);
        running.signal("STOP");
        // Not to wait for anything: the time itself is what the client misses.
        std::thread::sleep(Duration::from_millis(500));
        running.signal("CONT");
        let done = running.finish().expect_exit(1);
        let tally = done.tally();
        assert_eq!((tally.scheduled, tally.sent, tally.cancelled), (200, 1, 1), "{turns}: {tally:?}");
    }
}

#[test]
fn a_session_goes_on_after_a_turn_that_failed() {
    let rows = "{\"text\":\"a\",\"session_id\":\"s\"}\n{\"text\":\"b\",\"session_id\":\"s\"}\n";
    let server = scripted(vec![Reply::json(500, "{}"), Reply::chat("c", 1, 1)]);
    let run =
        Run::unseeded(&server.url()).args("--input-file p.jsonl --request-count 2").file("p.jsonl", rows);
    run.run().expect_exit(0).ends(Tally::of(1, 1));
}

#[test]
fn a_grace_lets_answers_in() {
    // Each answer takes longer than the duration: no place sends a second request, and the grace waits for the first.
    let server = sim("ttft=900&itl=0");
    let done = Run::profile(&url(&server))
        .args("--benchmark-duration 0.6 --benchmark-grace-period inf --concurrency 2")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    assert!(done.stat("benchmark_duration", "avg") >= 0.9);
}

#[test]
fn a_warmup_is_sent_and_not_counted() {
    let server = sim("ttft=0&itl=0");
    let done = Run::profile(&url(&server))
        .args("--warmup-request-count 3 --request-count 5 --concurrency 2")
        .run()
        .expect_exit(0)
        .ends(Tally::of(5, 0));
    assert_eq!(server.stop().requests, 8);
    assert_eq!(done.summary()["request_latency"]["count"], 5);
    assert_eq!(done.summary()["warmup_metrics"]["request_count"]["avg"].as_f64(), Some(3.0));
    let phases: Vec<String> = done
        .records()
        .iter()
        .map(|r| r["metadata"]["benchmark_phase"].as_str().expect("a phase").to_owned())
        .collect();
    assert_eq!(phases.iter().filter(|p| *p == "warmup").count(), 3);
    assert_eq!(phases.iter().filter(|p| *p == "profiling").count(), 5);

    let server = sim("ttft=2&itl=0");
    let done = Run::profile(&url(&server))
        .args("--warmup-duration 0.6 --request-count 4")
        .run()
        .expect_exit(0)
        .ends(Tally::of(4, 0));
    let warmed = done.summary()["warmup_metrics"]["request_count"]["avg"].as_f64().expect("a count");
    assert!(warmed >= 1.0);
    assert_eq!(server.stop().requests, 4 + warmed as u64);
}

#[test]
fn the_same_seed_makes_the_same_run_and_another_seed_another() {
    let inputs = |seed: &str| {
        let server = sim("ttft=0&itl=0");
        let run = Run::unseeded(&url(&server))
            .args("--isl 30 --isl-stddev 8 --osl 4 --request-count 8 --random-seed");
        run.arg(seed).run().expect_exit(0).text("inputs.json")
    };
    let first = inputs("11");
    assert_eq!(first, inputs("11"));
    assert_ne!(first, inputs("12"));
}

#[test]
fn a_seed_nobody_gave_is_drawn_told_and_recorded() {
    let server = sim("ttft=0&itl=0");
    let run =
        |seed: &str| Run::unseeded(&url(&server)).args("--isl 20 --osl 2 --request-count 3").args(seed).run();
    let done = run("").expect_exit(0).says(&["Random seed drawn for this run: "]);
    let line = done.stderr.lines().find(|l| l.contains("Random seed drawn")).expect("the line");
    let seed = line.split_whitespace().find(|w| w.parse::<u64>().is_ok()).expect("a number").to_owned();
    let again = run(&format!("--random-seed {seed}")).expect_exit(0);
    assert!(!again.stderr.contains("drawn"), "{}", again.stderr);
    assert_eq!(done.text("inputs.json"), again.text("inputs.json"));
    assert!(done.summary()["run_info"].to_string().contains(&seed), "{}", done.summary()["run_info"]);
}

#[test]
fn prompts_have_the_length_that_was_asked_for() {
    let server = sim("ttft=0&itl=0&truth");
    let done = Run::unseeded(&url(&server))
        .args("--random-seed 3 --endpoint-type completions --isl 40 --osl 6 --request-count 5")
        .run()
        .expect_exit(0);
    for stat in ["min", "max"] {
        done.has("input_sequence_length", stat, 40.0);
        done.has("output_sequence_length", stat, 6.0);
    }
    let (_, truth, _) = server.stop_with_truth();
    assert!(truth.iter().all(|t| (t.prompt_tokens, t.completion_tokens) == (40, 6)), "{truth:?}");
}

#[test]
fn answers_that_end_early_bring_a_hint_unless_the_length_was_forced() {
    let server = sim("ttft=0&itl=0&eos=1");
    let run = || Run::profile(&url(&server)).args("--request-count 3 --streaming");
    let hint = "3 of 3 answers (100.0%) ended before the output length asked for";
    run().run().expect_exit(0).shows(&[hint, "--extra-inputs ignore_eos:true"]);
    let forced = run().args("--extra-inputs ignore_eos:true").run().expect_exit(0);
    assert!(!forced.stdout.contains("ended before the output length"), "{}", forced.stdout);
    forced.has("output_sequence_length", "min", 4.0);
}

#[test]
fn a_simulated_server_runs_inside_the_process() {
    let done =
        Run::profile("sim://?ttft=1&itl=0").args("--request-count 6 --concurrency 2 --streaming").run();
    let done = done.expect_exit(0).ends(Tally::of(6, 0));
    assert!(done.stat("time_to_first_token", "min") >= 1.0);
    let failing = Run::profile("sim://?ttft=0&faults=503:every=2").args("--request-count 6").run();
    failing.expect_exit(0).ends(Tally::of(3, 3));
}

#[test]
fn progress_is_plain_lines_where_there_is_no_terminal() {
    let server = sim("ttft=0&itl=0");
    let run = |ui: &str| {
        let start = "profile --model demo --tokenizer builtin --artifact-dir out --random-seed 1 --isl 8 --osl 4 --url";
        Run::new(start)
            .arg(url(&server))
            .args("--warmup-request-count 2 --request-count 5 --ui")
            .arg(ui)
            .run()
    };
    let done =
        run("simple").expect_exit(0).says(&["Warmup done: 2/2 requests", "Profiling done: 5/5 requests"]);
    assert!(!done.stderr.contains(['\u{1b}', '\r']), "{:?}", done.stderr);
    assert!(!done.stdout.contains('\u{1b}'), "{:?}", done.stdout);
    run("dashboard").expect_exit(0).says(&["the dashboard comes later", "Profiling done: 5/5 requests"]);
    // A crowded machine is warned of all the same.
    let quiet = run("none").expect_exit(0).stderr;
    assert!(quiet.lines().all(|line| line.contains("aiperf_run::finish - WARNING - ")), "{quiet}");
}
