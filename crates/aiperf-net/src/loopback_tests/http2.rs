//! HTTP/2: what goes out, what is shared, what breaks, and whose stamps they are.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use aiperf_core::plan::HttpVersion;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::task::LocalSet;

use super::*;
use crate::Sticky;

type Server = h2::server::Connection<TcpStream, Bytes>;
type Reply = SendResponse<Bytes>;

fn plan_two() -> EndpointPlan {
    EndpointPlan { http: HttpVersion::Two, ..plan() }
}

/// A connection of a server that allows `streams` at a time.
async fn accept_two(listener: &TcpListener, streams: u32) -> Server {
    let stream = accept(listener).await;
    Builder::new().max_concurrent_streams(streams).handshake(stream).await.expect("a client of HTTP/2")
}

/// The next request on `server`; `None` when the client has gone. Everything else on the connection goes on meanwhile.
async fn next(server: &mut Server) -> Option<(Request<RecvStream>, Reply)> {
    server.accept().await.and_then(Result::ok)
}

async fn whole(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        all.extend_from_slice(&data);
        let _ = body.flow_control().release_capacity(data.len());
    }
    Ok(all)
}

fn head(status: u16, content_type: &str) -> Response<()> {
    let head = Response::builder().status(status).header("content-type", content_type);
    head.body(()).expect("a head")
}

fn answer(mut reply: Reply) {
    let mut stream = reply.send_response(head(200, "application/json"), false).expect("an open stream");
    stream.send_data(Bytes::from_static(b"{}"), true).expect("an open stream");
}

/// Answers everything on every connection, for ever.
async fn answer_all(listener: &TcpListener, streams: u32) {
    loop {
        let mut server = accept_two(listener, streams).await;
        tokio::task::spawn_local(async move {
            while let Some((mut request, reply)) = next(&mut server).await {
                tokio::task::spawn_local(async move {
                    if whole(request.body_mut()).await.is_ok() {
                        answer(reply);
                    }
                });
            }
        });
    }
}

/// `requests` beside a `server` that need not come to its end.
fn beside<'a, T>(
    requests: impl Future<Output = T> + 'a,
    server: impl Future<Output = ()> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(async move {
        let mut server = pin!(server);
        let mut served = false;
        let mut requests = pin!(requests);
        let both = poll_fn(|cx| {
            served = served || server.as_mut().poll(cx).is_ready();
            requests.as_mut().poll(cx)
        });
        LocalSet::new().run_until(both).await
    })
}

#[tokio::test]
async fn a_request_says_in_http2_what_it_says_in_http1() {
    let (listener, url) = listener().await;
    let mut plan = plan_two();
    plan.headers = vec![("X-oDD-case".into(), Secret::new("1")), ("Connection".into(), Secret::new("close"))];
    let client = client(&plan, &url);
    let (seen_to, seen) = oneshot::channel();
    let server = async {
        let mut server = accept_two(&listener, 10).await;
        let (mut request, reply) = next(&mut server).await.expect("a request");
        // The body comes while the connection is driven.
        let (body, _) = tokio::join!(whole(request.body_mut()), async {
            answer(reply);
            next(&mut server).await
        });
        let _ = seen_to.send((request, body.expect("a whole body")));
    };
    let requests = async {
        let e = exchange(&client).await;
        client.close_idle();
        (e, seen.await.expect("the server saw it"))
    };
    let (e, (request, body)) = beside(requests, server).await;
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/chat/completions"));
    assert_eq!(request.uri().authority().map(http::uri::Authority::as_str), Some(url.authority().as_str()));
    assert_eq!(request.uri().scheme_str(), Some("http"));
    let names: Vec<&str> = request.headers().keys().map(http::HeaderName::as_str).collect();
    assert_eq!(
        names,
        [
            "user-agent",
            "x-request-id",
            "x-correlation-id",
            "x-odd-case",
            "accept",
            "content-type",
            "x-session-affinity",
            "content-length"
        ]
    );
    assert_eq!(body, BODY);
    assert_eq!(
        (e.disposition.clone(), e.status, e.reason.as_str()),
        (Disposition::Finished, Some(200), "OK")
    );
    assert_eq!((e.body.as_slice(), e.content_type.as_deref()), (&b"{}"[..], Some("application/json")));
    assert!(e.stamps.tcp_ns.is_some() && e.stamps.send_start_ns.is_some() && e.stamps.send_end_ns.is_some());
    // Two frames each way, their heads of nine bytes, the bodies, and heads squeezed to at least a byte a field.
    assert!(e.bytes_sent > 18 + BODY.len() as u64 && e.bytes_sent < 1000, "{}", e.bytes_sent);
    assert!(e.bytes_received > 18 + 2 && e.bytes_received < 100, "{}", e.bytes_received);
    check_stamps(&e);
}

