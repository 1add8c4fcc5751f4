//! What is on the page, in order.

use aiperf_core::text::{for_terminal, grouped};
use aiperf_metrics::{
    ConsoleGroup, ErrorGroup, Finishes, Flags, Limit, PhaseHealth, Row, Summary, Uncertainty, verdict,
};

use super::notes::notes;
use super::paint::{Paint, Tone};
use super::table::{Cell, Column, Table, wrap};
use crate::advice::{Around, advice};
use crate::analysis::{self, GroupTable};
use crate::cache;
use crate::load;
use crate::over_time;
use crate::report::Report;
use crate::slos;

/// Statistics of the console's columns and how soon a column goes when there is no room.
const COLUMNS: [(&str, u8); 7] =
    [("avg", 0), ("min", 5), ("max", 3), ("p99", 1), ("p90", 4), ("p50", 2), ("std", 6)];
/// Labels longer than this have their unit on a second line.
const LABEL: usize = 30;
/// Most characters shown of one server text.
pub(super) const MESSAGE: usize = 2000;
/// No command line or path is longer (characters).
const WHOLE: usize = 1 << 20;
/// An address up to this long stays on one line.
const WHOLE_URL: usize = 32;
/// Most error groups shown; files have all.
const GROUPS: usize = 20;

/// The page for a screen of `width` columns, footer included.
pub fn render(report: &Report<'_>, width: usize, colour: bool) -> String {
    let mut page = Page { out: String::new(), width: width.max(20), paint: Paint { colour } };
    page.body(report);
    page.footer(report);
    page.out
}

struct Page {
    out: String,
    width: usize,
    paint: Paint,
}

impl Page {
    fn body(&mut self, report: &Report<'_>) {
        self.errors(report);
        self.metrics(report);
        self.beside(report);
        self.intervals(report);
        self.steadiness(report);
        self.targets(report);
        self.groups(report);
        self.lengths(report);
        self.cache(report);
        self.notes(report);
        self.load(report);
        self.finishes(&report.summary.finishes);
        self.outcome(report.summary);
    }

    fn errors(&mut self, report: &Report<'_>) {
        if report.errors.is_empty() {
            return;
        }
        // On a narrow screen the message says enough.
        let column = |head, right, wraps_to, expendable| Column { head, right, wraps_to, expendable };
        let columns = vec![
            column("Code", true, None, 0),
            column("Type", true, Some(10), 1),
            column("Message", false, Some(16), 0),
            column("Kind", true, Some(10), 4),
            column("Stage", true, Some(10), 2),
            column("Retryable", true, None, 3),
            column("Count", true, None, 0),
        ];
        let rows = report.errors.iter().take(GROUPS).map(|group| {
            let failure = &group.failure;
            let code = failure.code.filter(|c| *c != 0).map(|c| c.to_string());
            let tone = if code.is_some() { Tone::Error } else { Tone::Absent };
            // Those that differ in ids, times or numbers alone are told by one of them.
            let example = if group.varies { "for example: " } else { "" };
            vec![
                Cell::new(code.unwrap_or_else(|| "N/A".to_owned()), tone),
                Cell::new(for_terminal(&failure.type_name, MESSAGE), Tone::Error),
                Cell::new(format!("{example}{}", for_terminal(&failure.message, MESSAGE)), Tone::Error),
                Cell::new(failure.kind.words(), Tone::Error),
                Cell::new(stages(group), Tone::Error),
                Cell::new(count(group.retryable), Tone::Error),
                Cell::new(count(group.count), Tone::Error),
            ]
        });
        let table =
            Table { title: "NVIDIA AIPerf | Error Summary".to_owned(), columns, rows: rows.collect() };
        self.out.push_str("\n\n");
        table.draw(&mut self.out, self.width, self.paint);
        if let Some(more) = report.errors.len().checked_sub(GROUPS).filter(|n| *n > 0) {
            let requests: u64 = report.errors.iter().skip(GROUPS).map(|g| g.count).sum();
            self.line(
                Tone::Error,
                &format!("… and {} more kinds of error in {} requests", more, count(requests)),
            );
        }
        let extra = report.extra_fields();
        let around = Around { extra: &extra, any_answered: report.summary.tally.completed > 0 };
        for text in advice(report.errors, around) {
            self.line(Tone::Note, &format!("What to try: {text}"));
        }
    }

