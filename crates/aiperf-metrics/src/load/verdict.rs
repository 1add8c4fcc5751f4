//! Was the client the limit? All rules, in one place; docs/design/timing.md tells them to users.

use aiperf_core::time::{NS_PER_S, ns_to_ms};

use super::health::{Health, PhaseHealth, ShardHealth};

/// A send is late from this lag on, whatever the rate, nanoseconds.
const LATE_NS: u64 = 1_000_000;
/// A send is late only when it lags more than this share of the mean gap between arrivals.
const LATE_OF_GAP: f64 = 0.05;
/// Late sends are worth a warning from this share of all on.
const LATE_SHARE: f64 = 0.01;
/// A shard whose thread is busier than this share of a core is saturated.
const BUSY: f64 = 0.90;
/// A shard whose thread waited for a core more than this share of the time is starved.
const WAITED: f64 = 0.05;
/// The loop stood still when one wake was later than this share of the phase, and than [`STILL_NS`]: the process was stopped, or the machine
/// slept.
const STILL: f64 = 0.01;
const STILL_NS: u64 = 100_000_000;
/// The loop wakes late when its p99 lag is beyond this, nanoseconds.
const LOOP_LAG_NS: u64 = 1_000_000;
/// A rate is not reached when more than this share of the arrivals (and more than one) is behind.
const BEHIND: f64 = 0.02;
/// A concurrency is not reached when the mean of what was held is below this share of it, over at least [`HELD_NS`]: in less, starting
/// and ending take their part.
const HELD: f64 = 0.90;
const HELD_NS: u64 = NS_PER_S;
/// The wall clock was set when it went further than this beside the monotonic one, nanoseconds.
const STEP_NS: u64 = 5_000_000;
/// The composer is late when more than this share of the requests had to wait for their prompt, one of them for
/// [`COMPOSER_NS`], or when all waits take more than [`COMPOSER_TIME`] of the time of all places.
const COMPOSER_SHARE: f64 = 0.01;
const COMPOSER_NS: u64 = 1_000_000;
const COMPOSER_TIME: f64 = 0.05;

/// From which lag on a send counts as late: 1 ms, and 5 % of the mean gap where a rate is asked for (of several, the highest).
pub fn late_after_ns(per_second: Option<f64>) -> u64 {
    let of_gap = per_second.filter(|rate| *rate > 0.0).map_or(0, |rate| (1e9 / rate * LATE_OF_GAP) as u64);
    of_gap.max(LATE_NS)
}

/// Whether the client held the load back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// It did.
    Client,
    /// It did not.
    NotClient,
    /// Nothing was measured that could tell.
    Unknown,
}

impl Limit {
    /// The name files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::NotClient => "not_client",
            Self::Unknown => "unknown",
        }
    }
}

/// Kinds of warnings; the codes are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WarningCode {
    /// More than 1 % of the sends were late.
    LateSends,
    /// A shard was busy all the time, waited for a core, or stood still.
    ClientSaturated,
    /// Fewer sessions at once than asked for.
    UnreachedConcurrency,
    /// Fewer requests per second than asked for.
    UnreachedRate,
    /// The wall clock was set during the run.
    WallClockStepped,
    /// No local port was left for a connection.
    PortShortage,
    /// No descriptor was left for a connection.
    DescriptorShortage,
    /// Sessions waited for their prompts to be made.
    ComposerLate,
    /// The reader could not keep up, and answers went through a file.
    ReaderBehind,
}

impl WarningCode {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::LateSends,
        Self::ClientSaturated,
        Self::UnreachedConcurrency,
        Self::UnreachedRate,
        Self::WallClockStepped,
        Self::PortShortage,
        Self::DescriptorShortage,
        Self::ComposerLate,
        Self::ReaderBehind,
    ];

    /// The code files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LateSends => "late_sends",
            Self::ClientSaturated => "client_saturated",
            Self::UnreachedConcurrency => "unreached_concurrency",
            Self::UnreachedRate => "unreached_rate",
            Self::WallClockStepped => "wall_clock_stepped",
            Self::PortShortage => "port_shortage",
            Self::DescriptorShortage => "descriptor_shortage",
            Self::ComposerLate => "composer_late",
            Self::ReaderBehind => "reader_behind",
        }
    }
}

