//! A thread that panics. A server ends, with a message and a status that says so. An engine inside a program is closed, and
//! says so to all its callers. No caller is left waiting, and none gets data that may be half changed.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use sleeve_server::boot;
use sleeve_server::{Closed, Config, Engine, Local, Opt};
use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Kind, Server};

use super::{PATIENCE, ask, told, until};

#[test]
fn a_server_ends_when_a_worker_panics_and_says_so() {
    for workers in ["1", "2"] {
        let mut server = Server::start_with(Kind::Sleeve, &["--workers", workers, "--enable-debug-command", "yes"]);
        let mut others: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
        others[0].send(&request(&["BLPOP", "nothing", "0"])).expect("the server listens");
        until("somebody waits", || told(&mut others[1], "blocked_clients") == 1);
        assert!(server.connect().command(&["DEBUG", "PANIC"]).is_err(), "there is no answer");
        let status = server.wait_for_exit(PATIENCE).expect("it ends");
        assert!(!status.success(), "{workers} workers: {status}");
        assert!(others[0].reply().is_err());
        let log = server.log();
        assert!(log.contains("panicked") && log.contains("DEBUG PANIC"), "{workers} workers: {log}");
    }
}

fn engine() -> std::sync::Arc<Engine> {
    let config = Config::default();
    config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("an option of the table");
    config.assign(Opt::Workers, &[b"2"]).expect("an option of the table");
    Engine::new(config)
}

fn exchange(local: &mut Local, words: &[&str]) -> Result<Vec<u8>, Closed> {
    let mut replies = Vec::new();
    local.exchange(&request(words), &mut replies).map(|()| replies)
}

#[test]
fn an_embedded_engine_ends_at_a_panic_and_no_caller_hangs() {
    let engine = engine();
    let server = boot::listen(&engine, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port is free");
    let mut connection = Connection::open(server.addresses()[0]).expect("the server listens");
    assert_eq!(ask(&mut connection, &["PING"]), "+PONG\r\n");
    let (mut faulty, mut waiting) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    let waiter = thread::spawn(move || exchange(&mut waiting, &["BLPOP", "nothing", "0"]));
    until("somebody waits", || told(&mut connection, "blocked_clients") == 1);

    assert_eq!(engine.failure(), None);
    assert_eq!(exchange(&mut faulty, &["DEBUG", "PANIC"]), Err(Closed));
    assert_eq!(exchange(&mut faulty, &["PING"]), Err(Closed));
    assert_eq!(waiter.join().expect("it does not panic"), Err(Closed));
    assert!(connection.reply().is_err(), "connections are closed");
    let reason = engine.failure().expect("the engine says why");
    assert!(reason.contains("DEBUG PANIC"), "{reason}");
    assert_eq!(exchange(&mut Local::open(&engine, || {}), &["PING"]), Err(Closed));
    server.stop();
}

#[test]
fn a_client_of_an_ended_engine_gets_an_error() {
    let client = sleeve::Client::connect("embedded://?enable-debug-command=yes").expect("an engine");
    let waiting = client.cmd("BLPOP").arg(("nothing", 0)).send::<sleeve::Value>();
    let faulty = client.cmd("DEBUG").arg("PANIC").send::<sleeve::Value>().wait();
    for error in [faulty, waiting.wait(), client.cmd("PING").send::<sleeve::Value>().wait()].map(Result::unwrap_err) {
        assert!(error.to_string().contains("DEBUG PANIC"), "{error}");
    }
}

#[test]
fn a_worker_that_panics_ends_the_engine_of_a_program() {
    let engine = engine();
    let server = boot::listen(&engine, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port is free");
    let mut connections: Vec<_> =
        (0..4).map(|_| Connection::open(server.addresses()[0]).expect("the server listens")).collect();
    connections.iter_mut().for_each(|connection| assert_eq!(ask(connection, &["PING"]), "+PONG\r\n"));
    let mut local = Local::open(&engine, || {});
    assert!(connections[0].command(&["DEBUG", "PANIC"]).is_err());
    connections.iter_mut().for_each(|connection| assert!(connection.reply().is_err()));
    until("everybody is told", || exchange(&mut local, &["PING"]) == Err(Closed));
    assert!(engine.failure().is_some_and(|reason| reason.contains("DEBUG PANIC")));
    server.stop();
}
