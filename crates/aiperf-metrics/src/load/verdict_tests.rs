//! Each rule of the verdict on both sides of its bound.

use super::health::{
    Arrivals, Asked, ComposerWaits, CpuShare, HandOver, Health, PhaseHealth, ShardHealth, Spread,
};
use super::verdict::{Limit, WarningCode, late_after_ns, verdict};
use super::{InFlight, LagHistogram, Span};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// One shard for ten seconds: 30 % of a core, 1 % of the time waiting for one, timers 0.1 ms late, `held` all the time.
fn shard(held: u64) -> ShardHealth {
    let mut in_flight = InFlight::start(0);
    for _ in 0..held {
        in_flight.add(0);
    }
    in_flight.close(10 * S);
    let mut loop_lag = LagHistogram::default();
    for _ in 0..100 {
        loop_lag.add(MS / 10);
    }
    ShardHealth {
        thread: CpuShare { wall_ns: 10 * S, cpu_ns: Some(3 * S), waited_ns: Some(S / 10) },
        loop_lag,
        in_flight,
        sessions: in_flight,
        ..ShardHealth::default()
    }
}

/// 1,001 requests at 100 a second, all of them sent on time.
fn open_loop() -> PhaseHealth {
    let span = Span { count: 1001, first_ns: S, last_ns: 11 * S };
    let lag = Spread { p50_ns: MS / 20, p99_ns: MS / 5, max_ns: 2 * MS };
    PhaseHealth {
        name: "profiling".to_owned(),
        asked: Asked { peak_rate: Some(100.0), ..Asked::default() },
        arrivals: Arrivals { scheduled: 1001, sent: 1001, late: 3, ..Arrivals::default() },
        scheduled: span,
        dispatched: span,
        send_lag: Some(lag),
        queue_wait: Some(lag),
        process: CpuShare { wall_ns: 10 * S, cpu_ns: Some(4 * S), waited_ns: None },
        shards: vec![shard(20)],
        ..PhaseHealth::default()
    }
}

/// 64 places, all of them taken all the time.
fn closed_loop() -> PhaseHealth {
    PhaseHealth {
        asked: Asked { is_closed_loop: true, concurrency: Some(64), ..Asked::default() },
        arrivals: Arrivals { scheduled: 640, sent: 640, ..Arrivals::default() },
        scheduled: Span::default(),
        send_lag: None,
        queue_wait: None,
        shards: vec![shard(64)],
        ..open_loop()
    }
}

fn of(phases: Vec<PhaseHealth>) -> Health {
    Health { phases, ..Health::default() }
}

fn judged(phase: PhaseHealth) -> (Limit, Vec<WarningCode>) {
    let verdict = verdict(&of(vec![phase]));
    (verdict.limit, verdict.warnings.iter().map(|w| w.code).collect())
}

fn with_thread(mut phase: PhaseHealth, cpu_ns: u64, waited_ns: u64) -> PhaseHealth {
    phase.shards[0].thread = CpuShare { wall_ns: 10 * S, cpu_ns: Some(cpu_ns), waited_ns: Some(waited_ns) };
    phase
}

#[test]
fn a_client_that_was_stopped_for_a_while_is_not_acquitted() {
    let with_stop = |ns: u64, phase_ns: u64| {
        let mut phase = closed_loop();
        phase.shards[0].loop_lag.add(ns);
        phase.process.wall_ns = phase_ns;
        phase
    };
    assert_eq!(judged(with_stop(101 * MS, 10 * S)), (Limit::Client, vec![WarningCode::ClientSaturated]));
    assert!(
        verdict(&of(vec![with_stop(2500 * MS, 10 * S)])).line.contains("its loop stood still for 2500 ms")
    );
    // A hundredth of the phase, and what a short phase has anyway.
    assert_eq!(judged(with_stop(600 * MS, 60 * S)), (Limit::NotClient, vec![]));
    assert_eq!(judged(with_stop(100 * MS, S)), (Limit::NotClient, vec![]));
}

#[test]
fn a_client_that_kept_up_is_acquitted_with_its_figures() {
    let all = verdict(&of(vec![open_loop()]));
    assert_eq!((all.limit, all.warnings.as_slice()), (Limit::NotClient, [].as_slice()));
    assert_eq!(
        all.line,
        "The client was not the limit: its busiest thread used 30 % of a core, waited for one 1.0 % of the time, loop lag p99 \
         0.10 ms, 3 of 1001 sends late."
    );
    let all = verdict(&of(vec![closed_loop()]));
    assert_eq!((all.limit, all.warnings.as_slice()), (Limit::NotClient, [].as_slice()));
    assert!(!all.line.contains("late"), "a closed loop has no schedule: {}", all.line);
}

