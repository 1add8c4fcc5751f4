//! Takes finished requests in, keeps their values, gives statistics out.

use aiperf_core::outcome::Outcome;
use aiperf_core::time::ClockAnchor;

use crate::column::{IntColumn, RealColumn};
use crate::derived::{Cell, Context};
use crate::facts::{Capabilities, Facts};
use crate::formulas;
use crate::rows::{RequestRow, RequestRows};
use crate::spec::{Compute, Flags, Fold, MetricSpec, Value};
use crate::store::Disk;
use crate::summary::{EarlyEnds, Row, Stats, Summary, Window};
use crate::table::METRICS;
use crate::tally::{Ledger, Tally};

/// Values of one request in the stored units, in table order.
#[derive(Debug, Clone, Default)]
pub struct RecordValues {
    values: Vec<(&'static MetricSpec, Value)>,
}

impl RecordValues {
    /// Metrics and values in table order, internal ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&'static MetricSpec, &Value)> {
        self.values.iter().map(|(spec, value)| (*spec, value))
    }

    /// Value of a metric by its tag.
    pub fn get(&self, tag: &str) -> Option<&Value> {
        self.values.iter().find(|(spec, _)| spec.tag == tag).map(|(_, value)| value)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Collects one phase. Several readers may each have their own and [`merge`](Self::merge) them.
#[derive(Debug, Clone)]
pub struct Recorder {
    anchor: ClockAnchor,
    cells: Vec<Cell>,
    disk: Option<Disk>,
    rows: RequestRows,
    ledger: Ledger,
    tally: Tally,
    early: EarlyEnds,
}

impl Recorder {
    /// An empty one with the metrics these capabilities allow; `anchor` turns stamps into wall-clock times.
    pub fn new(cap: Capabilities, anchor: ClockAnchor) -> Self {
        let cells = METRICS
            .iter()
            .map(|spec| match spec.compute {
                _ if !spec.applies(&cap) => Cell::Off,
                Compute::Record(_) => Cell::Int(IntColumn::default()),
                Compute::Aggregate(..) => Cell::Running(None),
                Compute::Derived(_) => Cell::Derived,
            })
            .collect();
        let (ledger, tally, early) = (Ledger::default(), Tally::default(), EarlyEnds::default());
        Self { anchor, cells, disk: None, rows: RequestRows::default(), ledger, tally, early }
    }

    /// The same, still empty, whose columns go to `disk` when they grow long. Recorders that are merged share one.
    #[must_use]
    pub fn on(mut self, disk: &Disk) -> Self {
        for cell in &mut self.cells {
            if let Cell::Int(column) = cell {
                *column = IntColumn::on(Some(disk));
            }
        }
        self.rows = RequestRows::on(Some(disk));
        self.disk = Some(disk.clone());
        self
    }

    /// Takes one request in and returns its values. Lost and unsent requests are tallied and have none.
    pub fn record(&mut self, facts: &Facts) -> RecordValues {
        let count = match facts.outcome {
            Outcome::Completed => &mut self.ledger.completed,
            Outcome::Failed => &mut self.ledger.failed,
            Outcome::Cancelled => &mut self.ledger.cancelled,
            Outcome::Lost => &mut self.ledger.lost,
            Outcome::Unsent => &mut self.ledger.unsent,
        };
        *count += 1;
        self.tally = self.ledger.tally();
        let errors = match facts.outcome {
            Outcome::Completed => false,
            Outcome::Failed | Outcome::Cancelled => true,
            Outcome::Lost | Outcome::Unsent => return RecordValues::default(),
        };
        self.rows.push(&RequestRow::of(facts));
        if let Some(early) = formulas::ended_early(facts).filter(|_| !errors) {
            self.early.compared += 1;
            self.early.early += u64::from(early);
        }
        let mut values = Vec::with_capacity(if errors { 1 } else { 32 });
        for (spec, cell) in METRICS.iter().zip(&mut self.cells) {
            let wanted = spec.flags.has(Flags::ERROR_ONLY) == errors || spec.flags.has(Flags::EVERY_OUTCOME);
            if matches!(cell, Cell::Off) || !wanted {
                continue;
            }
            match spec.compute {
                Compute::Record(rule) => {
                    if let Some(value) = rule(facts) {
                        keep(cell, &value, self.disk.as_ref());
                        values.push((spec, value));
                    }
                }
                Compute::Aggregate(fold, rule) => {
                    if let (Cell::Running(running), Some(value)) = (cell, rule(facts, &self.anchor)) {
                        *running = Some(folded(fold, *running, value));
                    }
                }
                Compute::Derived(_) => {}
            }
        }
        RecordValues { values }
    }

    /// What became of the requests so far.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Tells how many requests the schedule asked for. What is then neither unsent nor seen again counts as lost.
    pub fn set_scheduled(&mut self, requests: u64) {
        self.ledger.scheduled = Some(requests);
        self.tally = self.ledger.tally();
    }

    /// Tells how many requests were never sent, in place of what records said.
    pub fn set_unsent(&mut self, requests: u64) {
        self.ledger.unsent = requests;
        self.tally = self.ledger.tally();
    }

    /// Takes in what another reader of the same phase collected; its requests count as arrived after ours.
    pub fn merge(&mut self, other: Self) {
        self.ledger.merge(&other.ledger);
        self.tally = self.ledger.tally();
        self.rows.append(other.rows);
        self.early.compared += other.early.compared;
        self.early.early += other.early.early;
        for ((spec, ours), theirs) in METRICS.iter().zip(&mut self.cells).zip(other.cells) {
            match (ours, theirs) {
                (Cell::Int(ours), Cell::Int(theirs)) => ours.append(theirs),
                (Cell::Real(ours), Cell::Real(theirs)) => ours.append(theirs),
                // A record column starts as Int and turns Real at its first real value; the other one is empty then.
                (ours @ Cell::Int(_), theirs @ Cell::Real(_)) => *ours = theirs,
                (Cell::Running(ours), Cell::Running(Some(theirs))) => {
                    if let Compute::Aggregate(fold, _) = spec.compute {
                        *ours = Some(folded(fold, *ours, theirs));
                    }
                }
                _ => {}
            }
        }
    }

    /// Its requests that were sent, each as a whole, in the order in which they were recorded.
    pub const fn rows(&self) -> &RequestRows {
        &self.rows
    }

    /// Statistics of one record metric in its stored unit; `None` when it has no value.
    pub fn distribution(&self, tag: &str) -> Option<crate::Distribution> {
        match self.cells.get(crate::table::index_of(tag)?)? {
            Cell::Int(column) => column.distribution(),
            Cell::Real(column) => column.distribution(),
            _ => None,
        }
    }

    /// Bytes its columns hold in memory, as used.
    pub fn bytes(&self) -> usize {
        self.cells
            .iter()
            .map(|cell| match cell {
                Cell::Int(column) => column.bytes(),
                Cell::Real(column) => column.bytes(),
                _ => 0,
            })
            .sum::<usize>()
            + self.rows.bytes()
    }

    /// Statistics of everything taken in; rates are divided by `window`.
    pub fn summarise(&self, window: Window) -> Summary {
        let context = Context { cells: &self.cells, tally: self.tally, window };
        let rows = METRICS
            .iter()
            .zip(&self.cells)
            .filter_map(|(spec, cell)| {
                let factor = spec.factor();
                let unit = spec.display;
                let scalar = |value: f64| Stats::Scalar { unit, value: factor.map_or(value, |f| value * f) };
                let stats = match (cell, spec.compute) {
                    (Cell::Int(column), _) => distribution(unit, column.distribution()?, factor),
                    (Cell::Real(column), _) => distribution(unit, column.distribution()?, factor),
                    (Cell::Running(value), _) => scalar((*value)? as f64),
                    (Cell::Derived, Compute::Derived(rule)) => {
                        scalar(rule(&context).filter(|v| v.is_finite())?)
                    }
                    _ => return None,
                };
                Some(Row { spec, stats })
            })
            .collect();
        Summary { rows, tally: self.tally, window, early: self.early }
    }
}

fn distribution(unit: crate::Unit, values: crate::Distribution, factor: Option<f64>) -> Stats {
    Stats::Distribution { unit, values: factor.map_or(values, |f| values.scaled(f)) }
}

fn keep(cell: &mut Cell, value: &Value, disk: Option<&Disk>) {
    match (&mut *cell, value) {
        (Cell::Int(column), Value::Int(v)) => column.push(*v),
        (Cell::Int(column), Value::List(list)) => list.iter().for_each(|v| column.push(*v)),
        (Cell::Real(column), Value::Real(v)) => column.push(*v),
        (Cell::Int(column), Value::Real(v)) if column.is_empty() => {
            let mut real = RealColumn::on(disk);
            real.push(*v);
            *cell = Cell::Real(real);
        }
        // A rule gives one kind of value only; the table test proves it.
        _ => {}
    }
}

fn folded(fold: Fold, running: Option<u64>, value: u64) -> u64 {
    match (fold, running) {
        (_, None) => value,
        (Fold::Sum, Some(r)) => r + value,
        (Fold::Min, Some(r)) => r.min(value),
        (Fold::Max, Some(r)) => r.max(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{ChunkFact, WireFacts};
    use aiperf_core::usage::Usage;
    use proptest::prelude::*;

    const ALL: Capabilities = Capabilities {
        streaming: true,
        produces_tokens: true,
        tokenizes_input: true,
        reasoning: true,
        server_token_count: false,
    };
    const ANCHOR: ClockAnchor = ClockAnchor { mono_ns: 0, wall_ns: 1_700_000_000_000_000_000 };

    /// Starts at `start_ms`, `tokens` chunks of one token 10 ms apart.
    fn request(outcome: Outcome, start_ms: u64, tokens: u64) -> Facts {
        let start_ns = start_ms * 1_000_000;
        let chunks =
            (1..=tokens).map(|i| ChunkFact { at_ns: start_ns + i * 10_000_000, answer: true }).collect();
        let usage = Usage {
            prompt_tokens: Some(55),
            completion_tokens: Some(tokens),
            total_tokens: Some(55 + tokens),
            reasoning_tokens: None,
            cached_tokens: None,
        };
        Facts {
            outcome,
            start_ns,
            end_ns: start_ns + tokens * 10_000_000,
            scheduled_ns: None,
            chunks,
            isl: Some(50),
            asked_isl: Some(50),
            output_tokens: Some(tokens),
            reasoning_tokens: None,
            requested_osl: Some(10),
            usage: Some(usage),
            wire: WireFacts { dispatched_ns: Some(start_ns), ..WireFacts::default() },
            ..Facts::default()
        }
    }

    fn scalar(summary: &Summary, tag: &str) -> Option<f64> {
        match summary.get(tag)? {
            Stats::Scalar { value, .. } => Some(*value),
            Stats::Distribution { .. } => None,
        }
    }

    #[test]
    fn a_worked_run() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        recorder.record(&request(Outcome::Completed, 100, 10));
        recorder.record(&request(Outcome::Completed, 150, 5));
        recorder.record(&request(Outcome::Failed, 160, 3));
        recorder.record(&request(Outcome::Cancelled, 170, 0));
        recorder.set_scheduled(6);
        recorder.set_unsent(1);
        let summary = recorder.summarise(Window::new(0, 500_000_000));

        assert!(summary.tally.adds_up());
        assert_eq!((summary.tally.sent, summary.tally.lost), (5, 1));
        for (tag, expected) in [
            ("request_count", 2.0),
            ("error_request_count", 2.0),
            ("completed_request_count", 4.0),
            ("request_error_rate", 50.0),
            ("scheduled_request_count", 6.0),
            ("sent_request_count", 5.0),
            ("unsent_request_count", 1.0),
            ("cancelled_request_count", 1.0),
            ("lost_request_count", 1.0),
            ("total_isl", 100.0),
            ("total_osl", 15.0),
            ("total_output_tokens", 15.0),
            ("total_error_isl", 100.0),
            ("osl_mismatch_count", 1.0),
            ("usage_discrepancy_count", 0.0),
            ("total_usage_prompt_tokens", 110.0),
            ("total_usage_completion_tokens", 15.0),
            ("total_usage_total_tokens", 125.0),
            ("request_throughput", 4.0),
            ("output_token_throughput", 30.0),
            ("input_token_throughput", 200.0),
            ("total_token_throughput", 230.0),
            ("benchmark_duration", 0.1),
            ("min_request_timestamp", 1_700_000_000_100_000_000.0),
            ("max_response_timestamp", 1_700_000_000_200_000_000.0),
        ] {
            let value = scalar(&summary, tag).expect(tag);
            assert!((value - expected).abs() <= 1e-9 * expected, "{tag}: {value} is not {expected}");
        }
        for tag in [
            "total_reasoning_tokens",
            "total_usage_prompt_cache_read_tokens",
            "overall_usage_prompt_cache_read_pct",
        ] {
            assert!(summary.get(tag).is_none(), "{tag} was not measured");
        }
        let Some(Stats::Distribution { unit, values }) = summary.get("request_latency") else {
            panic!("request_latency is a distribution")
        };
        assert_eq!((unit.name(), values.count, values.max, values.min), ("ms", 2, 100.0, 50.0));
        assert_eq!(summary.get("inter_chunk_latency").and_then(|s| s.get("count")), Some(13.0));
        assert_eq!(summary.get("error_isl").and_then(|s| s.get("sum")), Some(100.0));
        assert_eq!(summary.early, EarlyEnds { compared: 2, early: 1 });
    }

    #[test]
    fn failed_requests_run_error_metrics_and_those_of_every_outcome() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        for outcome in [Outcome::Failed, Outcome::Cancelled] {
            let values = recorder.record(&request(outcome, 0, 5));
            assert_eq!(
                values.iter().map(|(spec, _)| spec.tag).collect::<Vec<_>>(),
                ["credit_to_start_latency", "effective_latency", "error_isl"]
            );
        }
        for outcome in [Outcome::Lost, Outcome::Unsent] {
            assert!(recorder.record(&request(outcome, 0, 5)).is_empty());
        }
        let completed = recorder.record(&request(Outcome::Completed, 0, 5));
        assert_eq!(completed.get("error_isl"), None);
        assert_eq!(completed.get("output_sequence_length"), Some(&Value::Int(5)));
        assert_eq!(completed.get("inter_chunk_latency"), Some(&Value::List(vec![10_000_000; 4])));
    }

    #[test]
    fn a_run_that_failed_whole_still_counts() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        recorder.record(&request(Outcome::Failed, 0, 0));
        let summary = recorder.summarise(Window::new(0, 1_000_000_000));
        assert_eq!(scalar(&summary, "request_count"), Some(0.0));
        assert_eq!(scalar(&summary, "request_throughput"), Some(0.0));
        assert_eq!(scalar(&summary, "request_error_rate"), Some(100.0));
        assert!(summary.get("benchmark_duration").is_none());
        assert!(summary.get("output_token_throughput").is_none());
    }

    #[test]
    fn nothing_at_all_is_no_rate_and_no_share() {
        let summary = Recorder::new(ALL, ANCHOR).summarise(Window::default());
        let tags: Vec<&str> = summary.rows.iter().map(|row| row.spec.tag).collect();
        assert_eq!(
            tags,
            [
                "scheduled_request_count",
                "sent_request_count",
                "unsent_request_count",
                "cancelled_request_count",
                "lost_request_count"
            ]
        );
    }

    #[test]
    fn without_a_window_rates_divide_by_the_duration() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        recorder.record(&request(Outcome::Completed, 0, 10));
        let summary = recorder.summarise(Window::default());
        assert!((scalar(&summary, "request_throughput").expect("a rate") - 10.0).abs() < 1e-9);
    }

