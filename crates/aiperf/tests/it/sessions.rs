//! Conversations of several turns: what the server saw of them, and how they end.

use std::collections::BTreeMap;
use std::path::Path;

use aiperf_core::plan::TokenizerPlan;
use aiperf_sim::scripted::{Reply, SeenRequest};
use serde_json::{Value, json};

use crate::support::{Done, Run, Tally, cycling, scripted, sim, url};

/// Conversations of three turns, one session at a time.
fn conversations(url: &str) -> Run {
    Run::profile(url).args("--conversation-turn-mean 3 --num-dataset-entries 2 --export-level raw")
}

fn body(request: &SeenRequest) -> Value {
    serde_json::from_slice(&request.body).expect("a JSON body")
}

/// Role and content of each message of a body.
fn said(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text in {body}")).to_owned();
    let messages = body["messages"].as_array().expect("a list of messages");
    messages.iter().map(|m| (text(&m["role"]), text(&m["content"]))).collect()
}

fn roles(body: &Value) -> Vec<String> {
    said(body).into_iter().map(|(role, _)| role).collect()
}

/// The records of each session, in the order of its turns.
fn sessions(done: &Done) -> Vec<Vec<Value>> {
    let mut sessions: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in done.records() {
        let id = record["metadata"]["x_correlation_id"].as_str().expect("an id").to_owned();
        sessions.entry(id).or_default().push(record);
    }
    let mut sessions: Vec<_> = sessions.into_values().collect();
    let turn = |record: &Value| record["metadata"]["turn_index"].as_u64().expect("a number");
    for session in &mut sessions {
        session.sort_by_key(turn);
        let turns: Vec<u64> = session.iter().map(turn).collect();
        assert_eq!(turns, (0..session.len() as u64).collect::<Vec<_>>());
    }
    sessions
}

#[test]
fn each_turn_repeats_the_conversation_and_the_server_s_own_replies() {
    for streaming in [false, true] {
        let replies = ["  first \"reply\"\n", "second \u{e9}\u{1f600}", "\tthird"];
        let answer = |text: &str| {
            let (start, end) = text.split_at(4);
            if streaming { Reply::chat_stream(&[start, end]) } else { Reply::chat(text, 1, 1) }
        };
        let server = cycling(replies.iter().map(|text| answer(text)).collect());
        let run = conversations(&server.url()).args("--request-count 6");
        let run = if streaming { run.arg("--streaming") } else { run };
        let done = run.run().expect_exit(0).ends(Tally::of(6, 0));

        let seen = server.requests();
        let bodies: Vec<Value> = seen.iter().map(body).collect();
        for session in bodies.chunks(3) {
            let [one, two, three] = [0, 1, 2].map(|turn| said(&session[turn]));
            let reply = |turn: usize| ("assistant".to_owned(), replies[turn].to_owned());
            assert_eq!((one.len(), one[0].0.as_str()), (1, "user"));
            assert_eq!(two[..2], [one[0].clone(), reply(0)]);
            assert_eq!((three.len(), &three[..3], &three[3]), (5, &two[..], &reply(1)));
            assert_eq!((two[2].0.as_str(), three[4].0.as_str()), ("user", "user"));
        }
        // One id for a session, another for each request.
        let ids = |name: &str| -> Vec<String> {
            seen.iter().map(|r| r.header(name).expect("it is there").to_owned()).collect()
        };
        let correlation = ids("X-Correlation-ID");
        assert!(correlation.chunks(3).all(|session| session.iter().all(|id| *id == session[0])));
        assert_ne!(correlation[0], correlation[3]);
        assert_eq!(ids("X-Request-ID").iter().collect::<std::collections::BTreeSet<_>>().len(), 6);

        // Raw records hold what was sent, `inputs.json` what each turn brings along.
        let raw: Vec<Value> =
            done.lines("profile_export_raw.jsonl").iter().map(|line| line["payload"].clone()).collect();
        assert_eq!(raw, bodies);
        let own: Vec<_> = done.inputs().iter().map(said).collect();
        let last: Vec<_> = bodies.iter().map(|b| vec![said(b).pop().expect("a message")]).collect();
        assert_eq!(own, last);

        // Input is all that was sent, each content counted alone.
        let builtin = aiperf_tokens::open(&TokenizerPlan { name: "builtin".into() }).expect("it is built in");
        let counts: Vec<usize> =
            bodies.iter().map(|b| said(b).iter().map(|(_, text)| builtin.count(text)).sum()).collect();
        let told: Vec<u64> = done
            .records()
            .iter()
            .map(|r| r["metrics"]["input_sequence_length"]["value"].as_u64().expect("a length"))
            .collect();
        assert_eq!(told, counts.iter().map(|n| *n as u64).collect::<Vec<_>>());
        assert_eq!((told[0], told[3]), (8, 8), "a first turn has the length that was asked for");
    }
}

