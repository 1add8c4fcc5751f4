//! The whole way from words, variables and files to plans.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aiperf_core::plan::{Arrival, DatasetPlan, ExportLevel, LogLevel, Pacing, PhaseKind, Ui};
use proptest::prelude::*;
use serde_json::json;

use crate::{ExpandFormat, Rejected, Resolved, expand_file, resolve_profile, validate_file};

const SEED: u64 = 77;

fn run_in(words: &[&str], vars: &[(&str, &str)]) -> Result<Resolved, Rejected> {
    let vars: BTreeMap<&str, &str> = vars.iter().copied().collect();
    let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
    resolve_profile(&argv, &|name| vars.get(name).map(|v| (*v).to_owned()), &|| SEED)
}

fn run(line: &str) -> Result<Resolved, Rejected> {
    run_in(&line.split_whitespace().collect::<Vec<_>>(), &[])
}

fn good(line: &str) -> Resolved {
    run(line).unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn wrong(line: &str) -> Vec<String> {
    match run(line) {
        Err(Rejected::Invalid(errors)) => errors.iter().map(ToString::to_string).collect(),
        other => panic!("{line} is accepted: {other:?}"),
    }
}

/// A file in its own folder; the folder's path is cut out of errors.
struct File(tempfile::TempDir, PathBuf);

impl File {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("c.yaml");
        std::fs::write(&path, text).expect("written");
        Self(dir, path)
    }

    fn path(&self) -> &Path {
        &self.1
    }

    fn run(&self, words: &str) -> Result<Resolved, Rejected> {
        let path = self.1.display().to_string();
        let mut all = vec!["-f", &path];
        all.extend(words.split_whitespace());
        run_in(&all, &[])
    }

    fn wrong(&self, words: &str) -> Vec<String> {
        match self.run(words) {
            Err(Rejected::Invalid(errors)) => {
                let folder = format!("{}/", self.0.path().display());
                errors.iter().map(|e| e.to_string().replace(&folder, "")).collect()
            }
            other => panic!("accepted: {other:?}"),
        }
    }
}

