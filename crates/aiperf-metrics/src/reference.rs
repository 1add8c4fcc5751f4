//! The reference page, made from the table.

use std::fmt::Write as _;

use crate::spec::ConsoleGroup;
use crate::table::METRICS;

/// A Markdown page of all metrics in table order.
pub fn reference_markdown() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         Made from the table in `aiperf-metrics`. A metric that cannot be computed is absent. Times are kept in nanoseconds.\n\n\
         | Tag | Header | Short | Unit | Kind | Console | Properties | Rule |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for spec in METRICS {
        let console = match spec.group {
            ConsoleGroup::None => String::from("–"),
            ConsoleGroup::Usage => format!("Usage {}", spec.order),
            ConsoleGroup::Main => format!("Main {}", spec.order),
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
    out
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
}
