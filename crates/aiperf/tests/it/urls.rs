//! Several servers: which session goes where, and what the results say of each.

use std::collections::{BTreeMap, BTreeSet};

use aiperf_core::plan::UrlStrategy;
use aiperf_load::Targets;
use aiperf_sim::scripted::{Reply, ScriptedServer, Signal};
use serde_json::Value;

use crate::load::at;
use crate::support::{Done, Run, Tally, scripted, sim, url};

/// A run against all of these servers.
fn run(urls: &[String]) -> Run {
    urls[1..].iter().fold(Run::profile(&urls[0]), |run, url| run.arg("--url").arg(url))
}

/// Which server each session went to; demands that it was one.
fn homes(done: &Done, urls: &[String]) -> BTreeMap<u64, usize> {
    let mut homes: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for record in done.records() {
        let told = record["metadata"]["url"].as_str().expect("its server").trim_end_matches('/');
        let home = urls.iter().position(|url| url == told).unwrap_or_else(|| panic!("{told} of {urls:?}"));
        homes.entry(at(&record, "session_num")).or_default().insert(home);
    }
    homes
        .into_iter()
        .map(|(session, seen)| {
            assert_eq!(seen.len(), 1, "session {session}");
            (session, seen.into_iter().next().expect("one"))
        })
        .collect()
}

#[test]
fn sessions_take_turns_and_stay_where_they_began() {
    for args in ["--concurrency 1", "--concurrency 3 --workers-max 2", "--request-rate 1000"] {
        let servers = [0; 2].map(|_| sim("ttft=0&itl=0"));
        let urls = servers.each_ref().map(url);
        let done = run(&urls)
            .args("--conversation-turn-mean 2 --num-sessions 6")
            .args(args)
            .run()
            .expect_exit(0)
            .ends(Tally::of(12, 0));
        let homes: Vec<usize> = homes(&done, &urls).into_values().collect();
        assert_eq!(homes, [0, 1, 0, 1, 0, 1], "{args}");
        assert_eq!(servers.map(|server| server.stop().requests), [6, 6], "{args}");
    }
}

#[test]
fn draws_decide_by_seed_and_weight() {
    for (args, strategy, weights) in [
        ("--url-strategy random", UrlStrategy::Random, [1.0, 1.0]),
        ("--url-weights 3,1", UrlStrategy::Weighted, [3.0, 1.0]),
        ("--url-strategy weighted --url-weights 1,9", UrlStrategy::Weighted, [1.0, 9.0]),
    ] {
        let servers = [0; 2].map(|_| sim("ttft=0&itl=0"));
        let urls = servers.each_ref().map(url);
        let run = run(&urls).args("--request-count 60 --concurrency 4 --workers-max 2").args(args);
        let done = run.run().expect_exit(0).ends(Tally::of(60, 0));
        let targets = Targets::new(strategy, weights, 7);
        let expected: Vec<usize> = (0..60).filter_map(|session| targets.of_session(session)).collect();
        assert_eq!(homes(&done, &urls).into_values().collect::<Vec<_>>(), expected, "{args}");
        let counts = servers.map(|server| server.stop().requests);
        assert_eq!(counts[0], expected.iter().filter(|home| **home == 0).count() as u64, "{args}");
        // Three standard errors of a share of 60 are 20 % at most.
        let share = counts[0] as f64 / 60.0;
        assert!((share - weights[0] / (weights[0] + weights[1])).abs() < 0.2, "{args}: {counts:?}");
    }
}

#[test]
fn a_server_that_stalls_gets_no_more_when_the_least_busy_one_is_asked() {
    let go = Signal::new();
    let answer = || Reply::chat("a", 1, 1);
    let slow = scripted(vec![Reply::new().wait_for(&go).step(answer().steps()[0].clone())]);
    let quick = scripted(vec![answer()]);
    let urls = [slow.url(), quick.url()];
    // One thread: two that choose in the same moment would not see each other's choice.
    let running = run(&urls)
        .args("--url-strategy least-in-flight --concurrency 2 --request-count 12 --workers-max 1")
        .start();
    quick.wait_requests(11);
    go.raise();
    let done = running.finish().expect_exit(0).ends(Tally::of(12, 0));
    assert_eq!([&slow, &quick].map(|server| server.requests().len()), [1, 11]);
    assert_eq!(homes(&done, &urls).into_values().filter(|home| *home == 0).count(), 1);
}

