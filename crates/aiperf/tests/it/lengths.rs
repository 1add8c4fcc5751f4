//! Asked, sent and counted input lengths, against servers that count as ours do, behind another template, with another tokenizer, or not at
//! all.

use std::net::SocketAddr;
use std::path::Path;

use aiperf_core::plan::TokenizerPlan;
use aiperf_sim::scripted::Reply;
use aiperf_sim::{SimConfig, SimHandle};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Done, Run, cycling, flat, sim, url};

/// Two tokens for the request, two for each message, one for the assistant's turn.
const TEMPLATE: &str = "<|role|><|role|>{% for m in messages %}<|role|>{{ m.content }}<|role|>{% endfor %}\
                        {% if add_generation_prompt %}<|role|>{% endif %}";

/// The small vocabulary with a BOS that the tests of the tokenizers trained.
fn vocabulary() -> Value {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../aiperf-tokens/tests/data/byte_level/tokenizer.json");
    serde_json::from_slice(&std::fs::read(path).expect("the test's vocabulary")).expect("it is JSON")
}

/// A folder with that vocabulary and a chat template.
fn folder(vocabulary: &Value, template: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokenizer.json"), vocabulary.to_string()).expect("a file");
    if let Some(template) = template {
        std::fs::write(folder.path().join("chat_template.jinja"), template).expect("a file");
    }
    folder
}

/// A server that counts with the tokenizer of this folder.
fn server(folder: &TempDir, query: &str) -> SimHandle {
    let name = folder.path().to_str().expect("a path in UTF-8").to_owned();
    let tokenizer = aiperf_tokens::open(&TokenizerPlan { name }).expect("it opens");
    let config = SimConfig::from_query(query).expect("the test's options are right");
    aiperf_sim::start(config, tokenizer, SocketAddr::from(([127, 0, 0, 1], 0))).expect("it starts")
}

/// A run with the tokenizer of this folder, of twelve prompts whose lengths differ.
fn run(url: &str, folder: &TempDir) -> Run {
    prompts(url, folder).args("--isl 30 --isl-stddev 5 --request-count 12")
}

/// A run with the tokenizer of this folder.
fn prompts(url: &str, folder: &TempDir) -> Run {
    Run::new("profile --model demo --ui none --artifact-dir out --random-seed 7 --osl 4")
        .args("--verify-lengths all --url")
        .arg(url)
        .arg("--tokenizer")
        .arg(folder.path().to_str().expect("a path in UTF-8"))
}

fn lengths(done: &Done) -> Value {
    done.summary()["input_lengths"].clone()
}

#[test]
fn lengths_that_agree_take_one_line() {
    let tokenizer = folder(&vocabulary(), Some(TEMPLATE));
    let server = server(&tokenizer, "");
    let done = run(&url(&server), &tokenizer).arg("--apply-chat-template").run().expect_exit(0);
    let done = done.shows(&["Input lengths: asked = sent = counted in 12 of 12 requests."]);
    let lengths = lengths(&done);
    let exact = json!({"requests": 12, "exact": 12, "share_exact": 1.0, "min_error": 0, "max_error": 0,
        "mean_error": 0.0});
    assert_eq!((&lengths["asked_sent"], &lengths["sent_counted"]), (&exact, &exact));
    assert_eq!(lengths["difference"], json!({"kind": "none"}));
    let verified = json!({"mode": "all", "requests": 12, "wrong": 0, "skipped": 0, "examples": []});
    assert_eq!(lengths["verified"], verified);
    // The server was asked before the run, and that is no request of it.
    let count = &lengths["server_count"];
    assert_eq!((&count["sent"], &count["counted"]), (&count["asked"], &count["asked"]));
    assert_eq!(server.totals().requests, 12);
    // The three lengths of each request under tags of their own.
    let mut asked = Vec::new();
    for record in done.records() {
        let value = |tag: &str| record["metrics"][tag]["value"].as_u64().expect("a length");
        let tags = ["asked_input_length", "input_sequence_length", "usage_prompt_tokens"];
        assert!(tags.iter().all(|tag| value(tag) == value(tags[0])), "{record}");
        asked.push(value(tags[0]));
    }
    asked.dedup();
    assert!(asked.len() > 3, "lengths differ: {asked:?}");
}

