//! Tests of connections as seen by their clients: waiting connections, dropped connections, and the messages to each of them.
//!
//! One worker serves all connections, so that the trouble of one client could affect the replies to another.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use sleeve_server::boot::{self, Server};
use sleeve_server::{Config, Engine, Local, Opt};

/// A number of bytes larger than any socket buffer of a loopback connection.
const BIG_LEN: usize = 30_000_000;

struct Served {
    engine: Arc<Engine>,
    server: Server,
}

impl Served {
    fn new() -> Self {
        let config = Config::default();
        config.assign(Opt::Workers, &[b"1"]).expect("one worker will do");
        let engine = Engine::new(config);
        let server = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a free port");
        Self { engine, server }
    }

    /// As [`Served::new`], with a value of [`BIG_LEN`] bytes under `big`.
    fn with_big_value() -> Self {
        let served = Self::new();
        let mut replies = Vec::new();
        let request = format!("*4\r\n$8\r\nSETRANGE\r\n$3\r\nbig\r\n$8\r\n{}\r\n$1\r\nx\r\n", BIG_LEN - 1);
        Local::open(&served.engine, || {}).exchange(request.as_bytes(), &mut replies).expect("the session lives");
        assert_eq!(replies, format!(":{BIG_LEN}\r\n").as_bytes());
        served
    }

    fn open(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.addresses()[0]).expect("listening");
        // Only a failing test waits this long.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        stream
    }
}

fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(format!("{text}\r\n").as_bytes()).expect("connected");
}

/// Sends a request, and returns its reply, which fits into one packet.
fn ask(stream: &mut TcpStream, text: &str) -> String {
    send(stream, text);
    let mut reply = vec![0; 65_536];
    let length = loop {
        match stream.read(&mut reply) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => break read.expect("a reply"),
        }
    };
    String::from_utf8_lossy(&reply[..length]).into_owned()
}

/// Returns the line of CLIENT LIST for the client of this name.
fn row_of(observer: &mut TcpStream, name: &str) -> Option<String> {
    let list = ask(observer, "CLIENT LIST");
    let (_, rows) = list.split_once("\r\n").expect("a length, and as many bytes");
    assert!(rows.starts_with("id="), "{list}");
    list.lines().find(|line| line.contains(&format!(" name={name} "))).map(str::to_owned)
}

/// Waits until the client's row in CLIENT LIST fulfils a condition, and returns the row; an empty one if the client has gone.
fn until(observer: &mut TcpStream, name: &str, is: impl Fn(&str) -> bool) -> String {
    loop {
        let row = row_of(observer, name).unwrap_or_default();
        if row.is_empty() || is(&row) {
            return row;
        }
        std::thread::yield_now();
    }
}

fn waiting_bytes(row: &str) -> usize {
    let field = row.split(' ').find_map(|field| field.strip_prefix("omem="));
    field.map_or(0, |bytes| bytes.parse().expect("a number"))
}

#[test]
fn replies_that_cannot_be_sent_reach_nobody_else() {
    let served = Served::new();
    let (mut victim, mut gone) = (served.open(), served.open());
    ask(&mut victim, "SET key secret");
    ask(&mut gone, "CLIENT SETNAME gone");
    send(&mut gone, "PING");
    assert_eq!(gone.peek(&mut [0]).expect("the reply comes"), 1, "left unread, it makes closing a reset");
    let locked = served.engine.keyspace.store.lock_all();
    send(&mut gone, "GET key");
    drop(gone);
    // Only now can the worker execute the request. Sending its reply will fail.
    drop(locked);
    assert_eq!(until(&mut victim, "gone", |_| false), "");
    assert_eq!(ask(&mut victim, "PING"), "+PONG\r\n");
}

#[test]
fn closing_without_another_reply_does_not_cut_those_that_wait() {
    let served = Served::with_big_value();
    let (mut slow, mut observer) = (served.open(), served.open());
    ask(&mut slow, "CLIENT SETNAME slow");
    send(&mut slow, "GET big");
    until(&mut observer, "slow", |row| waiting_bytes(row) > 0);
    send(&mut slow, "CLIENT REPLY SKIP\r\nQUIT");
    assert!(until(&mut observer, "slow", |row| row.contains("cmd=quit")).contains("cmd=quit"), "closed too soon");
    let mut all = Vec::new();
    slow.read_to_end(&mut all).expect("an orderly end");
    assert_eq!(all.len(), BIG_LEN + format!("${BIG_LEN}\r\n\r\n").len());
}

#[test]
fn what_waits_is_counted_however_little_arrives() {
    let served = Served::with_big_value();
    let (mut slow, mut observer) = (served.open(), served.open());
    ask(&mut slow, "CLIENT SETNAME slow");
    send(&mut slow, "GET big");
    until(&mut observer, "slow", |row| waiting_bytes(row) > 0);
    slow.write_all(b"P").expect("connected");
    let row = until(&mut observer, "slow", |row| row.contains(" qbuf=1 "));
    assert!(waiting_bytes(&row) > 0, "{row}");
}

#[test]
fn a_peer_that_goes_while_a_pause_holds_it_is_noticed() {
    let served = Served::new();
    let (mut held, mut observer) = (served.open(), served.open());
    ask(&mut held, "CLIENT SETNAME held");
    ask(&mut observer, "CLIENT PAUSE 1000000 WRITE");
    send(&mut held, "SET key value");
    let row = until(&mut observer, "held", |row| row.contains("flags=b"));
    assert!(row.contains("flags=b"), "{row}");
    drop(held);
    assert_eq!(until(&mut observer, "held", |_| false), "");
    assert_eq!(ask(&mut observer, "EXISTS key"), ":0\r\n");
}

#[test]
fn a_burst_of_connections_is_served_whole() {
    let served = Served::new();
    let mut streams: Vec<TcpStream> = (0..200).map(|_| served.open()).collect();
    for stream in &mut streams {
        assert_eq!(ask(stream, "PING"), "+PONG\r\n");
    }
}

#[test]
fn no_keepalive_locks_anybody_out() {
    let served = Served::new();
    let mut first = served.open();
    for seconds in ["2147483647", "32768", "1", "0"] {
        assert_eq!(ask(&mut first, &format!("CONFIG SET tcp-keepalive {seconds}")), "+OK\r\n");
        assert_eq!(ask(&mut served.open(), "PING"), "+PONG\r\n", "{seconds}");
    }
}
