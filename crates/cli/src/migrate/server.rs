//! One of the two servers of a migration. It is asked through the client, which reconnects for as long as a command may take.

use std::collections::HashMap;
use std::time::Duration;

use sleeve::{Client, ErrorKind, FromReply};

use super::options::MigrateOptions;
use crate::endpoint::address::resolve_url;
use crate::endpoint::{Endpoint, Login, client_config};
use crate::replies::info::Info;

/// The reason why a step has not succeeded.
#[derive(Debug)]
pub enum Fault {
    /// A server cannot be reached, or does not answer.
    Lost(String),
    /// A server, or this program, refuses.
    Refused(String),
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl Fault {
    /// Returns an error of the migration's own, not of a server.
    pub fn refused(why: impl Into<String>) -> Self {
        Self::Refused(why.into())
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(why) | Self::Refused(why) => f.write_str(why),
            Self::Interrupted => f.write_str("Ctrl-C"),
        }
    }
}

/// A server, and the connection to it.
#[derive(Debug)]
pub struct Server {
    /// The name in messages: `FROM` or `TO`.
    pub name: &'static str,
    /// The limit of the waits: for the server, for the connection to it, and for the end of its task.
    pub patience: Duration,
    /// The user as which this program, and the other server, log in.
    pub login: Login,
    endpoint: Endpoint,
    client: Client,
}

impl Server {
    /// Connects; if the URL has no password, it is taken from the environment.
    pub fn connect(name: &'static str, url: &str, options: &MigrateOptions) -> Result<Self, Fault> {
        let (endpoint, mut login) = resolve_url(url, &options.tls_options).map_err(Fault::Refused)?;
        if matches!(endpoint, Endpoint::Unix(_)) {
            return Err(Fault::refused(format!("{name}: replicas connect by TCP: give redis:// or rediss://")));
        }
        // The data of all databases moves; the database in the URL has no meaning here.
        login.database = 0;
        if login.password.is_none() {
            login.password = std::env::var(format!("SLEEVE_{name}_AUTH")).ok();
        }
        let patience = Duration::from_secs(options.patience);
        let config = client_config(&endpoint, &login).command_timeout(Some(patience)).name("sleeve-migrate");
        let lost = |error: sleeve::Error| Fault::Lost(format!("{name} at {endpoint}: {error}"));
        let client = Client::connect_with(config).map_err(lost)?;
        Ok(Self { name, patience, login, endpoint, client })
    }

    /// Asks in words.
    pub fn ask<T: FromReply>(&self, words: &[&str]) -> Result<T, Fault> {
        let (first, more) = words.split_first().unwrap_or((&"", &[]));
        let request = more.iter().fold(self.client.cmd(first), |request, word| request.arg(*word));
        request.send().wait().map_err(|error| match error.kind() {
            // The arguments are left out of the message, because they may be secrets.
            ErrorKind::Server => Fault::Refused(format!("{} says to {first}: {}", self.name, error.message())),
            _ => Fault::Lost(format!("{} at {}: {error}", self.name, self.endpoint)),
        })
    }

    /// Asks for INFO and parses it.
    pub fn info(&self) -> Result<Info, Fault> {
        self.ask(&["INFO"]).map(|text: String| Info::parse(&text))
    }

    /// Returns an option of the server's configuration; none if the server does not know it.
    pub fn option(&self, name: &str) -> Result<Option<String>, Fault> {
        let mut options: HashMap<String, String> = self.ask(&["CONFIG", "GET", name])?;
        Ok(options.remove(name))
    }

    /// Returns host and port, as the server's URL has them.
    pub fn place(&self) -> (String, u16) {
        match &self.endpoint {
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port, .. } => (host.clone(), *port),
            Endpoint::Unix(_) => (String::new(), 0),
        }
    }

    /// Returns whether connections to the server use TLS.
    pub fn is_secure(&self) -> bool {
        matches!(self.endpoint, Endpoint::Tls { .. })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.endpoint)
    }
}
