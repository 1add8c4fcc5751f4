//! Routes, forms of answers, usage, counting.

use std::sync::Arc;

use aiperf_sim::words::Words;
use aiperf_sim::{Listen, SimConfig, TruthOutcome, start};
use aiperf_tokens::{TemplateClock, count_chat};
use serde_json::{Value, json};

use crate::client::{Client, End};
use crate::templated::Templated;
use crate::{CHAT, COMPLETIONS, builtin, chat, completion, sim};

#[test]
fn a_client_that_counts_the_text_gets_the_usage() {
    let server = sim("");
    let tokenizer = builtin();
    let mut client = Client::connect(server.addr());
    for tokens in (1..60).chain([127, 128, 500, 1_001]) {
        for stream in [true, false] {
            for (path, body) in [(CHAT, chat(tokens, stream)), (COMPLETIONS, completion(tokens, stream))] {
                let got = client.post(path, &body);
                let (text, usage) = if stream {
                    (got.joined(if path == CHAT { "content" } else { "text" }), got.usage())
                } else {
                    let answer = got.json();
                    let choice = &answer["choices"][0];
                    let text = choice["message"]["content"].as_str().or_else(|| choice["text"].as_str());
                    (text.expect("text").to_owned(), answer["usage"].clone())
                };
                assert_eq!(tokenizer.count(&text) as u64, tokens, "{path} {stream} {text}");
                assert_eq!(usage["completion_tokens"], tokens);
                let prompt = usage["prompt_tokens"].as_u64().expect("a number");
                assert_eq!(usage["total_tokens"], prompt + tokens);
                assert_eq!(prompt as usize, tokenizer.count("Why is the sky blue?"));
            }
        }
    }
}

#[test]
fn a_stream_has_the_events_of_vllm() {
    let server = sim("");
    let got = Client::connect(server.addr()).post(CHAT, &chat(3, true));
    assert_eq!((got.status, got.end), (200, End::Whole));
    assert!(got.head.contains("content-type: text/event-stream"), "{}", got.head);
    assert!(got.text().ends_with("data: [DONE]\n\n"));
    let events = got.events();
    assert_eq!(events.len(), 6, "role, three tokens, finish, usage");
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert!(events[1]["choices"][0]["delta"]["content"].as_str().is_some_and(|t| !t.starts_with(' ')));
    assert!(events[2]["choices"][0]["delta"]["content"].as_str().is_some_and(|t| t.starts_with(' ')));
    assert_eq!(
        events[4]["choices"][0],
        json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": "length"})
    );
    assert_eq!(events[5]["choices"], json!([]));
    for event in &events {
        assert_eq!(event["object"], "chat.completion.chunk");
        assert_eq!(event["id"], events[0]["id"]);
        assert_eq!(event["model"], "m");
    }
    // Every token is an HTTP chunk of its own; finish, usage and end marker are made at one moment.
    assert_eq!(got.chunks.len(), 5);
    let got = Client::connect(server.addr()).post(COMPLETIONS, &completion(2, true));
    assert_eq!(got.events().len(), 4);
    assert!(got.events().iter().all(|e| e["object"] == "text_completion"));
}

#[test]
fn usage_comes_in_every_form() {
    let count = |query: &str, options: Value| {
        let server = sim(query);
        let mut body = chat(2, true);
        body["stream_options"] = options;
        let got = Client::connect(server.addr()).post(CHAT, &body);
        let events = got.events();
        let with: Vec<usize> = (0..events.len()).filter(|i| events[*i]["usage"].is_object()).collect();
        (events.len(), with, events[events.len() - 1].clone())
    };
    let asked = json!({"include_usage": true});
    let (n, with, _) = count("", Value::Null);
    assert_eq!((n, with), (4, vec![]));
    let (n, with, last) = count("", asked.clone());
    assert_eq!((n, with), (5, vec![4]));
    assert_eq!(last["usage"]["prompt_tokens_details"], json!({"cached_tokens": 0}));
    let (n, with, _) = count("", json!({"include_usage": true, "continuous_usage_stats": true}));
    assert_eq!((n, with), (5, vec![0, 1, 2, 3, 4]));
    let (n, with, _) = count("usage=none", asked.clone());
    assert_eq!((n, with), (4, vec![]));
    let (n, with, _) = count("usage=always", Value::Null);
    assert_eq!((n, with), (5, vec![4]));
    let (n, with, last) = count("usage=finish", Value::Null);
    assert_eq!((n, with), (4, vec![3]));
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    let (_, _, last) = count("usage-details=null", asked.clone());
    assert_eq!(last["usage"].get("prompt_tokens_details"), Some(&Value::Null));
    let (_, _, last) = count("usage-details=off", asked);
    assert_eq!(last["usage"].get("prompt_tokens_details"), None);
}

