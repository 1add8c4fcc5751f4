//! The `/metrics` page: Prometheus text with the names that vLLM's server has.

use std::fmt::Write;

/// What the page tells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gauges {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) cached_blocks: usize,
    pub(crate) prompt_tokens: u64,
    pub(crate) generation_tokens: u64,
    pub(crate) cache_queries: u64,
    pub(crate) cache_hits: u64,
    pub(crate) finished_stop: u64,
    pub(crate) finished_length: u64,
}

/// The page. `model` is the name in the labels.
pub(crate) fn page(model: &str, g: &Gauges) -> String {
    // Label values escape backslash, quote and newline (Prometheus text format).
    let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = format!("engine=\"0\",model_name=\"{model}\"");
    let mut out = String::with_capacity(3_000);
    let mut family = |name: &str, kind: &str, help: &str, rows: &[(&str, u64)]| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
        for (more, value) in rows {
            let _ = writeln!(out, "vllm:{name}{{{labels}{more}}} {value}");
        }
    };
    family("num_requests_running", "gauge", "Requests in prefill or decode.", &[("", g.running as u64)]);
    family("num_requests_waiting", "gauge", "Requests in the queue.", &[("", g.waiting as u64)]);
    family("prompt_tokens_total", "counter", "Prompt tokens of finished prefills.", &[("", g.prompt_tokens)]);
    family("generation_tokens_total", "counter", "Tokens written.", &[("", g.generation_tokens)]);
    family(
        "prefix_cache_queries_total",
        "counter",
        "Prompt tokens looked up in the cache.",
        &[("", g.cache_queries)],
    );
    family("prefix_cache_hits_total", "counter", "Prompt tokens found in the cache.", &[("", g.cache_hits)]);
    family("cached_blocks", "gauge", "Blocks of 16 tokens in the cache.", &[("", g.cached_blocks as u64)]);
    family(
        "request_success_total",
        "counter",
        "Answers by finish reason.",
        &[(",finished_reason=\"stop\"", g.finished_stop), (",finished_reason=\"length\"", g.finished_length)],
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_prometheus_text() {
        let page = page("a\"b\\c", &Gauges { running: 3, finished_length: 9, ..Gauges::default() });
        for line in page.lines() {
            assert!(
                line.starts_with("# HELP vllm:")
                    || line.starts_with("# TYPE vllm:")
                    || line.starts_with("vllm:")
            );
        }
        assert!(page.contains("vllm:num_requests_running{engine=\"0\",model_name=\"a\\\"b\\\\c\"} 3\n"));
        assert!(page.contains("finished_reason=\"length\"} 9\n"));
    }
}
