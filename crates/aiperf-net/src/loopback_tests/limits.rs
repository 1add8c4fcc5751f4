//! What ends a request early: the time limit, a cancellation, the size cap.

use super::*;

#[tokio::test]
async fn a_stall_ends_at_the_limit_and_names_it() {
    let (listener, url) = listener().await;
    let mut plan = plan();
    plan.timeout_ns = 1_500_000_000;
    let client = client(&plan, &url);
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a request");
        // Nothing will happen any more but the clock: let it run on by itself.
        tokio::time::pause();
        request(&mut stream).await
    };
    let (e, gone) = tokio::join!(exchange(&client), server);
    assert!(gone.is_none(), "the connection was dropped");
    let f = failed(&e);
    assert_eq!(
        (f.kind, f.stage, f.type_name.as_str()),
        (FailureKind::Timeout, Stage::BeforeFirstByte, "TimeoutError")
    );
    assert_eq!(f.message, "timed out: no answer within 1.5 s (--request-timeout-seconds)");
    check_stamps(&e);
}

#[tokio::test]
async fn a_stall_inside_an_answer_keeps_what_came() {
    let e = watched(|mut stream, socket| async move {
        let part = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
        send_and_see_read(&mut stream, &socket, part, &mut 0).await;
        // The last holder of the socket keeps it open.
        drop(socket);
        tokio::time::pause();
        assert!(request(&mut stream).await.is_none());
    })
    .await;
    let f = failed(&e);
    assert_eq!((f.kind, f.stage), (FailureKind::Timeout, Stage::InStream));
    assert_eq!(f.message, "timed out: no end of the answer within 10 s (--request-timeout-seconds)");
    assert_eq!((e.body.as_slice(), e.status), (&b"abc"[..], Some(200)));
}

#[tokio::test]
async fn a_cancelled_request_keeps_what_came_and_drops_its_connection() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let (cancel, cancelled) = oneshot::channel();
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a request");
        cancel.send(CancelReason::Interrupted).expect("the client waits");
        assert!(request(&mut stream).await.is_none(), "the client hangs up");
    };
    let cancelled = async { cancelled.await.expect("the server says so") };
    let (e, ()) = tokio::join!(client.exchange(outgoing(), cancelled), server);
    assert!(
        matches!(e.disposition, Disposition::Cancelled { reason: CancelReason::Interrupted, at_ns } if at_ns == e.stamps.end_ns)
    );
    assert!(e.stamps.send_end_ns.is_some() && e.bytes_sent > 0 && client.idle_sockets().is_empty());
    check_stamps(&e);
}

#[tokio::test]
async fn a_body_over_the_cap_is_cut_there() {
    let (listener, url) = listener().await;
    let mut plan = plan();
    plan.max_response_bytes = 1000;
    let client = client(&plan, &url);
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a request");
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
        stream.write_all(head).await.expect("the client reads");
        // Writes until the client hangs up.
        while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    };
    let (e, ()) = tokio::join!(exchange(&client), server);
    let f = failed(&e);
    assert_eq!((f.kind, f.stage), (FailureKind::TooLarge, Stage::InStream));
    assert!(f.message.contains("1000 bytes"));
    assert_eq!(e.body.len(), 1000);
    check_stamps(&e);
}

