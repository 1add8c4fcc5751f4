//! Limits: sessions, requests and prefills at once, their ramps, and arrivals that find no place.

use std::collections::BTreeSet;
use std::time::Duration;

use aiperf_core::plan::{Ramp, RampShape};
use aiperf_load::{LimitCurve, Limited};
use aiperf_sim::scripted::{Reply, Signal, chat_chunk};
use serde_json::json;

use super::{MS, S, lives, most_at_once, turns};
use crate::load::{at, by_session};
use crate::support::{Run, Tally, scripted, sim, url};

#[test]
fn a_concurrency_bounds_live_sessions_with_their_think_times() {
    for pace in [
        "--concurrency 4",
        "--concurrency 4 --workers-max 2",
        "--concurrency 4 --request-rate 1000",
        "--concurrency 4 --request-rate 1000 --arrival-pattern constant --workers-max 2",
    ] {
        let server = sim("ttft=2&itl=0");
        let done = Run::profile(&url(&server))
            .args("--conversation-turn-mean 3 --conversation-turn-delay-mean 40 --num-sessions 12")
            .args(pace)
            .run()
            .expect_exit(0);
        assert_eq!(done.tally().completed, 36, "{pace}");
        assert_eq!(turns(&done).len(), 12, "{pace}");
        let most = most_at_once(lives(&done));
        assert!((2..=4).contains(&most), "{pace}: {most}");
        assert!(server.stop().peak_running <= 4, "{pace}");
    }
}

#[test]
fn a_limit_on_requests_leaves_out_think_times() {
    // Each of six sessions sends its first turn, though one request alone may be on the wire and none of them ends.
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = Run::profile(&server.url())
        .args("--concurrency 6 --max-in-flight 1 --request-count 6")
        .args("--conversation-turn-mean 2 --conversation-turn-delay-mean 3600000")
        .run()
        .expect_exit(0)
        .ends(Tally::of(6, 0));
    assert_eq!(turns(&done).len(), 6);

    for pace in ["--concurrency 8", "--request-rate 4000", "--request-rate 4000 --workers-max 2"] {
        let server = sim("ttft=3&itl=0&truth");
        let run = Run::profile(&url(&server)).args("--max-in-flight 2 --request-count 30").args(pace);
        run.run().expect_exit(0).ends(Tally::of(30, 0)).shows(&["limit 2"]);
        let (_, truth, _) = server.stop_with_truth();
        let most = most_at_once(truth.iter().map(|t| (t.arrival_ns, t.end_ns)));
        assert!((1..=2).contains(&most), "{pace}: {most}");
    }
}

