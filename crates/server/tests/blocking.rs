//! Tests of blocking on keys: the client that is served, the order of service, and the ways in which the wait ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sleeve_server::host::clock::Instant;
use sleeve_server::{Closed, Config, Engine, Local, Opt};

fn engine(workers: &str) -> Arc<Engine> {
    let config = Config::default();
    config.assign(Opt::Workers, &[workers.as_bytes()]).expect("a number of workers");
    Engine::new(config)
}

/// Returns the replies to these lines, without those of blocked requests.
fn ask(local: &mut Local, text: &str) -> String {
    ask_at(local, Instant::now(), text)
}

fn ask_at(local: &mut Local, now: Instant, text: &str) -> String {
    let mut replies = Vec::new();
    let request = if text.is_empty() { String::new() } else { format!("{text}\r\n") };
    local.exchange_at(now, request.as_bytes(), &mut replies).expect("the session lives");
    String::from_utf8_lossy(&replies).into_owned()
}

/// Returns the replies to these lines. Waits for blocked requests.
fn wait_for(local: &mut Local, text: &str) -> String {
    let mut replies = Vec::new();
    local.exchange(format!("{text}\r\n").as_bytes(), &mut replies).expect("the session lives");
    String::from_utf8_lossy(&replies).into_owned()
}

fn later(now: Instant, ms: i64) -> Instant {
    Instant { wall_us: now.wall_us + ms * 1_000, monotonic_us: now.monotonic_us + ms as u64 * 1_000 }
}

fn info(local: &mut Local, field: &str) -> String {
    let info = ask(local, "INFO clients");
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or("absent").to_owned()
}

fn who_came_first_is_served_first(workers: &str) {
    let engine = engine(workers);
    let mut locals: Vec<Local> = (0..5).map(|_| Local::open(&engine, || {})).collect();
    let mut writer = Local::open(&engine, || {});
    for local in &mut locals {
        assert_eq!(ask(local, "BLPOP a b 0\r\nPING"), "", "what comes behind waits too");
    }
    assert_eq!(
        (info(&mut writer, "blocked_clients"), info(&mut writer, "total_blocking_keys")),
        ("5".into(), "2".into())
    );
    assert_eq!(ask(&mut writer, "CLIENT LIST").matches("flags=b").count(), 5);
    assert_eq!(ask(&mut writer, "RPUSH b 1 2 3\r\nLLEN b"), ":3\r\n:0\r\n");
    assert_eq!(ask(&mut writer, "LPUSH a 4 5 6\r\nLRANGE a 0 -1"), ":3\r\n*1\r\n$1\r\n4\r\n");
    for (local, (key, element)) in locals.iter_mut().zip([("b", 1), ("b", 2), ("b", 3), ("a", 6), ("a", 5)]) {
        assert_eq!(ask(local, ""), format!("*2\r\n$1\r\n{key}\r\n$1\r\n{element}\r\n+PONG\r\n"));
    }
    assert_eq!(
        (info(&mut writer, "blocked_clients"), info(&mut writer, "total_blocking_keys")),
        ("0".into(), "0".into())
    );
}

fn a_transaction_wakes_with_what_it_leaves(workers: &str) {
    let engine = engine(workers);
    let (mut local, mut writer) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    assert_eq!(ask(&mut local, "BLPOP a 0"), "");
    ask(&mut writer, "MULTI\r\nRPUSH a 1\r\nDEL a\r\nEXEC");
    assert_eq!(ask(&mut local, ""), "", "nothing was left");
    ask(&mut writer, "SET a 1\r\nDEL a");
    assert_eq!(ask(&mut local, ""), "", "another type is of no use");
    ask(&mut writer, "MULTI\r\nRPUSH a 1\r\nDEL a\r\nRPUSH a 2\r\nEXEC");
    assert_eq!(ask(&mut local, ""), "*2\r\n$1\r\na\r\n$1\r\n2\r\n");
    assert_eq!(
        ask(&mut local, "MULTI\r\nBLPOP a 0\r\nEXEC"),
        "+OK\r\n+QUEUED\r\n*1\r\n*-1\r\n",
        "in a transaction none waits"
    );
    assert_eq!(ask(&mut local, "BLPOP a 0"), "");
    ask(&mut writer, "RPUSH other 3\r\nRENAME other a");
    assert_eq!(ask(&mut local, ""), "*2\r\n$1\r\na\r\n$1\r\n3\r\n");
    assert_eq!(ask(&mut local, "BLPOP a 0"), "");
    ask(&mut writer, "SELECT 1\r\nRPUSH a 4\r\nSWAPDB 0 1");
    assert_eq!(ask(&mut local, ""), "*2\r\n$1\r\na\r\n$1\r\n4\r\n");
}

