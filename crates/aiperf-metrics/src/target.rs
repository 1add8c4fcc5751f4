//! What became of the requests to each of several servers.

use aiperf_core::outcome::Outcome;

use crate::column::IntColumn;
use crate::facts::Facts;
use crate::formulas;
use crate::spec::MetricSpec;
use crate::statistics::Distribution;
use crate::store::Disk;
use crate::summary::{Stats, Window};
use crate::table::find;

/// Collects one phase by server. Costs 8 bytes per completed request, exact percentiles included.
#[derive(Debug, Clone)]
pub struct TargetRecorder {
    targets: Vec<Target>,
}

#[derive(Debug, Clone, Default)]
struct Target {
    completed: u64,
    failed: u64,
    cancelled: u64,
    time_to_first_token: IntColumn,
    request_latency: IntColumn,
}

/// One server's part of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TargetSummary {
    /// Whole answers with content.
    pub completed: u64,
    /// No such answer.
    pub failed: u64,
    /// Dropped by us on purpose.
    pub cancelled: u64,
    /// Completed requests ÷ phase window, requests a second; absent when the window is empty.
    pub request_throughput: Option<f64>,
    /// `time_to_first_token` of its completed requests, display unit; of streams alone.
    pub time_to_first_token: Option<Stats>,
    /// `request_latency` of its completed requests, display unit.
    pub request_latency: Option<Stats>,
}

impl TargetSummary {
    /// Requests whose end is known.
    pub const fn requests(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }
}

impl TargetRecorder {
    /// An empty one for so many servers.
    pub fn new(targets: usize) -> Self {
        Self { targets: vec![Target::default(); targets] }
    }

    /// The same, still empty, whose columns go to `disk` when they grow long. Recorders that are merged share one.
    #[must_use]
    pub fn on(mut self, disk: &Disk) -> Self {
        for target in &mut self.targets {
            target.time_to_first_token = IntColumn::on(Some(disk));
            target.request_latency = IntColumn::on(Some(disk));
        }
        self
    }

    /// Takes in a request that went to server `target`, a position in the plan's list. Lost and unsent requests went nowhere.
    pub fn record(&mut self, target: usize, facts: &Facts, is_streaming: bool) {
        let Some(target) = self.targets.get_mut(target) else { return };
        match facts.outcome {
            Outcome::Completed => target.completed += 1,
            Outcome::Failed => target.failed += 1,
            Outcome::Cancelled => target.cancelled += 1,
            Outcome::Lost | Outcome::Unsent => {}
        }
        if facts.outcome == Outcome::Completed {
            if let Some(ns) = formulas::time_to_first_token(facts).filter(|_| is_streaming) {
                target.time_to_first_token.push(ns);
            }
            if let Some(ns) = formulas::request_latency(facts) {
                target.request_latency.push(ns);
            }
        }
    }

    /// Takes in what another phase collected.
    pub fn merge(&mut self, other: Self) {
        for (ours, theirs) in self.targets.iter_mut().zip(other.targets) {
            ours.completed += theirs.completed;
            ours.failed += theirs.failed;
            ours.cancelled += theirs.cancelled;
            ours.time_to_first_token.append(theirs.time_to_first_token);
            ours.request_latency.append(theirs.request_latency);
        }
    }

    /// Statistics, one for each server in the plan's order.
    pub fn summarise(&self, window: Window) -> Vec<TargetSummary> {
        let seconds = Some(window.duration_ns() as f64 * 1e-9).filter(|s| *s > 0.0);
        self.targets
            .iter()
            .map(|target| TargetSummary {
                completed: target.completed,
                failed: target.failed,
                cancelled: target.cancelled,
                request_throughput: seconds.map(|s| target.completed as f64 / s),
                time_to_first_token: stats("time_to_first_token", target.time_to_first_token.distribution()),
                request_latency: stats("request_latency", target.request_latency.distribution()),
            })
            .collect()
    }
}

/// As the summary has it: in the display unit of the metric.
fn stats(tag: &str, values: Option<Distribution>) -> Option<Stats> {
    let spec: &MetricSpec = find(tag)?;
    let values = values.map(|v| spec.factor().map_or(v, |f| v.scaled(f)))?;
    Some(Stats::Distribution { unit: spec.display, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ChunkFact, WireFacts};

    /// Content at 10 and `last` ms behind the start.
    fn request(outcome: Outcome, last: u64) -> Facts {
        let at = |ms: u64| ChunkFact { at_ns: 1_000_000_000 + ms * 1_000_000, answer: true };
        Facts {
            outcome,
            start_ns: 1_000_000_000,
            end_ns: 3_000_000_000,
            scheduled_ns: None,
            chunks: vec![at(10), at(last)],
            isl: None,
            asked_isl: None,
            output_tokens: None,
            reasoning_tokens: None,
            requested_osl: None,
            usage: None,
            wire: WireFacts::default(),
            ..Facts::default()
        }
    }

    #[test]
    fn each_server_has_its_own_numbers() {
        let mut first = TargetRecorder::new(3);
        first.record(0, &request(Outcome::Completed, 100), true);
        first.record(1, &request(Outcome::Failed, 100), true);
        first.record(1, &request(Outcome::Cancelled, 100), true);
        let mut second = TargetRecorder::new(3);
        second.record(0, &request(Outcome::Completed, 300), true);
        second.record(1, &request(Outcome::Completed, 50), true);
        second.record(9, &request(Outcome::Completed, 50), true);
        first.merge(second);
        let all = first.summarise(Window::new(0, 4_000_000_000));
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].completed, all[0].request_throughput), (2, Some(0.5)));
        let of = |stats: &Option<Stats>, name| stats.as_ref().and_then(|s| s.get(name));
        assert_eq!(of(&all[0].request_latency, "avg"), Some(200.0));
        assert_eq!(of(&all[0].request_latency, "p50"), Some(200.0));
        assert_eq!(of(&all[0].time_to_first_token, "max"), Some(10.0));
        assert_eq!((all[1].completed, all[1].failed, all[1].cancelled, all[1].requests()), (1, 1, 1, 3));
        assert_eq!(all[2], TargetSummary { request_throughput: Some(0.0), ..TargetSummary::default() });
    }

    #[test]
    fn columns_on_disk_give_the_same() {
        let disk = Disk::new(tempfile::tempfile).sized(2, 3);
        let mut recorders = [TargetRecorder::new(1), TargetRecorder::new(1).on(&disk)];
        for recorder in &mut recorders {
            for last in 20..60 {
                recorder.record(0, &request(Outcome::Completed, last), true);
            }
        }
        let [memory, disk] = recorders.map(|r| r.summarise(Window::new(0, 1)));
        assert_eq!(memory, disk);
    }

    #[test]
    fn whole_bodies_have_no_first_token() {
        let mut targets = TargetRecorder::new(1);
        targets.record(0, &request(Outcome::Completed, 100), false);
        let all = targets.summarise(Window::default());
        assert_eq!((all[0].time_to_first_token, all[0].request_throughput), (None, None));
        assert!(all[0].request_latency.is_some());
    }
}
