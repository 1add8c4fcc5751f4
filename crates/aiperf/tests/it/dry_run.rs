//! What a dry run foretells, laid beside what the run then does.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Done, Run, sim, url};

/// A server at once: its cache finds what it can.
const AT_ONCE: &str = "prefix_cache=on&ttft=0&itl=0";

fn foretold(done: &Done) -> Value {
    done.json("dry_run.json")
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no whole number: {value}"))
}

/// Sum of a metric over the records of measured requests.
fn sum(done: &Done, tag: &str) -> u64 {
    let records = done.records();
    let measured = records.iter().filter(|r| r["metadata"]["benchmark_phase"] == "profiling");
    measured.map(|r| whole(&r["metrics"][tag]["value"])).sum()
}

/// Bytes of all bodies, which records have in KiB.
fn sent_bytes(done: &Done) -> u64 {
    let of = |r: &Value| r["metrics"]["http_req_data_sent"]["value"].as_f64().expect("a size") * 1024.0;
    done.records().iter().map(of).sum::<f64>().round() as u64
}

/// Foretells and then runs `args` against a server with a prefix cache, one request at a time: what is foretold of the whole run,
/// and the run. The share of prompt tokens that the server found must be the one foretold.
#[track_caller]
fn agrees(args: &str, file: Option<&str>) -> (Value, Done) {
    let server = sim(AT_ONCE);
    let run = |more: &str| {
        let run = Run::unseeded(&url(&server)).args("--random-seed 11 --concurrency 1").args(args).args(more);
        match file {
            Some(rows) => run.file("t.jsonl", rows),
            None => run,
        }
    };
    let dry = run("--dry-run").run().expect_exit(0);
    assert_eq!(server.totals().connections, 0, "a dry run connects to nothing");
    let told = foretold(&dry);
    let done = run("").run_in(dry).expect_exit(0);
    let totals = server.stop();
    let seen = totals.cached_tokens as f64 / totals.prompt_tokens as f64;
    let phases = told["phases"].as_array().expect("phases");
    let all = |key: &str| -> u64 { phases.iter().map(|phase| whole(&phase["cache"][key])).sum() };
    let rate = all("cached_tokens") as f64 / all("prompt_tokens") as f64;
    assert!((rate - seen).abs() <= 0.005, "foretold {rate}, seen {seen}: {told:#}");
    let last = told["phases"].as_array().and_then(|p| p.last()).expect("a phase").clone();
    assert_eq!(done.records().len() as u64, phases.iter().map(|p| whole(&p["requests"])).sum::<u64>());
    assert_eq!(whole(&last["isl_sent"]["sum"]), sum(&done, "input_sequence_length"));
    // Conversations are in the order in which they were first sent, bodies byte for byte.
    assert_eq!(done.text("dry_run_inputs.json"), done.text("inputs.json"));
    (told, done)
}

#[test]
fn prompts_that_share_nothing_find_nothing() {
    let (told, done) =
        agrees("--isl 90 --isl-stddev 20 --osl 5 --request-count 20 --num-dataset-entries 20", None);
    let phase = &told["phases"][0];
    assert!(phase["cache"]["hit_rate"].as_f64().expect("a rate") < 0.3, "no more than the template's own");
    assert_eq!(
        (&phase["requests_are"], &phase["requests"], &phase["sessions"]),
        (&json!("exact"), &json!(20), &json!(20))
    );
    assert_eq!((&phase["exact_lengths"], &phase["isl_asked"]), (&json!(20), &phase["isl_sent"]));
    assert_eq!(phase["repeats"], json!({"requests": 20, "distinct": 20, "most": 1, "in_warmup": 0}));
    assert_eq!(whole(&phase["body_bytes"]), sent_bytes(&done));
    assert_eq!(phase["osl_asked"]["sum"], 100);
    let lengths: Vec<u64> =
        done.records().iter().map(|r| whole(&r["metrics"]["input_sequence_length"]["value"])).collect();
    assert_eq!(phase["isl_sent"]["min"].as_u64(), lengths.iter().min().copied());
    assert_eq!(phase["isl_sent"]["max"].as_u64(), lengths.iter().max().copied());
}

