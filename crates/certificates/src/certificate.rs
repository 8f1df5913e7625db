//! The contents of one certificate of any version: the parts that are checked without the TLS library.
//!
//! The bytes are foreign. Bytes that cannot be read are an error; nothing here panics. Any thread.

use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use x509_cert::certificate::{CertificateInner, Raw, Version};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{AnyRef, Decode, Encode, Reader, SliceReader};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// The parts of a certificate.
#[derive(Debug)]
pub(crate) struct Certificate {
    parsed: CertificateInner<Raw>,
    /// The bytes that are signed.
    signed: Vec<u8>,
}

impl Certificate {
    /// Reads a certificate; none if it cannot be read.
    pub(crate) fn read(bytes: &CertificateDer<'_>) -> Option<Self> {
        let parsed = CertificateInner::<Raw>::from_der(bytes).ok()?;
        let outer = AnyRef::from_der(bytes).ok()?;
        let signed = SliceReader::new(outer.value()).ok()?.tlv_bytes().ok()?.to_vec();
        Some(Self { parsed, signed })
    }

    /// Returns whether the certificate's version is one without extensions (1 or 2).
    pub(crate) fn is_old(&self) -> bool {
        self.parsed.tbs_certificate.version != Version::V3
    }

    /// Checks that the certificate's validity period has begun and has not ended.
    pub(crate) fn is_valid_at(&self, now: UnixTime) -> Result<(), rustls::CertificateError> {
        let validity = &self.parsed.tbs_certificate.validity;
        if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
            return Err(rustls::CertificateError::NotValidYet);
        }
        if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
            return Err(rustls::CertificateError::Expired);
        }
        Ok(())
    }

    /// Returns whether the certificate has a subjectAltName, the place of its subject's names since 2000.
    pub(crate) fn has_alt_names(&self) -> bool {
        let extensions = self.parsed.tbs_certificate.extensions.as_deref().unwrap_or_default();
        extensions.iter().any(|extension| extension.extn_id == SUBJECT_ALT_NAME)
    }

    /// Returns the common names of the certificate's subject.
    pub(crate) fn common_names(&self) -> impl Iterator<Item = String> {
        let parts = self.parsed.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
        parts
            .filter(|part| part.oid == COMMON_NAME)
            .map(|part| String::from_utf8_lossy(part.value.value()).into_owned())
    }

    /// Returns whether one of the certificate's common names matches the name; a star stands for the first label.
    pub(crate) fn is_commonly_named(&self, name: &ServerName<'_>) -> bool {
        let wanted = name.to_str();
        let is_address = matches!(name, ServerName::IpAddress(_));
        self.common_names().any(|own| {
            let behind = own.strip_prefix("*.").filter(|_| !is_address);
            let wanted_behind = wanted.split_once('.').map(|(_, behind)| behind);
            own.eq_ignore_ascii_case(&wanted)
                || behind.is_some_and(|behind| {
                    behind.contains('.') && wanted_behind.is_some_and(|wanted| wanted.eq_ignore_ascii_case(behind))
                })
        })
    }

    /// Returns the public key, with the name of its algorithm.
    pub(crate) fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'static>> {
        Some(SubjectPublicKeyInfoDer::from(self.parsed.tbs_certificate.subject_public_key_info.to_der().ok()?))
    }

    /// Returns the algorithm of the public key, and the key's bits.
    pub(crate) fn key_parts(&self) -> Option<(Vec<u8>, &[u8])> {
        let info = &self.parsed.tbs_certificate.subject_public_key_info;
        Some((inner_of(&info.algorithm.to_der().ok()?)?, info.subject_public_key.as_bytes()?))
    }

    /// Returns whether the certificate names the other one as its issuer. That is a claim only: no signature is checked.
    pub(crate) fn names_as_issuer(&self, other: &Self) -> bool {
        let (issuer, subject) = (&self.parsed.tbs_certificate.issuer, &other.parsed.tbs_certificate.subject);
        issuer == subject
    }

    /// Returns the bytes that are signed, the algorithm of the signature, and the signature.
    pub(crate) fn signature_parts(&self) -> Option<(&[u8], Vec<u8>, &[u8])> {
        let algorithm = inner_of(&self.parsed.signature_algorithm.to_der().ok()?)?;
        Some((&self.signed, algorithm, self.parsed.signature.as_bytes()?))
    }
}

/// Returns the contents of a sequence.
fn inner_of(sequence: &[u8]) -> Option<Vec<u8>> {
    Some(AnyRef::from_der(sequence).ok()?.value().to_vec())
}
