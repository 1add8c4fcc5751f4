//! The whole way from words, variables and files to plans.

mod agreement;
mod bodies;
mod context;
mod files;
mod lengths;
mod load;
mod phases;
mod scores;
mod servers;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aiperf_core::plan::{
    Arrival, CorpusPlan, DatasetPlan, EndpointKind, ExportLevel, LengthPlan, LengthsPlan, LogLevel, Pacing,
    PhaseKind, Ui,
};
use serde_json::json;

use crate::{Rejected, Resolved, resolve_profile};

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

#[test]
fn a_model_is_all_it_takes() {
    let Resolved { plan, notes, .. } = good("--model m");
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(plan.models, ["m"]);
    assert_eq!(plan.endpoint.url().to_string(), "http://localhost:8000");
    assert_eq!(plan.endpoint.timeout_ns, 21_600_000_000_000);
    assert_eq!(plan.endpoint.max_response_bytes, 64 << 20);
    assert_eq!(plan.endpoint.session_header, "X-Correlation-ID");
    assert!(plan.endpoint.verify_tls && plan.endpoint.api_key.is_none() && plan.endpoint.path.is_none());
    let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
    assert_eq!((dataset.entries, dataset.batch, dataset.corpus), (100, 1, CorpusPlan::Sonnet));
    assert_eq!(dataset.lengths, LengthsPlan::Apart { isl: LengthPlan::normal(550.0, 0.0), osl: None });
    assert_eq!(plan.phases.len(), 1);
    let phase = &plan.phases[0];
    assert_eq!(
        (phase.name.as_str(), phase.kind, phase.pacing.clone()),
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
    let dir = std::path::absolute("RUN_DIR").expect("a working directory");
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
            "artifacts": {"dir": dir.to_str(), "records": ["jsonl"], "raw": true, "auto_plot": false, "plot_required": false},
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
    let pacing = |line: &str| {
        good(&format!("-m m {line}")).plan.phases.last().map(|p| (p.pacing.clone(), p.concurrency))
    };
    let rate = |per_second, arrival| Pacing::steady(per_second, arrival);
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

    // A warmup takes the main pattern over, also when the main phase itself has no rate for it.
    let plan = good("-m m --arrival-pattern constant --warmup-request-count 3 --warmup-request-rate 4").plan;
    assert_eq!(plan.phases[0].pacing, rate(4.0, Arrival::Constant));
    assert_eq!(plan.phases[1].pacing, Pacing::Concurrency);
    let plan =
        good("-m m --request-rate 2 --warmup-request-count 3 --warmup-arrival-pattern concurrency_burst")
            .plan;
    assert_eq!((plan.phases[0].pacing.clone(), plan.phases[0].concurrency), (Pacing::Concurrency, Some(1)));

    let with_note = good("-m m --arrival-pattern constant --warmup-concurrency 3");
    assert_eq!(
        with_note.notes,
        [
            "--arrival-pattern has no effect without a request rate",
            "--warmup-concurrency has no effect: --warmup-request-count, --num-warmup-sessions or --warmup-duration makes a warmup, \
             and none of them is given"
        ]
    );
}

#[test]
fn sessions_stop_a_phase_and_count_conversations() {
    for flag in ["--num-conversations", "--num-sessions", "--conversation-num"] {
        let plan = good(&format!("-m m {flag} 4")).plan;
        assert_eq!((plan.phases[0].sessions, plan.phases[0].requests), (Some(4), None));
        let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
        assert_eq!(dataset.entries, 4);
        assert_eq!(plan.input_config["datasets"][0]["entries"], json!(4));
        assert_eq!(
            plan.input_config["phases"],
            json!([{"name": "profiling", "kind": "profiling", "type": "concurrency", "sessions": 4}])
        );
    }
    let entries = |line: &str| match good(&format!("-m m {line}")).plan.dataset {
        DatasetPlan::Synthetic(dataset) => dataset.entries,
        DatasetPlan::File(file) => panic!("{file:?}"),
    };
    assert_eq!(entries("--num-conversations 4 --request-count 9"), 4);
    assert_eq!(entries("--num-conversations 4 --num-prompts 6 --request-count 9"), 6);
    assert_eq!(entries("--request-count 9"), 9);
    let both = good("-m m --num-conversations 4 --request-count 9 --num-warmup-sessions 3").plan;
    assert_eq!((both.phases[1].sessions, both.phases[1].requests), (Some(4), Some(9)));
    assert_eq!((both.phases[0].kind, both.phases[0].sessions), (PhaseKind::Warmup, Some(3)));
    assert_eq!(both.phases[0].requests, None);
    let timed = good("-m m --num-conversations 4 --benchmark-duration 5").plan;
    assert_eq!((timed.phases[0].requests, timed.phases[0].duration_ns), (None, Some(5_000_000_000)));
    let file = File::new("benchmark: {model: m, warmup: {sessions: 2}, profiling: {sessions: 5}}");
    let plan = file.run("").expect("sound").plan;
    assert_eq!((plan.phases[0].sessions, plan.phases[1].sessions), (Some(2), Some(5)));
    assert_eq!(
        wrong("-m m --num-conversations 1,2"),
        ["--num-conversations: '1,2' is a list; a list of values asks for a sweep; sweeps come later"]
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
            "-m m --endpoint-type responses --extra-inputs store:true --conversation-turn-mean 2",
            "--extra-inputs needs --use-server-token-count: store:true has the server keep the conversation (previous_response_id); a later request then holds its newest turn alone, and only the server knows the length of its prompt",
        ),
        (
            "-m m --streaming --per-chunk-usage",
            "--per-chunk-usage needs --use-server-token-count: the tokens of the first chunk are the server's count, and the others then have to be too",
        ),
        (
            "-m m --use-server-token-count --per-chunk-usage",
            "--per-chunk-usage needs --streaming: without a stream there are no chunks",
        ),
        (
            "-m m --streaming --use-server-token-count --per-chunk-usage --endpoint-type completions",
            "--per-chunk-usage: found the endpoint type 'completions'; allowed: the endpoint type chat, the one API whose servers know stream_options.continuous_usage_stats",
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
            "-m m --endpoint-type image-generation",
            "--endpoint-type 'image-generation' is an AIPerf value this version does not have yet",
        ),
        (
            "-m m --model-selection-strategy randm",
            "--model-selection-strategy: found 'randm'; allowed: round_robin, random, weighted; did you mean 'random'?",
        ),
        ("-m m --random-seed -1", "--random-seed: found '-1'; allowed: a whole number from 0"),
        ("-m m --request-rate 0", "--request-rate: found '0'; allowed: a number from 0.000001 to 1000000000"),
        (
            "-m m --request-rate 1e-320",
            "--request-rate: found '1e-320'; allowed: a number from 0.000001 to 1000000000",
        ),
        (
            "-m m --request-rate nan",
            "--request-rate: found 'nan'; allowed: a number from 0.000001 to 1000000000",
        ),
        (
            "-m m --benchmark-duration 0",
            "--benchmark-duration: found '0'; allowed: seconds above 0, such as 30, 30s, 5m or 2h or inf",
        ),
    ] {
        assert_eq!(wrong(line), [expected], "{line}");
    }
}

