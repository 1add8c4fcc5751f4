//! The transport against scripted servers on loopback, in the same thread: every byte they send is in the script, and they
//! wait for what the client has read, never for time to pass.

use std::fmt::Write as _;
use std::future::{Future, pending};
use std::rc::Rc;
use std::sync::Arc;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{CancelReason, Disposition, Failure, FailureKind, Stage};
use aiperf_core::plan::{ConnectionReuse, EndpointKind, EndpointPlan, Secret};
use aiperf_core::ticket::Uuid;
use aiperf_core::url::BaseUrl;
use aiperf_os::mono_ns;
use bytes::Bytes;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::endpoint::test_plan;
use crate::wire::Socket;
use crate::{Client, Counters, Outgoing};

const BODY: &[u8] = br#"{"messages":[]}"#;
const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

fn plan() -> EndpointPlan {
    let mut plan = test_plan(EndpointKind::Chat);
    plan.streaming = true;
    plan
}

fn outgoing() -> Outgoing {
    Outgoing {
        body: Bytes::from_static(BODY),
        request_id: Uuid::from_random(1),
        correlation_id: Uuid::from_random(2),
    }
}

async fn listener() -> (TcpListener, BaseUrl) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    (listener, BaseUrl::parse(&url).expect("a URL"))
}

fn client(plan: &EndpointPlan, url: &BaseUrl) -> Client {
    Client::new(plan, url, None).expect("a client")
}

async fn exchange(client: &Client) -> Exchange {
    client.exchange(outgoing(), pending()).await
}

/// Reads one request; its bytes, or `None` when the client has gone.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut got = Vec::new();
    while !got.ends_with(BODY) {
        match stream.read_buf(&mut got).await {
            Ok(n) if n > 0 => {}
            _ => return None,
        }
    }
    Some(got)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().await.expect("a connection");
    stream.set_nodelay(true).expect("a live socket");
    stream
}

/// Accepts one connection, reads one request, sends `answer` and closes.
async fn answer_once(listener: &TcpListener, answer: &[u8]) -> Vec<u8> {
    let mut stream = accept(listener).await;
    let got = request(&mut stream).await.expect("a request");
    stream.write_all(answer).await.expect("the client reads");
    got
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).expect("a live socket");
    drop(stream);
}

fn failed(exchange: &Exchange) -> &Failure {
    match &exchange.disposition {
        Disposition::Failed(failure) => failure,
        other => panic!("not failed: {other:?}"),
    }
}

/// Answers `answer` with a fresh client and connection; what the client made of it.
async fn answered(answer: &[u8]) -> Exchange {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let (exchange, _) = tokio::join!(exchange(&client), answer_once(&listener, answer));
    check_stamps(&exchange);
    exchange
}

/// What holds for every exchange: stamps in order, marks growing, counts that agree.
fn check_stamps(e: &Exchange) {
    let s = &e.stamps;
    let spans = [s.dns_ns, s.tcp_ns, s.tls_ns].into_iter().flatten().flat_map(|(a, b)| [a, b]);
    let points = [s.send_start_ns, s.send_end_ns, s.headers_ns, s.first_byte_ns, s.last_byte_ns];
    let all: Vec<u64> = std::iter::once(s.start_ns)
        .chain(spans)
        .chain(points.into_iter().flatten())
        .chain([s.end_ns])
        .collect();
    assert!(all.is_sorted(), "{s:?}");
    assert!(e.reads.windows(2).all(|w| w[0].body_len < w[1].body_len && w[0].at_ns <= w[1].at_ns));
    assert_eq!(e.reads.last().map_or(0, |r| r.body_len), e.body.len());
}

