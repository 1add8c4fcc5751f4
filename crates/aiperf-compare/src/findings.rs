//! Whether runs may be compared.

use std::collections::BTreeMap;

use aiperf_core::text::for_terminal;
use serde_json::Value;

use crate::run::Run;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The differences say nothing about what was compared.
    Blocks,
    /// They may say something else than it seems.
    Caution,
    /// Good to know.
    Note,
}

impl Severity {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Caution => "caution",
            Self::Note => "note",
        }
    }
}

/// Something to know before the numbers are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: `model`, `seed`, `load` …
    pub about: &'static str,
    /// Position of the run it is about.
    pub run: usize,
    /// One sentence.
    pub text: String,
}

use Severity::{Blocks, Caution, Note};

/// Most differing settings of no known matter that are named.
const NAMED: usize = 12;
/// Share of requests that may fail without a word.
const FAILED: f64 = 0.01;
/// Latencies of shorter runs are mostly those of a start (seconds).
const SHORT: f64 = 5.0;

/// Label of the run at a position: A, B … Z, then by number.
pub(crate) fn label(run: usize) -> String {
    u8::try_from(run)
        .ok()
        .filter(|n| *n < 26)
        .map_or_else(|| format!("#{}", run + 1), |n| char::from(b'A' + n).to_string())
}

/// All there is to say, the gravest first.
pub(crate) fn of(runs: &[Run], baseline: usize) -> Vec<Finding> {
    let mut out = Vec::new();
    // A limit that all share spoils no comparison of one server with another; one that only some have does.
    let limits: Vec<Option<&str>> = runs.iter().map(limit).collect();
    let client = if limits.contains(&Some("not_client")) { Blocks } else { Caution };
    for (i, run) in runs.iter().enumerate() {
        alone(&mut out, run, i, client);
    }
    for (i, run) in runs.iter().enumerate().filter(|(i, _)| *i != baseline) {
        settings(&mut out, &runs[baseline], run, baseline, i);
        measured(&mut out, &runs[baseline], run, baseline, i);
    }
    out.sort_by_key(|f| f.severity);
    out
}

/// What limited a run, in the word of its summary.
fn limit(run: &Run) -> Option<&str> {
    run.at("/load_health/verdict/limit")?.as_str()
}

/// What one run says against itself; `client` is how grave it is that its client was the limit.
fn alone(out: &mut Vec<Finding>, run: &Run, at: usize, client: Severity) {
    let name = label(at);
    let mut put = |severity, about, text| out.push(Finding { severity, about, run: at, text });
    match run.stat("request_count", "avg") {
        Some(n) if n > 0.0 => {}
        _ => put(Blocks, "failed", format!("{name} has no completed request.")),
    }
    if run.at("/is_complete").and_then(Value::as_bool) == Some(false) {
        let why = run
            .at("/incomplete_reason")
            .and_then(Value::as_str)
            .map(|w| format!(": {}", for_terminal(w, 200)));
        put(Caution, "incomplete", format!("{name} is incomplete{}.", why.unwrap_or_default()));
    }
    if run.at("/was_cancelled").and_then(Value::as_bool) == Some(true) {
        put(Caution, "incomplete", format!("{name} was stopped by its user."));
    }
    if let Some((ended, failed)) = run.ended().filter(|(ended, failed)| *failed > FAILED * ended) {
        let text = format!(
            "{name}: {failed} of {ended} requests failed or were cancelled ({:.1} %); latencies are of the others.",
            100.0 * failed / ended
        );
        put(Caution, "failed", text);
    }
    match limit(run) {
        Some("client") => {
            let text = run.at("/load_health/verdict/text").and_then(Value::as_str).unwrap_or_default();
            put(client, "client", format!("{name} measured the client: {}", for_terminal(text, 300)));
        }
        Some("not_client") => {}
        _ => put(Note, "client", format!("{name} does not tell whether its client was the limit.")),
    }
    if let Some(seconds) = run.stat("benchmark_duration", "avg").filter(|s| *s < SHORT) {
        put(
            Note,
            "window",
            format!("{name} took {seconds:.2} s: it is short, and start and end weigh much."),
        );
    }
    if let Some(samples) = &run.samples {
        let said = run.stat("request_count", "avg").unwrap_or(0.0);
        if samples.unreadable > 0 {
            put(
                Caution,
                "records",
                format!("{name}: {} lines of its records could not be read.", samples.unreadable),
            );
        }
        if (samples.completed as f64 - said).abs() > 0.01 * said {
            let text = format!(
                "{name}: its records hold {} completed requests and its summary {said}, so no interval is made of them.",
                samples.completed
            );
            put(Caution, "records", text);
        }
    } else {
        put(
            Note,
            "records",
            format!("{name} has no records of single requests, so there is no interval with it."),
        );
    }
}

