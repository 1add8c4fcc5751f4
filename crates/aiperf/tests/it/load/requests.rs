//! What is in a request: the user's prompts, headers, keys and fields reach the server as they were typed, and secrets reach
//! nothing else.

use aiperf_sim::scripted::{Reply, ScriptedServer, SeenRequest};
use serde_json::{Value, json};

use crate::support::{Run, Tally, scripted, sim, url};

fn server() -> ScriptedServer {
    scripted(vec![Reply::chat("good day", 9, 2)])
}

fn body(request: &SeenRequest) -> Value {
    serde_json::from_slice(&request.body).expect("a JSON body")
}

#[test]
fn streaming_and_not_over_both_endpoints() {
    for (kind, path) in [("chat", "/v1/chat/completions"), ("completions", "/v1/completions")] {
        for streaming in [false, true] {
            let server = sim("ttft=1&itl=1&truth");
            let mut run = Run::profile(&url(&server)).args("--request-count 3 --endpoint-type").arg(kind);
            if streaming {
                run = run.arg("--streaming");
            }
            let done = run.run().expect_exit(0).ends(Tally::of(3, 0));
            let summary = done.summary();
            // Without a stream no moment inside an answer is known, so no metric of one is told.
            for tag in ["time_to_first_token", "inter_token_latency", "time_to_second_token"] {
                assert_eq!(summary.get(tag).is_some(), streaming, "{kind} {streaming} {tag}");
            }
            for (tag, value) in [("output_sequence_length", 4.0), ("input_sequence_length", 8.0)] {
                done.has(tag, "avg", value);
            }
            let (_, truth, _) = server.stop_with_truth();
            assert!(truth.iter().all(|t| t.endpoint == kind && t.stream == streaming), "{truth:?}");
            let fields = done.inputs()[0].as_object().expect("a body").clone();
            assert_eq!(fields.contains_key("messages"), kind == "chat");
            assert_eq!(fields.contains_key("prompt"), kind == "completions");
            let plain = scripted(vec![Reply::json(404, "{}")]);
            let run = Run::profile(&plain.url()).args("--request-count 1 --endpoint-type").arg(kind);
            run.run().expect_exit(1);
            assert_eq!(
                (plain.requests()[0].method.as_str(), plain.requests()[0].path.as_str()),
                ("POST", path)
            );
        }
    }
}

#[test]
fn rows_of_a_file_are_sent_as_they_are_and_sessions_in_order() {
    let rows = [
        json!({"text": "first of a", "session_id": "a", "output_length": 5}),
        json!({"text": "alone", "role": "system", "extra": {"temperature": 0.25}}),
        json!({"texts": ["one", "two"], "type": "single_turn"}),
        json!({"text": "second of a", "session_id": "a", "delay": 1}),
    ];
    let file = rows.map(|row| row.to_string()).join("\n");
    let server = server();
    let done = Run::unseeded(&server.url())
        .args("--input-file p.jsonl --custom-dataset-type single_turn --request-count 4 --osl 9 --random-seed 1")
        .file("p.jsonl", file)
        .run()
        .expect_exit(0)
        .ends(Tally::of(4, 0));
    let bodies: Vec<Value> = server.requests().iter().map(body).collect();
    let contents: Vec<String> = bodies.iter().map(|b| b["messages"][0]["content"].to_string()).collect();
    let find =
        |text: &str| contents.iter().position(|c| c.contains(text)).unwrap_or_else(|| panic!("{contents:?}"));
    assert_eq!(find("second of a"), find("first of a") + 1, "one session goes on before the next begins");
    let (first, alone) = (&bodies[find("first of a")], &bodies[find("alone")]);
    assert_eq!(first["max_completion_tokens"], 5);
    assert_eq!(alone["max_completion_tokens"], 9, "--osl is for rows that give none");
    assert_eq!((&alone["messages"][0]["role"], &alone["temperature"]), (&json!("system"), &json!(0.25)));
    assert_eq!(bodies[find("two")]["messages"].as_array().map(Vec::len), Some(1));
    // A session is one conversation; its turns share an id and are numbered.
    let records = done.records();
    let turns: Vec<&Value> =
        records.iter().map(|r| &r["metadata"]).filter(|m| m["turn_index"] == 1).collect();
    assert_eq!(turns.len(), 1);
    let of_session =
        records.iter().filter(|r| r["metadata"]["x_correlation_id"] == turns[0]["x_correlation_id"]).count();
    assert_eq!(of_session, 2);
    assert_eq!(done.json("inputs.json")["data"].as_array().map(Vec::len), Some(3));
}

