//! Forms of files: what each sends, and what is said of it.

use aiperf_sim::scripted::{Reply, ScriptedServer};
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, scripted};

fn server() -> ScriptedServer {
    scripted(vec![Reply::chat("reply", 1, 1)])
}

fn bodies(server: &ScriptedServer) -> Vec<Value> {
    server.requests().iter().map(|r| serde_json::from_slice(&r.body).expect("JSON")).collect()
}

fn lines(rows: &[Value]) -> String {
    rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

fn run(server: &ScriptedServer, file: &str, text: impl AsRef<[u8]>) -> Run {
    Run::unseeded(&server.url()).args("--random-seed 1 --input-file").arg(file).file(file, text)
}

/// Input length of each record, by session and turn.
fn lengths(done: &Done) -> Vec<(String, u64, u64)> {
    let of = |record: &Value| {
        let metadata = &record["metadata"];
        (
            metadata["conversation_id"].as_str().expect("an id").to_owned(),
            metadata["turn_index"].as_u64().expect("a number"),
            record["metrics"]["input_sequence_length"]["value"].as_u64().expect("a length"),
        )
    };
    let mut found: Vec<_> = done.records().iter().map(of).collect();
    found.sort();
    found
}

fn chats() -> String {
    let row = |chat: i64, parent: i64, at: f64, tokens: u64, turn: u64, ids: &[u64]| {
        json!({"chat_id": chat, "parent_chat_id": parent, "timestamp": at, "input_length": tokens, "output_length": 3,
            "type": "text", "turn": turn, "hash_ids": ids})
    };
    lines(&[
        row(5, -1, 1.0, 32, 1, &[1, 2]),
        row(6, -1, 1.02, 20, 1, &[1, 7]),
        row(9, 5, 1.03, 64, 2, &[1, 2, 3, 4]),
    ])
}

#[test]
fn chats_of_a_bailian_trace_are_sent_at_their_times() {
    let server = server();
    let done = run(&server, "t.jsonl", chats())
        .args("--custom-dataset-type bailian_trace")
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0));
    let wanted = [("5", 0, 32), ("5", 1, 64), ("6", 0, 20)];
    assert_eq!(lengths(&done), wanted.map(|(id, turn, tokens)| (id.to_owned(), turn, tokens)));
    let mut at: Vec<u64> = done
        .records()
        .iter()
        .filter(|r| r["metadata"]["turn_index"] == 0)
        .map(|r| r["metadata"]["scheduled_ns"].as_u64().expect("scheduled"))
        .collect();
    at.sort_unstable();
    assert_eq!(at[1] - at[0], 20_000_000);
}

#[test]
fn a_trace_that_is_not_named_is_known_and_told() {
    let server = server();
    run(&server, "t.jsonl", chats()).args("--request-count 3 --concurrency 1").run().expect_exit(0).shows(&[
        "t.jsonl: read as bailian_trace, for there is 'chat_id' in line 1",
        "the rows have timestamps, and the load options say when they are sent",
    ]);
    run(&server, "t.jsonl", "{\"session_id\":\"a\",\"turns\":[{\"messages\":[],\"forks\":\"b\"}]}\n")
        .run()
        .expect_exit(2)
        .says(&["t.jsonl:1: 'messages' is a key of dag_jsonl, which this version does not read yet"]);
}

#[test]
fn a_table_is_sent_and_rows_that_cannot_be_are_told() {
    let table =
        "Timestamp,Model,Request tokens,Response tokens\n1,a,12,30\n1.5,b,20,7\nbad,b,1,1\n1.75,c,0,9\n";
    let server = server();
    let done = run(&server, "b.csv", table)
        .args("--custom-dataset-type burst_gpt_trace --fixed-schedule --fixed-schedule-end-offset 1600")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0))
        .shows(&[
            "b.csv: columns that are not read: 'Model'",
            "b.csv: 1 of 4 rows is broken and left out; the first: b.csv:4: 'Timestamp' must be a number of seconds",
        ]);
    let found: Vec<u64> = lengths(&done).into_iter().map(|(.., tokens)| tokens).collect();
    assert_eq!(found, [12, 20]);
    let mut limits: Vec<_> = bodies(&server).iter().map(|b| b["max_completion_tokens"].as_u64()).collect();
    limits.sort_unstable();
    assert_eq!(limits, [Some(7), Some(30)]);
    run(&server, "b.csv", "Timestamp,Request tokens\n1,2\n")
        .args("--custom-dataset-type burst_gpt_trace")
        .run()
        .expect_exit(2)
        .says(&["b.csv:1: no column is called 'Response tokens'"]);
}