#[test]
fn later_turns_count_as_the_server_counts_them() {
    let vocabulary =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../aiperf-tokens/tests/data/byte_level/tokenizer.json");
    let template = "{% for m in messages %}<{{ m.role }}>\n{{ m.content | trim }}\n{% endfor %}<assistant>\n";
    for (kind, with_template) in
        ["chat", "responses", "messages"].into_iter().flat_map(|kind| [(kind, false), (kind, true)])
    {
        let run = Run::new("profile --model demo --ui none --artifact-dir out --url sim:// --osl 5 --random-seed 7")
            .args("--tokenizer tok --isl 40 --conversation-turn-mean 4 --request-count 12 --concurrency 2 --streaming")
            .args("--verify-lengths all --endpoint-type")
            .args(&format!("{kind} --system-prompt"))
            .arg("Answer in one word, and in the language of the question.")
            .file("tok/tokenizer.json", std::fs::read(&vocabulary).expect("it is there"));
        let run = if with_template {
            run.arg("--apply-chat-template").file("tok/chat_template.jinja", template)
        } else {
            run
        };
        let done = run.run().expect_exit(0).ends(Tally::of(12, 0));
        let mut firsts = Vec::new();
        for record in done.records() {
            let value = |tag: &str| record["metrics"][tag]["value"].as_u64().expect("a number");
            let isl = value("input_sequence_length");
            assert_eq!(isl, value("usage_prompt_tokens"), "{kind} {record}");
            if record["metadata"]["turn_index"] == 0 {
                firsts.push(isl);
            } else {
                assert!(isl > firsts[0], "{kind} {record}");
            }
        }
        assert!(firsts.len() >= 3 && firsts.iter().all(|isl| *isl == firsts[0]), "{kind} {firsts:?}");
        // A later turn's own part is counted again where it can be told from the rest of the request.
        let verified = &done.summary()["input_lengths"]["verified"];
        let again = if with_template { firsts.len() } else { 12 };
        assert_eq!(
            (&verified["requests"], &verified["wrong"]),
            (&json!(again), &json!(0)),
            "{kind} {with_template}"
        );
    }
}

#[test]
fn a_session_goes_on_behind_a_failed_turn() {
    let failure = Reply::json(500, r#"{"error":{"message":"no"}}"#);
    let server = cycling(vec![Reply::chat("good", 1, 1), failure, Reply::chat("well", 1, 1)]);
    let done =
        conversations(&server.url()).args("--request-count 6").run().expect_exit(0).ends(Tally::of(4, 2));
    let bodies: Vec<Value> = server.requests().iter().map(body).collect();
    for session in bodies.chunks(3) {
        assert_eq!(roles(&session[2]), ["user", "assistant", "user", "user"]);
        assert_eq!(said(&session[2])[..3], said(&session[1])[..]);
    }
    for session in sessions(&done) {
        let outcomes: Vec<&Value> = session.iter().map(|r| &r["metadata"]["outcome"]).collect();
        assert_eq!(outcomes, ["completed", "failed", "completed"]);
    }
}

#[test]
fn a_request_count_cuts_conversations_and_everything_adds_up() {
    let paces = ["--concurrency 3", "--request-rate 500", "--request-rate 500 --concurrency 2"];
    for pace in paces {
        let server = sim("ttft=1&itl=0");
        let done = conversations(&url(&server))
            .args("--request-count 10 --conversation-turn-delay-mean 1")
            .args(pace)
            .run()
            .expect_exit(0);
        let tally = done.tally();
        assert_eq!((tally.sent, tally.completed), (10, 10), "{pace}: {tally:?}");
        let sessions = sessions(&done);
        assert!(sessions.len() >= 4 && sessions.iter().all(|s| s.len() <= 3), "{pace}");
        // A turn is ready so long after the end of the one before, and never sent earlier. At a rate it waits for an arrival.
        for turns in sessions.iter().flat_map(|s| s.windows(2)) {
            let at = |record: &Value, name: &str| record["metadata"][name].as_u64().expect("a time");
            let due = at(&turns[1], "scheduled_ns");
            let ready = at(&turns[0], "request_end_ns") + 1_000_000;
            assert!(due == ready || (due > ready && pace.contains("rate")), "{pace}: {due} for {ready}");
            assert!(at(&turns[1], "request_start_ns") >= due, "{pace}");
        }
    }
}

#[test]
fn who_thinks_when_the_time_is_over_sends_nothing_more() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = conversations(&server.url())
        .args("--concurrency 2 --benchmark-duration 1 --conversation-turn-delay-mean 3600000")
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    assert!(sessions(&done).iter().all(|s| s.len() == 1));
}

