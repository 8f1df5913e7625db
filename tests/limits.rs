//! What clients may not exceed: silence, unread replies, memory, number.

use std::time::Duration;

use sleeve_tests::{Connection, Kind, Server};

fn ask(connection: &mut Connection, line: &str) -> String {
    let reply = connection.command(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
    String::from_utf8_lossy(&reply).into_owned()
}

fn field(connection: &mut Connection, name: &str) -> u64 {
    let info = ask(connection, "INFO everything");
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
    line.expect(name).trim().parse().expect("a number")
}

fn named(server: &Server, name: &str) -> Connection {
    let mut connection = server.connect();
    assert_eq!(ask(&mut connection, &format!("CLIENT SETNAME {name}")), "+OK\r\n");
    connection
}

/// Waits until nobody has this name any more.
fn until_gone(admin: &mut Connection, name: &str) {
    while ask(admin, "CLIENT LIST").contains(&format!(" name={name} ")) {
        std::thread::yield_now();
    }
}

#[test]
fn the_largest_clients_go_when_all_have_too_much() {
    let server = Server::start_with(Kind::Sleeve, &["--workers", "2", "--maxmemory-clients", "2mb"]);
    let mut admin = server.connect();
    let mut safe = named(&server, "safe");
    assert_eq!(ask(&mut safe, "CLIENT NO-EVICT on"), "+OK\r\n");
    let (mut small, mut large) = (named(&server, "small"), named(&server, "large"));
    let partial = |bytes: usize| [b"*2\r\n$4\r\nECHO\r\n$9000000\r\n".as_slice(), &vec![b'x'; bytes]].concat();
    safe.send(&partial(700_000)).unwrap();
    small.send(&partial(500_000)).unwrap();
    while field(&mut admin, "mem_clients_normal") < 1_200_000 {
        std::thread::yield_now();
    }
    assert_eq!(field(&mut admin, "evicted_clients"), 0);
    large.send(&partial(1_200_000)).unwrap();
    until_gone(&mut admin, "large");
    assert_eq!(field(&mut admin, "evicted_clients"), 1);
    let list = ask(&mut admin, "CLIENT LIST");
    assert!(list.contains("name=safe") && list.contains("name=small"), "{list}");
    ask(&mut admin, "CONFIG SET maxmemory 100mb maxmemory-clients 1%");
    until_gone(&mut admin, "small");
    assert!(ask(&mut admin, "CLIENT LIST").contains("name=safe"));
}

#[test]
fn who_reads_nothing_goes() {
    for class in ["normal", "pubsub"] {
        let server = Server::start(Kind::Sleeve);
        let mut admin = server.connect();
        let limit = format!("{class} 200000 0 0");
        let set = admin.command(&["CONFIG", "SET", "client-output-buffer-limit", &limit]).unwrap();
        assert_eq!(set, b"+OK\r\n");
        let value = "x".repeat(100_000);
        ask(&mut admin, &format!("SET k {value}"));
        let mut lazy = named(&server, "lazy");
        if class == "pubsub" {
            ask(&mut lazy, "SUBSCRIBE c");
        }
        while ask(&mut admin, "CLIENT LIST").contains(" name=lazy ") {
            let result = if class == "pubsub" {
                admin.command(&["PUBLISH", "c", &value]).map(drop)
            } else {
                lazy.send(b"GET k\r\n")
            };
            if result.is_err() {
                break;
            }
        }
        until_gone(&mut admin, "lazy");
        assert_eq!(field(&mut admin, "client_output_buffer_limit_disconnections"), 1, "{class}");
    }
}

#[test]
fn silent_clients_go_unless_they_listen_or_wait() {
    let server = Server::start_with(Kind::Sleeve, &["--timeout", "1"]);
    let mut admin = server.connect();
    let silent = named(&server, "silent");
    let (mut listener, mut waiter) = (named(&server, "listener"), named(&server, "waiter"));
    ask(&mut listener, "SUBSCRIBE c");
    waiter.send(b"BLPOP k 0\r\n").unwrap();
    until_gone(&mut admin, "silent");
    drop(silent);
    let list = ask(&mut admin, "CLIENT LIST");
    assert!(list.contains("name=listener") && list.contains("name=waiter"), "{list}");
    assert_eq!(listener.reply_within(Duration::from_millis(1)).unwrap(), None);
}

#[test]
fn no_more_clients_come_than_may() {
    let server = Server::start_with(Kind::Sleeve, &["--maxclients", "3"]);
    let mut admin = server.connect();
    assert_eq!(ask(&mut admin, "CONFIG GET maxclients"), "*2\r\n$10\r\nmaxclients\r\n$1\r\n3\r\n");
    let (second, mut third) = (named(&server, "second"), named(&server, "third"));
    let mut fourth = server.try_connect().unwrap();
    assert_eq!(fourth.read_to_end().unwrap(), b"-ERR max number of clients reached\r\n");
    assert_eq!(ask(&mut third, "PING"), "+PONG\r\n");
    drop(second);
    until_gone(&mut admin, "second");
    named(&server, "fifth");
    assert_eq!(field(&mut admin, "rejected_connections"), 1);
}
