//! Reading answers: what counts as content, when it came, which failure wins.

use aiperf_core::exchange::{ReadMark, Stamps};
use aiperf_core::outcome::{CancelReason, Disposition, FailureKind, Stage};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// An exchange whose body came in `reads` pieces, the first stamped 100, each later one 10 more.
pub(super) fn exchange(content_type: &str, reads: &[&str]) -> Exchange {
    let mut body = Vec::new();
    let mut marks = Vec::new();
    for (i, read) in reads.iter().enumerate() {
        body.extend_from_slice(read.as_bytes());
        marks.push(ReadMark::read(100 + 10 * i as u64, body.len()));
    }
    Exchange {
        stamps: Stamps {
            start_ns: 50,
            first_byte_ns: marks.first().map(|m| m.at_ns),
            last_byte_ns: marks.last().map(|m| m.at_ns),
            end_ns: 1000,
            ..Stamps::default()
        },
        reused: false,
        resent: false,
        status: Some(200),
        reason: "OK".into(),
        content_type: Some(content_type.into()),
        headers: Vec::new(),
        body,
        reads: marks,
        bytes_sent: 0,
        bytes_received: 0,
        traffic: aiperf_core::exchange::Traffic::default(),
        disposition: Disposition::Finished,
    }
}

pub(super) fn sse(reads: &[&str]) -> Exchange {
    exchange("text/event-stream; charset=utf-8", reads)
}

fn chat(exchange: &Exchange) -> Answer {
    Endpoint::new(&test_plan(EndpointKind::Chat)).read(exchange)
}

fn completion(exchange: &Exchange) -> Answer {
    Endpoint::new(&test_plan(EndpointKind::Completions)).read(exchange)
}

fn delta(delta: &Value) -> String {
    let event = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "served",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    format!("data: {event}\n\n")
}

/// The last chunk of a choice.
fn finish(reason: &str) -> String {
    let event = json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
    format!("data: {event}\n\n")
}

fn failure(answer: &Answer) -> &Failure {
    answer.failure.as_ref().expect("a failure")
}

