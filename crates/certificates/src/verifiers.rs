//! Verifiers of the certificates of peers: of servers, of clients, and of any server that has the key of its certificate.
//!
//! A verifier asks the trusted certificates first, and then the TLS library. Any thread.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::certificate::Certificate;
use crate::signatures;
use crate::trusted::Trusted;

/// The treatment of the name in a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The name must be that of the server.
    Own,
    /// The name is not checked.
    Any,
}

/// Verifies the signatures of handshakes with the key of the peer's certificate, of any form, by the verifier's algorithms.
macro_rules! verify_handshakes {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            signatures::verify_tls12(message, certificate, signed, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            signatures::verify_tls13(message, certificate, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

/// Verifies the certificates of servers.
#[derive(Debug)]
pub struct Servers {
    trusted: Trusted,
    /// The TLS library's verifier; none if no certificates are trusted.
    webpki: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    names: Names,
}

impl Servers {
    /// Returns a verifier that believes the trusted certificates and those that they have signed.
    pub fn new(trusted: Trusted, provider: Arc<CryptoProvider>, names: Names) -> Self {
        let algorithms = provider.signature_verification_algorithms;
        let webpki = WebPkiServerVerifier::builder_with_provider(trusted.roots(), provider).build().ok();
        Self { trusted, webpki, algorithms, names }
    }

    /// Checks that the certificate is for this name, unless any name is accepted.
    fn check_name(&self, certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if self.names == Names::Any {
            return Ok(());
        }
        let read = Certificate::read(certificate).ok_or(CertificateError::BadEncoding)?;
        if read.has_alt_names() {
            return verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
        }
        if self.trusted.is_given() && read.is_commonly_named(name) {
            return Ok(());
        }
        let (wanted, common) = (name.to_str(), read.common_names().collect::<Vec<_>>().join(", "));
        let kind = if matches!(name, ServerName::IpAddress(_)) { "IP" } else { "DNS" };
        Err(Error::General(format!(
            "the server's certificate is not valid for name \"{wanted}\": it has no subjectAltName, and its common name is \
             \"{common}\". Have it made again with 'openssl x509 -req ... -extfile FILE', where FILE says \
             'subjectAltName={kind}:{wanted}', or name it as the server name"
        )))
    }
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(judged) = self.trusted.judge(certificate, now, &self.algorithms) {
            judged?;
            self.check_name(certificate, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let webpki = self.webpki.as_ref().ok_or(CertificateError::UnknownIssuer)?;
        // The name is checked last, after all other checks have passed.
        match webpki.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => self.check_name(certificate, name).map(|()| ServerCertVerified::assertion()),
            verified => verified.map_err(|error| explained(error, "server's")),
        }
    }

    verify_handshakes!();
}

/// Verifies the certificates of clients.
#[derive(Debug)]
pub struct Clients {
    trusted: Trusted,
    webpki: Arc<dyn ClientCertVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Clients {
    /// Returns a verifier that believes the trusted certificates and those that they have signed. With `is_optional`, clients
    /// without a certificate are accepted too.
    ///
    /// # Errors
    /// If no certificates are trusted.
    pub fn new(trusted: Trusted, provider: Arc<CryptoProvider>, is_optional: bool) -> Result<Self, String> {
        let algorithms = provider.signature_verification_algorithms;
        let builder = WebPkiClientVerifier::builder_with_provider(trusted.roots(), provider);
        let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
        let webpki = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { trusted, webpki, algorithms })
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(judged) = self.trusted.judge(certificate, now, &self.algorithms) {
            return judged.map(|()| ClientCertVerified::assertion());
        }
        let verified = self.webpki.verify_client_cert(certificate, intermediates, now);
        verified.map_err(|error| explained(error, "client's"))
    }

    verify_handshakes!();
}

/// Believes any server, as long as it has the key of its certificate.
#[derive(Debug)]
pub struct AnyServer {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyServer {
    /// Returns a verifier with the algorithms of this provider.
    pub fn new(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    verify_handshakes!();
}

/// Returns an error of the library, with the remedy if one is known.
fn explained(error: Error, whose: &str) -> Error {
    match error.to_string() {
        text if text.contains("CaUsedAsEndEntity") => Error::General(format!(
            "invalid peer certificate: CaUsedAsEndEntity: the {whose} certificate is an authority's own. Trust that very \
             certificate, or have the authority sign one that is none: openssl x509 -req -in REQUEST -CA ca.crt -CAkey ca.key \
             -extfile FILE, where FILE says 'basicConstraints=CA:FALSE'"
        )),
        _ => error,
    }
}
