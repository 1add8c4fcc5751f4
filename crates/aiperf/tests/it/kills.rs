//! What ends before its time: requests dropped on purpose, runs with too many failures, a server that dies, a client that gets no
//! core. Interrupts are with the load.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use aiperf_core::plan::Cancellation;
use aiperf_load::CancelDraw;
use aiperf_sim::scripted::Reply;
use serde_json::Value;

use crate::load::{at, by_session};
use crate::support::{Done, Run, Tally, cycling, scripted, sim, url};

fn failed_reply() -> Reply {
    Reply::json(500, r#"{"error":{"message":"no"}}"#)
}

/// Number of the session and turn of each record that was cancelled.
fn cancelled(done: &Done) -> Vec<(u64, u64)> {
    let of = |r: &&Value| r["metadata"]["outcome"] == "cancelled";
    let mut cancelled: Vec<(u64, u64)> =
        by_session(done).iter().filter(of).map(|r| (at(r, "session_num"), at(r, "turn_index"))).collect();
    cancelled.sort_unstable();
    cancelled
}

#[test]
fn a_request_dropped_at_once_was_sent_whole() {
    let server = scripted(vec![Reply::new().stall()]);
    let done = Run::profile(&server.url())
        .args("--request-cancellation-rate 100 --request-count 6 --concurrency 2")
        .run()
        .expect_exit(1)
        .ends(Tally::default().cancelled(6));
    for record in done.records() {
        assert_eq!(record["error"]["code"], 499);
        assert_eq!(record["error"]["type"], "RequestCancellationError");
        assert_eq!(record["metadata"]["was_cancelled"], true);
        assert!(at(&record, "cancellation_time_ns") >= at(&record, "request_start_ns"));
    }
    assert_eq!(done.summary()["was_cancelled"], false, "it went as it was planned");
    let seen = server.wait_requests(6);
    assert_eq!((seen.len(), server.connections()), (6, 6), "such a connection is never used again");
    for request in seen {
        let body: Value = serde_json::from_slice(&request.body).expect("a whole body");
        assert_eq!(body["model"], "demo");
    }
}

#[test]
fn the_seed_says_which_requests_are_dropped_and_conversations_go_on() {
    for pace in ["--concurrency 1", "--concurrency 4 --workers-max 2", "--request-rate 1000"] {
        // Long beside what it takes to drop a request.
        let server = sim("ttft=60&itl=0");
        let done = Run::profile(&url(&server))
            .args("--request-cancellation-rate 40 --conversation-turn-mean 3 --num-sessions 8")
            .args("--num-warmup-sessions 2 --warmup-concurrency 2")
            .args(pace)
            .run()
            .expect_exit(0);
        // The warm-up is phase 0, and drops none.
        let draw = CancelDraw::new(Cancellation { share: 0.4, delay_ns: 0 }, 7, 1);
        let all = (0..8).flat_map(|session| (0..3).map(move |turn| (session, turn)));
        let expected: Vec<(u64, u64)> =
            all.filter(|(session, turn)| draw.after_ns(*session, *turn as u32).is_some()).collect();
        assert!((1..24).contains(&expected.len()));
        assert_eq!(cancelled(&done), expected, "{pace}");
        let n = expected.len() as u64;
        done.ends(Tally::of(24 - n, 0).cancelled(n));
        assert_eq!(server.stop().completed, 6 + 24 - n, "{pace}");
    }
    // What is answered before its delay is over is not dropped.
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    Run::profile(&server.url())
        .args("--request-cancellation-rate 100 --request-cancellation-delay 600 --request-count 5")
        .run()
        .expect_exit(0)
        .ends(Tally::of(5, 0));
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_dropped_turn_leaves_no_reply_in_its_conversation() {
    let server = scripted(vec![Reply::new().stall()]);
    let done = Run::profile(&server.url())
        .args("--request-cancellation-rate 100 --conversation-turn-mean 3 --num-sessions 1")
        .run()
        .expect_exit(1)
        .ends(Tally::default().cancelled(3));
    assert_eq!(cancelled(&done), [(0, 0), (0, 1), (0, 2)]);
    // Each has a connection of its own, and the server may read them in any order.
    let seen: Vec<Value> = server
        .wait_requests(3)
        .iter()
        .map(|request| serde_json::from_slice(&request.body).expect("a whole body"))
        .collect();
    let messages = |body: &Value| body["messages"].as_array().expect("a list").clone();
    let last = seen.iter().map(messages).max_by_key(Vec::len).expect("requests");
    let roles: Vec<&Value> = last.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "user", "user"]);
}

