//! What the client makes of answers, good and broken.

use super::*;

#[tokio::test]
async fn every_body_byte_has_the_stamp_of_the_read_that_brought_it() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = ["data: a\n\n", "data: b\n\ndata: c\n\n", "data: [DONE]\n\n"];
    let mut wire = head.to_owned();
    // Position on the wire of each body byte.
    let mut carried_by = Vec::new();
    for chunk in chunks {
        write!(wire, "{:x}\r\n", chunk.len()).expect("a string takes all");
        carried_by.extend(wire.len()..wire.len() + chunk.len());
        wire.push_str(chunk);
        wire.push_str("\r\n");
    }
    wire.push_str("0\r\n\r\n");
    for step in [1, 2, 3, 7, 40, wire.len()] {
        let windows = std::cell::RefCell::new(Vec::new());
        let exchange = watched(|mut stream, socket| {
            let (wire, windows) = (&wire, &windows);
            async move {
                let mut sent = 0;
                for piece in wire.as_bytes().chunks(step) {
                    let window = send_and_see_read(&mut stream, &socket, piece, &mut sent).await;
                    windows.borrow_mut().push(window);
                }
            }
        })
        .await;
        assert_eq!(exchange.disposition, Disposition::Finished);
        assert_eq!(exchange.body, chunks.concat().as_bytes());
        let windows = windows.into_inner();
        for (offset, wire_at) in carried_by.iter().enumerate() {
            let at = exchange.arrival_ns(offset).expect("every byte has a stamp");
            let (from, to) = windows[wire_at / step];
            assert!(from <= at && at <= to, "byte {offset} of the body, {step} bytes a write");
        }
        let headers_at = exchange.stamps.headers_ns.expect("headers came");
        let (from, to) = windows[(head.len() - 1) / step];
        assert!(from <= headers_at && headers_at <= to, "headers, {step} bytes a write");
        if step == wire.len() {
            assert_eq!(exchange.reads.len(), 1, "several chunks in one read are one mark");
        }
    }
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_the_connection() {
    let e = answered(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n").await;
    assert_eq!((e.disposition, e.body), (Disposition::Finished, b"data: a\n\n".to_vec()));
}

#[tokio::test]
async fn interim_and_odd_heads_are_taken() {
    let e =
        answered(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine\r\nX : y\r\nContent-Length: 1\r\n\r\n1")
            .await;
    assert_eq!((e.status, e.reason.as_str(), e.body.as_slice()), (Some(200), "Fine", &b"1"[..]));
    let e = answered(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    assert_eq!((e.status, e.disposition.clone(), e.body.len()), (Some(204), Disposition::Finished, 0));
    assert!(e.stamps.first_byte_ns.is_none());
    let e = answered(b"HTTP/1.0 503 \r\n\r\nbusy").await;
    assert_eq!((e.status, e.body.as_slice()), (Some(503), &b"busy"[..]));
    let e = answered(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!((e.status, e.headers), (Some(302), vec![("location".to_owned(), "/x".to_owned())]));
}

#[tokio::test]
async fn closed_before_an_answer_is_a_disconnect() {
    let e = answered(b"").await;
    let f = failed(&e);
    assert_eq!(
        (f.kind, f.stage, f.type_name.as_str()),
        (FailureKind::Disconnected, Stage::BeforeFirstByte, "ServerDisconnectedError")
    );
    let e = answered(b"HTTP/1.1 200 OK\r\nCont").await;
    let f = failed(&e);
    assert_eq!(
        (f.kind, f.stage, f.type_name.as_str()),
        (FailureKind::Truncated, Stage::InStream, "ServerDisconnectedError")
    );
}

#[tokio::test]
async fn a_cut_body_is_a_payload_error_and_what_came_is_kept() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
    ] {
        let e = answered(answer).await;
        let f = failed(&e);
        assert_eq!(
            (f.kind, f.stage, f.type_name.as_str()),
            (FailureKind::Truncated, Stage::InStream, "ClientPayloadError")
        );
        assert_eq!(e.body, b"abc");
        assert!(e.stamps.first_byte_ns.is_some());
    }
}

#[tokio::test]
async fn a_broken_chunk_is_a_protocol_failure() {
    let e = answered(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n").await;
    let f = failed(&e);
    assert_eq!((f.kind, f.type_name.as_str()), (FailureKind::Protocol, "ClientPayloadError"));
}

#[tokio::test]
async fn what_is_not_http_is_a_protocol_failure() {
    let e = answered(b"<html>hello</html>\r\n\r\n").await;
    let f = failed(&e);
    assert_eq!((f.kind, f.type_name.as_str()), (FailureKind::Protocol, "ClientResponseError"));
    let e =
        answered(&[&b"HTTP/1.1 200 OK\r\nX-Big: "[..], &b"x".repeat(1 << 20), b"\r\n\r\n"].concat()).await;
    assert_eq!(failed(&e).kind, FailureKind::Protocol);
}

#[tokio::test]
async fn a_reset_is_told_from_a_close() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a request");
        reset(stream);
    };
    let (e, ()) = tokio::join!(exchange(&client), server);
    let f = failed(&e);
    assert_eq!((f.kind, f.type_name.as_str()), (FailureKind::Disconnected, "ClientOSError"));
    let e = watched(|mut stream, socket| async move {
        let part = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
        send_and_see_read(&mut stream, &socket, part, &mut 0).await;
        reset(stream);
    })
    .await;
    let f = failed(&e);
    assert_eq!((f.kind, f.type_name.as_str()), (FailureKind::Truncated, "ClientPayloadError"));
    assert_eq!(e.body, b"abc");
}
