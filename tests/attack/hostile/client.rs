//! The attackers: one that counts replies, one that sends anything, and one that breaks the protocol.
//!
//! Each runs on a thread of its own with commands of its own. A request that waits without end (BLPOP, a pause, an endless
//! script) is ended from outside by the run's nurse, which sees by [`Progress`] which client stands still. A failed condition
//! comes back as a [`Fault`] with the commands that were under way.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::generator::Words;
use sleeve_tests::random::Random;
use sleeve_tests::transcript::frame::text;
use sleeve_tests::{Connection, strict};

use super::commands::{Hostile, Manners, is_name, shown};

/// The number of connections that never read and are kept.
const LAZY_MAX: usize = 100;

/// The beginnings of replies to PING in states that refuse it.
const HELD_UP: [&[u8]; 3] = [b"-BUSY", b"-LOADING", b"-MASTERDOWN"];

/// The most commands that are sent together.
const TOGETHER_MAX: usize = 40;

/// The state that a client shows to the nurse.
#[derive(Debug, Default)]
pub struct Progress {
    /// The number of the client's connection, 0 while it has none.
    pub id: AtomicU64,
    /// The number of replies so far.
    pub replies: AtomicU64,
    /// True if the client has done its part.
    pub done: AtomicBool,
}

/// The state that all clients of a run share.
#[derive(Debug)]
pub struct Arena {
    /// The address of the server.
    pub address: SocketAddr,
    /// True if a client has found a fault.
    pub stop: AtomicBool,
    /// The progress of each client.
    pub progress: Vec<Progress>,
}

impl Arena {
    /// Returns whether all clients have done their parts.
    pub fn is_over(&self) -> bool {
        self.progress.iter().all(|progress| progress.done.load(Ordering::Relaxed))
    }
}

/// A failed condition, with the commands under way.
pub type Fault = String;

/// The observations of a client.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// The number of commands that were sent.
    pub commands: usize,
    /// Connections that the server closed although this client did not ask for it.
    pub ended: usize,
}

/// An attacker.
pub struct Client<'a> {
    arena: &'a Arena,
    progress: &'a Progress,
    hostile: Hostile,
    quiet: bool,
    connection: Option<Connection>,
    resp3: bool,
    in_multi: bool,
    /// True if the connection has asked for notifications of the journal's offset. The server closes it when its journal
    /// becomes another one.
    follows_journal: bool,
    lazy: Vec<Connection>,
    tally: Tally,
    /// The number of tokens so far; a token tells this client's reply from another's.
    tokens: u64,
}

