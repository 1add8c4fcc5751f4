//! Round trips to the servers: the file of probes, and the summary's block.

use aiperf_metrics::Distribution;
use serde_json::{Map, Value, json};

use crate::write::Object;

/// How long a round trip takes.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkLatency {
    /// Mean of all probes that went well, or what the user says, nanoseconds; `None` when none went well.
    pub mean_ns: Option<f64>,
    /// Each server that was probed; none where the user says the mean.
    pub targets: Vec<TargetRtt>,
}

/// Round trips to one server.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetRtt {
    /// Its address, without secrets.
    pub url: String,
    /// Connections that were tried.
    pub probes: u64,
    /// Of these, that could not be made.
    pub failed: u64,
    /// The times of the others, nanoseconds.
    pub rtt_ns: Option<Distribution>,
}

/// One connection that was tried.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    /// When it began, nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// The server's address, without secrets.
    pub url: &'a str,
    /// Its name or address.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// How long it took, or a kind and a message of why it could not be made.
    pub result: Result<u64, (&'a str, &'a str)>,
}

/// Appends a line of `profile_export_network_latency.jsonl`, newline included: AIPerf's keys in its order.
pub fn line(out: &mut Vec<u8>, probe: &Probe<'_>) {
    let mut o = Object::begin(out);
    o.int("timestamp_ns", probe.at_ns);
    o.text("target_url", probe.url);
    o.text("target_host", probe.host);
    o.int("target_port", probe.port.into());
    o.plain("probe_type", "tcp_connect");
    if let Ok(ns) = probe.result {
        o.int("rtt_ns", ns);
    }
    o.bool("success", probe.result.is_ok());
    if let Err((kind, message)) = probe.result {
        let mut e = Object::begin(o.key("error"));
        e.text("type", kind);
        e.text("message", message);
        e.end();
    }
    o.end();
    out.push(b'\n');
}

/// Statistics of a server's block.
const STATS: [&str; 7] = ["avg", "min", "max", "p50", "p90", "p99", "std"];

/// The block of a summary. What was not measured has no key.
pub(crate) fn value(network: &NetworkLatency) -> Value {
    let targets: Vec<Value> = network
        .targets
        .iter()
        .map(|target| {
            let mut out = json!({"url": target.url, "probes": target.probes, "failed": target.failed});
            if let Some(rtt) = &target.rtt_ns {
                let stat = |name: &&str| Some(((*name).to_owned(), json!(rtt.get(name)? * 1e-6)));
                out["rtt_ms"] = STATS.iter().filter_map(stat).collect::<Map<_, _>>().into();
            }
            out
        })
        .collect();
    let mut out = json!({"source": if targets.is_empty() { "given" } else { "probes" }});
    if let Some(mean) = network.mean_ns {
        out["mean_ms"] = json!(mean * 1e-6);
    }
    out["targets"] = targets.into();
    out
}

pub(crate) fn schema() -> Value {
    let number = json!({"type": "number", "minimum": 0});
    let stats: Map<String, Value> = STATS.iter().map(|name| ((*name).to_owned(), number.clone())).collect();
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "required": ["source", "targets"],
        "additionalProperties": false,
        "properties": {
            "source": {"enum": ["given", "probes"]},
            "mean_ms": number,
            "targets": {"type": "array", "items": {
                "type": "object",
                "required": ["url", "probes", "failed"],
                "additionalProperties": false,
                "properties": {
                    "url": {"type": "string"},
                    "probes": count,
                    "failed": count,
                    "rtt_ms": {"type": "object", "required": STATS, "additionalProperties": false, "properties": stats},
                },
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(result: Result<u64, (&str, &str)>) -> String {
        let mut out = Vec::new();
        line(&mut out, &Probe { at_ns: 7, url: "http://h:1", host: "h", port: 1, result });
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_line_has_the_keys_of_the_reference_in_their_order() {
        let head = r#"{"timestamp_ns":7,"target_url":"http://h:1","target_host":"h","target_port":1,"probe_type":"tcp_connect","#;
        assert_eq!(written(Ok(2_638_240)), format!("{head}\"rtt_ns\":2638240,\"success\":true}}\n"));
        let failed = r#""success":false,"error":{"type":"TimedOut","message":"no \"answer\""}}"#;
        assert_eq!(written(Err(("TimedOut", "no \"answer\""))), format!("{head}{failed}\n"));
    }

    #[test]
    fn a_mean_that_the_user_says_has_no_servers() {
        let given = value(&NetworkLatency { mean_ns: Some(5_000_000.0), targets: Vec::new() });
        assert_eq!(given, json!({"source": "given", "mean_ms": 5.0, "targets": []}));
    }
}
