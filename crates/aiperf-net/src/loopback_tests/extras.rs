//! What a request may ask for beside an answer: to be cancelled, to keep its session's connection, to tell of its first content;
//! and the one thing that is sent twice.

use std::cell::Cell;
use std::time::Duration;

use super::*;
use crate::Sticky;

/// A request of `size` bytes of body, which ends as every other does.
fn large(size: usize) -> Outgoing {
    let mut body = vec![b' '; size - BODY.len()];
    body.extend_from_slice(BODY);
    Outgoing { body: Bytes::from(body), ..outgoing() }
}

#[tokio::test]
async fn a_cancellation_at_once_leaves_the_server_the_whole_request() {
    // The last one is larger than what the kernel takes without the server reading.
    for size in [BODY.len(), 100_000, 32 << 20] {
        let (listener, url) = listener().await;
        let client = client(&plan(), &url);
        let out = Outgoing { cancel_after_ns: Some(0), ..large(size) };
        let server = async {
            let mut stream = accept(&listener).await;
            let got = request(&mut stream).await.expect("the whole request");
            (got, request(&mut stream).await)
        };
        let (e, (got, gone)) = tokio::join!(client.exchange(out, pending()), server);
        let Disposition::Cancelled { reason: CancelReason::Asked, at_ns } = e.disposition else {
            panic!("not cancelled: {:?}", e.disposition)
        };
        assert!(e.stamps.send_end_ns.is_some_and(|sent| sent <= at_ns) && at_ns == e.stamps.end_ns);
        assert_eq!(got.len() as u64, e.bytes_sent);
        assert!(gone.is_none() && client.idle_sockets().is_empty(), "the connection is dropped");
        check_stamps(&e);
    }
}

#[tokio::test]
async fn a_cancellation_waits_for_its_time_and_not_for_an_answer() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let out = Outgoing { cancel_after_ns: Some(2_000_000_000), ..outgoing() };
    let began = tokio::time::Instant::now();
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a request");
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
        stream.write_all(head).await.expect("the client reads");
        // Nothing will happen any more but the clock: let it run on by itself.
        tokio::time::pause();
        assert!(request(&mut stream).await.is_none());
    };
    let (e, ()) = tokio::join!(client.exchange(out, pending()), server);
    assert!(matches!(e.disposition, Disposition::Cancelled { reason: CancelReason::Asked, .. }));
    assert_eq!((e.body.as_slice(), e.status), (&b"abc"[..], Some(200)), "what came is kept");
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "the clock is virtual: two seconds, not the limit of ten"
    );
}

#[tokio::test]
async fn an_answer_before_the_cancellation_is_an_answer() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let out = Outgoing { cancel_after_ns: Some(60_000_000_000), ..outgoing() };
    let (e, _) = tokio::join!(client.exchange(out, pending()), answer_once(&listener, PLAIN.as_bytes()));
    assert_eq!((e.disposition, e.body.as_slice()), (Disposition::Finished, &b"{}"[..]));
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_cancelled_but_fails() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let out = Outgoing { cancel_after_ns: Some(0), ..large(64 << 20) };
    let server = async {
        let stream = accept(&listener).await;
        let mut first = [0];
        while stream.peek(&mut first).await.expect("a request begins") == 0 {}
        tokio::time::pause();
        stream
    };
    let (e, _held) = tokio::join!(client.exchange(out, pending()), server);
    let f = failed(&e);
    assert_eq!(
        (f.kind, f.stage, f.code, f.type_name.as_str()),
        (FailureKind::Timeout, Stage::Send, Some(0), "RequestSendTimeout")
    );
    assert!(f.message.contains("within 10 s"), "{}", f.message);
}

