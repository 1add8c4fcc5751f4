//! `aiperf tokenizer`, and names of the hub found in its cache.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Done, Run, sim, url};

/// A small vocabulary with a BOS, which the tests of the tokenizers trained.
fn vocabulary() -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../aiperf-tokens/tests/data/byte_level/tokenizer.json");
    std::fs::read_to_string(path).expect("the test's vocabulary")
}

/// The command on a folder with that vocabulary and this template.
fn with_template(template: &str) -> Run {
    Run::new("tokenizer tok --samples 40")
        .file("tok/tokenizer.json", vocabulary())
        .file("tok/chat_template.jinja", template)
}

#[track_caller]
fn findings(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).expect("stdout is JSON")
}

#[test]
fn findings_are_told_in_lines() {
    let done = Run::new("tokenizer builtin --samples 40").run().expect_exit(0).shows(&[
        "Tokenizer builtin Kind byte-level BPE (tiktoken, built in) Vocabulary 200019 tokens",
        "BOS none EOS <|endoftext|> (199999)",
        "Chat template none: lengths are those of the bare text",
        "Marker cost system_prefix: 10 (9 to 11) system_suffix: 11 (10 to 12)",
        "Lengths exact by prefix sums: 40 of 40 prompts",
        "Round trip texts come back unchanged from their ids",
    ]);
    assert_eq!(done.stderr, "");
    assert!(done.made().is_empty());
}

#[test]
fn findings_are_told_as_json() {
    let template = "<|role|>{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}\
                    <|role|>{{ m.content }}{% endfor %}";
    let found = findings(&with_template(template).args("--format json").run().expect_exit(0));
    assert_eq!(found["name"], "tok");
    assert_eq!(found["file"], "tok/tokenizer.json");
    assert_eq!(found["prompt_specials"], 1);
    let told = &found["chat_template"];
    assert_eq!((&told["fixed"], &told["wrap"]), (&json!(0), &json!(1)));
    assert_eq!((&told["first_turn_adjustment"], &told["later_turn_adjustment"]), (&json!(1), &json!(1)));
    assert_eq!(told["first_turn_cost"], json!({"least": 1, "most": 1}));
    let marked = &found["markers"]["first_turn_prefix"];
    assert_eq!(
        marked["first_turn_adjustment"].as_u64(),
        marked["estimate"].as_u64().map(|estimate| 1 + estimate)
    );
    assert_eq!(told["samples"].as_array().map(Vec::len), Some(3));
    assert_eq!(told["samples"][0]["text"], "Hello, how are you today?");
    assert_eq!(told["file"], "tok/chat_template.jinja");
    assert_eq!(told["refuses_system"], "no system here");
    assert_eq!((&told["problem"], &told["refuses_consecutive_users"]), (&Value::Null, &Value::Null));
    assert_eq!(found["markers"].as_object().map(serde_json::Map::len), Some(6));
    assert_eq!(found["markers"]["first_turn_prefix"]["samples"].as_array().map(Vec::len), Some(8));
    let lengths = &found["lengths"];
    assert_eq!(
        (&lengths["prompts"], &lengths["exact"], &lengths["misses"]),
        (&json!(40), &json!(40), &json!([]))
    );
    // Each message is a special token and the text, so the linear estimate is the truth.
    assert_eq!(
        lengths["first_guess"],
        json!({"prompts": 40, "exact": 40, "least_error": 0, "most_error": 0})
    );
}

#[test]
fn what_the_estimate_would_take_off_is_told_beside_what_the_template_costs() {
    // A user's wrap is one token shorter than the assistant's, and the estimate takes the mean of both.
    let template = "<|role|>{% for m in messages %}<|role|>{{ '[' if m.role == 'assistant' }}<|end|>{{ m.content }}<|end|>{% endfor %}\
                    <|role|>";
    with_template(template).run().expect_exit(0).shows(&[
        "Template cost 0 a request and 4 a message, tokens, by AIPerf's linear estimate",
        "it would take 4 off a first turn,",
        "with a marker, and 4 off a later one; a first turn really costs 4",
    ]);
}

