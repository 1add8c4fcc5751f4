//! `aiperf tokenizer` on a folder with a chat template: requests of every shape, rendered and counted whole.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Done, Run};

/// The command on a small vocabulary with this template.
fn with_template(template: &str) -> Run {
    let vocabulary =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../aiperf-tokens/tests/data/byte_level/tokenizer.json");
    Run::new("tokenizer tok --samples 40")
        .file("tok/tokenizer.json", std::fs::read(vocabulary).expect("the test's vocabulary"))
        .file("tok/chat_template.jinja", template)
}

#[track_caller]
fn findings(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).expect("stdout is JSON")
}

/// Two tokens for the request, two for each message, one for the answer; no system message, and one user after the other.
const STRICT: &str = "<|role|><|role|>{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}\
                      {% elif loop.previtem is defined and loop.previtem.role == m.role %}{{ raise_exception('take turns') }}\
                      {% endif %}<|role|>{{ m.content }}<|role|>{% endfor %}{% if add_generation_prompt %}<|role|>{% endif %}";

/// Writes contents otherwise than they are.
const SHOUTS: &str = "{% for m in messages %}<|role|>{{ m.content | upper }}<|role|>{% endfor %}";

#[test]
fn rendered_requests_are_measured_and_refusals_told_in_the_templates_words() {
    let done = with_template(STRICT).run().expect_exit(0).shows(&[
        "System message refused: no system here",
        "User twice refused: take turns",
        "Rendered exact by walls and seams: 32 of 32 requests, rendered and counted whole",
        "first request: 8 of 8, the least possible ISL is 6",
        "with a marker: 8 of 8, the least possible ISL is ",
        "with a system message, marker on it: refused: no system here",
        "with a user context: refused: take turns",
        "later turns: 16 of 16",
    ]);
    assert_eq!(done.stderr, "");
    // Whole requests are rendered where a template writes contents otherwise, and later turns are not found in them again.
    with_template(SHOUTS).run().expect_exit(0).shows(&[
        "Rendered exact by whole requests rendered: 32 of 32 requests",
        "with a system message, marker on it: 8 of 8",
        "later turns: cannot be told apart in what the template writes",
    ]);
    with_template("{{ raise_exception('never') }}").run().expect_exit(0).shows(&[
        "Template cost cannot be told: never",
        "Rendered no request can be made with the chat template",
    ]);
}

#[test]
fn rendered_requests_are_told_as_json() {
    let found = findings(&with_template(STRICT).args("--format json").run().expect_exit(0));
    let rendered = &found["chat_template"]["rendered"];
    assert_eq!(rendered["method"], "walls_and_seams");
    assert_eq!((&rendered["requests"], &rendered["exact"]), (&json!(32), &json!(32)));
    let shapes = &rendered["shapes"];
    assert_eq!(
        shapes["first"],
        json!({"refused": null, "least_isl": 6, "requests": 8, "exact": 8, "misses": []})
    );
    assert_eq!(
        shapes["system"],
        json!({"refused": "no system here", "least_isl": null, "requests": 0, "exact": 0, "misses": []})
    );
    assert_eq!(shapes["context"]["refused"], "take turns");
    assert!(shapes["marked"]["least_isl"].as_u64() > Some(12), "{rendered}");
    assert_eq!(shapes["later"]["exact"], 16);
    let whole = findings(&with_template(SHOUTS).args("-f json").run().expect_exit(0));
    assert_eq!(whole["chat_template"]["rendered"]["method"], "whole_requests");
    let none = findings(&Run::new("tokenizer builtin --samples 5 -f json").run().expect_exit(0));
    assert_eq!(
        (&none["chat_template"], &none["lengths"]["whole_texts_counted"]),
        (&Value::Null, &json!(false))
    );
}
