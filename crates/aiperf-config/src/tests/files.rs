//! Configuration files: what is read, and what is told of what is not.

use std::path::PathBuf;

use aiperf_core::plan::{Arrival, DatasetPlan, ExportLevel, LengthPlan, LengthsPlan, LogLevel, Pacing, Ui};
use serde_json::json;

use super::{File, wrong};
use crate::{ExpandFormat, Resolved, expand_file, validate_file};

fn good_file(text: &str) -> Resolved {
    File::new(text).run("").unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn wrong_file(text: &str) -> Vec<String> {
    File::new(text).wrong("")
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
    assert_eq!(dataset.entries, 7);
    let (isl, osl) = (LengthPlan::normal(100.0, 0.0), LengthPlan::normal(20.0, 3.0));
    assert_eq!(dataset.lengths, LengthsPlan::Apart { isl, osl: Some(osl) });
    assert_eq!(plan.phases.len(), 2);
    // A phase whose type is given takes nothing from the other one.
    assert_eq!(
        (plan.phases[0].name.as_str(), plan.phases[0].pacing.clone(), plan.phases[0].concurrency),
        ("w", Pacing::Concurrency, Some(1))
    );
    assert_eq!(plan.phases[1].pacing, Pacing::steady(8.0, Arrival::Poisson));
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
    assert_eq!(plan.phases[1].pacing, Pacing::steady(4.0, Arrival::Poisson));
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
    let Resolved { plan, notes, .. } = good_file("model: m\nprofiling: {concurrency: 3}\nrandom_seed: 1\n");
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
    burstPhaseStarts: true
  warmup: 7
  artifacts: {dir: [a]}
  wandb: {project: p}
  gpuTelemetry: {enabled: true}
nonsense: 1
";
    assert_eq!(
        wrong_file(text),
        [
            "c.yaml:3:34: benchmark.endpoint: there is no key 'streeming' here; allowed: api_key, api_key_env, api_key_file, \
             ca_file, client_cert, client_key, connect_timeout, connection_reuse, extra, first_token_timeout, headers, http_version, \
             idle_timeout, max_response_bytes, path, per_chunk_usage, proxy_from_env, receive_stamps, resend, reset_kv_cache, server_profiler, \
             session_header, streaming, template, timeout, transport, type, unix_socket, url, url_strategy, url_weights, urls, \
             use_legacy_max_tokens, use_server_token_count, uuid_and_strip, wait_for_model_interval, wait_for_model_mode, wait_for_model_timeout; \
             did you mean 'streaming'?",
            "c.yaml:3:60: benchmark.endpoint.timeout: found the text 'soon'; expected seconds above 0, such as 30, 30s, 5m or 2h",
            "c.yaml:5:20: benchmark.dataset.prompts.isl.mean: '1, 2' is a list; a list of values asks for a sweep; sweeps come later",
            "c.yaml:6:14: benchmark.dataset.entries: found '0'; allowed: a whole number from 1 to 1000000000000",
            "c.yaml:8:5: benchmark.phases.profiling: there is no key 'concurency' here; allowed: auto_offset, cancellation, \
             concurrency, concurrency_ramp, duration, end_offset, exclude_from_results, failed_request_threshold, grace_period, kind, \
             max_in_flight, name, prefill_concurrency, prefill_ramp, rate, rate_ramp, rate_series, requests, saturation_policy, \
             seamless, sessions, smoothness, start_offset, timing_mode, type, users; did you mean 'concurrency'?",
            "c.yaml:9:15: benchmark.phases.profiling.requests: found the text 'abc'; expected a whole number from 1 to 1000000000000",
            "c.yaml:10:5: benchmark.phases.profiling.burst_phase_starts is an AIPerf key this version does not have yet",
            "c.yaml:11:11: benchmark.warmup: found the number 7; expected a mapping",
            "c.yaml:12:20: benchmark.artifacts.dir: found a list; expected a path",
            "c.yaml:13:3: benchmark.wandb is an AIPerf key this version does not have yet",
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
            "benchmark: {model: m, phases: [{name: a, kind: profiling}, {name: b, kind: profiling, requests: 3}]}",
            "benchmark.phases[0] needs requests, sessions or duration",
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
            "needs requests, sessions or duration: a warmup without an end",
        ),
        ("benchmark: {model: m, profiling: {type: poisson}}", "benchmark.phases.profiling.type needs rate"),
        (
            "benchmark: {model: m, profiling: {type: fixed_schedule}}",
            "benchmark.phases.profiling.type needs --input-file: the timestamps are those of its rows",
        ),
        ("benchmark: {model: m, datasets: [{type: synthetic}, {type: file}]}", "a second data set"),
        (
            "benchmark: {model: m, dataset: {type: file}}",
            "the path of the file with prompts is missing: give --input-file",
        ),
        (
            "benchmark: {model: m, dataset: {type: public}}",
            "the name of the public data set is missing: give --public-dataset",
        ),
        (
            "benchmark: {model: m, dataset: {type: synthetic, path: x}}",
            "prompts come from the file or are made here",
        ),
        (
            "benchmark: {model: m, dataset: {isl: {mean: 5, skew: 4}}}",
            "benchmark.dataset.isl: there is no key 'skew' here; allowed: mean, stddev",
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
        errors[0].starts_with("configuration: the file /nonexistent/c.yaml cannot be read: "),
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
        let parts: Vec<&str> = path.split('.').collect();
        let text: Vec<String> =
            parts.iter().enumerate().map(|(depth, part)| format!("{}{part}:", "  ".repeat(depth))).collect();
        let text = format!("{} 'asks: for something'\n", text.join("\n"));
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
            "benchmark.phases.seamless",
            "benchmark.phases.timing_mode",
            "benchmark.models.items.name",
            "benchmark.models.items.weight",
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

#[cfg(unix)]
#[test]
fn a_file_without_end_is_not_read_to_its_end() {
    let rejected = validate_file("/dev/zero".as_ref(), &|_| None).expect_err("it has no end").to_string();
    assert!(rejected.contains("the file /dev/zero has more than the 16777216 bytes"), "{rejected}");
}

#[test]
fn phases_by_their_names_are_told_how_to_be_written() {
    let text =
        "benchmark:\n  models: m\n  phases:\n    warmup: {requests: 1}\n    profiling: {requests: 5}\n";
    assert_eq!(
        wrong_file(text),
        [
            "c.yaml:4:5: benchmark.phases: found a mapping with 'warmup' in it; expected a list of phases such as [{name: warmup, …}], \
             or the mapping benchmark.warmup without 'phases'",
            "c.yaml:5:5: benchmark.phases: found a mapping with 'profiling' in it; expected a list of phases such as \
             [{name: profiling, …}], or the mapping benchmark.profiling without 'phases'",
        ]
    );
}
