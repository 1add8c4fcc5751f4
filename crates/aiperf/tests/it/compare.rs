//! `aiperf compare`: runs side by side.

use serde_json::{Value, json};

use crate::support::{Done, Run};

const SIM: &str = "sim://?ttft=4&itl=1";

/// What both runs are like, unless said otherwise.
const ALIKE: &str = "--model demo --osl 4 --concurrency 4";

/// Two runs of the program itself in `one` and `two` of the same folder.
fn two_runs(second: &str) -> Done {
    let profile = |dir: &str, more: &str| {
        Run::new("profile --ui none --tokenizer builtin --streaming --isl 8 --random-seed 7 --url")
            .arg(SIM)
            .args("--request-count 40 --artifact-dir")
            .arg(dir)
            .args(more)
    };
    let done = profile("one", ALIKE).run().expect_exit(0);
    profile("two", second).run_in(done).expect_exit(0)
}

fn compare(done: Done, args: &str) -> Done {
    Run::new("compare").args(args).run_in(done)
}

/// AIPerf's own summary, trimmed.
fn aiperf_s(latency: f64) -> String {
    json!({
        "schema_version": "1.4", "aiperf_version": "0.13.0", "benchmark_id": format!("id{latency}"),
        "request_latency": {"unit": "ms", "avg": latency, "p50": latency, "p99": latency, "count": 10},
        "request_count": {"unit": "requests", "avg": 10.0},
        "effective_concurrency": {"unit": "requests", "avg": 3.5, "p50": 4.0},
        "input_config": {"models": {"items": [{"name": "m"}]}, "endpoint": {"type": "chat", "streaming": true}},
        "run_info": {"random_seed": 1}, "is_complete": true,
    })
    .to_string()
}

#[test]
fn two_like_runs_are_compared_with_intervals() {
    let done = compare(two_runs(ALIKE), "one two --format json --output c.json").expect_exit(0);
    assert_eq!(done.stdout, "");
    let text = std::fs::read_to_string(done.home.path().join("c.json")).expect("the file");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    // On a busy machine the client may have been the limit.
    let blocking = |f: &&Value| f["severity"] == "blocks" && f["about"] != "client";
    assert_eq!(all["findings"].as_array().expect("a list").iter().find(blocking), None);
    let metric = |tag: &str| {
        let list = all["metrics"].as_array().expect("a list");
        list.iter().find(|m| m["tag"] == tag).unwrap_or_else(|| panic!("{tag}")).clone()
    };
    let latency = metric("request_latency");
    assert_eq!(latency["better"], "smaller");
    let b = &latency["stats"]["avg"]["B"];
    let difference = b["difference"].as_f64().expect("a difference");
    let (low, high) = (b["low"].as_f64().expect("a bound"), b["high"].as_f64().expect("a bound"));
    assert!(low < difference && difference < high, "{b}");
    assert_eq!(metric("input_sequence_length")["stats"]["avg"]["B"]["verdict"], "equal");
    assert!(metric("request_throughput")["stats"]["avg"]["B"]["low"].is_number());
}

#[test]
fn what_is_not_alike_is_told_and_strict_refuses() {
    let done = two_runs("--osl 8 --concurrency 2 --model other");
    let done = compare(done, "one two").expect_exit(0);
    for words in [
        "A  one (baseline): demo, chat, 40 requests",
        "blocks   datasets.0.prompts.osl.mean is 4 in A and 8 in B.",
        "caution  profiling.0.concurrency is 4 in A and 2 in B.",
        "blocks   models.items.0.name is demo in A and other in B.",
        "The runs are not alike",
        "Request Latency (ms)",
    ] {
        assert!(done.stdout.contains(words), "{words} in {}", done.stdout);
    }
    let done = compare(done, "one two --strict").expect_exit(3);
    assert!(done.stdout.contains("Request Latency (ms)"), "it is shown all the same");
    let done = compare(done, "one two --baseline two --format csv").expect_exit(0);
    assert!(done.stdout.lines().any(|l| l.starts_with("request_latency,ms,avg,A,one,")), "{}", done.stdout);
}

#[test]
fn summaries_of_aiperf_are_read_too() {
    let done = Run::new("compare a.json sub b.json --all --baseline C --format markdown")
        .file("a.json", aiperf_s(10.0))
        .file("b.json", aiperf_s(20.0))
        .file("sub/profile_export_aiperf.json", aiperf_s(30.0))
        .run()
        .expect_exit(0);
    for words in [
        "- **C** `b.json` (baseline)",
        "| Request Latency (ms) | avg | C | 20 |",
        "|  |  | B | 30 | +10 | +50.0 % |",
    ] {
        assert!(done.stdout.contains(words), "{words} in {}", done.stdout);
    }
    assert!(done.stdout.contains("ffective"), "{}", done.stdout);
}

#[test]
fn what_cannot_be_read_is_told_all_at_once() {
    let done = Run::new("compare nowhere empty broken.json list.json killed nested --baseline x")
        .file("broken.json", "{\n  \"a\": 1,\n  oops\n}")
        .file("list.json", "[1]")
        .file("empty/readme.txt", "")
        .file("killed/profile_export.jsonl", "")
        .file("nested/run_1/profile_export_aiperf.json", aiperf_s(1.0))
        .run()
        .expect_exit(2);
    let lines: Vec<&str> = done.stderr.lines().collect();
    let expected = [
        "cannot read 'nowhere'",
        "'empty' has no summary of a run (profile_export_aiperf.json).",
        "'broken.json' is not JSON: key must be a string, line 3, column 3.",
        "'list.json': it has no 'input_config' and no metrics, so it is no summary of a run.",
        "'killed' has records but no summary (profile_export_aiperf.json); 'aiperf report killed' makes one from them.",
        "'nested' has no summary (profile_export_aiperf.json); these folders in it have one: 'nested/run_1'.",
        "--baseline: 'x' is none of the runs",
    ];
    assert_eq!(lines.len(), expected.len(), "{}", done.stderr);
    for (line, words) in lines.iter().zip(expected) {
        assert!(line.starts_with(&format!("error: {words}")), "{line}");
    }
    let done = Run::new("compare a.json").file("a.json", aiperf_s(1.0)).run().expect_exit(2);
    assert_eq!(done.stderr, "error: there is only one run, 'a.json'; two or more can be compared.\n");
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let done = Run::new("compare a.json b.json -o a.json/c.md")
        .file("a.json", aiperf_s(1.0))
        .file("b.json", aiperf_s(1.0))
        .run()
        .expect_exit(1);
    assert!(done.stderr.starts_with("error: cannot write 'a.json/c.md': "), "{}", done.stderr);
    let done = Run::new("compare a.json b.json -o made/c.md").run_in(done).expect_exit(0);
    assert!(done.home.path().join("made/c.md").is_file(), "the folders above are made");
}

#[test]
fn what_a_summary_says_does_not_drive_the_terminal() {
    let hostile =
        aiperf_s(5.0).replace("0.13.0", "\\u001b[31m0.13").replace("\"ms\"", "\"\\u001b]0;t\\u0007ms\"");
    let done = Run::new("compare a.json b.json").file("a.json", aiperf_s(5.0)).file("b.json", hostile).run();
    let done = done.expect_exit(0);
    assert!(done.stdout.contains("[31m0.13"), "{}", done.stdout);
    assert!(!done.stdout.chars().any(|c| c.is_control() && c != '\n'), "{:?}", done.stdout);
}