#[test]
fn too_many_failures_stop_the_run_and_what_was_measured_is_written() {
    for pace in ["--concurrency 2", "--request-rate 300 --concurrency 2"] {
        let server = cycling(vec![failed_reply(), Reply::chat("a", 1, 1)]);
        let done = Run::profile(&server.url())
            .args("--failed-request-threshold 0.1 --request-count 100000")
            .args(pace)
            .run()
            .expect_exit(1)
            .says(&["requests had failed, which is above --failed-request-threshold"])
            .shows(&["Incomplete results"]);
        let tally = done.tally();
        assert!(tally.sent >= 10 && tally.sent < 100_000, "{pace}: {tally:?}");
        assert!(tally.completed > 0 && tally.failed > 0 && tally.lost == 0, "{pace}: {tally:?}");
        for file in ["profile_export_aiperf.csv", "profile_export_console.txt", "inputs.json"] {
            assert!(done.path(file).is_file(), "{file}");
        }
    }
    // With a wider limit of places it waits for as many records.
    let server = scripted(vec![failed_reply()]);
    let run =
        Run::profile(&server.url()).args("--failed-request-threshold 0 --concurrency 1 --request-count 9");
    run.run().expect_exit(1).ends(Tally::of(0, 9));
}

#[test]
fn as_many_failures_as_allowed_stop_nothing() {
    let server = cycling(vec![Reply::chat("a", 1, 1), failed_reply()]);
    let run = Run::profile(&server.url()).args("--failed-request-threshold 0.5 --request-count 40");
    run.run().expect_exit(0).ends(Tally::of(20, 20));
}

/// Whole answers that a simulated server tells of.
fn answered(addr: &str) -> u64 {
    let mut stream = TcpStream::connect(addr).expect("it listens");
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    let rows = page.lines().filter(|line| line.starts_with("vllm:request_success_total{"));
    rows.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn a_server_that_is_killed_fails_what_comes_after_and_the_run_ends() {
    let server = Run::new("sim --port 0 --ttft 1 --itl 0").start();
    let line = server.wait_stdout("Simulated server on http://");
    let address = line.split_whitespace().find(|w| w.starts_with("http://")).expect("an address").to_owned();
    let running = Run::profile(&address)
        .args("--request-rate 300 --arrival-pattern constant --request-count 900 --streaming")
        .start();
    let host = address.trim_start_matches("http://").trim_end_matches('/').to_owned();
    while answered(&host) < 20 {
        // Each look is a request of its own, so that this waits for the server.
    }
    server.signal("KILL");
    server.finish().expect_exit(-1);
    let gone = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let done = running.finish().expect_exit(0);
    let tally = done.tally();
    assert_eq!((tally.scheduled, tally.sent, tally.lost, tally.cancelled), (900, 900, 0, 0), "{tally:?}");
    // What it had written last may be lost on the way.
    assert!(tally.completed >= 10, "{tally:?}");
    // The clock of records is the wall clock of their start; leave it some room.
    let later: Vec<Value> =
        done.records().into_iter().filter(|r| at(r, "request_start_ns") > gone + 50_000_000).collect();
    assert!(!later.is_empty(), "it was killed in the first moments of three seconds");
    for record in later {
        assert_eq!(record["error"]["type"], "ClientConnectorError", "{record}");
        assert!(record["error"]["message"].as_str().is_some_and(|m| m.contains("refused")), "{record}");
    }
    assert_eq!(done.summary()["was_cancelled"], false);
    assert!(done.summary()["load_health"]["phases"][0]["connections"]["refused"].as_u64() > Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_client_without_a_core_says_so() {
    // Eight busy loops of equal right on the only core that the client may use. They end with the script, whatever ends it.
    let script = r#"
        cpu=$(taskset -pc $$ | sed 's/.*: //; s/[,-].*//')
        taskset -pc "$cpu" $$ >/dev/null
        busy=""
        for i in 1 2 3 4 5 6 7 8; do
            (while kill -0 $$ 2>/dev/null; do :; done) >/dev/null 2>&1 &
            busy="$busy $!"
        done
        "$0" "$@"; code=$?
        kill $busy
        exit $code"#;
    // Another process, on any core.
    let server = sim("ttft=0&itl=0");
    let done = Run::profile(&url(&server))
        .args("--request-rate 500 --arrival-pattern constant --request-count 500 --workers-max 1")
        .script(script)
        .run()
        .expect_exit(0)
        .ends(Tally::of(500, 0));
    let health = &done.summary()["load_health"];
    assert_eq!(health["verdict"]["limit"], "client", "{}", health["verdict"]);
    let codes: Vec<&Value> =
        health["warnings"].as_array().expect("a list").iter().map(|w| &w["code"]).collect();
    assert!(codes.iter().any(|code| **code == "client_saturated"), "{codes:?}");
    done.shows(&["The client was the limit: "]);
}