#[tokio::test]
async fn a_body_of_exactly_the_cap_is_good() {
    let (listener, url) = listener().await;
    let mut plan = plan();
    plan.max_response_bytes = 2;
    let client = client(&plan, &url);
    let (e, _) = tokio::join!(exchange(&client), answer_once(&listener, PLAIN.as_bytes()));
    assert_eq!((e.disposition, e.body.len()), (Disposition::Finished, 2));
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_says_what_was_missing() {
    let (listener, url) = listener().await;
    let url = BaseUrl::parse(&format!("https://localhost:{}", url.port)).expect("a URL");
    let mut plan = plan();
    plan.connect_timeout_ns = Some(2_000_000_000);
    let client = client(&plan, &url);
    let server = async {
        let stream = accept(&listener).await;
        let mut first = [0];
        stream.peek(&mut first).await.expect("a greeting");
        // It is never answered.
        tokio::time::pause();
        stream
    };
    let (e, _held) = tokio::join!(exchange(&client), server);
    let f = failed(&e);
    assert_eq!((f.kind, f.stage, f.type_name.as_str()), (FailureKind::Timeout, Stage::Tls, "TimeoutError"));
    assert_eq!(f.message, "timed out: no TLS session within 2 s (--connect-timeout-seconds)");
    assert_eq!(client.counters(), Counters { refused: 1, ..Counters::default() });
    check_stamps(&e);
}

#[tokio::test]
async fn a_connection_made_in_time_has_no_limit_of_its_own_any_more() {
    let (listener, url) = listener().await;
    let mut plan = plan();
    plan.connect_timeout_ns = Some(2_000_000_000);
    let client = client(&plan, &url);
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a request");
        tokio::time::pause();
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        tokio::time::resume();
        stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
    };
    let (e, ()) = tokio::join!(exchange(&client), server);
    assert_eq!(e.disposition, Disposition::Finished);
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";

/// Serves one request with `pieces`, `pause_s` virtual seconds apart, then closes if `closes`, else waits for the client to go.
async fn paced(plan: &EndpointPlan, pieces: &[&str], pause_s: u64, closes: bool) -> Exchange {
    let (listener, url) = listener().await;
    let client = client(plan, &url);
    let (socket_to, socket_from) = oneshot::channel::<Rc<Socket>>();
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a first request");
        stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
        let socket = socket_from.await.expect("a socket");
        request(&mut stream).await.expect("a second request");
        let mut sent = 0;
        for piece in pieces {
            send_and_see_read(&mut stream, &socket, piece.as_bytes(), &mut sent).await;
            tokio::time::pause();
            if closes {
                tokio::time::sleep(std::time::Duration::from_secs(pause_s)).await;
                tokio::time::resume();
            }
        }
        drop(socket);
        if !closes {
            assert!(request(&mut stream).await.is_none());
        }
    };
    let requests = async {
        exchange(&client).await;
        assert!(socket_to.send(Rc::clone(&client.idle_sockets()[0])).is_ok());
        exchange(&client).await
    };
    let (e, ()) = tokio::join!(requests, server);
    check_stamps(&e);
    e
}

#[tokio::test]
async fn a_stream_that_falls_silent_ends_at_the_idle_limit() {
    let mut plan = plan();
    plan.idle_timeout_ns = Some(3_000_000_000);
    let e = paced(&plan, &[&[STREAM, WORD].concat()], 0, false).await;
    let f = failed(&e);
    assert_eq!(
        (f.kind, f.stage, f.type_name.as_str()),
        (FailureKind::Timeout, Stage::InStream, "TimeoutError")
    );
    assert_eq!(f.message, "timed out: no more of the answer within 3 s (--idle-timeout-seconds)");
    assert_eq!(e.body, WORD.as_bytes());
}

#[tokio::test]
async fn a_slow_but_steady_stream_is_not_idle() {
    let mut plan = plan();
    plan.timeout_ns = 100_000_000_000;
    plan.idle_timeout_ns = Some(3_000_000_000);
    // Longer than the limit as a whole, and never silent for as long.
    let e = paced(&plan, &[STREAM, WORD, WORD, WORD, WORD, WORD], 2, true).await;
    assert_eq!((e.disposition, e.reads.len()), (Disposition::Finished, 5));
}

#[tokio::test]
async fn a_stream_without_content_ends_at_the_first_token_limit() {
    let mut plan = plan();
    plan.first_token_timeout_ns = Some(4_000_000_000);
    for (pieces, stage) in [(&[][..], Stage::BeforeFirstByte), (&[STREAM, ROLE, ROLE][..], Stage::InStream)] {
        let e = if pieces.is_empty() {
            let (listener, url) = listener().await;
            let client = client(&plan, &url);
            let server = async {
                let mut stream = accept(&listener).await;
                request(&mut stream).await.expect("a request");
                tokio::time::pause();
                assert!(request(&mut stream).await.is_none());
            };
            let (e, ()) = tokio::join!(exchange(&client), server);
            tokio::time::resume();
            e
        } else {
            paced(&plan, &[&pieces.concat()], 0, false).await
        };
        let f = failed(&e);
        assert_eq!((f.kind, f.stage, f.type_name.as_str()), (FailureKind::Timeout, stage, "TimeoutError"));
        assert_eq!(
            f.message,
            "timed out: no first token after the request was sent within 4 s (--first-token-timeout-seconds)"
        );
    }
}

#[tokio::test]
async fn the_first_token_limit_ends_with_the_first_token_and_is_of_streams_only() {
    let mut plan = plan();
    plan.timeout_ns = 100_000_000_000;
    plan.first_token_timeout_ns = Some(4_000_000_000);
    let e = paced(&plan, &[STREAM, ROLE, WORD, WORD, WORD], 1, true).await;
    assert_eq!(e.disposition, Disposition::Finished);
    // No stream: what is wrong with it is told elsewhere.
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
    let e = paced(&plan, &[head, "{", "}", " ", " ", " "], 1, true).await;
    assert_eq!(e.disposition, Disposition::Finished);
    plan.streaming = false;
    let e = paced(&plan, &[STREAM, ROLE, ROLE, ROLE, ROLE, ROLE], 1, true).await;
    assert_eq!(e.disposition, Disposition::Finished);
}
