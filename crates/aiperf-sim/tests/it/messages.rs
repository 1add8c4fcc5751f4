//! Anthropic's messages: blocks, events, counts, failures.

use std::sync::Arc;

use aiperf_sim::{Listen, SimConfig, TruthOutcome, start};
use aiperf_tokens::{TemplateClock, count_chat};
use serde_json::{Value, json};

use crate::client::{Client, End, Got};
use crate::templated::Templated;
use crate::{MESSAGES, builtin, message, sim};

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

fn joined(events: &[(String, Value)], field: &str) -> String {
    events.iter().filter_map(|(_, data)| data["delta"][field].as_str()).collect()
}

#[test]
fn a_stream_has_every_step_in_its_order() {
    let server = sim("");
    let got = Client::connect(server.addr()).post(MESSAGES, &message(3, true));
    assert_eq!((got.status, got.end), (200, End::Whole));
    assert!(got.head.contains("content-type: text/event-stream"), "{}", got.head);
    let events = got.named();
    let delta = "content_block_delta";
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "ping",
            delta,
            delta,
            delta,
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert!(events.iter().all(|(name, data)| data["type"] == *name));
    assert_eq!(builtin().count(&joined(&events, "text")), 3);
    let prompt = builtin().count("Why is the sky blue?");
    let usage = |output: u64| json!({"input_tokens": prompt, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output});
    let begun = &events[0].1["message"];
    assert!(begun["id"].as_str().is_some_and(|id| id.starts_with("msg_")));
    assert_eq!(
        *begun,
        json!({"id": begun["id"], "type": "message", "role": "assistant", "model": "m", "content": [],
               "stop_reason": null, "stop_sequence": null, "usage": usage(0)})
    );
    assert_eq!(
        events[1].1,
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    );
    assert_eq!(events[2].1, json!({"type": "ping"}));
    assert_eq!((&events[3].1["index"], &events[3].1["delta"]["type"]), (&json!(0), &json!("text_delta")));
    assert_eq!(
        events[7].1,
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens", "stop_sequence": null}, "usage": usage(3)})
    );
    assert_eq!(events[8].1, json!({"type": "message_stop"}));
    // Opening, three chunks of which the first opens the block, and the end: each is one write.
    assert_eq!(got.chunks.len(), 5);
    let (_, truth, _) = server.stop_with_truth();
    assert_eq!(
        (truth[0].endpoint.as_str(), truth[0].completion_tokens, truth[0].chunks_ns.len()),
        ("messages", 3, 3)
    );
}

#[test]
fn a_whole_answer_says_what_the_stream_says() {
    let server = sim("eos=1&count-eos=on");
    let whole = Client::connect(server.addr()).post(MESSAGES, &message(5, false)).json();
    assert_eq!(
        (&whole["type"], &whole["role"], &whole["model"]),
        (&json!("message"), &json!("assistant"), &json!("m"))
    );
    assert_eq!((&whole["stop_reason"], &whole["stop_sequence"]), (&json!("end_turn"), &Value::Null));
    let text = whole["content"][0]["text"].as_str().expect("a text");
    assert_eq!(
        (builtin().count(text), &whole["usage"]["output_tokens"]),
        (1, &json!(2)),
        "the end token counts"
    );
    let stream = |stream: bool| {
        let server = sim("seed=4");
        Client::connect(server.addr()).post(MESSAGES, &message(5, stream))
    };
    let whole = stream(false).json();
    let events = stream(true).named();
    assert_eq!(whole["content"], json!([{"type": "text", "text": joined(&events, "text")}]));
    assert_eq!(whole["id"], events[0].1["message"]["id"]);
    assert_eq!(whole["usage"], events[events.len() - 2].1["usage"]);
}

