//! Reading answers: what counts as content, when it came, which failure wins.

use aiperf_core::exchange::{ReadMark, Stamps};
use aiperf_core::outcome::{CancelReason, Disposition, FailureKind};
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

fn failure(answer: &Answer) -> &Failure {
    answer.failure.as_ref().expect("a failure")
}

#[test]
fn only_chunks_with_content_count_and_each_has_its_stamp() {
    let usage = json!({"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}});
    let finish = json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let reads = [
        delta(&json!({"role": "assistant", "content": ""})),
        ": still here\n\n".to_owned(),
        delta(&json!({"reasoning_content": "hm"})),
        delta(&json!({"content": "The"})) + &delta(&json!({"content": " river"})),
        format!("data: {finish}\n\ndata: {usage}\n\n"),
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
    assert_eq!(answer.text, "xlookso: {\"q\":1}f{\"a\":1}old()");
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
    assert_eq!(answer.chunks, [AnswerChunk { at_ns: 110, text_end: 2, reasoning_end: 0 }]);
    assert_eq!((answer.text.as_str(), answer.finish_reason.as_deref()), ("hi", Some("length")));
    assert!(answer.failure.is_none() && answer.usage.is_some());
}

#[test]
fn of_several_streamed_choices_the_first_is_followed() {
    let event = |index: u32, text: &str| {
        let e = json!({"object": "text_completion", "choices": [{"index": index, "text": text}]});
        format!("data: {e}\n\n")
    };
    let stream = event(0, "a") + &event(1, "X") + &event(0, "b");
    assert_eq!(completion(&sse(&[&stream])).text, "ab");
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

#[test]
fn error_null_is_no_error() {
    for none in ["null", "false", "\"\"", "{}", "[]"] {
        let event = format!(
            "data: {{\"object\":\"chat.completion.chunk\",\"error\":{none},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}}}}]}}\n\n"
        );
        let answer = chat(&sse(&[&event]));
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
    let stream = delta(&json!({"content": "a"})) + "data: {oops}\n\n" + &delta(&json!({"content": "b"}));
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
fn a_clean_end_without_done_is_good() {
    let answer = chat(&sse(&[delta(&json!({"content": "a"})).trim_end()]));
    assert!(answer.failure.is_none() && !answer.done && answer.finish_reason.is_none());
    assert_eq!(answer.text, "a");
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
