//! What is done with a file's conversations and times once it is read: which are taken, what is left out, when they are sent.

use std::collections::BTreeMap;

use aiperf_sim::scripted::Reply;
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, cycling, scripted};

fn rows(rows: &[Value]) -> String {
    rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

/// A file of `n` single prompts.
fn prompts(n: usize) -> String {
    rows(
        &(0..n)
            .map(|i| json!({"text": format!("prompt {i}"), "session_id": format!("p{i}")}))
            .collect::<Vec<_>>(),
    )
}

/// Which conversation each session of the profiling phase took.
fn taken(done: &Done) -> Vec<String> {
    let mut taken = BTreeMap::new();
    for record in done.records() {
        let meta = &record["metadata"];
        let session = meta["session_num"].as_u64().expect("a number");
        taken.insert(session, meta["conversation_id"].as_str().expect("an id").to_owned());
    }
    taken.into_values().collect()
}

#[test]
fn the_order_of_conversations_is_the_seed_s_and_not_the_shards() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let run = |strategy: &str, more: &str| {
        Run::unseeded(&server.url())
            .args("--input-file p.jsonl --request-count 40")
            .args(&format!("--dataset-sampling-strategy {strategy} {more}"))
            .file("p.jsonl", prompts(10))
            .run()
            .expect_exit(0)
            .ends(Tally::of(40, 0))
    };
    for strategy in ["random", "shuffle"] {
        let one = taken(&run(strategy, "--random-seed 3 --workers-max 1"));
        let two = taken(&run(strategy, "--random-seed 3 --workers-max 2 --concurrency 4"));
        assert_eq!(one, two, "{strategy}");
        assert_ne!(one, taken(&run(strategy, "--random-seed 4 --workers-max 1")), "{strategy}");
        let in_order: Vec<String> = (0..40).map(|i| format!("p{}", i % 10)).collect();
        assert_ne!(one, in_order, "{strategy}");
        let passes = one.chunks(10).map(|pass| {
            let mut pass = pass.to_vec();
            pass.sort();
            pass
        });
        assert_eq!(passes.clone().all(|pass| pass == in_order[..10]), strategy == "shuffle");
        if strategy == "shuffle" {
            assert_ne!(one[..10], one[10..20], "no pass is like the one before");
        }
    }
    let done = run("SEQUENTIAL", "--random-seed 3");
    assert_eq!(taken(&done), (0..40).map(|i| format!("p{}", i % 10)).collect::<Vec<_>>());
    assert_eq!(done.summary()["input_config"]["datasets"][0]["sampling"], "sequential");
}

#[test]
fn a_file_of_the_configuration_says_the_order_too_and_few_entries_go_around() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let yaml = format!(
        "benchmark:\n  model: demo\n  endpoint: {{url: '{}'}}\n  dataset: {{type: file, path: p.jsonl, entries: 3, sampling: shuffle}}\n  \
         phases: {{type: concurrency, sessions: 9, concurrency: 1}}\n  tokenizer: {{name: builtin}}\nrandom_seed: 5\n",
        server.url()
    );
    let done = Run::new("profile --ui none --artifact-dir out --config c.yaml")
        .file("c.yaml", yaml)
        .file("p.jsonl", prompts(10))
        .run()
        .expect_exit(0)
        .ends(Tally::of(9, 0));
    for pass in taken(&done).chunks(3) {
        let mut pass = pass.to_vec();
        pass.sort();
        assert_eq!(pass, ["p0", "p1", "p2"]);
    }
}

#[test]
fn a_schedule_takes_no_other_order() {
    let timed = rows(&[json!({"text": "a", "timestamp": 0})]);
    let run = |more: &str| {
        Run::unseeded("sim://")
            .args("--input-file t.jsonl --fixed-schedule --dataset-sampling-strategy")
            .arg(more)
            .file("t.jsonl", &timed)
            .run()
    };
    run("shuffle").expect_exit(2).says(&["--dataset-sampling-strategy", "--fixed-schedule", "each row once"]);
    run("sequential").expect_exit(0);
    run("upside_down").expect_exit(2).says(&["sequential, random, shuffle"]);
}

#[test]
fn repeats_of_drawn_orders_are_told() {
    Run::profile("sim://")
        .args("--num-dataset-entries 4 --request-count 9 --dataset-sampling-strategy random")
        .run()
        .expect_exit(0)
        .shows(&["9 requests draw from 4 distinct prompts, so some are sent several times"]);
}

