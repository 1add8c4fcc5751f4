//! Load over time beside its curves, which are metrics: what they were made from, the check of the books, and latency by load.

use aiperf_metrics::{DecodeShape, OverTime};
use serde_json::{Value, json};

use crate::load::Shapes;

/// What the console says of it.
pub(crate) fn lines(of: &OverTime) -> Vec<String> {
    let law = of.littles_law.map(|law| {
        let expected = law.throughput * law.time_in_flight;
        format!(
            "Little's law: {:.2} requests in flight on average; {:.2} sent a second × {:.3} s each = {expected:.2} ({:+.2} %).",
            law.concurrency,
            law.throughput,
            law.time_in_flight,
            law.difference * 100.0,
        )
    });
    law.into_iter().collect()
}

/// The object `over_time` of the summary files, with nulls for what was not measured.
pub(crate) fn value(of: &OverTime) -> Value {
    let ms = |ns: Option<f64>| ns.map(|ns| ns * 1e-6);
    let buckets = of.by_concurrency.iter().map(|bucket| {
        json!({
            "from": bucket.from,
            "to": bucket.to,
            "requests": bucket.requests,
            "time_to_first_token": ms(bucket.first_ns),
            "request_latency": ms(bucket.latency_ns),
        })
    });
    json!({
        "decode_curve": of.decode.map(DecodeShape::name),
        "chunk_gaps": of.gaps,
        "littles_law": of.littles_law.map(|law| json!({
            "concurrency": law.concurrency,
            "throughput": law.throughput,
            "time_in_flight": law.time_in_flight,
            "difference": law.difference,
        })),
        "by_concurrency": buckets.collect::<Vec<_>>(),
    })
}

/// Schema of [`value`], or with `nulls` off of the same without nulls.
pub(crate) fn schema(nulls: bool) -> Value {
    let s = Shapes { nulls };
    let whole = |least: u64| json!({"type": "integer", "minimum": least});
    let number = || json!({"type": "number", "minimum": 0});
    let law = s.all(&[
        ("concurrency", number()),
        ("throughput", number()),
        ("time_in_flight", number()),
        ("difference", json!({"type": "number"})),
    ]);
    let bucket = s.some(
        &[("from", whole(1)), ("to", whole(1)), ("requests", whole(1))],
        &[("time_to_first_token", number()), ("request_latency", number())],
    );
    s.some(
        &[("chunk_gaps", whole(0)), ("by_concurrency", json!({"type": "array", "items": bucket}))],
        &[("decode_curve", json!({"enum": ["chunks", "uniform"]})), ("littles_law", law)],
    )
}
