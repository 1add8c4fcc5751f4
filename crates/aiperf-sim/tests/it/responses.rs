//! OpenAI's responses: items, events, usage, failures.

use std::sync::Arc;

use aiperf_sim::{Listen, SimConfig, TruthOutcome, start};
use aiperf_tokens::{TemplateClock, count_chat};
use serde_json::{Value, json};

use crate::client::{Client, End, Got};
use crate::templated::Templated;
use crate::{RESPONSES, builtin, response, sim};

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.strip_prefix("response.").unwrap_or(name)).collect()
}

fn joined(events: &[(String, Value)], kind: &str) -> String {
    events.iter().filter(|(name, _)| name == kind).filter_map(|(_, data)| data["delta"].as_str()).collect()
}

#[test]
fn a_stream_has_every_step_in_its_order() {
    let server = sim("");
    let got = Client::connect(server.addr()).post(RESPONSES, &response(3, true));
    assert_eq!((got.status, got.end), (200, End::Whole));
    assert!(got.head.contains("content-type: text/event-stream"), "{}", got.head);
    let events = got.named();
    assert_eq!(
        names(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
    );
    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!((&data["type"], &data["sequence_number"]), (&json!(name), &json!(number)));
    }
    let text = joined(&events, "response.output_text.delta");
    assert_eq!(builtin().count(&text), 3);
    let (begun, whole) = (&events[0].1["response"], &events[10].1["response"]);
    assert_eq!(
        (&begun["status"], &begun["usage"], &begun["output"]),
        (&json!("in_progress"), &Value::Null, &json!([]))
    );
    assert_eq!(begun["id"], whole["id"]);
    assert_eq!(events[7].1["text"], text);
    let item = &events[9].1["item"];
    assert_eq!(whole["output"], json!([item]));
    assert_eq!(
        item["content"],
        json!([{"type": "output_text", "annotations": [], "logprobs": [], "text": text}])
    );
    assert_eq!(
        (&item["id"], &item["role"], &item["type"]),
        (&events[4].1["item_id"], &json!("assistant"), &json!("message"))
    );
    assert_eq!(
        events[2].1["item"],
        json!({"id": item["id"], "type": "message", "status": "in_progress", "role": "assistant", "content": []})
    );
    let prompt = builtin().count("Why is the sky blue?");
    assert_eq!(
        whole["usage"],
        json!({"input_tokens": prompt, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 3,
               "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": prompt + 3})
    );
    // Opening, three chunks of which the first opens the item, and the end: each is one write.
    assert_eq!(got.chunks.len(), 5);
    let (_, truth, _) = server.stop_with_truth();
    assert_eq!(
        (truth[0].endpoint.as_str(), truth[0].completion_tokens, truth[0].chunks_ns.len()),
        ("responses", 3, 3)
    );
}

#[test]
fn a_whole_answer_is_the_response_of_the_stream() {
    let body = |stream: bool| {
        let server = sim("seed=4");
        let mut ask = response(5, stream);
        ask["instructions"] = json!("Be brief.");
        let got = Client::connect(server.addr()).post(RESPONSES, &ask);
        let mut whole =
            if stream { got.named().pop().expect("events").1["response"].take() } else { got.json() };
        whole["created_at"] = Value::Null;
        whole
    };
    let whole = body(false);
    assert_eq!(whole, body(true));
    assert_eq!((&whole["object"], &whole["model"]), (&json!("response"), &json!("m")));
    assert_eq!((&whole["instructions"], &whole["max_output_tokens"]), (&json!("Be brief."), &json!(5)));
    assert_eq!(whole["error"], Value::Null);
}

#[test]
fn a_limit_makes_a_response_incomplete() {
    for (query, event) in [("", "response.completed"), ("incomplete-event=on", "response.incomplete")] {
        let server = sim(&format!("osl=4&{query}"));
        let mut client = Client::connect(server.addr());
        let (name, data) = client.post(RESPONSES, &response(3, true)).named().pop().expect("events");
        assert_eq!(name, event);
        assert_eq!(data["response"]["status"], "incomplete");
        assert_eq!(data["response"]["incomplete_details"], json!({"reason": "max_output_tokens"}));
        assert_eq!(data["response"]["output"][0]["status"], "incomplete");
        let mut free = response(3, true);
        free.as_object_mut().expect("an object").remove("max_output_tokens");
        let (name, data) = client.post(RESPONSES, &free).named().pop().expect("events");
        assert_eq!((name.as_str(), &data["response"]["status"]), ("response.completed", &json!("completed")));
        assert_eq!(data["response"]["incomplete_details"], Value::Null);
        assert_eq!(data["response"]["output"][0]["status"], "completed");
        assert_eq!(data["response"]["usage"]["output_tokens"], 4);
    }
}

