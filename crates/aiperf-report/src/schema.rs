//! JSON Schemas (draft 2020-12) of the summary files, made from the table of metrics.

use aiperf_core::outcome::Finish;
use aiperf_metrics::{Compute, METRICS};
use serde_json::{Map, Value, json};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Schema of what [`json::summary`](crate::json::summary) writes.
pub fn summary_schema() -> Value {
    let metrics = || -> Map<String, Value> {
        METRICS
            .iter()
            .filter(|spec| spec.is_public())
            .map(|spec| {
                let form = match spec.compute {
                    Compute::Record(_) | Compute::AtLeast(_) => "distribution",
                    _ if spec.compute.is_single() => "scalar",
                    _ => "partial",
                };
                let metric = json!({
                    "allOf": [{"$ref": format!("#/$defs/{form}")}, {"properties": {"unit": {"const": spec.display.name()}}}],
                    "description": spec.formula,
                });
                (spec.tag.to_owned(), metric)
            })
            .collect()
    };
    let mut properties = json!({
        "schema_version": {"const": crate::json::SCHEMA_1},
        "aiperf_version": {"type": "string"},
        "benchmark_id": {"type": "string"},
        "input_config": {"type": "object"},
        "run_info": {"$ref": "#/$defs/run_info"},
        "was_cancelled": {"type": "boolean"},
        "is_complete": {"type": "boolean"},
        "incomplete_reason": {"type": "string"},
        "error_summary": {"type": "array", "items": {"$ref": "#/$defs/error"}},
        "start_time": local_time(),
        "end_time": local_time(),
        "warmup_metrics": object(metrics(), &[]),
        "slo_attainment": crate::slos::schema(),
        "over_time": crate::over_time::schema(false),
        "finish_reasons": finishes(false),
        "pooled_spec_decode_acceptance_histogram": histogram(),
        // Blocks of AIPerf's runs with telemetry and trees of requests.
        "telemetry_data": {"type": "object"},
        "branch_stats": {"type": "object"},
        "cache": crate::cache::schema(false),
        "input_lengths": crate::lengths::schema(),
        "load_health": crate::load::schema(false),
        "per_url": crate::load::targets_schema(false),
        "network_latency": crate::network::schema(),
        "metadata": object(as_map(json!({"dataset": source()})), &["dataset"]),
        "dataset_rows": rows(),
        "uncertainty": crate::analysis::uncertainty_schema(false),
        "steady_state": crate::analysis::steady_state_schema(false),
        "breakdown": crate::analysis::breakdown_schema(false),
    });
    if let Value::Object(map) = &mut properties {
        map.extend(metrics());
    }
    let number_keys = crate::file_schemas::statistic_keys(1);
    let all: Vec<String> = number_keys.keys().cloned().collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let error_details = json!({
        "code": {"type": "integer"},
        "type": {"type": "string"},
        "message": {"type": "string"},
        "cause": {"type": "string"},
        "cause_chain": {"type": "array", "items": {"type": "string"}},
        // What AIPerf knows beside it: of any form.
        "details": {},
    });
    let error = json!({
        "error_details": object(as_map(error_details), &["type", "message"]),
        "count": {"type": "integer", "minimum": 1},
        "server_code": {"type": "string"},
        "kind": {"type": "string"},
        "stages": stages(),
        "retryable": {"type": "integer", "minimum": 0},
        "varies": {"type": "boolean"},
    });
    let required = [
        "schema_version",
        "aiperf_version",
        "benchmark_id",
        "input_config",
        "run_info",
        "was_cancelled",
        "is_complete",
        "error_summary",
        "start_time",
        "end_time",
    ];
    let mut summary = object(as_map(properties), &required);
    // A later version, and AIPerf, have metrics that are not in the table; anything else is a slip.
    let other = json!({"$ref": "#/$defs/other_metric"});
    for at in ["/additionalProperties", "/properties/warmup_metrics/additionalProperties"] {
        if let Some(rule) = summary.pointer_mut(at) {
            *rule = other.clone();
        }
    }
    with_head(
        "AIPerf summary, schema 1",
        summary,
        json!({
            "other_metric": crate::file_schemas::statistics(),
            "interval": crate::analysis::interval_schema(false),
            "scalar": object(as_map(json!({"unit": {"type": "string"}, "avg": {"type": "number"}})), &["unit", "avg"]),
            "distribution": object(number_keys.clone(), &all),
            "partial": object(number_keys, &["unit"]),
            "run_info": run_info_1(),
            "error": object(as_map(error), &["error_details", "count"]),
        }),
    )
}

