//! Reading answers of the APIs that generate from a plain text.

use aiperf_core::outcome::FailureKind;
use proptest::prelude::*;
use serde_json::json;

use aiperf_core::conversation::TextGroup;
use aiperf_core::plan::{ResponseField, TemplatePlan};

use super::answer_tests::{exchange, sse};
use super::*;

fn read(kind: EndpointKind, exchange: &Exchange) -> Answer {
    Endpoint::new(&test_plan(kind)).read(exchange)
}

fn event(value: &Value) -> String {
    format!("data:{value}\n\n")
}

fn token(text: &str, special: bool) -> Value {
    json!({"index": 1, "token": {"id": 7, "text": text, "logprob": -0.5, "special": special},
        "generated_text": null, "details": null})
}

/// A stream as TGI sends it: its last event tells the whole text again.
fn tgi_stream() -> Vec<String> {
    let mut last = token("</s>", true);
    last["generated_text"] = json!("The 河 runs");
    last["details"] =
        json!({"finish_reason": "eos_token", "generated_tokens": 4, "seed": null, "input_length": 12});
    [token("The", false), token(" 河", false), token(" runs", false), last].iter().map(event).collect()
}

fn sglang(text: &str, tokens: u64, finish: &Value) -> String {
    let meta = json!({"id": "r", "finish_reason": finish, "prompt_tokens": 9, "completion_tokens": tokens,
        "cached_tokens": 4});
    format!("data: {}\n\n", json!({"text": text, "meta_info": meta}))
}

/// A stream of SGLang with these texts in its events.
fn sglang_stream(texts: &[&str]) -> Vec<String> {
    let last = texts.len() - 1;
    let end = json!({"type": "length", "length": texts.len()});
    let mut events: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(i, text)| sglang(text, i as u64 + 1, if i == last { &end } else { &Value::Null }))
        .collect();
    events.push("data: [DONE]\n\n".into());
    events
}

fn streamed(kind: EndpointKind, events: &[String]) -> Answer {
    let reads: Vec<&str> = events.iter().map(String::as_str).collect();
    read(kind, &sse(&reads))
}

/// Chunks as (stamp, text).
fn chunks(answer: &Answer) -> Vec<(u64, &str)> {
    let starts = std::iter::once(0).chain(answer.chunks.iter().map(|c| c.text_end));
    answer.chunks.iter().zip(starts).map(|(c, start)| (c.at_ns, &answer.text[start..c.text_end])).collect()
}

#[test]
fn a_tgi_stream_is_its_tokens_without_the_end_token() {
    let answer = streamed(EndpointKind::HuggingfaceGenerate, &tgi_stream());
    assert_eq!(chunks(&answer), [(100, "The"), (110, " 河"), (120, " runs")]);
    let usage = answer.usage.as_ref().expect("details have counts");
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(12), Some(4)));
    assert_eq!(answer.finish_reason.as_deref(), Some("eos_token"));
    assert!(answer.done && answer.failure.is_none());
}

