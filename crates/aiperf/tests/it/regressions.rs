//! One test for each defect that was found by attacking the binary.

use aiperf_sim::scripted::{Reply, Signal};
use serde_json::{Value, json};

use crate::support::{Run, Tally, flat, scripted};

#[cfg(target_os = "linux")]
#[test]
fn a_run_outlives_its_stderr() {
    let server = scripted(vec![Reply::chat("a", 1, 1), Reply::new().stall()]);
    let running = Run::new(
        "profile --model demo --tokenizer builtin --isl 8 --request-count 9 --artifact-dir out --url",
    )
    .arg(server.url())
    .script("exec \"$0\" \"$@\" 2>/dev/full")
    .start();
    server.wait_requests(2);
    // What is said of it goes nowhere either.
    running.signal("INT");
    let done = running.finish().expect_exit(130).ends(Tally::of(1, 0).cancelled(1));
    assert_eq!(done.summary()["was_cancelled"], true);
}

#[test]
fn a_terminal_that_hangs_up_stops_the_run_and_loses_nothing() {
    let server = scripted(vec![Reply::chat("a", 1, 1), Reply::new().stall()]);
    let running = Run::profile(&server.url()).args("--request-count 9").start();
    server.wait_requests(2);
    running.signal("HUP");
    running.wait_stderr("Stopping: ");
    let done = running.finish().expect_exit(130).ends(Tally::of(1, 0).cancelled(1));
    assert_eq!(done.summary()["was_cancelled"], true);
}