fn what_moves_on_wakes_the_next(workers: &str) {
    let engine = engine(workers);
    let mut locals: Vec<Local> = (0..4).map(|_| Local::open(&engine, || {})).collect();
    let mut writer = Local::open(&engine, || {});
    for (index, local) in locals.iter_mut().enumerate() {
        assert_eq!(ask(local, &format!("BLMOVE k{index} k{} LEFT RIGHT 0", index + 1)), "");
    }
    let mut last = Local::open(&engine, || {});
    assert_eq!(ask(&mut last, "BLPOP k4 0"), "");
    assert_eq!(ask(&mut writer, "RPUSH k0 x"), ":1\r\n");
    locals.iter_mut().for_each(|local| assert_eq!(ask(local, ""), "$1\r\nx\r\n"));
    assert_eq!(ask(&mut last, ""), "*2\r\n$2\r\nk4\r\n$1\r\nx\r\n");
    assert_eq!(ask(&mut writer, "DBSIZE"), ":0\r\n");
    assert_eq!(ask(&mut last, "BLMOVE k0 string LEFT RIGHT 0"), "");
    assert_eq!(ask(&mut writer, "SET string 1\r\nRPUSH k0 x\r\nLLEN k0"), "+OK\r\n:1\r\n:1\r\n");
    assert!(ask(&mut last, "").starts_with("-WRONGTYPE"), "where it cannot go it stays");
}

fn time_ends_the_waiting_and_nothing_earlier(workers: &str) {
    let engine = engine(workers);
    let (mut local, start) = (Local::open(&engine, || {}), Instant::now());
    assert_eq!(ask_at(&mut local, start, "BLPOP a 1.5\r\nBLMOVE a b LEFT RIGHT 1\r\nPING"), "");
    assert!(local.due_in_ms().is_some_and(|due_ms| due_ms <= 1_500));
    assert_eq!(ask_at(&mut local, later(start, 1_499), ""), "");
    assert_eq!(ask_at(&mut local, later(start, 1_500), ""), "*-1\r\n", "and the next one waits in turn");
    assert_eq!(ask_at(&mut local, later(start, 2_500), ""), "*-1\r\n+PONG\r\n");
    assert_eq!(local.due_in_ms(), None);
    assert_eq!(info(&mut local, "blocked_clients"), "0");
    assert_eq!(wait_for(&mut local, "BLPOP a 0.01"), "*-1\r\n", "the caller's thread waits");
    for (timeout, error) in
        [("x", "not a float"), ("-1", "is negative"), ("1e300", "is out of range"), ("nan", "not a float")]
    {
        let reply = ask(&mut local, &format!("BLPOP a {timeout}"));
        assert!(reply.starts_with("-ERR timeout") && reply.contains(error), "{reply}");
    }
}