#[test]
fn reasoning_is_an_item_of_its_own() {
    let server = sim("reasoning=3&tokens-per-chunk=2");
    let mut client = Client::connect(server.addr());
    let events = client.post(RESPONSES, &response(6, true)).named();
    assert_eq!(
        names(&events)[2..],
        [
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
    );
    let tokenizer = builtin();
    assert_eq!(tokenizer.count(&joined(&events, "response.reasoning_text.delta")), 3);
    assert_eq!(tokenizer.count(&joined(&events, "response.output_text.delta")), 3);
    let whole = &events.last().expect("events").1["response"];
    assert_eq!(
        (&whole["output"][0]["type"], &whole["output"][1]["type"]),
        (&json!("reasoning"), &json!("message"))
    );
    assert_eq!(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
    for (name, data) in &events[4..] {
        if let Some(place) = data["output_index"].as_u64() {
            let message = name.contains("output_text")
                || data["item"]["type"] == "message"
                || data["part"]["type"] == "output_text";
            assert_eq!(place, u64::from(message), "{name} {data}");
        }
    }
    // Shorter than its reasoning: no message at all.
    let events = client.post(RESPONSES, &response(2, true)).named();
    let whole = &events.last().expect("events").1["response"];
    assert_eq!(whole["output"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&whole["output"][0]["type"], &whole["output"][0]["status"]),
        (&json!("reasoning"), &json!("incomplete"))
    );
    let output = client.post(RESPONSES, &response(2, false)).json()["output"].take();
    assert_eq!((output.as_array().map(Vec::len), &output[0]["type"]), (Some(1), &json!("reasoning")));
}

#[test]
fn every_form_of_input_goes_through_the_template() {
    let config = SimConfig::from_query("ttft=0&itl=0").expect("good settings");
    let server = start(config, Arc::new(Templated::new()), Listen::loopback()).expect("a free port");
    let mut client = Client::connect(server.addr());
    let now = TemplateClock::civil(2026, 1, 1, 0, 0, 0).expect("a day");
    let tools = json!([{"type": "function", "name": "f", "parameters": {}}]);
    for (ask, messages) in [
        (json!({"input": "Hi"}), json!([{"role": "user", "content": "Hi"}])),
        (
            json!({"input": "Hi", "instructions": "Be brief."}),
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]),
        ),
        (
            json!({"instructions": "Be brief.", "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
                {"role": "user", "content": "c"}]}),
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},
                   {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]),
        ),
    ] {
        for tools in [None, Some(&tools)] {
            let want = count_chat(&Templated::new(), &messages, tools, true, now).expect("it renders");
            let mut ask = ask.clone();
            ask["model"] = json!("m");
            ask["max_output_tokens"] = json!(1);
            ask["tools"] = json!(tools);
            assert_eq!(client.post(RESPONSES, &ask).json()["usage"]["input_tokens"], want, "{ask}");
        }
    }
}

#[test]
fn usage_takes_the_forms_it_can() {
    let usage = |query: &str| {
        let server = sim(query);
        Client::connect(server.addr()).post(RESPONSES, &response(1, true)).named().pop().expect("events").1
            ["response"]["usage"]
            .take()
    };
    assert_eq!(usage("usage=none"), Value::Null);
    assert_eq!(usage("usage-details=null")["input_tokens_details"], Value::Null);
    assert_eq!(usage("usage-details=off").get("output_tokens_details"), None);
    let server = sim("prefix-cache=on");
    let mut client = Client::connect(server.addr());
    let mut ask = response(1, false);
    ask["input"] = json!("To be, or not to be: that is the question. ".repeat(4));
    client.post(RESPONSES, &ask);
    let usage = client.post(RESPONSES, &ask).json()["usage"].take();
    let cached = usage["input_tokens_details"]["cached_tokens"].as_u64().expect("a number");
    assert!(cached > 0 && cached.is_multiple_of(16), "{usage}");
}

#[test]
fn the_opening_comes_when_it_is_wanted() {
    for (query, first) in [("role-chunk=first-token", 2), ("role-chunk=joined", 5), ("role-chunk=off", 5)] {
        let server = sim(query);
        let got = Client::connect(server.addr()).post(RESPONSES, &response(2, true));
        let events = got.named();
        assert_eq!(names(&events)[..3], ["created", "in_progress", "output_item.added"], "{query}");
        let in_first = String::from_utf8_lossy(&got.body[..got.chunks[0]]).matches("event: ").count();
        assert_eq!(in_first, first, "{query}");
    }
}

#[test]
fn a_response_of_another_time_is_not_found() {
    let server = sim("");
    let mut ask = response(1, false);
    ask["previous_response_id"] = json!("resp_1");
    let got = Client::connect(server.addr()).post(RESPONSES, &ask);
    assert_eq!((got.status, &got.json()["error"]["code"]), (404, &json!(404)));
    assert!(got.json()["error"]["message"].as_str().is_some_and(|said| said.contains("'resp_1'")));
}

