//! TLS: who is trusted, and servers that do not speak it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use aiperf_sim::scripted::{Reply, Script, Step};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{fails, run};
use crate::support::Tally;

/// A certificate for 127.0.0.1 and localhost, signed by a CA of its own.
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

pub(crate) fn identity() -> Identity {
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("no names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).expect("a root").pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().expect("a key");
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let leaf =
        CertificateParams::new(names).expect("good names").signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a private key");
    Identity { ca_pem, chain: vec![leaf.der().clone()], key }
}

/// A server that gives each request of each connection one good answer.
fn tls_server(identity: Identity) -> SocketAddr {
    tls_server_with(identity, |_| Reply::chat("good day", 3, 2))
}

/// A server that gives each request what `reply` sends for its head. Its threads end with the test's process.
pub(crate) fn tls_server_with(
    identity: Identity,
    reply: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> SocketAddr {
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("default versions")
            .with_no_client_auth()
            .with_single_cert(identity.chain, identity.key)
            .expect("a key that fits");
    server_of(config, reply)
}

/// The same of any identity, and of clients that it asks for theirs.
pub(crate) fn server_of(
    config: rustls::ServerConfig,
    reply: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> SocketAddr {
    let (config, reply) = (Arc::new(config), Arc::new(reply));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, reply) = (Arc::clone(&config), Arc::clone(&reply));
            std::thread::spawn(move || {
                let session = rustls::ServerConnection::new(config).expect("a session");
                let mut stream = rustls::StreamOwned::new(session, stream);
                // An error is a client that went away or refused us.
                while let Ok(true) = answer(&mut stream, &*reply) {}
            });
        }
    });
    addr
}

/// Reads one request and answers it; false when the client is done.
fn answer(stream: &mut (impl Read + Write), reply: &dyn Fn(&str) -> Reply) -> std::io::Result<bool> {
    let mut seen = Vec::new();
    let mut scratch = [0; 4096];
    let head = loop {
        let n = stream.read(&mut scratch)?;
        if n == 0 {
            return Ok(false);
        }
        seen.extend_from_slice(&scratch[..n]);
        let text = String::from_utf8_lossy(&seen);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break head.to_owned();
        }
    };
    for step in reply(&head).steps() {
        if let Step::Send(bytes) = step {
            stream.write_all(bytes)?;
        }
    }
    stream.flush()?;
    Ok(true)
}

#[test]
fn a_server_that_speaks_plainly() {
    // Closed both ways it would reset the client's greeting, which is another failure.
    let greeting = Reply::new().send("HTTP/1.1 400 Bad Request\r\n\r\n").half_close();
    let server = Script::new(Vec::new()).on_connect(greeting).start().expect("it listens");
    let https = format!("https://{}", server.addr());
    fails(run(&https), "ClientConnectorSSLError", &[&format!("no TLS session with {}", server.addr())]);
}

#[test]
fn a_certificate_is_checked_unless_the_user_says_otherwise() {
    let identity = identity();
    let ca_pem = identity.ca_pem.clone();
    let addr = tls_server(identity);
    let https = format!("https://{addr}");

    fails(run(&https), "ClientConnectorCertificateError", &["no TLS session with", "UnknownIssuer"]);

    let trusting = run(&https).file("ca.pem", &ca_pem).env("SSL_CERT_FILE", "ca.pem");
    trusting.run().expect_exit(0).ends(Tally::of(3, 0));

    let open = run(&https).env("AIPERF_HTTP_SSL_VERIFY", "false").run();
    open.expect_exit(0)
        .says(&["AIPERF_HTTP_SSL_VERIFY=false", "certificate checks off", "the server is not authenticated"])
        .ends(Tally::of(3, 0));
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let mut identity = identity();
    let made = rcgen::generate_simple_self_signed(vec!["other.example".to_owned()]).expect("a certificate");
    identity.chain = vec![made.cert.der().clone()];
    identity.key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    identity.ca_pem = made.cert.pem();
    let ca_pem = identity.ca_pem.clone();
    let addr = tls_server(identity);
    let run = run(&format!("https://{addr}")).file("ca.pem", ca_pem).env("SSL_CERT_FILE", "ca.pem");
    fails(run, "ClientConnectorCertificateError", &["no TLS session with"]);
}
