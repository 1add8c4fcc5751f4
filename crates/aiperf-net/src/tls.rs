//! TLS settings: which certificates are trusted, what we show of ourselves, which HTTP is offered.

use std::path::Path;
use std::sync::Arc;

use aiperf_core::plan::{ClientCertificate, EndpointPlan, HttpVersion};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::NetError;

/// What HTTP/1.1 and HTTP/2 are called in the handshake.
const HTTP_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";

/// Whose certificates count.
enum Trust {
    /// Everybody's.
    Anyone,
    /// What these authorities signed, and the certificates that the user named themselves.
    These { roots: RootCertStore, own: Vec<CertificateDer<'static>> },
}

/// Our certificate with those that signed it, and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The TLS settings of `plan`, to be shared by all shards.
///
/// Trusted are the system's certificates (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace them), or Mozilla's built-in list where
/// the system has none, and beside them those of `ca`, of which one may also be the server's own. With `verify_tls` off every certificate is accepted. Sessions are never
/// resumed, so that each new connection costs a full handshake, as it does in AIPerf. The one HTTP that the plan speaks is the
/// only one offered.
///
/// # Errors
/// A file without a certificate or a key in it, a key of another certificate; a trust store that cannot be read.
pub fn tls_config(plan: &EndpointPlan) -> Result<Arc<ClientConfig>, NetError> {
    let mut roots = if plan.verify_tls { trusted()? } else { RootCertStore::empty() };
    let mut own = Vec::new();
    if let Some(path) = &plan.ca {
        own = certificates(path)?;
        for certificate in &own {
            roots
                .add(certificate.clone())
                .map_err(|e| pem_error(path, format!("has a certificate nobody can trust: {e}")))?;
        }
    }
    let identity = plan.client_certificate.as_ref().map(identity).transpose()?;
    let http = match plan.http {
        HttpVersion::One => HTTP_1,
        HttpVersion::Two => HTTP_2,
    };
    let trust = if plan.verify_tls { Trust::These { roots, own } } else { Trust::Anyone };
    with(trust, identity.zip(plan.client_certificate.as_ref()), http)
}

/// The same for a server that is not the one under test: certificates are always checked.
pub fn verifying_tls_config() -> Result<Arc<ClientConfig>, NetError> {
    with_roots(trusted()?)
}

/// Settings that trust `roots` alone.
pub(crate) fn with_roots(roots: RootCertStore) -> Result<Arc<ClientConfig>, NetError> {
    with(Trust::These { roots, own: Vec::new() }, None, HTTP_1)
}

fn with(
    trust: Trust,
    identity: Option<(Identity, &ClientCertificate)>,
    http: &[u8],
) -> Result<Arc<ClientConfig>, NetError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|source| NetError::Tls { source })?;
    let builder = match trust {
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
        Trust::These { roots, own } if own.is_empty() => builder.with_root_certificates(roots),
        Trust::These { roots, own } => {
            let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| NetError::Tls { source: rustls::Error::General(e.to_string()) })?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Named { chains, own }))
        }
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(((chain, key), files)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
            let certificate = files.certificate.display();
            let problem = match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!("has a key that does not fit the certificate in '{certificate}'")
                }
                error => {
                    format!("has a key that cannot be used with the certificate in '{certificate}': {error}")
                }
            };
            pem_error(&files.key, problem)
        })?,
    };
    config.alpn_protocols = vec![http.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Whether `protocol`, which a handshake ended with, is HTTP/2.
pub(crate) fn is_http_2(protocol: Option<&[u8]>) -> bool {
    protocol == Some(HTTP_2)
}

fn pem_error(path: &Path, problem: String) -> NetError {
    NetError::Pem { path: path.to_owned(), problem }
}

fn read(path: &Path) -> Result<Vec<u8>, NetError> {
    std::fs::read(path).map_err(|e| pem_error(path, format!("cannot be read: {e}")))
}

/// All certificates of a PEM file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(pem_error(
            path,
            "has no certificate in it (a section -----BEGIN CERTIFICATE-----)".to_owned(),
        )),
        Err(error) => Err(pem_error(path, format!("is not whole PEM: {error}"))),
    }
}