#[test]
fn continuous_usage_grows_with_the_tokens() {
    let server = sim("usage=continuous&tokens-per-chunk=2");
    let got = Client::connect(server.addr()).post(CHAT, &chat(5, true));
    let counts: Vec<u64> =
        got.events().iter().map(|e| e["usage"]["completion_tokens"].as_u64().expect("usage")).collect();
    assert_eq!(counts, [0, 2, 4, 5, 5, 5], "role, 2, 2, 1, finish, last");
}

#[test]
fn the_role_comes_where_it_is_wanted() {
    let deltas = |query: &str| {
        let server = sim(query);
        let got = Client::connect(server.addr()).post(CHAT, &chat(2, true));
        got.events().iter().map(|e| e["choices"][0]["delta"].clone()).collect::<Vec<_>>()
    };
    for query in ["role-chunk=early", "role-chunk=first-token", "head=first-token"] {
        let all = deltas(query);
        assert_eq!(all[0], json!({"role": "assistant", "content": ""}), "{query}");
        assert_eq!(all.len(), 5);
    }
    let joined = deltas("role-chunk=joined");
    assert_eq!(joined[0]["role"], "assistant");
    assert!(joined[0]["content"].as_str().is_some_and(|t| !t.is_empty()));
    assert_eq!(joined[1].get("role"), None);
    assert_eq!(deltas("role-chunk=off")[0].get("role"), None);
}

#[test]
fn reasoning_comes_first_and_counts() {
    for field in ["reasoning_content", "reasoning"] {
        let server = sim(&format!("reasoning=3&tokens-per-chunk=2&reasoning-field={field}"));
        let mut client = Client::connect(server.addr());
        let got = client.post(CHAT, &chat(8, true));
        let tokenizer = builtin();
        assert_eq!(tokenizer.count(&got.joined(field)), 3);
        assert_eq!(tokenizer.count(&got.joined("content")), 5);
        assert_eq!(got.usage()["completion_tokens_details"]["reasoning_tokens"], 3);
        let whole = client.post(CHAT, &chat(8, false)).json();
        assert_eq!(tokenizer.count(whole["choices"][0]["message"][field].as_str().expect("reasoning")), 3);
        // Shorter than its reasoning.
        let got = client.post(CHAT, &chat(2, true));
        assert_eq!(tokenizer.count(&got.joined(field)), 2);
        assert_eq!(got.joined("content"), "");
    }
}

#[test]
fn the_end_marker_can_be_left_out() {
    let server = sim("done=off");
    let got = Client::connect(server.addr()).post(CHAT, &chat(1, true));
    assert!(!got.text().contains("[DONE]"));
    assert_eq!(got.end, End::Whole);
}

#[test]
fn answers_end_early_unless_told_otherwise() {
    let server = sim("eos=0.5&count-eos=on&seed=3");
    let mut client = Client::connect(server.addr());
    let tokenizer = builtin();
    let mut lengths = Vec::new();
    for _ in 0..20 {
        let answer = client.post(CHAT, &chat(100, false)).json();
        let choice = &answer["choices"][0];
        assert_eq!(choice["finish_reason"], "stop");
        let text = tokenizer.count(choice["message"]["content"].as_str().expect("text")) as u64;
        assert_eq!(
            answer["usage"]["completion_tokens"],
            text + 1,
            "the end token is counted and has no text"
        );
        lengths.push(text);
    }
    assert!(lengths.iter().any(|l| *l != lengths[0]), "{lengths:?}");
    let mut body = chat(100, false);
    body["ignore_eos"] = json!(true);
    let answer = client.post(CHAT, &body).json();
    assert_eq!(answer["usage"]["completion_tokens"], 100);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    let mut body = chat(100, false);
    body["min_tokens"] = json!(40);
    let answer = client.post(CHAT, &body).json();
    assert!(answer["usage"]["completion_tokens"].as_u64().is_some_and(|n| (41..=100).contains(&n)));
}