/// Cells of the block of the CSV file whose first column is `name`.
fn csv_block(done: &Done, name: &str) -> Vec<Vec<String>> {
    let text = done.text("profile_export_aiperf.csv");
    let lines = text.lines().skip_while(|line| !line.starts_with(&format!("{name},")));
    lines.take_while(|line| !line.is_empty()).map(|l| l.split(',').map(str::to_owned).collect()).collect()
}

/// What files and screen tell of each server: requests, completed, failed.
fn per_url(done: &Done, servers: &[&ScriptedServer]) -> Vec<[u64; 3]> {
    let summary = done.summary();
    let list = summary["per_url"].as_array().expect("a list of servers");
    let count = |server: &Value, name: &str| server[name].as_u64().expect("a count");
    let counts: Vec<[u64; 3]> =
        list.iter().map(|s| ["requests", "completed", "failed"].map(|name| count(s, name))).collect();
    let csv = csv_block(done, "URL");
    assert_eq!((list.len(), csv.len()), (servers.len(), servers.len() + 1), "{csv:?}");
    let mut rows = done.stdout.lines().filter(|line| line.starts_with("\u{2502} http"));
    for (i, server) in servers.iter().enumerate() {
        assert!(list[i]["url"].as_str().is_some_and(|told| told.starts_with(&server.url())), "{}", list[i]);
        assert!(csv[i + 1][0].starts_with(&server.url()), "{csv:?}");
        let cells = counts[i].map(|n| n.to_string());
        assert_eq!(csv[i + 1][1..4], cells);
        // An address that is wider than its column goes on below, where there are no numbers.
        let row = rows.next().unwrap_or_else(|| panic!("no row {i} on the screen\n{}", done.stdout));
        let shown: Vec<&str> = row.split('\u{2502}').map(str::trim).skip(2).take(3).collect();
        assert_eq!(shown, cells);
    }
    counts
}

#[test]
fn results_tell_what_each_server_gave() {
    let good = scripted(vec![Reply::chat("a", 1, 1)]);
    let bad = scripted(vec![Reply::json(503, r#"{"error":{"message":"no"}}"#)]);
    let urls = [good.url(), bad.url()];
    let done = run(&urls).args("--request-count 10 --concurrency 2").run().expect_exit(0);
    let done = done.ends(Tally::of(5, 5));
    assert_eq!(per_url(&done, &[&good, &bad]), [[5, 5, 0], [5, 0, 5]]);
    let summary = done.summary();
    assert!(summary["per_url"][0]["request_latency"]["p50"].is_number());
    assert!(summary["per_url"][1].get("request_latency").is_none(), "{}", summary["per_url"][1]);
    for record in done.records() {
        let is_good = record["metadata"]["url"].as_str().expect("its server").starts_with(&urls[0]);
        assert_eq!(record["metadata"]["outcome"], if is_good { "completed" } else { "failed" });
    }
    // One server has no such part.
    let alone = Run::profile(&urls[0]).args("--request-count 2").run().expect_exit(0);
    assert!(alone.summary().get("per_url").is_none());
    assert!(csv_block(&alone, "URL").is_empty());
}

#[test]
fn a_server_that_is_not_there_fails_its_own_requests_alone() {
    let there = scripted(vec![Reply::chat("a", 1, 1)]);
    let gone = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    let urls = [there.url(), gone];
    let done = run(&urls).args("--request-count 8").run().expect_exit(0).ends(Tally::of(4, 4));
    for (session, home) in homes(&done, &urls) {
        assert_eq!(home as u64, session % 2);
    }
    assert_eq!(done.summary()["per_url"][1]["failed"], 4);
}

#[test]
fn a_credential_in_the_query_of_a_url_is_sent_and_never_shown() {
    let servers = [scripted(vec![Reply::chat("a", 1, 1)]), scripted(vec![Reply::chat("a", 1, 1)])];
    let urls: Vec<String> =
        servers.iter().map(|server| format!("{}/x?api_key=in-the-query&v=1", server.url())).collect();
    Run::profile(&urls.join(","))
        .args("--request-count 2 --network-latency-mean 1 --wait-for-model-timeout 20")
        .run()
        .expect_exit(0)
        .keeps("in-the-query");
    for server in servers {
        let requests = server.requests();
        assert!(requests.iter().all(|r| r.path.ends_with("?api_key=in-the-query&v=1")), "{requests:?}");
    }
}
