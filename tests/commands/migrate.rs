//! MIGRATE between real servers: from Sleeve to Redis and Valkey, from Redis to Sleeve, and from Sleeve to Sleeve.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, socket};
use sleeve::prelude::*;
use sleeve::{Client, MigrateTarget};
use sleeve_tests::{Connection, Kind, Server};

const PAIRS: [(Kind, Kind); 4] = [
    (Kind::Sleeve, Kind::Redis),
    (Kind::Sleeve, Kind::Valkey),
    (Kind::Redis, Kind::Sleeve),
    (Kind::Sleeve, Kind::Sleeve),
];

fn start(kind: Kind) -> Server {
    Server::start_with(kind, &["--enable-debug-command", "yes"])
}

/// Sends a line of words and returns the reply; `""` stands for the empty word.
fn ask(connection: &mut Connection, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').map(|word| if word == "\"\"" { "" } else { word }).collect();
    String::from_utf8_lossy(&connection.command(&words).expect("a reply")).into_owned()
}

/// Writes some keys of every type, small and large; returns their names.
fn fill(connection: &mut Connection) -> Vec<String> {
    let mut made: Vec<(&str, String)> = Vec::new();
    for (size, count) in [("small", 3), ("large", 3_000)] {
        let words = |word: &dyn Fn(usize) -> String| (0..count).map(word).collect::<Vec<_>>().join(" ");
        made.push((size, format!("SET string:{size} {}", "x".repeat(count * 100))));
        made.push((size, format!("RPUSH list:{size} {}", words(&|at| format!("element-{at}")))));
        made.push((size, format!("SADD integers:{size} {}", words(&|at| at.to_string()))));
        made.push((size, format!("SADD set:{size} {}", words(&|at| format!("member-{at}")))));
        made.push((size, format!("HSET hash:{size} {}", words(&|at| format!("field-{at} {at}")))));
        made.push((size, format!("ZADD sorted:{size} {}", words(&|at| format!("{at}.5 member-{at}")))));
        made.push((size, format!("PFADD hyperloglog:{size} {}", words(&|at| at.to_string()))));
        for at in 0..count / 10 + 2 {
            made.push((size, format!("XADD stream:{size} 1-{} field {at}", at + 1)));
        }
        made.push((size, format!("XGROUP CREATE stream:{size} group 0")));
        made.push((size, format!("XREADGROUP GROUP group consumer COUNT 2 STREAMS stream:{size} >")));
    }
    made.push(("", "SET number 12345".to_owned()));
    for (_, line) in &made {
        let reply = ask(connection, line);
        assert!(!reply.starts_with('-'), "{}: {reply}", line.get(..40).unwrap_or(line));
    }
    let mut names: Vec<String> = ["string", "list", "integers", "set", "hash", "sorted", "hyperloglog", "stream"]
        .iter()
        .flat_map(|kind| [format!("{kind}:small"), format!("{kind}:large")])
        .collect();
    names.push("number".to_owned());
    names
}

fn digests(connection: &mut Connection, names: &[String]) -> String {
    ask(connection, &format!("DEBUG DIGEST-VALUE {}", names.join(" ")))
}

#[test]
fn every_type_travels_with_its_deadline() {
    for (from, to) in PAIRS {
        let (source, target) = (start(from), start(to));
        let (mut here, mut there) = (source.connect(), target.connect());
        let names = fill(&mut here);
        let address = format!("127.0.0.1 {}", target.port());
        assert_eq!(ask(&mut here, "PEXPIRE set:small 1000000"), ":1\r\n");
        let before = digests(&mut here, &names);
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} number 3 5000")), "+OK\r\n");
        let rest = names.iter().filter(|name| *name != "number").cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} \"\" 3 5000 KEYS none {rest}")), "+OK\r\n");
        assert_eq!(ask(&mut here, "DBSIZE"), ":0\r\n");
        assert_eq!(ask(&mut there, "DBSIZE"), ":0\r\n");
        ask(&mut there, "SELECT 3");
        assert_eq!(digests(&mut there, &names), before, "{from:?} to {to:?}");
        let left_ms: i64 = ask(&mut there, "PTTL set:small")[1..].trim_end().parse().expect("a number");
        assert!((1..=1_000_000).contains(&left_ms), "{left_ms}");
        assert_eq!(ask(&mut there, "PTTL number"), ":-1\r\n");
    }
}

