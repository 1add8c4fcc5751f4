//! Lengths that cannot be, tokenizers and templates that do not do what is asked of them: told before anything is sent or made, by exit
//! code 2, or done in a way that a line tells.

use std::path::Path;

use serde_json::json;

use crate::support::{Done, Run};

/// Two tokens for the request, two for each message, one for the answer.
const PLAIN: &str = "<|role|><|role|>{% for m in messages %}<|role|>{{ m.content }}<|role|>{% endfor %}\
                     {% if add_generation_prompt %}<|role|>{% endif %}";

/// A small vocabulary with a BOS, which the tests of the tokenizers trained.
fn vocabulary() -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../aiperf-tokens/tests/data/byte_level/tokenizer.json");
    std::fs::read_to_string(path).expect("the test's vocabulary")
}

/// A run with that vocabulary, against the simulated server.
fn run(args: &str) -> Run {
    Run::new("profile --model demo --ui none --artifact-dir out --random-seed 7 --tokenizer tok --url sim://?ttft=0&itl=0")
        .args(args)
        .file("tok/tokenizer.json", vocabulary())
}

/// The same with a chat template and lengths counted in it.
fn rendered(template: &str, args: &str) -> Run {
    run(args).arg("--apply-chat-template").file("tok/chat_template.jinja", template)
}

/// Refused with these words, and nothing made.
#[track_caller]
fn refused(run: Run, texts: &[&str]) {
    let done = run.run().expect_exit(2).says(texts);
    assert_eq!(done.stdout, "");
    assert!(done.made().is_empty(), "made {:?}", done.made());
}

/// It runs, and every request has these tokens as the client and the server count.
#[track_caller]
fn sent(run: Run, tokens: u64) -> Done {
    let done = run.run().expect_exit(0);
    let records = done.records();
    assert!(!records.is_empty());
    for record in records {
        let value = |tag: &str| record["metrics"][tag]["value"].as_u64();
        assert_eq!(
            (value("input_sequence_length"), value("usage_prompt_tokens")),
            (Some(tokens), Some(tokens)),
            "{record}"
        );
    }
    done
}

#[test]
fn a_broken_vocabulary_is_named_with_what_is_wrong() {
    let without_model = json!({"version": "1.0", "added_tokens": []}).to_string();
    let unknown_kind = json!({"version": "1.0", "model": {"type": "Guess", "vocab": {}}}).to_string();
    let mut cut = vocabulary();
    cut.truncate(cut.len() / 2);
    for broken in [without_model, unknown_kind, cut, "[]".to_owned(), String::new()] {
        refused(run("--isl 20").file("tok/tokenizer.json", broken), &["cannot use tok/tokenizer.json: "]);
    }
}

#[test]
fn a_template_that_cannot_be_read_or_raises_is_refused_in_its_own_words() {
    refused(
        rendered("{% for m in messages %}{{ m.content }}", "--isl 20"),
        &["cannot use the chat template in tok/chat_template.jinja: template has a syntax error"],
    );
    refused(
        rendered("{{ raise_exception('this one is never content') }}", "--isl 20"),
        &[
            "the chat template takes no user message: this one is never content; drop what asks for it, or --apply-chat-template",
        ],
    );
    // Where nothing is rendered, nothing can raise.
    let raising = run("--endpoint-type completions --isl 20 --request-count 2")
        .file("tok/chat_template.jinja", "{{ raise_exception('this one is never content') }}");
    raising.run().expect_exit(0);
}

#[test]
fn roles_that_a_template_takes_not_are_refused_with_the_options_that_ask_for_them() {
    let no = |role: &str, words: &str| {
        format!(
            "<|role|>{{% for m in messages %}}{{% if m.role == '{role}' %}}{{{{ raise_exception('{words}') }}}}{{% endif %}}\
             <|role|>{{{{ m.content }}}}{{% endfor %}}"
        )
    };
    let no_system = no("system", "no system here");
    for asks in ["--system-prompt Briefly.", "--shared-system-prompt-length 20"] {
        refused(
            rendered(&no_system, asks).args("--isl 30"),
            &[
                "takes no system message (--system-prompt, --shared-system-prompt-length): no system here; drop what asks for it",
            ],
        );
    }
    let alternate = "{% for m in messages %}{% if loop.previtem is defined and loop.previtem.role == m.role %}\
                     {{ raise_exception('take turns') }}{% endif %}<|role|>{{ m.content }}{% endfor %}";
    refused(
        rendered(alternate, "--user-context-prompt-length 20 --isl 30"),
        &["takes no user context before the first user message (--user-context-prompt-length): take turns"],
    );
    refused(
        rendered(&no("assistant", "I say nothing"), "--conversation-turn-mean 2 --isl 30"),
        &["takes no user message behind an answer (--conversation-turn-mean): I say nothing"],
    );
    // Without what they do not take, they are as good as others.
    for template in [no_system.as_str(), alternate] {
        sent(rendered(template, "--isl 30 --request-count 2 --num-dataset-entries 2"), 30);
    }
}