#[test]
fn a_template_that_is_not_asked_for_is_named_with_its_size() {
    let tokenizer = folder(&vocabulary(), Some(TEMPLATE));
    let server = server(&tokenizer, "");
    let done = run(&url(&server), &tokenizer).run().expect_exit(0);
    let done = done.shows(&[
        "Input lengths: asked = sent in 12 of 12 requests; sent = counted in 0 of 12 requests (errors +5 to +5, mean +5.0).",
        "The server counts 5 tokens more than were sent, in each request: its chat template. With --apply-chat-template it is part",
    ]);
    // 5 of 30 tokens are more than 10 %, and that is told once.
    assert!(!done.stdout.contains("differ by more than 10%"), "{}", done.stdout);
    let lengths = lengths(&done);
    assert_eq!(lengths["difference"], json!({"kind": "constant", "tokens": 5}));
    let count = &lengths["server_count"];
    let (sent, counted) = (count["sent"].as_u64().expect("a count"), count["counted"].as_u64());
    assert_eq!(counted, Some(sent + 5));
    let said = format!(
        "The server counts {counted} tokens for a request that has {sent} by our count",
        counted = sent + 5
    );
    done.says(&[&said]);
}

#[test]
fn another_template_is_named_with_what_it_differs_by() {
    let ours = folder(&vocabulary(), Some(TEMPLATE));
    let theirs = folder(&vocabulary(), Some(&format!("<|role|>{TEMPLATE}")));
    let server = server(&theirs, "");
    let done = run(&url(&server), &ours).arg("--apply-chat-template").run().expect_exit(0);
    let done = done.shows(&[
        "The server counts 1 token more than were sent, in each request: its chat template is not the one of",
    ]);
    assert_eq!(lengths(&done)["difference"], json!({"kind": "constant", "tokens": 1}));
}

#[test]
fn another_tokenizer_is_named_a_factor() {
    let ours = folder(&vocabulary(), None);
    let server = sim("");
    let done = run(&url(&server), &ours).run().expect_exit(0);
    let difference = lengths(&done)["difference"].clone();
    assert_eq!(difference["kind"], "factor", "{difference}");
    let factor = difference["factor"].as_f64().expect("a factor");
    let mean = |tag: &str| done.stat(tag, "avg");
    let ratio = mean("usage_prompt_tokens") / mean("input_sequence_length");
    assert!(ratio < 0.8 && (factor - ratio).abs() < 0.1, "{factor}, {ratio}");
    let name = ours.path().to_str().expect("a path in UTF-8");
    // A long path may be broken into lines anywhere.
    let shown = flat(&done.stdout).replace(' ', "");
    assert!(shown.contains(&format!("tokenizerisnot'{name}'")), "{}", done.stdout);
}

#[test]
fn few_prompts_of_one_length_leave_it_open() {
    let tokenizer = folder(&vocabulary(), Some(TEMPLATE));
    let server = server(&tokenizer, "");
    let fixed = |n: u64| prompts(&url(&server), &tokenizer).args(&format!("--isl 60 --request-count {n}"));
    let done = fixed(3).run().expect_exit(0);
    let done = done.shows(&[
        "The server counts 65 where 60 were sent. A chat template of 5 tokens and another tokenizer than",
        "look the same over so few prompts of one length",
    ]);
    assert_eq!(lengths(&done)["difference"], json!({"kind": "undecided", "tokens": 5}));
    // Another tokenizer would not have differed by the same in so many texts.
    let done = fixed(8).run().expect_exit(0);
    assert_eq!(lengths(&done)["difference"], json!({"kind": "constant", "tokens": 5}));
}

