//! The load of a phase in lines of a name and what was measured.

use aiperf_core::time::ns_to_ms;
use aiperf_metrics::{ClockHealth, HandOver, Health, InFlight, PhaseHealth, Spread, verdict};

use crate::console::count;

/// Arrivals that are drawn differ from the rate of the plan by chance; beyond this share both are told.
const DRAWN: f64 = 0.005;

/// Lines of the console's table for one phase; what was not measured has none.
pub(crate) fn rows(phase: &PhaseHealth) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    rows.extend(rate(phase).map(|text| ("Rate", text)));
    rows.extend(arrivals(phase).map(|text| ("Arrivals", text)));
    rows.extend(phase.send_lag.map(|lag| ("Send lag", spread(lag))));
    rows.extend(sessions(phase).map(|text| ("Sessions", text)));
    rows.extend(in_flight(phase).map(|text| ("In flight", text)));
    rows.extend(Spread::of_lags(&phase.loop_lag()).map(|lag| ("Loop lag", spread(lag))));
    rows.extend(phase.read_lag.map(|lag| ("Read lag", spread(lag))));
    rows.extend(cpu(phase).map(|text| ("Client CPU", text)));
    rows.extend(connections(phase).map(|text| ("Connections", text)));
    rows
}

/// Lines of what is the same for all phases.
pub(crate) fn run_rows(health: &Health) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    rows.extend(clock(&health.clock).map(|text| ("Clock", text)));
    rows.extend(handover(&health.handover).map(|text| ("Reader", text)));
    rows
}

fn rate(phase: &PhaseHealth) -> Option<String> {
    let achieved = phase.achieved_rate().map(|rate| format!("sent {rate:.2} requests/s"));
    let drawn = phase.asked_rate().filter(|_| !phase.asked.is_closed_loop);
    let asked = match (phase.asked.rate, drawn) {
        (Some(rate), Some(drawn)) if (drawn - rate).abs() > DRAWN * rate => {
            Some(format!("asked for {rate:.2} requests/s ({drawn:.2} as drawn)"))
        }
        (Some(rate), _) | (None, Some(rate)) => Some(format!("asked for {rate:.2} requests/s")),
        (None, None) => None,
    };
    let parts: Vec<String> = asked.into_iter().chain(achieved).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn arrivals(phase: &PhaseHealth) -> Option<String> {
    let a = phase.arrivals;
    if phase.asked.is_closed_loop && a.skipped + a.cut == 0 {
        return None;
    }
    let late = if phase.asked.is_closed_loop { String::new() } else { format!(" ({} late)", count(a.late)) };
    let [scheduled, sent, skipped, cut] = [a.scheduled, a.sent, a.skipped, a.cut].map(count);
    Some(format!("{scheduled} scheduled, {sent} sent{late}, {skipped} skipped, {cut} cut off by the end"))
}

fn sessions(phase: &PhaseHealth) -> Option<String> {
    let held = held(&phase.sessions())?;
    Some(match phase.asked.concurrency {
        Some(asked) if phase.asked.is_closed_loop => format!("asked for {}, {held}", count(asked.into())),
        Some(limit) => format!("{held}; limit {}", count(limit.into())),
        None => held,
    })
}

fn in_flight(phase: &PhaseHealth) -> Option<String> {
    let held = held(&phase.in_flight())?;
    let limits =
        [("limit", phase.asked.max_in_flight), ("before first content", phase.asked.prefill_concurrency)];
    let limits = limits.into_iter().filter_map(|(word, n)| Some(format!("; {word} {}", count(n?.into()))));
    Some(limits.fold(held, |text, limit| text + &limit))
}

fn held(held: &InFlight) -> Option<String> {
    Some(format!("held {:.1} on average, {} at most", held.mean()?, count(held.peak()?)))
}

fn cpu(phase: &PhaseHealth) -> Option<String> {
    let most = |of: &dyn Fn(&aiperf_metrics::CpuShare) -> Option<f64>| {
        phase.shards.iter().filter_map(|s| of(&s.thread)).max_by(f64::total_cmp)
    };
    let process = phase.process.busy().map(|cores| format!("{cores:.2} cores"));
    let busy = most(&|t| t.busy()).map(|share| format!("busiest shard {:.0} % of a core", share * 100.0));
    let waited = most(&|t| t.waited())
        .map(|share| format!("a shard waited for a core {:.1} % of the time", share * 100.0));
    let parts: Vec<String> = [process, busy, waited].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn connections(phase: &PhaseHealth) -> Option<String> {
    let c = phase.connections();
    if c.opened + c.reused + c.refused == 0 {
        return None;
    }
    let always =
        [format!("{} opened", count(c.opened)), format!("{} requests on kept ones", count(c.reused))];
    let again = if c.resent == 1 { "request sent again" } else { "requests sent again" };
    let odd = [(c.stale, "found closed"), (c.resent, again), (c.refused, "not to be had")];
    let odd = odd.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(n)));
    Some(always.into_iter().chain(odd).collect::<Vec<_>>().join(", "))
}