/// Good rows with broken ones of every kind between them.
fn broken() -> String {
    [
        r#"{"text":"one"}"#,
        r#"{"text":"#,
        r#"{"text":"two"}"#,
        r#"{"text":5}"#,
        "",
        "[1]",
        r#"{"text":"three"}"#,
    ]
    .join("\n")
}

#[test]
fn broken_rows_stop_the_run_or_are_left_out_and_told() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let run = |more: &str| {
        Run::unseeded(&server.url())
            .args("--random-seed 1 --request-count 3 --concurrency 1 --input-file p.jsonl")
            .args(more)
            .file("p.jsonl", broken())
            .run()
    };
    run("").expect_exit(2).says(&["p.jsonl:2:8: the row ends in the middle of its JSON"]);
    run("--on-bad-row stop").expect_exit(2).says(&["p.jsonl:2:8"]);
    assert!(server.requests().is_empty(), "nothing is sent of a file that is refused");
    let done = run("--on-bad-row skip").expect_exit(0).ends(Tally::of(3, 0));
    let texts: Vec<Value> = server
        .requests()
        .iter()
        .map(|r| serde_json::from_slice::<Value>(&r.body).expect("JSON")["messages"][0]["content"].clone())
        .collect();
    assert_eq!(texts, ["one", "two", "three"]);
    let done = done.shows(&[
        "p.jsonl: 3 of 6 rows are broken and left out; the first: p.jsonl:2:8: the row ends in the middle",
    ]);
    let rows = done.summary()["dataset_rows"].clone();
    assert_eq!((&rows["read"], &rows["broken"]), (&json!(6), &json!(3)));
    assert!(rows["first_broken"].as_str().expect("the first").starts_with("p.jsonl:2:8"));
    // The records alone tell as much.
    let again = Run::new("report out --force").run_in(done).expect_exit(0);
    assert_eq!(again.summary()["dataset_rows"], rows);
    Run::unseeded("sim://")
        .args("--on-bad-row skip --input-file p.jsonl")
        .file("p.jsonl", "no\n[1]\n")
        .run()
        .expect_exit(2)
        .says(&["none of its 2 rows can be sent; the first: p.jsonl:1:"]);
    Run::profile("sim://")
        .args("--on-bad-row skip")
        .run()
        .expect_exit(2)
        .says(&["--on-bad-row", "--input-file"]);
}

#[test]
fn broken_rows_of_sessions_and_traces_are_left_out_as_well() {
    let file = rows(&[
        json!({"session_id": "s", "input_length": 20, "output_length": 2}),
        json!({"session_id": "s", "messages": [{"role": "user", "content": "not of this kind"}]}),
        json!({"session_id": "s", "input_length": 10, "output_length": 2}),
        json!({"input_length": 10, "hash_ids": [1, 2, 3]}),
    ]);
    let done = Run::unseeded("sim://")
        .args("--random-seed 1 --input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16")
        .args("--on-bad-row skip --num-conversations 1")
        .file("t.jsonl", file)
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    assert_eq!(done.summary()["dataset_rows"]["broken"], 2);
}

/// Milliseconds between the first request's time and each one's, by conversation and turn.
fn due(done: &Done) -> BTreeMap<String, f64> {
    let at = |r: &Value| r["metadata"]["scheduled_ns"].as_u64().expect("scheduled");
    let records = done.records();
    let first = records.iter().map(at).min().expect("a record");
    let name = |r: &Value| {
        format!(
            "{}/{}",
            r["metadata"]["conversation_id"].as_str().expect("an id"),
            r["metadata"]["turn_index"]
        )
    };
    records.iter().map(|r| (name(r), (at(r) - first) as f64 / 1e6)).collect()
}

fn replay(url: &str, file: &str, more: &str) -> Run {
    Run::unseeded(url)
        .args("--random-seed 1 --input-file t.jsonl --fixed-schedule --custom-dataset-type single_turn")
        .args(more)
        .file("t.jsonl", file)
}

fn pairs(of: &[(&str, f64)]) -> BTreeMap<String, f64> {
    of.iter().map(|(name, ms)| ((*name).to_owned(), *ms)).collect()
}

