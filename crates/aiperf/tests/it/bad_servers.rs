//! Servers that do not do what they should: every request still ends in exactly one class, the numbers add up on screen, in
//! the summary and in the records, the reason is told in the server's own words, and all files are written.

pub(crate) mod tls;

use aiperf_sim::scripted::{Reply, Script, chat_chunk};

use crate::support::{Done, Run, Tally, cycling, flat, scripted, sim, url};

/// Three requests, one after the other.
fn run(url: &str) -> Run {
    Run::profile(url).args("--request-count 3")
}

/// Every request fails: exit 1, the reason on screen, all files there.
#[track_caller]
fn fails(run: Run, kind: &str, words: &[&str]) -> Done {
    let done = run.run().expect_exit(1).ends(Tally::of(0, 3)).shows(&["Error Summary", kind]).shows(words);
    for file in [
        "profile_export_aiperf.json",
        "profile_export_aiperf.csv",
        "profile_export.jsonl",
        "profile_export_console.txt",
        "inputs.json",
        "logs/aiperf.log",
    ] {
        assert!(done.path(file).is_file(), "{file} is missing");
    }
    for record in done.records() {
        assert_eq!(record["error"]["type"], kind, "{record}");
    }
    let summary = done.summary();
    assert_eq!(summary["was_cancelled"], false);
    assert_eq!(summary["error_summary"].as_array().map(Vec::len), Some(1), "equal failures are one group");
    assert!(summary.get("request_latency").is_none(), "nothing was measured, so nothing is told");
    done
}