#[tokio::test]
async fn a_request_has_the_reference_s_head() {
    let (listener, url) = listener().await;
    let mut plan = plan();
    plan.headers = vec![("X-oDD-case".into(), Secret::new("1"))];
    let client = client(&plan, &url);
    let (exchange, got) = tokio::join!(exchange(&client), answer_once(&listener, PLAIN.as_bytes()));
    let expected = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nUser-Agent: aiperf/{}\r\n\
         X-Request-ID: 00000000-0000-4000-8000-000000000001\r\n\
         X-Correlation-ID: 00000000-0000-4000-8000-000000000002\r\nX-oDD-case: 1\r\n\
         Accept: text/event-stream\r\nContent-Type: application/json\r\n\
         X-Session-Affinity: 00000000-0000-4000-8000-000000000002\r\nContent-Length: 15\r\n\r\n{{\"messages\":[]}}",
        url.authority(),
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(String::from_utf8_lossy(&got), expected);
    assert_eq!(exchange.bytes_sent, expected.len() as u64, "the size worked out beforehand is the size sent");
    assert!(exchange.stamps.send_end_ns.is_some());
    assert_eq!(exchange.bytes_received, PLAIN.len() as u64);
    assert_eq!((exchange.status, exchange.reason.as_str()), (Some(200), "OK"));
    assert_eq!(
        (exchange.body.as_slice(), exchange.content_type.as_deref()),
        (&b"{}"[..], Some("application/json"))
    );
    assert!(
        exchange.headers.is_empty() && exchange.stamps.tcp_ns.is_some() && exchange.stamps.dns_ns.is_none()
    );
    check_stamps(&exchange);
}

/// Serves one request on a kept connection so that its socket can be watched: `script` gets the stream and the socket.
async fn watched<F: Future<Output = ()>>(script: impl FnOnce(TcpStream, Rc<Socket>) -> F) -> Exchange {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let (socket_to, socket_from) = oneshot::channel();
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a first request");
        stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
        request(&mut stream).await.expect("a second request");
        script(stream, socket_from.await.expect("a socket")).await;
    };
    let requests = async {
        exchange(&client).await;
        let socket = Rc::clone(&client.idle_sockets()[0]);
        assert!(socket_to.send(socket).is_ok());
        exchange(&client).await
    };
    let (exchange, ()) = tokio::join!(requests, server);
    assert!(exchange.reused && exchange.stamps.tcp_ns.is_none());
    check_stamps(&exchange);
    exchange
}

/// Sends `bytes` in one write and waits until the client has read them all.
async fn send_and_see_read(
    stream: &mut TcpStream,
    socket: &Socket,
    bytes: &[u8],
    sent: &mut u64,
) -> (u64, u64) {
    let before = mono_ns();
    stream.write_all(bytes).await.expect("the client reads");
    *sent += bytes.len() as u64;
    while socket.bytes_in.get() < *sent {
        yield_now().await;
    }
    (before, mono_ns())
}

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

#[tokio::test]
async fn nobody_listening_is_a_connector_error() {
    let (listener, url) = listener().await;
    drop(listener);
    let client = client(&plan(), &url);
    let e = exchange(&client).await;
    let f = failed(&e);
    assert_eq!(
        (f.kind, f.stage, f.type_name.as_str()),
        (FailureKind::Connect, Stage::Connect, "ClientConnectorError")
    );
    assert!(f.retryable && f.message.contains(&url.authority()), "{}", f.message);
    assert_eq!(client.counters(), Counters { refused: 1, ..Counters::default() });
    check_stamps(&e);
}

#[tokio::test]
async fn a_connection_is_used_again_unless_told_otherwise() {
    for (reuse, opened) in [(ConnectionReuse::Pooled, 1), (ConnectionReuse::Never, 3)] {
        let (listener, url) = listener().await;
        let mut plan = plan();
        plan.reuse = reuse;
        let client = client(&plan, &url);
        let server = async {
            loop {
                let mut stream = accept(&listener).await;
                while request(&mut stream).await.is_some() {
                    stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
                }
            }
        };
        let requests = async {
            for _ in 0..3 {
                let e = exchange(&client).await;
                assert_eq!(e.disposition, Disposition::Finished);
                check_stamps(&e);
            }
        };
        tokio::select! { () = requests => {}, () = server => {} }
        let reused = 3 - opened;
        assert_eq!(client.counters(), Counters { opened, reused, ..Counters::default() });
    }
}

#[tokio::test]
async fn connection_close_is_obeyed() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let server = async {
        for _ in 0..2 {
            let mut stream = accept(&listener).await;
            request(&mut stream).await.expect("a request");
            stream.write_all(closing.as_bytes()).await.expect("the client reads");
            assert!(request(&mut stream).await.is_none(), "the client closes it");
        }
    };
    let requests = async {
        for _ in 0..2 {
            assert!(!exchange(&client).await.reused);
        }
    };
    tokio::join!(requests, server);
    assert_eq!(client.counters(), Counters { opened: 2, ..Counters::default() });
}