#[test]
fn a_replay_is_faster_to_the_fraction_and_silences_are_cut() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let of = |id: &str, at: f64| json!({"text": id, "session_id": id, "timestamp": at});
    // Wall times, as traces have them.
    let start = 1_700_000_000_000.0;
    let file =
        rows(&[of("a", start), of("b", start + 15.5), of("c", start + 30.0), of("d", start + 3_600_000.0)]);
    let run = |more: &str| replay(&server.url(), &file, more).run().expect_exit(0);
    let done = run("--replay-speedup 3 --max-idle-gap-cap-seconds 0.02");
    let found = due(&done);
    // The start itself is divided as well, so each time may be half a nanosecond off.
    for (name, ms) in pairs(&[("a/0", 0.0), ("b/0", 15.5 / 3.0), ("c/0", 10.0), ("d/0", 30.0)]) {
        assert!((found[&name] - ms).abs() <= 2e-6, "{name}: {} for {ms}", found[&name]);
    }
    let rows = &done.summary()["dataset_rows"];
    assert_eq!((&rows["cut_silences"], &rows["cut_silence_ns"]), (&json!(1), &json!(1_199_970_000_000_u64)));
    done.shows(&["1 silence cut down to --max-idle-gap-cap-seconds, 1199.97 s in all"]);
    // Windows are in the times of the file.
    let window = format!(
        "--replay-speedup 0.5 --fixed-schedule-start-offset {start} --fixed-schedule-end-offset {}",
        start + 30.0
    );
    assert_eq!(due(&run(&window)), pairs(&[("a/0", 0.0), ("b/0", 31.0), ("c/0", 60.0)]));
}

#[test]
fn silences_are_cut_between_all_rows_of_chats() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let row = |chat: i64, parent: i64, turn: u32, s: f64| json!({"chat_id": chat, "parent_chat_id": parent, "turn": turn, "timestamp": s, "input_length": 5, "output_length": 2});
    let file = rows(&[row(1, -1, 1, 0.0), row(2, 1, 2, 100.0), row(3, 2, 3, 200.0), row(9, -1, 1, 300.0)]);
    let done = Run::unseeded(&server.url())
        .args("--random-seed 1 --input-file t.jsonl --custom-dataset-type bailian_trace --max-idle-gap-cap-seconds 0.06")
        .file("t.jsonl", file)
        .run()
        .expect_exit(0);
    assert_eq!(due(&done), pairs(&[("1/0", 0.0), ("1/1", 60.0), ("1/2", 120.0), ("9/0", 180.0)]));
    let rows = &done.summary()["dataset_rows"];
    assert_eq!(rows["cut_silences"], json!(3));
}

/// A session of three turns whose record says how long the first answer took.
fn session() -> String {
    rows(&[
        json!({"text": "1", "session_id": "s", "timestamp": 100, "duration_e2e_ms": 30}),
        json!({"text": "2", "session_id": "s", "timestamp": 140}),
        json!({"text": "3", "session_id": "s", "timestamp": 160}),
        json!({"text": "x", "session_id": "t", "timestamp": 120}),
    ])
}

/// Milliseconds from the end of each turn of session `s` to when the next was due.
fn pauses(done: &Done) -> Vec<f64> {
    let mut turns: Vec<Value> =
        done.records().into_iter().filter(|r| r["metadata"]["conversation_id"] == "s").collect();
    turns.sort_by_key(|r| r["metadata"]["turn_index"].as_u64());
    let number = |r: &Value, key: &str| r["metadata"][key].as_u64().expect("a stamp");
    turns
        .windows(2)
        .map(|t| (number(&t[1], "scheduled_ns") - number(&t[0], "request_end_ns")) as f64 / 1e6)
        .collect()
}

