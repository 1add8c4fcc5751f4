//! How many requests met each objective, in words and keys.

use aiperf_metrics::Attainment;
use serde_json::{Value, json};

use crate::console::count;

/// One line for each objective.
pub(crate) fn lines(slos: &[Attainment]) -> Vec<String> {
    slos.iter()
        .map(|slo| {
            let sign = if slo.is_floor() { '≥' } else { '≤' };
            let share = slo.share().map_or(String::new(), |s| format!(" ({:.1} %)", s * 100.0));
            format!(
                "SLO {} {sign} {} {}: met by {} of {} requests{share}",
                slo.spec.header,
                slo.threshold,
                slo.spec.display.name(),
                count(slo.met),
                count(slo.requests),
            )
        })
        .collect()
}

/// The list `slo_attainment` of the summary files.
pub(crate) fn value(slos: &[Attainment]) -> Value {
    slos.iter()
        .map(|slo| {
            json!({
                "metric": slo.spec.tag,
                "at": if slo.is_floor() { "least" } else { "most" },
                "threshold": slo.threshold,
                "unit": slo.spec.display.name(),
                "met": slo.met,
                "requests": slo.requests,
                "share": slo.share(),
            })
        })
        .collect()
}

/// Schema of [`value`].
pub(crate) fn schema() -> Value {
    let whole = json!({"type": "integer", "minimum": 0});
    json!({"type": "array", "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["metric", "at", "threshold", "unit", "met", "requests", "share"],
        "properties": {
            "metric": {"type": "string"},
            "at": {"enum": ["least", "most"]},
            "threshold": {"type": "number"},
            "unit": {"type": "string"},
            "met": whole,
            "requests": whole,
            "share": {"type": ["number", "null"]}
        }
    }})
}
