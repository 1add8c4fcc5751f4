//! What answers say, and what becomes of it in every file: finish reasons, several choices, usage, counts of speculative decoding, errors
//! inside streams, chains of kept responses.

use aiperf_sim::scripted::{Reply, Script};
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, cycling, flat, scripted, sim, url};

/// A chat chunk with one choice.
fn chunk(index: u32, delta: &Value, finish: Option<&str>) -> String {
    json!({"object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}]})
    .to_string()
}

/// A stream of these chunks, with counts and the end mark.
fn stream(chunks: &[String], usage: &Value) -> Reply {
    let tail = json!({"object": "chat.completion.chunk", "choices": [], "usage": usage}).to_string();
    let reply = chunks.iter().fold(Reply::sse_head(), |reply, c| reply.event(c));
    reply.event(&tail).event("[DONE]").end_chunks()
}

fn text(content: &str) -> String {
    chunk(0, &json!({"content": content}), None)
}

fn finish(reason: &str) -> String {
    chunk(0, &json!({}), Some(reason))
}

/// The summary made again from the records says the same.
fn rebuilt_alike(done: Done, keys: &[&str]) -> Done {
    let own = done.summary();
    let done = Run::new("report out --force").run_in(done).expect_exit(0);
    for key in keys {
        assert!(!own[*key].is_null(), "{key} is not there");
        assert_eq!(done.summary()[*key], own[*key], "{key}");
    }
    done
}

#[test]
fn finish_reasons_are_counted_and_kept_in_the_server_s_own_word() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 1});
    let server = cycling(vec![
        stream(&[text("a"), finish("stop")], &usage),
        stream(&[text("a"), finish("eos_token")], &usage),
        stream(&[text("a"), finish("length")], &usage),
        stream(&[text("a")], &usage),
    ]);
    let done = Run::profile(&server.url()).args("--request-count 8 --streaming").run().expect_exit(0);
    assert!(
        flat(&done.stdout).contains("Finish reasons of the answers: 2 unsaid, 4 stop, 2 length."),
        "{}",
        done.stdout
    );
    assert_eq!(done.summary()["finish_reasons"], json!({"unsaid": 2, "stop": 4, "length": 2}));
    let records = done.records();
    let reasons: Vec<(Option<&str>, Option<&str>)> = records
        .iter()
        .map(|r| (r["metadata"]["finish_reason"].as_str(), r["metadata"]["server_finish_reason"].as_str()))
        .collect();
    assert_eq!(
        reasons[..4],
        [
            (Some("stop"), Some("stop")),
            (Some("stop"), Some("eos_token")),
            (Some("length"), Some("length")),
            (None, None)
        ]
    );
    rebuilt_alike(done, &["finish_reasons", "request_latency"]);
}

