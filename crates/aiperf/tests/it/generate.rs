//! APIs that generate from a plain text, through the real binary: TGI's, SGLang's and Solido's.

use aiperf_sim::scripted::{Reply, ScriptedServer, SeenRequest};
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, scripted, sim, url};

const APIS: [&str; 3] = ["huggingface_generate", "sglang_generate", "solido_rag"];

fn run_of(api: &str, url: &str, streaming: bool) -> Run {
    let run = Run::profile(url).args("--concurrency 1 --endpoint-type").arg(api);
    if streaming { run.arg("--streaming") } else { run }
}

/// The requests of the run itself.
fn posts(server: &ScriptedServer) -> Vec<SeenRequest> {
    server.requests().into_iter().filter(|r| r.method == "POST").collect()
}

fn text_of(request: &SeenRequest) -> String {
    String::from_utf8(request.body.clone()).expect("JSON is UTF-8")
}

fn stream(events: &[Value]) -> Reply {
    events.iter().fold(Reply::sse_head(), |reply, e| reply.event(&e.to_string())).end_chunks()
}

#[test]
fn every_count_is_the_simulated_server_s() {
    for (api, settings) in
        APIS.into_iter().map(|api| (api, "")).chain([("sglang_generate", "&sglang-pieces=on")])
    {
        for streaming in [false, true] {
            let server = sim(&format!("ttft=1&itl=1&osl=4&truth{settings}"));
            let done = run_of(api, &url(&server), streaming)
                .args("--request-count 3 --export-level raw")
                .run()
                .expect_exit(0)
                .ends(Tally::of(3, 0));
            let (_, truth, _) = server.stop_with_truth();
            assert!(truth.iter().all(|t| t.endpoint == api && t.stream == streaming), "{truth:?}");
            for (record, truth) in done.records().iter().zip(&truth) {
                let value = |tag: &str| record["metrics"][tag]["value"].as_u64();
                assert_eq!(value("output_sequence_length"), Some(4), "{api} {streaming} {record}");
                assert_eq!(value("input_sequence_length"), Some(truth.prompt_tokens), "{truth:?} {record}");
                // Solido tells no counts.
                let completion = (api != "solido_rag").then_some(4);
                assert_eq!(value("usage_completion_tokens"), completion, "{api} {streaming} {record}");
                assert_eq!(record["metrics"]["time_to_first_token"].is_object(), streaming, "{record}");
                let gaps = record["metrics"]["inter_chunk_latency"]["value"].as_array().map(Vec::len);
                assert_eq!(gaps, streaming.then_some(3), "{api} {record}");
            }
            assert_eq!(done.lines("profile_export_raw.jsonl").len(), 3);
            let title = if api == "solido_rag" { "| SOLIDO RAG Metrics" } else { "| LLM Metrics" };
            assert!(done.stdout.contains(title), "{}", done.stdout);
        }
    }
}

