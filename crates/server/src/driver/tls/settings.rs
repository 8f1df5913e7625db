//! What the `tls-...` options say, made into what connections begin with: certificate, key, whom to trust, versions.
//!
//! Files are read anew each time, so that setting an option to its own value again after a certificate was renewed is all
//! it takes. The reasons are for the operator. Any thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use sleeve_disk::own;

use super::sessions::Sessions;
use crate::config::{ClientCertificates, Config, Opt};

/// Far more than a file of all certificates that a system trusts has.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Makes what connections begin with, as the options say now.
///
/// # Errors
/// The first file that cannot be used, or the first word that names nothing.
pub fn load(config: &Config) -> Result<Arc<ServerConfig>, String> {
    let (chain, key) = own_certificate(config)?;
    let mut provider = ring::default_provider();
    restrict_suites(config, &mut provider)?;
    let provider = Arc::new(provider);
    let versions = versions(config)?;
    let verifier = verifier(config, &provider)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| format!("the ciphers do not fit the protocols: {error}"))?;
    let mut made = match verifier {
        None => builder.with_no_client_auth().with_single_cert(chain, key),
        Some(verifier) => builder.with_client_cert_verifier(verifier).with_single_cert(chain, key),
    }
    .map_err(|error| format!("the certificate and the key do not belong together: {error}"))?;
    made.ignore_client_order = config.flag(Opt::TlsPreferServerCiphers);
    if config.flag(Opt::TlsSessionCaching) {
        let size = usize::try_from(config.number(Opt::TlsSessionCacheSize)).unwrap_or(usize::MAX);
        made.session_storage = Sessions::new(size, config.number(Opt::TlsSessionCacheTimeout) as u64);
    } else {
        made.session_storage = Arc::new(NoServerSessionStorage {});
        made.send_tls13_tickets = 0;
    }
    Ok(Arc::new(made))
}

pub(super) fn own_certificate(
    config: &Config,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let file = path(config, Opt::TlsCertFile).ok_or("No tls-cert-file configured!")?;
    let key_file = path(config, Opt::TlsKeyFile).ok_or("No tls-key-file configured!")?;
    let chain = certificates(&file)?;
    if chain.is_empty() {
        return Err(format!("Failed to load certificate: {}: there is none in it", file.display()));
    }
    let key = read(&key_file).and_then(|text| PrivateKeyDer::from_pem_slice(&text)).map_err(|error| {
        format!("Failed to load private key: {}: {}", key_file.display(), key_fault(&key_file, &error))
    })?;
    Ok((chain, key))
}

/// What is wrong with a key that cannot be read. Both forms in which keys lie under a pass phrase have this word in their
/// heads.
fn key_fault(file: &Path, error: &pem::Error) -> String {
    const MARK: &[u8] = b"ENCRYPTED";
    let text = read(file).unwrap_or_default();
    if !text.windows(MARK.len()).any(|word| word == MARK) {
        return error.to_string();
    }
    format!(
        "it is encrypted with a pass phrase, and such keys cannot be read. 'openssl pkey -in {} -out FILE' writes it \
         without one, for 'tls-key-file'",
        file.display()
    )
}

/// Who looks at the certificates of clients; none where they are not asked for.
fn verifier(config: &Config, provider: &Arc<CryptoProvider>) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let wanted = config.client_certificates();
    if wanted == ClientCertificates::NotAsked {
        return Ok(None);
    }
    let roots = trusted(config)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = if wanted == ClientCertificates::Optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map(Some).map_err(|error| format!("Failed to configure CA certificate(s): {error}"))
}

pub(super) fn trusted(config: &Config) -> Result<RootCertStore, String> {
    let (file, folder) = (path(config, Opt::TlsCaCertFile), path(config, Opt::TlsCaCertDir));
    let mut files: Vec<PathBuf> = file.into_iter().collect();
    if let Some(folder) = folder {
        let entries = std::fs::read_dir(&folder).map_err(|error| wrong_ca(&folder, &error))?;
        files.extend(entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_file()));
    }
    if files.is_empty() {
        return Err(
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is enabled!".to_owned()
        );
    }
    let mut roots = RootCertStore::empty();
    for file in &files {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| wrong_ca(file, &error))?;
        }
    }
    Ok(roots)
}

fn wrong_ca(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("Failed to configure CA certificate(s) file/directory: {}: {error}", path.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error| format!("Failed to load certificate: {}: {error}", file.display());
    CertificateDer::pem_slice_iter(&read(file).map_err(failed)?).collect::<Result<_, _>>().map_err(failed)
}

/// Reads a file of certificates or with a key, be it a device: setting an option must not take a worker for ever.
fn read(file: &Path) -> Result<Vec<u8>, pem::Error> {
    own::read_input(file, FILE_BYTES_MAX).map_err(pem::Error::Io)
}

fn path(config: &Config, option: Opt) -> Option<PathBuf> {
    let text = config.text(option);
    (!text.is_empty()).then(|| config.resolve(&text))
}

/// `tls-protocols`: the versions that are spoken; empty is all.
pub(super) fn versions(config: &Config) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let text = config.text(Opt::TlsProtocols);
    let text = String::from_utf8_lossy(&text);
    let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
    for word in text.split_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => versions.push(&TLS12),
            "tlsv1.3" => versions.push(&TLS13),
            _ => return Err(format!("Invalid tls-protocols specified: '{word}'. Use TLSv1.2 and TLSv1.3.")),
        }
    }
    Ok(if versions.is_empty() { vec![&TLS13, &TLS12] } else { versions })
}

/// `tls-ciphersuites` (TLS 1.3) and `tls-ciphers` (TLS 1.2), in the names of RFC 8446 and of OpenSSL; empty is all.
pub(super) fn restrict_suites(config: &Config, provider: &mut CryptoProvider) -> Result<(), String> {
    let mut wanted = Vec::new();
    for (option, is_new) in [(Opt::TlsCiphersuites, true), (Opt::TlsCiphers, false)] {
        let text = config.text(option);
        let text = String::from_utf8_lossy(&text);
        let of_version =
            provider.cipher_suites.iter().filter(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)) == is_new);
        if text.is_empty() {
            wanted.extend(of_version.copied());
            continue;
        }
        for name in text.split(':') {
            let suite = of_version.clone().find(|suite| has_name(suite, name));
            wanted.push(*suite.ok_or_else(|| format!("Failed to configure ciphers: {}: '{name}'", option.name()))?);
        }
    }
    provider.cipher_suites = wanted;
    Ok(())
}

/// OpenSSL's names of the suites of TLS 1.2, after the standard's.
const OPENSSL_NAMES: [(&str, &str); 6] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
];

fn has_name(suite: &SupportedCipherSuite, name: &str) -> bool {
    let own = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
    let of_openssl = OPENSSL_NAMES.iter().find(|(standard, _)| *standard == own).map(|(_, openssl)| *openssl);
    name == own || of_openssl == Some(name)
}