#[test]
fn headers_fields_and_path_arrive_as_typed() {
    let server = server();
    let run = Run::profile(&format!("{}/base?version=7", server.url()))
        .args("--request-count 1 --custom-endpoint /my/path -H X-Team:blue --header")
        .arg("X-Note: two words")
        .args("--extra-inputs temperature:0.5 --extra-inputs stop:END --extra-inputs")
        .arg(r#"{"nvext":{"greed":true},"top_k":3}"#)
        .arg(r#"bad_words:=["a","b, c"],seed:=null,min_p:=1e-3,user:="007""#);
    run.run().expect_exit(0);
    let request = &server.requests()[0];
    assert_eq!(request.path, "/base/my/path?version=7");
    let named = |name: &str| request.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!((named("X-Team"), named("X-Note")), (Some("blue"), Some("two words")));
    let body = body(request);
    assert_eq!(
        (&body["temperature"], &body["stop"], &body["top_k"], &body["nvext"]),
        (&json!(0.5), &json!("END"), &json!(3), &json!({"greed": true}))
    );
    assert_eq!(
        (&body["bad_words"], body.get("seed"), &body["min_p"], &body["user"]),
        (&json!(["a", "b, c"]), Some(&Value::Null), &json!(1e-3), &json!("007"))
    );
    assert_eq!(body["model"], "demo");
}

#[test]
fn models_are_asked_by_their_shares() {
    let file = "benchmark:\n  models: {strategy: weighted, items: [{name: demo, weight: 0.75}, {name: small, weight: 0.25}]}\n";
    let flag = |run: Run| run.args("--model small --model-weights 3,1");
    let in_file = |run: Run| run.file("c.yaml", file).args("-f c.yaml");
    let ways: [(&str, &dyn Fn(Run) -> Run); 2] = [("flag", &flag), ("file", &in_file)];
    for (way, give) in ways {
        let server = server();
        // The harness names the model demo; a file names its own.
        let run = if way == "flag" {
            Run::profile(&server.url())
        } else {
            Run::new("profile --tokenizer builtin --ui none --artifact-dir out --isl 8 --osl 4 --url")
                .arg(server.url())
        };
        let done =
            give(run).args("--request-count 40 --concurrency 1").run().expect_exit(0).ends(Tally::of(40, 0));
        let asked: Vec<bool> = server.requests().iter().map(|r| body(r)["model"] == "demo").collect();
        assert_eq!(asked[..8], [true, true, false, true, true, true, false, true], "{way}");
        assert_eq!(asked.iter().filter(|demo| **demo).count(), 30, "{way}");
        let told = done.records().iter().filter(|r| r["metadata"]["model"] == "small").count();
        assert_eq!(told, 10, "{way}");
        let groups = done.summary()["breakdown"].to_string();
        assert!(groups.contains("small") && groups.contains("demo"), "{groups}");
    }
}

#[test]
fn keys_reach_the_server_and_nothing_else() {
    const KEY: &str = "sk-7f3a9c51e2";
    type Give = fn(Run) -> Run;
    let ways: [(&str, Give); 5] = [
        ("flag", |run| run.args("--api-key").arg(KEY)),
        ("file", |run| run.file("key.txt", format!("{KEY}\n")).args("--api-key-file key.txt")),
        ("variable", |run| run.env("MY_KEY", KEY).args("--api-key-env MY_KEY")),
        ("header", |run| run.arg("-H").arg(format!("Authorization: Bearer {KEY}"))),
        ("configuration", |run| {
            run.file("c.yaml", format!("benchmark:\n  endpoint: {{api_key: {KEY}}}\n")).args("-f c.yaml")
        }),
    ];
    for (way, give) in ways {
        let server = server();
        let run = give(Run::profile(&server.url()).args("--request-count 2 --export-level raw -vv"));
        run.run().expect_exit(0).ends(Tally::of(2, 0)).keeps(KEY);
        for request in server.requests() {
            assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()), "{way}");
        }
    }
}

