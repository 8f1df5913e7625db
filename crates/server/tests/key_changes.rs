//! Tests of all ways to change or remove a key. Each notifies the clients that watch the key, wait for it or cache it. Each
//! also causes keyspace notifications, and changes the statistics and the journal.

use std::sync::Arc;

use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local, Opt};

use crate::effects;

/// One way to change or remove the key `k`, and its effects.
struct Case {
    name: &'static str,
    /// The requests that are sent first; if there are none, `k` is a stream with a group.
    before: &'static [&'static str],
    /// The requests that are sent a second later.
    cause: &'static [&'static str],
    /// A client that waits for entries of the stream gets a reply.
    wakes: bool,
    /// The published events, without those of other keys.
    events: &'static [&'static str],
    /// The numbers of expired keys, of evicted keys and of changes.
    statistics: (u64, u64, u64),
    /// The names of the commands in the journal, and their arguments.
    journal: &'static [&'static str],
}

const STREAM: &[&str] = &["XGROUP CREATE k g $ MKSTREAM"];
const MORTAL: &[&str] = &["XGROUP CREATE k g $ MKSTREAM", "PEXPIRE k 500"];
const FIELDS: &[&str] = &["HSET k f 1", "HPEXPIRE k 500 FIELDS 1 f"];
const NEVER_BY_ITSELF: &str = "DEBUG SET-ACTIVE-EXPIRE 0";

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "a command", before: STREAM, cause: &["DEL k"], wakes: true,
        events: &["del"], statistics: (0, 0, 1), journal: &["DEL k"] },
    Case { name: "lazy expiry", before: MORTAL, cause: &[NEVER_BY_ITSELF, "EXISTS k"], wakes: true,
        events: &["expired"], statistics: (1, 0, 0), journal: &["DEL k"] },
    Case { name: "active expiry", before: MORTAL, cause: &["PING"], wakes: true,
        events: &["expired"], statistics: (1, 0, 0), journal: &["DEL k"] },
    Case { name: "a value over one whose time has come", before: MORTAL, cause: &[NEVER_BY_ITSELF, "SET k 1"],
        wakes: true, events: &["expired", "set"], statistics: (1, 0, 1), journal: &["DEL k", "SET k 1"] },
    Case { name: "a stored result over one whose time has come", before: &[MORTAL[0], MORTAL[1], "SADD other 1"],
        cause: &[NEVER_BY_ITSELF, "SUNIONSTORE k other"], wakes: true,
        events: &["expired", "sunionstore"], statistics: (1, 0, 1), journal: &["DEL k", "SUNIONSTORE k other"] },
    Case { name: "lazy expiry of fields", before: FIELDS, cause: &[NEVER_BY_ITSELF, "HLEN k"], wakes: false,
        events: &["hexpired", "del"], statistics: (0, 0, 0), journal: &["HDEL k f"] },
    Case { name: "active expiry of fields", before: FIELDS, cause: &["PING"], wakes: false,
        events: &["hexpired", "del"], statistics: (0, 0, 0), journal: &["HDEL k f"] },
    Case { name: "eviction", before: STREAM, cause: &["CONFIG SET maxmemory 1", "PING", "CONFIG SET maxmemory 0"],
        wakes: true, events: &["evicted"], statistics: (0, 1, 0), journal: &["DEL k"] },
    Case { name: "FLUSHALL", before: STREAM, cause: &["FLUSHALL"], wakes: true,
        events: &[], statistics: (0, 0, 1), journal: &["FLUSHALL"] },
    Case { name: "RENAME away", before: STREAM, cause: &["RENAME k other"], wakes: true,
        events: &["rename_from"], statistics: (0, 0, 1), journal: &["RENAME k other"] },
    Case { name: "RENAME over it", before: &[STREAM[0], "SET other 1"], cause: &["RENAME other k"], wakes: true,
        events: &["rename_to"], statistics: (0, 0, 1), journal: &["RENAME other k"] },
    Case { name: "RESTORE", before: STREAM, cause: &["RESTORE k 0 DUMPED REPLACE"], wakes: true,
        events: &["restore"], statistics: (0, 0, 1), journal: &["RESTORE k 0 DUMPED REPLACE"] },
    Case { name: "EXEC", before: STREAM, cause: &["MULTI", "DEL k", "EXEC"], wakes: true,
        events: &["del"], statistics: (0, 0, 1), journal: &["DEL k"] },
    Case { name: "a script", before: STREAM, cause: &["EVAL \"return redis.call('DEL', KEYS[1])\" 1 k"], wakes: true,
        events: &["del"], statistics: (0, 0, 1), journal: &["DEL k"] },
];

fn ask(local: &mut Local, now: Instant, request: &[u8]) -> Vec<u8> {
    let mut replies = Vec::new();
    local.exchange_at(now, &[request, b"\r\n"].concat(), &mut replies).expect("the session lives");
    replies
}

