//! Ctrl-C: once stops and writes, twice ends at once; and the simulated server as a process of its own.

use std::process::Command;

use aiperf_sim::scripted::Reply;

use crate::support::{Run, Tally, scripted};

#[test]
fn the_first_interrupt_stops_drains_and_writes() {
    let answer = || Reply::chat("a", 1, 1);
    let server = scripted(vec![answer(), answer(), answer(), Reply::new().stall()]);
    let running = Run::profile(&server.url()).args("--request-count 50").start();
    server.wait_requests(4);
    running.signal("INT");
    let done = running
        .finish()
        .expect_exit(130)
        .says(&["Stopping: "])
        .shows(&["The run was cancelled", "(cancelled early)"])
        .ends(Tally::of(3, 0).cancelled(1));
    let summary = done.summary();
    assert_eq!(summary["was_cancelled"], true);
    assert_eq!(summary["request_latency"]["count"], 3);
    assert_eq!(done.records()[3]["error"]["code"], 499);
    for file in ["profile_export_aiperf.csv", "profile_export_console.txt", "inputs.json", "logs/aiperf.log"]
    {
        assert!(done.path(file).is_file(), "{file}");
    }
    assert!(!done.inputs().is_empty());
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_request_to_terminate_is_an_interrupt() {
    let server = scripted(vec![Reply::chat("a", 1, 1), Reply::new().stall()]);
    let running = Run::profile(&server.url()).args("--request-rate 1000 --request-count 100000").start();
    server.wait_requests(3);
    running.signal("TERM");
    let done = running.finish().expect_exit(130);
    assert_eq!(done.summary()["was_cancelled"], true);
    // The first is answered or cut off like those behind it, whatever comes first.
    let tally = done.tally();
    assert!(tally.completed <= 1 && tally.cancelled >= 2 && tally.failed == 0, "{tally:?}");
    assert!(tally.scheduled < 100_000, "what had not come due is not counted: {tally:?}");
}

#[test]
fn an_interrupt_in_the_warmup_leaves_an_empty_measurement() {
    let server = scripted(vec![Reply::new().stall()]);
    let running = Run::profile(&server.url()).args("--warmup-request-count 2 --request-count 5").start();
    server.wait_requests(1);
    running.signal("INT");
    let done = running.finish().expect_exit(130).ends(Tally::default());
    assert_eq!(done.summary()["was_cancelled"], true);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_second_interrupt_ends_at_once() {
    let server = scripted(vec![Reply::new().stall()]);
    let run = Run::profile(&server.url()).file("out/.keep", "");
    // Opening a pipe that nobody reads never returns: without the second Ctrl-C the run would wait at its CSV for ever.
    let pipe = run.home().join("out/profile_export_aiperf.csv.part");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let running = run.start();
    server.wait_requests(1);
    running.signal("INT");
    running.wait_stderr("Stopping: ");
    running.signal("INT");
    let done = running.finish().expect_exit(130);
    assert!(!done.path("profile_export_aiperf.csv").exists());
    assert_eq!(done.stdout, "");
}

#[test]
fn the_simulated_server_is_a_process_that_ctrl_c_ends() {
    let server = Run::new("sim --port 0 --ttft 0 --itl 0 --models demo --truth-log truth.jsonl").start();
    let line = server.wait_stdout("Simulated server on http://");
    let url = line.split_whitespace().find(|w| w.starts_with("http://")).expect("an address").to_owned();
    Run::profile(&url).args("--request-count 5 --streaming").run().expect_exit(0).ends(Tally::of(5, 0));
    let other =
        Run::new("profile --model other --tokenizer builtin --ui none --artifact-dir out --url").arg(&url);
    other.args("--request-count 2 --isl 4").run().expect_exit(1).ends(Tally::of(0, 2)).shows(&["404"]);
    server.signal("INT");
    let done = server.finish().expect_exit(0);
    let totals = "7 requests: 5 answered, 2 refused, 0 faults, 0 left by the client, 0 cut by the stop";
    assert!(done.stdout.contains(totals), "{}", done.stdout);
    let truth = std::fs::read_to_string(done.home.path().join("truth.jsonl")).expect("the log");
    assert_eq!(truth.lines().count(), 8, "a header and a line for each request");
}
