//! The `tls-...` options, turned into the configuration of connections: certificate, key, trusted certificates, versions.
//!
//! Files are read again each time, so that after a certificate was renewed it is enough to set an option to its present
//! value. The reasons in errors are for the operator. Any thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use sleeve_certificates::{Clients, Identity, Trusted, provider, read_key};
use sleeve_disk::own;

use super::ciphers;
use super::sessions::Sessions;
use crate::config::{ClientCertificates, Config, Opt};

/// The greatest size of a file, which is far more than that of all certificates that a system trusts.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Builds the configuration of clients' connections from the present options.
///
/// # Errors
/// The first file that cannot be used, or the first word that names nothing.
pub fn load(config: &Config) -> Result<Arc<ServerConfig>, String> {
    load_asking(config, config.client_certificates())
}

/// Builds the configuration of the connections that other nodes of a cluster open. Each of them has to present a trusted
/// certificate, as in Redis, whatever the options ask of clients.
///
/// # Errors
/// As [`load`].
pub fn load_for_nodes(config: &Config) -> Result<Arc<ServerConfig>, String> {
    load_asking(config, ClientCertificates::Required)
}

fn load_asking(config: &Config, wanted: ClientCertificates) -> Result<Arc<ServerConfig>, String> {
    let mut provider = provider();
    let identity = identity(config, OF_SERVER, &provider)?;
    restrict_suites(config, &mut provider)?;
    let provider = Arc::new(provider);
    let versions = versions(config)?;
    let verifier = verifier((config, wanted), &provider)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| format!("the ciphers do not fit the protocols: {error}"))?;
    let mut made = match verifier {
        None => builder.with_no_client_auth().with_cert_resolver(identity.resolver()),
        Some(verifier) => builder.with_client_cert_verifier(verifier).with_cert_resolver(identity.resolver()),
    };
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

/// The options that name a certificate, its key, and the pass phrase of the key.
pub(super) type Own = [Opt; 3];

/// The options of the certificate that is presented to clients.
pub(super) const OF_SERVER: Own = [Opt::TlsCertFile, Opt::TlsKeyFile, Opt::TlsKeyFilePass];

/// Reads a certificate of this server with its key.
pub(super) fn identity(config: &Config, options: Own, provider: &CryptoProvider) -> Result<Identity, String> {
    let [certificate, key, pass_phrase] = options;
    let missing = |option: Opt| format!("No {} configured!", option.name());
    let file = path(config, certificate).ok_or_else(|| missing(certificate))?;
    let key_file = path(config, key).ok_or_else(|| missing(key))?;
    let chain = certificates(&file)?;
    if chain.is_empty() {
        return Err(format!("Failed to load certificate: {}: there is none in it", file.display()));
    }
    let failed = |why: &str| format!("Failed to load private key: {}: {why}", key_file.display());
    let pem = read(&key_file).map_err(|error| failed(&error.to_string()))?;
    let key = read_key(&pem, &config.text(pass_phrase))
        .map_err(|why| failed(&why.replace("and none is given", &format!("and '{}' says none", pass_phrase.name()))))?;
    Identity::new(chain, key, provider).map_err(|why| format!("{}, {}: {why}", file.display(), key_file.display()))
}

/// Returns the verifier of client certificates; None if clients are not asked for one.
fn verifier(
    (config, wanted): (&Config, ClientCertificates),
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if wanted == ClientCertificates::NotAsked {
        return Ok(None);
    }
    let clients = Clients::new(trusted(config)?, Arc::clone(provider), wanted == ClientCertificates::Optional);
    let clients = clients.map_err(|error| format!("Failed to configure CA certificate(s): {error}"))?;
    Ok(Some(Arc::new(clients)))
}

pub(super) fn trusted(config: &Config) -> Result<Trusted, String> {
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
    let mut trusted = Trusted::new();
    for file in &files {
        for certificate in certificates(file)? {
            trusted.add(certificate).map_err(|error| wrong_ca(file, &error))?;
        }
    }
    match trusted.is_empty() {
        true => Err("Failed to configure CA certificate(s): there is none in the files".to_owned()),
        false => Ok(trusted),
    }
}

fn wrong_ca(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("Failed to configure CA certificate(s) file/directory: {}: {error}", path.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |error| format!("Failed to load certificate: {}: {error}", file.display());
    CertificateDer::pem_slice_iter(&read(file).map_err(failed)?).collect::<Result<_, _>>().map_err(failed)
}

/// Reads a file with certificates or a key. The file may be a device, so the size is bounded: setting an option must not
/// occupy a worker for ever.
fn read(file: &Path) -> Result<Vec<u8>, pem::Error> {
    own::read_input(file, FILE_BYTES_MAX).map_err(pem::Error::Io)
}

fn path(config: &Config, option: Opt) -> Option<PathBuf> {
    let text = config.text(option);
    (!text.is_empty()).then(|| config.resolve(&text))
}

/// Returns the versions in `tls-protocols`; if it is empty, all.
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

/// Applies `tls-ciphersuites` (TLS 1.3) and `tls-ciphers` (TLS 1.2); an empty one allows all suites.
pub(super) fn restrict_suites(config: &Config, provider: &mut CryptoProvider) -> Result<(), String> {
    let suites = &provider.cipher_suites;
    let (new, old): (Vec<_>, Vec<_>) =
        suites.iter().copied().partition(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
    let text = |option| String::from_utf8_lossy(&config.text(option)).into_owned();
    let failed = |option: Opt, why: String| format!("Failed to configure ciphers: {}: {why}", option.name());
    let new = ciphers::of_tls13(&text(Opt::TlsCiphersuites), new).map_err(|why| failed(Opt::TlsCiphersuites, why))?;
    let old = ciphers::of_tls12(&text(Opt::TlsCiphers), old).map_err(|why| failed(Opt::TlsCiphers, why))?;
    provider.cipher_suites = new.into_iter().chain(old).collect();
    Ok(())
}
