//! Mistral's vocabularies against ids from mistral-common 1.13.1 (`data/tekken`, made by `data/make_tekken.py`).

use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_tokens::{Kind, Tokenizer, open};
use serde_json::{Value, json};

fn opened(path: &Path) -> Arc<dyn Tokenizer> {
    open(&TokenizerPlan { name: path.to_str().expect("a UTF-8 path").to_owned() }).expect("a tekken file")
}

#[test]
fn ids_texts_and_sizes_are_those_of_mistral_common() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tekken");
    let vectors = std::fs::read_to_string(folder.join("vectors.json")).expect("the test data");
    let vectors: Value = serde_json::from_str(&vectors).expect("JSON");
    let file = folder.join("tekken.json");
    for path in [&folder, &file] {
        let tokenizer = opened(path);
        assert_eq!(json!(tokenizer.vocab_size()), vectors["vocab_size"]);
        assert_eq!(json!(tokenizer.bos_token().and_then(|token| tokenizer.token_id(token))), vectors["bos"]);
        assert_eq!(json!(tokenizer.eos_token().and_then(|token| tokenizer.token_id(token))), vectors["eos"]);
        let all = tokenizer.token_ids();
        let specials: Vec<u32> = all.iter().copied().filter(|id| tokenizer.is_special(*id)).collect();
        assert_eq!(json!(specials), vectors["special_ids"]);
        assert_eq!(json!(tokenizer.decode(&all)), vectors["all_decoded"]);
        let texts = vectors["texts"].as_array().expect("a list");
        assert_eq!(texts.len(), 35);
        for (text, expected) in texts.iter().zip(vectors["ids"].as_array().expect("a list")) {
            let text = text.as_str().expect("a text");
            let mut ids = Vec::new();
            tokenizer.encode(text, &mut ids);
            assert_eq!(json!(ids), *expected, "{text:?}");
            assert_eq!(tokenizer.count(text), ids.len(), "{text:?}");
            assert_eq!(tokenizer.decode(&ids), text);
        }
        let origin = tokenizer.origin();
        assert_eq!((origin.kind, origin.path.as_ref(), origin.template), (Kind::Tekken, Some(&file), None));
    }
}
