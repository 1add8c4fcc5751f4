//! Intervals, steady state and groups on the console.

use std::fmt::Write as _;

use aiperf_metrics::{
    Compute, Dimension, Group, Interval, Row, Stats, Steadiness, SteadyState, Uncertainty, find, least_count,
    too_few_for_p99,
};

use crate::console::count;

/// Metrics whose intervals are on the console.
const SHOWN: [&str; 8] = [
    "time_to_first_token",
    "scheduled_time_to_first_token",
    "request_latency",
    "scheduled_latency",
    "inter_token_latency",
    "output_token_throughput_per_user",
    "output_token_throughput",
    "request_throughput",
];

/// Columns of numbers of the table of intervals, and how soon one goes on a console without room for it; 0 always stays.
pub(crate) const INTERVALS: [(&str, u8); 6] =
    [("avg", 0), ("p50", 2), ("p90", 3), ("p99", 1), ("p99.9", 4), ("as good as", 5)];

/// Rows of the table of intervals: a name, and a cell for each of [`INTERVALS`]. Empty where nothing can be told.
pub(crate) fn interval_rows(uncertainty: &Uncertainty) -> Vec<(String, Vec<Option<String>>)> {
    let shown = SHOWN.iter().filter_map(|tag| uncertainty.get(tag)).filter(|m| m.avg.is_some());
    shown
        .filter_map(|metric| {
            let spec = find(metric.tag)?;
            let of = |at: usize| metric.quantiles.get(at).and_then(|(_, interval)| *interval);
            let cells = [metric.avg, of(0), of(1), of(3), of(4)].map(|interval| interval.map(pair));
            let values = metric.independent.map(|n| format!("{} values", count(n)));
            let cells = cells.into_iter().chain([values]).collect();
            Some((format!("{} ({})", spec.header, spec.display.name()), cells))
        })
        .collect()
}

fn pair(interval: Interval) -> String {
    format!("{:.2} – {:.2}", interval.low, interval.high)
}

/// Whether a metric has fewer values than an interval of its p99 takes, as the JSON file has it. Other percentiles that cannot be told are in the JSON file alone:
/// a mark behind most numbers of a short run would be read by nobody.
pub(crate) fn has_few(row: &Row, uncertainty: Option<&Uncertainty>) -> bool {
    // One number that is the same for all requests is no sample of anything.
    let is_sample = !matches!(row.spec.compute, Compute::NetworkRtt);
    match &row.stats {
        Stats::Distribution { values, .. } => {
            is_sample && too_few_for_p99(uncertainty, row.spec.tag, values.count)
        }
        _ => false,
    }
}

/// What the mark behind a p99 means.
pub(crate) fn footnote() -> String {
    format!(
        "* Fewer than {} independent values, which a p99 takes for an interval with 95 % confidence.",
        least_count(99.0)
    )
}

/// One sentence on the steady state.
pub(crate) fn steady_line(steadiness: &Steadiness) -> String {
    match steadiness {
        Steadiness::No(reason) => format!("No steady state: {}.", reason.words()),
        Steadiness::Steady(steady) => steady_words(steady),
    }
}

fn steady_words(steady: &SteadyState) -> String {
    let seconds = |ns: u64| ns as f64 * 1e-9;
    let share = 100.0 * (steady.end_ns - steady.start_ns) as f64 / steady.whole_ns.max(1) as f64;
    let tokens =
        steady.output_token_throughput.map_or(String::new(), |v| format!(", {v:.2} output tokens/sec"));
    let mut line = format!(
        "Steady state: {:.2} s to {:.2} s of {:.2} s ({share:.0} %): {:.2} requests/sec{tokens}, {:.1} in flight",
        seconds(steady.start_ns),
        seconds(steady.end_ns),
        seconds(steady.whole_ns),
        steady.request_throughput,
        steady.concurrency,
    );
    for (tag, stats) in &steady.latencies {
        let name = find(tag).map_or(*tag, |spec| spec.short);
        if let (Some(p50), Some(p99)) = (stats.get("p50"), stats.get("p99")) {
            let _ = write!(line, ", {name} p50 {p50:.2} and p99 {p99:.2} ms");
        }
    }
    let _ = write!(line, ". From where {} until {}.", steady.from, steady.until);
    line
}

/// A table of groups.
pub(crate) struct GroupTable {
    pub(crate) title: String,
    pub(crate) head: &'static str,
    pub(crate) rows: Vec<(String, Vec<Option<String>>)>,
    /// Groups that are not in it.
    pub(crate) more: usize,
}

impl GroupTable {
    /// Columns of numbers, and how soon one goes on a console without room for it; 0 always stays.
    pub(crate) const COLUMNS: [(&str, u8); 11] = [
        ("requests", 0),
        ("completed", 8),
        ("TTFT avg", 7),
        ("TTFT p50", 5),
        ("TTFT p99", 2),
        ("ITL avg", 9),
        ("ITL p50", 6),
        ("ITL p99", 4),
        ("latency avg", 10),
        ("latency p50", 3),
        ("latency p99", 1),
    ];
    /// Most groups of one table.
    const MOST: usize = 16;
}

/// A table for each way to tell requests apart; without that of servers where these have a table of their own.
pub(crate) fn group_tables(dimensions: &[Dimension], has_targets: bool) -> Vec<GroupTable> {
    let shown = dimensions.iter().filter(|d| !(has_targets && d.name == "url"));
    shown
        .map(|dimension| {
            let (head, by) = match dimension.name {
                "turn" => ("Turn", "Turn"),
                "model" => ("Model", "Model"),
                "url" => ("URL", "URL"),
                "finish_reason" => ("Finish", "Finish Reason"),
                _ => ("Cache", "Prefix Cache"),
            };
            let rows = dimension.groups.iter().take(GroupTable::MOST);
            GroupTable {
                title: format!("NVIDIA AIPerf | Results by {by} (times in ms)"),
                head,
                rows: rows.map(|group| (group.value.clone(), cells(group))).collect(),
                more: dimension.groups.len().saturating_sub(GroupTable::MOST),
            }
        })
        .collect()
}

fn cells(group: &Group) -> Vec<Option<String>> {
    let mut cells = vec![Some(count(group.requests)), Some(count(group.completed))];
    for tag in ["time_to_first_token", "inter_token_latency", "request_latency"] {
        let stats = group.latencies.iter().find(|(t, _)| *t == tag).map(|(_, stats)| stats);
        cells.extend(["avg", "p50", "p99"].map(|stat| Some(format!("{:.2}", stats?.get(stat)?))));
    }
    cells
}