/// Something about the load that a reader of the results has to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadWarning {
    /// What kind.
    pub code: WarningCode,
    /// In which phase; `None` when it is of the whole run.
    pub phase: Option<String>,
    /// One sentence.
    pub text: String,
}

/// The conclusion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the client held the load back.
    pub limit: Limit,
    /// The same in one line, with its evidence.
    pub line: String,
    /// What else there is to know, in order of phases.
    pub warnings: Vec<LoadWarning>,
}

/// What the rules say of a run. Only profiling phases decide whether the client was the limit; warnings are of them and of the run.
pub fn verdict(health: &Health) -> Verdict {
    let measured: Vec<&PhaseHealth> = health.phases.iter().filter(|phase| !phase.is_warmup).collect();
    let several = measured.len() > 1;
    let mut findings = Vec::new();
    let mut warnings = Vec::new();
    for phase in &measured {
        let found = look(phase);
        let place = if several { format!("in phase {}: ", phase.name) } else { String::new() };
        findings.extend(found.limits.into_iter().map(|text| format!("{place}{text}")));
        warnings.extend(found.warnings.into_iter().map(|(code, text)| LoadWarning {
            code,
            phase: Some(phase.name.clone()),
            text,
        }));
    }
    let of_run = |code, text| LoadWarning { code, phase: None, text };
    if let Some(step) = health.clock.wall_step_ns.filter(|step| step.unsigned_abs() > STEP_NS) {
        let text = format!(
            "The wall clock was set by {:+.1} ms during the run. Latencies are of another clock and hold; wall times in files are those of \
             the clock as it was at the start.",
            step as f64 / 1e6
        );
        warnings.push(of_run(WarningCode::WallClockStepped, text));
    }
    // One that was set and set back is where it was at the end.
    let shards = health.phases.iter().flat_map(|phase| &phase.shards);
    let steps = shards.map(|shard| shard.clock_steps).max().unwrap_or(0);
    if steps > 0 && !warnings.iter().any(|w| w.code == WarningCode::WallClockStepped) {
        let text = format!(
            "The wall clock was set during the run ({steps} steps seen) and stands where it should at the end. Latencies are of another clock \
             and hold; answers that arrived in between are stamped as they were read."
        );
        warnings.push(of_run(WarningCode::WallClockStepped, text));
    }
    if health.handover.spilled_requests > 0 {
        let text = format!(
            "The reader could not keep up: {} answers ({:.1} MB) went through a file. Nothing is lost, and the load did not wait.",
            health.handover.spilled_requests,
            health.handover.spilled_bytes as f64 / 1e6
        );
        warnings.push(of_run(WarningCode::ReaderBehind, text));
    }
    let (limit, line) = if !findings.is_empty() {
        (Limit::Client, format!("The client was the limit: {}.", findings.join("; ")))
    } else if let Some(evidence) = acquittal(&measured) {
        (Limit::NotClient, format!("The client was not the limit: {evidence}."))
    } else {
        let line = "Whether the client was the limit is not known: nothing was measured that could tell.";
        (Limit::Unknown, line.to_owned())
    };
    Verdict { limit, line, warnings }
}

/// What the rules find in one phase.
#[derive(Default)]
struct Found {
    /// Reasons why the client was the limit.
    limits: Vec<String>,
    warnings: Vec<(WarningCode, String)>,
}

fn look(phase: &PhaseHealth) -> Found {
    let mut found = Found::default();
    saturation(phase, &mut found);
    composer(phase, &mut found);
    shortages(phase, &mut found);
    lateness(phase, &mut found);
    rate(phase, &mut found);
    concurrency(phase, &mut found);
    found
}

fn saturation(phase: &PhaseHealth, found: &mut Found) {
    let mut told = Vec::new();
    if let Some((shard, busy)) = busiest(phase).filter(|(_, busy)| *busy > BUSY) {
        told.push(format!("shard {} was busy {:.0} % of the time", shard.shard, busy * 100.0));
    }
    if let Some((shard, waited)) = most_starved(phase).filter(|(_, waited)| *waited > WAITED) {
        told.push(format!(
            "shard {} had to wait for a core {:.1} % of the time, others were running there",
            shard.shard,
            waited * 100.0
        ));
    }
    if let Some(longest_ns) = phase.loop_lag().max_ns().filter(|ns| stood_still(*ns, phase.process.wall_ns)) {
        told.push(format!("its loop stood still for {:.0} ms", ns_to_ms(longest_ns)));
    }
    if !told.is_empty() {
        let text = format!("The client was saturated: {}.", told.join("; "));
        found.warnings.push((WarningCode::ClientSaturated, text));
        found.limits.extend(told);
    }
}

