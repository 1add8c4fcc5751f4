//! Failures of the transport, as data. Type names are those of the exceptions AIPerf's users know (aiohttp's), because their
//! scripts group by them; messages are sentences without numbers that change from request to request, so equal failures add up.

use std::io;

use aiperf_core::outcome::{Failure, FailureKind, Stage};
use aiperf_core::time::ns_to_seconds;
use aiperf_os::limits::Shortage;
use rustls::{AlertDescription, CertificateError};

use crate::wire::Socket;

/// Type name of a failure for want of local ports; a report warns of it.
pub const PORT_SHORTAGE: &str = "LocalPortShortage";
/// Type name of a failure for want of descriptors; a report warns of it.
pub const DESCRIPTOR_SHORTAGE: &str = "DescriptorShortage";
/// Bytes of a proxy's own page that are told.
const PROXY_WORDS: usize = 300;

fn failure(kind: FailureKind, stage: Stage, type_name: &str, message: String, retryable: bool) -> Failure {
    Failure {
        kind,
        stage,
        code: None,
        type_name: type_name.to_owned(),
        message,
        retryable,
        server_code: None,
    }
}

/// The name has no address.
pub(crate) fn resolve(host: &str, error: &io::Error) -> Failure {
    if let Some(shortage @ (Shortage::ProcessDescriptors | Shortage::MachineDescriptors)) =
        Shortage::of(error)
    {
        return short_of(shortage, host, Stage::Resolve);
    }
    let message = format!("cannot resolve {host}: {error}");
    failure(FailureKind::Resolve, Stage::Resolve, "ClientConnectorDNSError", message, false)
}

/// No TCP connection.
pub(crate) fn connect(authority: &str, error: &io::Error) -> Failure {
    if let Some(shortage) = Shortage::of(error) {
        return short_of(shortage, authority, Stage::Connect);
    }
    let message = format!("cannot connect to {authority}: {error}");
    failure(FailureKind::Connect, Stage::Connect, "ClientConnectorError", message, true)
}

/// This side had nothing left to make a connection with.
fn short_of(shortage: Shortage, authority: &str, stage: Stage) -> Failure {
    let (type_name, message) = match shortage {
        Shortage::Ports => (
            PORT_SHORTAGE,
            format!(
                "no local port is free for another connection to {authority}: each is in use, or was so less than a minute ago; \
                 keep connections (--connection-reuse-strategy pooled), use several addresses of the server, or widen \
                 net.ipv4.ip_local_port_range"
            ),
        ),
        Shortage::ProcessDescriptors => (
            DESCRIPTOR_SHORTAGE,
            format!(
                "no descriptor is free for another connection to {authority}: this process may not have more open; raise its hard \
                 limit (ulimit -Hn), or lower the concurrency"
            ),
        ),
        Shortage::MachineDescriptors => (
            DESCRIPTOR_SHORTAGE,
            format!(
                "no descriptor is free for another connection to {authority}: this machine cannot have more open; raise fs.file-max"
            ),
        ),
    };
    failure(FailureKind::Connect, stage, type_name, message, true)
}

/// The proxy could not be connected to, or did not listen.
pub(crate) fn proxy_connection(authority: &str, error: &io::Error) -> Failure {
    let whom = format!("the proxy {authority}");
    if let Some(shortage) = Shortage::of(error) {
        return short_of(shortage, &whom, Stage::Connect);
    }
    let message = format!("cannot connect to {whom}: {error}");
    failure(FailureKind::Connect, Stage::Connect, "ClientProxyConnectionError", message, true)
}

/// The proxy opened no tunnel to `server`.
pub(crate) fn tunnel(proxy: &str, server: &str, code: Option<u16>, what: &str) -> Failure {
    let message = format!("no tunnel to {server}: the proxy {proxy} {what}");
    let retryable = code.is_none_or(|code| code >= 500 || code == 429);
    let failure = failure(FailureKind::Connect, Stage::Connect, "ClientHttpProxyError", message, retryable);
    Failure { code: code.map(i64::from), ..failure }
}