#[test]
fn a_prefill_ends_with_its_first_content() {
    // A second request leaves only when the first has content; each has some, and none of them ends before all are there.
    let go = Signal::new();
    let stream = Reply::sse_head()
        .chat_event("a")
        .wait_for(&go)
        .event(r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#)
        .event("[DONE]")
        .end_chunks();
    for pace in ["--concurrency 4", "--concurrency 4 --request-rate 1000"] {
        let server = scripted(vec![stream.clone()]);
        let run = Run::profile(&server.url()).args("--streaming --prefill-concurrency 1 --request-count 4");
        let running = run.args(pace).start();
        server.wait_requests(4);
        go.raise();
        running.finish().expect_exit(0).ends(Tally::of(4, 0));
    }
}

#[test]
fn no_more_prefills_than_allowed_are_seen_by_the_server() {
    for pace in ["--concurrency 6", "--concurrency 6 --workers-max 2", "--request-rate 1000 --concurrency 6"]
    {
        // The head and the event with the role come before the prefill: neither is content.
        let server = sim("ttft=20&itl=20&truth");
        let run = Run::unseeded(&url(&server))
            .args("--random-seed 7 --isl 8 --osl 8 --streaming --prefill-concurrency 2 --request-count 18");
        run.args(pace).run().expect_exit(0).ends(Tally::of(18, 0));
        let (totals, truth, _) = server.stop_with_truth();
        let most = most_at_once(truth.iter().map(|t| (t.arrival_ns, t.chunks_ns[0])));
        assert!((1..=2).contains(&most), "{pace}: {most}");
        assert!(totals.peak_running > 2, "{pace}: streams with content are not limited: {totals:?}");
    }
}

#[test]
fn a_prefill_without_content_holds_its_place_until_it_ends() {
    // The role alone is no content.
    let role = chat_chunk("").replace(r#""content":"""#, r#""role":"assistant","content":"""#);
    let server = scripted(vec![Reply::sse_head().event(&role).stall()]);
    let done = Run::profile(&server.url())
        .args("--streaming --concurrency 5 --prefill-concurrency 2")
        .args("--benchmark-duration 0.6 --benchmark-grace-period 0")
        .run()
        .expect_exit(1);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(done.tally().cancelled, 2);
}

#[test]
fn arrivals_without_a_place_are_skipped_when_the_plan_says_so() {
    // One stays for ever, whether it is one request or a conversation that thinks.
    for (reply, turns, completed, code) in [
        (Reply::new().stall(), "", 0, 1),
        (Reply::chat("a", 1, 1), "--conversation-turn-mean 2 --conversation-turn-delay-mean 3600000", 1, 0),
    ] {
        let server = scripted(vec![reply]);
        let done = Run::profile(&server.url())
            .args("--request-rate 500 --arrival-pattern constant --concurrency 1 --saturation-policy skip")
            .args("--benchmark-duration 0.6 --benchmark-grace-period 0")
            .args(turns)
            .run()
            .expect_exit(code);
        let tally = done.tally();
        assert_eq!((tally.scheduled, tally.sent, tally.completed), (300, 1, completed), "{tally:?}");
        let arrivals = done.summary()["load_health"]["phases"][0]["arrivals"].clone();
        let count = |name: &str| arrivals[name].as_u64().expect("a count");
        assert_eq!((count("scheduled"), count("sent")), (300, 1), "{arrivals}");
        // What came due behind the end, for the client was late, is cut off.
        assert_eq!(count("skipped") + count("cut"), 299, "{arrivals}");
        assert!(count("skipped") > 0, "{arrivals}");
        let shown = format!("300 scheduled, 1 sent ({} late), {} skipped", count("late"), count("skipped"));
        done.shows(&[&shown]);
    }
}

#[test]
fn what_is_skipped_uses_up_no_conversation() {
    let server = sim("ttft=4&itl=0");
    let done = Run::profile(&url(&server))
        .args("--request-rate 1000 --arrival-pattern constant --concurrency 1 --saturation-policy skip")
        .args("--request-count 12 --num-dataset-entries 100")
        .run()
        .expect_exit(0);
    let tally = done.tally();
    assert_eq!((tally.sent, tally.completed), (12, 12), "{tally:?}");
    assert!(tally.unsent > 0, "an answer takes four arrivals: {tally:?}");
    let sessions: Vec<u64> = by_session(&done).iter().map(|r| at(r, "session_num")).collect();
    assert_eq!(sessions, (0..12).collect::<Vec<_>>());
    let conversations: BTreeSet<String> =
        done.records().iter().map(|r| r["metadata"]["conversation_id"].to_string()).collect();
    assert_eq!(conversations.len(), 12);
    // None of them waited: each left at its own instant, which is one of the schedule.
    assert!(super::offsets(&done).iter().all(|ns| ns % MS == 0));
}

#[test]
fn what_a_schedule_sends_at_an_instant_is_its_own_whatever_was_skipped_before() {
    // The first answer takes its time, and the rows of the next moments find no place.
    let instants = [0, 10, 20, 30, 1500, 1510];
    let row = |ms: &u64| json!({"text": format!("at {ms}"), "timestamp": ms}).to_string();
    let rows: Vec<String> = instants.iter().map(row).collect();
    let server = scripted(vec![
        Reply::new().pause(Duration::from_millis(400)).step(Reply::chat("a", 1, 1).steps()[0].clone()),
    ]);
    let done = Run::unseeded(&server.url())
        .args("--random-seed 7 --input-file t.jsonl --fixed-schedule --export-level raw")
        .args("--concurrency 1 --saturation-policy skip")
        .file("t.jsonl", rows.join("\n"))
        .run()
        .expect_exit(0);
    let tally = done.tally();
    assert_eq!(tally.scheduled, 6, "{tally:?}");
    assert!(tally.unsent >= 1 && tally.sent >= 2, "{tally:?}");
    let raw = done.lines("profile_export_raw.jsonl");
    let start = raw.iter().map(|r| at(r, "scheduled_ns")).min().expect("requests");
    for record in &raw {
        let ms = (at(record, "scheduled_ns") - start) / MS;
        assert_eq!(record["payload"]["messages"][0]["content"], format!("at {ms}"));
    }
    assert!(raw.iter().any(|r| at(r, "scheduled_ns") - start >= S), "there was a place again");
}

#[test]
fn an_arrival_without_a_place_stops_the_run_when_the_plan_says_so() {
    let server = scripted(vec![Reply::new().stall()]);
    let done = Run::profile(&server.url())
        .args("--request-rate 500 --arrival-pattern constant --concurrency 1 --saturation-policy abort")
        .args("--benchmark-duration 600")
        .run()
        .expect_exit(1)
        .says(&["an arrival of phase 'profiling' found no place under its limits"])
        .shows(&["Incomplete results"]);
    let tally = done.tally();
    assert_eq!((tally.sent, tally.cancelled), (1, 1), "{tally:?}");
    assert!(tally.unsent >= 1, "{tally:?}");
    assert_eq!(done.summary()["load_health"]["phases"][0]["arrivals"]["skipped"], 0);
    assert_eq!(done.records()[0]["error"]["code"], 499);
}

#[test]
fn a_limit_on_sessions_rises_along_its_ramp() {
    // An hour to get there: the place of the first moment is the only one.
    for pace in ["", "--request-rate 500 --arrival-pattern constant"] {
        let server = scripted(vec![Reply::new().stall()]);
        let run = Run::profile(&server.url()).args("--concurrency 5 --concurrency-ramp-duration 3600");
        let run = run.args("--benchmark-duration 0.6 --benchmark-grace-period 0").args(pace);
        assert_eq!(run.run().expect_exit(1).tally().sent, 1, "{pace}");
    }
    for (strategy, shape) in [
        ("linear", RampShape::Linear),
        ("exponential", RampShape::Exponential),
        ("poisson", RampShape::Poisson),
    ] {
        let done = Run::profile("sim://?ttft=20&itl=0")
            .args("--request-rate 500 --arrival-pattern constant --request-count 120 --concurrency 5")
            .args("--concurrency-ramp-duration 0.5 --concurrency-ramp-strategy")
            .arg(strategy)
            .run()
            .expect_exit(0)
            .ends(Tally::of(120, 0));
        let ramp = Ramp { duration_ns: 500 * MS, shape, from: None };
        let curve = LimitCurve::new(5, Some(&ramp), Limited::Sessions, 7, 0);
        // Arrival 0 is at the start.
        let start = at(&by_session(&done)[0], "scheduled_ns");
        let lives = lives(&done);
        for (from, _) in &lives {
            let held = lives.iter().filter(|(f, t)| f <= from && from < t).count();
            let limit = curve.limit_at(from - start) as usize;
            assert!(held <= limit, "{strategy}: {held} at {} ns, where {limit} may be", from - start);
        }
        assert_eq!(most_at_once(lives), 5, "{strategy}");
    }
}

#[test]
fn a_limit_on_sessions_falls_along_its_ramp() {
    for pace in ["", "--request-rate 500 --arrival-pattern constant"] {
        // An hour to get there: all places of the first moment are there.
        let server = scripted(vec![Reply::new().stall()]);
        let ramp = "--concurrency 1 --concurrency-ramp-from 5 --concurrency-ramp-duration 3600";
        let run = Run::profile(&server.url()).args(ramp).args(pace);
        let running = run.args("--request-count 50").start();
        server.wait_requests(5);
        running.signal("INT");
        assert_eq!(running.finish().expect_exit(130).tally().cancelled, 5, "{pace}");
    }
    // Five at a time send no more than 400 in the 0.4 s, and one after the other the rest takes more than a second.
    let done = Run::profile("sim://?ttft=5&itl=0")
        .args("--concurrency 1 --concurrency-ramp-from 5 --concurrency-ramp-duration 0.4")
        .args("--request-count 620")
        .run()
        .expect_exit(0);
    let mut lives = lives(&done);
    lives.sort_unstable();
    // Long after the ramp, so that who looked at the limit in its last moment has sent since: the ramp sends no more than 400, and the
    // next ones take a tenth of a second at least.
    assert_eq!(most_at_once(lives.split_off(420)), 1);
}

#[test]
fn a_limit_on_prefills_has_a_ramp_too() {
    for (ramp, sent) in
        [("--prefill-concurrency 4", 1), ("--prefill-concurrency 1 --prefill-concurrency-ramp-from 4", 4)]
    {
        let server = scripted(vec![Reply::sse_head().stall()]);
        let running = Run::profile(&server.url())
            .args("--streaming --concurrency 6 --request-count 50 --prefill-concurrency-ramp-duration 3600")
            .args(ramp)
            .args("--benchmark-duration 0.6 --benchmark-grace-period 0")
            .start();
        server.wait_requests(sent);
        assert_eq!(running.finish().expect_exit(1).tally().sent, sent as u64, "{ramp}");
    }
}
