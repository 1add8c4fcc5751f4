//! The differences.

use std::cmp::Reverse;

use aiperf_metrics::{ConsoleGroup, Flags, MetricSpec, STATISTICS, Unit, find};

use crate::findings::{self, Finding, Severity};
use crate::interval::{self, Interval};
use crate::run::{Metric, Run};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// More is better.
    Larger,
    /// Less is better.
    Smaller,
    /// Neither, or it is not known: lengths, counts, what our table does not have.
    Neither,
}

/// What a difference says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is none.
    Equal,
    /// The data cannot tell it from noise.
    Noise,
    /// Better than the baseline, beyond noise.
    Better,
    /// Worse than the baseline, beyond noise.
    Worse,
    /// Different beyond noise; neither way is better.
    Differs,
    /// Better, but there is no interval to tell whether by chance.
    MaybeBetter,
    /// Worse, but there is no interval.
    MaybeWorse,
    /// Different, without an interval and a direction.
    MaybeDiffers,
}

impl Verdict {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Noise => "noise",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::MaybeBetter => "better?",
            Self::MaybeWorse => "worse?",
            Self::MaybeDiffers => "differs?",
        }
    }

    fn of(difference: f64, interval: Option<Interval>, direction: Direction) -> Self {
        if difference == 0.0 {
            return Self::Equal;
        }
        let is_better = match direction {
            Direction::Larger => Some(difference > 0.0),
            Direction::Smaller => Some(difference < 0.0),
            Direction::Neither => None,
        };
        match (interval, is_better) {
            (Some(i), _) if i.has_zero() => Self::Noise,
            (Some(_), Some(true)) => Self::Better,
            (Some(_), Some(false)) => Self::Worse,
            (Some(_), None) => Self::Differs,
            (None, Some(true)) => Self::MaybeBetter,
            (None, Some(false)) => Self::MaybeWorse,
            (None, None) => Self::MaybeDiffers,
        }
    }
}

/// A statistic against that of the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Value − value of the baseline.
    pub absolute: f64,
    /// Of the baseline's value; absent when that is 0.
    pub percent: Option<f64>,
    /// Of the absolute difference.
    pub interval: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
}

/// One statistic of one metric over all runs.
#[derive(Debug, Clone)]
pub struct Line {
    /// Key in files.
    pub tag: String,
    /// Name for people.
    pub header: String,
    /// Unit of its values.
    pub unit: String,
    /// Table on the screen of a run.
    pub group: ConsoleGroup,
    /// Its statistic, `avg` for one value.
    pub stat: &'static str,
    /// Whether there is more than one statistic.
    pub is_scalar: bool,
    /// Which way is better.
    pub direction: Direction,
    /// Of each run.
    pub values: Vec<Option<f64>>,
    /// Of each run; `None` for the baseline and where either has no value.
    pub differences: Vec<Option<Difference>>,
}

/// Runs side by side.
#[derive(Debug)]
pub struct Comparison {
    /// In the order given.
    pub runs: Vec<Run>,
    /// Position of the one that others are compared with.
    pub baseline: usize,
    /// Of every interval by itself.
    pub level: f64,
    /// What to know first, the gravest first.
    pub findings: Vec<Finding>,
    /// By group, place in it, and statistic.
    pub lines: Vec<Line>,
}

impl Comparison {
    /// Compares two runs or more.
    ///
    /// # Panics
    ///
    /// When `baseline` is no position in `runs`.
    pub fn of(runs: Vec<Run>, baseline: usize, level: f64) -> Self {
        let findings = findings::of(&runs, baseline);
        let mut tags: Vec<(Reverse<ConsoleGroup>, u32, usize, &str)> = Vec::new();
        for run in &runs {
            for metric in &run.metrics {
                if tags.iter().all(|(.., tag)| *tag != metric.tag) {
                    let (group, order) = place(find(&metric.tag));
                    tags.push((group, order, tags.len(), &metric.tag));
                }
            }
        }
        tags.sort_unstable();
        let mut lines = Vec::new();
        for (.., tag) in tags {
            let Some(first) = runs.iter().find_map(|r| r.metric(tag)) else { continue };
            let unit = runs[baseline].metric(tag).unwrap_or(first).unit.clone();
            let of: Vec<Option<&Metric>> =
                runs.iter().map(|r| r.metric(tag).filter(|m| m.unit == unit)).collect();
            let is_scalar = of.iter().flatten().all(|m| m.is_scalar());
            for stat in
                STATISTICS.into_iter().filter(|stat| of.iter().flatten().any(|m| m.get(stat).is_some()))
            {
                lines.push(line(&runs, baseline, level, first, &unit, stat, is_scalar, &of));
            }
        }
        Self { runs, baseline, level, findings, lines }
    }