#[test]
fn a_shared_system_prompt_is_found_but_for_the_first_time() {
    let (told, _) = agrees(
        "--isl 50 --osl 4 --shared-system-prompt-length 150 --request-count 12 --num-dataset-entries 12",
        None,
    );
    let rate = told["phases"][0]["cache"]["hit_rate"].as_f64().expect("a rate");
    assert!((0.55..0.8).contains(&rate), "{rate}");
}

#[test]
fn each_of_a_pool_of_prefixes_is_found_but_for_the_first_time() {
    for api in ["chat", "completions"] {
        let (told, _) = agrees(
            &format!(
                "--endpoint-type {api} --isl 40 --osl 4 --num-prefix-prompts 3 --prefix-prompt-length 100 --request-count 30 --num-dataset-entries 30"
            ),
            None,
        );
        let rate = told["phases"][0]["cache"]["hit_rate"].as_f64().expect("a rate");
        assert!((0.5..0.75).contains(&rate), "{api} {rate}");
    }
}

#[test]
fn later_turns_find_what_was_sent_before_them() {
    let (told, done) = agrees(
        "--isl 60 --osl 20 --conversation-turn-mean 4 --num-conversations 6 --num-dataset-entries 6 --shared-system-prompt-length 40",
        None,
    );
    let phase = &told["phases"][0];
    assert_eq!(
        (&phase["requests"], &phase["later_turns"], &phase["sessions"]),
        (&json!(24), &json!(18), &json!(6))
    );
    assert_eq!(done.records().len(), 24);
    let (plain, kept) = (&phase["cache"]["hit_rate"], &phase["cache"]["hit_rate_with_replies"]);
    assert!(
        kept.as_f64() > plain.as_f64(),
        "servers that keep what they decode find it a turn earlier: {phase:#}"
    );
}

#[test]
fn a_limit_in_extra_fields_is_the_one_asked_for() {
    let (told, done) = agrees(
        "--isl 30 --osl 50 --conversation-turn-mean 3 --num-conversations 2 --num-dataset-entries 2 \
         --extra-inputs max_completion_tokens:2",
        None,
    );
    assert_eq!(told["phases"][0]["osl_asked"]["sum"], 12);
    assert!(!done.stdout.contains("before the output length"), "{}", done.stdout);
}

#[test]
fn parts_of_a_message_are_one_text_with_line_ends_between_them() {
    for api in ["chat", "messages"] {
        let args = format!(
            "--endpoint-type {api} --isl 37 --osl 2 --conversation-turn-mean 3 --batch-size 3 --num-conversations 4"
        );
        let server = sim(AT_ONCE);
        let run = |more: &str| {
            Run::unseeded(&url(&server)).args("--random-seed 11 --concurrency 1").args(&args).args(more)
        };
        let dry = run("--dry-run").run().expect_exit(0);
        let told = foretold(&dry)["phases"][0]["cache"]["prompt_tokens"].clone();
        run("").run_in(dry).expect_exit(0);
        assert_eq!(whole(&told), server.stop().prompt_tokens, "{api}");
    }
}

/// Its answers differ from one session to the next, whatever was asked.
#[test]
fn a_conversation_that_comes_again_finds_no_answer_of_another_session() {
    let texts = ["Where does the river turn?", "And who lives there?", "Since when?", "Why is that so?"];
    let turns: Vec<Value> = texts.iter().map(|text| json!({"text": text, "output_length": 40})).collect();
    let file = json!({"session_id": "s", "turns": turns}).to_string();
    let (told, _) =
        agrees("--input-file t.jsonl --custom-dataset-type multi_turn --request-count 120", Some(&file));
    assert_eq!(told["phases"][0]["sessions"], 30);
}

