//! Tests of CLIENT PAUSE WRITE: the data does not change, even at deadlines. A key past its deadline only looks removed.

use std::sync::Arc;

use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local};

fn ask_at(local: &mut Local, now: Instant, text: &str) -> String {
    let mut replies = Vec::new();
    local.exchange_at(now, format!("{text}\r\n").as_bytes(), &mut replies).expect("the session lives");
    String::from_utf8_lossy(&replies).into_owned()
}

fn later(now: Instant, ms: i64) -> Instant {
    Instant { wall_us: now.wall_us + ms * 1_000, monotonic_us: now.monotonic_us + ms as u64 * 1_000 }
}

#[test]
fn nothing_expires_while_writes_are_paused() {
    let engine = Engine::new(Config::default());
    let mut local = Local::open(&engine, || {});
    let mut reader = engine.journal.subscribe();
    let start = Instant::now();
    ask_at(&mut local, start, "SET a 1 PX 50\r\nSET b 1 PX 50\r\nCLIENT PAUSE 100000 WRITE");
    let mut journal = Vec::new();
    reader.read(&mut journal);
    journal.clear();
    for after_ms in [100, 1_000, 90_000] {
        let now = later(start, after_ms);
        assert_eq!(ask_at(&mut local, now, "GET a"), "$-1\r\n");
        assert_eq!(ask_at(&mut local, now, "EXISTS a b"), ":0\r\n");
        assert_eq!(ask_at(&mut local, now, "KEYS *"), "*0\r\n");
        assert_eq!(ask_at(&mut local, now, "SCAN 0"), "*2\r\n$1\r\n0\r\n*0\r\n");
        assert_eq!(ask_at(&mut local, now, "DBSIZE"), ":2\r\n", "they are there, unseen");
        assert!(ask_at(&mut local, now, "RANDOMKEY").starts_with("$1\r\n"), "it ends, with a key that is due");
    }
    reader.read(&mut journal);
    assert_eq!(String::from_utf8_lossy(&journal), "");
    let now = later(start, 100_000);
    assert_eq!(ask_at(&mut local, now, "GET a"), "$-1\r\n");
    assert_eq!(ask_at(&mut local, later(now, 1_000), "DBSIZE"), ":0\r\n", "the pause is over, and so is their time");
    reader.read(&mut journal);
    assert_eq!(String::from_utf8_lossy(&journal).matches("DEL").count(), 2);
}

#[test]
fn a_watched_key_whose_time_comes_during_a_pause_has_changed() {
    let engine: Arc<Engine> = Engine::new(Config::default());
    let mut local = Local::open(&engine, || {});
    let start = Instant::now();
    ask_at(&mut local, start, "SET a 1 PX 50\r\nWATCH a\r\nCLIENT PAUSE 100000 WRITE\r\nMULTI\r\nGET a");
    assert_eq!(ask_at(&mut local, later(start, 1_000), "EXEC"), "*-1\r\n");
}
