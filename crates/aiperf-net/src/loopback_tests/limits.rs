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
