//! JSON Schemas (draft 2020-12) of all files but the summary, and the list of all of them. Metrics in them are made from the table.
//!
//! What AIPerf 0.13 writes fits as well. Objects of ours are closed, so that a slip is found; a tag of a metric that is not in the table
//! is allowed where metrics are, since a later version has more of them, but it must have the form of one.

use aiperf_metrics::{METRICS, MetricSpec, STATISTICS};
use serde_json::{Map, Value, json};

use crate::schema::{as_map, object, summary_schema, summary_schema_2, with_head};

/// A form of a file, or of its lines.
#[derive(Debug, Clone, Copy)]
pub struct FileSchema {
    /// Short name, as `aiperf schema` takes it.
    pub name: &'static str,
    /// The file that has the form.
    pub file: &'static str,
    /// The schema, made when asked for.
    pub make: fn() -> Value,
}

/// Every form that this crate writes.
pub const FILE_SCHEMAS: [FileSchema; 10] = [
    FileSchema { name: "summary", file: "profile_export_aiperf.json", make: summary_schema },
    FileSchema {
        name: "summary-2",
        file: "profile_export_aiperf.json with --export-schema 2",
        make: summary_schema_2,
    },
    FileSchema { name: "records", file: "a line of profile_export.jsonl", make: record_schema },
    FileSchema { name: "raw", file: "a line of profile_export_raw.jsonl", make: raw_schema },
    FileSchema {
        name: "network",
        file: "a line of profile_export_network_latency.jsonl",
        make: network_schema,
    },
    FileSchema { name: "inputs", file: "inputs.json", make: inputs_schema },
    FileSchema { name: "outputs", file: "outputs.json", make: outputs_schema },
    FileSchema { name: "timeslices", file: "profile_export_aiperf_timeslices.json", make: timeslices_schema },
    FileSchema { name: "phases", file: "phase_manifest.json", make: phases_schema },
    FileSchema { name: "dry-run", file: "dry_run.json", make: crate::dry_run::dry_run_schema },
];

/// Schema of a line that [`jsonl::line`](crate::jsonl::line) writes.
pub fn record_schema() -> Value {
    let properties = json!({
        "metadata": metadata(),
        "metrics": record_metrics(),
        "trace_data": {"type": "object"},
        "spec_decode_acceptance": {"type": "object"},
        "error": error(),
    });
    with_head("AIPerf record", object(as_map(properties), &["metadata", "metrics"]), json!({}))
}

/// Schema of a line that [`raw::line`](crate::raw::line) writes.
pub fn raw_schema() -> Value {
    let field = json!({"name": text(), "value": text()});
    let event = json!({"perf_ns": whole(), "packets": list(object(as_map(field), &["name", "value"]))});
    let body = json!({"perf_ns": whole(), "text": text(), "content_type": text()});
    let response = json!({"anyOf": [
        object(as_map(event), &["perf_ns", "packets"]),
        object(as_map(body), &["perf_ns", "text"]),
    ]});
    let mut properties = as_map(json!({
        "metadata": metadata(),
        "start_perf_ns": whole(),
        "request_headers": {"type": "object", "additionalProperties": text()},
        "status": {"type": "integer", "minimum": 100},
        "responses": list(response),
        "error": error(),
        // The body as it was sent: any JSON, or a text where it was none.
        "payload": {},
    }));
    for key in ["cache_bust_marker", "cache_bust_target"] {
        properties.insert(key.to_owned(), text());
    }
    let required = ["metadata", "start_perf_ns", "request_headers", "responses"];
    with_head("AIPerf raw record", object(properties, &required), json!({}))
}

/// Schema of a line that [`network::line`](crate::network::line) writes.
pub fn network_schema() -> Value {
    let properties = json!({
        "timestamp_ns": whole(),
        "target_url": text(),
        "target_host": text(),
        "target_port": whole(),
        "probe_type": {"const": "tcp_connect"},
        "rtt_ns": whole(),
        "success": {"type": "boolean"},
        "error": error(),
    });
    let required = ["timestamp_ns", "target_url", "target_host", "target_port", "probe_type", "success"];
    with_head("AIPerf network probe", object(as_map(properties), &required), json!({}))
}