/// A setting's matter: how grave a difference is, its name, and the words for the setting; `None` for what does not matter.
fn matter(path: &str) -> Option<(Severity, &'static str)> {
    let starts = |all: &[&str]| all.iter().any(|p| path == *p || path.starts_with(&format!("{p}.")));
    Some(if starts(&["artifacts", "runtime", "logging", "otel", "mlflow", "wandb", "endpoint.api_key"]) {
        return None;
    } else if starts(&["models"]) {
        (Blocks, "model")
    } else if path == "endpoint.type" {
        (Blocks, "endpoint")
    } else if path == "endpoint.streaming" {
        (Blocks, "streaming")
    } else if path == "endpoint.use_server_token_count" || path == "tokenizer.apply_chat_template" {
        (Blocks, "counting")
    } else if path == "tokenizer.name" || path == "tokenizer.revision" {
        (Blocks, "tokenizer")
    } else if path.starts_with("datasets.") && (path.contains(".isl") || path.contains(".osl")) {
        (Blocks, "lengths")
    } else if path.starts_with("datasets.") && path.ends_with(".random_seed") {
        // The run's own seed tells.
        return None;
    } else if path.starts_with("datasets.") && path.ends_with(".entries") {
        (Caution, "dataset")
    } else if starts(&["datasets"]) {
        (Blocks, "dataset")
    } else if starts(&["endpoint.extra"]) {
        (Caution, "requests")
    } else if starts(&["warmup"]) {
        (Caution, "warm-up")
    } else if path.starts_with("profiling.") && path.ends_with(".requests") {
        (Note, "requests")
    } else if starts(&["profiling"]) {
        (Caution, "load")
    } else if starts(&["slos"]) {
        (Caution, "goodput")
    } else {
        (Note, "settings")
    })
}

/// Every single value of the settings by its path. Phases are called after their kind, so that a warm-up more does not shift the others.
fn flat(config: Option<&Value>) -> BTreeMap<String, String> {
    fn walk(out: &mut BTreeMap<String, String>, path: String, value: &Value) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, v)| walk(out, below(key), v)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, v)| walk(out, below(&i.to_string()), v));
            }
            Value::Null | Value::Bool(false) => {}
            Value::String(text) => drop(out.insert(path, for_terminal(text, 80))),
            // 50 and 50.0 are the same.
            Value::Number(n) => {
                drop(out.insert(path, n.as_f64().map_or_else(|| n.to_string(), |v| v.to_string())));
            }
            Value::Bool(true) => drop(out.insert(path, "true".to_owned())),
        }
    }
    let mut out = BTreeMap::new();
    for (key, value) in config.and_then(Value::as_object).into_iter().flatten() {
        if let ("phases", Value::Array(phases)) = (key.as_str(), value) {
            let mut seen = BTreeMap::new();
            for phase in phases {
                let kind = phase.get("kind").or_else(|| phase.get("name")).and_then(Value::as_str);
                let kind = if kind == Some("warmup") { "warmup" } else { "profiling" };
                let n: &mut usize = seen.entry(kind).or_default();
                walk(&mut out, format!("{kind}.{n}"), phase);
                *n += 1;
            }
        } else {
            walk(&mut out, key.clone(), value);
        }
    }
    // What is not set is what it would be.
    if !out.is_empty() {
        out.entry("endpoint.type".to_owned()).or_insert_with(|| "chat".to_owned());
        if let Some(model) = out.get("models.items.0.name").cloned() {
            out.entry("tokenizer.name".to_owned()).or_insert(model);
        }
    }
    out
}

