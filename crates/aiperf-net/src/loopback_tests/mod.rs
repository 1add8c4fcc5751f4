//! The transport against scripted servers on loopback, in the same thread: every byte they send is in the script, and they
//! wait for what the client has read, never for time to pass.

use std::fmt::Write as _;
mod answers;
mod arrivals;
mod connections;
mod extras;
mod http2;
mod limits;
mod requests;
mod tls;
mod ways;

use std::future::{Future, pending};
use std::rc::Rc;

use aiperf_core::exchange::Exchange;
use aiperf_core::outcome::{CancelReason, Disposition, Failure, FailureKind, Stage};
use aiperf_core::plan::{ConnectionReuse, EndpointKind, EndpointPlan, Secret};
use aiperf_core::ticket::Uuid;
use aiperf_core::url::BaseUrl;
use aiperf_os::mono_ns;
use bytes::Bytes;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
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
    Outgoing::new(Bytes::from_static(BODY), Uuid::from_random(1), Uuid::from_random(2))
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
    let points =
        [s.send_start_ns, s.head_sent_ns, s.send_end_ns, s.headers_ns, s.first_byte_ns, s.last_byte_ns];
    let all: Vec<u64> = std::iter::once(s.start_ns)
        .chain(spans)
        .chain(points.into_iter().flatten())
        .chain([s.end_ns])
        .collect();
    assert!(all.is_sorted(), "{s:?}");
    assert!(e.reads.windows(2).all(|w| w[0].body_len < w[1].body_len && w[0].at_ns <= w[1].at_ns));
    assert_eq!(e.reads.last().map_or(0, |r| r.body_len as usize), e.body.len());
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
