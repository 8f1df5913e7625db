//! CLIENT PAUSE: the clients that it holds, for how long, and that no client writes once the pause has begun.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local};
use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Kind, Server};

use super::{ask, told, until};

const LIBRARY: &str = "#!lua name=readers\n\
    redis.register_function{function_name='reads', callback=function() return 'read' end, flags={'no-writes'}}\n\
    redis.register_function('writes', function() return 'may write' end)";

const READS: &str = "#!lua flags=no-writes\nreturn 'read'";

const READ: &str = "$4\r\nread\r\n";

#[test]
fn scripts_that_promise_to_write_nothing_are_not_held() {
    for (kind, arguments) in [(Kind::Redis, [].as_slice()), (Kind::Sleeve, &["--workers", "2"])] {
        let server = Server::start_with(kind, arguments);
        let (mut admin, mut reader) = (server.connect(), server.connect());
        ask(&mut admin, &["FUNCTION", "LOAD", LIBRARY]);
        let digest = ask(&mut admin, &["SCRIPT", "LOAD", READS]).lines().nth(1).expect("a digest").to_owned();
        assert_eq!(ask(&mut admin, &["CLIENT", "PAUSE", "100000000", "WRITE"]), "+OK\r\n");
        assert_eq!(ask(&mut reader, &["EVAL", READS, "0"]), READ, "{kind:?}");
        assert_eq!(ask(&mut reader, &["EVALSHA", &digest, "0"]), READ);
        assert_eq!(ask(&mut reader, &["EVAL_RO", "return 'read'", "0"]), READ);
        assert_eq!(ask(&mut reader, &["FCALL", "reads", "0"]), READ);
        assert_eq!(ask(&mut reader, &["MULTI"]), "+OK\r\n");
        assert_eq!(ask(&mut reader, &["EVAL", READS, "0"]), "+QUEUED\r\n");
        assert_eq!(ask(&mut reader, &["EXEC"]), format!("*1\r\n{READ}"));
        let held = [
            ["EVAL", "return 'may write'", "0"],
            ["EVAL", "#!lua\nreturn 'may write'", "0"],
            ["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
            ["FCALL", "writes", "0"],
            ["SET", "key", "value"],
            ["EVAL", "#!lua flags=unknown\n", "0"],
        ];
        let mut writers: Vec<Connection> = held.iter().map(|_| server.connect()).collect();
        for (count, (writer, words)) in writers.iter_mut().zip(&held).enumerate() {
            writer.send(&request(words)).expect("the server listens");
            until("it is held", || told(&mut admin, "blocked_clients") == count as u64 + 1);
        }
        assert_eq!(ask(&mut admin, &["CLIENT", "UNPAUSE"]), "+OK\r\n");
        let replies = writers.iter_mut().map(|writer| writer.reply().expect("a reply")[0]).collect::<Vec<_>>();
        assert_eq!(replies, b"$$-$+-", "{kind:?}");
        until("nobody is held", || told(&mut admin, "blocked_clients") == 0);
    }
}

/// Returns requests that write, each of which adds to a number under `n`.
fn writes() -> [Vec<u8>; 3] {
    [
        request(&["INCR", "n"]),
        [request(&["MULTI"]), request(&["INCR", "n"]), request(&["INCR", "m"]), request(&["EXEC"])].concat(),
        request(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"]),
    ]
}

#[test]
fn nothing_is_written_once_a_pause_has_begun() {
    for workers in ["2", "4"] {
        let server = Server::start_with(Kind::Sleeve, &["--workers", workers]);
        let mut admin = server.connect();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for request in writes() {
                let (mut writer, is_over) = (server.connect(), &is_over);
                scope.spawn(move || {
                    let replies = if request.starts_with(b"*1") { 4 } else { 1 };
                    while !is_over.load(Ordering::Relaxed) {
                        writer.send(&request).expect("the server listens");
                        (0..replies).for_each(|_| _ = writer.reply().expect("a reply"));
                    }
                });
            }
            for round in 0..300 {
                assert_eq!(ask(&mut admin, &["CLIENT", "PAUSE", "100000000", "WRITE"]), "+OK\r\n");
                let first = ask(&mut admin, &["GET", "n"]);
                for _ in 0..20 {
                    assert_eq!(ask(&mut admin, &["GET", "n"]), first, "{workers} workers, round {round}");
                }
                assert_eq!(ask(&mut admin, &["CLIENT", "UNPAUSE"]), "+OK\r\n");
                until("a write goes through", || ask(&mut admin, &["GET", "n"]) != first);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_pause_lasts_as_long_as_it_was_meant_to_whatever_the_date_is() {
    const HOUR_US: i64 = 3_600_000_000;
    let engine = Engine::new(Config::default());
    let woken = Arc::new(AtomicBool::new(false));
    let mut local = Local::open(&engine, {
        let woken = Arc::clone(&woken);
        move || woken.store(true, Ordering::Relaxed)
    });
    let start = Instant::now();
    let mut at = |date_us: i64, passed_ms: u64, words: &[&str]| {
        let now = Instant { wall_us: start.wall_us + date_us, monotonic_us: start.monotonic_us + passed_ms * 1_000 };
        let (mut replies, bytes) = (Vec::new(), if words.is_empty() { Vec::new() } else { request(words) });
        local.exchange_at(now, &bytes, &mut replies).expect("nothing ends the session");
        String::from_utf8_lossy(&replies).into_owned()
    };
    for date_us in [HOUR_US, -HOUR_US] {
        assert_eq!(at(0, 0, &["CLIENT", "PAUSE", "1000"]), "+OK\r\n");
        assert_eq!(at(date_us, 10, &["PING"]), "");
        assert_eq!(at(date_us, 999, &[]), "");
        assert_eq!(at(date_us, 1_000, &[]), "+PONG\r\n");
    }
}
