//! Ways to pace and to limit, through the binary: the schedule that the records tell, to the nanosecond, and what was held at once as
//! records and server saw it. Nothing here bounds how late a crowded machine is.

mod limits;
mod phases;

use std::collections::{BTreeMap, BTreeSet};

use aiperf_core::plan::{Arrival, Ramp, RampShape, RatePlan, RatePoint, RateShape};
use aiperf_load::Arrivals;
use aiperf_sim::scripted::Reply;
use serde_json::{Value, json};

use crate::load::{at, by_session};
use crate::support::{Done, Run, Tally, scripted, sim, url};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// When each request was wanted, after the first one, in order.
fn offsets(done: &Done) -> Vec<u64> {
    let mut wanted: Vec<u64> = done.records().iter().map(|r| at(r, "scheduled_ns")).collect();
    wanted.sort_unstable();
    wanted.iter().map(|ns| ns - wanted[0]).collect()
}

/// Records of each session, in order of its turns, by the session's number.
fn turns(done: &Done) -> BTreeMap<u64, Vec<Value>> {
    let mut sessions: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for record in done.records() {
        sessions.entry(at(&record, "session_num")).or_default().push(record);
    }
    for records in sessions.values_mut() {
        records.sort_by_key(|r| at(r, "turn_index"));
    }
    sessions
}

/// From when until when each session lived.
fn lives(done: &Done) -> Vec<(u64, u64)> {
    let life = |records: Vec<Value>| {
        let first = at(&records[0], "credit_issued_ns");
        (first, records.iter().map(|r| at(r, "request_end_ns")).max().unwrap_or(first))
    };
    turns(done).into_values().map(life).collect()
}

/// Most of the spans that overlap.
fn most_at_once(spans: impl IntoIterator<Item = (u64, u64)>) -> i64 {
    // What ends in an instant ends before what begins in it.
    let mut steps: Vec<(u64, i64)> =
        spans.into_iter().flat_map(|(from, to)| [(from, 1), (to.max(from + 1), -1)]).collect();
    steps.sort_unstable();
    let held = steps.iter().scan(0, |held, (_, step)| {
        *held += step;
        Some(*held)
    });
    held.max().unwrap_or(0)
}

#[test]
fn a_constant_rate_is_even_to_the_nanosecond() {
    let done = Run::profile("sim://?ttft=0&itl=0")
        .args("--request-rate 50 --arrival-pattern constant --benchmark-duration 2")
        .run()
        .expect_exit(0);
    assert_eq!(done.tally().scheduled, 100);
    let offsets = offsets(&done);
    assert!(offsets.iter().all(|ns| ns % (20 * MS) == 0 && *ns < 2 * S), "{offsets:?}");
    assert_eq!(offsets.iter().collect::<BTreeSet<_>>().len(), offsets.len(), "{offsets:?}");
}

#[test]
fn random_gaps_have_the_mean_and_the_spread_of_their_kind() {
    const N: u32 = 800;
    for (pattern, spread) in [
        ("poisson", 1.0),
        ("gamma --arrival-smoothness 1", 1.0),
        ("gamma --arrival-smoothness 4", 0.5),
        ("gamma --arrival-smoothness 0.25", 2.0),
    ] {
        let done = Run::profile("sim://?ttft=0&itl=0")
            .args("--request-rate 2000 --arrival-pattern")
            .args(pattern)
            .args(&format!("--request-count {}", N + 1))
            .run()
            .expect_exit(0)
            .ends(Tally::of(u64::from(N) + 1, 0));
        let gaps: Vec<f64> = offsets(&done).windows(2).map(|w| (w[1] - w[0]) as f64 / 500_000.0).collect();
        let mean = gaps.iter().sum::<f64>() / f64::from(N);
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / f64::from(N);
        let measured = variance.sqrt() / mean;
        // Three standard errors; that of the spread of a gamma with the variation c is c·√((1 + c²)/2)/√n at most.
        let sigma = spread / f64::from(N).sqrt();
        assert!((mean - 1.0).abs() < 3.0 * sigma, "{pattern}: mean {mean}");
        let bound = 3.0 * sigma * f64::midpoint(1.0, spread * spread).sqrt() * 1.5;
        assert!((measured - spread).abs() < bound, "{pattern}: variation {measured}");
    }
}

