//! What servers say of their prefix caches, beside what was there to be found.

use aiperf_sim::scripted::Reply;
use serde_json::{Value, json};

use crate::support::{Done, Run, cycling, sim, url};

/// A server at once: its cache finds what it can.
const AT_ONCE: &str = "prefix_cache=on&ttft=0&itl=0";

fn run(url: &str, args: &str) -> Run {
    Run::unseeded(url).args("--random-seed 11 --concurrency 1 --cache-ledger").args(args)
}

fn share(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no share: {value}"))
}

#[test]
fn what_was_there_is_what_a_server_finds_that_forgets_nothing() {
    for args in [
        "--isl 60 --osl 4 --num-dataset-entries 4 --request-count 10",
        "--isl 40 --osl 4 --endpoint-type completions --num-prefix-prompts 2 --prefix-prompt-length 64 --request-count 12",
        "--isl 40 --osl 24 --conversation-turn-mean 3 --num-conversations 4 --shared-system-prompt-length 50",
    ] {
        let server = sim(AT_ONCE);
        let done = run(&url(&server), args).run().expect_exit(0);
        let totals = server.stop();
        let cache = done.summary()["cache"].clone();
        let seen = totals.cached_tokens as f64 / totals.prompt_tokens as f64;
        assert_eq!(cache["hit_rate"], json!(seen), "{args}: as the server says");
        let expected = &cache["expected"];
        assert!((share(&expected["hit_rate"]) - seen).abs() <= 0.005, "{args}: {cache:#}");
        assert_eq!(
            (&expected["requests"], &expected["reported_hit_rate"]),
            (&cache["requests"], &cache["hit_rate"])
        );
        assert_eq!(cache["findings"], json!([]), "{args}");
        let has_turns = args.contains("turn");
        assert_eq!(expected["hit_rate_with_replies"] != expected["hit_rate"], has_turns, "{args}: {cache:#}");
        done.shows(&["Prefix cache: by their own words servers found ", "to be found."]);
    }
}

#[test]
fn what_a_warm_up_brought_is_told() {
    let server = sim(AT_ONCE);
    let done = run(
        &url(&server),
        "--isl 64 --osl 3 --num-dataset-entries 5 --request-count 5 --warmup-request-count 5",
    )
    .run()
    .expect_exit(0)
    .shows(&["of the measured prompt tokens were in prompts of the warm-up"]);
    let cache = done.summary()["cache"].clone();
    assert!(share(&cache["hit_rate"]) > 0.8, "{cache:#}");
    assert_eq!(cache["expected"]["from_warmup_tokens"], cache["expected"]["cached_tokens"]);
}

/// Answers whose server says that so many of 100 prompt tokens were cached.
fn says(cached: u64) -> Reply {
    Reply::json(
        200,
        &json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a b"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": cached}}})
        .to_string(),
    )
}

fn different(url: &str) -> Done {
    run(url, "--isl 100 --osl 2 --num-dataset-entries 6 --request-count 6").run().expect_exit(0)
}

#[test]
fn a_server_that_knew_prompts_from_before_or_forgot_some_is_told_of() {
    let server = cycling(vec![says(96)]);
    let done = different(&server.url()).shows(&["they knew prompts from earlier runs"]);
    let cache = done.summary()["cache"].clone();
    assert_eq!((&cache["hit_rate"], &cache["prompt_tokens"]), (&json!(0.96), &json!(600)));
    assert!(share(&cache["expected"]["hit_rate"]) < 0.3, "{cache:#}");
    let same = |cached: u64| {
        let server = cycling(vec![says(cached)]);
        run(&server.url(), "--isl 100 --osl 2 --num-dataset-entries 1 --request-count 6").run().expect_exit(0)
    };
    same(16).shows(&["blocks were evicted"]);
    let done = same(0).shows(&["is the cache on (vLLM: --enable-prefix-caching"]);
    assert_eq!(done.summary()["cache"]["hit_rate"], 0.0, "nothing found is a finding");
}

#[test]
fn a_server_that_says_nothing_of_its_cache_has_none() {
    let server = cycling(vec![Reply::chat("a b", 100, 2)]);
    let done = different(&server.url());
    assert!(done.summary().get("cache").is_none());
    assert!(!done.stdout.contains("Prefix cache:"), "{}", done.stdout);
}

#[test]
fn a_summary_made_again_has_the_same() {
    let server = sim(AT_ONCE);
    let done = run(
        &url(&server),
        "--isl 30 --osl 8 --conversation-turn-mean 2 --num-conversations 4 --warmup-request-count 2",
    )
    .run()
    .expect_exit(0);
    let own = done.summary()["cache"].clone();
    assert!(own["expected"].is_object(), "{own:#}");
    let again = Run::new("report out --force").run_in(done).expect_exit(0);
    assert_eq!(again.summary()["cache"], own);
}

#[test]
fn it_is_refused_where_nothing_could_be_told() {
    run("sim://", "--endpoint-type embeddings --request-count 2")
        .run()
        .expect_exit(2)
        .says(&["--cache-ledger", "chat"]);
}
