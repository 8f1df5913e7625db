//! One of the two servers: asked by the client, which connects again by itself for as long as a command may take.

use std::collections::HashMap;
use std::time::Duration;

use sleeve::{Client, ErrorKind, FromReply};

use super::options::Options;
use crate::address::resolve_url;
use crate::endpoint::{Endpoint, Login, client_config};

/// Why a step has not come to its end.
#[derive(Debug)]
pub enum Fault {
    /// A server cannot be reached, or does not answer.
    Lost(String),
    /// Somebody says no.
    Refused(String),
    /// Ctrl-C.
    Interrupted,
}

impl Fault {
    /// A refusal of ours.
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

/// A server and how to reach it.
#[derive(Debug)]
pub struct Server {
    /// `FROM` or `TO`.
    pub name: &'static str,
    /// How long it is waited for, and the connection to it, and what it is to do.
    pub patience: Duration,
    /// As whom this program, and the other server, log in.
    pub login: Login,
    endpoint: Endpoint,
    client: Client,
}

impl Server {
    /// Connects; a URL without a password takes it from the environment.
    pub fn connect(name: &'static str, url: &str, options: &Options) -> Result<Self, Fault> {
        let (endpoint, mut login) = resolve_url(url, &options.tls_options).map_err(Fault::Refused)?;
        if matches!(endpoint, Endpoint::Unix(_)) {
            return Err(Fault::refused(format!("{name}: replicas connect by TCP: give redis:// or rediss://")));
        }
        // Data of all databases moves; that of the URL means nothing here.
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
            // Its arguments may be secrets.
            ErrorKind::Server => Fault::Refused(format!("{} says to {first}: {}", self.name, error.message())),
            _ => Fault::Lost(format!("{} at {}: {error}", self.name, self.endpoint)),
        })
    }

    /// What INFO says.
    pub fn info(&self) -> Result<Info, Fault> {
        self.ask(&["INFO"]).map(|text: String| Info::parse(&text))
    }

    /// An option of its configuration; none where it does not know it.
    pub fn option(&self, name: &str) -> Result<Option<String>, Fault> {
        let mut options: HashMap<String, String> = self.ask(&["CONFIG", "GET", name])?;
        Ok(options.remove(name))
    }

    /// Host and port, as its URL says.
    pub fn place(&self) -> (String, u16) {
        match &self.endpoint {
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port, .. } => (host.clone(), *port),
            Endpoint::Unix(_) => (String::new(), 0),
        }
    }

    /// Whether TLS is spoken there.
    pub fn is_secure(&self) -> bool {
        matches!(self.endpoint, Endpoint::Tls { .. })
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.endpoint)
    }
}

/// A replica as its primary lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Where the primary sees it.
    pub ip: String,
    /// The port that it has announced.
    pub port: u16,
    /// Whether it has had its snapshot.
    pub is_online: bool,
    /// What it has said that it has.
    pub offset: u64,
}

/// The lines of INFO.
#[derive(Debug, Default)]
pub struct Info(HashMap<String, String>);

impl Info {
    /// Reads them.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Self(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    /// The value of a line; empty where there is none.
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The number of a line; 0 where there is none.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Whether it follows another.
    pub fn is_replica(&self) -> bool {
        self.text("role") == "slave"
    }

    /// How many keys there are in all databases.
    pub fn keys(&self) -> u64 {
        self.databases().map(|(_, keys)| keys).sum()
    }

    /// The highest number of a database that has a key.
    pub fn last_database(&self) -> Option<u64> {
        self.databases().map(|(number, _)| number).max()
    }

    fn databases(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().filter_map(|(name, value)| {
            let keys = value.strip_prefix("keys=")?.split(',').next()?.parse().ok()?;
            Some((name.strip_prefix("db")?.parse().ok()?, keys))
        })
    }

    /// Its replicas.
    pub fn replicas(&self) -> Vec<Replica> {
        (0..self.number("connected_slaves")).filter_map(|at| replica(self.text(&format!("slave{at}")))).collect()
    }
}

/// Reads `ip=10.0.0.2,port=6379,state=online,offset=14,lag=0`.
fn replica(line: &str) -> Option<Replica> {
    let field = |name: &str| line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some(Replica {
        ip: field("ip")?.to_owned(),
        port: field("port")?.parse().ok()?,
        is_online: field("state")? == "online",
        offset: field("offset")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_tells_of_replicas_and_keys() {
        let text = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmaster_repl_offset:20\r\n\
            slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0,type=replica\r\n\
            slave1:ip=::1,port=7000,state=wait_bgsave,offset=0,lag=0\r\n\
            # Keyspace\r\ndb0:keys=11,expires=0,avg_ttl=0\r\ndb12:keys=5,expires=1\r\n";
        let info = Info::parse(text);
        assert_eq!((info.is_replica(), info.number("master_repl_offset"), info.number("loading")), (false, 20, 0));
        assert_eq!((info.keys(), info.last_database()), (16, Some(12)));
        let first = Replica { ip: "10.0.0.2".to_owned(), port: 6379, is_online: true, offset: 14 };
        let second = Replica { ip: "::1".to_owned(), port: 7000, is_online: false, offset: 0 };
        assert_eq!(info.replicas(), [first, second]);
        assert_eq!((Info::default().keys(), Info::default().last_database()), (0, None));
    }
}