#[test]
fn an_interrupt_in_the_middle_of_a_session_ends_it() {
    let server = scripted(vec![Reply::chat("a", 1, 1), Reply::new().stall()]);
    let running = conversations(&server.url()).args("--request-count 50").start();
    server.wait_requests(2);
    running.signal("INT");
    let done = running.finish().expect_exit(130).ends(Tally::of(1, 0).cancelled(1));
    assert_eq!(server.requests().len(), 2);
    let sessions = sessions(&done);
    assert_eq!((sessions.len(), sessions[0].len()), (1, 2));
    // What was cut off is told whole, with the reply in it.
    let raw = done.lines("profile_export_raw.jsonl");
    assert_eq!(roles(&raw[1]["payload"]), ["user", "assistant", "user"]);
}

#[test]
fn a_file_s_session_is_one_of_whole_requests() {
    let rows = ["one", "two"].map(|text| json!({"text": text, "session_id": "a"}).to_string()).join("\n");
    let server = scripted(vec![Reply::chat("reply", 1, 1)]);
    Run::unseeded(&server.url())
        .args("--input-file p.jsonl --custom-dataset-type single_turn --request-count 2 --random-seed 1")
        .file("p.jsonl", rows)
        .run()
        .expect_exit(0)
        .ends(Tally::of(2, 0));
    let seen: Vec<_> = server.requests().iter().map(|r| said(&body(r))).collect();
    let user = |text: &str| vec![("user".to_owned(), text.to_owned())];
    assert_eq!(seen, [user("one"), user("two")]);
}

#[test]
fn a_file_s_conversation_goes_on_with_the_server_s_replies() {
    let turns =
        json!([{"role": "system", "text": "Be brief."}, {"text": "one"}, {"text": "two", "delay": 1}]);
    let rows = [
        json!({"session_id": "a", "turns": turns}),
        json!({"session_id": "a", "turns": [{"text": "three", "output_length": 9, "extra": {"top_k": 5}}]}),
        json!({"turns": [{"texts": ["four"]}]}),
    ];
    let rows = rows.map(|row| row.to_string()).join("\n");
    for named in ["--custom-dataset-type multi_turn", ""] {
        let server = scripted(vec![Reply::chat("reply", 1, 1)]);
        let done = Run::unseeded(&server.url())
            .args("--input-file p.jsonl --num-conversations 2 --concurrency 1 --random-seed 1")
            .args(named)
            .file("p.jsonl", &rows)
            .run()
            .expect_exit(0)
            .ends(Tally::of(4, 0));
        let bodies: Vec<Value> = server.requests().iter().map(body).collect();
        let seen: Vec<Vec<(String, String)>> = bodies.iter().map(said).collect();
        let [system, one, reply] = [("system", "Be brief."), ("user", "one"), ("assistant", "reply")]
            .map(|(r, t)| (r.to_owned(), t.to_owned()));
        let user = |text: &str| ("user".to_owned(), text.to_owned());
        let first = vec![system, one];
        let second = [&first[..], &[reply.clone(), user("two")]].concat();
        let third = [&second[..], &[reply, user("three")]].concat();
        assert_eq!(seen, [first, second, third, vec![user("four")]]);
        assert_eq!((&bodies[2]["top_k"], &bodies[1]["top_k"]), (&json!(5), &Value::Null));
        assert_eq!(bodies[2]["max_completion_tokens"], 9);
        let of: Vec<_> = sessions(&done).iter().map(Vec::len).collect();
        assert!(of.contains(&3) && of.contains(&1), "{of:?}");
        let told = done.stdout.contains("read as multi_turn, for there is a list of 'turns' in line 1");
        assert_eq!(told, named.is_empty(), "{}", done.stdout);
    }
}

