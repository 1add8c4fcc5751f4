//! Commands about traces: `analyze-trace`, `validate` and `synthesize`.

use aiperf_sim::scripted::Reply;
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, scripted};

fn rows(rows: &[Value]) -> String {
    rows.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
}

fn sound() -> String {
    rows(&[
        json!({"timestamp": 0, "input_length": 1536, "output_length": 20, "hash_ids": [0, 1, 2]}),
        json!({"timestamp": 1000, "input_length": 1600, "output_length": 30, "hash_ids": [0, 1, 3, 4]}),
        json!({"timestamp": 2000, "input_length": 55, "output_length": 3}),
    ])
}

#[test]
fn a_trace_is_analyzed() {
    let done = Run::new("analyze-trace t.jsonl --output-file made/report.json --strict")
        .file("t.jsonl", sound())
        .run()
        .expect_exit(0)
        .says(&["Analysis report saved to made/report.json"])
        .shows(&[
            "Trace Analysis Report Total requests: 3 Unique prefixes: 5 Prefix groups: 1",
            "Schedule: 0 to 2,000 ms, 1.00 requests/s",
            "Metric Mean Std Dev Min P25 Median P75 Max",
            "Input Length 1,063.67 713.71 55.00",
            "Theoretical Hit Rates 0.25 0.25 0.00 0.12 0.25 0.38 0.50",
            "Findings: none",
        ]);
    let text = std::fs::read_to_string(done.home.path().join("made/report.json")).expect("the report");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&report["unique_prefixes"], &report["cache_hit_rate"]), (&json!(5), &json!(0.25)));
    assert_eq!(report["unique_prompt_length_stats"]["min"], json!(55.0));
    let again =
        Run::new("analyze-trace --input-file t.jsonl -f json").file("t.jsonl", sound()).run().expect_exit(0);
    assert_eq!(again.stdout, text);
    let piped = Run::new("analyze-trace - -f json")
        .file("t.jsonl", sound())
        .script("\"$0\" \"$@\" < t.jsonl")
        .run()
        .expect_exit(0);
    assert_eq!(piped.stdout, text);
}