/// A status that a proxy gives of itself came in answer to a request that it was to pass on.
pub(crate) fn by_proxy(proxy: &str, code: u16, reason: &str, body: &[u8]) -> Failure {
    let said = String::from_utf8_lossy(&body[..body.len().min(PROXY_WORDS)]);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let whose = if code == 407 { "" } else { " (its own word, or the server's)" };
    let message = format!("the proxy {proxy} answered {code} {reason}{whose}: {said}");
    let message = message.trim_end_matches([':', ' ']).to_owned();
    let failure = failure(FailureKind::HttpStatus, Stage::Answer, reason, message, code != 407);
    Failure { code: Some(i64::from(code)), ..failure }
}

/// TLS was spoken, but not HTTP/2 over it.
pub(crate) fn not_http_2(authority: &str) -> Failure {
    let message =
        format!("{authority} does not speak HTTP/2 over TLS (it did not choose h2); try --http-version 1.1");
    failure(FailureKind::Protocol, Stage::Tls, "ClientConnectorError", message, false)
}

/// No TLS session. What the TLS library says is in the error's source.
pub(crate) fn tls(authority: &str, error: &io::Error) -> Failure {
    let cause = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    let (type_name, retryable) = match cause {
        Some(rustls::Error::InvalidCertificate(_)) => ("ClientConnectorCertificateError", false),
        Some(_) => ("ClientConnectorSSLError", false),
        // The peer hung up: as for AIPerf, the connection could not be made.
        None => ("ClientConnectorError", true),
    };
    let message = match cause {
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            format!(
                "no TLS session with {authority}: it does not speak the version of HTTP that was asked for (ALPN)"
            )
        }
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(other)))
            if format!("{other:?}").contains("CaUsedAsEndEntity") =>
        {
            format!(
                "no TLS session with {authority}: its certificate is an authority's own, and is trusted only where --ca-file holds it"
            )
        }
        _ => format!("no TLS session with {authority}: {error}"),
    };
    failure(FailureKind::Tls, Stage::Tls, type_name, message, retryable)
}

/// Our time limit. The message says what had not come and names the limit.
pub(crate) fn timeout(stage: Stage, timeout_ns: u64) -> Failure {
    let missing = match stage {
        Stage::Resolve => "no address",
        Stage::Connect => "no connection",
        Stage::Tls => "no TLS session",
        Stage::Send => "the request could not be sent",
        Stage::BeforeFirstByte => "no answer",
        Stage::InStream | Stage::Answer => "no end of the answer",
    };
    over(stage, missing, timeout_ns, "--request-timeout-seconds")
}

/// Our limit of one connection.
pub(crate) fn connect_timeout(stage: Stage, limit_ns: u64) -> Failure {
    let missing = match stage {
        Stage::Resolve => "no address",
        Stage::Tls => "no TLS session",
        _ => "no connection",
    };
    over(stage, missing, limit_ns, "--connect-timeout-seconds")
}

/// Our limit from the last byte out to the first content.
pub(crate) fn first_token_timeout(stage: Stage, limit_ns: u64) -> Failure {
    over(stage, "no first token after the request was sent", limit_ns, "--first-token-timeout-seconds")
}

/// Our limit between two reads of an answer.
pub(crate) fn idle_timeout(limit_ns: u64) -> Failure {
    over(Stage::InStream, "no more of the answer", limit_ns, "--idle-timeout-seconds")
}

fn over(stage: Stage, missing: &str, limit_ns: u64, option: &str) -> Failure {
    let limit = ns_to_seconds(limit_ns);
    let message = format!("timed out: {missing} within {limit} s ({option})");
    failure(FailureKind::Timeout, stage, "TimeoutError", message, true)
}

/// A request that was to be cancelled once it was sent, and never was. AIPerf's type and code.
pub(crate) fn unsent(stage: Stage, limit_ns: u64) -> Failure {
    let limit = ns_to_seconds(limit_ns);
    let message =
        format!("timed out: the request could not be sent within {limit} s, so as to be cancelled then");
    let kind = FailureKind::Timeout;
    Failure { code: Some(0), ..failure(kind, stage, "RequestSendTimeout", message, true) }
}