#[test]
fn only_chunks_with_content_count_and_each_has_its_stamp() {
    let usage = json!({"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}});
    let reads = [
        delta(&json!({"role": "assistant", "content": ""})),
        ": still here\n\n".to_owned(),
        delta(&json!({"reasoning_content": "hm"})),
        delta(&json!({"content": "The"})) + &delta(&json!({"content": " river"})),
        finish("stop") + &format!("data: {usage}\n\n"),
        "data: [DONE]\n\n".to_owned(),
    ];
    let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
    let answer = chat(&sse(&reads));
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("The river", "hm"));
    assert_eq!(
        answer.chunks,
        [
            AnswerChunk { at_ns: 120, text_end: 0, reasoning_end: 2 },
            AnswerChunk { at_ns: 130, text_end: 3, reasoning_end: 2 },
            AnswerChunk { at_ns: 130, text_end: 9, reasoning_end: 2 },
        ]
    );
    assert_eq!(answer.usage.and_then(|u| u.completion_tokens), Some(3));
    assert_eq!(answer.finish_reason.as_deref(), Some("stop"));
    assert_eq!(answer.served_model.as_deref(), Some("served"));
    assert!(answer.done && answer.failure.is_none() && answer.malformed_events == 0);
}

#[test]
fn a_chunk_is_stamped_when_its_data_is_whole() {
    let event = delta(&json!({"content": "a"}));
    let (head, rest) = event.split_at(20);
    let (data, end) = rest.split_at(rest.len() - 2);
    let answer = chat(&sse(&[head, data, end]));
    assert_eq!(answer.chunks[0].at_ns, 110, "not the read of its first byte, not the read of its blank line");
}

#[test]
fn text_is_whole_to_the_byte_whatever_the_cuts() {
    let stream: String =
        ["naïve 東京", " two  blanks", " 🙂 end"].iter().map(|t| delta(&json!({"content": t}))).collect();
    for cut in (1..stream.len()).filter(|c| stream.is_char_boundary(*c)) {
        let answer = chat(&sse(&[&stream[..cut], &stream[cut..]]));
        assert_eq!(answer.text, "naïve 東京 two  blanks 🙂 end");
    }
}

#[test]
fn both_spellings_of_reasoning_and_tool_calls_are_content() {
    let call = json!({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": ""}}, null]});
    let more =
        json!({"content": "so: ", "tool_calls": [{"index": 0, "function": {"arguments": "{\"q\":1}"}}]});
    let object = json!({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]});
    let stream = [
        delta(&json!({"reasoning": "a"})),
        delta(&json!({"reasoning_content": "b", "content": "x"})),
        delta(&call),
        delta(&more),
        delta(&object),
        delta(&json!({"function_call": {"name": "old", "arguments": "()"}})),
    ]
    .concat();
    let answer = chat(&sse(&[&stream]));
    assert_eq!(answer.reasoning, "ab");
    assert_eq!(answer.text, "xlook{\"q\":1}so: f{\"a\":1}old()");
    assert_eq!(answer.prose(), "xso: ");
    assert_eq!(answer.calls.len(), 3);
    assert_eq!(answer.chunks.len(), 6);
}

#[test]
fn a_whole_body_is_one_chunk_at_its_last_read() {
    let body = json!({"object": "chat.completion", "model": "served", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "length"},
        {"index": 1, "message": {"role": "assistant", "content": "ho"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    .to_string();
    let (a, b) = body.split_at(10);
    let answer = chat(&exchange("application/json", &[a, b]));
    assert_eq!(answer.chunks, [AnswerChunk { at_ns: 110, text_end: 4, reasoning_end: 0 }]);
    assert_eq!((answer.text.as_str(), answer.finish_reason.as_deref()), ("hi", Some("length")));
    assert_eq!(answer.choices().collect::<Vec<_>>(), [("hi", ""), ("ho", "")]);
    assert!(answer.failure.is_none() && answer.usage.is_some());
}

#[test]
fn several_streamed_choices_are_each_read_apart() {
    let event = |index: u32, text: &str, reason: Option<&str>| {
        let e = json!({"object": "text_completion", "choices": [{"index": index, "text": text, "finish_reason": reason}]});
        format!("data: {e}\n\n")
    };
    let stream = event(1, "X", None)
        + &event(0, "a", None)
        + &event(1, "Y", None)
        + &event(0, "b", Some("stop"))
        + &event(1, "", Some("length"));
    let answer = completion(&sse(&[&stream]));
    assert_eq!(answer.choices().collect::<Vec<_>>(), [("ab", ""), ("XY", "")]);
    assert_eq!((answer.chunks.len(), answer.chunks[3].text_end), (4, 4));
    assert_eq!((answer.finish_reason.as_deref(), answer.finish()), (Some("stop"), Finish::Stop));
    assert_eq!(answer.others[0].finish_reason.as_deref(), Some("length"));
    // All choices in one event are one chunk.
    let both = json!({"object": "chat.completion.chunk", "choices": [
        {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"},
        {"index": 1, "delta": {"reasoning": "b", "content": "c"}, "finish_reason": "stop"}]});
    let answer = chat(&sse(&[&format!("data: {both}\n\n")]));
    assert_eq!(answer.choices().collect::<Vec<_>>(), [("a", ""), ("c", "b")]);
    assert_eq!(answer.chunks, [AnswerChunk { at_ns: 100, text_end: 2, reasoning_end: 1 }]);
}

#[test]
fn a_refusal_is_answer_text() {
    let end = finish("stop");
    let stream =
        [delta(&json!({"role": "assistant", "refusal": "I "})), delta(&json!({"refusal": "can't."})), end];
    let answer = chat(&sse(&[&stream.concat()]));
    assert_eq!((answer.text.as_str(), answer.chunks.len(), answer.failure), ("I can't.", 2, None));
    let body = r#"{"object":"chat.completion","choices":[{"message":{"content":null,"refusal":"No."}}]}"#;
    assert_eq!(chat(&exchange("application/json", &[body])).text, "No.");
}

#[test]
fn calls_of_a_whole_answer_and_log_probabilities_cost_nothing() {
    let body = json!({"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
        "logprobs": {"content": [{"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}], "refusal": null},
        "message": {"content": "So", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{\"q\": \"é\\n\"}"}},
            {"id": "b", "type": "function", "function": {"name": "look", "arguments": ""}},
            {"id": "c", "type": "custom", "custom": {"name": "run", "input": "ls -l"}}]}}]});
    let answer = chat(&exchange("application/json", &[&body.to_string()]));
    let calls: Vec<(&str, &str)> = answer
        .calls
        .iter()
        .map(|c| (&answer.text[c.name.clone()], &answer.text[c.arguments.clone()]))
        .collect();
    assert_eq!(calls, [("look", "{\"q\": \"é\\n\"}"), ("look", ""), ("run", "ls -l")]);
    assert_eq!((answer.prose().as_ref(), answer.finish()), ("So", Finish::ToolCalls));
    let logged = |text: &str, p: f64| {
        let e = json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text},
            "logprobs": {"content": [{"token": text, "logprob": p}]}, "finish_reason": null}]});
        format!("data: {e}\n\n")
    };
    let answer = chat(&sse(&[&(logged("a", -0.5) + &logged("b", -1.25) + &finish("stop"))]));
    assert_eq!((answer.text.as_str(), answer.failure), ("ab", None));
}