/// Schema of what [`inputs::Writer`](crate::inputs::Writer) writes.
pub fn inputs_schema() -> Value {
    let session = json!({"session_id": text(), "payloads": {"type": "array"}});
    let session = object(as_map(session), &["session_id", "payloads"]);
    with_head("AIPerf inputs", object(as_map(json!({"data": list(session)})), &["data"]), json!({}))
}

/// Schema of what [`outputs`](crate::outputs) writes.
pub fn outputs_schema() -> Value {
    let metrics: Map<String, Value> =
        crate::outputs::METRICS.iter().map(|tag| ((*tag).to_owned(), json!({"type": "number"}))).collect();
    let entry = json!({
        "session_num": whole(),
        "conversation_id": text(),
        "turn_index": whole(),
        "x_request_id": text(),
        "request_start_ns": whole(),
        "request_end_ns": whole(),
        "metrics": object(metrics, &[]),
        "response_text": {"type": ["string", "null"]},
    });
    let properties = json!({
        "schema_version": {"const": crate::outputs::SCHEMA},
        "data": list(closed(entry)),
    });
    with_head("AIPerf outputs", closed(properties), json!({}))
}

/// Schema of the results by slices of time.
pub fn timeslices_schema() -> Value {
    let mut slice =
        as_map(json!({"start_ns": whole(), "end_ns": whole(), "is_complete": {"type": "boolean"}}));
    for spec in METRICS.iter().filter(|spec| spec.is_public()) {
        let own = json!({"properties": {"unit": {"const": spec.display.name()}}});
        slice.insert(spec.tag.to_owned(), json!({"allOf": [{"$ref": "#/$defs/metric"}, own]}));
    }
    let mut slice = object(slice, &["start_ns", "end_ns"]);
    slice["additionalProperties"] = json!({"$ref": "#/$defs/metric"});
    let properties = json!({"timeslices": list(slice), "input_config": {"type": "object"}});
    let defs = json!({"metric": statistics()});
    with_head("AIPerf time slices", object(as_map(properties), &["timeslices"]), defs)
}

/// Schema of `phase_manifest.json`.
pub fn phases_schema() -> Value {
    let mut details = error();
    details["properties"]["type"] = json!({"type": ["string", "null"]});
    let group = json!({"error_details": details, "count": whole()});
    let phase = json!({
        "phase_index": whole(),
        "profiling_index": {"type": ["integer", "null"]},
        "phase_name": text(),
        "phase_kind": kind(),
        "start_ns": whole(),
        "end_ns": whole(),
        "was_cancelled": {"type": "boolean"},
        "successful_request_count": whole(),
        "error_request_count": whole(),
        "total_request_count": whole(),
        "error_summary": list(closed(group)),
        "metrics_json": text(),
        "metrics_csv": text(),
        "gpu_telemetry_json": text(),
        "server_metrics_json": text(),
    });
    let phase = as_map(phase);
    let required: Vec<String> =
        phase.keys().filter(|key| !key.ends_with("_json") && !key.ends_with("_csv")).cloned().collect();
    let required: Vec<&str> = required.iter().map(String::as_str).collect();
    let properties = json!({"schema_version": {"const": 1}, "phases": list(object(phase, &required))});
    with_head("AIPerf phases", closed(properties), json!({}))
}