#[test]
fn every_api_says_why_it_stopped() {
    let responses = json!({"object": "response", "id": "r", "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}]});
    let messages =
        json!({"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "max_tokens"});
    let completions = json!({"object": "text_completion", "choices": [{"index": 0, "text": "a", "finish_reason": "length"}]});
    for (kind, body, word) in [
        ("responses", responses, "max_output_tokens"),
        ("messages", messages, "max_tokens"),
        ("completions", completions, "length"),
    ] {
        let server = scripted(vec![Reply::json(200, &body.to_string())]);
        let run = Run::profile(&server.url()).args("--request-count 2 --endpoint-type").arg(kind);
        let done = run.run().expect_exit(0).ends(Tally::of(2, 0));
        for record in done.records() {
            assert_eq!(record["metadata"]["finish_reason"], "length", "{kind}");
            assert_eq!(record["metadata"]["server_finish_reason"], word, "{kind}");
        }
        assert_eq!(done.summary()["finish_reasons"], json!({"length": 2}));
        assert!(!done.stdout.contains("Finish reasons"), "one reason is no news");
    }
}

#[test]
fn all_choices_are_counted_each_apart() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 6});
    let piece = |index, word: &str| chunk(index, &json!({"content": word}), None);
    let end = |index| chunk(index, &json!({}), Some("length"));
    // "one two three" and "four five" are three and two tokens.
    let server = scripted(vec![stream(
        &[
            piece(0, "one"),
            piece(1, "four"),
            piece(0, " two"),
            piece(1, " five"),
            piece(0, " three"),
            end(0),
            end(1),
        ],
        &usage,
    )]);
    let args = "--request-count 2 --streaming --extra-inputs n:2";
    let done = Run::profile(&server.url()).args(args).run().expect_exit(0);
    for record in done.records() {
        assert_eq!(record["metrics"]["output_sequence_length"]["value"], 5);
        assert_eq!(record["metrics"]["inter_chunk_latency"]["value"].as_array().map(Vec::len), Some(4));
        // Eight were asked for: four of each.
        assert!(
            record["metrics"]["osl_mismatch_diff_pct"]["value"]
                .as_f64()
                .is_some_and(|pct| (pct + 37.5).abs() < 1e-9)
        );
    }
}

#[test]
fn a_server_s_choices_are_one_answer() {
    for (args, streams) in [
        ("--endpoint-type chat --streaming", true),
        ("--endpoint-type chat", false),
        ("--endpoint-type completions --streaming", true),
        ("--endpoint-type completions", false),
    ] {
        let server = sim("ttft=0&itl=1&eos=0.1&seed=5&truth=on");
        let run =
            Run::unseeded(&url(&server)).args(args).args("--osl 9 --request-count 4 --extra-inputs n:=3");
        let done = run.args("--random-seed 7 --isl 20").run().expect_exit(0).ends(Tally::of(4, 0));
        let (_, truth, _) = server.stop_with_truth();
        for record in done.records() {
            let id = record["metadata"]["x_request_id"].as_str();
            let truth = truth.iter().find(|t| t.x_request_id.as_deref() == id).expect("the server's record");
            let value = |tag: &str| record["metrics"][tag]["value"].clone();
            // Each choice is counted apart, the prompt once.
            assert_eq!(value("output_sequence_length"), truth.completion_tokens, "{args}");
            assert_eq!(value("usage_completion_tokens"), truth.completion_tokens, "{args}");
            assert_eq!(value("usage_prompt_tokens"), truth.prompt_tokens, "{args}");
            assert_eq!(value("input_sequence_length"), 20, "{args}");
            assert!((10..=27).contains(&truth.completion_tokens), "more than one choice: {truth:?}");
            if streams {
                let gaps = value("inter_chunk_latency").as_array().map(Vec::len);
                assert_eq!(gaps, Some(truth.chunks_ns.len() - 1), "{args}");
            }
        }
        let counted: u64 = truth.iter().map(|t| t.completion_tokens).sum();
        done.has("total_output_tokens", "avg", counted as f64);
    }
}

#[test]
fn refusals_and_tool_calls_are_answers() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 3});
    let refusal = stream(
        &[
            chunk(0, &json!({"refusal": "I can"}), None),
            chunk(0, &json!({"refusal": " not"}), None),
            finish("stop"),
        ],
        &usage,
    );
    let call = |delta: Value| chunk(0, &json!({ "tool_calls": [delta] }), None);
    let calls = stream(
        &[
            call(json!({"index": 0, "id": "c", "function": {"name": "look", "arguments": ""}})),
            call(json!({"index": 0, "function": {"arguments": "{}"}})),
            finish("tool_calls"),
        ],
        &usage,
    );
    let server = cycling(vec![refusal, calls]);
    let done = Run::profile(&server.url())
        .args("--request-count 4 --streaming")
        .run()
        .expect_exit(0)
        .ends(Tally::of(4, 0));
    assert_eq!(done.summary()["finish_reasons"], json!({"stop": 2, "tool_calls": 2}));
    assert!(done.records().iter().all(|r| r["metrics"]["output_token_count"]["value"].as_u64() > Some(0)));
}