#[tokio::test]
async fn connections_are_shared_up_to_the_streams_the_server_allows() {
    for (reuse, streams, opened) in [
        (ConnectionReuse::Pooled, 100, 1),
        (ConnectionReuse::Pooled, 2, 3),
        (ConnectionReuse::Pooled, 1, 5),
        (ConnectionReuse::Never, 100, 5),
    ] {
        let (listener, url) = listener().await;
        let plan = EndpointPlan { reuse, ..plan_two() };
        let client = client(&plan, &url);
        let (arrived_to, mut arrived) = tokio::sync::mpsc::unbounded_channel();
        let server = async {
            loop {
                let mut server = accept_two(&listener, streams).await;
                let arrived_to = arrived_to.clone();
                tokio::task::spawn_local(async move {
                    while let Some((_, reply)) = next(&mut server).await {
                        let _ = arrived_to.send(reply);
                    }
                });
            }
        };
        // All five are there before any is answered.
        let answers = async {
            let mut replies = Vec::new();
            while replies.len() < 5 {
                replies.push(arrived.recv().await.expect("a request"));
            }
            replies.into_iter().for_each(answer);
        };
        let requests = async {
            let all = async {
                tokio::join!(
                    exchange(&client),
                    exchange(&client),
                    exchange(&client),
                    exchange(&client),
                    exchange(&client)
                )
            };
            let (all, ()) = tokio::join!(all, answers);
            let all = <[Exchange; 5]>::from(all);
            // All but the first wait for the connection that it makes, and then perhaps for one of their own.
            let waited = all.iter().filter(|e| e.stamps.blocked_ns.is_some()).count();
            assert_eq!(waited, if reuse == ConnectionReuse::Pooled { 4 } else { 0 });
            for e in all {
                let mut connecting = [e.stamps.blocked_ns, e.stamps.tcp_ns].into_iter().flatten().peekable();
                assert!(connecting.peek().is_some() && connecting.all(|(from, to)| from <= to));
                assert_eq!((&e.disposition, e.body.as_slice()), (&Disposition::Finished, &b"{}"[..]));
                check_stamps(&e);
            }
        };
        beside(requests, server).await;
        let counters = client.counters();
        assert_eq!(
            (counters.opened, counters.refused, counters.resent),
            (opened, 0, 0),
            "{reuse:?} {streams}"
        );
        assert_eq!(counters.reused, 5 - opened, "{reuse:?} {streams}");
    }
}

#[tokio::test]
async fn a_session_has_a_connection_of_its_own() {
    let (listener, url) = listener().await;
    let plan = EndpointPlan { reuse: ConnectionReuse::Sticky, ..plan_two() };
    let client = client(&plan, &url);
    let turn = async |session: &Rc<Sticky>| {
        let out = Outgoing { sticky: Some(Rc::clone(session)), ..outgoing() };
        client.exchange(out, pending()).await
    };
    let requests = async {
        let (one, other) = (Rc::new(Sticky::default()), Rc::new(Sticky::default()));
        for turns in 0..3 {
            for session in [&one, &other] {
                let e = turn(session).await;
                assert_eq!((e.disposition, e.reused), (Disposition::Finished, turns > 0));
            }
        }
        let out = Outgoing { sticky: Some(Rc::clone(&one)), cancel_after_ns: Some(0), ..outgoing() };
        assert!(matches!(client.exchange(out, pending()).await.disposition, Disposition::Cancelled { .. }));
        assert!(!turn(&one).await.reused && turn(&one).await.reused && turn(&other).await.reused);
    };
    beside(requests, answer_all(&listener, 10)).await;
    assert_eq!(client.counters(), Counters { opened: 3, reused: 7, ..Counters::default() });
}

