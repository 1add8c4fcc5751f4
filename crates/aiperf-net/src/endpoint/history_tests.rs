//! Requests of a conversation: what stands before its first turn, where history goes, in every API that has messages.

use serde_json::json;

use super::*;

const KINDS: [EndpointKind; 3] = [EndpointKind::Chat, EndpointKind::Responses, EndpointKind::Messages];

fn endpoint(kind: EndpointKind) -> Endpoint {
    Endpoint::new(&test_plan(kind))
}

fn turn(texts: &[&str]) -> Turn {
    Turn {
        model: "m".into(),
        role: None,
        texts: texts.iter().map(|t| (*t).to_owned()).collect(),
        max_tokens: Some(7),
        delay_ns: None,
        at_ns: None,
        extra: Map::new(),
        length: None,
        ..Turn::default()
    }
}

fn answer(text: &str) -> Answer {
    let chunk = AnswerChunk { at_ns: 1, text_end: text.len(), reasoning_end: 0 };
    Answer { text: text.to_owned(), chunks: vec![chunk], ..Answer::default() }
}

/// The body of a turn with the system text `S` and the context `C`, and what stands in its list.
fn parts(endpoint: &Endpoint, turn: &Turn, opens: bool) -> (String, Option<String>) {
    let request = Request { system: Some("S"), user_context: Some("C"), turn, opens, marker: None };
    // What is in front stays, and the place counts from there.
    let mut out = b"before".to_vec();
    let list = endpoint.encode(&request, &mut out).expect("encodes");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("JSON is UTF-8");
    (text(&out[6..]), list.map(|list| text(&out[list])))
}

fn opening(kind: EndpointKind, turn: &Turn) -> String {
    parts(&endpoint(kind), turn, true).0
}

/// What AIPerf 0.13.0 sent for such requests, byte for byte; only the text is ours.
#[test]
fn opening_bodies_are_the_reference_s_to_the_byte() {
    let one = turn(&["hi \"é\"\n"]);
    assert_eq!(
        opening(EndpointKind::Chat, &one),
        r#"{"messages":[{"role":"system","content":"S"},{"role":"user","content":"C"},{"role":"user","content":"hi \"é\"\n"}],"model":"m","stream":false,"max_completion_tokens":7}"#
    );
    assert_eq!(
        opening(EndpointKind::Responses, &one),
        r#"{"input":[{"type":"message","role":"user","content":"C"},{"role":"user","content":"hi \"é\"\n","type":"message"}],"model":"m","stream":false,"instructions":"S","max_output_tokens":7}"#
    );
    assert_eq!(
        opening(EndpointKind::Messages, &one),
        r#"{"model":"m","messages":[{"role":"user","content":"C"},{"role":"user","content":"hi \"é\"\n"}],"max_tokens":7,"system":"S"}"#
    );
}

