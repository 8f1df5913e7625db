//! What connections to other servers begin with under TLS: this server's own certificate, and whom it trusts.
//!
//! As with every server of this kind, who has a certificate that a trusted one has signed is believed, whatever name it is for:
//! primaries are named by addresses, which change hands when one fails. Any thread.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::settings;
use crate::config::Config;

/// Makes what connections to primaries begin with, as the options say now.
///
/// # Errors
/// The first file that cannot be used, or the first word that names nothing.
pub fn load(config: &Config) -> Result<Arc<ClientConfig>, String> {
    let mut provider = ring::default_provider();
    settings::restrict_suites(config, &mut provider)?;
    let provider = Arc::new(provider);
    let roots = Arc::new(settings::trusted(config)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| format!("Failed to configure CA certificate(s): {error}"))?;
    let (chain, key) = settings::own_certificate(config)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&settings::versions(config)?)
        .map_err(|error| format!("the ciphers do not fit the protocols: {error}"))?;
    builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(verifier)))
        .with_client_auth_cert(chain, key)
        .map(Arc::new)
        .map_err(|error| format!("the certificate and the key do not belong together: {error}"))
}

/// Asks who has signed a certificate and whether it is valid, and not which name it is for.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at last, when everything else was found good.
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
