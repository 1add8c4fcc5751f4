//! The simulated server over loopback, byte by byte.

mod capture;
mod choices;
mod client;
mod engine;
mod faults;
mod messages;
mod prompts;
mod protocol;
mod responses;
mod scripted;
mod templated;
mod tokenize;

use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_sim::{Listen, SimConfig, SimHandle, start};
use aiperf_tokens::Tokenizer;
use serde_json::{Value, json};

fn builtin() -> Arc<dyn Tokenizer> {
    aiperf_tokens::open(&TokenizerPlan { name: "builtin".to_owned() }).expect("it is built in")
}

/// A server without latency, with records in memory, and what `query` says.
fn sim(query: &str) -> SimHandle {
    let config = SimConfig::from_query(&format!("ttft=0&itl=0&truth=on&{query}")).expect("good settings");
    start(config, builtin(), Listen::loopback()).expect("a free port")
}

fn chat(tokens: u64, stream: bool) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "Why is the sky blue?"}],
           "max_tokens": tokens, "stream": stream, "stream_options": if stream { json!({"include_usage": true}) } else { Value::Null }})
}

fn completion(tokens: u64, stream: bool) -> Value {
    json!({"model": "m", "prompt": "Why is the sky blue?", "max_tokens": tokens, "stream": stream,
           "stream_options": if stream { json!({"include_usage": true}) } else { Value::Null }})
}

/// A request of responses.
fn response(tokens: u64, stream: bool) -> Value {
    json!({"model": "m", "input": "Why is the sky blue?", "max_output_tokens": tokens, "stream": stream})
}

/// A request of Anthropic's messages.
fn message(tokens: u64, stream: bool) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "Why is the sky blue?"}], "max_tokens": tokens,
           "stream": stream})
}

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