#[test]
fn the_whole_vocabulary_of_usage_reaches_files_and_screen() {
    let usage = json!({"prompt_tokens": 50, "completion_tokens": 9, "total_tokens": 59,
        "prompt_tokens_details": {"cached_tokens": 20, "audio_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 1, "accepted_prediction_tokens": 3,
            "rejected_prediction_tokens": 5},
        "prompt_cache_miss_tokens": 30, "cache_creation_input_tokens": 7, "toolUsePromptTokenCount": 6,
        "prompt_audio_seconds": 1.5});
    let server = scripted(vec![stream(&[text("a"), finish("stop")], &usage)]);
    let done = Run::profile(&server.url()).args("--request-count 3 --streaming").run().expect_exit(0);
    let expected = [
        ("prompt_cache_write_tokens", "tokens", 7.0),
        ("prompt_cache_miss_tokens", "tokens", 30.0),
        ("prompt_audio_tokens", "tokens", 4.0),
        ("tool_use_prompt_tokens", "tokens", 6.0),
        ("prompt_audio_seconds", "sec", 1.5),
        ("completion_audio_tokens", "tokens", 1.0),
        ("accepted_prediction_tokens", "tokens", 3.0),
        ("rejected_prediction_tokens", "tokens", 5.0),
    ];
    let summary = done.summary();
    for (name, unit, value) in expected {
        let (one, all) = (&summary[format!("usage_{name}")], &summary[format!("total_usage_{name}")]);
        assert_eq!(
            (&one["unit"], one["p50"].as_f64(), &one["count"]),
            (&unit.into(), Some(value), &3.into()),
            "{name}"
        );
        assert_eq!((&all["unit"], all["avg"].as_f64()), (&unit.into(), Some(3.0 * value)), "{name}");
    }
    let screen = flat(&done.stdout);
    assert!(
        screen.contains("Usage Prompt Cache Write Tokens")
            && screen.contains("Total Usage Rejected Prediction Tokens")
    );
    rebuilt_alike(done, &expected.map(|(name, ..)| format!("usage_{name}")).each_ref().map(String::as_str));
}

#[test]
fn each_provider_s_error_inside_a_stream_is_a_failure_with_its_own_words() {
    for (event, code, name, words) in [
        (
            r#"data: {"error":{"message":"The server had an error","type":"server_error","code":null}}"#,
            500,
            "server_error",
            "The server had an error",
        ),
        (
            r#"data: {"object":"error","message":"EngineCore died","type":"InternalServerError","code":500}"#,
            500,
            "InternalServerError",
            "EngineCore died",
        ),
        (
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
            529,
            "overloaded_error",
            "Overloaded",
        ),
        (
            r#"data: {"error":{"message":"filtered","code":"content_filter","status":400}}"#,
            400,
            "content_filter",
            "filtered",
        ),
        (
            r#"data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            503,
            "UNAVAILABLE",
            "The model is overloaded.",
        ),
        (
            r#"data: [{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]"#,
            429,
            "RESOURCE_EXHAUSTED",
            "quota",
        ),
        (r#"data: {"error":"out of memory","error_type":"generation"}"#, 424, "generation", "out of memory"),
        (
            r#"data: {"error":{"object":"error","message":"aborted by the scheduler","type":"InternalServerError","code":500}}"#,
            500,
            "InternalServerError",
            "aborted by the scheduler",
        ),
    ] {
        let reply =
            Reply::sse_head().chat_event("a").chunk(format!("{event}\n\n")).event("[DONE]").end_chunks();
        let server = scripted(vec![reply]);
        let done = Run::profile(&server.url())
            .args("--request-count 2 --streaming")
            .run()
            .expect_exit(1)
            .ends(Tally::of(0, 2));
        for record in done.records() {
            let error = &record["error"];
            assert_eq!(
                (&error["type"], &error["kind"], &error["stage"]),
                (&"SSEResponseError".into(), &"server_error".into(), &"in_stream".into()),
                "{event}"
            );
            assert_eq!(
                (&error["code"], &error["server_code"], &error["message"]),
                (&code.into(), &name.into(), &words.into()),
                "{event}"
            );
        }
        let group = &done.summary()["error_summary"][0];
        assert_eq!((&group["count"], &group["stages"]), (&2.into(), &json!({"in_stream": 2})));
        assert_eq!(group["server_code"], name);
    }
}

#[test]
fn errors_that_differ_in_ids_and_numbers_are_one_line() {
    let server = Script::by_request(|seen| {
        let n = seen.header("x-request-id").map_or(0, |id| id.bytes().map(u64::from).sum());
        Reply::json(503, &format!("{{\"error\":\"request req-{n:016x} waited {n} ms\"}}"))
    })
    .start()
    .expect("it listens");
    let done =
        Run::profile(&server.url()).args("--request-count 6").run().expect_exit(1).ends(Tally::of(0, 6));
    let summary = done.summary();
    let groups = summary["error_summary"].as_array().expect("a list");
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(
        (&groups[0]["count"], &groups[0]["retryable"], &groups[0]["varies"]),
        (&6.into(), &6.into(), &true.into())
    );
    assert!(flat(&done.stdout).contains("for example:"), "{}", done.stdout);
    let done = Run::new("report out --force").run_in(done).expect_exit(1);
    assert_eq!(done.summary()["error_summary"], summary["error_summary"]);
}

#[test]
fn the_first_chunk_s_own_tokens_are_no_part_of_the_pace() {
    let counted = |word: &str, tokens: u64, finish: Option<&str>| {
        json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})
        .to_string()
    };
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 12});
    let server = scripted(vec![stream(
        &[counted("a b c d", 4, None), counted("e f g h", 8, None), counted("i j k l", 12, Some("stop"))],
        &usage,
    )]);
    let itl = |args: &str, divisor: f64| {
        let done = Run::profile(&server.url())
            .args("--request-count 3 --streaming --use-server-token-count")
            .args(args)
            .run()
            .expect_exit(0);
        for record in done.records() {
            let value = |tag: &str| record["metrics"][tag]["value"].as_f64().expect("a number");
            let pace = value("decode_duration") / divisor;
            assert!((value("inter_token_latency") - pace).abs() <= 1e-9 * pace.max(1e-9), "{record}");
        }
        done
    };
    let told = "is too short by the share of the first chunk";
    assert!(flat(&itl("", 11.0).stdout).contains(told));
    let done = itl("--per-chunk-usage", 8.0);
    assert!(!flat(&done.stdout).contains(told), "{}", done.stdout);
    assert!(done.records().iter().all(|r| r["metadata"]["first_chunk_tokens"] == 4));
    let bodies: Vec<Value> =
        server.requests().iter().map(|r| serde_json::from_slice(&r.body).expect("JSON")).collect();
    assert_eq!(bodies[0]["stream_options"], json!({"include_usage": true}));
    assert_eq!(bodies[5]["stream_options"], json!({"include_usage": true, "continuous_usage_stats": true}));
    rebuilt_alike(done, &["inter_token_latency"]);
}