impl<'a> Client<'a> {
    /// Returns the client of this number; its part depends on `seed` and `manners`.
    pub fn new(arena: &'a Arena, number: usize, seed: u64, manners: Manners) -> Client<'a> {
        Client {
            arena,
            progress: &arena.progress[number],
            hostile: Hostile::new(seed, manners),
            quiet: manners.quiet,
            connection: None,
            resp3: false,
            in_multi: false,
            follows_journal: false,
            lazy: Vec::new(),
            tally: Tally::default(),
            tokens: 0,
        }
    }

    /// Sends so many commands in the way of `role`.
    ///
    /// # Errors
    /// The failed condition.
    pub fn run(mut self, role: Role, commands: usize) -> Result<Tally, Fault> {
        while self.tally.commands < commands && !self.arena.stop.load(Ordering::Relaxed) {
            match role {
                Role::Counts => self.count()?,
                Role::Anything => self.anything()?,
                Role::Rude => self.be_rude()?,
            }
        }
        Ok(self.tally)
    }

    fn random(&mut self) -> &mut Random {
        self.hostile.random()
    }

    fn batch(&mut self) -> Vec<Words> {
        let count = 1 + self.random().below(TOGETHER_MAX);
        let mut batch: Vec<Words> = (0..count).map(|_| self.hostile.command()).collect();
        if self.in_multi || self.random().once_in(6) {
            let end: &[&[u8]] = &[b"EXEC", b"EXEC", b"EXEC", b"DISCARD", b"RESET", b"PING"];
            batch.insert(0, vec![b"MULTI".to_vec()]);
            batch.push(vec![self.random().pick(end).to_vec()]);
        }
        self.tally.commands += batch.len();
        batch
    }

    /// Opens a connection, unless there is one.
    fn connect(&mut self) -> io::Result<()> {
        if self.connection.is_none() {
            let mut connection = Connection::open(self.arena.address)?;
            // While a long script runs, every client gets an error instead.
            let id = loop {
                let id = connection.command(&["CLIENT", "ID"])?;
                if let Some(id) = text(&id).and_then(|id| std::str::from_utf8(id).ok()?.parse().ok()) {
                    break id;
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            self.progress.id.store(id, Ordering::Relaxed);
            (self.resp3, self.in_multi, self.follows_journal) = (false, false, false);
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// Sends a batch, and expects one reply for each command and one for the token behind them.
    fn count(&mut self) -> Result<(), Fault> {
        if self.connect().is_err() {
            return self.lost(&[]);
        }
        let batch = self.batch();
        let token = self.token();
        let closes = batch.iter().any(|words| is_name(words, &["client", "kill"]));
        self.follows_journal |= batch.iter().any(|words| is_name(words, &["client", "journal"]));
        let end = vec![b"PING".to_vec(), token.clone()];
        let bytes: Vec<u8> = batch.iter().chain([&end]).flat_map(|words| request(words)).collect();
        if self.send(&bytes).is_err() {
            return self.lost(&batch);
        }
        let mut last = Vec::new();
        for index in 0..=batch.len() {
            if let Some(words) = batch.get(index) {
                self.resp3 |= is_name(words, &["hello", "3"]) || is_name(words, &["exec"]);
            }
            loop {
                match self.reply() {
                    Ok(reply) if reply.starts_with(b">") && self.resp3 => {}
                    Ok(reply) => break last = reply,
                    Err(error) if error.kind() == ErrorKind::InvalidData => {
                        return Err(fault(&error.to_string(), &batch, Some(index)));
                    }
                    Err(_) if closes => {
                        self.connection = None;
                        return Ok(());
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                        return Err(fault("no reply came", &batch, Some(index)));
                    }
                    Err(_) => return self.lost(&batch),
                }
            }
        }
        let shown = text(&last).unwrap_or_default();
        let refused: &[&[u8]] = &[b"+QUEUED", b"-NOPERM", b"-NOAUTH", b"-BUSY", b"-LOADING", b"-MASTERDOWN"];
        if shown != token.as_slice() && !refused.iter().any(|start| last.starts_with(start)) {
            let said =
                format!("the reply to PING {} is {}", token.escape_ascii(), last[..last.len().min(300)].escape_ascii());
            return Err(fault(&said, &batch, None));
        }
        self.in_multi = last.starts_with(b"+QUEUED");
        // A client that logged in as a user without permissions begins again.
        if last.starts_with(b"-NO") || self.random().once_in(50) {
            self.connection = None;
        }
        Ok(())
    }

    /// Sends any commands; RESET then brings the connection back to its first state.
    fn anything(&mut self) -> Result<(), Fault> {
        if self.connect().is_err() {
            return self.lost(&[]);
        }
        let batch = self.batch();
        let token = self.token();
        let calm: Vec<Words> = vec![
            vec![b"CLIENT".to_vec(), b"REPLY".to_vec(), b"ON".to_vec()],
            vec![b"RESET".to_vec()],
            vec![b"PING".to_vec(), token.clone()],
        ];
        let bytes: Vec<u8> = batch.iter().chain(&calm).flat_map(|words| request(words)).collect();
        if batch.iter().any(|words| is_name(words, &["sync"]) || is_name(words, &["psync"])) {
            return self.become_replica(&bytes);
        }
        let mut sent = Ok(());
        if self.random().once_in(4) {
            let piece = 1 + bytes.len() / (2 + self.random().below(20));
            bytes.chunks(piece).for_each(|piece| sent = self.send(piece));
        } else {
            sent = self.send(&bytes);
        }
        self.resp3 = true;
        while sent.is_ok() {
            match self.reply() {
                // While a script runs, PING is refused too.
                Ok(reply) if text(&reply) == Some(token.as_slice()) => return Ok(()),
                // PING is also refused while a primary's data is being loaded, and while the primary is not connected.
                Ok(reply) if HELD_UP.iter().any(|start| reply.starts_with(start)) => {
                    self.connection = None;
                    return Ok(());
                }
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Err(fault(&error.to_string(), &batch, None));
                }
                Err(_) => break,
            }
        }
        self.connection = None;
        Ok(())
    }

    /// Begins as a replica: from here on the connection may carry a stream instead of replies.
    fn become_replica(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        // The server may close it for these bytes.
        let _ = connection.send(bytes);
        self.keep(connection);
        Ok(())
    }

    /// Keeps a connection that is never read, for a while.
    fn keep(&mut self, connection: Connection) {
        self.progress.replies.fetch_add(1, Ordering::Relaxed);
        self.lazy.push(connection);
        if self.lazy.len() > LAZY_MAX {
            let count = self.lazy.len();
            let gone = self.random().below(count);
            self.lazy.swap_remove(gone);
        }
    }

    /// Returns the first requests of a replica: its description, and the offset that it claims.
    fn as_replica(&mut self) -> Vec<u8> {
        let port = self.hostile.port_of_primary();
        let offset = *self.random().pick(&["0", "1", "9223372036854775807"]);
        let begin = *self.random().pick(&["PSYNC ? -1", "PSYNC ? -1", "SYNC"]);
        let words = [b"REPLCONF capa eof capa psync2 listening-port ".as_slice(), &port].concat();
        [words, format!("\r\n{begin}\r\nREPLCONF ACK {offset} FACK {offset}\r\n").into_bytes()].concat()
    }

    /// Sends requests that are cut, garbage, and opens connections that are never read.
    fn be_rude(&mut self) -> Result<(), Fault> {
        let Ok(mut connection) = Connection::open(self.arena.address) else { return self.lost(&[]) };
        // The server stops reading from a client that does not read.
        if connection.stream().set_write_timeout(Some(Duration::from_millis(20))).is_err() {
            return Ok(());
        }
        let batch = self.batch();
        let mut bytes: Vec<u8> = batch.iter().flat_map(|words| request(words)).collect();
        let kind = self.random().below(9);
        match kind {
            0 => {
                let end = self.random().below(bytes.len());
                bytes.truncate(end);
            }
            1 => {
                let place = self.random().below(bytes.len());
                bytes[place] = self.random().bits().to_le_bytes()[0];
            }
            2 => bytes = [b"MONITOR\r\n".as_slice(), &bytes].concat(),
            3 => bytes = [b"HELLO 3\r\nCLIENT TRACKING ON BCAST\r\nPSUBSCRIBE *\r\n".as_slice(), &bytes].concat(),
            4 => {
                let lengths = [
                    "*-1\r\n",
                    "*1048577\r\n",
                    "*1000000\r\n$1\r\n",
                    "*2147483647\r\n",
                    "*1\r\n$2147483647\r\n",
                    "$-1\r\n",
                    "*3\r\n$-1\r\n",
                    "\r\n\r\n",
                    "*0\r\n",
                    "GET \"\\x00",
                    "GET 'a",
                ];
                bytes = self.random().pick(&lengths).as_bytes().to_vec();
            }
            5 => bytes = self.as_replica(),
            6 => bytes = [self.as_replica(), bytes].concat(),
            7 => bytes = [b"REPLICAOF 127.0.0.1 ".as_slice(), &self.hostile.port_of_primary(), b"\r\n"].concat(),
            _ => {}
        }
        let _ = connection.send(&bytes);
        if kind == 0 {
            self.progress.replies.fetch_add(1, Ordering::Relaxed);
        } else {
            self.keep(connection);
        }
        Ok(())
    }

    fn token(&mut self) -> Vec<u8> {
        self.tokens += 1;
        format!("token-{}", self.tokens).into_bytes()
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.as_mut().map_or(Ok(()), |connection| connection.send(bytes))
    }

    /// Returns the next reply, which must be exactly one.
    fn reply(&mut self) -> io::Result<Vec<u8>> {
        let Some(connection) = &mut self.connection else { return Err(ErrorKind::NotConnected.into()) };
        let reply = connection.reply()?;
        self.progress.replies.fetch_add(1, Ordering::Relaxed);
        match strict::flaw(&reply, self.resp3) {
            None => Ok(reply),
            Some(flaw) => Err(io::Error::new(ErrorKind::InvalidData, flaw)),
        }
    }

    /// Notes that the server has ended the connection, or accepts none. After all clients have finished, the test checks
    /// whether it was allowed to.
    fn lost(&mut self, batch: &[Words]) -> Result<(), Fault> {
        self.connection = None;
        if self.quiet && !self.follows_journal {
            self.tally.ended += 1;
        }
        if Connection::open(self.arena.address).is_err() {
            return Err(fault("the server takes no connection", batch, None));
        }
        Ok(())
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.progress.done.store(true, Ordering::Relaxed);
    }
}

/// The behaviour of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client counts the replies.
    Counts,
    /// The client sends every kind of command.
    Anything,
    /// The client cuts its requests, sends garbage and does not read.
    Rude,
}

/// Returns a fault, with the commands that were sent together.
fn fault(what: &str, batch: &[Words], index: Option<usize>) -> Fault {
    let place = index.map_or_else(String::new, |index| format!(" (command {index} of {})", batch.len()));
    let lines: Vec<String> = batch
        .iter()
        .enumerate()
        .map(|(at, words)| format!("{} {at}: {}", if index == Some(at) { ">" } else { " " }, shown(words)))
        .collect();
    format!("{what}{place}\n{}", lines.join("\n"))
}