#[test]
fn a_whole_tgi_answer_is_an_object_or_a_list_of_one() {
    let one = json!({"generated_text": "The river", "details": {"finish_reason": "length", "generated_tokens": 2,
        "prefill": [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "c"}]}});
    for body in
        [one.to_string(), json!([one]).to_string(), format!(" {}", json!([one, {"generated_text": "x"}]))]
    {
        let answer = read(EndpointKind::HuggingfaceGenerate, &exchange("application/json", &[&body]));
        assert_eq!(chunks(&answer), [(100, "The river")]);
        let usage = answer.usage.expect("details have counts");
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(3), Some(2)));
        assert_eq!((answer.finish_reason.as_deref(), answer.failure), (Some("length"), None));
    }
    let bare = read(
        EndpointKind::HuggingfaceGenerate,
        &exchange("application/json", &[r#"{"generated_text":"a"}"#]),
    );
    assert_eq!((bare.text.as_str(), bare.usage), ("a", None));
}

#[test]
fn tgi_s_errors_have_the_status_they_would_have_had() {
    for (error_type, code) in [("overloaded", 429), ("validation", 422), ("generation", 424), ("other", 502)]
    {
        let error = json!({"error": "Model is overloaded", "error_type": error_type});
        let mut events = vec![event(&token("a", false)), event(&error)];
        let failure =
            streamed(EndpointKind::HuggingfaceGenerate, &events).failure.expect("an error in the stream");
        assert_eq!((failure.kind, failure.code), (FailureKind::ServerError, Some(code)), "{error_type}");
        assert_eq!(failure.message, "Model is overloaded");
        events.remove(0);
        assert!(streamed(EndpointKind::HuggingfaceGenerate, &events).failure.is_some());
    }
}

#[test]
fn both_forms_of_an_sglang_stream_say_the_same() {
    let pieces = ["The", " ha", " ha", " ha", " ", "", "河 runs", " on"];
    let mut so_far = String::new();
    let whole: Vec<String> = pieces
        .iter()
        .map(|piece| {
            so_far.push_str(piece);
            so_far.clone()
        })
        .collect();
    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
    let [grown, pieced] =
        [&whole[..], &pieces[..]].map(|texts| streamed(EndpointKind::SglangGenerate, &sglang_stream(texts)));
    assert_eq!(chunks(&grown), chunks(&pieced));
    assert_eq!(grown.text, "The ha ha ha 河 runs on");
    assert_eq!(chunks(&pieced)[2], (120, " ha"), "each with the stamp of its own event");
    for answer in [grown, pieced] {
        let usage = answer.usage.expect("every event has counts");
        assert_eq!(
            (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens),
            (Some(9), Some(8), Some(4))
        );
        assert_eq!(answer.finish_reason.as_deref(), Some("length"));
        assert!(answer.done && answer.failure.is_none());
    }
}

#[test]
fn pieces_that_look_like_a_growing_text_are_told_by_the_first_that_does_not() {
    let read = |texts: &[&str]| streamed(EndpointKind::SglangGenerate, &sglang_stream(texts)).text;
    assert_eq!(read(&[" ha", " ha", " ha", " no"]), " ha ha ha no");
    assert_eq!(read(&["\n", "\n\n", "x"]), "\n\n\nx");
    // A text that grew is not in pieces because its stop word was cut off at the end.
    assert_eq!(read(&["a", "ab", "abc", "abcd", "abcd stop", "abcd"]), "abcd stop");
}

#[test]
fn an_sglang_answer_is_read_whole() {
    let body = |finish: &Value| {
        json!({"text": "The river", "meta_info": {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 0,
            "finish_reason": finish, "input_token_logprobs": [[-1.0, 5, null]]}})
    };
    let read = |body: &Value| {
        read(EndpointKind::SglangGenerate, &exchange("application/json", &[&body.to_string()]))
    };
    let answer = read(&body(&json!({"type": "stop", "matched": 2})));
    assert_eq!((chunks(&answer), answer.finish_reason.as_deref()), (vec![(100, "The river")], Some("stop")));
    assert_eq!(read(&json!([body(&json!("length"))])).finish_reason.as_deref(), Some("length"));
    let aborted =
        json!({"type": "abort", "message": "too long", "status_code": 400, "err_type": "BadRequestError"});
    let failure = read(&body(&aborted)).failure.expect("an abort is a failure");
    assert_eq!((failure.code, failure.message.as_str()), (Some(400), "too long"));
    let failure = read(&json!({"error": {"message": "no"}})).failure.expect("an error");
    assert_eq!(failure.kind, FailureKind::ServerError);
}

#[test]
fn of_several_texts_the_first_is_followed() {
    let event = |index: u32, text: &str| format!("data: {}\n\n", json!({"text": text, "index": index}));
    let events = [event(1, "b"), event(0, "a"), event(1, "bc"), event(0, "ad")];
    assert_eq!(streamed(EndpointKind::SglangGenerate, &events).text, "bc");
}

#[test]
fn solido_s_content_is_read_whole_and_in_events() {
    let whole = json!({"content": "It is so.", "sources": [{"title": "manual", "page": 3}]});
    let answer = read(EndpointKind::SolidoRag, &exchange("application/json", &[&whole.to_string()]));
    assert_eq!((chunks(&answer), answer.failure.is_none()), (vec![(100, "It is so.")], true));
    let events: Vec<String> =
        ["It", " is", " \"so\""].iter().map(|t| event(&json!({"content": t}))).collect();
    let events =
        [events, vec![event(&json!({"content": "", "sources": [1]})), "data: [DONE]\n\n".into()]].concat();
    let answer = streamed(EndpointKind::SolidoRag, &events);
    assert_eq!(chunks(&answer), [(100, "It"), (110, " is"), (120, " \"so\"")]);
    assert!(answer.done && answer.failure.is_none());
}

#[test]
fn what_says_nothing_is_told_in_the_words_of_its_api() {
    let said = |kind, body: &str| {
        let failure = read(kind, &exchange("application/json", &[body])).failure.expect("no content");
        (failure.kind, failure.message)
    };
    for (kind, body, word) in [
        (EndpointKind::HuggingfaceGenerate, r#"{"generated_text":""}"#, "'generated_text'"),
        (EndpointKind::SglangGenerate, r#"{"text":7,"meta_info":3}"#, "'text'"),
        (EndpointKind::SolidoRag, r#"{"sources":[]}"#, "'content'"),
    ] {
        let (found, message) = said(kind, body);
        assert_eq!(found, FailureKind::Empty);
        assert!(message.contains(word), "{message}");
        for broken in ["[]", "7", "\"x\"", "{\"text\":", "<html>"] {
            assert_eq!(said(kind, broken).0, FailureKind::Malformed, "{broken}");
        }
    }
}

#[test]
fn every_cut_of_a_stream_gives_the_same_text() {
    let sglang = sglang_stream(&["The", "The 河", "The 河 runs"]);
    for (kind, stream) in
        [(EndpointKind::HuggingfaceGenerate, tgi_stream()), (EndpointKind::SglangGenerate, sglang)]
    {
        let stream = stream.concat();
        for cut in (1..stream.len()).filter(|c| stream.is_char_boundary(*c)) {
            let answer = read(kind, &sse(&[&stream[..cut], &stream[cut..]]));
            assert_eq!((answer.text.as_str(), answer.chunks.len()), ("The 河 runs", 3));
        }
    }
}

proptest! {
    /// A slow, obvious reading of both forms: texts joined, or the last one.
    #[test]
    fn grown_and_pieced_texts_are_those_that_were_sent(pieces in prop::collection::vec("[ab]{0,3}", 4..12), tail in "[cd]{1,3}") {
        let pieces: Vec<&str> = std::iter::once("x").chain(pieces.iter().map(String::as_str)).chain([tail.as_str()]).collect();
        let joined = pieces.concat();
        let mut so_far = String::new();
        let whole: Vec<String> = pieces.iter().map(|piece| { so_far.push_str(piece); so_far.clone() }).collect();
        let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
        for texts in [&pieces[..], &whole[..]] {
            let answer = streamed(EndpointKind::SglangGenerate, &sglang_stream(texts));
            prop_assert_eq!(&answer.text, &joined);
            prop_assert_eq!(answer.chunks.len(), pieces.iter().filter(|p| !p.is_empty()).count());
        }
    }

    #[test]
    fn no_answer_is_too_strange(body in "[\\[\\]{}\":,a-z0-9 ]{0,60}") {
        for kind in [EndpointKind::HuggingfaceGenerate, EndpointKind::SglangGenerate, EndpointKind::SolidoRag] {
            read(kind, &exchange("application/json", &[&body]));
            read(kind, &sse(&[&format!("data: {body}\n\n")]));
        }
    }
}

fn encoded(kind: EndpointKind, streaming: bool, extra: &Value, turn: &Turn) -> String {
    let mut plan = test_plan(kind);
    plan.streaming = streaming;
    plan.extra = extra.as_object().expect("an object").clone();
    let mut out = Vec::new();
    let request = Request { system: None, user_context: None, turn, opens: true, marker: None };
    Endpoint::new(&plan).encode(&request, &mut out).expect("encodes");
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn turn(texts: &[&str], max_tokens: Option<u64>) -> Turn {
    let texts = texts.iter().map(|t| (*t).to_owned()).collect();
    Turn { model: "m".into(), texts, max_tokens, ..Turn::default() }
}

#[test]
fn bodies_are_the_reference_s() {
    let kind = EndpointKind::HuggingfaceGenerate;
    let mut said = turn(&["one", "", "two"], Some(20));
    assert_eq!(
        encoded(kind, true, &json!({}), &said),
        r#"{"inputs":"one two","parameters":{"max_new_tokens":20}}"#
    );
    said.extra = json!({"stream": true}).as_object().expect("an object").clone();
    assert_eq!(
        encoded(kind, false, &json!({"top_k": 4, "max_new_tokens": 5}), &said),
        r#"{"inputs":"one two","parameters":{"max_new_tokens":5,"top_k":4},"stream":true}"#
    );
    assert_eq!(encoded(kind, false, &json!({}), &turn(&[], None)), r#"{"inputs":"","parameters":{}}"#);

    let kind = EndpointKind::SolidoRag;
    assert_eq!(
        encoded(kind, true, &json!({"filters": {"family": "X"}, "a": 1}), &turn(&["q", "", "r"], Some(20))),
        r#"{"query":["q","r"],"filters":{"family":"X"},"inference_model":"m","a":1}"#
    );
    assert_eq!(
        encoded(kind, false, &json!({}), &turn(&["q"], None)),
        r#"{"query":["q"],"filters":{"family":"Solido","tool":"SDE"},"inference_model":"m"}"#
    );
}

#[test]
fn an_sglang_body_has_the_limit_among_its_sampling_parameters() {
    let kind = EndpointKind::SglangGenerate;
    assert_eq!(
        encoded(kind, true, &json!({"temperature": 0}), &turn(&["one", "two"], Some(20))),
        r#"{"text":"one two","sampling_params":{"max_new_tokens":20,"temperature":0},"stream":true}"#
    );
    let mut row = turn(&["one"], None);
    row.extra = json!({"lora_path": "a", "stream": true}).as_object().expect("an object").clone();
    assert_eq!(
        encoded(kind, false, &json!({"max_new_tokens": 3}), &row),
        r#"{"text":"one","sampling_params":{"max_new_tokens":3},"stream":true,"lora_path":"a"}"#
    );
}

#[test]
fn input_is_counted_from_the_texts_of_the_body() {
    let texts =
        |kind: EndpointKind, body: &Value| Endpoint::new(&test_plan(kind)).texts(body.to_string().as_bytes());
    assert_eq!(texts(EndpointKind::HuggingfaceGenerate, &json!({"inputs": "a b", "text": "no"})), ["a b"]);
    assert_eq!(texts(EndpointKind::SglangGenerate, &json!({"text": "a"})), ["a"]);
    assert_eq!(texts(EndpointKind::SglangGenerate, &json!({"text": ["a", "b"]})), ["a", "b"]);
    assert_eq!(
        texts(EndpointKind::SolidoRag, &json!({"query": ["a", "b"], "filters": {"family": "x"}})),
        ["a", "b"]
    );
    assert!(texts(EndpointKind::Chat, &json!({"text": "a"})).is_empty());
}

fn template(body: &str, extra: &Value, turn: &Turn) -> Result<String, String> {
    let mut plan = test_plan(EndpointKind::Template);
    plan.template = Some(TemplatePlan { body: body.to_owned(), origin: "body.j2".into() });
    plan.extra = extra.as_object().expect("an object").clone();
    plan.streaming = true;
    let endpoint = Endpoint::open(&plan).map_err(|e| e.to_string())?;
    let request = Request { system: Some("sys"), user_context: None, turn, opens: true, marker: None };
    let mut out = Vec::new();
    endpoint.encode(&request, &mut out).map_err(|e| e.to_string())?;
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

#[test]
fn a_template_makes_the_body() {
    let mut said = turn(&["<a> \"b\" & 'c'\n東", "two"], Some(7));
    said.role = Some("user".into());
    said.groups =
        vec![TextGroup { name: "query".into(), count: 1 }, TextGroup { name: "passages".into(), count: 1 }];
    let body = |body: &str| template(body, &json!({}), &said).expect("a good template");
    assert_eq!(body(r#"{"text": {{ texts|tojson }}}"#), r#"{"text":["<a> \"b\" & 'c'\n東","two"]}"#);
    assert_eq!(
        body(
            r#"{"q": {{ query|tojson }}, "p": {{ passages|tojson }}, "n": {{ max_tokens }}, "m": "{{ model }}",
            "s": {{ stream|tojson }}, "r": "{{ role }}", "i": {{ image|tojson }}, "is": {{ images|tojson }},
            "sys": "{{ request_info.system_message }}", "t": {{ turn.texts[1].contents[0]|tojson }},
            "u": {{ turns|length }}, "b": {{ texts_by_name.query|tojson }}}"#
        ),
        r#"{"q":"<a> \"b\" & 'c'\n東","p":["two"],"n":7,"m":"m","s":true,"r":"user","i":null,"is":[],"sys":"sys","t":"two","u":1,"b":["<a> \"b\" & 'c'\n東"]}"#
    );
    // Nothing is escaped for HTML, and Python's methods of texts are there.
    let plain = turn(&["<a> & 'b'"], None);
    assert_eq!(
        template(r#"{"t": "{{ text }}", "u": "{{ text.upper() }}"}"#, &json!({}), &plain).as_deref(),
        Ok(r#"{"t":"<a> & 'b'","u":"<A> & 'B'"}"#)
    );
    let mut row = turn(&["x"], None);
    row.extra = json!({"b": 2}).as_object().expect("an object").clone();
    assert_eq!(
        template(r#"{"a": "{{ text }}", "b": 0}"#, &json!({"a": 1, "b": 1, "c": 1}), &row).as_deref(),
        Ok(r#"{"a":1,"b":2,"c":1}"#)
    );
}

#[test]
fn a_bad_template_is_told_with_its_line() {
    let said = turn(&["x"], None);
    for (body, start, word) in [
        ("{\n{{ text", "body.j2: the template (line 2) cannot be rendered: syntax error", ""),
        (
            "{\n\n\"a\": {{ txt }}}",
            "body.j2: the template (line 3) cannot be rendered: undefined value",
            "texts_by_name",
        ),
        (
            "{{ text|nothing }}",
            "body.j2: the template (line 1) cannot be rendered: unknown filter",
            "nothing",
        ),
        (
            "{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}",
            "body.j2: the template",
            "fuel",
        ),
        (
            "{\n\"a\": {{ text }}}",
            "body.j2: the template renders no JSON: expected value at column 6 of line 2",
            "\"a\": x}",
        ),
        ("", "body.j2: the template renders no JSON: EOF", "line"),
        ("{{ texts|tojson }}", "body.j2: the template renders a list and not an object", "[\"x\"]"),
    ] {
        let message = template(body, &json!({}), &said).expect_err(body);
        assert!(message.starts_with(start) && message.contains(word), "{message}");
    }
}

fn pathed(kind: EndpointKind, expression: Option<&str>, exchange: &Exchange) -> Answer {
    let mut plan = test_plan(kind);
    plan.response_field =
        expression.map(|text| ResponseField { expression: text.into(), origin: "--response-field".into() });
    plan.template = Some(TemplatePlan { body: "{}".into(), origin: "x".into() });
    Endpoint::open(&plan).expect("a good expression").read(exchange)
}

#[test]
fn a_response_field_says_where_a_template_s_answer_is() {
    let whole = |body: &Value| exchange("application/json", &[&body.to_string()]);
    let answer = whole(&json!({"deep": [{"said": "hi"}], "text": "elsewhere"}));
    let read = |kind, expression| pathed(kind, expression, &answer);
    assert_eq!(read(EndpointKind::Template, Some("deep[0].said")).text, "hi");
    assert_eq!(read(EndpointKind::Template, None).text, "elsewhere");
    assert_eq!(read(EndpointKind::Raw, Some("missing")).text, "elsewhere");
    let failure = read(EndpointKind::Template, Some("missing")).failure.expect("nothing is found");
    assert_eq!(failure.kind, FailureKind::Empty);
    assert!(
        failure.message.contains("the response field 'missing' (--response-field) finds no"),
        "{}",
        failure.message
    );
    // However it ended: what was looked for is what is told.
    let chat = whole(
        &json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"completion_tokens": 9}}),
    );
    let failure =
        pathed(EndpointKind::Template, Some("choices[0].text"), &chat).failure.expect("nothing is found");
    assert!(failure.message.contains("the response field 'choices[0].text'"), "{}", failure.message);
    let failure = pathed(EndpointKind::Template, None, &whole(&json!({"x": 1}))).failure.expect("nothing");
    assert!(failure.message.contains("--response-field"), "{}", failure.message);
}

#[test]
fn streams_of_unknown_apis_are_read_event_by_event() {
    let events = [
        event(&json!({"status": "begins"})),
        event(&json!({"choices": [{"delta": {"content": "a"}}]})),
        "data: plain words\n\n".to_owned(),
        event(&json!({"text": "b", "usage": {"completion_tokens": 2}})),
        "data: [DONE]\n\n".to_owned(),
    ];
    let answer = streamed(EndpointKind::Raw, &events);
    assert_eq!(chunks(&answer), [(110, "a"), (120, "plain words"), (130, "b")]);
    assert_eq!(answer.usage.and_then(|u| u.completion_tokens), Some(2));
    let error = [event(&json!({"error": {"message": "no", "code": 503}}))];
    assert_eq!(streamed(EndpointKind::Raw, &error).failure.and_then(|f| f.code), Some(503));
    // Vectors and ranks are content without tokens.
    let vectors = exchange("application/json", &[r#"{"data":[{"object":"embedding","embedding":[0.5]}]}"#]);
    let answer = read(EndpointKind::Raw, &vectors);
    assert_eq!((answer.text.as_str(), answer.chunks.len(), answer.failure), ("", 1, None));
    let words = read(EndpointKind::Raw, &exchange("text/plain", &["plain words"]));
    assert_eq!((words.text.as_str(), words.failure), ("plain words", None));
    let stream = events.concat();
    for cut in (1..stream.len()).filter(|c| stream.is_char_boundary(*c)) {
        assert_eq!(read(EndpointKind::Raw, &sse(&[&stream[..cut], &stream[cut..]])).text, "aplain wordsb");
    }
}

#[test]
fn a_body_of_the_data_set_is_sent_as_it_is() {
    let mut said = turn(&[], None);
    let bytes = b"{ \"messages\" : [ ] ,\"model\":\"x\" }".to_vec();
    said.payload = Some(bytes.clone());
    for kind in [EndpointKind::Raw, EndpointKind::Chat] {
        assert_eq!(encoded(kind, true, &json!({"a": 1}), &said).into_bytes(), bytes);
    }
    let bare = Endpoint::new(&test_plan(EndpointKind::Raw));
    let none = turn(&["x"], None);
    let request = Request { system: None, user_context: None, turn: &none, opens: true, marker: None };
    assert!(matches!(bare.encode(&request, &mut Vec::new()), Err(EncodeError::NoPayload)));
}