#[test]
fn without_a_limit_the_model_ends_at_its_own_length() {
    let server = sim("osl=9&max-osl=12");
    let mut client = Client::connect(server.addr());
    let mut body = chat(1, false);
    body.as_object_mut().expect("an object").remove("max_tokens");
    let answer = client.post(CHAT, &body).json();
    assert_eq!(answer["usage"]["completion_tokens"], 9);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let answer = client.post(CHAT, &chat(50, false)).json();
    assert_eq!(answer["usage"]["completion_tokens"], 12);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
}

#[test]
fn refusals_are_error_objects() {
    let server = sim("models=a,b&max-model-len=20&strict=on&api-key=s3cret");
    let mut client = Client::connect(server.addr());
    let mut ask = |headers: &str, method: &str, path: &str, body: &str| {
        client.send(method, path, headers, body);
        let got = client.read().expect("an answer");
        let answer = got.json();
        (got.status, answer["error"]["message"].as_str().unwrap_or_default().to_owned(), answer)
    };
    let key = "Authorization: Bearer s3cret\r\n";
    let good = r#"{"model":"a","prompt":"x","max_tokens":2}"#;
    assert_eq!(ask("", "POST", COMPLETIONS, good).0, 401);
    assert_eq!(ask("Authorization: Bearer other\r\n", "POST", COMPLETIONS, good).0, 401);
    assert_eq!(ask("", "GET", "/v1/models", "").0, 401);
    let (status, _, answer) = ask(key, "POST", COMPLETIONS, good);
    assert_eq!((status, &answer["usage"]["completion_tokens"]), (200, &json!(2)));
    let (status, message, answer) = ask(key, "POST", COMPLETIONS, &good.replace("\"a\"", "\"zzz\""));
    assert_eq!((status, &answer["error"]["code"]), (404, &json!(404)));
    assert!(message.contains("`zzz`"), "{message}");
    assert_eq!(ask(key, "POST", COMPLETIONS, &good.replace("max_tokens", "min_tokens")).0, 422);
    let (status, message, _) = ask(key, "POST", COMPLETIONS, &good.replace(":2}", ":20}"));
    assert_eq!(status, 400);
    assert!(
        message.contains("maximum context length is 20 tokens") && message.contains("(1 in"),
        "{message}"
    );
    assert_eq!(ask(key, "POST", COMPLETIONS, "{").0, 400);
    assert_eq!(ask(key, "GET", COMPLETIONS, "").0, 405);
    assert_eq!(ask(key, "POST", "/v1/models", "").0, 405);
    assert_eq!(ask(key, "POST", "/v1/nothing", good).0, 404);
    assert_eq!(ask("", "GET", "/health", "").0, 200);
    let models = ask(key, "GET", "/v1/models", "").2;
    assert_eq!(models["data"][1]["id"], "b");
    assert_eq!(models["data"][0]["max_model_len"], 20);
    let totals = server.stop();
    assert_eq!(
        (totals.completed, totals.rejected),
        (1, 6),
        "GET, unknown paths and pages are no inference requests"
    );
    assert_eq!(totals.requests, 7);
}

