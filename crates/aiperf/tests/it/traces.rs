//! Traces: lengths and blocks in place of texts, on their own times.

use aiperf_sim::scripted::Reply;
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, scripted};

fn rows(rows: &[Value]) -> String {
    rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

fn trace() -> String {
    rows(&[
        json!({"timestamp": 1000, "input_length": 40, "output_length": 3, "hash_ids": [1, 2, 3]}),
        json!({"timestamp": 1040, "input_length": 48, "output_length": 4, "hash_ids": [1, 2, 4]}),
        json!({"timestamp": 1020, "input_length": 7}),
    ])
}

#[test]
fn a_trace_is_sent_at_its_times_with_its_lengths() {
    let server = scripted(vec![Reply::chat("reply", 1, 1)]);
    let done = Run::unseeded(&server.url())
        .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16 --random-seed 1")
        .file("t.jsonl", trace())
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0));
    let mut records = done.records();
    records.sort_by_key(|record| record["metadata"]["scheduled_ns"].as_u64());
    let lengths: Vec<_> =
        records.iter().map(|r| r["metrics"]["input_sequence_length"]["value"].clone()).collect();
    assert_eq!(lengths, [40, 7, 48]);
    let at: Vec<u64> =
        records.iter().map(|r| r["metadata"]["scheduled_ns"].as_u64().expect("scheduled")).collect();
    assert_eq!([at[1] - at[0], at[2] - at[0]], [20_000_000, 40_000_000]);
    let bodies: Vec<Value> =
        server.requests().iter().map(|r| serde_json::from_slice(&r.body).expect("JSON")).collect();
    let of = |tokens: u64| {
        let body = bodies.iter().find(|b| b["max_completion_tokens"] == tokens).expect("sent");
        body["messages"][0]["content"].as_str().expect("a text").to_owned()
    };
    let common = of(3).bytes().zip(of(4).bytes()).take_while(|(a, b)| a == b).count();
    assert!(common * 3 > of(3).len() * 2, "two of three blocks are the same: {} {}", of(3), of(4));
}

#[test]
fn a_system_prompt_counts_before_a_text_of_a_length() {
    for (form, rows) in [
        ("mooncake_trace", "{\"input_length\": 30, \"output_length\": 2}\n"),
        ("burst_gpt_trace", "Timestamp,Request tokens,Response tokens\n0,30,2\n"),
    ] {
        let done = Run::unseeded("sim://?ttft=0&itl=0")
            .args(&format!("--input-file t.rows --custom-dataset-type {form} --request-count 1 --no-fixed-schedule --random-seed 1"))
            .args("--system-prompt Be_brief_and_kind.")
            .file("t.rows", rows)
            .run()
            .expect_exit(0);
        let metrics = done.records()[0]["metrics"].clone();
        let counted = &metrics["usage_prompt_tokens"]["value"];
        assert!(counted.as_u64() > Some(30), "{form}: {counted}");
        assert_eq!(&metrics["input_sequence_length"]["value"], counted, "{form}");
    }
}

#[test]
fn texts_of_a_trace_that_was_found_out_are_cut_from_the_corpus_of_the_user() {
    let texts = |more: &str| {
        let done = Run::unseeded("http://127.0.0.1:9")
            .args("--input-file t.jsonl --isl-block-size 16 --random-seed 1 --dry-run")
            .args(more)
            .file("t.jsonl", trace())
            .run()
            .expect_exit(0);
        done.json("dry_run_inputs.json")["data"].clone()
    };
    let (sonnet, coding) = (texts(""), texts("--prompt-corpus coding"));
    assert_eq!(sonnet, texts("--prompt-corpus sonnet"));
    assert_ne!(sonnet, coding);
    let run = |file: &str, more: &str| {
        Run::unseeded("http://127.0.0.1:9")
            .args("--input-file t.jsonl --dry-run")
            .args(more)
            .file("t.jsonl", file)
            .run()
            .expect_exit(2)
    };
    run(&trace(), "--prompt-corpus random").says(&["--prompt-corpus: found 'random'", "sonnet or coding"]);
    run("{\"text\": \"hi\"}\n", "--prompt-corpus coding")
        .says(&["--prompt-corpus is for traces", "read as single_turn"]);
}

