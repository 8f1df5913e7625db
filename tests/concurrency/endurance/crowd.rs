//! A crowd: very many connections, most of them silent at any time. Some send small requests, some are closed and replaced by
//! new ones, and a few read large values slowly, so that the rest of each value waits in the server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sleeve_tests::connection::request;
use sleeve_tests::random::Random;
use sleeve_tests::{Connection, Server};

/// The descriptors that are used in addition to those of the crowd, counted generously.
const OTHER_DESCRIPTORS: u64 = 1_000;

const SLOW_READERS: usize = 16;

/// The number of bytes of a value that is read slowly.
const LARGE_BYTES: usize = 1_000_000;

/// The number of such values that wait for one reader.
const LARGE_VALUES: usize = 4;

/// Connections beside the load.
pub struct Crowd {
    connections: Vec<Connection>,
    readers: Vec<SlowReader>,
}

impl Crowd {
    /// Opens so many connections to a server.
    pub fn gather(server: &Server, count: usize) -> Self {
        raise_limit(count as u64 + OTHER_DESCRIPTORS);
        let connections = (0..count).map(|_| server.connect()).collect();
        Self { connections, readers: (0..SLOW_READERS).map(|number| SlowReader::begin(server, number)).collect() }
    }

    /// Runs the crowd until it is stopped.
    pub fn live(mut self, server: &Server, seed: u64, stop: &AtomicBool) {
        let mut random = Random::new(seed);
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..20 {
                let number = random.below(self.connections.len());
                if random.once_in(20) {
                    self.connections[number] = server.connect();
                }
                let key = format!("small:{}", random.below(1_000));
                let line = match random.below(3) {
                    0 => "ECHO here\r\n".to_owned(),
                    1 => format!("GET {key}\r\n"),
                    _ => format!("SET {key} value\r\n"),
                };
                self.connections[number].send(line.as_bytes()).expect("connected");
                let reply = self.connections[number].reply().expect("a reply");
                assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
            }
            self.readers.iter_mut().for_each(SlowReader::read_some);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A client that requests more than it reads.
struct SlowReader {
    stream: BufReader<TcpStream>,
    number: usize,
    /// The bytes of the current value that are still to be read, with the end of its line.
    left: usize,
    /// The number of values that follow.
    owed: usize,
}

impl SlowReader {
    fn begin(server: &Server, number: usize) -> Self {
        let stream = TcpStream::connect(server.address()).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is open");
        Self { stream: BufReader::new(stream), number, left: 0, owed: 0 }
    }

    /// Reads the next bytes, at most as many as its own buffer holds; sends the request again when it has the whole reply.
    fn read_some(&mut self) {
        if self.left == 0 && self.owed == 0 {
            return self.ask();
        }
        if self.left == 0 {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("a reply");
            self.owed -= 1;
            let len = line.strip_prefix('$').and_then(|len| len.trim().parse::<i64>().ok()).expect("a string, or none");
            // The reply is null if the value was evicted.
            self.left = usize::try_from(len).map_or(0, |len| len + 2);
            return;
        }
        let (number, value) = (self.number, self.left > 2);
        let bytes = self.stream.fill_buf().expect("more of it");
        let count = bytes.len().min(self.left);
        assert!(count != 0 && (!value || bytes[0] == self_byte(number)), "another value, or the end");
        self.stream.consume(count);
        self.left -= count;
    }

    fn ask(&mut self) {
        let key = format!("large:{}", self.number);
        let value = vec![self_byte(self.number); LARGE_BYTES];
        let set = request(&[b"SET".as_slice(), key.as_bytes(), &value]);
        self.stream.get_mut().write_all(&set).expect("connected");
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a reply");
        assert_eq!(line, "+OK\r\n");
        let get = request(&["GET", &key]).repeat(LARGE_VALUES);
        self.stream.get_mut().write_all(&get).expect("connected");
        self.owed = LARGE_VALUES;
    }
}

/// Returns the byte that a reader's value consists of.
fn self_byte(number: usize) -> u8 {
    b'a' + (number % 26) as u8
}

/// Raises the limit of descriptors as far as the system allows, for this process and its children.
fn raise_limit(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    assert!(
        limit.maximum.is_none_or(|maximum| maximum >= wanted),
        "so many connections take {wanted} descriptors, and the limit is {:?}: raise it (ulimit -Hn)",
        limit.maximum
    );
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("no more than the limit");
}
