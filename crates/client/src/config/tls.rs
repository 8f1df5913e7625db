//! The settings of a connection with TLS: the authorities to believe, and the certificate to show.
//!
//! Plain data, made into rustls's own form when a connection is made, so that files are read anew each time. Reading them
//! blocks, so no connection's task does it. Any thread.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use rustls::ClientConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use sleeve_certificates::{AnyServer, Identity, Names, Servers, Trusted, provider, read_key};

use crate::error::{Error, ErrorKind};

/// The settings for TLS with a server. The default believes the certificate authorities that the system believes.
///
/// ```
/// use sleeve::{Config, Tls};
///
/// let tls = Tls::new().ca_file("ca.crt").certificate("client.crt", "client.key");
/// let config = Config::from_url("rediss://localhost:6380")?.tls(tls);
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    pub(crate) ca: Option<Pem>,
    pub(crate) ca_folder: Option<PathBuf>,
    pub(crate) certificate: Option<Pem>,
    pub(crate) key: Option<Pem>,
    pub(crate) pass_phrase: Option<PassPhrase>,
    pub(crate) server_name: Option<String>,
    pub(crate) insecure: bool,
}

/// The pass phrase of a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PassPhrase(Arc<[u8]>);

impl fmt::Debug for PassPhrase {
    /// Writes nothing of the pass phrase.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pass phrase")
    }
}

/// The largest size of a key in bytes, which bounds the reading of a device without end.
const KEY_BYTES_MAX: u64 = 1 << 20;

/// The source of PEM data.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Pem {
    /// A file, read anew for every connection.
    File(PathBuf),
    /// The bytes themselves.
    Bytes(Arc<[u8]>),
}

impl Pem {
    /// Returns the certificates in it, at least one.
    fn certificates(&self) -> io::Result<Vec<CertificateDer<'static>>> {
        let failed = |error: pem::Error| wrong(format!("{self}: {error}"));
        let found: Result<Vec<_>, _> = match self {
            Self::File(file) => CertificateDer::pem_file_iter(file).map_err(failed)?.collect(),
            Self::Bytes(bytes) => CertificateDer::pem_slice_iter(bytes).collect(),
        };
        match found.map_err(failed)? {
            none if none.is_empty() => Err(wrong(format!("{self}: there is no certificate in it"))),
            found => Ok(found),
        }
    }

    fn key(&self, pass_phrase: Option<&PassPhrase>) -> io::Result<PrivateKeyDer<'static>> {
        let pass_phrase = pass_phrase.map_or(&[][..], |pass_phrase| &pass_phrase.0);
        let key = match self {
            Self::File(file) => {
                let mut text = Vec::new();
                let read = File::open(file).and_then(|file| file.take(KEY_BYTES_MAX).read_to_end(&mut text));
                read.map_err(|error| wrong(format!("{self}: {error}")))?;
                read_key(&text, pass_phrase)
            }
            Self::Bytes(bytes) => read_key(bytes, pass_phrase),
        };
        key.map_err(|error| wrong(format!("{self}: {error}")))
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Bytes(_) => f.write_str("the PEM in memory"),
        }
    }
}