/// One look at what is not otherwise waited for.
fn glance<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn what_a_stream_takes_late_has_the_stamps_of_the_reads_that_brought_it() {
    let (listener, url) = listener().await;
    let client = client(&plan_two(), &url);
    let run = async {
        let (mut one, mut other) = (pin!(exchange(&client)), pin!(exchange(&client)));
        // Until both are out; from then on nobody looks at them.
        let mut accepting = pin!(accept_two(&listener, 10));
        let mut server = loop {
            assert!(glance(&mut one).is_pending() && glance(&mut other).is_pending());
            if let Poll::Ready(server) = glance(&mut accepting) {
                break server;
            }
            yield_now().await;
        };
        let mut streams = Vec::new();
        while streams.len() < 2 {
            assert!(glance(&mut one).is_pending() && glance(&mut other).is_pending());
            if let Poll::Ready(Some((_, mut reply))) = glance(&mut pin!(next(&mut server))) {
                streams.push(reply.send_response(head(200, "text/event-stream"), false).expect("a stream"));
            }
            yield_now().await;
        }
        let socket = Rc::clone(&client.idle_sockets()[0]);
        let mut windows = Vec::new();
        for (number, words) in ["a", "b", "cc", "d"].iter().enumerate() {
            for (index, stream) in streams.iter_mut().enumerate() {
                let (before_ns, had) = (mono_ns(), socket.bytes_in.get());
                let data = format!("{words}{index}");
                let wire_len = 9 + data.len() as u64;
                stream.send_data(data.into(), number == 3).expect("an open stream");
                while socket.bytes_in.get() < had + wire_len {
                    assert!(glance(&mut pin!(next(&mut server))).is_pending());
                    yield_now().await;
                }
                windows.push((before_ns, mono_ns()));
            }
        }
        (tokio::join!(one, other), windows)
    };
    let tasks = LocalSet::new();
    let ((one, other), windows) = Box::pin(tasks.run_until(run)).await;
    for (index, e) in [one, other].iter().enumerate() {
        assert_eq!(e.body, format!("a{index}b{index}cc{index}d{index}").as_bytes());
        assert_eq!(e.disposition, Disposition::Finished);
        check_stamps(e);
        let reads: Vec<u32> = e.reads.iter().map(|r| r.body_len).collect();
        assert_eq!(reads, [2, 4, 7, 9]);
        for (number, mark) in e.reads.iter().enumerate() {
            let (from, to) = windows[number * 2 + index];
            assert!(from <= mark.at_ns && mark.read_ns() <= to, "stream {index}, chunk {number}");
        }
        assert_eq!(e.stamps.end_ns, e.reads[3].at_ns, "the end came with the last chunk");
    }
}

#[tokio::test]
async fn a_cancellation_breaks_the_stream_off_and_keeps_the_connection() {
    for size in [BODY.len(), 4 << 20] {
        let (listener, url) = listener().await;
        let client = Rc::new(client(&plan_two(), &url));
        let (ended_to, ended) = oneshot::channel();
        let server = async {
            let mut server = accept_two(&listener, 10).await;
            let (mut request, mut reply) = next(&mut server).await.expect("a request");
            let watch = async move {
                let body = whole(request.body_mut()).await;
                let reason = poll_fn(|cx| reply.poll_reset(cx)).await;
                let _ = ended_to.send((body, reason));
            };
            tokio::task::spawn_local(watch);
            while let Some((_, reply)) = next(&mut server).await {
                answer(reply);
            }
        };
        let requests = async {
            let out = Outgoing { cancel_after_ns: Some(0), body: vec![b'x'; size].into(), ..outgoing() };
            // In a task of its own, which nothing but the sending wakes.
            let alone = Rc::clone(&client);
            let cancelled = tokio::task::spawn_local(async move { alone.exchange(out, pending()).await });
            let e = cancelled.await.expect("no panic");
            (e, exchange(&client).await, ended.await.expect("the server saw it"))
        };
        let (e, after, (body, reason)) = beside(requests, server).await;
        assert!(matches!(e.disposition, Disposition::Cancelled { reason: CancelReason::Asked, .. }));
        assert!(e.stamps.send_end_ns.is_some());
        assert_eq!(body.expect("all of the body").len(), size);
        assert_eq!(reason.ok(), Some(Reason::CANCEL));
        assert_eq!((after.disposition, after.reused), (Disposition::Finished, true));
        assert_eq!(client.counters(), Counters { opened: 1, reused: 1, ..Counters::default() });
    }
}