#[test]
fn later_turns_have_their_own_times_or_follow_answers() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let run = |more: &str| replay(&server.url(), &session(), more).run().expect_exit(0).ends(Tally::of(4, 0));
    let open = due(&run("--replay-speedup 0.2"));
    let wanted = pairs(&[("s/0", 0.0), ("s/1", 200.0), ("s/2", 300.0), ("t/0", 100.0)]);
    assert_eq!(open, wanted, "unless an answer takes longer, which these do not");
    // 40 ms from start to start without 30 of the answer; 20 whose answer nobody timed.
    let closed = run("--no-open-loop-replay");
    assert_eq!(pauses(&closed), [10.0, 20.0]);
    assert_eq!(closed.summary()["input_config"]["datasets"][0]["open_loop_replay"], false);
    assert_eq!(
        pauses(&run("--no-open-loop-replay --replay-speedup 2 --inter-turn-delay-cap-seconds 0.007")),
        [5.0, 7.0]
    );
    assert_eq!(pauses(&run("--ignore-trace-delays")), [0.0, 0.0]);
    let strict = run("--open-loop-strict");
    assert_eq!(due(&strict), pairs(&[("s#0/0", 0.0), ("s#1/0", 40.0), ("s#2/0", 60.0), ("t#0/0", 20.0)]));
}

#[test]
fn a_session_goes_on_from_its_first_row_within_the_offsets() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let row = |session: &str, text: &str, time: &str, ms: u64| json!({"session_id": session, "text_input": text, "output_length": 1, time: ms});
    let file = rows(&[
        row("a", "a0", "timestamp", 0),
        row("a", "a1", "delay", 5),
        row("b", "b0", "timestamp", 100),
        row("a", "a2", "timestamp", 120),
        row("a", "a3", "delay", 5),
        row("b", "b1", "delay", 5),
        row("b", "b2", "timestamp", 900),
        row("b", "b3", "delay", 5),
    ]);
    let done = Run::unseeded(&server.url())
        .args("--random-seed 1 --custom-dataset-type mooncake_trace --input-file t.jsonl --fixed-schedule")
        .args("--fixed-schedule-start-offset 100 --fixed-schedule-end-offset 500")
        .file("t.jsonl", file)
        .run()
        .expect_exit(0)
        .ends(Tally::of(4, 0))
        .shows(&["4 of 8 rows lie outside of the schedule's offsets and are left out"]);
    let mut sent: Vec<String> = server
        .requests()
        .iter()
        .map(|request| {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            let messages = body["messages"].as_array().expect("a list").clone();
            messages.last().expect("a turn")["content"].as_str().expect("a text").to_owned()
        })
        .collect();
    sent.sort();
    assert_eq!(sent, ["a2", "a3", "b0", "b1"]);
    assert_eq!(done.summary()["dataset_rows"]["outside"], 4);
}

#[test]
fn a_first_turn_waits_for_nothing_and_what_changes_no_time_is_told() {
    let file = rows(&[
        json!({"text": "1", "session_id": "s", "delay": 100_000}),
        json!({"text": "2", "session_id": "s", "timestamp": 40}),
    ]);
    for dry in ["", "--dry-run"] {
        let done = Run::unseeded("sim://?ttft=0&itl=0")
            .args("--random-seed 1 --input-file t.jsonl --num-conversations 1 --no-fixed-schedule --osl 1")
            .args("--replay-speedup 2 --inter-turn-delay-cap-seconds 70")
            .args(dry)
            .file("t.jsonl", &file)
            .run()
            .expect_exit(0)
            .shows(&[
                "the row in line 1 with a delay before the first turn of a conversation, which is not waited for",
                "so that --replay-speedup and --inter-turn-delay-cap-seconds have no effect",
            ]);
        assert!(!done.stdout.contains("before its turn"), "{}", done.stdout);
    }
    let kept = file.replace("\"timestamp\":40", "\"delay\":4");
    let done = Run::unseeded("sim://?ttft=0&itl=0")
        .args(
            "--random-seed 1 --input-file t.jsonl --num-conversations 1 --osl 1 --replay-speedup 2 --dry-run",
        )
        .file("t.jsonl", kept)
        .run()
        .expect_exit(0);
    assert!(!done.stdout.contains("no effect"), "{}", done.stdout);
}

