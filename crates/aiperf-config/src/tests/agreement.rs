//! An option means the same wherever it is written.

use proptest::prelude::*;
use serde_json::json;

use super::{File, run_in};
use crate::Resolved;

/// Options that can stand alone beside each other: flag, its text, and the same in a file below `benchmark`.
const PAIRS: &[(&str, &str, &str)] = &[
    ("--url", "https://h/v1", "endpoint: {url: 'https://h/v1'}"),
    ("--endpoint-type", "completions", "endpoint: {type: completions}"),
    ("--custom-endpoint", "/x", "endpoint: {path: /x}"),
    ("--streaming", "", "endpoint: {streaming: true}"),
    ("--request-timeout-seconds", "7", "endpoint: {timeout: 7s}"),
    ("--header", "a:b", "endpoint: {headers: {a: b}}"),
    ("--extra-inputs", "t:0.5,k:null,n:{x", "endpoint: {extra: {t: 0.5, k: null, n: '{x'}}"),
    ("--connection-reuse-strategy", "never", "endpoint: {connectionReuse: never}"),
    ("--use-legacy-max-tokens", "", "endpoint: {useLegacyMaxTokens: true}"),
    ("--use-server-token-count", "", "endpoint: {use_server_token_count: yes}"),
    ("--session-header", "X-S", "endpoint: {session_header: X-S}"),
    ("--max-response-bytes", "1MiB", "endpoint: {max_response_bytes: 1048576}"),
    ("--receive-stamps", "user", "endpoint: {receive_stamps: user}"),
    ("--connect-timeout-seconds", "4", "endpoint: {connectTimeout: 4s}"),
    ("--idle-timeout-seconds", "4", "endpoint: {idle_timeout: 4}"),
    ("--http-version", "2", "endpoint: {http_version: 2}"),
    ("--no-resend", "", "endpoint: {resend: false}"),
    ("--unix-socket", "/run/s", "endpoint: {unix_socket: /run/s}"),
    ("--max-in-flight", "9", "profiling: {max_in_flight: 9}"),
    ("--request-cancellation-rate", "7", "profiling: {cancellation: {rate: 7}}"),
    ("--failed-request-threshold", "0.5", "profiling: {failedRequestThreshold: 0.5}"),
    ("--warmup-max-in-flight", "3", "warmup: {max_in_flight: 3}"),
    ("--model-selection-strategy", "random", "models: {strategy: random}"),
    ("--isl", "77", "dataset: {prompts: {isl: {mean: 77}}}"),
    ("--isl-stddev", "7.5", "dataset: {prompts: {isl: {stddev: 7.5}}}"),
    ("--osl", "33", "dataset: {prompts: {osl: {mean: 33.0}}}"),
    ("--batch-size", "3", "dataset: {prompts: {batchSize: 3}}"),
    ("--prompt-corpus", "coding", "dataset: {prompts: {corpus: coding}}"),
    ("--isl-below-minimum", "floor", "dataset: {prompts: {islBelowMinimum: floor}}"),
    ("--prompt-prefix-length", "9", "dataset: {prefix_prompts: {length: 9}}"),
    ("--verify-lengths", "all", "tokenizer: {verifyLengths: all}"),
    ("--num-dataset-entries", "12", "dataset: {entries: 12}"),
    ("--tokenizer", "builtin", "tokenizer: {name: builtin}"),
    ("--tokenizer-revision", "v1", "tokenizer: {revision: v1}"),
    ("--tokenizer-download", "", "tokenizer: {download: true}"),
    ("--concurrency", "6", "profiling: {concurrency: 6}"),
    ("--request-rate", "2.5", "profiling: {rate: 2.5}"),
    ("--request-count", "60", "profiling: {requests: 60}"),
    ("--num-conversations", "8", "profiling: {sessions: 8}"),
    ("--benchmark-duration", "90", "profiling: {duration: 1.5m}"),
    ("--warmup-request-count", "5", "warmup: {requests: 5}"),
    ("--num-warmup-sessions", "3", "warmup: {sessions: 3}"),
    ("--warmup-duration", "20s", "warmup: {duration: 20}"),
    ("--warmup-concurrency", "2", "warmup: {concurrency: 2}"),
    ("--warmup-request-rate", "9", "warmup: {rate: 9}"),
    ("--artifact-dir", "out", "artifacts: {dir: out}"),
    ("--profile-export-prefix", "foo", "artifacts: {prefix: foo}"),
    ("--export-level", "raw", "artifacts: {raw: true}"),
    (
        "--goodput",
        "request_latency:250 inter_token_latency:10",
        "slos: {request_latency: 250, inter_token_latency: 10}",
    ),
    ("--export-outputs-json", "", "artifacts: {exportOutputsJson: true}"),
    ("--export-parquet", "", "artifacts: {exportParquet: true}"),
    ("--export-schema", "2", "artifacts: {schema: 2}"),
    ("--slice-duration", "30", "artifacts: {sliceDuration: 30s}"),
    ("--ui", "none", "runtime: {ui: none}"),
    ("--stats-interval", "3", "runtime: {statsInterval: 3}"),
    ("--workers-max", "2", "runtime: {workers: 2}"),
    ("--log-level", "debug", "logging: {level: DEBUG}"),
];

