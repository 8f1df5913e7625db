//! Sleeve as a replica of Redis 7.0, Redis 8 and Valkey 9: its data, its replies, and a link that breaks.
//!
//! The primaries are the real servers. In each case primary and replica have the same data in the end, at the same offset.
//! This holds for all writes while the replica synchronizes, and however often its connection breaks. The replies of a
//! replica are compared with those of a replica that is a real server.

mod answers;
mod diskless;
mod embedded;
mod foreign;
mod inapplicable;
mod link;
mod writable;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_tests::generator::{Generator, Scope};
use sleeve_tests::random::seed;
use sleeve_tests::{Connection, Kind, Server, Settings, Stops};
use sleeve_wire::commands::{Command, Group};

use crate::persistence::replay::peer;
use sleeve_tests::probe::{ask, digest, fill, wait_until};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
/// The version up to which Redis 8 is asked (`Scope::newest`).
const REDIS_8: (u32, u32) = (8, 1);

/// Starts a primary that sends its data at once.
pub fn primary(kind: Kind) -> Server {
    let options = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "256mb"];
    Server::start_with(kind, &[&DEBUG[..], &options].concat())
}

/// Starts a Sleeve that can be a replica.
pub fn replica(arguments: &[&str]) -> Server {
    Server::start_with(Kind::Sleeve, &[&DEBUG, arguments].concat())
}

/// Returns a line of INFO replication, or of another section.
pub fn info(server: &Server, name: &str) -> String {
    let text = ask(&mut server.connect(), &["INFO", "everything"]);
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).map(str::to_owned);
    line.unwrap_or_else(|| panic!("{name} is not in {text}"))
}