#[test]
fn prompts_count_as_a_server_counts_them() {
    let server = sim("");
    let mut client = Client::connect(server.addr());
    let tokenizer = builtin();
    let mut prompt = |path: &str, body: Value| {
        let got = client.post(path, &body);
        (got.status, got.json()["usage"]["prompt_tokens"].as_u64())
    };
    let text = "To be, or not to be: that is the question. ".repeat(60);
    let long = Some(tokenizer.count(&text) as u64);
    for _ in 0..2 {
        assert_eq!(prompt(COMPLETIONS, json!({"model": "m", "prompt": text, "max_tokens": 1})), (200, long));
        assert_eq!(
            prompt(COMPLETIONS, json!({"model": "m", "prompt": [text], "max_tokens": 1})),
            (200, long)
        );
    }
    assert_eq!(
        prompt(COMPLETIONS, json!({"model": "m", "prompt": [5, 6, 7], "max_tokens": 1})),
        (200, Some(3))
    );
    assert_eq!(
        prompt(COMPLETIONS, json!({"model": "m", "prompt": [[5, 6]], "max_tokens": 1})),
        (200, Some(2))
    );
    for bad in
        [json!([]), json!(["a", 1]), json!(["a", {}]), json!([[]]), json!(7), json!([1.5]), json!([-1])]
    {
        assert_eq!(
            prompt(COMPLETIONS, json!({"model": "m", "prompt": bad, "max_tokens": 1})).0,
            400,
            "{bad}"
        );
    }
    for bad in [
        json!([]),
        json!("x"),
        json!(["x"]),
        json!([{"content": "no role"}]),
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]),
        json!([{"role": "user", "content": [{"type": "hologram", "hologram": {"url": "data:"}}]}]),
    ] {
        assert_eq!(prompt(CHAT, json!({"model": "m", "messages": bad, "max_tokens": 1})).0, 400, "{bad}");
    }
}

#[test]
fn templates_and_specials_are_part_of_the_prompt() {
    let config = SimConfig::from_query("ttft=0&itl=0").expect("good settings");
    let server = start(config, Arc::new(Templated::new()), Listen::loopback()).expect("a free port");
    let mut client = Client::connect(server.addr());
    let messages = json!([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]);
    let rendered = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a\nb"}]);
    let tools = json!([{"type": "function"}]);
    let now = TemplateClock::civil(2026, 1, 1, 0, 0, 0).expect("a day");
    for tools in [None, Some(&tools)] {
        let want = count_chat(&Templated::new(), &rendered, tools, true, now).expect("it renders");
        let answer = client
            .post(CHAT, &json!({"model": "m", "messages": messages, "tools": tools, "max_tokens": 1}))
            .json();
        assert_eq!(answer["usage"]["prompt_tokens"], want);
    }
    let answer = client.post(COMPLETIONS, &json!({"model": "m", "prompt": "a b", "max_tokens": 1})).json();
    assert_eq!(answer["usage"]["prompt_tokens"], builtin().count("a b") + 1);
    let no = json!({"model": "m", "messages": [{"role": "user", "content": "no"}], "max_tokens": 1});
    let got = client.post(CHAT, &no);
    assert_eq!(got.status, 400);
    assert!(got.text().contains("not you"), "{}", got.text());
}

/// A conversation of several turns, some of whose contents would merge at their seams.
fn turns() -> Value {
    json!([
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "ly and tell me: why is the sky b"},
        {"role": "assistant", "content": "lue, because"},
        {"role": "user", "content": [{"type": "text", "text": " of"}, {"type": "text", "text": " what?"}]},
        {"role": "assistant", "content": null, "tool_calls": []},
        {"role": "tool", "content": "42"},
        {"role": "user", "content": "And at night?"},
    ])
}

#[test]
fn a_chat_without_a_template_is_the_sum_of_its_contents() {
    let tokenizer = builtin();
    let contents = [
        "Be brief",
        "ly and tell me: why is the sky b",
        "lue, because",
        " of\n what?",
        "42",
        "And at night?",
    ];
    let sum: usize = contents.iter().map(|c| tokenizer.count(c)).sum();
    assert_ne!(sum, tokenizer.count(&contents.concat()), "the seams matter here");
    for query in ["", "prefix-cache=on"] {
        let server = sim(query);
        let mut client = Client::connect(server.addr());
        let answer = client.post(CHAT, &json!({"model": "m", "messages": turns(), "max_tokens": 1})).json();
        assert_eq!(answer["usage"]["prompt_tokens"], sum, "{query}");
    }
}