impl fmt::Debug for Pem {
    /// Shows none of the bytes: they may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Tls {
    /// Creates the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a PEM file of authorities to believe instead of the system's.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(Pem::File(file.into()));
        self
    }

    /// Adds authorities as [`ca_file`](Tls::ca_file) does, from PEM in memory.
    ///
    /// ```
    /// use sleeve::Tls;
    ///
    /// let (ca, certificate, key) = (b"-----BEGIN ...", b"-----BEGIN ...", b"-----BEGIN ..."); // from a vault, say
    /// let tls = Tls::new().ca_pem(ca).certificate_pem(certificate, key);
    /// assert!(!format!("{tls:?}").contains("BEGIN"));
    /// ```
    pub fn ca_pem(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.ca = Some(Pem::Bytes(pem.as_ref().into()));
        self
    }

    /// Sets a folder of PEM files of authorities to believe instead of the system's.
    pub fn ca_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.ca_folder = Some(folder.into());
        self
    }

    /// Sets the PEM files with the certificate to show and its key, for a server that asks.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate = Some(Pem::File(certificate.into()));
        self.key = Some(Pem::File(key.into()));
        self
    }

    /// Sets the certificate as [`certificate`](Tls::certificate) does, from PEM in memory.
    pub fn certificate_pem(mut self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.certificate = Some(Pem::Bytes(certificate.as_ref().into()));
        self.key = Some(Pem::Bytes(key.as_ref().into()));
        self
    }

    /// Sets the pass phrase of an encrypted key, which must have the form PKCS#8, as `openssl pkcs8 -topk8` writes it.
    pub fn pass_phrase(mut self, pass_phrase: impl AsRef<[u8]>) -> Self {
        self.pass_phrase = Some(PassPhrase(pass_phrase.as_ref().into()));
        self
    }

    /// Sets the name that the server's certificate must be for, and that is sent to the server (SNI); the host's name without
    /// this.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Believes any server. The connection is encrypted, but the identity of its other end is unknown.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Returns the default settings, to which the options of a `rediss://` URL are applied.
    pub(crate) fn for_url() -> Result<Self, Error> {
        Ok(Self::new())
    }

    /// Takes an option of a URL about TLS. Returns whether the option is about it.
    pub(crate) fn take_option(&mut self, name: &str, value: &str) -> Result<bool, Error> {
        match name {
            "ca" => self.ca = Some(Pem::File(value.into())),
            "ca_folder" => self.ca_folder = Some(value.into()),
            "cert" => self.certificate = Some(Pem::File(value.into())),
            "key" => self.key = Some(Pem::File(value.into())),
            "key_pass" => self.pass_phrase = Some(PassPhrase(value.as_bytes().into())),
            "server_name" => self.server_name = Some(value.to_owned()),
            "insecure" => {
                self.insecure = match value {
                    "yes" => true,
                    "no" => false,
                    _ => {
                        let message = "the option \"insecure\" must be yes or no";
                        return Err(Error::unsent(ErrorKind::Configuration, message));
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the name that the certificate of the server at this host must be for.
    pub(crate) fn name_of(&self, host: &str) -> io::Result<ServerName<'static>> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map_err(|error| wrong(format!("\"{name}\" is no server's name: {error}")))
    }

    /// Converts the settings to rustls's form.
    pub(crate) fn client_config(&self) -> io::Result<Arc<ClientConfig>> {
        let provider = Arc::new(provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .dangerous();
        let builder = if self.insecure {
            builder.with_custom_certificate_verifier(Arc::new(AnyServer::new(&provider)))
        } else {
            let servers = Servers::new(self.trusted()?, Arc::clone(&provider), Names::Own);
            builder.with_custom_certificate_verifier(Arc::new(servers))
        };
        let config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificate.certificates()?;
                let identity = Identity::new(chain, key.key(self.pass_phrase.as_ref())?, &provider);
                let identity = identity.map_err(|why| wrong(format!("{certificate}: {why}")))?;
                builder.with_client_cert_resolver(identity.resolver())
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(wrong("a certificate and its key go together".to_owned())),
        };
        Ok(Arc::new(config))
    }

    fn trusted(&self) -> io::Result<Trusted> {
        let mut trusted = Trusted::new();
        let mut all: Vec<Pem> = self.ca.iter().cloned().collect();
        if let Some(folder) = &self.ca_folder {
            let entries = std::fs::read_dir(folder).map_err(|error| wrong(format!("{}: {error}", folder.display())))?;
            let files = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_file());
            all.extend(files.map(Pem::File));
        }
        for pem in &all {
            for certificate in pem.certificates()? {
                trusted.add(certificate).map_err(|error| wrong(format!("{pem}: {error}")))?;
            }
        }
        if self.ca.is_none() && self.ca_folder.is_none() {
            // Certificates of the system that cannot be read are passed over: no other program can use them either.
            trusted.add_of_system(rustls_native_certs::load_native_certs().certs);
        }
        Ok(trusted)
    }
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
