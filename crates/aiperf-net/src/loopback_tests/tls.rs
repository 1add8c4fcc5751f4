//! TLS: who is trusted, and servers that do not speak it.

use std::sync::Arc;

use tokio::io::AsyncWrite;

use super::*;

/// A certificate for `localhost` that signs itself, and its server.
pub(super) fn certificate() -> (rcgen::CertifiedKey<rcgen::KeyPair>, Arc<rustls::ServerConfig>) {
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

pub(super) async fn tls_server<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    config: Arc<rustls::ServerConfig>,
) {
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
    let trusting = crate::tls::with_roots(roots).expect("a configuration");
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

/// `contents` in a file.
fn file(folder: &tempfile::TempDir, name: &str, contents: &str) -> std::path::PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, contents).expect("room");
    path
}

fn self_signed(name: &str) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate")
}

/// The same key in the form of SEC 1, which PKCS #8 wraps.
fn sec1(key: &rcgen::KeyPair) -> String {
    let der = key.serialize_der();
    // Version 1 and the 32 bytes of the key follow the head of the inner sequence.
    let inner = der.windows(5).position(|w| w == [2, 1, 1, 4, 32]).expect("a key") - 2;
    let base64 = crate::headers::base64(&der[inner..]);
    format!("-----BEGIN EC PRIVATE KEY-----\n{base64}\n-----END EC PRIVATE KEY-----\n")
}

#[tokio::test]
async fn a_ca_of_our_own_and_a_certificate_of_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server_cert, own) = (self_signed("localhost"), self_signed("client.test"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .expect("a verifier");
    let key =
        rustls::pki_types::PrivateKeyDer::try_from(server_cert.signing_key.serialize_der()).expect("a key");
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("default versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server_cert.cert.der().clone()], key)
        .expect("a server");
    let server = Arc::new(server);

    let mut known = plan();
    known.ca = Some(file(&folder, "ca.pem", &format!("# ours\n{}", server_cert.cert.pem())));
    let anonymous = crate::tls_config(&known).expect("a configuration");
    let (exchanges, _) = over_tls(anonymous, Arc::clone(&server), "localhost").await;
    assert!(matches!(exchanges[0].disposition, Disposition::Failed(_)), "who we are is asked for");

    let pkcs8 = own.signing_key.serialize_pem();
    for key in [pkcs8, sec1(&own.signing_key)] {
        let mut shown = known.clone();
        let both = file(&folder, "both.pem", &format!("{}{key}", own.cert.pem()));
        let ours = aiperf_core::plan::ClientCertificate { certificate: both.clone(), key: both };
        shown.client_certificate = Some(ours);
        let config = crate::tls_config(&shown).expect("a configuration");
        let (exchanges, _) = over_tls(config, Arc::clone(&server), "localhost").await;
        assert!(exchanges.iter().all(|e| e.disposition == Disposition::Finished), "{exchanges:?}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (self_signed("one.test"), self_signed("other.test"));
    let certificate = one.cert.pem();
    let key = one.signing_key.serialize_pem();
    let cut = &certificate[..certificate.len() / 2];
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let sealed = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let no_file = folder.path().join("missing");
    let at = |name: &str, text: &str| file(&folder, name, text);
    let good = at("good.pem", &certificate);
    let ca = |path: &std::path::Path| {
        let mut plan = plan();
        plan.ca = Some(path.to_owned());
        crate::tls_config(&plan)
    };
    let ours = |certificate: &std::path::Path, key: &std::path::Path| {
        let mut plan = plan();
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        plan.client_certificate = Some(aiperf_core::plan::ClientCertificate { certificate, key });
        crate::tls_config(&plan)
    };
    assert!(ca(&good).is_ok() && ours(&good, &at("key.pem", &key)).is_ok());
    let cases = [
        (ca(&no_file), "missing", "cannot be read"),
        (ca(&at("empty.pem", "")), "empty.pem", "has no certificate in it"),
        (ca(&at("key-only.pem", &key)), "key-only.pem", "has no certificate in it"),
        (ca(&at("cut.pem", cut)), "cut.pem", "is not whole PEM"),
        (ca(&at("junk.pem", junk)), "junk.pem", "has a certificate nobody can trust"),
        (ours(&no_file, &good), "missing", "cannot be read"),
        (ours(&good, &no_file), "missing", "cannot be read"),
        (ours(&good, &good), "good.pem", "has no key in it"),
        (ours(&good, &at("sealed.pem", sealed)), "sealed.pem", "is encrypted"),
        (
            ours(&good, &at("other.pem", &other.signing_key.serialize_pem())),
            "other.pem",
            "has a key that does not fit the certificate in",
        ),
    ];
    for (made, name, words) in cases {
        let error = made.expect_err(name);
        assert!(matches!(&error, crate::NetError::Pem { path, .. } if path.ends_with(name)), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_choose_http_2_is_told_apart() {
    let (_, server) = certificate();
    let mut two = plan();
    two.http = aiperf_core::plan::HttpVersion::Two;
    two.verify_tls = false;
    let (listener, url) = listener().await;
    let url = BaseUrl::parse(&format!("https://localhost:{}", url.port)).expect("a URL");
    let client = Client::new(&two, &url, None).expect("a client");
    let serve = async {
        tls_server(accept(&listener).await, server).await;
    };
    let (e, ()) = tokio::join!(exchange(&client), serve);
    let f = failed(&e);
    assert_eq!((f.kind, f.stage), (FailureKind::Protocol, Stage::Tls));
    assert!(f.message.contains("does not speak HTTP/2 over TLS"), "{}", f.message);
}