/// Schema of what [`json::summary_2`](crate::json::summary_2) writes.
pub fn summary_schema_2() -> Value {
    let number = || json!({"type": ["number", "null"]});
    let metrics: Map<String, Value> = METRICS
        .iter()
        .filter(|spec| spec.is_public())
        .map(|spec| {
            let mut keys = as_map(json!({
                "header": {"const": spec.header},
                "unit": {"const": spec.display.name()},
                "kind": {"const": spec.compute.kind()},
            }));
            for key in spec.compute.statistics() {
                let (key, form) = match *key {
                    _ if spec.compute.is_single() => ("value", number()),
                    "count" => ("count", json!({"type": "integer", "minimum": 0})),
                    key => (key, number()),
                };
                keys.insert(key.to_owned(), form);
            }
            if crate::json::is_rate(spec) {
                keys.insert("denominator_seconds".to_owned(), number());
            }
            let mut metric = closed(keys);
            metric["description"] = spec.formula.into();
            (spec.tag.to_owned(), metric)
        })
        .collect();
    let count = || json!({"type": "integer", "minimum": 0});
    // In no record, so `aiperf report` does not know it.
    let of_schedule = ["scheduled", "sent", "unsent", "lost"]
        .map(|key| (key.to_owned(), json!({"type": ["integer", "null"], "minimum": 0})));
    let tally: Map<String, Value> = ["completed", "failed", "cancelled"]
        .map(|key| (key.to_owned(), count()))
        .into_iter()
        .chain(of_schedule)
        .collect();
    let phase = closed(as_map(json!({
        "window": closed(as_map(json!({"start_ns": count(), "end_ns": count(), "seconds": {"type": "number", "minimum": 0}}))),
        "tally": closed(tally),
        "finish_reasons": finishes(true),
        "pooled_spec_decode_acceptance_histogram": {"anyOf": [histogram(), {"type": "null"}]},
        "metrics": closed(metrics),
        "slo_attainment": crate::slos::schema(),
        "over_time": {"anyOf": [crate::over_time::schema(true), {"type": "null"}]},
        "cache": {"anyOf": [crate::cache::schema(true), {"type": "null"}]},
    })));
    let error = closed(as_map(json!({
        "count": {"type": "integer", "minimum": 1},
        "code": {"type": ["integer", "null"]},
        "type": {"type": "string"},
        "message": {"type": "string"},
        "kind": {"type": "string"},
        "server_code": {"type": ["string", "null"]},
        "stage": {"type": "string"},
        "stages": stages(),
        "retryable": {"type": "integer", "minimum": 0},
        "varies": {"type": "boolean"},
    })));
    let time = json!({"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}[+-]\d\d:\d\d$"});
    let properties = json!({
        "schema_version": {"const": crate::json::SCHEMA_2},
        "aiperf_version": {"type": "string"},
        "reference_version": {"type": "string"},
        "benchmark_id": {"type": "string"},
        "start_time": time,
        "end_time": time,
        "was_cancelled": {"type": "boolean"},
        "is_complete": {"type": "boolean"},
        "incomplete_reason": {"type": ["string", "null"]},
        "profiling": {"anyOf": [{"$ref": "#/$defs/phase"}, {"type": "null"}]},
        "warmup": {"anyOf": [{"$ref": "#/$defs/phase"}, {"type": "null"}]},
        "input_lengths": {"anyOf": [crate::lengths::schema_2(), {"type": "null"}]},
        "load_health": {"anyOf": [crate::load::schema(true), {"type": "null"}]},
        "per_url": {"anyOf": [crate::load::targets_schema(true), {"type": "null"}]},
        "network_latency": {"anyOf": [crate::network::schema(), {"type": "null"}]},
        "dataset_rows": {"anyOf": [rows(), {"type": "null"}]},
        "dataset_source": {"anyOf": [source(), {"type": "null"}]},
        "uncertainty": {"anyOf": [crate::analysis::uncertainty_schema(true), {"type": "null"}]},
        "steady_state": {"anyOf": [crate::analysis::steady_state_schema(true), {"type": "null"}]},
        "breakdown": {"anyOf": [crate::analysis::breakdown_schema(true), {"type": "null"}]},
        "errors": {"type": "array", "items": {"$ref": "#/$defs/error"}},
        "run_info": {"$ref": "#/$defs/run_info"},
        "input_config": {"type": "object"},
    });
    let interval = crate::analysis::interval_schema(true);
    let defs = json!({"phase": phase, "error": error, "run_info": run_info(), "interval": interval});
    with_head("AIPerf summary, schema 2", closed(as_map(properties)), defs)
}

/// Whole answers by finish reason, all of them or those that came.
fn finishes(all: bool) -> Value {
    let count = || json!({"type": "integer", "minimum": i32::from(!all)});
    let names: Map<String, Value> =
        Finish::ALL.iter().map(|finish| (finish.name().to_owned(), count())).collect();
    if all { closed(names) } else { object(names, &[]) }
}

/// What became of the rows of a file.
pub fn rows() -> Value {
    const COUNTS: [&str; 10] = [
        "read",
        "broken",
        "too_long",
        "not_drawn",
        "outside",
        "capped_outputs",
        "capped_delays",
        "endless_delays",
        "cut_silences",
        "cut_silence_ns",
    ];
    let count = |name: &&str| ((*name).to_owned(), json!({"type": "integer", "minimum": 0}));
    let mut keys: Map<String, Value> = COUNTS.iter().map(count).collect();
    keys.insert("first_broken".to_owned(), json!({"type": "string"}));
    object(keys, &COUNTS)
}

