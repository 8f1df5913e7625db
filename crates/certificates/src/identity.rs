//! The own certificate with its key, and the reader of keys in PEM, with a pass phrase if the key is encrypted.
//!
//! The reasons of errors are for the people that made the files. A pass phrase is never part of one. Any thread.

use std::sync::Arc;

use pkcs8::der::SecretDocument;
use pkcs8::der::pem::PemLabel as _;
use pkcs8::{EncryptedPrivateKeyInfo, PrivateKeyInfo};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::certificate::Certificate;

/// The certificate that a server or a client shows, with the key that it proves to have.
#[derive(Clone, Debug)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// Joins a certificate, the certificates that lead from it to a trusted one, and its key.
    ///
    /// # Errors
    /// If the key is of a kind that is not known, or is not that of the certificate.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        provider: &CryptoProvider,
    ) -> Result<Self, String> {
        let key = provider.key_provider.load_private_key(key).map_err(|error| {
            format!(
                "the key cannot be used ({error}); keys of RSA from 2048 bits on, P-256, P-384, P-521 and Ed25519 can"
            )
        })?;
        let own = chain.first().and_then(Certificate::read).and_then(|certificate| certificate.public_key());
        let own = own.ok_or("the certificate cannot be read")?;
        if key.public_key().is_some_and(|key| key != own) {
            return Err("the certificate and the key do not belong together".to_owned());
        }
        Ok(Self(Arc::new(CertifiedKey::new(chain, key))))
    }

    /// Returns a resolver that shows it to every peer that asks.
    pub fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(Arc::clone(&self.0)))
    }
}

/// Reads the first key of a PEM text. An empty pass phrase counts as none.
///
/// # Errors
/// If there is no key, or if it is encrypted with another pass phrase or in a form that is not supported.
pub fn read_key(pem: &[u8], pass_phrase: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let has = |mark: &str| pem.windows(mark.len()).any(|part| part == mark.as_bytes());
    if has("Proc-Type: 4,ENCRYPTED") {
        return Err(
            "it lies under a pass phrase in the old form of OpenSSL, which is weak and not read; write it in the \
                    new form: openssl pkcs8 -topk8 -v2 aes256 -in KEY -out NEW"
                .to_owned(),
        );
    }
    let Some(encrypted) = section(pem, EncryptedPrivateKeyInfo::PEM_LABEL) else {
        return PrivateKeyDer::from_pem_slice(pem).map_err(|error| error.to_string());
    };
    if pass_phrase.is_empty() {
        return Err("it is encrypted with a pass phrase, and none is given".to_owned());
    }
    let (_, document) = SecretDocument::from_pem(encrypted).map_err(|error| error.to_string())?;
    let info = EncryptedPrivateKeyInfo::try_from(document.as_bytes()).map_err(|error| error.to_string())?;
    let plain =
        info.decrypt(pass_phrase).map_err(|error| format!("the pass phrase is wrong, or the key damaged ({error})"))?;
    // A wrong pass phrase may yield bytes with a valid padding; then they are no key.
    PrivateKeyInfo::try_from(plain.as_bytes())
        .map_err(|_| "the pass phrase is wrong, or the key damaged".to_owned())?;
    Ok(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}

/// Returns the part of a PEM text that has this label, with its first and last lines.
fn section<'a>(pem: &'a [u8], label: &str) -> Option<&'a str> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let text = std::str::from_utf8(pem).ok()?;
    let start = text.find(&begin)?;
    let length = text.get(start..)?.find(&end)? + end.len();
    text.get(start..start + length)
}