#[tokio::test]
async fn a_session_keeps_its_connection_and_shares_it_with_nobody() {
    let (listener, url) = listener().await;
    let mut plan = plan();
    plan.reuse = ConnectionReuse::Sticky;
    let client = client(&plan, &url);
    let turn = async |session: &Rc<Sticky>| {
        let out = Outgoing { sticky: Some(Rc::clone(session)), ..outgoing() };
        client.exchange(out, pending()).await
    };
    let served = Cell::new(0);
    let serve = async {
        let mut streams = tokio::task::JoinSet::new();
        let (ended_to, mut ended) = tokio::sync::mpsc::unbounded_channel();
        loop {
            let mut stream = tokio::select! {
                stream = accept(&listener) => stream,
                Some(requests) = ended.recv() => { served.set(served.get() + requests); continue }
            };
            let ended_to = ended_to.clone();
            streams.spawn(async move {
                let mut requests = 0;
                while request(&mut stream).await.is_some() {
                    requests += 1;
                    // Who cancels is not there any more.
                    let _ = stream.write_all(PLAIN.as_bytes()).await;
                }
                ended_to.send(requests)
            });
        }
    };
    let requests = async {
        let (one, other) = (Rc::new(Sticky::default()), Rc::new(Sticky::default()));
        for turns in 0..3 {
            for session in [&one, &other] {
                let e = turn(session).await;
                assert_eq!((e.disposition, e.reused), (Disposition::Finished, turns > 0));
            }
        }
        // Without a session there is nothing to keep.
        assert!(!exchange(&client).await.reused && !exchange(&client).await.reused);
        assert!(client.idle_sockets().is_empty(), "nobody else may take them");
        // Cancelled, its connection is gone; the next turn has a fresh one.
        let out = Outgoing { sticky: Some(Rc::clone(&one)), cancel_after_ns: Some(0), ..outgoing() };
        assert!(matches!(client.exchange(out, pending()).await.disposition, Disposition::Cancelled { .. }));
        assert!(!turn(&one).await.reused && turn(&one).await.reused && turn(&other).await.reused);
        drop((one, other));
        while served.get() < 12 {
            yield_now().await;
        }
    };
    tokio::select! { () = requests => {}, () = serve => unreachable!("serves for ever") }
    assert_eq!(client.counters(), Counters { opened: 5, reused: 7, ..Counters::default() });
    assert_eq!(served.get(), 12, "every connection was closed, with all of its requests served");
}

/// A server that closes a kept connection once it has read a request on it, by `close`, and answers on the next one.
async fn race(plan: &EndpointPlan, close: fn(TcpStream), answer: &[u8]) -> (Exchange, Counters) {
    // However slow this machine is, what is closed at once is sent again.
    race_within(u64::MAX, plan, close, answer).await
}

/// As [`race`], by a client that sends again only what is closed within `ns`.
async fn race_within(
    ns: u64,
    plan: &EndpointPlan,
    close: fn(TcpStream),
    answer: &[u8],
) -> (Exchange, Counters) {
    let (listener, url) = listener().await;
    let client = client(plan, &url).resending_within(ns);
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a first request");
        stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
        request(&mut stream).await.expect("a second request");
        stream.write_all(answer).await.expect("the client reads");
        close(stream);
        while plan.resend && answer.is_empty() {
            let mut stream = accept(&listener).await;
            while request(&mut stream).await.is_some() {
                stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
            }
        }
        pending::<()>().await;
    };
    let requests = async {
        exchange(&client).await;
        exchange(&client).await
    };
    let e = tokio::select! { e = requests => e, () = server => unreachable!("serves for ever") };
    check_stamps(&e);
    (e, client.counters())
}

#[tokio::test]
async fn a_kept_connection_closed_under_a_request_is_replaced_once() {
    for close in [drop::<TcpStream>, reset] {
        let (e, counters) = race(&plan(), close, b"").await;
        assert_eq!(e.disposition, Disposition::Finished);
        assert!(e.resent && !e.reused && e.body == b"{}");
        assert!(e.stamps.tcp_ns.is_some_and(|(began, _)| e.stamps.start_ns < began));
        assert_eq!(counters, Counters { opened: 2, reused: 1, resent: 1, ..Counters::default() });

        let mut never = plan();
        never.resend = false;
        let (e, counters) = race(&never, close, b"").await;
        let f = failed(&e);
        assert_eq!((f.kind, f.stage), (FailureKind::Disconnected, Stage::BeforeFirstByte));
        assert!(!e.resent && e.reused);
        assert_eq!(counters, Counters { opened: 1, reused: 1, ..Counters::default() });
    }
}

#[tokio::test]
async fn what_the_server_had_time_to_work_on_is_not_sent_again() {
    let (e, counters) = race_within(0, &plan(), drop, b"").await;
    assert_eq!(failed(&e).kind, FailureKind::Disconnected);
    assert!(!e.resent);
    assert_eq!(counters, Counters { opened: 1, reused: 1, ..Counters::default() });
}

