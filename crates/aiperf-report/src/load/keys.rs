//! The object `load_health` of the summary files, and its schemas.

use aiperf_core::time::ns_to_ms;
use aiperf_metrics::{
    CpuShare, Health, InFlight, Limit, PhaseHealth, ShardHealth, Spread, WarningCode, verdict,
};
use serde_json::{Map, Value, json};

/// All of it, with nulls for what was not measured.
pub(crate) fn value(health: &Health) -> Value {
    let verdict = verdict(health);
    let warnings: Vec<Value> = verdict
        .warnings
        .iter()
        .map(|w| json!({"code": w.code.name(), "phase": w.phase, "text": w.text}))
        .collect();
    let h = &health.handover;
    json!({
        "verdict": {"limit": verdict.limit.name(), "text": verdict.line},
        "warnings": warnings,
        "clock": {
            "source": health.clock.source,
            "resolution_ns": health.clock.resolution_ns,
            "wall_step_ns": health.clock.wall_step_ns,
        },
        "handover": {
            "most_requests": h.most_requests,
            "most_bytes": h.most_bytes,
            "spilled_requests": h.spilled_requests,
            "spilled_bytes": h.spilled_bytes,
        },
        "phases": health.phases.iter().map(phase).collect::<Vec<_>>(),
    })
}

/// The same without the keys that are null, as schema 1 has it.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn phase(phase: &PhaseHealth) -> Value {
    let (asked, a, c, w) = (&phase.asked, &phase.arrivals, phase.connections(), phase.composer());
    json!({
        "name": phase.name,
        "kind": if phase.is_warmup { "warmup" } else { "profiling" },
        "asked": {
            "closed_loop": asked.is_closed_loop,
            "rate": asked.rate,
            "peak_rate": asked.peak_rate,
            "concurrency": asked.concurrency,
            "max_in_flight": asked.max_in_flight,
            "prefill_concurrency": asked.prefill_concurrency,
        },
        "rate": {"asked": phase.asked_rate(), "achieved": phase.achieved_rate()},
        "arrivals": {
            "scheduled": a.scheduled,
            "sent": a.sent,
            "late": if asked.is_closed_loop { None } else { Some(a.late) },
            "skipped": a.skipped,
            "cut": a.cut,
        },
        "send_lag_ms": spread(phase.send_lag),
        "queue_wait_ms": spread(phase.queue_wait),
        "in_flight": held(&phase.in_flight()),
        "sessions": held(&phase.sessions()),
        "loop_lag_ms": spread(Spread::of_lags(&phase.loop_lag())),
        "read_lag_ms": spread(phase.read_lag),
        "process": cpu(&phase.process),
        "shards": phase.shards.iter().map(shard).collect::<Vec<_>>(),
        "connections": {
            "opened": c.opened,
            "reused": c.reused,
            "stale": c.stale,
            "expired": c.expired,
            "resent": c.resent,
            "refused": c.refused,
        },
        "composer": {
            "sessions_waited": w.sessions,
            "turns_waited": w.turns,
            "waited_ms": ns_to_ms(w.waited_ns),
            "longest_ms": ns_to_ms(w.longest_ns),
        },
    })
}

fn shard(shard: &ShardHealth) -> Value {
    json!({
        "shard": shard.shard,
        "thread": cpu(&shard.thread),
        "loop_lag_ms": spread(Spread::of_lags(&shard.loop_lag)),
        "in_flight": held(&shard.in_flight),
        "ports_missing": shard.ports_missing,
        "descriptors_missing": shard.descriptors_missing,
        "clock_steps": shard.clock_steps,
    })
}

fn spread(lag: Option<Spread>) -> Value {
    lag.map_or(
        Value::Null,
        |lag| json!({"p50": ns_to_ms(lag.p50_ns), "p99": ns_to_ms(lag.p99_ns), "max": ns_to_ms(lag.max_ns)}),
    )
}

fn held(held: &InFlight) -> Value {
    match (held.mean(), held.peak()) {
        (Some(mean), Some(peak)) => json!({"avg": mean, "max": peak}),
        _ => Value::Null,
    }
}

fn cpu(share: &CpuShare) -> Value {
    if share.wall_ns == 0 {
        return Value::Null;
    }
    json!({
        "wall_ms": ns_to_ms(share.wall_ns),
        "cpu_ms": share.cpu_ns.map(ns_to_ms),
        "waited_ms": share.waited_ns.map(ns_to_ms),
        "cores": share.busy(),
    })
}

