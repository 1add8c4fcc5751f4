//! `profile_export_aiperf.csv`: metrics with percentiles first, then the others, each block sorted by tag.

use aiperf_metrics::{Row, STAT_NAMES, Stats, Unit};

use crate::report::Report;

/// The file: CRLF line ends, two decimals, quotes where a cell needs them.
pub fn summary(report: &Report<'_>) -> Vec<u8> {
    let mut rows: Vec<&Row> = report.summary.public_rows().collect();
    rows.sort_by_key(|row| row.spec.tag);
    let (many, single): (Vec<&Row>, Vec<&Row>) =
        rows.into_iter().partition(|row| matches!(row.stats, Stats::Distribution { .. }));
    let mut out = String::new();
    if !many.is_empty() {
        line(&mut out, std::iter::once("Metric".to_owned()).chain(STAT_NAMES.map(str::to_owned)));
        for row in &many {
            let numbers = STAT_NAMES.iter().map(|name| row.stats.get(name).map_or(String::new(), number));
            line(&mut out, std::iter::once(name(row)).chain(numbers));
        }
        if !single.is_empty() {
            out.push_str("\r\n");
        }
    }
    if !single.is_empty() {
        line(&mut out, ["Metric", "Value"].map(str::to_owned).into_iter());
        for row in &single {
            line(&mut out, [name(row), number(row.stats.avg())].into_iter());
        }
    }
    out.into_bytes()
}

/// `Header (unit)`; counted things go without.
fn name(row: &Row) -> String {
    match row.spec.display {
        Unit::Requests => row.spec.header.to_owned(),
        unit => format!("{} ({})", row.spec.header, unit.name()),
    }
}

fn number(value: f64) -> String {
    format!("{value:.2}")
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    for (i, cell) in cells.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if cell.contains([',', '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&cell);
        }
    }
    out.push_str("\r\n");
}