#[test]
fn what_a_run_wrote_is_sent_again() {
    let first = server();
    let done = Run::unseeded(&first.url())
        .args("--random-seed 1 --isl 12 --osl 5 --request-count 3 --concurrency 1")
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0));
    let inputs = done.text("inputs.json");
    let second = server();
    let again = run(&second, "again.json", inputs.clone())
        .args("--request-count 3 --concurrency 1")
        .run()
        .expect_exit(0)
        .ends(Tally::of(3, 0))
        .shows(&["again.json: read as inputs_json, for there is a list 'data' of 'payloads'"]);
    assert_eq!(bodies(&second), bodies(&first));
    assert_eq!(again.text("inputs.json"), inputs);
    let refused = |more: &str, said: &str| {
        run(&second, "again.json", inputs.clone()).args(more).run().expect_exit(2).says(&[said]);
    };
    refused("--osl 5", "are sent as they are, and the output length (--osl) has no place there");
    refused(
        "--osl 5 --custom-dataset-type inputs_json",
        "--osl and --custom-dataset-type exclude each other",
    );
    run(&second, "again.json", "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{\"prompt\":\"x\"}]}]}")
        .run()
        .expect_exit(2)
        .says(&["again.json: data[0].payloads[0]: 'messages' must be a list, not absent"]);
}

#[test]
fn a_pool_is_drawn_from() {
    let rows = lines(&(0..5).map(|i| json!({"text": format!("text {i}")})).collect::<Vec<_>>());
    let sent = |more: &str, name: &str| -> Vec<Value> {
        let server = server();
        run(&server, name, &rows)
            .args("--custom-dataset-type random_pool --request-count 12 --concurrency 1")
            .args(more)
            .run()
            .expect_exit(0)
            .ends(Tally::of(12, 0))
            .shows(&["12 conversations are drawn with replacement"]);
        bodies(&server).into_iter().map(|body| body["messages"][0]["content"].clone()).collect()
    };
    let one = sent("", "a.jsonl");
    assert!(one.iter().all(|text| text.as_str().is_some_and(|text| text.starts_with("text "))), "{one:?}");
    assert_eq!(one, sent("", "a.jsonl"), "the seed says what is drawn");
    let three = sent("--batch-size 3", "a.jsonl");
    assert!(three.iter().all(|parts| parts.as_array().is_some_and(|parts| parts.len() == 3)), "{three:?}");
    let server = server();
    Run::unseeded(&server.url())
        .file("pools/a.jsonl", &rows)
        .file("pools/b.jsonl", &rows)
        .args("--input-file pools --request-count 2 --concurrency 1")
        .run()
        .expect_exit(0)
        .shows(&["pools: read as random_pool, for there is 'text' in the first row of pools/a.jsonl; each file is a pool"]);
    Run::unseeded(&server.url())
        .file("pools/a.jsonl", &rows)
        .args("--input-file pools --custom-dataset-type random_pool --batch-size 2")
        .run()
        .expect_exit(2)
        .says(&["--batch-size and --input-file exclude each other", "pools with names of their own"]);
}

#[test]
fn captures_are_sent_again() {
    let row = |id: &str, time: &str, text: &str| {
        let body = json!({"model": "old", "messages": [{"role": "user", "content": text}], "max_tokens": 7, "seed": 3});
        json!({
            "captureData": {"endpointInput": {"data": body.to_string(), "encoding": "JSON", "mode": "INPUT"}},
            "eventMetadata": {"eventId": id, "inferenceTime": time},
            "eventVersion": "0",
        })
    };
    let text = lines(&[
        row("a", "2026-04-29T00:03:18.120Z", "second"),
        row("b", "2026-04-29T00:03:18.050Z", "first"),
    ]);
    let server = server();
    let done = run(&server, "c.jsonl", text)
        .args("--custom-dataset-type sagemaker_data_capture --fixed-schedule")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0))
        .shows(&["c.jsonl: keys that are not sent again are ignored: 'seed' (line 1)"]);
    let sent = bodies(&server);
    let messages: Vec<_> = sent.iter().map(|body| body["messages"].clone()).collect();
    assert_eq!(messages, ["first", "second"].map(|text| json!([{"role": "user", "content": text}])));
    assert!(sent.iter().all(|body| body["max_completion_tokens"] == 7
        && body["model"] != "old"
        && body.get("seed").is_none()));
    let mut at: Vec<u64> =
        done.records().iter().map(|r| r["metadata"]["scheduled_ns"].as_u64().expect("scheduled")).collect();
    at.sort_unstable();
    assert_eq!(at[1] - at[0], 70_000_000);
    run(&server, "c.jsonl", "{\"captureData\":{},\"eventMetadata\":{\"eventId\":\"e\"}}\n")
        .run()
        .expect_exit(2)
        .says(&["c.jsonl:1: event 'e': 'eventMetadata.inferenceTime' is missing"]);
}