fn others_end_the_waiting_once(workers: &str) {
    let engine = engine(workers);
    let (mut local, mut other) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    let id = ask(&mut local, "CLIENT ID").replace(':', "").trim().to_owned();
    assert_eq!(ask(&mut other, &format!("CLIENT UNBLOCK {id}")), ":0\r\n");
    assert_eq!(ask(&mut local, "BLPOP a 0"), "");
    assert_eq!(ask(&mut other, &format!("CLIENT UNBLOCK {id}\r\nCLIENT UNBLOCK {id} ERROR")), ":1\r\n:0\r\n");
    ask(&mut other, "RPUSH a 1");
    assert_eq!(ask(&mut local, ""), "*-1\r\n");
    assert_eq!(ask(&mut other, "LLEN a"), ":1\r\n", "who waits no longer gets nothing");
    assert_eq!(ask(&mut local, "BLPOP b 0"), "");
    assert_eq!(ask(&mut other, &format!("CLIENT UNBLOCK {id} ERROR")), ":1\r\n");
    assert_eq!(ask(&mut local, ""), "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    assert_eq!(ask(&mut local, "CLIENT REPLY SKIP\r\nBLPOP b 0\r\nPING"), "");
    ask(&mut other, "RPUSH b 1");
    assert_eq!(ask(&mut local, ""), "+PONG\r\n", "the reply that is skipped is the late one");
    assert_eq!(ask(&mut local, "BLPOP b 0"), "");
    assert_eq!(ask(&mut other, &format!("CLIENT KILL ID {id}\r\nRPUSH b 2\r\nLLEN b")), ":1\r\n:1\r\n:1\r\n");
    assert_eq!(local.exchange(b"", &mut Vec::new()), Err(Closed));
    drop(local);
    let mut third = Local::open(&engine, || {});
    assert_eq!(ask(&mut third, "BLPOP c 0"), "");
    drop(third);
    assert_eq!(info(&mut other, "blocked_clients"), "0", "who is gone waits for nothing");
}

fn readers_of_a_group_hear_when_it_ends(workers: &str) {
    let engine = engine(workers);
    let (mut local, mut writer) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    let read = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >";
    let gone = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n";
    let ends = ["XGROUP DESTROY s g", "DEL s", "FLUSHALL", "RENAME s t", "SET s 1"];
    for end in ends {
        assert_eq!(ask(&mut writer, "DEL s\r\nXGROUP CREATE s g $ MKSTREAM").rsplit("\r\n").nth(1), Some("+OK"));
        assert_eq!(ask(&mut local, read), "");
        ask(&mut writer, end);
        let expected = if end.starts_with("SET") {
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
        } else {
            gone
        };
        assert_eq!(ask(&mut local, ""), expected, "{end}");
    }
    let start = Instant::now();
    ask_at(&mut writer, start, "DEL s\r\nXGROUP CREATE s g $ MKSTREAM\r\nPEXPIRE s 50");
    assert_eq!(ask_at(&mut local, start, read), "");
    ask_at(&mut writer, later(start, 60), "GET other\r\nEXISTS s");
    assert_eq!(ask_at(&mut local, later(start, 60), ""), gone, "time ends it too");
}

fn the_journal_says_what_was_taken(workers: &str) {
    let engine = engine(workers);
    let (mut local, mut writer) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    let mut reader = engine.journal.subscribe();
    assert_eq!(ask(&mut local, "BLPOP a 0"), "");
    ask(&mut writer, "MULTI\r\nRPUSH a 1\r\nSET k 1\r\nEXEC");
    assert_eq!(ask(&mut local, ""), "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    let mut journal = Vec::new();
    reader.read(&mut journal);
    let journal = String::from_utf8_lossy(&journal).into_owned();
    let place = |word: &str| journal.find(word).unwrap_or_else(|| panic!("{word} is not in {journal}"));
    assert!(place("EXEC") < place("LPOP"), "after the transaction that brought it: {journal}");
    assert!(!journal.contains("BLPOP"));
}

/// Checks that each element is taken by exactly one client, while clients push, pop, move elements and time out at the same
/// time.
fn nothing_is_lost_and_nothing_served_twice_between_threads(workers: &str) {
    let engine = engine(workers);
    const ELEMENTS: usize = 4_000;
    const TAKERS: usize = 6;
    let taken = AtomicUsize::new(0);
    let sum = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for taker in 0..TAKERS {
            let (engine, taken, sum) = (&engine, &taken, &sum);
            scope.spawn(move || {
                let mut local = Local::open(engine, || {});
                let request = match taker % 3 {
                    0 => "BLPOP a b 0.002",
                    1 => "BRPOP b a 0.02",
                    _ => "BLMOVE a b LEFT RIGHT 0.005",
                };
                while taken.load(Ordering::Relaxed) < ELEMENTS {
                    let reply = wait_for(&mut local, request);
                    if let Some(element) = reply.strip_prefix("*2\r\n").and_then(|reply| reply.split("\r\n").nth(3)) {
                        sum.fetch_add(element.parse::<usize>().expect("a number"), Ordering::Relaxed);
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for pusher in 0..2 {
            let engine = &engine;
            scope.spawn(move || {
                let mut local = Local::open(engine, || {});
                for element in (pusher..ELEMENTS).step_by(2) {
                    wait_for(&mut local, &format!("RPUSH {} {element}", ["a", "b"][element / 2 % 2]));
                }
            });
        }
    });
    assert_eq!((taken.into_inner(), sum.into_inner()), (ELEMENTS, ELEMENTS * (ELEMENTS - 1) / 2));
    let mut local = Local::open(&engine, || {});
    assert_eq!((ask(&mut local, "DBSIZE").as_str(), info(&mut local, "blocked_clients").as_str()), (":0\r\n", "0"));
}

/// Makes two tests of each function: with one worker, which uses one shard, and with four workers.
macro_rules! with_workers {
    ($($promise:ident),* $(,)?) => {
        mod one_worker { $(#[test] fn $promise() { super::$promise("1"); })* }
        mod four_workers { $(#[test] fn $promise() { super::$promise("4"); })* }
    };
}

with_workers! {
    who_came_first_is_served_first,
    a_transaction_wakes_with_what_it_leaves,
    what_moves_on_wakes_the_next,
    time_ends_the_waiting_and_nothing_earlier,
    others_end_the_waiting_once,
    readers_of_a_group_hear_when_it_ends,
    the_journal_says_what_was_taken,
    nothing_is_lost_and_nothing_served_twice_between_threads,
}
