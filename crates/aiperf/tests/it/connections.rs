//! Connections as servers see them: which one carried what, by which way it came, and who was at its other end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aiperf_sim::scripted::{Reply, Script, ScriptedServer};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;

use crate::bad_servers::tls;
use crate::support::{Run, Tally, scripted};

/// Sessions that each connection carried.
fn carried(server: &ScriptedServer) -> BTreeMap<usize, BTreeSet<String>> {
    let mut carried: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for request in server.requests() {
        let session = request.header("X-Correlation-ID").expect("an id").to_owned();
        carried.entry(request.connection).or_default().insert(session);
    }
    carried
}

#[test]
fn a_session_has_a_connection_of_its_own_when_it_is_sticky() {
    for pace in ["--concurrency 2", "--concurrency 3 --workers-max 2", "--request-rate 500"] {
        let server = scripted(vec![Reply::chat("a", 1, 1)]);
        let run = |reuse: &str| {
            Run::profile(&server.url())
                .args("--conversation-turn-mean 3 --conversation-turn-delay-mean 5 --num-sessions 5")
                .args(pace)
                .args(reuse)
        };
        run("--connection-reuse-strategy sticky-user-sessions").run().expect_exit(0).ends(Tally::of(15, 0));
        let carried = carried(&server);
        assert_eq!((server.connections(), carried.len()), (5, 5), "{pace}: {carried:?}");
        assert!(carried.values().all(|sessions| sessions.len() == 1), "{pace}: {carried:?}");
    }
}

#[test]
fn pooled_connections_are_shared_and_fresh_ones_are_not() {
    for (reuse, connections) in [("pooled", 1), ("never", 15)] {
        let server = scripted(vec![Reply::chat("a", 1, 1)]);
        let done = Run::profile(&server.url())
            .args("--conversation-turn-mean 3 --num-sessions 5 --concurrency 1 --connection-reuse-strategy")
            .arg(reuse)
            .run()
            .expect_exit(0)
            .ends(Tally::of(15, 0));
        assert_eq!(server.connections(), connections, "{reuse}");
        let told = done.summary()["load_health"]["phases"][0]["connections"].clone();
        assert_eq!((&told["opened"], &told["reused"]), (&connections.into(), &(15 - connections).into()));
        done.shows(&[&format!("{connections} opened, {} requests on kept ones", 15 - connections)]);
    }
}

#[test]
fn a_request_that_a_closed_connection_never_took_is_sent_again_and_counted() {
    // The second request finds a kept connection that the server closes without a word.
    let server = || {
        let reply = |index| if index == 1 { Reply::close_before_answer() } else { Reply::chat("a", 1, 1) };
        Script::by_request(move |seen| reply(seen.index)).start().expect("it listens")
    };
    let seen = server();
    let done = Run::profile(&seen.url()).args("--request-count 3").run().expect_exit(0);
    let done = done.ends(Tally::of(3, 0)).shows(&["1 request sent again"]);
    assert_eq!(done.summary()["load_health"]["phases"][0]["connections"]["resent"], 1);
    let ids: Vec<_> = seen.requests().iter().map(|r| r.header("X-Request-ID").map(str::to_owned)).collect();
    assert_eq!((ids.len(), &ids[1]), (4, &ids[2]), "{ids:?}");
    assert_eq!(seen.connections(), 2);

    let seen = server();
    let done = Run::profile(&seen.url()).args("--request-count 3 --no-resend").run().expect_exit(0);
    let done = done.ends(Tally::of(2, 1));
    assert_eq!(done.summary()["load_health"]["phases"][0]["connections"]["resent"], 0);
    assert_eq!(seen.requests().len(), 3);
}

#[test]
fn a_server_that_closes_after_each_answer_costs_no_request() {
    let server = scripted(vec![Reply::chat("a", 1, 1).close()]);
    let done = Run::profile(&server.url()).args("--request-count 6").run().expect_exit(0);
    done.ends(Tally::of(6, 0));
    assert_eq!((server.requests().len(), server.connections()), (6, 6));
}

