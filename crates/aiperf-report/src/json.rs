//! `profile_export_aiperf.json`.
//!
//! Schema 1 is the shape AIPerf calls 1.4: metrics as top-level keys in its fixed order, then the run, then all other tags in table order;
//! what is absent has no key. Schema 2 is ours: one object per matter, every key always there, null for what is absent, zoned times, the
//! tally and the window.

use aiperf_core::time::ns_to_seconds;
use aiperf_metrics::{ErrorGroup, METRICS, MetricSpec, Row, Stats, Summary, Unit};

use crate::analysis;
use crate::cache;
use crate::lengths;
use crate::load;
use crate::network;
use crate::over_time;
use crate::pretty::pretty;
use crate::report::Report;
use crate::slos;
use crate::write::Object;

/// Version of schema 1, AIPerf's own number.
pub const SCHEMA_1: &str = "1.4";
/// Version of schema 2.
pub const SCHEMA_2: &str = "2.0";

/// Tags that come before the run's own keys, AIPerf's order.
const LEADING: [&str; 25] = [
    "request_throughput",
    "request_latency",
    "request_count",
    "time_to_first_token",
    "time_to_second_token",
    "inter_token_latency",
    "output_token_throughput",
    "output_token_throughput_per_user",
    "output_sequence_length",
    "input_sequence_length",
    "goodput",
    "good_request_count",
    "output_token_count",
    "reasoning_token_count",
    "min_request_timestamp",
    "max_response_timestamp",
    "inter_chunk_latency",
    "total_output_tokens",
    "total_reasoning_tokens",
    "benchmark_duration",
    "total_isl",
    "total_osl",
    "error_request_count",
    "error_isl",
    "total_error_isl",
];

/// Local time without its zone, as AIPerf writes it.
const LOCAL: &str = "%Y-%m-%dT%H:%M:%S.%6f";
const ZONED: &str = "%Y-%m-%dT%H:%M:%S.%9f%:z";

/// The file in shape `schema`, 1 or 2.
pub fn written(report: &Report<'_>, schema: u8) -> Vec<u8> {
    if schema == 2 { summary_2(report) } else { summary(report) }
}

/// Schema 1, two spaces of indent, no final newline.
pub fn summary(report: &Report<'_>) -> Vec<u8> {
    let mut compact = Vec::with_capacity(32 << 10);
    let mut o = Object::begin(&mut compact);
    o.text("schema_version", SCHEMA_1);
    o.text("aiperf_version", report.version);
    o.text("benchmark_id", report.benchmark_id);
    let shown = |tag: &str| report.summary.public_rows().find(|row| row.spec.tag == tag);
    for row in LEADING.into_iter().filter_map(shown) {
        metric(o.key(row.spec.tag), row);
    }
    serialized(o.key("input_config"), report.input_config);
    run_info(o.key("run_info"), report);
    o.bool("was_cancelled", report.was_cancelled);
    o.bool("is_complete", report.incomplete_reason.is_none());
    if let Some(reason) = report.incomplete_reason {
        o.text("incomplete_reason", reason);
    }
    error_summary(o.key("error_summary"), report);
    let (start, end) = report.times();
    o.plain("start_time", start.strftime(LOCAL));
    o.plain("end_time", end.strftime(LOCAL));
    if let Some(warmup) = report.warmup {
        let mut tags = Object::begin(o.key("warmup_metrics"));
        for row in warmup.public_rows() {
            metric(tags.key(row.spec.tag), row);
        }
        tags.end();
    }
    if !report.summary.acceptance_histogram.is_empty() {
        acceptance_histogram(o.key("pooled_spec_decode_acceptance_histogram"), report.summary);
    }
    for row in report.summary.public_rows().filter(|row| !LEADING.contains(&row.spec.tag)) {
        metric(o.key(row.spec.tag), row);
    }
    if let Some(source) = report.source {
        let mut about = Object::begin(o.key("metadata"));
        serialized(about.key("dataset"), source);
        about.end();
    }
    if !report.summary.slos.is_empty() {
        serialized(o.key("slo_attainment"), &slos::value(&report.summary.slos));
    }
    if let Some(of) = &report.summary.over_time {
        serialized(o.key("over_time"), &load::without_nulls(over_time::value(of)));
    }
    if report.summary.finishes.seen().next().is_some() {
        let mut reasons = Object::begin(o.key("finish_reasons"));
        for (finish, count) in report.summary.finishes.seen() {
            reasons.int(finish.name(), count);
        }
        reasons.end();
    }
    if let Some(of) = cache::value(&report.summary.cache) {
        serialized(o.key("cache"), &load::without_nulls(of));
    }
    if let Some(lengths) = report.lengths() {
        lengths::write(o.key("input_lengths"), lengths);
    }
    if let Some(health) = report.load {
        serialized(o.key("load_health"), &load::without_nulls(load::value(health)));
    }
    if let Some(network) = report.network {
        serialized(o.key("network_latency"), &network::value(network));
    }
    if let Some(rows) = report.rows {
        serialized(o.key("dataset_rows"), rows);
    }
    if let Some(targets) = report.targets() {
        serialized(o.key("per_url"), &load::without_nulls(load::targets_value(targets)));
    }
    if let Some(analysis) = report.analysis {
        let uncertainty = analysis::uncertainty(&analysis.uncertainty);
        serialized(o.key("uncertainty"), &load::without_nulls(uncertainty));
        let steady = analysis::steady_state(analysis, &report.anchor);
        serialized(o.key("steady_state"), &load::without_nulls(steady));
        if !analysis.breakdown.is_empty() {
            let breakdown = analysis::breakdown(&analysis.breakdown);
            serialized(o.key("breakdown"), &load::without_nulls(breakdown));
        }
    }
    o.end();
    indented(&compact)
}