fn clock(clock: &ClockHealth) -> Option<String> {
    let step = clock.resolution_ns.map(|ns| format!("steps of {ns} ns"));
    let parts: Vec<String> = clock.source.clone().into_iter().chain(step).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn handover(h: &HandOver) -> Option<String> {
    if h.most_requests == 0 {
        return None;
    }
    let part = |n: u64, bytes: u64| format!("{} answers ({:.1} MB)", count(n), bytes as f64 / 1e6);
    let behind = format!("at most {} behind", part(h.most_requests, h.most_bytes));
    Some(match h.spilled_requests {
        0 => behind,
        spilled => format!("{behind}, {} through a file", part(spilled, h.spilled_bytes)),
    })
}

fn spread(lag: Spread) -> String {
    let [p50, p99, max] = [lag.p50_ns, lag.p99_ns, lag.max_ns].map(ns_to_ms);
    format!("p50 {p50:.3} ms, p99 {p99:.3} ms, max {max:.3} ms")
}

/// Rows of the CSV file: phase (empty for the run), name, value; the verdict first, then the warnings, then numbers.
pub(crate) fn csv(health: &Health) -> Vec<[String; 3]> {
    let verdict = verdict(health);
    let row = |phase: &str, name: &str, value: String| [phase.to_owned(), name.to_owned(), value];
    let mut rows = vec![row("", "verdict", verdict.line)];
    for w in verdict.warnings {
        rows.push(row(w.phase.as_deref().unwrap_or(""), w.code.name(), w.text));
    }
    for phase in &health.phases {
        let real = |value: Option<f64>| value.map(|v| format!("{v:.2}"));
        let ms = |ns: Option<u64>| ns.map(|ns| format!("{:.3}", ns_to_ms(ns)));
        let a = phase.arrivals;
        let most = |of: &dyn Fn(&aiperf_metrics::CpuShare) -> Option<f64>| {
            phase.shards.iter().filter_map(|s| of(&s.thread)).max_by(f64::total_cmp).map(|s| s * 100.0)
        };
        let loop_lag = phase.loop_lag();
        let cells = [
            ("Asked Rate (requests/sec)", real(phase.asked_rate())),
            ("Achieved Rate (requests/sec)", real(phase.achieved_rate())),
            ("Scheduled", Some(a.scheduled.to_string())),
            ("Sent", Some(a.sent.to_string())),
            ("Late", Some(a.late.to_string()).filter(|_| !phase.asked.is_closed_loop)),
            ("Skipped", Some(a.skipped.to_string())),
            ("Cut Off", Some(a.cut.to_string())),
            ("Send Lag p50 (ms)", ms(phase.send_lag.map(|l| l.p50_ns))),
            ("Send Lag p99 (ms)", ms(phase.send_lag.map(|l| l.p99_ns))),
            ("Send Lag max (ms)", ms(phase.send_lag.map(|l| l.max_ns))),
            ("In Flight avg", real(phase.in_flight().mean())),
            ("In Flight max", phase.in_flight().peak().map(|n| n.to_string())),
            ("Loop Lag p99 (ms)", ms(loop_lag.quantile_ns(0.99))),
            ("Client CPU (cores)", real(phase.process.busy())),
            ("Busiest Shard (%)", real(most(&|t| t.busy()))),
            ("Waited for a Core (%)", real(most(&|t| t.waited()))),
        ];
        rows.extend(cells.into_iter().filter_map(|(name, value)| Some(row(&phase.name, name, value?))));
    }
    rows
}
