//! Reading answers of the APIs whose streams are events of named types.

use aiperf_core::exchange::ReadMark;
use aiperf_core::outcome::FailureKind;
use proptest::prelude::*;
use serde_json::json;

use super::answer_tests::{exchange, sse};
use super::*;

fn responses(exchange: &Exchange) -> Answer {
    Endpoint::new(&test_plan(EndpointKind::Responses)).read(exchange)
}

fn messages(exchange: &Exchange) -> Answer {
    Endpoint::new(&test_plan(EndpointKind::Messages)).read(exchange)
}

/// Events as both vendors send them: each with its name.
fn events(list: &[Value]) -> String {
    let event = |e: &Value| format!("event: {}\ndata: {e}\n\n", e["type"].as_str().expect("a type"));
    list.iter().map(event).collect()
}

/// A response whose stream is `list`, a number in each event, as servers count them.
fn numbered(list: &[Value]) -> String {
    let number = |(i, e): (usize, &Value)| {
        let mut event = e.clone();
        event["sequence_number"] = json!(i);
        event
    };
    events(&list.iter().enumerate().map(number).collect::<Vec<_>>())
}

/// An event of a part of the output.
fn output(kind: &str, item: u32, field: &str, text: &str) -> Value {
    json!({"type": format!("response.{kind}"), "item_id": "i", "output_index": item, "content_index": 0, field: text})
}

fn delta(item: u32, text: &str) -> Value {
    output("output_text.delta", item, "delta", text)
}

/// The items and counts of a whole response.
fn whole() -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "served",
        "error": null, "incomplete_details": null, "text": {"format": {"type": "text"}}, "instructions": "sys",
        "output": [
            {"id": "rs", "type": "reasoning", "summary": [{"type": "summary_text", "text": "In short."}]},
            {"id": "msg", "type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "The river", "annotations": []}]},
            {"id": "fc", "type": "function_call", "name": "look", "arguments": "{\"q\":1}", "call_id": "c"},
        ],
        "usage": {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 39},
    })
}

/// A response's stream, with all the repetition of the real ones.
fn response_stream() -> Vec<Value> {
    let begun = json!({"id": "resp_1", "object": "response", "status": "in_progress", "model": "served", "output": []});
    vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "summary": []}}),
        output("reasoning_text.delta", 0, "delta", "Let me "),
        output("reasoning_text.delta", 0, "delta", "think"),
        output("reasoning_text.done", 0, "text", "Let me think"),
        json!({"type": "response.output_item.added", "output_index": 1,
            "item": {"type": "message", "role": "assistant", "content": []}}),
        json!({"type": "response.content_part.added", "output_index": 1, "content_index": 0,
            "part": {"type": "output_text", "text": ""}}),
        delta(1, "The"),
        delta(1, " 河"),
        delta(1, ""),
        delta(1, " is"),
        output("output_text.done", 1, "text", "The 河 is"),
        json!({"type": "response.content_part.done", "output_index": 1, "content_index": 0,
            "part": {"type": "output_text", "text": "The 河 is"}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": whole()["output"][1]}),
        json!({"type": "response.output_item.added", "output_index": 2,
            "item": {"type": "function_call", "name": "look", "arguments": ""}}),
        output("function_call_arguments.delta", 2, "delta", "{\"q\""),
        output("function_call_arguments.delta", 2, "delta", ":1}"),
        output("function_call_arguments.done", 2, "arguments", "{\"q\":1}"),
        json!({"type": "response.completed", "response": whole()}),
    ]
}