/// What was asked.
fn settings(out: &mut Vec<Finding>, base: &Run, run: &Run, at_base: usize, at: usize) {
    let (a, b) = (label(at_base), label(at));
    let mut put = |severity, about, text| out.push(Finding { severity, about, run: at, text });
    if base.benchmark_id().is_some() && base.benchmark_id() == run.benchmark_id() {
        put(Caution, "same run", format!("{b} is the same run as {a}."));
    }
    let (of_a, of_b) = (flat(base.at("/input_config")), flat(run.at("/input_config")));
    let mut paths: Vec<&String> = of_a.keys().chain(of_b.keys()).collect();
    paths.sort();
    paths.dedup();
    let (mut named, mut more) = (0, 0);
    for path in paths {
        let (left, right) = (of_a.get(path), of_b.get(path));
        if left == right {
            continue;
        }
        let Some((severity, about)) = matter(path) else { continue };
        if about == "settings" {
            named += 1;
            if named > NAMED {
                more += 1;
                continue;
            }
        }
        let say = |v: Option<&String>| v.map_or("not set", String::as_str).to_owned();
        put(severity, about, format!("{path} is {} in {a} and {} in {b}.", say(left), say(right)));
    }
    if more > 0 {
        put(Note, "settings", format!("{more} more settings differ between {a} and {b}."));
    }
    let said =
        |run: &Run, key: &str| run.at(key).filter(|v| !v.is_null()).map(|v| for_terminal(&v.to_string(), 80));
    for (pointer, severity, about, what) in [
        ("/run_info/random_seed", Caution, "seed", "the random seed"),
        ("/aiperf_version", Note, "program", "the program's version"),
    ] {
        if let (Some(left), Some(right)) = (said(base, pointer), said(run, pointer))
            && left != right
        {
            put(severity, about, format!("{what} is {left} in {a} and {right} in {b}."));
        }
    }
}

