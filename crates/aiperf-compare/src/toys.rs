//! Small runs for the tests.

use serde_json::{Value, json};

use crate::{Run, Samples};

/// A summary of `requests` requests whose latencies are `scale` times those of another.
fn summary(name: &str, scale: f64, requests: u64) -> Value {
    let all: Vec<f64> = latencies(scale, requests).collect();
    let mut sorted = all.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| sorted[((sorted.len() - 1) as f64 * q).round() as usize];
    let count = requests as f64;
    json!({
        "schema_version": "1.4", "aiperf_version": "0.1.0", "benchmark_id": name,
        "request_throughput": {"unit": "requests/sec", "avg": count / (10.0 * scale)},
        "request_latency": {"unit": "ms", "avg": all.iter().sum::<f64>() / count, "p50": at(0.5), "p90": at(0.9), "p99": at(0.99),
            "min": at(0.0), "max": at(1.0), "std": 1.0, "count": requests, "sum": all.iter().sum::<f64>()},
        "request_count": {"unit": "requests", "avg": count},
        "input_sequence_length": {"unit": "tokens", "avg": 50.0, "p50": 50.0, "p99": 50.0},
        "output_sequence_length": {"unit": "tokens", "avg": 20.0, "p50": 20.0, "p99": 20.0},
        "input_config": {
            "models": {"items": [{"name": "m"}]},
            "endpoint": {"urls": ["http://a"], "type": "chat", "streaming": true},
            "datasets": [{"name": "main", "type": "synthetic", "entries": 40, "random_seed": 1, "prompts": {"isl": {"mean": 50}, "osl": {"mean": 20}}}],
            "phases": [{"name": "warmup", "kind": "warmup", "type": "concurrency", "requests": 3, "concurrency": 4},
                {"name": "profiling", "kind": "profiling", "type": "concurrency", "requests": 100, "concurrency": 4}],
            "tokenizer": {"name": "builtin"}, "artifacts": {"dir": name},
        },
        "run_info": {"random_seed": 1}, "was_cancelled": false, "is_complete": true,
        "error_request_count": {"unit": "requests", "avg": 0.0},
        "benchmark_duration": {"unit": "sec", "avg": 10.0},
        "load_health": {"verdict": {"limit": "not_client", "text": "The client was not the limit."}},
        "usage_prompt_tokens": {"unit": "tokens", "avg": 54.0, "p50": 54.0, "p99": 54.0},
        "nvidia_total_gpu_power": {"unit": "W", "avg": 420.0 * scale},
    })
}

fn latencies(scale: f64, requests: u64) -> impl Iterator<Item = f64> {
    (0..requests).map(move |i| scale * (100.0 + (100.0 * noise(i)).round()))
}

/// Numbers in [0, 1) that look like noise, the same in every run (splitmix64).
pub(crate) fn noise(i: u64) -> f64 {
    let mut z = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A run without records.
pub(crate) fn run(name: &str, scale: f64, requests: u64) -> Run {
    with(name, scale, requests, |_| ())
}

/// One whose summary was changed.
pub(crate) fn with(name: &str, scale: f64, requests: u64, change: impl FnOnce(&mut Value)) -> Run {
    let mut value = summary(name, scale, requests);
    change(&mut value);
    Run::of(name, value).expect("a summary")
}

/// One with records.
pub(crate) fn recorded(name: &str, scale: f64, requests: u64) -> Run {
    let mut run = run(name, scale, requests);
    let mut lines = String::new();
    for (i, ms) in latencies(scale, requests).enumerate() {
        let end = 1_000_000_000 + (i as f64 * 10e9 * scale / requests as f64) as u64;
        let line = json!({
            "metadata": {"benchmark_phase": "profiling", "request_start_ns": 1_000_000_000, "request_end_ns": end},
            "metrics": {"request_latency": {"value": ms, "unit": "ms"}},
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    run.samples = Some(Samples::read(lines.as_bytes()).expect("it is in memory"));
    run
}