#[test]
fn other_secrets_are_kept_as_well() {
    const SECRET: &str = "hush-4d1b77";
    let server = server();
    let with = |userinfo: &str| server.url().replace("http://", &format!("http://{userinfo}@"));
    let run = Run::profile(&with(&format!("me:{SECRET}")))
        .args("--request-count 1 --export-level raw -vv -H")
        .arg(format!("X-Auth-Token: {SECRET}"))
        .arg("-H")
        .arg(format!("Cookie: id={SECRET}"));
    run.run().expect_exit(0).keeps(SECRET);
    let request = &server.requests()[0];
    assert_eq!(request.header("x-auth-token"), Some(SECRET));
    assert!(request.header("authorization").is_some_and(|v| v.starts_with("Basic ")));

    let run = Run::profile(&format!("{}/?api_key={SECRET}", server.url()))
        .args("--request-count 1 --export-level raw");
    run.run().expect_exit(0).keeps(SECRET);
    assert!(
        server.requests()[1].path.ends_with(&format!("?api_key={SECRET}")),
        "{}",
        server.requests()[1].path
    );
}

#[test]
fn a_key_is_kept_when_every_request_fails() {
    const KEY: &str = "sk-0b5c66d8aa";
    let server = scripted(vec![Reply::json(401, r#"{"detail":"who are you?"}"#)]);
    let run = Run::profile(&server.url()).args("--request-count 2 --export-level raw --api-key").arg(KEY);
    run.run().expect_exit(1).ends(Tally::of(0, 2)).shows(&["who are you?"]).keeps(KEY);
}

#[test]
fn a_server_with_a_key_lets_the_key_in() {
    let server = sim("ttft=0&itl=0&api-key=sesame");
    let run = || Run::profile(&url(&server)).args("--request-count 2");
    run().args("--api-key sesame").run().expect_exit(0).ends(Tally::of(2, 0));
    run()
        .run()
        .expect_exit(1)
        .ends(Tally::of(0, 2))
        .shows(&["401", "What to try: The server wants to know who asks."]);
}

#[test]
fn several_models_take_turns() {
    let server = server();
    let start =
        "profile --model a,b --tokenizer builtin --ui none --artifact-dir out --random-seed 1 --isl 4 --url";
    let run = Run::new(start).arg(server.url()).args("--request-count 4");
    run.run().expect_exit(0);
    let models: Vec<Value> = server.requests().iter().map(|r| body(r)["model"].clone()).collect();
    assert_eq!(models, ["a", "b", "a", "b"]);
}

#[test]
fn connections_are_kept_or_fresh_as_asked() {
    let server = server();
    Run::profile(&server.url()).args("--request-count 5").run().expect_exit(0);
    assert_eq!(server.connections(), 1);
    let server = self::server();
    let run = Run::profile(&server.url()).args("--request-count 5 --connection-reuse-strategy never");
    run.run().expect_exit(0);
    assert_eq!(server.connections(), 5);
}

#[test]
fn the_server_s_counts_are_taken_when_asked_for() {
    let server = server();
    let done =
        Run::profile(&server.url()).args("--request-count 2 --use-server-token-count").run().expect_exit(0);
    done.has("input_sequence_length", "avg", 9.0);
    done.has("output_sequence_length", "avg", 2.0);
}
