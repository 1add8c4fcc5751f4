//! Several phases: in order or without a gap, measured as one.

use aiperf_sim::scripted::{Reply, Signal};
use serde_json::{Value, json};

use crate::load::at;
use crate::support::{Done, Run, Tally, scripted, sim, url};

/// A run of these phases.
fn phases(url: &str, list: &str) -> Run {
    let text = format!("benchmark:\n  phases:\n{list}");
    Run::profile(url).args("-f c.yaml").file("c.yaml", text)
}

/// Three requests, then two.
fn two(url: &str, seamless: bool) -> Run {
    let first = "    - {name: calm, kind: profiling, type: constant, rate: 500, requests: 3}\n";
    let second = "    - {name: storm, kind: profiling, type: constant, rate: 500, requests: 2";
    phases(url, &format!("{first}{second}, seamless: {seamless}}}\n"))
}

/// Records of the phase of that name.
fn of(done: &Done, name: &str) -> Vec<Value> {
    done.records().into_iter().filter(|r| r["metadata"]["phase_name"] == name).collect()
}

#[test]
fn a_seamless_phase_starts_while_the_one_before_drains() {
    // No answer comes before requests of both are there.
    let go = Signal::new();
    let answer = Reply::chat("a", 1, 1).steps()[0].clone();
    let server = scripted(vec![Reply::new().wait_for(&go).step(answer)]);
    let running = two(&server.url(), true).start();
    server.wait_requests(5);
    go.raise();
    let done = running.finish().expect_exit(0).ends(Tally::of(5, 0));
    let (calm, storm) = (of(&done, "calm"), of(&done, "storm"));
    assert_eq!((calm.len(), storm.len()), (3, 2));
    // It starts when the last request of the first one was sent, and not before.
    let sent = calm.iter().map(|r| at(r, "credit_issued_ns")).max();
    assert!(storm.iter().map(|r| at(r, "credit_issued_ns")).min() > sent);
}

#[test]
fn another_phase_waits_until_the_one_before_is_over() {
    let go = Signal::new();
    let answer = Reply::chat("a", 1, 1).steps()[0].clone();
    let server = scripted(vec![Reply::new().wait_for(&go).step(answer)]);
    let running = two(&server.url(), false).start();
    server.wait_requests(3);
    go.raise();
    let done = running.finish().expect_exit(0).ends(Tally::of(5, 0));
    let over = of(&done, "calm").iter().map(|r| at(r, "request_end_ns")).max();
    let storm = of(&done, "storm");
    assert_eq!(storm.len(), 2);
    assert!(storm.iter().all(|r| Some(at(r, "credit_issued_ns")) > over));
}

#[test]
fn profiling_phases_are_one_measurement() {
    let server = sim("ttft=0&itl=0");
    let list = "    - {name: warmup, requests: 2}\n    - {name: a, kind: profiling, requests: 3, concurrency: 2}\n    \
                - {name: b, kind: profiling, type: constant, rate: 500, requests: 4}\n";
    let done = phases(&url(&server), list)
        .args("--num-dataset-entries 20")
        .run()
        .expect_exit(0)
        .ends(Tally::of(7, 0));
    assert_eq!(server.stop().requests, 9);
    done.has("request_count", "avg", 7.0);
    let summary = done.summary();
    assert_eq!(summary["request_latency"]["count"], 7);
    assert_eq!(summary["warmup_metrics"]["request_count"]["avg"], 2.0);
    let health = &summary["load_health"]["phases"];
    let told: Vec<_> = health
        .as_array()
        .expect("a list")
        .iter()
        .map(|p| (p["name"].clone(), p["kind"].clone(), p["arrivals"]["sent"].clone()))
        .collect();
    let row = |name: &str, kind: &str, sent: u64| (json!(name), json!(kind), json!(sent));
    assert_eq!(told, [row("warmup", "warmup", 2), row("a", "profiling", 3), row("b", "profiling", 4)]);
    let index = |name: &str| -> Vec<(u64, Value)> {
        let meta = |r: &Value| (at(r, "phase_index"), r["metadata"]["profiling_index"].clone());
        of(&done, name).iter().map(meta).collect()
    };
    assert_eq!(index("warmup"), vec![(0, Value::Null); 2]);
    assert_eq!(index("a"), vec![(1, json!(0)); 3]);
    assert_eq!(index("b"), vec![(2, json!(1)); 4]);
    // Each goes on with the conversations behind those of the one before.
    let conversations: std::collections::BTreeSet<String> =
        done.records().iter().map(|r| r["metadata"]["conversation_id"].to_string()).collect();
    assert_eq!(conversations.len(), 9);
}

#[test]
fn an_interrupt_in_a_phase_ends_those_behind_it() {
    let server = scripted(vec![Reply::chat("a", 1, 1), Reply::chat("b", 1, 1), Reply::new().stall()]);
    let list = "    - {name: a, kind: profiling, requests: 2}\n    - {name: b, kind: profiling, requests: 4}\n    \
                - {name: c, kind: profiling, requests: 8}\n";
    let running = phases(&server.url(), list).start();
    server.wait_requests(3);
    running.signal("INT");
    let done = running.finish().expect_exit(130).ends(Tally::of(2, 0).cancelled(1));
    assert_eq!((of(&done, "a").len(), of(&done, "b").len(), of(&done, "c").len()), (2, 1, 0));
    assert_eq!(done.summary()["was_cancelled"], true);
}