#[test]
fn a_busy_thread_is_the_limit_from_nine_tenths_of_a_core_on() {
    assert_eq!(judged(with_thread(closed_loop(), 9 * S, 0)), (Limit::NotClient, vec![]));
    let (limit, codes) = judged(with_thread(closed_loop(), 9 * S + MS, 0));
    assert_eq!((limit, codes), (Limit::Client, vec![WarningCode::ClientSaturated]));
}

/// A busy loop on the shard's core: the client itself uses little.
#[test]
fn a_starved_client_is_found_by_its_wait_for_a_core() {
    assert_eq!(judged(with_thread(open_loop(), S / 10, S / 2)), (Limit::NotClient, vec![]));
    let (limit, codes) = judged(with_thread(open_loop(), S / 10, S / 2 + MS));
    assert_eq!((limit, codes), (Limit::Client, vec![WarningCode::ClientSaturated]));
    let line = verdict(&of(vec![with_thread(open_loop(), S / 10, 2 * S)])).line;
    assert!(
        line.starts_with("The client was the limit: shard 0 had to wait for a core 20.0 % of the time"),
        "{line}"
    );
}

#[test]
fn the_worst_of_several_shards_counts() {
    let mut phase = open_loop();
    phase.shards.push(ShardHealth {
        shard: 1,
        thread: CpuShare { wall_ns: 10 * S, cpu_ns: Some(95 * S / 10), waited_ns: None },
        ..ShardHealth::default()
    });
    let line = verdict(&of(vec![phase])).line;
    assert_eq!(line, "The client was the limit: shard 1 was busy 95 % of the time.");
}

#[test]
fn what_nobody_measured_is_not_known() {
    let mut phase = open_loop();
    phase.shards[0].thread = CpuShare::default();
    assert_eq!(judged(phase).0, Limit::Unknown);
    assert_eq!(verdict(&Health::default()).limit, Limit::Unknown);
}

#[test]
fn late_is_a_millisecond_and_a_twentieth_of_the_gap() {
    // 20 gaps of 5 ms make a second at 10 a second: 5 % of 100 ms.
    assert_eq!(late_after_ns(Some(10.0)), 5 * MS);
    assert_eq!(late_after_ns(Some(1000.0)), MS);
    assert_eq!(late_after_ns(Some(0.0)), MS);
    assert_eq!(late_after_ns(None), MS);
}

fn with_late(mut phase: PhaseHealth, late: u64) -> PhaseHealth {
    phase.arrivals.late = late;
    phase
}

#[test]
fn late_sends_are_told_and_blamed_on_who_was_late() {
    assert_eq!(judged(with_late(open_loop(), 10)).1, vec![]);
    // Slow handshakes make late sends, too: neither loop nor queue was late.
    assert_eq!(judged(with_late(open_loop(), 11)), (Limit::NotClient, vec![WarningCode::LateSends]));
    let mut slow = with_late(open_loop(), 11);
    for _ in 0..10 {
        slow.shards[0].loop_lag.add(5 * MS);
    }
    assert_eq!(judged(slow.clone()), (Limit::Client, vec![WarningCode::LateSends]));
    assert_eq!(judged(with_late(slow.clone(), 0)).0, Limit::NotClient, "a late loop that made nothing late");
    // Under a limit of the plan, where sends are later than the loop ever was, it is the wait for a place.
    let mut crowded = with_late(slow, 1001);
    crowded.asked.concurrency = Some(1);
    let lag = |p50_ns| Some(Spread { p50_ns, p99_ns: 900 * MS, max_ns: 900 * MS });
    for (p50_ns, limit) in [(MS, Limit::Client), (250 * MS, Limit::NotClient)] {
        crowded.send_lag = lag(p50_ns);
        assert_eq!(judged(crowded.clone()).0, limit);
    }
}

#[test]
fn a_queue_without_a_limit_is_the_clients_own() {
    let waiting = Some(Spread { p50_ns: 0, p99_ns: 2 * MS, max_ns: 9 * MS });
    // At 100 a second the bound is 1 ms; at 10 it is 5.
    let mut phase = PhaseHealth { queue_wait: waiting, ..open_loop() };
    assert_eq!(judged(phase.clone()).0, Limit::Client);
    phase.asked.peak_rate = Some(10.0);
    assert_eq!(judged(phase.clone()).0, Limit::NotClient);
    phase.asked = Asked { peak_rate: Some(100.0), max_in_flight: Some(4), ..Asked::default() };
    assert_eq!(judged(phase).0, Limit::NotClient, "what waits for a place waits for the server");
}

