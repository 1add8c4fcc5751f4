//! Several choices of one prompt.

use serde_json::{Value, json};

use crate::client::Client;
use crate::{CHAT, COMPLETIONS, RESPONSES, builtin, chat, completion, response, sim};

fn with(mut body: Value, more: &Value) -> Value {
    if let (Some(body), Some(more)) = (body.as_object_mut(), more.as_object()) {
        body.extend(more.clone());
    }
    body
}

/// The text of choice `index` in the events, and its finish reasons.
fn told(events: &[Value], index: usize) -> (String, Vec<String>) {
    let choices = events.iter().filter_map(|e| e["choices"].get(0)).filter(|c| c["index"] == index);
    let (mut text, mut ends) = (String::new(), Vec::new());
    for choice in choices {
        text.push_str(choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default());
        ends.extend(choice["finish_reason"].as_str().map(str::to_owned));
    }
    (text, ends)
}

#[test]
fn a_prompt_counts_once_and_its_choices_are_summed() {
    for (path, body) in [(CHAT, chat(5, false)), (COMPLETIONS, completion(5, false))] {
        let server = sim("ttft=1");
        let mut client = Client::connect(server.addr());
        let one = client.post(path, &body).json();
        let answer = client.post(path, &with(body, &json!({"n": 3}))).json();
        let choices = answer["choices"].as_array().expect("choices");
        assert_eq!(choices.len(), 3);
        let mut texts = Vec::new();
        for (index, choice) in choices.iter().enumerate() {
            assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(index), &json!("length")));
            let text = choice["message"]["content"].as_str().or(choice["text"].as_str()).expect("a text");
            assert_eq!(builtin().count(text), 5, "{path}");
            texts.push(text);
        }
        texts.dedup();
        assert_eq!(texts.len(), 3, "they do not say the same");
        let prompt = one["usage"]["prompt_tokens"].as_u64().expect("a count");
        assert_eq!(answer["usage"]["prompt_tokens"], prompt);
        assert_eq!(answer["usage"]["completion_tokens"], 15);
        assert_eq!(answer["usage"]["total_tokens"], prompt + 15);
        let (totals, truth, _) = server.stop_with_truth();
        assert_eq!((totals.completed, totals.peak_running), (2, 3));
        assert_eq!((truth[1].prompt_tokens, truth[1].completion_tokens), (prompt, 15));
    }
}

#[test]
fn streamed_choices_are_interleaved_and_each_has_its_role_and_end() {
    for (query, path, body, roles) in [
        ("", CHAT, chat(5, true), 3),
        ("role-chunk=joined", CHAT, chat(5, true), 3),
        ("role-chunk=off", CHAT, chat(5, true), 0),
        ("", COMPLETIONS, completion(5, true), 0),
    ] {
        let server = sim(&format!("itl=1&{query}"));
        let got = Client::connect(server.addr()).post(path, &with(body, &json!({"n": 3})));
        assert!(got.text().ends_with("data: [DONE]\n\n"));
        let events = got.events();
        let named: Vec<&Value> =
            events.iter().filter(|e| e["choices"][0]["delta"]["role"] == "assistant").collect();
        let of: std::collections::BTreeSet<u64> =
            named.iter().filter_map(|e| e["choices"][0]["index"].as_u64()).collect();
        assert_eq!((named.len(), of.len()), (roles, roles), "{query} {path}");
        for index in 0..3 {
            let (text, ends) = told(&events, index);
            assert_eq!((builtin().count(&text), ends), (5, vec!["length".to_owned()]), "{query} {path}");
        }
        // No choice is done before another has begun.
        let first_end = events.iter().position(|e| e["choices"][0]["finish_reason"] == "length");
        let begun = |index: usize| {
            events.iter().position(|e| {
                let choice = &e["choices"][0];
                let text = choice["delta"]["content"].as_str().or(choice["text"].as_str());
                choice["index"] == index && text.is_some_and(|t| !t.is_empty())
            })
        };
        assert!((0..3).all(|index| begun(index) < first_end), "{query} {path}");
        let last = events.last().expect("events");
        assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&json!([]), &json!(15)));
        let (_, truth, _) = server.stop_with_truth();
        assert_eq!((truth[0].chunks_ns.len(), truth[0].completion_tokens), (15, 15));
    }
}

#[test]
fn choices_end_and_find_the_cache_each_for_itself() {
    let server = sim("eos=0.2&seed=3&max-batch=1&prefix-cache=on&ttft=1");
    let ids: Vec<u32> = (0..40).collect();
    let body = json!({"model": "m", "prompt": [ids, [7]], "max_tokens": 50, "n": 4});
    let answer = Client::connect(server.addr()).post(COMPLETIONS, &body).json();
    let choices = answer["choices"].as_array().expect("choices");
    let lengths: Vec<usize> =
        choices.iter().map(|c| builtin().count(c["text"].as_str().expect("a text"))).collect();
    assert_eq!(lengths.len(), 8);
    assert!(lengths.iter().any(|l| *l != lengths[0]), "{lengths:?}");
    assert_eq!(answer["usage"]["completion_tokens"], lengths.iter().sum::<usize>());
    assert_eq!(answer["usage"]["prompt_tokens"], 41);
    // The first of each prompt found nothing; what the others found is not told, for the prompt counts once.
    let (_, truth, _) = server.stop_with_truth();
    assert_eq!(truth[0].cached_tokens, 0);
}

#[test]
fn other_apis_have_one_choice() {
    let server = sim("");
    let got = Client::connect(server.addr()).post(RESPONSES, &with(response(5, false), &json!({"n": 2})));
    assert_eq!(got.status, 400);
    assert!(got.text().contains("n must be 1 here, got 2"), "{}", got.text());
}