#[tokio::test]
async fn a_refused_stream_is_sent_again_once() {
    for (resend, refusals) in [(true, 1), (true, 2), (false, 1)] {
        let (listener, url) = listener().await;
        let client = client(&EndpointPlan { resend, ..plan_two() }, &url);
        let server = async {
            let mut refused = 0;
            loop {
                let mut server = accept_two(&listener, 10).await;
                let (_, mut reply) = next(&mut server).await.expect("a request");
                if refused < refusals {
                    refused += 1;
                    reply.send_reset(Reason::REFUSED_STREAM);
                } else {
                    answer(reply);
                }
                tokio::task::spawn_local(async move { while next(&mut server).await.is_some() {} });
            }
        };
        let e = beside(exchange(&client), server).await;
        assert_eq!((e.resent, client.counters().resent), (resend, u64::from(resend)));
        if resend && refusals == 1 {
            assert_eq!((&e.disposition, e.body.as_slice()), (&Disposition::Finished, &b"{}"[..]));
        } else {
            let f = failed(&e);
            assert_eq!(
                (f.kind, f.type_name.as_str()),
                (FailureKind::Disconnected, "ServerDisconnectedError")
            );
            assert!(f.message.contains("REFUSED_STREAM"), "{}", f.message);
        }
        check_stamps(&e);
    }
}

/// A raw frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Takes a client's greeting and its first request in raw bytes, and gives the stream.
async fn raw_request(stream: &mut TcpStream) {
    stream.write_all(&frame(4, 0, 0, b"")).await.expect("the client reads");
    assert!(request(stream).await.is_some(), "a request");
}

#[tokio::test]
async fn what_a_leaving_server_did_not_take_is_sent_again() {
    let (listener, url) = listener().await;
    let client = client(&plan_two(), &url);
    let server = async {
        let mut stream = accept(&listener).await;
        raw_request(&mut stream).await;
        // No more streams, and none was looked at.
        stream.write_all(&frame(7, 0, 0, &[0; 8])).await.expect("the client reads");
        let mut server = accept_two(&listener, 10).await;
        let (_, reply) = next(&mut server).await.expect("the same request");
        answer(reply);
        while next(&mut server).await.is_some() {}
    };
    let e = beside(exchange(&client), server).await;
    assert_eq!((e.disposition, e.resent, e.reused), (Disposition::Finished, true, false));
    assert_eq!(client.counters(), Counters { opened: 2, resent: 1, ..Counters::default() });
}

#[tokio::test]
async fn what_a_leaving_server_took_is_not_sent_again() {
    let (listener, url) = listener().await;
    let client = client(&plan_two(), &url);
    let server = async {
        let mut stream = accept(&listener).await;
        raw_request(&mut stream).await;
        // No more streams behind the first, and the connection ends under it.
        stream.write_all(&frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])).await.expect("the client reads");
        drop(stream);
        accept(&listener).await;
        panic!("sent again");
    };
    let e = beside(exchange(&client), server).await;
    let f = failed(&e);
    assert_eq!((f.kind, f.stage), (FailureKind::Disconnected, Stage::BeforeFirstByte));
    assert!(!e.resent);
}

