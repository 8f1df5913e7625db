//! Limits on clients: silence, unread replies, memory, number.

use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Kind, Server, Settings};

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

/// Waits until no client has this name.
fn until_gone(admin: &mut Connection, name: &str) {
    while ask(admin, "CLIENT LIST").contains(&format!(" name={name} ")) {
        std::thread::yield_now();
    }
}

#[test]
fn the_largest_clients_go_when_all_have_too_much() {
    let server = Server::start_with(Kind::Sleeve, &["--workers", "2", "--maxmemory-clients", "4mb"]);
    let mut admin = server.connect();
    let mut safe = named(&server, "safe");
    assert_eq!(ask(&mut safe, "CLIENT NO-EVICT on"), "+OK\r\n");
    let (mut small, mut large) = (named(&server, "small"), named(&server, "large"));
    let partial = |bytes: usize| [b"*2\r\n$4\r\nECHO\r\n$9000000\r\n".as_slice(), &vec![b'x'; bytes]].concat();
    safe.send(&partial(300_000)).unwrap();
    small.send(&partial(500_000)).unwrap();
    while field(&mut admin, "mem_clients_normal") < 800_000 {
        std::thread::yield_now();
    }
    assert_eq!(field(&mut admin, "evicted_clients"), 0);
    large.send(&partial(2_400_000)).unwrap();
    until_gone(&mut admin, "large");
    assert_eq!(field(&mut admin, "evicted_clients"), 1);
    let list = ask(&mut admin, "CLIENT LIST");
    assert!(list.contains("name=safe") && list.contains("name=small"), "{list}");
    ask(&mut admin, "CONFIG SET maxmemory 100mb maxmemory-clients 1%");
    until_gone(&mut admin, "small");
    assert!(ask(&mut admin, "CLIENT LIST").contains("name=safe"));
}

#[test]
fn a_request_beyond_maxmemory_clients_closes_its_client_before_it_runs() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let server = Server::start_with(kind, &["--maxmemory-clients", "4mb"]);
        let mut admin = server.connect();
        let mut large = server.connect();
        // The server may close the connection before everything is sent.
        let reply = large.command(&[b"SET".as_slice(), b"large", &vec![b'x'; 8 << 20]]);
        assert!(reply.is_err(), "{}", kind.name());
        assert_eq!(ask(&mut admin, "EXISTS large"), ":0\r\n", "{}", kind.name());
        assert_eq!(field(&mut admin, "evicted_clients"), 1, "{}", kind.name());
    }
}

/// Checks that an invalidation precedes the reply to the command that caused it: the command of a tracking client evicts a
/// key that the client has read.
#[test]
fn an_invalidation_by_eviction_precedes_the_reply() {
    for kind in [Kind::Sleeve, Kind::Redis] {
        let server = Server::start_with(kind, &["--maxmemory-policy", "volatile-ttl"]);
        let mut reader = server.connect();
        ask(&mut reader, "HELLO 3");
        ask(&mut reader, "SET k v EX 1000");
        ask(&mut reader, "CLIENT TRACKING on");
        ask(&mut reader, "GET k");
        // The limit comes with the command that exceeds it, because CONFIG SET of a limit evicts by itself.
        let value = "x".repeat(1 << 20);
        let used = field(&mut server.connect(), "used_memory");
        ask(&mut server.connect(), &format!("CONFIG SET maxmemory {}", used + (1 << 19)));
        reader.send(&request(&["SET", "large", &value])).unwrap();
        let (mut was_invalidated, mut was_refused) = (false, false);
        while !was_refused {
            let reply = reader.reply().unwrap();
            was_refused = reply.starts_with(b"-OOM ");
            if reply.starts_with(b">2\r\n$10\r\ninvalidate") {
                was_invalidated = true;
            } else if !was_refused {
                // The server has not measured its memory again yet.
                reader.send(&request(&["SET", "another", "v"])).unwrap();
            }
        }
        assert!(was_invalidated, "{}", kind.name());
    }
}