#[test]
fn think_times_are_kept_without_a_schedule() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let file = rows(&[
        json!({"text": "1", "session_id": "s"}),
        json!({"text": "2", "session_id": "s", "delay": 8}),
        json!({"text": "3", "session_id": "s", "delay": 61_000}),
        json!({"text": "4", "session_id": "s", "delay": 4}),
    ])
    .replace("\"delay\":4", "\"delay\":NaN");
    let run = |more: &str| {
        Run::unseeded(&server.url())
            .args("--random-seed 1 --input-file t.jsonl --num-conversations 1 --concurrency 1")
            .args(more)
            .file("t.jsonl", &file)
            .run()
    };
    let capped = run("--replay-speedup 2 --inter-turn-delay-cap-seconds 0.005").expect_exit(0);
    assert_eq!(pauses(&capped), [4.0, 5.0, 0.0]);
    let rows = &capped.summary()["dataset_rows"];
    assert_eq!((&rows["capped_delays"], &rows["endless_delays"]), (&json!(1), &json!(1)));
    let capped = capped.shows(&[
        "1 delay cut down to --inter-turn-delay-cap-seconds",
        "1 delay is no number or endless and counts as none",
    ]);
    assert!(!capped.stdout.contains("waits"), "{}", capped.stdout);
    run("--ignore-trace-delays --replay-speedup 2").expect_exit(0).ends(Tally::of(4, 0));
    let mut started = Run::unseeded("sim://").args("--request-count 1 --concurrency 1 --input-file t.jsonl");
    started = started.file("t.jsonl", &file);
    started
        .run()
        .expect_exit(0)
        .shows(&["line 3 waits 61 s before its turn", "--inter-turn-delay-cap-seconds limits such waits"]);
}

/// Think times that are made of times are capped and counted as those that a row says.
#[test]
fn capped_think_times_of_a_trace_are_told() {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let row = |session: &str, at: u64| json!({"session_id": session, "timestamp": at, "input_length": 8, "output_length": 2});
    let file = rows(&[row("a", 0), row("b", 10), row("a", 2_000), row("b", 14), row("a", 9_000)]);
    let done = Run::unseeded(&server.url())
        .args(
            "--random-seed 1 --input-file t.jsonl --custom-dataset-type mooncake_trace --no-open-loop-replay",
        )
        .args("--inter-turn-delay-cap-seconds 0.01")
        .file("t.jsonl", file)
        .run()
        .expect_exit(0)
        .ends(Tally::of(5, 0))
        .shows(&["2 delays cut down to --inter-turn-delay-cap-seconds"]);
    assert_eq!(done.summary()["dataset_rows"]["capped_delays"], 2);
}

#[test]
fn rows_of_a_trace_that_are_too_long_are_left_out_and_limits_are_capped() {
    let file = rows(&[
        json!({"timestamp": 0, "input_length": 40, "output_length": 3}),
        json!({"timestamp": 4, "input_length": 41, "output_length": 3}),
        json!({"timestamp": 8, "input_length": 12, "output_length": 9}),
    ]);
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let run = |more: &str| {
        Run::unseeded(&server.url())
            .args("--random-seed 1 --input-file t.jsonl --custom-dataset-type mooncake_trace")
            .args(more)
            .file("t.jsonl", &file)
            .run()
    };
    let done = run("--synthesis-max-isl 40 --synthesis-max-osl 5 --synthesis-speedup-ratio 2")
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    let mut sent: Vec<(u64, u64)> = done
        .records()
        .iter()
        .map(|r| r["metrics"]["input_sequence_length"]["value"].as_u64().expect("a length"))
        .zip(server.requests().iter().map(|r| {
            serde_json::from_slice::<Value>(&r.body).expect("JSON")["max_completion_tokens"]
                .as_u64()
                .expect("a limit")
        }))
        .collect();
    sent.sort_unstable();
    assert_eq!(sent.iter().map(|(isl, _)| *isl).collect::<Vec<_>>(), [12, 40]);
    assert_eq!(sent.iter().map(|(_, osl)| *osl).max(), Some(5));
    let at: Vec<f64> = due(&done).into_values().collect();
    assert_eq!(at, [0.0, 4.0]);
    let rows = &done.summary()["dataset_rows"];
    assert_eq!((&rows["too_long"], &rows["capped_outputs"]), (&json!(1), &json!(1)));
    done.shows(&[
        "1 of 3 rows is longer than --synthesis-max-isl and left out",
        "1 output length cut down to --synthesis-max-osl",
    ]);
    run("--synthesis-max-isl 11")
        .expect_exit(2)
        .says(&["every row (3) is longer than --synthesis-max-isl allows"]);
}

