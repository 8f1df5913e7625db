//! Handing over and ending with nothing lost: FAILOVER with PSYNC ... FAILOVER, and SHUTDOWN that waits for replicas, between
//! Sleeve and Redis 7.0, Redis 8 and Valkey 9, in both roles.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::{Connection, Kind, Server};

use crate::replication::ids::{assert_same, primary, replica};
use crate::replication::replica::{caught_up, info};
use sleeve_tests::probe::{ask, wait_until};

const OTHERS: [Kind; 3] = [Kind::Redis, Kind::Redis8, Kind::Valkey];

fn signal(server: &Server, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), server.process_id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// A stopped server (SIGSTOP); it goes on when this value is dropped.
struct Stopped<'s>(&'s Server);

impl<'s> Stopped<'s> {
    fn new(server: &'s Server) -> Self {
        signal(server, "STOP");
        let threads = format!("/proc/{}/task", server.process_id());
        // The signal is delivered after it is sent, and each thread goes on until then.
        wait_until("it stands still", || {
            std::fs::read_dir(&threads).expect("it runs").all(|thread| {
                let state = std::fs::read_to_string(thread.expect("a thread").path().join("stat"));
                state.is_ok_and(|state| state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
            })
        });
        Self(server)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}

fn wait_for_line(server: &Server, line: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !server.log().contains(line) {
        assert!(Instant::now() < deadline, "{line} is not in the log:\n{}", server.log());
        thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a request, and reads no reply.
fn say(server: &Server, words: &str) -> Connection {
    let mut connection = server.connect();
    connection.send(format!("{words}\r\n").as_bytes()).expect("it is connected");
    connection
}

fn ends_well(server: &mut Server) {
    let status = server.wait_for_exit(Duration::from_secs(60)).expect("it ends");
    assert!(status.success(), "{}", server.log());
}

#[test]
fn a_server_that_ends_waits_for_replicas_and_holds_writes_meanwhile() {
    for (kind, by_signal) in [(Kind::Redis, false), (Kind::Valkey, true), (Kind::Sleeve, false)] {
        let mut primary = primary(Kind::Sleeve, &["--shutdown-timeout", "60"]);
        let replica = replica(kind, &primary, &[]);
        caught_up(&replica, &primary);
        let stopped = Stopped::new(&replica);
        assert_eq!(ask(&mut primary.connect(), &["SET", "a", "1"]), "+OK\r\n");
        let _ends = (!by_signal).then(|| say(&primary, "SHUTDOWN"));
        if by_signal {
            signal(&primary, "TERM");
        }
        wait_for_line(&primary, "Waiting for replicas before shutting down.");
        assert_ne!(info(&primary, "shutdown_in_milliseconds"), "0");
        let mut held = say(&primary, "SET b 2");
        wait_until("it is held", || {
            info(&primary, "role") == "master" && ask(&mut primary.connect(), &["GET", "b"]) == "$-1\r\n"
        });
        drop(stopped);
        ends_well(&mut primary);
        assert!(held.reply().is_err(), "nobody is told that it was done");
        assert!(primary.log().contains("1 of 1 replicas are in sync when shutting down."), "{}", primary.log());
        let mut reader = replica.connect();
        wait_until("it has what was answered", || ask(&mut reader, &["GET", "a"]) == "$1\r\n1\r\n");
        assert_eq!(ask(&mut reader, &["GET", "b"]), "$-1\r\n");
    }
}

#[test]
fn a_replica_that_is_silent_for_too_long_is_named_and_not_waited_for() {
    for (options, words, waits) in
        [(["--shutdown-timeout", "1"], "SHUTDOWN", true), (["--shutdown-timeout", "60"], "SHUTDOWN NOW", false)]
    {
        let mut primary = primary(Kind::Sleeve, &options);
        let replica = replica(Kind::Redis, &primary, &[]);
        caught_up(&replica, &primary);
        let _stopped = Stopped::new(&replica);
        assert_eq!(ask(&mut primary.connect(), &["SET", "a", "1"]), "+OK\r\n");
        let _ends = say(&primary, words);
        ends_well(&mut primary);
        let log = primary.log();
        assert_eq!(log.contains("Waiting for replicas"), waits, "{log}");
        let named = format!("Lagging replica 127.0.0.1:{} reported offset ", replica.port());
        assert!(!waits || (log.contains(&named) && log.contains("0 of 1 replicas are in sync")), "{log}");
    }
}

#[test]
fn shutdown_waits_for_no_full_sync_that_has_not_sent_anything_yet() {
    let held_up = ["--shutdown-timeout", "3600", "--rdb-key-save-delay", "30000000", "--repl-diskless-sync", "no"];
    for kind in [Kind::Sleeve, Kind::Redis] {
        let mut primary = primary(kind, &held_up);
        assert_eq!(ask(&mut primary.connect(), &["DEBUG", "POPULATE", "10"]), "+OK\r\n");
        let _replica = replica(Kind::Redis, &primary, &[]);
        wait_until("its snapshot", || info(&primary, "rdb_bgsave_in_progress") == "1");
        let _ends = say(&primary, "SHUTDOWN NOSAVE");
        ends_well(&mut primary);
    }
}

#[test]
fn an_end_that_is_taken_back_leaves_everything_as_it_was() {
    let mut primary = primary(Kind::Sleeve, &["--shutdown-timeout", "60"]);
    let replica = replica(Kind::Redis, &primary, &[]);
    caught_up(&replica, &primary);
    let mut control = primary.connect();
    assert_eq!(ask(&mut control, &["SHUTDOWN", "ABORT"]), "-ERR No shutdown in progress.\r\n");
    let stopped = Stopped::new(&replica);
    assert_eq!(ask(&mut control, &["SET", "a", "1"]), "+OK\r\n");
    let ends = [say(&primary, "SHUTDOWN"), say(&primary, "SHUTDOWN SAVE")];
    wait_for_line(&primary, "Waiting for replicas");
    wait_until("both wait", || info(&primary, "blocked_clients") == "2");
    let mut held = say(&primary, "SET a 2");
    assert_eq!(ask(&mut control, &["SHUTDOWN", "ABORT"]), "+OK\r\n");
    for mut end in ends {
        assert_eq!(end.reply().expect("an answer"), b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    }
    assert_eq!(held.reply().expect("it goes on"), b"+OK\r\n");
    assert!(primary.log().contains("Shutdown manually aborted."));
    drop(stopped);
    assert_same(&replica, &primary);
    let _ends = say(&primary, "SHUTDOWN");
    ends_well(&mut primary);
}

#[test]
fn shutdown_writes_the_first_base_of_an_aof_switched_on_meanwhile() {
    let primary = primary(Kind::Sleeve, &["--shutdown-timeout", "60", "--rdb-key-save-delay", "30000000"]);
    let replica = replica(Kind::Redis, &primary, &[]);
    caught_up(&replica, &primary);
    let stopped = Stopped::new(&replica);
    let mut control = primary.connect();
    assert_eq!(ask(&mut control, &["SET", "a", "1"]), "+OK\r\n");
    let mut end = say(&primary, "SHUTDOWN");
    wait_for_line(&primary, "Waiting for replicas");
    assert_eq!(ask(&mut control, &["CONFIG", "SET", "appendonly", "yes"]), "+OK\r\n");
    drop(stopped);
    assert_eq!(end.reply().expect("an answer"), b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n");
    assert!(primary.log().contains("Writing initial AOF, can't exit."), "{}", primary.log());
    assert_eq!(ask(&mut control, &["SET", "a", "2"]), "+OK\r\n");
}

/// Adds to a list until the server refuses writes; returns the number of acknowledged additions.
fn add(server: &Server, stop: &AtomicBool) -> usize {
    let (mut connection, mut added) = (server.connect(), 0);
    while !stop.load(Ordering::Relaxed) {
        match connection.command(&["RPUSH", "list", &added.to_string()]) {
            Ok(reply) if reply.starts_with(b":") => added += 1,
            // A server that becomes a replica may close the connection.
            Ok(_) | Err(_) => break,
        }
    }
    added
}

/// Hands the role over under load, and back; no write is lost, and no server needs a full sync.
fn hands_over(first: Kind, second: Kind) {
    let case = format!("{first:?} to {second:?}");
    let one = primary(first, &[]);
    let two = replica(second, &one, &[]);
    let third = replica(if first == Kind::Sleeve { second } else { first }, &one, &[]);
    caught_up(&two, &one);
    caught_up(&third, &one);
    let fulls = info(&one, "sync_full");
    let stop = AtomicBool::new(false);
    let added = thread::scope(|threads| {
        let adds = threads.spawn(|| add(&one, &stop));
        wait_until("something is there", || ask(&mut one.connect(), &["LLEN", "list"]).len() > 5);
        let port = two.port().to_string();
        assert_eq!(ask(&mut one.connect(), &["FAILOVER", "TO", "127.0.0.1", &port]), "+OK\r\n", "{case}");
        wait_until("the new primary", || info(&two, "role") == "master");
        wait_until("the old one follows", || info(&one, "master_failover_state") == "no-failover");
        let added = adds.join().expect("it ends");
        stop.store(true, Ordering::Relaxed);
        added
    });
    assert_same(&one, &two);
    let length = ask(&mut two.connect(), &["LLEN", "list"]);
    assert_eq!(length, format!(":{added}\r\n"), "{case}: what was answered is there");
    assert_eq!(
        (info(&two, "sync_full"), info(&two, "sync_partial_ok")),
        ("0".into(), "1".into()),
        "{case}\n{}",
        one.log()
    );
    assert_eq!(info(&one, "sync_full"), fulls);
    // Any replica that has everything will do.
    let mut connection = two.connect();
    assert_eq!(ask(&mut connection, &["SET", "after", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut connection, &["FAILOVER"]), "+OK\r\n", "{case}");
    wait_until("it is back", || info(&one, "role") == "master");
    assert_same(&two, &one);
    assert_eq!(info(&one, "sync_full"), fulls, "{case}\n{}", two.log());
    assert_same(&third, &one);
}

#[test]
fn a_role_is_handed_to_each_kind_of_replica_and_back() {
    hands_over(Kind::Sleeve, Kind::Sleeve);
    for kind in OTHERS {
        hands_over(Kind::Sleeve, kind);
        hands_over(kind, Kind::Sleeve);
    }
}

/// Checks that the old primary is never ahead of the new one, not even by the REPLCONF GETACK that asks for its offset.
#[test]
fn failover_without_writes_needs_no_full_sync() {
    let one = &primary(Kind::Sleeve, &[]);
    let two = &replica(Kind::Sleeve, one, &[]);
    caught_up(two, one);
    let fulls = || [one, two].map(|server| info(server, "sync_full"));
    let before = fulls();
    for round in 0..8 {
        let (old, new) = if round % 2 == 0 { (one, two) } else { (two, one) };
        wait_until("the replica has said that it has everything", || {
            let offset = info(old, "master_repl_offset");
            info(old, "connected_slaves") == "1" && info(old, "slave0").contains(&format!("offset={offset},"))
        });
        assert_eq!(ask(&mut old.connect(), &["FAILOVER"]), "+OK\r\n", "round {round}");
        wait_until("the new primary", || info(new, "role") == "master");
        wait_until("the old one follows", || info(old, "master_link_status") == "up");
        assert_eq!(fulls(), before, "round {round}\n{}", old.log());
    }
}

#[test]
fn a_replica_that_does_not_catch_up_in_time_is_no_primary_unless_by_force() {
    let primary = primary(Kind::Sleeve, &[]);
    let replica = replica(Kind::Redis, &primary, &[]);
    caught_up(&replica, &primary);
    let port = replica.port().to_string();
    let mut control = primary.connect();
    let stopped = Stopped::new(&replica);
    let state = || info(&primary, "master_failover_state");
    assert_eq!(ask(&mut control, &["SET", "a", "1"]), "+OK\r\n");
    assert_eq!(ask(&mut control, &["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "60000"]), "+OK\r\n");
    assert_eq!(state(), "waiting-for-sync");
    assert_eq!(ask(&mut control, &["FAILOVER"]), "-ERR FAILOVER already in progress.\r\n");
    assert!(
        ask(&mut control, &["REPLICAOF", "NO", "ONE"]).starts_with("-ERR REPLICAOF not allowed while failing over.")
    );
    let mut held = say(&primary, "SET a 2");
    assert_eq!(ask(&mut control, &["FAILOVER", "ABORT"]), "+OK\r\n");
    assert_eq!(held.reply().expect("it goes on"), b"+OK\r\n");
    assert_eq!((state(), info(&primary, "role")), ("no-failover".into(), "master".into()));
    assert_eq!(ask(&mut control, &["FAILOVER", "TIMEOUT", "10"]), "+OK\r\n");
    wait_for_line(&primary, "FAILOVER aborted: Replica never caught up before timeout");
    assert_eq!(ask(&mut control, &["SET", "a", "3"]), "+OK\r\n");
    let force = ["FAILOVER", "TO", "127.0.0.1", &port, "FORCE", "TIMEOUT", "10"];
    assert_eq!(ask(&mut control, &force), "+OK\r\n");
    wait_until("force", || state() == "failover-in-progress");
    assert_eq!(info(&primary, "role"), "slave");
    assert_eq!(ask(&mut control, &["FAILOVER", "ABORT"]), "+OK\r\n");
    assert_eq!((state(), info(&primary, "role")), ("no-failover".into(), "master".into()));
    assert_eq!(ask(&mut control, &["SET", "a", "4"]), "+OK\r\n");
    drop(stopped);
    assert_same(&replica, &primary);
    assert_eq!(info(&primary, "sync_full"), "1", "{}\n{}", primary.log(), replica.log());
}

#[test]
fn a_replica_that_refuses_the_role_leaves_it_at_the_primary() {
    // One worker: with several, the server that takes the role may be ahead of the one that is told to follow no primary.
    for (kind, arguments) in [(Kind::Redis, &[][..]), (Kind::Sleeve, &["--workers", "1"])] {
        let primary = primary(Kind::Sleeve, &[]);
        let replica = replica(kind, &primary, arguments);
        caught_up(&replica, &primary);
        let (port, mut control) = (replica.port().to_string(), primary.connect());
        let mut other = replica.connect();
        assert_eq!(ask(&mut other, &["PING"]), "+PONG\r\n", "it is accepted before the replica is stopped");
        let stopped = Stopped::new(&replica);
        // When FAILOVER asks the replica, it is already a primary.
        other.send(b"REPLICAOF NO ONE\r\n").expect("it is connected");
        let force = ["FAILOVER", "TO", "127.0.0.1", &port, "FORCE", "TIMEOUT", "1"];
        assert_eq!(ask(&mut control, &force), "+OK\r\n");
        wait_until("it asks", || info(&primary, "role") == "slave");
        let mut held = say(&primary, "SET held 1");
        drop(stopped);
        wait_for_line(&primary, "aborted: Failover target rejected psync request");

        wait_until("it is the primary again", || info(&primary, "role") == "master");
        assert_eq!(info(&primary, "master_failover_state"), "no-failover");
        assert_eq!(held.reply().expect("it goes on"), b"+OK\r\n", "who was held is told what comes of it");
        assert_eq!(ask(&mut primary.connect(), &["SET", "a", "1"]), "+OK\r\n");
    }
}

#[test]
fn impossible_failovers_get_the_errors_of_redis() {
    let requests = [
        "FAILOVER",
        "FAILOVER ABORT",
        "FAILOVER ABORT TIMEOUT 1",
        "FAILOVER TIMEOUT 0",
        "FAILOVER TIMEOUT -1",
        "FAILOVER TIMEOUT x",
        "FAILOVER TIMEOUT",
        "FAILOVER TO localhost",
        "FAILOVER TO localhost x",
        "FAILOVER TO nobody.example 1",
        "FAILOVER FORCE",
        "FAILOVER FORCE FORCE",
        "FAILOVER TO nobody.example 1 FORCE",
        "FAILOVER TO nobody.example 1 TO nobody.example 1",
        "FAILOVER TO nobody.example 99999",
        "FAILOVER nonsense",
        "SHUTDOWN ABORT",
        "SHUTDOWN SAVE ABORT",
        "SHUTDOWN SAVE NOSAVE",
        "PSYNC 0123456789012345678901234567890123456789 1 FAILOVER",
    ];
    let answers = [Kind::Sleeve, Kind::Redis].map(|kind| {
        let primary = primary(kind, &[]);
        let answer = |server: &Server, request: &str| {
            let words: Vec<&str> = request.split(' ').collect();
            ask(&mut server.connect(), &words)
        };
        let alone = requests.map(|request| answer(&primary, request));
        let replica = replica(kind, &primary, &[]);
        caught_up(&replica, &primary);
        // With a replica the first request begins the failover.
        let with_one: Vec<_> = requests[1..].iter().map(|request| answer(&primary, request)).collect();
        let from_replica = requests.map(|request| answer(&replica, request));
        (alone, with_one, from_replica)
    });
    assert_eq!(answers[0], answers[1]);
}