    fn metrics(&mut self, report: &Report<'_>) {
        let mut first = true;
        let mut any_marked = false;
        for group in [
            ConsoleGroup::HttpTrace,
            ConsoleGroup::Effective,
            ConsoleGroup::Active,
            ConsoleGroup::Usage,
            ConsoleGroup::Main,
            ConsoleGroup::SpecDecode,
        ] {
            if group == ConsoleGroup::HttpTrace && !report.show_trace_timing {
                continue;
            }
            let mut rows: Vec<&Row> = report
                .summary
                .public_rows()
                .filter(|row| row.spec.group == group && !row.spec.flags.has(Flags::ERROR_ONLY))
                .collect();
            if rows.is_empty() {
                continue;
            }
            rows.sort_by_key(|row| row.spec.order);
            if first {
                self.out.push_str("\n\n");
                first = false;
            }
            let suffix = match group {
                ConsoleGroup::Effective => ": Effective",
                ConsoleGroup::Active => ": Active",
                ConsoleGroup::Usage => ": Usage",
                ConsoleGroup::SpecDecode => ": Spec Decode",
                ConsoleGroup::None | ConsoleGroup::HttpTrace | ConsoleGroup::Main => "",
            };
            let title = match group {
                ConsoleGroup::HttpTrace => "NVIDIA AIPerf | HTTP Trace Timing".to_owned(),
                _ => format!("NVIDIA AIPerf | {}{suffix}", report.title),
            };
            let (table, is_marked) = metric_table(title, &rows, report.analysis.map(|a| &a.uncertainty));
            table.draw(&mut self.out, self.width, self.paint);
            any_marked |= is_marked;
        }
        if any_marked {
            self.line(Tone::Note, &analysis::footnote());
        }
        if let Some(text) = acceptance(&report.summary.acceptance_histogram) {
            self.line(Tone::Plain, &text);
        }
    }

    /// How far results may be off.
    fn intervals(&mut self, report: &Report<'_>) {
        let Some(analysis) = report.analysis else { return };
        let rows = analysis::interval_rows(&analysis.uncertainty);
        if !rows.is_empty() {
            let title = "NVIDIA AIPerf | 95 % Intervals".to_owned();
            self.out.push('\n');
            let name = Column { head: "Metric", right: true, wraps_to: Some(20), expendable: 0 };
            self.named_rows(title, name, &analysis::INTERVALS, &rows);
        }
    }

    /// The part of the run that had settled.
    fn steadiness(&mut self, report: &Report<'_>) {
        if let Some(analysis) = report.analysis {
            self.out.push('\n');
            self.line(Tone::Plain, &analysis::steady_line(&analysis.steadiness));
        }
    }

    /// Results by turn, model, server, finish reason, cache.
    fn groups(&mut self, report: &Report<'_>) {
        let Some(analysis) = report.analysis else { return };
        for table in analysis::group_tables(&analysis.breakdown, report.targets().is_some()) {
            let GroupTable { title, head, rows, more } = table;
            let longest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            self.out.push('\n');
            let least = longest.min(WHOLE_URL).max(head.len());
            let name = Column { head, right: true, wraps_to: Some(least), expendable: 0 };
            self.named_rows(title, name, &GroupTable::COLUMNS, &rows);
            if more > 0 {
                self.line(Tone::Plain, &format!("… and {} more in the JSON file", count(more as u64)));
            }
        }
    }

