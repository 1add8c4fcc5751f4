//! Ways to a server that are no plain TCP connection: Unix sockets and proxies.

use super::tls::{certificate, tls_server};
use super::*;
use crate::proxy::Proxy;

const SECRET: &str = "geheim";

/// The proxy at `url`, with user and password.
fn proxy(url: &BaseUrl) -> Proxy {
    let text = format!("http://me:{SECRET}@{}", url.authority());
    Proxy::parse(&text, "http_proxy").expect("a proxy")
}

fn through(proxy_url: &BaseUrl, server: &str) -> Client {
    let url = BaseUrl::parse(server).expect("a URL");
    let mut open = plan();
    open.verify_tls = false;
    Client::through(Some(proxy(proxy_url)), &open, &url, None).expect("a client")
}

/// Reads a head from `stream`.
async fn head(stream: &mut TcpStream) -> String {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        assert!(stream.read_buf(&mut got).await.expect("a head") > 0);
    }
    String::from_utf8(got).expect("text")
}

#[tokio::test]
async fn plain_requests_go_to_the_proxy_with_their_whole_url() {
    let (listener, url) = listener().await;
    let client = through(&url, "http://engine.invalid:8000/v1");
    let (e, got) = tokio::join!(exchange(&client), answer_once(&listener, PLAIN.as_bytes()));
    assert_eq!((&e.disposition, e.bytes_sent), (&Disposition::Finished, got.len() as u64));
    let got = String::from_utf8(got).expect("text");
    let lines: Vec<&str> = got.lines().collect();
    assert_eq!(lines[0], "POST http://engine.invalid:8000/v1/chat/completions HTTP/1.1");
    assert_eq!(lines[1], "Host: engine.invalid:8000");
    assert!(lines.contains(&"Proxy-Authorization: Basic bWU6Z2VoZWlt"), "{got}");
    check_stamps(&e);
}

#[tokio::test]
async fn a_proxy_that_does_not_pass_on_is_named_without_its_password() {
    for (answer, code, words, retryable) in [
        ("407 Proxy Authentication Required", 407, "who  are\nyou", false),
        ("502 Bad Gateway", 502, "", true),
        ("504 Gateway Timeout", 504, "late", true),
    ] {
        let (listener, url) = listener().await;
        let client = through(&url, "http://engine.invalid:8000");
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: {}\r\n\r\n{words}", words.len());
        let (e, _) = tokio::join!(exchange(&client), answer_once(&listener, answer.as_bytes()));
        let f = failed(&e);
        assert_eq!((f.kind, f.code, f.retryable), (FailureKind::HttpStatus, Some(code), retryable));
        assert!(
            f.message.starts_with(&format!("the proxy {} answered {code} ", url.authority())),
            "{}",
            f.message
        );
        assert!(!f.message.contains(SECRET) && !f.message.ends_with([':', ' ']), "{}", f.message);
        assert_eq!(f.message.contains("who are you"), code == 407, "{}", f.message);
    }
    // What the server itself answers is an answer.
    let (listener, url) = listener().await;
    let client = through(&url, "http://engine.invalid:8000");
    let own = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let (e, _) = tokio::join!(exchange(&client), answer_once(&listener, own));
    assert_eq!((e.disposition, e.status), (Disposition::Finished, Some(503)));
}

#[tokio::test]
async fn tls_goes_through_a_tunnel() {
    let (_, server) = certificate();
    let (listener, url) = listener().await;
    let client = through(&url, "https://engine.invalid/v1");
    let requests = async {
        let both = [exchange(&client).await, exchange(&client).await];
        client.close_idle();
        both
    };
    let serve = async {
        let mut stream = accept(&listener).await;
        let asked = head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
            .await
            .expect("the client reads");
        tls_server(stream, server).await;
        asked
    };
    let (both, asked) = tokio::join!(requests, serve);
    assert_eq!(
        asked,
        "CONNECT engine.invalid:443 HTTP/1.1\r\nHost: engine.invalid:443\r\n\
         Proxy-Authorization: Basic bWU6Z2VoZWlt\r\n\r\n"
    );
    for e in &both {
        assert_eq!((&e.disposition, e.body.as_slice()), (&Disposition::Finished, &b"{}"[..]));
        assert_eq!(e.bytes_received, PLAIN.len() as u64, "what opened the tunnel is not counted");
        check_stamps(e);
    }
    assert!(both[0].stamps.tls_ns.is_some() && both[1].reused);
}