#[test]
fn a_bos_is_a_constant_of_completions() {
    let with_bos = vocabulary();
    let mut bare = with_bos.clone();
    bare["post_processor"] = Value::Null;
    let (with_bos, bare) = (folder(&with_bos, None), folder(&bare, None));
    let completions = |server: &SimHandle, ours: &TempDir| {
        run(&url(server), ours).args("--endpoint-type completions").run().expect_exit(0)
    };
    let server = server(&with_bos, "");
    completions(&server, &with_bos).shows(&["asked = sent = counted in 12 of 12 requests."]);
    let done = completions(&server, &bare)
        .shows(&["The server counts 1 token more than were sent, in each request: marks such as a BOS"]);
    assert_eq!(lengths(&done)["difference"], json!({"kind": "constant", "tokens": 1}));
}

#[test]
fn lengths_that_counting_again_refutes_are_not_among_the_equal_ones() {
    // What the template puts around a text depends on the text, which is not to be seen in samples.
    let moody =
        TEMPLATE.replace("{{ m.content }}", "{{ m.content }}{% if 'love' in m.content %}<|role|>{% endif %}");
    let tokenizer = folder(&vocabulary(), Some(&moody));
    let server = server(&tokenizer, "");
    let run = |mode: &str| {
        let line =
            format!("--apply-chat-template --isl 300 --request-count 24 --verify-lengths {mode} --url");
        Run::new("profile --model demo --ui none --artifact-dir out --random-seed 7 --osl 4")
            .args(&line)
            .arg(url(&server))
            .arg("--tokenizer")
            .arg(tokenizer.path().to_str().expect("a path in UTF-8"))
            .run()
            .expect_exit(0)
    };
    let done = run("all");
    let found = lengths(&done);
    let wrong = found["verified"]["wrong"].as_u64().expect("a number");
    assert!(wrong > 3 && wrong < 24, "{found}");
    let asked = &found["asked_sent"];
    assert_eq!((&asked["exact"], &asked["max_error"]), (&json!(24 - wrong), &json!(1)), "{found}");
    // The server counts what was sent, and not what was said.
    assert_eq!(found["sent_counted"]["exact"], 24, "{found}");
    assert!(found.get("difference").is_none(), "{found}");
    let done = done.shows(&[
        &format!("Input lengths: asked = sent in {} of 24 requests (errors +0 to +1, mean", 24 - wrong),
        "sent = counted in 24 of 24 requests",
        &format!("WARNING: {wrong} of 24 requests that were counted again as a whole have another length than was said"),
    ]);
    assert!(!done.stdout.contains("its chat template is not"), "{}", done.stdout);
    // A sample leaves others of which that is not known.
    run("sample").shows(&["Input lengths: asked = sent in at most "]);
}

#[test]
fn later_turns_are_counted_whole_and_asked_for_their_own_part() {
    let tokenizer = folder(&vocabulary(), Some(TEMPLATE));
    let server = server(&tokenizer, "");
    let done = run(&url(&server), &tokenizer)
        .args("--apply-chat-template --conversation-turn-mean 3 --num-dataset-entries 4")
        .run()
        .expect_exit(0);
    let lengths = lengths(&done);
    assert_eq!(lengths["asked_sent"]["exact"], 12, "{lengths}");
    assert_eq!(lengths["sent_counted"]["exact"], 12, "{lengths}");
    assert_eq!(lengths["later_sent_counted"]["requests"], 8, "{lengths}");
    // The own parts of the others cannot be told from the rest of a rendered request.
    assert_eq!(lengths["verified"]["requests"], 4, "{lengths}");
    assert_eq!(lengths["verified"]["wrong"], 0, "{lengths}");
    let shown = done.records().iter().any(|record| {
        let value = |tag: &str| record["metrics"][tag]["value"].as_u64().expect("a length");
        value("input_sequence_length") > value("asked_input_length")
    });
    assert!(shown, "later requests hold what was said before");
}