/// Schema 2, two spaces of indent, final newline.
pub fn summary_2(report: &Report<'_>) -> Vec<u8> {
    let mut compact = Vec::with_capacity(64 << 10);
    let mut o = Object::begin(&mut compact);
    o.text("schema_version", SCHEMA_2);
    o.text("aiperf_version", report.version);
    o.text("reference_version", aiperf_core::REFERENCE_VERSION);
    o.text("benchmark_id", report.benchmark_id);
    let (start, end) = report.times();
    o.plain("start_time", start.strftime(ZONED));
    o.plain("end_time", end.strftime(ZONED));
    o.bool("was_cancelled", report.was_cancelled);
    o.bool("is_complete", report.incomplete_reason.is_none());
    o.text_or_null("incomplete_reason", report.incomplete_reason);
    for (key, summary) in [("profiling", report.profiling()), ("warmup", report.warming())] {
        match summary {
            Some(summary) => phase(o.key(key), report, summary),
            None => o.null(key),
        }
    }
    match report.lengths() {
        Some(lengths) => lengths::write_2(o.key("input_lengths"), lengths),
        None => o.null("input_lengths"),
    }
    serialized(o.key("load_health"), &report.load.map(load::value));
    serialized(o.key("per_url"), &report.targets().map(load::targets_value));
    serialized(o.key("network_latency"), &report.network.map(network::value));
    serialized(o.key("dataset_rows"), &report.rows);
    serialized(o.key("dataset_source"), &report.source);
    let analysis = report.analysis;
    serialized(o.key("uncertainty"), &analysis.map(|a| analysis::uncertainty(&a.uncertainty)));
    serialized(o.key("steady_state"), &analysis.map(|a| analysis::steady_state(a, &report.anchor)));
    serialized(o.key("breakdown"), &analysis.map(|a| analysis::breakdown(&a.breakdown)));
    let errors = o.key("errors");
    list(errors, report.errors, |out, group| {
        let failure = &group.failure;
        let mut e = Object::begin(out);
        e.int("count", group.count);
        e.int_or_null("code", failure.code);
        e.text("type", &failure.type_name);
        e.text("message", &failure.message);
        e.text_or_null("server_code", failure.server_code.as_deref());
        serialized(e.key("kind"), &failure.kind);
        serialized(e.key("stage"), &failure.stage);
        stages(e.key("stages"), group);
        e.int("retryable", group.retryable);
        e.bool("varies", group.varies);
        e.end();
    });
    run_info(o.key("run_info"), report);
    serialized(o.key("input_config"), report.input_config);
    o.end();
    let mut out = indented(&compact);
    out.push(b'\n');
    out
}

