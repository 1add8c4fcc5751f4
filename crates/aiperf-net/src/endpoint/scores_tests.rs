//! Requests and answers of embeddings and rankings.

use aiperf_core::conversation::TextGroup;
use aiperf_core::outcome::FailureKind;
use proptest::prelude::*;
use serde_json::json;

use super::answer_tests::{exchange, sse};
use super::*;

/// All APIs that answer with vectors or scores.
const KINDS: [EndpointKind; 6] = [
    EndpointKind::Embeddings,
    EndpointKind::ChatEmbeddings,
    EndpointKind::NimEmbeddings,
    EndpointKind::CohereRankings,
    EndpointKind::HfTeiRankings,
    EndpointKind::NimRankings,
];

fn endpoint(kind: EndpointKind, extra: &Value) -> Endpoint {
    let mut plan = test_plan(kind);
    plan.extra = extra.as_object().expect("an object").clone();
    Endpoint::new(&plan)
}

fn turn(texts: &[&str], groups: &[(&str, usize)]) -> Turn {
    Turn {
        model: "demo".into(),
        texts: texts.iter().map(|t| (*t).to_owned()).collect(),
        groups: groups
            .iter()
            .map(|(name, count)| TextGroup { name: (*name).into(), count: *count })
            .collect(),
        max_tokens: Some(5),
        ..Turn::default()
    }
}

fn encoded(endpoint: &Endpoint, turn: &Turn) -> Result<String, EncodeError> {
    let mut out = Vec::new();
    let request = Request { system: None, user_context: None, turn, opens: true, marker: None };
    endpoint.encode(&request, &mut out)?;
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

fn read(kind: EndpointKind, body: &Value) -> Answer {
    endpoint(kind, &json!({})).read(&exchange("application/json", &[&body.to_string()]))
}

/// The kind of failure and its words.
fn failed(kind: EndpointKind, body: &Value) -> (FailureKind, String) {
    let failure = read(kind, body).failure.expect("a failure");
    (failure.kind, failure.message)
}

fn whole(kind: EndpointKind) -> Value {
    match kind {
        EndpointKind::CohereRankings => json!({"id": "x", "results": [{"index": 1, "relevance_score": 0.9},
            {"index": 0, "relevance_score": -1e-7}], "meta": {"tokens": {"input_tokens": 40}, "billed_units": {"search_units": 1}}}),
        EndpointKind::HfTeiRankings => {
            json!([{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1, "text": "p"}])
        }
        EndpointKind::NimRankings => {
            json!({"rankings": [{"index": 1, "logit": 3}, {"index": 0, "logit": -4.5}],
            "usage": {"prompt_tokens": 40, "total_tokens": 40}})
        }
        _ => {
            json!({"object": "list", "model": "served", "usage": {"prompt_tokens": 40, "total_tokens": 40}, "data": [
            {"object": "embedding", "index": 0, "embedding": [0.1, -2, 1e-9]},
            {"object": "embedding", "index": 1, "embedding": "AACAPwAAAMA="}]})
        }
    }
}

/// What AIPerf 0.13.0 sent for such turns, byte for byte; but for the output limit that it sends with chat_embeddings.
#[test]
fn bodies_are_the_reference_s_to_the_byte() {
    let texts = turn(&["OHN \"é\"", "", " will not"], &[]);
    let ranked = turn(&["q é", "p", ""], &[("query", 1), ("passages", 2)]);
    for (kind, turn, body) in [
        (EndpointKind::Embeddings, &texts, r#"{"model":"demo","input":["OHN \"é\""," will not"],"foo":1}"#),
        (
            EndpointKind::NimEmbeddings,
            &texts,
            r#"{"model":"demo","input":["OHN \"é\""," will not"],"foo":1}"#,
        ),
        (
            EndpointKind::ChatEmbeddings,
            &texts,
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"OHN \"é\""},{"type":"text","text":" will not"}]}],"model":"demo","stream":false,"foo":1}"#,
        ),
        (
            EndpointKind::CohereRankings,
            &ranked,
            r#"{"model":"demo","query":"q é","documents":["p",""],"foo":1}"#,
        ),
        (EndpointKind::HfTeiRankings, &ranked, r#"{"query":"q é","texts":["p",""],"foo":1}"#),
        (
            EndpointKind::NimRankings,
            &ranked,
            r#"{"model":"demo","query":{"text":"q é"},"passages":[{"text":"p"},{"text":""}],"foo":1}"#,
        ),
    ] {
        assert_eq!(encoded(&endpoint(kind, &json!({"foo": 1})), turn).expect("it encodes"), body);
    }
}

#[test]
fn one_input_is_a_list_too_and_extra_fields_win() {
    let one = turn(&["a"], &[]);
    let extra = json!({"dimensions": 8, "model": "other", "encoding_format": "base64"});
    assert_eq!(
        encoded(&endpoint(EndpointKind::Embeddings, &extra), &one).expect("it encodes"),
        r#"{"model":"other","input":["a"],"dimensions":8,"encoding_format":"base64"}"#
    );
    let mut own = turn(&["q", "p"], &[("queries", 1), ("passages", 1)]);
    own.extra = json!({"top_n": 1, "documents": ["x"]}).as_object().expect("an object").clone();
    assert_eq!(
        encoded(&endpoint(EndpointKind::CohereRankings, &json!({"top_n": 9})), &own).expect("it encodes"),
        r#"{"model":"demo","query":"q","documents":["x"],"top_n":1}"#
    );
}

