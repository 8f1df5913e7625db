//! Arbitrary bytes to a primary, from connections that claim to be replicas. Another client sends requests at the same time.
//!
//! A server with one worker listens on the loopback device, because the thread that owns the sockets of replicas feeds them.
//! The first byte selects the server's options. The rest is split at each byte 0xff. The first byte of each piece selects one
//! of three connections for the piece, and states whether the bytes that have arrived on that connection are read first.
//!
//! The other client is answered after each piece. At the end, after all connections are closed, no replica and no thread is
//! left. The commands that the target `session` leaves out are left out, and also the commands with which a client blocks
//! others or makes the server connect to other servers.

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

/// The byte that separates two pieces.
const CUT: u8 = 0xff;

/// The number of connections.
const CONNECTIONS: usize = 3;

/// The bit in a piece's first byte that asks for a read of the connection.
const READS: u8 = 0x80;

/// The longest wait for a reply. It is longer than the fuzzer's own time limit.
const PATIENCE: Duration = Duration::from_secs(60);

const LEFT_OUT: [&[u8]; 6] = [b"config", b"debug", b"shutdown", b"client", b"migrate", b"acl"];

/// The beginnings of the names of commands that run scripts. Scripts run on stacks of their own, and there the address
/// sanitizer reports false errors after an error of Lua. The target `session` runs these commands.
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
        // The server may have closed the connection because of its earlier bytes.
        let _ = connection.write_all(piece);
        is_answered(&mut other);
    }
    drop(connections);
    is_answered(&mut other);
    while !engine.replication.replicas.is_empty() {
        is_answered(&mut other);
    }
    server.stop();
    // Wait for the end of all threads: a snapshot for a replica ends after the replica has gone, too.
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
    // A fixed seed gives the stream a fixed id.
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

/// Checks that a client outside the replication is served.
fn is_answered(other: &mut TcpStream) {
    other.write_all(b"PING\r\n").expect("nobody has closed it");
    let mut answer = [0; 7];
    match other.read_exact(&mut answer) {
        Ok(()) => assert_eq!(&answer, b"+PONG\r\n"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nobody is served any more"),
        Err(error) => panic!("{error}"),
    }
}