#[test]
fn several_texts_are_parts_under_each_api_s_name() {
    let several = turn(&["a", "", "b"]);
    let has = |kind, role: Option<&str>, list: &str| {
        let several = Turn { role: role.map(str::to_owned), ..several.clone() };
        let body = opening(kind, &several);
        assert!(body.contains(list), "{body}");
    };
    has(
        EndpointKind::Messages,
        None,
        r#""content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
    );
    let input = r#"{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}],"type":"message"}"#;
    has(EndpointKind::Responses, None, input);
    // What an assistant said went out, not in.
    has(EndpointKind::Responses, Some("assistant"), r#"{"type":"output_text","text":"a"}"#);
}

#[test]
fn limits_and_streams_are_each_api_s_own() {
    let none = Turn { max_tokens: None, ..turn(&["a"]) };
    let body = |kind, counts| {
        let mut plan = test_plan(kind);
        (plan.streaming, plan.server_token_count) = (true, counts);
        let mut out = Vec::new();
        let request =
            Request { system: None, user_context: Some(""), turn: &none, opens: true, marker: None };
        Endpoint::new(&plan).encode(&request, &mut out).expect("encodes");
        String::from_utf8(out).expect("JSON is UTF-8")
    };
    assert_eq!(
        body(EndpointKind::Messages, true),
        r#"{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":1024,"stream":true}"#
    );
    let plain = r#"{"input":[{"role":"user","content":"a","type":"message"}],"model":"m","stream":true"#;
    assert_eq!(body(EndpointKind::Responses, false), format!("{plain}}}"));
    assert_eq!(
        body(EndpointKind::Responses, true),
        format!(r#"{plain},"stream_options":{{"include_usage":true}}}}"#)
    );
}

#[test]
fn a_system_text_goes_above_one_that_the_conversation_brings_along() {
    let system = |texts: &[&str]| {
        let body = opening(EndpointKind::Chat, &Turn { role: Some("system".into()), ..turn(texts) });
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body["messages"][1], json!({"role": "user", "content": "C"}));
        assert_eq!(body["messages"].as_array().map(Vec::len), Some(2));
        body["messages"][0].clone()
    };
    assert_eq!(system(&["own"]), json!({"role": "system", "content": "S\n\nown"}));
    assert_eq!(system(&[""]), json!({"role": "system", "content": "S"}));
    assert_eq!(system(&[]), json!({"role": "system", "content": "S"}));
    let parts =
        json!([{"type": "text", "text": "S"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    assert_eq!(system(&["a", "b"]), json!({"role": "system", "content": parts}));
}

#[test]
fn a_joined_history_is_the_body_that_one_would_write_by_hand() {
    let expected = [
        r#"{"messages":[{"role":"system","content":"S"},{"role":"user","content":"C"},{"role":"user","content":"one"},{"role":"assistant","content":" \"1\"\n"},{"role":"user","content":"two"},{"role":"assistant","content":"2"},{"role":"user","content":"three"}],"model":"m","stream":false,"max_completion_tokens":7}"#,
        r#"{"input":[{"type":"message","role":"user","content":"C"},{"role":"user","content":"one","type":"message"},{"role":"assistant","content":" \"1\"\n","type":"message"},{"role":"user","content":"two","type":"message"},{"role":"assistant","content":"2","type":"message"},{"role":"user","content":"three","type":"message"}],"model":"m","stream":false,"instructions":"S","max_output_tokens":7}"#,
        r#"{"model":"m","messages":[{"role":"user","content":"C"},{"role":"user","content":"one"},{"role":"assistant","content":" \"1\"\n"},{"role":"user","content":"two"},{"role":"assistant","content":"2"},{"role":"user","content":"three"}],"max_tokens":7,"system":"S"}"#,
    ];
    for (kind, expected) in KINDS.into_iter().zip(expected) {
        let endpoint = endpoint(kind);
        let mut history = Vec::new();
        for (text, reply) in [("one", " \"1\"\n"), ("two", "2")] {
            let (_, list) = parts(&endpoint, &turn(&[text]), history.is_empty());
            if !history.is_empty() {
                history.push(b',');
            }
            history.extend(list.expect("a list").into_bytes());
            history.push(b',');
            assert!(endpoint.encode_reply(&answer(reply), &mut history));
        }
        let last = turn(&["three"]);
        let request =
            Request { system: Some("S"), user_context: Some("C"), turn: &last, opens: false, marker: None };
        let mut body = Vec::new();
        let list = endpoint.encode(&request, &mut body).expect("encodes").expect("a list");
        let mut whole = Vec::new();
        Endpoint::join(&body, list, std::iter::once(&history[..]), &mut whole);
        assert_eq!(String::from_utf8(whole).expect("JSON is UTF-8"), expected);
    }
}

#[test]
fn joining_needs_no_comma_beside_nothing() {
    let joined = |list: Range<usize>, body: &str, history: &str| {
        let mut out = Vec::new();
        Endpoint::join(body.as_bytes(), list, history.split(' ').map(str::as_bytes), &mut out);
        String::from_utf8(out).expect("UTF-8")
    };
    assert_eq!(joined(6..7, r#"{"m":[1],"x":[]}"#, ""), r#"{"m":[1],"x":[]}"#);
    assert_eq!(joined(6..7, r#"{"m":[1]}"#, "8,9"), r#"{"m":[8,9,1]}"#);
    assert_eq!(joined(6..6, r#"{"m":[]}"#, "8,9"), r#"{"m":[8,9]}"#);
    assert_eq!(joined(6..7, r#"{"m":[1]}"#, "8,9  7 "), r#"{"m":[8,9,7,1]}"#, "parts may be empty");
}

#[test]
fn only_a_list_of_ours_can_take_history() {
    assert_eq!(parts(&endpoint(EndpointKind::Completions), &turn(&["a"]), true).1, None);
    for (kind, name) in KINDS.into_iter().zip(["messages", "input", "messages"]) {
        let mut own = turn(&["a"]);
        own.extra.insert(name.into(), json!([{"role": "user", "content": "mine"}]));
        assert_eq!(parts(&endpoint(kind), &own, true).1, None);
        let (_, list) = parts(&endpoint(kind), &turn(&["a"]), false);
        let list: Value = serde_json::from_str(&format!("[{}]", list.expect("a list"))).expect("elements");
        assert_eq!(list[0]["content"], "a", "neither system text nor context are said again");
        assert_eq!(list.as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn a_reply_is_prose_without_reasoning() {
    let said = |kind, answer: &Answer| {
        let mut out = Vec::new();
        let said = endpoint(kind).encode_reply(answer, &mut out);
        assert_eq!(said, !out.is_empty());
        said.then(|| serde_json::from_slice::<Value>(&out).expect("JSON")["content"].clone())
    };
    let mixed = Answer { reasoning: "hm".into(), ..answer("a b e") };
    let quiet = Answer { reasoning: "hm".into(), ..answer("") };
    let failed = Answer { failure: Some(error::empty("why")), ..answer("cut of") };
    for kind in KINDS {
        assert_eq!(said(kind, &mixed), Some(json!("a b e")));
        assert_eq!(said(kind, &failed), None);
        assert_eq!(said(kind, &Answer::default()), None);
        // A chat goes on in turns; the other APIs know no empty message.
        let empty = (kind == EndpointKind::Chat).then(|| json!(""));
        assert_eq!(said(kind, &quiet), empty);
    }
    assert_eq!(said(EndpointKind::Completions, &answer("a")), None);
}

#[test]
fn calls_of_tools_are_said_again_as_calls() {
    let named = |name: Range<usize>, arguments: Range<usize>, id: &str| Call {
        name,
        arguments,
        id: id.to_owned(),
        ..Call::default()
    };
    // Prose, `look` with arguments, `find` without.
    let text = "So: look{\"q\":1}find";
    let calls = vec![named(4..8, 8..15, "a\"1"), named(15..19, 19..19, "")];
    let both = Answer { calls: calls.clone(), reasoning: "hm".into(), ..answer(text) };
    let shift = |r: Range<usize>| r.start - 4..r.end - 4;
    let alone = calls.into_iter().map(|c| Call { name: shift(c.name), arguments: shift(c.arguments), ..c });
    let alone = Answer { calls: alone.collect(), ..answer(&text[4..]) };
    let said = |kind, answer: &Answer| {
        let mut out = b"[".to_vec();
        assert!(endpoint(kind).encode_reply(answer, &mut out));
        out.push(b']');
        serde_json::from_slice::<Value>(&out).expect("JSON")
    };
    let function = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let chat = [function("a\"1", "look", "{\"q\":1}"), function("call_1", "find", "")];
    for (answer, content) in [(&both, json!("So: ")), (&alone, Value::Null)] {
        let message = json!({"role": "assistant", "content": content, "tool_calls": chat});
        assert_eq!(said(EndpointKind::Chat, answer), json!([message]));
    }
    let text = json!({"type": "text", "text": "So: "});
    let uses = [
        json!({"type": "tool_use", "id": "a\"1", "name": "look", "input": {"q": 1}}),
        json!({"type": "tool_use", "id": "call_1", "name": "find", "input": {}}),
    ];
    assert_eq!(
        said(EndpointKind::Messages, &both),
        json!([{"role": "assistant", "content": [text, uses[0], uses[1]]}])
    );
    assert_eq!(said(EndpointKind::Messages, &alone), json!([{"role": "assistant", "content": uses}]));
    let items = [
        json!({"type": "function_call", "call_id": "a\"1", "name": "look", "arguments": "{\"q\":1}"}),
        json!({"type": "function_call", "call_id": "call_1", "name": "find", "arguments": ""}),
    ];
    let message = json!({"role": "assistant", "content": "So: ", "type": "message"});
    assert_eq!(said(EndpointKind::Responses, &both), json!([message, items[0], items[1]]));
    assert_eq!(said(EndpointKind::Responses, &alone), json!(items));
}
