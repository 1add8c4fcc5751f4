//! The comparison for people: on the screen, and as Markdown.

use std::fmt::Write as _;

use aiperf_core::text::for_terminal;
use aiperf_metrics::ConsoleGroup;
use unicode_width::UnicodeWidthStr;

use crate::comparison::{Comparison, Difference, Line};
use crate::findings::label;

/// Title of a table, and whether it is shown without being asked for.
const fn table(group: ConsoleGroup) -> (&'static str, bool) {
    match group {
        ConsoleGroup::Main => ("LLM Metrics", true),
        ConsoleGroup::Usage => ("LLM Metrics: Usage", true),
        ConsoleGroup::Active => ("LLM Metrics: Active", true),
        ConsoleGroup::Effective => ("LLM Metrics: Effective", true),
        ConsoleGroup::SpecDecode => ("LLM Metrics: Spec Decode", true),
        ConsoleGroup::HttpTrace => ("HTTP Trace Timing", false),
        ConsoleGroup::None => ("Other Metrics", false),
    }
}

/// What of the comparison is shown; data files hold all.
#[derive(Debug, Clone, Copy)]
struct Shown<'a> {
    stats: &'a [&'a str],
    all: bool,
}

impl Comparison {
    /// For the screen: statistics in `stats`; metrics that a run shows on no screen, or when asked only, only with `all`.
    pub fn text(&self, stats: &[&str], all: bool) -> String {
        let mut out = String::new();
        for (i, run) in self.runs.iter().enumerate() {
            let base = if i == self.baseline { " (baseline)" } else { "" };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{}  {}{base}: {}", label(i), for_terminal(&run.name, 200), run.words());
        }
        out.push('\n');
        if self.findings.is_empty() {
            out.push_str("Nothing speaks against the comparison.\n");
        }
        for f in &self.findings {
            let _ = writeln!(out, "{:8} {}", f.severity.name(), f.text);
        }
        if self.is_blocked() {
            out.push_str("\nThe runs are not alike: what follows is no comparison of servers.\n");
        }
        for (title, rows) in self.tables(Shown { stats, all }) {
            let _ = write!(out, "\n{title}\n\n");
            draw(&mut out, &self.heads(), &rows);
        }
        let _ = writeln!(out, "\n{}", self.legend());
        out
    }

    /// As Markdown.
    pub fn markdown(&self, stats: &[&str], all: bool) -> String {
        let mut out = String::from("# Comparison\n\n");
        for (i, run) in self.runs.iter().enumerate() {
            let base = if i == self.baseline { " (baseline)" } else { "" };
            let _ = writeln!(
                out,
                "- **{}** `{}`{base}: {}",
                label(i),
                for_terminal(&run.name, 200).replace('`', "'"),
                escaped(&run.words())
            );
        }
        out.push('\n');
        if self.findings.is_empty() {
            out.push_str("Nothing speaks against the comparison.\n");
        }
        for f in &self.findings {
            let _ = writeln!(out, "- **{}**: {}", f.severity.name(), escaped(&f.text));
        }
        for (title, rows) in self.tables(Shown { stats, all }) {
            let heads = self.heads();
            let _ = write!(out, "\n## {title}\n\n| {} |\n|", heads.join(" | "));
            for head in &heads {
                out.push_str(if is_left(head) { "---|" } else { "---:|" });
            }
            out.push('\n');
            for row in rows {
                let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            }
        }
        let _ = writeln!(out, "\n{}", self.legend());
        out
    }

    fn legend(&self) -> String {
        format!(
            "± is the {} % interval of the difference, each by itself. noise: the data cannot tell the difference from chance. ?: no interval \
             (too few values, or no records).",
            number(100.0 * self.level)
        )
    }

    /// Two runs stand side by side; of several each has a row.
    fn heads(&self) -> Vec<String> {
        let fixed = if self.runs.len() == 2 {
            vec!["Metric".to_owned(), "Stat".to_owned(), label(self.baseline), label(1 - self.baseline)]
        } else {
            ["Metric", "Stat", "Run", "Value"].map(str::to_owned).to_vec()
        };
        fixed.into_iter().chain(["Δ", "Δ %", "± from", "to", ""].map(str::to_owned)).collect()
    }

    fn tables(&self, shown: Shown<'_>) -> Vec<(&'static str, Vec<Vec<String>>)> {
        let lines = self.lines.iter().filter(|line| {
            (line.is_scalar || shown.stats.contains(&line.stat)) && (shown.all || table(line.group).1)
        });
        let mut tables: Vec<(&str, Vec<Vec<String>>)> = Vec::new();
        for line in lines {
            let (title, _) = table(line.group);
            if tables.last().is_none_or(|(last, _)| *last != title) {
                tables.push((title, Vec::new()));
            }
            if let Some((_, rows)) = tables.last_mut() {
                self.rows(rows, line);
            }
        }
        tables
    }

