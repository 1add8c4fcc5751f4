//! What a load is held to, whichever way it is paced.

use std::collections::BTreeMap;

use aiperf_core::plan::{Arrival, Pacing, Ramp, RampShape, RatePlan, UrlStrategy};
use aiperf_load::{Arrivals, Targets};

use crate::world::{MS, Request, S, World, lives, most_at_once};

fn gaps(sent: &[Request]) -> Vec<f64> {
    sent.windows(2).map(|w| (w[1].sent_ns - w[0].sent_ns) as f64 / S as f64).collect()
}

/// Kolmogorov and Smirnov's distance from the exponential of mean 1.
fn distance_from_exponential(mut gaps: Vec<f64>) -> f64 {
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distances = gaps.iter().enumerate().map(|(i, gap)| {
        let p = 1.0 - (-gap).exp();
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    });
    distances.fold(0.0, f64::max)
}

#[test]
fn a_constant_rate_is_one_to_the_nanosecond() {
    let mut world = World::new(Pacing::steady(50.0, Arrival::Constant));
    world.plan.duration_ns = Some(2 * S);
    let sent = world.run();
    let at: Vec<u64> = sent.iter().map(|r| r.sent_ns).collect();
    assert_eq!(at, (0..100).map(|i| i * 20 * MS).collect::<Vec<_>>());
}

#[test]
fn poisson_and_gamma_of_one_have_exponential_gaps() {
    for arrival in [Arrival::Poisson, Arrival::Gamma { smoothness: 1.0 }] {
        let n = 20_000;
        let at: Vec<u64> = Arrivals::new(&RatePlan::steady(1000.0), arrival, 7, 1).take(n + 1).collect();
        let gaps: Vec<f64> = at.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 3.0 / (n as f64).sqrt(), "{arrival:?}: {mean}");
        let distance = distance_from_exponential(gaps);
        // The 5 % point, half as much again.
        assert!(distance < 1.5 * 1.36 / (n as f64).sqrt(), "{arrival:?}: {distance}");
    }
}

#[test]
fn a_gamma_of_four_has_half_the_spread() {
    let mut world = World::new(Pacing::steady(100.0, Arrival::Gamma { smoothness: 4.0 }));
    world.plan.requests = Some(20_000);
    let gaps = gaps(&world.run());
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance.sqrt() / mean - 0.5).abs() < 0.02, "{mean} {variance}");
}

#[test]
fn a_limit_on_sessions_counts_think_time_in() {
    let mut world = World::new(Pacing::Concurrency);
    world.plan.concurrency = Some(4);
    world.plan.sessions = Some(40);
    (world.turns, world.think_ns) = (3, 100 * MS);
    world.service_ns = |session, turn| (10 + (session * 7 + u64::from(turn) * 3) % 50) * MS;
    for shards in [1, 3, 7] {
        world.shards = shards;
        let sent = world.run();
        assert_eq!(sent.len(), 120);
        assert_eq!(most_at_once(lives(&sent)), 4, "{shards} shards");
        assert!(most_at_once(sent.iter().map(|r| (r.sent_ns, r.end_ns))) <= 4);
        // Turns of a session come one after the other, and the think time is between them.
        for session in 0..40 {
            let mut turns: Vec<&Request> = sent.iter().filter(|r| r.session == session).collect();
            turns.sort_by_key(|r| r.turn);
            assert!(turns.windows(2).all(|w| w[1].sent_ns == w[0].end_ns + 100 * MS));
        }
    }
}

#[test]
fn sessions_end_whole_and_requests_do_not() {
    let mut world = World::new(Pacing::Concurrency);
    world.turns = 3;
    world.service_ns = |_, _| 10 * MS;
    world.plan.sessions = Some(5);
    assert_eq!(world.run().len(), 15);
    world.plan.requests = Some(7);
    let sent = world.run();
    assert_eq!(sent.len(), 7);
    assert_eq!(sent.last().map(|r| (r.session, r.turn)), Some((2, 0)));
}

#[test]
fn a_duration_ends_sending_and_its_grace_what_is_in_flight() {
    let mut world = World::new(Pacing::steady(10.0, Arrival::Constant));
    world.plan.duration_ns = Some(S);
    world.plan.grace_ns = Some(S);
    world.service_ns = |_, _| 10 * S;
    let sent = world.run();
    assert_eq!(sent.len(), 10);
    assert!(sent.iter().all(|r| r.is_dropped && r.end_ns == 2 * S));
    // Without an end to the grace all of them end by themselves.
    world.plan.grace_ns = None;
    assert!(world.run().iter().all(|r| !r.is_dropped && r.end_ns == r.sent_ns + 10 * S));
}