#[tokio::test]
async fn a_tunnel_that_is_not_opened_is_a_failure_to_connect() {
    for (answer, code, words, retryable) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            Some(407),
            "answered 407 Proxy Authentication",
            false,
        ),
        ("HTTP/1.0 502\r\nA: b\r\n\r\n<html>", Some(502), "answered 502", true),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", Some(403), "answered 403 Forbidden", false),
        ("HTTP/1.1 200 OK\r\n\r\n!", None, "sent more than it was asked for", true),
        ("220 mail.test\r\n\r\n", None, "gave no answer of HTTP", true),
        ("HTTP/1.1 200 O", None, "gave no answer of HTTP", true),
        ("", None, "gave no answer of HTTP", true),
    ] {
        let (listener, url) = listener().await;
        let client = through(&url, "https://engine.invalid");
        let serve = async {
            let mut stream = accept(&listener).await;
            head(&mut stream).await;
            stream.write_all(answer.as_bytes()).await.expect("the client reads");
        };
        let (e, ()) = tokio::join!(exchange(&client), serve);
        let f = failed(&e);
        assert_eq!(
            (f.kind, f.stage, f.code, f.retryable),
            (FailureKind::Connect, Stage::Connect, code, retryable)
        );
        assert_eq!(f.type_name, "ClientHttpProxyError");
        let begins = format!("no tunnel to engine.invalid:443: the proxy {} {words}", url.authority());
        assert!(f.message.starts_with(&begins) && !f.message.contains(SECRET), "{}", f.message);
        assert_eq!(client.counters().refused, 1);
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_not_read_for_ever() {
    let (listener, url) = listener().await;
    let client = through(&url, "https://engine.invalid");
    let serve = async {
        let mut stream = accept(&listener).await;
        head(&mut stream).await;
        // Until the client has had enough.
        while stream.write_all(&[b'a'; 1024]).await.is_ok() {}
    };
    let (e, ()) = tokio::join!(exchange(&client), serve);
    assert!(failed(&e).message.ends_with("gave no answer of HTTP"));
}

#[tokio::test]
async fn nobody_at_the_proxys_address_names_the_proxy() {
    let (listener, url) = listener().await;
    drop(listener);
    for server in ["http://engine.invalid", "https://engine.invalid"] {
        let e = exchange(&through(&url, server)).await;
        let f = failed(&e);
        assert_eq!((f.type_name.as_str(), f.stage), ("ClientProxyConnectionError", Stage::Connect));
        assert!(
            f.message.starts_with(&format!("cannot connect to the proxy {}", url.authority())),
            "{}",
            f.message
        );
    }
}

#[test]
fn http_2_cannot_be_passed_on_in_clear() {
    let url = BaseUrl::parse("http://p:1").expect("a URL");
    let mut two = plan();
    two.http = aiperf_core::plan::HttpVersion::Two;
    let server = BaseUrl::parse("http://engine.invalid").expect("a URL");
    let error = Client::through(Some(proxy(&url)), &two, &server, None).expect_err("refused").to_string();
    assert_eq!(error, "the proxy in http_proxy passes requests to http servers on as HTTP/1.1 alone");
}

#[cfg(unix)]
mod unix {
    use tokio::net::UnixListener;

    use super::*;

    /// A client of the server at a fresh path, and that server's socket.
    fn bound(folder: &tempfile::TempDir, server: &str) -> (UnixListener, Client) {
        let path = folder.path().join("s");
        let mut plan = plan();
        plan.unix_socket = Some(path.clone());
        plan.verify_tls = false;
        let listener = UnixListener::bind(&path).expect("a free path");
        let url = BaseUrl::parse(server).expect("a URL");
        (listener, Client::new(&plan, &url, None).expect("a client"))
    }

    #[tokio::test]
    async fn requests_go_to_a_unix_socket_under_the_name_of_the_url() {
        let folder = tempfile::tempdir().expect("a folder");
        let (listener, client) = bound(&folder, "http://engine.invalid:8000/v1");
        let (kept_to, kept) = oneshot::channel();
        let server = async {
            let mut heads = Vec::new();
            let mut answer = async |stream: &mut tokio::net::UnixStream| {
                heads.push(request(stream).await.expect("a request"));
                stream.write_all(PLAIN.as_bytes()).await.expect("the client reads");
            };
            let (mut first, _) = listener.accept().await.expect("a connection");
            answer(&mut first).await;
            answer(&mut first).await;
            kept.await.expect("the client keeps it");
            drop(first);
            let (mut second, _) = listener.accept().await.expect("a connection");
            answer(&mut second).await;
            heads
        };
        let requests = async {
            let mut all = Vec::new();
            for _ in 0..2 {
                all.push(exchange(&client).await);
            }
            // The server hangs up, and that is seen before a third answer is asked for.
            let socket = Rc::clone(&client.idle_sockets()[0]);
            kept_to.send(()).expect("the server waits");
            while socket.pulse() != crate::wire::Pulse::Dead {
                yield_now().await;
            }
            all.push(exchange(&client).await);
            all
        };
        let (all, heads) = tokio::join!(requests, server);
        for e in &all {
            assert_eq!((&e.disposition, e.body.as_slice()), (&Disposition::Finished, &b"{}"[..]));
            assert!(e.stamps.dns_ns.is_none());
            check_stamps(e);
        }
        assert_eq!(all.iter().map(|e| e.reused).collect::<Vec<_>>(), [false, true, false]);
        assert!(heads[0].starts_with(b"POST /v1/chat/completions HTTP/1.1\r\nHost: engine.invalid:8000\r\n"));
        assert_eq!(client.counters(), Counters { opened: 2, reused: 1, stale: 1, ..Counters::default() });
    }

    #[tokio::test]
    async fn tls_may_be_spoken_over_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (_, server) = certificate();
        let (listener, client) = bound(&folder, "https://engine.invalid");
        let serve = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            tls_server(stream, server).await;
        };
        let requests = async {
            let e = exchange(&client).await;
            client.close_idle();
            e
        };
        let (e, ()) = tokio::join!(requests, serve);
        assert_eq!(e.disposition, Disposition::Finished);
        assert!(e.stamps.tls_ns.is_some());
        check_stamps(&e);
    }

    #[tokio::test]
    async fn a_path_where_nobody_listens_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (listener, client) = bound(&folder, "http://engine.invalid");
        drop(listener);
        let e = exchange(&client).await;
        let f = failed(&e);
        assert_eq!((f.type_name.as_str(), f.stage), ("ClientConnectorError", Stage::Connect));
        assert!(f.message.contains(&*folder.path().to_string_lossy()), "{}", f.message);
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused_at_once() {
        let mut plan = plan();
        plan.unix_socket = Some("/".repeat(500).into());
        let url = BaseUrl::parse("http://h").expect("a URL");
        let error = Client::new(&plan, &url, None).expect_err("too long");
        assert!(matches!(error, crate::NetError::UnixSocket { .. }), "{error}");
    }
}
