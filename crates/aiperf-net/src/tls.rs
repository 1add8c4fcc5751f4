//! TLS settings: which certificates are trusted.

use std::sync::Arc;

use aiperf_core::plan::EndpointPlan;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::NetError;

/// The TLS settings of `plan`, to be shared by all shards.
///
/// Trusted are the system's certificates (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace them), or Mozilla's built-in list where
/// the system has none. With `verify_tls` off every certificate is accepted. Sessions are never resumed, so that each new
/// connection costs a full handshake, as it does in AIPerf.
pub fn tls_config(plan: &EndpointPlan) -> Result<Arc<ClientConfig>, NetError> {
    if plan.verify_tls { verifying_tls_config() } else { with_roots(RootCertStore::empty(), false) }
}

/// The same for a server that is not the one under test: certificates are always checked.
pub fn verifying_tls_config() -> Result<Arc<ClientConfig>, NetError> {
    with_roots(trusted()?, true)
}

/// Settings that trust `roots` alone, or everybody.
pub(crate) fn with_roots(roots: RootCertStore, verify: bool) -> Result<Arc<ClientConfig>, NetError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|source| NetError::Tls { source })?;
    let builder = if verify {
        builder.with_root_certificates(roots)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)))
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
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

#[cfg(test)]
mod tests {
    use super::*;

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
