//! Connections: made, kept, found dead, refused.

use super::*;

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