#[tokio::test]
async fn a_kept_connection_closed_under_a_request_is_replaced_once() {
    for resend in [true, false] {
        let (listener, url) = listener().await;
        let client = client(&EndpointPlan { resend, ..plan_two() }, &url);
        let server = async {
            let mut server = accept_two(&listener, 10).await;
            let (_, reply) = next(&mut server).await.expect("a first request");
            answer(reply);
            let second = next(&mut server).await.expect("a second request");
            drop((second, server));
            answer_all(&listener, 10).await;
        };
        let requests = async {
            assert_eq!(exchange(&client).await.disposition, Disposition::Finished);
            exchange(&client).await
        };
        let e = beside(requests, server).await;
        check_stamps(&e);
        if resend {
            assert_eq!((e.disposition, e.resent), (Disposition::Finished, true));
            assert_eq!(
                client.counters(),
                Counters { opened: 2, reused: 1, resent: 1, ..Counters::default() }
            );
        } else {
            assert_eq!(failed(&e).kind, FailureKind::Disconnected);
            assert_eq!(client.counters(), Counters { opened: 1, reused: 1, ..Counters::default() });
        }
    }
}

#[tokio::test]
async fn a_kept_connection_the_server_left_is_not_used() {
    for says_goodbye in [true, false] {
        let (listener, url) = listener().await;
        let client = client(&plan_two(), &url);
        let (kept_to, kept) = oneshot::channel();
        let (closed_to, closed) = oneshot::channel();
        let server = async {
            let mut server = accept_two(&listener, 10).await;
            let (_, reply) = next(&mut server).await.expect("a request");
            answer(reply);
            tokio::select! { _ = next(&mut server) => panic!("no more requests"), kept = kept => kept.expect("it is kept") }
            if says_goodbye {
                server.graceful_shutdown();
                // Ends when the client has closed its side.
                assert!(next(&mut server).await.is_none());
            }
            drop(server);
            closed_to.send(()).expect("the client waits");
            answer_all(&listener, 10).await;
        };
        let requests = async {
            assert_eq!(exchange(&client).await.disposition, Disposition::Finished);
            kept_to.send(()).expect("the server waits");
            closed.await.expect("the server closes");
            exchange(&client).await
        };
        let again = beside(requests, server).await;
        assert_eq!((again.disposition, again.reused), (Disposition::Finished, false), "{says_goodbye}");
        assert_eq!(
            client.counters(),
            Counters { opened: 2, stale: 1, ..Counters::default() },
            "{says_goodbye}"
        );
    }
}