#[test]
fn all_errors_are_printed_one_a_paragraph() {
    let error = run("--isl 0 --scenario x --benchmark-grace-period 3").expect_err("three mistakes");
    assert!(error.is_error());
    assert_eq!(
        error.to_string(),
        "error: --isl: found '0'; allowed: a whole number from 1 to 10000000\n\n\
         error: --scenario is an AIPerf option this version does not have yet\n\n\
         error: the model is missing: give --model, or benchmark.models in a configuration file\n\n\
         error: --benchmark-grace-period needs --benchmark-duration: the grace begins when the duration ends; \
         give a duration or drop the grace"
    );
}

#[test]
fn objectives_are_metrics_with_a_value_per_request() {
    let plan = good(
        "-m m --streaming --goodput 'request_latency:250 time_to_first_token:40'".replace('\'', "").as_str(),
    )
    .plan;
    let slos: Vec<(&str, f64)> = plan.slos.iter().map(|slo| (slo.tag.as_str(), slo.threshold)).collect();
    assert_eq!(slos, [("request_latency", 250.0), ("time_to_first_token", 40.0)]);
    assert_eq!(
        plan.input_config["slos"],
        serde_json::json!({"request_latency": 250.0, "time_to_first_token": 40.0})
    );
    for (given, found, nearest) in [
        ("request_latncy:5", "--goodput: found 'request_latncy'; allowed: ", Some("request_latency")),
        (
            "request_throughput:5",
            "'request_throughput', which has no value of its own for each request",
            None,
        ),
        ("error_isl:5", "'error_isl', which has no value of its own", None),
    ] {
        let errors = wrong(&format!("-m m --goodput {given}"));
        assert!(errors.len() == 1 && errors[0].contains(found), "{errors:?}");
        assert!(errors[0].contains("inter_token_latency, "), "the known ones are listed: {errors:?}");
        if let Some(nearest) = nearest {
            assert!(errors[0].ends_with(&format!("did you mean '{nearest}'?")), "{errors:?}");
        }
    }
}

