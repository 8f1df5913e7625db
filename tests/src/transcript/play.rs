//! Plays cases against a server and tells where its bytes differ from the recorded ones.
//!
//! Each case gets new connections and empty databases; after it, the player puts back the options that it changed. One thread
//! plays; two scripts must not be played against the same server at the same time.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use super::escape::{escape, unescape, words};
use super::frame;
use super::script::{Action, Case, Options, Order, Reference, Replies, Script, Step};
use crate::connection::{Connection, request};
use crate::server::{Kind, Server};
use crate::unread::{Unread, ends};

/// A server under test.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The address of the server.
    pub address: SocketAddr,
    /// The kind of the server.
    pub kind: Kind,
    /// The version of Redis that the server reports, without the last part.
    pub version: (u32, u32),
}

/// A reply that differs from the recorded one.
#[derive(Debug)]
pub struct Difference {
    /// The file, the line, the case and the protocol.
    pub place: String,
    /// The request as the file has it.
    pub request: String,
    /// The recorded bytes or the pattern, escaped.
    pub expected: String,
    /// The bytes of the server's reply, escaped.
    pub got: String,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// The number of cases played, counted once for each protocol.
    pub cases: usize,
    /// The number of replies compared.
    pub replies: usize,
    /// The differing replies.
    pub differences: Vec<Difference>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.place)?;
        writeln!(out, "  request   {}", self.request)?;
        writeln!(out, "  expected  {}", self.expected)?;
        write!(out, "  got       {}", self.got)
    }
}

impl Target {
    /// Asks a running server for its version, and makes it a target.
    pub fn of(server: &Server) -> Target {
        let info = server.connect().command(&["INFO", "server"]).expect("a reply");
        let info = String::from_utf8_lossy(&info);
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or_default());
        let version = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Target { address: server.address(), kind: server.kind(), version }
    }

    /// Returns whether a case with these options is played against this server.
    pub fn plays(&self, options: &Options) -> bool {
        match (self.kind, options.reference) {
            (Kind::Sleeve, _) => true,
            (Kind::Redis, reference) => reference == Reference::Redis7,
            (Kind::Valkey, reference) => reference == Reference::Valkey,
            (Kind::Redis8, Reference::Redis(major, minor)) => (major, minor) <= self.version,
            (Kind::Redis8, _) => false,
        }
    }
}

/// Plays every case of `script` that concerns `target`, in each of its protocols, and adds the results to `tally`.
pub fn play(file: &str, script: &Script, target: &Target, tally: &mut Tally) {
    for case in script.cases.iter().filter(|case| target.plays(&case.options)) {
        for &protocol in &case.options.protocols {
            tally.cases += 1;
            let outcomes = run_case(case, protocol, target.address);
            for (step, outcome) in case.steps.iter().zip(&outcomes) {
                tally.replies += 1;
                if let Some((expected, got)) = compare(step, protocol, outcome) {
                    let place = format!("{file}:{} {} (RESP{protocol})", step.line, case.name);
                    tally.differences.push(Difference { place, request: step.source().to_owned(), expected, got });
                }
            }
        }
    }
}

/// The outcome of one step: its replies, or the reason why there are none.
pub type Outcome = Result<Vec<Vec<u8>>, String>;

/// Plays one case; the list is shorter than the case if the case could not go on.
pub fn run_case(case: &Case, protocol: u8, address: SocketAddr) -> Vec<Outcome> {
    let mut stage = match Stage::set(&case.options, protocol, address) {
        Ok(stage) => stage,
        Err(error) => return vec![Err(format!("the stage could not be set: {error}"))],
    };
    let mut outcomes = Vec::new();
    for step in &case.steps {
        let outcome = stage.run(step);
        let stuck = outcome.is_err();
        outcomes.push(outcome);
        if stuck {
            break;
        }
    }
    if let Err(error) = stage.strike() {
        outcomes.push(Err(format!("the stage could not be cleared: {error}")));
    }
    outcomes
}

/// Returns the replies in the order in which they are compared and recorded.
pub fn settled(step: &Step, replies: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let settle = |reply: &Vec<u8>| match step.order {
        Order::Exact => reply.clone(),
        Order::Open => frame::sorted(reply, false),
        Order::OpenPairs => frame::sorted(reply, true),
    };
    replies.iter().map(settle).collect()
}

/// Returns the expected and the actual reply, escaped, if they differ.
fn compare(step: &Step, protocol: u8, outcome: &Outcome) -> Option<(String, String)> {
    let expected = match step.expected_bytes(protocol) {
        Ok(bytes) => bytes,
        Err(fault) => return Some((fault, String::new())),
    };
    let replies = match outcome {
        Ok(replies) => replies,
        Err(error) => return Some((escape(&expected), error.clone())),
    };
    let got = settled(step, replies).concat();
    match &step.pattern {
        Some(pattern) if pattern.matches(&got) => None,
        Some(pattern) => Some((pattern.source().to_owned(), escape(&got))),
        None if step.capture.is_some() || got == expected => None,
        None => Some((escape(&expected), escape(&got))),
    }
}

/// The connections and names of one case while it is played.
struct Stage {
    address: SocketAddr,
    protocol: u8,
    keeper: Connection,
    before: Vec<(String, Vec<u8>)>,
    connections: HashMap<String, Connection>,
    names: HashMap<String, String>,
}

