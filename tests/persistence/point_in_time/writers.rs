//! The work of threads on an engine while snapshots of it are taken.

use std::sync::Arc;

use sleeve_server::{Engine, Local};
use sleeve_tests::generator::{Generator, Scope};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::transcript::frame::leaves;

use super::rig::Allowance;
use crate::persistence::replay::content::{ask, ask_text};
use crate::persistence::replay::trouble;

/// The number of accounts in each of two databases. Units are moved between them, and between them and a hash and a sorted
/// set.
pub const ACCOUNTS: usize = 800;

/// A script that moves units between two accounts.
const SCRIPT: &str = "redis.call('DECRBY',KEYS[1],ARGV[1])redis.call('INCRBY',KEYS[2],ARGV[1])";

/// Runs random commands over all types.
pub fn random_commands(engine: &Arc<Engine>, number: u64, allowance: &Allowance) {
    let mut local = Local::open(engine, || {});
    // The journal's end is another each time.
    let mut generator = Generator::new(seed(300) + number + engine.journal.end(), Scope::default());
    let mut in_transaction = false;
    while allowance.take() {
        if !in_transaction && generator.random().once_in(20) {
            trouble(&mut local, &mut generator, true);
        }
        let words = if in_transaction { generator.command_in_transaction() } else { generator.command() };
        in_transaction = ask(&mut local, &words) == b"+QUEUED\r\n";
    }
}

/// Sends requests that are written in lines, and takes all replies.
fn send(local: &mut Local, lines: &[String]) {
    let mut replies = Vec::new();
    let lines = lines.iter().map(|line| format!("{line}\r\n")).collect::<String>();
    local.exchange(lines.as_bytes(), &mut replies).expect("nothing here ends a session");
}

/// Moves units between accounts in every way, and creates and deletes other keys. The sum of the units stays the same.
pub fn transfers(engine: &Arc<Engine>, number: u64, allowance: &Allowance) {
    let mut local = Local::open(engine, || {});
    let mut random = Random::new(seed(400) + number);
    while allowance.take() {
        let lines = transfer(&mut random);
        send(&mut local, &lines);
    }
}

fn transfer(random: &mut Random) -> Vec<String> {
    let account = |random: &mut Random| format!("account:{}", random.below(ACCOUNTS));
    let (from, to, units, db) = (account(random), account(random), random.below(50), random.below(2));
    let other = 1 - db;
    match random.below(14) {
        0..3 => vec![
            format!("SELECT {db}"),
            "MULTI".to_owned(),
            format!("DECRBY {from} {units}"),
            format!("SELECT {other}"),
            format!("INCRBY {to} {units}"),
            "EXEC".to_owned(),
        ],
        3..5 => vec![format!("SELECT {db}"), format!("EVAL \"{SCRIPT}\" 2 {from} {to} {units}")],
        5 => vec![
            format!("SELECT {db}"),
            "MULTI".to_owned(),
            format!("DECRBY {from} {units}"),
            format!("HINCRBY bank {to} {units}"),
            "EXEC".to_owned(),
        ],
        6 => vec![
            format!("SELECT {db}"),
            "MULTI".to_owned(),
            format!("HINCRBY bank {from} -{units}"),
            format!("ZINCRBY ranks {units} {to}"),
            "EXEC".to_owned(),
        ],
        7 => vec![format!("SELECT {db}"), format!("RENAMENX {from} {to}")],
        8 => vec![format!("SELECT {db}"), format!("MOVE {from} {other}")],
        9 if random.once_in(20) => vec!["SWAPDB 0 1".to_owned()],
        9 => vec![format!("SELECT {db}"), "RENAMENX bank vault".to_owned(), "RENAMENX vault bank".to_owned()],
        10 if random.once_in(50) => vec!["SELECT 2".to_owned(), "FLUSHDB".to_owned()],
        10 => vec!["SELECT 2".to_owned(), format!("RPUSH list:{units} {from} {to} {units}")],
        11 => vec!["SELECT 2".to_owned(), format!("SET soon:{units} {to} PX {}", 1 + units)],
        12 => vec!["SELECT 2".to_owned(), format!("HSET hash:{units} {from} 1"), format!("DEL hash:{}", units / 2)],
        // Thirty such keys exceed the memory limit, and there are fifty of them between two FLUSHDBs.
        _ => vec!["SELECT 2".to_owned(), format!("SET {from}:{units} {} EX 10000", "x".repeat(20_000))],
    }
}

