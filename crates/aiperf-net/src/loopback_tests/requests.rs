//! What goes out.

use super::*;

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

#[tokio::test]
async fn headers_are_kept_when_asked_for() {
    let (listener, url) = listener().await;
    let client = client(&plan(), &url).keeping_headers();
    let (e, _) = tokio::join!(exchange(&client), answer_once(&listener, PLAIN.as_bytes()));
    assert_eq!(e.headers.len(), 2);
    assert_eq!(e.headers[0], ("content-type".to_owned(), "application/json".to_owned()));
    let sent = client.request_headers(Uuid::from_random(1), &Uuid::from_random(2).into(), &Vec::new());
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

#[tokio::test]
async fn a_request_under_way_is_small() {
    let (_listener, url) = listener().await;
    let client = client(&plan(), &url);
    let size = size_of_val(&client.exchange(outgoing(), pending()));
    assert!(size <= 4096, "{size} bytes, and there may be ten thousand");
}
