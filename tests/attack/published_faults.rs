//! The published faults of Redis and Valkey since 2022, replayed: each request that broke one of them is sent, and the server
//! has to answer as it should, and live.
//!
//! `docs/security.md` lists all of them, with the tests elsewhere for those that no single request shows.

use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::{Connection, Kind, Server, Settings};

/// The longest wait for a reply that must not take long. Only a server that hangs gets near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fault: its number, the requests that prepare it, the request that shows it, and the beginning of the right reply.
struct Fault {
    number: &'static str,
    before: &'static [&'static str],
    request: String,
    reply: &'static str,
}

fn fault(
    number: &'static str,
    before: &'static [&'static str],
    request: impl Into<String>,
    reply: &'static str,
) -> Fault {
    Fault { number, before, request: request.into(), reply }
}

fn ask(connection: &mut Connection, line: &str) -> String {
    ask_words(connection, &line.split(' ').collect::<Vec<_>>())
}

fn ask_words<A: AsRef<[u8]>>(connection: &mut Connection, words: &[A]) -> String {
    connection.send(&request(words)).expect("the server lives");
    let reply = connection.reply_within(PATIENCE).expect("the server lives").expect("an answer in time");
    String::from_utf8_lossy(&reply).into_owned()
}

/// The group `g` of the stream `s` has a pending entry that is deleted.
const DELETED_ENTRY: &[&str] =
    &["XADD s 1-1 a b", "XADD s 2-1 a b", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XDEL s 1-1"];

/// Returns the faults of commands that read and write data.
fn faults_of_data() -> Vec<Fault> {
    vec![
        fault(
            "CVE-2022-31144",
            DELETED_ENTRY,
            "XAUTOCLAIM s g d 0 0 COUNT 1",
            "*3\r\n$3\r\n2-1\r\n*0\r\n*1\r\n$3\r\n1-1",
        ),
        fault(
            "CVE-2022-35951",
            DELETED_ENTRY,
            "XAUTOCLAIM s g d 0 0 COUNT 1152921504606846977",
            "-ERR COUNT must be > 0",
        ),
        fault("CVE-2022-35977", &[], "SETRANGE k 4611686018427387904 x", "-ERR string exceeds maximum allowed size"),
        fault("CVE-2022-35977", &["RPUSH l 1"], "SORT l LIMIT 9223372036854775807 9223372036854775807", "*0\r\n"),
        fault(
            "CVE-2022-36021",
            &["SET aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 1"],
            format!("KEYS {}b", "a*".repeat(60)),
            "*0\r\n",
        ),
        fault("CVE-2022-36021", &["SET a 1"], format!("SCAN 0 MATCH {}b", "a*".repeat(30_000)), "*2\r\n"),
        fault(
            "CVE-2023-22458",
            &["HSET h a 1 b 2"],
            "HRANDFIELD h -9223372036854775808 WITHVALUES",
            "-ERR value is out of range",
        ),
        fault(
            "CVE-2023-22458",
            &["ZADD z 1 a"],
            "ZRANDMEMBER z -4611686018427387905 WITHSCORES",
            "-ERR value is out of range",
        ),
        fault("CVE-2023-25155", &["SADD x a"], "SRANDMEMBER x -9223372036854775807", "-ERR value is out of range"),
        fault("CVE-2023-28425", &[], "MSETNX m a m b", ":1\r\n"),
        fault("CVE-2023-28856", &["HSET h f 1e308"], "HINCRBYFLOAT h f 1.7e308", "$309\r\n27"),
        fault(
            "CVE-2023-28856",
            &["HSET h f 1", "HINCRBYFLOAT h f 1.7e308"],
            "HGETALL h",
            "*2\r\n$1\r\nf\r\n$309\r\n17",
        ),
    ]
}

/// Returns the faults of commands about commands, users and patterns.
fn faults_of_rules() -> Vec<Fault> {
    const NO_ARGUMENTS: &str = "-ERR Invalid arguments specified for command";
    vec![
        fault("CVE-2023-36824", &[], "COMMAND GETKEYS EVAL s 9223372036854775807 k", NO_ARGUMENTS),
        fault("CVE-2023-36824", &[], "COMMAND GETKEYS ZUNIONSTORE d 4294967297 k", NO_ARGUMENTS),
        fault("CVE-2023-36824", &[], "COMMAND GETKEYSANDFLAGS LMPOP 9223372036854775807 k LEFT", NO_ARGUMENTS),
        fault("key extraction, 2026", &[], "COMMAND GETKEYS MIGRATE h 1 KEYS 0 1 KEYS", NO_ARGUMENTS),
        fault(
            "CVE-2023-41053",
            &["ACL SETUSER u on nopass ~l +@all"],
            "ACL DRYRUN u SORT_RO l BY w_* GET secret_*",
            "+OK\r\n",
        ),
        fault("CVE-2024-31227", &[], "ACL SETUSER u (+@all ~k", "-ERR Unmatched parenthesis in acl selector"),
        fault("CVE-2024-31227", &[], format!("ACL SETUSER u {}", "(".repeat(100_000)), "-ERR Unmatched parenthesis"),
        fault("CVE-2024-51741", &[], "ACL SETUSER u (%", "-ERR Unmatched parenthesis in acl selector"),
        fault("CVE-2024-51741", &[], "ACL SETUSER u %", "-ERR Error in ACL SETUSER modifier '%': Syntax error"),
        fault("CVE-2024-31228", &["SET aaa 1"], format!("KEYS {}", "*a".repeat(100_000)), "*0\r\n"),
        fault("CVE-2024-31228", &["SET aaa 1"], format!("KEYS {}?", "*".repeat(1_000_000)), "*1\r\n"),
        fault("CVE-2024-31228", &[], format!("FUNCTION LIST LIBRARYNAME {}", "*a".repeat(100_000)), "*0\r\n"),
        fault("CVE-2024-31228", &[], format!("COMMAND LIST FILTERBY PATTERN {}", "*a".repeat(100_000)), "*0\r\n"),
        fault(
            "CVE-2025-62507",
            DELETED_ENTRY,
            format!("XACKDEL s g IDS 1000{}", (0..1000).map(|id| format!(" {id}-1")).collect::<String>()),
            "*1000\r\n:-1\r\n:1\r\n:1\r\n:-1\r\n",
        ),
        fault(
            "GEORADIUS, 2026",
            &["ACL SETUSER u on nopass %R~src +@all"],
            "ACL DRYRUN u GEORADIUS src 0 0 1 m STORE dst",
            "$",
        ),
        fault(
            "GEORADIUS, 2026",
            &["ACL SETUSER u on nopass %R~src +@all"],
            "ACL DRYRUN u GEORADIUSBYMEMBER src m 1 m STOREDIST dst",
            "$",
        ),
        fault("SLOT-INFO, 2026", &[], "CLUSTER SYNCSLOTS CONF SLOT-INFO 1:2:3", "-ERR unknown subcommand 'SYNCSLOTS'"),
    ]
}

#[test]
fn requests_of_published_faults_are_answered() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    for Fault { number, before, request, reply } in faults_of_data().into_iter().chain(faults_of_rules()) {
        ask(&mut connection, "FLUSHALL");
        ask(&mut connection, "ACL DELUSER u");
        before.iter().for_each(|line| drop(ask(&mut connection, line)));
        let answer = ask(&mut connection, &request);
        let shown = &request[..request.len().min(100)];
        assert!(answer.starts_with(reply), "{number}: {shown}: {}", &answer[..answer.len().min(200)]);
    }
    assert_eq!(ask(&mut connection, "PING"), "+PONG\r\n");
}

