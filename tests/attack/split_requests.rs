//! Requests that arrive in pieces: the stream is cut at every byte boundary, over a socket.
//!
//! However a conversation is cut, the replies are those that it gets in one piece. The second piece is sent when the
//! server has read the first, which the kernel knows (the receive queue is empty), so that no two pieces melt into one.
//! Every conversation begins with FLUSHALL and so can be held again and again.

use std::io;
use std::net::SocketAddrV4;

use sleeve_tests::connection::request;
use sleeve_tests::transcript::escape::escape;
use sleeve_tests::unread::{Unread, ends};
use sleeve_tests::{Connection, Kind, Server};

/// A conversation: its name, its bytes, the number of its replies, and whether the server closes the connection after them.
struct Conversation {
    name: &'static str,
    bytes: Vec<u8>,
    replies: usize,
    hangs_up: bool,
}

fn conversations() -> Vec<Conversation> {
    let talk = |name, bytes: &[u8], replies| Conversation { name, bytes: bytes.to_vec(), replies, hangs_up: false };
    let last = |name, bytes: &[u8], replies| Conversation { name, bytes: bytes.to_vec(), replies, hangs_up: true };
    let words = |words: &[&[u8]]| request(words);
    let arrays = [
        words(&[b"FLUSHALL"]),
        words(&[b"SET", b"key", b"value \r\n$3\r\n*2\r\n"]),
        words(&[b"GET", b"key"]),
        words(&[b"MSET", b"a", b"1", b"", b"", b"b", b"\x00\xff"]),
        words(&[b"MGET", b"a", b"", b"b", b"missing"]),
        words(&[b"NOSUCH", b"a b"]),
    ];
    let transaction = [
        words(&[b"FLUSHALL"]),
        words(&[b"WATCH", b"k"]),
        words(&[b"MULTI"]),
        words(&[b"INCR", b"k"]),
        words(&[b"GET"]),
        words(&[b"DISCARD"]),
        words(&[b"MULTI"]),
        words(&[b"INCRBY", b"k", b"41"]),
        words(&[b"EXEC"]),
    ];
    let long = [words(&[b"FLUSHALL"]), words(&[b"ECHO", &b"0123456789".repeat(30)]), words(&[b"STRLEN", b"k"])];
    let resp3 = [words(&[b"FLUSHALL"]), words(&[b"HELLO", b"9"]), words(&[b"GET", b"missing"]), words(&[b"DBSIZE"])];
    vec![
        talk("arrays", &arrays.concat(), 6),
        talk("a transaction", &transaction.concat(), 9),
        talk("a longer argument", &long.concat(), 3),
        talk("a refused HELLO", &resp3.concat(), 4),
        talk("inline", b"FLUSHALL\r\nSET k 'a b'\nGET \"k\"\r\n\r\n  \r\nECHO \"\\x41\\r\\n\\\"\"\r\nPING\n", 5),
        talk("inline and arrays", b"FLUSHALL\r\n*2\r\n$4\r\nECHO\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n", 4),
        talk("nothing to do", b"FLUSHALL\r\n*0\r\n*-1\r\n\r\n*1\r\n$4\r\nPING\r\n", 2),
        last("a bad count", b"PING\r\n*1\r\n$4\r\nPING\r\n*x\r\n*1\r\n$4\r\nPING\r\n", 2),
        last("a bad length", b"PING\r\n*2\r\n$4\r\nECHO\r\n$-1\r\nxx\r\n", 1),
        last("no length", b"*1\r\n$4\r\nPING\r\n*1\r\nPING\r\n", 1),
        last("an open quote", b"PING\r\nECHO \"abc\r\nPING\r\n", 1),
        last("a long count", b"*2147483648\r\n", 0),
        last("QUIT", b"SET k v\r\nQUIT\r\nPING\r\n", 2),
    ]
}

impl Conversation {
    /// Sends the conversation with the stream cut at these places, and returns the replies.
    fn hold(&self, line: &mut Line, cuts: &[usize]) -> io::Result<Vec<u8>> {
        let mut start = 0;
        for &cut in cuts.iter().chain([&self.bytes.len()]) {
            // If the server has closed the connection already, it takes no more bytes; the replies tell whether it was right
            // to.
            if line.connection.send(&self.bytes[start..cut]).is_err() {
                break;
            }
            start = cut;
            if cut < self.bytes.len() {
                line.wait_until_read()?;
            }
        }
        if self.hangs_up {
            return line.connection.read_to_end();
        }
        let replies: io::Result<Vec<_>> = (0..self.replies).map(|_| line.connection.reply()).collect();
        replies.map(|replies| replies.concat())
    }

    /// The replies must be the same wherever the stream is cut.
    fn check(&self, server: &Server) {
        let whole = self.whole(server);
        let mut line = Line::open(server);
        let mut same = |cuts: &[usize]| {
            if self.hangs_up {
                line = Line::open(server);
            }
            let cut =
                self.hold(&mut line, cuts).unwrap_or_else(|error| panic!("{} cut at {cuts:?}: {error}", self.name));
            assert_eq!(escape(&cut), escape(&whole), "{} cut at {cuts:?}", self.name);
        };
        for cut in 1..self.bytes.len() {
            same(&[cut]);
        }
        for first in (1..self.bytes.len()).step_by(5) {
            same(&[first, (first + 3).min(self.bytes.len() - 1).max(first)]);
        }
        let every: Vec<usize> = (1..self.bytes.len()).collect();
        same(&every);
    }

    /// Returns the replies to the conversation in one piece.
    fn whole(&self, server: &Server) -> Vec<u8> {
        self.hold(&mut Line::open(server), &[]).expect("the conversation in one piece")
    }
}

/// A connection, its two ends, and a socket to the kernel that knows them.
struct Line {
    connection: Connection,
    ends: (SocketAddrV4, SocketAddrV4),
    unread: Unread,
}

impl Line {
    fn open(server: &Server) -> Line {
        let connection = server.connect();
        let ends = ends(connection.stream()).expect("a connected socket");
        Line { connection, ends, unread: Unread::open().expect("the kernel tells what waits at a socket") }
    }

    /// Waits until the server's end of the connection holds no unread bytes, or is closed.
    fn wait_until_read(&self) -> io::Result<()> {
        while self.unread.bytes(self.ends.0, self.ends.1)? != 0 {
            std::thread::yield_now();
        }
        Ok(())
    }
}

fn check(kind: Kind) {
    let server = Server::start(kind);
    for conversation in conversations() {
        conversation.check(&server);
    }
}

#[test]
fn redis_reads_requests_in_pieces() {
    check(Kind::Redis);
}

#[test]
fn sleeve_reads_requests_in_pieces() {
    check(Kind::Sleeve);
}

#[test]
fn sleeve_answers_in_pieces_as_redis_does_in_one() {
    let (sleeve, redis) = (Server::start(Kind::Sleeve), Server::start(Kind::Redis));
    for conversation in conversations() {
        let replies = [&sleeve, &redis].map(|server| conversation.whole(server));
        assert_eq!(escape(&replies[0]), escape(&replies[1]), "{}", conversation.name);
    }
}