fn composer(phase: &PhaseHealth, found: &mut Found) {
    let waits = phase.composer();
    let all = waits.sessions + waits.turns;
    let often = all as f64 > COMPOSER_SHARE * phase.arrivals.sent as f64;
    let place_time = phase.sessions().mean().map(|mean| mean * phase.process.wall_ns as f64);
    let long = place_time.is_some_and(|ns| waits.waited_ns as f64 > COMPOSER_TIME * ns);
    if all > 0 && (often && waits.longest_ns >= COMPOSER_NS || long) {
        let who = match (waits.sessions, waits.turns) {
            (sessions, 0) => format!("{sessions} sessions waited for their prompt to be made"),
            (0, turns) => format!("{turns} later turns waited for theirs to be made again"),
            (sessions, turns) => format!(
                "{sessions} sessions waited for their prompt to be made and {turns} later turns for theirs to be made again"
            ),
        };
        let told = format!("{who}, the longest {:.1} ms", ns_to_ms(waits.longest_ns));
        found.warnings.push((WarningCode::ComposerLate, format!("Prompts were not ready in time: {told}.")));
        found.limits.push(told);
    }
}

fn shortages(phase: &PhaseHealth, found: &mut Found) {
    let ports: u64 = phase.shards.iter().map(|s| s.ports_missing).sum();
    if ports > 0 {
        let told = format!("{ports} connections found no local port");
        let text = format!(
            "{told}: too many were opened in a short time. Keep connections (--connection-reuse-strategy pooled), or widen \
             net.ipv4.ip_local_port_range."
        );
        found.warnings.push((WarningCode::PortShortage, text));
        found.limits.push(told);
    }
    let descriptors: u64 = phase.shards.iter().map(|s| s.descriptors_missing).sum();
    if descriptors > 0 {
        let told = format!("{descriptors} connections found no free descriptor");
        let text = format!("{told}: raise the limit of open files (ulimit -n) or lower the concurrency.");
        found.warnings.push((WarningCode::DescriptorShortage, text));
        found.limits.push(told);
    }
}

fn lateness(phase: &PhaseHealth, found: &mut Found) {
    let late = is_late(phase);
    if late {
        let why = if phase.asked.has_limit() {
            ", connecting and the wait for a place under the limits of the plan included"
        } else {
            ", connecting included"
        };
        let lag = phase.send_lag.map_or(String::new(), |lag| {
            format!(" (lag p50 {:.2} ms, p99 {:.2} ms{why})", ns_to_ms(lag.p50_ns), ns_to_ms(lag.p99_ns))
        });
        let text = format!(
            "{} of {} requests left late{lag}. Latencies from the schedule count that; the others do not.",
            phase.arrivals.late, phase.arrivals.sent
        );
        found.warnings.push((WarningCode::LateSends, text));
    }
    let loop_p99 = phase.loop_lag().quantile_ns(0.99).unwrap_or(0);
    // What waited for a place far longer than the loop ever was late, waited because the plan says so.
    let explains = !phase.asked.has_limit() || phase.send_lag.is_none_or(|lag| lag.p50_ns <= loop_p99);
    if late && explains && loop_p99 > LOOP_LAG_NS {
        found.limits.push(format!("its loop woke late (p99 {:.2} ms)", ns_to_ms(loop_p99)));
    }
    // Without limits nothing but the client itself stands between an arrival and its send.
    let own_wait = phase.queue_wait.filter(|_| !phase.asked.is_closed_loop && !phase.asked.has_limit());
    if let Some(wait) = own_wait.filter(|wait| wait.p99_ns > late_after_ns(phase.asked.peak_rate)) {
        found.limits.push(format!("arrivals waited for it (p99 {:.2} ms)", ns_to_ms(wait.p99_ns)));
    }
}

