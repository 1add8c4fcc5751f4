//! The screen while it runs: a bar on a terminal, plain lines elsewhere, nothing when asked for. All of it on stderr.

use std::io::Write as _;
use std::time::Duration;

use aiperf_core::plan::{PhaseKind, PhasePlan, Ui};
use aiperf_core::time::ns_to_seconds;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::live::Latest;

/// How often the bar is drawn.
pub(crate) const TICK: Duration = Duration::from_millis(250);

/// A moment of a phase.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// Since the phase's start.
    pub elapsed_ns: u64,
    /// On the wire.
    pub in_flight: u64,
    /// Ended so far, as the shards count.
    pub ended: u64,
    /// What the reader has seen.
    pub latest: Latest,
    /// Sending is over.
    pub draining: bool,
}

/// Where progress goes.
pub(crate) enum Progress {
    /// A bar that is drawn over itself.
    Bar(Box<Bar>),
    /// A line now and then.
    Lines(Box<Lines>),
    /// Nowhere.
    Silent,
}

pub(crate) struct Bar {
    bar: ProgressBar,
    plan: Option<PhasePlan>,
}

pub(crate) struct Lines {
    every_ns: u64,
    next_ns: u64,
    plan: Option<PhasePlan>,
}

impl Progress {
    /// The form that fits: `terminal` says that stderr is one, `every_s` is the pause between plain lines (0 turns them off).
    pub(crate) fn new(ui: Ui, terminal: bool, every_s: f64) -> Self {
        match ui {
            Ui::None => Self::Silent,
            Ui::Simple if terminal => Self::Bar(Box::new(Bar { bar: ProgressBar::hidden(), plan: None })),
            Ui::Simple if every_s <= 0.0 => Self::Silent,
            Ui::Simple => {
                let every_ns = aiperf_core::time::seconds_to_ns(every_s);
                Self::Lines(Box::new(Lines { every_ns, next_ns: every_ns, plan: None }))
            }
        }
    }

    /// A phase starts.
    pub(crate) fn start(&mut self, plan: &PhasePlan) {
        match self {
            Self::Bar(b) => {
                b.plan = Some(plan.clone());
                b.bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
                b.bar.set_style(style(plan.kind));
                b.bar.set_prefix(title(plan));
            }
            Self::Lines(l) => {
                l.plan = Some(plan.clone());
                l.next_ns = l.every_ns;
            }
            Self::Silent => {}
        }
    }

    /// Shows a moment, if it is time to.
    pub(crate) fn show(&mut self, moment: &Moment) {
        match self {
            Self::Bar(b) => {
                if let Some(plan) = &b.plan {
                    b.bar.set_position((fraction(plan, moment) * 1000.0) as u64);
                    b.bar.set_message(describe(plan, moment));
                }
            }
            Self::Lines(l) => {
                if let Some(plan) = &l.plan
                    && moment.elapsed_ns >= l.next_ns
                {
                    l.next_ns = moment.elapsed_ns - moment.elapsed_ns % l.every_ns + l.every_ns;
                    say_line(&format!("{}: {}", title(plan), describe(plan, moment)));
                }
            }
            Self::Silent => {}
        }
    }

    /// A phase is over; another one may have started before.
    pub(crate) fn end(&mut self, plan: &PhasePlan, moment: &Moment) {
        let line = || format!("{} done: {}", title(plan), describe(plan, moment));
        let is_shown = |shown: &Option<PhasePlan>| shown.as_ref().is_some_and(|s| s.name == plan.name);
        match self {
            Self::Bar(b) if is_shown(&b.plan) => {
                b.bar.finish_and_clear();
                b.plan = None;
                say_line(&line());
            }
            Self::Bar(b) => b.bar.suspend(|| say_line(&line())),
            Self::Lines(l) => {
                if is_shown(&l.plan) {
                    l.plan = None;
                }
                say_line(&line());
            }
            Self::Silent => {}
        }
    }

    /// One line from the run, above the bar if there is one.
    pub(crate) fn say(&self, line: &str) {
        match self {
            Self::Bar(b) if !b.bar.is_hidden() => b.bar.suspend(|| say_line(line)),
            _ => say_line(line),
        }
    }
}