/// CVE-2023-41053: the keys that a pattern of SORT or SORT_RO names are no keys that a rule of the user allows.
#[test]
fn sort_reads_no_key_that_only_a_pattern_names() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    for line in ["RPUSH l 1", "SET secret_1 hidden", "ACL SETUSER u on nopass ~l +@all", "AUTH u x"] {
        assert!(!ask(&mut connection, line).starts_with('-'), "{line}");
    }
    for command in ["SORT", "SORT_RO"] {
        for words in ["BY secret_*", "GET secret_*"] {
            let reply = ask(&mut connection, &format!("{command} l {words}"));
            assert!(
                reply.starts_with("-ERR ") && reply.contains("denied due to insufficient ACL permissions"),
                "{reply}"
            );
        }
    }
}

/// CVE-2025-32023: registers of a HyperLogLog that overlap or go on behind its end.
#[test]
fn no_hyperloglog_counts_beyond_its_registers() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    let header = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0";
    // The runs are those of the sparse form: zeros up to 64 and up to 16,384, and a value four times.
    let runs: [&[u8]; 5] = [b"\x7f\xff", b"\x3f", b"\x3f\xff", b"\x7f", b"\xff"];
    for run in runs {
        for times in [1, 2, 5, 20_000] {
            let value = [header.as_slice(), &run.repeat(times)].concat();
            assert_eq!(ask_words(&mut connection, &[b"SET".as_slice(), b"h", &value]), "+OK\r\n");
            for words in ["PFCOUNT h h", "PFADD h a", "PFMERGE d h", "PFDEBUG GETREG h", "PFCOUNT h"] {
                let reply = ask(&mut connection, words);
                assert!(!reply.starts_with("-") || reply.contains("HLL"), "{words}: {reply}");
            }
        }
    }
    assert_eq!(ask(&mut connection, "PING"), "+PONG\r\n");
}