#[test]
fn a_rate_that_was_not_reached_is_told_whoever_held_it_back() {
    let limited = |sent: u64, last_ns: u64, skipped: u64, cut: u64| {
        let mut phase = open_loop();
        phase.asked.concurrency = Some(2);
        phase.arrivals = Arrivals { scheduled: 1001, sent, late: 0, skipped, cut };
        phase.dispatched = Span { count: sent, first_ns: S, last_ns };
        phase
    };
    let unreached = vec![WarningCode::UnreachedRate];
    // Cut by a duration: a fifth was sent. Skipped: as many. All sent, but in twice the time.
    assert_eq!(judged(limited(200, 11 * S, 0, 801)), (Limit::NotClient, unreached.clone()));
    assert_eq!(judged(limited(200, 11 * S, 801, 0)), (Limit::NotClient, unreached.clone()));
    assert_eq!(judged(limited(1001, 21 * S, 0, 0)), (Limit::NotClient, unreached.clone()));
    assert_eq!(judged(limited(0, 0, 1001, 0)), (Limit::NotClient, unreached));
    // 2 % of 1,001 are 20.
    assert_eq!(judged(limited(982, 11 * S, 19, 0)).1, vec![]);
    assert_eq!(judged(limited(980, 11 * S, 21, 0)).1, vec![WarningCode::UnreachedRate]);
    let text = &verdict(&of(vec![limited(201, 11 * S, 800, 0)])).warnings[0].text;
    assert_eq!(
        text,
        "Asked for 100.00 requests/s, sent 20.00. 800 arrivals were skipped, 0 cut off at the end."
    );
}

#[test]
fn one_late_request_of_few_is_no_unreached_rate() {
    let mut phase = open_loop();
    phase.scheduled = Span { count: 5, first_ns: 0, last_ns: 4 * S };
    phase.dispatched = Span { count: 5, first_ns: 0, last_ns: 4 * S + 900 * MS };
    phase.arrivals = Arrivals { scheduled: 5, sent: 5, ..Arrivals::default() };
    assert_eq!(judged(phase).1, vec![]);
}

#[test]
fn a_concurrency_that_was_not_reached_is_told() {
    let held = |places: u64| PhaseHealth { shards: vec![shard(places)], ..closed_loop() };
    assert_eq!(judged(held(64)).1, vec![]);
    assert_eq!(judged(held(63)).1, vec![WarningCode::UnreachedConcurrency], "never all of them");
    // All of them once, and 57.5 on average; nine tenths are 57.6.
    let mut mostly = closed_loop();
    let mut sessions = InFlight::start(0);
    for at in 0..64 {
        sessions.add(if at < 51 { 0 } else { 5 * S });
    }
    sessions.close(10 * S);
    mostly.shards[0].sessions = sessions;
    assert_eq!(judged(mostly.clone()).1, vec![WarningCode::UnreachedConcurrency]);
    let mut short = mostly.clone();
    let mut sessions = InFlight::start(0);
    for at in 0..64 {
        sessions.add(at * MS);
    }
    sessions.close(64 * MS);
    short.shards[0].sessions = sessions;
    assert_eq!(judged(short).1, vec![], "in less than a second starting takes its part");
    mostly.asked.is_ramped = true;
    assert_eq!(judged(mostly.clone()).1, vec![], "a ramp asks for less in the beginning");
    mostly.asked.is_ramped = false;
    mostly.asked.is_closed_loop = false;
    assert_eq!(judged(mostly).1, vec![], "of an open loop it is a limit");
}

#[test]
fn requests_stand_in_for_sessions_that_were_not_counted() {
    let mut phase = closed_loop();
    phase.shards[0].sessions = InFlight::default();
    assert_eq!(judged(phase.clone()).1, vec![]);
    phase.shards[0].in_flight = InFlight::start(0);
    phase.shards[0].in_flight.close(S);
    assert_eq!(judged(phase).1, vec![WarningCode::UnreachedConcurrency]);
}