#[test]
fn what_a_template_says_does_not_drive_the_terminal() {
    let done =
        with_template("{{ raise_exception('\x1b]0;owned\x07 no\nLengths fine') }}").run().expect_exit(0);
    let done = done.shows(&["Template cost cannot be told: ]0;owned no Lengths fine", "User twice refused:"]);
    assert!(!done.stdout.contains(['\x1b', '\x07']));
}

#[test]
fn a_tokenizer_that_cannot_be_opened_is_refused_with_its_reason() {
    for (run, words) in [
        (
            with_template("{% if %}"),
            "cannot use the chat template in tok/chat_template.jinja: template has a syntax error",
        ),
        (
            Run::new("tokenizer tok").file("tok/tokenizer.json", "{\"model\": 3"),
            "cannot use tok/tokenizer.json",
        ),
        (
            Run::new("tokenizer tok").file("tok/tekken.json", "{}"),
            "cannot use tok/tekken.json: missing field `config`",
        ),
        (Run::new("tokenizer tok").file("tok/README", ""), "has no tokenizer.json (it holds README)"),
        (Run::new("tokenizer biultin"), "did you mean 'builtin'?"),
        (Run::new("tokenizer none"), "unknown tokenizer 'none'; allowed are builtin,"),
        (Run::new("tokenizer gpt2"), "its vocabulary is built in as r50k_base"),
        (Run::new("tokenizer builtin --samples 0"), "1..=1000000"),
        (Run::new("tokenizer builtin --format xml"), "possible values: text, json"),
        (Run::new("tokenizer"), "<NAME>"),
    ] {
        let done = run.run().expect_exit(2).says(&[words]);
        assert_eq!(done.stdout, "");
        assert!(done.made().is_empty());
    }
}

/// A cache with `tiny/model`, the vocabulary at revision `v1` alone.
fn cached(run: Run) -> Run {
    let model = "cache/models--tiny--model";
    run.file(&format!("{model}/refs/main"), "aaa")
        .file(&format!("{model}/snapshots/aaa/config.json"), "{}")
        .file(&format!("{model}/refs/v1"), "bbb")
        .file(&format!("{model}/snapshots/bbb/tokenizer.json"), vocabulary())
        .env("HF_HUB_CACHE", "cache")
}

#[test]
fn a_name_of_the_hub_is_found_in_its_cache() {
    for name in ["tiny/model@v1", "model@v1", "tiny/model@bbb"] {
        let done = cached(Run::new("tokenizer --samples 1 -f json").arg(name)).run().expect_exit(0);
        let found = findings(&done);
        assert_eq!(
            (&found["name"], &found["file"]),
            (&json!(name), &json!("cache/models--tiny--model/snapshots/bbb/tokenizer.json"))
        );
    }
    cached(Run::new("tokenizer tiny/model"))
        .run()
        .expect_exit(2)
        .says(&["snapshots/aaa", "has no tokenizer.json"]);
    cached(Run::new("tokenizer tiny/model@v2"))
        .run()
        .expect_exit(2)
        .says(&["'tiny/model' at revision 'v2'", "main, v1"]);
    cached(Run::new("tokenizer tiny/modle"))
        .run()
        .expect_exit(2)
        .says(&["did you mean 'tiny/model'?", "nothing is downloaded"]);
    // Offline variables change nothing: folders and the cache are all that is ever read.
    cached(Run::new("tokenizer model@v1 --samples 1"))
        .env("HF_HUB_OFFLINE", "1")
        .env("TRANSFORMERS_OFFLINE", "1")
        .run()
        .expect_exit(0);
}

#[test]
fn a_run_counts_with_the_cached_tokenizer_of_its_model() {
    let server = sim("");
    let run = |args: &str| {
        let line = "profile --ui none --artifact-dir out --isl 12 --osl 2 --request-count 2 --random-seed 3 --endpoint-type completions";
        cached(Run::new(line)).args(args).arg("--url").arg(url(&server))
    };
    for args in
        ["--model tiny/model --tokenizer-revision v1", "--model m --tokenizer model --tokenizer-revision bbb"]
    {
        let done = run(args).run().expect_exit(0);
        // The vocabulary's BOS is inside.
        assert_eq!(done.summary()["input_sequence_length"]["avg"], 12.0, "{args}");
    }
    run("--model tiny/model").run().expect_exit(2).says(&["has no tokenizer.json"]);
}
