//! OpenAI's responses and Anthropic's messages through the real binary: what goes out, what is read back, how answers fail.

use aiperf_sim::scripted::{Reply, ScriptedServer, SeenRequest};
use serde_json::{Value, json};

use crate::support::{Run, Tally, cycling, scripted, sim, url};

/// The endpoint types that are told apart here, and the path of each.
const APIS: [(&str, &str); 2] = [("responses", "/v1/responses"), ("messages", "/v1/messages")];

fn run_of(api: &str, url: &str, streaming: bool) -> Run {
    let run = Run::profile(url).args("--export-level raw --endpoint-type").arg(api);
    if streaming { run.arg("--streaming") } else { run }
}

/// The requests of the run itself.
fn posts(server: &ScriptedServer) -> Vec<SeenRequest> {
    server.requests().into_iter().filter(|r| r.method == "POST").collect()
}

fn text_of(request: &SeenRequest) -> String {
    String::from_utf8(request.body.clone()).expect("JSON is UTF-8")
}

/// A good answer in one piece.
fn whole(api: &str, text: &str) -> Reply {
    let body = match api {
        "responses" => json!({"object": "response", "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]}),
        _ => json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]}),
    };
    Reply::json(200, &body.to_string())
}

/// An event of a stream that says `text`.
fn piece(api: &str, text: &str) -> Value {
    match api {
        "responses" => {
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text})
        }
        _ => {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        }
    }
}

/// A stream of these events, each with its name.
fn stream(events: &[Value]) -> Reply {
    events
        .iter()
        .fold(Reply::sse_head(), |reply, e| {
            reply.chunk(format!("event: {}\ndata: {e}\n\n", e["type"].as_str().expect("a type")))
        })
        .end_chunks()
}

#[test]
fn every_count_is_the_simulated_server_s() {
    for (api, path) in APIS {
        for streaming in [false, true] {
            // Without a template and markers of its own, the server counts contents, as the client does here.
            let server = sim("ttft=1&itl=1&truth");
            let done = run_of(api, &url(&server), streaming)
                .args("--request-count 3 --system-prompt brief --concurrency 1")
                .run()
                .expect_exit(0)
                .ends(Tally::of(3, 0));
            let (_, truth, _) = server.stop_with_truth();
            assert!(truth.iter().all(|t| t.endpoint == api && t.stream == streaming), "{truth:?}");
            for (record, truth) in done.records().iter().zip(&truth) {
                let value = |tag: &str| record["metrics"][tag]["value"].as_u64().expect("a number");
                assert_eq!(value("output_sequence_length"), 4, "{api} {streaming} {record}");
                assert_eq!(value("usage_completion_tokens"), 4, "{api} {streaming} {record}");
                assert_eq!(
                    value("input_sequence_length"),
                    value("usage_prompt_tokens"),
                    "{api} {streaming} {record}"
                );
                assert_eq!(Some(value("input_sequence_length")), Some(truth.prompt_tokens), "{truth:?}");
                let ttft = &record["metrics"]["time_to_first_token"];
                assert_eq!(ttft.is_object(), streaming, "{api} {streaming} {record}");
            }
            assert_eq!(done.lines("profile_export_raw.jsonl").len(), 3);
            let wrong_way = scripted(vec![Reply::json(404, "{}")]);
            run_of(api, &wrong_way.url(), streaming).args("--request-count 1").run().expect_exit(1);
            assert_eq!(posts(&wrong_way)[0].path, path);
        }
    }
}

#[test]
fn chunks_and_thoughts_are_as_many_as_in_a_chat() {
    let shape = |api: &str| {
        let server = sim("ttft=1&itl=0&reasoning=3");
        let run = Run::unseeded(&url(&server))
            .args("--streaming --isl 8 --osl 9 --request-count 2 --endpoint-type");
        let done = run.arg(api).run().expect_exit(0);
        let counts = |record: &Value| {
            let value = |tag: &str| record["metrics"][tag]["value"].clone();
            let gaps = value("inter_chunk_latency").as_array().map(Vec::len);
            (gaps, value("reasoning_token_count"), value("output_token_count"))
        };
        done.records().iter().map(counts).collect::<Vec<_>>()
    };
    let chat = shape("chat");
    assert_eq!(chat[0], (Some(8), json!(3), json!(6)));
    for (api, _) in APIS {
        assert_eq!(shape(api), chat, "{api}");
    }
}