/// How many sessions a warm-up uses up is decided by answers, and conversations have different lengths.
#[test]
fn behind_a_phase_that_answers_decide_numbers_are_about_right() {
    let of = |more: &str| {
        let done = Run::profile("http://127.0.0.1:9")
            .args("--conversation-turn-mean 3 --num-conversations 6 --warmup-request-count 5 --concurrency 2 --dry-run")
            .args(more)
            .run()
            .expect_exit(0);
        foretold(&done)["phases"][1]["requests_are"].clone()
    };
    assert_eq!((of("--conversation-turn-stddev 1"), of("")), (json!("about"), json!("exact")));
}

#[test]
fn a_warm_up_sends_what_is_measured_later_and_that_is_told() {
    let (told, _) =
        agrees("--isl 64 --osl 3 --num-dataset-entries 5 --request-count 12 --warmup-request-count 5", None);
    let [warmup, phase] = [0, 1].map(|i| told["phases"][i].clone());
    assert_eq!((&warmup["kind"], &warmup["requests"]), (&json!("warmup"), &json!(5)));
    assert_eq!(phase["repeats"], json!({"requests": 12, "distinct": 5, "most": 3, "in_warmup": 5}));
    assert_eq!(phase["cache"]["from_warmup_tokens"], phase["cache"]["cached_tokens"]);
    assert!(phase["cache"]["hit_rate"].as_f64() > Some(0.7), "{phase:#}");
}

/// A trace of requests as Mooncake's: sessions that grow block by block over some common beginnings, at random times.
fn trace(rows: u64) -> String {
    let mut state = 99u64;
    let mut draw = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut sessions: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let (mut next, mut at) = (1_000, 0);
    let mut out = String::new();
    for _ in 0..rows {
        at += draw(4);
        let session = draw(rows / 4);
        let ids =
            sessions.entry(session).or_insert_with(|| (0..=draw(3)).map(|i| session % 7 * 10 + i).collect());
        for _ in 0..=draw(3) {
            ids.push(next);
            next += 1;
        }
        let tokens = ids.len() as u64 * 16 - draw(16);
        let row =
            json!({"timestamp": at, "input_length": tokens, "output_length": 1 + draw(3), "hash_ids": ids});
        out += &row.to_string();
        out.push('\n');
    }
    out
}

#[test]
fn a_trace_of_a_thousand_rows_is_found_as_foretold() {
    let rows = trace(1_000);
    let (told, _) = agrees(
        "--input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16 --no-fixed-schedule --request-count 1000",
        Some(&rows),
    );
    let phase = &told["phases"][0];
    let rate = phase["cache"]["hit_rate"].as_f64().expect("a rate");
    assert!((0.3..0.95).contains(&rate), "{rate}");
    assert_eq!((&phase["requests"], &told["dataset"]["conversations"]), (&json!(1000), &json!(1000)));
}

#[test]
fn planned_arrivals_are_those_of_the_run() {
    let server = sim(AT_ONCE);
    let run = |more: &str| {
        Run::profile(&url(&server))
            .args("--request-rate 200 --arrival-pattern poisson --request-count 50")
            .args(more)
    };
    let dry = run("--dry-run --dry-run-format json").run().expect_exit(0);
    let told = foretold(&dry);
    assert_eq!(serde_json::from_str::<Value>(&dry.stdout).expect("JSON on stdout"), told);
    let done = run("").run_in(dry).expect_exit(0);
    let mut at: Vec<u64> = done.records().iter().map(|r| whole(&r["metadata"]["scheduled_ns"])).collect();
    at.sort_unstable();
    let phase = &told["phases"][0];
    assert_eq!((whole(&phase["requests"]), &phase["requests_are"]), (at.len() as u64, &json!("exact")));
    let arrivals = &phase["arrivals"];
    let last_ns = (arrivals["last_s"].as_f64().expect("seconds") * 1e9).round() as u64;
    // The first arrival is the start.
    assert_eq!(last_ns, at[at.len() - 1] - at[0]);
    assert_eq!(phase["sending_s"], arrivals["last_s"]);
    let bin_ns = (arrivals["bin_s"].as_f64().expect("seconds") * 1e9).round() as u64;
    let mut bins = vec![0u64; arrivals["counts"].as_array().expect("bins").len()];
    for ns in &at {
        bins[((ns - at[0]) / bin_ns) as usize] += 1;
    }
    assert_eq!(arrivals["counts"], json!(bins));
}