#[test]
fn a_replay_that_cannot_be_is_refused() {
    let timed = rows(&[json!({"text": "a", "timestamp": 0})]);
    let run = |more: &str, file: &str| {
        Run::unseeded("sim://")
            .args("--input-file t.jsonl")
            .args(more)
            .file("t.jsonl", file)
            .run()
            .expect_exit(2)
    };
    for (more, said) in [
        ("--replay-speedup 0", ["--replay-speedup", "0.000001"]),
        ("--max-idle-gap-cap-seconds 0", ["--max-idle-gap-cap-seconds", "above 0"]),
        ("--max-idle-gap-cap-seconds 5", ["--max-idle-gap-cap-seconds", "--fixed-schedule"]),
        ("--open-loop-strict", ["--open-loop-strict", "--fixed-schedule"]),
        ("--fixed-schedule --open-loop-strict --no-open-loop-replay", ["--open-loop-strict", "keep one"]),
        (
            "--fixed-schedule --ignore-trace-delays --no-open-loop-replay",
            ["--ignore-trace-delays", "keep one"],
        ),
        (
            "--ignore-trace-delays --inter-turn-delay-cap-seconds 1",
            ["--inter-turn-delay-cap-seconds", "keep one"],
        ),
        ("--replay-speedup 2 --synthesis-speedup-ratio 2", ["--synthesis-speedup-ratio", "keep one"]),
        (
            "--custom-dataset-type single_turn --synthesis-max-isl 5",
            ["--synthesis-max-isl", "mooncake_trace"],
        ),
        ("--synthesis-max-osl 5", ["--synthesis-max-osl is for traces", "read as single_turn"]),
        (
            "--custom-dataset-type raw_payload --replay-speedup 2",
            ["--replay-speedup", "bodies have neither times"],
        ),
    ] {
        run(more, &timed).says(&said);
    }
    run("--replay-speedup 2", "{\"text\":\"a\"}\n").says(&["no row has a 'timestamp' or a 'delay'"]);
    let talk = rows(&[json!({"turns": [{"text": "a", "timestamp": 0}, {"text": "b"}]})]);
    run("--fixed-schedule --open-loop-strict", &talk).says(&["--open-loop-strict", "multi_turn"]);
    Run::profile("sim://")
        .args("--replay-speedup 2")
        .run()
        .expect_exit(2)
        .says(&["--replay-speedup", "--input-file"]);
}