/// Adds `more` to the mapping `into`, level by level.
fn merge(into: &mut serde_json::Value, more: &serde_json::Value) {
    match (into, more) {
        (serde_json::Value::Object(into), serde_json::Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// The plan of these pairs, each from a file where `in_file` says so and from a flag otherwise.
fn plan_of(chosen: &[(usize, bool)]) -> String {
    let mut body = json!({"models": {"items": [{"name": "m"}]}});
    let mut words: Vec<String> = Vec::new();
    for (i, in_file) in chosen {
        let (flag, text, yaml) = PAIRS[*i];
        if *in_file {
            let tree = crate::yaml::load_text(&"pair".into(), yaml, &|_| None).expect("YAML");
            merge(&mut body, &tree.root.to_json());
        } else {
            words.push(flag.to_owned());
            words.extend((!text.is_empty()).then(|| text.to_owned()));
        }
    }
    let file = File::new(&crate::yaml::emit(&json!({"benchmark": body})));
    let path = file.path().display().to_string();
    let mut all = vec!["-f", &path];
    all.extend(words.iter().map(String::as_str));
    match run_in(&all, &[]) {
        Ok(Resolved { mut plan, .. }) => {
            plan.cli_command.clear();
            format!(
                "{plan:#?}{:?}",
                plan.endpoint.headers.iter().map(|(n, v)| format!("{n}:{}", v.expose())).collect::<Vec<_>>()
            )
        }
        // A warmup in a file must end; flags for a warmup that is none are only told.
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_plan_does_not_depend_on_where_its_options_were_written(
        chosen in prop::collection::btree_map(0..PAIRS.len(), any::<bool>(), 0..PAIRS.len())
    ) {
        let warmup = |i: &usize| PAIRS[*i].2.starts_with("warmup:");
        let ends = |i: &usize| matches!(PAIRS[*i].0, "--warmup-request-count" | "--num-warmup-sessions" | "--warmup-duration");
        let has_end = chosen.keys().any(ends);
        let chosen: Vec<(usize, bool)> =
            chosen.into_iter().filter(|(i, _)| has_end || !warmup(i)).collect();
        let all = |in_file: bool| chosen.iter().map(|(i, _)| (*i, in_file)).collect::<Vec<_>>();
        let mixed = plan_of(&chosen);
        prop_assert_eq!(&mixed, &plan_of(&all(false)));
        prop_assert_eq!(&mixed, &plan_of(&all(true)));
    }

    #[test]
    fn no_words_make_it_panic(words in prop::collection::vec(
        prop_oneof!["--?[a-z]{1,3}", "[ -~]{0,12}", prop::sample::select(crate::OPTIONS.iter().map(crate::Row::flag).collect::<Vec<_>>())],
        0..8,
    )) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _ = run_in(&words, &[]);
    }
}
