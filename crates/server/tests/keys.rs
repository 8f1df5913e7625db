//! Tests of the commands on keys, deadlines, iteration and whole databases that golden transcripts cannot contain.
//!
//! The requests go to an embedded engine. The tests depend on other sessions (WATCH, threads), on many keys (the guarantee of
//! SCAN), on the contents of the journal, and on keys that are past their deadline but have not been removed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use sleeve_server::{Config, Engine, Local, Opt};

use crate::effects;

fn engine() -> Arc<Engine> {
    let config = Config::default();
    config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("yes is one of the choices");
    Engine::new(config)
}

/// A session that sends requests given as words with spaces between them.
struct Session(Local);

impl Session {
    fn new(engine: &Arc<Engine>) -> Self {
        Self(Local::open(engine, || {}))
    }

    fn ask(&mut self, words: &str) -> String {
        let words: Vec<&str> = words.split(' ').collect();
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        let mut reply = Vec::new();
        self.0.exchange(request.as_bytes(), &mut reply).expect("nothing here ends a session");
        String::from_utf8(reply).expect("all values here are text")
    }

    /// Sends each line, and compares the reply with the text behind the arrow. Line ends in replies become spaces.
    fn play(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (request, expected) = line.split_once(" -> ").expect("a line is a request, an arrow and a reply");
            let reply = self.ask(request);
            assert_eq!(reply.trim_end().replace("\r\n", " "), expected, "{request}");
        }
    }

    /// Scans a whole database in steps of `count`. Returns each name as often as SCAN returned it.
    fn scan_all(&mut self, count: usize, in_transaction: bool, mut between: impl FnMut(&mut Self)) -> Vec<String> {
        let (mut cursor, mut names) = ("0".to_owned(), Vec::new());
        loop {
            let request = format!("SCAN {cursor} COUNT {count}");
            let reply = if in_transaction {
                self.ask("MULTI");
                self.ask(&request);
                self.ask("EXEC")
            } else {
                self.ask(&request)
            };
            let mut values = reply.split("\r\n").filter(|line| !line.is_empty() && !line.starts_with(['*', '$']));
            cursor = values.next().expect("a step answers a cursor").to_owned();
            names.extend(values.map(str::to_owned));
            if cursor == "0" {
                return names;
            }
            between(self);
        }
    }
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_millis() as i64
}

/// Waits until a deadline one millisecond from now has passed.
fn until_due() {
    let set = now_ms();
    while now_ms() < set + 3 {
        std::thread::yield_now();
    }
}

#[test]
fn a_scan_shows_each_key_that_stays_exactly_once_while_others_come_and_go() {
    for in_transaction in [false, true] {
        let engine = engine();
        let mut session = Session::new(&engine);
        (0..2_000).for_each(|n| assert_eq!(session.ask(&format!("SET stays:{n} 1")), "+OK\r\n"));
        let mut guests = 0;
        let names = session.scan_all(7, in_transaction, |session| {
            session.ask(&format!("SET guest:{guests} 1"));
            session.ask(&format!("DEL guest:{}", guests / 2));
            guests += 1;
        });
        let stays: Vec<&String> = names.iter().filter(|name| name.starts_with("stays:")).collect();
        assert_eq!(stays.len(), 2_000);
        assert_eq!(stays.iter().collect::<HashSet<_>>().len(), 2_000);
    }
}

#[test]
fn what_is_about_all_keys_works_inside_a_transaction_too() {
    let mut session = Session::new(&engine());
    session.play(
        "MULTI -> +OK
         SET a 1 -> +QUEUED
         DBSIZE -> +QUEUED
         KEYS * -> +QUEUED
         KEYS a -> +QUEUED
         RANDOMKEY -> +QUEUED
         SCAN 0 COUNT 100 -> +QUEUED
         FLUSHALL ASYNC -> +QUEUED
         RANDOMKEY -> +QUEUED
         SWAPDB 0 1 -> +QUEUED
         DBSIZE -> +QUEUED
         EXEC -> *10 +OK :1 *1 $1 a *1 $1 a $1 a *2 $1 0 *1 $1 a +OK $-1 +OK :0",
    );
}

