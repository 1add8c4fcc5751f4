//! The latencies of some of the requests of a run: of a group, of a window.

use crate::column::{IntColumn, RealColumn};
use crate::intervals::pace;
use crate::rows::RequestRow;
use crate::statistics::Distribution;
use crate::store::Disk;
use crate::summary::Stats;
use crate::table::find;

/// Tags of the latencies that are told of some of the requests of a run.
pub const LATENCIES: [&str; 3] = ["request_latency", "time_to_first_token", "inter_token_latency"];

/// Columns of [`LATENCIES`], of which only streams have the last two.
#[derive(Debug)]
pub(crate) struct Latencies {
    latency: IntColumn,
    first: IntColumn,
    pace: RealColumn,
}

impl Latencies {
    pub(crate) fn on(disk: Option<&Disk>) -> Self {
        Self { latency: IntColumn::on(disk), first: IntColumn::on(disk), pace: RealColumn::on(disk) }
    }

    /// Takes in a completed request.
    pub(crate) fn add(&mut self, row: &RequestRow) {
        for (column, at) in [(&mut self.latency, row.last_ns), (&mut self.first, row.first_ns)] {
            if let Some(ns) = at.and_then(|at| at.checked_sub(row.start_ns)) {
                column.push(ns);
            }
        }
        if let Some(ns) = pace(row) {
            self.pace.push(ns);
        }
    }

    /// Their statistics by tag, as the summary has them.
    pub(crate) fn stats(&self, is_streaming: bool) -> Vec<(&'static str, Stats)> {
        let first = self.first.distribution().filter(|_| is_streaming);
        let pace = self.pace.distribution().filter(|_| is_streaming);
        LATENCIES
            .into_iter()
            .zip([self.latency.distribution(), first, pace])
            .filter_map(|(tag, values)| Some((tag, stats(tag, values?)?)))
            .collect()
    }
}

/// In the display unit of the metric.
pub(crate) fn stats(tag: &str, values: Distribution) -> Option<Stats> {
    let spec = find(tag)?;
    let values = spec.factor().map_or(values, |f| values.scaled(f));
    Some(Stats::Distribution { unit: spec.display, values })
}