#[test]
fn what_a_replay_would_do_wrong_is_told() {
    let said = |id: &str, tokens: u64, ids: &[u64]| json!({"session_id": id, "input_length": tokens, "output_length": 3, "hash_ids": ids});
    let file = rows(&[
        said("grows", 32, &[1, 2]),
        said("grows", 64, &[1, 2, 3, 4]),
        said("cut", 32, &[7, 8, 9]),
        json!({"input_length": 0, "output_lenght": 4}),
    ]) + "{\"input_length\": 12, \"out";
    let run = |more: &str| {
        Run::new("analyze-trace t.jsonl --block-size 16").args(more).file("t.jsonl", &file).run()
    };
    run("").expect_exit(0).shows(&[
        "Findings: 3 that a replay refuses, 1 that make it wrong, 2 to know of",
        "[refused] lines that are no JSON object: 1 (line 5) found column",
        "[refused] lengths that no request has: 1 (line 4) found 'input_length' is 0",
        "[refused] rows with more blocks than their length holds: 1 (line 3) found 3 ids in 32 tokens, blocks of 16",
        "[wrong] keys that are nearly the name of a missing one: 1 (line 4) found 'output_lenght' is read over; 'output_length' may be meant",
        "[note] sessions whose rows hold their history (cumulative): 1 (line 2) means",
    ]);
    run("--strict").expect_exit(3).says(&["--strict"]);
    let report: Value = serde_json::from_str(&run("--format json").expect_exit(0).stdout).expect("JSON");
    let names: Vec<&str> = report["findings"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|f| f["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        names,
        [
            "broken_lines",
            "impossible_lengths",
            "too_many_ids",
            "misspelt_keys",
            "holds_history",
            "no_output_length"
        ]
    );
}

#[test]
fn what_cannot_be_analyzed() {
    let run = |args: &str| Run::new(args).file("t.txt", "hello\nworld\n").file("e.jsonl", "").run();
    run("analyze-trace none.jsonl").expect_exit(2).says(&["error: none.jsonl: No such file"]);
    run("analyze-trace t.txt")
        .expect_exit(2)
        .says(&["none of its 2 lines is a JSON object; line 1: column 1"]);
    run("analyze-trace .").expect_exit(2).says(&[".: is not a regular file"]);
    run("analyze-trace e.jsonl --block-size 0").expect_exit(2).says(&["--block-size"]);
    run("analyze-trace e.jsonl").expect_exit(2).says(&["error: 'e.jsonl' holds no rows"]);
    Run::new("analyze-trace s.jsonl --output-file t.txt/no.json")
        .file("t.txt", "hello\n")
        .file("s.jsonl", sound())
        .run()
        .expect_exit(1)
        .says(&["cannot write 't.txt/no.json'"]);
}

#[test]
fn a_wrong_length_is_no_row_with_a_text() {
    let run = |file: &str| {
        let done = Run::new("analyze-trace t.jsonl -f json").file("t.jsonl", file).run().expect_exit(0);
        let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
        let found = report["findings"].as_array().expect("a list").clone();
        found.iter().map(|f| f["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(run("{\"input_length\":-5,\"output_length\":1}\n"), ["wrong_fields"]);
    assert_eq!(run("{\"input_length\":5,\"output_length\":\"x\"}\n"), ["wrong_fields"]);
    assert_eq!(
        run("{\"text_input\":\"a\",\"output_length\":1}\n{\"output_length\":1}\n"),
        ["no_source", "no_length"]
    );
}

#[cfg(unix)]
#[test]
fn a_pipe_that_nobody_writes_into_is_refused() {
    for args in [
        "analyze-trace ff",
        "validate mooncake-trace --input ff",
        "profile --url sim:// --ui none --tokenizer builtin --model m --request-count 1 --input-file ff",
    ] {
        Run::new(args)
            .file("t.jsonl", sound())
            .script("mkfifo ff && timeout 60 \"$0\" \"$@\"")
            .run()
            .expect_exit(2)
            .says(&["ff: is not a regular file"]);
    }
}

#[test]
fn rows_are_validated() {
    let run = |file: &str| Run::new("validate mooncake-trace --input t.jsonl").file("t.jsonl", file).run();
    run(&sound()).expect_exit(0).shows(&["Validation passed: 3 rows are Mooncake-compatible."]);
    run("{\"a\": 1}\n\n{\"input_length\": -2}\n").expect_exit(1).says(&[
        "'t.jsonl' has 2 bad lines:",
        "line 1: none of 'input_length', 'text_input', 'messages' and 'payload' is there",
        "line 3: 'input_length' must be a whole number above 0, not -2",
    ]);
    run("{\"input_length\": 5}\n")
        .expect_exit(0)
        .shows(&["Validation passed: 1 row is Mooncake-compatible."]);
    run("no\n").expect_exit(1).says(&["'t.jsonl' has 1 bad line:"]);
    run(&"no\n".repeat(10)).expect_exit(1).says(&["'t.jsonl' has 10 bad lines:"]);
    run(&"no\n".repeat(20)).expect_exit(1).says(&["10 bad lines, and was given up there"]);
    run("").expect_exit(2).says(&["error: 't.jsonl' holds no rows"]);
    run("{\"input_length\":5,\"extra\":{\"a\":1e999}}\n")
        .expect_exit(1)
        .says(&["line 1: column", "number out of range"]);
    let blocks = "{\"input_length\":64,\"hash_ids\":[1,2,3,4]}\n";
    run(blocks)
        .expect_exit(1)
        .says(&["line 1: 4 blocks of 512 tokens are more than a prompt of 64 tokens holds", "--block-size"]);
    Run::new("validate mooncake-trace t.jsonl --block-size 16").file("t.jsonl", blocks).run().expect_exit(0);
    Run::new("validate mooncake-trace none.jsonl").run().expect_exit(2).says(&["none.jsonl: No such file"]);
    Run::new("validate bailian none.jsonl").run().expect_exit(2).says(&["mooncake-trace"]);
}

/// `validate`, `analyze-trace --strict` and the replay itself are of one mind.
#[test]
fn a_row_is_good_where_a_replay_takes_it() {
    let session = |rows| "{\"session_id\":\"a\",\"input_length\":5}\n".repeat(rows);
    let one = |row: &str| format!("{row}\n");
    let many = "'a' has more than 65535 turns";
    let wrong_ids = "'hash_ids' must be a list of whole numbers of up to 64 bits, not [";
    for (file, refused) in [
        (session(3), None),
        (session(65_536), Some(many)),
        (one(r#"{"input_length":600,"output_length":4,"hash_ids":[0,2]}"#), None),
        (one(r#"{"input_length":600,"output_length":4,"hash_ids":[-1,2]}"#), None),
        (one(r#"{"input_length":600,"hash_ids":[-0,2]}"#), Some(wrong_ids)),
        (one(r#"{"input_length":600,"hash_ids":[1.0,2]}"#), Some(wrong_ids)),
        (one(r#"{"input_length":600,"hash_ids":[2,1e2]}"#), Some(wrong_ids)),
        (one(r#"{"input_length":600,"hash_ids":[18446744073709551616]}"#), Some(wrong_ids)),
        (one(r#"{"input_length":-0}"#), Some("'input_length'")),
        (one(r#"{"input_length":5,"timestamp":-0}"#), None),
        (one(r#"{"input_length":5,"timestamp":-0.5}"#), Some("'timestamp'")),
    ] {
        let run = |command: &str| Run::new(command).file("t.jsonl", file.as_str()).run();
        let replay = Run::unseeded("sim://")
            .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --request-count 1 --dry-run --no-fixed-schedule")
            .file("t.jsonl", file.as_str())
            .run();
        let valid = run("validate mooncake-trace t.jsonl");
        let strict = run("analyze-trace t.jsonl --strict");
        if let Some(words) = refused {
            replay.expect_exit(2).says(&[words]);
            valid.expect_exit(1).says(&[words]);
            strict.expect_exit(3).shows(&["[refused] ", words]);
        } else {
            replay.expect_exit(0);
            valid.expect_exit(0);
            strict.expect_exit(0);
        }
    }
}

#[test]
fn a_trace_without_measure_is_refused_before_it_is_written() {
    let done =
        Run::new("synthesize trace --rows 100 --isl-mean 1e8 --isl-stddev 0 --block-size 1 -o t.jsonl")
            .file("t.jsonl", "old")
            .run();
    let done = done.expect_exit(2).says(&[
        "error: the trace would be about 10,000,000,000 block ids",
        "100 rows, prompts of 100,000,000 tokens on average in blocks of 1",
        "Take a larger --block-size",
    ]);
    assert_eq!(std::fs::read_to_string(done.home.path().join("t.jsonl")).expect("it is there"), "old");
}

#[cfg(unix)]
#[test]
fn a_trace_that_was_not_finished_leaves_the_one_before() {
    // The first signal that reaches it ends it, while it has far more to write than it has time for.
    for signal in ["INT", "TERM"] {
        let script = format!(
            "\"$0\" \"$@\" & while ! ls t.jsonl.*.part 2>/dev/null; do :; done; kill -{signal} $!; wait $!; code=$?; ls t.jsonl*; exit $code"
        );
        let done = Run::new("synthesize trace --rows 100000000 --isl-stddev 0 --isl-mean 1000 -o t.jsonl")
            .file("t.jsonl", "old")
            .script(&script)
            .run()
            .expect_exit(130);
        assert!(done.stdout.ends_with("\nt.jsonl\n"), "{}", done.stdout);
        let made: Vec<_> =
            std::fs::read_dir(done.home.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
        assert!(made.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{made:?}");
        assert_eq!(std::fs::read_to_string(done.home.path().join("t.jsonl")).expect("it is there"), "old");
    }
}

#[test]
fn a_made_trace_is_sound_and_replayed() {
    let made = Run::new(
        "synthesize trace --rows 40 --rate 400 --isl-mean 64 --isl-stddev 16 --osl-mean 4 --osl-stddev 1 --block-size 16 --groups 2 \
         --hit-rate 0.4 --seed 3 --output t.jsonl",
    )
    .run()
    .expect_exit(0)
    .says(&["t.jsonl: 40 rows over", "hit rate 0.4", "--isl-block-size 16"]);
    let analyzed =
        Run::new("analyze-trace t.jsonl --block-size 16 --strict -f json").run_in(made).expect_exit(0);
    let report: Value = serde_json::from_str(&analyzed.stdout).expect("JSON");
    assert_eq!((&report["total_requests"], &report["findings"]), (&json!(40), &json!([])));
    let rate = report["prefix_cache_hit_rate"].as_f64().expect("a rate");
    assert!((rate - 0.4).abs() < 0.05, "{rate}");
    let isl = report["avg_isl"].clone();
    let done = Run::unseeded("sim://?ttft=1&itl=0.1")
        .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16 --random-seed 1")
        .run_in(analyzed)
        .expect_exit(0)
        .ends(Tally::of(40, 0));
    assert_eq!(done.summary()["input_sequence_length"]["avg"], isl);
}

#[test]
fn figures_of_a_trace_are_checked() {
    for (args, said) in [
        ("--rate 0", "--rate"),
        ("--hit-rate 1.5", "a number from 0 to 1 is allowed"),
        ("--rows 0", "--rows"),
        ("--rate 0", "a number from 0.000001 up is allowed"),
        ("--isl-mean 0", "a number from 1 to 134217728 is allowed"),
        ("--isl-mean 1e30", "a number from 1 to 134217728 is allowed"),
        ("--osl-mean 134217729", "a number from 1 to 134217728 is allowed"),
        ("--lengths gaussian", "lognormal"),
    ] {
        Run::new("synthesize trace").args(args).run().expect_exit(2).says(&[said]);
    }
    let done = Run::new("synthesize trace --rows 3 --output -")
        .run()
        .expect_exit(0)
        .says(&["note: a hit rate of 0.5 cannot"]);
    assert_eq!(done.stdout.lines().count(), 3);
    assert!(done.made().is_empty());
}

#[test]
fn conversations_are_made_and_replayed() {
    let config = r#"{"max_prompt_tokens": 2000, "block_size": 64, "reset": {"base_probability": 0.2}, "mood": 1,
                     "new_tokens_per_turn": {"mean": 50, "median": 40}, "generation_length": {"mean": 40, "median": 35, "max": 60},
                     "inter_turn_delay": {"max": 2},
                     "cache": {"layer1_tokens": 200, "layer1_5_tokens": 60, "layer2": {"mean": 50, "median": 40}}}"#;
    let made = |rows: &str| {
        let done = Run::new("synthesize agentic-code --num-sessions 4 --seed 9 --output made --config small.json --max-osl 32")
            .args(rows)
            .file("small.json", config)
            .run()
            .expect_exit(0)
            .says(&["keys that mean nothing are read over: 'mood'", "rows in dataset.jsonl", "--isl-block-size 64"])
            .shows(&["4 sessions,", "Generation length (tokens) mean 40.0"]);
        let folders = std::fs::read_dir(done.home.path().join("made"))
            .expect("the folder")
            .map(|e| e.expect("an entry").path());
        let [folder] = &folders.collect::<Vec<_>>()[..] else { panic!("one folder") };
        let name = folder.file_name().and_then(|n| n.to_str()).expect("a name").to_owned();
        assert!(name.starts_with("small_4s_seed9_20"), "{name}");
        (format!("made/{name}"), done)
    };
    let (folder, done) = made("");
    let read =
        |name: &str| std::fs::read_to_string(done.home.path().join(&folder).join(name)).expect("the file");
    let manifest: Value = serde_json::from_str(&read("manifest.json")).expect("JSON");
    assert_eq!(
        (&manifest["seed"], &manifest["generation_params"]["generation_length"]["max"]),
        (&json!(9), &json!(32.0))
    );
    let quality: Value = serde_json::from_str(&read("quality.json")).expect("JSON");
    assert_eq!(quality["session_end_stats"]["total_sessions"], 4);
    assert_eq!(read("comparison.txt"), done.stdout);
    let rows = read("dataset.jsonl");
    // The same again from the manifest.
    std::fs::copy(done.home.path().join(&folder).join("manifest.json"), done.home.path().join("again.json"))
        .expect("a copy");
    let again =
        Run::new("synthesize agentic-code --num-sessions 4 --seed 9 --output second --config again.json")
            .run_in(done)
            .expect_exit(0);
    let second = again.made().into_iter().find(|p| p.ends_with("dataset.jsonl")).expect("the rows");
    assert_eq!(std::fs::read_to_string(again.home.path().join(second)).expect("the rows"), rows);
    // Whole rows are sent as they are: what is sent is what the file says.
    let (folder, done) = made("--rows whole");
    let file = format!("{folder}/dataset.jsonl");
    let text = std::fs::read_to_string(done.home.path().join(&file)).expect("the rows");
    let mut lengths: Vec<u64> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("a row")["input_length"].as_u64().expect("a length")
        })
        .collect();
    let done = Run::unseeded("sim://?ttft=1&itl=0.1")
        .args("--custom-dataset-type mooncake_trace --isl-block-size 64 --random-seed 1 --input-file")
        .arg(file)
        .run_in(done)
        .expect_exit(0)
        .ends(Tally::of(lengths.len() as u64, 0));
    let mut sent: Vec<u64> = done
        .records()
        .iter()
        .map(|r| r["metrics"]["input_sequence_length"]["value"].as_u64().expect("a length"))
        .collect();
    lengths.sort_unstable();
    sent.sort_unstable();
    assert_eq!(sent, lengths);
}

#[test]
fn configurations_of_conversations_are_checked() {
    let run = |args: &str, config: &str| {
        Run::new("synthesize agentic-code").args(args).file("c.json", config).run().expect_exit(2)
    };
    run("--config none", "")
        .says(&["'none' is neither a file nor a configuration that is built in: 'default'"]);
    run("--config c.json", "{\"block_size\": -1}").says(&["--config: 'c.json': line 1, column", "-1"]);
    run("--config c.json", "{\"block_size\": 0}").says(&["block_size: must be above 0"]);
    run("--config c.json --max-osl 5", "{\"generation_length\": {\"mean\": 9, \"median\": 9, \"min\": 6}}")
        .says(&["generation_length: min, 6, must be at most max, 5"]);
    run("--max-isl 1", "").says(&["--max-isl", "2..=1099511627776"]);
    run("--config c.json", "{\"max_prompt_tokens\": 1}").says(&["max_prompt_tokens: must be from 2 to"]);
    run(
        "--config c.json",
        "{\"generation_length\": {\"mean\": 5, \"median\": 4, \"mu\": 1, \"sigma\": 2000}}",
    )
    .says(&["generation_length: mu, 1, must be from -100 to 100, and sigma, 2000, from 0 to 20"]);
    run("--num-sessions 1099511627776", "").says(&["--num-sessions", "1..=10000000"]);
    run("--num-sessions 10000000", "").says(&["10000000 conversations have about", "--num-sessions"]);
    assert!(run("--num-sessions 0", "").made().is_empty());
}

fn shared() -> String {
    rows(&[
        json!({"timestamp": 0, "input_length": 40, "output_length": 3, "hash_ids": [1, 2, 3]}),
        json!({"timestamp": 1, "input_length": 48, "output_length": 5, "hash_ids": [1, 2, 4]}),
        json!({"timestamp": 2, "input_length": 20, "output_length": 7, "hash_ids": [1, 2]}),
        json!({"timestamp": 3, "input_length": 9, "output_length": 9}),
    ])
}

/// A replay of `shared`: input lengths, output limits and texts, in the order of the file.
fn replayed(more: &str) -> (Done, Vec<(u64, u64, String)>) {
    let server = scripted(vec![Reply::chat("ok", 1, 1)]);
    let done = Run::unseeded(&server.url())
        .args("--random-seed 1 --input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16 --concurrency 1")
        .args("--no-fixed-schedule --request-count 4")
        .args(more)
        .file("t.jsonl", shared())
        .run()
        .expect_exit(0)
        .ends(Tally::of(4, 0));
    let lengths = done
        .records()
        .into_iter()
        .map(|r| r["metrics"]["input_sequence_length"]["value"].as_u64().expect("a length"));
    let told = lengths.zip(server.requests()).map(|(isl, request)| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let text = body["messages"][0]["content"].as_str().expect("a text").to_owned();
        (isl, body["max_completion_tokens"].as_u64().expect("a limit"), text)
    });
    let told = told.collect();
    (done, told)
}

fn lengths(told: &[(u64, u64, String)]) -> Vec<(u64, u64)> {
    told.iter().map(|(isl, osl, _)| (*isl, *osl)).collect()
}

/// Characters that two texts begin with.
fn common(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

#[test]
fn lengths_of_a_trace_are_multiplied() {
    let (_, plain) = replayed("");
    assert_eq!(lengths(&plain), [(40, 3), (48, 5), (20, 7), (9, 9)]);
    let (_, fast) = replayed("--synthesis-speedup-ratio 3");
    assert_eq!(fast, plain, "a faster replay asks for the same");
    let (done, longer) = replayed(
        "--synthesis-prefix-len-multiplier 1.5 --synthesis-prompt-len-multiplier 2 --synthesis-output-len-multiplier 0.5",
    );
    // Two blocks become three, and 8, 16 and no tokens twice as many; the third row is its prefix, cut short.
    assert_eq!(lengths(&longer), [(64, 2), (80, 2), (30, 4), (9, 4)]);
    done.shows(&["1 row has no hash_ids and keeps its input length"]);
    let (before, now) = (common(&plain[0].2, &plain[1].2), common(&longer[0].2, &longer[1].2));
    assert!(now > before * 5 / 4, "{before} characters were shared, {now} are");
    assert!(longer[0].2.starts_with(&plain[0].2[..before / 3]), "it begins as it did");
    let (_, cut) = replayed("--synthesis-prompt-len-multiplier 4 --synthesis-max-isl 60");
    assert_eq!(lengths(&cut), [(60, 3), (60, 5), (20, 7), (9, 9)]);
    let (_, trees) = replayed("--synthesis-prefix-root-multiplier 1000");
    assert_eq!(lengths(&trees), lengths(&plain));
    assert!(common(&trees[0].2, &trees[1].2) < before / 2, "they share nothing");
}

#[test]
fn multipliers_are_for_traces_with_blocks() {
    let run = |more: &str, file: &str| {
        Run::unseeded("sim://")
            .args("--input-file t.jsonl")
            .args(more)
            .file("t.jsonl", file)
            .run()
            .expect_exit(2)
    };
    let text = "{\"text\": \"a\"}\n";
    run("--synthesis-prefix-len-multiplier 2", text)
        .says(&["--synthesis-prefix-len-multiplier is for traces", "read as single_turn"]);
    run("--custom-dataset-type single_turn --synthesis-output-len-multiplier 2", text)
        .says(&["--synthesis-output-len-multiplier", "mooncake_trace"]);
    let bare = "{\"input_length\": 5}\n";
    run("--custom-dataset-type mooncake_trace --synthesis-prompt-len-multiplier 2", bare)
        .says(&["no row has 'hash_ids'"]);
    run("--synthesis-prefix-root-multiplier 0", bare)
        .says(&["--synthesis-prefix-root-multiplier: found '0'; allowed: a whole number from 1"]);
    run("--synthesis-prompt-len-multiplier -1", bare).says(&["--synthesis-prompt-len-multiplier"]);
    Run::profile("sim://")
        .args("--synthesis-prompt-len-multiplier 2")
        .run()
        .expect_exit(2)
        .says(&["--synthesis-prompt-len-multiplier", "--input-file"]);
}

#[test]
fn a_report_takes_nobody_s_file() {
    let rows = "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 2, \"hash_ids\": [1, 2]}\n";
    let run = |args: &str| Run::new(args).file("t.jsonl", rows).run();
    let done = run("analyze-trace t.jsonl --output-file ./t.jsonl").expect_exit(2);
    let read = |done: &crate::support::Done, name: &str| std::fs::read_to_string(done.home.path().join(name));
    assert_eq!(read(&done, "t.jsonl").expect("it is there"), rows);
    done.says(&["'./t.jsonl' is the trace itself"]);
    let done = run("analyze-trace t.jsonl --output-file -").expect_exit(0);
    assert!(serde_json::from_str::<Value>(&done.stdout).is_ok(), "{}", done.stdout);
    assert!(!done.home.path().join("-").exists());
    let named = Run::new("synthesize trace --rows 3").file("trace.jsonl", "mine").run().expect_exit(2);
    assert_eq!(read(&named, "trace.jsonl").expect("it is there"), "mine");
    named.says(&["'trace.jsonl' is there already", "--output"]);
    Run::new("synthesize trace --rows 3 --output trace.jsonl")
        .file("trace.jsonl", "old")
        .run()
        .expect_exit(0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_file_sizes_is_told() {
    let done = Run::new("synthesize trace --rows 3000 --output t.jsonl")
        .script("ulimit -f 8; exec \"$0\" \"$@\"")
        .run()
        .expect_exit(1);
    assert_eq!(done.made().len(), 0, "{:?}", done.made());
    done.says(&["cannot write", "t.jsonl"]);
}
