//! Endpoints that answer with vectors or scores, through the real binary: what goes out, what is counted, how answers fail.

use aiperf_sim::scripted::{Reply, SeenRequest};
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, cycling, flat, scripted, sim, url};

/// Each type, its path, and the title of its tables.
const TYPES: [(&str, &str, &str); 6] = [
    ("embeddings", "/v1/embeddings", "Embeddings Metrics"),
    ("chat_embeddings", "/v1/embeddings", "Embeddings Metrics"),
    ("nim_embeddings", "/v1/embeddings", "NIM Embeddings Metrics"),
    ("cohere_rankings", "/v2/rerank", "Ranking Metrics"),
    ("hf_tei_rankings", "/rerank", "Ranking Metrics"),
    ("nim_rankings", "/v1/ranking", "Rankings Metrics"),
];

fn is_ranking(kind: &str) -> bool {
    kind.ends_with("rankings")
}

fn run_of(kind: &str, url: &str) -> Run {
    let run = Run::unseeded(url).args("--random-seed 7 --endpoint-type").arg(kind);
    if is_ranking(kind) {
        run.args("--rankings-passages-mean 3 --rankings-passages-prompt-token-mean 12 --rankings-query-prompt-token-mean 7")
    } else {
        run.args("--isl 11 --batch-size 2")
    }
}

