//! The capture file: what arrived, byte by byte, with its count.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::Client;
use crate::{CHAT, COMPLETIONS, builtin, chat, sim};
use aiperf_sim::{Listen, SimConfig, SimError, start};

fn lines(path: &Path) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(path).expect("a file");
    text.lines().map(|l| (l.to_owned(), serde_json::from_str(l).expect("JSON"))).collect()
}

#[test]
fn every_request_is_kept_as_it_arrived() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.jsonl");
    let server = sim(&format!("capture={}&faults=500:at=1,reset:at=2", path.display()));
    let mut client = Client::connect(server.addr());
    let body =
        "{\n \"model\":\"m\", \"prompt\":\"caf\\u00e9\\/\", \"temperature\": 0.70,\n \"max_tokens\":2}";
    client.send(
        "POST",
        &format!("{COMPLETIONS}?x=1"),
        "X-Request-ID: abc\r\nX-Correlation-ID: s1\r\nAuthorization: Bearer k\r\nX-Api-Key: k\r\n",
        body,
    );
    assert_eq!(client.read().expect("an answer").status, 200);
    assert_eq!(client.post(CHAT, &chat(1, true)).status, 500);
    client.send("POST", CHAT, "", &chat(1, true).to_string());
    client.read().expect_err("reset");
    let mut client = Client::connect(server.addr());
    client.send("GET", "/v1/models", "", "");
    client.read().expect("a page");
    client.send("POST", COMPLETIONS, "", "no JSON\n");
    assert_eq!(client.read().expect("an answer").status, 400);
    let text = "To be, or not to be: that is the question. ".repeat(100);
    let prompts = json!({"model": "m", "prompt": text, "max_tokens": 1});
    client.post(COMPLETIONS, &prompts);
    client.post("/tokenize", &json!({"prompt": "a b"}));
    let (_, truth, written) = server.stop_with_truth();
    written.expect("the file is whole");

    let lines = lines(&path);
    assert_eq!(lines.len(), 7);
    let column = |name: &str| lines.iter().map(|(_, v)| v[name].clone()).collect::<Vec<_>>();
    assert_eq!(json!(column("index")), json!([0, 1, 2, 3, 4, 5, 6]));
    assert_eq!(json!(column("request")), json!([0, 1, 2, null, 3, 4, null]));
    assert_eq!(
        json!(column("path")),
        json!(["/v1/completions?x=1", CHAT, CHAT, "/v1/models", COMPLETIONS, COMPLETIONS, "/tokenize"])
    );
    let count = |text: &str| builtin().count(text);
    assert_eq!(
        json!(column("prompt_tokens")),
        json!([count("caf\u{e9}/"), null, null, null, null, count(&text), count("a b")])
    );
    assert!(column("wall_ns").iter().map(|v| v.as_u64().expect("a time")).collect::<Vec<_>>().is_sorted());
    let (raw, first) = &lines[0];
    assert!(raw.ends_with(&format!("\"body\":{}}}", body.replace('\n', " "))), "{raw}");
    assert_eq!((&first["method"], &first["x_request_id"]), (&json!("POST"), &json!("abc")));
    assert_eq!(first["headers"]["x-correlation-id"], "s1");
    assert!(!raw.to_lowercase().contains("authorization") && !raw.contains("api-key"), "{raw}");
    assert_eq!(lines[1].1["body"], chat(1, true));
    assert_eq!((&lines[3].1["body"], &lines[4].1["body"]), (&json!(""), &json!("no JSON\n")));
    // The truth log's numbers lead to the same requests.
    let record = truth.iter().find(|r| r.index == 4).expect("the last one");
    assert_eq!(json!(record.prompt_tokens), lines[5].1["prompt_tokens"]);
}

#[test]
fn an_idle_server_leaves_nothing_in_its_buffer() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.jsonl");
    let server = sim(&format!("capture={}", path.display()));
    Client::connect(server.addr()).post(CHAT, &chat(1, false));
    // Ends only if the server writes while it runs.
    while std::fs::read_to_string(&path).expect("a file").is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(lines(&path)[0].1["body"], chat(1, false));
    drop(server);
    assert_eq!(lines(&path).len(), 1);
}

#[test]
fn requests_that_never_end_do_not_hold_back_the_rest() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("capture.jsonl");
    let server = sim(&format!("capture={}&faults=stall:at=0", path.display()));
    let mut stalled = Client::connect(server.addr());
    stalled.send("POST", CHAT, "", &chat(1, false).to_string());
    while server.totals().requests == 0 {
        std::thread::yield_now();
    }
    Client::connect(server.addr()).post(CHAT, &chat(2, false));
    while lines(&path).len() < 2 {
        std::thread::yield_now();
    }
    server.stop();
    drop(stalled);
}

#[test]
fn a_file_that_cannot_be_opened_stops_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("no/such.jsonl");
    let mut config = SimConfig::from_query("").expect("good settings");
    config.set("capture", path.to_str().expect("UTF-8")).expect("any path");
    let error = start(config, builtin(), Listen::loopback()).expect_err("no such folder");
    assert!(matches!(&error, SimError::Capture { path: p, .. } if *p == path), "{error}");
}