fn phase(out: &mut Vec<u8>, report: &Report<'_>, summary: &Summary) {
    let mut o = Object::begin(out);
    let window = summary.window;
    let mut w = Object::begin(o.key("window"));
    w.int("start_ns", report.anchor.wall(window.start_ns));
    w.int("end_ns", report.anchor.wall(window.end_ns.max(window.start_ns)));
    w.real("seconds", ns_to_seconds(window.duration_ns()));
    w.end();
    let tally = summary.tally;
    let mut t = Object::begin(o.key("tally"));
    for (key, count, is_in_records) in [
        ("scheduled", tally.scheduled, false),
        ("sent", tally.sent, false),
        ("unsent", tally.unsent, false),
        ("completed", tally.completed, true),
        ("failed", tally.failed, true),
        ("cancelled", tally.cancelled, true),
        ("lost", tally.lost, false),
    ] {
        if summary.is_of_records && !is_in_records {
            t.null(key);
        } else {
            t.int(key, count);
        }
    }
    t.end();
    let mut reasons = Object::begin(o.key("finish_reasons"));
    for (finish, count) in summary.finishes.all() {
        reasons.int(finish.name(), count);
    }
    reasons.end();
    if summary.acceptance_histogram.is_empty() {
        o.null("pooled_spec_decode_acceptance_histogram");
    } else {
        acceptance_histogram(o.key("pooled_spec_decode_acceptance_histogram"), summary);
    }
    let mut m = Object::begin(o.key("metrics"));
    for spec in METRICS.iter().filter(|spec| spec.is_public()) {
        metric_2(m.key(spec.tag), spec, summary);
    }
    m.end();
    serialized(o.key("slo_attainment"), &slos::value(&summary.slos));
    serialized(o.key("over_time"), &summary.over_time.as_ref().map(over_time::value));
    serialized(o.key("cache"), &cache::value(&summary.cache));
    o.end();
}

/// A metric of schema 1: `unit`, `avg`, percentiles, `min`, `max`, `std`, `count`, `sum`; a scalar is `unit` and `avg`.
pub(crate) fn metric(out: &mut Vec<u8>, row: &Row) {
    statistics(out, &row.stats, row.spec.compute.statistics());
}

/// Those of `keys` that there are, and the unit before them.
pub(crate) fn statistics(out: &mut Vec<u8>, stats: &Stats, keys: &[&str]) {
    let mut o = Object::begin(out);
    o.text("unit", stats.unit().name());
    for key in keys {
        match stats.get(key) {
            Some(count) if *key == "count" => o.int(key, count as u64),
            Some(value) => o.real(key, value),
            None => {}
        }
    }
    o.end();
}

/// A metric of schema 2: its header, unit and kind, then every statistic its kind can have.
fn metric_2(out: &mut Vec<u8>, spec: &MetricSpec, summary: &Summary) {
    let stats = summary.get(spec.tag);
    let mut o = Object::begin(out);
    o.text("header", spec.header);
    o.text("unit", spec.display.name());
    o.text("kind", spec.compute.kind());
    for key in spec.compute.statistics() {
        let value = stats.and_then(|s| s.get(key));
        let key = if spec.compute.is_single() { "value" } else { key };
        match value {
            _ if key == "count" => o.int(key, value.unwrap_or(0.0) as u64),
            Some(value) => o.real(key, value),
            None => o.null(key),
        }
    }
    // A rate is worth as much as the time it is taken over.
    if is_rate(spec) {
        match stats.and(rate_seconds(summary)) {
            Some(seconds) => o.real("denominator_seconds", seconds),
            None => o.null("denominator_seconds"),
        }
    }
    o.end();
}

/// Whether a metric is an amount of the run over its time.
pub(crate) fn is_rate(spec: &MetricSpec) -> bool {
    spec.compute.kind() == "derived"
        && matches!(spec.display, Unit::RequestsPerSecond | Unit::TokensPerSecond)
}