/// A body over the cap.
pub(crate) fn too_large(cap: usize) -> Failure {
    let message = format!("the answer is larger than {cap} bytes; the rest was not read");
    failure(FailureKind::TooLarge, Stage::InStream, "ClientPayloadError", message, false)
}

/// How far the request on `socket` came; `expected` is its size in bytes.
pub(crate) fn stage(socket: &Socket, expected: u64) -> Stage {
    if socket.bytes_in.get() > 0 {
        Stage::InStream
    } else if socket.sent_ns(expected).is_some() {
        Stage::BeforeFirstByte
    } else {
        Stage::Send
    }
}

/// The connection closed without a word of the HTTP layer.
pub(crate) fn closed(stage: Stage, in_body: bool) -> Failure {
    if in_body {
        let message = "the connection closed before the end of the answer".to_owned();
        return failure(FailureKind::Truncated, stage, "ClientPayloadError", message, true);
    }
    let (kind, message) = if stage == Stage::InStream {
        (FailureKind::Truncated, "the server closed the connection inside the head of its answer")
    } else {
        (FailureKind::Disconnected, "the server closed the connection without an answer")
    };
    failure(kind, stage, "ServerDisconnectedError", message.to_owned(), true)
}

/// What came has no head of HTTP/1.1.
pub(crate) fn not_http(what: &str) -> Failure {
    let message = format!("the answer is not HTTP/1.1: {what}");
    failure(FailureKind::Protocol, Stage::InStream, "ClientResponseError", message, false)
}

/// A body is not coded as its head says.
pub(crate) fn broken_body(what: &str) -> Failure {
    let message = format!("the body of the answer is broken: {what}");
    failure(FailureKind::Protocol, Stage::InStream, "ClientPayloadError", message, false)
}

/// The socket (or TLS) failed, before (`in_body` false) or after the head of the answer was whole.
pub(crate) fn broken(error: &io::Error, stage: Stage, in_body: bool) -> Failure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => closed(stage, in_body),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            let message = format!("the connection is broken: {error}");
            failure(FailureKind::Protocol, stage, "ClientPayloadError", message, false)
        }
        _ if in_body => {
            let message = format!("the connection broke before the end of the answer: {error}");
            failure(FailureKind::Truncated, stage, "ClientPayloadError", message, true)
        }
        _ => {
            let kind =
                if stage == Stage::InStream { FailureKind::Truncated } else { FailureKind::Disconnected };
            let message = format!("the connection broke: {error}");
            failure(kind, stage, "ClientOSError", message, true)
        }
    }
}

/// There is a connection, and no HTTP/2 on it.
pub(crate) fn no_http2(authority: &str, is_http1: bool, error: Option<h2::Error>) -> Failure {
    if is_http1 {
        let message = format!("{authority} does not speak HTTP/2: it answered its greeting in HTTP/1");
        return failure(FailureKind::Protocol, Stage::Connect, "ClientConnectorError", message, false);
    }
    let gone = error.as_ref().is_none_or(|e| e.is_io() || e.is_remote());
    let why = error.map_or_else(|| "it closed the connection".to_owned(), |e| e.to_string());
    let message = format!("no HTTP/2 with {authority}: {why}");
    let kind = if gone { FailureKind::Connect } else { FailureKind::Protocol };
    failure(kind, Stage::Connect, "ClientConnectorError", message, gone)
}

/// A request that HTTP/2 has no form for, or no stream.
pub(crate) fn unsendable(error: &h2::Error) -> Failure {
    let message = format!("the request cannot be sent over HTTP/2: {error}");
    failure(FailureKind::Protocol, Stage::Send, "ClientRequestError", message, false)
}

