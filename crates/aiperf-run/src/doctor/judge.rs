//! Who was the limit, and what to do about it. Bounds are those of the verdict of a run where it has them.

use aiperf_core::text::grouped;
use aiperf_metrics::PhaseHealth;

use super::figures::{Cost, Examination, Limit};
use super::server::Served;

/// A thread that is busier than this share of a core has no time left.
const BUSY: f64 = 0.90;
/// A thread that waits for a core more than this share of the time is kept from its work.
const WAITED: f64 = 0.05;
/// A share of what a worker can do that leaves it time for what comes at once.
const COMFORT: f64 = 0.5;
/// Others make a machine busy from this pressure on, percent.
const PRESSURE: f64 = 10.0;
/// An error of gaps up to this share of the gap is small.
const GAP_ERROR: f64 = 0.05;

/// CPU time of each of `count`, and how busy who was.
pub(super) fn cost(health: &PhaseHealth, served: &Served, count: u64) -> Cost {
    let each = |ns: Option<u64>| ns.filter(|_| count > 0).map(|ns| ns as f64 / count as f64 / 1e3);
    let sending: Option<u64> = health.shards.iter().map(|shard| shard.thread.cpu_ns).sum();
    let most = |of: &mut dyn Iterator<Item = f64>| of.max_by(f64::total_cmp);
    let wall_ns = health.process.wall_ns;
    let share = |ns: Option<u64>| ns.filter(|_| wall_ns > 0).map(|ns| (ns as f64 / wall_ns as f64).min(1.0));
    Cost {
        sending_us: each(sending),
        client_us: each(health.process.cpu_ns),
        server_us: each(Some(served.cpu_ns).filter(|ns| *ns > 0)),
        client_busy: most(&mut health.shards.iter().filter_map(|shard| shard.thread.busy())),
        client_waited: most(&mut health.shards.iter().filter_map(|shard| shard.thread.waited())),
        server_busy: share(Some(served.cpu_ns).filter(|ns| *ns > 0)),
        server_waited: share(served.waited_ns),
    }
}

/// What kept a measurement with this cost from giving more.
pub(super) fn limit(cost: &Cost) -> (Limit, String) {
    let above = |share: Option<f64>, bound: f64| share.is_some_and(|share| share > bound);
    let (client, server) = (above(cost.client_busy, BUSY), above(cost.server_busy, BUSY));
    let waited = above(cost.client_waited, WAITED) || above(cost.server_waited, WAITED);
    let limit = match (client, server, waited) {
        (true, true, _) => Limit::Both,
        (true, false, _) => Limit::Client,
        (false, true, _) => Limit::Server,
        (false, false, true) => Limit::Machine,
        (false, false, false) => Limit::None,
    };
    let start = match limit {
        Limit::Both => "client and server both had no time left",
        Limit::Client => "the client was the limit",
        Limit::Server => "the simulated server was the limit, not the client",
        Limit::Machine => "threads had to wait for a core",
        Limit::None => "neither client nor server was busy all the time",
    };
    (limit, format!("{start} ({})", evidence(cost)))
}

