//! The objects `uncertainty`, `steady_state` and `breakdown` of the summary files, and their schemas.

use aiperf_core::time::{ClockAnchor, ns_to_seconds};
use aiperf_metrics::{
    Analysis, Dimension, Interval, LATENCIES, LEVEL, METRICS, MetricUncertainty, QUANTILES, Stats,
    Steadiness, Uncertainty, dimension_names, find,
};
use serde_json::{Map, Value, json};

use crate::load::Shapes;

/// Statistics that files hold of a latency of a window.
const OF_WINDOW: [&str; 6] = ["avg", "p50", "p90", "p99", "max", "count"];
/// And of a group.
const OF_GROUP: [&str; 3] = ["avg", "p50", "p99"];

/// The object `uncertainty`, with nulls for what there is not.
pub(crate) fn uncertainty(uncertainty: &Uncertainty) -> Value {
    let metrics: Map<String, Value> =
        uncertainty.metrics.iter().map(|metric| (metric.tag.to_owned(), of_metric(metric))).collect();
    json!({"level": LEVEL, "metrics": metrics})
}

fn of_metric(metric: &MetricUncertainty) -> Value {
    let pair = |interval: &Option<Interval>| interval.map_or(Value::Null, |i| json!([i.low, i.high]));
    let mut intervals = Map::new();
    intervals.insert("avg".to_owned(), pair(&metric.avg));
    for ((name, _), (_, interval)) in QUANTILES.iter().zip(&metric.quantiles) {
        intervals.insert((*name).to_owned(), pair(interval));
    }
    json!({
        "unit": find(metric.tag).map(|spec| spec.display.name()),
        "count": metric.count,
        "independent_count": metric.independent,
        "p99_9": metric.quantiles.last().map(|(value, _)| value),
        "intervals": intervals,
        "unsupported": metric.unsupported,
    })
}

/// The object `steady_state`, with nulls for what there is not. `anchor` turns stamps into wall-clock times.
pub(crate) fn steady_state(analysis: &Analysis, anchor: &ClockAnchor) -> Value {
    match &analysis.steadiness {
        Steadiness::No(reason) => json!({"found": false, "reason": reason.words()}),
        Steadiness::Steady(steady) => {
            let length = steady.end_ns - steady.start_ns;
            let latencies: Map<String, Value> = steady
                .latencies
                .iter()
                .map(|(tag, stats)| ((*tag).to_owned(), statistics(stats, &OF_WINDOW)))
                .collect();
            json!({
                "found": true,
                "start_ns": anchor.wall(steady.origin_ns + steady.start_ns),
                "end_ns": anchor.wall(steady.origin_ns + steady.end_ns),
                "seconds": ns_to_seconds(length),
                "share": length as f64 / steady.whole_ns.max(1) as f64,
                "from": steady.from,
                "until": steady.until,
                "concurrency": steady.concurrency,
                "request_count": steady.completed,
                "request_throughput": steady.request_throughput,
                "output_token_throughput": steady.output_token_throughput,
                "latencies": latencies,
            })
        }
    }
}

/// The object `breakdown`: a list of groups for each way to tell requests apart.
pub(crate) fn breakdown(dimensions: &[Dimension]) -> Value {
    let all: Map<String, Value> = dimensions
        .iter()
        .map(|dimension| {
            let groups = dimension.groups.iter().map(|group| {
                let mut value =
                    json!({"value": group.value, "requests": group.requests, "completed": group.completed});
                for tag in LATENCIES {
                    let found = group.latencies.iter().find(|(t, _)| *t == tag);
                    value[tag] = found.map_or(Value::Null, |(_, stats)| statistics(stats, &OF_GROUP));
                }
                value
            });
            (dimension.name.to_owned(), groups.collect())
        })
        .collect();
    Value::Object(all)
}

fn statistics(stats: &Stats, names: &[&str]) -> Value {
    let mut all = Map::new();
    all.insert("unit".to_owned(), stats.unit().name().into());
    for name in names {
        let value = stats.get(name);
        let value = if *name == "count" { json!(value.map(|n| n as u64)) } else { json!(value) };
        all.insert((*name).to_owned(), value);
    }
    Value::Object(all)
}

