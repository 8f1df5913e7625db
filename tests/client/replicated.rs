//! `reply.replicated(n)` and `reply.synced_on(n)`: never answered before that many replicas have the write, and an honest
//! answer if the effect is unknown.

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Waker};
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, Effect, Error, ErrorKind, Synced};
use sleeve_tests::{Kind, Server};

use crate::replication::replica::{caught_up, follow, info, primary};
use sleeve_tests::probe::{ask, wait_until};

#[path = "../../crates/client/examples/wait_for_sync.rs"]
mod wait_for_sync;

/// Starts a replica that follows.
fn replica(kind: Kind, primary: &Server, arguments: &[&str]) -> Server {
    let replica = Server::start_with(kind, &[&["--enable-debug-command", "yes"], arguments].concat());
    follow(&replica, primary);
    caught_up(&replica, primary);
    replica
}

fn connect(server: &Server) -> Client {
    Client::connect(&server.url()).expect("it is there")
}

/// A stopped server (SIGSTOP); it goes on when this value is dropped.
struct Stopped<'s>(&'s Server);

impl<'s> Stopped<'s> {
    fn new(server: &'s Server) -> Self {
        signal(server, "-STOP");
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", server.process_id())).expect("it is there");
        wait_until("its stop", || state().rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')));
        Self(server)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        signal(self.0, "-CONT");
    }
}

fn signal(server: &Server, signal: &str) {
    let sent = Command::new("kill").args([signal, &server.process_id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// Polls the reply again and again while other calls are served, and checks that it still waits.
fn still_waits<T: sleeve::FromReply>(reply: &mut Synced<T>, client: &Client) {
    for _ in 0..50 {
        assert!(Pin::new(&mut *reply).poll(&mut Context::from_waker(Waker::noop())).is_pending(), "nobody has it");
        client.ping().wait().expect("an answer");
    }
}

fn is_unknown<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("nobody knows");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
}

#[test]
fn so_many_replicas_have_it_when_it_is_said() {
    let primary = primary(Kind::Sleeve);
    let replicas = [replica(Kind::Sleeve, &primary, &[]), replica(Kind::Redis, &primary, &[])];
    let client = connect(&primary);
    for round in 1..50 {
        assert_eq!(client.incr("n").replicated(2).wait(), Ok(round));
        let there = replicas.each_ref().map(|replica| ask(&mut replica.connect(), &["GET", "n"]));
        assert_eq!(there, [format!("${}\r\n{round}\r\n", round.to_string().len()), there[0].clone()]);
    }
    assert_eq!(client.incr("n").replicated(0).wait(), Ok(50));
    let error = client.incr("n").replicated(3).wait_for(Duration::from_millis(50)).expect_err("there are two");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    let stopped = Stopped::new(&replicas[1]);
    client.incr("n").replicated(1).wait().expect("the other has it");
    let mut both = client.incr("n").replicated(2);
    still_waits(&mut both, &client);
    drop(stopped);
    assert_eq!(both.wait(), Ok(53));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { client.incr("n").replicated(2).await }).expect("both have it");
}

#[test]
fn a_disk_counts_where_there_is_a_log() {
    let primary = primary(Kind::Sleeve);
    let _without = replica(Kind::Sleeve, &primary, &[]);
    let client = connect(&primary);
    let mut waiting = client.incr("n").synced_on(1);
    still_waits(&mut waiting, &client);
    let with = replica(Kind::Sleeve, &primary, &["--appendonly", "yes"]);
    wait_until("the log's first base", || info(&with, "aof_rewrite_in_progress") == "0");
    assert_eq!(client.incr("n").synced_on(1).wait(), Ok(2));
    assert_eq!(waiting.wait(), Ok(1));
    wait_for_sync::wait_for_sync(&client, Duration::from_secs(30)).expect("one has a log");
    assert!(client.incr("n").synced_on(2).wait_for(Duration::from_millis(50)).is_err(), "the other has none");
    let error = client.incr("n").synced().wait().expect_err("the primary has no log");
    assert_eq!(error.effect(), Effect::Answered, "{error}");
}

#[test]
fn another_primary_leaves_it_unknown() {
    let (first, second) = (primary(Kind::Sleeve), primary(Kind::Sleeve));
    let replica = replica(Kind::Sleeve, &first, &[]);
    let (client, other) = (connect(&first), connect(&first));
    let stopped = Stopped::new(&replica);
    let mut waiting = client.set("a", 1).replicated(1);
    still_waits(&mut waiting, &client);
    // The primary that acknowledged the write is about to load another server's data; the reply is asked afterwards.
    let answered = other.set("b", 1);
    while !answered.is_ready() {
        std::thread::yield_now();
    }
    follow(&first, &second);
    drop(stopped);
    caught_up(&first, &second);
    is_unknown(waiting.wait());
    ask(&mut first.connect(), &["REPLICAOF", "NO", "ONE"]);
    caught_up(&replica, &first);
    is_unknown(answered.replicated(1).wait());
    wait_until("a connection", || client.set("c", 1).replicated(1).wait().is_ok());
    assert_eq!(ask(&mut replica.connect(), &["EXISTS", "a", "b", "c"]), ":1\r\n");
}

#[test]
fn on_other_servers_a_lease_uses_wait_and_waitaof() {
    for kind in [Kind::Redis8, Kind::Valkey, Kind::Sleeve] {
        let primary = primary(kind);
        let replica = replica(kind, &primary, &["--appendonly", "yes"]);
        wait_until("the log's first base", || info(&replica, "aof_rewrite_in_progress") == "0");
        let client = connect(&primary);
        let lease = client.lease().expect("a lease");
        assert_eq!(lease.incr("n").replicated(1).wait(), Ok(1), "{}", kind.name());
        assert_eq!(lease.incr("n").synced_on(1).wait(), Ok(2), "{}", kind.name());
        if kind != Kind::Sleeve {
            let error = client.incr("n").replicated(1).wait().expect_err("it does not tell");
            assert_eq!(error.effect(), Effect::Answered, "{error}");
            assert!(error.message().contains("client.lease()"), "{error}");
        }
        let answered = lease.incr("n");
        while !answered.is_ready() {
            std::thread::yield_now();
        }
        ask(&mut primary.connect(), &["REPLICAOF", "127.0.0.1", "1"]);
        is_unknown(answered.replicated(1).wait());
    }
}

#[test]
fn an_engine_in_this_process_asks_its_own_replicas() {
    let client = Client::embedded();
    let error = client.set("a", 1).replicated(1).wait().expect_err("it serves nobody");
    assert_eq!(error.effect(), Effect::Answered, "{error}");
    let address = client.listen("127.0.0.1:0".parse().expect("an address")).expect("a port");
    client.config_set([("repl-diskless-sync-delay", "0")]).wait().expect("it is set");
    let late = client.set("b", 1).replicated(1);
    let replica = Server::start_with(Kind::Redis, &[]);
    ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &address.port().to_string()]);
    assert_eq!(late.wait(), Ok(()));
    client.set("c", 1).replicated(1).wait().expect("it has it");
    assert_eq!(ask(&mut replica.connect(), &["GET", "c"]), "$1\r\n1\r\n");
}
