//! The requests that are sent again when a connection is cut: reads, and never a command that writes, at every place of the
//! cut.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use sleeve::prelude::*;
use sleeve::{Client, Effect, ErrorKind, Resend};

use crate::scripted::{Requests, config, greet, serve, serve_all};

/// The lengths of three commands as requests, and of their replies.
const REQUESTS_LENGTH: usize =
    2 * "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".len() + "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n".len();
const REPLIES_LENGTH: usize = 2 * "$1\r\nv\r\n".len() + "+OK\r\n".len();

/// A server with a first connection that takes this many bytes behind the greeting, sends this many, and ends.
struct Cutter {
    port: u16,
    reads: Arc<AtomicU32>,
    writes: Arc<AtomicU32>,
    connections: Arc<AtomicU32>,
}

impl Cutter {
    fn start(up: usize, down: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cutter = Self {
            port: listener.local_addr().unwrap().port(),
            reads: Arc::default(),
            writes: Arc::default(),
            connections: Arc::default(),
        };
        let (reads, writes) = (cutter.reads.clone(), cutter.writes.clone());
        let connections = cutter.connections.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let is_first = connections.fetch_add(1, Ordering::SeqCst) == 0;
                let limits = if is_first { (up, down) } else { (usize::MAX, usize::MAX) };
                converse(stream.unwrap(), limits, &reads, &writes);
            }
        });
        cutter
    }
}

/// Greets, and then follows the limits.
fn converse(mut stream: TcpStream, (mut up, mut down): (usize, usize), reads: &AtomicU32, writes: &AtomicU32) {
    let mut requests = Requests::default();
    let mut is_greeted = false;
    while !is_greeted {
        if !requests.receive_at_most(&mut stream, 1) {
            return;
        }
        while let Some(words) = requests.next() {
            is_greeted = words[0] == "PING";
            stream.write_all(&greet(&words).expect("a greeting")).unwrap();
        }
    }
    while up > 0 && down > 0 {
        if !requests.receive_at_most(&mut stream, 1) {
            return;
        }
        up -= 1;
        while let Some(words) = requests.next() {
            let (count, reply) = match words[0].as_str() {
                "GET" => (reads, &b"$1\r\nv\r\n"[..]),
                _ => (writes, &b"+OK\r\n"[..]),
            };
            count.fetch_add(1, Ordering::SeqCst);
            let sent = reply.len().min(down);
            down -= sent;
            if stream.write_all(&reply[..sent]).is_err() {
                return;
            }
        }
    }
}

#[test]
fn at_any_cut_reads_are_answered_and_no_write_is_executed_twice() {
    let ups = (0..=REQUESTS_LENGTH).map(|up| (up, usize::MAX));
    let downs = (0..=REPLIES_LENGTH).map(|down| (usize::MAX, down));
    for (up, down) in ups.chain(downs) {
        let cutter = Cutter::start(up, down);
        let client = Client::connect_with(config(cutter.port)).unwrap();
        let first = client.get::<String>("k");
        let write = client.set("k", "v");
        let last = client.get::<String>("k");
        let place = format!("cut after {up} bytes up, {down} down");
        assert_eq!(first.wait().as_deref(), Ok("v"), "{place}");
        assert_eq!(last.wait().as_deref(), Ok("v"), "{place}");
        let told = write.wait().map_err(|error| error.effect());
        let executed = cutter.writes.load(Ordering::SeqCst);
        match told {
            Ok(()) => assert_eq!(executed, 1, "{place}"),
            Err(Effect::None) => assert_eq!(executed, 0, "{place}"),
            Err(_) => assert!(executed <= 1, "{place}: executed {executed} times"),
        }
        assert!(cutter.reads.load(Ordering::SeqCst) >= 2, "{place}");
    }
}

#[test]
fn at_any_cut_overwrites_are_executed_if_the_option_allows_it() {
    let ups = (0..=REQUESTS_LENGTH).map(|up| (up, usize::MAX));
    let downs = (0..=REPLIES_LENGTH).map(|down| (usize::MAX, down));
    for (up, down) in ups.chain(downs) {
        let cutter = Cutter::start(up, down);
        let client = Client::connect_with(config(cutter.port).resend(Resend::Overwrites)).unwrap();
        let (first, write, last) = (client.get::<String>("k"), client.set("k", "v"), client.get::<String>("k"));
        let place = format!("cut after {up} bytes up, {down} down");
        assert_eq!((first.wait().as_deref(), write.wait()), (Ok("v"), Ok(())), "{place}");
        assert_eq!(last.wait().as_deref(), Ok("v"), "{place}");
        assert!((1..=2).contains(&cutter.writes.load(Ordering::SeqCst)), "{place}");
    }
}