/// Schema of [`uncertainty`], or with `nulls` off of the same without nulls. What it says of a metric is [`interval_schema`], to be
/// defined as `interval`.
pub(crate) fn uncertainty_schema(nulls: bool) -> Value {
    let s = Shapes { nulls };
    let metric = json!({"$ref": "#/$defs/interval"});
    let metrics: Map<String, Value> =
        METRICS.iter().filter(|m| m.is_public()).map(|m| (m.tag.to_owned(), metric.clone())).collect();
    s.all(&[("level", json!({"type": "number"})), ("metrics", optional(metrics))])
}

/// Schema of what [`uncertainty`] says of one metric.
pub(crate) fn interval_schema(nulls: bool) -> Value {
    let s = Shapes { nulls };
    let whole = || json!({"type": "integer", "minimum": 1});
    let pair = || json!({"type": "array", "items": {"type": "number"}});
    let names: Vec<(&str, Value)> =
        ["avg"].into_iter().chain(QUANTILES.map(|(name, _)| name)).map(|name| (name, pair())).collect();
    // A rate has no percentiles.
    let mut intervals = s.some(&[], &names);
    intervals["required"] = if nulls { json!(["avg"]) } else { json!([]) };
    s.some(
        &[
            ("unit", json!({"type": "string"})),
            ("intervals", intervals),
            ("unsupported", json!({"type": "array", "items": {"type": "string"}})),
        ],
        &[("count", whole()), ("independent_count", whole()), ("p99_9", json!({"type": "number"}))],
    )
}

/// Schema of [`steady_state`].
pub(crate) fn steady_state_schema(nulls: bool) -> Value {
    let s = Shapes { nulls };
    let number = || json!({"type": "number", "minimum": 0});
    let whole = || json!({"type": "integer", "minimum": 0});
    let text = || json!({"type": "string"});
    let keys: Vec<(&str, Value)> = ["unit"]
        .into_iter()
        .map(|key| (key, text()))
        .chain(OF_WINDOW.map(|key| (key, if key == "count" { whole() } else { number() })))
        .collect();
    let latencies = LATENCIES.iter().map(|tag| ((*tag).to_owned(), s.all(&keys))).collect();
    let found = s.some(
        &[
            ("found", json!({"const": true})),
            ("start_ns", whole()),
            ("end_ns", whole()),
            ("seconds", number()),
            ("share", number()),
            ("from", text()),
            ("until", text()),
            ("concurrency", number()),
            ("request_count", whole()),
            ("request_throughput", number()),
            ("latencies", optional(latencies)),
        ],
        &[("output_token_throughput", number())],
    );
    let none = s.all(&[("found", json!({"const": false})), ("reason", text())]);
    json!({"anyOf": [found, none]})
}

/// Schema of [`breakdown`].
pub(crate) fn breakdown_schema(nulls: bool) -> Value {
    let s = Shapes { nulls };
    let number = || json!({"type": "number", "minimum": 0});
    let whole = || json!({"type": "integer", "minimum": 0});
    let text = || json!({"type": "string"});
    let keys: Vec<(&str, Value)> =
        ["unit"].into_iter().map(|key| (key, text())).chain(OF_GROUP.map(|key| (key, number()))).collect();
    let latencies: Vec<(&str, Value)> = LATENCIES.iter().map(|tag| (*tag, s.all(&keys))).collect();
    let group = s.some(&[("value", text()), ("requests", whole()), ("completed", whole())], &latencies);
    let list = json!({"type": "array", "items": group});
    optional(dimension_names().map(|name| (name.to_owned(), list.clone())).collect())
}

/// An object that may have each of these keys, and no others.
fn optional(properties: Map<String, Value>) -> Value {
    let mut schema = json!({"type": "object", "additionalProperties": false});
    schema["properties"] = Value::Object(properties);
    schema
}