    /// A table of named rows of numbers; what no row has is no column.
    fn named_rows(
        &mut self,
        title: String,
        name: Column,
        columns: &[(&'static str, u8)],
        rows: &[(String, Vec<Option<String>>)],
    ) {
        let is_there = |at: usize| rows.iter().any(|(_, cells)| cells[at].is_some());
        let kept: Vec<usize> = (0..columns.len()).filter(|at| is_there(*at)).collect();
        let numbers = kept.iter().map(|at| {
            let (head, expendable) = columns[*at];
            // Two numbers that are one cell may stand below each other where there is no other way.
            let is_pair = rows.iter().any(|(_, cells)| cells[*at].as_ref().is_some_and(|t| t.contains(' ')));
            Column { head, right: true, wraps_to: (is_pair && expendable == 0).then_some(8), expendable }
        });
        let columns = std::iter::once(name).chain(numbers).collect();
        let rows = rows.iter().map(|(name, cells)| {
            let numbers = kept.iter().map(|at| match &cells[*at] {
                Some(text) => Cell::new(text.clone(), Tone::Number),
                None => Cell::new("N/A", Tone::Absent),
            });
            std::iter::once(Cell::new(for_terminal(name, MESSAGE), Tone::Name)).chain(numbers).collect()
        });
        let rows = rows.collect();
        Table { title, columns, rows }.draw(&mut self.out, self.width, self.paint);
    }

    /// Lines that belong to the tables above them.
    fn beside(&mut self, report: &Report<'_>) {
        let mut lines = slos::lines(&report.summary.slos);
        lines.extend(report.summary.over_time.iter().flat_map(over_time::lines));
        if !lines.is_empty() {
            self.out.push('\n');
        }
        for line in lines {
            self.line(Tone::Plain, &line);
        }
    }

    fn targets(&mut self, report: &Report<'_>) {
        let Some(targets) = report.targets() else { return };
        let names = targets.iter().map(|target| target.url.clone());
        let rows: Vec<_> = names.zip(load::targets_rows(targets)).collect();
        let longest = targets.iter().map(|target| target.url.chars().count()).max().unwrap_or(0);
        let url = Column { head: "URL", right: false, wraps_to: Some(longest.min(WHOLE_URL)), expendable: 0 };
        let title = "NVIDIA AIPerf | Results by URL (times in ms)".to_owned();
        self.named_rows(title, url, &load::TARGET_COLUMNS, &rows);
    }

    /// How honest the load was: a table for each profiling phase, warnings, and the verdict last.
    fn load(&mut self, report: &Report<'_>) {
        let Some(health) = report.load else { return };
        let phases: Vec<&PhaseHealth> = health.phases.iter().filter(|phase| !phase.is_warmup).collect();
        for (at, phase) in phases.iter().enumerate() {
            let mut rows = load::rows(phase);
            if at + 1 == phases.len() {
                rows.extend(load::run_rows(health));
            }
            if rows.is_empty() {
                continue;
            }
            let column = |head, right, wraps_to| Column { head, right, wraps_to, expendable: 0 };
            let of = if phases.len() > 1 {
                format!(": {}", for_terminal(&phase.name, MESSAGE))
            } else {
                String::new()
            };
            let table = Table {
                title: format!("NVIDIA AIPerf | Load{of}"),
                columns: vec![column("What", true, None), column("Measured", false, Some(12))],
                rows: rows
                    .into_iter()
                    .map(|(name, text)| {
                        vec![
                            Cell::new(name, Tone::Name),
                            Cell::new(for_terminal(&text, MESSAGE), Tone::Plain),
                        ]
                    })
                    .collect(),
            };
            self.out.push('\n');
            table.draw(&mut self.out, self.width, self.paint);
        }
        let verdict = verdict(health);
        for warning in &verdict.warnings {
            let of =
                warning.phase.as_ref().filter(|_| phases.len() > 1).map(|name| format!(", phase {name}"));
            let text =
                format!("Warning ({}{}): {}", warning.code.name(), of.unwrap_or_default(), warning.text);
            self.line(Tone::Note, &for_terminal(&text, MESSAGE));
        }
        let tone = if verdict.limit == Limit::NotClient { Tone::Plain } else { Tone::Note };
        self.line(tone, &for_terminal(&verdict.line, MESSAGE));
    }

    fn lengths(&mut self, report: &Report<'_>) {
        let Some(lengths) = report.lengths() else { return };
        let lines =
            [(Tone::Plain, lengths.agreement().into_iter().collect()), (Tone::Note, lengths.findings())];
        for (tone, lines) in lines {
            for line in lines {
                self.out.push('\n');
                self.line(tone, &for_terminal(&line, MESSAGE));
            }
        }
    }

    fn cache(&mut self, report: &Report<'_>) {
        let ledger = &report.summary.cache;
        let lines =
            [(Tone::Plain, cache::line(ledger).into_iter().collect()), (Tone::Note, cache::findings(ledger))];
        for (tone, lines) in lines {
            for line in lines {
                self.out.push('\n');
                self.line(tone, &line);
            }
        }
    }

    fn notes(&mut self, report: &Report<'_>) {
        for note in notes(report) {
            self.out.push('\n');
            self.line(Tone::Note, &note);
        }
    }

    /// Why answers ended, if not all did for one reason.
    fn finishes(&mut self, finishes: &Finishes) {
        let seen: Vec<String> =
            finishes.seen().map(|(finish, n)| format!("{} {}", count(n), finish.name())).collect();
        if seen.len() > 1 {
            self.out.push('\n');
            self.line(Tone::Plain, &format!("Finish reasons of the answers: {}.", seen.join(", ")));
        }
    }

    fn outcome(&mut self, summary: &Summary) {
        let (n, t) = (count, summary.tally);
        if summary.is_of_records {
            let ends =
                [n(t.completed), " completed + ".into(), n(t.failed), " failed + ".into(), n(t.cancelled)];
            self.out.push('\n');
            self.line(Tone::Plain, &format!("{} ended = {} cancelled", n(t.ended()), ends.concat()));
            return;
        }
        let scheduled = format!("{} scheduled = {} sent + {} unsent", n(t.scheduled), n(t.sent), n(t.unsent));
        let sent = format!(
            "{} sent = {} completed + {} failed + {} cancelled + {} lost",
            n(t.sent),
            n(t.completed),
            n(t.failed),
            n(t.cancelled),
            n(t.lost)
        );
        self.out.push('\n');
        if scheduled.len() + sent.len() + 2 <= self.width {
            self.line(Tone::Plain, &format!("{scheduled}; {sent}"));
        } else {
            self.line(Tone::Plain, &format!("{scheduled};"));
            self.line(Tone::Plain, &sent);
        }
    }

    fn footer(&mut self, report: &Report<'_>) {
        self.out.push('\n');
        self.labelled("CLI Command", &for_terminal(report.cli_command, WHOLE), Tone::Path, "");
        if let Some(seconds) = report.summary.avg("benchmark_duration") {
            let early = if report.was_cancelled { " (cancelled early)" } else { "" };
            self.labelled("Benchmark Duration", &format!("{seconds:.2} sec"), Tone::Plain, early);
        }
        for file in report.files {
            self.labelled(file.label, &for_terminal(file.path, WHOLE), Tone::Path, "");
        }
    }

    /// `Label: text`, not wrapped: paths and commands are copied from here.
    fn labelled(&mut self, label: &str, text: &str, tone: Tone, after: &str) {
        self.paint.put(&mut self.out, Tone::Label, &format!("{label}:"));
        self.out.push(' ');
        self.paint.put(&mut self.out, tone, text);
        self.paint.put(&mut self.out, Tone::Note, after);
        self.out.push('\n');
    }

    fn line(&mut self, tone: Tone, text: &str) {
        for line in wrap(text, self.width) {
            self.paint.put(&mut self.out, tone, &line);
            self.out.push('\n');
        }
    }
}

/// Where failures of a group broke.
fn stages(group: &ErrorGroup) -> String {
    match group.stages.as_slice() {
        [(stage, _)] => stage.words().to_owned(),
        several => several
            .iter()
            .map(|(stage, n)| format!("{}: {}", stage.words(), count(*n)))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// Steps by how many draft tokens they accepted, the first few.
fn acceptance(histogram: &[u64]) -> Option<String> {
    const PLACES: usize = 8;
    let seen = || histogram.iter().enumerate().filter(|(_, steps)| **steps > 0);
    let pairs: Vec<String> = seen().take(PLACES).map(|(j, steps)| format!("{j}:{}", count(*steps))).collect();
    let more = if seen().count() > PLACES { " …" } else { "" };
    (!pairs.is_empty()).then(|| format!("Accepted draft tokens (accepted:steps): {}{more}", pairs.join(" ")))
}

/// The table, and whether a p99 in it is marked for having too few values behind it.
fn metric_table(title: String, rows: &[&Row], uncertainty: Option<&Uncertainty>) -> (Table, bool) {
    let name = Column { head: "Metric", right: true, wraps_to: Some(20), expendable: 0 };
    let stats = COLUMNS.map(|(head, expendable)| Column { head, right: true, wraps_to: None, expendable });
    let mut is_marked = false;
    let rows = rows.iter().map(|row| {
        let spec = row.spec;
        let gap = if spec.header.chars().count() > LABEL { '\n' } else { ' ' };
        let label = Cell::new(format!("{}{gap}({})", spec.header, spec.display.name()), Tone::Name);
        let mut cell = |(stat, _): (&str, u8)| match row.stats.get(stat) {
            Some(value) if stat == "p99" && analysis::has_few(row, uncertainty) => {
                is_marked = true;
                Cell::new(number(value) + "*", Tone::Number)
            }
            Some(value) => Cell::new(number(value), Tone::Number),
            None => Cell::new("N/A", Tone::Absent),
        };
        std::iter::once(label).chain(COLUMNS.map(&mut cell)).collect()
    });
    let rows = rows.collect();
    (Table { title, columns: std::iter::once(name).chain(stats).collect(), rows }, is_marked)
}

/// `1,234.56`.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "00"));
    format!("{sign}{}.{fraction}", grouped(whole))
}

/// `1,234`.
pub(crate) fn count(value: u64) -> String {
    grouped(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::EXPORT_WIDTH;
    use crate::sample::Sample;
    use unicode_width::UnicodeWidthStr;

    /// Trailing spaces would not survive an editor.
    fn trimmed(text: &str) -> String {
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_page_in_a_file() {
        insta::assert_snapshot!(trimmed(&render(&Sample::new().report(), EXPORT_WIDTH, false)));
    }

    #[test]
    fn the_page_on_a_screen_of_80_columns() {
        insta::assert_snapshot!(trimmed(&render(&Sample::new().report(), 80, false)));
    }

    #[test]
    fn the_page_in_colour() {
        let text = render(&Sample::new().report(), 120, true);
        insta::assert_snapshot!(trimmed(&text).replace('\u{1b}', "␛"));
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let sample = Sample::new();
        let mut bare = String::new();
        let colour = render(&sample.report(), 100, true);
        let mut rest = colour.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            bare.push_str(before);
            rest = after.split_once('m').expect("every sequence ends").1;
        }
        bare.push_str(rest);
        assert_eq!(bare, render(&sample.report(), 100, false));
    }

    #[test]
    fn no_table_is_wider_than_the_screen() {
        let sample = Sample::new();
        for width in 30..150 {
            let page = render(&sample.report(), width, false);
            for line in page
                .lines()
                .filter(|l| !l.starts_with("CLI") && !l.contains("Export") && !l.starts_with("Log"))
            {
                assert!(line.width() <= width, "{width}: {line}");
            }
            assert!(page.contains("avg") && page.contains("Message"));
        }
    }

    #[test]
    fn server_text_cannot_drive_the_terminal() {
        let page = render(&Sample::new().report(), 140, false);
        assert!(page.contains("busy") && !page.contains('\u{1b}'));
    }

    #[test]
    fn the_outcome_adds_up_in_one_line() {
        let line =
            "7 scheduled = 6 sent + 1 unsent; 6 sent = 3 completed + 1 failed + 1 cancelled + 1 lost\n";
        assert!(render(&Sample::new().report(), EXPORT_WIDTH, false).contains(line));
    }

    #[test]
    fn numbers_have_thousands_and_two_decimals() {
        assert_eq!(
            [0.0, 999.994, 1234.567, -1_234_567.0, 0.005].map(number),
            ["0.00", "999.99", "1,234.57", "-1,234,567.00", "0.01"]
        );
        assert_eq!([0, 999, 1000, 1_000_000].map(count), ["0", "999", "1,000", "1,000,000"]);
    }
}