/// How busy who was.
pub(super) fn evidence(cost: &Cost) -> String {
    let percent = |share: Option<f64>| share.map(|share| format!("{:.0} %", share * 100.0));
    let of = |name: &str, busy: Option<f64>, waited: Option<f64>| {
        let parts = [
            percent(busy).map(|busy| format!("ran {busy}")),
            percent(waited).map(|waited| format!("waited for a core {waited}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{name} {} of the time", parts.join(", ")))
    };
    let told: Vec<String> = [
        of("client thread", cost.client_busy, cost.client_waited),
        of("server thread", cost.server_busy, cost.server_waited),
    ]
    .into_iter()
    .flatten()
    .collect();
    if told.is_empty() { "the system does not tell how busy threads are".to_owned() } else { told.join("; ") }
}

/// What follows from all of it, in plain words.
pub(super) fn advice(found: &Examination) -> Vec<String> {
    let mut advice = Vec::new();
    if is_disturbed(found) {
        advice.push(
            "Other programs want this machine's cores, or there are too few for client and server together. Figures here are lower, and \
             lags longer, than the client's own; stop what else runs and measure again. The same holds for a run that matters."
                .to_owned(),
        );
    }
    let peaks = [("requests", &found.requests), ("chunks", &found.chunks)];
    for (what, per_worker) in
        peaks.into_iter().filter_map(|(what, peak)| Some((what, peak.as_ref()?.per_worker_per_second?)))
    {
        advice.push(format!(
            "Keep below about {} {what} a second for each sending thread: half of what its CPU time allows leaves it free when something \
             is due.",
            rounded(per_worker * COMFORT)
        ));
    }
    let held = found.rates.iter().filter(|step| step.held).map(|step| step.asked).reduce(f64::max);
    let missed = found.rates.iter().filter(|step| !step.held).map(|step| step.asked).reduce(f64::min);
    match (held, missed) {
        (Some(held), Some(missed)) if held < missed => advice.push(format!(
            "Open loop: rates up to {} a second were held here, {} was not.",
            plain(held),
            plain(missed)
        )),
        (_, Some(missed)) => advice.push(format!(
            "Open loop: {} a second was not held here; look at its line before you trust lags of a run at such a rate.",
            plain(missed)
        )),
        (Some(held), None) => advice
            .push(format!("Open loop: every rate that was tried was held, up to {} a second.", plain(held))),
        (None, None) => {}
    }
    if let Some(step) = found
        .streams
        .iter()
        .find(|step| step.gap_error.is_some_and(|error| error.p99_ms > GAP_ERROR * step.gap_ms))
    {
        let whose = if step.read_lag.is_some() {
            ". Chunks have the kernel's stamps, so that is the simulated server's writing and not the client's reading"
        } else {
            ""
        };
        advice.push(format!(
            "With {} streams at once, gaps between chunks are off by more than {:.0} % of {} ms{whose}.",
            grouped(step.held),
            GAP_ERROR * 100.0,
            step.gap_ms
        ));
    }
    if let Some(descriptors) = found.machine.descriptors.filter(|d| d.used < 65_536) {
        let whose = if descriptors.used < descriptors.hard {
            "ulimit -n"
        } else {
            "the hard limit: ulimit -Hn, or LimitNOFILE of a service"
        };
        advice.push(format!(
            "Open files are limited to {}, so that a run holds some connections less than that; raise {whose} for more.",
            grouped(descriptors.used)
        ));
    }
    if let Some(ports) = found.machine.ports.filter(|ports| ports.connections < 60_000) {
        advice.push(format!(
            "Local ports allow {} connections to one address; widen net.ipv4.ip_local_port_range (1024 65535) for more, or spread them \
             over several servers.",
            grouped(ports.connections)
        ));
    }
    if found.machine.cores < 2 {
        advice.push(
            "There is one core for everything: what sends, what reads answers, and the server if it is here. Give the client two or more."
                .to_owned(),
        );
    }
    if !found.machine.receive_stamps {
        advice.push(
            "The kernel does not stamp what it receives: when a thread is busy, chunks get the time of their read, which is later."
                .to_owned(),
        );
    }
    if !found.machine.timer_slack_granted {
        advice.push(
            "Exact timers were not granted: sends leave up to some 0.05 ms after they are due.".to_owned(),
        );
    }
    advice
}

/// Whether figures are spoiled by others that run here.
fn is_disturbed(found: &Examination) -> bool {
    let pressed = found.machine.cpu_pressure_percent.is_some_and(|percent| percent > PRESSURE);
    let costs = found.rates.iter().map(|step| step.cost);
    // At these rates neither of the two fills a core.
    pressed || costs.into_iter().any(|cost| limit(&cost).0 == Limit::Machine)
}

/// Two digits that count.
fn rounded(value: f64) -> String {
    let whole = value.max(0.0).round() as u64;
    let unit = 10u64.pow(whole.checked_ilog10().unwrap_or(0).saturating_sub(1));
    grouped(whole / unit * unit)
}

/// A rate as it was asked for.
fn plain(rate: f64) -> String {
    if rate.fract() == 0.0 { grouped(rate as u64) } else { rate.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::figures::{Descriptors, Lag, Machine, Peak, Ports, RateStep, StreamStep};
    use aiperf_metrics::{CpuShare, ShardHealth};

    fn busy(client: f64, waited: f64, server: f64) -> Cost {
        Cost {
            client_busy: Some(client),
            client_waited: Some(waited),
            server_busy: Some(server),
            ..Cost::default()
        }
    }

    #[test]
    fn the_limit_is_who_has_no_time_left() {
        for (cost, wanted) in [
            (busy(0.95, 0.0, 0.5), Limit::Client),
            (busy(0.5, 0.2, 0.95), Limit::Server),
            (busy(0.95, 0.0, 0.95), Limit::Both),
            (busy(0.9, 0.06, 0.9), Limit::Machine),
            (busy(0.9, 0.05, 0.9), Limit::None),
            (Cost { server_waited: Some(0.06), ..busy(0.1, 0.0, 0.1) }, Limit::Machine),
            (Cost::default(), Limit::None),
        ] {
            assert_eq!(limit(&cost).0, wanted, "{cost:?}");
        }
        let (_, why) = limit(&busy(0.5, 0.2, 0.95));
        assert_eq!(
            why,
            "the simulated server was the limit, not the client (client thread ran 50 %, waited for a core 20 % of the time; server \
             thread ran 95 % of the time)"
        );
        assert!(limit(&Cost::default()).1.contains("does not tell"));
    }

    #[test]
    fn a_cost_is_what_each_took_of_each_thread() {
        let share = |cpu_ns| CpuShare { wall_ns: 1_000_000, cpu_ns: Some(cpu_ns), waited_ns: Some(100_000) };
        let shard = |cpu_ns| ShardHealth { thread: share(cpu_ns), ..ShardHealth::default() };
        let health = PhaseHealth {
            process: share(900_000),
            shards: vec![shard(200_000), shard(400_000)],
            ..PhaseHealth::default()
        };
        let served = Served { cpu_ns: 500_000, waited_ns: None, ..Served::default() };
        let cost = cost(&health, &served, 100);
        assert_eq!((cost.sending_us, cost.client_us, cost.server_us), (Some(6.0), Some(9.0), Some(5.0)));
        assert_eq!((cost.client_busy, cost.client_waited), (Some(0.4), Some(0.1)));
        assert_eq!((cost.server_busy, cost.server_waited), (Some(0.5), None));
    }

    #[test]
    fn nothing_is_the_cost_of_nothing() {
        assert_eq!(cost(&PhaseHealth::default(), &Served::default(), 0), Cost::default());
    }

    fn healthy() -> Examination {
        Examination {
            aiperf_doctor: 1,
            seconds: 8.0,
            interrupted: false,
            machine: Machine {
                cores: 4,
                clock_source: None,
                clock_step_ns: Some(20),
                timer_slack_granted: true,
                descriptors: Some(Descriptors { soft: 1024, hard: 524_288, used: 524_288 }),
                ports: Some(Ports { first: 1024, last: 65_535, connections: 64_512 }),
                receive_stamps: true,
                cpu_pressure_percent: Some(0.0),
                load_average: Some(0.1),
            },
            requests: None,
            chunks: None,
            rates: Vec::new(),
            streams: Vec::new(),
            bytes_per_stream: None,
            left_out: Vec::new(),
            advice: Vec::new(),
        }
    }

    fn rate(asked: f64, held: bool) -> RateStep {
        RateStep {
            asked,
            achieved: Some(asked),
            sent: 10,
            late: 0,
            send_lag: None,
            loop_lag: None,
            held,
            cost: busy(0.1, 0.0, 0.1),
            limit: Limit::None,
            reason: String::new(),
        }
    }

    /// The only sentence of advice.
    #[track_caller]
    fn only(found: &Examination) -> String {
        let advice = advice(found);
        let [one] = &advice[..] else { panic!("{advice:?}") };
        one.clone()
    }

    #[test]
    fn a_machine_without_faults_needs_no_advice() {
        assert!(advice(&healthy()).is_empty());
    }

    #[test]
    fn each_shortage_is_told_with_what_to_raise() {
        let of = |change: &dyn Fn(&mut Machine)| {
            let mut found = healthy();
            change(&mut found.machine);
            only(&found)
        };
        let hard = Some(Descriptors { soft: 1024, hard: 4096, used: 4096 });
        assert!(of(&|m| m.descriptors = hard).contains("limited to 4,096"));
        assert!(of(&|m| m.descriptors = hard).contains("ulimit -Hn"));
        let ports = Some(Ports { first: 32_768, last: 60_999, connections: 28_232 });
        assert!(of(&|m| m.ports = ports).contains("28,232 connections"));
        assert!(of(&|m| m.cores = 1).contains("two or more"));
        assert!(of(&|m| m.receive_stamps = false).contains("stamp"));
        assert!(of(&|m| m.timer_slack_granted = false).contains("0.05 ms"));
        assert!(of(&|m| m.cpu_pressure_percent = Some(40.0)).contains("Other programs"));
    }

    #[test]
    fn what_was_held_is_told_beside_what_was_not() {
        let with = |rates: Vec<RateStep>| only(&Examination { rates, ..healthy() });
        assert!(with(vec![rate(100.0, true), rate(2000.0, true)]).contains("up to 2,000 a second"));
        let told = with(vec![rate(1000.0, true), rate(2000.0, false)]);
        assert!(told.contains("1,000 a second were held") && told.contains("2,000 was not"));
        assert!(
            with(vec![rate(100.0, false), rate(500.0, true)]).starts_with("Open loop: 100 a second was not")
        );
    }

    #[test]
    fn threads_that_wait_at_low_rates_tell_of_others() {
        let step = RateStep { cost: busy(0.1, 0.3, 0.1), ..rate(100.0, true) };
        let told = advice(&Examination { rates: vec![step], ..healthy() });
        assert!(told[0].starts_with("Other programs"), "{told:?}");
    }

    #[test]
    fn a_worker_is_best_kept_at_half() {
        let peak = Peak {
            at_once: 64,
            workers: 1,
            count: 1,
            seconds: 1.0,
            per_second: 1.0,
            per_worker_per_second: Some(50_990.0),
            cost: Cost::default(),
            limit: Limit::Server,
            reason: String::new(),
        };
        assert!(
            only(&Examination { requests: Some(peak), ..healthy() })
                .contains("about 25,000 requests a second")
        );
    }

    #[test]
    fn wide_gaps_are_told_with_whose_they_are() {
        let lag = |ms| Some(Lag { p50_ms: ms, p99_ms: ms, max_ms: ms });
        let step = |read_lag| StreamStep {
            asked: 10_000,
            held: 10_000,
            gap_ms: 100.0,
            gap_error: lag(5.1),
            server_late_mean_ms: Some(0.5),
            read_lag,
            loop_lag: None,
            completed: 1,
            failed: 0,
            cost: Cost::default(),
            limit: Limit::None,
            reason: String::new(),
        };
        let told = |read_lag| only(&Examination { streams: vec![step(read_lag)], ..healthy() });
        assert!(told(None).ends_with("5 % of 100 ms."));
        assert!(told(lag(1.0)).contains("10,000 streams") && told(lag(1.0)).contains("kernel's stamps"));
    }

    #[test]
    fn two_digits_count() {
        for (value, text) in
            [(0.0, "0"), (7.4, "7"), (99.0, "99"), (128.0, "120"), (1_234_567.0, "1,200,000")]
        {
            assert_eq!(rounded(value), text);
        }
        assert_eq!((plain(1250.0), plain(0.5)), ("1,250".to_owned(), "0.5".to_owned()));
    }
}
