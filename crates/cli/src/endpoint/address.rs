//! The address options that `bench` and `cli` share, and the URLs that say the same in one word.
//!
//! `redis://[[user:]password@]host[:port][/db]`, `rediss://` for the same with TLS, and
//! `unix://[[user:]password@]/path[?db=n]`. A part that a URL leaves out is taken from the other options. A part that cannot
//! be understood is an error that names it.

use std::path::PathBuf;

use sleeve::Tls;

use super::{Endpoint, Login};

/// The place of the server, and the user that logs in.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct Address {
    /// Server hostname
    #[arg(short = 'h', value_name = "hostname", default_value = "127.0.0.1")]
    pub host: String,
    /// Server port
    #[arg(short = 'p', value_name = "port", default_value_t = 6379)]
    pub port: u16,
    /// Server socket (overrides hostname and port)
    #[arg(short = 's', value_name = "socket")]
    pub socket: Option<PathBuf>,
    /// Password to use when connecting to the server
    #[arg(short = 'a', long = "pass", value_name = "password")]
    pub password: Option<String>,
    /// User name to authenticate as; needs a password
    #[arg(long, value_name = "username")]
    pub user: Option<String>,
    /// Server URL: redis://user:password@host:port/db or unix://path?db=n; it counts more than other options
    #[arg(short = 'u', long = "url", value_name = "url")]
    pub url: Option<String>,
    /// Establish a secure TLS connection
    #[arg(long)]
    pub tls: bool,
    /// The certificates to trust and to show.
    #[command(flatten)]
    pub tls_options: TlsOptions,
    /// Start the session in RESP3 protocol mode
    #[arg(short = '3')]
    pub resp3: bool,
}

/// The certificates to trust and to show, where TLS is spoken.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsOptions {
    /// CA certificate file to verify with, instead of the system's
    #[arg(long, value_name = "file")]
    pub cacert: Option<PathBuf>,
    /// Directory of CA certificates to verify with, instead of the system's
    #[arg(long, value_name = "dir")]
    pub cacertdir: Option<PathBuf>,
    /// Client certificate to authenticate with
    #[arg(long, value_name = "file", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key file to authenticate with
    #[arg(long, value_name = "file", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Server name that the certificate must be for
    #[arg(long, value_name = "host")]
    pub sni: Option<String>,
    /// Allow insecure TLS connections by skipping certificate validation
    #[arg(long)]
    pub insecure: bool,
}

impl TlsOptions {
    /// The end point with TLS.
    fn secure(&self, host: String, port: u16) -> Endpoint {
        let mut tls = Tls::new().insecure(self.insecure);
        if let Some(file) = &self.cacert {
            tls = tls.ca_file(file);
        }
        if let Some(folder) = &self.cacertdir {
            tls = tls.ca_folder(folder);
        }
        if let (Some(certificate), Some(key)) = (&self.cert, &self.key) {
            tls = tls.certificate(certificate, key);
        }
        if let Some(name) = &self.sni {
            tls = tls.server_name(name);
        }
        Endpoint::Tls { host, port, tls: Box::new(tls) }
    }

    /// Refuses these options where there is no TLS.
    pub fn check(&self, is_secure: bool) -> Result<(), String> {
        let given = [
            (self.cacert.is_some(), "--cacert"),
            (self.cacertdir.is_some(), "--cacertdir"),
            (self.cert.is_some(), "--cert"),
            (self.sni.is_some(), "--sni"),
            (self.insecure, "--insecure"),
        ];
        match given.iter().find(|(given, _)| *given && !is_secure) {
            Some((_, name)) => Err(format!("{name} means nothing without --tls or a rediss:// URL")),
            None => Ok(()),
        }
    }
}

impl Address {
    /// The end point and the login that the options describe; `database` is the one given beside them.
    ///
    /// The error is a sentence for the user.
    pub fn resolve(&self, database: Option<u32>) -> Result<(Endpoint, Login), String> {
        let mut login = self.login(database);
        let mut endpoint = match &self.socket {
            Some(path) => Endpoint::Unix(path.clone()),
            None => Endpoint::Tcp { host: self.host.clone(), port: self.port },
        };
        let mut is_secure = self.tls;
        if let Some(url) = &self.url {
            let url = Url::parse(url)?;
            login.user = url.user.or(login.user);
            login.password = url.password.or(login.password);
            login.database = database.or(url.database).unwrap_or(0);
            is_secure |= url.is_secure;
            endpoint = match url.place {
                Place::Unix(path) => Endpoint::Unix(path),
                Place::Tcp { host, port } => {
                    Endpoint::Tcp { host: host.unwrap_or_else(|| self.host.clone()), port: port.unwrap_or(self.port) }
                }
            };
        }
        self.check_tls(&endpoint, is_secure)?;
        Ok((self.secure(endpoint, is_secure), login))
    }

    /// Returns the login that the options describe.
    pub fn login(&self, database: Option<u32>) -> Login {
        Login {
            user: self.user.clone(),
            password: self.password.clone(),
            database: database.unwrap_or(0),
            resp3: self.resp3,
            ..Login::default()
        }
    }

    /// Refuses options about TLS for an engine in this process.
    pub fn check_embedded(&self) -> Result<(), String> {
        if self.tls {
            return Err("--tls means nothing to embedded://: nothing travels".to_owned());
        }
        self.check_tls(&Endpoint::Tcp { host: String::new(), port: 0 }, false)
    }