#[test]
fn calls_that_come_in_turns_are_whole_to_the_byte() {
    let call = |index: u32, id: Option<&str>, name: Option<&str>, arguments: &str| {
        delta(
            &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}),
        )
    };
    let stream = [
        call(0, Some("a"), Some("look"), ""),
        call(1, Some("b"), Some("find"), ""),
        call(0, None, None, "{\"q\":"),
        call(0, None, None, "1"),
        call(1, None, None, "{\"r\":\"\\\"é"),
        call(0, None, None, "}"),
        call(1, None, None, "\"}"),
        finish("tool_calls"),
    ];
    let answer = chat(&sse(&[&stream.concat()]));
    assert_eq!(answer.text, "look{\"q\":1}find{\"r\":\"\\\"é\"}");
    assert_eq!((answer.chunks.len(), answer.prose().as_ref(), answer.failure.clone()), (7, "", None));
    assert_eq!(answer.chunks[6].text_end, answer.text.len());
}

#[test]
fn the_same_bytes_go_on_with_the_call_that_began_last() {
    let named = |id: &str| delta(&json!({"tool_calls": [{"index": 0, "id": id, "function": {"name": "f"}}]}));
    let part = |text: &str| delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}));
    let body = [named("a"), part("(1"), part(")"), named("b"), part("(2"), part(")"), finish("tool_calls")];
    let answer = chat(&sse(&[&body.concat()]));
    let calls: Vec<&str> = answer.calls.iter().map(|call| &answer.text[call.whole()]).collect();
    assert_eq!(calls, ["f(1)", "f(2)"]);
}

#[test]
fn objects_of_another_api_say_nothing() {
    let text = "data: {\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
    assert_eq!(completion(&sse(&[text])).text, "a");
    let answer = chat(&sse(&[text]));
    assert_eq!(failure(&answer).kind, FailureKind::Empty);
    assert!(failure(&answer).message.contains("\"text_completion\""), "{}", failure(&answer).message);
    let unnamed = r#"{"choices":[{"message":{"content":"a"}}]}"#;
    assert_eq!(chat(&exchange("application/json", &[unnamed])).text, "a");
}

#[test]
fn a_part_list_is_its_texts() {
    let stream = delta(&json!({"content": [{"type": "text", "text": "a"}, "b", {"type": "x"}, 4, null]}));
    assert_eq!(chat(&sse(&[&stream])).text, "ab");
}

