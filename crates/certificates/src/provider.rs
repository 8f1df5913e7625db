//! The algorithms under TLS: those of ring, and ECDSA over the curve P-521, which ring does not have. Any thread.

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, KeyProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{PrivateKeyDer, SignatureVerificationAlgorithm};
use rustls::sign::SigningKey;
use rustls::{Error, SignatureScheme};

use crate::p521_keys::{P521_SHA256, P521_SHA384, P521_SHA512, P521Key};

type Algorithm = &'static dyn SignatureVerificationAlgorithm;

/// The algorithms of ring, and behind them those of this crate, made once.
static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> = LazyLock::new(|| {
    let of_ring = ring::default_provider().signature_verification_algorithms;
    let own: [Algorithm; 3] = [P521_SHA512, P521_SHA384, P521_SHA256];
    let all: Vec<Algorithm> = of_ring.all.iter().copied().chain(own).collect();
    // Under TLS 1.2 the signature scheme names the hash and not the curve.
    let more = |scheme| match scheme {
        SignatureScheme::ECDSA_NISTP384_SHA384 => Some(P521_SHA384 as Algorithm),
        SignatureScheme::ECDSA_NISTP256_SHA256 => Some(P521_SHA256 as Algorithm),
        _ => None,
    };
    let mut mapping: Vec<(SignatureScheme, &'static [Algorithm])> = Vec::new();
    for (scheme, algorithms) in of_ring.mapping {
        let algorithms: Vec<Algorithm> = algorithms.iter().copied().chain(more(*scheme)).collect();
        mapping.push((*scheme, Vec::leak(algorithms)));
    }
    mapping.push((SignatureScheme::ECDSA_NISTP521_SHA512, Vec::leak(vec![P521_SHA512 as Algorithm])));
    WebPkiSupportedAlgorithms { all: Vec::leak(all), mapping: Vec::leak(mapping) }
});

/// Returns the provider of the algorithms that this program uses and accepts.
pub fn provider() -> CryptoProvider {
    CryptoProvider { signature_verification_algorithms: *ALGORITHMS, key_provider: &Keys, ..ring::default_provider() }
}

/// Reads private keys.
#[derive(Debug)]
struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        if let Some(key) = P521Key::read(&key) {
            return Ok(Arc::new(key));
        }
        ring::default_provider().key_provider.load_private_key(key)
    }
}