/// CVE-2025-67733: a script with line ends in its error or status answers with one reply and no second one behind it.
#[test]
fn a_script_puts_no_second_reply_into_its_error() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    let bodies = [
        "return redis.error_reply('x\\r\\n+OK\\r\\n$-1\\r\\n')",
        "return redis.status_reply('x\\r\\n+OK\\r\\n')",
        "return {err='x\\r\\n+OK\\r\\n'}",
        "return {ok='x\\r\\n+OK\\r\\n'}",
        "error('x\\r\\n+OK\\r\\n')",
        "error({err='x\\r\\n+OK'})",
        "return redis.pcall('x\\r\\n+OK')",
        "redis.call('set', 'k', 'v', 'x\\r\\n+OK')",
    ];
    for protocol in ["2", "3"] {
        ask(&mut connection, &format!("HELLO {protocol}"));
        for body in bodies {
            let reply = ask_words(&mut connection, &["EVAL", body, "0"]);
            assert_eq!(reply.matches("\r\n").count(), 1, "{body}: {reply:?}");
            assert_eq!(ask(&mut connection, "PING"), "+PONG\r\n", "{body}");
        }
    }
}

/// CVE-2026-27623: the state that an empty request leaves behind decides nothing about the next one.
#[test]
fn an_empty_request_leaves_nothing_behind() {
    let server = Server::start(Kind::Sleeve);
    for requests in ["*0\r\nPING\r\n", "*-1\r\nPING\r\n", "\r\n\r\n*1\r\n$4\r\nPING\r\n", "*0\r\n\r\n*0\r\nPING\r\n"] {
        let mut connection = server.connect();
        connection.send(requests.as_bytes()).expect("sent");
        let reply = connection.reply_within(PATIENCE).expect("the server lives").expect("an answer in time");
        assert_eq!(reply, b"+PONG\r\n", "{requests:?}");
    }
}

/// CVE-2025-21605: a client that may do nothing yet and reads nothing has a bound.
#[test]
fn a_client_without_a_login_that_never_reads_is_closed() {
    let arguments = vec!["--requirepass".to_owned(), "secret".to_owned()];
    let settings = Settings { arguments, password: Some("secret".to_owned()) };
    let server = Server::try_start(Kind::Sleeve, settings).expect("it starts");
    let mut admin = server.connect();
    assert_eq!(ask(&mut admin, "AUTH secret"), "+OK\r\n");
    let before = server.resident_bytes();
    let mut lazy = server.connect();
    lazy.stream().set_write_timeout(Some(PATIENCE)).expect("a timeout");
    let requests = request(&["GET", "k"]).repeat(10_000);
    // The replies fill the buffers of the system, and then the server reads no more or closes the connection.
    lazy.stream().set_nonblocking(true).expect("a setting");
    let mut refused = 0;
    while refused < 100 {
        match lazy.send(&requests) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // The server is asked in between, so that it has had every chance to read.
                assert_eq!(ask(&mut admin, "PING"), "+PONG\r\n");
                refused += 1;
            }
            Err(_) => break,
        }
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "the server has grown by {grown} bytes");
}

/// CVE-2025-48367: connections that are broken before they are accepted keep no other client from being served.
#[test]
fn connections_that_break_at_once_starve_no_other() {
    use rustix::net::sockopt::set_socket_linger;
    let server = Server::start(Kind::Sleeve);
    for _ in 0..2_000 {
        let stream = std::net::TcpStream::connect(server.address()).expect("a connection");
        // Closing sends a reset, which the server finds in its queue of new connections.
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("a setting");
    }
    assert_eq!(ask(&mut server.connect(), "PING"), "+PONG\r\n");
}