/// Returns the sum of all accounts.
pub fn sum(engine: &Arc<Engine>) -> i64 {
    let mut local = Local::open(engine, || {});
    let number = |text: &[u8]| String::from_utf8_lossy(text).parse::<i64>().expect("units");
    let mut sum = 0;
    for db in 0..2 {
        ask_text(&mut local, &format!("SELECT {db}"));
        for name in leaves(&ask_text(&mut local, "KEYS account:*")) {
            sum += leaves(&ask(&mut local, &[b"GET".to_vec(), name])).iter().map(|text| number(text)).sum::<i64>();
        }
        for bank in ["bank", "vault"] {
            sum += leaves(&ask_text(&mut local, &format!("HVALS {bank}"))).iter().map(|text| number(text)).sum::<i64>();
        }
        let ranks = leaves(&ask_text(&mut local, "ZRANGE ranks 0 -1 WITHSCORES"));
        sum += ranks.iter().skip(1).step_by(2).map(|text| number(text)).sum::<i64>();
    }
    sum
}

/// The kinds of large values.
const KINDS: [&str; 6] = ["string", "list", "set", "hash", "sorted", "stream"];

/// The number of elements that one command adds.
const AT_ONCE: usize = 500;

/// Makes a value of so many elements of each kind.
pub fn fill_large(engine: &Arc<Engine>, elements: usize) {
    let mut local = Local::open(engine, || {});
    send(&mut local, &[format!("SETRANGE large:string {} x", elements * 8)]);
    for first in (0..elements).step_by(AT_ONCE) {
        let range = first..elements.min(first + AT_ONCE);
        let each = |word: fn(usize) -> String| range.clone().map(word).collect::<Vec<_>>().join(" ");
        send(
            &mut local,
            &[
                format!("RPUSH large:list {}", each(|index| format!("element:{index}"))),
                format!("SADD large:set {}", each(|index| format!("member:{index}"))),
                format!("HSET large:hash {}", each(|index| format!("field:{index} {index}"))),
                format!("ZADD large:sorted {}", each(|index| format!("{} member:{index}", index % 1_000))),
            ],
        );
        let entries: Vec<String> =
            range.clone().map(|index| format!("XADD large:stream {}-1 f {index}", index + 1)).collect();
        send(&mut local, &entries);
    }
    send(
        &mut local,
        &[
            "XGROUP CREATE large:stream group 0".to_owned(),
            format!("XREADGROUP GROUP group reader COUNT {} STREAMS large:stream >", elements / 2),
        ],
    );
}

/// Changes large values of so many elements in every place, renames them and moves them to other databases. If they are small
/// enough to be made again, it also deletes them.
pub fn change_large(engine: &Arc<Engine>, (number, elements): (u64, usize), allowance: &Allowance) {
    let mut local = Local::open(engine, || {});
    let mut random = Random::new(seed(500) + number);
    while allowance.take() {
        if elements <= 10_000 && random.once_in(400) {
            let kind = random.pick(&KINDS);
            let lose = ["UNLINK", "DEL"][random.below(2)];
            send(&mut local, &[format!("SELECT {}", random.below(2)), format!("{lose} large:{kind} other:{kind}")]);
            fill_large(engine, elements / 2);
        }
        let lines = change(&mut random, elements);
        send(&mut local, &lines);
    }
}

fn change(random: &mut Random, elements: usize) -> Vec<String> {
    let (db, name) = (random.below(2), if random.once_in(2) { "large" } else { "other" });
    let (at, value) = (random.below(elements), random.below(1 << 30));
    let command = match random.below(22) {
        0 => format!("SETRANGE {name}:string {} {value}", at * 8),
        1 => format!("APPEND {name}:string {value}"),
        2 => format!("SETBIT {name}:string {} 1", at * 8),
        3 => format!("LSET {name}:list {at} {value}"),
        4 => format!("RPUSH {name}:list {value} {at}"),
        5 => format!("LPOP {name}:list 2"),
        6 => format!("LINSERT {name}:list BEFORE element:{} {value}", at % 100),
        7 => format!("SADD {name}:set {value}"),
        8 => format!("SREM {name}:set member:{at}"),
        9 => format!("SPOP {name}:set 3"),
        10 => format!("HSET {name}:hash field:{at} {value}"),
        11 => format!("HDEL {name}:hash field:{at}"),
        12 => format!("HINCRBY {name}:hash field:{at} 1"),
        13 => format!("ZADD {name}:sorted {value} member:{at}"),
        14 => format!("ZREM {name}:sorted member:{at}"),
        15 => format!("ZPOPMIN {name}:sorted 2"),
        16 => format!("XADD {name}:stream * f {value}"),
        17 => format!("XDEL {name}:stream {}-1", at + 1),
        18 => format!("XACK {name}:stream group {}-1", at + 1),
        19 => format!("XREADGROUP GROUP group other COUNT 3 STREAMS {name}:stream >"),
        20 => {
            let (kind, other) = (random.pick(&KINDS), if name == "large" { "other" } else { "large" });
            format!("RENAMENX {name}:{kind} {other}:{kind}")
        }
        _ => format!("MOVE {name}:{} {}", random.pick(&KINDS), 1 - db),
    };
    if random.once_in(500) {
        return vec!["SWAPDB 0 1".to_owned()];
    }
    vec![format!("SELECT {db}"), command]
}
