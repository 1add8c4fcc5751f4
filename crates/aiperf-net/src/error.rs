//! What makes a run against a server impossible before the first request. Failures of requests are data, not errors.

use std::path::PathBuf;

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// A response field that cannot be compiled.
    #[error(transparent)]
    Answer(#[from] crate::EncodeError),
    /// A header's name has characters that HTTP does not allow.
    #[error("header name '{name}' has a character that HTTP does not allow in names")]
    HeaderName {
        /// The name.
        name: String,
    },
    /// A header that only the transport can set.
    #[error("header '{name}' is set by the transport and cannot be given")]
    HeaderReserved {
        /// The name.
        name: String,
    },
    /// A header's value has a line end or another control character. The value may be a secret and is not told.
    #[error("the value of header '{name}' has a control character in it (a line end, perhaps)")]
    HeaderValue {
        /// The header's name.
        name: String,
    },
    /// A host that no certificate can be checked for.
    #[error("'{host}' is not a host name that TLS can be spoken with")]
    HostName {
        /// The host.
        host: String,
    },
    /// A PEM file that cannot be used.
    #[error("'{}' {problem}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, as the rest of a sentence.
        problem: String,
    },
    /// A proxy of the environment that cannot be spoken to. Its URL may hold a password and is not told.
    #[error("the proxy in {variable} {problem}")]
    Proxy {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it, as the rest of a sentence.
        problem: String,
    },
    /// The trust store named by `SSL_CERT_FILE` or `SSL_CERT_DIR` has no certificate that can be used.
    #[error("no usable certificate in the trust store named by {variable}: {detail}")]
    Roots {
        /// The variable.
        variable: &'static str,
        /// What went wrong.
        detail: String,
    },
    /// The simulated server has to be started first and replaced by its address.
    #[error("a sim:// address has no socket; start the simulated server and use its own address")]
    SimAddress,
    /// A path that has no place in a request line.
    #[error("'{target}' cannot stand in a request line")]
    Target {
        /// Path and query.
        target: String,
    },
    /// The TLS library refused the configuration.
    #[error("TLS cannot be set up")]
    Tls {
        /// What it said.
        #[source]
        source: rustls::Error,
    },
    /// A path that no Unix socket can have, or a system that has none.
    #[error("'{}' cannot be connected to as a Unix socket: {problem}", path.display())]
    UnixSocket {
        /// The path.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
}