#[test]
fn the_transport_s_failure_wins_and_what_came_is_kept() {
    let mut cut = sse(&[&delta(&json!({"content": "a"})), "data: {\"obj"]);
    cut.disposition = Disposition::Cancelled { reason: CancelReason::GraceOver, at_ns: 500 };
    let answer = chat(&cut);
    assert_eq!((answer.text.as_str(), answer.malformed_events), ("a", 0));
    let f = failure(&answer);
    assert_eq!(
        (f.kind, f.code, f.type_name.as_str()),
        (FailureKind::Cancelled, Some(499), "RequestCancellationError")
    );
}

#[test]
fn a_bad_status_is_its_code_phrase_and_text() {
    let mut bad = exchange("application/json", &["{\"error\": {\"message\": \"busy\"}}"]);
    bad.status = Some(503);
    bad.reason = "Service Unavailable".into();
    let answer = chat(&bad);
    let f = failure(&answer);
    assert_eq!(
        (f.kind, f.code, f.type_name.as_str()),
        (FailureKind::HttpStatus, Some(503), "Service Unavailable")
    );
    assert_eq!(f.message, "{\"error\": {\"message\": \"busy\"}}");
    assert!(f.retryable);
    bad.status = Some(307);
    bad.body.clear();
    bad.headers = vec![("Location".into(), "http://other/".into())];
    assert!(failure(&chat(&bad)).message.contains("http://other/"));
}