#[test]
fn nohup_keeps_its_promise() {
    let server = scripted(vec![Reply::chat("a", 1, 1), Reply::new().stall()]);
    let running = Run::profile(&server.url())
        .args("--request-count 9")
        .script("trap '' HUP; exec \"$0\" \"$@\"")
        .start();
    server.wait_requests(2);
    running.signal("HUP");
    running.signal("TERM");
    running.wait_stderr("Stopping: ");
    running.finish().expect_exit(130);
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_file_sizes_is_a_full_disk_and_not_the_end() {
    let server = crate::support::cycling(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url())
        .args("--request-count 40")
        .script("ulimit -f 8; exec \"$0\" \"$@\"")
        .run()
        .expect_exit(1)
        .says(&["cannot write out/profile_export.jsonl: "]);
    assert!(done.records().len() < 40, "whole lines, as far as there was room");
    assert!(
        done.stdout.contains("40 scheduled = 40 sent + 0 unsent; 40 sent = 40 completed"),
        "{}",
        done.stdout
    );
}

#[test]
fn a_delay_beyond_the_clock_waits_and_breaks_nothing() {
    let rows = [
        json!({"text": "a", "session_id": "s"}),
        json!({"text": "b", "session_id": "s", "delay": 18_446_744_073_709_u64}),
    ];
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let running = Run::unseeded(&server.url())
        .args("--input-file rows.jsonl --custom-dataset-type single_turn --concurrency 2 --request-count 3")
        .file("rows.jsonl", rows.map(|r| format!("{r}\n")).concat())
        .start();
    server.wait_requests(1);
    running.signal("INT");
    let tally = running.finish().expect_exit(130).tally();
    assert_eq!((tally.failed, tally.lost), (0, 0), "{tally:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn two_runs_do_not_write_into_one_folder() {
    let server = scripted(vec![Reply::new().stall()]);
    let first = Run::profile(&server.url()).args("--request-count 1");
    let folder = first.home().join("out").display().to_string();
    let first = first.start();
    server.wait_requests(1);
    let second = Run::new("profile --model demo --ui none --tokenizer builtin --url sim:// --artifact-dir")
        .arg(&folder);
    second.run().expect_exit(2).says(&["another run is writing into", &folder, "--artifact-dir"]);
    first.signal("INT");
    let first = first.finish().expect_exit(130);
    assert_eq!(first.summary()["was_cancelled"], true);
    assert_eq!(first.inputs().len(), 1);
}

#[test]
fn an_inputs_file_has_its_name_once_it_is_whole() {
    let server = scripted(vec![Reply::new().stall()]);
    let running = Run::profile(&server.url()).args("--request-count 1").start();
    server.wait_requests(1);
    running.signal("KILL");
    let done = running.finish().expect_exit(-1);
    assert!(!done.path("inputs.json").exists() && done.path("inputs.json.part").exists());
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url()).args("--request-count 1").run_in(done).expect_exit(0);
    assert!(done.path("previous-1/inputs.json.part").exists());
    assert!(!done.path("inputs.json.part").exists() && done.inputs().len() == 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_loop_without_descriptors_is_refused_before_it_stands_still() {
    let few = "ulimit -n 200; exec \"$0\" \"$@\"";
    let many = |url: &str| Run::profile(url).args("--concurrency 500").script(few);
    for (url, needed) in [("sim://?ttft=0&itl=0", "1032"), ("http://127.0.0.1:1", "532")] {
        let done = many(url).args("--request-count 500").run().expect_exit(2).says(&[
            &format!("needs {needed} open files"),
            "200 are allowed",
            "ulimit -n",
            "--concurrency",
        ]);
        assert!(done.made().is_empty(), "{:?}", done.made());
    }
    // No more can be live than are sent.
    many("sim://?ttft=0&itl=0").args("--request-count 5").run().expect_exit(0);
    // Fewer than the program itself needs.
    let none = Run::profile("http://127.0.0.1:1").script("ulimit -n 9; exec \"$0\" \"$@\"").run();
    none.expect_exit(2).says(&["open files and 9 are allowed"]);
}

/// A server in the same process could accept nothing more, and what waited for it waited for hours.
#[cfg(target_os = "linux")]
#[test]
fn an_open_loop_without_descriptors_ends() {
    let done = Run::profile("sim://?ttft=300&itl=0")
        .args("--request-count 400 --request-rate 4000 --request-rate-mode constant")
        .script("ulimit -n 150; exec \"$0\" \"$@\"")
        .run();
    let tally = done.tally();
    assert!(tally.completed > 0 && tally.failed > 0, "{tally:?}");
    assert_eq!(tally.completed + tally.failed, 400);
    // Who comes too late is chance.
    let told = ["DescriptorShortage", "or more connections at once"];
    assert!(told.iter().any(|words| flat(&done.stdout).contains(words)), "{}", done.stdout);
    assert!(!done.stdout.contains("Connection refused"), "the server goes on: {}", done.stdout);
}

#[cfg(target_os = "linux")]
#[test]
fn of_a_million_million_conversations_those_that_are_sent_cost_memory() {
    let done = Run::profile("sim://?ttft=0&itl=0")
        .args("--num-dataset-entries 1000000000000 --dataset-sampling-strategy shuffle --request-count 50")
        .script("ulimit -v 6000000; exec \"$0\" \"$@\"")
        .run()
        .expect_exit(0);
    assert!(done.inputs().len() >= 50);
}

#[test]
fn results_never_take_the_place_of_prompts() {
    let prompts = "{\"text\": \"mine\"}\n";
    let done = Run::new("profile --model demo --ui none --url http://127.0.0.1:1 --artifact-dir . --profile-export-prefix prompts")
        .args("--input-file prompts.jsonl")
        .file("prompts.jsonl", prompts)
        .run()
        .expect_exit(2);
    assert!(done.made().is_empty(), "{:?}", done.made());
    done.says(&["'prompts.jsonl' is where this run writes results", "--artifact-dir"]);
    let folder =
        Run::new("profile --model demo --ui none --url http://127.0.0.1:1 --artifact-dir r --input-file r")
            .args("--custom-dataset-type raw_payload")
            .file("r/a.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n")
            .run();
    folder.expect_exit(2).says(&["'r' is where this run writes results"]);
}

#[test]
fn a_file_that_is_written_over_during_the_run_is_told() {
    let bodies = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n";
    let inputs = "{\"data\": [{\"session_id\": \"s\", \"payloads\": [{\"messages\": []}]}]}\n";
    for (name, form, before) in [
        ("f.jsonl", "single_turn", "{\"text\": \"mine\"}\n"),
        ("f.jsonl", "raw_payload", bodies),
        ("inputs.json", "inputs_json", inputs),
    ] {
        let signal = Signal::new();
        let held =
            Reply::chat("a", 1, 1).steps().iter().cloned().fold(Reply::new().wait_for(&signal), Reply::step);
        let server = scripted(vec![held]);
        let args = format!("--request-count 1 --custom-dataset-type {form} --input-file {name}");
        let run = Run::unseeded(&server.url()).args(&args).file(name, before);
        let running = run.start();
        server.wait_requests(1);
        std::fs::write(running.home().join(name), [before, " \n"].concat()).expect("written");
        signal.raise();
        let done = running.finish().expect_exit(0);
        assert!(
            flat(&done.stdout).contains(&format!("{name}: was changed while the run read from it")),
            "{}",
            done.stdout
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_without_end_is_no_input() {
    for args in ["--tokenizer /dev/zero", "--tokenizer builtin --api-key-file /dev/zero", "-f /dev/zero"] {
        let run = Run::new("profile --model demo --artifact-dir out --url http://127.0.0.1:1").args(args);
        let done = run.run().expect_exit(2).says(&["/dev/zero"]);
        assert!(done.made().is_empty(), "{:?}", done.made());
    }
}

/// A time zone nine hours east of Greenwich, as a file of the time zone database (RFC 9636, version 2).
#[cfg(unix)]
fn zone_file() -> Vec<u8> {
    let mut block = b"TZif2".to_vec();
    block.extend([0; 15]);
    // Times, leaps and indicators: none; one type of time, four characters of names.
    for count in [0u32, 0, 0, 0, 1, 4] {
        block.extend(count.to_be_bytes());
    }
    block.extend((9 * 3600i32).to_be_bytes());
    block.extend([0, 0]);
    block.extend(b"JST\0");
    [&block[..], &block[..], b"\nJST-9\n"].concat()
}

#[cfg(unix)]
#[test]
fn a_named_time_zone_counts() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let run = Run::profile(&server.url()).args("--request-count 1").file("zones/Far/East", zone_file());
    let zones = run.home().join("zones").display().to_string();
    let done = run.env("TZDIR", &zones).env("TZ", "Far/East").run().expect_exit(0);
    let summary = done.summary();
    let local: jiff::civil::DateTime =
        summary["start_time"].as_str().expect("a text").parse().expect("a time without zone");
    let sent_ns = done.records()[0]["metadata"]["request_start_ns"].as_i64().expect("nanoseconds");
    let sent = jiff::Timestamp::from_nanosecond(sent_ns.into()).expect("a time");
    let read_as_utc = jiff::tz::TimeZone::UTC.to_timestamp(local).expect("a time");
    let ahead = read_as_utc.duration_since(sent);
    assert_eq!((ahead.as_secs() + 1800) / 3600, 9, "{local} {sent}");
}

#[test]
fn prompts_of_sglang_have_the_length_that_they_turn_out_to_have() {
    let done = Run::unseeded("sim://")
        .args("--endpoint-type completions --isl 100 --osl 2 --random-seed 5 --request-count 20")
        .args("--prompt-corpus random --random-range-ratio 0.3 --random-corpus-style sglang-strict")
        .run()
        .expect_exit(0);
    let value = |record: &Value, tag: &str| record["metrics"][tag]["value"].as_u64().expect("a number");
    for record in done.records() {
        assert_eq!(value(&record, "input_sequence_length"), value(&record, "usage_prompt_tokens"));
    }
    // What was drawn is not what was sent, and that is told.
    let lengths = done.summary()["input_lengths"].clone();
    assert!(lengths["asked_sent"]["exact"].as_u64().expect("a count") < 20, "{lengths}");
}