#[test]
fn a_key_whose_time_has_come_is_shown_by_nothing() {
    for inside in [false, true] {
        let engine = engine();
        let mut session = Session::new(&engine);
        session.ask("DEBUG SET-ACTIVE-EXPIRE 0");
        session.play("MSET lives 1 other 2 -> +OK");
        for n in 0..50 {
            session.ask(&format!("SET due:{n} 1 PX 1"));
        }
        until_due();
        session.play("DBSIZE -> :52");
        let mut journal = engine.journal.subscribe();
        if inside {
            session.play(
                "MULTI -> +OK
                 KEYS due:1 -> +QUEUED
                 KEYS due:* -> +QUEUED
                 SCAN 0 COUNT 1000 MATCH due:1* -> +QUEUED
                 DBSIZE -> +QUEUED
                 EXEC -> *4 *0 *0 *2 $1 0 *0 :41",
            );
        } else {
            session.play(
                "KEYS due:1 -> *0
                 KEYS due:* -> *0
                 SCAN 0 COUNT 1000 MATCH due:1* -> *2 $1 0 *0
                 DBSIZE -> :41
                 DEL other -> :1",
            );
        }
        let mut bytes = Vec::new();
        journal.read(&mut bytes);
        let removed = effects::lines(&bytes).iter().filter(|effect| effect.starts_with("DEL due:1")).count();
        assert_eq!(removed, 11, "what a scan finds to be due is removed and recorded");
        if !inside {
            session.play("RANDOMKEY -> $5 lives");
        }
    }
}

#[test]
fn a_flush_or_a_swap_concerns_who_watches_a_key_that_is_there() {
    // The steps of each case: the preparation, the watched key, the other session's request, and whether EXEC runs the
    // transaction.
    let cases = [
        ("SET a 1", "a", "FLUSHDB", false),
        ("SET a 1", "a", "FLUSHALL", false),
        ("SET a 1", "missing", "FLUSHALL", true),
        ("SET a 1", "a", "SWAPDB 1 2", true),
        ("SET a 1", "a", "SWAPDB 0 1", false),
        ("SET a 1", "a", "SWAPDB 1 0", false),
        ("SET a 1", "a", "SWAPDB 0 0", true),
        ("SET a 1", "missing", "SWAPDB 0 1", true),
        ("MOVE a 1", "a", "SWAPDB 0 1", false),
        ("MOVE a 1", "a", "SWAPDB 0 2", true),
        ("MOVE a 1", "a", "FLUSHDB", true),
        ("MOVE a 1", "a", "FLUSHALL", true),
        ("SET a 1", "a", "EXPIRE a 100", false),
        ("SET a 1", "a", "EXPIRE a -1", false),
        ("SET a 1", "a", "EXPIRE a 100 XX", true),
        ("SET a 1", "a", "PERSIST a", true),
        ("SET a 1", "a", "TOUCH a", true),
        ("SET a 1", "a", "RENAME a b", false),
        ("SET a 1", "b", "RENAME a b", false),
        ("SET a 1", "a", "RENAME a a", true),
        ("SET a 1", "b", "COPY a b", false),
        ("SET a 1", "a", "COPY a b", true),
        ("SET a 1", "a", "MOVE a 1", false),
        ("SET a 1", "a", "UNLINK a", false),
    ];
    for (prepare, watched, act, runs) in cases {
        let engine = engine();
        let (mut watcher, mut actor) = (Session::new(&engine), Session::new(&engine));
        actor.ask("SET a 0");
        actor.ask(prepare);
        watcher.ask(&format!("WATCH {watched}"));
        actor.ask(act);
        watcher.ask("MULTI");
        watcher.ask("PING");
        let expected = if runs { "*1\r\n+PONG\r\n" } else { "*-1\r\n" };
        assert_eq!(watcher.ask("EXEC"), expected, "{prepare}; WATCH {watched}; {act}");
    }
}

#[test]
fn the_end_of_a_key_that_was_due_before_watch_is_no_change() {
    for (act, runs) in [("FLUSHALL", true), ("GET a", true), ("DEL a", true), ("SWAPDB 0 1", true), ("SET a 1", false)]
    {
        let engine = engine();
        let (mut watcher, mut actor) = (Session::new(&engine), Session::new(&engine));
        actor.ask("DEBUG SET-ACTIVE-EXPIRE 0");
        actor.ask("SET a 1 PX 1");
        until_due();
        watcher.ask("WATCH a");
        actor.ask(act);
        watcher.ask("MULTI");
        watcher.ask("PING");
        let expected = if runs { "*1\r\n+PONG\r\n" } else { "*-1\r\n" };
        assert_eq!(watcher.ask("EXEC"), expected, "{act}");
    }
}