impl Stage {
    /// Empties the databases and sets the options of the case.
    fn set(options: &Options, protocol: u8, address: SocketAddr) -> io::Result<Stage> {
        let mut keeper = Connection::open(address)?;
        keeper.command(&["CLIENT", "UNPAUSE"])?;
        expect_ok(&keeper.command(&["FLUSHALL"])?, "FLUSHALL")?;
        let mut before = Vec::new();
        for (name, value) in &options.configuration {
            let reply = keeper.command(&["CONFIG", "GET", name])?;
            let parts = frame::children(&reply).unwrap_or_default();
            let old = parts.get(1).and_then(|part| frame::text(part)).unwrap_or_default();
            before.push((name.clone(), old.to_vec()));
            if let Some(value) = value {
                expect_ok(&keeper.command(&["CONFIG", "SET", name, value])?, &format!("CONFIG SET {name}"))?;
            }
        }
        if options.alone {
            wait_until_alone(&mut keeper)?;
        }
        Ok(Stage { address, protocol, keeper, before, connections: HashMap::new(), names: HashMap::new() })
    }

    /// Restores the options. If the case has closed the keeper's connection, a new one does it.
    fn strike(mut self) -> io::Result<()> {
        self.connections.clear();
        if self.keeper.command(&["PING"]).is_err() {
            self.keeper = Connection::open(self.address)?;
        }
        for (name, value) in std::mem::take(&mut self.before) {
            let reply = self.keeper.command(&[b"CONFIG".as_slice(), b"SET", name.as_bytes(), &value])?;
            expect_ok(&reply, &format!("CONFIG SET {name}"))?;
        }
        Ok(())
    }

    fn run(&mut self, step: &Step) -> Outcome {
        self.connect(&step.connection).map_err(|error| format!("no connection: {error}"))?;
        let bytes = match &step.action {
            Action::Request(text) => request(&words(&self.expand(text)?)?),
            Action::Raw(text) => unescape(&self.expand(text)?)?,
            Action::Read => Vec::new(),
        };
        let socket = self.connections.get_mut(&step.connection).ok_or("the connection is gone")?;
        let replies = exchange(socket, &bytes, step.replies).map_err(|error| error.to_string())?;
        if let Some(name) = &step.capture {
            let text = replies.first().and_then(|reply| frame::text(reply)).ok_or("nothing to capture")?;
            self.names.insert(name.clone(), String::from_utf8_lossy(text).into_owned());
        }
        Ok(replies)
    }

    /// Opens the connection of this name when it is used for the first time.
    fn connect(&mut self, name: &str) -> io::Result<()> {
        if !self.connections.contains_key(name) {
            let mut socket = Connection::open(self.address)?;
            if self.protocol == 3 {
                socket.command(&["HELLO", "3"])?;
            }
            self.connections.insert(name.to_owned(), socket);
        }
        Ok(())
    }

    /// Replaces the names and expressions in double braces.
    fn expand(&mut self, text: &str) -> Result<String, String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (hole, after) = after.split_once("}}").ok_or("double braces are not closed")?;
            expanded.push_str(before);
            expanded.push_str(&self.fill(hole)?);
            rest = after;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    fn fill(&mut self, hole: &str) -> Result<String, String> {
        if hole == "server" {
            return Ok(self.address.to_string());
        }
        if let Some((text, count)) = hole.split_once('*') {
            return Ok(text.repeat(count.parse().map_err(|_| "no count of repetitions")?));
        }
        if let Some(name) = hole.strip_prefix("address:") {
            self.connect(name).map_err(|error| error.to_string())?;
            let address = self.connections.get(name).and_then(|socket| socket.stream().local_addr().ok());
            return address.map(|address| address.to_string()).ok_or_else(|| "no address".to_owned());
        }
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = |offset: &str, now: u128| offset.parse::<u128>().map(|offset| (now + offset).to_string());
        if let Some(offset) = hole.strip_prefix("now+") {
            return time(offset, u128::from(since_epoch.as_secs())).map_err(|error| error.to_string());
        }
        if let Some(offset) = hole.strip_prefix("now_ms+") {
            return time(offset, since_epoch.as_millis()).map_err(|error| error.to_string());
        }
        self.names.get(hole).cloned().ok_or_else(|| format!("nothing is captured as {hole}"))
    }
}

fn exchange(socket: &mut Connection, bytes: &[u8], replies: Replies) -> io::Result<Vec<Vec<u8>>> {
    match replies {
        Replies::Count(count) => {
            socket.send(bytes)?;
            if count == 0 {
                wait_until_taken(socket)?;
            }
            (0..count).map(|_| socket.reply()).collect()
        }
        Replies::UntilClosed => {
            // A server may close the connection before it has read all bytes.
            let _ = socket.send(bytes);
            socket.read_to_end().map(|bytes| if bytes.is_empty() { Vec::new() } else { vec![bytes] })
        }
    }
}

/// Waits until the server has read the bytes that were sent and that have no reply to wait for. Requests that other
/// connections send next then arrive later. A busy server does not read; then this does not wait for long.
fn wait_until_taken(socket: &Connection) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(1);
    let ((near, far), unread) = (ends(socket.stream())?, Unread::open()?);
    while unread.bytes(near, far)? != 0 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    Ok(())
}

fn expect_ok(reply: &[u8], request: &str) -> io::Result<()> {
    if reply == b"+OK\r\n" {
        return Ok(());
    }
    Err(io::Error::other(format!("{request}: {}", escape(reply))))
}

/// Waits until the server has noticed that all earlier connections are closed.
fn wait_until_alone(keeper: &mut Connection) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let list = keeper.command(&["CLIENT", "LIST"])?;
        let clients = list.windows(4).filter(|window| window == b" fd=").count();
        if clients <= 1 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("other clients stay: {}", escape(&list))));
        }
    }
}