#[test]
fn rates_that_move_follow_their_curve() {
    let ramp = |ms: u64, shape, from| Some(Ramp { duration_ns: ms * MS, shape, from });
    let steady = |ramp| RatePlan { shape: RateShape::Steady(300.0), ramp };
    let series = "[{\"time_s\": 0, \"qps\": 50}, {\"time_s\": 0.2, \"qps\": 400}]";
    let points = || {
        RateShape::Series(vec![
            RatePoint { at_ns: 0, per_second: 50.0 },
            RatePoint { at_ns: 200 * MS, per_second: 400.0 },
        ])
    };
    for (args, rate) in [
        (
            "--request-rate 300 --request-rate-ramp-duration 0.2",
            steady(ramp(200, RampShape::Linear, Some(0.0))),
        ),
        (
            "--request-rate 300 --request-rate-ramp-duration 0.2 --request-rate-ramp-strategy exponential",
            steady(ramp(200, RampShape::Exponential, Some(0.0))),
        ),
        (
            "--request-rate 300 --request-rate-ramp-duration 0.2 --request-rate-ramp-strategy poisson \
             --request-rate-ramp-from 900",
            steady(ramp(200, RampShape::Poisson, Some(900.0))),
        ),
        ("--request-rate-series s.json", RatePlan { shape: points(), ramp: None }),
        (
            "--request-rate-series s.json --request-rate-ramp-duration 0.1 --request-rate-ramp-from 200",
            RatePlan { shape: points(), ramp: ramp(100, RampShape::Linear, Some(200.0)) },
        ),
    ] {
        for (pattern, arrival) in [("constant", Arrival::Constant), ("poisson", Arrival::Poisson)] {
            let done = Run::profile("sim://?ttft=0&itl=0")
                .args("--request-count 40 --workers-max 2 --arrival-pattern")
                .args(pattern)
                .args(args)
                .file("s.json", series)
                .run()
                .expect_exit(0)
                .ends(Tally::of(40, 0));
            let expected: Vec<u64> = Arrivals::new(&rate, arrival, 7, 0).take(40).collect();
            let expected: Vec<u64> = expected.iter().map(|ns| ns - expected[0]).collect();
            assert_eq!(offsets(&done), expected, "{args} {pattern}");
        }
    }
}

/// Rows at 1000, 1250 and 2000 ms, not in order.
fn timed(url: &str) -> Run {
    let row = |text: &str, ms: u64| json!({"text": text, "timestamp": ms, "output_length": 2}).to_string();
    let rows = [row("b", 1250), row("a", 1000), row("c", 2000)].join("\n");
    Run::unseeded(url).args("--random-seed 7 --input-file t.jsonl --fixed-schedule").file("t.jsonl", rows)
}

#[test]
fn a_fixed_schedule_is_reproduced() {
    for (args, expected, first) in [
        ("", &[0, 250, 1000][..], "a"),
        ("--fixed-schedule-end-offset 2000", &[0, 250, 1000], "a"),
        ("--fixed-schedule-end-offset 1999", &[0, 250], "a"),
        ("--fixed-schedule-start-offset 1250", &[0, 750], "b"),
        (
            "--fixed-schedule-start-offset 1000 --fixed-schedule-end-offset 1250 --workers-max 2",
            &[0, 250],
            "a",
        ),
    ] {
        let server = scripted(vec![Reply::chat("x", 1, 1)]);
        let done = timed(&server.url()).args(args).run().expect_exit(0);
        let n = expected.len();
        let done = done.ends(Tally::of(n as u64, 0));
        let in_ms: Vec<u64> = offsets(&done).iter().map(|ns| ns / MS).collect();
        assert_eq!(in_ms, expected, "{args}");
        assert!(offsets(&done).iter().all(|ns| ns % MS == 0), "{args}");
        assert_eq!(server.requests().len(), n);
        // No request leaves before its time, and ids are those of every run.
        let records = by_session(&done);
        let id = records[0]["metadata"]["x_request_id"].as_str();
        let seen = server.requests();
        let of_first = seen.iter().find(|request| request.header("X-Request-ID") == id).expect("it came");
        let body: Value = serde_json::from_slice(&of_first.body).expect("JSON");
        assert_eq!(body["messages"][0]["content"], first, "{args}");
        for record in &records {
            assert!(at(record, "scheduled_ns") <= at(record, "credit_issued_ns"), "{record}");
            let meta = &record["metadata"];
            let conversation = meta["conversation_id"].as_str().expect("an id");
            assert_eq!(meta["x_correlation_id"], format!("fixed-schedule-{conversation}"));
        }
    }
}