#[tokio::test]
async fn a_kept_connection_the_server_closed_is_not_used() {
    for (parting, how) in
        [(None, "closed"), (Some("HTTP/1.1 408 Request Timeout\r\n\r\n"), "talked"), (Some("reset"), "reset")]
    {
        let (listener, url) = listener().await;
        let client = client(&plan(), &url);
        let (kept_to, kept) = oneshot::channel();
        let (closed_to, closed) = oneshot::channel();
        let server = async {
            let mut stream = accept(&listener).await;
            request(&mut stream).await.expect("a request");
            stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
            kept.await.expect("the client keeps it");
            match parting {
                Some("reset") => reset(stream),
                Some(words) => {
                    stream.write_all(words.as_bytes()).await.expect("the client is there");
                    drop(stream);
                }
                None => drop(stream),
            }
            closed_to.send(()).expect("the client waits");
            answer_once(&listener, PLAIN.as_bytes()).await;
        };
        let requests = async {
            assert_eq!(exchange(&client).await.disposition, Disposition::Finished);
            assert_eq!(client.idle_sockets().len(), 1);
            kept_to.send(()).expect("the server waits");
            closed.await.expect("the server closes");
            let again = exchange(&client).await;
            assert_eq!(again.disposition, Disposition::Finished, "{how}");
            assert!(!again.reused, "{how}");
        };
        tokio::join!(requests, server);
        assert_eq!(client.counters(), Counters { opened: 2, stale: 1, ..Counters::default() }, "{how}");
    }
}

#[tokio::test]
async fn idle_connections_can_be_closed() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a request");
        stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
        assert!(request(&mut stream).await.is_none());
    };
    let requests = async {
        exchange(&client).await;
        client.close_idle();
    };
    tokio::join!(requests, server);
}

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
async fn headers_are_kept_when_asked_for() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url).keeping_headers();
    let (e, _) = tokio::join!(exchange(&client), answer_once(&listener, PLAIN.as_bytes()));
    assert_eq!(e.headers.len(), 2);
    assert_eq!(e.headers[0], ("content-type".to_owned(), "application/json".to_owned()));
    let sent = client.request_headers(Uuid::from_random(1), Uuid::from_random(2));
    assert_eq!(sent.first().map(|(n, _)| n.as_str()), Some("User-Agent"));
    assert_eq!(sent.last().map(|(n, _)| n.as_str()), Some("X-Session-Affinity"));
}

#[tokio::test]
async fn an_early_refusal_of_a_large_request_is_an_answer() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let server = async {
        let mut stream = accept(&listener).await;
        let mut some = [0; 100];
        stream.read_exact(&mut some).await.expect("a request begins");
        let refusal = b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 4\r\n\r\nbig!";
        stream.write_all(refusal).await.expect("the client reads");
        // Takes the rest, so that no reset overtakes the answer.
        while matches!(stream.read(&mut some).await, Ok(n) if n > 0) {}
    };
    let out = Outgoing { body: Bytes::from(vec![b'x'; 8 << 20]), ..outgoing() };
    let requests = async {
        let e = client.exchange(out, pending()).await;
        client.close_idle();
        e
    };
    let (e, ()) = tokio::join!(requests, server);
    assert_eq!((e.status, e.body.as_slice()), (Some(413), &b"big!"[..]));
    check_stamps(&e);
}

/// A certificate for `localhost` that signs itself, and its server.
fn certificate() -> (rcgen::CertifiedKey<rcgen::KeyPair>, Arc<rustls::ServerConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("default versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a server");
    (made, Arc::new(config))
}

