//! What is asked of the servers around the load: readiness, prefix caches, profilers.

use aiperf_sim::scripted::Reply;
use serde_json::json;

use crate::support::{Run, cycling, scripted, sim, url};

/// A run that tells on the screen what it waits for.
fn telling(url: &str) -> Run {
    Run::new(
        "profile --model demo --tokenizer builtin --artifact-dir out --random-seed 7 --isl 8 --osl 4 --url",
    )
    .arg(url)
}

/// Method and path of what a scripted server heard, in order.
fn heard(server: &aiperf_sim::scripted::ScriptedServer) -> Vec<String> {
    server.requests().iter().map(|r| format!("{} {}", r.method, r.path)).collect()
}

#[test]
fn a_server_that_comes_up_late_is_waited_for() {
    let busy = || Reply::json(503, "{\"error\":{\"message\":\"loading\"}}");
    let answer = || Reply::chat("a", 9, 1);
    let server = scripted(vec![busy(), busy(), answer(), answer(), answer()]);
    let done = telling(&server.url())
        .args("--request-count 2 --verify-lengths off")
        .args("--wait-for-model-timeout 60 --wait-for-model-interval 0.001")
        .run()
        .expect_exit(0)
        .says(&["HTTP 503", "loading", "serves 'demo' (try 3)"]);
    assert_eq!(done.records().len(), 2, "what asks is no request of the run");
    assert_eq!(done.summary()["input_config"]["endpoint"]["wait_for_model_timeout"], 60.0);
}

#[test]
fn a_server_that_does_not_come_up_ends_the_run_before_it_starts() {
    let server = cycling(vec![Reply::json(500, "{}")]);
    let done = Run::profile(&server.url())
        .args("--request-count 2 --wait-for-model-timeout 1 --wait-for-model-interval 0.4")
        .run()
        .expect_exit(1);
    assert!(
        done.stderr.contains("did not serve 'demo' within 1 s (--wait-for-model-timeout): HTTP 500"),
        "{}",
        done.stderr
    );
    assert!(!done.path("profile_export_aiperf.json").exists());
}

#[test]
fn the_simulated_server_answers_all_of_it() {
    for mode in ["inference", "models", "both"] {
        let done = telling("sim://?ttft=1&itl=1")
            .args("--request-count 4 --warmup-request-count 2 --reset-kv-cache --server-profiler")
            .args("--wait-for-model-timeout 30 --wait-for-model-mode")
            .arg(mode)
            .run()
            .expect_exit(0)
            .says(&["'demo' (try 1).", "was reset."]);
        assert_eq!(done.summary()["request_count"]["avg"], 4.0);
        assert_eq!(done.summary()["input_config"]["endpoint"]["reset_kv_cache"], json!({}));
        assert!(!done.stderr.contains("could not"), "{}", done.stderr);
    }
}

#[test]
fn a_model_that_is_not_listed_is_waited_for() {
    let server = sim("models=other&ttft=0&itl=0");
    let done = Run::profile(&url(&server))
        .args("--request-count 2 --wait-for-model-timeout 1 --wait-for-model-interval 0.4 --wait-for-model-mode models")
        .run()
        .expect_exit(1);
    assert!(done.stderr.contains("it lists other"), "{}", done.stderr);
}

#[test]
fn a_cache_that_cannot_be_reset_ends_the_run() {
    let server = cycling(vec![Reply::json(404, "{}")]);
    let done = Run::profile(&server.url())
        .args("--request-count 2 --reset-kv-cache-path /forget")
        .run()
        .expect_exit(1);
    assert!(
        done.stderr.contains("could not be reset by POST /forget (--reset-kv-cache): HTTP 404"),
        "{}",
        done.stderr
    );
    assert_eq!(heard(&server), ["POST /forget"], "such an answer is not asked for again");
}

#[test]
fn the_profiler_runs_around_what_is_measured() {
    let answer = || Reply::chat("a", 9, 1);
    let server = scripted(vec![answer(), answer(), answer(), answer(), Reply::json(500, "{}")]);
    let done = Run::profile(&server.url())
        .args("--request-count 2 --warmup-request-count 1 --concurrency 1 --verify-lengths off")
        .args("--server-profiler --server-profiler-stop-path /stop")
        .run()
        .expect_exit(0)
        .says(&["could not be stopped", "HTTP 500"]);
    assert_eq!(done.records().len(), 3);
    let chat = "POST /v1/chat/completions";
    assert_eq!(heard(&server), [chat, "POST /start_profile", chat, chat, "POST /stop"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (args, words) in [
        ("--wait-for-model-mode both", "--wait-for-model-mode needs --wait-for-model-timeout"),
        ("--wait-for-model-interval 1", "--wait-for-model-interval"),
        ("--reset-kv-cache-path reset", "a path on the server that starts with /"),
        ("--server-profiler-start-path http://else/x", "a path on the server that starts with /"),
    ] {
        let done = Run::profile("sim://").args("--request-count 1").args(args).run().expect_exit(2);
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
    Run::profile("sim://?ttft=0&itl=0")
        .args("--request-count 1 --wait-for-model-mode inference")
        .run()
        .expect_exit(0);
}

#[test]
fn a_file_says_it_too() {
    let file = "benchmark:\n  model: demo\n  endpoint:\n    url: 'sim://?ttft=0&itl=0'\n    waitForModelTimeout: 20\n    \
                resetKvCache: {maxRetrySeconds: 3}\n    serverProfiler: true\n  tokenizer: {name: builtin}\n  \
                dataset: {type: synthetic, prompts: {isl: 8, osl: 2}}\n  \
                profiling: {type: concurrency, concurrency: 1, requests: 2}\n";
    let done = Run::new("profile --config c.yaml --ui none --artifact-dir out")
        .file("c.yaml", file)
        .run()
        .expect_exit(0);
    let endpoint = &done.summary()["input_config"]["endpoint"];
    assert_eq!(endpoint["reset_kv_cache"], json!({"max_retry_seconds": 3.0}));
    assert_eq!(endpoint["server_profiler"], json!({}));
    assert_eq!(endpoint["wait_for_model_timeout"], 20.0);
}
