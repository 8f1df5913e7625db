//! Checks of signatures: on a handshake, or on another certificate.
//!
//! The TLS library's own functions want a certificate that it could also verify; here the key alone counts, so that a
//! certificate of version 1 can prove that its holder has the key. The algorithms are the library's. Any thread.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, DigitallySignedStruct, Error};

use crate::certificate::Certificate;

/// Checks that the key of a certificate has signed a handshake of TLS 1.2.
pub(crate) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let read = Certificate::read(certificate);
    let (key_algorithm, key) = read.as_ref().and_then(Certificate::key_parts).ok_or(CertificateError::BadEncoding)?;
    let of_scheme = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme).flat_map(|(_, all)| *all);
    let mut fitting = of_scheme.filter(|algorithm| *algorithm.public_key_alg_id() == *key_algorithm);
    match fitting.any(|algorithm| algorithm.verify_signature(key, message, signed.signature()).is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// Verifies the signature of a TLS 1.3 handshake with the key of a certificate.
pub(crate) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let key = Certificate::read(certificate).and_then(|read| read.public_key()).ok_or(CertificateError::BadEncoding)?;
    verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
}

/// Returns whether the key of `issuer` has signed a certificate.
pub(crate) fn has_signed(
    issuer: &Certificate,
    certificate: &Certificate,
    algorithms: &WebPkiSupportedAlgorithms,
) -> bool {
    let (Some((key_algorithm, key)), Some((message, algorithm, signature))) =
        (issuer.key_parts(), certificate.signature_parts())
    else {
        return false;
    };
    algorithms
        .all
        .iter()
        .filter(|known| *known.public_key_alg_id() == *key_algorithm && *known.signature_alg_id() == *algorithm)
        .any(|known| known.verify_signature(key, message, signature).is_ok())
}