    /// Refuses options about TLS where there is none.
    fn check_tls(&self, endpoint: &Endpoint, is_secure: bool) -> Result<(), String> {
        if is_secure && matches!(endpoint, Endpoint::Unix(_)) {
            return Err("TLS is spoken over TCP only: leave --tls out, or the socket".to_owned());
        }
        self.tls_options.check(is_secure)
    }

    /// The end point with TLS, if that is asked for.
    fn secure(&self, endpoint: Endpoint, wanted: bool) -> Endpoint {
        let Endpoint::Tcp { host, port } = endpoint else { return endpoint };
        if !wanted {
            return Endpoint::Tcp { host, port };
        }
        self.tls_options.secure(host, port)
    }
}

/// Returns the end point and the login that a URL alone describes. The defaults are 127.0.0.1 and 6379.
pub fn resolve_url(url: &str, tls_options: &TlsOptions) -> Result<(Endpoint, Login), String> {
    let url = Url::parse(url)?;
    let login =
        Login { user: url.user, password: url.password, database: url.database.unwrap_or(0), ..Login::default() };
    let endpoint = match url.place {
        Place::Unix(path) => Endpoint::Unix(path),
        Place::Tcp { host, port } => {
            let (host, port) = (host.unwrap_or_else(|| "127.0.0.1".to_owned()), port.unwrap_or(6379));
            if url.is_secure { tls_options.secure(host, port) } else { Endpoint::Tcp { host, port } }
        }
    };
    Ok((endpoint, login))
}

/// Where a URL leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// A host and a port, either of which may be left out.
    Tcp {
        /// Name or address.
        host: Option<String>,
        /// TCP port.
        port: Option<u16>,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The parts of a server URL.
#[derive(Debug, PartialEq, Eq)]
pub struct Url {
    /// Where it leads.
    pub place: Place,
    /// Whether it asks for TLS.
    pub is_secure: bool,
    /// User name.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// Database number.
    pub database: Option<u32>,
}

impl Url {
    /// Reads a `redis://`, `rediss://` or `unix://` URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| format!("Invalid URI scheme in '{text}'"))?;
        // RFC 3986: a scheme has no case.
        let scheme = &*scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (credentials, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = match credentials.split_once(':') {
            Some((user, password)) => (user, password),
            None => ("", credentials),
        };
        let (place, path) = match scheme {
            "redis" | "rediss" => host_and_path(place)?,
            "unix" | "redis+unix" => (Place::Unix(decode(place)?.into()), ""),
            _ => return Err(format!("Invalid URI scheme '{scheme}'")),
        };
        let database = query.split('&').find_map(|pair| pair.strip_prefix("db=")).unwrap_or(path);
        Ok(Self {
            place,
            is_secure: scheme == "rediss",
            user: some(decode(user)?),
            password: some(decode(password)?),
            database: match database {
                "" => None,
                number => Some(number.parse().map_err(|_| format!("Invalid database number '{number}' in URI"))?),
            },
        })
    }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Splits `host:port/path`, where the host may be an IPv6 address in brackets.
fn host_and_path(place: &str) -> Result<(Place, &str), String> {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, after)) => (host, after.strip_prefix(':').unwrap_or(after)),
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = match port {
        "" => None,
        digits => Some(digits.parse().map_err(|_| format!("Invalid port '{digits}' in URI"))?),
    };
    Ok((Place::Tcp { host: some(decode(host)?), port }, path))
}

/// Undoes percent encoding (RFC 3986, section 2.1).
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(*digit).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err("Incomplete URI encoding".to_owned()),
        }
    }
    String::from_utf8(bytes).map_err(|_| "URI is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: Option<u16>) -> Place {
        Place::Tcp { host: some(host.into()), port }
    }

    #[test]
    fn urls_name_every_part() {
        let url = Url::parse("redis://us%40er:p%3Aw@example.org:7000/3").unwrap();
        assert_eq!(url.place, tcp("example.org", Some(7000)));
        assert_eq!(url.user.as_deref(), Some("us@er"));
        assert_eq!(url.password.as_deref(), Some("p:w"));
        assert_eq!(url.database, Some(3));
        assert_eq!(Url::parse("redis://secret@[::1]").unwrap().place, tcp("::1", None));
        assert_eq!(Url::parse("redis://secret@[::1]").unwrap().password.as_deref(), Some("secret"));
        assert!(Url::parse("rediss://h").unwrap().is_secure && Url::parse("REDISS://h").unwrap().is_secure);
        assert_eq!(Url::parse("Redis://[::1]").unwrap().place, tcp("::1", None));
        let unix = Url::parse("unix:///run/s.sock?db=2").unwrap();
        assert_eq!((unix.place, unix.database), (Place::Unix("/run/s.sock".into()), Some(2)));
    }

    #[test]
    fn parts_missing_in_a_url_come_from_the_options() {
        use clap::{Args, Command, FromArgMatches};
        let resolve = |words: &[&str]| {
            let command = Address::augment_args(Command::new("").no_binary_name(true).disable_help_flag(true));
            let address = Address::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap();
            address.resolve(None).map(|(endpoint, _)| endpoint.to_string())
        };
        assert_eq!(resolve(&["-u", "redis://h", "-p", "7"]), Ok("h:7".to_owned()));
        assert_eq!(resolve(&["-u", "redis://:9/2", "-h", "g", "-p", "7"]), Ok("g:9".to_owned()));
        for bad in [&["--insecure"][..], &["--sni", "x"], &["--tls", "-s", "/s"], &["--cacert", "x", "-u", "redis://h"]]
        {
            assert!(resolve(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bad_urls_are_refused() {
        for bad in ["", "host:1", "http://host", "redis://h:99999", "redis://h/x", "redis://%4/0"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
