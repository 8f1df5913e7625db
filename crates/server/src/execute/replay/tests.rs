//! The commands from its primary that a replica applies, and those that it does not.

use super::*;
use crate::config::Config;
use crate::engine::replication::role::Address;
use crate::engine::replication::role_change;
use crate::session::local::Local;

#[test]
fn a_script_of_a_log_writes_on_a_replica() {
    let engine = Engine::new(Config::default());
    engine.lifecycle.readiness.set(Hindrance::ReadOnly, true);
    let script = "return redis.call('set',KEYS[1],'x')";
    let log = format!("*4\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n1\r\n$1\r\na\r\n", script.len());
    let mut replay = Replay::begin(&engine, 0);
    assert_eq!(replay.apply(log.as_bytes(), Instant::now()), Ok(log.len()));
    drop(replay);
    let mut replies = Vec::new();
    Local::open(&engine, || {}).exchange(b"GET a\r\n", &mut replies).expect("the session lives");
    assert_eq!(replies, b"$1\r\nx\r\n");
}

#[test]
fn nothing_of_a_primary_is_applied_behind_the_end_of_its_time() {
    let engine = Engine::new(Config::default());
    let primary = Address { host: "127.0.0.1".into(), port: 1 };
    assert!(engine.replication.role.follow(primary, false));
    engine.journal.set_copy(true);
    let mut copy = Replay::copy(&engine, 0);
    let mut append = || copy.apply(b"*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$1\r\nx\r\n", Instant::now()).map_err(|_| ());
    assert!(append().is_ok());
    assert!(engine.replication.role.lead());
    engine.journal.set_copy(false);
    assert!(append().is_err());
    let mut replies = Vec::new();
    Local::open(&engine, || {}).exchange(b"LLEN l\r\n", &mut replies).expect("the session lives");
    assert_eq!(replies, b":1\r\n");
}

#[test]
fn nothing_more_of_a_primary_is_applied_where_another_is_followed() {
    let engine = Engine::new(Config::default());
    let primary = |port| Address { host: "127.0.0.1".into(), port };
    assert!(role_change::follow_primary(&engine, primary(1)));
    let mut copy = Replay::copy(&engine, 0);
    let (push, ping) = (b"*3\r\n$5\r\nRPUSH\r\n$1\r\nl\r\n$1\r\nx\r\n", b"*1\r\n$4\r\nPING\r\n");
    copy.apply(push, Instant::now()).expect("it follows");
    let end = engine.journal.end();
    assert_eq!(end, push.len() as u64);
    // If these bytes in flight were applied, this server would have more than the new primary, and would need a full sync.
    assert!(role_change::follow_primary(&engine, primary(2)));
    for late in [push.as_slice(), ping] {
        let refused = copy.apply(late, Instant::now()).expect_err("it follows another");
        assert!(refused.is_replaced && engine.journal.end() == end, "{refused}");
    }
    // The stream of the new primary goes on at the offset where that of the first one ended.
    copy.rewind();
    copy.go_on_for(engine.replication.role.number(), Arc::clone(&copy.state.client));
    copy.apply(push, Instant::now()).expect("it follows");
    let mut replies = Vec::new();
    Local::open(&engine, || {}).exchange(b"LLEN l\r\n", &mut replies).expect("the session lives");
    assert_eq!((replies, engine.journal.end()), (b":2\r\n".to_vec(), 2 * end));
}

#[test]
fn what_no_primary_sends_is_refused() {
    let apply = |request: &str| {
        let engine = Engine::new(Config::default());
        let primary = Address { host: "127.0.0.1".into(), port: 1 };
        assert!(role_change::follow_primary(&engine, primary));
        let words: Vec<&str> = request.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| bytes.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        Replay::copy(&engine, 0).apply(bytes.as_bytes(), Instant::now()).map_err(|refused| refused.error)
    };
    for request in [
        "SHUTDOWN NOSAVE",
        "SYNC",
        "PSYNC ? -1",
        "SUBSCRIBE a",
        "MONITOR",
        "CLIENT REPLY OFF",
        "CLIENT PAUSE 1000",
        "RESET",
        "CONFIG SET port 1",
        "REPLICAOF NO ONE",
        "FAILOVER",
        "QUIT",
        "DEBUG SLEEP 1",
        "AUTH a b",
        "HELLO 3",
        "WATCH a",
    ] {
        assert_eq!(apply(request), Err("ERR no primary sends this to its replicas".into()), "{request}");
    }
    for request in [
        "PING",
        "SELECT 3",
        "REPLCONF GETACK *",
        "PUBLISH a b",
        "SPUBLISH a b",
        "SET a 1",
        "FLUSHALL",
        "MULTI",
        "EVAL return 0",
        "SCRIPT LOAD return",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "PFCOUNT a",
        "BLPOP a 0",
        "GET a",
    ] {
        assert!(apply(request).is_ok(), "{request}");
    }
}

#[test]
fn bytes_between_requests_are_refused_as_they_would_shift_the_offsets() {
    let good = "*1\r\n$4\r\nPING\r\n";
    for between in ["\r\n", "\n", "*0\r\n", "*-1\r\n"] {
        for (stream, applied) in [
            (between.to_owned(), 0),
            (format!("{between}{good}"), 0),
            (format!("{good}{between}"), good.len()),
            (format!("{good}{between}{good}"), good.len()),
        ] {
            let engine = Engine::new(Config::default());
            assert!(role_change::follow_primary(&engine, Address { host: "127.0.0.1".into(), port: 1 }));
            let refused = Replay::copy(&engine, 0).apply(stream.as_bytes(), Instant::now()).expect_err("no request");
            assert!(refused.error.starts_with("ERR this is no request"), "{stream:?}: {refused}");
            assert_eq!((refused.offset, engine.journal.end()), (applied as u64, applied as u64), "{stream:?}");
        }
    }
}
