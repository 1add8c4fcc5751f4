//! What a metric is, in words: the same for `aiperf explain` and for the reference page.
//!
//! Everything that its row of the table tells comes from there, so a metric needs no entry here. What the row cannot tell (how AIPerf's rule
//! differs, what other tools call it) stands in [`notes`], for one tag or for a family of them.

mod notes;

use crate::spec::{Compute, ConsoleGroup, Flags, MetricSpec};
use crate::table::METRICS;
use notes::Note;

/// Tools whose names for a metric are given, with the versions that were read.
pub const TOOLS: [(&str, &str); 3] =
    [("vLLM bench serve", "0.32.0"), ("SGLang bench_serving", "0.5.23"), ("GuideLLM", "0.8.1")];

const CONTENT: &str = "Content chunks: events with text, reasoning or a tool call. Role-only, empty and usage-only events and end markers do not.";
const AS_NAMED: &str = "Those of the metrics that its rule names.";
const IN_ITS_RULE: &str = "Those that its rule names.";

/// How another tool has a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere {
    /// Its fields, as its result files have them; empty when it has none.
    pub fields: &'static [&'static str],
    /// How it differs from ours; empty when it does not, or when there is no field.
    pub differs: &'static str,
}

/// A metric in words.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// Its row of the table.
    pub spec: &'static MetricSpec,
    /// Chunks of an answer that count.
    pub chunks: &'static str,
    /// Requests that count.
    pub requests: &'static str,
    /// Files and tables that have it, one a line.
    pub exported: Vec<String>,
    /// AIPerf's rule, and where ours differs.
    pub aiperf: &'static str,
    /// In the order of [`TOOLS`].
    pub elsewhere: [Elsewhere; 3],
}

impl Explanation {
    /// Of a metric that files may show.
    pub fn of(spec: &'static MetricSpec) -> Self {
        let notes: Vec<&Note> = notes::of(spec.tag).collect();
        let said = |field: fn(&Note) -> &'static str| notes.iter().map(|n| field(n)).find(|s| !s.is_empty());
        let elsewhere = |i: usize| {
            let found = notes.iter().map(|n| n.elsewhere[i]).find(|e| !e.fields.is_empty());
            found.unwrap_or(Elsewhere { fields: &[], differs: "" })
        };
        Self {
            spec,
            chunks: said(|n| n.chunks).unwrap_or_else(|| chunks(spec)),
            requests: said(|n| n.requests).unwrap_or_else(|| requests(spec)),
            exported: exported(spec),
            aiperf: said(|n| n.aiperf).unwrap_or_else(|| aiperf(spec)),
            elsewhere: [elsewhere(0), elsewhere(1), elsewhere(2)],
        }
    }
}

/// Metrics that files may show, in the order of the table.
pub fn public_metrics() -> impl Iterator<Item = &'static MetricSpec> {
    METRICS.iter().filter(|spec| spec.is_public())
}

/// The one with this tag.
pub fn explain(tag: &str) -> Option<Explanation> {
    public_metrics().find(|spec| spec.tag == tag).map(Explanation::of)
}

fn chunks(spec: &MetricSpec) -> &'static str {
    match spec.compute {
        Compute::Derived(_) | Compute::NetworkRtt | Compute::NetworkAdjusted(_) => AS_NAMED,
        _ if spec.flags.has(Flags::STREAMING) => CONTENT,
        _ => "None by itself; it is not about when chunks arrive unless its rule says so.",
    }
}

fn requests(spec: &MetricSpec) -> &'static str {
    match spec.compute {
        _ if spec.flags.has(Flags::ERROR_ONLY) => "Failed and cancelled ones.",
        _ if spec.flags.has(Flags::EVERY_OUTCOME) => "Completed, failed and cancelled ones alike.",
        Compute::Derived(_) | Compute::NetworkRtt | Compute::NetworkAdjusted(_) => AS_NAMED,
        Compute::OverTime(_) | Compute::Adjusted(_) | Compute::AtLeast(_) => IN_ITS_RULE,
        _ => "Completed ones: a whole answer with content. One that lacks what the rule needs has no value.",
    }
}

