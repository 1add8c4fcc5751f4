//! What a phase tells beyond one number for each metric.

use aiperf_core::outcome::Outcome;

use super::Recorder;
use crate::breakdown::{self, Dimension, Names};
use crate::column::IntColumn;
use crate::derived::Cell;
use crate::intervals::{self, Uncertainty};
use crate::rows::RequestRow;
use crate::steady::{self, NotSteady, Steadiness};
use crate::summary::Window;
use crate::table::index_of;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// How far results may be off.
    pub uncertainty: Uncertainty,
    /// The part in which the run had settled.
    pub steadiness: Steadiness,
    /// Results by turn, model, server, finish reason and cache hit.
    pub breakdown: Vec<Dimension>,
}

/// From the first request sent to the last end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) completed: u64,
}

impl Recorder {
    /// Uncertainty, steady state and results by group. Random draws are keyed by `seed`; nothing depends on the order of requests. `None`
    /// without a request, and when rows cannot be read back.
    pub fn analyse(&self, window: Window, names: Names<'_>, seed: u64) -> Option<Analysis> {
        let extent = self.extent()?;
        let is_streaming = self.has("time_to_first_token");
        let mut uncertainty = intervals::Gatherer::new(extent.start_ns, extent.end_ns);
        let mut finder = steady::Finder::new(extent.start_ns, extent.end_ns, extent.completed);
        self.rows.iter().for_each(|row| finder.add(&row));
        let found = if window.pooled_ns().is_some() { Err(NotSteady::SeveralPhases) } else { finder.find() };
        let mut settled = found.map(|found| steady::Gatherer::new(&finder, found, self.disk.as_ref()));
        let is_whole = self.walk(|row, chunks| {
            uncertainty.add(row, chunks);
            if let Ok(settled) = &mut settled {
                settled.add(row, chunks);
            }
        });
        let steadiness = match settled {
            _ if !is_whole => Steadiness::No(NotSteady::Unreadable),
            Ok(settled) => Steadiness::Steady(Box::new(settled.finish(is_streaming))),
            Err(reason) => Steadiness::No(reason),
        };
        let uncertainty =
            if is_whole { uncertainty.finish(self, window, seed) } else { Uncertainty::default() };
        let breakdown = breakdown::breakdown(&self.rows, names, is_streaming, self.disk.as_ref());
        self.rows.is_readable().then_some(Analysis { uncertainty, steadiness, breakdown })
    }

    /// Whether a metric is part of this run.
    pub(crate) fn has(&self, tag: &str) -> bool {
        index_of(tag).is_some_and(|at| !matches!(self.cells[at], Cell::Off))
    }

    /// Values of a record metric at ascending ranks, in its stored unit.
    pub(crate) fn at_ranks(&self, tag: &str, ranks: &[usize]) -> Option<Vec<f64>> {
        match self.cells.get(index_of(tag)?)? {
            Cell::Int(column) => column.sorted_at(ranks),
            Cell::Real(column) => column.sorted_at(ranks),
            _ => None,
        }
    }

    pub(super) fn extent(&self) -> Option<Extent> {
        let mut found: Option<Extent> = None;
        for row in self.rows.iter() {
            let first = Extent { start_ns: row.start_ns, end_ns: row.start_ns, completed: 0 };
            let extent = found.get_or_insert(first);
            extent.start_ns = extent.start_ns.min(row.start_ns);
            extent.end_ns = extent.end_ns.max(row.end_ns).max(row.start_ns);
            extent.completed += u64::from(row.outcome == Outcome::Completed);
        }
        found.filter(|_| self.rows.is_readable())
    }

    /// Gives every row with the stamps of its content chunks, which a completed request alone has: where gaps are not kept, of the last one.
    /// Returns whether all stamps were to be had.
    pub(super) fn walk(&self, mut each: impl FnMut(&RequestRow, &[u64])) -> bool {
        let gaps = match index_of("inter_chunk_latency").map(|at| &self.cells[at]) {
            Some(Cell::Int(column)) => Some(column),
            _ => None,
        };
        let mut left = gaps.map(IntColumn::iter);
        let mut chunks = Vec::new();
        let mut is_whole = true;
        for row in self.rows.iter() {
            chunks.clear();
            if let (Outcome::Completed, Some(first), Some(last)) = (row.outcome, row.first_ns, row.last_ns) {
                match &mut left {
                    Some(left) if row.chunks > 1 => {
                        chunks.push(first);
                        let mut at_ns = first;
                        for gap in left.take(row.chunks as usize - 1) {
                            at_ns += gap;
                            chunks.push(at_ns);
                        }
                        // What is out of step would put tokens where they were not.
                        is_whole &= at_ns == last;
                    }
                    _ => chunks.push(last),
                }
            }
            each(&row, &chunks);
        }
        is_whole && self.rows.is_readable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Capabilities, ChunkFact, Facts};
    use crate::store::Disk;
    use aiperf_core::time::ClockAnchor;
    use aiperf_rng::Key;