#[test]
fn keys_that_the_target_refuses_stay() {
    for (from, to) in PAIRS {
        let (source, target) = (start(from), start(to));
        let (mut here, mut there) = (source.connect(), target.connect());
        ask(&mut here, "MSET a 1 b 2 c 3");
        ask(&mut there, "SET b there");
        let address = format!("127.0.0.1 {}", target.port());
        let busy = "-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n";
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} b 0 5000")), busy);
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} \"\" 0 5000 KEYS a b c")), busy);
        assert_eq!(ask(&mut here, "KEYS *"), "*1\r\n$1\r\nb\r\n");
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} b 0 5000 COPY REPLACE")), "+OK\r\n");
        assert_eq!(ask(&mut there, "MGET a b c"), "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
        ask(&mut there, "CONFIG SET requirepass secret");
        let refused = ask(&mut here, &format!("MIGRATE {address} b 0 5000 REPLACE AUTH wrong"));
        assert!(refused.starts_with("-ERR Target instance replied with error: WRONGPASS"), "{refused}");
        assert_eq!(ask(&mut here, "EXISTS b"), ":1\r\n");
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} b 1 5000 AUTH secret")), "+OK\r\n");
        ask(&mut here, "SET b 5");
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} b 2 5000 AUTH2 default secret")), "+OK\r\n");
        assert_eq!(ask(&mut here, &format!("MIGRATE {address} b 0 5000")), "+NOKEY\r\n");
    }
}

/// Returns a socket at a port that refuses connections, and that no other process can take meanwhile.
fn bound_without_listening() -> TcpListener {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("a port");
    TcpListener::from(socket)
}

#[test]
fn migrate_waits_no_longer_than_its_timeout() {
    for workers in ["1", "2"] {
        let source = Server::start_with(Kind::Sleeve, &["--workers", workers]);
        let mut here = source.connect();
        ask(&mut here, "SET a 1");
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("an address").port();
        let begun = Instant::now();
        let late = "-IOERR error or timeout reading to target instance\r\n";
        assert_eq!(ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 0 50")), late);
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert_eq!(ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 1 50")), late);
        // A server that migrates to itself can only wait in vain, as in Redis.
        assert_eq!(ask(&mut here, &format!("MIGRATE 127.0.0.1 {} a 0 50 COPY", source.port())), late);
        let refusing = bound_without_listening();
        let port = refusing.local_addr().expect("an address").port();
        let closed = ask(&mut here, &format!("MIGRATE 127.0.0.1 {port} a 0 50"));
        assert_eq!(closed, "-IOERR error or timeout writing to target instance\r\n");
        assert_eq!(ask(&mut here, "GET a"), "$1\r\n1\r\n");
    }
}

#[test]
fn a_target_that_was_restarted_is_found_again() {
    let (source, mut target) = (start(Kind::Sleeve), start(Kind::Redis));
    let mut here = source.connect();
    for key in ["a", "b"] {
        ask(&mut here, &format!("SET {key} 1"));
        assert_eq!(ask(&mut here, &format!("MIGRATE 127.0.0.1 {} {key} 5 5000", target.port())), "+OK\r\n");
        target.restart().expect("it comes again");
    }
}

#[test]
fn the_client_moves_keys() -> Result<(), sleeve::Error> {
    let (source, target) = (start(Kind::Sleeve), start(Kind::Redis));
    let (here, there) = (Client::connect(&source.url())?, Client::connect(&target.url())?);
    let to = MigrateTarget::new("127.0.0.1", target.port()).database(1);
    here.set("a", 1).wait()?;
    assert!(here.migrate(&to, "a").wait()?);
    assert!(!here.migrate(&to, ["a", "b"]).wait()?, "there was nothing to move");
    here.set("a", 2).wait()?;
    assert_eq!(here.migrate(&to, "a").wait().unwrap_err().code(), Some("ERR"));
    let over = to.copy().replace();
    assert!(here.migrate(&over, ["a", "b"]).wait()?);
    assert_eq!((here.exists("a").wait()?, there.db(1).get::<i64>("a").wait()?), (1, 2));
    Ok(())
}
