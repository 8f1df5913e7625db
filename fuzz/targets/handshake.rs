//! Any bytes to a primary from connections that claim to be replicas, and from a client that writes at the same time.
//!
//! A server with one worker listens on the loopback device, because the thread that owns the sockets of replicas feeds them.
//! The first byte is its options. The rest is cut at each byte 0xff; the byte behind that says over which of three
//! connections the piece goes, and whether the bytes that have arrived over it are read first. Another client is answered
//! after each piece; in the end, when all have gone, no replica is left and no thread. Left out are the commands that the
//! target `session` leaves out, and the commands with which a client blocks others or makes the server connect to others.

#![no_main]

mod left_out;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_server::boot::{self, Server};
use sleeve_server::config::{Config, Opt};
use sleeve_server::engine::Engine;
use sleeve_server::engine::origin::Origin;
use sleeve_server::host::clock::Instant;

/// The byte between two pieces.
const CUT: u8 = 0xff;

/// How many connections there are.
const CONNECTIONS: usize = 3;

/// The bit of a piece's first byte that has the connection be read.
const READS: u8 = 0x80;

/// Longer than the fuzzer waits.
const PATIENCE: Duration = Duration::from_secs(60);

const LEFT_OUT: [&[u8]; 6] = [b"config", b"debug", b"shutdown", b"client", b"migrate", b"acl"];

/// The beginnings of commands that run scripts: on the stacks on which scripts run, the address sanitizer takes the remains
/// of Lua's errors for a fault. The target `session` runs them.
const SCRIPTS: [&[u8]; 3] = [b"eval", b"fcall", b"function"];

fuzz_target!(|data: &[u8]| {
    let [options, script @ ..] = data else { return };
    let pieces: Vec<(u8, &[u8])> = script
        .split(|&byte| byte == CUT)
        .filter_map(|piece| piece.split_first())
        .map(|(&to, piece)| (to, piece))
        .collect();
    for number in 0..CONNECTIONS {
        let said: Vec<&[u8]> =
            pieces.iter().filter(|(to, _)| number_of(*to) == number).map(|(_, piece)| *piece).collect();
        if left_out::is_asked_for(&said.concat(), &LEFT_OUT, &SCRIPTS) {
            return;
        }
    }
    let (engine, server) = serve(*options);
    let address = server.addresses()[0];
    let mut connections = [(); CONNECTIONS].map(|()| connect(address));
    let mut other = connect(address);
    for (to, piece) in pieces {
        let connection = &mut connections[number_of(to)];
        if to & READS != 0 {
            read_what_is_there(connection);
        }
        // The server may have closed it for its earlier bytes.
        let _ = connection.write_all(piece);
        is_answered(&mut other);
    }
    drop(connections);
    is_answered(&mut other);
    while !engine.replication.replicas.is_empty() {
        is_answered(&mut other);
    }
    server.stop();
    // A snapshot that was begun for a replica that has gone ends, too.
    while Arc::strong_count(&engine) > 1 {
        std::thread::yield_now();
    }
});

fn number_of(to: u8) -> usize {
    usize::from(to & !READS) % CONNECTIONS
}

fn serve(options: u8) -> (Arc<Engine>, Server) {
    let config = Config::default();
    let has = |bit: u8| options & 1 << bit != 0;
    let yes_or_no = |bit: u8| if has(bit) { b"no".as_slice() } else { b"yes" };
    for (option, value) in [
        (Opt::Workers, b"1".as_slice()),
        (Opt::ProtoMaxBulkLen, b"1mb"),
        (Opt::ReplDisklessSync, yes_or_no(0)),
        (Opt::ReplDisklessSyncDelay, if has(1) { b"5" } else { b"0" }),
        (Opt::MinReplicasToWrite, if has(2) { b"1" } else { b"0" }),
        (Opt::ReplBacklogSize, if has(3) { b"16kb" } else { b"1mb" }),
    ] {
        config.assign(option, &[value]).expect("an option of the table");
    }
    // The name of the stream follows from the seed.
    let origin = Origin::of_seed(1, Instant::now()).on(Arc::new(MemoryDisk::new()));
    let engine = Engine::begin(config, origin);
    let server = boot::listen(&engine, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port is free");
    (engine, server)
}

fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).expect("it listens");
    connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
    connection
}

fn read_what_is_there(connection: &mut TcpStream) {
    connection.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 4_096];
    while connection.read(&mut buffer).is_ok_and(|count| count != 0) {}
    connection.set_nonblocking(false).expect("a socket");
}

/// Checks that a client that has nothing to do with replication is served.
fn is_answered(other: &mut TcpStream) {
    other.write_all(b"PING\r\n").expect("nobody has closed it");
    let mut answer = [0; 7];
    match other.read_exact(&mut answer) {
        Ok(()) => assert_eq!(&answer, b"+PONG\r\n"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nobody is served any more"),
        Err(error) => panic!("{error}"),
    }
}
