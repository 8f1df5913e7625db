//! The address options that `bench` and `cli` share, and the URLs that say the same in one word.
//!
//! `redis://[[user:]password@]host[:port][/db]`, `rediss://` for the same with TLS, and
//! `unix://[[user:]password@]/path[?db=n]`, as the client library reads them, options of TLS included. A part that a URL
//! leaves out is taken from the other options.

use std::net::ToSocketAddrs;
use std::path::PathBuf;

use sleeve::{ServerUrl, Tls};

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
    /// Prefer an IPv4 address if the host's name has several
    #[arg(short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Prefer an IPv6 address if the host's name has several
    #[arg(short = '6')]
    pub ipv6: bool,
}

/// The certificates to trust and to show, if the connection uses TLS.
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
    /// Sets these options in the settings of a URL: an option counts more than the URL.
    fn over(&self, mut tls: Tls) -> Tls {
        if self.insecure {
            tls = tls.insecure(true);
        }
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
        tls
    }

    /// Refuses these options if the connection does not use TLS.
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
    /// Returns the end point and the login that the options describe; `database` is the one given beside them.
    ///
    /// The error is a sentence for the user.
    pub fn resolve(&self, database: Option<u32>) -> Result<(Endpoint, Login), String> {
        let mut login = self.login(database);
        let (place, mut tls) = match (&self.url, &self.socket) {
            (Some(url), _) => {
                let url = read(url, &self.host, self.port)?;
                login.user = url.user.or(login.user);
                login.password = url.password.or(login.password);
                login.database = database.unwrap_or(url.database);
                (url.endpoint, url.tls)
            }
            (None, Some(path)) => (sleeve::Endpoint::Unix(path.clone()), None),
            (None, None) => (sleeve::Endpoint::Tcp { host: self.host.clone(), port: self.port }, None),
        };
        if self.tls {
            tls.get_or_insert_default();
        }
        if tls.is_some() && matches!(place, sleeve::Endpoint::Unix(_)) {
            return Err("TLS is spoken over TCP only: leave --tls out, or the socket".to_owned());
        }
        self.tls_options.check(tls.is_some())?;
        let tls = tls.map(|tls| self.tls_options.over(self.named(tls, &place)));
        Ok((Endpoint::new(self.preferred(place), tls)?, login))
    }

    /// Returns the address of the preferred family (`-4`, `-6`) that the place's name has, in its stead; the place as it is if
    /// the name has none.
    fn preferred(&self, place: sleeve::Endpoint) -> sleeve::Endpoint {
        let sleeve::Endpoint::Tcp { host, port } = &place else { return place };
        let addresses = (self.ipv4 || self.ipv6).then(|| (host.as_str(), *port).to_socket_addrs().ok()).flatten();
        match addresses.and_then(|mut all| all.find(|address| address.is_ipv6() == self.ipv6)) {
            Some(address) => sleeve::Endpoint::Tcp { host: address.ip().to_string(), port: *port },
            None => place,
        }
    }

    /// Keeps the host's name as the one that the certificate must be for, if [`Self::preferred`] replaces it by an address.
    fn named(&self, tls: Tls, place: &sleeve::Endpoint) -> Tls {
        match place {
            sleeve::Endpoint::Tcp { host, .. } if self.ipv4 || self.ipv6 => tls.server_name(host),
            _ => tls,
        }
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
        self.tls_options.check(false)
    }
}

/// Returns the end point and the login that a URL alone describes. The defaults are 127.0.0.1 and 6379.
pub fn resolve_url(url: &str, tls_options: &TlsOptions) -> Result<(Endpoint, Login), String> {
    let url = read(url, "127.0.0.1", 6379)?;
    let login = Login { user: url.user, password: url.password, database: url.database, ..Login::default() };
    Ok((Endpoint::new(url.endpoint, url.tls.map(|tls| tls_options.over(tls)))?, login))
}

/// Reads a URL; `host` and `port` replace missing ones.
fn read(url: &str, host: &str, port: u16) -> Result<ServerUrl, String> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    if !SCHEMES.contains(&&*scheme) {
        return Err(format!("Invalid URI scheme '{scheme}': use redis://, rediss:// or unix://"));
    }
    ServerUrl::read(url, host, port).map_err(|error| error.message().to_owned())
}

/// The schemes of single servers. The tools measure one server: they follow no cluster and no Sentinel.
const SCHEMES: [&str; 7] = ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "valkey+unix"];

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(resolve(&["-u", "unix:///run/s.sock?db=2"]), Ok("/run/s.sock".to_owned()));
        assert_eq!(resolve(&["-4", "-h", "localhost"]), Ok("127.0.0.1:6379".to_owned()));
        assert_eq!(resolve(&["-6", "-h", "127.0.0.1"]), Ok("127.0.0.1:6379".to_owned()));
        for bad in [&["--insecure"][..], &["--sni", "x"], &["--tls", "-s", "/s"], &["--cacert", "x", "-u", "redis://h"]]
        {
            assert!(resolve(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn options_of_tls_count_more_than_those_of_a_url() {
        let tls_options = TlsOptions { sni: Some("option".to_owned()), ..TlsOptions::default() };
        let (endpoint, _) = resolve_url("rediss://h?ca=/ca.crt&server_name=url", &tls_options).unwrap();
        let tls = Box::new(Tls::new().ca_file("/ca.crt").server_name("option"));
        assert_eq!(endpoint, Endpoint::Tls { host: "h".to_owned(), port: 6379, tls });
    }

    #[test]
    fn bad_urls_are_refused() {
        for bad in ["", "host:1", "http://host", "redis+cluster://h", "redis://h:99999", "redis://h/x", "redis://%4/0"]
        {
            assert!(resolve_url(bad, &TlsOptions::default()).is_err(), "{bad}");
        }
    }
}