/// A trace of two sessions and a row of none, 40 ms from one row to the next.
fn completions() -> Vec<Value> {
    let row = |at: u64, prompt: &str, session: Value| {
        json!({"timestamp_start_unix_ms": 1_700_000_000_000_u64 + at, "prompt": prompt, "input_tokens": 4, "output_tokens": 3,
            "provided_session_id": session, "duration_e2e_ms": 10, "total_hashes": [at, 7], "block_size": 64})
    };
    vec![
        row(80, "b1", "b".into()),
        row(40, "a1", "a".into()),
        row(0, "lone", Value::Null),
        row(120, "a2", "a".into()),
    ]
}

#[test]
fn completions_are_sent_again_at_their_times() {
    let answer = json!({"object": "text_completion", "choices": [{"index": 0, "text": "reply", "finish_reason": "stop"}]});
    let server = scripted(vec![Reply::json(200, &answer.to_string())]);
    let trace = |more: &str| {
        run(&server, "t.jsonl", lines(&completions()))
            .args("--custom-dataset-type baseten_trace --endpoint-type completions")
            .args(more)
    };
    let done = trace("").run().expect_exit(0).ends(Tally::of(4, 0));
    let mut sent = bodies(&server);
    sent.sort_by_key(|body| body["prompt"].to_string());
    assert_eq!(sent[0]["prompt"], "a1");
    let of_row = json!({"max_tokens": 3, "min_tokens": 3, "hash_ids": [40, 7], "block_size": 64});
    for (key, value) in of_row.as_object().expect("an object") {
        assert_eq!(&sent[0][key], value, "{key}");
    }
    // The first turns; the later one comes at its time, or behind the answer before it.
    let mut at: Vec<u64> = done
        .records()
        .iter()
        .filter(|r| r["metadata"]["turn_index"] == 0)
        .map(|r| r["metadata"]["scheduled_ns"].as_u64().expect("scheduled"))
        .collect();
    at.sort_unstable();
    assert_eq!([at[1] - at[0], at[2] - at[1]], [40_000_000, 40_000_000]);
    let ids: std::collections::BTreeSet<String> = lengths(&done).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["a", "b", "session_000000"]);
    let plain = trace("--no-force-min-tokens --omit-kv-hints --extra-inputs min_tokens:9 --open-loop-strict");
    let done = plain.run().expect_exit(0).ends(Tally::of(4, 0));
    assert!(
        bodies(&server)[4..].iter().all(|body| body["min_tokens"] == 9 && body.get("hash_ids").is_none())
    );
    let ids: Vec<String> = lengths(&done).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["a#0", "a#1", "b#0", "session_000000#0"]);
    trace("--fixed-schedule-start-offset 40 --fixed-schedule-end-offset 80")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0))
        .shows(&["t.jsonl: 2 of 4 rows lie outside of the schedule's offsets and are left out"]);
    let few = trace("--trace-session-sample-ratio 1e-9").run().expect_exit(0);
    let kept = few.records().len() as u64;
    assert!(kept == 1 || kept == 2, "one session");
    assert_eq!(few.summary()["dataset_rows"]["not_drawn"], 4 - kept);
}

#[test]
fn what_belongs_to_completions_alone_is_refused_elsewhere() {
    let server = server();
    let refused = |options: &str, said: &[&str]| {
        run(&server, "t.jsonl", lines(&completions())).args(options).run().expect_exit(2).says(said);
    };
    refused(
        "--custom-dataset-type baseten_trace --extra-inputs hash_ids:1",
        &[
            "--extra-inputs says 'hash_ids', and so does each row of t.jsonl; drop it there, or leave it out of the rows: --omit-kv-hints",
        ],
    );
    refused(
        "--custom-dataset-type single_turn --omit-kv-hints",
        &["--omit-kv-hints", "it is for baseten_trace; drop it"],
    );
    refused(
        "--custom-dataset-type baseten_trace --synthesis-prefix-len-multiplier 2",
        &["--synthesis-prefix-len-multiplier", "prompts of that form are sent as they were; drop it"],
    );
    refused("--custom-dataset-type baseten_trace --isl-block-size 16", &["--isl-block-size"]);
    refused(
        "--custom-dataset-type bailian_trace --trace-session-sample-ratio 0.5",
        &["a chat would be torn apart"],
    );
    refused(
        "--trace-session-sample-ratio 0",
        &["--trace-session-sample-ratio: found '0'; allowed: a number above 0 to 1"],
    );
    Run::unseeded(&server.url())
        .args("--force-min-tokens")
        .run()
        .expect_exit(2)
        .says(&["--force-min-tokens needs --input-file"]);
}

