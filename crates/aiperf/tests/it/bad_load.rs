//! Load that cannot be: told before anything is sent or made, with the flag or the line that asked for it, by exit code 2.

use aiperf_sim::scripted::Reply;

use crate::support::{Run, scripted};

/// Refused with these words, and nothing made.
#[track_caller]
fn refused(run: Run, texts: &[&str]) {
    let done = run.run().expect_exit(2).says(texts);
    assert_eq!(done.stdout, "");
    assert!(done.made().is_empty(), "made {:?}", done.made());
}

/// A run whose address nobody listens at: it must not come to that.
fn run(args: &str) -> Run {
    Run::profile("http://127.0.0.1:1").args(args)
}

/// A run of a configuration file with these phases.
fn phases(list: &str) -> Run {
    let text = format!("benchmark:\n  model: demo\n  phases:\n{list}");
    Run::new("profile -f c.yaml --artifact-dir out --tokenizer builtin").file("c.yaml", text)
}

#[test]
fn limits_ramps_and_stops_are_held_together() {
    for (args, texts) in [
        (
            "--prefill-concurrency 1",
            ["--prefill-concurrency needs --streaming", "no first token to wait for"],
        ),
        (
            "--streaming --concurrency 2 --prefill-concurrency 3",
            ["--prefill-concurrency: found '3'", "allowed: a whole number up to the concurrency, 2"],
        ),
        (
            "--concurrency-ramp-from 9",
            ["--concurrency-ramp-from needs --concurrency-ramp-duration", "a ramp takes its time"],
        ),
        (
            "--request-rate-ramp-duration 9",
            ["--request-rate-ramp-duration needs a request rate", "there is none to come to"],
        ),
        (
            "--saturation-policy abort",
            ["--saturation-policy needs --request-rate", "come too early for a place"],
        ),
        (
            "--request-cancellation-delay 1",
            ["--request-cancellation-delay needs --request-cancellation-rate", "are dropped"],
        ),
        (
            "--failed-request-threshold 2",
            ["--failed-request-threshold: found '2'", "allowed: a number from 0 to 1"],
        ),
        ("--max-in-flight 0", ["--max-in-flight: found '0'", "allowed: a whole number from 1"]),
    ] {
        refused(run(args), &texts);
    }
}

#[test]
fn two_ways_to_pace_exclude_each_other() {
    let users = "--user-centric-rate 5 --num-users 4 --conversation-turn-mean 2";
    for (args, texts) in [
        ("--fixed-schedule", ["--fixed-schedule needs --input-file", "the timestamps are those of its rows"]),
        (
            "--fixed-schedule-end-offset 3",
            ["--fixed-schedule-end-offset needs --fixed-schedule", "timestamps of a file"],
        ),
        ("--num-users 4", ["--num-users needs --user-centric-rate", "send at that rate together"]),
        (
            "--user-centric-rate 5 --num-users 4",
            ["--user-centric-rate needs --conversation-turn-mean of at least 2", "single turns"],
        ),
        (
            &format!("{users} --request-rate 3"),
            ["--request-rate and --user-centric-rate exclude each other", "drop one of the two"],
        ),
        (
            &format!("{users} --request-count 3"),
            ["--request-count: found '3'", "a whole number from 4, one for each of the users"],
        ),
    ] {
        refused(run(args), &texts);
    }
    let timed = |args: &str| {
        Run::unseeded("http://127.0.0.1:1")
            .args("--input-file p.jsonl --fixed-schedule")
            .args(args)
            .file("p.jsonl", "{\"text\":\"a\",\"timestamp\":3}\n")
    };
    refused(timed("--request-rate 3"), &["--request-rate and --fixed-schedule exclude each other"]);
    refused(timed("--no-fixed-schedule"), &["--fixed-schedule and --no-fixed-schedule exclude each other"]);
    refused(
        timed("--fixed-schedule-start-offset 9 --fixed-schedule-end-offset 8"),
        &["--fixed-schedule-end-offset: found '8'; allowed: milliseconds from the start offset, 9"],
    );
}

