//! `repl-diskless-load`: a dump that is loaded while it arrives, and the data that readers see in that time.

use std::io::{Read, Write, copy};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use sleeve_tests::{Kind, Relay, Server};

use super::foreign::{ID, serve};
use super::{assert_same, caught_up, follow, follows_under_load, info, primary, replica};
use sleeve_tests::probe::{ask, digest, fill, wait_until};

const LOADING: &str = "-LOADING Redis is loading the dataset in memory\r\n";

#[test]
fn a_replica_that_loads_from_the_socket_has_the_primarys_data() {
    follows_under_load(Kind::Redis, &["--workers", "2", "--repl-diskless-load", "swapdb"]);
}

#[test]
fn an_empty_replica_and_its_aof_load_from_the_socket() {
    follows_under_load(Kind::Valkey, &["--appendonly", "yes", "--repl-diskless-load", "on-empty-db"]);
}

#[test]
fn a_replica_with_data_loads_through_a_file_by_default() {
    for (option, has_data, way) in [
        ("disabled", false, "EOF to disk"),
        ("on-empty-db", false, "EOF to parser"),
        ("on-empty-db", true, "EOF to disk"),
        ("swapdb", true, "EOF to parser"),
    ] {
        let (primary, replica) = (primary(Kind::Redis), replica(&["--repl-diskless-load", option]));
        ask(&mut primary.connect(), &["SET", "theirs", "1"]);
        if has_data {
            ask(&mut replica.connect(), &["SET", "mine", "1"]);
        }
        follow(&replica, &primary);
        assert_same(&replica, &primary);
        assert!(replica.log().contains(way), "{option}\n{}", replica.log());
        assert!(!replica.log().contains("async"), "its data was another's");
    }
}

/// Returns a library with a function that names its generation.
fn library(generation: &str) -> String {
    let function =
        format!("function_name='generation', callback=function() return '{generation}' end, flags={{'no-writes'}}");
    format!("#!lua name=generations\nredis.register_function{{{function}}}")
}

/// Returns a relay to a primary. It lets the beginning of each dump through, and holds the remaining bytes back until the
/// sender says to let them through or to close the connection.
fn held_dumps(primary: &Server) -> (Relay, Sender<bool>) {
    let (verdict, verdicts) = channel();
    let verdicts = Mutex::new(verdicts);
    let relay = Relay::start(primary.address(), move |mut from, mut to| {
        let (mut heard, mut bytes) = (Vec::new(), [0; 4_096]);
        while !heard.windows(5).any(|word| word == b"REDIS") {
            let Ok(count @ 1..) = from.read(&mut bytes) else { return };
            heard.extend_from_slice(&bytes[..count]);
            if to.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
        if verdicts.lock().expect("nobody panics with it").recv() == Ok(true) {
            // Either side may close its connection at any time.
            _ = copy(&mut from, &mut to);
        }
    });
    (relay, verdict)
}

/// Returns a replica with an older state of its primary's data, too old for a partial sync. On the primary, `generation` is
/// `new` by now. The replica is loading that data, and the relay holds back the end of the dump.
fn left_behind(kind: Kind) -> (Server, Server, Sender<bool>) {
    let (primary, replica) = (primary(kind), replica(&["--repl-diskless-load", "swapdb", "--workers", "2"]));
    let mut writer = primary.connect();
    fill(&primary);
    ask(&mut writer, &["SET", "generation", "old"]);
    ask(&mut writer, &["FUNCTION", "LOAD", &library("old")]);
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", "1"]);
    ask(&mut writer, &["CONFIG", "SET", "repl-backlog-size", "16384"]);
    ask(&mut writer, &["SET", "large", &"x".repeat(100_000)]);
    ask(&mut writer, &["SET", "generation", "new"]);
    ask(&mut writer, &["FUNCTION", "LOAD", "REPLACE", &library("new")]);
    let (relay, verdict) = held_dumps(&primary);
    ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &relay.port().to_string()]);
    wait_until("a loading", || info(&replica, "async_loading") == "1");
    (primary, replica, verdict)
}

