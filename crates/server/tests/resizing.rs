//! Tests of CONFIG SET workers while clients are served: more workers, fewer, and the earlier number again, with each driver.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_server::boot::{self, Server};
use sleeve_server::{Config, Engine, Local, Opt};

use crate::busy::Peer;

/// The longest wait. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Served {
    engine: Arc<Engine>,
    server: Server,
}

fn served(io: &str, workers: &str) -> Served {
    let config = Config::default();
    config.assign(Opt::Io, &[io.as_bytes()]).expect("a driver");
    config.assign(Opt::Workers, &[workers.as_bytes()]).expect("a number of workers");
    let engine = Engine::new(config);
    let server = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a free port");
    Served { engine, server }
}

fn ask(local: &mut Local, request: &str) -> String {
    let mut replies = Vec::new();
    local.exchange(format!("{request}\r\n").as_bytes(), &mut replies).expect("the engine is there");
    String::from_utf8(replies).expect("text")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the number of workers in INFO, and the number of retiring workers.
fn told(local: &mut Local) -> (u64, u64) {
    let info = ask(local, "INFO server");
    let number = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse().ok()).expect("INFO tells it")
    };
    (number("workers"), number("workers_retiring"))
}

impl Served {
    fn local(&self) -> Local {
        Local::open(&self.engine, || ())
    }

    fn open(&self) -> Peer {
        let stream = TcpStream::connect(self.server.addresses()[0]).expect("listening");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        Peer(stream)
    }

    /// Opens this many connections, and waits for a reply on each: then they are spread over the workers.
    fn open_many(&self, count: usize) -> Vec<Peer> {
        let mut peers: Vec<Peer> = (0..count).map(|_| self.open()).collect();
        peers.iter_mut().for_each(|peer| peer.ask(&["PING"], "+PONG\r\n"));
        peers
    }
}

#[test]
fn a_surplus_worker_serves_its_clients_and_ends_with_the_last() {
    for io in ["epoll", "uring", "tokio"] {
        let served = served(io, "4");
        let mut local = served.local();
        let mut peers = served.open_many(8);
        // Each retiring worker has one of these connections.
        peers[0].ask(&["CONFIG", "SET", "workers", "1"], "+OK\r\n");
        assert_eq!(told(&mut local), (1, 3), "{io}");
        assert_eq!(ask(&mut local, "CONFIG GET workers"), "*2\r\n$7\r\nworkers\r\n$1\r\n1\r\n");
        peers.iter_mut().for_each(|peer| peer.ask(&["PING"], "+PONG\r\n"));
        let late = served.open_many(4);
        drop(peers);
        until("the others end", || told(&mut local) == (1, 0));
        drop(late);
        assert_eq!(ask(&mut local, "CONFIG SET workers 3"), "+OK\r\n");
        served.open_many(6);
        assert_eq!(told(&mut local), (3, 0));
        served.server.stop();
        assert_eq!(ask(&mut local, "CONFIG SET workers 2"), "+OK\r\n", "for who listens next");
    }
}

#[test]
fn a_retiring_worker_is_used_again_and_its_waiting_clients_go_on() {
    let served = served("epoll", "2");
    let mut local = served.local();
    let mut waiting = served.open_many(4);
    waiting.iter_mut().for_each(|peer| peer.send(&["BLPOP", "list", "0"]));
    until("all wait", || ask(&mut local, "INFO clients").contains("blocked_clients:4\r\n"));
    assert_eq!(ask(&mut local, "CONFIG SET workers 1"), "+OK\r\n");
    assert_eq!(told(&mut local), (1, 1));
    assert_eq!(ask(&mut local, "CONFIG SET workers 3"), "+OK\r\n");
    assert_eq!(told(&mut local), (3, 0));
    assert_eq!(ask(&mut local, "CONFIG SET workers 1"), "+OK\r\n");
    assert_eq!(ask(&mut local, "RPUSH list a a a a"), ":4\r\n");
    waiting.iter_mut().for_each(|peer| peer.expect("*2\r\n$4\r\nlist\r\n$1\r\na\r\n"));
    drop(waiting);
    until("the others end", || told(&mut local) == (1, 0));
}

