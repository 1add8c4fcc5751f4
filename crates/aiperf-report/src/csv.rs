//! `profile_export_aiperf.csv`: metrics with percentiles first, then the others, each block sorted by tag. Behind these blocks of AIPerf's
//! come ours: results by server, and the load.

use aiperf_metrics::{METRICS, Row, STAT_NAMES, Stats, Unit};

use crate::json;
use crate::load;
use crate::report::Report;

/// The file in shape `schema`, 1 or 2.
pub fn written(report: &Report<'_>, schema: u8) -> Vec<u8> {
    if schema == 2 { summary_2(report) } else { summary(report) }
}

/// Columns of schema 2 before the statistics.
const COLUMNS_2: [&str; 8] =
    ["phase", "tag", "metric", "unit", "kind", "value", "denominator_seconds", "count"];

/// Schema 2: one table of every known metric of either kind of phase, in table order, all digits, an empty cell for what is absent.
pub fn summary_2(report: &Report<'_>) -> Vec<u8> {
    let mut out = String::new();
    line(&mut out, COLUMNS_2.iter().chain(&STAT_NAMES).map(|name| (*name).to_owned()));
    for (phase, summary) in [("profiling", report.profiling()), ("warmup", report.warming())] {
        let Some(summary) = summary else { continue };
        for spec in METRICS.iter().filter(|spec| spec.is_public()) {
            let stats = summary.get(spec.tag);
            let is_record = !spec.compute.is_single();
            let whole =
                |value: Option<f64>| value.filter(|v| v.is_finite()).map_or(String::new(), |v| v.to_string());
            let seconds = json::rate_seconds(summary).filter(|_| stats.is_some() && json::is_rate(spec));
            let head =
                [phase, spec.tag, spec.header, spec.display.name(), spec.compute.kind()].map(str::to_owned);
            let single = [
                whole(stats.filter(|_| !is_record).and_then(Stats::avg)),
                whole(seconds),
                if spec.compute.statistics().contains(&"count") {
                    whole(stats.and_then(|s| s.get("count")).or(Some(0.0)))
                } else {
                    String::new()
                },
            ];
            let many =
                STAT_NAMES.iter().map(|name| whole(stats.filter(|_| is_record).and_then(|s| s.get(name))));
            line(&mut out, head.into_iter().chain(single).chain(many));
        }
    }
    out.into_bytes()
}

/// Schema 1: CRLF line ends, two decimals, quotes where a cell needs them.
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
        // A spreadsheet would take such a text for a formula.
        let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r'])
            && !cell.parse::<f64>().is_ok_and(f64::is_finite);
        let cell = if is_formula { format!("'{cell}") } else { cell };
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

    /// What a reader by RFC 4180 makes of it.
    fn parsed(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
        let mut letters = text.chars().peekable();
        let mut is_quoted = false;
        while let Some(letter) = letters.next() {
            match letter {
                '"' if is_quoted && letters.next_if_eq(&'"').is_some() => cell.push('"'),
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
                '\r' if !is_quoted => {
                    assert_eq!(letters.next(), Some('\n'), "a line ends in CRLF");
                    row.push(std::mem::take(&mut cell));
                    rows.push(std::mem::take(&mut row));
                }
                '\n' if !is_quoted => panic!("a line feed alone outside of quotes"),
                other => cell.push(other),
            }
        }
        assert!(!is_quoted && row.is_empty() && cell.is_empty(), "the last line is whole");
        rows
    }

    proptest::proptest! {
        #[test]
        fn every_cell_comes_back(rows in proptest::collection::vec(proptest::collection::vec("[a-z,\"\r\n é'=-]{0,6}", 1..5), 1..5)) {
            let mut out = String::new();
            for row in &rows {
                line(&mut out, row.iter().cloned());
            }
            let shielded = |cell: &String| if cell.starts_with(['=', '-', '\r']) { format!("'{cell}") } else { cell.clone() };
            let expected: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(shielded).collect()).collect();
            proptest::prop_assert_eq!(parsed(&out), expected);
        }
    }

    #[test]
    fn both_forms_are_tables_for_any_reader() {
        let sample = Sample::new();
        let report = sample.report();
        let text = String::from_utf8(summary(&report)).expect("UTF-8");
        let blocks: Vec<Vec<Vec<String>>> =
            parsed(&text).split(|row| row == &[""]).map(<[_]>::to_vec).collect();
        assert_eq!(blocks[0][0][0], "Metric");
        assert_eq!(blocks[1][0], ["Metric", "Value"]);
        for block in &blocks {
            assert!(block.iter().all(|row| row.len() == block[0].len()), "{block:?}");
        }
        let text = String::from_utf8(summary_2(&report)).expect("UTF-8");
        let rows = parsed(&text);
        let known: Vec<_> = METRICS.iter().filter(|spec| spec.is_public()).collect();
        assert_eq!(rows.len(), 1 + 2 * known.len(), "a row for each metric of either kind of phase");
        for (row, spec) in rows[1..].iter().zip(known.iter().chain(&known)) {
            assert_eq!(row.len(), rows[0].len());
            assert_eq!((row[1].as_str(), row[2].as_str()), (spec.tag, spec.header));
            for (name, cell) in rows[0].iter().zip(row).skip(5) {
                assert!(cell.is_empty() || cell.parse::<f64>().is_ok(), "{name} of {} is {cell}", spec.tag);
            }
            // All digits, so that nothing is lost on the way.
            let summary =
                if row[0] == "profiling" { report.summary } else { report.warmup.expect("a warm-up") };
            let average = summary.get(spec.tag).and_then(Stats::avg);
            let at = rows[0]
                .iter()
                .position(|name| name == if spec.compute.is_single() { "value" } else { "avg" });
            assert_eq!(row[at.expect("a column")].parse().ok(), average, "{}", spec.tag);
        }
    }

    #[test]
    fn no_text_is_a_formula() {
        for spec in METRICS {
            assert!(spec.header.starts_with(char::is_alphanumeric), "{}", spec.header);
        }
        let mut out = String::new();
        line(&mut out, ["=1+1", "+x", "-2.50", "@a", "a=b"].map(str::to_owned).into_iter());
        assert_eq!(out, "'=1+1,'+x,-2.50,'@a,a=b\r\n");
    }

    #[test]
    fn two_decimals_round_as_in_the_reference() {
        assert_eq!([0.125, 2.675, 1234.5, 0.0].map(number), ["0.12", "2.67", "1234.50", "0.00"]);
    }
}