#[test]
fn a_length_below_template_and_marker_is_refused_with_the_least_that_can_be() {
    refused(
        rendered(PLAIN, "--isl 5"),
        &[
            "an ISL of 5 cannot be: the least possible is 6 (the chat template and a text of one token); ask for more, or pass \
             --isl-below-minimum floor",
        ],
    );
    sent(rendered(PLAIN, "--isl 6 --request-count 2"), 6);
    refused(
        rendered(PLAIN, "--isl 8 --cache-bust first_turn_prefix"),
        &[
            "an ISL of 8 cannot be: the least possible is ",
            "(the chat template, the cache-bust marker and a text of one token)",
        ],
    );
    refused(
        run("--isl 8 --cache-bust first_turn_suffix"),
        &["an ISL of 8 cannot be: the least possible is ", "(the cache-bust marker and a text of one token)"],
    );
    refused(
        run("--isl 50 --shared-system-prompt-length 3 --cache-bust system_prefix"),
        &["a shared system prompt of 3 tokens has no room for its cache-bust marker: the least possible is "],
    );
    // One of several lengths is enough.
    refused(
        rendered(PLAIN, "--seq-dist 30,4:99;4,4:1 --num-dataset-entries 500"),
        &[
            "an ISL of 4 cannot be: the least possible is 6",
            ", and turn 1 of conversation ",
            " asks for less",
        ],
    );
}

#[test]
fn the_least_that_is_named_can_be_asked_for() {
    for args in ["--cache-bust first_turn_prefix", "--cache-bust first_turn_suffix"] {
        let done = rendered(PLAIN, args).args("--isl 1").run().expect_exit(2);
        let (_, behind) = done.stderr.split_once("the least possible is ").expect("it is named");
        let least: u64 = behind.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        sent(rendered(PLAIN, args).args(&format!("--isl {least} --request-count 6")), least);
        refused(rendered(PLAIN, args).args(&format!("--isl {}", least - 1)), &["the least possible is "]);
    }
}

#[test]
fn a_floor_sends_the_shortest_and_says_so_in_one_line() {
    let done = sent(rendered(PLAIN, "--isl 2 --isl-below-minimum floor --request-count 3"), 6);
    let line = "3 of 3 prompts have an ISL below the least that can be (6); the shortest text is sent instead, as --isl-below-minimum \
                floor says";
    let done =
        done.shows(&[line, "Input lengths: asked = sent in 0 of 3 requests (errors +4 to +4, mean +4.0)"]);
    assert_eq!(done.stdout.matches("below the least").count(), 1, "{}", done.stdout);
    let fits = sent(rendered(PLAIN, "--isl 6 --isl-below-minimum floor --request-count 2"), 6);
    assert!(!fits.stdout.contains("below the least"), "{}", fits.stdout);
}

#[test]
fn without_a_template_lengths_are_bare_and_one_line_says_so() {
    let done = sent(run("--apply-chat-template --isl 20 --request-count 2"), 20).shows(&[
        "tokenizer 'tok' has no chat template, so --apply-chat-template changes nothing: lengths are those of the bare texts",
    ]);
    assert_eq!(done.stdout.matches("has no chat template").count(), 1, "{}", done.stdout);
}

#[test]
fn lengths_beyond_the_corpus_go_around_it_again() {
    // Shakespeare's words are about a million tokens of this vocabulary.
    let beyond = Run::new(
        "profile --model demo --ui none --artifact-dir out --random-seed 7 --tokenizer builtin --osl 1",
    )
    .args("--isl 1300000 --request-count 1 --url sim://?ttft=0&itl=0&max-model-len=2000000");
    let done = sent(beyond, 1_300_000);
    done.shows(&["Input lengths: asked = sent = counted in 1 of 1 requests."]);
}

#[test]
fn forms_of_length_that_make_no_sense_are_refused() {
    for (args, texts) in [
        (
            "--seq-dist 10,5:60;20,5:30",
            ["--seq-dist: found '10,5:60;20,5:30' that add up to 90", "allowed: percents that add up to 100"],
        ),
        (
            "--isl 10 --osl 5 --random-range-ratio 1",
            ["--random-range-ratio: found '1'", "allowed: a number from 0 and below 1 in style vllm"],
        ),
        ("--isl 10 --osl 5 --random-range-ratio -0.5", ["--random-range-ratio: found '-0.5'", "from 0 to 1"]),
        (
            "--isl 10 --osl 5 --random-range-ratio 1.5 --random-corpus-style sglang",
            ["--random-range-ratio: found '1.5'", "from 0 to 1"],
        ),
        (
            "--prefix-prompt-pool-size 4",
            [
                "--prefix-prompt-pool-size needs --prompt-prefix-length",
                "how many tokens each of the prefixes has",
            ],
        ),
        (
            "--endpoint-type completions --cache-bust first_turn_prefix",
            [
                "--cache-bust: found the endpoint type 'completions'",
                "allowed: endpoint types that send messages",
            ],
        ),
    ] {
        refused(run(args), &texts);
    }
    // A prefix needs no pool: then there is one.
    let done = sent(run("--isl 10 --prompt-prefix-length 5 --request-count 3"), 15);
    let begins = |text: &str| text.chars().take(4).collect::<String>();
    let texts: Vec<String> =
        done.inputs().iter().map(|body| body["messages"][0]["content"].to_string()).collect();
    assert!(texts.len() == 3 && texts.iter().all(|text| begins(text) == begins(&texts[0])), "{texts:?}");
}