    /// Whether something forbids the comparison.
    pub fn is_blocked(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Blocks)
    }
}

/// Table and place in it. Screens end with the main table; here it comes first, and last what no screen shows.
fn place(spec: Option<&MetricSpec>) -> (Reverse<ConsoleGroup>, u32) {
    spec.map_or((Reverse(ConsoleGroup::None), 0), |s| (Reverse(s.group), s.order))
}

/// Lengths and counts are what was asked for; none of them is good by itself.
fn direction(spec: Option<&MetricSpec>, stat: &str) -> Direction {
    let Some(spec) = spec.filter(|_| !["std", "count", "sum"].contains(&stat)) else {
        return Direction::Neither;
    };
    let is_time = matches!(
        spec.display,
        Unit::Milliseconds | Unit::Seconds | Unit::Nanoseconds | Unit::MillisecondsPerImage
    );
    // AIPerf marks neither goodput nor the effective throughputs.
    let is_rate = matches!(
        spec.display,
        Unit::RequestsPerSecond
            | Unit::TokensPerSecond
            | Unit::TokensPerSecondPerUser
            | Unit::ImagesPerSecond
    );
    match (spec.tag, spec.flags.has(Flags::LARGER_IS_BETTER)) {
        ("error_request_count" | "unsent_request_count" | "lost_request_count" | "request_error_rate", _) => {
            Direction::Smaller
        }
        ("benchmark_duration" | "audio_duration", _) => Direction::Neither,
        _ if matches!(spec.display, Unit::Tokens | Unit::Requests | Unit::Images) => Direction::Neither,
        // Seconds of audio.
        (_, true) if is_time => Direction::Neither,
        (_, true) => Direction::Larger,
        _ if is_rate => Direction::Larger,
        _ if is_time => Direction::Smaller,
        _ => Direction::Neither,
    }
}

#[expect(clippy::too_many_arguments, reason = "all of them are what one line is made of")]
fn line(
    runs: &[Run],
    baseline: usize,
    level: f64,
    first: &Metric,
    unit: &str,
    stat: &'static str,
    is_scalar: bool,
    of: &[Option<&Metric>],
) -> Line {
    let spec = find(&first.tag);
    let direction = direction(spec, stat);
    let values: Vec<Option<f64>> = of.iter().map(|m| m.and_then(|m| m.get(stat))).collect();
    let around = |i: usize| values[i].and_then(|value| around(&runs[i], &first.tag, stat, value, level));
    let of_base = around(baseline);
    let differences = (0..runs.len()).map(|i| {
        let (base, value) = values[baseline].zip(values[i]).filter(|_| i != baseline)?;
        let absolute = value - base;
        let interval = of_base.zip(around(i)).map(|(a, b)| Interval::of_difference(base, a, value, b));
        let percent = (base != 0.0).then(|| 100.0 * absolute / base.abs());
        Some(Difference { absolute, percent, interval, verdict: Verdict::of(absolute, interval, direction) })
    });
    Line {
        tag: first.tag.clone(),
        header: spec.map_or_else(|| first.tag.clone(), |s| s.header.to_owned()),
        unit: unit.to_owned(),
        group: spec.map_or(ConsoleGroup::None, |s| s.group),
        stat,
        is_scalar,
        direction,
        differences: differences.collect(),
        values,
    }
}