#[test]
fn a_schedule_is_told_with_its_times() {
    let row = |i: u64| json!({"timestamp": 500 + 100 * i, "input_length": 20, "output_length": 2, "hash_ids": [i, 7]});
    let rows: Vec<String> = (0..6).map(|i| row(i).to_string()).collect();
    let done = Run::unseeded("http://127.0.0.1:9")
        .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --isl-block-size 16 --random-seed 1 --dry-run")
        .file("t.jsonl", rows.join("\n"))
        .run()
        .expect_exit(0)
        .shows(&["Dry run nothing was sent", "Arrivals 6 planned within 0.500 s, 10.000/s in the mean", "(profiling, fixed_schedule)"]);
    let phase = &foretold(&done)["phases"][0];
    assert_eq!((&phase["requests"], &phase["sending_s"]), (&json!(6), &json!(0.5)));
}

/// Rows in seconds behind rows in milliseconds.
#[test]
fn a_schedule_that_waits_for_days_says_where() {
    let row = |at: u64| json!({"timestamp": at, "text": "a"}).to_string();
    let done = Run::unseeded("http://127.0.0.1:9")
        .args("--input-file t.jsonl --fixed-schedule --random-seed 1 --dry-run")
        .file("t.jsonl", [row(1_000), row(1_700_000_000), row(1_700_000_500)].join("\n"))
        .run()
        .expect_exit(0);
    let page = crate::support::flat(&done.stdout);
    assert!(
        page.contains("for 19.7 days nothing starts until t.jsonl:2") && page.contains("within 19.7 days"),
        "{page}"
    );
}

#[test]
fn what_answers_decide_is_not_told() {
    let run =
        |args: &str| Run::profile("http://127.0.0.1:9").args("--dry-run --num-dataset-entries 5").args(args);
    let done = run("--benchmark-duration 60 --concurrency 4").run().expect_exit(0);
    let phase = &foretold(&done)["phases"][0];
    assert_eq!((&phase["requests_are"], &phase["requests"]), (&json!("one_pass"), &json!(5)));
    assert!(phase.get("arrivals").is_none(), "{phase:#}");
    done.shows(&[
        "the answers decide how many; these numbers are of as many sessions as there are conversations",
        "whenever a place is free, for 60.000 s",
    ]);
    // Without a length of answers nobody knows what a second turn holds.
    let done = Run::new("profile --model demo --ui none --tokenizer builtin --artifact-dir out --url sim:// --random-seed 3 --isl 30")
        .args("--dry-run --conversation-turn-mean 2 --num-conversations 3")
        .run()
        .expect_exit(0)
        .shows(&["OSL asked none: the server decides", "without 3 requests whose prompt is not known beforehand"]);
    let phase = &foretold(&done)["phases"][0];
    assert_eq!((&phase["cache"]["requests"], &phase["cache"]["unknown_requests"]), (&json!(3), &json!(3)));
    assert_eq!(phase["isl_sent"]["requests"], 3);
    // Scores are no prompts that a cache would find.
    let done = Run::profile("sim://")
        .args("--dry-run --endpoint-type embeddings --request-count 3")
        .run()
        .expect_exit(0);
    assert!(foretold(&done)["phases"][0].get("cache").is_none());
}

#[test]
fn results_that_are_there_stay() {
    let done = Run::profile("sim://?ttft=0&itl=0").args("--request-count 2").run().expect_exit(0);
    let before = done.text("profile_export.jsonl");
    let dry = Run::profile("sim://").args("--request-count 2 --dry-run").run_in(done).expect_exit(0);
    let made: Vec<String> = dry.made().iter().map(|path| path.display().to_string()).collect();
    assert_eq!(made, ["out/dry_run.json", "out/dry_run_inputs.json"]);
    assert_eq!(dry.text("profile_export.jsonl"), before);
    // And the other way round.
    let done = Run::profile("sim://?ttft=0&itl=0").args("--request-count 2").run_in(dry).expect_exit(0);
    assert_eq!(foretold(&done)["phases"][0]["requests"], 2);
}