#[tokio::test]
async fn what_was_answered_with_a_single_byte_is_not_sent_again() {
    let (e, counters) = race(&plan(), drop, b"H").await;
    let f = failed(&e);
    assert_eq!((f.kind, f.stage), (FailureKind::Truncated, Stage::InStream));
    assert!(!e.resent);
    assert_eq!(counters.resent, 0);
}

#[tokio::test]
async fn a_fresh_connection_that_closes_is_not_replaced() {
    // The first request meets it on a fresh connection, the second when it is sent again.
    for kept in [false, true] {
        let (listener, url) = listener().await;
        let client = client(&plan(), &url);
        let server = async {
            if kept {
                let mut stream = accept(&listener).await;
                request(&mut stream).await.expect("a first request");
                stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
                request(&mut stream).await.expect("a second request");
            }
            answer_once(&listener, b"").await;
            // Whoever comes now would have been sent once too often.
            accept(&listener).await;
        };
        let requests = async {
            if kept {
                exchange(&client).await;
            }
            exchange(&client).await
        };
        let e = tokio::select! { e = requests => e, () = server => panic!("sent once too often") };
        assert_eq!(failed(&e).kind, FailureKind::Disconnected);
        assert_eq!((e.resent, client.counters().resent), (kept, u64::from(kept)));
    }
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// An event of a chat with `delta`, as a chunk.
fn event(delta: &str) -> String {
    chunk(&format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{{delta}}}}}]}}\n\n"))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn the_first_content_is_told_once_when_it_is_there() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url);
    let told = Rc::new(Cell::new(0));
    let hook = {
        let told = Rc::clone(&told);
        Box::new(move || told.set(told.get() + 1))
    };
    let (socket_to, socket_from) = oneshot::channel::<Rc<Socket>>();
    let server = async {
        let mut stream = accept(&listener).await;
        request(&mut stream).await.expect("a first request");
        stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
        let socket = socket_from.await.expect("a socket");
        request(&mut stream).await.expect("a second request");
        let mut sent = 0;
        let content = event("\"content\":\"a\"");
        let (first, rest) = content.split_at(40);
        let silent = [
            STREAM.to_owned(),
            chunk(": hello\n\n"),
            event("\"role\":\"assistant\",\"content\":\"\""),
            chunk("data: {\"choices\":[],\"usage\":{\"completion_tokens\":0}}\n\n"),
            first.to_owned(),
        ];
        for bytes in silent {
            send_and_see_read(&mut stream, &socket, bytes.as_bytes(), &mut sent).await;
            assert_eq!(told.get(), 0, "{bytes}");
        }
        for bytes in [rest.to_owned(), event("\"content\":\"b\""), "0\r\n\r\n".to_owned()] {
            send_and_see_read(&mut stream, &socket, bytes.as_bytes(), &mut sent).await;
            assert_eq!(told.get(), 1, "{bytes}");
        }
    };
    let requests = async {
        exchange(&client).await;
        assert!(socket_to.send(Rc::clone(&client.idle_sockets()[0])).is_ok());
        client.exchange(Outgoing { first_content: Some(hook), ..outgoing() }, pending()).await
    };
    let (e, ()) = tokio::join!(requests, server);
    assert_eq!((e.disposition, told.get()), (Disposition::Finished, 1));
}

#[tokio::test]
async fn no_first_content_is_told_of_what_is_no_stream_or_no_success() {
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    for head in ["200 OK\r\nContent-Type: application/json", "500 Oh\r\nContent-Type: text/event-stream"] {
        let (listener, url) = listener().await;
        let client = client(&plan(), &url);
        let told = Rc::new(Cell::new(false));
        let hook = {
            let told = Rc::clone(&told);
            Box::new(move || told.set(true))
        };
        let out = Outgoing { first_content: Some(hook), ..outgoing() };
        let answer = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{event}", event.len());
        let (e, _) = tokio::join!(client.exchange(out, pending()), answer_once(&listener, answer.as_bytes()));
        assert_eq!((e.disposition, told.get()), (Disposition::Finished, false), "{head}");
    }
}