fn is_late(phase: &PhaseHealth) -> bool {
    phase.arrivals.late as f64 > LATE_SHARE * phase.arrivals.sent as f64
}

fn rate(phase: &PhaseHealth, found: &mut Found) {
    let Some(asked) = phase.asked_rate().filter(|_| !phase.asked.is_closed_loop) else { return };
    // Arrivals that should have been sent when the last one was, counted from the first.
    let due = 1.0 + asked * phase.dispatched.length_ns() as f64 / 1e9;
    let behind = due.max(phase.scheduled.count as f64) - phase.dispatched.count as f64;
    if behind <= 1.0 || behind <= BEHIND * due {
        return;
    }
    let sent = phase.achieved_rate().map_or_else(|| "less".to_owned(), |rate| format!("{rate:.2}"));
    let a = phase.arrivals;
    let gone = match (a.skipped, a.cut) {
        (0, 0) => String::new(),
        (skipped, cut) => format!(" {skipped} arrivals were skipped, {cut} cut off at the end."),
    };
    let text = format!("Asked for {asked:.2} requests/s, sent {sent}.{gone}");
    found.warnings.push((WarningCode::UnreachedRate, text));
}

fn concurrency(phase: &PhaseHealth, found: &mut Found) {
    let Some(asked) = phase.asked.concurrency.filter(|_| phase.asked.is_closed_loop) else { return };
    let sessions = phase.sessions();
    let held = if sessions.peak().is_some() { sessions } else { phase.in_flight() };
    let (Some(mean), Some(peak)) = (held.mean(), held.peak()) else { return };
    let is_long = held.length_ns() >= HELD_NS && !phase.asked.is_ramped;
    let low = is_long && mean < HELD * f64::from(asked);
    if peak < u64::from(asked) || low {
        let text =
            format!("Asked for {asked} sessions at once, held {mean:.1} on average and {peak} at most.");
        found.warnings.push((WarningCode::UnreachedConcurrency, text));
    }
}

/// Whether a wake that was so late is an event of its own in a phase of that length.
fn stood_still(late_ns: u64, phase_ns: u64) -> bool {
    late_ns > STILL_NS && phase_ns > 0 && late_ns as f64 > STILL * phase_ns as f64
}

fn busiest(phase: &PhaseHealth) -> Option<(&ShardHealth, f64)> {
    most(phase, |shard| shard.thread.busy())
}

fn most_starved(phase: &PhaseHealth) -> Option<(&ShardHealth, f64)> {
    most(phase, |shard| shard.thread.waited())
}

fn most(phase: &PhaseHealth, of: impl Fn(&ShardHealth) -> Option<f64>) -> Option<(&ShardHealth, f64)> {
    phase.shards.iter().filter_map(|s| Some((s, of(s)?))).max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Why the client was not the limit: the worst of what could have made it one. `None` without any such measurement.
fn acquittal(phases: &[&PhaseHealth]) -> Option<String> {
    let worst = |of: &dyn Fn(&PhaseHealth) -> Option<f64>| {
        phases.iter().filter_map(|phase| of(phase)).max_by(f64::total_cmp)
    };
    let mut told = Vec::new();
    if let Some(busy) = worst(&|phase| busiest(phase).map(|(_, busy)| busy)) {
        told.push(format!("its busiest thread used {:.0} % of a core", busy * 100.0));
    }
    if let Some(waited) = worst(&|phase| most_starved(phase).map(|(_, waited)| waited)) {
        told.push(format!("waited for one {:.1} % of the time", waited * 100.0));
    }
    if told.is_empty() {
        return None;
    }
    if let Some(lag) = worst(&|phase| phase.loop_lag().quantile_ns(0.99).map(ns_to_ms)) {
        told.push(format!("loop lag p99 {lag:.2} ms"));
    }
    if phases.iter().any(|phase| !phase.asked.is_closed_loop) {
        let (late, sent) = phases
            .iter()
            .filter(|phase| !phase.asked.is_closed_loop)
            .fold((0, 0), |(late, sent), phase| (late + phase.arrivals.late, sent + phase.arrivals.sent));
        told.push(format!("{late} of {sent} sends late"));
    }
    Some(told.join(", "))
}