#[test]
fn a_rate_series_is_told_by_its_file_and_point() {
    refused(
        run("--request-rate-series none.json"),
        &["--request-rate-series: the file none.json cannot be read"],
    );
    for (text, problem) in [
        ("[", "the file s.json is not valid JSON: EOF while parsing a list at line 1 column 1"),
        (
            "[{\"time_s\": 0, \"qps\": 3}]",
            "the file s.json does not hold a rate series: found one point alone",
        ),
        (
            "[{\"time_s\": 5, \"qps\": 3}, {\"time_s\": 5, \"qps\": 4}]",
            "found points[1].time_s, which is not later than that of points[0]",
        ),
        (
            "[{\"time_s\": 5, \"qps\": 3}, {\"time_s\": 6, \"qps\": 0}]",
            "found points[1].qps 0, which is not from 0.000001",
        ),
    ] {
        refused(run("--request-rate-series s.json").file("s.json", text), &[problem]);
    }
}

#[test]
fn phases_of_a_file_are_refused_by_line_and_name() {
    for (list, texts) in [
        (
            "    - {name: w, kind: warmup, requests: 2}\n",
            [
                "c.yaml:4:5: benchmark.phases needs a phase of kind profiling",
                "a warmup alone measures nothing",
            ],
        ),
        (
            "    - {name: a, requests: 2}\n",
            ["c.yaml:4:7: benchmark.phases[0] needs a kind", "'kind: warmup' or 'kind: profiling'"],
        ),
        (
            "    - {name: a, kind: profiling, requests: 2}\n    - {name: A, kind: profiling, requests: 2}\n",
            [
                "c.yaml:5:14: benchmark.phases[1].name: found the name 'A' twice",
                "a different name for each phase",
            ],
        ),
        (
            "    - {name: a, kind: profiling, requests: 2, seamless: true}\n",
            ["c.yaml:4:57: benchmark.phases.a.seamless: found true for the first phase", "one before it"],
        ),
        (
            "    - {name: a, kind: profiling, requests: 2}\n    - {name: b, kind: profiling}\n",
            [
                "c.yaml:5:7: benchmark.phases[1] needs requests, sessions or duration",
                "would never let the next one begin",
            ],
        ),
        (
            "    - {name: a, kind: profiling, requests: 2, concurency: 3}\n",
            [
                "c.yaml:4:47: benchmark.phases.a: there is no key 'concurency' here",
                "did you mean 'concurrency'?",
            ],
        ),
    ] {
        refused(phases(list), &texts);
    }
    let several =
        "    - {name: a, kind: profiling, requests: 2}\n    - {name: b, kind: profiling, requests: 2}\n";
    refused(
        phases(several).args("--concurrency 4"),
        &[
            "--concurrency is for one profiling phase, and the file has several: a, b; say it in the phase that is meant",
        ],
    );
}

#[test]
fn servers_and_connections_that_cannot_be_are_refused() {
    for (args, texts) in [
        ("--url sim://", ["--url: found sim:// beside other servers", "`aiperf sim` starts others"]),
        (
            "--url http://b --url-weights 1,2,3",
            ["--url-weights: found 3 weights", "one for each of the 2 servers"],
        ),
        (
            "--url http://b --url-strategy weighted",
            ["--url-strategy needs --url-weights", "which share of the sessions"],
        ),
        ("--http-version 3", ["--http-version: found '3'", "allowed: 1.1, 2"]),
        (
            "--unix-socket s --proxy-from-env",
            ["--unix-socket and --proxy-from-env exclude each other", "drop one of the two"],
        ),
        ("--ca-file none.pem", ["--ca-file: the file none.pem", "does not exist"]),
        ("--client-key none.pem", ["--client-key: the file none.pem", "does not exist"]),
        (
            "--first-token-timeout-seconds 1",
            ["--first-token-timeout-seconds needs --streaming", "limits the whole"],
        ),
    ] {
        refused(run(args), &texts);
    }
}

#[test]
fn nothing_is_sent_when_one_of_several_servers_is_wrong() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    refused(
        Run::profile(&server.url()).args("--url ftp://b"),
        &["--url: found 'ftp://b', which has the scheme 'ftp'"],
    );
    assert_eq!(server.connections(), 0);
}
