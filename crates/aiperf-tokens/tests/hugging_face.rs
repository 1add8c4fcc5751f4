//! Vocabularies in Hugging Face form against what `transformers` says of them (`data/vectors.json`, made by `data/make.py`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aiperf_core::plan::TokenizerPlan;
use aiperf_tokens::{TemplateClock, TemplateError, Tokenizer, TokenizerError, count_chat, open};
use proptest::prelude::*;
use serde_json::{Value, json};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn try_open(path: &Path) -> Result<Arc<dyn Tokenizer>, TokenizerError> {
    open(&TokenizerPlan { name: path.to_str().expect("a UTF-8 path").to_owned() })
}

fn opened(name: &str) -> Arc<dyn Tokenizer> {
    try_open(&data().join(name)).expect("a tokenizer of the test data")
}

fn vectors() -> Value {
    let text = std::fs::read_to_string(data().join("vectors.json")).expect("the test data");
    serde_json::from_str(&text).expect("JSON")
}

fn now() -> TemplateClock {
    TemplateClock::civil(2025, 1, 2, 3, 4, 5).expect("a real moment")
}

fn ids(tokenizer: &dyn Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &mut ids);
    ids
}

#[test]
fn ids_texts_and_sizes_are_those_of_transformers() {
    let vectors = vectors();
    let probes = vectors["probes"].as_array().expect("a list");
    let mut seen = 0;
    for (name, expected) in vectors["tokenizers"].as_object().expect("an object") {
        let tokenizer = opened(name);
        assert_eq!(json!(tokenizer.vocab_size()), expected["vocab_size"], "{name}");
        assert_eq!(json!(tokenizer.prompt_specials()), expected["prompt_specials"], "{name}");
        assert_eq!(json!(tokenizer.bos_token()), expected["bos"], "{name}");
        assert_eq!(json!(tokenizer.eos_token()), expected["eos"], "{name}");
        let specials: Vec<u32> = (0..2_000).filter(|&id| tokenizer.is_special(id)).collect();
        assert_eq!(json!(specials), expected["special_ids"], "{name}");
        for (index, probe) in probes.iter().enumerate() {
            let probe = probe.as_str().expect("a text");
            let ids = ids(&*tokenizer, probe);
            assert_eq!(json!(ids), expected["ids"][index], "{name}: {probe:?}");
            assert_eq!(tokenizer.count(probe), ids.len(), "{name}: {probe:?}");
            let mut prompt = Vec::new();
            tokenizer.encode_prompt(probe, &mut prompt);
            assert_eq!(prompt.len(), ids.len() + tokenizer.prompt_specials(), "{name}: {probe:?}");
            let inside = ids.is_empty() || prompt.windows(ids.len()).any(|part| part == ids);
            assert!(inside, "{name}: {probe:?}");
            let outside: Vec<&u32> = prompt.iter().filter(|id| !ids.contains(id)).collect();
            assert!(outside.iter().all(|id| tokenizer.is_special(**id)), "{name}: {probe:?}");
            assert_eq!(json!(tokenizer.decode(&ids)), expected["texts"][index], "{name}: {probe:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 5 * 24);
}

#[test]
fn rendered_conversations_and_their_counts_are_those_of_transformers() {
    let vectors = vectors();
    let chats = vectors["chats"].as_array().expect("a list");
    assert_eq!(chats.len(), 24);
    for chat in chats {
        let tokenizer = opened(chat["tokenizer"].as_str().expect("a name"));
        let template = tokenizer.chat_template().expect("a template");
        let tools = Some(&chat["tools"]).filter(|tools| !tools.is_null());
        let generation = chat["generation"].as_bool().expect("a flag");
        let text = template.render(&chat["messages"], tools, generation, now());
        assert_eq!(text.as_deref().ok(), chat["text"].as_str(), "{chat}");
        let count = count_chat(&*tokenizer, &chat["messages"], tools, generation, now());
        assert_eq!(json!(count.ok()), chat["tokens"], "{chat}");
    }
}

#[test]
fn a_template_that_raises_is_heard() {
    let tokenizer = opened("byte_level");
    let messages = json!([{"role": "user", "content": "a"}, {"role": "judge", "content": "b"}]);
    let refused = tokenizer.chat_template().expect("a template").render(&messages, None, true, now());
    assert_eq!(refused, Err(TemplateError::Raised { message: "unknown role judge".to_owned() }));
    let error =
        count_chat(&*opened("unigram"), &messages, None, true, now()).expect_err("there is no template");
    assert!(error.to_string().ends_with("has no chat template"), "{error}");
}

#[test]
fn the_file_alone_is_the_same_vocabulary() {
    let folder = opened("byte_level");
    let file = try_open(&data().join("byte_level/tokenizer.json")).expect("the file of the folder");
    assert_eq!(file.bos_token(), Some("<s>"));
    assert!(file.chat_template().is_some());
    assert_eq!(ids(&*file, "the same"), ids(&*folder, "the same"));

    // Under another name it stands for itself: what lies beside it may be another model's.
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let copy = elsewhere.path().join("mine.json");
    std::fs::copy(data().join("byte_level/tokenizer.json"), &copy).expect("a copy");
    std::fs::copy(
        data().join("byte_level/tokenizer_config.json"),
        elsewhere.path().join("tokenizer_config.json"),
    )
    .expect("a copy");
    let copy = try_open(&copy).expect("a vocabulary");
    assert_eq!(ids(&*copy, "the same"), ids(&*folder, "the same"));
    assert_eq!(copy.bos_token(), None);
    assert!(copy.chat_template().is_none());
}

#[test]
fn template_files_win_over_the_configuration_and_tools_have_their_own() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a temporary file");
    std::fs::copy(data().join("byte_level/tokenizer.json"), folder.path().join("tokenizer.json"))
        .expect("a copy");
    let tools = json!([{"type": "function"}]);
    let rendered = |tools: Option<&Value>| {
        let tokenizer = try_open(folder.path()).expect("a vocabulary");
        let text =
            tokenizer.chat_template().map(|t| t.render(&json!([]), tools, true, now()).expect("plain text"));
        text.unwrap_or_default()
    };
    assert_eq!(rendered(None), "");
    write("chat_template.json", r#"{"chat_template": "processor"}"#);
    assert_eq!(rendered(None), "processor");
    let config = json!({"eos_token": "</s>", "chat_template": [
        {"name": "default", "template": "plain {{ eos_token }}"}, {"name": "tool_use", "template": "tooled"}]});
    write("tokenizer_config.json", &config.to_string());
    assert_eq!(rendered(None), "plain </s>");
    assert_eq!(rendered(Some(&tools)), "tooled");
    write("chat_template.jinja", "file");
    assert_eq!(rendered(None), "file");
    assert_eq!(rendered(Some(&tools)), "file");
    std::fs::create_dir(folder.path().join("additional_chat_templates")).expect("a temporary folder");
    write("additional_chat_templates/tool_use.jinja", "file for tools");
    assert_eq!(rendered(None), "file");
    assert_eq!(rendered(Some(&tools)), "file for tools");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    let said = || try_open(path).expect_err("nothing to open").to_string();
    assert!(said().contains("has no tokenizer.json (it holds nothing)"), "{}", said());
    for index in 0..12 {
        std::fs::write(path.join(format!("model-{index:02}.bin")), "").expect("a temporary file");
    }
    assert!(said().contains("model-00.bin") && said().contains("model-09.bin, and 2 more"), "{}", said());
    assert!(said().contains(path.to_str().expect("a UTF-8 path")), "{}", said());

    let file = path.join("tokenizer.json");
    for (text, expected) in [
        ("", "EOF"),
        ("{\"version\": \"1.0\"", "EOF"),
        ("[]", "invalid type"),
        ("{}", "no `model`"),
        ("{\"model\": {}}", "no `vocab`"),
        (
            "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}",
            "merge \"a\" is not two tokens",
        ),
        (
            "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}",
            "out of vocabulary",
        ),
        (
            "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 4294967295}, \"merges\": []}}",
            "has the id 4294967295; ids up to 16777215 are taken",
        ),
        ("{\"model\": {\"type\": \"Odd\", \"vocab\": {}}}", "model"),
        ("{\"model\": {\"type\": \"BPE\", \"vocab\": 3, \"merges\": []}}", "a vocabulary"),
        ("{\"model\": {\"vocab\": {}}, \"added_tokens\": 3}", "not a list"),
    ] {
        std::fs::write(&file, text).expect("a temporary file");
        assert!(said().contains(expected) && said().contains("tokenizer.json"), "{text}: {}", said());
    }
    std::fs::write(&file, b"{\"a\": \"\xff\"}").expect("a temporary file");
    assert!(said().contains("not UTF-8 from byte 7 on"), "{}", said());

    std::fs::copy(data().join("byte_level/tokenizer.json"), &file).expect("a copy");
    std::fs::write(path.join("tokenizer_config.json"), "[1]").expect("a temporary file");
    assert!(said().contains("tokenizer_config.json: it is not a JSON object"), "{}", said());
    std::fs::write(path.join("tokenizer_config.json"), "{}").expect("a temporary file");
    std::fs::write(path.join("chat_template.jinja"), "line\n{% if %}").expect("a temporary file");
    assert!(said().contains("chat_template.jinja: template has a syntax error in line 2"), "{}", said());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Byte-level vocabularies without a normalizer lose nothing, and special tokens are walls: what is encoded on either
    /// side of one is what it is alone.
    #[test]
    fn byte_level_text_comes_back(text in any::<String>(), other in "[ -~]{0,20}") {
        thread_local! {
            static TOKENIZER: Arc<dyn Tokenizer> = opened("byte_level");
        }
        TOKENIZER.with(|tokenizer| {
            let ascii: String = text.chars().filter(char::is_ascii).collect();
            let whole = ids(&**tokenizer, &format!("{ascii}<|role|>{other}"));
            let mut parts = ids(&**tokenizer, &ascii);
            parts.push(tokenizer.token_id("<|role|>").expect("an added token"));
            parts.extend(ids(&**tokenizer, &other));
            prop_assert_eq!(tokenizer.decode(&whole), format!("{ascii}<|role|>{other}"));
            prop_assert_eq!(whole, parts);
            prop_assert_eq!(tokenizer.count(&text), ids(&**tokenizer, &text).len());
            Ok(())
        })?;
    }
}