#[test]
fn counts_of_speculative_decoding_are_pooled() {
    let stats = json!({"speculative_decoding": {"mean_acceptance_length": 2.5, "draft_acceptance_rate": 0.5,
        "acceptance_histogram": [2, 3, 3, 2], "num_accepted_draft_tokens": 15, "num_draft_tokens": 30,
        "num_spec_steps": 10, "num_spec_tokens": 3}});
    let last = json!({"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 20},
        "metrics": stats});
    let server = scripted(vec![
        Reply::sse_head()
            .event(&text("a"))
            .event(&finish("stop"))
            .event(&last.to_string())
            .event("[DONE]")
            .end_chunks(),
    ]);
    let done = Run::profile(&server.url()).args("--request-count 4 --streaming").run().expect_exit(0);
    for (tag, value) in [
        ("spec_decode_acceptance_length", 2.5),
        ("spec_decode_draft_acceptance_rate", 50.0),
        ("spec_decode_accepted_per_verified", 0.625),
        ("spec_decode_steps", 10.0),
        ("spec_decode_accepted_draft_tokens", 15.0),
        ("spec_decode_draft_tokens", 30.0),
        ("total_spec_decode_steps", 40.0),
        ("total_accepted_draft_tokens", 60.0),
        ("total_draft_tokens", 120.0),
        ("spec_decode_token_weighted_acceptance_length", 2.5),
        ("spec_decode_overall_draft_acceptance_rate", 50.0),
    ] {
        done.has(tag, "avg", value);
    }
    let pooled = json!({"0": 8, "1": 12, "2": 12, "3": 8});
    assert_eq!(done.summary()["pooled_spec_decode_acceptance_histogram"], pooled);
    // As AIPerf writes it.
    let expected = json!({"engine": "vllm", "mean_acceptance_length": 2.5, "draft_acceptance_rate": 0.5,
        "acceptance_histogram": {"0": 2, "1": 3, "2": 3, "3": 2}, "num_accepted_draft_tokens": 15, "num_draft_tokens": 30,
        "num_spec_steps": 10, "num_spec_tokens": 3, "completion_tokens": 20});
    assert!(done.records().iter().all(|r| r["spec_decode_acceptance"] == expected));
    let screen = flat(&done.stdout);
    assert!(
        screen.contains("LLM Metrics: Spec Decode") && screen.contains("0:8 1:12 2:12 3:8"),
        "{}",
        done.stdout
    );
    rebuilt_alike(done, &["pooled_spec_decode_acceptance_histogram", "spec_decode_steps"]);
}

