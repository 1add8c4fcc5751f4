//! An analysis as text, with AIPerf's head and table, and as JSON, with AIPerf's keys in front.

use std::fmt::Write as _;

use aiperf_core::text::{for_terminal, grouped};
use serde_json::{Value, json};

use crate::analyze::Analysis;
use crate::counts::Stats;
use crate::findings::{Finding, Severity};

const COLUMNS: [&str; 8] = ["Metric", "Mean", "Std Dev", "Min", "P25", "Median", "P75", "Max"];
/// Characters of a line of words.
const WIDTH: usize = 100;
/// Most characters of a finding's example.
const EXAMPLE: usize = 400;

impl Analysis {
    /// AIPerf's keys and values, and behind them ours: `block_size`, `prefix_cache_hit_rate`, `conversations`, `schedule`, `findings`.
    pub fn json(&self) -> Value {
        let edge = |stats: &Option<Stats>, of: fn(&Stats) -> f64| stats.as_ref().map_or(0.0, of);
        let (least, most, mean) = (|s: &Stats| s.min, |s: &Stats| s.max, |s: &Stats| s.mean);
        let schedule = self.schedule.map(|s| {
            json!({"rows": s.rows, "first_ms": s.first_ms, "last_ms": s.last_ms, "requests_per_second": s.rate()})
        });
        json!({
            "total_requests": self.total_requests,
            "unique_prefixes": self.unique_prefixes,
            "num_prefix_groups": self.num_prefix_groups,
            "cache_hit_rate": self.cache_hit_rate,
            "min_isl": edge(&self.isl, least) as u64,
            "max_isl": edge(&self.isl, most) as u64,
            "avg_isl": edge(&self.isl, mean),
            "min_osl": edge(&self.osl, least) as u64,
            "max_osl": edge(&self.osl, most) as u64,
            "avg_osl": edge(&self.osl, mean),
            "prefix_reuse_ratio": self.prefix_reuse_ratio,
            "isl_stats": self.isl,
            "osl_stats": self.osl,
            "context_length_stats": self.context_length,
            "unique_prompt_length_stats": self.unique_prompt_length,
            "hit_rate_stats": self.hit_rate,
            "block_size": self.block_size,
            "prefix_cache_hit_rate": self.prefix_cache_hit_rate,
            "conversations": self.conversations,
            "schedule": schedule,
            "findings": self.findings.list().iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }

    /// For a screen.
    pub fn text(&self) -> String {
        let mut out = String::from("\nTrace Analysis Report\n");
        // Writing to a String cannot fail.
        let _ = writeln!(out, "Total requests:   {}", grouped(self.total_requests));
        let _ = writeln!(out, "Unique prefixes:  {}", grouped(self.unique_prefixes));
        let _ = writeln!(out, "Prefix groups:    {}", grouped(self.num_prefix_groups));
        let _ = writeln!(out, "Conversations:    {}", grouped(self.conversations));
        if let Some(rate) = self.prefix_cache_hit_rate {
            let _ = writeln!(out, "Prefix cache:     {:.2} % of all blocks can be hits", rate * 100.0);
        }
        if let Some(schedule) = self.schedule {
            let _ = write!(
                out,
                "Schedule:         {} to {} ms",
                grouped(format!("{:.0}", schedule.first_ms)),
                grouped(format!("{:.0}", schedule.last_ms))
            );
            if let Some(rate) = schedule.rate() {
                let _ = write!(out, ", {rate:.2} requests/s");
            }
            out.push('\n');
        }
        out.push('\n');
        self.table(&mut out);
        out.push('\n');
        self.told(&mut out);
        out
    }

    fn table(&self, out: &mut String) {
        let rows = [
            ("Input Length", &self.isl),
            ("Context Length", &self.context_length),
            ("Unique Prompt Length", &self.unique_prompt_length),
            ("Output Length", &self.osl),
            ("Theoretical Hit Rates", &self.hit_rate),
        ];
        let number = |value: f64| {
            let text = format!("{value:.2}");
            let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
            format!("{}.{part}", grouped(whole))
        };
        let cells: Vec<[String; 8]> = rows
            .iter()
            .map(|(name, stats)| match stats {
                None => std::array::from_fn(|i| if i == 0 { (*name).to_owned() } else { "N/A".to_owned() }),
                Some(s) => [
                    (*name).to_owned(),
                    number(s.mean),
                    number(s.std_dev),
                    number(s.min),
                    number(s.p25),
                    number(s.median),
                    number(s.p75),
                    number(s.max),
                ],
            })
            .collect();
        let widths: [usize; 8] = std::array::from_fn(|i| {
            cells.iter().map(|row| row[i].len()).chain([COLUMNS[i].len()]).max().unwrap_or(0)
        });
        let rule = |left, middle, right, line: &str| {
            let parts: Vec<String> = widths.iter().map(|w| line.repeat(w + 2)).collect();
            format!("{left}{}{right}\n", parts.join(middle))
        };
        let row = |cells: &[&str], bar: &str| {
            let parts: Vec<String> = cells.iter().zip(widths).map(|(c, w)| format!(" {c:>w$} ")).collect();
            format!("{bar}{}{bar}\n", parts.join(bar))
        };
        let wide = widths.iter().map(|w| w + 3).sum::<usize>() + 1;
        let title = "Trace Statistics";
        out.push_str(&" ".repeat((wide - title.len()) / 2));
        out.push_str(title);
        out.push('\n');
        out.push_str(&rule("┏", "┳", "┓", "━"));
        out.push_str(&row(&COLUMNS, "┃"));
        out.push_str(&rule("┡", "╇", "┩", "━"));
        for cells in &cells {
            out.push_str(&row(&cells.each_ref().map(String::as_str), "│"));
        }
        out.push_str(&rule("└", "┴", "┘", "─"));
    }

    fn told(&self, out: &mut String) {
        let list = self.findings.list();
        if list.is_empty() {
            out.push_str("Findings: none; a replay sends what the trace says.\n");
            return;
        }
        let count = |severity| list.iter().filter(|f| f.kind.severity() == severity).count();
        let of = |severity, words: &str| match count(severity) {
            0 => None,
            n => Some(format!("{n} {words}")),
        };
        let parts: Vec<String> = [
            of(Severity::Refused, "that a replay refuses"),
            of(Severity::Wrong, "that make it wrong"),
            of(Severity::Note, "to know of"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let _ = writeln!(out, "Findings: {}", parts.join(", "));
        for finding in &list {
            let kind = finding.kind;
            let lines: Vec<String> = finding.lines.iter().map(u64::to_string).collect();
            let more = if finding.count > finding.lines.len() as u64 { ", …" } else { "" };
            let plural = if lines.len() == 1 && more.is_empty() { "line" } else { "lines" };
            let _ = writeln!(
                out,
                "\n  [{}] {}: {} ({plural} {}{more})",
                kind.severity().name(),
                kind.what(),
                grouped(finding.count),
                lines.join(", ")
            );
            if !finding.example.is_empty() {
                folded(out, "found", &for_terminal(&finding.example, EXAMPLE));
            }
            folded(out, "means", kind.meaning());
            folded(out, "do", kind.advice());
        }
    }
}

/// Words behind a label, over as many lines as they need.
fn folded(out: &mut String, label: &str, words: &str) {
    let mut line = format!("    {label:<6}");
    let indent = line.len();
    for word in words.split_whitespace() {
        if line.trim_end().len() > indent && line.chars().count() + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
        }
        line.push_str(word);
        line.push(' ');
    }
    out.push_str(line.trim_end());
    out.push('\n');
}