#[test]
fn errors_inside_a_good_status_keep_the_server_s_words() {
    let good = delta(&json!({"content": "The river"}));
    let cases = [
        (r#"data: {"error": {"message": "worker 3 lost", "type": "E", "code": 500}}"#, 500, "worker 3 lost"),
        ("event: error\ndata: {\"message\": \"queue is full\", \"code\": 429}", 429, "queue is full"),
        ("event: error\ndata: {\"error\": {\"message\": \"m\", \"status\": \"503\"}}", 503, "m"),
        ("event: Error\ndata: plain words", 502, "plain words"),
        ("event: error\n: a comment", 502, "a comment"),
        (r#"data: {"error": "just words"}"#, 502, "just words"),
        (
            r#"data: {"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}"#,
            400,
            "too long",
        ),
        (r#"data: {"error": {"type": "x"}}"#, 502, r#"{"type":"x"}"#),
    ];
    for (event, code, message) in cases {
        let answer = chat(&sse(&[&good, event, "\n\n", "data: [DONE]\n\n"]));
        let f = failure(&answer);
        assert_eq!(
            (f.kind, f.code, f.message.as_str()),
            (FailureKind::ServerError, Some(code), message),
            "{event}"
        );
        assert_eq!(f.type_name, "SSEResponseError");
        assert_eq!(answer.text, "The river");
    }
    let whole = chat(&exchange("application/json", &[r#"{"error":{"message":"m","code":"rate_limited"}}"#]));
    assert_eq!((failure(&whole).code, failure(&whole).message.as_str()), (Some(502), "m"));
}

/// Of each vendor, as its servers and documents have it: what comes, its code, the server's own name of it, its words, whether another try may help.
#[test]
fn each_vendor_s_error_inside_a_stream_is_known() {
    let good = delta(&json!({"content": "The river"}));
    let cases = [
        // OpenAI
        (
            r#"data: {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#,
            (500, Some("server_error"), "The server had an error", true),
        ),
        (
            r#"data: {"error":{"message":"Rate limit","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
            (429, Some("rate_limit_exceeded"), "Rate limit", true),
        ),
        // vLLM, before and since its error object has an envelope
        (
            r#"data: {"object":"error","message":"EngineCore died","type":"InternalServerError","param":null,"code":500}"#,
            (500, Some("InternalServerError"), "EngineCore died", true),
        ),
        (
            r#"data: {"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}"#,
            (400, Some("BadRequestError"), "too long", false),
        ),
        // Anthropic's form behind an OpenAI one
        (
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}",
            (529, Some("overloaded_error"), "Overloaded", true),
        ),
        // Azure
        (
            r#"data: {"error":{"message":"filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            (400, Some("content_filter"), "filtered", false),
        ),
        // Google, in an object and in a list
        (
            r#"data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            (503, Some("UNAVAILABLE"), "The model is overloaded.", true),
        ),
        (
            r#"data: [{"error":{"message":"quota","status":"RESOURCE_EXHAUSTED","details":[]}}]"#,
            (429, Some("RESOURCE_EXHAUSTED"), "quota", true),
        ),
        // TGI
        (
            r#"data:{"error":"Request failed during generation: CUDA out of memory","error_type":"generation"}"#,
            (424, Some("generation"), "Request failed during generation: CUDA out of memory", false),
        ),
        (
            r#"data: {"error":{"message":"Model is overloaded","http_status_code":429}}"#,
            (429, None, "Model is overloaded", true),
        ),
        (
            r#"data: {"error":"Model is overloaded","error_type":"overloaded"}"#,
            (429, Some("overloaded"), "Model is overloaded", true),
        ),
        // SGLang
        (
            r#"data: {"error":{"object":"error","message":"aborted by the scheduler","type":"InternalServerError","param":null,"code":500}}"#,
            (500, Some("InternalServerError"), "aborted by the scheduler", true),
        ),
        // Frameworks
        (r#"data: {"detail":"worker lost"}"#, (502, None, "worker lost", true)),
    ];
    for (event, (code, name, words, retryable)) in cases {
        let answer = chat(&sse(&[&good, event, "\n\n", "data: [DONE]\n\n"]));
        let f = failure(&answer);
        assert_eq!(
            (f.kind, f.stage, f.code, f.server_code.as_deref(), f.message.as_str(), f.retryable),
            (FailureKind::ServerError, Stage::InStream, Some(code), name, words, retryable),
            "{event}"
        );
        assert_eq!(answer.text, "The river");
    }
    let mut bad =
        exchange("application/json", &[r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#]);
    bad.status = Some(400);
    assert_eq!(failure(&chat(&bad)).server_code.as_deref(), Some("context_length_exceeded"));
}

#[test]
fn error_null_is_no_error() {
    for none in ["null", "false", "\"\"", "{}", "[]"] {
        let event = format!(
            "data: {{\"object\":\"chat.completion.chunk\",\"error\":{none},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}}}}]}}\n\n"
        );
        let answer = chat(&sse(&[&event, &finish("stop")]));
        assert!(answer.failure.is_none() && answer.text == "a", "{none}");
    }
}

#[test]
fn what_is_not_json_is_malformed_with_a_clean_excerpt() {
    let answer = chat(&exchange("text/html", &["<html>\x1b[31m<h1>Bad gateway</h1></html>"]));
    let f = failure(&answer);
    assert_eq!((f.kind, f.type_name.as_str()), (FailureKind::Malformed, "InvalidInferenceResultError"));
    assert!(
        f.message.contains("text/html") && f.message.contains("Bad gateway") && !f.message.contains('\x1b')
    );
    for body in ["[1,2]", "\"x\"", "12", "{\"object\":", "{\"choices\":7}"] {
        assert_eq!(
            failure(&chat(&exchange("application/json", &[body]))).kind,
            FailureKind::Malformed,
            "{body}"
        );
    }
    let answer = chat(&sse(&["data: {\"half\n\n"]));
    assert_eq!((failure(&answer).kind, answer.malformed_events), (FailureKind::Malformed, 1));
}

#[test]
fn a_malformed_event_is_skipped_and_counted() {
    let stream = delta(&json!({"content": "a"}))
        + "data: {oops}\n\n"
        + &delta(&json!({"content": "b"}))
        + &finish("stop");
    let answer = chat(&sse(&[&stream]));
    assert_eq!((answer.text.as_str(), answer.malformed_events), ("ab", 1));
    assert!(answer.failure.is_none());
}

#[test]
fn a_raw_line_end_in_json_is_mended() {
    let stream =
        "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"a\nb\"}}]}\n\n";
    let answer = chat(&sse(&[stream]));
    assert_eq!((answer.text.as_str(), answer.malformed_events), ("a\nb", 0));
}

#[test]
fn emptiness_is_told_apart() {
    let empty_choices = r#"{"object":"chat.completion","choices":[]}"#;
    let role_only = delta(&json!({"role": "assistant", "content": null}));
    let cases = [
        (exchange("application/json", &[]), "no body"),
        (exchange("application/json", &[empty_choices]), "0 choices"),
        (sse(&[": hello\n\n"]), "no event with data"),
        (sse(&["data: [DONE]\n\n"]), "no event with data"),
        (sse(&[&role_only]), "no chunk has text"),
    ];
    for (exchange, words) in cases {
        let answer = chat(&exchange);
        let f = failure(&answer);
        assert_eq!((f.kind, f.type_name.as_str()), (FailureKind::Empty, "InvalidInferenceResultError"));
        assert!(f.message.contains(words), "{} lacks {words}", f.message);
    }
}

#[test]
fn any_of_three_things_says_that_a_stream_is_over() {
    let text = delta(&json!({"content": "a"}));
    let usage =
        "data: {\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n";
    for end in [
        finish("stop"),
        finish("length"),
        "data: [DONE]\n\n".to_owned(),
        "data: [DONE]".to_owned(),
        usage.to_owned(),
    ] {
        let answer = chat(&sse(&[&text, &end]));
        assert_eq!((answer.text.as_str(), answer.failure), ("a", None), "{end}");
    }
    // Counts beside a choice come with every chunk.
    let counted = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":{\"completion_tokens\":1}}\n\n";
    for stream in
        [text.trim_end().to_owned(), text.clone(), text.clone() + counted, text.clone() + ": bye\n\n"]
    {
        let answer = chat(&sse(&[&stream]));
        let f = failure(&answer);
        assert_eq!(
            (f.kind, f.stage, f.type_name.as_str(), f.retryable),
            (FailureKind::Truncated, Stage::InStream, "TruncatedStream", true),
            "{stream}"
        );
        assert!(answer.text.starts_with('a') && !answer.chunks.is_empty(), "what came is kept");
    }
}

#[test]
fn a_stream_that_ends_in_half_an_event_is_malformed_and_one_that_goes_on_is_not() {
    let text = delta(&json!({"content": "a"}));
    let half = &delta(&json!({"content": "bcd"}))[..60];
    let answer = chat(&sse(&[&text, half]));
    let f = failure(&answer);
    assert_eq!((f.kind, f.stage, answer.malformed_events), (FailureKind::Malformed, Stage::InStream, 1));
    assert!(f.message.contains("it reads: data: {"), "{}", f.message);
    for end in [finish("stop"), "data: [DONE]\n\n".to_owned()] {
        let answer = chat(&sse(&[&text, &format!("{half}\n\n"), &end]));
        assert_eq!((answer.failure, answer.malformed_events), (None, 1));
    }
    // The end was told before: what is broken behind it takes nothing away.
    assert_eq!(chat(&sse(&[&text, &finish("stop"), half])).failure, None);
}

#[test]
fn a_server_that_gives_an_answer_up_fails_it() {
    let text = delta(&json!({"content": "a"}));
    for reason in ["abort", "error"] {
        let answer = chat(&sse(&[&text, &finish(reason), "data: [DONE]\n\n"]));
        assert_eq!(
            (failure(&answer).kind, failure(&answer).stage),
            (FailureKind::ServerError, Stage::InStream)
        );
        assert!(failure(&answer).message.contains(reason), "{}", failure(&answer).message);
    }
    let sglang = r#"data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":{"type":"abort","message":"m"}}]}"#;
    let answer = chat(&sse(&[&text, sglang]));
    assert_eq!(
        (failure(&answer).kind, answer.finish_reason.as_deref()),
        (FailureKind::ServerError, Some("abort"))
    );
    let openrouter = r#"data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":""},"finish_reason":null,"error":{"code":502,"message":"upstream"}}]}"#;
    assert_eq!(failure(&chat(&sse(&[&text, openrouter]))).message, "upstream");
}

#[test]
fn counts_of_the_first_chunk_and_of_speculative_decoding_are_kept() {
    let chunk = |text: &str, tokens: u64| {
        let e = json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": tokens}});
        format!("data: {e}\n\n")
    };
    let stats = |accepted: u64| {
        json!({"speculative_decoding": {"mean_acceptance_length": 2.5, "draft_acceptance_rate": 0.5,
        "acceptance_histogram": [2, 3, 3, 2], "num_accepted_draft_tokens": accepted, "num_draft_tokens": 30,
        "num_spec_steps": 10}})
    };
    let tail = |accepted: u64| {
        let e = json!({"object": "chat.completion.chunk", "choices": [], "usage": {"completion_tokens": 8}, "metrics": stats(accepted)});
        format!("data: {e}\n\n")
    };
    let answer =
        chat(&sse(&[&(chunk("", 0) + &chunk("abcd", 4) + &chunk("efgh", 8) + &finish("stop") + &tail(15))]));
    assert_eq!(
        (answer.first_chunk_tokens, answer.usage.and_then(|u| u.completion_tokens)),
        (Some(4), Some(8))
    );
    assert_eq!(answer.spec_decode.map(|s| (s.steps, s.drafted)), Some((10, 30)));
    let broken = chat(&sse(&[&(chunk("a", 1) + &finish("stop") + &tail(16))]));
    assert_eq!((broken.failure, broken.spec_decode), (None, None));
    assert!(broken.spec_decode_problem.is_some_and(|p| p.contains("15 accepted tokens where there were 16")));
    // Of several choices nobody knows which one the counts are of.
    let two = json!({"object": "chat.completion", "metrics": stats(15), "choices": [
        {"index": 0, "message": {"content": "a"}}, {"index": 1, "message": {"content": "b"}}]});
    assert_eq!(chat(&exchange("application/json", &[&two.to_string()])).spec_decode, None);
}

#[test]
fn a_streamed_request_answered_whole_is_read_whole() {
    let body = r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}"#;
    assert_eq!(chat(&exchange("application/json", &[body])).text, "hi");
}

#[test]
fn usage_may_come_anywhere_and_a_key_twice() {
    let first = r#"{"object":"chat.completion.chunk","usage":{"prompt_tokens":1,"completion_tokens":1},"choices":[{"delta":{"content":"a"}}]}"#;
    let empty = r#"{"object":"chat.completion.chunk","usage":{},"choices":[{"delta":{"content":"b"}}]}"#;
    let twice = r#"{"object":"x","object":"chat.completion.chunk","usage":null,"choices":[{"delta":{"content":"c"}}]}"#;
    let answer = chat(&sse(&[&format!("data: {first}\n\ndata: {empty}\n\ndata: {twice}\n\n")]));
    assert_eq!((answer.text.as_str(), answer.usage.and_then(|u| u.prompt_tokens)), ("abc", Some(1)));
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let mut bad = exchange("text/plain", &[&"é".repeat(9000)]);
    bad.status = Some(500);
    let answer = chat(&bad);
    assert_eq!(failure(&answer).message.chars().count(), 4097);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        body in proptest::collection::vec(any::<u8>(), 0..400),
        streamed in any::<bool>(),
        status in 100u16..600,
    ) {
        let mut e = if streamed { sse(&[]) } else { exchange("application/json", &[]) };
        e.reads = vec![ReadMark::read(1, body.len() / 2 + 1)];
        e.body = body;
        e.status = Some(status);
        let answer = chat(&e);
        prop_assert!(answer.failure.is_some() || !answer.chunks.is_empty());
        completion(&e);
    }

    #[test]
    fn texts_survive_any_cut(texts in proptest::collection::vec("\\PC{0,8}", 1..6), cut in 0usize..2000) {
        let stream: String = texts.iter().map(|t| delta(&json!({"content": t}))).collect();
        let cut = (0..=cut.min(stream.len())).rev().find(|c| stream.is_char_boundary(*c)).unwrap_or(0);
        let answer = chat(&sse(&[&stream[..cut], &stream[cut..]]));
        prop_assert_eq!(&answer.text, &texts.concat());
        let stamps: Vec<u64> = answer.chunks.iter().map(|c| c.at_ns).collect();
        prop_assert!(stamps.is_sorted());
    }

    #[test]
    fn data_in_the_frame_of_earlier_data_reads_as_it_would_alone(
        events in proptest::collection::vec((0usize..10, "[ab\"\\\\\n é🙂,}]{0,4}"), 1..24),
        completions in any::<bool>(),
    ) {
        let event = |(form, text): &(usize, String), created: Option<usize>| {
            let delta = match form {
                0..=3 => json!({"content": text}),
                4 => json!({"content": text, "reasoning": "r"}),
                5 => json!({"reasoning_content": text, "reasoning": "r"}),
                6 => json!({"reasoning_content": text}),
                7 => json!({"content": [{"type": "text", "text": text}]}),
                8 => json!({"content": text, "tool_calls": [{"function": {"arguments": text}}]}),
                _ => json!({"content": text, "role": "assistant"}),
            };
            let choice = |index: usize| json!({"index": index, "delta": delta, "text": text,
                "finish_reason": if text == "," { Some("stop") } else { None }});
            let choices: Vec<Value> = (0..=usize::from(text == "}")).map(choice).collect();
            let object = if completions { "text_completion" } else { "chat.completion.chunk" };
            let usage = (text == "a").then(|| json!({"completion_tokens": 1}));
            let data = json!({"created": created, "object": object, "choices": choices, "usage": usage});
            format!("data: {data}\n\n")
        };
        let read = |each_apart: bool| {
            let stream: String =
                events.iter().enumerate().map(|(i, e)| event(e, each_apart.then_some(i))).collect();
            let mut answer = if completions { completion(&sse(&[&stream])) } else { chat(&sse(&[&stream])) };
            // An error quotes the bytes, which differ.
            answer.failure.iter_mut().for_each(|f| f.message.clear());
            answer
        };
        prop_assert_eq!(read(false), read(true));
    }
}

#[test]
fn bytes_that_end_a_string_early_are_never_taken_for_text() {
    let framed = |text: &str| delta(&json!({"content": "MARK"})).replace("MARK", text);
    let first = framed("one");
    // The second one holds a quote that ends the text and a second finish reason; the third is cut in an escape.
    let second = framed("two\",\"role\":\"x");
    let third = framed("three\\");
    let answer = chat(&sse(&[&first, &second, &third, &framed("a\\u00e9b")]));
    assert_eq!(answer.text, "onetwoaéb");
    assert_eq!((answer.chunks.len(), answer.malformed_events), (3, 1));
}

#[test]
fn an_answer_that_cannot_be_read_is_told_for_what_it_is() {
    let message = |exchange: &Exchange| failure(&chat(exchange)).message.clone();
    let mut packed = exchange("application/json", &["xxxx"]);
    packed.body = vec![0x1f, 0x8b, 0x08, 0, 0];
    assert!(message(&packed).starts_with("the answer is compressed (gzip), which no request asks for"));
    packed.content_type = Some("text/event-stream".into());
    assert!(message(&packed).starts_with("the answer is compressed (gzip)"));
    packed.body = vec![0x28, 0xb5, 0x2f, 0xfd, 0];
    assert!(message(&packed).contains("(zstd)"));
    packed.content_type = Some("application/json".into());
    packed.body = vec![0x1b, 0x0d, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xdd, 0x01];
    assert_eq!(
        message(&packed),
        "the answer is no text (its first bytes are 1b 0d 00 f8 8d 94 6e dd): it may be compressed (Brotli), which no request asks for; it \
         was not read"
    );
    assert_eq!(
        message(&exchange("application/json", &[r#"{"choices":"a"}"#])),
        r#"a field of the answer has another form than this API gives it; it begins: {"choices":"a"}"#
    );
    assert_eq!(
        message(&sse(&[r#"{"choices":[]}"#])),
        r#"no content: the answer is called a stream and has no events; it begins: {"choices":[]}"#
    );
    assert_eq!(message(&sse(&[": ping\n\n"])), "no content: the stream has no event with data");
}