#[test]
fn an_objective_of_streams_without_one_is_told() {
    let notes = |line: &str| good(line).notes.iter().filter(|n| n.contains("--goodput")).count();
    assert_eq!(notes("-m m --goodput time_to_first_token:40 request_latency:9"), 1);
    assert_eq!(notes("-m m --streaming --goodput time_to_first_token:40"), 0);
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
    assert!(plan.input_config["datasets"][0].get("entries").is_none());
    for (line, entries) in [
        ("--request-count 8", 8),
        ("--request-count 8 --num-conversations 3", 3),
        ("--request-count 8 --num-dataset-entries 2", 2),
    ] {
        let config = good(&format!("-m m --input-file {path} {line} --random-seed 1")).plan.input_config;
        let dataset = config["datasets"][0].as_object().expect("an object");
        assert_eq!(dataset["entries"], entries, "as AIPerf tells it");
        assert_eq!(dataset.keys().next_back().map(String::as_str), Some("random_seed"));
    }
    let DatasetPlan::File(dataset) = &plan.dataset else { panic!("a file") };
    assert_eq!(
        (dataset.path.as_path(), dataset.entries, dataset.ignore_timestamps),
        (file.as_path(), None, true)
    );
    assert_eq!(dataset.osl, Some(LengthPlan::normal(9.0, 0.0)));
    assert!(good(&format!("-m m --input-file {path} --use-server-token-count")).plan.tokenizer.is_none());
    let errors = wrong(&format!("-m m --input-file {path} --isl 4 --isl-stddev 2 --batch-size 3"));
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert_eq!(
        errors[0],
        "--isl and --input-file exclude each other: the prompts of a file are sent as they are; drop one of the two"
    );
    let errors =
        wrong(&format!("-m m --input-file {} --custom-dataset-type single_turn", dir.path().display()));
    assert!(errors[0].ends_with("is a folder, and this form is one file"), "{errors:?}");
    let errors = wrong(&format!("-m m --artifact-dir {path}"));
    assert!(errors[0].ends_with("is a file; a folder is expected"), "{errors:?}");
}

/// What is given as off, and is off without being given, asks for nothing, wherever it would be refused.
#[test]
fn a_switch_that_is_off_is_as_one_that_is_not_given() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("p.jsonl");
    std::fs::write(&file, "{\"text\":\"hi\"}\n").expect("written");
    let file = file.display();
    let with_file = format!("-m m --input-file {file}");
    let bodies = format!("{with_file} --custom-dataset-type raw_payload");
    let unscheduled = format!("{with_file} --no-fixed-schedule");
    let closed = format!("{with_file} --no-open-loop-replay");
    let lines = ["-m m", &bodies, &unscheduled, &closed];
    let is_wrong = |line: &str, name: &str, value: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        run_in(&words, &[(name, value)]).is_err()
    };
    for (name, refused) in [
        ("AIPERF_OPEN_LOOP_STRICT", [true, true, true, true]),
        ("AIPERF_IGNORE_TRACE_DELAYS", [true, true, false, true]),
        ("AIPERF_OMIT_KV_HINTS", [true, true, false, false]),
        ("AIPERF_UUID_AND_STRIP", [true, true, false, false]),
    ] {
        for (line, is_refused) in lines.into_iter().zip(refused) {
            assert!(!is_wrong(line, name, "false"), "{line} {name}");
            assert_eq!(is_wrong(line, name, "true"), is_refused, "{line} {name}");
        }
    }
    // Those that are on without being given ask for something either way.
    for name in ["AIPERF_OPEN_LOOP_REPLAY", "AIPERF_FORCE_MIN_TOKENS"] {
        assert!(["true", "false"].iter().all(|value| is_wrong("-m m", name, value)), "{name}");
    }
}