async fn tls_server<S: AsyncRead + AsyncWrite + Unpin>(stream: S, config: Arc<rustls::ServerConfig>) {
    let Ok(mut stream) = tokio_rustls::TlsAcceptor::from(config).accept(stream).await else { return };
    while request(&mut stream).await.is_some() {
        stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
        stream.flush().await.expect("the client reads");
    }
}

async fn over_tls(
    config: Arc<rustls::ClientConfig>,
    server: Arc<rustls::ServerConfig>,
    host: &str,
) -> (Vec<Exchange>, Counters) {
    let (listener, url) = listener().await;
    let url = BaseUrl::parse(&format!("https://{host}:{}", url.port)).expect("a URL");
    let client = Client::new(&plan(), &url, Some(config)).expect("a client");
    let requests = async {
        let exchanges = vec![exchange(&client).await, exchange(&client).await];
        client.close_idle();
        exchanges
    };
    let serve = async {
        loop {
            tls_server(accept(&listener).await, Arc::clone(&server)).await;
        }
    };
    let exchanges = tokio::select! { e = requests => e, () = serve => unreachable!("serves for ever") };
    for e in &exchanges {
        check_stamps(e);
    }
    (exchanges, client.counters())
}

#[tokio::test]
async fn tls_trusts_its_roots_and_nobody_else() {
    let (made, server) = certificate();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let trusting = crate::tls::with_roots(roots, true).expect("a configuration");
    let (exchanges, counters) = over_tls(Arc::clone(&trusting), Arc::clone(&server), "localhost").await;
    assert!(
        exchanges.iter().all(|e| e.disposition == Disposition::Finished && e.body == b"{}"),
        "{exchanges:?}"
    );
    assert!(exchanges[0].stamps.tls_ns.is_some() && exchanges[0].stamps.dns_ns.is_some());
    assert!(exchanges[1].reused && exchanges[1].stamps.tls_ns.is_none());
    assert_eq!(exchanges[0].bytes_received, PLAIN.len() as u64, "plain text is counted");
    assert!(exchanges[0].stamps.send_end_ns.is_some());
    assert_eq!((counters.opened, counters.reused), (1, 1));

    let (exchanges, _) = over_tls(trusting, Arc::clone(&server), "127.0.0.1").await;
    let f = failed(&exchanges[0]);
    assert_eq!(
        (f.kind, f.stage, f.type_name.as_str()),
        (FailureKind::Tls, Stage::Tls, "ClientConnectorCertificateError")
    );

    let strict = crate::tls_config(&plan()).expect("a configuration");
    let (exchanges, counters) = over_tls(strict, Arc::clone(&server), "localhost").await;
    assert_eq!(failed(&exchanges[0]).type_name, "ClientConnectorCertificateError");
    assert_eq!(counters.refused, 2);

    let mut open = plan();
    open.verify_tls = false;
    let open = crate::tls_config(&open).expect("a configuration");
    let (exchanges, _) = over_tls(open, server, "localhost").await;
    assert!(exchanges.iter().all(|e| e.disposition == Disposition::Finished));
}

#[tokio::test]
async fn tls_with_a_server_that_speaks_plainly_or_hangs_up() {
    for (words, type_name) in
        [(&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "ClientConnectorSSLError"), (b"", "ClientConnectorError")]
    {
        let (listener, url) = listener().await;
        let url = BaseUrl::parse(&format!("https://localhost:{}", url.port)).expect("a URL");
        let client = Client::new(&plan(), &url, None).expect("a client");
        let server = async {
            let mut stream = accept(&listener).await;
            let mut hello = [0; 4096];
            let n = stream.read(&mut hello).await.expect("a greeting");
            assert!(n > 0);
            stream.write_all(words).await.expect("the client reads");
        };
        let (e, ()) = tokio::join!(exchange(&client), server);
        let f = failed(&e);
        assert_eq!((f.kind, f.type_name.as_str()), (FailureKind::Tls, type_name), "{}", f.message);
    }
}