#[test]
fn a_chat_of_several_turns_is_counted_as_its_template_renders_it() {
    for query in ["", "prefix-cache=on"] {
        let config = SimConfig::from_query(&format!("ttft=0&itl=0&{query}")).expect("good settings");
        let server = start(config, Arc::new(Templated::new()), Listen::loopback()).expect("a free port");
        let mut client = Client::connect(server.addr());
        let all = turns();
        for end in 1..=all.as_array().expect("a list").len() {
            let messages = json!(all.as_array().expect("a list")[..end]);
            let mut text = String::new();
            for message in messages.as_array().expect("a list") {
                let content = match &message["content"] {
                    Value::String(content) => content.as_str(),
                    Value::Array(_) => " of\n what?",
                    _ => "None",
                };
                for part in ["<|", message["role"].as_str().expect("a role"), "|>", content, "\n"] {
                    text += part;
                }
            }
            text += "<|assistant|>";
            let answer =
                client.post(CHAT, &json!({"model": "m", "messages": messages, "max_tokens": 1})).json();
            assert_eq!(answer["usage"]["prompt_tokens"], builtin().count(&text), "{query} {end} {text}");
        }
    }
}

#[test]
fn words_add_up_from_every_start() {
    let tokenizer = builtin();
    let words = Words::find(&*tokenizer).expect("English words");
    assert!(words.len() >= 16);
    for start in 0..words.len() as u64 {
        for length in [1, 2, 3, 17, 64] {
            let mut text = String::new();
            words.write(start, 0, length, &mut text);
            assert_eq!(tokenizer.count(&text) as u64, length, "{text}");
        }
    }
}

#[test]
fn the_metrics_page_adds_up() {
    let server = sim("prefix-cache=on");
    let mut client = Client::connect(server.addr());
    let prompt: Vec<u32> = (0..40).collect();
    for _ in 0..2 {
        client.post(COMPLETIONS, &json!({"model": "m", "prompt": prompt, "max_tokens": 5}));
    }
    client.send("GET", "/metrics", "", "");
    let page = client.read().expect("a page");
    for (name, value) in [
        ("num_requests_running{", 0),
        ("num_requests_waiting{", 0),
        ("prompt_tokens_total{", 80),
        ("generation_tokens_total{", 10),
        ("prefix_cache_queries_total{", 80),
        ("prefix_cache_hits_total{", 32),
    ] {
        let line = page.text().lines().find(|l| l.starts_with(&format!("vllm:{name}"))).expect(name);
        assert_eq!(line.rsplit(' ').next(), Some(value.to_string().as_str()), "{line}");
    }
}

#[test]
fn the_truth_is_in_order_and_agrees_with_the_wire() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("truth.jsonl");
    let server = sim(&format!("truth-log={}&itl=0.1", path.display()));
    let mut client = Client::connect(server.addr());
    client.send("POST", CHAT, "X-Request-ID: abc\r\n", &chat(7, true).to_string());
    let got = client.read().expect("an answer");
    client.post(COMPLETIONS, &completion(4, false));
    let (totals, truth, written) = server.stop_with_truth();
    written.expect("the log is whole");
    assert_eq!(
        (totals.completed, totals.chunks, totals.completion_tokens, totals.connections),
        (2, 7, 11, 1)
    );
    let record = &truth[0];
    assert_eq!(record.x_request_id.as_deref(), Some("abc"));
    assert_eq!((record.outcome, record.status, record.stream), (TruthOutcome::Completed, 200, true));
    assert_eq!(record.prompt_tokens, got.usage()["prompt_tokens"].as_u64().expect("a number"));
    assert_eq!((record.completion_tokens, record.chunks_ns.len()), (7, 7));
    let mut stamps = vec![record.arrival_ns, record.body_ns];
    stamps.extend(record.prefill_start_ns);
    stamps.extend(record.prefill_end_ns);
    stamps.extend(&record.chunks_ns);
    stamps.push(record.end_ns);
    assert!(stamps.is_sorted(), "{record:?}");
    let text = std::fs::read_to_string(&path).expect("the log");
    let logged: Vec<aiperf_sim::TruthRecord> =
        text.lines().skip(1).map(|l| serde_json::from_str(l).expect("a record")).collect();
    assert_eq!(logged, truth);
}

#[test]
fn many_connections_at_once() {
    let server = sim("ttft=1&itl=0.1");
    let addr = server.addr();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(move || {
                let mut client = Client::connect(addr);
                for _ in 0..5 {
                    assert_eq!(client.post(CHAT, &chat(9, true)).usage()["completion_tokens"], 9);
                }
            });
        }
    });
    let totals = server.stop();
    assert_eq!((totals.completed, totals.chunks, totals.connections), (160, 160 * 9, 32));
}