#[test]
fn times_of_a_trace_and_a_rate_exclude_each_other() {
    let server = scripted(vec![Reply::chat("reply", 1, 1)]);
    let run = |more: &str| {
        Run::unseeded(&server.url())
            .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16 --random-seed 1")
            .args(more)
            .file("t.jsonl", trace())
            .run()
    };
    run("--request-rate 50").expect_exit(2).says(&[
        "--request-rate",
        "--custom-dataset-type",
        "--no-fixed-schedule",
    ]);
    run("--request-rate 50 --no-fixed-schedule --request-count 6").expect_exit(0).ends(Tally::of(6, 0));
    run("--concurrency 1").expect_exit(0).ends(Tally::of(3, 0));
    run("--prompt-corpus random").expect_exit(2).says(&["--prompt-corpus", "random", "sonnet or coding"]);
}

#[test]
fn rows_that_hold_their_history_are_sent_once_and_told() {
    let session = |id: &str, at: &Value, tokens: u64, ids: &[u64]| {
        let mut row = json!({"session_id": id, "input_length": tokens, "output_length": 3, "hash_ids": ids});
        row.as_object_mut().expect("an object").extend(at.as_object().expect("an object").clone());
        row
    };
    let (first, later) = (json!({"timestamp": 0}), json!({"delay": 1}));
    let file = rows(&[
        session("grows", &first, 32, &[1, 2]),
        session("grows", &later, 64, &[1, 2, 3, 4]),
        session("adds", &first, 32, &[5, 6]),
        session("adds", &later, 16, &[7]),
    ]);
    let server = scripted(vec![Reply::chat("reply", 1, 1)]);
    let done = Run::unseeded(&server.url())
        .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16 --random-seed 1")
        .file("t.jsonl", file)
        .run()
        .expect_exit(0)
        .ends(Tally::of(4, 0));
    let done = done.shows(&["the rows of a conversation (such as 'grows', line 2) hold their history"]);
    let lengths = |turn: u64| {
        let of = |r: &Value| r["metrics"]["input_sequence_length"]["value"].as_u64().expect("a length");
        let mut found: Vec<u64> =
            done.records().iter().filter(|r| r["metadata"]["turn_index"] == turn).map(of).collect();
        found.sort_unstable();
        found
    };
    // Each has a length that was asked for, however it is made messages.
    let asked: Vec<Option<u64>> =
        done.records().iter().map(|r| r["metrics"]["asked_input_length"]["value"].as_u64()).collect();
    assert!(asked.iter().all(Option::is_some), "{asked:?}");
    done.has("asked_input_length", "max", 64.0);
    // The one that adds up repeats its first turn and the reply.
    assert_eq!(lengths(0), [32, 32]);
    assert!(lengths(1)[0] > 48 && lengths(1)[0] < 64 && lengths(1)[1] == 64, "{:?}", lengths(1));
    let roles: Vec<Vec<String>> = server
        .requests()
        .iter()
        .map(|r| serde_json::from_slice::<Value>(&r.body).expect("JSON"))
        .map(|b| b["messages"].as_array().expect("a list").iter().map(|m| m["role"].to_string()).collect())
        .collect();
    let three = roles.iter().filter(|roles| roles.join(" ") == "\"user\" \"assistant\" \"user\"").count();
    assert_eq!(three, 2, "{roles:?}");
    // Of a turn that adds to others no record tells which part of it was made.
    let compared = |done: &Done| done.summary()["input_lengths"]["asked_sent"]["requests"].clone();
    assert_eq!(compared(&done), 4);
    assert_eq!(compared(&Run::new("report out --force").run_in(done).expect_exit(0)), 3);
}

#[test]
fn a_broken_trace_is_refused_with_its_line() {
    let server = scripted(vec![Reply::chat("reply", 1, 1)]);
    for (row, said) in [
        (
            json!({"input_length": 10, "hash_ids": [1, 2]}),
            "2 blocks of 16 tokens are more than a prompt of 10 tokens",
        ),
        (
            json!({"output_length": 10}),
            "'input_length', 'text_input', 'messages' or 'payload' says what is sent",
        ),
        (json!({"input_length": 10, "timestamp": "soon"}), "'timestamp' must be a number of milliseconds"),
    ] {
        Run::unseeded(&server.url())
            .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16")
            .file("t.jsonl", trace() + &rows(&[row]))
            .run()
            .expect_exit(2)
            .says(&["t.jsonl:4:", said]);
    }
    assert!(server.requests().is_empty());
}