#[test]
fn users_each_keep_their_gap_and_the_rate_holds_from_the_start() {
    // Six users at six requests per second: a user's turns are a second apart, and the answers come at once.
    let done = Run::profile("sim://?ttft=0&itl=0")
        .args("--user-centric-rate 6 --num-users 6 --conversation-turn-mean 3 --benchmark-duration 2.5")
        .run()
        .expect_exit(0);
    assert_eq!(done.tally().failed, 0);
    let offsets = offsets(&done);
    for second in 0..2 {
        let within = offsets.iter().filter(|ns| (second * S..(second + 1) * S).contains(*ns)).count();
        assert_eq!(within, 6, "second {second}: {offsets:?}");
    }
    let sessions = turns(&done);
    for records in sessions.values() {
        let wanted: Vec<u64> = records.iter().map(|r| at(r, "scheduled_ns")).collect();
        assert!(wanted.windows(2).all(|w| w[1] - w[0] >= S), "{wanted:?}");
        // The id is the number of the user.
        let id = records[0]["metadata"]["x_correlation_id"].as_str().expect("an id");
        assert!(id.parse::<u64>().is_ok(), "{id}");
    }
    assert!(sessions.values().any(|records| records.len() > 1), "some user came to a second turn");
    assert!(
        sessions.values().any(|records| records.len() < 3),
        "users begin in the middle of their conversations"
    );
}

#[test]
fn a_rate_of_conversations_is_the_rate_of_requests() {
    let done = Run::profile("sim://?ttft=1&itl=0")
        .args("--conversation-turn-mean 3 --conversation-turn-delay-mean 30 --num-sessions 12")
        .args("--request-rate 100 --arrival-pattern constant")
        .run()
        .expect_exit(0)
        .ends(Tally::of(36, 0));
    // Every request is at an arrival of its own, be it a first turn or a later one.
    let offsets = offsets(&done);
    assert!(offsets.iter().all(|ns| ns % (10 * MS) == 0), "{offsets:?}");
    assert_eq!(offsets.iter().collect::<BTreeSet<_>>().len(), 36, "{offsets:?}");
    let first: Vec<Value> = by_session(&done);
    assert!(first.iter().any(|r| at(r, "turn_index") > 0 && at(r, "session_num") == 0));
    // A later turn waits for its think time, and then for the next arrival.
    for records in turns(&done).values() {
        assert_eq!(records.len(), 3);
        for pair in records.windows(2) {
            assert!(at(&pair[1], "scheduled_ns") >= at(&pair[0], "request_end_ns") + 30 * MS);
        }
    }
}

#[test]
fn stop_conditions_hold_together_and_the_first_one_ends_it() {
    for (caps, lengths) in [
        ("--num-sessions 5", &[3, 3, 3, 3, 3][..]),
        ("--request-count 7", &[3, 3, 1]),
        ("--num-sessions 5 --request-count 7", &[3, 3, 1]),
        ("--num-sessions 2 --request-count 7", &[3, 3]),
        ("--num-sessions 2 --request-count 100 --benchmark-duration 600", &[3, 3]),
        ("--request-count 4 --benchmark-duration 600", &[3, 1]),
    ] {
        for pace in ["--concurrency 1", "--request-rate 2000 --concurrency 1"] {
            let server = sim("ttft=0&itl=0");
            let run = Run::profile(&url(&server)).args("--conversation-turn-mean 3 --num-dataset-entries 2");
            let done = run.args(caps).args(pace).run().expect_exit(0);
            let sent: u64 = lengths.iter().sum();
            let tally = done.tally();
            assert_eq!((tally.sent, tally.completed), (sent, sent), "{caps} {pace}: {tally:?}");
            let lived: Vec<u64> = turns(&done).values().map(|records| records.len() as u64).collect();
            assert_eq!(lived, lengths, "{caps} {pace}");
            assert_eq!(server.stop().requests, sent);
        }
    }
    // The time is over first.
    let server = scripted(vec![Reply::new().stall()]);
    let done = Run::profile(&server.url())
        .args("--num-sessions 50 --request-count 50 --concurrency 2")
        .args("--benchmark-duration 0.6 --benchmark-grace-period 0")
        .run()
        .expect_exit(1);
    done.ends(Tally::default().cancelled(2));
}

#[test]
fn a_duration_and_its_grace_bound_a_rate() {
    let server = scripted(vec![Reply::new().stall()]);
    let done = Run::profile(&server.url())
        .args("--request-rate 20 --arrival-pattern constant")
        .args("--benchmark-duration 1 --benchmark-grace-period 0.5")
        .run()
        .expect_exit(1);
    let tally = done.tally();
    assert_eq!((tally.scheduled, tally.cancelled), (20, tally.sent), "{tally:?}");
    let records = by_session(&done);
    let start = at(&records[0], "scheduled_ns");
    for record in &records {
        assert_eq!(record["error"]["code"], 499);
        assert!(at(record, "cancellation_time_ns") >= start + 1_500 * MS, "the grace was given: {record}");
        assert!(
            at(record, "credit_issued_ns") < start + S,
            "nothing is sent when the time is over: {record}"
        );
    }
}