#[test]
fn a_retiring_worker_serves_transactions_and_killed_clients_as_usual() {
    let served = served("epoll", "2");
    let mut local = served.local();
    let mut peers = served.open_many(2);
    for peer in &mut peers {
        peer.ask(&["MULTI"], "+OK\r\n");
        peer.ask(&["SET", "k", "v"], "+QUEUED\r\n");
        peer.ask(&["CONFIG", "SET", "workers", "1"], "+QUEUED\r\n");
        peer.ask(&["CONFIG", "SET", "workers", "2"], "+QUEUED\r\n");
        peer.ask(&["CONFIG", "SET", "workers", "1"], "+QUEUED\r\n");
        peer.ask(&["EXEC"], "*4\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    }
    assert_eq!(told(&mut local), (1, 1));
    assert_eq!(ask(&mut local, "CLIENT KILL TYPE normal"), ":2\r\n");
    until("its worker ends", || told(&mut local) == (1, 0));
    assert_eq!(ask(&mut local, "GET k"), "$1\r\nv\r\n");
}

#[test]
fn keys_expire_in_every_shard_whatever_the_number_of_workers_was() {
    let served = served("epoll", "2");
    let mut local = served.local();
    for workers in ["5", "1", "3"] {
        assert_eq!(ask(&mut local, &format!("CONFIG SET workers {workers}")), "+OK\r\n");
        for key in 0..200 {
            assert_eq!(ask(&mut local, &format!("SET key{key} v PX 1")), "+OK\r\n");
        }
        until("all are gone", || ask(&mut local, "DBSIZE") == ":0\r\n");
    }
}

#[test]
fn nobody_loses_a_byte_while_the_number_goes_up_and_down() {
    for io in ["epoll", "uring", "tokio"] {
        let served = served(io, "2");
        let (mut local, is_over) = (served.local(), Arc::new(AtomicBool::new(false)));
        let counting = (0..6).map(|number| {
            let (mut peer, is_over, key) = (served.open(), Arc::clone(&is_over), format!("counter{number}"));
            thread::spawn(move || {
                let mut count = 0;
                while !is_over.load(Ordering::Relaxed) {
                    (0..20).for_each(|_| peer.send(&["INCR", &key]));
                    for _ in 0..20 {
                        count += 1;
                        peer.expect(&format!(":{count}\r\n"));
                    }
                    peer.ask(&["EVAL", "return redis.call('GET', KEYS[1]) + 0", "1", &key], &format!(":{count}\r\n"));
                }
            })
        });
        let counting: Vec<_> = counting.collect();
        let (mut popping, mut listening) = (served.open(), served.open());
        listening.ask(&["SUBSCRIBE", "news"], "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        for round in 0..40 {
            assert_eq!(ask(&mut local, &format!("CONFIG SET workers {}", 1 + (round * 7) % 5)), "+OK\r\n");
            popping.send(&["BLPOP", "list", "0"]);
            let mut passing = served.open();
            passing.ask(&["RPUSH", "list", "element"], ":1\r\n");
            popping.expect("*2\r\n$4\r\nlist\r\n$7\r\nelement\r\n");
            passing.ask(&["PUBLISH", "news", "it"], ":1\r\n");
            listening.expect("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nit\r\n");
        }
        is_over.store(true, Ordering::Relaxed);
        counting.into_iter().for_each(|counter| counter.join().expect("each reply was right"));
        assert_eq!(ask(&mut local, "CONFIG SET workers 1"), "+OK\r\n");
        drop((popping, listening));
        until("the others end", || told(&mut local) == (1, 0));
        served.server.stop();
    }
}