    fn rows(&self, rows: &mut Vec<Vec<String>>, line: &Line) {
        let name = format!("{} ({})", for_terminal(&line.header, 80), for_terminal(&line.unit, 40));
        let stat = if line.is_scalar { "value" } else { line.stat };
        let value = |i: usize| line.values[i].map_or_else(|| "N/A".to_owned(), number);
        if self.runs.len() == 2 {
            let other = 1 - self.baseline;
            let mut row = vec![name, stat.to_owned(), value(self.baseline), value(other)];
            row.extend(cells(line.differences[other].as_ref()));
            rows.push(row);
            return;
        }
        // The baseline first, the name once.
        let order =
            std::iter::once(self.baseline).chain((0..self.runs.len()).filter(|i| *i != self.baseline));
        for (n, i) in order.enumerate() {
            let first = |text: &str| if n == 0 { text.to_owned() } else { String::new() };
            let mut row = vec![first(&name), first(stat), label(i), value(i)];
            row.extend(cells(line.differences[i].as_ref()));
            rows.push(row);
        }
    }
}

fn cells(difference: Option<&Difference>) -> [String; 5] {
    let Some(d) = difference else { return Default::default() };
    let bound =
        |of: fn(&crate::Interval) -> f64| d.interval.as_ref().map(|i| signed(of(i))).unwrap_or_default();
    [
        signed(d.absolute),
        d.percent.map(|p| if p == 0.0 { "0 %".to_owned() } else { format!("{p:+.1} %") }).unwrap_or_default(),
        bound(|i| i.low),
        bound(|i| i.high),
        d.verdict.name().to_owned(),
    ]
}

/// Whole ones as they are, large ones with one decimal, small ones with four.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else if value.abs() >= 1000.0 {
        format!("{value:.1}")
    } else if value.abs() >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

fn signed(value: f64) -> String {
    let text = number(value);
    if value > 0.0 { format!("+{text}") } else { text }
}

fn is_left(head: &str) -> bool {
    ["Metric", "Stat", "Run", ""].contains(&head)
}

fn draw(out: &mut String, heads: &[String], rows: &[Vec<String>]) {
    let width = |i: usize| rows.iter().map(|r| r[i].width()).chain([heads[i].width()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut put = |cells: &[String]| {
        let mut line = String::new();
        for ((cell, head), width) in cells.iter().zip(heads).zip(&widths) {
            let room = " ".repeat(width - cell.width());
            if !line.is_empty() {
                line.push_str("  ");
            }
            if is_left(head) {
                line.push_str(cell);
            } else {
                line.push_str(&room);
            }
            if is_left(head) { line.push_str(&room) } else { line.push_str(cell) }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    };
    put(heads);
    put(&widths.iter().map(|w| "─".repeat(*w)).collect::<Vec<_>>());
    for row in rows {
        put(row);
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys::{recorded, run, with};

    #[test]
    fn two_runs_on_the_screen() {
        let c = Comparison::of(vec![recorded("runs/a", 1.0, 1_000), recorded("runs/b", 1.5, 1_000)], 0, 0.95);
        insta::assert_snapshot!(c.text(&["avg", "p50", "p99"], true));
    }

    #[test]
    fn three_runs_of_which_one_is_not_alike() {
        let other = with("c|", 1.0, 100, |v| v["input_config"]["endpoint"]["type"] = "completions".into());
        let c = Comparison::of(vec![run("a", 1.0, 100), recorded("b", 0.9, 100), other], 1, 0.9);
        insta::assert_snapshot!(c.text(&["avg"], false));
    }

    #[test]
    fn two_runs_as_markdown() {
        let c = Comparison::of(vec![recorded("a`", 1.0, 1_000), recorded("b", 1.001, 1_000)], 0, 0.95);
        insta::assert_snapshot!(c.markdown(&["avg", "p99"], false));
    }

    #[test]
    fn numbers_are_as_long_as_they_need_to_be() {
        for (value, text) in
            [(3.0, "3"), (0.01234, "0.0123"), (12.345, "12.35"), (12345.67, "12345.7"), (-0.5, "-0.5000")]
        {
            assert_eq!(number(value), text);
        }
        assert_eq!((signed(0.0), signed(2.0), signed(-2.0)), ("0".into(), "+2".into(), "-2".into()));
    }
}