/// What came of it.
fn measured(out: &mut Vec<Finding>, base: &Run, run: &Run, at_base: usize, at: usize) {
    let (a, b) = (label(at_base), label(at));
    let mut put = |severity, about, text| out.push(Finding { severity, about, run: at, text });
    for (tag, what) in
        [("input_sequence_length", "input length"), ("output_sequence_length", "output length")]
    {
        // The statistic that is the furthest off.
        let off = ["avg", "p50", "p90", "p99"]
            .into_iter()
            .filter_map(|stat| {
                let (left, right) = (base.stat(tag, stat)?, run.stat(tag, stat)?);
                Some((stat, left, right, (right - left).abs() / left.abs().max(1.0)))
            })
            .max_by(|x, y| x.3.total_cmp(&y.3));
        if let Some((stat, left, right, share)) = off.filter(|o| o.3 > 0.02) {
            let severity = if share > 0.1 { Blocks } else { Caution };
            let text = format!(
                "the measured {what} ({stat}) is {left:.1} tokens in {a} and {right:.1} in {b}, {:.1} % apart.",
                100.0 * share
            );
            put(severity, "lengths", text);
        }
    }
    if let (Some((left, _)), Some((right, _))) = (base.ended(), run.ended())
        && (right - left).abs() > 0.05 * left
    {
        put(Caution, "requests", format!("{left} requests came to an end in {a} and {right} in {b}."));
    }
    if let (Some(left), Some(right)) =
        (base.stat("benchmark_duration", "avg"), run.stat("benchmark_duration", "avg"))
        && left.max(right) > 1.5 * left.min(right)
    {
        put(Caution, "window", format!("{a} took {left:.1} s and {b} {right:.1} s."));
    }
    let units = run
        .metrics
        .iter()
        .filter_map(|m| Some((m, base.metric(&m.tag)?)))
        .filter(|(m, of)| m.unit != of.unit);
    for (metric, of) in units {
        let text =
            format!("{} is in {} in {a} and in {} in {b}: it is left out.", metric.tag, of.unit, metric.unit);
        put(Caution, "unit", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys::{run, with};
    use serde_json::json;

    fn found(change: impl FnOnce(&mut Value)) -> Vec<(Severity, &'static str)> {
        let runs = [run("a", 1.0, 100), with("b", 1.0, 100, change)];
        of(&runs, 0).into_iter().filter(|f| f.about != "records").map(|f| (f.severity, f.about)).collect()
    }

    #[test]
    fn equal_runs_say_nothing_but_of_records() {
        assert_eq!(found(|_| ()), []);
    }

    #[test]
    fn each_difference_is_told_by_its_weight() {
        let set = |pointer: &'static str, value: Value| {
            move |v: &mut Value| {
                if let Some(there) = v.pointer_mut(pointer) {
                    *there = value;
                    return;
                }
                let (parent, key) = pointer.rsplit_once('/').expect("a path");
                v.pointer_mut(parent).expect("there")[key] = value;
            }
        };
        for (pointer, value, severity, about) in [
            ("/input_config/models/items/0/name", json!("other"), Blocks, "model"),
            ("/input_config/endpoint/type", json!("completions"), Blocks, "endpoint"),
            ("/input_config/endpoint/streaming", json!(false), Blocks, "streaming"),
            ("/input_config/endpoint/use_server_token_count", json!(true), Blocks, "counting"),
            ("/input_config/tokenizer/name", json!("gpt2"), Blocks, "tokenizer"),
            ("/input_config/datasets/0/prompts/isl/mean", json!(51), Blocks, "lengths"),
            ("/input_config/datasets/0/entries", json!(7), Caution, "dataset"),
            ("/input_config/datasets/0/type", json!("file"), Blocks, "dataset"),
            ("/input_config/phases/1/concurrency", json!(8), Caution, "load"),
            ("/input_config/phases/1/requests", json!(50), Note, "requests"),
            ("/input_config/phases/0/requests", json!(5), Caution, "warm-up"),
            ("/input_config/endpoint/urls/0", json!("http://b"), Note, "settings"),
            ("/run_info/random_seed", json!(8), Caution, "seed"),
            ("/is_complete", json!(false), Caution, "incomplete"),
            ("/was_cancelled", json!(true), Caution, "incomplete"),
            ("/load_health/verdict/limit", json!("client"), Blocks, "client"),
            ("/request_count/avg", json!(0), Blocks, "failed"),
            ("/input_sequence_length/avg", json!(52.0), Caution, "lengths"),
            ("/output_sequence_length/avg", json!(40.0), Blocks, "lengths"),
            ("/benchmark_duration/avg", json!(60.0), Caution, "window"),
            ("/request_latency/unit", json!("s"), Caution, "unit"),
        ] {
            assert_eq!(found(set(pointer, value))[0], (severity, about), "{pointer}");
        }
        assert_eq!(found(set("/input_config/endpoint/x", json!(null))), [], "what is null is not set");
        let unset =
            |v: &mut Value| drop(v["input_config"]["endpoint"].as_object_mut().map(|e| e.remove("type")));
        assert_eq!(found(unset), [], "chat is what it would be");
        assert_eq!(
            found(set("/input_config/artifacts", json!({"dir": "else"}))),
            [],
            "where files go does not matter"
        );
        assert_eq!(found(set("/input_config/datasets/0/prompts/isl/mean", json!(50.0))), [], "50 is 50.0");
        let two_more = found(set("/error_request_count/avg", json!(4)));
        assert_eq!(two_more, [(Caution, "failed")]);
    }

    #[test]
    fn a_client_that_was_the_limit_of_all_runs_forbids_nothing() {
        let limited =
            |name, limit: &str| with(name, 1.0, 100, |v| v["load_health"]["verdict"]["limit"] = limit.into());
        let severities = |limits: [&str; 2]| -> Vec<Severity> {
            of(&[limited("a", limits[0]), limited("b", limits[1])], 0)
                .into_iter()
                .filter(|f| f.about == "client")
                .map(|f| f.severity)
                .collect()
        };
        assert_eq!(severities(["client", "client"]), [Caution, Caution]);
        assert_eq!(severities(["client", "not_client"]), [Blocks]);
        assert_eq!(severities(["not_client", "client"]), [Blocks]);
        assert_eq!(severities(["client", "unknown"]), [Caution, Note], "nothing says that they differ");
        assert_eq!(severities(["not_client", "not_client"]), []);
    }

    #[test]
    fn a_warm_up_more_is_no_other_load() {
        let found = found(|v| drop(v["input_config"]["phases"].as_array_mut().expect("phases").remove(0)));
        assert!(found.iter().all(|f| *f == (Caution, "warm-up")) && !found.is_empty(), "{found:?}");
    }

    #[test]
    fn records_that_are_not_of_the_summary_are_told() {
        let mut b = run("b", 1.0, 100);
        b.samples = Some(crate::Samples { completed: 3, unreadable: 2, ..crate::Samples::default() });
        let texts: Vec<String> = of(&[run("a", 1.0, 100), b], 0).into_iter().map(|f| f.text).collect();
        assert!(
            texts.iter().any(|t| t.contains("hold 3 completed requests and its summary 100")),
            "{texts:?}"
        );
        assert!(texts.iter().any(|t| t.starts_with("B: 2 lines")), "{texts:?}");
    }
}