#[test]
fn a_users_own_prompts_are_asked_for_no_length() {
    let server = sim("");
    let row = |i: usize| format!("{{\"text\": \"{}\"}}\n", "word ".repeat(3 + i));
    let rows: Vec<String> = (0..12).map(row).collect();
    let done =
        Run::new("profile --model demo --ui none --tokenizer builtin --artifact-dir out --random-seed 7")
            .args(
                "--input-file rows.jsonl --custom-dataset-type single_turn --request-count 12 --osl 4 --url",
            )
            .arg(url(&server))
            .file("rows.jsonl", rows.concat())
            .run()
            .expect_exit(0)
            .shows(&["Input lengths: sent = counted in 12 of 12 requests."]);
    let lengths = lengths(&done);
    // What was counted to begin with is not counted again.
    assert!(lengths.get("asked_sent").is_none() && lengths.get("verified").is_none(), "{lengths}");
}

#[test]
fn what_extra_inputs_give_the_template_is_made_sent_and_counted_alike() {
    let template = "<|role|>{% if tools %}{{ tools | tojson }}<|role|>{% endif %}{% if documents %}{{ documents | tojson }}{% endif %}\
        {% if quiet %}<|role|><|role|>{% endif %}{% for m in messages %}{{ m.content }}<|role|>{% endfor %}\
        {% if add_generation_prompt %}<|role|><|role|>{% endif %}";
    let tokenizer = folder(&vocabulary(), Some(template));
    let server = server(&tokenizer, "");
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tool = |kind: &str| match kind {
        "messages" => json!({"name": "weather", "description": "Tells it.", "input_schema": schema}),
        "responses" => json!({"type": "function", "name": "weather", "parameters": schema, "strict": true}),
        _ => json!({"type": "function", "function": {"name": "weather", "parameters": schema}}),
    };
    for kind in ["chat", "responses", "messages"] {
        for extra in [
            json!({"tools": [tool(kind)]}),
            json!({"tools": []}),
            json!({"chat_template_kwargs": {"quiet": true}}),
            json!({"add_generation_prompt": false}),
            json!({"documents": [{"text": "Bern is a city."}]}),
        ] {
            let done = prompts(&url(&server), &tokenizer)
                .args("--apply-chat-template --isl 300 --isl-stddev 20 --request-count 12 --endpoint-type")
                .args(&format!("{kind} --extra-inputs"))
                .arg(extra.to_string())
                .run()
                .expect_exit(0)
                .shows(&["Input lengths: asked = sent = counted in 12 of 12 requests."]);
            let lengths = lengths(&done);
            let found = &lengths["server_count"];
            assert_eq!(found["sent"], found["counted"], "{kind} {extra}: {lengths}");
            // What is counted for its fields was not made alone, so it is not counted again.
            let again = extra.get("add_generation_prompt").is_some();
            let verified = lengths.get("verified").map(|v| (v["requests"].clone(), v["wrong"].clone()));
            assert_eq!(verified, again.then(|| (json!(12), json!(0))), "{kind} {extra}: {lengths}");
        }
    }
}

#[test]
fn a_server_that_does_not_tell_counts_is_not_asked_for_them() {
    let server = cycling(vec![Reply::chat("a b c d", 0, 0)]);
    let done = Run::profile(&server.url()).args("--request-count 3").run().expect_exit(0);
    let seen: Vec<String> = server.requests().iter().map(|r| r.path.clone()).collect();
    assert_eq!(seen, ["/v1/chat/completions"; 3], "no prompt went anywhere else");
    assert!(lengths(&done).get("server_count").is_none());
    let off = sim("tokenize-endpoint=off");
    let done = Run::profile(&url(&off)).args("--request-count 3").run().expect_exit(0);
    assert!(lengths(&done).get("server_count").is_none());
}