#[test]
fn nothing_is_ranked_without_a_query() {
    for turn in [turn(&["a"], &[]), turn(&["a"], &[("passages", 1)])] {
        let error = encoded(&endpoint(EndpointKind::NimRankings, &json!({})), &turn).expect_err("no query");
        assert_eq!(
            error.to_string(),
            "a request of type 'nim_rankings' needs a text named 'query', and there is none"
        );
    }
    let alone = turn(&["q"], &[("query", 1)]);
    let body = encoded(&endpoint(EndpointKind::HfTeiRankings, &json!({})), &alone).expect("it encodes");
    assert_eq!(body, r#"{"query":"q","texts":[]}"#);
}

#[test]
fn every_text_of_a_body_is_counted() {
    let ranked = turn(&["q", "p", "r"], &[("query", 1), ("passages", 2)]);
    for kind in KINDS {
        let endpoint = endpoint(kind, &json!({}));
        let body = encoded(&endpoint, &ranked).expect("it encodes");
        assert_eq!(endpoint.texts(body.as_bytes()), ["q", "p", "r"], "{kind:?}");
    }
}

#[test]
fn as_many_results_are_expected_as_there_are_inputs() {
    let texts = turn(&["q", "p", ""], &[("query", 1), ("passages", 2)]);
    let expected = |kind, extra: Value| endpoint(kind, &extra).expected_results(&texts);
    assert_eq!(
        KINDS.map(|kind| expected(kind, json!({}))),
        [Some(2), Some(1), Some(2), Some(2), Some(2), Some(2)]
    );
    assert_eq!(expected(EndpointKind::CohereRankings, json!({"top_n": 1})), None);
    assert_eq!(expected(EndpointKind::Embeddings, json!({"input": "x"})), None);
    assert_eq!(expected(EndpointKind::Chat, json!({})), None);
}

#[test]
fn a_good_answer_is_one_chunk_at_its_last_byte() {
    for kind in KINDS {
        let text = whole(kind).to_string();
        let (head, tail) = text.split_at(9);
        let answer = endpoint(kind, &json!({})).read(&exchange("application/json", &[head, tail]));
        assert_eq!(answer.failure, None, "{kind:?}");
        assert_eq!(answer.chunks, [AnswerChunk { at_ns: 110, text_end: 0, reasoning_end: 0 }]);
        assert_eq!((answer.results, answer.text.as_str(), answer.done), (Some(2), "", true));
        let prompt = answer.usage.and_then(|usage| usage.prompt_tokens);
        assert_eq!(prompt, (kind != EndpointKind::HfTeiRankings).then_some(40), "{kind:?}");
        assert!(!endpoint(kind, &json!({})).encode_reply(&answer, &mut Vec::new()), "no reply in a history");
        // A server that sends its one object as an event is understood as well.
        let event = endpoint(kind, &json!({})).read(&sse(&[&format!("data: {text}\n\n")]));
        assert_eq!((event.failure, event.results), (None, Some(2)), "{kind:?}");
    }
    assert_eq!(
        read(EndpointKind::Embeddings, &whole(EndpointKind::Embeddings)).served_model.as_deref(),
        Some("served")
    );
}

#[test]
fn rankings_are_found_under_each_name() {
    let scores = json!([{"index": 0, "score": 1}]);
    for kind in [EndpointKind::CohereRankings, EndpointKind::HfTeiRankings, EndpointKind::NimRankings] {
        for body in [json!({"results": scores}), json!({"rankings": scores}), scores.clone()] {
            assert_eq!(read(kind, &body).results, Some(1), "{kind:?} {body}");
        }
    }
    // Vectors alone are what some servers of chat embeddings answer.
    for body in [json!({"embeddings": [[1, 2], [3, 4]]}), json!({"embedding": [1, 2]})] {
        assert!(read(EndpointKind::ChatEmbeddings, &body).failure.is_none(), "{body}");
        let (kind, words) = failed(EndpointKind::Embeddings, &body);
        assert_eq!((kind, words.as_str()), (FailureKind::Empty, "no content: the answer has no 'data'"));
    }
}

#[test]
fn what_is_no_vector_or_score_is_named() {
    let data = |items: Value| json!({"object": "list", "data": items});
    let item = |embedding: Value| {
        data(
            json!([{"object": "embedding", "embedding": [1.0]}, {"object": "embedding", "embedding": embedding}]),
        )
    };
    let of = EndpointKind::Embeddings;
    let (odd, empty) = (FailureKind::Malformed, FailureKind::Empty);
    for (kind, body, failure, words) in [
        (of, json!({"data": []}), empty, "no content: 'data' of the answer is an empty list"),
        (of, json!({"data": null}), empty, "no content: the answer has no 'data'"),
        (of, json!({}), empty, "no content: the answer has no 'data'"),
        (of, json!({"data": "x"}), odd, "'data' of the answer is a text where a list is expected"),
        (
            of,
            data(json!([7])),
            odd,
            "'data' of the answer: entry 0 is a number where an embedding object is expected",
        ),
        (
            of,
            data(json!([{"embedding": [1]}])),
            odd,
            "'data' of the answer: entry 0 has no 'object': \"embedding\", so it is no embedding",
        ),
        (
            of,
            data(json!([{"object": "image"}])),
            odd,
            "'data' of the answer: entry 0 has the object \"image\" where \"embedding\" is expected",
        ),
        (
            of,
            data(json!([{"object": "embedding", "embedding": null}])),
            empty,
            "no content: no entry of 'data' of the answer has an embedding",
        ),
        (of, item(json!([])), odd, "'data' of the answer: entry 1 has an empty vector"),
        (of, item(json!([1, null])), odd, "'data' of the answer: entry 1 has null in its vector"),
        (of, item(json!([[1]])), odd, "'data' of the answer: entry 1 has a list in its vector"),
        (of, item(json!({"float": [1]})), odd, "'data' of the answer: entry 1 has an object as its vector"),
        (
            of,
            item(json!("AAA=")),
            odd,
            "'data' of the answer: entry 1 has a text as its vector that is no base64 of 32-bit floats",
        ),
        (
            EndpointKind::ChatEmbeddings,
            json!({"embeddings": [[1], "x"]}),
            odd,
            "'embeddings' of the answer: entry 1 has a text as its vector that is no base64 of 32-bit floats",
        ),
        (
            EndpointKind::CohereRankings,
            json!({"results": []}),
            empty,
            "no content: 'results' of the answer is an empty list",
        ),
        (
            EndpointKind::CohereRankings,
            json!({"data": []}),
            empty,
            "no content: the answer has no 'results' and no 'rankings'",
        ),
        (EndpointKind::HfTeiRankings, json!([]), empty, "no content: the answer is an empty list"),
        (EndpointKind::HfTeiRankings, json!([{"index": 3}]), odd, "the answer: entry 0 has no score"),
        (
            EndpointKind::NimRankings,
            json!({"rankings": [0.5]}),
            odd,
            "'rankings' of the answer: entry 0 is a number where an object with a score is expected",
        ),
    ] {
        assert_eq!(failed(kind, &body), (failure, words.to_owned()), "{body}");
    }
    let text = endpoint(of, &json!({})).read(&exchange("text/html", &["<html>"]));
    assert_eq!(text.failure.map(|f| f.kind), Some(FailureKind::Malformed));
    let nothing = endpoint(of, &json!({})).read(&exchange("application/json", &[]));
    assert_eq!(nothing.failure.map(|f| f.message).as_deref(), Some("no content: the answer has no body"));
}

#[test]
fn an_error_inside_a_good_status_is_a_failure() {
    for kind in KINDS {
        for body in [
            json!({"error": {"message": "too long", "code": 413}, "data": []}),
            json!({"object": "error", "message": "too long", "code": 413}),
        ] {
            let failure = read(kind, &body).failure.expect("a failure");
            assert_eq!(
                (failure.kind, failure.code),
                (FailureKind::ServerError, Some(413)),
                "{kind:?} {body}"
            );
        }
        // Keys that stand twice: the last one counts.
        let twice = whole(kind).to_string().replacen("{\"", "{\"error\":null,\"error\":null,\"", 1);
        assert_eq!(endpoint(kind, &json!({})).read(&exchange("application/json", &[&twice])).failure, None);
    }
}

proptest! {
    #[test]
    fn an_answer_is_whole_exactly_when_all_of_it_is_sound(sizes in prop::collection::vec(0usize..4, 0..6), bad in 0usize..12) {
        let items: Vec<Value> = sizes.iter().enumerate().map(|(i, size)| {
            let object = if i == bad { "other" } else { "embedding" };
            json!({"object": object, "index": i, "embedding": vec![0.5; *size]})
        }).collect();
        let is_sound = !items.is_empty() && bad >= items.len() && sizes.iter().all(|size| *size > 0);
        let answer = read(EndpointKind::NimEmbeddings, &json!({"data": items}));
        prop_assert_eq!(answer.failure.is_none(), is_sound);
        prop_assert_eq!(answer.results, is_sound.then_some(sizes.len() as u64));
    }

    #[test]
    fn no_body_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0usize..300) {
        for kind in KINDS {
            let good = whole(kind).to_string();
            for body in [&bytes[..], &good.as_bytes()[..cut.min(good.len() - 1)]] {
                let mut exchange = exchange("application/json", &[""]);
                exchange.body = body.to_vec();
                let endpoint = endpoint(kind, &json!({}));
                prop_assert!(endpoint.read(&exchange).failure.is_some());
                endpoint.texts(body);
            }
        }
    }
}