/// Makes a server the replica of another.
pub fn follow(replica: &Server, primary: &Server) {
    let reply = ask(&mut replica.connect(), &["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    assert!(reply.starts_with("+OK"), "{reply}");
}

/// Waits until the replica has caught up with an idle primary, and returns their offset.
pub fn caught_up(replica: &Server, primary: &Server) -> u64 {
    let offset = |server| info(server, "master_repl_offset").parse::<u64>().expect("a number");
    let mut both = (0, 1);
    wait_until("the same offset", || {
        let before = offset(primary);
        both = (before, offset(replica));
        info(replica, "master_link_status") == "up" && both.0 == both.1 && before == offset(primary)
    });
    both.0
}

/// Waits until both hold the same data: a key that expires while it is read is removed on the primary first, and on the
/// replica a little later.
pub fn assert_same(replica: &Server, primary: &Server) {
    let foreign = [primary.kind(), replica.kind()].into_iter().find(|kind| *kind != Kind::Sleeve);
    let kind = foreign.unwrap_or(Kind::Sleeve);
    let contents = |server: &Server| {
        let mut connection = server.connect();
        let lines = peer::contents(kind, &mut |words| connection.command(words).expect("it answers"));
        lines.into_iter().map(|line| without_overflow(&line)).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        caught_up(replica, primary);
        let (ours, theirs) = (contents(replica), contents(primary));
        if ours == theirs {
            return;
        }
        let differing = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs);
        let (zeros, mut differing): (Vec<_>, Vec<_>) =
            differing.partition(|(ours, theirs)| differ_by_signs_of_zero(ours, theirs));
        if !zeros.is_empty() {
            differing.retain(|(ours, _)| !ours.starts_with("digest "));
        }
        let counts = (ours.len(), theirs.len());
        if differing.is_empty() && counts.0 == counts.1 {
            return;
        }
        assert!(Instant::now() < deadline, "{counts:?} {differing:#?}\n{}", replica.log());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a line of [`peer::contents`] with the counters of a stream that have overflowed at 2^63 - 1. They are negative in the
/// real servers and stay at that value in Sleeve (docs/differences.md).
fn without_overflow(line: &str) -> String {
    let mut is_count = false;
    let words = line.split(' ').map(|word| {
        let has_overflowed = is_count && word.starts_with('-');
        is_count = matches!(word, "entries-added" | "entries-read");
        if has_overflowed { "9223372036854775807" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns whether these lines of [`peer::contents`] describe a sorted set with scores that differ by the sign of a zero alone.
/// Only a large one keeps that sign, and one that has become small again stays large until a full sync, in all servers.
fn differ_by_signs_of_zero(ours: &str, theirs: &str) -> bool {
    let unsigned = |line: &str| {
        let words = line.split(' ').filter(|word| !word.starts_with(r"*1\r\n+"));
        words.map(|word| if word == "Some(-0.0)" { "Some(0.0)" } else { word }.to_owned()).collect::<Vec<_>>()
    };
    let are_signs = [ours, theirs].iter().any(|line| line.contains(" Some(-0.0) "));
    are_signs && ours.split(' ').nth(2) == Some("zset") && unsigned(ours) == unsigned(theirs)
}

/// Returns the commands of the random writers: all that a primary of this kind knows, except those that end its clients or
/// the test, and those that it does not propagate: consumers that are created without an entry, and a BITFIELD that lengthens
/// a string without changing it. The real servers' own replicas lack these, too.
pub fn scope(kind: Kind) -> Scope {
    // The compared servers do not know producers, and are refused the data of a server that does.
    let mut scope = Scope::default().without_producers();
    let untold = [Command::BitField, Command::XReadGroup, Command::XClaim, Command::XAutoClaim];
    scope.rows.retain(|row| !untold.contains(&row.id));
    scope.entries_read = kind != Kind::Redis8;
    if kind == Kind::Redis8 {
        // Entries that a trim deletes by the state of groups move max-deleted-entry-id here (docs/differences.md).
        scope.newest = REDIS_8;
    }
    if kind == Kind::Redis {
        scope.rows.retain(|row| row.group != Group::Hash || row.docs.since < "7.4");
    }
    scope
}

/// Returns whether a Redis 8.6 aborts when it executes this: HSETEX with a deadline and the same field twice, also in a
/// script (<https://github.com/redis/redis/pull/14956>).
fn ends_redis_8(words: &[Vec<u8>]) -> bool {
    let place = |name: &[u8]| words.iter().position(|word| word.eq_ignore_ascii_case(name));
    let (Some(_), Some(at)) = (place(b"hsetex"), place(b"fields")) else { return false };
    let mut fields: Vec<_> = words.iter().skip(at + 2).step_by(2).collect();
    let count = fields.len();
    fields.sort();
    fields.dedup();
    fields.len() < count
}

/// Sends random writes until it is stopped: all types, expiry, scripts, functions, transactions, messages.
pub fn write(server: &Server, (seed, scope): (u64, &Scope), stop: &AtomicBool) {
    let mut connection = server.connect();
    let mut generator = Generator::new(seed, scope.clone());
    let mut in_transaction = false;
    while !stop.load(Ordering::Relaxed) || in_transaction {
        if !in_transaction && generator.random().once_in(20) {
            let (number, milliseconds) = (generator.random().below(500), 1 + generator.random().below(5));
            ask(&mut connection, &["SET", &format!("k{}", number % 3), "soon", "PX", &milliseconds.to_string()]);
            ask(&mut connection, &["PUBLISH", "news", &number.to_string()]);
            ask(&mut connection, &["SET", &format!("filler:{number}"), &"x".repeat(number * 40)]);
        }
        let words = if in_transaction { generator.command_in_transaction() } else { generator.command() };
        if scope.newest == REDIS_8 && ends_redis_8(&words) {
            continue;
        }
        let reply = connection.command(&words).expect("it answers");
        in_transaction = reply == b"+QUEUED\r\n" || (in_transaction && !words[0].eq_ignore_ascii_case(b"exec"));
        in_transaction &= !words[0].eq_ignore_ascii_case(b"discard");
    }
}

/// Checks a replica that follows while random clients write: its link is cut, it continues by a partial sync, and holds the
/// same data in the end.
fn follows_under_load(kind: Kind, arguments: &[&str]) {
    let (primary, replica) = (primary(kind), replica(arguments));
    fill(&primary);
    let (stop, all, seed) = (AtomicBool::new(false), scope(kind), seed(3_000));
    // FLUSHALL ends the child that writes a dump, and with it the first synchronization of these primaries; it comes later.
    let mut early = all.clone();
    early.rows.retain(|row| row.id != Command::FlushAll);
    thread::scope(|threads| {
        let start = |writer, scope| {
            let (primary, stop) = (&primary, &stop);
            threads.spawn(move || write(primary, (seed + writer, scope), stop));
        };
        (0..2).for_each(|writer| start(writer, &early));
        let _stops = Stops(&stop);
        follow(&replica, &primary);
        let mut control = primary.connect();
        for round in 0..4 {
            wait_until("a link", || info(&replica, "master_link_status") == "up");
            if round == 0 {
                start(2, &all);
            }
            let before = info(&replica, "slave_repl_offset").parse::<u64>().expect("a number");
            wait_until("more of the stream", || {
                info(&replica, "slave_repl_offset").parse::<u64>().expect("a number") > before + 20_000
            });
            ask(&mut control, &["CLIENT", "KILL", "TYPE", "replica"]);
            assert_eq!(info(&primary, "sync_full"), "1", "round {round}\n{}", replica.log());
        }
    });
    assert_same(&replica, &primary);
    assert_eq!(info(&primary, "sync_full"), "1", "a cut costs no second synchronization\n{}", replica.log());
    assert_ne!(info(&primary, "sync_partial_ok"), "0");
    if arguments.contains(&"--appendonly") {
        its_log_gives_the_same(replica, &primary);
    }
}

/// Loads a replica's AOF into a server without a primary, and compares it with the primary's data.
fn its_log_gives_the_same(mut replica: Server, primary: &Server) {
    let offset = caught_up(&replica, primary);
    wait_until("the log's first base", || info(&replica, "aof_rewrite_in_progress") == "0");
    wait_until("the log", || info(&replica, "aof_written_offset").parse::<u64>().expect("a number") >= offset);
    let held = digest(&replica);
    replica.restart().expect("it loads its log");
    assert_eq!(info(&replica, "role"), "master", "what REPLICAOF has said is not in the configuration");
    assert_eq!(digest(&replica), held);
}

#[test]
fn a_replica_of_redis_7_has_the_primarys_data() {
    follows_under_load(Kind::Redis, &["--workers", "2"]);
}

#[test]
fn a_replica_of_redis_8_has_the_primarys_data() {
    follows_under_load(Kind::Redis8, &["--workers", "1"]);
}

#[test]
fn a_replica_of_valkey_9_and_its_aof_have_the_primarys_data() {
    follows_under_load(Kind::Valkey, &["--workers", "2", "--appendonly", "yes"]);
}

#[test]
fn a_log_that_is_begun_and_rewritten_amid_the_stream_selects_its_database() {
    let (primary, replica) = (primary(Kind::Redis), replica(&["--appendonly", "yes"]));
    let mut writer = primary.connect();
    ask(&mut writer, &["SELECT", "5"]);
    ask(&mut writer, &["SET", "a", "1"]);
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    for round in 0..3 {
        ask(&mut writer, &["INCR", "a"]);
        ask(&mut writer, &["PUBLISH", "news", "x"]);
        caught_up(&replica, &primary);
        if round < 2 {
            ask(&mut replica.connect(), &["BGREWRITEAOF"]);
            wait_until("the new base", || {
                info(&replica, "aof_rewrite_in_progress") == "0" && info(&replica, "aof_rewrite_scheduled") == "0"
            });
        }
    }
    its_log_gives_the_same(replica, &primary);
}

#[test]
fn a_replica_takes_another_primary_and_a_new_id_when_it_is_promoted() {
    let (first, second, replica) = (primary(Kind::Redis), primary(Kind::Valkey), replica(&[]));
    fill(&first);
    ask(&mut second.connect(), &["SET", "of the second", "1"]);
    follow(&replica, &first);
    assert_same(&replica, &first);
    follow(&replica, &second);
    assert_same(&replica, &second);
    let id = info(&replica, "master_replid");
    assert_eq!(id, info(&second, "master_replid"));
    let mut connection = replica.connect();
    assert_eq!(ask(&mut connection, &["REPLICAOF", "NO", "ONE"]), "+OK\r\n");
    assert_eq!((info(&replica, "role"), info(&replica, "master_replid2")), ("master".to_owned(), id.clone()));
    let offset = info(&replica, "master_repl_offset").parse::<u64>().expect("a number");
    assert_eq!(info(&replica, "second_repl_offset"), (offset + 1).to_string());
    assert_ne!(info(&replica, "master_replid"), id);
    assert_eq!(ask(&mut connection, &["SET", "mine", "1"]), "+OK\r\n");
}

#[test]
fn a_transaction_or_a_script_of_the_primary_is_seen_whole_or_not_at_all() {
    let (primary, replica) = (primary(Kind::Redis), replica(&["--workers", "2"]));
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            let (mut writer, mut number) = (primary.connect(), 0);
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let text = number.to_string();
                if number % 2 == 0 {
                    ask(&mut writer, &["EVAL", "for i=1,9 do redis.call('set','k'..i,ARGV[1]) end", "0", &text]);
                } else {
                    ask(&mut writer, &["MULTI"]);
                    (1..10).for_each(|key| _ = ask(&mut writer, &["SET", &format!("k{key}"), &text]));
                    ask(&mut writer, &["EXEC"]);
                }
            }
        });
        let _stops = Stops(&stop);
        let (mut reader, mut last) = (replica.connect(), 0);
        while last < 200 {
            let reply = ask(&mut reader, &["MGET", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"]);
            let values: Vec<&str> = reply.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
            let seen: u64 = values.first().and_then(|value| value.parse().ok()).unwrap_or(0);
            assert!(values[..values.len() - 1].iter().all(|value| *value == values[0]), "{reply}");
            assert!(seen >= last, "{seen} behind {last}");
            last = seen;
        }
    });
}

#[test]
fn a_replica_serves_subscribers_and_blocked_readers_from_the_stream() {
    let (primary, replica) = (primary(Kind::Redis), replica(&[]));
    follow(&replica, &primary);
    caught_up(&replica, &primary);
    let (mut listener, mut waiter, mut writer) = (replica.connect(), replica.connect(), primary.connect());
    ask(&mut listener, &["SUBSCRIBE", "news"]);
    waiter.send(b"XREAD BLOCK 0 STREAMS s $\r\n").expect("a connection");
    wait_until("a waiter", || info(&replica, "blocked_clients") == "1");
    ask(&mut writer, &["PUBLISH", "news", "hello"]);
    ask(&mut writer, &["XADD", "s", "1-1", "field", "value"]);
    let text =
        |connection: &mut Connection| String::from_utf8_lossy(&connection.reply().expect("a message")).into_owned();
    assert!(text(&mut listener).contains("hello"));
    assert!(text(&mut waiter).contains("1-1"));
}

#[test]
fn a_replica_expires_nothing_and_hides_keys_past_their_deadline() {
    let (primary, replica) = (primary(Kind::Redis), replica(&[]));
    follow(&replica, &primary);
    let mut writer = primary.connect();
    ask(&mut writer, &["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    ask(&mut writer, &["SET", "soon", "1", "PX", "1"]);
    ask(&mut writer, &["SET", "stays", "1"]);
    caught_up(&replica, &primary);
    let mut reader = replica.connect();
    wait_until("the deadline", || ask(&mut reader, &["GET", "soon"]) == "$-1\r\n");
    for (request, reply) in [
        (&["EXISTS", "soon"][..], ":0\r\n"),
        (&["PTTL", "soon"], ":-2\r\n"),
        (&["KEYS", "*"], "*1\r\n$5\r\nstays\r\n"),
        (&["DBSIZE"], ":2\r\n"),
    ] {
        assert_eq!(ask(&mut reader, request), reply, "{request:?}");
    }
    assert_eq!(info(&replica, "expired_keys"), "0");
    // The primary looks the key up, finds it expired, and propagates its removal.
    ask(&mut writer, &["GET", "soon"]);
    caught_up(&replica, &primary);
    assert_eq!(ask(&mut reader, &["DBSIZE"]), ":1\r\n");
}

#[test]
fn the_options_name_the_primary_and_the_login() {
    let arguments = [&DEBUG[..], &["--repl-diskless-sync-delay", "0", "--requirepass", "secret"]].concat();
    let settings = Settings {
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        password: Some("secret".to_owned()),
    };
    let primary = Server::try_start(Kind::Redis, settings).expect("a primary");
    let port = primary.port().to_string();
    let replica = replica(&["--slaveof", "127.0.0.1", &port, "--workers", "1"]);
    let mut connection = replica.connect();
    wait_until("a reason in the log", || replica.log().contains("NOAUTH"));
    assert_eq!(info(&replica, "role"), "slave");
    assert!(ask(&mut connection, &["CONFIG", "GET", "replicaof"]).contains(&format!("127.0.0.1 {port}")));
    assert_eq!(ask(&mut connection, &["SET", "a", "1"]), "-READONLY You can't write against a read only replica.\r\n");
    assert_eq!(ask(&mut connection, &["CONFIG", "SET", "masterauth", "secret"]), "+OK\r\n");
    caught_up(&replica, &primary);
    assert!(ask(&mut connection, &["ROLE"]).contains("connected"));
}

#[test]
fn a_replica_with_replicas_changes_its_role_without_a_full_sync() {
    for kind in [Kind::Redis, Kind::Sleeve] {
        let first = primary(kind);
        let (middle, last) = (replica(&["--repl-diskless-sync-delay", "0"]), primary(Kind::Redis));
        let mut writer = first.connect();
        ask(&mut writer, &["SELECT", "3"]);
        ask(&mut writer, &["SET", "a", "1"]);
        follow(&middle, &first);
        caught_up(&middle, &first);
        ask(&mut writer, &["INCR", "a"]);
        caught_up(&middle, &first);
        // The replica begins amid the stream of a database; the stream does not select that database again.
        follow(&last, &middle);
        caught_up(&last, &middle);
        ask(&mut writer, &["INCR", "a"]);
        assert_eq!(caught_up(&middle, &first), caught_up(&last, &middle));
        assert_eq!(digest(&last), digest(&first));
        // The server in the middle becomes the primary of both, at an offset beyond which the first primary has sent no PING.
        let offset = |server, name| info(server, name).parse::<u64>().expect("a number");
        let syncs = loop {
            caught_up(&middle, &first);
            caught_up(&last, &middle);
            let syncs = info(&middle, "sync_full");
            ask(&mut middle.connect(), &["REPLICAOF", "NO", "ONE"]);
            if offset(&first, "master_repl_offset") < offset(&middle, "second_repl_offset") {
                break syncs;
            }
            follow(&middle, &first);
        };
        follow(&first, &middle);
        let mut writer = middle.connect();
        ask(&mut writer, &["SELECT", "4"]);
        ask(&mut writer, &["SET", "b", "1"]);
        caught_up(&first, &middle);
        caught_up(&last, &middle);
        assert_eq!((digest(&first), digest(&last)), (digest(&middle), digest(&middle)), "{}", kind.name());
        assert_eq!(info(&middle, "sync_full"), syncs, "{}: nobody was given all data", kind.name());
    }
}