#[tokio::test]
async fn a_server_of_http1_is_told_from_one_that_hangs_up() {
    for (words, kind, told) in [
        (&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], FailureKind::Protocol, "HTTP/1"),
        (b"", FailureKind::Connect, "no HTTP/2 with"),
        (b"SSH-2.0-something\r\n", FailureKind::Protocol, "no HTTP/2 with"),
    ] {
        let (listener, url) = listener().await;
        let client = client(&plan_two(), &url);
        let server = async {
            let mut stream = accept(&listener).await;
            let mut greeting = [0; 24];
            stream.read_exact(&mut greeting).await.expect("a greeting");
            stream.write_all(words).await.expect("the client reads");
            // Takes what comes, so that no reset overtakes the words.
            stream.shutdown().await.expect("an open socket");
            while matches!(stream.read(&mut greeting).await, Ok(n) if n > 0) {}
        };
        // Whoever waits for a connection that cannot be made shares its end.
        let requests = async { tokio::join!(exchange(&client), exchange(&client)) };
        let (one, other) = beside(requests, server).await;
        for e in [one, other] {
            let f = failed(&e);
            assert_eq!((f.kind, f.stage), (kind, Stage::Connect), "{}", f.message);
            assert!(f.message.contains(told) && f.message.contains(&url.authority()), "{}", f.message);
        }
        assert_eq!(client.counters(), Counters { refused: 1, ..Counters::default() });
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_at_the_connection_s_limit() {
    let (listener, url) = listener().await;
    let client = client(&EndpointPlan { connect_timeout_ns: Some(2_000_000_000), ..plan_two() }, &url);
    let server = async {
        let mut stream = accept(&listener).await;
        let mut greeting = [0; 24];
        stream.read_exact(&mut greeting).await.expect("a greeting");
        tokio::time::pause();
        while matches!(stream.read(&mut greeting).await, Ok(n) if n > 0) {}
    };
    let e = beside(exchange(&client), server).await;
    let f = failed(&e);
    assert_eq!((f.kind, f.stage), (FailureKind::Timeout, Stage::Connect));
    assert_eq!(f.message, "timed out: no connection within 2 s (--connect-timeout-seconds)");
}

#[tokio::test]
async fn large_bodies_go_both_ways_and_the_cap_holds() {
    let large = 24 << 20;
    for cap in [large, 1000] {
        let (listener, url) = listener().await;
        let client = client(&EndpointPlan { max_response_bytes: cap, ..plan_two() }, &url);
        let server = async {
            let mut server = accept_two(&listener, 10).await;
            while let Some((mut request, mut reply)) = next(&mut server).await {
                tokio::task::spawn_local(async move {
                    let body = whole(request.body_mut()).await.expect("a whole body");
                    let mut stream = reply.send_response(head(200, "x/y"), false).expect("a stream");
                    let _ = stream.send_data(body.into(), true);
                });
            }
        };
        let requests = async {
            let out = Outgoing { body: vec![b'x'; large].into(), ..outgoing() };
            (client.exchange(out, pending()).await, {
                let small = Outgoing { body: vec![b'y'; 10].into(), ..outgoing() };
                client.exchange(small, pending()).await
            })
        };
        let (e, after) = beside(requests, server).await;
        check_stamps(&e);
        assert!(e.bytes_sent as usize > large && e.stamps.send_end_ns.is_some());
        assert_eq!(e.body.len(), cap);
        if cap == large {
            assert_eq!(e.disposition, Disposition::Finished);
            assert!(e.bytes_received as usize > large);
        } else {
            assert_eq!(failed(&e).kind, FailureKind::TooLarge);
        }
        assert_eq!((after.disposition, after.reused, after.body.len()), (Disposition::Finished, true, 10));
    }
}

const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";

#[tokio::test]
async fn an_answer_that_breaks_off_keeps_what_came() {
    for reason in [Some(Reason::INTERNAL_ERROR), None] {
        let (listener, url) = listener().await;
        let client = client(&plan_two(), &url);
        let (told_to, told) = oneshot::channel();
        let hook = Box::new(move || told_to.send(()).expect("the server waits"));
        let server = async {
            let mut server = accept_two(&listener, 10).await;
            let (_, mut reply) = next(&mut server).await.expect("a request");
            let mut stream = reply.send_response(head(200, "text/event-stream"), false).expect("a stream");
            stream.send_data(Bytes::from_static(WORD.as_bytes()), false).expect("a stream");
            // The rest never comes.
            tokio::select! { _ = next(&mut server) => panic!("no more requests"), told = told => told.expect("a word") }
            match reason {
                Some(reason) => {
                    stream.send_reset(reason);
                    while next(&mut server).await.is_some() {}
                }
                None => drop(server),
            }
        };
        let out = Outgoing { first_content: Some(hook), ..outgoing() };
        let e = beside(client.exchange(out, pending()), server).await;
        let f = failed(&e);
        assert_eq!(
            (f.kind, f.stage, f.type_name.as_str()),
            (FailureKind::Truncated, Stage::InStream, "ClientPayloadError"),
            "{}",
            f.message
        );
        assert_eq!((e.body.as_slice(), e.status, e.resent), (WORD.as_bytes(), Some(200), false));
        check_stamps(&e);
    }
}

#[tokio::test]
async fn limits_and_first_contents_are_a_stream_s_own() {
    let (listener, url) = listener().await;
    let client = client(&EndpointPlan { idle_timeout_ns: Some(2_000_000_000), ..plan_two() }, &url);
    let told = Rc::new(std::cell::Cell::new(0));
    let hook = {
        let told = Rc::clone(&told);
        Box::new(move || told.set(told.get() + 1))
    };
    let server = async {
        let mut server = accept_two(&listener, 10).await;
        let mut streams = Vec::new();
        for _ in 0..2 {
            let (_, mut reply) = next(&mut server).await.expect("a request");
            let mut stream = reply.send_response(head(200, "text/event-stream"), false).expect("a stream");
            stream.send_data(Bytes::from_static(WORD.as_bytes()), false).expect("a stream");
            streams.push(stream);
        }
        tokio::task::spawn_local(async move { while next(&mut server).await.is_some() {} });
        tokio::time::pause();
        // One goes on, the other does not.
        for n in 0..5 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            streams[0].send_data(Bytes::from_static(WORD.as_bytes()), n == 4).expect("a stream");
            tokio::time::resume();
            for _ in 0..100 {
                yield_now().await;
            }
            tokio::time::pause();
        }
    };
    let requests = async {
        let steady = Outgoing { first_content: Some(hook), ..outgoing() };
        tokio::join!(client.exchange(steady, pending()), exchange(&client))
    };
    let (steady, silent) = beside(requests, server).await;
    assert_eq!((steady.disposition, told.get()), (Disposition::Finished, 1));
    assert_eq!(steady.body.len(), 6 * WORD.len());
    let f = failed(&silent);
    assert_eq!((f.kind, f.stage), (FailureKind::Timeout, Stage::InStream));
    assert!(f.message.contains("--idle-timeout-seconds"));
}

