//! Completions of several prompts.

use std::sync::Arc;

use aiperf_sim::{Listen, SimConfig, start};
use serde_json::{Value, json};

use crate::client::Client;
use crate::templated::Templated;
use crate::{COMPLETIONS, builtin, sim};

const PROMPTS: [&str; 3] = ["Why is the sky blue?", "a", "To be, or not to be"];

fn ask(stream: bool) -> Value {
    json!({"model": "m", "prompt": PROMPTS, "max_tokens": 5, "stream": stream,
           "stream_options": if stream { json!({"include_usage": true}) } else { Value::Null }})
}

fn prompt_tokens() -> usize {
    PROMPTS.iter().map(|p| builtin().count(p)).sum()
}

#[test]
fn each_prompt_gets_a_choice_and_usage_is_the_sum() {
    let server = sim("ttft=1");
    let answer = Client::connect(server.addr()).post(COMPLETIONS, &ask(false)).json();
    let choices = answer["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), 3);
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(index), &json!("length")));
        assert_eq!(builtin().count(choice["text"].as_str().expect("a text")), 5);
    }
    assert_ne!(choices[0]["text"], choices[1]["text"]);
    let prompt = prompt_tokens();
    assert_eq!(
        (&answer["usage"]["prompt_tokens"], &answer["usage"]["completion_tokens"]),
        (&json!(prompt), &json!(15))
    );
    assert_eq!(answer["usage"]["total_tokens"], prompt + 15);
    let (totals, truth, _) = server.stop_with_truth();
    assert_eq!((totals.requests, totals.completed, totals.peak_running), (1, 1, 3));
    assert_eq!((truth[0].prompt_tokens, truth[0].completion_tokens), (prompt as u64, 15));
}

#[test]
fn streamed_choices_take_turns() {
    let server = sim("itl=1");
    let got = Client::connect(server.addr()).post(COMPLETIONS, &ask(true));
    assert!(got.text().ends_with("data: [DONE]\n\n"));
    let events = got.events();
    assert_eq!(events.len(), 3 * 6 + 1, "five tokens and a finish each, and usage");
    let indexes: Vec<u64> =
        events[..18].iter().map(|e| e["choices"][0]["index"].as_u64().expect("an index")).collect();
    for round in indexes.chunks(3) {
        let mut sorted = round.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2], "{indexes:?}");
    }
    for index in 0..3 {
        let own: Vec<&Value> = events[..18].iter().filter(|e| e["choices"][0]["index"] == index).collect();
        let text: String = own.iter().filter_map(|e| e["choices"][0]["text"].as_str()).collect();
        assert_eq!(builtin().count(&text), 5);
        assert_eq!(own[5]["choices"][0]["finish_reason"], "length");
    }
    assert_eq!(events[18]["choices"], json!([]));
    assert_eq!(events[18]["usage"]["prompt_tokens"], prompt_tokens());
    assert_eq!(events[18]["usage"]["completion_tokens"], 15);
    let (_, truth, _) = server.stop_with_truth();
    assert_eq!((truth[0].chunks_ns.len(), truth[0].completion_tokens), (15, 15));
}

#[test]
fn prompts_share_the_batch_and_the_cache() {
    let server = sim("max-batch=1&prefix-cache=on&ttft=1");
    let ids: Vec<u32> = (0..40).collect();
    let body = json!({"model": "m", "prompt": [ids, ids, [7]], "max_tokens": 2});
    let answer = Client::connect(server.addr()).post(COMPLETIONS, &body).json();
    assert_eq!(answer["choices"].as_array().map(Vec::len), Some(3));
    assert_eq!(answer["usage"]["prompt_tokens"], 81);
    assert_eq!(
        answer["usage"]["prompt_tokens_details"]["cached_tokens"], 32,
        "the second finds the first's blocks"
    );
    let totals = server.stop();
    assert_eq!((totals.peak_running, totals.peak_waiting, totals.cached_tokens), (1, 2, 32));
}

#[test]
fn usage_of_each_event_is_its_choices_own() {
    let server = sim("usage=continuous");
    let events = Client::connect(server.addr()).post(COMPLETIONS, &ask(true)).events();
    for event in &events[..events.len() - 1] {
        let index = event["choices"][0]["index"].as_u64().expect("an index") as usize;
        assert_eq!(event["usage"]["prompt_tokens"], builtin().count(PROMPTS[index]));
        assert!(event["usage"]["completion_tokens"].as_u64().is_some_and(|n| n <= 5));
    }
    let server = sim("usage=finish");
    let events = Client::connect(server.addr()).post(COMPLETIONS, &ask(true)).events();
    let told: Vec<&Value> = events.iter().filter(|e| e["usage"].is_object()).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0]["usage"]["completion_tokens"], &told[0]["usage"]["prompt_tokens"]),
        (&json!(15), &json!(prompt_tokens()))
    );
}

#[test]
fn every_prompt_begins_with_its_specials() {
    let config = SimConfig::from_query("ttft=0&itl=0").expect("good settings");
    let server = start(config, Arc::new(Templated::new()), Listen::loopback()).expect("a free port");
    let answer = Client::connect(server.addr()).post(COMPLETIONS, &ask(false)).json();
    assert_eq!(answer["usage"]["prompt_tokens"], prompt_tokens() + 3);
}

#[test]
fn one_prompt_that_is_too_long_refuses_all() {
    let server = sim("max-model-len=12");
    let body =
        json!({"model": "m", "prompt": ["a", "To be, or not to be: that is the question."], "max_tokens": 5});
    let got = Client::connect(server.addr()).post(COMPLETIONS, &body);
    assert_eq!(got.status, 400);
    assert_eq!(server.stop().rejected, 1);
}

#[test]
fn a_client_that_leaves_takes_all_its_prompts_with_it() {
    let server = sim("ttft=60000&max-batch=2");
    let mut client = Client::connect(server.addr());
    client.send("POST", COMPLETIONS, "", &ask(true).to_string());
    while server.totals().requests == 0 {
        std::thread::yield_now();
    }
    drop(client);
    while server.totals().client_gone == 0 {
        std::thread::yield_now();
    }
    let mut client = Client::connect(server.addr());
    client.send("GET", "/metrics", "", "");
    let page = client.read().expect("a page");
    for name in ["num_requests_running{", "num_requests_waiting{"] {
        let line = page.text().lines().find(|l| l.starts_with(&format!("vllm:{name}"))).expect(name);
        assert!(line.ends_with(" 0"), "{line}");
    }
}

#[test]
fn faults_count_the_chunks_of_all_choices() {
    let server = sim("itl=1&faults=cut:after=4");
    let got = Client::connect(server.addr()).post(COMPLETIONS, &ask(true));
    assert_eq!(got.events().len(), 4);
}
