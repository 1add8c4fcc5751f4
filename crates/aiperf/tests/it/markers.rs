//! Cache-bust markers as a server sees them: in every API and at every target, in texts of ours and in messages of the user's.

use std::collections::{BTreeMap, BTreeSet};

use aiperf_core::plan::TokenizerPlan;
use aiperf_sim::SimHandle;
use aiperf_sim::scripted::{Reply, ScriptedServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Run, Tally, scripted, sim, url};

const APIS: [&str; 3] = ["chat", "responses", "messages"];
const SESSION_TARGETS: [&str; 4] =
    ["system_prefix", "system_suffix", "first_turn_prefix", "first_turn_suffix"];
const WARMUP_TARGETS: [&str; 2] = ["warmup_isolation_system", "warmup_isolation_first_turn"];

/// A server that keeps what arrives.
struct Seeing {
    server: SimHandle,
    folder: TempDir,
}

/// A request that arrived.
struct Seen {
    /// Its session.
    session: String,
    body: Value,
    /// Tokens of it as the server counts.
    tokens: u64,
}

impl Seeing {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("capture.jsonl");
        let server = sim(&format!("ttft=0&itl=0&capture={}", path.display()));
        Self { server, folder }
    }

    /// What arrived in the run, warm-up first.
    fn stop(self) -> Vec<Seen> {
        self.server.stop();
        let lines = std::fs::read_to_string(self.folder.path().join("capture.jsonl")).expect("a capture");
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines
            .filter(|line| line["request"].is_number())
            .map(|line| Seen {
                session: line["headers"]["x-correlation-id"].as_str().expect("an id").to_owned(),
                tokens: line["prompt_tokens"].as_u64().expect("a count"),
                body: line["body"].clone(),
            })
            .collect()
    }
}

fn run(url: &str, api: &str) -> Run {
    Run::unseeded(url).args("--random-seed 7 --isl 40 --osl 4 --concurrency 1 --endpoint-type").arg(api)
}

fn list<'a>(api: &str, body: &'a Value) -> &'a [Value] {
    body[if api == "responses" { "input" } else { "messages" }].as_array().expect("a list")
}

/// The content of the system message.
fn system<'a>(api: &str, body: &'a Value) -> &'a Value {
    match api {
        "responses" => &body["instructions"],
        "messages" => &body["system"],
        _ => &list(api, body)[0]["content"],
    }
}

/// The content of the first user message.
fn user<'a>(api: &str, body: &'a Value) -> &'a Value {
    let is_user = |message: &&Value| message["role"] == "user";
    &list(api, body).iter().find(is_user).expect("a user message")["content"]
}

/// The markers of a body, wherever they are.
fn markers(body: &Value) -> Vec<String> {
    let text = body.to_string();
    let marks = text.match_indices("[rid:").map(|(at, _)| text[at..at + "[rid:".len() + 13].to_owned());
    marks.chain(text.matches("[warmup]").map(str::to_owned)).collect()
}

/// Demands that the marker is at its edge of this text, parted from it by a blank line.
#[track_caller]
fn on_edge(target: &str, text: &Value, marker: &str) {
    let text = text.as_str().unwrap_or_else(|| panic!("no text: {text}"));
    if target.ends_with("suffix") {
        assert!(text.ends_with(&format!("\n\n{marker}")), "{target}: {text}");
    } else {
        assert!(text.starts_with(&format!("{marker}\n\n")), "{target}: {text}");
    }
}

#[test]
fn each_session_has_a_marker_of_its_own_at_every_target_of_every_api() {
    for api in APIS {
        for target in SESSION_TARGETS {
            for with_system in [true, false] {
                let seen = Seeing::start();
                let run = run(&url(&seen.server), api)
                    .args("--request-count 8 --num-dataset-entries 2 --conversation-turn-mean 2 --warmup-request-count 2")
                    .arg("--cache-bust")
                    .arg(target);
                let run = if with_system { run.args("--shared-system-prompt-length 30") } else { run };
                run.run().expect_exit(0).ends(Tally::of(8, 0));
                let mut of_session: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
                for request in seen.stop() {
                    let found = markers(&request.body);
                    assert_eq!(found.len(), 1, "{api} {target} {}", request.body);
                    let on_system = with_system && target.starts_with("system");
                    let carrier =
                        if on_system { system(api, &request.body) } else { user(api, &request.body) };
                    on_edge(target, carrier, &found[0]);
                    of_session.entry(request.session).or_default().extend(found);
                }
                // Two warm-up requests are one session; so are two measured ones.
                let distinct: BTreeSet<&String> = of_session.values().flatten().collect();
                assert_eq!((of_session.len(), distinct.len()), (5, 5), "{api} {target} {of_session:?}");
                assert!(of_session.values().all(|of_one| of_one.len() == 1), "{api} {target} {of_session:?}");
            }
        }
    }
}