fn good_file(text: &str) -> Resolved {
    File::new(text).run("").unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn wrong_file(text: &str) -> Vec<String> {
    File::new(text).wrong("")
}

#[test]
fn a_model_is_all_it_takes() {
    let Resolved { plan, notes } = good("--model m");
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(plan.models, ["m"]);
    assert_eq!(plan.endpoint.url.to_string(), "http://localhost:8000");
    assert_eq!(plan.endpoint.timeout_ns, 21_600_000_000_000);
    assert_eq!(plan.endpoint.max_response_bytes, 64 << 20);
    assert_eq!(plan.endpoint.session_header, "X-Correlation-ID");
    assert!(plan.endpoint.verify_tls && plan.endpoint.api_key.is_none() && plan.endpoint.path.is_none());
    let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
    assert_eq!((dataset.entries, dataset.isl.mean, dataset.isl.stddev, dataset.osl), (100, 550.0, 0.0, None));
    assert_eq!(plan.phases.len(), 1);
    let phase = &plan.phases[0];
    assert_eq!(
        (phase.name.as_str(), phase.kind, phase.pacing),
        ("profiling", PhaseKind::Profiling, Pacing::Concurrency)
    );
    assert_eq!(
        (phase.requests, phase.concurrency, phase.duration_ns, phase.grace_ns),
        (Some(10), Some(1), None, None)
    );
    assert_eq!((plan.seed, plan.seed_given), (SEED, false));
    assert_eq!(plan.artifacts.dir, PathBuf::from("artifacts/m-openai-chat-concurrency1"));
    assert_eq!((plan.artifacts.level, plan.artifacts.schema), (ExportLevel::Records, 1));
    assert_eq!(
        (plan.runtime.ui, plan.runtime.log_level, plan.runtime.max_shards),
        (Ui::Simple, LogLevel::Info, None)
    );
    assert_eq!(plan.tokenizer.map(|t| t.name), Some("m".to_owned()));
    assert_eq!(plan.cli_command, "aiperf profile --model 'm'");
}

/// Shapes taken from AIPerf 0.13.0 by running it with the same words.
#[test]
fn input_config_has_the_shape_of_the_reference() {
    let off = json!({"enabled": false});
    let line = "--model mock-model --url http://mock.example:8000 --endpoint-type chat --streaming --tokenizer builtin \
                --isl 50 --osl 20 --request-count 40 --concurrency 4 --warmup-request-count 3 --export-level raw \
                --random-seed 1 --ui simple --artifact-dir RUN_DIR";
    let config = good(line).plan.input_config;
    assert_eq!(
        config,
        json!({
            "models": {"items": [{"name": "mock-model"}]},
            "endpoint": {"urls": ["http://mock.example:8000"], "type": "chat", "streaming": true},
            "datasets": [{"name": "main", "type": "synthetic", "entries": 40, "random_seed": 1,
                "prompts": {"isl": {"mean": 50.0}, "osl": {"mean": 20.0}}}],
            "phases": [
                {"name": "warmup", "kind": "warmup", "type": "concurrency", "exclude_from_results": true,
                    "requests": 3, "concurrency": 4},
                {"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 40, "concurrency": 4}],
            "artifacts": {"dir": "RUN_DIR", "records": ["jsonl"], "raw": true, "auto_plot": false, "plot_required": false},
            "tokenizer": {"name": "builtin"},
            "gpu_telemetry": off, "server_metrics": off, "network_latency": off,
            "otel": {}, "mlflow": {}, "wandb": {},
            "runtime": {"ui": "simple"}
        })
    );
    let phases = |line: &str| good(&format!("--model m {line}")).plan.input_config["phases"].clone();
    assert_eq!(
        phases("--request-rate 5 --concurrency 7 --arrival-smoothness 2 --warmup-request-count 4"),
        json!([
            {"name": "warmup", "kind": "warmup", "type": "poisson", "exclude_from_results": true, "requests": 4,
                "concurrency": 7, "rate": 5.0},
            {"name": "profiling", "kind": "profiling", "type": "gamma", "requests": 10, "concurrency": 7, "rate": 5.0,
                "smoothness": 2.0}])
    );
    assert_eq!(
        phases(
            "--warmup-duration 10 --warmup-concurrency 2 --warmup-request-rate 4 --warmup-grace-period 3 \
                --request-rate 9 --arrival-pattern constant"
        ),
        json!([
            {"name": "warmup", "kind": "warmup", "type": "constant", "exclude_from_results": true, "duration": 10.0,
                "concurrency": 2, "grace_period": 3.0, "rate": 4.0},
            {"name": "profiling", "kind": "profiling", "type": "constant", "requests": 10, "rate": 9.0}])
    );
    let config = good(
        "--model m --export-level summary --profile-export-prefix foo.json --no-gpu-telemetry \
        --no-server-metrics --transport http --connection-reuse-strategy never --use-legacy-max-tokens \
        --use-server-token-count --session-header X-S --request-timeout-seconds 5 -H Authorization:x,X-A:b \
        --api-key sk-1 --extra-inputs temperature:0.5 --url http://u:p@h/v1 -v",
    )
    .plan
    .input_config;
    assert_eq!(
        config["endpoint"],
        json!({"urls": ["http://<redacted>@h/v1"], "timeout": 5.0, "transport": "http", "connection_reuse": "never",
            "use_legacy_max_tokens": true, "use_server_token_count": true, "session_header": "X-S",
            "api_key": "<redacted>", "headers": {"Authorization": "<redacted>", "X-A": "b"}, "extra": {"temperature": 0.5}})
    );
    assert_eq!(config["logging"], json!({"level": "DEBUG"}));
    assert_eq!(config["artifacts"]["records"], json!(false));
    assert_eq!(config["artifacts"]["prefix"], json!("foo.json"));
}

#[test]
fn load_follows_the_order_of_decision() {
    let pacing =
        |line: &str| good(&format!("-m m {line}")).plan.phases.last().map(|p| (p.pacing, p.concurrency));
    let rate = |per_second, arrival| Pacing::Rate { per_second, arrival };
    assert_eq!(pacing("--concurrency 3"), Some((Pacing::Concurrency, Some(3))));
    assert_eq!(pacing("--request-rate 2"), Some((rate(2.0, Arrival::Poisson), None)));
    assert_eq!(pacing("--request-rate 2 --concurrency 3"), Some((rate(2.0, Arrival::Poisson), Some(3))));
    assert_eq!(
        pacing("--request-rate 2 --arrival-smoothness 4"),
        Some((rate(2.0, Arrival::Gamma { smoothness: 4.0 }), None))
    );
    assert_eq!(
        pacing("--request-rate 2 --request-rate-mode GAMMA --vllm-burstiness .5"),
        Some((rate(2.0, Arrival::Gamma { smoothness: 0.5 }), None))
    );
    assert_eq!(
        pacing("--request-rate 2 --arrival-pattern gamma"),
        Some((rate(2.0, Arrival::Gamma { smoothness: 1.0 }), None))
    );
    assert_eq!(pacing("--arrival-pattern concurrency-burst"), Some((Pacing::Concurrency, Some(1))));

    let plan = good("-m m --benchmark-duration 2m --request-count 7").plan;
    assert_eq!(
        (plan.phases[0].duration_ns, plan.phases[0].grace_ns),
        (Some(120_000_000_000), Some(30_000_000_000))
    );
    assert_eq!(plan.phases[0].requests, Some(7));
    let plan = good("-m m --benchmark-duration 1.5 --benchmark-grace-period inf").plan;
    assert_eq!(
        (plan.phases[0].duration_ns, plan.phases[0].grace_ns, plan.phases[0].requests),
        (Some(1_500_000_000), None, None)
    );

    let plan = good("-m m --warmup-duration 5 --concurrency 8").plan;
    let warmup = &plan.phases[0];
    assert_eq!(
        (warmup.kind, warmup.concurrency, warmup.grace_ns, warmup.requests),
        (PhaseKind::Warmup, Some(8), None, None)
    );

    let with_note = good("-m m --arrival-pattern constant --warmup-concurrency 3");
    assert_eq!(
        with_note.notes,
        [
            "--arrival-pattern has no effect without a request rate",
            "--warmup-concurrency has no effect: --warmup-request-count or --warmup-duration makes a warmup, and neither is given"
        ]
    );
}

#[test]
fn rules_between_options_are_told_with_the_flags_that_break_them() {
    for (line, expected) in [
        (
            "--concurrency 3",
            "the model is missing: give --model, or benchmark.models in a configuration file",
        ),
        (
            "-m m --osl-stddev 3",
            "--osl-stddev needs --osl: a standard deviation needs its mean; without --osl no output length is asked for",
        ),
        (
            "-m m --request-rate 5 --arrival-pattern poisson --arrival-smoothness 3",
            "--arrival-smoothness and --arrival-pattern exclude each other: only gamma gaps have a shape; choose the pattern gamma or drop the smoothness",
        ),
        (
            "-m m --arrival-smoothness 3",
            "--arrival-smoothness needs a request rate: it shapes the gaps between arrivals",
        ),
        (
            "-m m --request-rate 5 --arrival-pattern concurrency_burst",
            "--arrival-pattern and --request-rate exclude each other: concurrency_burst sends whenever a place is free and so has no rate; drop one of the two",
        ),
        (
            "-m m --benchmark-grace-period 3",
            "--benchmark-grace-period needs --benchmark-duration: the grace begins when the duration ends; give a duration or drop the grace",
        ),
        (
            "-m m --warmup-grace-period 3",
            "--warmup-grace-period needs --warmup-duration: there is no warmup; --warmup-duration makes one that the grace belongs to",
        ),
        (
            "-m m --warmup-request-count 3 --warmup-grace-period 3",
            "--warmup-grace-period needs --warmup-duration: the grace begins when the duration ends; give a duration or drop the grace",
        ),
        (
            "-m m --input-file /nonexistent/p.jsonl",
            "--input-file: the file /nonexistent/p.jsonl does not exist",
        ),
        (
            "-m m --custom-dataset-type single_turn",
            "--custom-dataset-type needs --input-file: it says what form the file has",
        ),
        (
            "-m m --url a,b",
            "--url names several URLs; several URLs come later: a choice of servers is something this version does not have yet",
        ),
        (
            "-m m --url ftp://u:p@h",
            "--url: found 'ftp://<redacted>@h', which has the scheme 'ftp'; http, https and sim are spoken; allowed: a URL such as http://localhost:8000, https://host/v1 or sim://",
        ),
        (
            "-m m --url http://h:99999",
            "--url: found 'http://h:99999', which has the port '99999'; ports are 1 to 65535; allowed: a URL such as http://localhost:8000, https://host/v1 or sim://",
        ),
        (
            "-m m --custom-endpoint foo",
            "--custom-endpoint: found 'foo'; allowed: a path that starts with / and has no white space, or nothing",
        ),
        (
            "-m m --session-header a:b",
            "--session-header: found 'a:b'; allowed: a header name: letters, digits and -_.!#$%&'*+^`|~",
        ),
        (
            "-m m --api-key a --api-key-env B",
            "--api-key and --api-key-env exclude each other: the key comes from one place",
        ),
        (
            "-m m --api-key-env B",
            "--api-key-env: found 'B', which is not set in the environment; allowed: the name of a variable that holds the key",
        ),
        (
            "-m m --profile-export-prefix outputs.json",
            "--profile-export-prefix: found 'outputs.json'; allowed: a file name without folder that no other file of the run has (inputs, outputs, phase_manifest)",
        ),
        (
            "-m m --endpoint-type responses",
            "--endpoint-type 'responses' is an AIPerf value this version does not have yet",
        ),
        (
            "-m m --model-selection-strategy randm",
            "--model-selection-strategy: found 'randm'; allowed: round_robin, random; did you mean 'random'?",
        ),
        ("-m m --random-seed -1", "--random-seed: found '-1'; allowed: a whole number from 0"),
        ("-m m --request-rate 0", "--request-rate: found '0'; allowed: a number above 0 to 1000000000"),
        ("-m m --request-rate nan", "--request-rate: found 'nan'; allowed: a number above 0 to 1000000000"),
        (
            "-m m --benchmark-duration 0",
            "--benchmark-duration: found '0'; allowed: seconds above 0, such as 30, 30s, 5m or 2h",
        ),
    ] {
        assert_eq!(wrong(line), [expected], "{line}");
    }
}

#[test]
fn all_errors_are_printed_one_a_paragraph() {
    let error = run("--isl 0 --fixed-schedule --benchmark-grace-period 3").expect_err("three mistakes");
    assert!(error.is_error());
    assert_eq!(
        error.to_string(),
        "error: --isl: found '0'; allowed: a whole number from 1 to 10000000\n\n\
         error: --fixed-schedule is an AIPerf option this version does not have yet\n\n\
         error: the model is missing: give --model, or benchmark.models in a configuration file\n\n\
         error: --benchmark-grace-period needs --benchmark-duration: the grace begins when the duration ends; \
         give a duration or drop the grace"
    );
}

#[test]
fn a_file_of_prompts_excludes_what_makes_prompts() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("p.jsonl");
    std::fs::write(&file, "{\"text\":\"hi\"}\n").expect("written");
    let path = file.display();
    let plan = good(&format!(
        "-m m --input-file {path} --custom-dataset-type single-turn --osl 9 --no-fixed-schedule"
    ))
    .plan;
    let DatasetPlan::File(dataset) = &plan.dataset else { panic!("a file") };
    assert_eq!(
        (dataset.path.as_path(), dataset.entries, dataset.ignore_timestamps),
        (file.as_path(), None, true)
    );
    assert_eq!(dataset.osl.map(|o| (o.mean, o.stddev)), Some((9.0, 0.0)));
    assert!(good(&format!("-m m --input-file {path} --use-server-token-count")).plan.tokenizer.is_none());
    let errors = wrong(&format!("-m m --input-file {path} --isl 4 --isl-stddev 2 --prompt-corpus sonnet"));
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert_eq!(
        errors[0],
        "--isl and --input-file exclude each other: the prompts of a file are sent as they are; drop one of the two"
    );
    let errors = wrong(&format!("-m m --input-file {}", dir.path().display()));
    assert!(errors[0].ends_with("is a folder; single_turn reads one file"), "{errors:?}");
    let errors = wrong(&format!("-m m --artifact-dir {path}"));
    assert!(errors[0].ends_with("is a file; a folder is expected"), "{errors:?}");
}

#[test]
fn folders_are_named_as_the_reference_names_them() {
    let dir = |line: &str| good(line).plan.artifacts.dir.display().to_string();
    assert_eq!(
        dir("-m Qwen/Qwen3-0.6B --concurrency 10"),
        "artifacts/Qwen_Qwen3-0.6B-openai-chat-concurrency10"
    );
    assert_eq!(
        dir("-m a,b --endpoint-type completions --request-rate 5"),
        "artifacts/a_multi-openai-completions-request_rate5.0"
    );
    assert_eq!(
        dir("-m a --request-rate 0.5 --concurrency 2"),
        "artifacts/a-openai-chat-concurrency2-request_rate0.5"
    );
    assert_eq!(dir("-m a --artifact-dir x/y"), "x/y");
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_defaults() {
    let file = File::new(
        "benchmark:\n  model: m\n  profiling: {concurrency: 2, requests: 20}\n  endpoint: {headers: {a: f, b: f, c: f}}\n  dataset: {isl: 5}\n",
    );
    let path = file.path().display().to_string();
    let vars = [
        ("AIPERF_CONCURRENCY", "3"),
        ("AIPERF_REQUEST_COUNT", "30"),
        ("AIPERF_OSL", ""),
        ("AIPERF_HEADER", "x:y"),
        ("AIPERF_API_KEY", "no"),
    ];
    let Resolved { plan, notes } =
        run_in(&["-f", &path, "--concurrency", "4", "-H", "B:flag"], &vars).expect("sound");
    let phase = &plan.phases[0];
    assert_eq!((phase.concurrency, phase.requests), (Some(4), Some(30)));
    let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
    assert_eq!((dataset.isl.mean, dataset.osl), (5.0, None));
    let headers: Vec<(&str, &str)> =
        plan.endpoint.headers.iter().map(|(n, v)| (n.as_str(), v.expose())).collect();
    assert_eq!(headers, [("a", "f"), ("B", "flag"), ("c", "f")]);
    assert!(plan.endpoint.api_key.is_none(), "no key by surprise");
    assert_eq!(
        notes,
        [
            "AIPERF_CONCURRENCY=3 in the environment sets --concurrency",
            "AIPERF_REQUEST_COUNT=30 in the environment sets --request-count"
        ]
    );
    match run_in(&["-m", "m"], &[("AIPERF_ISL", "x")]) {
        Err(Rejected::Invalid(errors)) => assert_eq!(
            errors[0].to_string(),
            "AIPERF_ISL (environment): found 'x'; allowed: a whole number from 1 to 10000000"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_come_from_where_they_are_said_to_and_stay_secret() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("key");
    std::fs::write(&file, " sk-file \n").expect("written");
    let key = |words: &[&str]| {
        let Resolved { plan, notes } = run_in(words, &[("MY_KEY", "sk-env")]).expect("sound");
        let shown = format!("{plan:?}{notes:?}");
        for secret in ["sk-file", "sk-env", "sk-flag"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        (plan.endpoint.api_key.map(|k| k.expose().to_owned()), notes)
    };
    assert_eq!(key(&["-m", "m", "--api-key", "sk-flag"]), (Some("sk-flag".into()), vec![]));
    assert_eq!(key(&["-m", "m", "--api-key-file", &file.display().to_string()]).0, Some("sk-file".into()));
    assert_eq!(
        key(&["-m", "m", "--api-key-env", "MY_KEY"]),
        (Some("sk-env".into()), vec!["the API key comes from the environment variable MY_KEY".into()])
    );
    // A flag replaces the file's way to a key.
    let yaml = File::new("benchmark: {model: m, endpoint: {api_key: sk-yaml}}\n");
    let path = yaml.path().display().to_string();
    assert_eq!(key(&["-f", &path, "--api-key-env", "MY_KEY"]).0, Some("sk-env".into()));
}

#[test]
fn certificate_checks_are_only_turned_off_aloud() {
    let Resolved { plan, notes } =
        run_in(&["-m", "m"], &[("AIPERF_HTTP_SSL_VERIFY", "false")]).expect("sound");
    assert!(!plan.endpoint.verify_tls);
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].starts_with("AIPERF_HTTP_SSL_VERIFY=false in the environment turns certificate checks off"),
        "{notes:?}"
    );
    assert!(run_in(&["-m", "m"], &[("AIPERF_HTTP_SSL_VERIFY", "perhaps")]).is_err());
}

#[test]
fn notes_tell_of_placeholders_and_the_dashboard() {
    let Resolved { plan, notes } = good("-m mock-model --ui dashboard -vv");
    assert_eq!(plan.tokenizer.map(|t| t.name), Some("builtin".to_owned()));
    assert_eq!((plan.runtime.ui, plan.runtime.log_level), (Ui::Simple, LogLevel::Trace));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].starts_with("the dashboard comes later")
            && notes[1].starts_with("'mock-model' names no real model"),
        "{notes:?}"
    );
}

#[test]
fn an_envelope_of_the_reference_is_read() {
    let plan = good_file(
        r#"
schema_version: "2.0"
random_seed: 5
variables: {c: 4, name: "x{{ c }}"}
benchmark:
  models: {strategy: random, items: [{name: "{{ name }}"}, {name: b, weight: null}]}
  endpoint: {urls: ["http://a:80"], streaming: true, headers: {n: 5}, connectionReuse: never, urlStrategy: round_robin}
  datasets: [{name: main, type: synthetic, isl: {value: 100.0}, prompts: {osl: {type: normal, mean: 20, stddev: 3}}, entries: 7, sampling: sequential}]
  phases:
    - {name: w, kind: warmup, type: concurrency, requests: 3}
    - {name: main, kind: profiling, type: poisson, rate: "{{ c * 2 }}", requests: 20, concurrency: "{{c}}", seamless: false}
  artifacts: {dir: out, summary: [json], records: [jsonl], raw: false}
  tokenizer: {name: builtin, revision: main}
  gpu_telemetry: {enabled: false}
  serverMetrics: {enabled: false}
  otel: {}
  runtime: {ui: none}
  logging: {level: WARNING}
"#,
    )
    .plan;
    assert_eq!(plan.models, ["x4", "b"]);
    assert_eq!((plan.seed, plan.seed_given), (5, true));
    assert_eq!(plan.endpoint.headers[0].1.expose(), "5");
    let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
    assert_eq!((dataset.entries, dataset.isl.mean), (7, 100.0));
    assert_eq!(dataset.osl.map(|o| (o.mean, o.stddev)), Some((20.0, 3.0)));
    assert_eq!(plan.phases.len(), 2);
    // A phase whose type is given takes nothing from the other one.
    assert_eq!(
        (plan.phases[0].name.as_str(), plan.phases[0].pacing, plan.phases[0].concurrency),
        ("w", Pacing::Concurrency, Some(1))
    );
    assert_eq!(plan.phases[1].pacing, Pacing::Rate { per_second: 8.0, arrival: Arrival::Poisson });
    assert_eq!((plan.phases[1].name.as_str(), plan.phases[1].concurrency), ("main", Some(4)));
    assert_eq!((plan.artifacts.level, plan.artifacts.dir), (ExportLevel::Records, PathBuf::from("out")));
    assert_eq!((plan.runtime.ui, plan.runtime.log_level), (Ui::None, LogLevel::Warning));
}

#[test]
fn flags_go_to_the_phases_of_a_file() {
    let file = File::new(
        "benchmark:\n  model: m\n  phases:\n  - {name: warmup, type: concurrency, requests: 4}\n  - {name: main, kind: profiling, type: concurrency, requests: 3, concurrency: 2}\n",
    );
    let plan = file.run("--request-rate 4 --warmup-duration 9").expect("sound").plan;
    assert_eq!((plan.phases[0].requests, plan.phases[0].duration_ns), (Some(4), Some(9_000_000_000)));
    assert_eq!(plan.phases[1].pacing, Pacing::Rate { per_second: 4.0, arrival: Arrival::Poisson });
    assert_eq!(
        (plan.phases[1].name.as_str(), plan.phases[1].concurrency, plan.phases[1].requests),
        ("main", Some(2), Some(3))
    );
    let file = File::new("benchmark:\n  model: m\n  profiling: {type: poisson, rate: 5}\n");
    let plan = file.run("--arrival-pattern concurrency-burst").expect("sound").plan;
    assert_eq!(plan.phases[0].pacing, Pacing::Concurrency);
}

#[test]
fn a_flat_file_is_read_with_a_note() {
    let Resolved { plan, notes } = good_file("model: m\nprofiling: {concurrency: 3}\nrandom_seed: 1\n");
    assert_eq!((plan.phases[0].concurrency, plan.seed), (Some(3), 1));
    assert_eq!(notes.len(), 1);
    assert!(notes[0].ends_with("they are read as if they stood below 'benchmark:'"), "{notes:?}");
}

#[test]
fn a_wrong_file_is_told_with_lines_columns_and_hints() {
    let text = "\
benchmark:
  model: m
  endpoint: {url: 'http://a:80', streeming: true, timeout: soon}
  dataset:
    prompts: {isl: [1, 2]}
    entries: 0
  profiling:
    concurency: 4
    requests: abc
    rateRamp: 3
  warmup: 7
  artifacts: {dir: [a]}
  slos: {request_latency: 5}
  gpuTelemetry: {enabled: true}
nonsense: 1
";
    assert_eq!(
        wrong_file(text),
        [
            "c.yaml:3:34: benchmark.endpoint: there is no key 'streeming' here; allowed: api_key, api_key_env, api_key_file, \
             connection_reuse, extra, headers, max_response_bytes, path, session_header, streaming, timeout, transport, type, \
             url, urls, use_legacy_max_tokens, use_server_token_count; did you mean 'streaming'?",
            "c.yaml:3:60: benchmark.endpoint.timeout: found the text 'soon'; expected seconds above 0, such as 30, 30s, 5m or 2h",
            "c.yaml:5:20: benchmark.dataset.prompts.isl.mean: '1, 2' is a list; a list of values asks for a sweep; sweeps come later",
            "c.yaml:6:14: benchmark.dataset.entries: found '0'; allowed: a whole number from 1 to 1000000000000",
            "c.yaml:8:5: benchmark.phases.profiling: there is no key 'concurency' here; allowed: concurrency, duration, \
             exclude_from_results, grace_period, kind, name, rate, requests, smoothness, type; did you mean 'concurrency'?",
            "c.yaml:9:15: benchmark.phases.profiling.requests: found the text 'abc'; expected a whole number from 1 to 1000000000000",
            "c.yaml:10:5: benchmark.phases.profiling.rate_ramp is an AIPerf key this version does not have yet",
            "c.yaml:11:11: benchmark.warmup: found the number 7; expected a mapping",
            "c.yaml:12:20: benchmark.artifacts.dir: found a list; expected a path",
            "c.yaml:13:3: benchmark.slos is an AIPerf key this version does not have yet",
            "c.yaml:14:17: benchmark.gpu_telemetry asks for an AIPerf feature that (unless it says 'enabled: false') this version does not have yet",
            "c.yaml:15:1: : there is no key 'nonsense' here; allowed: benchmark, no_sweep_table, random_seed, schema_version, variables",
        ]
        .map(|s| s.replace("15:1: : ", "15:1: "))
    );
}

#[test]
fn forms_that_contradict_each_other_are_told() {
    for (text, expected) in [
        ("benchmark: {model: a, models: [b]}", "exclude each other: they say the same thing; keep one"),
        (
            "benchmark: {model: m, endpoint: {url: a, urls: [b]}}",
            "exclude each other: they say the same thing",
        ),
        (
            "benchmark: {model: m, endpoint: {apiKey: a, api_key: b}}",
            "this key was already given at line 1, column 34",
        ),
        ("benchmark: {model: m, phases: [{type: concurrency}]}", "benchmark.phases[0] needs a kind"),
        (
            "benchmark: {model: m, phases: [{name: warmup, kind: profiling}]}",
            "a phase whose name and kind differ",
        ),
        (
            "benchmark: {model: m, phases: [{name: a, kind: profiling}, {name: b, kind: profiling}]}",
            "several phases of a kind come later",
        ),
        (
            "benchmark: {model: m, phases: [{name: 1x, kind: profiling}]}",
            "found '1x'; allowed: a letter or _",
        ),
        ("benchmark: {model: m, phases: [{name: nul, kind: profiling}]}", "found 'nul'"),
        (
            "benchmark: {model: m, phases: [{name: x, kind: warmup, requests: 1}, {name: X, kind: profiling}]}",
            "the name 'X' twice",
        ),
        (
            "benchmark: {model: m, profiling: {exclude_from_results: true}}",
            "allowed: true for a warmup, false for a profiling phase",
        ),
        (
            "benchmark: {model: m, warmup: {concurrency: 1}}",
            "needs requests or duration: a warmup without an end",
        ),
        ("benchmark: {model: m, profiling: {type: poisson}}", "benchmark.phases.profiling.type needs rate"),
        (
            "benchmark: {model: m, profiling: {type: fixed_schedule}}",
            "'fixed_schedule' is an AIPerf value this version does not have yet",
        ),
        ("benchmark: {model: m, datasets: [{type: synthetic}, {type: file}]}", "a second data set"),
        (
            "benchmark: {model: m, dataset: {type: file}}",
            "the path of the file with prompts is missing: give --input-file",
        ),
        ("benchmark: {model: m, dataset: {type: public}}", "'public' is an AIPerf value"),
        (
            "benchmark: {model: m, dataset: {type: synthetic, path: x}}",
            "prompts come from the file or are made here",
        ),
        (
            "benchmark: {model: m, dataset: {isl: {mean: 5, median: 4}}}",
            "benchmark.dataset.isl.median is an AIPerf key",
        ),
        ("benchmark: {model: m, artifacts: {summary: false}}", "asks for a run without summary JSON"),
        (
            "benchmark: {model: m, artifacts: {records: false, raw: true}}",
            "asks for raw records without records",
        ),
        (
            "benchmark: {model: m}\nsweep: {type: grid}",
            "sweep is an AIPerf key this version does not have yet",
        ),
        ("schema_version: '1.0'\nbenchmark: {model: m}", "schema_version: found '1.0'; allowed: \"2.0\""),
        ("benchmark: {model: '${NO_SUCH}'}", "the environment variable NO_SUCH is not set"),
        ("benchmark: {model: '{{ nope }}'}", "the template '{{ nope }}' cannot be rendered: undefined value"),
        ("- a\n- b", "found a list; expected a mapping"),
    ] {
        let all = wrong_file(text).join("\n");
        assert!(all.contains(expected), "{text}:\n{all}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let errors = wrong("-f /nonexistent/c.yaml");
    assert!(
        errors[0].starts_with("/nonexistent/c.yaml: the file /nonexistent/c.yaml cannot be read: "),
        "{errors:?}"
    );
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("c.yaml");
    std::fs::write(&path, b"model: m\nx: \xff\n").expect("written");
    let errors = wrong(&format!("-f {}", path.display()));
    assert!(errors[0].ends_with("is not UTF-8 (line 2)"), "{errors:?}");
}

#[test]
fn every_key_of_the_reference_is_accepted_or_refused_by_its_name() {
    for key in crate::aiperf::keys() {
        // A section stands for its keys.
        if crate::aiperf::keys().any(|k| k.starts_with(&format!("{key}."))) {
            continue;
        }
        let path = key.replace("benchmark.phases.", "benchmark.profiling.");
        let mut text = String::new();
        for (depth, part) in path.split('.').enumerate() {
            text.push_str(&format!(
                "{}{part}:{}",
                "  ".repeat(depth),
                if path.ends_with(part) && depth == path.matches('.').count() { "" } else { "\n" }
            ));
        }
        text.push_str(" 'asks: for something'\n");
        let said = match File::new(&text).run("-m m") {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(!said.contains("there is no key"), "{key}:\n{said}");
        let known = crate::OPTIONS.iter().flat_map(crate::Row::keys).any(|k| {
            let k = k.strip_suffix(".mean").unwrap_or(&k).replace("phases.profiling", "phases");
            k == key || key.starts_with(&format!("{k}."))
        });
        let structural = [
            "schema_version",
            "variables",
            "benchmark.dataset.name",
            "benchmark.dataset.type",
            "benchmark.phases.name",
            "benchmark.phases.kind",
            "benchmark.phases.exclude_from_results",
            "benchmark.models.items.name",
            "benchmark.artifacts.records",
            "benchmark.artifacts.raw",
            "benchmark.artifacts.summary",
        ]
        .contains(&key.as_str());
        if !known && !structural {
            assert!(
                said.contains("this version does not have yet"),
                "{key} is taken in silence:\n{text}\n{said}"
            );
        }
    }
}

#[test]
fn a_file_is_validated_and_expanded() {
    let file = File::new(
        "variables: {n: 3}\nbenchmark:\n  model: m\n  endpoint: {api_key: sk-1, url: 'http://u:p@h'}\n  profiling: {concurrency: '{{ n }}'}\n",
    );
    let none = |_: &str| None;
    assert_eq!(validate_file(file.path(), &none).expect("sound").plan.phases[0].concurrency, Some(3));
    let text = expand_file(file.path(), &none, ExpandFormat::Text).expect("sound");
    assert_eq!(
        text,
        "Sweep type: none (1 variation)\n\n[0] dir=base  label=base\n    model: m\n    endpoint:\n      api_key: \"<redacted>\"\n      \
         url: \"http://<redacted>@h\"\n    profiling:\n      concurrency: 3\n"
    );
    let json = expand_file(file.path(), &none, ExpandFormat::Json).expect("sound");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["variations"][0]["benchmark"]["profiling"], json!({"concurrency": 3}));
    assert_eq!((&json["sweep_type"], &json["variations"][0]["dir_name"]), (&json!("none"), &json!("base")));
    let yaml = expand_file(file.path(), &none, ExpandFormat::Yaml).expect("sound");
    assert!(yaml.starts_with("sweep_type: none\nvariations:\n- index: 0\n  dir_name: base\n"), "{yaml}");
    let wrong = File::new("benchmark: {model: m, nope: 1}\n");
    assert!(
        validate_file(wrong.path(), &none).is_err()
            && expand_file(wrong.path(), &none, ExpandFormat::Text).is_err()
    );
}

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
    ("--model-selection-strategy", "random", "models: {strategy: random}"),
    ("--isl", "77", "dataset: {prompts: {isl: {mean: 77}}}"),
    ("--isl-stddev", "7.5", "dataset: {prompts: {isl: {stddev: 7.5}}}"),
    ("--osl", "33", "dataset: {prompts: {osl: {mean: 33.0}}}"),
    ("--num-dataset-entries", "12", "dataset: {entries: 12}"),
    ("--tokenizer", "builtin", "tokenizer: {name: builtin}"),
    ("--concurrency", "6", "profiling: {concurrency: 6}"),
    ("--request-rate", "2.5", "profiling: {rate: 2.5}"),
    ("--request-count", "60", "profiling: {requests: 60}"),
    ("--benchmark-duration", "90", "profiling: {duration: 1.5m}"),
    ("--warmup-request-count", "5", "warmup: {requests: 5}"),
    ("--warmup-duration", "20s", "warmup: {duration: 20}"),
    ("--warmup-concurrency", "2", "warmup: {concurrency: 2}"),
    ("--warmup-request-rate", "9", "warmup: {rate: 9}"),
    ("--artifact-dir", "out", "artifacts: {dir: out}"),
    ("--profile-export-prefix", "foo", "artifacts: {prefix: foo}"),
    ("--export-level", "raw", "artifacts: {raw: true}"),
    ("--export-schema", "2", "artifacts: {schema: 2}"),
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
        let warmup = |i: &usize| PAIRS[*i].0.starts_with("--warmup");
        let ends = |i: &usize| matches!(PAIRS[*i].0, "--warmup-request-count" | "--warmup-duration");
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