#[test]
fn the_old_data_is_served_until_the_new_data_replaces_it_in_one_step() {
    for kind in [Kind::Redis, Kind::Sleeve] {
        let (primary, replica, verdict) = left_behind(kind);
        let (mut reader, mut admin) = (replica.connect(), replica.connect());
        assert_eq!(info(&replica, "loading"), "0");
        ask(&mut reader, &["WATCH", "generation"]);
        assert_eq!(ask(&mut admin, &["GET", "generation"]), "$3\r\nold\r\n");
        assert_eq!(ask(&mut admin, &["FCALL_RO", "generation", "0"]), "$3\r\nold\r\n");
        for request in [&["SAVE"][..], &["BGREWRITEAOF"], &["REPLICAOF", "NO", "ONE"], &["DEBUG", "RELOAD"]] {
            assert_eq!(ask(&mut admin, request), LOADING, "{request:?}");
        }
        for option in ["appendonly", "dir", "repl-diskless-load"] {
            assert_eq!(ask(&mut admin, &["CONFIG", "SET", "hz", "20", option, "no"]), LOADING, "{option}");
        }
        verdict.send(true).expect("it waits");
        loop {
            let reply = ask(&mut admin, &["MGET", "generation", "large"]);
            if reply.contains("new") {
                assert!(reply.contains("xxx"), "all of it or nothing");
                break;
            }
            assert!(reply.contains("old") && !reply.contains("xxx"), "{reply}");
        }
        assert_same(&replica, &primary);
        assert_eq!((info(&replica, "async_loading"), info(&replica, "loading")), ("0".to_owned(), "0".to_owned()));
        ask(&mut reader, &["MULTI"]);
        ask(&mut reader, &["GET", "generation"]);
        assert!(ask(&mut reader, &["EXEC"]).starts_with("*-1"), "what was watched is another key's value now");
        assert_eq!(ask(&mut admin, &["FCALL_RO", "generation", "0"]), "$3\r\nnew\r\n");
    }
}

#[test]
fn an_incomplete_dump_changes_nothing_and_is_requested_again() {
    let (primary, replica, verdict) = left_behind(Kind::Redis);
    let held = digest(&replica);
    verdict.send(false).expect("it waits");
    wait_until("its end", || replica.log().contains("has ended"));
    wait_until("another attempt", || info(&replica, "async_loading") == "1");
    assert_eq!((info(&replica, "loading"), digest(&replica)), ("0".to_owned(), held));
    verdict.send(true).expect("it waits");
    assert_same(&replica, &primary);
}

#[test]
fn an_incomplete_dump_of_other_data_leaves_the_old_data() {
    let source = primary(Kind::Redis);
    fill(&source);
    ask(&mut source.connect(), &["SAVE"]);
    let dump = std::fs::read(source.folder().join("dump.rdb")).expect("a dump");
    let mut damaged = dump.clone();
    damaged[dump.len() / 2] ^= 0xff;
    let mark = "m".repeat(40);
    let head = format!("+FULLRESYNC {ID} 7\r\n");
    for (answer, reason) in [
        ([format!("{head}${}\r\n", dump.len()).as_bytes(), &dump[..dump.len() / 2]].concat(), "closed the connection"),
        ([format!("{head}${}\r\n", dump.len()).as_bytes(), &damaged].concat(), "cannot be loaded"),
        ([format!("{head}$EOF:{mark}\r\n").as_bytes(), &dump].concat(), "closed the connection"),
        ([format!("{head}$EOF:{mark}\r\n").as_bytes(), b"REDIS0010", mark.as_bytes()].concat(), "cannot be loaded"),
    ] {
        let replica = replica(&["--repl-diskless-load", "swapdb"]);
        ask(&mut replica.connect(), &["RPUSH", "mine", "1", "2"]);
        let held = digest(&replica);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("it is bound").port().to_string();
        thread::scope(|threads| {
            threads.spawn(|| serve(&listener, &answer, 2));
            ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &port]);
            wait_until(reason, || replica.log().matches(reason).count() >= 2);
            wait_until("the data", || info(&replica, "loading") == "0");
            ask(&mut replica.connect(), &["REPLICAOF", "NO", "ONE"]);
        });
        assert_eq!(digest(&replica), held, "{reason}");
        assert_eq!(ask(&mut replica.connect(), &["RPUSH", "mine", "3"]), ":3\r\n");
    }
}