#[test]
fn thinking_is_a_block_of_its_own() {
    let server = sim("reasoning=3&tokens-per-chunk=2");
    let mut client = Client::connect(server.addr());
    let events = client.post(MESSAGES, &message(6, true)).named();
    let kinds: Vec<String> = events
        .iter()
        .map(|(name, data)| {
            let kind = data["content_block"]["type"].as_str().or_else(|| data["delta"]["type"].as_str());
            format!(
                "{}{}",
                kind.unwrap_or(name),
                data["index"].as_u64().map(|i| i.to_string()).unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "message_start",
            "thinking0",
            "ping",
            "thinking_delta0",
            "thinking_delta0",
            "signature_delta0",
            "content_block_stop0",
            "text1",
            "text_delta1",
            "text_delta1",
            "content_block_stop1",
            "message_delta",
            "message_stop",
        ]
    );
    let tokenizer = builtin();
    assert_eq!(tokenizer.count(&joined(&events, "thinking")), 3);
    assert_eq!(tokenizer.count(&joined(&events, "text")), 3);
    assert_eq!(events[11].1["usage"]["output_tokens"], 6);
    // Shorter than its thinking: no text at all.
    let events = client.post(MESSAGES, &message(2, true)).named();
    assert_eq!(names(&events)[events.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(names(&events).iter().filter(|n| **n == "content_block_stop").count(), 1);
    let whole = client.post(MESSAGES, &message(2, false)).json();
    assert_eq!(
        (whole["content"].as_array().map(Vec::len), &whole["content"][0]["type"]),
        (Some(1), &json!("thinking"))
    );
}

#[test]
fn system_and_blocks_go_through_the_template() {
    let config = SimConfig::from_query("ttft=0&itl=0").expect("good settings");
    let server = start(config, Arc::new(Templated::new()), Listen::loopback()).expect("a free port");
    let mut client = Client::connect(server.addr());
    let now = TemplateClock::civil(2026, 1, 1, 0, 0, 0).expect("a day");
    let blocks = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                        {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]);
    let flat = json!([{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]);
    let tools = json!([{"name": "f", "input_schema": {}}]);
    for system in [
        Value::Null,
        json!("Be brief."),
        json!([{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]),
    ] {
        for tools in [None, Some(&tools)] {
            let mut messages = flat.clone();
            if !system.is_null() {
                let system = json!({"role": "system", "content": "Be brief."});
                messages.as_array_mut().expect("a list").insert(0, system);
            }
            let want = count_chat(&Templated::new(), &messages, tools, true, now).expect("it renders");
            let ask =
                json!({"model": "m", "max_tokens": 1, "messages": blocks, "system": system, "tools": tools});
            assert_eq!(client.post(MESSAGES, &ask).json()["usage"]["input_tokens"], want, "{ask}");
        }
    }
}

#[test]
fn what_the_cache_gave_stands_beside_the_other_input() {
    let text = "To be, or not to be: that is the question. ".repeat(4);
    let total = builtin().count(&text) as u64;
    let ask = |stream: bool| json!({"model": "m", "max_tokens": 1, "stream": stream, "messages": [{"role": "user", "content": text}]});
    let server = sim("prefix-cache=on");
    let mut client = Client::connect(server.addr());
    client.post(MESSAGES, &ask(false));
    let parts = |usage: &Value| {
        (
            usage["input_tokens"].as_u64().expect("a number"),
            usage["cache_read_input_tokens"].as_u64().expect("a number"),
        )
    };
    let (input, read) = parts(&client.post(MESSAGES, &ask(false)).json()["usage"]);
    assert!(read > 0 && input + read == total, "{input} {read} {total}");
    let events = client.post(MESSAGES, &ask(true)).named();
    assert_eq!(parts(&events[0].1["message"]["usage"]), (input, read), "known before the first token");
    assert_eq!(parts(&events[events.len() - 2].1["usage"]), (input, read));
    for (query, want) in [
        ("usage=none", Value::Null),
        ("usage-details=off", json!({"input_tokens": total, "output_tokens": 1})),
        (
            "usage-details=null",
            json!({"input_tokens": total, "cache_creation_input_tokens": null, "cache_read_input_tokens": null, "output_tokens": 1}),
        ),
    ] {
        let server = sim(query);
        assert_eq!(
            Client::connect(server.addr()).post(MESSAGES, &ask(false)).json()["usage"],
            want,
            "{query}"
        );
    }
}

#[test]
fn refusals_are_anthropic_errors() {
    let server = sim("models=m&strict=on&api-key=s3cret&max-model-len=20");
    let mut client = Client::connect(server.addr());
    let mut ask = |headers: &str, body: &Value| {
        client.send("POST", MESSAGES, headers, &body.to_string());
        let got = client.read().expect("an answer");
        let answer = got.json();
        if got.status != 200 {
            assert_eq!(answer["type"], "error");
        }
        (got.status, answer["error"]["type"].as_str().unwrap_or_default().to_owned())
    };
    let headers = "x-api-key: s3cret\r\nanthropic-version: 2023-06-01\r\n";
    let is = |status: u16, kind: &str| (status, kind.to_owned());
    let good = message(1, false);
    assert_eq!(ask(headers, &good).0, 200);
    assert_eq!(ask("", &good), is(401, "authentication_error"));
    assert_eq!(ask("x-api-key: s3cret\r\n", &good), is(400, "invalid_request_error"));
    assert_eq!(ask("Authorization: Bearer s3cret\r\nanthropic-version: 2023-06-01\r\n", &good).0, 200);
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    assert_eq!(ask(headers, &with("model", json!("x"))), is(404, "not_found_error"));
    assert_eq!(ask(headers, &with("seed", json!(1))), is(422, "invalid_request_error"));
    assert_eq!(ask(headers, &with("max_tokens", Value::Null)), is(400, "invalid_request_error"));
    assert_eq!(ask(headers, &with("max_tokens", json!(20))), is(400, "invalid_request_error"));
}

/// The answer under `faults`, which the books must know of.
fn faulty(faults: &str, stream: bool) -> Result<Got, End> {
    let server = sim(&format!("faults={faults}"));
    let mut client = Client::connect(server.addr());
    client.send("POST", MESSAGES, "", &message(8, stream).to_string());
    let got = client.read();
    drop(client);
    let (_, truth, _) = server.stop_with_truth();
    assert_eq!(truth[0].outcome, TruthOutcome::Fault, "{faults}");
    got
}

#[test]
fn messages_fail_in_their_own_words() {
    let some = |faults: &str, stream: bool| faulty(faults, stream).expect("some answer");
    for (status, kind) in [
        (400, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ] {
        let got = some(&status.to_string(), true);
        assert_eq!((got.status, &got.json()["error"]["type"]), (status, &json!(kind)));
    }
    let (name, data) = some("error-event:after=1", true).named().pop().expect("events");
    assert_eq!((name.as_str(), &data["error"]["type"]), ("error", &json!("api_error")));
    let got = some("error-data:after=1", true);
    let last = got.text().trim_end().rsplit_once("\n\n").expect("events").1;
    assert!(last.starts_with("data: {\"type\":\"error\""), "{last}");
    let got = some("error-data", false);
    assert_eq!((got.status, &got.json()["type"]), (200, &json!("error")));
    assert_eq!(faulty("reset", true).expect_err("no answer"), End::Reset);
    let got = some("end:after=2", true);
    assert_eq!((got.end, names(&got.named()).last().copied()), (End::Whole, Some("content_block_delta")));
    let got = some("cut:after=2", true);
    assert_eq!((got.end, got.named().len()), (End::Closed, 5));
    assert_eq!(some("cut", false).end, End::Closed);
    let got = some("malformed:after=2", true);
    assert!(
        got.text().contains("\"delta\":\n\n")
            && got.text().ends_with("data: {\"type\":\"message_stop\"}\n\n")
    );
    let got = some("half-event:after=1", true);
    assert!(got.text().rsplit_once("\n\n").is_some_and(|(_, half)| half.starts_with("event: content_block")));
    assert_eq!(
        names(&some("empty-choices", true).named()),
        ["message_start", "message_delta", "message_stop"]
    );
    assert_eq!(some("empty-choices", false).json()["content"], json!([]));
    let got = some("role-only", true);
    assert_eq!(
        names(&got.named()),
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(some("role-only", false).json()["content"], json!([{"type": "text", "text": ""}]));
    let server = sim("faults=stall:after=2");
    let mut stalled = Client::connect(server.addr());
    stalled.send("POST", MESSAGES, "", &message(8, true).to_string());
    stalled.wait_for("\"text\":\" ");
    drop(stalled);
    while server.totals().faults == 0 {
        std::thread::yield_now();
    }
}
