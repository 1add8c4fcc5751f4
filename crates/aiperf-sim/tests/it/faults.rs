//! Each fault, streaming and not.

use aiperf_sim::TruthOutcome;
use serde_json::json;

use crate::client::{Client, End, Got};
use crate::{CHAT, chat, sim};

/// The answer under `faults`, and what the books say of it.
fn answer(faults: &str, stream: bool) -> (Result<Got, End>, TruthOutcome) {
    let server = sim(&format!("faults={faults}"));
    let mut client = Client::connect(server.addr());
    client.send("POST", CHAT, "", &chat(8, stream).to_string());
    let got = client.read();
    drop(client);
    let (totals, truth, _) = server.stop_with_truth();
    assert_eq!((totals.requests, truth.len()), (1, 1));
    let record = &truth[0];
    assert_eq!(totals.completed, u64::from(record.outcome == TruthOutcome::Completed));
    assert!(record.fault.is_some());
    (got, record.outcome)
}

fn faulty(faults: &str, stream: bool) -> Got {
    let (got, outcome) = answer(faults, stream);
    assert_eq!(outcome, TruthOutcome::Fault, "{faults}");
    got.expect("some answer")
}

#[test]
fn statuses() {
    for status in [400, 404, 429, 500, 503, 599] {
        for stream in [true, false] {
            let got = faulty(&status.to_string(), stream);
            assert_eq!((got.status, got.end), (status, End::Whole));
            assert_eq!(got.json()["error"]["code"], status);
            assert_eq!(got.head.contains("retry-after: 1\n"), matches!(status, 429 | 503), "{}", got.head);
        }
    }
    assert!(faulty("429:retry=7", false).head.contains("retry-after: 7\n"));
}

#[test]
fn broken_connections() {
    for stream in [true, false] {
        let (got, outcome) = answer("close", stream);
        assert_eq!((got.expect_err("no answer"), outcome), (End::Closed, TruthOutcome::Fault));
        let (got, outcome) = answer("reset", stream);
        assert_eq!((got.expect_err("no answer"), outcome), (End::Reset, TruthOutcome::Fault));
    }
    let got = faulty("reset:after=3", true);
    assert_eq!(got.end, End::Reset);
    let got = faulty("cut:after=3", true);
    assert_eq!((got.end, got.events().len()), (End::Closed, 4), "role and three tokens");
    let got = faulty("cut", false);
    assert_eq!(got.end, End::Closed);
    assert!(!got.body.is_empty() && serde_json::from_slice::<serde_json::Value>(&got.body).is_err());
}

#[test]
fn streams_that_end_too_soon() {
    let got = faulty("end:after=2", true);
    assert_eq!((got.end, got.events().len()), (End::Whole, 3));
    assert!(!got.text().contains("DONE") && !got.text().contains("\"finish_reason\":\""));
    let got = faulty("end", true);
    assert_eq!(got.events().len(), 5, "half-way without a place");
    let got = faulty("half-event:after=0", true);
    assert_eq!(got.end, End::Whole);
    let (whole, half) = got.text().rsplit_once("\n\n").expect("the role came whole");
    assert!(whole.starts_with("data: {") && half.starts_with("data: {") && !half.ends_with('}'));
}

#[test]
fn errors_inside_a_stream() {
    let got = faulty("error-event:after=1", true);
    let (_, last) = got.text().trim_end().rsplit_once("\n\n").expect("events");
    let data = last.strip_prefix("event: error\ndata: ").expect("an error event");
    let error: serde_json::Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(error["error"]["code"], 500);
    let got = faulty("error-data:after=1", true);
    assert_eq!(got.events().last().expect("events")["error"]["code"], 500);
    for kind in ["error-event", "error-data"] {
        let got = faulty(kind, false);
        assert_eq!((got.status, &got.json()["error"]["code"]), (200, &json!(500)));
    }
    let got = faulty("malformed:after=2", true);
    let broken = got
        .text()
        .split("\n\n")
        .filter_map(|e| e.strip_prefix("data: "))
        .filter(|d| *d != "[DONE]" && serde_json::from_str::<serde_json::Value>(d).is_err())
        .count();
    assert_eq!(broken, 1);
    assert!(got.text().ends_with("data: [DONE]\n\n"), "then on as usual");
    assert!(serde_json::from_slice::<serde_json::Value>(&faulty("malformed", false).body).is_err());
}

#[test]
fn answers_without_content() {
    let got = faulty("empty-choices", true);
    assert!(got.events().iter().skip(1).all(|e| e["choices"] == json!([])));
    assert_eq!(faulty("empty-choices", false).json()["choices"], json!([]));
    let got = faulty("role-only", true);
    assert_eq!(got.joined("content"), "");
    assert!(got.text().contains("\"role\":\"assistant\"") && got.text().ends_with("data: [DONE]\n\n"));
    assert_eq!(faulty("role-only", false).json()["choices"][0]["message"]["content"], "");
    for stream in [true, false] {
        let got = faulty("html", stream);
        assert!(got.head.contains("text/html") && got.text().starts_with("<!DOCTYPE html>"));
    }
}