/// The one door to stderr of this room: progress is for the person at the terminal, results go to stdout and files.
fn say_line(line: &str) {
    // The terminal may be gone (`eprintln!` would panic then); the run goes on and writes its files.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn style(kind: PhaseKind) -> ProgressStyle {
    let colour = match kind {
        PhaseKind::Warmup => "yellow",
        PhaseKind::Profiling => "green",
    };
    ProgressStyle::with_template(&format!("{{prefix}} {{bar:24.{colour}}} {{msg}}"))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

fn title(plan: &PhasePlan) -> String {
    let mut name = plan.name.clone();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

/// How far the phase is: the furthest of its caps.
fn fraction(plan: &PhasePlan, moment: &Moment) -> f64 {
    let by_count = plan.requests.map_or(0.0, |n| moment.ended as f64 / n.max(1) as f64);
    let by_time = plan.duration_ns.map_or(0.0, |d| moment.elapsed_ns as f64 / d.max(1) as f64);
    by_count.max(by_time).min(1.0)
}

/// One moment in one line: count or time, rate, in flight, latencies, errors, time left.
fn describe(plan: &PhasePlan, m: &Moment) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let elapsed = ns_to_seconds(m.elapsed_ns);
    let mut part = |text: std::fmt::Arguments<'_>| {
        if !out.is_empty() {
            out.push_str("  ");
        }
        // Writing to a String cannot fail.
        let _ = out.write_fmt(text);
    };
    match (plan.requests, plan.duration_ns) {
        (Some(n), _) => part(format_args!("{}/{n} requests", m.ended)),
        (None, Some(d)) => part(format_args!("{elapsed:.1}/{:.1} s  {} requests", ns_to_seconds(d), m.ended)),
        (None, None) => part(format_args!("{} requests", m.ended)),
    }
    if elapsed > 0.0 {
        part(format_args!("{:.1} req/s", m.ended as f64 / elapsed));
    }
    part(format_args!("{} in flight", m.in_flight));
    if let Some(v) = m.latest.ttft_ms.quantile(0.5) {
        part(format_args!("TTFT {v:.1} ms"));
    }
    if let Some(v) = m.latest.itl_ms.quantile(0.5) {
        part(format_args!("ITL {v:.2} ms"));
    } else if let Some(v) = m.latest.latency_ms.quantile(0.5) {
        part(format_args!("latency {v:.1} ms"));
    }
    if m.latest.counts.failed > 0 {
        part(format_args!("{} failed", m.latest.counts.failed));
    }
    if m.latest.counts.cancelled > 0 {
        part(format_args!("{} cancelled", m.latest.counts.cancelled));
    }
    let done = fraction(plan, m);
    if m.draining {
        if m.in_flight > 0 {
            part(format_args!("waiting for answers"));
        }
    } else if done > 0.0 && done < 1.0 {
        part(format_args!("{:.0} s left", elapsed / done - elapsed));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use aiperf_core::plan::Pacing;

    fn plan(requests: Option<u64>, duration_ns: Option<u64>) -> PhasePlan {
        PhasePlan {
            concurrency: Some(4),
            requests,
            duration_ns,
            ..PhasePlan::new("profiling", PhaseKind::Profiling, Pacing::Concurrency)
        }
    }

    fn moment(ended: u64, elapsed_ns: u64) -> Moment {
        let mut latest = Latest::default();
        latest.ttft_ms.push(20.0);
        latest.itl_ms.push(5.0);
        Moment { elapsed_ns, in_flight: 4, ended, latest, draining: false }
    }

    #[test]
    fn a_counted_phase_tells_count_rate_latency_and_time_left() {
        let text = describe(&plan(Some(40), None), &moment(10, 2_000_000_000));
        assert_eq!(text, "10/40 requests  5.0 req/s  4 in flight  TTFT 20.0 ms  ITL 5.00 ms  6 s left");
    }

    #[test]
    fn a_timed_phase_tells_time() {
        let mut m = moment(10, 2_000_000_000);
        m.latest.counts.failed = 3;
        let text = describe(&plan(None, Some(10_000_000_000)), &m);
        assert_eq!(
            text,
            "2.0/10.0 s  10 requests  5.0 req/s  4 in flight  TTFT 20.0 ms  ITL 5.00 ms  3 failed  8 s left"
        );
        m.draining = true;
        assert!(describe(&plan(None, Some(10)), &m).ends_with("waiting for answers"));
    }

    #[test]
    fn the_furthest_cap_counts() {
        let both = plan(Some(100), Some(10_000_000_000));
        assert!((fraction(&both, &moment(10, 5_000_000_000)) - 0.5).abs() < 1e-9);
        assert!((fraction(&both, &moment(90, 5_000_000_000)) - 0.9).abs() < 1e-9);
    }
}