/// Who and when of a record: AIPerf's keys, then ours, which are not in a record of AIPerf's.
fn metadata() -> Value {
    let mut properties = json!({
        "session_num": whole(),
        "x_request_id": text(),
        "x_correlation_id": text(),
        "conversation_id": text(),
        "turn_index": whole(),
        "source_trace_id": text(),
        "source_outer_idx": whole(),
        "source_inner_idx": whole(),
        "source_kind": text(),
        "credit_issued_ns": whole(),
        "request_start_ns": whole(),
        "request_ack_ns": whole(),
        "request_end_ns": whole(),
        "worker_id": text(),
        "record_processor_id": text(),
        "benchmark_phase": kind(),
        "phase_index": whole(),
        "profiling_index": whole(),
        "phase_name": text(),
        "phase_kind": kind(),
        "was_cancelled": {"type": "boolean"},
        "cancellation_time_ns": whole(),
        "context_overflow_skip": {"type": "boolean"},
        "agent_depth": whole(),
        "parent_correlation_id": text(),
        "root_correlation_id": text(),
        "scheduled_ns": whole(),
        "request_send_start_ns": whole(),
        "request_send_end_ns": whole(),
        "response_receive_start_ns": whole(),
        "url": text(),
        "model": text(),
        "outcome": {"enum": ["completed", "failed", "cancelled", "lost"]},
        "finish_reason": text(),
        "server_finish_reason": text(),
        "first_chunk_tokens": whole(),
        "abandoned_turns": whole(),
        "rendered_prompt_tokens": whole(),
        "expected_cached_tokens": whole(),
        "expected_cached_tokens_from_warmup": whole(),
        "expected_cached_tokens_with_replies": whole(),
    });
    properties["self_contained"] = json!({"const": true});
    let required = [
        "session_num",
        "x_request_id",
        "x_correlation_id",
        "conversation_id",
        "turn_index",
        "credit_issued_ns",
        "request_start_ns",
        "request_end_ns",
        "worker_id",
        "record_processor_id",
        "benchmark_phase",
        "was_cancelled",
    ];
    object(as_map(properties), &required)
}

/// The values of a record: those of the table with their own unit, others with any.
fn record_metrics() -> Value {
    let form = |spec: Option<&MetricSpec>| {
        let number = json!({"type": "number"});
        let value = json!({"anyOf": [number, {"type": "array", "items": number}]});
        let unit = spec.map_or_else(text, |spec| json!({"const": spec.display.name()}));
        let mut form = closed(json!({"value": value, "unit": unit}));
        if let Some(spec) = spec {
            form["description"] = spec.formula.into();
        }
        form
    };
    let known = METRICS.iter().filter(|spec| spec.is_per_record());
    let known = known.map(|spec| (spec.tag.to_owned(), form(Some(spec)))).collect();
    let mut metrics = object(known, &[]);
    metrics["additionalProperties"] = form(None);
    metrics
}

/// Statistics of any metric, as far as there are any.
pub(crate) fn statistics() -> Value {
    object(statistic_keys(0), &["unit"])
}

/// A metric's unit and its statistics, of so many values at least.
pub(crate) fn statistic_keys(least_count: u32) -> Map<String, Value> {
    let mut keys = as_map(json!({"unit": text()}));
    for name in STATISTICS.into_iter().filter(|name| *name != "count") {
        keys.insert(name.to_owned(), json!({"type": "number"}));
    }
    keys.insert("count".to_owned(), json!({"type": "integer", "minimum": least_count}));
    keys
}

/// Words of a failure; `kind`, `stage` and `retryable` are ours.
fn error() -> Value {
    let properties = json!({
        "code": {"type": ["integer", "null"]},
        "type": text(),
        "message": text(),
        "cause": {"type": ["string", "null"]},
        "cause_chain": {"anyOf": [list(text()), {"type": "null"}]},
        // What AIPerf knows beside it: of any form.
        "details": {},
        "kind": text(),
        "stage": text(),
        "retryable": {"type": "boolean"},
        "server_code": text(),
    });
    object(as_map(properties), &["type", "message"])
}