#[test]
fn a_composer_that_lets_sessions_wait_is_part_of_the_client() {
    let late = |sessions, turns, longest_ns, waited_ns| {
        let mut phase = open_loop();
        phase.shards[0].composer = ComposerWaits { sessions, turns, waited_ns, longest_ns };
        phase
    };
    let waits = |sessions, longest_ns, waited_ns| judged(late(sessions, 0, longest_ns, waited_ns));
    assert_eq!(waits(10, 20 * MS, 40 * MS), (Limit::NotClient, vec![]), "1 % of 1,001");
    assert_eq!(waits(11, MS - 1, 4 * MS), (Limit::NotClient, vec![]), "many short ones");
    assert_eq!(waits(11, MS, 4 * MS), (Limit::Client, vec![WarningCode::ComposerLate]));
    // 20 places for 10 s; 5 % are 10 s.
    assert_eq!(waits(1, MS / 2, 10 * S + 1).0, Limit::Client);
    let line = |sessions, turns| verdict(&of(vec![late(sessions, turns, MS, 4 * MS)])).line;
    let told = "7 sessions waited for their prompt to be made and 8 later turns for theirs to be made again, the longest 1.0 ms";
    assert_eq!(line(7, 8), format!("The client was the limit: {told}."));
    assert!(line(0, 11).contains("11 later turns waited for theirs to be made again"));
}

#[test]
fn shortages_are_the_clients() {
    let mut phase = open_loop();
    phase.shards[0].ports_missing = 7;
    let all = verdict(&of(vec![phase.clone()]));
    assert_eq!((all.limit, all.warnings[0].code), (Limit::Client, WarningCode::PortShortage));
    assert_eq!(all.line, "The client was the limit: 7 connections found no local port.");
    phase.shards[0].descriptors_missing = 1;
    assert_eq!(judged(phase).1, vec![WarningCode::PortShortage, WarningCode::DescriptorShortage]);
}

#[test]
fn what_is_of_the_whole_run_has_no_phase() {
    let mut health = of(vec![open_loop()]);
    health.clock.wall_step_ns = Some(-5_000_000);
    assert!(verdict(&health).warnings.is_empty());
    health.clock.wall_step_ns = Some(-5_000_001);
    health.handover = HandOver { spilled_requests: 3, spilled_bytes: 2_500_000, ..HandOver::default() };
    let all = verdict(&health);
    assert_eq!(all.limit, Limit::NotClient, "neither holds the load back");
    let told: Vec<_> = all.warnings.iter().map(|w| (w.code, w.phase.as_deref())).collect();
    assert_eq!(told, [(WarningCode::WallClockStepped, None), (WarningCode::ReaderBehind, None)]);
    assert!(
        all.warnings[0].text.contains("by -5.0 ms") && all.warnings[1].text.contains("3 answers (2.5 MB)")
    );
}

#[test]
fn a_clock_that_was_set_and_set_back_is_told_of() {
    let mut phase = open_loop();
    phase.shards[0].clock_steps = 2;
    let mut health = of(vec![phase]);
    health.clock.wall_step_ns = Some(0);
    let told = verdict(&health).warnings;
    assert_eq!(told.iter().map(|w| w.code).collect::<Vec<_>>(), [WarningCode::WallClockStepped]);
    assert!(told[0].text.contains("2 steps seen"));
    health.clock.wall_step_ns = Some(9_000_000);
    let told = verdict(&health).warnings;
    assert!(told.len() == 1 && told[0].text.contains("by +9.0 ms"), "said once");
}

#[test]
fn warm_ups_decide_nothing_and_phases_are_named_where_there_are_several() {
    let warmup = PhaseHealth { is_warmup: true, ..with_thread(closed_loop(), 10 * S, 0) };
    assert_eq!(verdict(&of(vec![warmup.clone(), open_loop()])).limit, Limit::NotClient);
    let second = PhaseHealth { name: "heavy".to_owned(), ..with_thread(closed_loop(), 10 * S, 0) };
    let all = verdict(&of(vec![warmup, open_loop(), second]));
    assert_eq!(all.line, "The client was the limit: in phase heavy: shard 0 was busy 100 % of the time.");
    assert_eq!(all.warnings[0].phase.as_deref(), Some("heavy"));
}

#[test]
fn codes_are_stable() {
    let names: Vec<&str> = WarningCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(
        names,
        [
            "late_sends",
            "client_saturated",
            "unreached_concurrency",
            "unreached_rate",
            "wall_clock_stepped",
            "port_shortage",
            "descriptor_shortage",
            "composer_late",
            "reader_behind",
        ]
    );
}
