//! The certificates that are believed, and the decisions that follow from them without the TLS library.
//!
//! The user has given them, or they are the system's. Any thread.

use std::sync::Arc;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};

use crate::certificate::Certificate;
use crate::signatures;

/// Certificates that are believed.
#[derive(Debug)]
pub struct Trusted {
    roots: RootCertStore,
    /// The certificates that the user has given, without the system's.
    given: Vec<CertificateDer<'static>>,
}

impl Default for Trusted {
    fn default() -> Self {
        Self { roots: RootCertStore::empty(), given: Vec::new() }
    }
}

impl Trusted {
    /// Returns an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Believes a certificate that the user has named, and the certificates that it has signed.
    ///
    /// # Errors
    /// If the bytes are no certificate.
    pub fn add(&mut self, certificate: CertificateDer<'static>) -> Result<(), Error> {
        self.roots.add(certificate.clone())?;
        self.given.push(certificate);
        Ok(())
    }

    /// Believes the system's authorities; those that cannot be read are left out.
    pub fn add_of_system(&mut self, certificates: impl IntoIterator<Item = CertificateDer<'static>>) {
        self.roots.add_parsable_certificates(certificates);
    }

    /// Returns whether no certificate is trusted.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Returns whether the user has named any trusted certificates.
    pub(crate) fn is_given(&self) -> bool {
        !self.given.is_empty()
    }

    pub(crate) fn roots(&self) -> Arc<RootCertStore> {
        Arc::new(self.roots.clone())
    }

    /// Returns the verdict on a certificate that can be given without the TLS library; none for most certificates.
    pub(crate) fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Option<Result<(), Error>> {
        let is_given = self.given.iter().any(|given| given.as_ref() == certificate.as_ref());
        let read = Certificate::read(certificate)?;
        if !is_given && !read.is_old() {
            return None;
        }
        let is_in_time = read.is_valid_at(now).map_err(Error::from);
        if is_given || is_in_time.is_err() || self.has_signed(&read, now, algorithms) {
            return Some(is_in_time);
        }
        Some(Err(CertificateError::UnknownIssuer.into()))
    }

    /// Returns whether the user has given a certificate that is valid at `now` and has signed this one.
    fn has_signed(&self, certificate: &Certificate, now: UnixTime, algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let issuers = self.given.iter().filter_map(Certificate::read);
        issuers
            .filter(|issuer| certificate.names_as_issuer(issuer) && issuer.is_valid_at(now).is_ok())
            .any(|issuer| signatures::has_signed(&issuer, certificate, algorithms))
    }
}