#[test]
fn garbage_is_no_http() {
    let server = sim("faults=garbage");
    let mut stream = std::net::TcpStream::connect(server.addr()).expect("a server");
    let body = chat(1, true).to_string();
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("sent");
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut got).expect("closed, not reset");
    assert_eq!(&got[..4], b"\x16\x03\x01\x00");
}

#[test]
fn a_stall_lasts_until_somebody_leaves() {
    for (faults, stream, some) in
        [("stall:after=2", true, true), ("stall", true, false), ("stall:after=0", false, false)]
    {
        let server = sim(&format!("faults={faults}:at=0"));
        let mut stalled = Client::connect(server.addr());
        stalled.send("POST", CHAT, "", &chat(8, stream).to_string());
        if some {
            stalled.wait_for("\"content\":\" ");
        }
        // Meanwhile others are served.
        while server.totals().requests == 0 {
            std::thread::yield_now();
        }
        let mut other = Client::connect(server.addr());
        assert_eq!(other.post(CHAT, &chat(1, true)).status, 200);
        drop(stalled);
        while server.totals().faults == 0 {
            std::thread::yield_now();
        }
        let (_, truth, _) = server.stop_with_truth();
        let record = truth.iter().find(|r| r.index == 0).expect("its books");
        assert_eq!(record.outcome, TruthOutcome::Fault);
        assert_eq!(record.chunks_ns.len(), if some { 2 } else { 0 }, "{faults}");
    }
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let server = sim("ttft=60000");
    let mut client = Client::connect(server.addr());
    client.send("POST", CHAT, "", &chat(8, true).to_string());
    while server.totals().requests == 0 {
        std::thread::yield_now();
    }
    drop(client);
    while server.totals().client_gone == 0 {
        std::thread::yield_now();
    }
    let mut client = Client::connect(server.addr());
    client.send("POST", CHAT, "", &chat(8, false).to_string());
    while server.totals().requests < 2 {
        std::thread::yield_now();
    }
    let (totals, truth, _) = server.stop_with_truth();
    assert_eq!((totals.client_gone, totals.stopped), (1, 1));
    assert_eq!(truth[0].outcome, TruthOutcome::ClientGone);
    assert_eq!(truth[1].outcome, TruthOutcome::Stopped);
    assert!(client.read().is_err());
}

#[test]
fn delivery_changes_writes_and_not_bytes() {
    let body = |query: &str| {
        let server = sim(&format!("seed=9&{query}"));
        let got = Client::connect(server.addr()).post(CHAT, &chat(6, true));
        assert_eq!(got.end, End::Whole);
        let totals = server.stop();
        assert_eq!((totals.completed, totals.completion_tokens), (1, 6), "{query}");
        // The moment of the server's start is the only thing that may differ.
        let text =
            got.text().split("\"created\":").map(|p| p.trim_start_matches(|c: char| c.is_ascii_digit()));
        (text.collect::<Vec<_>>().join("\"created\":"), got.chunks.len())
    };
    let (plain, chunks) = body("");
    assert_eq!(chunks, 8);
    for (query, want) in [
        ("faults=join:size=3", 3),
        ("faults=join:size=100", 1),
        ("faults=split:size=7:gap=0", 16),
        ("faults=split:gap=0.1", 16),
        ("faults=bytes", 8),
        ("faults=slow-loris:gap=0.001", 8),
    ] {
        assert_eq!(body(query), (plain.clone(), want), "{query}");
    }
}

#[test]
fn joined_events_leave_before_the_stream_breaks() {
    let got = faulty("join:size=100,cut:after=3", true);
    assert_eq!((got.end, got.events().len(), got.chunks.len()), (End::Closed, 4, 1));
}

#[test]
fn nonsense_does_not_stop_the_server() {
    let server = sim("");
    for nonsense in
        [&b"\x00\xff\r\n\r\n"[..], b"GET", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"]
    {
        let mut stream = std::net::TcpStream::connect(server.addr()).expect("it listens");
        std::io::Write::write_all(&mut stream, nonsense).expect("sent");
        drop(stream);
    }
    assert_eq!(Client::connect(server.addr()).post(CHAT, &chat(2, true)).usage()["completion_tokens"], 2);
    assert_eq!(server.stop().requests, 1, "no other request was whole");
}

#[test]
fn faults_hit_the_requests_they_are_meant_for() {
    let statuses = |query: &str, n: usize| {
        let server = sim(query);
        let mut client = Client::connect(server.addr());
        (0..n).map(|_| client.post(CHAT, &chat(1, false)).status).collect::<Vec<_>>()
    };
    assert_eq!(statuses("faults=500:every=3", 6), [200, 200, 500, 200, 200, 500]);
    assert_eq!(statuses("faults=429:at=0%2B2,503:at=1", 4), [429, 503, 429, 200]);
    let drawn = statuses("faults=500:rate=0.3&seed=4", 200);
    assert_eq!(drawn, statuses("faults=500:rate=0.3&seed=4", 200), "the seed decides");
    let hit = drawn.iter().filter(|s| **s == 500).count();
    assert!((35..=85).contains(&hit), "{hit} of 200 at 0.3");
}