#[test]
fn a_warmup_is_marked_and_what_is_measured_is_not() {
    for api in APIS {
        for target in WARMUP_TARGETS {
            let seen = Seeing::start();
            run(&url(&seen.server), api)
                .args("--request-count 3 --warmup-request-count 2 --shared-system-prompt-length 30 --cache-bust")
                .arg(target)
                .run()
                .expect_exit(0)
                .ends(Tally::of(3, 0));
            let seen = seen.stop();
            assert_eq!(seen.len(), 5);
            for (number, request) in seen.iter().enumerate() {
                let found = markers(&request.body);
                assert_eq!(found, vec!["[warmup]"; usize::from(number < 2)], "{api} {target}");
                if let [marker] = &found[..] {
                    let is_system = target.ends_with("system");
                    let carrier =
                        if is_system { system(api, &request.body) } else { user(api, &request.body) };
                    on_edge(target, carrier, marker);
                }
                // Inside the length, marked or not.
                assert_eq!(request.tokens, 70, "{api} {target}");
            }
        }
    }
}

/// Messages with an image before the question, behind a system text.
fn picture(api: &str) -> Value {
    match api {
        "responses" => json!({"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            {"type": "input_text", "text": "what is it?"}]}], "instructions": "be brief"}),
        "messages" => json!({"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "text", "text": "what is it?"}]}], "system": "be brief"}),
        _ => json!({"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "text", "text": "what is it?"}]}]}),
    }
}

/// A server that answers everything, pictures too; the simulated one reads texts alone.
fn reading_pictures(api: &str) -> ScriptedServer {
    let answer = match api {
        "responses" => json!({"object": "response", "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}]}),
        "messages" => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a"}]})
        }
        _ => json!({"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "a"}}]}),
    };
    scripted(vec![Reply::json(200, &answer.to_string())])
}

/// The bodies of the run's own requests.
fn posted(server: &ScriptedServer) -> Vec<Value> {
    let posts = server.requests().into_iter().filter(|r| r.method == "POST" && !r.path.contains("tokenize"));
    posts.map(|r| serde_json::from_slice(&r.body).expect("JSON")).collect()
}

/// All that is said in a body.
fn texts(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value.as_str()) {
                    ("content" | "text" | "system" | "instructions", Some(text)) => out.push(text.to_owned()),
                    _ => texts(value, out),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn messages_of_the_user_s_are_marked_with_their_images_left_alone() {
    let builtin = aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("it is built in");
    for api in APIS {
        for target in SESSION_TARGETS.into_iter().chain(WARMUP_TARGETS) {
            let server = reading_pictures(api);
            let picture = picture(api);
            let done = run(&server.url(), api)
                .args("--request-count 3 --warmup-request-count 2 --cache-bust")
                .arg(target)
                .arg("--extra-inputs")
                .arg(picture.to_string())
                .run()
                .expect_exit(0)
                .ends(Tally::of(3, 0));
            let bodies = posted(&server);
            assert_eq!(bodies.len(), 5);
            let mut distinct = BTreeSet::new();
            for (number, body) in bodies.iter().enumerate() {
                let found = markers(body);
                let is_marked = number < 2 || !target.starts_with("warmup");
                assert_eq!(found.len(), usize::from(is_marked), "{api} {target} {body}");
                let mut own = body.clone();
                if let [marker] = &found[..] {
                    if target.contains("system") {
                        on_edge(target, system(api, body), marker);
                    } else {
                        let parts = user(api, body).as_array().expect("parts");
                        let part = if target.ends_with("suffix") { parts.last() } else { parts.first() };
                        let tag = if api == "responses" { "input_text" } else { "text" };
                        assert_eq!(part, Some(&json!({"type": tag, "text": marker})), "{api} {target}");
                    }
                    own = unmarked(body, marker);
                }
                // Without the marker it is what the user gave, byte for byte.
                for (field, value) in picture.as_object().expect("fields") {
                    assert_eq!(own[field].to_string(), value.to_string(), "{api} {target}");
                }
                distinct.extend(found);
            }
            let expected = if target.starts_with("warmup") { 1 } else { 5 };
            assert_eq!(distinct.len(), expected, "{api} {target} {distinct:?}");
            // What was sent is counted, marker and all.
            let records = done.records();
            assert_eq!(records.len(), bodies.len());
            for (record, body) in records.iter().zip(&bodies) {
                let mut said = Vec::new();
                texts(body, &mut said);
                let tokens: usize = said.iter().map(|text| builtin.count(text)).sum();
                let isl = &record["metrics"]["input_sequence_length"]["value"];
                assert_eq!(isl.as_u64(), Some(tokens as u64), "{api} {target} {record}");
            }
        }
    }
}

/// A body without its one marker.
fn unmarked(body: &Value, marker: &str) -> Value {
    match body {
        Value::String(text) => {
            text.replace(&format!("{marker}\n\n"), "").replace(&format!("\n\n{marker}"), "").into()
        }
        Value::Array(items) => {
            let is_it = |item: &&Value| item["text"] != marker;
            items.iter().filter(is_it).map(|item| unmarked(item, marker)).collect()
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), unmarked(value, marker))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn rows_may_bring_messages_too() {
    let own =
        |text: &str| json!({"text": "unused", "extra": {"messages": [{"role": "user", "content": text}]}});
    let rows = [own("mine"), json!({"text": "ours"}), json!({"texts": ["first", "second"]})];
    let rows = rows.map(|row| row.to_string()).join("\n");
    for target in SESSION_TARGETS {
        let seen = Seeing::start();
        Run::unseeded(&url(&seen.server))
            .args("--input-file p.jsonl --custom-dataset-type single_turn --request-count 3 --random-seed 1 --concurrency 1")
            .arg("--cache-bust")
            .arg(target)
            .file("p.jsonl", &rows)
            .run()
            .expect_exit(0)
            .ends(Tally::of(3, 0));
        let seen = seen.stop();
        let marks: Vec<Vec<String>> = seen.iter().map(|request| markers(&request.body)).collect();
        assert!(marks.iter().all(|found| found.len() == 1), "{target} {marks:?}");
        on_edge(target, user("chat", &seen[0].body), &marks[0][0]);
        on_edge(target, user("chat", &seen[1].body), &marks[1][0]);
        // Of several texts the first has it, at either end.
        let parts = user("chat", &seen[2].body);
        on_edge(target, &parts[0]["text"], &marks[2][0]);
        assert_eq!(parts[1], json!({"type": "text", "text": "second"}));
    }
}

/// All that arrives of a run whose messages are the user's.
fn bodies_of(run_id: Option<&str>) -> Vec<Value> {
    let server = reading_pictures("chat");
    let run = run(&server.url(), "chat")
        .args("--request-count 3 --warmup-request-count 1 --cache-bust system_prefix --extra-inputs")
        .arg(picture("chat").to_string());
    let run = if let Some(id) = run_id { run.arg("--cache-bust-run-id").arg(id) } else { run };
    run.run().expect_exit(0).ends(Tally::of(3, 0));
    posted(&server)
}

#[test]
fn runs_share_no_marker_unless_they_are_pinned() {
    let marks = |bodies: Vec<Value>| -> BTreeSet<String> { bodies.iter().flat_map(markers).collect() };
    let (one, other) = (marks(bodies_of(None)), marks(bodies_of(None)));
    assert!(one.len() == 4 && other.len() == 4 && one.is_disjoint(&other), "{one:?} {other:?}");
    assert_eq!(bodies_of(Some("nightly")), bodies_of(Some("nightly")));
    assert!(marks(bodies_of(Some("nightly"))).is_disjoint(&marks(bodies_of(Some("weekly")))));
}

#[test]
fn a_marker_without_a_place_is_refused_before_anything_is_sent() {
    let server = sim("");
    let refused = |run: Run, words: &str| {
        let done = run.run().expect_exit(2).says(&[words]);
        assert!(!done.home.path().join("out").exists(), "nothing was made");
        assert_eq!(server.totals().requests, 0);
    };
    for (api, extra, words) in [
        ("chat", json!({"messages": "hi"}), "'messages' of --extra-inputs is a text, not a list of messages"),
        (
            "chat",
            json!({"messages": [{"role": "assistant", "content": "a"}]}),
            "'messages' of --extra-inputs has no user message",
        ),
        (
            "responses",
            json!({"input": [{"role": "user", "content": {"text": "hi"}}]}),
            "'input' of --extra-inputs has a first user message whose content is an object, neither a text nor a list of parts",
        ),
        (
            "messages",
            json!({"system": 1}),
            "'system' of --extra-inputs is a number, neither a text nor a list of parts",
        ),
    ] {
        let words = format!("--cache-bust system_prefix has no place for its marker: {words}");
        let run = run(&url(&server), api).args("--request-count 1 --cache-bust system_prefix --extra-inputs");
        refused(run.arg(extra.to_string()), &words);
    }
    let rows = [json!({"text": "good"}), json!({"text": "no", "extra": {"messages": []}})];
    let by_rows = Run::unseeded(&url(&server))
        .args("--input-file p.jsonl --custom-dataset-type single_turn --request-count 1 --random-seed 1")
        .args("--cache-bust first_turn_prefix")
        .file("p.jsonl", rows.map(|row| row.to_string()).join("\n"));
    refused(
        by_rows,
        "turn 1 of conversation 'session_000001': --cache-bust first_turn_prefix has no place for its marker: 'messages' of the \
         row's 'extra' has no user message",
    );
    // Markers of a warm-up that there is not need no place.
    run(&url(&server), "chat")
        .args("--request-count 1 --cache-bust warmup_isolation_first_turn --extra-inputs")
        .arg(json!({"messages": [{"role": "system", "content": "s"}]}).to_string())
        .run()
        .expect_exit(0);
}
