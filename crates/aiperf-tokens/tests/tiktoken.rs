//! The built-in encodings against ids from Python's tiktoken 0.14.0 (`Encoding.encode(text, allowed_special="all")`).

use aiperf_core::plan::TokenizerPlan;
use aiperf_tokens::{known_encodings, open};
use serde_json::{Value, json};

#[test]
fn ids_are_those_of_tiktoken() {
    let vectors: Value = serde_json::from_str(include_str!("data/tiktoken.json")).expect("the test data");
    let texts = vectors["texts"].as_array().expect("a list");
    assert_eq!(texts.len(), 33);
    for name in known_encodings() {
        let same_as = if *name == "builtin" { "o200k_base" } else { name };
        let tokenizer = open(&TokenizerPlan { name: (*name).to_owned() }).expect("a built-in encoding");
        for (index, text) in texts.iter().enumerate() {
            let text = text.as_str().expect("a text");
            let mut ids = Vec::new();
            tokenizer.encode(text, &mut ids);
            assert_eq!(json!(ids), vectors[same_as][index], "{name}: {text:?}");
            assert_eq!(tokenizer.count(text), ids.len(), "{name}: {text:?}");
            assert_eq!(tokenizer.decode(&ids), text, "{name}");
        }
    }
}