    #[test]
    fn several_phases_are_one_with_the_time_of_all() {
        let mut first = Recorder::new(ALL, ANCHOR);
        first.record(&request(Outcome::Completed, 100, 10));
        let mut second = Recorder::new(ALL, ANCHOR);
        second.record(&request(Outcome::Completed, 5_000, 10));
        second.record(&request(Outcome::Failed, 5_100, 0));
        let phases = [Window::new(0, 500_000_000), Window::new(5_000_000_000, 6_500_000_000)];
        assert_eq!(second.distribution("request_latency").map(|d| (d.count, d.max)), Some((1, 1e8)));
        assert_eq!(second.distribution("request_count"), None, "no column");
        first.merge(second);
        let summary = first.summarise(Window::pooled(&phases));
        // Two answers, a failure, 20 tokens; 0.5 s + 1.5 s.
        for (tag, expected) in [
            ("request_count", 2.0),
            ("error_request_count", 1.0),
            ("request_throughput", 1.0),
            ("output_token_throughput", 10.0),
            ("benchmark_duration", 2.0),
        ] {
            let value = scalar(&summary, tag).expect(tag);
            assert!((value - expected).abs() <= 1e-9 * expected, "{tag}: {value} is not {expected}");
        }
    }

    #[test]
    fn capabilities_decide_what_exists() {
        let tags = |cap: Capabilities| -> Vec<&'static str> {
            let mut facts = request(Outcome::Completed, 0, 5);
            facts.scheduled_ns = Some(0);
            facts.reasoning_tokens = Some(1);
            Recorder::new(cap, ANCHOR).record(&facts).iter().map(|(spec, _)| spec.tag).collect()
        };
        assert!(tags(ALL).contains(&"time_to_first_output_token"));
        let plain = tags(Capabilities { streaming: false, reasoning: false, ..ALL });
        assert!(plain.contains(&"request_latency") && plain.contains(&"e2e_output_token_throughput"));
        assert!(plain.contains(&"scheduled_latency"));
        for tag in
            ["time_to_first_token", "inter_chunk_latency", "reasoning_token_count", "inter_token_latency"]
        {
            assert!(!plain.contains(&tag), "{tag}");
        }
        let server = tags(Capabilities { server_token_count: true, ..ALL });
        assert!(!server.iter().any(|tag| tag.starts_with("usage_") && tag.ends_with("_diff_pct")));
        let blind = tags(Capabilities { tokenizes_input: false, produces_tokens: false, ..ALL });
        assert!(!blind.iter().any(|tag| tag.contains("token") && !tag.contains("cache")), "{blind:?}");
    }

    #[test]
    fn memory_per_request_is_what_the_crate_says() {
        let mut recorder = Recorder::new(ALL, ANCHOR);
        let mut facts = request(Outcome::Completed, 0, 1);
        facts.scheduled_ns = Some(0);
        facts.wire = WireFacts {
            dispatched_ns: Some(0),
            send_start_ns: Some(0),
            headers_ns: Some(0),
            connecting_ns: Some(0),
            read_lag_ns: Some(0),
        };
        facts.usage = facts.usage.map(|u| Usage { reasoning_tokens: Some(1), cached_tokens: Some(1), ..u });
        recorder.record(&facts);
        let without_gaps = recorder.bytes();
        facts.chunks = (1..=101).map(|i| ChunkFact { at_ns: i * 10_000_000, answer: true }).collect();
        facts.output_tokens = Some(101);
        recorder.record(&facts);
        let with_gaps = recorder.bytes() - without_gaps;
        assert_eq!(with_gaps, 24 * 4 + 7 * 8 + 64 + 100 * 4);
    }

    fn stream() -> impl Strategy<Value = Vec<Facts>> {
        let outcome = prop_oneof![
            6 => Just(Outcome::Completed),
            1 => Just(Outcome::Failed),
            1 => Just(Outcome::Cancelled),
            1 => Just(Outcome::Lost),
            1 => Just(Outcome::Unsent)
        ];
        proptest::collection::vec(
            (outcome, 0u64..1000, 0u64..20).prop_map(|(o, s, n)| request(o, s, n)),
            0..40,
        )
    }

    proptest! {
        #[test]
        fn several_readers_are_as_good_as_one(a in stream(), b in stream()) {
            let window = Window::new(0, 2_000_000_000);
            // What each of the two keeps is mostly on disk.
            let disk = Disk::new(tempfile::tempfile).sized(2, 3);
            let [mut one, mut first, mut second] =
                [None, Some(&disk), Some(&disk)].map(|disk| match disk {
                    Some(disk) => Recorder::new(ALL, ANCHOR).on(disk),
                    None => Recorder::new(ALL, ANCHOR),
                });
            for facts in a.iter().chain(&b) {
                one.record(facts);
            }
            for facts in &a {
                first.record(facts);
            }
            for facts in &b {
                second.record(facts);
            }
            first.merge(second);
            let (one, merged) = (one.summarise(window), first.summarise(window));
            prop_assert_eq!(one.tally, merged.tally);
            prop_assert!(one.tally.adds_up());
            prop_assert_eq!(one.early, merged.early);
            prop_assert_eq!(one.rows.len(), merged.rows.len());
            for (x, y) in one.rows.iter().zip(&merged.rows) {
                prop_assert_eq!(x.spec.tag, y.spec.tag);
                prop_assert_eq!(x.stats, y.stats);
            }
        }
    }
}