/// A message's stream.
fn message_stream() -> Vec<Value> {
    let block = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    vec![
        json!({"type": "message_start", "message": {"id": "msg", "type": "message", "role": "assistant", "model": "served",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 20, "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 2, "output_tokens": 1}}}),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "think"})),
        delta(0, json!({"type": "signature_delta", "signature": "EqQB"})),
        json!({"type": "content_block_stop", "index": 0}),
        block(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "The"})),
        delta(1, json!({"type": "text_delta", "text": " 河"})),
        delta(1, json!({"type": "text_delta", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": " is"})),
        json!({"type": "content_block_stop", "index": 1}),
        block(2, json!({"type": "tool_use", "id": "t", "name": "look", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"q\""})),
        delta(2, json!({"type": "input_json_delta", "partial_json": ":1}"})),
        json!({"type": "content_block_stop", "index": 2}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// Prompt, completion, reasoning and cached tokens.
fn counts(answer: &Answer) -> [Option<u64>; 4] {
    let usage = answer.usage.expect("usage");
    [usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens, usage.cached_tokens]
}

fn failure(answer: &Answer) -> &Failure {
    answer.failure.as_ref().expect("a failure")
}

/// What the streams above say, both alike.
fn check_streamed(answer: &Answer) {
    assert_eq!(answer.failure, None);
    assert_eq!(answer.reasoning, "Let me think");
    assert_eq!(answer.text, "The 河 islook{\"q\":1}");
    assert_eq!(answer.prose(), "The 河 is");
    assert_eq!(
        answer.calls.iter().map(|c| (c.name.clone(), c.arguments.clone())).collect::<Vec<_>>(),
        [(10..14, 14..21)]
    );
    let ends: Vec<(usize, usize)> = answer.chunks.iter().map(|c| (c.text_end, c.reasoning_end)).collect();
    assert_eq!(ends, [(0, 7), (0, 12), (3, 12), (7, 12), (10, 12), (14, 12), (18, 12), (21, 12)]);
    assert_eq!(answer.served_model.as_deref(), Some("served"));
    assert!(answer.done && answer.malformed_events == 0);
}

#[test]
fn a_response_s_texts_count_once_as_they_came() {
    let answer = responses(&sse(&[&numbered(&response_stream())]));
    check_streamed(&answer);
    assert_eq!(counts(&answer), [Some(30), Some(9), Some(3), Some(5)]);
    assert_eq!(answer.finish_reason.as_deref(), Some("completed"));
    assert_eq!((answer.finish(), answer.id.as_deref()), (Finish::ToolCalls, Some("resp_1")));
}

#[test]
fn a_message_s_texts_and_both_portions_of_its_counts_are_read() {
    let answer = messages(&sse(&[&events(&message_stream())]));
    check_streamed(&answer);
    assert_eq!(
        counts(&answer),
        [Some(27), Some(9), None, Some(5)],
        "what the cache served and took is prompt too"
    );
    assert_eq!((answer.finish_reason.as_deref(), answer.finish()), (Some("tool_use"), Finish::ToolCalls));
}

#[test]
fn a_chunk_has_the_stamp_of_the_read_that_completed_its_data() {
    for (read, stream) in [
        (responses as fn(&Exchange) -> Answer, response_stream()),
        (messages as fn(&Exchange) -> Answer, message_stream()),
    ] {
        // One read for each event; the first content is in the fourth.
        let reads: Vec<String> = stream.iter().map(|e| events(std::slice::from_ref(e))).collect();
        let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
        let answer = read(&sse(&reads));
        let stamps: Vec<u64> = answer.chunks.iter().map(|c| c.at_ns).collect();
        let first = stamps[0];
        assert_eq!(first, 130);
        let gaps: Vec<u64> = stamps.iter().map(|s| (s - first) / 10).collect();
        let calls = if stream[0]["type"] == "response.created" { [12, 13, 14] } else { [10, 12, 13] };
        assert_eq!(gaps[..5], [0, 1, 5, 6, 8]);
        assert_eq!(gaps[5..], calls, "neither repeated texts nor the last event are content");
    }
}

#[test]
fn streams_read_the_same_wherever_they_are_cut() {
    for (read, stream) in [
        (responses as fn(&Exchange) -> Answer, numbered(&response_stream())),
        (messages as fn(&Exchange) -> Answer, events(&message_stream())),
    ] {
        let whole = read(&sse(&[&stream]));
        let mut cut_up = sse(&[&stream]);
        for cut in 0..=stream.len() {
            cut_up.reads = vec![ReadMark::read(100, cut), ReadMark::read(110, stream.len())];
            let answer = read(&cut_up);
            assert_eq!(
                (&answer.text, &answer.reasoning, &answer.calls),
                (&whole.text, &whole.reasoning, &whole.calls)
            );
            let places =
                |a: &Answer| a.chunks.iter().map(|c| (c.text_end, c.reasoning_end)).collect::<Vec<_>>();
            assert_eq!(places(&answer), places(&whole));
            assert!(answer.chunks.iter().map(|c| c.at_ns).is_sorted());
            // A stream that ends early on the wire says what it said until then, and never more.
            cut_up.body.truncate(cut);
            let answer = read(&cut_up);
            // The last event but one of a message has its finish reason.
            let is_over = answer.done || answer.finish_reason.is_some();
            assert_eq!(answer.failure.is_none(), is_over, "cut at {cut}: {:?}", answer.failure);
            assert!(whole.text.starts_with(&answer.text) && whole.reasoning.starts_with(&answer.reasoning));
            cut_up.body = stream.clone().into_bytes();
        }
    }
}

#[test]
fn a_whole_response_is_one_chunk() {
    let body = whole().to_string();
    let (a, b) = body.split_at(10);
    let answer = responses(&exchange("application/json", &[a, b]));
    assert_eq!(answer.failure, None);
    assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("The riverlook{\"q\":1}", "In short."));
    assert_eq!(answer.prose(), "The river");
    assert_eq!(answer.chunks, [AnswerChunk { at_ns: 110, text_end: 20, reasoning_end: 9 }]);
    assert_eq!(counts(&answer), [Some(30), Some(9), Some(3), Some(5)]);
    let text = |body: &Value| responses(&exchange("application/json", &[&body.to_string()])).text;
    assert_eq!(text(&json!({"object": "response", "output": [], "output_text": "plain"})), "plain");
    let refused = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}, 7, null]});
    assert_eq!(
        text(&json!({"object": "response", "output": [3, refused, {"type": "web_search_call"}]})),
        "No."
    );
    let thoughts = json!({"type": "reasoning", "summary": [{"text": "short"}], "content": [{"type": "reasoning_text", "text": "long"}]});
    let body = json!({"object": "response", "output": [thoughts]}).to_string();
    assert_eq!(
        responses(&exchange("application/json", &[&body])).reasoning,
        "long",
        "the thoughts, not also their summary"
    );
}

#[test]
fn a_whole_message_is_one_chunk() {
    let body = json!({"id": "msg", "type": "message", "role": "assistant", "model": "served", "stop_reason": "end_turn",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            {"type": "text", "text": "The "},
            {"type": "tool_use", "id": "t", "name": "look", "input": {"q": 1, "a": [2]}},
            {"type": "text", "text": "river"},
            {"type": "tool_use", "id": "u", "name": "bare", "input": {}},
            "odd",
        ],
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 5, "output_tokens": 9}});
    let answer = messages(&exchange("application/json", &[&body.to_string()]));
    assert_eq!(answer.failure, None);
    assert_eq!((answer.prose().as_ref(), answer.reasoning.as_str()), ("The river", "hm"));
    assert_eq!(answer.text, "The riverlook{\"q\":1,\"a\":[2]}bare");
    assert_eq!((answer.chunks.len(), counts(&answer)), (1, [Some(25), Some(9), None, Some(5)]));
    assert_eq!((answer.finish_reason.as_deref(), answer.done), (Some("end_turn"), true));
}