#[cfg(unix)]
#[test]
fn a_unix_socket_leads_to_the_server() {
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let run = Run::profile("http://model.example/base").args("--unix-socket front.sock --request-count 4");
    let listener = std::os::unix::net::UnixListener::bind(run.home().join("front.sock")).expect("a socket");
    let to = server.addr();
    // It ends with the test's process.
    std::thread::spawn(move || {
        for front in listener.incoming().flatten() {
            let back = std::net::TcpStream::connect(to).expect("the server listens");
            let (mut f, mut b) = (front.try_clone().expect("a clone"), back.try_clone().expect("a clone"));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut f, &mut b);
                let _ = b.shutdown(std::net::Shutdown::Write);
            });
            let (mut front, mut back) = (front, back);
            std::thread::spawn(move || std::io::copy(&mut back, &mut front));
        }
    });
    run.run().expect_exit(0).ends(Tally::of(4, 0));
    let seen = server.requests();
    assert_eq!((seen.len(), server.connections()), (4, 1));
    for request in seen {
        assert_eq!(request.header("Host"), Some("model.example"));
        assert_eq!(request.path, "/base/v1/chat/completions");
    }
}

#[test]
fn a_proxy_of_the_environment_is_used_on_request_alone() {
    let proxy = scripted(vec![Reply::chat("by proxy", 1, 1)]);
    let server = scripted(vec![Reply::chat("a", 1, 1)]);
    let run = |url: &str, args: &str| {
        Run::profile(url).args("--request-count 3").args(args).env("HTTP_PROXY", &proxy.url())
    };
    run("http://model.invalid:9", "--proxy-from-env").run().expect_exit(0).ends(Tally::of(3, 0));
    let seen = proxy.requests();
    assert_eq!((seen.len(), proxy.connections()), (3, 1));
    for request in seen {
        assert_eq!(request.path, "http://model.invalid:9/v1/chat/completions");
        assert_eq!(request.header("Host"), Some("model.invalid:9"));
    }
    run(&server.url(), "").run().expect_exit(0).ends(Tally::of(3, 0));
    let excepted = run(&server.url(), "--proxy-from-env").env("NO_PROXY", "127.0.0.1");
    excepted.run().expect_exit(0).ends(Tally::of(3, 0));
    assert_eq!((server.requests().len(), proxy.requests().len()), (6, 3));
}

#[test]
fn a_client_shows_its_certificate_to_a_server_that_asks() {
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::new()).expect("no names");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = ca.self_signed(&ca_key).expect("a root");
    let ca_pem = root.pem();
    let issuer = Issuer::new(ca, ca_key);
    let signed = |name: &str, usage: ExtendedKeyUsagePurpose| {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a good name");
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &issuer).expect("a certificate"), key)
    };
    let (server_cert, server_key) = signed("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
    let (client_cert, client_key) = signed("client", ExtendedKeyUsagePurpose::ClientAuth);

    let mut trusted = RootCertStore::empty();
    trusted.add(root.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), Arc::clone(&provider));
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("default versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(
            vec![server_cert.der().clone()],
            PrivateKeyDer::try_from(server_key.serialize_der()).expect("a private key"),
        )
        .expect("a key that fits");
    let addr = tls::server_of(config, |_| Reply::chat("a", 1, 1));
    let run = || {
        Run::profile(&format!("https://{addr}"))
            .args("--request-count 3 --ca-file ca.pem")
            .file("ca.pem", &ca_pem)
            .file("cert.pem", client_cert.pem())
            .file("key.pem", client_key.serialize_pem())
            .file("both.pem", client_cert.pem() + &client_key.serialize_pem())
    };
    run().args("--client-cert cert.pem --client-key key.pem").run().expect_exit(0).ends(Tally::of(3, 0));
    run().args("--client-cert both.pem").run().expect_exit(0).ends(Tally::of(3, 0));
    run().run().expect_exit(1).ends(Tally::of(0, 3));
}
