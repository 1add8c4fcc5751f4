//! `aiperf doctor` as users run it, in little time: what it says is there and fits together, whatever the figures are.

use serde_json::Value;

use crate::support::{Done, Run};

/// A tiny examination.
fn doctor(args: &str) -> Run {
    Run::new("doctor --duration-seconds 0.5 --workers-max 1").args(args)
}

#[track_caller]
fn json(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}\n{}\n{}", done.stdout, done.stderr))
}

#[track_caller]
fn list<'a>(found: &'a Value, pointer: &str) -> &'a Vec<Value> {
    found.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("no list {pointer} in {found}"))
}

#[track_caller]
fn number(found: &Value, pointer: &str) -> f64 {
    found.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {pointer} in {found}"))
}

/// A count, or a rate that was asked for as one.
#[track_caller]
fn whole(found: &Value, pointer: &str) -> u64 {
    number(found, pointer) as u64
}

#[test]
fn a_machine_is_examined_from_end_to_end_and_nothing_is_left_behind() {
    let done = doctor("--rates 300,100 --streams 20,5 --json").run().expect_exit(0);
    assert!(done.made().is_empty(), "{:?}", done.made());
    let found = json(&done);
    assert_eq!(found["interrupted"], false);
    assert!(number(&found, "/machine/cores") >= 1.0);
    for peak in ["/requests", "/chunks"] {
        assert!(number(&found, &format!("{peak}/per_second")) > 0.0);
        assert_eq!(whole(&found, &format!("{peak}/workers")), 1);
        assert!(number(&found, &format!("{peak}/cost/client_us")) > 0.0);
        assert!(number(&found, &format!("{peak}/cost/server_us")) > 0.0, "the server is told apart");
        assert!(!found.pointer(peak).expect("a peak")["reason"].as_str().expect("a text").is_empty());
    }
    // All that were asked for, in order; higher ones only behind them.
    let rates: Vec<u64> = list(&found, "/rates").iter().map(|step| whole(step, "/asked")).collect();
    assert_eq!(rates[..2], [100, 300], "{rates:?}");
    assert!(rates.is_sorted());
    for step in list(&found, "/rates") {
        assert!(number(step, "/sent") >= 1.0);
        assert!(number(step, "/send_lag/max_ms") >= number(step, "/send_lag/p50_ms"));
    }
    let streams: Vec<u64> = list(&found, "/streams").iter().map(|step| whole(step, "/asked")).collect();
    assert_eq!(streams, [5, 20]);
    for step in list(&found, "/streams") {
        assert_eq!(whole(step, "/completed") + whole(step, "/failed"), whole(step, "/asked"));
        assert!(number(step, "/held") >= 1.0 && number(step, "/held") <= number(step, "/asked"));
        assert!(number(step, "/gap_error/p99_ms") >= number(step, "/gap_error/p50_ms"));
    }
    // Only the time may have been short: for rates that nobody asked for.
    for left in list(&found, "/left_out") {
        assert!(left["what"].as_str().is_some_and(|what| what.starts_with("rates from ")), "{left}");
    }
    assert!(list(&found, "/advice").iter().all(Value::is_string));
}

#[test]
fn the_text_has_every_section() {
    let done = doctor("--rates 200 --streams 3").run().expect_exit(0).shows(&[
        "This machine",
        "cores allowed",
        "clock",
        "exact timers",
        "open files",
        "local ports",
        "kernel receive stamps",
        "CPU pressure",
        "load",
        "Highest rate of requests",
        "Highest rate of chunks",
        "CPU us a chunk: sending threads",
        "Sends at a rate",
        "Streams at once",
        "3 asked,",
        "read lag",
    ]);
    assert!(done.made().is_empty());
    done.says(&["Measuring streams, 3 at once", "Measuring sends at 200 a second"]);
}

#[cfg(unix)]
#[test]
fn a_low_limit_of_open_files_is_kept_and_told() {
    let script = "ulimit -n 100; exec \"$0\" \"$@\"";
    let done = doctor("--rates 50 --streams 10,1000 --json").script(script).run().expect_exit(0);
    let found = json(&done);
    assert_eq!(whole(&found, "/machine/descriptors/used"), 100);
    // The others are files, timers and pipes.
    let allowed = 60;
    let streams: Vec<u64> = list(&found, "/streams").iter().map(|step| whole(step, "/asked")).collect();
    assert_eq!(streams, [10, allowed]);
    assert_eq!(whole(&found, "/requests/at_once"), allowed);
    let left = list(&found, "/left_out");
    assert!(left.iter().any(|left| left["what"] == "1000 streams"), "{left:?}");
    let advice = list(&found, "/advice");
    assert!(advice.iter().any(|a| a.as_str().is_some_and(|a| a.contains("limited to 100,"))), "{advice:?}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_with_what_was_measured() {
    let running =
        Run::new("doctor --duration-seconds 3600 --rates 100 --streams 1 --workers-max 1 --json").start();
    running.wait_stderr("Measuring streams, 1 at once");
    running.signal("INT");
    let done = running.finish().expect_exit(130);
    assert!(done.made().is_empty());
    let found = json(&done);
    assert_eq!((&found["interrupted"], &found["requests"]), (&Value::Bool(true), &Value::Null));
    assert!(number(&found, "/machine/cores") >= 1.0);
    assert!(list(&found, "/rates").is_empty());
}

#[test]
fn options_without_sense_are_refused() {
    for (args, words) in [
        ("--duration-seconds 0", "seconds are from 0.1 to 3600"),
        ("--duration-seconds soon", "seconds are from 0.1 to 3600"),
        ("--rates 100,-5", "rates are from 0.1 to 1000000"),
        ("--rates nan", "rates are from 0.1 to 1000000"),
        ("--streams 0", "0 is not in 1..=1000000"),
        ("--workers-max 0", "0 is not in 1..=65535"),
        ("--url http://127.0.0.1", "unexpected argument '--url'"),
    ] {
        let done = Run::new("doctor").args(args).run().expect_exit(2).says(&[words]);
        assert!(done.stdout.is_empty() && done.made().is_empty(), "{args}");
    }
}

#[cfg(unix)]
#[test]
fn what_cannot_be_measured_is_an_error() {
    // Fewer than one connection of a run needs.
    let script = "ulimit -n 30; exec \"$0\" \"$@\"";
    let done = doctor("--rates 50 --streams 10").script(script).run().expect_exit(1).says(&["open files"]);
    assert!(done.stdout.is_empty() && done.made().is_empty());
}
