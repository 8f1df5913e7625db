//! ECDSA over the curve P-521: signatures that are verified, and keys that sign. Any thread.

use std::fmt;

use p521::ecdsa::signature::Signer as _;
use p521::ecdsa::signature::hazmat::PrehashVerifier;
use p521::ecdsa::{Signature, SigningKey as Secret, VerifyingKey};
use p521::elliptic_curve::sec1::ToEncodedPoint;
use p521::pkcs8::DecodePrivateKey;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer,
    alg_id,
};
use rustls::sign::{Signer, SigningKey, public_key_to_spki};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// P-521 with SHA-512, as TLS 1.3 has it.
pub(crate) const P521_SHA512: &P521 =
    &P521 { signature: alg_id::ECDSA_SHA512, hash: |message| Sha512::digest(message).to_vec() };
/// P-521 with SHA-384.
pub(crate) const P521_SHA384: &P521 =
    &P521 { signature: alg_id::ECDSA_SHA384, hash: |message| Sha384::digest(message).to_vec() };
/// P-521 with SHA-256, with which OpenSSL signs certificates by default.
pub(crate) const P521_SHA256: &P521 =
    &P521 { signature: alg_id::ECDSA_SHA256, hash: |message| Sha256::digest(message).to_vec() };

/// The number of bytes of a number of the curve's field.
const FIELD_BYTES: usize = 66;

/// Verifies signatures with one hash.
pub(crate) struct P521 {
    signature: AlgorithmIdentifier,
    hash: fn(&[u8]) -> Vec<u8>,
}

impl fmt::Debug for P521 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("P521").finish_non_exhaustive()
    }
}

impl SignatureVerificationAlgorithm for P521 {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }

    fn verify_signature(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = Signature::from_der(signature).map_err(|_| InvalidSignature)?;
        // A hash that is shorter than the field is padded with zeros in front.
        let hash = (self.hash)(message);
        let padded = [vec![0; FIELD_BYTES.saturating_sub(hash.len())], hash].concat();
        key.verify_prehash(&padded, &signature).map_err(|_| InvalidSignature)
    }
}

/// A private key.
pub(crate) struct P521Key {
    secret: Secret,
    public: Vec<u8>,
}

impl P521Key {
    /// Reads a key; none if it is of another kind.
    pub(crate) fn read(key: &PrivateKeyDer<'_>) -> Option<Self> {
        let secret = match key {
            PrivateKeyDer::Pkcs8(key) => p521::SecretKey::from_pkcs8_der(key.secret_pkcs8_der()).ok()?,
            PrivateKeyDer::Sec1(key) => p521::SecretKey::from_sec1_der(key.secret_sec1_der()).ok()?,
            _ => return None,
        };
        let public = secret.public_key().to_encoded_point(false).as_bytes().to_vec();
        Some(Self { secret: Secret::from_slice(&secret.to_bytes()).ok()?, public })
    }
}

impl fmt::Debug for P521Key {
    /// Writes the name of the type, and nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("P521Key").finish_non_exhaustive()
    }
}

impl SigningKey for P521Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = SignatureScheme::ECDSA_NISTP521_SHA512;
        offered.contains(&scheme).then(|| Box::new(P521Signer(self.secret.clone())) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(public_key_to_spki(&alg_id::ECDSA_P521, &self.public))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

struct P521Signer(Secret);

impl fmt::Debug for P521Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("P521Signer").finish_non_exhaustive()
    }
}

impl Signer for P521Signer {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature: Signature = self.0.try_sign(message).map_err(|error| Error::General(error.to_string()))?;
        Ok(signature.to_der().as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}
