//! WAIT and WAITAOF beside real servers: if no replica ever acknowledges, they wait as any blocking command does, and their
//! replies about this server's own disk equal those of real servers.

use std::time::{Duration, Instant};

use sleeve_tests::{Connection, Kind, Server};

fn ask(connection: &mut Connection, line: &str) -> String {
    let reply = connection.command(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
    String::from_utf8_lossy(&reply).into_owned()
}

/// Waits until so many clients are blocked.
fn until_waiting(admin: &mut Connection, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ask(admin, "INFO clients").contains(&format!("blocked_clients:{count}\r\n")) {
        assert!(Instant::now() < deadline, "{}", ask(admin, "INFO clients"));
        std::thread::yield_now();
    }
}

/// Blocks a client in every way in which the wait can end.
fn wait_on(server: &Server, line: &str, answer: &str) {
    let (mut admin, mut waiter) = (server.connect(), server.connect());
    let id = ask(&mut waiter, "CLIENT ID").trim_start_matches(':').trim().to_owned();
    let begin = |admin: &mut Connection, waiter: &mut Connection| {
        let words: Vec<&str> = line.split(' ').collect();
        waiter.send(&sleeve_tests::connection::request(&words)).expect("sent");
        until_waiting(admin, 1);
    };
    let reply = |waiter: &mut Connection| String::from_utf8_lossy(&waiter.reply().expect("a reply")).into_owned();

    // Another client ends the wait. The pipelined request behind it then runs, and no other client was held up.
    begin(&mut admin, &mut waiter);
    waiter.send(b"*1\r\n$4\r\nPING\r\n").expect("sent");
    assert_eq!(ask(&mut admin, "SET k v"), "+OK\r\n");
    assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id}")), ":1\r\n");
    assert_eq!((reply(&mut waiter), reply(&mut waiter)), (answer.to_owned(), "+PONG\r\n".to_owned()), "{line}");

    begin(&mut admin, &mut waiter);
    assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id} ERROR")), ":1\r\n");
    assert_eq!(reply(&mut waiter), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n", "{line}");
    assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id}")), ":0\r\n");

    // The blocked client is killed, or closes its connection.
    begin(&mut admin, &mut waiter);
    assert_eq!(ask(&mut admin, &format!("CLIENT KILL ID {id}")), ":1\r\n");
    until_waiting(&mut admin, 0);
    let mut waiter = server.connect();
    begin(&mut admin, &mut waiter);
    drop(waiter);
    until_waiting(&mut admin, 0);
}

#[test]
fn wait_without_a_timeout_lasts_until_another_client_ends_it() {
    let two = Server::start_with(Kind::Sleeve, &["--workers", "2"]);
    for server in [two, Server::start(Kind::Sleeve), Server::start(Kind::Redis)] {
        wait_on(&server, "WAIT 1 0", ":0\r\n");
        wait_on(&server, "WAIT 3 100000000", ":0\r\n");
    }
}

#[test]
fn waitaof_without_a_timeout_lasts_until_another_client_ends_it() {
    for kind in [Kind::Sleeve, Kind::Valkey] {
        wait_on(&Server::start(kind), "WAITAOF 0 1 0", "*2\r\n:0\r\n:0\r\n");
    }
}

const NEITHER: &str = "*2\r\n:0\r\n:0\r\n";
const HERE: &str = "*2\r\n:1\r\n:0\r\n";