#[test]
fn what_is_told_only_whole_is_read_whole() {
    let text = |list: &[Value]| responses(&sse(&[&numbered(list)])).text;
    let done = |item, text| output("output_text.done", item, "text", text);
    assert_eq!(text(&[done(0, "alone"), done(0, "alone")]), "alone");
    // A part that came in pieces does not silence another that did not.
    assert_eq!(text(&[delta(0, "a"), done(0, "a"), done(1, "b")]), "ab");
    assert_eq!(text(&[delta(0, ""), done(0, "a")]), "a");
    let completed = json!({"type": "response.completed", "response": whole()});
    assert_eq!(text(std::slice::from_ref(&completed)), "The riverlook{\"q\":1}");
    assert_eq!(text(&[delta(1, "The river"), completed]), "The river");
    assert_eq!(
        text(&[output("refusal.delta", 0, "delta", "N"), output("refusal.done", 0, "refusal", "No")]),
        "N"
    );
}

#[test]
fn thoughts_and_their_summary_are_not_both_counted() {
    let reasoning = |list: &[Value]| responses(&sse(&[&numbered(list)])).reasoning;
    let summary = |i: u32, text: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": i, "delta": text});
    let thought = |text| output("reasoning_text.delta", 0, "delta", text);
    assert_eq!(reasoning(&[summary(0, "a"), summary(1, "b"), thought("x")]), "ab");
    assert_eq!(reasoning(&[thought("x"), summary(0, "a"), thought("y")]), "xy");
    assert_eq!(reasoning(&[thought("x"), output("reasoning_text.delta", 3, "delta", "z")]), "xz");
}

