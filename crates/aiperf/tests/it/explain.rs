//! `aiperf explain`: metrics in words.

use aiperf_metrics::METRICS;
use serde_json::Value;

use crate::support::Run;

#[test]
fn without_a_metric_all_that_files_may_show_are_listed() {
    let done = Run::new("explain").run().expect_exit(0);
    let public: Vec<&str> = METRICS.iter().filter(|m| m.is_public()).map(|m| m.tag).collect();
    let listed: Vec<&str> = done.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, public);
}

#[test]
fn a_metric_is_told_whole() {
    let done = Run::new("explain inter_token_latency goodput_is_none").run().expect_exit(2);
    assert_eq!(done.stdout, "", "nothing is told when one of them is wrong");
    let done = Run::new("explain inter_token_latency asked_input_length").run().expect_exit(0);
    let (itl, asked) = done.stdout.split_once("\n\n").expect("two parts");
    assert!(itl.starts_with(
        "inter_token_latency\n  name       Inter Token Latency (ITL)\n  unit       ms\n  rule       decode_duration ÷"
    ));
    for words in [
        "profile_export.jsonl: metrics.inter_token_latency",
        "vLLM bench serve: mean_tpot_ms",
        "weighted by tokens − 1",
    ] {
        assert!(itl.contains(words), "{itl}");
    }
    assert!(asked.contains("AIPerf has no such metric"), "{asked}");
    assert!(asked.contains("GuideLLM: no such metric"), "{asked}");
    assert!(done.stdout.lines().all(|line| line.chars().count() <= 110), "{}", done.stdout);
}

#[test]
fn as_json_it_is_a_list_with_the_fields_of_other_tools() {
    let done = Run::new("explain --json request_latency").run().expect_exit(0);
    let all: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(all[0]["tag"], "request_latency");
    assert_eq!(all[0]["unit"], "ms");
    assert_eq!(all[0]["elsewhere"]["SGLang bench_serving"]["fields"][0], "mean_e2e_latency_ms");
    let done = Run::new("explain --json").run().expect_exit(0);
    let all: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(all.as_array().map(Vec::len), Some(METRICS.iter().filter(|m| m.is_public()).count()));
}

#[test]
fn a_slip_is_told_with_what_was_meant() {
    let done = Run::new("explain time_to_frist_token").run().expect_exit(2);
    assert_eq!(
        done.stderr,
        "error: there is no metric 'time_to_frist_token'. Did you mean 'time_to_first_token'? 'aiperf explain' lists all of them.\n"
    );
}