#[test]
fn a_write_that_does_more_than_overwrite_is_never_sent_twice() {
    let (port, count) = hanging_up();
    let client = Client::connect_with(config(port).resend(Resend::Overwrites)).unwrap();
    let writes: [(&str, &[&str]); 5] = [
        ("INCR", &["k"]),
        ("DEL", &["k"]),
        ("SET", &["k", "v", "NX"]),
        ("SET", &["k", "v", "GET"]),
        ("HSET", &["k", "f", "v"]),
    ];
    for (number, (name, words)) in writes.into_iter().enumerate() {
        let error = client.cmd(name).arg(words).send::<sleeve::Value>().wait().unwrap_err();
        assert_eq!((error.effect(), count.load(Ordering::SeqCst)), (Effect::Unknown, number as u32 + 1), "{name}");
    }
}

#[test]
fn a_message_that_is_numbered_goes_again_by_itself() {
    let (sent, refused) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (counted, others) = (sent.clone(), refused.clone());
    let port = serve_all(move |words| {
        greet(words).or_else(|| match words[2].as_str() {
            "IDMP" | "IDMPAUTO" => (counted.fetch_add(1, Ordering::SeqCst) % 2 == 1).then(|| b"$3\r\n1-1\r\n".to_vec()),
            _ => {
                others.fetch_add(1, Ordering::SeqCst);
                None
            }
        })
    });
    let client = Client::connect_with(config(port)).unwrap();
    assert_eq!(client.xadd_idmp("k", "p", 1, ("f", "v")).wait().as_deref(), Ok("1-1"));
    assert_eq!(client.xadd_idmpauto("k", "p", ("f", "v")).wait().as_deref(), Ok("1-1"));
    assert_eq!(sent.load(Ordering::SeqCst), 4);
    assert_eq!(client.xadd("k", ("f", "v")).wait().unwrap_err().effect(), Effect::Unknown);
    assert_eq!(refused.load(Ordering::SeqCst), 1);
    let client = Client::connect_with(config(port).resend(Resend::Nothing)).unwrap();
    assert_eq!(client.xadd_idmp("k", "p", 2, ("f", "v")).wait().unwrap_err().effect(), Effect::Unknown);
}

/// Starts a server that hangs up at every command; also returns the number of commands that have arrived.
fn hanging_up() -> (u16, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let port = serve(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        None
    });
    (port, count)
}

#[test]
fn nothing_is_sent_again_where_that_is_not_wanted() {
    let (port, count) = hanging_up();
    let client = Client::connect_with(config(port).resend(Resend::Nothing)).unwrap();
    let error = client.get::<String>("k").wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_read_that_breaks_connections_is_given_up() {
    let (port, count) = hanging_up();
    let client = Client::connect_with(config(port)).unwrap();
    let error = client.get::<String>("k").wait().unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Disconnected, Effect::Unknown), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn a_write_and_a_read_that_waits_on_the_server_are_sent_once() {
    let (port, count) = hanging_up();
    let client = Client::connect_with(config(port)).unwrap();
    assert_eq!(client.incr("k").wait().unwrap_err().effect(), Effect::Unknown);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let read = client.cmd("XREAD").arg(["BLOCK", "0", "STREAMS", "k", "$"]).send::<Option<String>>();
    assert_eq!(read.wait().unwrap_err().effect(), Effect::Unknown);
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn a_server_that_answers_nothing_is_not_asked_twice_as_much() {
    let (port, count) = hanging_up();
    let client = Client::connect_with(config(port)).unwrap();
    let key = "k".repeat(1000);
    let replies: Vec<_> = (0..200).map(|_| client.get::<String>(&key)).collect();
    assert!(replies.into_iter().all(|reply| reply.wait().is_err()));
    // Each connection takes one request; the requests that are sent again are bounded by the budget without any answer.
    assert!(count.load(Ordering::SeqCst) <= 200 + 65, "{count:?}");
}