#[test]
fn an_answer_that_stopped_at_a_limit_is_an_answer_with_its_counts() {
    let mut stopped = whole();
    stopped["status"] = json!("incomplete");
    stopped["incomplete_details"] = json!({"reason": "max_output_tokens"});
    let stream = [delta(0, "cut"), json!({"type": "response.incomplete", "response": stopped})];
    for answer in [
        responses(&sse(&[&numbered(&stream)])),
        responses(&exchange("application/json", &[&stopped.to_string()])),
    ] {
        assert_eq!(answer.failure, None);
        assert_eq!(
            (answer.finish_reason.as_deref(), answer.finish()),
            (Some("max_output_tokens"), Finish::Length)
        );
        assert_eq!(counts(&answer)[1], Some(9));
        assert!(answer.done);
    }
}

#[test]
fn a_count_of_an_answer_that_only_began_is_no_count() {
    let stream = message_stream();
    let answer = messages(&sse(&[&events(&stream[..stream.len() - 2])]));
    assert_eq!(counts(&answer), [Some(27), None, None, Some(5)]);
    assert!(!answer.done);
    assert_eq!(failure(&answer).kind, FailureKind::Truncated);
}

#[test]
fn errors_inside_a_good_status_fail_the_answer_and_keep_what_came() {
    let failed = |error: Value| json!({"type": "response.failed", "response": {"object": "response", "status": "failed", "error": error}});
    let named = |name: &str, words: &str| json!({"type": "error", "error": {"type": name, "message": words}});
    let cases: [(EndpointKind, Value, i64, &str); 9] = [
        (EndpointKind::Messages, named("overloaded_error", "Overloaded"), 529, "Overloaded"),
        (EndpointKind::Messages, named("rate_limit_error", "slower"), 429, "slower"),
        (EndpointKind::Messages, named("new_error", "what"), 502, "what"),
        (EndpointKind::Messages, json!({"type": "error", "message": "bare"}), 502, "bare"),
        (
            EndpointKind::Responses,
            json!({"type": "error", "code": "server_error", "message": "lost", "param": null}),
            500,
            "lost",
        ),
        (
            EndpointKind::Responses,
            json!({"type": "response.error", "code": 503, "message": "lost"}),
            503,
            "lost",
        ),
        (
            EndpointKind::Responses,
            failed(json!({"code": "rate_limit_exceeded", "message": "slower"})),
            429,
            "slower",
        ),
        (
            EndpointKind::Responses,
            failed(Value::Null),
            502,
            "the server says that the response is failed, and not why",
        ),
        (
            EndpointKind::Responses,
            json!({"type": "response.failed"}),
            502,
            "the server says that the response failed, and not why",
        ),
    ];
    for (kind, event, code, words) in cases {
        let content = match kind {
            EndpointKind::Messages => {
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The"}})
            }
            _ => delta(0, "The"),
        };
        // With the event's name, and by the data alone.
        for stream in
            [events(&[content.clone(), event.clone()]), format!("data: {content}\n\ndata: {event}\n\n")]
        {
            let answer = Endpoint::new(&test_plan(kind)).read(&sse(&[&stream]));
            let f = failure(&answer);
            assert_eq!(
                (f.kind, f.code, f.message.as_str()),
                (FailureKind::ServerError, Some(code), words),
                "{event}"
            );
            assert_eq!(answer.text, "The");
        }
    }
    let body =
        json!({"object": "response", "status": "failed", "error": {"code": "server_error", "message": "m"}});
    let answer = responses(&exchange("application/json", &[&body.to_string()]));
    assert_eq!((failure(&answer).code, failure(&answer).message.as_str()), (Some(500), "m"));
    let answer = messages(&exchange("application/json", &[&named("api_error", "m").to_string()]));
    assert_eq!((failure(&answer).code, failure(&answer).retryable), (Some(500), true));
}

#[test]
fn data_without_a_type_is_what_its_event_is_called() {
    let stream = "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
    assert_eq!(messages(&sse(&[stream])).text, "a");
    let event = |name: &str, text: &str| format!("event: {name}\ndata: {{\"delta\":\"{text}\"}}\n\n");
    let stream = event("response.output_text.delta", "a")
        + &event("response.output_text.delta", "b")
        + &event("response.reasoning_text.delta", "c");
    let answer = responses(&sse(&[&stream]));
    assert_eq!(
        (answer.text.as_str(), answer.reasoning.as_str()),
        ("ab", "c"),
        "the same bytes under another name"
    );
}

