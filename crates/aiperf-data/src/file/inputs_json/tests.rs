//! `inputs_json`: what comes back of documents, and what is said of bad ones.

use std::io::Write as _;
use std::sync::Arc;

use aiperf_core::plan::{DatasetPlan, EndpointKind, FileFormat};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::toys::{self, context, plan};

fn open(text: &str, format: FileFormat, kind: EndpointKind) -> Result<Arc<dyn Workload>, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    let set = toys::file(file.path(), format);
    let path = file.path().display().to_string();
    crate::open(&plan(DatasetPlan::File(set), kind), None, context())
        .map_err(|error| error.to_string().replace(&path, ""))
}

fn said(workload: &dyn Workload) -> Vec<(String, Vec<String>)> {
    let body = |turn: &Turn| String::from_utf8(turn.payload.clone().expect("a body")).expect("UTF-8");
    (0..workload.len())
        .map(|i| workload.conversation(i, Visit::default()).expect("a checked session"))
        .map(|c| (c.id, c.turns.iter().map(body).collect()))
        .collect()
}

#[test]
fn sessions_are_conversations_of_their_bodies() {
    let text = "\u{feff} {\"version\" : 1.5, \"data\" :[ {\"session_id\":\"abc\",\"payloads\":[ {\"messages\":[{\"role\":\"user\"}]} ,\n \
                {\"messages\": [\"東\"],\"max_tokens\":7}]},\n{\"payloads\":[{\"messages\":[]}], \"mood\":3,\"session_id\":\"d\\\"e\"}], \"z\":[]} \n";
    for format in [FileFormat::InputsJson, FileFormat::Detect] {
        let workload = open(text, format, EndpointKind::Chat).expect("a good document");
        let wanted = [
            (
                "abc",
                vec!["{\"messages\":[{\"role\":\"user\"}]}", "{\"messages\": [\"東\"],\"max_tokens\":7}"],
            ),
            ("d\"e", vec!["{\"messages\":[]}"]),
        ];
        let wanted =
            wanted.map(|(id, bodies)| (id.to_owned(), bodies.into_iter().map(str::to_owned).collect()));
        assert_eq!(said(&*workload), wanted);
        let facts = workload.describe();
        assert_eq!(
            (facts.kind, facts.entries, facts.turns, facts.most_turns),
            (WorkloadKind::InputsJson, 2, 3, 2)
        );
        let first = workload.conversation(0, Visit::default()).expect("a checked session");
        assert_eq!(first.turns.iter().map(|t| t.max_tokens).collect::<Vec<_>>(), [None, Some(7)]);
        assert!(facts.notes.iter().any(|note| note.ends_with("are ignored: 'version', 'mood', 'z'")));
    }
}

#[test]
fn what_is_wrong_is_told_by_its_place() {
    for (text, wanted) in [
        (" \n", ": holds no rows"),
        (
            "{}",
            ": has no list named 'data', which inputs_json has: {\"data\": [{\"session_id\": …, \"payloads\": [{…}]}]}",
        ),
        ("{\"data\":[]}", ": holds no rows"),
        (
            "{\"data\":[1]}",
            ":1:10: not valid JSON: expected an object with session_id and payloads as data[0]",
        ),
        (
            "{\"data\":[{\"payloads\":[{\"messages\":[]}]}]}",
            ": data[0]: 'session_id' is missing, which every row of inputs_json has",
        ),
        (
            "{\"data\":[{\"session_id\":\"a\"}]}",
            ": data[0]: 'payloads' is missing, which every row of inputs_json has",
        ),
        ("{\"data\":[{\"session_id\":7,\"payloads\":[]}]}", ": data[0]: 'session_id' must be a text, not 7"),
        (
            "{\"data\":[{\"session_id\":\"\\ud800\",\"payloads\":[]}]}",
            ": data[0]: 'session_id' must be a text, not \"\\ud800\"",
        ),
        (
            "{\"data\":[{\"session_id\":\"a\",\"payloads\":[]}]}",
            ": data[0]: 'payloads' must be a list with a body in it, not []",
        ),
        (
            "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{\"messages\":[]},{}]}]}",
            ": data[0].payloads[1]: 'messages' must be a list, not absent",
        ),
        (
            "{\"data\":[{\"session_id\":\"a\",\"payloads\":[[]]}]}",
            ": data[0].payloads[0]: a row must be a JSON object, not []",
        ),
        (
            "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{\"messages\":[]}]},{\"session_id\":\"\\u0061\",\"payloads\":[{\"messages\":[]}]}]}",
            ": data[1]: 'a' is the session_id of data[0] too; each session has one of its own",
        ),
        ("{\"data\":[]} x", ":1:13: not valid JSON: trailing characters"),
    ] {
        let error = open(text, FileFormat::InputsJson, EndpointKind::Chat).map(|w| w.len()).expect_err(text);
        assert_eq!(error, wanted, "{text}");
    }
    let ok = "{\"data\":[{\"session_id\":\"a\",\"payloads\":[{}]}]}";
    assert!(open(ok, FileFormat::InputsJson, EndpointKind::Completions).is_ok());
}

proptest! {
    /// Whatever stands around bodies: each comes back byte for byte.
    #[test]
    fn bodies_come_back(
        sessions in prop::collection::vec(prop::collection::vec(("[a-zä\"\\\\ ]{0,8}", any::<i32>()), 1..4), 1..5),
        is_pretty: bool,
        name_first: bool,
    ) {
        let body = |(text, n): &(String, i32)| json!({"messages": [{"content": text}], "n": n, "x": {"y": []}});
        let entry = |(i, bodies): (usize, &Vec<(String, i32)>)| {
            let payloads: Vec<Value> = bodies.iter().map(body).collect();
            let (id, more) = (format!("s \"{i}"), json!({"k": [1, "}"]}));
            if name_first {
                json!({"session_id": id, "more": more, "payloads": payloads})
            } else {
                json!({"more": 1.25, "payloads": payloads, "session_id": id})
            }
        };
        let all: Vec<Value> = sessions.iter().enumerate().map(entry).collect();
        let document = json!({"n": -3, "data": all, "end": null});
        let text = if is_pretty { format!("{document:#}") } else { document.to_string() };
        let workload = open(&text, FileFormat::InputsJson, EndpointKind::Chat).expect("a good document");
        for (i, (id, bodies)) in said(&*workload).into_iter().enumerate() {
            prop_assert_eq!(id, format!("s \"{i}"));
            for (body, given) in bodies.iter().zip(&sessions[i]) {
                let read: Value = serde_json::from_str(body).expect("JSON");
                prop_assert_eq!(read, json!({"messages": [{"content": given.0}], "n": given.1, "x": {"y": []}}));
                prop_assert!(text.contains(body.as_str()));
            }
            prop_assert_eq!(bodies.len(), sessions[i].len());
        }
    }
}