/// The interval of one statistic of one run.
fn around(run: &Run, tag: &str, stat: &str, value: f64, level: f64) -> Option<Interval> {
    if tag == "request_error_rate" {
        let (ended, failed) = run.ended()?;
        let share = interval::share(failed, ended, level)?;
        return Some(Interval { low: 100.0 * share.low, high: 100.0 * share.high });
    }
    let samples = run.samples.as_ref()?;
    let said = run.stat("request_count", "avg")?;
    if (samples.completed as f64 - said).abs() > 0.01 * said {
        return None;
    }
    let rate = match tag {
        "request_throughput" => Some(0),
        "output_token_throughput" => Some(1),
        "input_token_throughput" => Some(2),
        "total_token_throughput" => Some(3),
        _ => None,
    };
    if let Some(at) = rate {
        return interval::rate(value, &samples.rates.as_ref()?[at], level);
    }
    let sketch = samples.metrics.get(tag)?;
    if stat == "avg" {
        return interval::mean(value, sketch, level);
    }
    let percent: f64 = stat.strip_prefix('p')?.parse().ok()?;
    interval::percentile(percent / 100.0, sketch, level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toys::{recorded, run};

    fn get<'a>(comparison: &'a Comparison, tag: &str, stat: &str) -> &'a Difference {
        let line = comparison.lines.iter().find(|l| l.tag == tag && l.stat == stat).expect(tag);
        line.differences.iter().flatten().next().expect("a difference")
    }

    #[test]
    fn what_differs_by_half_is_told_from_noise_and_what_hardly_does_is_not() {
        let c = Comparison::of(vec![recorded("a", 1.0, 1_000), recorded("b", 1.5, 1_000)], 0, 0.95);
        for (tag, stat, verdict) in [
            ("request_latency", "avg", Verdict::Worse),
            ("request_latency", "p50", Verdict::Worse),
            ("request_latency", "p90", Verdict::Worse),
            ("request_throughput", "avg", Verdict::Worse),
            ("request_latency", "max", Verdict::MaybeWorse),
            ("request_latency", "count", Verdict::Equal),
            ("request_count", "avg", Verdict::Equal),
            ("nvidia_total_gpu_power", "avg", Verdict::MaybeDiffers),
        ] {
            assert_eq!(get(&c, tag, stat).verdict, verdict, "{tag} {stat}");
        }
        assert_eq!(get(&c, "request_latency", "avg").percent.map(f64::round), Some(50.0));
        let c = Comparison::of(vec![recorded("a", 1.0, 1_000), recorded("b", 1.001, 1_000)], 0, 0.95);
        assert_eq!(get(&c, "request_latency", "avg").verdict, Verdict::Noise);
        assert_eq!(get(&c, "request_latency", "p50").verdict, Verdict::Noise);
        let back = Comparison::of(vec![recorded("a", 1.0, 1_000), recorded("b", 1.5, 1_000)], 1, 0.95);
        assert_eq!(get(&back, "request_latency", "avg").verdict, Verdict::Better);
    }

    #[test]
    fn without_records_or_with_too_few_values_there_is_no_interval() {
        let c = Comparison::of(vec![recorded("a", 1.0, 100), run("b", 1.5, 100)], 0, 0.95);
        assert_eq!(get(&c, "request_latency", "avg").interval, None);
        let c = Comparison::of(vec![recorded("a", 1.0, 100), recorded("b", 1.5, 100)], 0, 0.95);
        assert!(get(&c, "request_latency", "p90").interval.is_some());
        assert_eq!(
            get(&c, "request_latency", "p99").interval,
            None,
            "of 100 values nothing is surely above p99"
        );
    }

    #[test]
    fn every_table_has_its_place_and_every_metric_its_way() {
        use ConsoleGroup as G;
        use Direction as D;
        let tags = [
            "http_req_total",
            "effective_latency",
            "nvidia_total_gpu_power",
            "effective_total_throughput",
            "usage_total_tokens",
            "usage_prompt_audio_seconds",
            "network_rtt",
            "goodput",
        ];
        let mut run = run("a", 1.0, 100);
        run.metrics = tags
            .map(|tag| Metric { tag: tag.to_owned(), unit: "of it".to_owned(), stats: vec![("avg", 1.0)] })
            .to_vec();
        let c = Comparison::of(vec![run.clone(), run], 0, 0.95);
        let got: Vec<(&str, ConsoleGroup, Direction)> =
            c.lines.iter().map(|l| (l.tag.as_str(), l.group, l.direction)).collect();
        assert_eq!(
            got,
            [
                ("network_rtt", G::Main, D::Smaller),
                ("goodput", G::Main, D::Larger),
                ("usage_prompt_audio_seconds", G::Usage, D::Neither),
                ("usage_total_tokens", G::Usage, D::Neither),
                ("effective_total_throughput", G::Effective, D::Larger),
                ("effective_latency", G::Effective, D::Smaller),
                ("http_req_total", G::HttpTrace, D::Smaller),
                ("nvidia_total_gpu_power", G::None, D::Neither),
            ]
        );
    }

    #[test]
    fn what_only_one_run_has_has_no_difference() {
        let mut b = run("b", 1.0, 100);
        b.metrics.retain(|m| m.tag != "request_latency");
        let c = Comparison::of(vec![run("a", 1.0, 100), b], 0, 0.95);
        let line = c.lines.iter().find(|l| l.tag == "request_latency").expect("a line");
        assert_eq!(line.differences, [None, None]);
        assert!(line.values[0].is_some() && line.values[1].is_none());
    }
}
