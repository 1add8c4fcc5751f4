//! The reference page, made from the table and from what `aiperf explain` says.

use std::fmt::Write as _;

use crate::explain::{Explanation, TOOLS, public_metrics};
use crate::spec::ConsoleGroup;
use crate::table::METRICS;

/// A Markdown page of all metrics in table order: an overview, then each that files may show in words.
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         Made from the table in `aiperf-metrics`; `aiperf explain METRIC` says the same. A metric that cannot be computed is absent. Times are \
         kept in nanoseconds.\n\n\
         | Tag | Header | Short | Unit | Kind | Console | Properties | Rule |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for spec in METRICS {
        let console = match spec.group {
            ConsoleGroup::None => String::from("–"),
            group => format!("{group:?} {}", spec.order),
        };
        let words = spec.flags.words().join(", ");
        let (tag, header, short) = (spec.tag, spec.header, spec.short);
        let (unit, kind, rule) = (spec.display.name(), spec.compute.kind(), spec.formula);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{tag}` | {header} | {short} | {unit} | {kind} | {console} | {words} | {rule} |"
        );
    }
    out.push_str("\n## Each in words\n\nOther tools:");
    for (i, (tool, version)) in TOOLS.iter().enumerate() {
        let _ = write!(out, "{} {tool} {version}", if i > 0 { "," } else { "" });
    }
    out.push_str(". A tool that is not named has no such metric.\n");
    for spec in public_metrics() {
        section(&mut out, &Explanation::of(spec));
    }
    out
}

fn section(out: &mut String, words: &Explanation) {
    let spec = words.spec;
    let _ = writeln!(
        out,
        "\n### `{}`\n\n{} ({}). {}\n",
        spec.tag,
        spec.header,
        spec.display.name(),
        spec.formula
    );
    let _ = writeln!(out, "- **Chunks.** {}", words.chunks);
    let _ = writeln!(out, "- **Requests.** {}", words.requests);
    let _ = writeln!(out, "- **AIPerf.** {}", words.aiperf);
    let files: Vec<&str> =
        words.exported.iter().filter_map(|line| line.split_once(": ")).map(|(f, _)| f).collect();
    let _ = writeln!(out, "- **Where.** {}.", files.join(", "));
    for ((tool, _), other) in TOOLS.iter().zip(words.elsewhere).filter(|(_, o)| !o.fields.is_empty()) {
        let fields: Vec<String> = other.fields.iter().map(|field| format!("`{field}`")).collect();
        let differs = if other.differs.is_empty() { "The same." } else { other.differs };
        let _ = writeln!(out, "- **{tool}.** {}: {differs}", fields.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_a_row_of_eight_cells() {
        let page = reference_markdown();
        let rows: Vec<&str> = page.lines().filter(|l| l.starts_with("| `")).collect();
        assert_eq!(rows.len(), METRICS.len());
        for row in rows {
            assert_eq!(row.matches('|').count(), 9, "{row}");
        }
    }

    #[test]
    fn every_public_metric_has_a_section() {
        let page = reference_markdown();
        let sections: Vec<&str> = page.split("\n### ").skip(1).collect();
        assert_eq!(sections.len(), public_metrics().count());
        let itl = sections.iter().find(|s| s.starts_with("`inter_token_latency`")).expect("ITL");
        assert!(itl.contains("- **SGLang bench_serving.** `mean_tpot_ms`, `median_tpot_ms`"), "{itl}");
        assert!(itl.contains("- **Where.** profile_export_aiperf.json, profile_export_aiperf.csv, profile_export.jsonl, screen."));
        let asked = sections.iter().find(|s| s.starts_with("`asked_input_length`")).expect("asked ISL");
        assert!(!asked.contains("SGLang"), "{asked}");
    }
}