#[test]
fn a_session_goes_on_behind_a_failed_turn_or_ends_there() {
    let replies = || {
        vec![
            Reply::chat("good", 1, 1),
            Reply::json(500, r#"{"error":{"message":"no"}}"#),
            Reply::chat("well", 1, 1),
        ]
    };
    let run = |more: &str| {
        let server = cycling(replies());
        let done = Run::profile(&server.url())
            .args("--conversation-turn-mean 4 --num-conversations 2 --concurrency 1")
            .args(more)
            .run()
            .expect_exit(0);
        let bodies: Vec<Value> =
            server.requests().iter().map(|r| serde_json::from_slice(&r.body).expect("JSON")).collect();
        let said: Vec<usize> =
            bodies.iter().map(|b| b["messages"].as_array().expect("a list").len()).collect();
        (done, said)
    };
    // Good, failed, well, good; failed, well, good, failed.
    let (done, said) = run("");
    let done = done.ends(Tally::of(5, 3));
    assert_eq!(said, [1, 3, 4, 6, 1, 2, 4, 6], "a failed turn has no reply");
    assert!(done.summary().get("aborted_session_count").is_none());
    // Good, failed; well, good, failed.
    let (done, said) = run("--on-turn-error abort-session");
    let done = done.ends(Tally::of(3, 2));
    assert_eq!(said, [1, 3, 1, 3, 5]);
    done.has("aborted_session_count", "avg", 2.0);
    done.has("abandoned_turn_count", "avg", 3.0);
    let done = done.shows(&["2 sessions ended with a failed turn, 3 turns before their end"]);
    let marked: Vec<u64> =
        done.records().iter().filter_map(|r| r["metadata"]["abandoned_turns"].as_u64()).collect();
    assert_eq!(marked, [2, 1]);
    let again = Run::new("report out --force").run_in(done).expect_exit(0);
    again.has("aborted_session_count", "avg", 2.0);
    again.has("abandoned_turn_count", "avg", 3.0);
    for dry in ["", "--dry-run"] {
        Run::profile("sim://?ttft=0&itl=0")
            .args("--num-conversations 2 --on-turn-error abort-session")
            .args(dry)
            .run()
            .expect_exit(0)
            .shows(&["--on-turn-error has no effect: every conversation has one turn"]);
    }
}

/// A run of one conversation of a file, and the messages of its requests.
fn talk(replies: Vec<Reply>, file: &Value) -> Vec<Value> {
    let server = cycling(replies);
    Run::unseeded(&server.url())
        .args("--random-seed 1 --input-file t.jsonl --num-conversations 1 --concurrency 1 --system-prompt be")
        .file("t.jsonl", rows(std::slice::from_ref(file)))
        .run()
        .expect_exit(0);
    let body =
        |r: &aiperf_sim::scripted::SeenRequest| serde_json::from_slice::<Value>(&r.body).expect("JSON");
    server.requests().iter().map(|r| body(r)["messages"].clone()).collect()
}

#[test]
fn recorded_answers_stand_in_the_place_of_the_server_s() {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let all =
        [message("system", "be"), message("user", "a"), message("assistant", "A"), message("user", "b")];
    let turns = json!([{"text": "a"}, {"role": "assistant", "text": "A"}, {"text": "b"}]);
    let replies = || vec![Reply::chat("live", 1, 1)];
    let recorded = talk(replies(), &json!({"context_mode": "deltas_with_responses", "turns": turns}));
    assert_eq!(recorded, [json!(all[..2]), json!(all)]);
    let live = talk(replies(), &json!({"turns": [{"text": "a"}, {"text": "b"}]}));
    assert_eq!(live[1], json!([all[0], all[1], message("assistant", "live"), all[3]]));
    let anew = talk(replies(), &json!({"turns": [{"text": "a"}, {"text": "b", "reset_context": true}]}));
    assert_eq!(anew[1], json!([all[0], all[3]]));
    let whole =
        json!({"context_mode": "message_array_with_responses", "turns": [{"text": "a"}, {"text": "b"}]});
    assert_eq!(talk(replies(), &whole)[1], json!([all[0], all[3]]));
}

#[test]
fn calls_of_tools_go_into_later_turns_as_calls() {
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"q\":1}"}});
    let answer = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls", "message":
        {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [call]}}]});
    let messages = talk(
        vec![Reply::json(200, &answer.to_string()), Reply::chat("done", 1, 1)],
        &json!({"turns": [{"text": "a"}, {"text": "b"}]}),
    );
    assert_eq!(messages[1][2], json!({"role": "assistant", "content": null, "tool_calls": [call]}));
}

#[test]
fn offsets_cut_rows_and_not_whole_sessions() {
    let row = |session: &str, at: u64| json!({"input_length": 10, "session_id": session, "timestamp": at, "output_length": 3});
    let trace = rows(&[row("s", 0), row("t", 10), row("s", 60), row("t", 30), row("s", 200)]);
    let sent = |offsets: &str| {
        let server = cycling(vec![Reply::chat("ok", 1, 1)]);
        let done = Run::unseeded(&server.url())
            .args(
                "--input-file t.jsonl --custom-dataset-type mooncake_trace --fixed-schedule --random-seed 1",
            )
            .args(offsets)
            .file("t.jsonl", &trace)
            .run()
            .expect_exit(0);
        let mut sent: Vec<(String, u64)> = done
            .records()
            .iter()
            .map(|record| {
                let meta = &record["metadata"];
                let id = meta["conversation_id"].as_str().expect("an id").to_owned();
                (id, meta["turn_index"].as_u64().expect("a number"))
            })
            .collect();
        sent.sort();
        let told = done.stdout.contains("lie outside of the schedule's offsets")
            || done.stderr.contains("lie outside of the schedule's offsets");
        (sent, told)
    };
    let turns = |session: &str, n: u64| (0..n).map(|turn| (session.to_owned(), turn)).collect::<Vec<_>>();
    let of = |s: u64, t: u64| [turns("s", s), turns("t", t)].concat();
    assert_eq!(sent(""), (of(3, 2), false));
    assert_eq!(sent("--fixed-schedule-end-offset 30"), (of(1, 2), true));
    assert_eq!(sent("--fixed-schedule-start-offset 30"), (of(2, 1), true));
    assert_eq!(sent("--fixed-schedule-start-offset 60 --fixed-schedule-end-offset 60").0, of(1, 0));
}
