//! TLS: who is trusted, and servers that do not speak it.

use std::sync::Arc;

use tokio::io::AsyncWrite;

use super::*;

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
    assert!(exchanges[0].stamps.tls_ns.is_some() && !exchanges[0].reused);
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