/// Schema of [`value`], or with `nulls` off of the same [`without_nulls`].
pub(crate) fn schema(nulls: bool) -> Value {
    let s = Shapes { nulls };
    let whole = || json!({"type": "integer", "minimum": 0});
    let number = || json!({"type": "number", "minimum": 0});
    let text = || json!({"type": "string"});
    let one_of = |names: Vec<&str>| json!({"enum": names});
    let codes = one_of(WarningCode::ALL.iter().map(|c| c.name()).collect());
    let limits = [Limit::Client, Limit::NotClient, Limit::Unknown].map(Limit::name);
    let spread = || s.all(&[("p50", number()), ("p99", number()), ("max", number())]);
    let held = || s.all(&[("avg", number()), ("max", whole())]);
    let cpu = || {
        s.some(
            &[("wall_ms", number())],
            &[("cpu_ms", number()), ("waited_ms", number()), ("cores", number())],
        )
    };
    let list = |items: Value| json!({"type": "array", "items": items});
    let shard = s.some(
        &[
            ("shard", whole()),
            ("ports_missing", whole()),
            ("descriptors_missing", whole()),
            ("clock_steps", whole()),
        ],
        &[("thread", cpu()), ("loop_lag_ms", spread()), ("in_flight", held())],
    );
    let asked = s.some(
        &[("closed_loop", json!({"type": "boolean"}))],
        &[
            ("rate", number()),
            ("peak_rate", number()),
            ("concurrency", whole()),
            ("max_in_flight", whole()),
            ("prefill_concurrency", whole()),
        ],
    );
    let counts = |names: &[&'static str]| -> Vec<(&'static str, Value)> {
        names.iter().map(|name| (*name, whole())).collect()
    };
    let phase = s.some(
        &[
            ("name", text()),
            ("kind", one_of(vec!["warmup", "profiling"])),
            ("asked", asked),
            ("rate", s.some(&[], &[("asked", number()), ("achieved", number())])),
            ("arrivals", s.some(&counts(&["scheduled", "sent", "skipped", "cut"]), &[("late", whole())])),
            ("shards", list(shard)),
            ("connections", s.all(&counts(&["opened", "reused", "stale", "expired", "resent", "refused"]))),
            (
                "composer",
                s.all(&[
                    ("sessions_waited", whole()),
                    ("turns_waited", whole()),
                    ("waited_ms", number()),
                    ("longest_ms", number()),
                ]),
            ),
        ],
        &[
            ("send_lag_ms", spread()),
            ("queue_wait_ms", spread()),
            ("in_flight", held()),
            ("sessions", held()),
            ("loop_lag_ms", spread()),
            ("read_lag_ms", spread()),
            ("process", cpu()),
        ],
    );
    let clock = s.some(
        &[],
        &[("source", text()), ("resolution_ns", whole()), ("wall_step_ns", json!({"type": "integer"}))],
    );
    s.all(&[
        ("verdict", s.all(&[("limit", one_of(limits.to_vec())), ("text", text())])),
        ("warnings", list(s.some(&[("code", codes), ("text", text())], &[("phase", text())]))),
        ("clock", clock),
        ("handover", s.all(&counts(&["most_requests", "most_bytes", "spilled_requests", "spilled_bytes"]))),
        ("phases", list(phase)),
    ])
}

/// Makes objects whose absent keys are null, or not there.
pub(crate) struct Shapes {
    pub(crate) nulls: bool,
}

impl Shapes {
    /// An object with all of these keys.
    pub(crate) fn all(&self, keys: &[(&str, Value)]) -> Value {
        self.some(keys, &[])
    }

    /// An object with all of `always`; a value of `maybe` may be absent.
    pub(crate) fn some(&self, always: &[(&str, Value)], maybe: &[(&str, Value)]) -> Value {
        let or_null = |schema: &Value| {
            if self.nulls { json!({"anyOf": [schema, {"type": "null"}]}) } else { schema.clone() }
        };
        let mut properties: Map<String, Value> =
            always.iter().map(|(key, schema)| ((*key).to_owned(), schema.clone())).collect();
        properties.extend(maybe.iter().map(|(key, schema)| ((*key).to_owned(), or_null(schema))));
        let required: Vec<&str> =
            always.iter().chain(maybe.iter().filter(|_| self.nulls)).map(|(key, _)| *key).collect();
        let mut schema = json!({"type": "object", "required": required, "additionalProperties": false});
        schema["properties"] = Value::Object(properties);
        schema
    }
}