/// CVE-2026-23479: a blocked client is closed for its memory at the moment at which its command could run.
#[test]
fn a_client_that_is_evicted_as_it_wakes_does_no_harm() {
    let server = Server::start_with(Kind::Sleeve, &["--workers", "2", "--maxmemory-clients", "4mb"]);
    let mut admin = server.connect();
    for round in 0..20 {
        let mut blocked = server.connect();
        ask(&mut blocked, "CLIENT SETNAME blocked");
        blocked.send(&request(&["BLMOVE", "from", "to", "LEFT", "LEFT", "0"])).expect("sent");
        while !ask(&mut admin, "CLIENT LIST").contains("name=blocked") {}
        // Half of a large request waits behind the blocked command.
        let size = 1_000_000 * (1 + round % 4);
        let half = [b"*2\r\n$4\r\nECHO\r\n$9000000\r\n".as_slice(), &vec![b'x'; size]].concat();
        // The server reads as much as it keeps for a blocked client, or closes the connection.
        blocked.stream().set_nonblocking(true).expect("a setting");
        let _ = blocked.send(&half);
        ask(&mut admin, "CONFIG SET maxmemory-clients 1mb");
        ask(&mut admin, "RPUSH from x");
        drop(blocked);
        ask(&mut admin, "CONFIG SET maxmemory-clients 4mb");
        assert!(ask(&mut admin, "DEL from to").starts_with(':'));
    }
    assert_eq!(ask(&mut admin, "PING"), "+PONG\r\n");
}

/// CVE-2026-23631: a full sync replaces the data of a writable replica while a script of one of its clients runs.
#[test]
fn a_full_sync_waits_for_the_script_that_it_meets() {
    let first = Server::start(Kind::Sleeve);
    let second = Server::start(Kind::Sleeve);
    ask(&mut second.connect(), "SET of second");
    let options = ["--replica-read-only", "no", "--busy-reply-threshold", "20", "--workers", "2"];
    let replica = Server::start_with(Kind::Sleeve, &options);
    let mut admin = replica.connect();
    let follow = |admin: &mut Connection, server: &Server| {
        assert_eq!(ask(admin, &format!("REPLICAOF {} {}", server.host(), server.port())), "+OK\r\n");
    };
    follow(&mut admin, &first);
    while !ask(&mut admin, "INFO replication").contains("master_link_status:up") {}
    let mut caller = replica.connect();
    let script = "local n = 0 while n < 5e5 do n = n + 1 redis.call('get', 'of') end return n";
    follow(&mut admin, &second);
    caller.send(&request(&["EVAL", script, "1", "of"])).expect("sent");
    let reply = caller.reply_within(PATIENCE).expect("the server lives").expect("an answer in time");
    assert_eq!(reply, b":500000\r\n");
    while !ask(&mut admin, "INFO replication").contains("master_link_status:up") {}
    assert_eq!(ask(&mut admin, "GET of"), "$6\r\nsecond\r\n");
    follow(&mut admin, &first);
    while !ask(&mut admin, "INFO replication").contains("master_link_status:up") {}
    assert_eq!(ask(&mut admin, "GET of"), "$-1\r\n");
}

/// CVE-2026-63639: a stream in which one pending entry belongs to two consumers is refused.
#[test]
fn a_pending_entry_of_two_consumers_is_not_restored() {
    let server = Server::start_with(Kind::Sleeve, &["--enable-debug-command", "yes"]);
    let mut connection = server.connect();
    let group = [
        "XADD s 1-1 a b",
        "XGROUP CREATE s g 0",
        "XREADGROUP GROUP g first STREAMS s >",
        "XGROUP CREATECONSUMER s g second",
        "DEBUG SET-SKIP-CHECKSUM-VALIDATION 1",
    ];
    for line in group {
        assert!(!ask(&mut connection, line).starts_with('-'), "{line}");
    }
    let reply = connection.command(&["DUMP", "s"]).expect("a reply");
    let start = reply.windows(2).position(|bytes| bytes == b"\r\n").expect("a length") + 2;
    let dump = &reply[start..reply.len() - 2];
    // The last byte before the version and the checksum is the number of the second consumer's pending entries.
    let (body, end) = dump.split_at(dump.len() - 10);
    let (none, body) = body.split_last().expect("bytes");
    assert_eq!(*none, 0);
    let id = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let shared = [body, &[1], &id, end].concat();
    let restored = ask_words(&mut connection, &[b"RESTORE".as_slice(), b"t", b"0", &shared]);
    assert_eq!(restored, "-ERR Bad data format\r\n");
    let unchanged = ask_words(&mut connection, &[b"RESTORE".as_slice(), b"t", b"0", dump]);
    assert_eq!(unchanged, "+OK\r\n");
}

/// CVE-2025-27151, for the server's side of the same fault: a path that is longer than any buffer is refused.
#[test]
fn a_path_of_any_length_is_refused_or_used() {
    let server = Server::start(Kind::Sleeve);
    let mut connection = server.connect();
    for length in [4_095, 4_096, 100_000] {
        let reply = ask(&mut connection, &format!("CONFIG SET dir {}", "x".repeat(length)));
        assert!(reply.starts_with("-ERR "), "{reply}");
    }
    assert_eq!(ask(&mut connection, "PING"), "+PONG\r\n");
}
