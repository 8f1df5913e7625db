//! The connection to one node: a command, then its reply as a value.
//!
//! A reply that is an error is printed with the node's address, as redis-cli prints it, unless the caller looks at it. The
//! shell's connection does the work; this file decodes the few shapes that the commands need. Replies come from outside:
//! their depth is bounded, and a shape that is not expected is an error of that node.

use sleeve_wire::frame::{Frame, FrameError, decode};

use super::console::{Console, Reported, complain};
use super::node::NodeAddress;
use crate::endpoint::{Endpoint, Login, Stream, without_number};
use crate::replies::info::Info;
use crate::shell::connection::{Connection, Target};

/// The deepest reply that a command here reads: CLUSTER SLOTS.
const DEPTH_MAX: usize = 8;

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The node refuses.
    Refused(String),
    /// The connection is lost, or the reply is not one of this command.
    Lost(String),
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status, a string or any other scalar.
    Text(Vec<u8>),
    /// A number.
    Number(i64),
    /// The null reply.
    Null,
    /// Several replies.
    List(Vec<Answer>),
    /// An error inside a list.
    Error(String),
}

impl Answer {
    fn of(frame: &Frame<'_>, depth: usize) -> Result<Self, FrameError> {
        Ok(match frame {
            Frame::Integer(number) => Self::Number(*number),
            Frame::Null => Self::Null,
            Frame::Error(text) => Self::Error(String::from_utf8_lossy(text).into_owned()),
            Frame::Simple(text) | Frame::Bulk(text) => Self::Text(text.to_vec()),
            Frame::Verbatim { text, .. } | Frame::Double(text) | Frame::BigNumber(text) => Self::Text(text.to_vec()),
            Frame::Array(items) | Frame::Set(items) | Frame::Map(items) | Frame::Push(items) if depth < DEPTH_MAX => {
                Self::List(items.map(|item| Self::of(&item?, depth + 1)).collect::<Result<_, _>>()?)
            }
            _ => return Err(FrameError::Truncated),
        })
    }

    /// Returns the text; `None` for another kind of reply.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// Returns the elements; none for another kind of reply.
    pub fn items(self) -> Vec<Answer> {
        match self {
            Self::List(items) => items,
            _ => Vec::new(),
        }
    }

    /// Returns the bytes of all elements that are strings.
    pub fn strings(self) -> Vec<Vec<u8>> {
        let bytes = |item| if let Self::Text(text) = item { Some(text) } else { None };
        self.items().into_iter().filter_map(bytes).collect()
    }
}

/// The way in which all nodes are reached: TLS and credentials.
#[derive(Clone, Debug)]
pub struct Door {
    /// An end point, of which only the kind counts.
    template: Endpoint,
    login: Login,
    console: Console,
}

impl Door {
    /// Returns the way that the command line describes.
    pub fn new(template: Endpoint, login: Login, console: Console) -> Self {
        Self { template, login, console }
    }

    /// Returns the words of MIGRATE by which one node logs in at another.
    pub fn migrate_words(&self) -> Vec<String> {
        match (&self.login.user, &self.login.password) {
            (_, None) => Vec::new(),
            (None, Some(password)) => vec!["AUTH".to_owned(), password.clone()],
            (Some(user), Some(password)) => vec!["AUTH2".to_owned(), user.clone(), password.clone()],
        }
    }

    /// Returns the same way with other credentials.
    pub fn with_login(&self, login: Login) -> Self {
        Self { login, ..self.clone() }
    }

    /// Connects and logs in. Failures are printed.
    pub fn open(&self, address: &NodeAddress) -> Result<Peer, Reported> {
        let endpoint = self.template.elsewhere(address.host.clone(), address.port);
        let connection = Connection::open(&Target::Server(endpoint)).or_else(|error| {
            complain(format_args!("Could not connect to Redis at {address}: {}", without_number(&error)))
        })?;
        let mut peer = Peer { address: address.clone(), connection, console: self.console };
        if let Some(password) = &self.login.password {
            match &self.login.user {
                None => peer.ask(&["AUTH", password])?,
                Some(user) => peer.ask(&["AUTH", user, password])?,
            };
        }
        Ok(peer)
    }
}

/// A connection to a node.
#[derive(Debug)]
pub struct Peer {
    address: NodeAddress,
    connection: Connection,
    console: Console,
}

impl Peer {
    /// Sends a command and returns its reply; an error reply is a fault.
    pub fn try_ask<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<Answer, Fault> {
        let reply = self.ask_bytes(words)?;
        match decoded(&reply)? {
            Answer::Error(text) => Err(Fault::Refused(text)),
            answer => Ok(answer),
        }
    }

    /// Sends a command and returns the bytes of its reply.
    pub fn ask_bytes<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<Vec<u8>, Fault> {
        self.connection.ask(words).map_err(|error| Fault::Lost(without_number(&error)))
    }

    /// Sends a command and returns its reply. A fault is printed.
    pub fn ask<T: AsRef<[u8]>>(&mut self, words: &[T]) -> Result<Answer, Reported> {
        self.try_ask(words).or_else(|fault| self.report(&fault))
    }

    /// Sends several commands at once and returns their replies, errors among them.
    pub fn ask_all<T: AsRef<[u8]>>(&mut self, requests: &[Vec<T>]) -> Result<Vec<Answer>, Reported> {
        let replies = self.connection.ask_all(requests);
        let replies = replies.map_err(|error| Fault::Lost(without_number(&error)));
        let answers = replies.and_then(|replies| replies.iter().map(|reply| decoded(reply)).collect());
        answers.or_else(|fault| self.report(&fault))
    }

    /// Prints a fault, and returns it as the end of the command.
    pub fn report<T>(&self, fault: &Fault) -> Result<T, Reported> {
        match fault {
            Fault::Refused(text) => {
                self.console.fail(format_args!("Node {} replied with error:\n{text}", self.address))
            }
            Fault::Lost(text) => complain(format_args!("Error: {}: {text}", self.address)),
        }
    }

    /// Returns a section of INFO.
    pub fn info(&mut self) -> Result<Info, Fault> {
        let answer = self.try_ask(&["INFO"])?;
        Ok(Info::parse(&answer.text().unwrap_or_default()))
    }

    /// Returns the socket, for a transfer that does its own reading and writing.
    pub fn socket(&self) -> Option<&Stream> {
        self.connection.socket()
    }
}

fn decoded(reply: &[u8]) -> Result<Answer, Fault> {
    let answer = decode(reply).and_then(|(frame, _)| Answer::of(&frame, 0));
    answer.map_err(|error| Fault::Lost(format!("Protocol error: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_become_values_and_deep_ones_are_refused() {
        let keys = decoded(b"*2\r\n$1\r\na\r\n$1\r\nb\r\n").unwrap();
        assert_eq!(keys.strings(), [b"a".to_vec(), b"b".to_vec()]);
        let mixed = decoded(b"*3\r\n:1\r\n-ERR x\r\n$-1\r\n").unwrap();
        assert_eq!(mixed, Answer::List(vec![Answer::Number(1), Answer::Error("ERR x".to_owned()), Answer::Null]));
        let deep = [b"*1\r\n".repeat(20), b":1\r\n".to_vec()].concat();
        assert!(matches!(decoded(&deep), Err(Fault::Lost(_))));
    }
}