#[test]
fn emptiness_says_what_was_looked_for() {
    let chat = json!({"object": "chat.completion", "choices": [{"message": {"content": "hi"}}]}).to_string();
    let silent = json!({"type": "message", "content": [], "usage": {"input_tokens": 1}}).to_string();
    let untyped = r#"{"content":"hi"}"#;
    for (read, kind) in [
        (responses as fn(&Exchange) -> Answer, "responses"),
        (messages as fn(&Exchange) -> Answer, "messages"),
    ] {
        let words = |body: &str| failure(&read(&exchange("application/json", &[body]))).message.clone();
        assert!(
            words(&chat).contains(&format!("\"chat.completion\", which the {kind} API")),
            "{}",
            words(&chat)
        );
        assert!(words(untyped).contains(&format!("a type that the {kind} API knows")), "{}", words(untyped));
        assert!(words("").contains("no body"));
    }
    let answer = messages(&exchange("application/json", &[&silent]));
    assert!(failure(&answer).message.contains("no chunk has text"), "{}", failure(&answer).message);
    let framing = &response_stream()[..3];
    let answer = responses(&sse(&[&numbered(framing)]));
    assert!(failure(&answer).message.contains("no chunk has text"), "{}", failure(&answer).message);
    let answer = responses(&sse(&["data: [1]\n\n"]));
    assert_eq!(failure(&answer).kind, FailureKind::Malformed);
}

#[test]
fn odd_shapes_cost_only_themselves() {
    let stream = [
        json!({"type": "response.output_text.delta", "delta": {"text": "a"}, "output_index": "x"}),
        json!({"type": "response.output_text.delta", "delta": 7}),
        json!({"type": "response.output_item.added", "item": "no"}),
        json!({"type": "response.completed", "response": [1]}),
        delta(0, "b"),
    ];
    let answer = responses(&sse(&[&events(&stream)]));
    assert_eq!((answer.text.as_str(), answer.malformed_events), ("ab", 0));
    let twice = "data: {\"type\":\"x\",\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
    assert_eq!(messages(&sse(&[twice])).text, "a");
    let start = json!({"type": "message_start", "message": 3});
    let block = json!({"type": "content_block_start", "content_block": {"type": "text", "text": "early"}});
    assert_eq!(messages(&sse(&[&events(&[start, block])])).text, "early");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..400), streamed in any::<bool>()) {
        let mut e = if streamed { sse(&[]) } else { exchange("application/json", &[]) };
        e.reads = vec![ReadMark::read(1, body.len() / 2 + 1)];
        e.body = body;
        for answer in [responses(&e), messages(&e)] {
            prop_assert!(answer.failure.is_some() || !answer.chunks.is_empty());
        }
    }

    #[test]
    fn data_in_the_frame_of_earlier_data_reads_as_it_would_alone(
        list in proptest::collection::vec((0usize..8, "[ab\"\\\\\n é🙂,}]{0,4}"), 1..24),
        anthropic in any::<bool>(),
    ) {
        let event = |(form, text): &(usize, String)| match (anthropic, form) {
            (true, 0..=2) => json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}),
            (true, 3) => json!({"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": text}}),
            (true, 4) => json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": text}}),
            (true, 5) => json!({"type": "message_delta", "delta": {"stop_reason": text}, "usage": {"output_tokens": 1}}),
            (true, _) => json!({"type": "content_block_start", "content_block": {"type": "text", "text": text}}),
            (false, 0..=2) => delta(0, text),
            (false, 3) => output("reasoning_text.delta", 0, "delta", text),
            (false, 4) => output("function_call_arguments.delta", 0, "delta", text),
            (false, 5) => output("output_text.done", 0, "text", text),
            (false, 6) => output("output_text.delta", 1, "delta", text),
            (false, _) => output("reasoning_summary_text.delta", 0, "delta", text),
        };
        let read = |each_apart: bool| {
            let place = |(i, e): (usize, &(usize, String))| {
                let mut event = event(e);
                if each_apart {
                    event["n"] = json!(i);
                }
                event
            };
            let stream = events(&list.iter().enumerate().map(place).collect::<Vec<_>>());
            let mut answer = if anthropic { messages(&sse(&[&stream])) } else { responses(&sse(&[&stream])) };
            answer.failure.iter_mut().for_each(|f| f.message.clear());
            answer
        };
        prop_assert_eq!(read(false), read(true));
    }
}