#[test]
fn each_session_has_its_own_marker_in_the_run_and_no_repeat_is_told() {
    let first_texts = |run_id: &str| -> (Vec<String>, String) {
        let server = scripted(vec![Reply::chat("a", 1, 1)]);
        let run = Run::unseeded(&server.url())
            .args("--isl 40 --osl 4 --random-seed 7 --num-dataset-entries 2 --conversation-turn-mean 2")
            .args("--cache-bust first_turn_prefix --warmup-request-count 2 --request-count 8");
        let run = if run_id.is_empty() { run } else { run.arg("--cache-bust-run-id").arg(run_id) };
        let done = run.run().expect_exit(0);
        let bodies: Vec<Value> = server.requests().iter().map(body).collect();
        let texts = bodies.iter().map(|b| said(b)[0].1.clone()).collect();
        (texts, done.stdout)
    };
    let (texts, shown) = first_texts("");
    // All turns of a session repeat its marker; no two sessions share one.
    let distinct: std::collections::BTreeSet<&String> = texts.iter().collect();
    assert_eq!((texts.len(), distinct.len()), (10, 5), "{texts:?}");
    assert!(texts.iter().all(|t| t.starts_with("[rid:")), "{texts:?}");
    assert!(!shown.contains("distinct") && !shown.contains("measured later"), "{shown}");
    assert!(first_texts("").0.iter().all(|t| !distinct.contains(t)), "another run has other markers");
    assert_eq!(first_texts("nightly").0, first_texts("nightly").0);
}

#[test]
fn repeated_conversations_are_told() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let done = conversations(&server.url()).args("--request-count 12").run().expect_exit(0);
    done.shows(&["12 requests use 6 distinct prompts, so each is sent up to 2 times"]);
    let done = conversations(&server.url()).args("--request-count 6 --request-rate 100").run().expect_exit(0);
    done.shows(&["asked for 100.00 requests/s"]);
}

#[test]
fn a_turn_may_have_headers_of_its_own() {
    let server = cycling(vec![Reply::chat("a", 1, 1)]);
    let rows = concat!(
        r#"{"turns":[{"text":"one","headers":{"X-Tenant":"blue","Authorization":"Bearer row"}},{"text":"two"}]}"#,
        "\n"
    );
    let done = Run::unseeded(&server.url())
        .file("p.jsonl", rows)
        .args("--input-file p.jsonl --header X-Tenant:red --request-count 2 --export-level raw")
        .run()
        .expect_exit(0);
    let seen = server.wait_requests(2);
    let of = |turn: usize, name: &str| {
        let headers = &seen[turn].headers;
        headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    assert_eq!((of(0, "x-tenant"), of(0, "authorization")), (Some("blue"), Some("Bearer row")));
    assert_eq!((of(1, "x-tenant"), of(1, "authorization")), (Some("red"), None));
    let raw = done.lines("profile_export_raw.jsonl");
    let told = |turn: usize| &raw[turn]["request_headers"];
    assert_eq!((&told(0)["X-Tenant"], &told(0)["Authorization"]), (&json!("blue"), &json!("<redacted>")));
    assert_eq!((&told(1)["X-Tenant"], &told(1)["Authorization"]), (&json!("red"), &Value::Null));

    let wrong = [
        (r#""X""#, "an object"),
        (r#"{"Content-Length":"1"}"#, "Content-Length"),
        (r#"{"X":"a\nb"}"#, "one line"),
    ];
    for (headers, word) in wrong {
        let row = format!(r#"{{"text":"one","headers":{headers}}}"#);
        let done = Run::unseeded(&server.url())
            .file("p.jsonl", row)
            .args("--input-file p.jsonl")
            .run()
            .expect_exit(2);
        assert!(done.stderr.contains("p.jsonl:1") && done.stderr.contains(word), "{}", done.stderr);
    }
}