fn kind() -> Value {
    json!({"enum": ["warmup", "profiling"]})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn whole() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn list(items: impl Into<Value>) -> Value {
    json!({"type": "array", "items": items.into()})
}

fn closed(properties: Value) -> Value {
    crate::schema::closed(as_map(properties))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonl::{self, Meta};
    use crate::network::{self, Probe};
    use crate::raw::{self, Raw, Responses};
    use crate::sample;
    use crate::schema_check::{check, valid};
    use aiperf_core::outcome::{Finish, Outcome};

    /// With all keys.
    fn meta() -> Meta<'static> {
        Meta {
            cancelled_ns: Some(4),
            scheduled_ns: Some(1),
            send_start_ns: Some(2),
            send_end_ns: Some(2),
            receive_start_ns: Some(5),
            url: Some("http://one"),
            model: Some("m"),
            outcome: Outcome::Cancelled,
            finish: (Finish::Length, Some("length")),
            first_chunk_tokens: Some(2),
            abandoned_turns: 3,
            self_contained: true,
            expected_cache: Some(aiperf_metrics::CacheFacts::default()),
            ..sample::meta()
        }
    }

    #[test]
    fn lines_with_all_keys_fit() {
        let meta = meta();
        let failure = sample::cancelled();
        for values in sample::recorder_and_values().1 {
            for error in [None, Some(&failure)] {
                let mut out = Vec::new();
                jsonl::line(&mut out, &meta, &values, jsonl::Said { error, ..jsonl::Said::default() });
                assert_eq!(valid(&record_schema(), &out), Ok(()));
            }
        }
        let events = [(7, vec![("data", "{}"), ("event", "x")])];
        for responses in [
            Responses::None,
            Responses::Events(&events),
            Responses::Body { at_ns: 3, text: b"x", content_type: Some("text/plain") },
        ] {
            let headers = [("Accept", "text/event-stream"), ("Authorization", "Bearer x")];
            let raw = Raw {
                meta: &meta,
                start_mono_ns: 1,
                headers: &headers,
                status: Some(200),
                responses,
                error: Some(&failure),
                payload: b"{\"model\": \"m\"}",
            };
            let mut out = Vec::new();
            raw::line(&mut out, &raw);
            assert_eq!(valid(&raw_schema(), &out), Ok(()));
        }
    }

    #[test]
    fn probes_fit() {
        for result in [Ok(2_638_240), Err(("TimedOut", "no answer"))] {
            let mut out = Vec::new();
            network::line(&mut out, &Probe { at_ns: 7, url: "http://h:1", host: "h", port: 1, result });
            assert_eq!(valid(&network_schema(), &out), Ok(()));
        }
    }

    #[test]
    fn what_the_reference_wrote_fits() {
        for (name, text) in [
            ("summary", include_str!("reference/summary.json")),
            ("records", include_str!("reference/record.jsonl")),
            ("records", include_str!("reference/record_failed.jsonl")),
            ("raw", include_str!("reference/raw.jsonl")),
            ("inputs", include_str!("reference/inputs.json")),
            ("outputs", include_str!("reference/outputs.json")),
            ("timeslices", include_str!("reference/timeslices.json")),
            ("phases", include_str!("reference/phase_manifest.json")),
        ] {
            let schema = FILE_SCHEMAS.iter().find(|schema| schema.name == name).expect(name);
            assert_eq!(valid(&(schema.make)(), text.as_bytes()), Ok(()), "{name}");
        }
    }

    #[test]
    fn slips_do_not_fit() {
        type Change = fn(&mut Value);
        let record: Value = serde_json::from_str(include_str!("reference/record.jsonl")).expect("JSON");
        let changes: [Change; 6] = [
            |v| v["metadata"]["surprise"] = 1.into(),
            |v| v["metadata"]["benchmark_phase"] = "main".into(),
            |v| v["metrics"]["request_latency"]["unit"] = "sec".into(),
            |v| v["metrics"]["new_one"] = 1.into(),
            |v| v["metrics"]["request_latency"]["value"] = Value::Null,
            |v| v["metadata"]["request_start_ns"] = json!(0.5),
        ];
        let schema = record_schema();
        for (i, change) in changes.into_iter().enumerate() {
            let mut bad = record.clone();
            change(&mut bad);
            assert!(check(&schema, &schema, &bad, "$").is_err(), "change {i}");
        }
        let mut later = record;
        later["metrics"]["new_one"] = json!({"value": [1, 2.5], "unit": "tokens"});
        assert_eq!(check(&schema, &schema, &later, "$"), Ok(()));
    }
}