/// Where a public data set comes from.
pub fn source() -> Value {
    let text = json!({"type": "string"});
    let keys = json!({
        "source_type": {"const": "public_dataset"},
        "loader": text,
        "hf_dataset_name": text,
        "hf_split": text,
        "hf_subset": text,
        "num_dataset_entries": {"type": "integer", "minimum": 1},
    });
    object(as_map(keys), &["source_type", "loader"])
}

/// Failures by where they broke.
fn stages() -> Value {
    const STAGES: [&str; 7] =
        ["resolve", "connect", "tls", "send", "before_first_byte", "in_stream", "answer"];
    let count = |name: &&str| ((*name).to_owned(), json!({"type": "integer", "minimum": 1}));
    object(STAGES.iter().map(count).collect(), &[])
}

/// Steps by how many draft tokens they accepted.
fn histogram() -> Value {
    json!({"type": "object", "description": "Verify steps by the number of draft tokens that they accepted."})
}

/// The same as AIPerf has it, which knows sweeps.
fn run_info_1() -> Value {
    let mut info = run_info();
    for key in ["sweep_id", "run_label", "variation_label"] {
        info["properties"][key] = json!({"type": "string"});
    }
    info["properties"]["variation_index"] = json!({"type": "integer"});
    info["properties"]["variation_values"] = json!({"type": "object"});
    info["required"] = json!(["benchmark_id", "trial", "cli_command"]);
    info
}

fn run_info() -> Value {
    closed(as_map(json!({
        "benchmark_id": {"type": "string"},
        "random_seed": {"type": "integer", "minimum": 0},
        "trial": {"type": "integer", "minimum": 0},
        "cli_command": {"type": "string"},
    })))
}

fn local_time() -> Value {
    json!({"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$"})
}

pub(crate) fn with_head(title: &str, schema: Value, defs: Value) -> Value {
    let mut head = as_map(json!({"$schema": DRAFT, "title": title}));
    head.extend(as_map(schema));
    head.insert("$defs".to_owned(), defs);
    Value::Object(head)
}

/// An object with these keys and no others, of which `required` are always there.
pub(crate) fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "required": required, "additionalProperties": false});
    schema["properties"] = Value::Object(properties);
    schema
}

/// An object with exactly these keys.
pub(crate) fn closed(properties: Map<String, Value>) -> Value {
    let required: Vec<String> = properties.keys().cloned().collect();
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    object(properties, &required)
}

pub(crate) fn as_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{summary, summary_2};
    use crate::sample::Sample;
    use crate::schema_check::{check, valid};

    type Change = fn(&mut Value);

    #[test]
    fn what_is_written_fits_its_schema() {
        let sample = Sample::new();
        let mut report = sample.report();
        assert_eq!(valid(&summary_schema(), &summary(&report)), Ok(()));
        assert_eq!(valid(&summary_schema_2(), &summary_2(&report)), Ok(()));
        let nothing_measured = aiperf_metrics::Health {
            phases: vec![aiperf_metrics::PhaseHealth::default()],
            ..aiperf_metrics::Health::default()
        };
        report.load = Some(&nothing_measured);
        report.lengths = None;
        assert_eq!(valid(&summary_schema(), &summary(&report)), Ok(()));
        assert_eq!(valid(&summary_schema_2(), &summary_2(&report)), Ok(()));
        report.load = None;
        report.analysis = None;
        report.targets = &report.targets[..1];
        report.warmup = None;
        report.errors = &[];
        report.incomplete_reason = Some("x");
        assert_eq!(valid(&summary_schema(), &summary(&report)), Ok(()));
        assert_eq!(valid(&summary_schema_2(), &summary_2(&report)), Ok(()));
    }

    #[test]
    fn what_is_wrong_does_not() {
        let sample = Sample::new();
        let good: Value = serde_json::from_slice(&summary(&sample.report())).expect("JSON");
        let schema = summary_schema();
        let changes: [Change; 13] = [
            |v| v["request_latency"]["unit"] = "sec".into(),
            |v| v["request_latency"]["count"] = json!(1.5),
            |v| v["request_count"]["avg"] = Value::Null,
            |v| v["surprise"] = json!(1),
            |v| v["start_time"] = "yesterday".into(),
            |v| v["input_lengths"]["verified"]["wrong"] = json!(-1),
            |v| v["input_lengths"]["difference"]["factor"] = Value::Null,
            |v| v["error_summary"][0]["count"] = json!(0),
            |v| v["load_health"]["verdict"]["limit"] = "nobody".into(),
            |v| v["per_url"][0]["completed"] = Value::Null,
            |v| v["uncertainty"]["metrics"]["request_latency"]["unsupported"] = json!([7]),
            |v| v["steady_state"]["found"] = json!(true),
            |v| v["breakdown"]["turn"][0]["value"] = json!(1),
        ];
        for change in changes {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(check(&schema, &schema, &bad, "$").is_err());
        }
    }
}
