//! A connection of the doctor's own. It sends requests and counts them, so that they can be taken off the observations.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use crate::endpoint::{Endpoint, Login, Stream, cannot_connect, encode, exchange, without_number};
use crate::shell::connection::{Connection, Target, error_of};

/// The name of the doctor's connections in CLIENT LIST.
pub const NAME: &str = "sleeve-doctor";

/// The timeout of a reply: a server that is swapped out or runs a slow command takes long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reason why there is no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server says no.
    Refused(String),
    /// The connection is lost.
    Lost(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Lost(text) => f.write_str(text),
        }
    }
}

/// The requests that the doctor itself has sent, and their replies.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// The number of requests of each command, by its full name.
    pub commands: HashMap<String, u64>,
    /// The number of all requests.
    pub count: u64,
    /// The bytes sent to the server.
    pub bytes_in: u64,
    /// The bytes received from the server.
    pub bytes_out: u64,
}

/// The doctor's own traffic, summed over all of its connections.
pub type Tally = Rc<RefCell<Own>>;

/// A connection.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    tally: Tally,
    endpoint: Endpoint,
}

impl Session {
    /// Connects and logs in.
    pub fn open(endpoint: &Endpoint, login: &Login, tally: &Tally) -> Result<Self, Fault> {
        let lost = |error: io::Error| Fault::Lost(cannot_connect(endpoint, &error));
        let connection = Connection::open(&Target::Server(endpoint.clone())).map_err(lost)?;
        if let Some(stream) = connection.socket() {
            stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
            let (requests, count) = login.requests();
            exchange(stream, &requests, count).map_err(lost)?;
        }
        let mut session = Self { connection, tally: Tally::clone(tally), endpoint: endpoint.clone() };
        match session.ask(&["CLIENT", "SETNAME", NAME]) {
            Err(fault @ Fault::Lost(_)) => Err(fault),
            // The name only shows others that this is the doctor.
            Ok(_) | Err(Fault::Refused(_)) => Ok(session),
        }
    }

    /// Sends a request; returns its reply. An error reply is a [`Fault`].
    pub fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>, Fault> {
        let mut request = Vec::new();
        encode(words, &mut request);
        let reply = self.connection.ask(words).map_err(|error| self.lost(&error))?;
        let mut own = self.tally.borrow_mut();
        *own.commands.entry(full_name(words)).or_default() += 1;
        own.count += 1;
        own.bytes_in += request.len() as u64;
        own.bytes_out += reply.len() as u64;
        match error_of(&reply) {
            Some(text) => Err(Fault::Refused(format!("{}: {text}", full_name(words).replace('|', " ").to_uppercase()))),
            None => Ok(reply),
        }
    }

    /// Returns the text that answers a request.
    pub fn ask_text(&mut self, words: &[&str]) -> Result<String, Fault> {
        let reply = self.ask(words)?;
        match decode(&reply) {
            Ok((Frame::Bulk(text) | Frame::Simple(text) | Frame::Verbatim { text, .. }, _)) => {
                Ok(String::from_utf8_lossy(text).into_owned())
            }
            _ => Err(Fault::Refused(format!("{}: a reply that is no text", words.join(" ")))),
        }
    }

    /// Returns the addresses of both ends of the socket: its own and the peer's.
    pub fn addresses(&self) -> Option<(std::net::SocketAddr, std::net::SocketAddr)> {
        self.connection.socket()?.addresses()
    }

    /// Returns whether the server is on this machine, or seems to be: it may be a local proxy.
    pub fn is_local(&self) -> bool {
        self.connection.socket().is_some_and(Stream::is_local)
    }

    fn lost(&self, error: &io::Error) -> Fault {
        Fault::Lost(format!("{} does not answer any more: {}", self.endpoint, without_number(error)))
    }
}

/// Returns the name under which the server counts a command: `info`, `client|list`.
fn full_name(words: &[&str]) -> String {
    let is_container = |word: &str| ["CLIENT", "CONFIG", "SLOWLOG"].contains(&word);
    match words {
        [first, second, ..] if is_container(first) => format!("{first}|{second}").to_lowercase(),
        [first, ..] => first.to_lowercase(),
        [] => String::new(),
    }
}