    const ALL: Capabilities = Capabilities {
        streaming: true,
        produces_tokens: true,
        tokenizes_input: true,
        reasoning: false,
        compares_usage: true,
    };
    const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 0 };
    const MS: u64 = 1_000_000;

    /// Starts at `start_ms`, has its first content `ttft_ns` later and three more chunks at gaps of 1, 2 and 3 ms.
    fn request(outcome: Outcome, start_ms: u64, ttft_ns: u64) -> Facts {
        let start_ns = start_ms * MS;
        let first = start_ns + ttft_ns;
        let at = |ms: u64| ChunkFact { at_ns: first + ms * MS, answer: true };
        Facts {
            outcome,
            start_ns,
            end_ns: first + 7 * MS,
            chunks: vec![at(0), at(1), at(3), at(6)],
            isl: Some(20),
            output_tokens: Some(4),
            ..Facts::default()
        }
    }

    /// One request every 10 ms, whose time to first token is exponential around 5 ms.
    fn run(seed: u64, n: u64, disk: Option<&Disk>) -> Recorder {
        let stream = Key::new(seed).purpose("test");
        let mut recorder = Recorder::new(ALL, ANCHOR);
        if let Some(disk) = disk {
            recorder = recorder.on(disk);
        }
        for i in 0..n {
            let ttft = -stream.at(i).unit_positive().ln() * 5e6;
            recorder.record(&request(Outcome::Completed, 10 * i, ttft as u64));
        }
        recorder
    }

    #[test]
    fn stamps_of_chunks_come_back_and_only_of_completed_requests() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Cancelled, Outcome::Completed] {
            recorder.record(&request(outcome, 100, 10 * MS));
        }
        let mut seen = Vec::new();
        assert!(recorder.walk(|_, chunks| seen.push(chunks.to_vec())));
        let whole: Vec<u64> = [110, 111, 113, 116].map(|ms| ms * MS).to_vec();
        assert_eq!(seen, [whole.clone(), vec![], vec![], whole]);
    }

    #[test]
    fn without_streaming_all_comes_with_the_last_chunk() {
        let mut recorder = Recorder::new(Capabilities { streaming: false, ..ALL }, ANCHOR);
        recorder.record(&request(Outcome::Completed, 100, 10 * MS));
        let mut seen = Vec::new();
        assert!(recorder.walk(|_, chunks| seen.extend_from_slice(chunks)));
        assert_eq!(seen, [116 * MS]);
    }

    /// Ninety-five of a hundred intervals hold the truth: of an exponential law with mean 5 ms, p50 is 5·ln 2 and p90 5·ln 10.
    #[test]
    fn intervals_hold_the_truth_as_often_as_promised() {
        let (mut of_mean, mut of_p50, mut of_p90) = (0, 0, 0);
        for seed in 0..1000 {
            let analysis = run(seed, 200, None)
                .analyse(Window::new(0, 2_000 * MS), Names::default(), seed)
                .expect("rows");
            let ttft = analysis.uncertainty.get("time_to_first_token").expect("measured");
            let holds = |interval: Option<intervals::Interval>, truth: f64| {
                let interval = interval.expect("enough");
                u32::from(interval.low <= truth && truth <= interval.high)
            };
            of_mean += holds(ttft.avg, 5.0);
            of_p50 += holds(ttft.quantiles[0].1, 5.0 * 2f64.ln());
            of_p90 += holds(ttft.quantiles[1].1, 5.0 * 10f64.ln());
        }
        for (name, held) in [("mean", of_mean), ("p50", of_p50), ("p90", of_p90)] {
            assert!((920..=985).contains(&held), "{name}: {held} of 1000");
        }
    }

    #[test]
    fn a_worked_run() {
        let recorder = run(1, 400, None);
        let window = Window::new(0, 4_000 * MS);
        let analysis = recorder.analyse(window, Names::default(), 1).expect("rows");
        let summary = recorder.summarise(window);
        let get = |tag: &str| analysis.uncertainty.get(tag).expect(tag);
        let ttft = get("time_to_first_token");
        assert_eq!(ttft.count, Some(400));
        assert!(ttft.independent.expect("enough") > 200, "{:?}", ttft.independent);
        assert_eq!(Some(ttft.quantiles[0].0), summary.get("time_to_first_token").and_then(|s| s.get("p50")));
        // 400 values can tell a p99 if they are as good as independent; a p99.9 takes 3,688.
        assert!(ttft.unsupported.contains(&"p99_9"));
        assert_eq!(get("inter_chunk_latency").count, Some(1200));
        assert_eq!(get("output_sequence_length").avg, Some(intervals::Interval { low: 4.0, high: 4.0 }));
        let throughput = get("request_throughput").avg.expect("enough");
        assert!(throughput.low < 100.0 && 100.0 < throughput.high + 1.0, "{throughput:?}");
        let Steadiness::Steady(steady) = &analysis.steadiness else { panic!("{:?}", analysis.steadiness) };
        assert!((steady.request_throughput - 100.0).abs() < 2.0, "{}", steady.request_throughput);
        assert!((steady.output_token_throughput.expect("counted") - 400.0).abs() < 8.0);
    }

    #[test]
    fn a_handful_of_requests_supports_nothing() {
        let analysis = run(1, 5, None).analyse(Window::new(0, 50 * MS), Names::default(), 1).expect("rows");
        let ttft = analysis.uncertainty.get("time_to_first_token").expect("measured");
        assert_eq!((ttft.avg, ttft.independent), (None, None));
        assert!(ttft.unsupported.contains(&"avg") && ttft.unsupported.contains(&"p50"));
        assert!(matches!(analysis.steadiness, Steadiness::No(NotSteady::TooShort { completed: 5, .. })));
        assert_eq!(Recorder::new(ALL, ANCHOR).analyse(Window::default(), Names::default(), 1), None);
    }

    #[test]
    fn columns_on_disk_and_the_order_of_requests_change_nothing() {
        let disk = Disk::new(tempfile::tempfile).sized(3, 5);
        let window = Window::new(0, 3_000 * MS);
        let expected = run(1, 300, None).analyse(window, Names::default(), 1);
        assert!(expected.is_some());
        assert_eq!(run(1, 300, Some(&disk)).analyse(window, Names::default(), 1), expected);
    }
}