#[tokio::test]
async fn trailers_and_heads_alone_are_answers() {
    let (listener, url) = listener().await;
    let client = client(&plan_two(), &url).keeping_headers();
    let server = async {
        let mut server = accept_two(&listener, 10).await;
        let (_, mut reply) = next(&mut server).await.expect("a request");
        reply.send_response(head(StatusCode::NO_CONTENT.as_u16(), "x/y"), true).expect("a stream");
        let (_, mut reply) = next(&mut server).await.expect("a request");
        let mut stream = reply.send_response(head(503, "text/plain"), false).expect("a stream");
        stream.send_data(Bytes::from_static(b"busy"), false).expect("a stream");
        stream.send_trailers(HeaderMap::new()).expect("a stream");
        while next(&mut server).await.is_some() {}
    };
    let requests = async { (exchange(&client).await, exchange(&client).await) };
    let (none, busy) = beside(requests, server).await;
    assert_eq!(
        (none.disposition.clone(), none.status, none.body.len()),
        (Disposition::Finished, Some(204), 0)
    );
    assert_eq!(none.headers, [("content-type".to_owned(), "x/y".to_owned())]);
    assert_eq!(
        (busy.disposition.clone(), busy.status, busy.body.as_slice()),
        (Disposition::Finished, Some(503), &b"busy"[..])
    );
    assert_eq!(busy.reason, "Service Unavailable");
    check_stamps(&none);
    check_stamps(&busy);
}

#[tokio::test]
async fn over_tls_the_server_has_to_choose_it() {
    for (offered, speaks) in [(&b"h2"[..], true), (b"http/1.1", false)] {
        let (_, server) = super::tls::certificate();
        let mut server = rustls::ServerConfig::clone(&server);
        server.alpn_protocols = vec![offered.to_vec()];
        let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(server));
        let (listener, url) = listener().await;
        let url = BaseUrl::parse(&format!("https://localhost:{}", url.port)).expect("a URL");
        let client = client(&EndpointPlan { verify_tls: false, ..plan_two() }, &url);
        let serve = async {
            let Ok(stream) = acceptor.accept(accept(&listener).await).await else { return };
            let mut server = h2::server::handshake(stream).await.expect("a client of HTTP/2");
            while let Some(Ok((mut request, reply))) = server.accept().await {
                assert_eq!(request.uri().scheme_str(), Some("https"));
                tokio::task::spawn_local(async move {
                    whole(request.body_mut()).await.expect("a whole body");
                    answer(reply);
                });
            }
        };
        let requests = async { (exchange(&client).await, exchange(&client).await) };
        let (one, other) = if speaks {
            beside(requests, serve).await
        } else {
            let one = beside(exchange(&client), serve).await;
            (one.clone(), one)
        };
        check_stamps(&one);
        if speaks {
            assert!(one.stamps.tls_ns.is_some() && other.reused && other.stamps.tls_ns.is_none());
            assert_eq!((one.disposition, other.disposition), (Disposition::Finished, Disposition::Finished));
        } else {
            let f = failed(&one);
            assert_eq!((f.kind, f.stage), (FailureKind::Tls, Stage::Tls));
            assert!(f.message.contains("does not speak the version of HTTP"), "{}", f.message);
        }
    }
}
