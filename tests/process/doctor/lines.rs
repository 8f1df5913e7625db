//! Ways to a server that are long, narrow, or tell other figures than the server has.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use sleeve_tests::{Relay, Server};

/// The number of bytes that pass at once.
const CHUNK: usize = 64 * 1024;

/// Passes bytes on, each piece after `with` has changed it.
fn pass(mut from: &TcpStream, mut to: &TcpStream, with: impl Fn(&mut [u8])) {
    let mut chunk = [0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        with(&mut chunk[..length]);
        if to.write_all(&chunk[..length]).is_err() {
            return;
        }
    }
}

/// Adds so much to each round trip.
pub fn long(server: &Server, time: Duration) -> Relay {
    Relay::start(server.address(), move |from, to| pass(from, to, |_| thread::sleep(time)))
}

/// Takes so many bytes a second either way.
pub fn narrow(server: &Server, bytes_per_second: u64) -> Relay {
    let way = move |from: &TcpStream, to: &TcpStream| {
        pass(from, to, |bytes| {
            thread::sleep(Duration::from_nanos(bytes.len() as u64 * 1_000_000_000 / bytes_per_second))
        });
    };
    Relay::start_both(server.address(), way, way)
}

/// Changes INFO to that of a server that is swapped out: a hundredth of its memory is resident.
pub fn swapped(server: &Server) -> Relay {
    Relay::start(server.address(), |from, to| {
        pass(from, to, |bytes| {
            blank(bytes, b"\nprocess_id:", usize::MAX);
            blank(bytes, b"\nused_memory_rss:", 3);
        });
    })
}

/// Makes zeros of the first digits behind a name.
fn blank(bytes: &mut [u8], name: &[u8], count: usize) {
    let Some(at) = bytes.windows(name.len()).position(|window| window == name) else { return };
    let digits = bytes[at + name.len()..].iter_mut().take_while(|byte| byte.is_ascii_digit());
    digits.take(count).for_each(|digit| *digit = b'0');
}
