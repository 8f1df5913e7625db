//! Hostile primaries: each replica that connects gets another answer.
//!
//! One closes at once, one is silent, one sends garbage; others answer as a primary does and then send no stream, a damaged
//! dump or none, or a good one and behind it any requests. Each listens on a port of its own with a thread of its own, until
//! the attack is over.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::{self, Scope as ThreadScope};
use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::generator::{Generator, Scope, edges};
use sleeve_tests::random::Random;
use sleeve_wire::commands::{Flags, all};
use sleeve_wire::request::{Batch, Limits, Parser};

use super::client::Arena;
use super::commands::PEERS;

/// The timeout of each exchange with a replica, in milliseconds.
const PATIENCE_MS: u64 = 100;

/// A dump without keys, which says that it has no checksum.
const DUMP: &[u8] = b"REDIS0011\xfa\x09redis-ver\x067.0.15\xff\0\0\0\0\0\0\0\0";

/// The mark that ends a dump without an announced length.
const MARK: &[u8; 40] = b"mmmmmmmmmmmmmmmmmmmmMMMMMMMMMMMMMMMMMMMM";

/// Requests that no primary sends.
const STRANGE: &[&[&str]] = &[
    &["SHUTDOWN", "NOSAVE"],
    &["SYNC"],
    &["PSYNC", "?", "-1"],
    &["SUBSCRIBE", "c0"],
    &["MONITOR"],
    &["CLIENT", "TRACKING", "ON", "BCAST"],
    &["CLIENT", "REPLY", "OFF"],
    &["CLIENT", "PAUSE", "100000", "ALL"],
    &["CONFIG", "SET", "appendonly", "yes"],
    &["REPLICAOF", "NO", "ONE"],
    &["FAILOVER"],
    &["AUTH", "nobody", "p"],
    &["RESET"],
    &["QUIT"],
    &["WATCH", "k0"],
    &["DISCARD"],
    &["EXEC"],
    &["MULTI"],
    &["MULTI"],
    &["REPLCONF", "GETACK", "*"],
    &["PING"],
    &["SELECT", "7"],
    &["SELECT", "70000"],
    &["PUBLISH", "c0", "x"],
    &["WAIT", "1", "0"],
    &["BLPOP", "none", "0"],
];

/// The listening sockets of one turn.
pub struct Peers {
    listeners: [TcpListener; PEERS],
}

impl Peers {
    /// Opens the sockets, each on a free port.
    pub fn new() -> Peers {
        Peers { listeners: [(); PEERS].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free")) }
    }

    /// Returns the ports of the sockets.
    pub fn ports(&self) -> [u16; PEERS] {
        self.listeners.each_ref().map(|listener| listener.local_addr().expect("it is bound").port())
    }

    /// Answers every replica that connects, until the attack is over; all connections are closed then.
    pub fn listen<'s>(&'s self, scope: &'s ThreadScope<'s, '_>, arena: &'s Arena, seed: u64) {
        for (number, listener) in self.listeners.iter().enumerate() {
            listener.set_nonblocking(true).expect("a socket");
            let mut random = Random::new(seed.wrapping_mul(17).wrapping_add(number as u64));
            scope.spawn(move || {
                while !arena.is_over() {
                    match listener.accept() {
                        // The fate of a replica's connection does not matter here.
                        Ok((replica, _)) => _ = answer(replica, &mut random),
                        Err(_) => thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
        }
    }
}

/// Sends random answers to one replica.
fn answer(mut replica: TcpStream, random: &mut Random) -> io::Result<()> {
    let patience = Some(Duration::from_millis(PATIENCE_MS));
    replica.set_nonblocking(false)?;
    replica.set_read_timeout(patience)?;
    replica.set_write_timeout(patience)?;
    match random.below(10) {
        0 => return Ok(()),
        1 => {}
        2 => replica.write_all(&edges::bytes(random))?,
        _ => {
            greet(&mut replica)?;
            replica.write_all(&said(random))?;
        }
    }
    // The replica's acknowledgements are ignored.
    let mut bytes = [0; 4_096];
    while replica.read(&mut bytes)? != 0 {}
    Ok(())
}

/// Answers all requests of a replica before it asks for the stream.
fn greet(replica: &mut TcpStream) -> io::Result<()> {
    let (mut heard, mut bytes) = (Vec::new(), [0; 4_096]);
    loop {
        let count = replica.read(&mut bytes)?;
        heard.extend_from_slice(&bytes[..count]);
        let mut batch = Batch::new();
        let parsed = Parser::new().parse(&heard, &Limits::default(), &mut batch);
        let used = parsed.map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
        for index in 0..batch.len() {
            match batch.get(index, &heard).get(0) {
                Some(b"PSYNC") => return Ok(()),
                Some(b"PING") => replica.write_all(b"+PONG\r\n")?,
                _ => replica.write_all(b"+OK\r\n")?,
            }
        }
        heard.drain(..used);
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Returns the answer to PSYNC, and the bytes behind it.
fn said(random: &mut Random) -> Vec<u8> {
    let id: String = (0..40).map(|_| char::from(*random.pick(b"0123456789abcdef"))).collect();
    let offset = *random.pick(&["0", "7", "7", "100", "9223372036854775807", "x"]);
    let anew = format!("+FULLRESYNC {id} {offset}\r\n").into_bytes();
    let mut damaged = DUMP.to_vec();
    let at = random.below(damaged.len());
    damaged[at] = damaged[at].wrapping_add(1);
    let counted = |dump: &[u8]| [format!("${}\r\n", dump.len()).as_bytes(), dump].concat();
    let head = match random.below(14) {
        0 => return b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n".to_vec(),
        1 => return [b"+".as_slice(), &edges::bytes(random), b"\r\n"].concat(),
        2 => [anew, counted(&damaged)].concat(),
        3 => [anew, counted(&DUMP[..at])].concat(),
        4 => return [anew, b"$9000000000000000000\r\n".to_vec(), DUMP.to_vec()].concat(),
        5 => [anew, b"$EOF:".to_vec(), MARK.to_vec(), b"\r\n".to_vec(), DUMP.to_vec(), MARK.to_vec()].concat(),
        6 => format!("+CONTINUE {id}\r\n").into_bytes(),
        7 => b"+CONTINUE\r\n".to_vec(),
        _ => [anew, counted(DUMP)].concat(),
    };
    [head, stream(random)].concat()
}

/// Returns writes with hostile arguments, and now and then a request that no primary sends.
fn stream(random: &mut Random) -> Vec<u8> {
    let rows = all().iter().filter(|row| row.flags.contains(Flags::WRITE)).collect();
    let mut generator = Generator::new(random.bits(), Scope { rows, hostile: true, ..Scope::default() });
    let mut bytes = Vec::new();
    for _ in 0..random.below(60) {
        match random.below(12) {
            0 => bytes.extend(request(random.pick::<&[&str]>(STRANGE))),
            1 => bytes.extend(request(&["SET", "k0", "5"])),
            _ => bytes.extend(request(&generator.command())),
        }
    }
    if random.once_in(4) {
        bytes.truncate(random.below(bytes.len().max(1)));
    }
    bytes
}
