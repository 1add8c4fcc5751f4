//! `profile_export_aiperf.csv`: metrics with percentiles first, then the others, each block sorted by tag. Behind these blocks of AIPerf's
//! come ours: results by server, and the load.

use aiperf_metrics::{Row, STAT_NAMES, Stats, Unit};

use crate::load;
use crate::report::Report;

/// The file: CRLF line ends, two decimals, quotes where a cell needs them.
pub fn summary(report: &Report<'_>) -> Vec<u8> {
    let mut rows: Vec<&Row> = report.summary.public_rows().collect();
    rows.sort_by_key(|row| row.spec.tag);
    let (many, single): (Vec<&Row>, Vec<&Row>) =
        rows.into_iter().partition(|row| !matches!(row.stats, Stats::Scalar { .. }));
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
            line(&mut out, [name(row), row.stats.avg().map_or(String::new(), number)].into_iter());
        }
    }
    if let Some(targets) = report.targets() {
        out.push_str("\r\n");
        for cells in load::targets_csv(targets) {
            line(&mut out, cells.into_iter());
        }
    }
    if let Some(health) = report.load {
        out.push_str("\r\n");
        line(&mut out, ["Load", "Phase", "Value"].map(str::to_owned).into_iter());
        for [phase, name, value] in load::csv(health) {
            line(&mut out, [name, phase, value].into_iter());
        }
    }
    out.into_bytes()
}

/// `Header (unit)`; counted things go without.
fn name(row: &Row) -> String {
    match row.spec.display {
        Unit::Requests | Unit::Count => row.spec.header.to_owned(),
        unit => format!("{} ({})", row.spec.header, unit.name()),
    }
}

pub(crate) fn number(value: f64) -> String {
    format!("{value:.2}")
}

pub(crate) fn line(out: &mut String, cells: impl Iterator<Item = String>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn the_file_as_a_whole() {
        let sample = Sample::new();
        let text = String::from_utf8(summary(&sample.report())).expect("UTF-8");
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
        insta::assert_snapshot!(text.replace("\r\n", "\n"));
    }

    #[test]
    fn cells_that_need_quotes_get_them() {
        let mut out = String::new();
        line(&mut out, ["plain", "a,b", "say \"x\"", "two\nlines"].map(str::to_owned).into_iter());
        assert_eq!(out, "plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\"\r\n");
    }

    #[test]
    fn two_decimals_round_as_in_the_reference() {
        assert_eq!([0.125, 2.675, 1234.5, 0.0].map(number), ["0.12", "2.67", "1234.50", "0.00"]);
    }
}