/// Every record's error has these words, which a narrow table may break.
#[track_caller]
fn all_say(done: &Done, words: &str) {
    for record in done.records() {
        let message = record["error"]["message"].as_str().expect("a message");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn refused_connections() {
    // Bound and never listened at: the port stays ours and refuses.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("a free port");
    let addr = socket.local_addr().expect("an address").as_socket().expect("an IP address");
    fails(
        run(&format!("http://{addr}")),
        "ClientConnectorError",
        &[
            &format!("cannot connect to {addr}"),
            "refused",
            "What to try: Nothing takes connections at this address.",
        ],
    );
}

#[test]
fn a_name_without_address() {
    let run = run("http://no-such-host.invalid:8000");
    fails(run, "ClientConnectorDNSError", &["cannot resolve no-such-host.invalid"]);
}

#[test]
fn connections_closed_at_once_or_before_the_answer() {
    let server = Script::new(Vec::new()).on_connect(Reply::new().close()).start().expect("it listens");
    fails(run(&server.url()), "ServerDisconnectedError", &[]);
    let server = scripted(vec![Reply::close_before_answer()]);
    fails(run(&server.url()), "ServerDisconnectedError", &[]);
    // As the reference does, nothing is sent twice: the server saw each request once.
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn answers_that_break_off() {
    let cut = Reply::new().send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"choices\":").close();
    let words = "the connection closed before the end of the answer";
    fails(run(&scripted(vec![cut]).url()), "ClientPayloadError", &[words]);
    let stream = Reply::sse_head().chat_event("a").chat_event("b").close();
    fails(run(&scripted(vec![stream]).url()).args("--streaming"), "ClientPayloadError", &[words]);
    let reset = Reply::sse_head().chat_event("a").reset();
    fails(
        run(&scripted(vec![reset]).url()).args("--streaming"),
        "ClientPayloadError",
        &["broke before the end"],
    );
}

#[test]
fn a_stream_that_ends_before_its_answer_is_cut_short() {
    // The HTTP is well-formed; AIPerf counts these as answers.
    let half = scripted(vec![Reply::half_event(&["a", "b"])]);
    let words = "the stream ends in an event that is not JSON, without a finish reason or an end mark; it reads: data: {";
    let done = fails(run(&half.url()).args("--streaming"), "InvalidInferenceResultError", &[]);
    all_say(&done, words);
    assert!(
        done.records()
            .iter()
            .all(|r| r["error"]["kind"] == "malformed" && r["error"]["stage"] == "in_stream")
    );
    let silent = scripted(vec![Reply::half_event(&[])]);
    fails(run(&silent.url()).args("--streaming"), "InvalidInferenceResultError", &[]);
    let stopped = scripted(vec![Reply::sse_head().chat_event("a").chat_event("b").end_chunks()]);
    let words = "the stream ended in the middle: neither a finish reason nor an end mark came";
    let done = fails(run(&stopped.url()).args("--streaming"), "TruncatedStream", &["truncated"]);
    all_say(&done, words);
    for record in done.records() {
        assert_eq!(record["error"]["kind"], "truncated");
        assert_eq!(
            (&record["error"]["stage"], &record["error"]["retryable"]),
            (&"in_stream".into(), &true.into())
        );
        assert!(
            record["metadata"]["request_end_ns"].as_u64() > record["metadata"]["request_start_ns"].as_u64()
        );
    }
    // A finish reason without an end mark is a whole answer, as is an end mark without a finish reason.
    let finish =
        r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    for end in [finish, "[DONE]"] {
        let server = scripted(vec![Reply::sse_head().chat_event("a").event(end).end_chunks()]);
        run(&server.url()).args("--streaming").run().expect_exit(0).ends(Tally::of(3, 0));
    }
}

#[test]
fn stalls_end_at_the_time_limit() {
    let timeout = |url: &str| run(url).args("--streaming --concurrency 3 --request-timeout-seconds 0.2");
    let silent = scripted(vec![Reply::new().stall()]);
    let limit = "within 0.2 s (--request-timeout-seconds)";
    all_say(&fails(timeout(&silent.url()), "TimeoutError", &[]), limit);
    let midway = scripted(vec![Reply::sse_head().chat_event("a").stall()]);
    all_say(&fails(timeout(&midway.url()), "TimeoutError", &[]), limit);
}

#[test]
fn pages_and_other_things_that_are_no_answers() {
    let html = scripted(vec![Reply::html()]);
    let words = ["the answer (text/html) is not a JSON object", "<html><body>It works!"];
    fails(run(&html.url()), "InvalidInferenceResultError", &words);
    fails(run(&html.url()).args("--streaming"), "InvalidInferenceResultError", &["<html><body>It works!"]);
    let none = scripted(vec![Reply::no_choices()]);
    fails(run(&none.url()), "InvalidInferenceResultError", &["no content"]);
    let empty = scripted(vec![Reply::sse_head().event("[DONE]").end_chunks()]);
    fails(run(&empty.url()).args("--streaming"), "InvalidInferenceResultError", &["no content"]);
    let garbage = scripted(vec![Reply::garbage()]);
    fails(run(&garbage.url()), "ClientResponseError", &["is not HTTP/1.1"]);
    let server = sim("ttft=0&itl=0&faults=empty-choices");
    fails(run(&url(&server)).args("--streaming"), "InvalidInferenceResultError", &["no content"]);
}

#[test]
fn errors_inside_an_answer_are_told_in_the_server_s_words() {
    let stream = scripted(vec![
        Reply::sse_head()
            .chat_event("a")
            .chunk("event: error\ndata: {\"error\":{\"message\":\"the engine is on fire\",\"code\":503}}\n\n")
            .end_chunks(),
    ]);
    let done = fails(run(&stream.url()).args("--streaming"), "SSEResponseError", &["the engine is on fire"]);
    assert!(done.records().iter().all(|r| r["error"]["code"] == 503));
    let body = scripted(vec![Reply::json(200, r#"{"error":{"message":"no such adapter"}}"#)]);
    fails(run(&body.url()), "SSEResponseError", &["no such adapter"]);
}

#[test]
fn a_status_for_all_shows_code_reason_and_words() {
    let server = scripted(vec![Reply::json(503, r#"{"detail":"come back after lunch"}"#)]);
    let done = fails(run(&server.url()), "Service Unavailable", &["503", "come back after lunch"]);
    let group = &done.summary()["error_summary"][0];
    assert_eq!((&group["error_details"]["code"], &group["count"]), (&503.into(), &3.into()));
    let redirect = scripted(vec![Reply::new().send(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n",
    )]);
    fails(run(&redirect.url()), "Temporary Redirect", &["redirected to http://elsewhere/"]);
}

#[test]
fn some_failures_do_not_hide_the_rest() {
    let server = cycling(vec![Reply::chat("a b", 3, 2), Reply::json(500, "{}"), Reply::chat("c d", 3, 2)]);
    let done =
        Run::profile(&server.url()).args("--request-count 9").run().expect_exit(0).ends(Tally::of(6, 3));
    assert_eq!(done.summary()["request_latency"]["count"], 6);
    assert!((done.stat("request_error_rate", "avg") - 100.0 / 3.0).abs() < 1e-9);
    assert_eq!(server.requests().len(), 9);
}

#[test]
fn every_fault_of_the_simulated_server_is_a_failure_of_its_kind() {
    const WHOLE: Option<&str> = None;
    const INVALID: Option<&str> = Some("InvalidInferenceResultError");
    const PAYLOAD: Option<&str> = Some("ClientPayloadError");
    const SERVER: Option<&str> = Some("SSEResponseError");
    // What becomes of an answer and of a stream.
    for (fault, plain, streamed) in [
        ("503", Some("Service Unavailable"), Some("Service Unavailable")),
        ("reset", Some("ClientOSError"), Some("ClientOSError")),
        ("close", Some("ServerDisconnectedError"), Some("ServerDisconnectedError")),
        ("garbage", Some("ClientResponseError"), Some("ClientResponseError")),
        ("cut:after=1", PAYLOAD, PAYLOAD),
        ("error-event:after=1", SERVER, SERVER),
        ("error-data:after=1", SERVER, SERVER),
        ("html", INVALID, INVALID),
        ("empty-choices", INVALID, INVALID),
        ("role-only", INVALID, INVALID),
        ("end:after=1", INVALID, Some("TruncatedStream")),
        ("malformed", INVALID, WHOLE),
        ("half-event:after=1", INVALID, INVALID),
        ("join", WHOLE, WHOLE),
        ("split", WHOLE, WHOLE),
        ("bytes", WHOLE, WHOLE),
    ] {
        for (streaming, expected) in [("", plain), ("--streaming", streamed)] {
            let url = format!("sim://?ttft=0&itl=0&faults={fault}:every=2");
            // What a kept connection is closed under goes out again, else.
            let done = Run::profile(&url)
                .args("--request-count 4 --concurrency 2 --no-resend")
                .args(streaming)
                .run();
            let failed = if expected.is_some() { 2 } else { 0 };
            let done = done.expect_exit(0).ends(Tally::of(4 - failed, failed));
            let kinds: Vec<String> = done
                .records()
                .iter()
                .filter_map(|r| r["error"]["type"].as_str().map(str::to_owned))
                .collect();
            assert!(kinds.iter().all(|k| Some(k.as_str()) == expected), "{fault} {streaming}: {kinds:?}");
            // What was passed over in an answer that counts as whole is told.
            let told = flat(&done.stdout).contains("2 events in 2 answers could not be read as JSON");
            let broken = matches!(fault, "malformed" | "half-event:after=1") && expected.is_none();
            assert_eq!(told, broken, "{fault}\n{}", done.stdout);
        }
    }
}

#[test]
fn a_simulated_server_with_every_fault_leaves_no_request_unclassed() {
    let faults = "close:at=0,cut:at=1:after=2,malformed:at=2,error-event:at=3,html:at=4,429:at=5,reset:at=6,role-only:at=7,\
                  garbage:at=8,half-event:at=9:after=0";
    let server = sim(&format!("ttft=0&itl=0&truth&faults={faults}"));
    let done = Run::profile(&url(&server))
        .args("--streaming --request-count 20 --concurrency 4 --no-resend --export-schema 2")
        .run()
        .expect_exit(0);
    let tally = &done.summary()["profiling"]["tally"];
    let of = |key: &str| tally[key].as_u64().unwrap_or_else(|| panic!("no {key} in {tally}"));
    assert_eq!((of("scheduled"), of("sent"), of("unsent"), of("lost")), (20, 20, 0, 0));
    assert_eq!(of("completed") + of("failed"), 20);
    assert!(of("failed") >= 9, "{tally}");
    let failed = done.records().iter().filter(|r| r["metadata"]["outcome"] == "failed").count();
    assert_eq!(failed as u64, of("failed"));
    assert_eq!(server.stop().requests, 20);
}

#[test]
fn control_bytes_of_a_server_do_not_reach_the_terminal() {
    let hostile = "\u{1b}[31mred\u{1b}]0;title\u{7}\u{9b}2J\rover\u{202e}txt\u{8}";
    let body = serde_json::json!({ "detail": hostile }).to_string();
    let raw = format!("{{\"detail\":\"{hostile}\"}}");
    for (status, body) in [(503, body.as_str()), (503, raw.as_str()), (200, raw.as_str())] {
        let done = run(&scripted(vec![Reply::json(status, body)]).url()).run().expect_exit(1);
        for (name, text) in [("stdout", &done.stdout), ("stderr", &done.stderr)] {
            let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
            assert_eq!(bad, None, "{name}: {text:?}");
        }
        assert!(done.stdout.contains("red"), "{}", done.stdout);
        let console = done.text("profile_export_console.txt");
        assert!(!console.contains('\u{1b}'), "{console:?}");
    }
    // The reason phrase is the server's as well.
    let reason = Reply::new().send("HTTP/1.1 503 \x1b[31mbusy\r\nContent-Length: 0\r\n\r\n");
    let done = run(&scripted(vec![reason]).url()).run().expect_exit(1);
    assert!(!done.stdout.contains('\u{1b}') && !done.stderr.contains('\u{1b}'), "{:?}", done.stdout);
}

#[test]
fn an_answer_over_the_cap_is_a_failure_and_is_not_read_to_its_end() {
    let long = "x".repeat(4000);
    let body = scripted(vec![Reply::chat(&long, 1, 1)]);
    let words = ["the answer is larger than 2048 bytes"];
    fails(run(&body.url()).args("--max-response-bytes 2048"), "ClientPayloadError", &words);
    // A stream without end: only the cap ends it.
    let endless = (0..64).fold(Reply::sse_head(), |reply, _| reply.event(&chat_chunk(&long))).stall();
    let server = scripted(vec![endless]);
    fails(run(&server.url()).args("--streaming --max-response-bytes 2048"), "ClientPayloadError", &words);
}

#[test]
fn a_secret_that_a_server_says_again_is_not_shown() {
    let said = r#"{"error":{"message":"Incorrect API key provided: sk-echo-1234","code":"sk-echo-1234"}}"#;
    let event = r#"{"error":{"message":"the token of this request, sk-echo-1234, is not known"}}"#;
    let header = "HTTP/1.1 500 sk-echo-1234\r\nX-Saw: sk-echo-1234\r\nContent-Length: 0\r\n\r\n";
    let away = "HTTP/1.1 302 Found\r\nLocation: http://u:sk-echo-1234@elsewhere/?token=tk-9876\r\nContent-Length: 0\r\n\r\n";
    for reply in [
        Reply::json(401, said),
        Reply::sse_head().chat_event("a").event(event).end_chunks(),
        Reply::new().send(header),
        Reply::new().send(away),
    ] {
        let done = run(&scripted(vec![reply]).url())
            // Raw records hold the events of a stream as they came.
            .args("--streaming --api-key sk-echo-1234 --export-http-trace")
            .run()
            .expect_exit(1)
            .keeps("sk-echo-1234")
            .keeps("tk-9876");
        assert!(done.stdout.contains("<redacted>"), "{}", done.stdout);
    }
    // What one row sends alone is no less secret.
    let row = r#"{"text":"one","headers":{"Authorization":"Bearer sk-echo-1234"}}"#;
    for reply in [Reply::json(401, said), Reply::new().send(header)] {
        let done = Run::unseeded(&scripted(vec![reply]).url())
            .args("--random-seed 1 --request-count 1 --input-file rows.jsonl --export-http-trace")
            .file("rows.jsonl", row)
            .run()
            .expect_exit(1);
        let done = done.keeps("sk-echo-1234");
        assert!(done.stdout.contains("<redacted>"), "{}", done.stdout);
    }
    let server = cycling(vec![Reply::json(503, said)]);
    run(&server.url())
        .args("--api-key sk-echo-1234 --wait-for-model-timeout 1 --wait-for-model-interval 0.4")
        .run()
        .expect_exit(1)
        .keeps("sk-echo-1234")
        .says(&["Incorrect API key provided: <redacted>"]);
}