/// The simulated server keeps what it is asked to, and counts what was said before.
#[test]
fn the_simulated_server_goes_on_from_what_it_kept() {
    let server = sim("ttft=0&itl=0&truth");
    let args = "--endpoint-type responses --extra-inputs store:true --use-server-token-count --num-conversations 2 --isl 20 --osl 5 \
                --conversation-turn-mean 3 --concurrency 1";
    let done = Run::unseeded(&url(&server)).args(args).run().expect_exit(0).ends(Tally::of(6, 0));
    let (_, truth, _) = server.stop_with_truth();
    let counted: Vec<u64> = truth.iter().map(|t| t.prompt_tokens).collect();
    assert_eq!(counted, [20, 45, 70, 20, 45, 70]);
    done.has("input_sequence_length", "avg", 45.0);
}

/// One that keeps nothing is told of as that.
#[test]
fn a_response_that_is_gone_is_no_wrong_path() {
    let missing = json!({"error": {"message": "Response with id 'resp_1' not found.", "type": "invalid_request_error", "code": 404}});
    let server = Script::by_request(move |seen| {
        let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
        if body["previous_response_id"].is_string() {
            return Reply::json(404, &missing.to_string());
        }
        let answer = json!({"object": "response", "id": "resp_1", "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "fine"}]}],
            "usage": {"input_tokens": 10, "output_tokens": 1}});
        Reply::json(200, &answer.to_string())
    })
    .start()
    .expect("it listens");
    let args = "--endpoint-type responses --extra-inputs store:true --use-server-token-count --num-conversations 1 \
                --conversation-turn-mean 2 --concurrency 1";
    let done = Run::profile(&server.url()).args(args).run().expect_exit(0);
    let screen = flat(&done.stdout);
    assert!(screen.contains("does not keep the responses that later turns go on from"), "{screen}");
    assert!(!screen.contains("nothing at this path"), "{screen}");
}

#[test]
fn kept_responses_are_chained() {
    let server = Script::by_request(|seen| {
        let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
        let turn =
            body["previous_response_id"].as_str().map_or(0, |id| id[5..].parse::<u32>().expect("a number"));
        let answer = json!({"object": "response", "id": format!("resp_{}", turn + 1), "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "fine"}]}],
            "usage": {"input_tokens": 10 * (turn + 1), "output_tokens": 1}});
        Reply::json(200, &answer.to_string())
    })
    .start()
    .expect("it listens");
    let args = "--endpoint-type responses --extra-inputs store:true --use-server-token-count --num-conversations 2 \
                --conversation-turn-mean 3 --concurrency 1";
    let done = Run::profile(&server.url()).args(args).run().expect_exit(0).ends(Tally::of(6, 0));
    let bodies: Vec<Value> =
        server.requests().iter().map(|r| serde_json::from_slice(&r.body).expect("JSON")).collect();
    let previous: Vec<Option<&str>> = bodies.iter().map(|b| b["previous_response_id"].as_str()).collect();
    assert_eq!(previous, [None, Some("resp_1"), Some("resp_2"), None, Some("resp_1"), Some("resp_2")]);
    assert!(bodies.iter().all(|b| b["input"].as_array().map(Vec::len) == Some(1) && b["store"] == true));
    let lengths: Vec<u64> = done
        .records()
        .iter()
        .map(|r| r["metrics"]["input_sequence_length"]["value"].as_u64().expect("a count"))
        .collect();
    assert_eq!(lengths, [10, 20, 30, 10, 20, 30], "the server's own counts");
}