#[test]
fn an_arrival_without_a_place_waits_and_stays_due() {
    let mut world = World::new(Pacing::steady(20.0, Arrival::Constant));
    world.plan.concurrency = Some(2);
    world.plan.sessions = Some(100);
    world.service_ns = |_, _| 430 * MS;
    let sent = world.run();
    assert_eq!((sent.len(), most_at_once(lives(&sent))), (100, 2));
    for (i, request) in (0u64..).zip(&sent) {
        assert_eq!((request.session, request.due_ns), (i, i * 50 * MS));
        assert_eq!(request.sent_ns, (i / 2 * 430 * MS + i % 2 * 50 * MS).max(request.due_ns));
    }
}

#[test]
fn a_rate_of_several_turns_is_the_rate_of_requests() {
    let mut world = World::new(Pacing::steady(50.0, Arrival::Constant));
    world.plan.duration_ns = Some(20 * S);
    (world.turns, world.think_ns) = (4, 300 * MS);
    world.service_ns = |_, _| 70 * MS;
    let sent = world.run();
    let at: Vec<u64> = sent.iter().map(|r| r.sent_ns).collect();
    assert_eq!(at, (0..1000).map(|i| i * 20 * MS).collect::<Vec<_>>());
    assert!(sent.iter().filter(|r| r.turn > 0).count() > 700);
}

#[test]
fn a_fixed_schedule_is_kept_and_its_end_is_part_of_it() {
    let pacing = |end_ms: Option<u64>| Pacing::FixedSchedule {
        auto_offset: false,
        start_offset_ns: None,
        end_offset_ns: end_ms.map(|ms| ms * MS),
    };
    let sent = |end_ms| {
        let mut world = World::new(pacing(end_ms));
        world.starts_ns = vec![S, 0, 250 * MS];
        world.service_ns = |_, _| 5 * S;
        world.run().iter().map(|r| r.sent_ns / MS).collect::<Vec<_>>()
    };
    assert_eq!(sent(None), [0, 250, 1000]);
    assert_eq!(sent(Some(1000)), [0, 250, 1000]);
    assert_eq!(sent(Some(999)), [0, 250]);
}

#[test]
fn users_keep_their_gaps_and_the_rate_from_the_first_second_on() {
    let mut world = World::new(Pacing::UserCentric { per_second: 5.0, users: 10 });
    world.plan.duration_ns = Some(60 * S);
    world.turns = 4;
    world.service_ns = |session, turn| (100 + (session * 31 + u64::from(turn) * 17) % 1800) * MS;
    let sent = world.run();
    let mut by_session: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for request in &sent {
        by_session.entry(request.session).or_default().push(request.sent_ns);
    }
    assert!(by_session.values().all(|at| at.windows(2).all(|w| w[1] - w[0] >= 2 * S)));
    for second in 0..60 {
        let within = sent.iter().filter(|r| r.sent_ns / S == second).count();
        assert_eq!(within, 5, "second {second}");
    }
    // Answers that take longer than the gap make the next turn late, and leave it due at their end.
    world.service_ns = |_, _| 3 * S;
    let sent = world.run();
    let second = sent.iter().find(|r| r.turn == 1).expect("users of several turns");
    let first = sent.iter().find(|r| (r.session, r.turn) == (second.session, 0)).expect("a first turn");
    assert_eq!(second.sent_ns, first.end_ns);
}

#[test]
fn a_closed_loop_ramps_its_places_up_and_down() {
    for (target, from) in [(9, None), (1, Some(9.0))] {
        for shape in [RampShape::Linear, RampShape::Exponential, RampShape::Poisson] {
            let mut world = World::new(Pacing::Concurrency);
            world.plan.concurrency = Some(target);
            world.plan.concurrency_ramp = Some(Ramp { duration_ns: 8 * S, shape, from });
            world.plan.duration_ns = Some(10 * S);
            world.service_ns = |_, _| 10 * MS;
            let held = |sent: &[Request], from: u64, to: u64| {
                most_at_once(lives(sent).into_iter().filter(|life| life.1 > from && life.0 < to))
            };
            let alone = world.run();
            let (first, last) = if from.is_some() { (9, 1) } else { (1, 9) };
            assert_eq!(held(&alone, 0, MS), first, "{shape:?}");
            assert_eq!(held(&alone, 9 * S, 10 * S), last, "{shape:?}");
            // The number of shards changes nothing.
            world.shards = 4;
            let of = |sent: &[Request]| sent.iter().map(|r| (r.sent_ns, r.end_ns)).collect::<Vec<_>>();
            assert_eq!(of(&alone), of(&world.run()));
        }
    }
}

#[test]
fn turns_of_a_session_reach_one_server_and_sessions_take_turns() {
    let mut world = World::new(Pacing::Concurrency);
    world.plan.sessions = Some(10);
    world.turns = 2;
    let targets = Targets::new(UrlStrategy::RoundRobin, [1.0; 2], 7);
    let servers: Vec<_> = world.run().iter().map(|r| targets.of_session(r.session)).collect();
    assert_eq!(servers, [0, 0, 1, 1].repeat(5).into_iter().map(Some).collect::<Vec<_>>());
}