fn whole(kind: &str) -> Reply {
    let body = match kind {
        "cohere_rankings" => json!({"results": [{"index": 0, "relevance_score": 0.5}]}),
        "hf_tei_rankings" => json!([{"index": 0, "score": 0.5}]),
        "nim_rankings" => json!({"rankings": [{"index": 0, "logit": 0.5}]}),
        _ => json!({"data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}),
    };
    Reply::json(200, &body.to_string())
}

fn tags(done: &Done) -> Vec<String> {
    done.summary().as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn lengths_are_exact_and_nothing_is_said_of_output() {
    for (kind, _, title) in TYPES {
        let server = sim("ttft=1&truth");
        let done = run_of(kind, &url(&server))
            .args("--request-count 4 --concurrency 2 --export-level raw --verify-lengths all")
            .run()
            .expect_exit(0)
            .ends(Tally::of(4, 0));
        let (_, truth, _) = server.stop_with_truth();
        assert_eq!(truth.len(), 4, "{kind}");
        assert!(truth.iter().all(|t| t.completion_tokens == 0 && t.status == 200), "{truth:?}");
        // A query of 7 and three passages of 12, which the server counts in pairs; or two texts of 11, which a message joins by a line's end.
        let (isl, counted) = match kind {
            "chat_embeddings" => (22.0, 23),
            kind if is_ranking(kind) => (43.0, 3 * 19),
            _ => (22.0, 22),
        };
        assert!(truth.iter().all(|t| t.prompt_tokens == counted), "{kind}: {truth:?}");
        let summary = done.summary();
        assert_eq!(summary["input_sequence_length"]["min"], isl, "{kind}");
        assert_eq!(summary["input_sequence_length"]["max"], isl, "{kind}");
        assert_eq!(summary["request_latency"]["count"], 4, "{kind}");
        let told = kind != "hf_tei_rankings";
        assert_eq!(summary["usage_prompt_tokens"]["avg"].as_f64(), told.then_some(counted as f64), "{kind}");
        // A count of something else is compared with nothing, and no cache is asked for.
        assert!(
            !is_ranking(kind)
                || !tags(&done).iter().any(|tag| tag.contains("_diff_pct") || tag.contains("discrepancy")),
            "{kind}"
        );
        assert!(
            !done.stdout.contains("told no counts") && !done.stdout.contains("prefix cache"),
            "{kind}: {}",
            done.stdout
        );
        for tag in tags(&done) {
            let about_output = ["output", "osl", "time_to_first", "inter_", "reasoning", "completion_tokens"];
            assert!(!about_output.iter().any(|word| tag.contains(word)), "{kind}: {tag}");
        }
        assert!(flat(&done.stdout).contains(&format!("NVIDIA AIPerf | {title}")), "{kind}: {}", done.stdout);
        assert!(!done.stdout.contains("LLM Metrics"), "{kind}");
        assert_eq!(done.lines("profile_export_raw.jsonl").len(), 4);
        // What is read back from the records is the same.
        let done = Run::new("report out --force").run_in(done).expect_exit(0);
        assert_eq!(done.summary()["input_sequence_length"], summary["input_sequence_length"], "{kind}");
        assert_eq!(done.summary().get("output_sequence_length"), None, "{kind}");
        assert!(flat(&done.stdout).contains(&format!("NVIDIA AIPerf | {title}")), "{kind}: {}", done.stdout);
    }
}

#[test]
fn requests_are_those_of_aiperf() {
    for (kind, path, _) in TYPES {
        let server = scripted(vec![whole(kind)]);
        run_of(kind, &server.url())
            .args("--streaming --osl 5 --request-count 1 --extra-inputs foo:1")
            .run()
            .expect_exit(0)
            .says(&[
                &format!("--streaming has no effect: an answer of endpoint type '{kind}' comes whole"),
                &format!("--osl has no effect and is not sent: endpoint type '{kind}' has no output"),
            ]);
        let posts: Vec<SeenRequest> =
            server.requests().into_iter().filter(|r| r.method == "POST" && r.path == path).collect();
        assert_eq!(posts.len(), 1, "{kind}");
        let text = String::from_utf8(posts[0].body.clone()).expect("UTF-8");
        let body: Value = serde_json::from_str(&text).expect("JSON");
        let keys: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
        let (expected, texts): (&[&str], Option<usize>) = match kind {
            "chat_embeddings" => (
                &["messages", "model", "stream", "foo"],
                body["messages"][0]["content"].as_array().map(Vec::len),
            ),
            "cohere_rankings" => {
                (&["model", "query", "documents", "foo"], body["documents"].as_array().map(Vec::len))
            }
            "hf_tei_rankings" => (&["query", "texts", "foo"], body["texts"].as_array().map(Vec::len)),
            "nim_rankings" => {
                (&["model", "query", "passages", "foo"], body["passages"].as_array().map(Vec::len))
            }
            _ => (&["model", "input", "foo"], body["input"].as_array().map(Vec::len)),
        };
        let mut sorted = expected.to_vec();
        sorted.sort_unstable();
        let mut found = keys.clone();
        found.sort_unstable();
        assert_eq!(found, sorted, "{kind}: {text}");
        // The order is in the text, whatever a reader makes of it.
        let places: Vec<Option<usize>> =
            expected.iter().map(|key| text.find(&format!("\"{key}\":"))).collect();
        assert!(places.is_sorted() && places[0] == Some(1), "{kind}: {text}");
        assert_eq!(texts, Some(if is_ranking(kind) { 3 } else { 2 }), "{kind}: {text}");
        let accept = posts[0].headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("accept"));
        assert_eq!(accept.map(|(_, value)| value.as_str()), Some("application/json"), "{kind}");
    }
}

#[test]
fn answers_without_results_fail_in_words() {
    for (kind, _, _) in TYPES {
        let (odd, words) = if is_ranking(kind) {
            (json!({"results": [{"index": 0}]}), "'results' of the answer: entry 0 has no score")
        } else {
            (
                json!({"data": [{"object": "image", "embedding": [1]}]}),
                "'data' of the answer: entry 0 has the object \"image\" where \"embedding\" is expected",
            )
        };
        let server = cycling(vec![
            whole(kind),
            Reply::json(200, &odd.to_string()),
            Reply::json(200, "{}"),
            Reply::json(503, "{\"error\":{\"message\":\"busy\"}}"),
        ]);
        let done = run_of(kind, &server.url())
            .args("--request-count 4 --concurrency 1 --verify-lengths off")
            .run()
            .expect_exit(0)
            .ends(Tally::of(1, 3));
        let errors: Vec<(String, String)> = done
            .records()
            .iter()
            .filter(|record| record["error"].is_object())
            .map(|record| {
                let word = |key: &str| record["error"][key].as_str().unwrap_or("").to_owned();
                (word("kind"), word("message"))
            })
            .collect();
        assert_eq!(errors.len(), 3, "{kind}: {errors:?}");
        assert!(errors.contains(&("malformed".to_owned(), words.to_owned())), "{kind}: {errors:?}");
        assert!(errors.iter().any(|(of, _)| of == "empty"), "{kind}: {errors:?}");
        assert!(errors.iter().any(|(of, _)| of == "http_status"), "{kind}: {errors:?}");
    }
}

#[test]
fn another_number_of_results_than_inputs_is_told_once() {
    for kind in ["embeddings", "cohere_rankings"] {
        let server = scripted(vec![whole(kind)]);
        let done = run_of(kind, &server.url())
            .args("--request-count 3 --concurrency 1")
            .run()
            .expect_exit(0)
            .ends(Tally::of(3, 0));
        let (found, expected) = if is_ranking(kind) { ("1 scores", 3) } else { ("1 vectors", 2) };
        let told = format!("an answer has {found} for {expected} inputs");
        let log = std::fs::read_to_string(done.path("logs/aiperf.log")).expect("a log");
        assert_eq!(log.matches(&told).count(), 1, "{log}");
    }
}

#[test]
fn rows_bring_query_and_passages() {
    let rows = concat!(
        r#"{"texts":[{"name":"query","contents":["Why is the sky blue?"]},{"name":"passages","contents":["Air.","Blue light scatters."]}]}"#,
        "\n",
        r#"{"texts":[{"name":"queries","contents":["q","r"]},{"name":"passages","contents":["p"]}]}"#,
        "\n",
    );
    let server = sim("ttft=0");
    let done = Run::unseeded(&url(&server))
        .file("rows.jsonl", rows)
        .args("--endpoint-type nim_rankings --input-file rows.jsonl --request-count 2")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    let told = "the row in line 2 with several queries: the first is sent, the others are not";
    assert!(flat(&done.stdout).contains(told), "{}", done.stdout);
    let bad = format!("{rows}{}\n", r#"{"texts":[{"name":"passages","contents":["p"]}]}"#);
    Run::unseeded(&url(&server))
        .file("rows.jsonl", bad)
        .args("--endpoint-type hf_tei_rankings --input-file rows.jsonl")
        .run()
        .expect_exit(2)
        .says(&["rows.jsonl:3: no text is named 'query', which hf_tei_rankings needs"]);
    Run::unseeded(&url(&server))
        .file("rows.jsonl", "{\"text\":\"a\",\"images\":[\"x.png\",\"y.png\"]}\n")
        .args("--endpoint-type nim_embeddings --input-file rows.jsonl")
        .run()
        .expect_exit(2)
        .says(&["rows.jsonl:1: the image 'x.png' does not exist"]);
}

#[test]
fn vectors_come_as_base64_and_by_the_server_s_count() {
    let server = sim("ttft=0&embedding-dimensions=4");
    let done = run_of("embeddings", &url(&server))
        .args("--request-count 2 --extra-inputs encoding_format:base64,dimensions:16 --use-server-token-count --export-level raw")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    assert_eq!(done.summary()["input_sequence_length"]["avg"], 22.0);
    assert!(done.lines("profile_export_raw.jsonl")[0].to_string().contains("\\\"embedding\\\":\\\""));
    // Every fault of an answer in one piece ends in its class.
    let faults =
        "ttft=0&faults=malformed:at=0,empty-choices:at=1,role-only:at=2,error-data:at=3,500:at=4,cut:at=5";
    let server = sim(faults);
    run_of("cohere_rankings", &url(&server))
        .args("--request-count 8 --concurrency 1 --verify-lengths off")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 6));
}