#[test]
fn the_journal_is_told_what_happened_and_nothing_else() {
    let engine = engine();
    let mut session = Session::new(&engine);
    let mut journal = engine.journal.subscribe();
    let mut effect_of = |session: &mut Session, request: &str| {
        session.ask(request);
        let mut bytes = Vec::new();
        journal.read(&mut bytes);
        effects::lines(&bytes).into_iter().filter(|effect| !effect.starts_with("SELECT")).collect::<Vec<_>>().join("; ")
    };
    for request in
        ["DEL none", "EXPIRE none 10", "PERSIST none", "MOVE none 1", "COPY none a", "TOUCH none", "RENAME none a"]
    {
        assert_eq!(effect_of(&mut session, request), "", "{request}");
    }
    let as_it_came = [
        "MSET a 1 b 2 c 3 d 4",
        "PEXPIREAT a 9000000000000",
        "PERSIST a",
        "COPY a e DB 1 REPLACE",
        "RENAME a f",
        "RENAMENX f g",
        "MOVE g 1",
        "DEL b none",
        "UNLINK c",
        "SWAPDB 0 1",
        "FLUSHDB",
        "FLUSHALL SYNC",
        "FLUSHALL ASYNC",
    ];
    for request in as_it_came {
        assert_eq!(effect_of(&mut session, request), request);
    }
    assert_eq!(effect_of(&mut session, "MSET a 1 b 2"), "MSET a 1 b 2");
    assert_eq!(effect_of(&mut session, "EXPIREAT a 9000000000 NX"), "PEXPIREAT a 9000000000000");
    assert_eq!(effect_of(&mut session, "EXPIREAT a 8000000000 GT"), "");
    let before_ms = now_ms();
    let effect = effect_of(&mut session, "EXPIRE b 100");
    let deadline_ms: i64 = effect.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a time");
    assert!(effect.starts_with("PEXPIREAT b ") && (before_ms..=now_ms()).contains(&(deadline_ms - 100_000)));
    assert_eq!(effect_of(&mut session, "PEXPIRE b -1"), "DEL b");
    assert_eq!(effect_of(&mut session, "EXPIREAT a 1"), "DEL a");
}

#[test]
fn values_of_every_size_travel_with_their_deadlines() {
    let mut session = Session::new(&engine());
    for size in [0, 1, 44, 45, 300, 5_000, 3_000_000] {
        let value = "v".repeat(size);
        session.ask(&format!("SET from {value} PXAT 9000000000000"));
        session.play(
            "RENAME from to -> +OK
             EXISTS from to -> :1
             PEXPIRETIME to -> :9000000000000
             COPY to twin DB 2 -> :1
             COPY to twin DB 2 -> :0
             MOVE to 1 -> :1
             MOVE to 1 -> :0
             SELECT 1 -> +OK
             PEXPIRETIME to -> :9000000000000",
        );
        let bulk = format!("${size}\r\n{value}\r\n");
        assert_eq!(session.ask("GET to"), bulk);
        session.play("UNLINK to -> :1\nSELECT 2 -> +OK");
        assert_eq!(session.ask("GET twin"), bulk);
        session.play("PEXPIRETIME twin -> :9000000000000\nUNLINK twin -> :1\nSELECT 0 -> +OK\nDBSIZE -> :0");
    }
}

#[test]
fn many_threads_walk_move_and_flush_without_a_deadlock() {
    let engine = engine();
    let roles: [&[&str]; 4] = [
        &[
            "SET k:1 1",
            "RENAME k:1 k:2",
            "MOVE k:2 1",
            "COPY k:3 k:4 DB 2 REPLACE",
            "SET k:3 1 PX 1",
            "WATCH k:1",
            "UNWATCH",
        ],
        &["SCAN 0 COUNT 1000", "RANDOMKEY", "KEYS *", "DBSIZE", "KEYS k:1"],
        &["FLUSHDB ASYNC", "SWAPDB 0 1", "SWAPDB 1 0", "FLUSHALL", "MSET k:1 1 k:3 1 k:5 1 k:6 1"],
        &["WATCH k:1 k:2", "MULTI", "SCAN 0", "RANDOMKEY", "DEL k:3 k:4", "FLUSHALL", "EXEC"],
    ];
    std::thread::scope(|scope| {
        for role in roles {
            let engine = &engine;
            scope.spawn(move || {
                let mut session = Session::new(engine);
                for _ in 0..1_500 {
                    for request in role {
                        let reply = session.ask(request);
                        assert!(!reply.starts_with('-') || reply.contains("no such key"), "{request}: {reply}");
                    }
                }
            });
        }
    });
    Session::new(&engine).play("FLUSHALL -> +OK\nDBSIZE -> :0");
}