#[test]
fn a_response_that_is_kept_can_be_gone_on_from() {
    for stream in [false, true] {
        let server = sim("reasoning=1");
        let mut client = Client::connect(server.addr());
        let mut first = response(4, stream);
        first["store"] = json!(true);
        let got = client.post(RESPONSES, &first);
        let whole = if stream { got.named().pop().expect("events").1["response"].take() } else { got.json() };
        assert_eq!((&whole["store"], &whole["previous_response_id"]), (&json!(true), &json!(null)));
        let reply = &whole["output"][1]["content"][0]["text"];
        assert!(reply.as_str().is_some_and(|text| !text.is_empty()), "{whole}");
        let mut second = response(4, false);
        second["input"] = json!([{"role": "user", "content": "And then?"}]);
        second["previous_response_id"] = whole["id"].clone();
        let gone_on = client.post(RESPONSES, &second).json();
        assert_eq!(gone_on["previous_response_id"], whole["id"]);
        let mut said = response(4, false);
        said["input"] = json!([
            {"role": "user", "content": first["input"]},
            {"role": "assistant", "content": reply},
            {"role": "user", "content": "And then?"},
        ]);
        let at_once = client.post(RESPONSES, &said).json();
        assert_eq!(gone_on["usage"]["input_tokens"], at_once["usage"]["input_tokens"]);
        assert_ne!(gone_on["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
        // The second one was not to be kept.
        second["previous_response_id"] = gone_on["id"].clone();
        assert_eq!(client.post(RESPONSES, &second).status, 404);
    }
}

/// The answer under `faults`, which the books must know of.
fn faulty(faults: &str, stream: bool) -> Result<Got, End> {
    let server = sim(&format!("faults={faults}"));
    let mut client = Client::connect(server.addr());
    client.send("POST", RESPONSES, "", &response(8, stream).to_string());
    let got = client.read();
    drop(client);
    let (_, truth, _) = server.stop_with_truth();
    assert_eq!(truth[0].outcome, TruthOutcome::Fault, "{faults}");
    got
}

#[test]
fn responses_fail_in_their_own_words() {
    let some = |faults: &str, stream: bool| faulty(faults, stream).expect("some answer");
    for stream in [true, false] {
        let got = some("429", stream);
        assert_eq!((got.status, &got.json()["error"]["type"]), (429, &json!("RateLimitError")));
        assert_eq!(faulty("reset", stream).expect_err("no answer"), End::Reset);
        assert_eq!(faulty("close", stream).expect_err("no answer"), End::Closed);
    }
    let (name, data) = some("error-event:after=1", true).named().pop().expect("events");
    assert_eq!(
        (name.as_str(), &data["type"], &data["sequence_number"]),
        ("error", &json!("error"), &json!(5))
    );
    assert!(data["message"].as_str().is_some_and(|m| m.contains("simulated")));
    let (name, data) = some("error-data:after=1", true).named().pop().expect("events");
    assert_eq!((name.as_str(), &data["response"]["status"]), ("response.failed", &json!("failed")));
    assert_eq!(data["response"]["error"]["code"], "server_error");
    let got = some("error-event", false);
    assert_eq!((got.status, &got.json()["status"]), (200, &json!("failed")));
    let got = some("end:after=2", true);
    assert_eq!((got.end, names(&got.named()).len()), (End::Whole, 6));
    let got = some("cut:after=2", true);
    assert_eq!((got.end, names(&got.named()).len()), (End::Closed, 6));
    assert_eq!(some("reset:after=2", true).end, End::Reset);
    assert_eq!(some("cut", false).end, End::Closed);
    let got = some("malformed:after=2", true);
    let broken = got
        .text()
        .split("\n\n")
        .filter_map(|e| e.split_once("\ndata: "))
        .filter(|(_, d)| serde_json::from_str::<Value>(d).is_err());
    assert_eq!(broken.count(), 1);
    assert!(got.text().contains("event: response.completed\n"), "then on as usual");
    let got = some("half-event:after=1", true);
    assert!(
        got.text().rsplit_once("\n\n").is_some_and(|(_, half)| half.starts_with("event: response.output_t"))
    );
    for stream in [true, false] {
        let whole = |faults: &str| {
            let got = some(faults, stream);
            if stream { got.named().pop().expect("events").1["response"].take() } else { got.json() }
        };
        assert_eq!(whole("empty-choices")["output"], json!([]));
        assert_eq!(whole("role-only")["output"][0]["content"][0]["text"], "");
    }
    assert_eq!(names(&some("empty-choices", true).named()), ["created", "in_progress", "completed"]);
    assert_eq!(some("half-event:after=99", true).end, End::Whole);
}