#[test]
fn who_stops_it_gets_what_was_looked_at() {
    let running = Run::new("profile --model demo --tokenizer builtin --artifact-dir out --url sim:// --random-seed 7 --isl 64 --osl 4")
        .args("--dry-run --request-count 1000000000 --num-dataset-entries 1000000 --stats-interval 0.01")
        .start();
    running.wait_stderr("Dry run of profiling: ");
    running.signal("INT");
    let done = running.finish().expect_exit(130).shows(&["the user stopped it"]);
    let told = foretold(&done);
    assert_eq!(told["is_complete"], false);
    assert!(whole(&told["phases"][0]["requests"]) > 0);
}

#[test]
fn a_step_that_takes_minutes_keeps_nobody_who_stops_it() {
    let row = format!("{{\"text\":\"{}\"}}\n", "a".repeat(40 << 20));
    let running = Run::unseeded("sim://")
        .args("--random-seed 1 --input-file p.jsonl --dry-run --request-count 1")
        .file("p.jsonl", row)
        .start();
    let begun = running.home().join("out/dry_run_inputs.json.part");
    while !begun.exists() {
        std::thread::yield_now();
    }
    running.signal("INT");
    let done = running
        .finish()
        .expect_exit(130)
        .says(&["error: stopped in the middle of a request that takes long"]);
    assert_eq!(done.stdout, "");
    assert!(done.made().iter().all(|path| !path.is_file()), "{:?}", done.made());
}

#[test]
fn a_form_without_a_dry_run_is_refused() {
    Run::profile("sim://")
        .args("--dry-run-format json")
        .run()
        .expect_exit(2)
        .says(&["--dry-run-format", "--dry-run"]);
    Run::profile("sim://")
        .args("--cache-block-size 0")
        .run()
        .expect_exit(2)
        .says(&["--cache-block-size", "'0'"]);
}

#[test]
fn a_prompt_without_a_text_is_not_one_behind_an_answer() {
    let rows = "{\"text_input\":\"\",\"output_length\":4}\n{\"text_input\":\"a b\",\"output_length\":4}\n";
    let done = Run::unseeded("sim://")
        .args("--input-file t.jsonl --custom-dataset-type mooncake_trace --dry-run --request-count 2 --random-seed 1")
        .file("t.jsonl", rows)
        .run()
        .expect_exit(0);
    assert!(done.stdout.contains("1 request has no prompt that can be read"), "{}", done.stdout);
    assert!(!done.stdout.contains("behind an answer"), "{}", done.stdout);
}

#[test]
fn a_count_cuts_a_schedule_at_its_last_turns() {
    let row =
        |session: &str, at: u64| json!({"text": session, "session_id": session, "timestamp": at}).to_string();
    let rows = [row("a", 0), row("b", 20), row("a", 60), row("c", 200)].join("\n");
    let run = |more: &str| {
        Run::unseeded("sim://?ttft=0&itl=0")
            .args("--input-file t.jsonl --fixed-schedule --request-count 3 --random-seed 1")
            .args(more)
            .file("t.jsonl", &rows)
            .run()
            .expect_exit(0)
    };
    let told = &foretold(&run("--dry-run"))["phases"][0];
    assert_eq!((whole(&told["sessions"]), whole(&told["requests"])), (2, 3));
    let mut sent: Vec<(String, u64)> = run("")
        .records()
        .iter()
        .map(|r| (r["metadata"]["conversation_id"].to_string(), whole(&r["metadata"]["turn_index"])))
        .collect();
    sent.sort();
    assert_eq!(sent, [("\"a\"".to_owned(), 0), ("\"a\"".to_owned(), 1), ("\"b\"".to_owned(), 0)]);
}