#[test]
fn conversations_are_the_bodies_that_one_would_write_by_hand() {
    let expected = |api: &str, turns: [&str; 3]| {
        let turn = |n: usize| match api {
            "responses" => json!({"role": "user", "content": turns[n], "type": "message"}).to_string(),
            _ => json!({"role": "user", "content": turns[n]}).to_string(),
        };
        let said = |text: &str| match api {
            "responses" => json!({"role": "assistant", "content": text, "type": "message"}).to_string(),
            _ => json!({"role": "assistant", "content": text}).to_string(),
        };
        let lists = [
            turn(0),
            [turn(0), said(" \"1\"\n"), turn(1)].join(","),
            [turn(0), said(" \"1\"\n"), turn(1), said("2"), turn(2)].join(","),
        ];
        lists.map(|list| match api {
            "responses" => format!(
                r#"{{"input":[{list}],"model":"demo","stream":false,"instructions":"be brief","max_output_tokens":4}}"#
            ),
            _ => format!(r#"{{"model":"demo","messages":[{list}],"max_tokens":4,"system":"be brief"}}"#),
        })
    };
    for (api, _) in APIS {
        let server = cycling(vec![whole(api, " \"1\"\n"), whole(api, "2"), whole(api, "3")]);
        let done = run_of(api, &server.url(), false)
            .args("--conversation-turn-mean 3 --num-dataset-entries 1 --request-count 3 --system-prompt")
            .arg("be brief")
            .run()
            .expect_exit(0)
            .ends(Tally::of(3, 0));
        let list = if api == "responses" { "input" } else { "messages" };
        let inputs = done.inputs();
        let own = [0, 1, 2].map(|n| {
            let last = inputs[n][list].as_array().and_then(|l| l.last()).expect("a message");
            last["content"].as_str().expect("a text")
        });
        let sent: Vec<String> = posts(&server).iter().map(text_of).collect();
        assert_eq!(sent, expected(api, own));
    }
}

#[test]
fn anthropic_gets_its_key_and_version_and_nobody_else_does() {
    let server = scripted(vec![whole("messages", "hi")]);
    let run = run_of("messages", &server.url(), false).args("--request-count 1 --api-key s3cr3t-k3y");
    run.run().expect_exit(0).keeps("s3cr3t-k3y");
    let seen = &posts(&server)[0];
    assert_eq!(seen.header("x-api-key"), Some("s3cr3t-k3y"));
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(seen.header("authorization"), None);
    let server = scripted(vec![whole("responses", "hi")]);
    let run = run_of("responses", &server.url(), false).args("--request-count 1 --api-key s3cr3t-k3y");
    run.run().expect_exit(0).keeps("s3cr3t-k3y");
    let seen = &posts(&server)[0];
    assert_eq!(seen.header("authorization"), Some("Bearer s3cr3t-k3y"));
    assert_eq!((seen.header("x-api-key"), seen.header("anthropic-version")), (None, None));
}

#[test]
fn an_error_inside_a_good_stream_fails_the_request() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let failed = json!({"type": "response.failed", "response": {"object": "response", "status": "failed",
        "error": {"code": "rate_limit_exceeded", "message": "slow down"}}});
    let (stop, completed) = (
        json!({"type": "message_stop"}),
        json!({"type": "response.completed", "response": {"object": "response", "status": "completed"}}),
    );
    for (api, end, event, code, words) in [
        ("messages", stop, overloaded, 529, "Overloaded"),
        ("responses", completed, failed, 429, "slow down"),
    ] {
        let server = cycling(vec![
            stream(&[piece(api, "The"), piece(api, " river"), end]),
            stream(&[piece(api, "The"), event]),
        ]);
        let done = run_of(api, &server.url(), true)
            .args("--request-count 4")
            .run()
            .expect_exit(0)
            .ends(Tally::of(2, 2));
        let records = done.records();
        let failed: Vec<&Value> = records.iter().filter(|r| r["metadata"]["outcome"] == "failed").collect();
        assert_eq!(failed.len(), 2);
        for record in failed {
            assert_eq!(
                (&record["error"]["code"], &record["error"]["message"]),
                (&json!(code), &json!(words))
            );
        }
    }
}

#[test]
fn a_broken_answer_ends_as_it_does_in_a_chat() {
    let faults = [
        "503",
        "error-event",
        "error-data",
        "malformed",
        "half-event",
        "cut:after=1",
        "html",
        "split",
        "join",
    ];
    let outcome = |api: &str, fault: &str| {
        let server = sim(&format!("ttft=1&itl=0&faults={fault}"));
        let done = run_of(api, &url(&server), true).args("--request-count 2").run();
        let kinds: Vec<Value> = done.records().iter().map(|r| r["error"]["type"].clone()).collect();
        (done.tally(), kinds)
    };
    for fault in faults {
        let chat = outcome("chat", fault);
        for (api, _) in APIS {
            assert_eq!(outcome(api, fault), chat, "{api} {fault}");
        }
    }
}

#[test]
fn the_end_at_a_limit_is_no_failure() {
    let server = sim("ttft=1&itl=0&incomplete-event=on");
    let done = run_of("responses", &url(&server), true).args("--request-count 2").run().expect_exit(0);
    let done = done.ends(Tally::of(2, 0));
    done.has("usage_completion_tokens", "avg", 4.0);
}

#[test]
fn a_response_is_kept_where_that_is_asked_for() {
    let server = scripted(vec![whole("responses", "hi")]);
    let run = run_of("responses", &server.url(), false)
        .args("--extra-inputs store:true --use-server-token-count --request-count 1");
    run.run().expect_exit(0);
    assert!(text_of(&posts(&server)[0]).contains(r#""store":true"#));
}