#[test]
fn with_verification_off_nothing_is_counted_again_and_nobody_is_asked() {
    let server = sim("");
    let done =
        Run::profile(&url(&server)).args("--request-count 3 --verify-lengths off").run().expect_exit(0);
    let lengths = lengths(&done);
    assert!(lengths.get("server_count").is_none() && lengths.get("verified").is_none(), "{lengths}");
    assert_eq!(lengths["sent_counted"]["exact"], 3, "the run itself compares");
}

#[test]
fn with_the_servers_own_counts_what_was_made_is_compared() {
    let tokenizer = folder(&vocabulary(), Some(TEMPLATE));
    let server = server(&tokenizer, "");
    let done = run(&url(&server), &tokenizer).arg("--use-server-token-count").run().expect_exit(0);
    let lengths = lengths(&done);
    assert_eq!(lengths["asked_sent"]["exact"], 12);
    assert_eq!(lengths["difference"], json!({"kind": "constant", "tokens": 5}));
    assert_eq!(lengths["verified"]["requests"], 12);
}

#[test]
fn what_only_the_server_counted_is_held_against_nothing() {
    // SGLang's own prompts have the length that they turn out to have, and here nobody looks.
    let server = sim("");
    let done = Run::unseeded(&url(&server))
        .args("--endpoint-type completions --isl 100 --osl 2 --random-seed 5 --request-count 12")
        .args("--prompt-corpus random --random-range-ratio 0.3 --random-corpus-style sglang-strict")
        .args("--use-server-token-count --verify-lengths all")
        .run()
        .expect_exit(0);
    let lengths = lengths(&done);
    for key in ["asked_sent", "sent_counted", "verified"] {
        assert!(lengths.get(key).is_none(), "{lengths}");
    }
    // The one that the server was asked about before the run was counted here as well.
    assert_eq!(lengths["server_count"]["sent"], lengths["server_count"]["counted"]);
    assert!(!done.stdout.contains("Input lengths"), "{}", done.stdout);
}

#[test]
fn schema_2_has_every_key() {
    let server = sim("");
    let done = Run::profile(&url(&server)).args("--request-count 3 --export-schema 2").run().expect_exit(0);
    let lengths = lengths(&done);
    assert_eq!(lengths["later_sent_counted"], Value::Null);
    assert_eq!(lengths["difference"], json!({"kind": "none", "factor": null, "tokens": null}));
    assert_eq!(lengths.as_object().map(serde_json::Map::len), Some(7), "{lengths}");
}

/// Line ends between the texts of a message are the server's, and no chat template.
#[test]
fn several_texts_of_a_message_are_joined_by_line_ends() {
    for (size, more) in [(2, "1 token more"), (4, "3 tokens more")] {
        let server = sim("ttft=0&itl=0");
        let args = format!("--batch-size {size} --isl 50 --osl 2 --request-count 3 --concurrency 1");
        let done = Run::unseeded(&url(&server)).args(&args).run().expect_exit(0);
        let words = format!(
            "The server counts {more} than were sent, in each request: the line ends that it puts between the texts of a message"
        );
        let done = done.shows(&[&words]);
        assert!(!done.stdout.contains("template"), "{}", done.stdout);
        // As it is kept.
        Run::new("report out --force").run_in(done).expect_exit(0);
    }
}

/// Without a stream there is no first token to wait for.
#[test]
fn progress_tells_first_tokens_of_streams_alone() {
    let server = sim("ttft=1&itl=0");
    let run = |more: &str| {
        let args = "profile --model demo --ui simple --tokenizer builtin --artifact-dir out --isl 20 --osl 3 --request-count 3 --url";
        Run::new(args).arg(url(&server)).args(more).run().expect_exit(0)
    };
    let plain = run("");
    assert!(plain.stderr.contains("Profiling done") && !plain.stderr.contains("TTFT"), "{}", plain.stderr);
    assert!(run("--streaming").stderr.contains("TTFT"));
}