/// Certificate and key (PKCS #8, PKCS #1 or SEC1) of the files named.
fn identity(files: &ClientCertificate) -> Result<Identity, NetError> {
    let chain = certificates(&files.certificate)?;
    let path = &files.key;
    let text = read(path)?;
    match PrivateKeyDer::from_pem_slice(&text) {
        Ok(key) => Ok((chain, key)),
        Err(pem::Error::NoItemsFound) if memchr::memmem::find(&text, b"ENCRYPTED").is_some() => {
            Err(pem_error(path, "has a key that is encrypted; give one that is not".to_owned()))
        }
        Err(pem::Error::NoItemsFound) => Err(pem_error(
            path,
            "has no key in it (a section -----BEGIN PRIVATE KEY----- or alike)".to_owned(),
        )),
        Err(error) => Err(pem_error(path, format!("is not whole PEM: {error}"))),
    }
}

fn trusted() -> Result<RootCertStore, NetError> {
    let loaded = rustls_native_certs::load_native_certs();
    let detail = loaded.errors.first().map(ToString::to_string);
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().find(|v| std::env::var_os(v).is_some());
    choose(loaded.certs, detail, named)
}

/// The system's certificates if any can be used, else the built-in list; but a store that the user `named` by a variable is
/// never replaced silently by another.
fn choose(
    system: Vec<CertificateDer<'_>>,
    error: Option<String>,
    named: Option<&'static str>,
) -> Result<RootCertStore, NetError> {
    let mut store = RootCertStore::empty();
    let (usable, _) = store.add_parsable_certificates(system);
    match named {
        _ if usable > 0 => {}
        Some(variable) => {
            let detail = error.unwrap_or_else(|| "it is empty".to_owned());
            return Err(NetError::Roots { variable, detail });
        }
        None => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
    }
    Ok(store)
}

/// Accepts every certificate. Signatures of the handshake are still checked: that costs nothing and keeps the stream whole.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Accepts what the authorities signed, and a certificate that the user named: one that signs itself says of itself that it is an
/// authority's when it was made in the usual way (`openssl req -x509`), and no chain may end with such a one.
#[derive(Debug)]
struct Named {
    chains: Arc<WebPkiServerVerifier>,
    own: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chained =
            self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match chained {
            // What it is meant for is in question here; one that is over or of another name has an error of its own.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.own.iter().any(|named| named == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            chained => chained,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_certificate_that_is_its_own_authority_is_trusted_once_it_is_named() {
        // As `openssl req -x509` makes it.
        let made = |name: &str, last_year: i32| {
            let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            (params.not_before, params.not_after) =
                (date_time_ymd(2001, 1, 1), date_time_ymd(last_year, 1, 1));
            let key = KeyPair::generate().expect("a key");
            params.self_signed(&key).expect("a certificate").der().clone()
        };
        let verify =
            |named: &[CertificateDer<'static>], shown: &CertificateDer<'static>, name: &'static str| {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(named.iter().cloned());
                let provider = Arc::new(ring::default_provider());
                let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = Named { chains: chains.expect("a root"), own: named.to_vec() };
                let name = ServerName::try_from(name).expect("a name");
                let in_2020 = UnixTime::since_unix_epoch(Duration::from_hours(50 * 365 * 24));
                verifier.verify_server_cert(shown, &[], &name, &[], in_2020)
            };
        let (own, other, over) = (made("a.example", 2090), made("a.example", 2090), made("a.example", 2010));
        assert!(verify(from_ref(&own), &own, "a.example").is_ok());
        assert!(verify(from_ref(&other), &own, "a.example").is_err(), "another one was named");
        assert!(verify(from_ref(&own), &own, "b.example").is_err(), "it is of another name");
        assert!(verify(from_ref(&over), &over, "a.example").is_err(), "its time is over");
    }

    #[test]
    fn the_built_in_list_stands_in_only_for_nothing() {
        let made = rcgen::generate_simple_self_signed(vec!["h".to_owned()]).expect("a certificate");
        let own = vec![made.cert.der().clone()];
        assert_eq!(choose(own.clone(), None, None).expect("a store").len(), 1);
        assert_eq!(choose(own, None, Some("SSL_CERT_FILE")).expect("a store").len(), 1);
        assert!(choose(Vec::new(), None, None).expect("a store").len() > 50);
        let junk = vec![CertificateDer::from(vec![1, 2, 3])];
        let refused = choose(junk, Some("no such file".into()), Some("SSL_CERT_FILE"));
        assert!(
            matches!(refused, Err(NetError::Roots { variable: "SSL_CERT_FILE", detail }) if detail == "no such file")
        );
    }
}