#[test]
fn a_client_that_reads_nothing_is_closed() {
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

/// Returns a figure of a server's memory from the kernel, in KiB: `VmRSS` is the present size, `VmHWM` the peak.
fn memory_kib(server: &Server, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("a field of that name");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().expect("a number")
}

#[test]
fn a_client_without_a_login_has_a_small_output_limit() {
    let settings = Settings { arguments: vec!["--requirepass".into(), "x".into()], password: Some("x".into()) };
    let server = Server::try_start(Kind::Sleeve, settings).expect("it starts");
    let mut admin = server.connect();
    let before_kib = memory_kib(&server, "VmHWM");
    let mut silent = Connection::open(server.address()).unwrap();
    let pings = b"PING\r\n".repeat(1_000);
    let ended = (0..5_000).any(|_| silent.send(&pings).is_err());
    assert!(ended, "30 MB were read from a client that reads nothing");
    assert_eq!(field(&mut admin, "client_output_buffer_limit_disconnections"), 1);
    let grown_kib = memory_kib(&server, "VmHWM").saturating_sub(before_kib);
    assert!(grown_kib < 16 * 1024, "{grown_kib} KiB were taken for it");

    let mut modest = Connection::open(server.address()).unwrap();
    modest.send(&b"PING\r\n".repeat(400)).unwrap();
    (0..400).for_each(|_| assert_eq!(modest.reply().unwrap(), b"-NOAUTH Authentication required.\r\n"));
    modest.send(&[b"AUTH x\r\n".as_slice(), &pings].concat()).unwrap();
    assert_eq!(modest.reply().unwrap(), b"+OK\r\n");
    (0..1_000).for_each(|_| assert_eq!(modest.reply().unwrap(), b"+PONG\r\n"));
}

/// Returns requests with replies of 300 MB, each with its name.
fn greedy_requests() -> Vec<(&'static str, Vec<u8>)> {
    const TIMES: usize = 20_000;
    let repeated = [&["MGET"][..], &["string"; TIMES]].concat();
    let get = request(&["GET", "string"]);
    let (multi, incr, exec) = (b"MULTI\r\n".as_slice(), b"INCR ran\r\n".as_slice(), b"EXEC\r\n".as_slice());
    let words = |line: &str| request(&line.split(' ').collect::<Vec<_>>());
    vec![
        ("MGET", request(&repeated)),
        ("SRANDMEMBER", words("SRANDMEMBER set -20000")),
        ("HRANDFIELD", words("HRANDFIELD hash -20000 WITHVALUES")),
        ("ZRANDMEMBER", words("ZRANDMEMBER zset -20000 WITHSCORES")),
        ("SORT", words("SORT few BY nosort GET * GET * GET *")),
        ("EVAL", request(&["EVAL", SCRIPT, "0"])),
        ("pipeline", get.repeat(TIMES)),
        ("EXEC", [multi, &get.repeat(TIMES), incr, exec].concat()),
    ]
}

/// A script with a reply of 300 MB, made of one string.
const SCRIPT: &str = "local s = string.rep('x', 15000) local t = {} for i = 1, 20000 do t[i] = s end return t";

#[test]
fn a_reply_beyond_the_hard_limit_is_not_built() {
    let server = Server::start_with(Kind::Sleeve, &["--client-output-buffer-limit", "normal 1mb 0 0"]);
    let mut admin = server.connect();
    let long = "x".repeat(15_000);
    for line in ["SET string", "SADD set", "HSET hash field", "ZADD zset 1"] {
        ask(&mut admin, &format!("{line} {long}"));
    }
    ask(&mut admin, &format!("RPUSH few{}", " string".repeat(100)));
    for (name, requests) in greedy_requests() {
        let before_kib = memory_kib(&server, "VmHWM");
        let closed = field(&mut admin, "client_output_buffer_limit_disconnections");
        let mut greedy = server.connect();
        // The client reads everything that arrives; only the amount for one wake-up is too large.
        _ = greedy.send(&requests);
        let read = greedy.read_to_end().expect("the server closes");
        assert!(read.len() < 100_000_000, "{name}: {} bytes came", read.len());
        assert_eq!(field(&mut admin, "client_output_buffer_limit_disconnections"), closed + 1, "{name}");
        let grown_kib = memory_kib(&server, "VmHWM").saturating_sub(before_kib);
        assert!(grown_kib < 48 * 1024, "{name}: {grown_kib} KiB were taken");
    }
    assert_eq!(ask(&mut admin, "GET ran"), "$1\r\n1\r\n", "the transaction ran to its end");
}

#[test]
fn each_command_with_many_elements_stops_at_the_hard_limit() {
    let server = Server::start_with(Kind::Sleeve, &["--client-output-buffer-limit", "normal 100k 0 0"]);
    let mut admin = server.connect();
    let (words, long) = (|line: &str| request(&line.split(' ').collect::<Vec<_>>()), "x".repeat(100));
    let (mut requests, mut count) = (Vec::new(), 0);
    for index in 0..2_000 {
        for line in ["SADD set", "HSET hash INDEX", "ZADD zset INDEX", "RPUSH list", "XADD stream * INDEX", "APPEND"] {
            let line = format!("{line} {index}:{long}").replace("INDEX", &index.to_string());
            requests.extend(words(if line.starts_with("APPEND") { line + " 1" } else { line }.as_str()));
            count += 1;
        }
    }
    admin.send(&requests).unwrap();
    (0..count).for_each(|_| assert_ne!(admin.reply().unwrap()[0], b'-'));
    ask(&mut admin, "XGROUP CREATE stream group 0");
    for line in GREEDY {
        let closed = field(&mut admin, "client_output_buffer_limit_disconnections");
        let mut greedy = server.connect();
        greedy.send(format!("{line}\r\n").as_bytes()).unwrap();
        assert_eq!(greedy.read_to_end().expect("the server closes").len(), 0, "{line}");
        assert_eq!(field(&mut admin, "client_output_buffer_limit_disconnections"), closed + 1, "{line}");
        let mut silent = server.connect();
        silent.send(format!("CLIENT REPLY SKIP\r\n{line}\r\nPING\r\n").as_bytes()).unwrap();
        assert_eq!(silent.reply().unwrap(), b"+PONG\r\n", "{line}: what is not sent is not too much");
    }
    assert!(ask(&mut admin, "XPENDING stream group").starts_with("*4\r\n:2000\r\n"), "all were delivered");
}

/// Commands with replies longer than 100 KB.
const GREEDY: [&str; 22] = [
    "SMEMBERS set",
    "SUNION set set",
    "SINTER set set",
    "SDIFF set",
    "SRANDMEMBER set 1900",
    "SSCAN set 0 COUNT 5000",
    "HGETALL hash",
    "HVALS hash",
    "HSCAN hash 0 COUNT 5000",
    "HRANDFIELD hash 1900 WITHVALUES",
    "ZRANGE zset 0 -1",
    "ZUNION 2 zset zset",
    "ZRANDMEMBER zset 1900",
    "ZSCAN zset 0 COUNT 5000",
    "LRANGE list 0 -1",
    "SORT list BY nosort",
    "KEYS *",
    "SCAN 0 COUNT 5000",
    "XRANGE stream - +",
    "XREAD STREAMS stream 0",
    "XREADGROUP GROUP group consumer STREAMS stream >",
    "EVAL \"return redis.call('LRANGE','list',0,-1)\" 0",
];

#[test]
fn the_memory_of_a_huge_reply_comes_back() {
    let server = Server::start(Kind::Sleeve);
    let mut admin = server.connect();
    ask(&mut admin, &format!("SET string {}", "x".repeat(15_000)));
    let mut reader = server.connect();
    let before_kib = memory_kib(&server, "VmRSS");
    let words = [&["MGET"][..], &["string"; 10_000]].concat();
    reader.send(&request(&words)).unwrap();
    while memory_kib(&server, "VmHWM") < before_kib + 140_000 {
        std::thread::yield_now();
    }
    assert_eq!(reader.reply().unwrap().len(), 10_000 * 15_010 + 8);
    // Both clients stay and send nothing: only the server itself gives memory back.
    while memory_kib(&server, "VmRSS") > before_kib + 16_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn more_arguments_than_a_million_are_taken() {
    let server = Server::start(Kind::Sleeve);
    let words = [&["DEL"][..], &["key"; 1_100_000]].concat();
    assert_eq!(server.connect().command(&words).unwrap(), b":0\r\n");
}

#[test]
fn commands_after_a_client_killed_itself_in_exec_run_without_replies() {
    for kind in [Kind::Redis, Kind::Sleeve] {
        let server = Server::start(kind);
        let mut connection = server.connect();
        let id = ask(&mut connection, "CLIENT ID");
        let kill = format!("CLIENT KILL ID {} SKIPME no", id.trim_start_matches(':').trim_end());
        for line in ["MULTI", "PING", &kill, "CLIENT LIST", "SET k v", "EXEC", "PING"] {
            connection.send(&request(&line.split(' ').collect::<Vec<_>>())).expect("sent");
        }
        let told = String::from_utf8(connection.read_to_end().expect("it ends")).expect("text");
        let expected = format!("+OK\r\n{}*4\r\n+PONG\r\n:1\r\n", "+QUEUED\r\n".repeat(4));
        assert_eq!(told, expected, "{kind:?}");
        assert_eq!(ask(&mut server.connect(), "GET k"), "$1\r\nv\r\n", "{kind:?}");
    }
}