fn aiperf(spec: &MetricSpec) -> &'static str {
    if spec.flags.has(Flags::OURS) {
        "AIPerf has no such metric."
    } else {
        "Tag, header and unit are AIPerf's, and so is the rule unless docs/migrating.md says otherwise."
    }
}

fn exported(spec: &MetricSpec) -> Vec<String> {
    let statistics = match spec.compute {
        _ if spec.compute.is_single() => "one value, as avg".to_owned(),
        Compute::Record(_) | Compute::AtLeast(_) => "avg, p1 to p99, min, max, std, count and sum".to_owned(),
        _ => spec.compute.statistics().join(", "),
    };
    let mut out = vec![
        format!("profile_export_aiperf.json: key {}, {statistics}", spec.tag),
        format!("profile_export_aiperf.csv: row \"{}\"", spec.header),
    ];
    if spec.is_per_record() {
        out.push(format!("profile_export.jsonl: metrics.{}", spec.tag));
    }
    if spec.group != ConsoleGroup::None && !spec.flags.has(Flags::ERROR_ONLY) {
        out.push(format!("screen: table {:?}, place {}", spec.group, spec.order));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_public_metric_is_explained_and_no_other() {
        for spec in METRICS {
            let Some(words) = explain(spec.tag) else {
                assert!(!spec.is_public(), "{}", spec.tag);
                continue;
            };
            assert!(spec.is_public(), "{}", spec.tag);
            for text in [words.chunks, words.requests, words.aiperf] {
                assert!(text.ends_with('.'), "{}: {text}", spec.tag);
            }
            assert!(words.exported.len() >= 2);
            for (other, (tool, _)) in words.elsewhere.iter().zip(TOOLS) {
                assert!(other.differs.is_empty() || other.differs.ends_with('.'), "{} in {tool}", spec.tag);
                let plain = |field: &str| {
                    field.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.".contains(&b))
                };
                assert!(other.fields.iter().all(|f| plain(f)), "{} in {tool}", spec.tag);
            }
        }
    }

    #[test]
    fn a_row_without_a_note_is_explained_from_its_flags() {
        let row = |flags| MetricSpec {
            tag: "not_in_the_table",
            header: "H",
            short: "H",
            unit: crate::Unit::Requests,
            display: crate::Unit::Requests,
            flags,
            group: ConsoleGroup::Main,
            order: 7,
            formula: "F.",
            compute: Compute::Record(|_| None),
        };
        let of = |flags| Explanation::of(Box::leak(Box::new(row(flags))));
        let plain = of(Flags::NONE);
        assert!(plain.requests.starts_with("Completed ones:"));
        assert_eq!(plain.exported.len(), 4);
        assert_eq!(plain.exported[3], "screen: table Main, place 7");
        assert!(plain.elsewhere.iter().all(|e| e.fields.is_empty()));
        let failed = of(Flags::ERROR_ONLY.and(Flags::OURS).and(Flags::NO_RECORDS));
        assert_eq!(failed.requests, "Failed and cancelled ones.");
        assert_eq!(failed.aiperf, "AIPerf has no such metric.");
        assert_eq!(failed.exported.len(), 2, "neither per request nor on the screen");
        assert_eq!(of(Flags::STREAMING).chunks, CONTENT);
        assert!(of(Flags::EVERY_OUTCOME).requests.contains("alike"));
    }

    #[test]
    fn notes_about_one_tag_come_before_those_about_its_family() {
        let words = explain("usage_prompt_cache_read_tokens").expect("a metric");
        assert_eq!(words.elsewhere[2].fields, ["cached_tokens"]);
        assert!(words.requests.starts_with("Completed ones"), "{}", words.requests);
        let ttft = explain("time_to_first_token").expect("a metric");
        assert!(ttft.elsewhere[0].fields.contains(&"median_ttft_ms"));
    }
}
