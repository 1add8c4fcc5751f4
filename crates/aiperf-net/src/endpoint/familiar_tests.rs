//! Answers read with what others had in common are read as they are alone.

use proptest::prelude::*;
use serde_json::json;

use super::answer_tests::{exchange, sse};
use super::*;

/// One event, of the parts that servers change from answer to answer and of those that they do not.
fn event() -> impl Strategy<Value = String> {
    let text = prop_oneof![Just(" word".to_owned()), Just(String::new()), ".{0,3}"];
    let id = prop_oneof![Just("chatcmpl-1".to_owned()), "[a-z0-9\"\\\\é-]{0,6}"];
    let created =
        prop_oneof![Just("1".to_owned()), "[0-9]{1,19}", Just("1.5".to_owned()), Just("01".to_owned())];
    let field = prop_oneof![
        Just("content"),
        Just("reasoning_content"),
        Just("reasoning"),
        Just("refusal"),
        Just("role"),
        Just("text")
    ];
    let reason = prop_oneof![
        Just(json!(null)),
        Just(json!("stop")),
        Just(json!("length")),
        Just(json!("abort")),
        Just(json!({"type": "stop"})),
    ];
    let usage = prop_oneof![
        Just(None),
        Just(Some(json!(null))),
        Just(Some(json!({}))),
        Just(Some(json!(7))),
        (0..9u32, 0..9u32).prop_map(|(p, c)| Some(
            json!({"prompt_tokens": p, "completion_tokens": c, "total_tokens": p + c})
        )),
    ];
    let object = prop_oneof![Just("chat.completion.chunk"), Just("chat.completion"), Just(""), Just("other")];
    let choices = prop_oneof![Just(0_usize), Just(1), Just(1), Just(1), Just(2)];
    let model = prop_oneof![Just("m"), Just("n"), Just("")];
    (text, id, created, field, reason, usage, object, choices, model, 0..3u8).prop_map(
        |(text, id, created, field, reason, usage, object, choices, model, index)| {
            let message = if object == "chat.completion" { "message" } else { "delta" };
            let choice = |at: u8| json!({"index": at, message: {field: text}, "finish_reason": reason});
            let choices: Vec<_> = (0..choices).map(|at| choice(index + at as u8)).collect();
            let usage = usage.map_or_else(String::new, |usage| format!(",\"usage\":{usage}"));
            format!(
                "{{\"id\":{},\"object\":\"{object}\",\"created\":{created},\"model\":\"{model}\",\"choices\":{}{usage}}}",
                json!(id),
                json!(choices)
            )
        },
    )
}

/// One byte of it is another, now and then.
fn broken(event: String) -> impl Strategy<Value = String> {
    (Just(event), 0..8u8, any::<proptest::sample::Index>(), "[ -~]").prop_map(|(event, dice, at, byte)| {
        let at = at.index(event.len());
        match (dice, event.get(..at), event.get(at + 1..)) {
            (0, Some(head), Some(tail)) => format!("{head}{byte}{tail}"),
            _ => event,
        }
    })
}

proptest! {
    #[test]
    fn answers_mean_the_same_after_others(
        answers in prop::collection::vec((any::<bool>(), prop::collection::vec(event().prop_flat_map(broken), 1..6)), 1..8),
    ) {
        for kind in [EndpointKind::Chat, EndpointKind::Completions] {
            let endpoint = Endpoint::new(&test_plan(kind));
            let mut familiar = Familiar::new();
            // Twice, for all of it is known the second time.
            for (streamed, events) in answers.iter().chain(&answers) {
                let exchange = if *streamed {
                    sse(&events.iter().map(|e| format!("data: {e}\n\n")).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>())
                } else {
                    exchange("application/json", &[&events[0]])
                };
                prop_assert_eq!(endpoint.read_with(&exchange, &mut familiar), endpoint.read(&exchange));
            }
        }
    }
}

fn stream(id: &str, words: &[&str], reason: &str, tokens: u32) -> Exchange {
    let chunk = |delta: Value, reason: Value| {
        let event = json!({"id": id, "object": "chat.completion.chunk", "created": 1_700_000_000 + tokens, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        format!("data: {event}\n\n")
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    events.extend(words.iter().map(|word| chunk(json!({"content": word}), Value::Null)));
    events.push(chunk(json!({}), json!(reason)));
    let usage = json!({"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens});
    let last = json!({"id": id, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage});
    events.push(format!("data: {last}\n\ndata: [DONE]\n\n"));
    sse(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Each event of a second answer is one of a known kind: nothing more is learnt from it.
#[test]
fn what_differs_from_answer_to_answer_is_no_new_kind() {
    let endpoint = Endpoint::new(&test_plan(EndpointKind::Chat));
    let mut familiar = Familiar::new();
    endpoint.read_with(&stream("a-1", &["one", " two"], "stop", 2), &mut familiar);
    let kinds = familiar.kinds();
    assert_eq!(kinds, 4, "role, text, end, counts");
    let second = stream("b-22", &["three"], "stop", 900);
    let answer = endpoint.read_with(&second, &mut familiar);
    assert_eq!((answer.text.as_str(), answer.usage.and_then(|u| u.completion_tokens)), ("three", Some(900)));
    assert_eq!((answer.finish_reason.as_deref(), answer.served_model.as_deref()), (Some("stop"), Some("m")));
    assert_eq!(answer, endpoint.read(&second));
    assert_eq!(familiar.kinds(), kinds);
    endpoint.read_with(&stream("b-23", &["three"], "length", 900), &mut familiar);
    assert_eq!(familiar.kinds(), kinds + 1, "another end");
}

#[test]
fn a_server_that_never_repeats_itself_is_not_learnt_for_ever() {
    let endpoint = Endpoint::new(&test_plan(EndpointKind::Chat));
    let mut familiar = Familiar::new();
    for k in 0..500 {
        let body = json!({"id": k, "object": "chat.completion", "choices": [{"index": 0, "message": {"content": "x"}}]});
        let exchange = exchange("application/json", &[&body.to_string()]);
        assert_eq!(endpoint.read_with(&exchange, &mut familiar).text, "x");
    }
    assert!(familiar.kinds() <= 16, "{}", familiar.kinds());
}
