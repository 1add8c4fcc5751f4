//! What became of the rows of a file, to be told.

use std::path::Path;

use crate::error::DataError;
use crate::workload::{RowFacts, plural};

/// Pauses that are longer are told, if nothing limits them.
const LONG_NS: u64 = 60_000_000_000;

/// Rows that cannot be sent: the first one is the end, or each is left out and counted.
#[derive(Debug)]
pub(super) struct BadRows {
    skips: bool,
    count: u64,
    first: Option<DataError>,
}

impl BadRows {
    pub(super) fn new(plan: aiperf_core::plan::BadRows) -> Self {
        Self { skips: plan == aiperf_core::plan::BadRows::Skip, count: 0, first: None }
    }

    /// Takes in what is wrong with a row.
    ///
    /// # Errors
    /// Gives it back if the file is to be refused.
    pub(super) fn push(&mut self, error: DataError) -> Result<(), DataError> {
        if !self.skips || !matches!(error, DataError::Row { .. }) {
            return Err(error);
        }
        self.count += 1;
        self.first.get_or_insert(error);
        Ok(())
    }

    /// Enters them into what is told.
    pub(super) fn enter(&self, facts: &mut RowFacts) {
        facts.broken += self.count;
        if facts.first_broken.is_none() {
            facts.first_broken = self.first.as_ref().map(ToString::to_string);
        }
    }

    /// Why no row of the file at `path` is left of `rows`.
    pub(super) fn nothing_left(self, path: &Path, rows: u64) -> DataError {
        match self.first {
            Some(first) => DataError::NoGoodRow { path: path.to_owned(), rows, first: Box::new(first) },
            None => DataError::EmptyFile { path: path.to_owned() },
        }
    }
}

/// The longest pause of a file that nothing limits.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LongPause {
    ns: u64,
    line: u64,
}

impl LongPause {
    pub(super) fn push(&mut self, ns: u64, line: u64) {
        if ns > self.ns {
            *self = Self { ns, line };
        }
    }

    fn note(self, path: &Path) -> Option<String> {
        (self.ns > LONG_NS).then(|| {
            format!(
                "{}: line {} waits {} s before its turn, and other rows may, too; --inter-turn-delay-cap-seconds limits such waits",
                path.display(),
                self.line,
                self.ns as f64 / 1e9
            )
        })
    }
}

/// One sentence for each thing that became of rows of the file at `path`.
pub(super) fn notes(facts: &RowFacts, long: LongPause, path: &Path) -> Vec<String> {
    let file = path.display();
    let rows = |n: u64| format!("{n} of {} {}", facts.read, plural(facts.read, "row"));
    let broken = facts.first_broken.as_ref().map(|first| {
        let are = if facts.broken == 1 { "is" } else { "are" };
        format!("{file}: {} {are} broken and left out; the first: {first}", rows(facts.broken))
    });
    let too_long = (facts.too_long > 0).then(|| {
        let are = if facts.too_long == 1 { "is" } else { "are" };
        format!("{file}: {} {are} longer than --synthesis-max-isl and left out", rows(facts.too_long))
    });
    let not_drawn = (facts.not_drawn > 0).then(|| {
        let are = if facts.not_drawn == 1 { "is of a session" } else { "are of sessions" };
        let left_out = "that --trace-session-sample-ratio leaves out";
        format!("{file}: {} {are} {left_out}", rows(facts.not_drawn))
    });
    let outside = (facts.outside > 0).then(|| {
        let (lie, are) = if facts.outside == 1 { ("lies", "is") } else { ("lie", "are") };
        format!("{file}: {} {lie} outside of the schedule's offsets and {are} left out", rows(facts.outside))
    });
    let outputs = (facts.capped_outputs > 0).then(|| {
        let n = facts.capped_outputs;
        format!("{file}: {n} output {} cut down to --synthesis-max-osl", plural(n, "length"))
    });
    let delays = (facts.capped_delays > 0).then(|| {
        let n = facts.capped_delays;
        format!("{file}: {n} {} cut down to --inter-turn-delay-cap-seconds", plural(n, "delay"))
    });
    let endless = (facts.endless_delays > 0).then(|| {
        let n = facts.endless_delays;
        let (are, count) = if n == 1 {
            ("is no number or endless", "counts")
        } else {
            ("are no numbers or endless", "count")
        };
        format!("{file}: {n} {} {are} and {count} as none", plural(n, "delay"))
    });
    let silences = (facts.cut_silences > 0).then(|| {
        let n = facts.cut_silences;
        format!(
            "{file}: {n} {} cut down to --max-idle-gap-cap-seconds, {} s in all",
            plural(n, "silence"),
            facts.cut_silence_ns as f64 / 1e9
        )
    });
    [broken, too_long, not_drawn, outside, outputs, delays, endless, silences, long.note(path)]
        .into_iter()
        .flatten()
        .collect()
}
