//! `/tokenize` and `/detokenize`.

use std::sync::Arc;

use aiperf_sim::{Listen, SimConfig, start};
use aiperf_tokens::{TemplateClock, Tokenizer, count_chat};
use serde_json::{Value, json};

use crate::client::Client;
use crate::templated::Templated;
use crate::{CHAT, COMPLETIONS, builtin, sim};

fn ids(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    builtin().encode(text, &mut ids);
    ids
}

#[test]
fn texts_become_ids_and_texts_again() {
    let server = sim("max-model-len=5000");
    let mut client = Client::connect(server.addr());
    for text in ["Why is the sky blue?", "", &"caf\u{e9} ".repeat(700)] {
        let answer = client.post("/tokenize", &json!({"model": "m", "prompt": text})).json();
        let ids = ids(text);
        assert_eq!(
            answer,
            json!({"count": ids.len(), "max_model_len": 5000, "tokens": ids, "token_strs": null})
        );
        let back = client.post("/detokenize", &json!({"model": "m", "tokens": ids})).json();
        assert_eq!(back, json!({"prompt": text}));
    }
    assert_eq!(server.stop().requests, 0, "these are no inference requests");
}

#[test]
fn the_count_is_what_the_answer_to_the_same_request_says() {
    let config = SimConfig::from_query("ttft=0&itl=0").expect("good settings");
    let server = start(config, Arc::new(Templated::new()), Listen::loopback()).expect("a free port");
    let mut client = Client::connect(server.addr());
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]);
    let tools = json!([{"type": "function"}]);
    for tools in [Value::Null, tools] {
        let body = json!({"model": "m", "messages": messages, "tools": tools, "max_tokens": 1});
        let told = client.post(CHAT, &body).json()["usage"]["prompt_tokens"].clone();
        assert_eq!(client.post("/tokenize", &body).json()["count"], told);
    }
    let flat = json!([
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"},
    ]);
    let now = TemplateClock::civil(2026, 1, 1, 0, 0, 0).expect("a day");
    let bare = count_chat(&Templated::new(), &flat, None, false, now).expect("it renders");
    let body = json!({"messages": messages, "add_generation_prompt": false});
    assert_eq!(client.post("/tokenize", &body).json()["count"], bare);
    let body = json!({"messages": messages, "add_generation_prompt": false, "add_special_tokens": true});
    assert_eq!(client.post("/tokenize", &body).json()["count"], bare + 1);
    let kwargs = json!({"messages": messages, "chat_template_kwargs": {"add_generation_prompt": false}});
    assert_eq!(client.post("/tokenize", &kwargs).json()["count"], bare);

    // A prompt begins with its own token unless it shall not.
    let body = json!({"model": "m", "prompt": "a b", "max_tokens": 1});
    let told = client.post(COMPLETIONS, &body).json()["usage"]["prompt_tokens"].clone();
    let answer = client.post("/tokenize", &json!({"prompt": "a b"})).json();
    assert_eq!(answer["count"], told);
    let bos = Templated::new().token_id("<|endoftext|>").expect("a token");
    assert_eq!(answer["tokens"], json!([vec![bos], ids("a b")].concat()));
    let answer = client.post("/tokenize", &json!({"prompt": "a b", "add_special_tokens": false})).json();
    assert_eq!(answer["tokens"], json!(ids("a b")));
}

#[test]
fn without_a_template_the_ids_of_each_content_follow_one_another() {
    let server = sim("");
    let messages = json!([{"role": "system", "content": "Be brief"}, {"role": "user", "content": "ly"}]);
    let answer = Client::connect(server.addr()).post("/tokenize", &json!({"messages": messages})).json();
    assert_eq!(answer["tokens"], json!([ids("Be brief"), ids("ly")].concat()));
}

#[test]
fn wrong_requests_are_refused_like_all_others() {
    let server = sim("models=m");
    let mut client = Client::connect(server.addr());
    for (path, body, status, word) in [
        ("/tokenize", json!({"prompt": "a", "model": "x"}), 404, "`x`"),
        ("/tokenize", json!({"model": "m"}), 400, "'prompt' or 'messages'"),
        ("/tokenize", json!({"prompt": "a", "messages": []}), 400, "'prompt' or 'messages'"),
        ("/tokenize", json!({"prompt": ["a"]}), 400, "wrong"),
        ("/tokenize", json!({"messages": []}), 400, "empty"),
        ("/tokenize", json!({"prompt": "a", "return_token_strs": true}), 400, "return_token_strs"),
        ("/tokenize", json!({"messages": [], "continue_final_message": true}), 400, "continue_final_message"),
        ("/detokenize", json!({"model": "x", "tokens": []}), 404, "`x`"),
        ("/detokenize", json!({"tokens": [-1]}), 400, "wrong"),
        ("/detokenize", json!({}), 400, "tokens"),
    ] {
        let got = client.post(path, &body);
        let answer = got.json();
        assert_eq!((got.status, &answer["error"]["code"]), (status, &json!(status)), "{body}");
        assert!(answer["error"]["message"].as_str().is_some_and(|m| m.contains(word)), "{answer}");
    }
    client.send("GET", "/tokenize", "", "");
    assert_eq!(client.read().expect("an answer").status, 405);
}

#[test]
fn a_server_may_have_no_such_endpoint() {
    let server = sim("tokenize-endpoint=off");
    let mut client = Client::connect(server.addr());
    for path in ["/tokenize", "/detokenize"] {
        assert_eq!(client.post(path, &json!({"prompt": "a", "tokens": [1]})).status, 404);
    }
}
