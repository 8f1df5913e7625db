//! Tests of every row of the command table, while other shards are locked than those that the row might look at.
//!
//! Inside MULTI behind a command with one key, behind WATCH, and in a script that names one key, a row finds the locks that
//! were taken for all of it. If a row states a wrong reach, a thread panics, and the server is gone. The words come from the
//! row's grammar. If those would hold up or end the server under test, they come from a list here. The other servers give the
//! replies of the server with one worker.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use sleeve_tests::connection::request;
use sleeve_tests::generator::scripts::{LIBRARY, SCRIPTS};
use sleeve_tests::generator::{Generator, RANDOM, Scope, Words};
use sleeve_tests::random::seed;
use sleeve_tests::{Connection, Kind, Server, soak};
use sleeve_wire::commands::{Group, Row, all};

use super::PATIENCE;

/// The number of times that each row is tried in each place, with other words.
const TRIES: usize = 2;

/// The text of the PING behind each case: its reply shows that the server has answered all requests before it.
const MARK: &str = "the-end-of-it";

/// The words of requests for rows that a generator cannot make.
const GIVEN: &[(&str, &[&str])] = &[
    ("client|kill", &["id 999999", "type pubsub"]),
    ("client|pause", &["0", "0 write"]),
    ("client|reply", &["on"]),
    ("client|unblock", &["999999"]),
    ("config|get", &["max*", "*"]),
    ("config|set", &["maxmemory 1gb", "maxmemory 0 hz 10"]),
    (
        "debug",
        &[
            "digest",
            "digest-value k1 l1",
            "object k1",
            "populate 9 made",
            "sleep 0",
            "protocol map",
            "set-active-expire 1",
            "quicklist-packed-threshold 0",
            "help",
        ],
    ),
    ("info", &["", "everything", "memory keyspace"]),
    ("memory|usage", &["k1", "z1 samples 0"]),
    ("migrate", &["127.0.0.1 1 k1 0 50"]),
    ("scan", &["0", "0 match k* count 1"]),
    ("keys", &["*", "k1", "z1"]),
    ("shutdown", &["abort"]),
];

/// The commands that the test leaves out: PFSELFTEST works for seconds, without looking at any key.
const LEFT_OUT: &[&str] = &["pfselftest"];

/// Commands with a reply that depends on more than the data.
const UNCOMPARED: &[&str] = &["debug", "migrate", "xinfo|consumers", "object|freq", "object|idletime", "lolwut"];

/// A command in its place, ready to be sent.
struct Case {
    row: &'static Row,
    name: String,
    bytes: Vec<u8>,
}

/// Returns requests that make a value of each type, in several shards, and the functions and scripts that a row for scripts
/// may ask for.
fn prelude(row: &Row) -> Vec<u8> {
    let lines = [
        "FLUSHALL",
        "MSET k0 1 k1 22 k2 abc k3 4",
        "RPUSH l1 a b c d",
        "RPUSH l2 1 2 3",
        "SADD s1 a b c",
        "SADD s2 1 2 3",
        "HSET h1 f 1 g 2",
        "HSET h2 a b",
        "ZADD z1 1 a 2 b 3 c",
        "ZADD z2 1 x",
        "XADD x1 1-1 f v",
        "XGROUP CREATE x1 g1 0",
        "GEOADD g1 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
        "PFADD p1 a b c",
        "EXPIRE k3 100000",
    ];
    let mut bytes: Vec<u8> = lines.iter().flat_map(|line| request(&words(line))).collect();
    if row.group == Group::Scripting {
        bytes.extend(request(&["FUNCTION", "LOAD", "REPLACE", LIBRARY]));
        SCRIPTS.iter().for_each(|script| bytes.extend(request(&["SCRIPT", "LOAD", script.text])));
    }
    bytes
}

fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// Returns the commands with which a row is tried.
fn commands(row: &'static Row, seed: u64) -> Vec<Words> {
    if let Some((_, given)) = GIVEN.iter().find(|(name, _)| *name == row.full_name) {
        let named = |line: &&str| {
            let name = row.full_name.split('|').map(str::to_owned);
            name.chain(words(line).into_iter().map(str::to_owned)).map(String::into_bytes).collect()
        };
        return given.iter().map(named).collect();
    }
    let mut generator = Generator::new(seed, Scope { rows: vec![row], clock: false, ..Scope::default() });
    (0..soak::count(TRIES)).map(|_| generator.command()).collect()
}

/// Returns the places in which a command is tried.
fn places(command: &Words) -> [(&'static str, Vec<u8>); 3] {
    let line = |line: &str| request(&words(line));
    let script: Vec<&[u8]> = [b"EVAL".as_slice(), b"return redis.pcall(unpack(ARGV))", b"1", b"k1"].to_vec();
    let script: Vec<&[u8]> = script.into_iter().chain(command.iter().map(Vec::as_slice)).collect();
    [
        ("behind a write", [line("MULTI"), line("SET k1 1"), request(command), line("EXEC")].concat()),
        ("behind WATCH", [line("WATCH k1"), line("MULTI"), request(command), line("EXEC")].concat()),
        ("in a script", request(&script)),
    ]
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in all().iter().filter(|row| !row.is_container() && !LEFT_OUT.contains(&row.full_name)) {
        let prelude = prelude(row);
        for command in commands(row, seed(5) ^ u64::from(row.id as u16)) {
            let shown: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word)).collect();
            for (place, bytes) in places(&command) {
                let bytes = [prelude.clone(), bytes, request(&["PING", MARK])].concat();
                cases.push(Case { row, name: format!("{} {place}", shown.join(" ")), bytes });
            }
        }
    }
    cases
}

/// Sends bytes on a connection of their own and reads until the mark comes back, or the end.
fn exchange(server: &Server, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let (mut replies, mut chunk) = (Vec::new(), [0; 16 << 10]);
    while !replies.ends_with(format!("{MARK}\r\n").as_bytes()) {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => replies.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(replies)
}

/// Returns whether two servers with the same data give the same reply to a command.
fn is_compared(row: &Row) -> bool {
    let is_about_data = !matches!(row.group, Group::Server | Group::Connection | Group::PubSub | Group::Cluster);
    let is_vague = row.tips.iter().any(|tip| tip.starts_with("nondeterministic_output"));
    is_about_data && !is_vague && !RANDOM.contains(&row.full_name) && !UNCOMPARED.contains(&row.full_name)
}

/// Returns the replies of a server with so many workers to each case. Afterwards it checks that all its workers answer.
fn run(workers: &str, cases: &[Case]) -> Vec<Vec<u8>> {
    let server = Server::start_with(Kind::Sleeve, &["--workers", workers, "--enable-debug-command", "yes"]);
    let mut everywhere: Vec<Connection> = (0..8).map(|_| server.connect()).collect();
    let answer = |case: &Case| {
        let replies = exchange(&server, &case.bytes);
        replies.unwrap_or_else(|error| panic!("{} with {workers} workers: {error}\n{}", case.name, server.log()))
    };
    let answers = cases.iter().map(answer).collect();
    for connection in &mut everywhere {
        let reply = connection.reply_within(Duration::from_millis(1));
        assert!(matches!(reply, Ok(None)), "{workers} workers: a connection that asked nothing got {reply:?}");
        assert_eq!(super::ask(connection, &["PING"]), "+PONG\r\n", "{}", server.log());
    }
    answers
}

#[test]
fn every_row_runs_where_other_shards_are_locked() {
    let cases = cases();
    let [one, two, four] = thread::scope(|scope| {
        let runs = ["1", "2", "4"].map(|workers| {
            let cases = &cases;
            scope.spawn(move || run(workers, cases))
        });
        runs.map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    for (index, case) in cases.iter().enumerate().filter(|(_, case)| is_compared(case.row)) {
        let [one, two, four] = [&one, &two, &four].map(|answers| String::from_utf8_lossy(&answers[index]));
        assert_eq!(one, two, "{} with two workers", case.name);
        assert_eq!(one, four, "{} with four workers", case.name);
    }
}