#[test]
fn waitaof_for_the_local_disk_replies_as_other_servers_do() {
    for (kind, more) in [(Kind::Sleeve, &["--workers", "2"][..]), (Kind::Redis8, &[]), (Kind::Valkey, &[])] {
        let server = Server::start_with(kind, &[&["--appendonly", "yes", "--appendfsync", "no"], more].concat());
        let (mut admin, mut writer, mut other) = (server.connect(), server.connect(), server.connect());
        let id = ask(&mut writer, "CLIENT ID").trim_start_matches(':').trim().to_owned();
        assert_eq!(ask(&mut writer, "WAITAOF 1 0 0"), HERE, "{kind:?}: nothing was written");
        let begin = |admin: &mut Connection, client: &mut Connection| {
            client.send(b"*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n0\r\n").expect("sent");
            until_waiting(admin, 1);
        };
        let reply = |client: &mut Connection| String::from_utf8_lossy(&client.reply().expect("a reply")).into_owned();

        // The AOF is not synced: the command waits for its timeout, or for another client that ends it.
        assert_eq!(ask(&mut writer, "SET key value"), "+OK\r\n");
        assert_eq!(ask(&mut writer, "WAITAOF 1 0 10"), NEITHER, "{kind:?}");
        begin(&mut admin, &mut writer);
        assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id}")), ":1\r\n");
        assert_eq!(reply(&mut writer), NEITHER, "{kind:?}");
        begin(&mut admin, &mut writer);
        assert_eq!(ask(&mut admin, &format!("CLIENT UNBLOCK {id} ERROR")), ":1\r\n");
        assert_eq!(reply(&mut writer), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
        // Inside MULTI the command cannot wait, and replies with the present state.
        assert_eq!(ask(&mut writer, "MULTI"), "+OK\r\n");
        assert_eq!(ask(&mut writer, "SET key other"), "+QUEUED\r\n");
        assert_eq!(ask(&mut writer, "WAITAOF 1 0 0"), "+QUEUED\r\n");
        assert_eq!(ask(&mut writer, "EXEC"), format!("*2\r\n+OK\r\n{NEITHER}"), "{kind:?}");
        let script = writer.command(&["EVAL", "return redis.call('waitaof', 1, 0, 0)", "0"]).expect("a reply");
        // To Redis 8 a script is a client of its own, which has written nothing.
        let of_script = if kind == Kind::Redis8 { HERE } else { NEITHER };
        assert_eq!(String::from_utf8_lossy(&script), of_script, "{kind:?}");
        // The command is about the writes of its own client, and about the writes executed for that client.
        assert_eq!(ask(&mut other, "GET key"), "$5\r\nother\r\n");
        assert_eq!(ask(&mut other, "WAITAOF 1 0 0"), HERE, "{kind:?}: it has read only");
        other.send(b"*3\r\n$5\r\nBLPOP\r\n$4\r\nlist\r\n$1\r\n0\r\n").expect("sent");
        until_waiting(&mut admin, 1);
        assert_eq!(ask(&mut writer, "RPUSH list a"), ":1\r\n");
        assert_eq!(reply(&mut other), "*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
        // Real servers do not ask whether writes that a blocked client was served are synced.
        let waiter = if kind == Kind::Sleeve { &mut other } else { &mut writer };
        begin(&mut admin, waiter);
        // The command gets its reply when the AOF is synced.
        assert_eq!(ask(&mut admin, "CONFIG SET appendfsync everysec"), "+OK\r\n");
        assert_eq!(reply(waiter), HERE, "{kind:?}");
        assert_eq!(ask(&mut writer, "WAITAOF 1 0 0"), HERE, "{kind:?}");
        // The command is refused when the AOF is switched off, regardless of the number of replicas for which it waits.
        assert_eq!(ask(&mut admin, "CONFIG SET appendfsync no"), "+OK\r\n");
        assert_eq!(ask(&mut writer, "SET key third"), "+OK\r\n");
        begin(&mut admin, &mut writer);
        other.send(b"*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n0\r\n").expect("sent");
        until_waiting(&mut admin, 2);
        assert_eq!(ask(&mut admin, "CONFIG SET appendonly no"), "+OK\r\n");
        let refused = "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n";
        assert_eq!([reply(&mut writer), reply(&mut other)], [refused, refused], "{kind:?}");
        until_waiting(&mut admin, 0);
    }
}

#[test]
fn nothing_is_on_the_disk_before_the_first_base_is() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    for key in ["a", "b", "c"] {
        assert_eq!(ask(&mut connection, &format!("SET {key} value")), "+OK\r\n");
    }
    // The delay is longer than the AOF waits between two syncs.
    assert_eq!(ask(&mut connection, "CONFIG SET rdb-key-save-delay 700000 appendonly yes"), "+OK\r\n");
    until(&mut connection, "aof_enabled:1");
    assert_eq!(ask(&mut connection, "SET d value"), "+OK\r\n");
    assert_eq!(ask(&mut connection, "WAITAOF 1 0 0"), HERE);
    let manifest = std::fs::read_to_string(server.folder().join("appendonlydir/appendonly.aof.manifest"));
    assert!(manifest.as_ref().is_ok_and(|text| text.contains(".base.rdb")), "{manifest:?}");
}

/// Waits until INFO has this line.
fn until(connection: &mut Connection, line: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ask(connection, "INFO persistence").contains(line) {
        assert!(Instant::now() < deadline, "{line} did not come about");
        std::thread::yield_now();
    }
}