/// What HTTP/2 said of a stream, before (`in_body` false) or after the head of the answer was whole.
pub(crate) fn http2(error: &h2::Error, stage: Stage, in_body: bool) -> Failure {
    let reason = error.reason().map_or_else(String::new, |r| format!("{r:?}"));
    let how = if error.is_library() {
        let message = format!("the answer is not HTTP/2: {error}");
        return failure(FailureKind::Protocol, stage, "ClientResponseError", message, false);
    } else if error.is_reset() {
        format!("the server broke the stream off ({reason})")
    } else if error.is_go_away() {
        format!("the server gave the connection up ({reason})")
    } else {
        match error.get_io() {
            Some(e) if !matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe) => {
                format!("the connection broke: {e}")
            }
            _ => return closed(stage, in_body),
        }
    };
    let (kind, type_name) = match (in_body, stage) {
        (true, _) => (FailureKind::Truncated, "ClientPayloadError"),
        (false, Stage::InStream) => (FailureKind::Truncated, "ServerDisconnectedError"),
        (false, _) => (FailureKind::Disconnected, "ServerDisconnectedError"),
    };
    let before = if in_body { "before the end of the answer" } else { "without an answer" };
    failure(kind, stage, type_name, format!("{how} {before}"), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(failure: &Failure) -> (&str, FailureKind, Stage) {
        (&failure.type_name, failure.kind, failure.stage)
    }

    #[test]
    fn names_are_those_scripts_group_by() {
        let none = io::Error::other("Name or service not known");
        let f = resolve("h:80", &none);
        assert_eq!(type_of(&f), ("ClientConnectorDNSError", FailureKind::Resolve, Stage::Resolve));
        assert!(f.message.contains("h:80") && f.message.contains("not known"));
        let bad = io::Error::new(
            io::ErrorKind::InvalidData,
            rustls::Error::InvalidCertificate(rustls::CertificateError::Expired),
        );
        assert_eq!(tls("h", &bad).type_name, "ClientConnectorCertificateError");
        let alert = io::Error::new(io::ErrorKind::InvalidData, rustls::Error::DecryptError);
        assert_eq!(tls("h", &alert).type_name, "ClientConnectorSSLError");
        let hung_up = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(tls("h", &hung_up).type_name, "ClientConnectorError");
        assert_eq!(
            type_of(&closed(Stage::InStream, true)),
            ("ClientPayloadError", FailureKind::Truncated, Stage::InStream)
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_shortage_says_what_there_was_too_little_of_and_what_to_do() {
        for (kind, type_name, words) in [
            (
                io::ErrorKind::AddrNotAvailable,
                PORT_SHORTAGE,
                "no local port is free for another connection to h:80",
            ),
            (io::ErrorKind::ConnectionRefused, "ClientConnectorError", "cannot connect to h:80"),
        ] {
            let f = connect("h:80", &io::Error::from(kind));
            assert_eq!(type_of(&f), (type_name, FailureKind::Connect, Stage::Connect));
            assert!(f.message.contains(words) && f.retryable, "{}", f.message);
        }
        // EMFILE and ENFILE.
        for (code, advice) in [(24, "ulimit -Hn"), (23, "fs.file-max")] {
            let error = io::Error::from_raw_os_error(code);
            for f in [connect("h:80", &error), resolve("h:80", &error), proxy_connection("h:80", &error)] {
                assert_eq!((f.type_name.as_str(), f.kind), (DESCRIPTOR_SHORTAGE, FailureKind::Connect));
                assert!(f.message.contains(advice), "{}", f.message);
            }
        }
        let unknown = io::Error::from(io::ErrorKind::AddrNotAvailable);
        assert_eq!(resolve("h", &unknown).type_name, "ClientConnectorDNSError", "no port was wanted");
    }

    #[test]
    fn a_timeout_says_what_was_missing_and_names_the_limit() {
        for (stage, missing) in [
            (Stage::Resolve, "no address"),
            (Stage::Connect, "no connection"),
            (Stage::Tls, "no TLS session"),
            (Stage::Send, "the request could not be sent"),
            (Stage::BeforeFirstByte, "no answer"),
            (Stage::InStream, "no end of the answer"),
        ] {
            let f = timeout(stage, 1_000_000_000);
            assert_eq!(f.message, format!("timed out: {missing} within 1 s (--request-timeout-seconds)"));
            assert_eq!(type_of(&f), ("TimeoutError", FailureKind::Timeout, stage));
        }
        assert!(timeout(Stage::Send, 250_000_000).message.contains("within 0.25 s"));
    }
}