fn ask_text(local: &mut Local, now: Instant, request: &str) -> String {
    String::from_utf8_lossy(&ask(local, now, request.as_bytes())).into_owned()
}

/// Returns a request in which the word DUMPED is replaced by a value as DUMP returns it, quoted for an inline line.
fn with_dump(request: &str, dump: &[u8]) -> Vec<u8> {
    let quoted: String = dump.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    request.replace("DUMPED", &format!("\"{quoted}\"")).into_bytes()
}

fn statistics(local: &mut Local, now: Instant) -> (u64, u64, u64) {
    let info = ask_text(local, now, "INFO everything");
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("INFO has {name}"))
    };
    (of("expired_keys"), of("evicted_keys"), of("rdb_changes_since_last_save"))
}

/// Returns the requests in a part of the journal, one line each, with the word DUMPED for `dump`.
fn journal_lines(journal: &[u8], dump: &[u8]) -> Vec<String> {
    let show = |word: &[u8]| if word == dump { "DUMPED".into() } else { String::from_utf8_lossy(word).into_owned() };
    let mut lines = effects::lines_by(journal, show);
    lines.retain(|line| !line.starts_with("SELECT") && line != "MULTI" && line != "EXEC");
    lines
}

fn check(case: &Case) {
    let config = Config::default();
    for (option, value) in [
        (Opt::EnableDebugCommand, "yes"),
        (Opt::NotifyKeyspaceEvents, "KA"),
        (Opt::MaxmemoryPolicy, "allkeys-random"),
        (Opt::MaxmemoryEvictionTenacity, "100"),
    ] {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    let engine: Arc<Engine> = Engine::new(config);
    let [mut changer, mut watcher, mut tracker, mut waiter, mut listener] =
        [(); 5].map(|()| Local::open(&engine, || ()));
    let start = Instant::now();
    ask(&mut changer, start, b"SET source 1");
    let dumped = ask(&mut changer, start, b"DUMP source");
    let dump = &dumped[dumped.iter().position(|byte| *byte == b'\n').expect("a length") + 1..dumped.len() - 2];
    ask(&mut changer, start, b"DEL source");
    for line in case.before {
        let reply = ask_text(&mut changer, start, line);
        assert!(!reply.starts_with('-'), "{}: {line} answers {reply}", case.name);
    }
    ask(&mut watcher, start, b"WATCH k");
    ask(&mut tracker, start, b"HELLO 3\r\nCLIENT TRACKING ON\r\nTYPE k");
    ask(&mut waiter, start, b"XREADGROUP GROUP g c BLOCK 0 STREAMS k >");
    ask(&mut listener, start, b"PSUBSCRIBE __keyspace@0__:k");
    let before = statistics(&mut Local::open(&engine, || ()), start);
    let mut reader = engine.journal.subscribe();

    let now = Instant { wall_us: start.wall_us + 1_000_000, monotonic_us: start.monotonic_us + 1_000_000 };
    for line in case.cause {
        // The request that turns active expiry off runs before the deadline, so that it does not remove the key itself.
        let at = if *line == NEVER_BY_ITSELF { start } else { now };
        let reply = ask(&mut changer, at, &with_dump(line, dump));
        assert_ne!(reply[0], b'-', "{}: {line} answers {}", case.name, String::from_utf8_lossy(&reply));
    }

    let mut journal = Vec::new();
    reader.read(&mut journal);
    assert_eq!(journal_lines(&journal, dump), case.journal, "{}: the journal", case.name);
    let after = statistics(&mut Local::open(&engine, || ()), start);
    let counted = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    assert_eq!(counted, case.statistics, "{}: expired, evicted and changed", case.name);
    let exec = ask_text(&mut watcher, start, "MULTI\r\nPING\r\nEXEC");
    assert!(exec.ends_with("*-1\r\n"), "{}: the watcher got {exec}", case.name);
    let heard = ask_text(&mut tracker, start, "PING");
    let [key, all] = ["invalidate\r\n*1\r\n$1\r\nk\r\n", "invalidate\r\n_\r\n"].map(|text| heard.contains(text));
    assert!(key || all && case.name == "FLUSHALL", "{}: the tracker got {heard}", case.name);
    let woken = ask_text(&mut waiter, start, "");
    assert_eq!(woken.starts_with('-'), case.wakes, "{}: the waiter got {woken}", case.name);
    let heard = ask_text(&mut listener, start, "PING");
    let events: Vec<&str> =
        heard.split("__keyspace@0__:k\r\n").skip(2).filter_map(|rest| rest.lines().nth(1)).collect();
    assert_eq!(events, case.events, "{}: the listener got {heard}", case.name);
}

#[test]
fn whatever_changes_a_key_everybody_hears_of_it() {
    CASES.iter().for_each(check);
}