/// What rates of the run are divided by, seconds: the window, or from the first request to the last answer when that is empty.
pub(crate) fn rate_seconds(summary: &Summary) -> Option<f64> {
    let window = Some(summary.window.duration_ns()).filter(|ns| *ns > 0).map(ns_to_seconds);
    window.or_else(|| summary.get("benchmark_duration").and_then(Stats::avg))
}

fn run_info(out: &mut Vec<u8>, report: &Report<'_>) {
    let mut o = Object::begin(out);
    o.text("benchmark_id", report.benchmark_id);
    o.int("random_seed", report.seed);
    o.int("trial", 0);
    o.text("cli_command", report.cli_command);
    o.end();
}

fn error_summary(out: &mut Vec<u8>, report: &Report<'_>) {
    list(out, report.errors, |out, group| {
        let mut o = Object::begin(out);
        crate::jsonl::error_object(o.key("error_details"), &group.failure);
        o.int("count", group.count);
        // Ours from here on.
        if let Some(code) = &group.failure.server_code {
            o.text("server_code", code);
        }
        serialized(o.key("kind"), &group.failure.kind);
        stages(o.key("stages"), group);
        o.int("retryable", group.retryable);
        if group.varies {
            o.bool("varies", true);
        }
        o.end();
    });
}

/// How many of a group broke where.
fn stages(out: &mut Vec<u8>, group: &ErrorGroup) {
    let mut o = Object::begin(out);
    for (stage, count) in &group.stages {
        let name = serde_json::to_value(stage).ok();
        o.int(name.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default(), *count);
    }
    o.end();
}

/// Steps by how many draft tokens they accepted; numbers that no step accepted are left out, as in AIPerf.
fn acceptance_histogram(out: &mut Vec<u8>, summary: &Summary) {
    let mut o = Object::begin(out);
    for (accepted, steps) in summary.acceptance_histogram.iter().enumerate().filter(|(_, steps)| **steps > 0)
    {
        o.int(&accepted.to_string(), *steps);
    }
    o.end();
}

fn list<T>(out: &mut Vec<u8>, items: &[T], mut item: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (i, entry) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        item(out, entry);
    }
    out.push(b']');
}

/// Writing to memory cannot fail, and none of these types can refuse to be written.
fn serialized(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    let _ = serde_json::to_writer(out, value);
}

fn indented(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    pretty(&mut out, compact, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn schema_1_as_a_whole() {
        let sample = Sample::new();
        insta::assert_snapshot!(text(summary(&sample.report())));
    }

    #[test]
    fn schema_2_as_a_whole() {
        let sample = Sample::new();
        insta::assert_snapshot!(text(summary_2(&sample.report())));
    }

    #[test]
    fn schema_1_has_no_nulls_and_no_final_newline() {
        let sample = Sample::new();
        let mut report = sample.report();
        report.warmup = None;
        report.incomplete_reason = Some("a shard stopped");
        report.was_cancelled = true;
        let bytes = summary(&report);
        assert!(bytes.ends_with(b"}"));
        let value: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert!(!text(bytes).contains("null"));
        assert!(value.get("warmup_metrics").is_none());
        assert_eq!(value["is_complete"], false);
        assert_eq!(value["incomplete_reason"], "a shard stopped");
        assert_eq!(value["was_cancelled"], true);
        assert_eq!(value["start_time"], "2026-11-30T05:00:00.005000");
    }

    #[test]
    fn fixed_keys_come_first_then_the_run_then_the_table() {
        let sample = Sample::new();
        let value: serde_json::Value = serde_json::from_slice(&summary(&sample.report())).expect("JSON");
        let keys: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(
            keys[..5],
            ["schema_version", "aiperf_version", "benchmark_id", "request_throughput", "request_latency"]
        );
        let place = |key: &str| keys.iter().position(|k| *k == key).expect(key);
        assert!(place("total_error_isl") < place("input_config"));
        assert!(place("input_config") < place("run_info"));
        assert!(place("warmup_metrics") < place("time_to_first_output_token"));
        assert!(place("error_summary") < place("start_time"));
        assert!(!keys.contains(&"min_request_timestamp"), "internal metrics stay inside");
    }
}