#[test]
fn a_variable_of_aiperf_says_which_column_has_the_sessions() {
    let server = server();
    let rows: Vec<Value> = completions()
        .into_iter()
        .map(|mut row| {
            row["poor_man_session_id"] = 5.into();
            row
        })
        .collect();
    let trace = |column: &str| {
        run(&server, "t.jsonl", lines(&rows))
            .args("--custom-dataset-type baseten_trace")
            .env("AIPERF_DATASET_BASETEN_SESSION_COLUMN", column)
            .run()
    };
    let done = trace("poor_man_session_id").expect_exit(0).ends(Tally::of(4, 0));
    assert!(lengths(&done).iter().all(|(id, ..)| id == "5"));
    trace("session").expect_exit(2).says(&[
        "AIPERF_DATASET_BASETEN_SESSION_COLUMN",
        "'session'",
        "provided_session_id or poor_man_session_id",
    ]);
}

#[test]
fn a_folder_without_its_files_says_what_it_passed_over() {
    let done = Run::unseeded("sim://")
        .args("--input-file bodies --custom-dataset-type raw_payload")
        .file("bodies/a.json", r#"{"messages":[{"role":"user","content":"A"}]}"#)
        .run()
        .expect_exit(2);
    assert!(done.stderr.contains("bodies") && done.stderr.contains("'a.json'"), "{}", done.stderr);
    assert!(done.stderr.contains(".jsonl"), "{}", done.stderr);
}

#[test]
fn a_key_that_a_row_has_twice_is_told() {
    let done = Run::unseeded("sim://?ttft=0&itl=0")
        .args("--input-file p.jsonl --request-count 1 --osl 4 --random-seed 1")
        .file("p.jsonl", "{\"text\":\"a\",\"text\":\"b\",\"output_length\":2}\n")
        .run()
        .expect_exit(0);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(
        said.contains("the row in line 1 with a key twice, such as 'text': the last one counts"),
        "{said}"
    );
    assert!(said.contains("every row says its output length, so that --osl has no effect"), "{said}");
}

#[test]
fn the_system_prompt_stands_before_messages_that_rows_bring_once() {
    let user = |text: &str| json!({"role": "user", "content": text});
    let own = json!([user("mine")]);
    let system = json!({"role": "system", "content": "SYS"});
    let sent = |row: Value, form: &str, args: &str| {
        let done = Run::unseeded("sim://?ttft=0&itl=0")
            .args("--random-seed 1 --input-file t.jsonl --concurrency 1 --num-conversations 1 --system-prompt SYS")
            .args(&format!("--custom-dataset-type {form} {args}"))
            .file("t.jsonl", lines(&[row]))
            .run()
            .expect_exit(0);
        done.inputs().iter().map(|body| body["messages"].clone()).collect::<Vec<_>>()
    };
    for api in ["--endpoint-type chat", "--endpoint-type chat_embeddings"] {
        let trace = json!({"messages": own, "output_length": 4});
        assert_eq!(sent(trace, "mooncake_trace", api), [json!([system, user("mine")])], "{api}");
        let turns = json!([{"text": "a"}, {"role": "assistant", "text": "A"}, {"text": "b"}]);
        let talk = json!({"context_mode": "deltas_with_responses", "turns": turns});
        let answer = json!({"role": "assistant", "content": "A"});
        let talked = sent(talk, "multi_turn", api);
        assert_eq!(talked[1], json!([system, user("a"), answer, user("b")]), "{api}");
    }
    let row = json!({"text": "not this", "extra": {"messages": own}});
    assert_eq!(sent(row, "single_turn", ""), [json!([system, user("mine")])]);
    let whole =
        json!({"context_mode": "message_array_with_responses", "turns": [{"extra": {"messages": own}}]});
    assert_eq!(sent(whole, "multi_turn", ""), [json!([system, user("mine")])]);
    // Elsewhere a turn has something of its own to say.
    for row in [
        json!({"turns": [{"text": "a"}, {"extra": {"messages": own}}]}),
        json!({"context_mode": "message_array_with_responses", "turns": [{"extra": {"top_k": 1}}]}),
    ] {
        let done = run(&server(), "t.jsonl", lines(&[row])).args("--custom-dataset-type multi_turn").run();
        done.expect_exit(2).says(&["t.jsonl:1: holds nothing to send"]);
    }
}

/// As many as are wanted of those that were drawn, whatever the file looks like.
#[test]
fn a_share_of_sessions_is_drawn_before_they_are_counted() {
    let rows: Vec<Value> = (0..400).map(|n| json!({"text": format!("row {n}")})).collect();
    let prompts: Vec<Value> = (0..400).map(|n| json!({"prompt": format!("row {n}")})).collect();
    for (file, text) in [("a.jsonl", lines(&rows)), ("a.json", Value::from(prompts).to_string())] {
        let done = run(&server(), file, text)
            .args("--num-dataset-entries 20 --trace-session-sample-ratio 0.2 --dry-run")
            .run()
            .expect_exit(0);
        assert!(done.stdout.contains(", 20 conversations with 20 turns"), "{file}: {}", done.stdout);
    }
}
