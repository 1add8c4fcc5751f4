//! Everything a finished run says of itself.

use aiperf_core::rows::RowFacts;
use aiperf_core::time::ClockAnchor;
use aiperf_metrics::{Analysis, ErrorGroup, Health, Summary};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::lengths::InputLengths;
use crate::load::TargetResult;
use crate::network::NetworkLatency;

/// One line of the console's footer: a file that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLine<'a> {
    /// `JSON Export`, `CSV Export`, `Log File` …
    pub label: &'a str,
    /// Where it is.
    pub path: &'a str,
}

/// A finished run. Borrowed: the report adds nothing to it and keeps nothing of it.
#[derive(Debug, Clone)]
pub struct Report<'a> {
    /// Our version, written as `aiperf_version`.
    pub version: &'a str,
    /// Identity of the run, 12 hexadecimal digits.
    pub benchmark_id: &'a str,
    /// The profiling phases together, or a single phase.
    pub summary: &'a Summary,
    /// `summary` is that of a single warm-up phase.
    pub is_warmup: bool,
    /// The warm-up phases together, when there was one.
    pub warmup: Option<&'a Summary>,
    /// Failures and cancellations of the profiling phases, grouped.
    pub errors: &'a [ErrorGroup],
    /// What the user set, secrets redacted.
    pub input_config: &'a Value,
    /// Where a public data set comes from.
    pub source: Option<&'a Value>,
    /// Seed of the run.
    pub seed: u64,
    /// The command line, secrets redacted.
    pub cli_command: &'a str,
    /// The user ended the run before its plan did.
    pub was_cancelled: bool,
    /// Why results are incomplete; `None` when they are complete.
    pub incomplete_reason: Option<&'a str>,
    /// Turns stamps into wall-clock times.
    pub anchor: ClockAnchor,
    /// Zone of the times written.
    pub zone: TimeZone,
    /// Name of the main table, from the endpoint: `LLM Metrics`.
    pub title: &'a str,
    /// Whether the console has the table of what HTTP took.
    pub show_trace_timing: bool,
    /// Whether the requests asked the server to reach the output length (`ignore_eos` or `min_tokens`).
    pub length_forced: bool,
    /// Input lengths asked for, sent and counted.
    pub lengths: Option<InputLengths<'a>>,
    /// What the load tells of itself; `None` when nobody looked.
    pub load: Option<&'a Health>,
    /// Results of each server; with fewer than two there is nothing to tell apart.
    pub targets: &'a [TargetResult],
    /// Round trips to the servers, where somebody measured or said how long they take.
    pub network: Option<&'a NetworkLatency>,
    /// What became of the rows of a file of prompts, where that is not simply all of them.
    pub rows: Option<&'a RowFacts>,
    /// How far results may be off, the steady part of the run, results by group; `None` when nobody looked.
    pub analysis: Option<&'a Analysis>,
    /// Further hints for the console, one sentence each.
    pub notes: &'a [String],
    /// Files written, for the footer.
    pub files: &'a [FileLine<'a>],
}

impl Report<'_> {
    /// Input lengths, when there is something to tell of them.
    pub(crate) fn lengths(&self) -> Option<&InputLengths<'_>> {
        self.lengths.as_ref().filter(|lengths| !lengths.is_empty())
    }

    /// Results by server, when there are several.
    pub(crate) fn targets(&self) -> Option<&[TargetResult]> {
        Some(self.targets).filter(|targets| targets.len() > 1)
    }

    /// Names of the fields that the user lays over every body.
    pub(crate) fn extra_fields(&self) -> Vec<&str> {
        let extra = self.input_config.pointer("/endpoint/extra").and_then(Value::as_object);
        extra.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
    }

    /// What was measured, if that is what this report is of.
    pub(crate) fn profiling(&self) -> Option<&Summary> {
        (!self.is_warmup).then_some(self.summary)
    }

    /// What was a warm-up.
    pub(crate) fn warming(&self) -> Option<&Summary> {
        if self.is_warmup { Some(self.summary) } else { self.warmup }
    }

    /// Start and end of the profiling phase as zoned times.
    pub(crate) fn times(&self) -> (jiff::ZonedDateTime, jiff::ZonedDateTime) {
        let window = self.summary.window;
        (self.zoned(window.start_ns), self.zoned(window.end_ns.max(window.start_ns)))
    }

    fn zoned(&self, mono_ns: u64) -> jiff::ZonedDateTime {
        let wall = i128::from(self.anchor.wall(mono_ns));
        // A u64 of nanoseconds ends in the year 2554, inside what a timestamp holds.
        Timestamp::from_nanosecond(wall).unwrap_or(Timestamp::MAX).to_zoned_datetime(self.zone.clone())
    }
}
