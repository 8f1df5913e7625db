//! WAIT and WAITAOF where nobody ever acknowledges anything: they wait as any command that waits, beside real servers.

use std::time::{Duration, Instant};

use sleeve_tests::{Connection, Kind, Server};

fn ask(connection: &mut Connection, line: &str) -> String {
    let reply = connection.command(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
    String::from_utf8_lossy(&reply).into_owned()
}

/// Looks until so many clients wait.
fn until_waiting(admin: &mut Connection, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ask(admin, "INFO clients").contains(&format!("blocked_clients:{count}\r\n")) {
        assert!(Instant::now() < deadline, "{}", ask(admin, "INFO clients"));
        std::thread::yield_now();
    }
}

/// Has a client wait in every way in which that can end.
fn wait_on(server: &Server, line: &str, answer: &str) {
    let (mut admin, mut waiter) = (server.connect(), server.connect());
    let id = ask(&mut waiter, "CLIENT ID").trim_start_matches(':').trim().to_owned();
    let begin = |admin: &mut Connection, waiter: &mut Connection| {
        let words: Vec<&str> = line.split(' ').collect();
        waiter.send(&sleeve_tests::connection::request(&words)).expect("sent");
        until_waiting(admin, 1);
    };
    let reply = |waiter: &mut Connection| String::from_utf8_lossy(&waiter.reply().expect("a reply")).into_owned();

    // Another client ends it; what was sent behind it runs then, and nobody else was held up.
    begin(&mut admin, &mut waiter);
    waiter.send(b"*1\r\n$4\r\nPING\r\n").expect("sent");
    assert_eq!(ask(&mut admin, "SET k v"), "+OK\r\n");
    assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id}")), ":1\r\n");
    assert_eq!((reply(&mut waiter), reply(&mut waiter)), (answer.to_owned(), "+PONG\r\n".to_owned()), "{line}");

    begin(&mut admin, &mut waiter);
    assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id} ERROR")), ":1\r\n");
    assert_eq!(reply(&mut waiter), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n", "{line}");
    assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id}")), ":0\r\n");

    // Its client is ended, or goes.
    begin(&mut admin, &mut waiter);
    assert_eq!(ask(&mut admin, &format!("CLIENT KILL ID {id}")), ":1\r\n");
    until_waiting(&mut admin, 0);
    let mut waiter = server.connect();
    begin(&mut admin, &mut waiter);
    drop(waiter);
    until_waiting(&mut admin, 0);
}

#[test]
fn who_waits_for_replicas_waits_until_somebody_ends_it() {
    let two = Server::start_with(Kind::Sleeve, &["--workers", "2"]);
    for server in [two, Server::start(Kind::Sleeve), Server::start(Kind::Redis)] {
        wait_on(&server, "WAIT 1 0", ":0\r\n");
        wait_on(&server, "WAIT 3 100000000", ":0\r\n");
    }
}

#[test]
fn who_waits_for_disks_waits_until_somebody_ends_it() {
    for kind in [Kind::Sleeve, Kind::Valkey] {
        wait_on(&Server::start(kind), "WAITAOF 0 1 0", "*2\r\n:0\r\n:0\r\n");
    }
}
