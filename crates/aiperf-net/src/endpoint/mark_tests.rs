//! Markers in bodies whose messages are the user's own.

use aiperf_core::conversation::{Marker, Turn};
use aiperf_core::plan::{EndpointKind, MarkerTarget};
use serde_json::{Map, Value, json};

use super::mark::{NoPlace, insertion};
use super::{EncodeError, Endpoint, Request, test_plan};

const APIS: [EndpointKind; 3] = [EndpointKind::Chat, EndpointKind::Responses, EndpointKind::Messages];

fn marker(target: MarkerTarget) -> Marker {
    let text = match (target.is_warmup_isolation(), target.is_suffix()) {
        (true, _) => "[warmup]\n\n",
        (false, true) => "\n\n[rid:0a94b9f333c8]",
        (false, false) => "[rid:0a94b9f333c8]\n\n",
    };
    Marker { text: text.to_owned(), target }
}

/// The body with its marker in it.
fn marked(kind: EndpointKind, body: &str, marker: &Marker) -> Result<String, NoPlace> {
    let mut out = body.to_owned();
    if let Some(insertion) = insertion(kind, body, marker)? {
        let text = std::str::from_utf8(&insertion.bytes).expect("a text");
        out.insert_str(insertion.at, text);
    }
    Ok(out)
}

fn part(kind: EndpointKind, text: &str) -> Value {
    let tag = if kind == EndpointKind::Responses { "input_text" } else { "text" };
    json!({"type": tag, "text": text})
}

/// A part of each API that is no text.
fn image(kind: EndpointKind) -> Value {
    match kind {
        EndpointKind::Responses => json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"}),
        EndpointKind::Messages => {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}})
        }
        _ => json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
    }
}

/// A user message between other roles, behind a system text where there is one.
fn body(kind: EndpointKind, content: &Value, system: Option<&Value>, in_list: bool) -> Value {
    let mut list = vec![
        json!({"role": "assistant", "content": "before"}),
        json!({"role": "user", "content": content, "name": "n"}),
        json!({"role": "user", "content": "later"}),
    ];
    let mut body = json!({"model": "m", "temperature": 0.1});
    if let Some(system) = system {
        match kind.system_field().filter(|_| !in_list) {
            Some(field) => body[field] = system.clone(),
            None => list.insert(0, json!({"role": "system", "content": system})),
        }
    }
    body[kind.messages_field().expect("it has messages")] = list.into();
    body
}

/// A content with the marker, as the reference puts it there.
fn expected(kind: EndpointKind, content: &Value, marker: &Marker) -> Value {
    let is_suffix = marker.target.is_suffix();
    match content {
        Value::String(text) if is_suffix => format!("{text}{}", marker.text).into(),
        Value::String(text) => format!("{}{text}", marker.text).into(),
        Value::Array(parts) => {
            let mut parts = parts.clone();
            let at = if is_suffix { parts.len() } else { 0 };
            parts.insert(at, part(kind, marker.text.trim()));
            parts.into()
        }
        other => panic!("no content: {other}"),
    }
}