#[test]
fn what_goes_out_is_what_one_would_write_by_hand() {
    let rows = concat!(
        "{\"texts\":[\"one\",\"two\"],\"output_length\":5}\n",
        "{\"text\":\"three\",\"extra\":{\"own\":1}}\n",
    );
    let sent = |api: &str, streaming: bool, reply: Reply| {
        let server = scripted(vec![reply]);
        let run = Run::unseeded(&server.url()).file("rows.jsonl", rows);
        let run = run
            .args("--concurrency 1 --request-count 2 --input-file rows.jsonl --extra-inputs top_k:4 --endpoint-type")
            .arg(api);
        let run = if streaming { run.arg("--streaming") } else { run };
        run.run().expect_exit(0).ends(Tally::of(2, 0));
        let posts = posts(&server);
        let accept = if streaming { "text/event-stream" } else { "application/json" };
        assert!(posts.iter().all(|r| r.header("accept") == Some(accept)), "{posts:?}");
        (posts[0].path.clone(), [text_of(&posts[0]), text_of(&posts[1])])
    };
    let tgi_bodies = [
        r#"{"inputs":"one two","parameters":{"max_new_tokens":5,"top_k":4}}"#,
        r#"{"inputs":"three","parameters":{"top_k":4},"own":1}"#,
    ];
    let whole = Reply::json(200, r#"[{"generated_text":"It is."}]"#);
    let (path, bodies) = sent("huggingface_generate", false, whole);
    assert_eq!((path.as_str(), bodies.each_ref().map(String::as_str)), ("/generate", tgi_bodies));
    let events = stream(&[json!({"index": 1, "token": {"text": "It is."}})]);
    let (path, bodies) = sent("huggingface_generate", true, events);
    assert_eq!((path.as_str(), bodies.each_ref().map(String::as_str)), ("/generate_stream", tgi_bodies));
    let (path, bodies) = sent("sglang_generate", true, stream(&[json!({"text": "It is."})]));
    assert_eq!(path, "/generate");
    assert_eq!(
        bodies,
        [
            r#"{"text":"one two","sampling_params":{"max_new_tokens":5,"top_k":4},"stream":true}"#,
            r#"{"text":"three","sampling_params":{"top_k":4},"stream":true,"own":1}"#,
        ]
    );
    let (path, bodies) = sent("solido_rag", false, Reply::json(200, r#"{"content":"It is.","sources":[]}"#));
    assert_eq!(path, "/rag/api/prompt");
    assert_eq!(
        bodies,
        [
            r#"{"query":["one","two"],"filters":{"family":"Solido","tool":"SDE"},"inference_model":"demo","top_k":4}"#,
            r#"{"query":["three"],"filters":{"family":"Solido","tool":"SDE"},"inference_model":"demo","top_k":4,"own":1}"#,
        ]
    );
}

/// Messages of the failures of a run.
fn failures(done: &Done) -> Vec<String> {
    done.records().iter().filter_map(|r| r["error"]["message"].as_str().map(str::to_owned)).collect()
}

#[test]
fn answers_that_are_none_fail_with_words() {
    for (api, reply, word) in [
        ("huggingface_generate", Reply::json(200, r#"{"generated_text":""}"#), "'generated_text'"),
        (
            "huggingface_generate",
            Reply::json(422, r#"{"error":"Input validation error: too long","error_type":"validation"}"#),
            "Input validation error: too long",
        ),
        ("sglang_generate", Reply::json(200, r#"{"meta_info":{}}"#), "'text'"),
        (
            "sglang_generate",
            Reply::json(
                200,
                r#"{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"no room","status_code":503}}}"#,
            ),
            "no room",
        ),
        ("solido_rag", Reply::json(200, r#"{"content":null}"#), "'content'"),
        ("solido_rag", Reply::html(), "not a JSON object"),
    ] {
        let server = scripted(vec![reply]);
        let done = run_of(api, &server.url(), false).args("--request-count 1").run().expect_exit(1);
        let failures = failures(&done);
        assert!(failures.len() == 1 && failures[0].contains(word), "{api}: {failures:?}");
    }
}

#[test]
fn faults_inside_a_stream_are_failures() {
    for api in APIS {
        for fault in ["error-event", "error-data", "cut", "half-event"] {
            let server = sim(&format!("ttft=0&itl=0&osl=4&faults={fault}:at=1"));
            let done = run_of(api, &url(&server), true).args("--request-count 3").run();
            let failed = u64::from(fault != "half-event");
            assert_eq!(
                done.records().iter().filter(|r| !r["error"].is_null()).count() as u64,
                failed,
                "{api} {fault}"
            );
        }
        let server = sim("ttft=0&itl=0&osl=4&faults=empty-choices:at=1");
        let done = run_of(api, &url(&server), true).args("--request-count 3").run();
        assert_eq!(failures(&done).len(), 1, "{api}");
    }
}

#[test]
fn a_file_names_the_types_too() {
    let server = sim("ttft=0&itl=0&osl=2");
    for api in APIS {
        let yaml = format!(
            "benchmark:\n  model: demo\n  endpoint: {{url: '{}', type: {api}, streaming: true}}\n  \
             dataset: {{type: synthetic, entries: 2, prompts: {{isl: 8}}}}\n  \
             phases: [{{name: profiling, type: concurrency, concurrency: 1, requests: 2}}]\n  \
             tokenizer: {{name: builtin}}\n",
            url(&server)
        );
        let run =
            Run::new("profile --ui none --artifact-dir out --config bench.yaml").file("bench.yaml", yaml);
        run.run().expect_exit(0).ends(Tally::of(2, 0));
    }
}

/// It has no field for one, so none is sent, and no answer misses it.
#[test]
fn a_solido_request_has_no_output_limit() {
    let server = sim("ttft=0&itl=0&osl=40");
    let run = |more: &str| {
        let args = "--endpoint-type solido_rag --isl 20 --osl 5 --request-count 3 --concurrency 1";
        Run::unseeded(&url(&server)).args(args).args(more)
    };
    let note =
        "--osl has no effect and is not sent: endpoint type 'solido_rag' has no field for the output length";
    let done = run("").run().expect_exit(0).ends(Tally::of(3, 0)).says(&[note]);
    assert!(!done.stdout.contains("does not heed"), "{}", done.stdout);
    done.has("output_sequence_length", "avg", 40.0);
    assert_eq!(done.summary().get("osl_mismatch_count"), None);
    run("--dry-run").run().expect_exit(0).shows(&["OSL asked none: the server decides"]);
    // Nor does a file's.
    let row = json!({"text": "What is it?", "output_length": 5});
    let of_file = Run::unseeded(&url(&server))
        .args("--endpoint-type solido_rag --input-file p.jsonl --custom-dataset-type single_turn --request-count 1")
        .file("p.jsonl", row.to_string())
        .run()
        .expect_exit(0);
    assert_eq!(of_file.summary().get("osl_mismatch_count"), None);
}
