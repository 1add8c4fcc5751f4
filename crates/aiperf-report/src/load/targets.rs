//! Results of each of several servers.

use aiperf_metrics::{Stats, TargetSummary};
use serde_json::{Value, json};

use super::keys::Shapes;
use crate::console::count;

/// One server and what became of the requests to it.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetResult {
    /// Its address, without secrets.
    pub url: String,
    /// Its part of the results.
    pub summary: TargetSummary,
}

/// Columns of numbers of the console's table, and how soon one goes on a console without room for it; 0 always stays.
pub(crate) const COLUMNS: [(&str, u8); 10] = [
    ("requests", 0),
    ("completed", 7),
    ("failed", 2),
    ("req/s", 1),
    ("TTFT avg", 8),
    ("TTFT p50", 6),
    ("TTFT p99", 4),
    ("latency avg", 9),
    ("latency p50", 5),
    ("latency p99", 3),
];

/// Statistics that files hold of a latency.
const STATS: [&str; 3] = ["avg", "p50", "p99"];

/// Rows of the console's table: the numbers of each server.
pub(crate) fn rows(targets: &[TargetResult]) -> Vec<Vec<Option<String>>> {
    let row = |target: &TargetResult| {
        let s = &target.summary;
        let real = |value: Option<f64>| value.map(|v| format!("{v:.2}"));
        let mut cells = vec![
            Some(count(s.requests())),
            Some(count(s.completed)),
            Some(count(s.failed)),
            real(s.request_throughput),
        ];
        for stats in [&s.time_to_first_token, &s.request_latency] {
            cells.extend(STATS.map(|name| real(stats.as_ref().and_then(|s| s.get(name)))));
        }
        cells
    };
    targets.iter().map(row).collect()
}

/// Rows of the CSV file, the head first.
pub(crate) fn csv(targets: &[TargetResult]) -> Vec<Vec<String>> {
    let mut head: Vec<String> =
        ["URL", "Requests", "Completed", "Failed", "Cancelled", "Request Throughput (requests/sec)"]
            .map(str::to_owned)
            .to_vec();
    for name in ["Time to First Token", "Request Latency"] {
        head.extend(STATS.map(|stat| format!("{name} {stat} (ms)")));
    }
    let rows = targets.iter().map(|target| {
        let s = &target.summary;
        let real = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.2}"));
        let mut cells = vec![target.url.clone()];
        cells.extend([s.requests(), s.completed, s.failed, s.cancelled].map(|n| n.to_string()));
        cells.push(real(s.request_throughput));
        for stats in [&s.time_to_first_token, &s.request_latency] {
            cells.extend(STATS.map(|name| real(stats.as_ref().and_then(|s| s.get(name)))));
        }
        cells
    });
    std::iter::once(head).chain(rows).collect()
}

/// The list `per_url` of the summary files, with nulls for what was not measured.
pub(crate) fn value(targets: &[TargetResult]) -> Value {
    let latency = |stats: &Option<Stats>| {
        stats.as_ref().map_or(Value::Null, |s| {
            json!({"unit": s.unit().name(), "avg": s.get("avg"), "p50": s.get("p50"), "p99": s.get("p99")})
        })
    };
    targets
        .iter()
        .map(|target| {
            let s = &target.summary;
            json!({
                "url": target.url,
                "requests": s.requests(),
                "completed": s.completed,
                "failed": s.failed,
                "cancelled": s.cancelled,
                "request_throughput": s.request_throughput,
                "time_to_first_token": latency(&s.time_to_first_token),
                "request_latency": latency(&s.request_latency),
            })
        })
        .collect()
}

/// Schema of [`value`], or with `nulls` off of the same without nulls.
pub(crate) fn schema(nulls: bool) -> Value {
    let s = Shapes { nulls };
    let whole = || json!({"type": "integer", "minimum": 0});
    let number = || json!({"type": "number", "minimum": 0});
    let latency = || {
        s.all(&[("unit", json!({"const": "ms"})), ("avg", number()), ("p50", number()), ("p99", number())])
    };
    let target = s.some(
        &[
            ("url", json!({"type": "string"})),
            ("requests", whole()),
            ("completed", whole()),
            ("failed", whole()),
            ("cancelled", whole()),
        ],
        &[
            ("request_throughput", number()),
            ("time_to_first_token", latency()),
            ("request_latency", latency()),
        ],
    );
    json!({"type": "array", "items": target})
}