#[test]
fn every_target_in_every_form_of_content_once() {
    let mut cases = 0;
    for kind in APIS {
        let contents = [
            json!("hi \"é\"\n"),
            json!(""),
            json!([image(kind), part(kind, "what is it?")]),
            json!([part(kind, "what is it?"), image(kind)]),
            json!([image(kind)]),
            json!([]),
        ];
        let systems = [None, Some(json!("be brief")), Some(json!([part(kind, "be"), part(kind, "brief")]))];
        for target in MarkerTarget::ALL {
            let marker = marker(target);
            for (content, system) in contents.iter().flat_map(|c| systems.iter().map(move |s| (c, s))) {
                for in_list in [false, true] {
                    let body = |content: &Value, system: Option<&Value>| body(kind, content, system, in_list);
                    let wanted = match system {
                        Some(system) if target.wants_system() => {
                            body(content, Some(&expected(kind, system, &marker)))
                        }
                        _ => body(&expected(kind, content, &marker), system.as_ref()),
                    };
                    let once =
                        marked(kind, &body(content, system.as_ref()).to_string(), &marker).expect("a place");
                    assert_eq!(once, wanted.to_string(), "{kind:?} {target:?}");
                    assert_eq!(marked(kind, &once, &marker), Ok(once), "{kind:?} {target:?}");
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 3 * 6 * 6 * 3 * 2);
}

#[test]
fn all_other_bytes_stay() {
    let body = " { \"temperature\" : 1.50e-1, \"messages\" : [ {\"content\": [ {\"x\": 1e400} ] , \"role\": \"user\"} ] , \"z\": 10.0 }\n";
    let prefix = marker(MarkerTarget::FirstTurnPrefix);
    let part = r#"{"type":"text","text":"[rid:0a94b9f333c8]"}"#;
    let wanted = body.replace("[ {\"x\"", &format!("[{part}, {{\"x\""));
    assert_eq!(marked(EndpointKind::Chat, body, &prefix), Ok(wanted));
    let suffix = marker(MarkerTarget::FirstTurnSuffix);
    let wanted = body.replace("1e400} ]", &format!("1e400}} ,{part}]"));
    assert_eq!(marked(EndpointKind::Chat, body, &suffix), Ok(wanted));
}

#[test]
fn what_is_marked_stays_wherever_the_mark_is() {
    for target in MarkerTarget::ALL {
        let marker = marker(target);
        for kind in APIS {
            let text = marker.put("hi");
            for content in [
                json!(text),
                // The first text of several, as the workload marks it, at the edge or not.
                json!([part(kind, &text), part(kind, "more")]),
                json!([image(kind), part(kind, &text), part(kind, "more")]),
                json!([part(kind, &text), image(kind)]),
                json!([text]),
            ] {
                let body = body(kind, &content, None, false).to_string();
                assert_eq!(insertion(kind, &body, &marker), Ok(None), "{kind:?} {target:?} {content}");
            }
        }
    }
}

#[test]
fn a_system_text_that_says_nothing_is_none() {
    let marker = marker(MarkerTarget::SystemPrefix);
    for kind in [EndpointKind::Responses, EndpointKind::Messages] {
        for system in [Value::Null, json!(""), json!([])] {
            let body = |content: &str| body(kind, &json!(content), Some(&system), false).to_string();
            assert_eq!(marked(kind, &body("hi"), &marker), Ok(body(&marker.put("hi"))));
        }
    }
}

#[test]
fn only_the_head_of_the_list_is_its_system_message() {
    let marker = marker(MarkerTarget::SystemSuffix);
    let chat = |list: Value| json!({"messages": list}).to_string();
    for role in ["system", "developer"] {
        let list = |text: &str| json!([{"role": role, "content": text}, {"role": "user", "content": "u"}]);
        assert_eq!(
            marked(EndpointKind::Chat, &chat(list("s")), &marker),
            Ok(chat(list("s\n\n[rid:0a94b9f333c8]")))
        );
    }
    let list = |text: &str| json!([{"role": "user", "content": text}, {"role": "system", "content": "s"}]);
    assert_eq!(
        marked(EndpointKind::Chat, &chat(list("u")), &marker),
        Ok(chat(list("u\n\n[rid:0a94b9f333c8]")))
    );
}

#[test]
fn a_text_as_input_is_a_user_message() {
    for target in MarkerTarget::ALL {
        let marker = marker(target);
        let body = |text: &str| json!({"input": text}).to_string();
        assert_eq!(marked(EndpointKind::Responses, &body("hi"), &marker), Ok(body(&marker.put("hi"))));
    }
}

#[test]
fn what_has_no_place_is_told() {
    let problem = |kind, body: Value, target| {
        let NoPlace { field, problem } =
            marked(kind, &body.to_string(), &marker(target)).expect_err("no place");
        format!("{field} {problem}")
    };
    let user = MarkerTarget::FirstTurnPrefix;
    for (messages, words) in [
        (json!("hi"), "messages is a text, not a list of messages"),
        (json!(1), "messages is a number, not a list of messages"),
        (json!({}), "messages is an object, not a list of messages"),
        (json!(null), "messages is null, not a list of messages"),
        (json!(true), "messages is a boolean, not a list of messages"),
        (json!([]), "messages has no user message"),
        (json!([1, "hi", {"role": "system", "content": "s"}]), "messages has no user message"),
        (json!([{"role": "user"}]), "messages has a first user message without content"),
        (
            json!([{"role": "user", "content": null}]),
            "messages has a first user message whose content is null, neither a text nor a list of parts",
        ),
    ] {
        assert_eq!(problem(EndpointKind::Chat, json!({"messages": messages}), user), words);
    }
    assert_eq!(
        problem(
            EndpointKind::Chat,
            json!({"messages": [{"role": "system", "content": 1}]}),
            MarkerTarget::SystemPrefix
        ),
        "messages has a system message whose content is a number, neither a text nor a list of parts"
    );
    assert_eq!(
        problem(EndpointKind::Messages, json!({"system": {"a": 1}}), MarkerTarget::SystemPrefix),
        "system is an object, neither a text nor a list of parts"
    );
    assert_eq!(
        problem(EndpointKind::Responses, json!({}), MarkerTarget::SystemPrefix),
        "input is missing, not a list of messages"
    );
    // An API without messages is not this module's.
    assert_eq!(insertion(EndpointKind::Completions, r#"{"prompt":"p"}"#, &marker(user)), Ok(None));
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("not an object: {other}"),
    }
}

/// The body of a marked turn under these layers of fields, and the elements of its list.
fn encoded(
    kind: EndpointKind,
    target: MarkerTarget,
    system: Option<&str>,
    plan: Value,
    turn: Value,
) -> Result<(Value, Option<String>), EncodeError> {
    let mut made = test_plan(kind);
    made.extra = fields(plan);
    let marker = marker(target);
    let turn = Turn {
        model: "m".into(),
        role: None,
        texts: vec!["ours".into()],
        max_tokens: None,
        delay_ns: None,
        at_ns: None,
        extra: fields(turn),
        length: None,
        ..Turn::default()
    };
    let request =
        Request { system, user_context: Some("context"), turn: &turn, opens: true, marker: Some(&marker) };
    let mut out = b"before".to_vec();
    let list = Endpoint::new(&made).encode(&request, &mut out)?;
    let elements = list.map(|list| String::from_utf8(out[list].to_vec()).expect("JSON"));
    Ok((serde_json::from_slice(&out[6..]).expect("JSON"), elements))
}

#[test]
fn fields_that_replace_messages_are_marked_and_no_others() {
    let user = MarkerTarget::FirstTurnPrefix;
    let own = json!({"messages": [{"role": "user", "content": "mine"}]});
    let text = "[rid:0a94b9f333c8]\n\nmine";
    for (plan, turn) in [(own.clone(), json!({})), (json!({"messages": 1}), own.clone())] {
        let (body, list) = encoded(EndpointKind::Chat, user, None, plan, turn).expect("a place");
        assert_eq!((&body["messages"][0]["content"], list), (&json!(text), None));
    }
    // Texts of the workload have their marker, and what stands before them is not the first turn.
    for extra in [json!({}), json!({"temperature": 0}), json!({"system": "s"})] {
        let (body, list) =
            encoded(EndpointKind::Messages, user, None, extra, json!({})).expect("no need of one");
        let contents = json!([{"role": "user", "content": "context"}, {"role": "user", "content": "ours"}]);
        assert_eq!(body["messages"], contents);
        assert_eq!(format!("[{}]", list.expect("ours")), contents.to_string());
    }
}

#[test]
fn a_system_text_laid_over_ours_is_marked() {
    let target = MarkerTarget::SystemPrefix;
    for (kind, name) in [(EndpointKind::Responses, "instructions"), (EndpointKind::Messages, "system")] {
        for system in [None, Some("marked already")] {
            let laid = json!({name: "mine"});
            for (plan, turn) in [(laid.clone(), json!({})), (json!({name: null}), laid.clone())] {
                let (body, list) = encoded(kind, target, system, plan, turn).expect("a place");
                assert_eq!(body[name], "[rid:0a94b9f333c8]\n\nmine");
                let list = list.expect("ours");
                assert!(list.starts_with('{') && list.ends_with('}') && !list.contains("rid"), "{list}");
            }
        }
        // Taken away with nothing in its place: the first user message is left.
        let (body, list) =
            encoded(kind, target, Some("marked"), json!({name: null}), json!({})).expect("a place");
        let messages = &body[kind.messages_field().expect("it has messages")];
        assert_eq!(messages[0]["content"], "[rid:0a94b9f333c8]\n\ncontext");
        let list: Value =
            serde_json::from_str(&format!("[{}]", list.expect("ours"))).expect("whole elements");
        assert_eq!(list, *messages);
    }
}

#[test]
fn a_missing_place_names_the_option_and_who_brought_the_field() {
    let own = json!({"messages": [{"role": "assistant", "content": "a"}]});
    let user = MarkerTarget::FirstTurnSuffix;
    let words = |plan: Value, turn: Value| {
        encoded(EndpointKind::Chat, user, None, plan, turn).expect_err("no place").to_string()
    };
    let start = "--cache-bust first_turn_suffix has no place for its marker: 'messages' of";
    assert_eq!(words(own.clone(), json!({})), format!("{start} --extra-inputs has no user message"));
    assert_eq!(words(json!({}), own), format!("{start} the row's 'extra' has no user message"));
}
