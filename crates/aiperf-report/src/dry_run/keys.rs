//! The keys of `dry_run.json`, and its schema.

use serde_json::{Map, Value, json};

use super::{CacheForecast, DryRun, LengthCounts, PhaseForecast};
use crate::schema::{as_map, closed, object, with_head};

/// Version of the form.
const SCHEMA: u32 = 1;
/// Bins of a histogram of lengths.
const BINS: usize = 32;

/// The bytes of `dry_run.json`. What is not known has no key.
pub fn json(run: &DryRun<'_>) -> Vec<u8> {
    let phases: Vec<Value> = run.phases.iter().map(phase).collect();
    let mut out = json!({
        "schema_version": SCHEMA,
        "aiperf_version": run.version,
        "random_seed": run.seed,
        "cli_command": run.cli_command,
        "is_complete": run.is_complete,
        "dataset": {"kind": run.dataset, "conversations": run.conversations, "turns": run.turns},
        "phases": phases,
        "notes": run.notes,
    });
    if let Some(tokenizer) = run.tokenizer {
        out["tokenizer"] = tokenizer.into();
    }
    let mut bytes = serde_json::to_vec_pretty(&out).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn phase(phase: &PhaseForecast) -> Value {
    let mut out = json!({
        "name": phase.name,
        "kind": if phase.is_warmup { "warmup" } else { "profiling" },
        "pacing": phase.pacing,
        "requests_are": phase.bound.name(),
        "sessions": phase.sessions,
        "requests": phase.requests,
        "later_turns": phase.later_turns,
        "body_bytes": phase.body_bytes,
    });
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            out[key] = value;
        }
    };
    put("sending_s", phase.sending_ns.map(seconds));
    let asked = lengths(&phase.isl_asked);
    put("exact_lengths", asked.is_some().then(|| phase.exact.into()));
    put("isl_asked", asked);
    put("isl_sent", lengths(&phase.isl_sent));
    put("osl_asked", lengths(&phase.osl_asked));
    let arrivals = &phase.arrivals;
    put(
        "arrivals",
        (arrivals.requests() > 0).then(|| {
            json!({"requests": arrivals.requests(), "last_s": seconds(arrivals.last_ns()), "bin_s": seconds(arrivals.width_ns()),
                "counts": arrivals.bins()})
        }),
    );
    let repeats = &phase.repeats;
    put(
        "repeats",
        (repeats.requests > 0).then(|| {
            json!({"requests": repeats.requests, "distinct": repeats.distinct, "most": repeats.most, "in_warmup": repeats.in_warmup})
        }),
    );
    put("cache", cache(&phase.cache));
    out
}

fn cache(cache: &CacheForecast) -> Option<Value> {
    Some(json!({
        "block_tokens": cache.block_tokens,
        "requests": cache.requests,
        "unknown_requests": cache.unknown,
        "prompt_tokens": cache.prompt_tokens,
        "cached_tokens": cache.cached_tokens,
        "hit_rate": cache.hit_rate()?,
        "from_warmup_tokens": cache.warmup_tokens,
        "with_replies_tokens": cache.with_replies_tokens,
        "hit_rate_with_replies": cache.hit_rate_with_replies()?,
        "is_least": cache.is_least,
    }))
}

fn lengths(counts: &LengthCounts) -> Option<Value> {
    let spread = counts.spread()?;
    let width = (spread.max - spread.min + 1).min(BINS as u64) as usize;
    Some(
        json!({"requests": spread.count, "sum": spread.sum, "min": spread.min, "mean": spread.mean, "p50": spread.p50,
        "p99": spread.p99, "max": spread.max, "histogram": counts.bins(width)}),
    )
}

fn seconds(ns: u64) -> Value {
    aiperf_core::time::ns_to_seconds(ns).into()
}

/// Schema of what [`json()`] writes.
pub fn dry_run_schema() -> Value {
    let (whole, real, text, yes) = (
        json!({"type": "integer", "minimum": 0}),
        json!({"type": "number", "minimum": 0}),
        json!({"type": "string"}),
        json!({"type": "boolean"}),
    );
    let counts = json!({"type": "array", "items": whole});
    let all = |form: &Value, keys: &[&str]| -> Map<String, Value> {
        keys.iter().map(|key| ((*key).to_owned(), form.clone())).collect()
    };
    let mut lengths = all(&whole, &["requests", "sum", "min", "max"]);
    lengths.extend(all(&real, &["mean", "p50", "p99"]));
    lengths.insert("histogram".to_owned(), counts.clone());
    let lengths = closed(lengths);
    let arrivals = json!({"requests": whole, "last_s": real, "bin_s": real, "counts": counts});
    let mut cache = all(
        &whole,
        &[
            "block_tokens",
            "requests",
            "unknown_requests",
            "prompt_tokens",
            "cached_tokens",
            "from_warmup_tokens",
            "with_replies_tokens",
        ],
    );
    cache.extend(all(&json!({"type": "number", "minimum": 0}), &["hit_rate", "hit_rate_with_replies"]));
    cache.insert("is_least".to_owned(), yes.clone());
    let mut phase = as_map(json!({
        "name": text,
        "kind": {"enum": ["warmup", "profiling"]},
        "pacing": text,
        "requests_are": {"enum": ["exact", "about", "at_most", "one_pass"]},
    }));
    let required =
        ["name", "kind", "pacing", "requests_are", "sessions", "requests", "later_turns", "body_bytes"];
    phase.extend(all(&whole, &["sessions", "requests", "later_turns", "body_bytes", "exact_lengths"]));
    phase.insert("sending_s".to_owned(), real);
    phase.extend(all(&lengths, &["isl_asked", "isl_sent", "osl_asked"]));
    phase.insert("arrivals".to_owned(), closed(as_map(arrivals)));
    phase.insert("repeats".to_owned(), closed(all(&whole, &["requests", "distinct", "most", "in_warmup"])));
    phase.insert("cache".to_owned(), closed(cache));
    let properties = json!({
        "schema_version": {"const": SCHEMA},
        "aiperf_version": text,
        "random_seed": whole,
        "cli_command": text,
        "is_complete": yes,
        "dataset": closed(as_map(json!({"kind": text, "conversations": whole, "turns": whole}))),
        "tokenizer": text,
        "phases": {"type": "array", "items": object(phase, &required)},
        "notes": {"type": "array", "items": text},
    });
    let required = [
        "schema_version",
        "aiperf_version",
        "random_seed",
        "cli_command",
        "is_complete",
        "dataset",
        "phases",
        "notes",
    ];
    with_head("AIPerf dry run", object(as_map(properties), &required), json!({}))
}