#[test]
fn every_api_is_known_by_its_name() {
    for kind in
        [EndpointKind::Chat, EndpointKind::Completions, EndpointKind::Responses, EndpointKind::Messages]
    {
        assert_eq!(good(&format!("-m m --endpoint-type {}", kind.name())).plan.endpoint.kind, kind);
    }
    // Stored responses only matter where another turn could build on them, in the one API that has them.
    let chains = |line: &str| good(&format!("-m m {line}")).plan.endpoint.chains;
    assert!(chains(
        "--endpoint-type responses --extra-inputs store:true --use-server-token-count --conversation-turn-mean 2"
    ));
    assert!(chains("--endpoint-type responses --extra-inputs {\"store\":\"TRUE\"} --use-server-token-count"));
    assert!(!chains("--endpoint-type responses --extra-inputs store:1"));
    good("-m m --endpoint-type responses --extra-inputs store:false --conversation-turn-mean 2");
    good("-m m --endpoint-type chat --extra-inputs store:true --conversation-turn-mean 2");
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
    let Resolved { plan, notes, .. } =
        run_in(&["-f", &path, "--concurrency", "4", "-H", "B:flag"], &vars).expect("sound");
    let phase = &plan.phases[0];
    assert_eq!((phase.concurrency, phase.requests), (Some(4), Some(30)));
    let DatasetPlan::Synthetic(dataset) = &plan.dataset else { panic!("synthetic") };
    assert_eq!(dataset.lengths, LengthsPlan::Apart { isl: LengthPlan::normal(5.0, 0.0), osl: None });
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
        let Resolved { plan, notes, .. } = run_in(words, &[("MY_KEY", "sk-env")]).expect("sound");
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
    #[cfg(unix)]
    assert!(
        run_in(&["-m", "m", "--api-key-file", "/dev/zero"], &[])
            .expect_err("it has no end")
            .to_string()
            .contains("--api-key-file: the file /dev/zero has more than the 65536 bytes")
    );
    // A flag replaces the file's way to a key.
    let yaml = File::new("benchmark: {model: m, endpoint: {api_key: sk-yaml}}\n");
    let path = yaml.path().display().to_string();
    assert_eq!(key(&["-f", &path, "--api-key-env", "MY_KEY"]).0, Some("sk-env".into()));
}

#[test]
fn certificate_checks_are_only_turned_off_aloud() {
    let Resolved { plan, notes, .. } =
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
fn addresses_of_one_kind_are_asked_for_in_the_environment() {
    use aiperf_core::plan::IpVersion;
    let asked = |value: &str| run_in(&["-m", "m"], &[("AIPERF_HTTP_IP_VERSION", value)]);
    for (value, version, notes) in [
        ("", IpVersion::Any, 0),
        ("auto", IpVersion::Any, 0),
        ("4", IpVersion::Four, 1),
        ("6", IpVersion::Six, 1),
    ] {
        let Resolved { plan, notes: told, .. } = asked(value).expect("sound");
        assert_eq!((plan.endpoint.ip, told.len()), (version, notes), "{value}");
    }
    assert!(asked("5").is_err());
}

#[test]
fn a_revision_goes_with_the_name_of_a_model_of_the_hub() {
    let name = |args: &str| good(args).plan.tokenizer.map(|t| t.name);
    for (args, expected) in [
        ("-m o/m --tokenizer-revision v1", "o/m@v1"),
        ("-m o/m --tokenizer-revision main", "o/m"),
        ("-m m --tokenizer a/b --tokenizer-revision refs/pr/2", "a/b@refs/pr/2"),
        // A folder has no revisions.
        ("-m m --tokenizer src --tokenizer-revision v1", "src"),
        ("-m mock-model --tokenizer-revision v1", "builtin"),
    ] {
        assert_eq!(name(args).as_deref(), Some(expected), "{args}");
    }
    for (args, may) in [("", false), ("--tokenizer-download", true), ("--no-tokenizer-download", false)] {
        assert_eq!(good(&format!("-m o/m {args}")).download_tokenizer, may, "{args}");
    }
    let by_variable = run_in(&["-m", "o/m"], &[("AIPERF_TOKENIZER_DOWNLOAD", "true")]).expect("sound");
    assert!(by_variable.download_tokenizer);
    let leave = |args: &str| good(&format!("-m m --tokenizer builtin {args}")).download_dataset;
    assert!(leave("--public-dataset aimo --dataset-download") && !leave("--public-dataset aimo"));
    let config = good("-m m --tokenizer a/b --tokenizer-download").plan.input_config;
    assert_eq!(config["tokenizer"], json!({"name": "a/b", "download": true}));
    let config = good("-m m --tokenizer a/b --tokenizer-revision v1").plan.input_config;
    assert_eq!(config["tokenizer"], json!({"name": "a/b", "revision": "v1"}));
}

#[test]
fn notes_tell_of_placeholders_and_the_dashboard() {
    let Resolved { plan, notes, .. } = good("-m mock-model --ui dashboard -vv");
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
fn the_simulated_server_counts_with_the_builtin_tokenizer() {
    let name = |args: &str| good(args).plan.tokenizer.map(|t| t.name);
    assert_eq!(name("-m demo -u sim://"), Some("builtin".to_owned()));
    assert_eq!(name("-m demo -u sim:// --tokenizer cl100k_base"), Some("cl100k_base".to_owned()));
    assert_eq!(name("-m demo -u http://localhost"), Some("demo".to_owned()));
}
