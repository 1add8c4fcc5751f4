//! A summary JSON read back: schema 1, which is AIPerf's 1.4, or schema 2.

use std::fmt;

use aiperf_metrics::STATISTICS;
use serde_json::{Map, Value};

use crate::records::Samples;

/// A metric of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Key in files.
    pub tag: String,
    /// As the file says it.
    pub unit: String,
    /// By name, in the order of files; those that are absent or null are not there.
    pub stats: Vec<(&'static str, f64)>,
}

impl Metric {
    /// A statistic by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.stats.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    /// Whether it is one value for the whole run.
    pub fn is_scalar(&self) -> bool {
        self.stats.len() == 1
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Where it was read from, for the page.
    pub name: String,
    /// In the order of the file.
    pub metrics: Vec<Metric>,
    /// The summary without its metrics.
    pub about: Map<String, Value>,
    /// What its records told; `None` without records.
    pub samples: Option<Samples>,
}

/// Why a JSON document is no summary of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotASummary;

impl fmt::Display for NotASummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it has no 'input_config' and no metrics, so it is no summary of a run")
    }
}

impl std::error::Error for NotASummary {}

impl Run {
    /// Reads a summary.
    pub fn of(name: &str, summary: Value) -> Result<Self, NotASummary> {
        let Value::Object(mut about) = summary else { return Err(NotASummary) };
        let is_2 = about.get("schema_version").and_then(Value::as_str).is_some_and(|v| v.starts_with("2."));
        let measured = if is_2 {
            match about.get_mut("profiling").and_then(|p| p.get_mut("metrics")).map(Value::take) {
                Some(Value::Object(metrics)) => metrics,
                _ => Map::new(),
            }
        } else {
            let tags: Vec<String> =
                about.iter().filter(|(_, v)| is_metric(v)).map(|(k, _)| k.clone()).collect();
            // The order of the file is kept.
            tags.into_iter().filter_map(|tag| about.get(&tag).cloned().map(|v| (tag, v))).collect()
        };
        let metrics: Vec<Metric> = measured.iter().filter_map(|(tag, value)| metric(tag, value)).collect();
        about.retain(|key, _| !measured.contains_key(key));
        if metrics.is_empty() && !about.contains_key("input_config") {
            return Err(NotASummary);
        }
        Ok(Self { name: name.to_owned(), metrics, about, samples: None })
    }

    /// A metric by its tag.
    pub fn metric(&self, tag: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.tag == tag)
    }

    /// A statistic by tag and name.
    pub fn stat(&self, tag: &str, name: &str) -> Option<f64> {
        self.metric(tag)?.get(name)
    }

    /// Something of the summary by JSON pointer.
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        let (key, rest) = pointer.trim_start_matches('/').split_once('/').unwrap_or((&pointer[1..], ""));
        let value = self.about.get(key)?;
        if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
    }

    /// Requests that came to an end, and how many of them failed or were cancelled.
    pub(crate) fn ended(&self) -> Option<(f64, f64)> {
        let failed = self.stat("error_request_count", "avg").unwrap_or(0.0);
        let ended = self
            .stat("completed_request_count", "avg")
            .or_else(|| self.stat("request_count", "avg").map(|good| good + failed))?;
        Some((ended, failed))
    }

    /// Identity of the run.
    pub fn benchmark_id(&self) -> Option<&str> {
        self.at("/benchmark_id")?.as_str()
    }

    /// Its models, endpoint type and program, for one line.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        let models: Vec<&str> = self
            .at("/input_config/models/items")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|m| m.get("name")?.as_str())
            .collect();
        if !models.is_empty() {
            parts.push(models.join("+"));
        }
        if let Some(config) = self.at("/input_config") {
            // What is not set is chat.
            let kind = config.pointer("/endpoint/type").and_then(Value::as_str).unwrap_or("chat");
            parts.push(kind.to_owned());
        }
        if let Some((ended, _)) = self.ended() {
            parts.push(format!("{ended} requests"));
        }
        parts.extend(self.at("/start_time").and_then(Value::as_str).map(|t| t.chars().take(19).collect()));
        parts.extend(self.at("/aiperf_version").and_then(Value::as_str).map(|v| format!("version {v}")));
        parts.join(", ")
    }
}

fn is_metric(value: &Value) -> bool {
    value.get("unit").is_some_and(Value::is_string) && value.get("avg").is_some_and(Value::is_number)
}

fn metric(tag: &str, value: &Value) -> Option<Metric> {
    let unit = value.get("unit")?.as_str()?.to_owned();
    // Schema 2 calls the one value so.
    let number =
        |name: &str| value.get(name).or_else(|| value.get("value").filter(|_| name == "avg"))?.as_f64();
    let stats: Vec<_> = STATISTICS.into_iter().filter_map(|name| Some((name, number(name)?))).collect();
    let has_value = stats.iter().any(|(name, _)| *name == "avg");
    has_value.then(|| Metric { tag: tag.to_owned(), unit, stats })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_schemas_give_the_same() {
        let config = json!({"models": {"items": [{"name": "m"}]}, "endpoint": {"type": "chat"}});
        let one = json!({"schema_version": "1.4", "input_config": config, "request_count": {"unit": "requests", "avg": 4.0},
            "request_latency": {"unit": "ms", "avg": 2.0, "p50": 1.5, "count": 4}});
        let two = json!({"schema_version": "2.0", "input_config": config, "profiling": {"metrics": {
            "request_count": {"unit": "requests", "kind": "derived", "value": 4.0},
            "goodput": {"unit": "requests/sec", "kind": "derived", "value": null},
            "request_latency": {"unit": "ms", "kind": "record", "avg": 2.0, "p1": null, "p50": 1.5, "count": 4}}}});
        let (one, two) = (Run::of("a", one).expect("a summary"), Run::of("b", two).expect("a summary"));
        assert_eq!(one.metrics, two.metrics);
        assert_eq!(one.stat("request_latency", "p50"), Some(1.5));
        assert!(one.metric("request_count").is_some_and(Metric::is_scalar));
        assert_eq!(one.words(), "m, chat, 4 requests");
        assert_eq!(one.at("/input_config/endpoint/type"), Some(&json!("chat")));
    }

    #[test]
    fn other_documents_are_no_summary() {
        for value in [json!([]), json!({}), json!({"a": {"unit": "ms"}}), json!("text")] {
            assert_eq!(Run::of("a", value).err(), Some(NotASummary));
        }
    }
}
