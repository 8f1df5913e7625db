//! Coalescing is invisible: however calls are merged, each caller gets the replies that the calls would get one by one.
//!
//! Several callers make random calls through clones of one handle, in a random interleaving, on keys of any type; replies are
//! waited for at any time later, dropped or forgotten. The same calls are made one by one, in the order in which they were
//! made, on a twin. That order is each caller's own too, so if every reply that is read and all data at the end are the same,
//! some uncoalesced order explains them. Executors with planted faults show that the comparison finds such faults. If callers
//! are threads the order is not known, and the replies have to fit together by arithmetic.

use std::thread;
use std::time::Duration;

use sleeve::prelude::*;
use sleeve::{Client, CoalesceOptions, Coalescing, Db, Error, Reply, Value};
use sleeve_tests::random::{Random, seed};
use sleeve_tests::{Kind, Server, soak};

/// The number of the callers' databases; the twin's databases follow them.
const DATABASES: u32 = 2;
const TWIN: u32 = 8;

/// The caller's use of a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Read,
    Dropped,
    Forgotten,
}

/// A call of a caller.
struct Call {
    database: u32,
    words: Vec<String>,
    fate: Fate,
    /// True if the gathered calls are sent after this one.
    flushes: bool,
}

/// A reply as its caller saw it; none if the reply was not read.
type Seen = Option<Result<Value, String>>;

const STRINGS: [&str; 4] = ["s1", "s2", "s3", "n1"];
const NUMBERS: [&str; 3] = ["n1", "n2", "n3"];
const LISTS: [&str; 2] = ["l1", "l2"];
const HASHES: [&str; 2] = ["h1", "h2"];
const SETS: [&str; 2] = ["t1", "t2"];
const SORTED: [&str; 2] = ["z1", "z2"];
const LOGS: [&str; 1] = ["p1"];
const ALL: [&[&str]; 7] = [&STRINGS, &NUMBERS, &LISTS, &HASHES, &SETS, &SORTED, &LOGS];

/// A command: its name, the keys that it mostly names, and its arguments, each letter of which stands for something.
const COMMANDS: [(&str, &[&str], &str); 58] = [
    ("SET", &STRINGS, "kv"),
    ("SET", &STRINGS, "kv"),
    ("SET", &NUMBERS, "kn"),
    ("SET", &STRINGS, "kvX"),
    ("SETNX", &STRINGS, "kv"),
    ("GET", &STRINGS, "k"),
    ("GET", &STRINGS, "k"),
    ("GET", &LISTS, "k"),
    ("GET", &NUMBERS, "k"),
    ("MGET", &STRINGS, "kk"),
    ("MSET", &STRINGS, "kvkv"),
    ("APPEND", &STRINGS, "kv"),
    ("STRLEN", &STRINGS, "k"),
    ("INCR", &NUMBERS, "k"),
    ("INCR", &NUMBERS, "k"),
    ("DECR", &NUMBERS, "k"),
    ("INCRBY", &NUMBERS, "kn"),
    ("DECRBY", &NUMBERS, "kn"),
    ("INCRBY", &NUMBERS, "kv"),
    ("GETDEL", &NUMBERS, "k"),
    ("DEL", &STRINGS, "k"),
    ("DEL", &NUMBERS, "kk"),
    ("UNLINK", &LISTS, "k"),
    ("EXISTS", &STRINGS, "kk"),
    ("TOUCH", &STRINGS, "k"),
    ("TYPE", &STRINGS, "k"),
    ("EXPIRE", &STRINGS, "kE"),
    ("PERSIST", &STRINGS, "k"),
    ("RENAME", &STRINGS, "kk"),
    ("LPUSH", &LISTS, "kv"),
    ("LPUSH", &LISTS, "kvv"),
    ("RPUSH", &LISTS, "kv"),
    ("RPUSH", &LISTS, "kvvv"),
    ("LPOP", &LISTS, "k"),
    ("LLEN", &LISTS, "k"),
    ("HSET", &HASHES, "kfv"),
    ("HSET", &HASHES, "kfvfv"),
    ("HSET", &HASHES, "kf"),
    ("HGET", &HASHES, "kf"),
    ("HGET", &HASHES, "kf"),
    ("HDEL", &HASHES, "kf"),
    ("HLEN", &HASHES, "k"),
    ("SADD", &SETS, "km"),
    ("SADD", &SETS, "kmm"),
    ("SREM", &SETS, "km"),
    ("SISMEMBER", &SETS, "km"),
    ("SISMEMBER", &SETS, "km"),
    ("SCARD", &SETS, "k"),
    ("ZADD", &SORTED, "knm"),
    ("ZADD", &SORTED, "kXnm"),
    ("ZADD", &SORTED, "kvm"),
    ("ZREM", &SORTED, "km"),
    ("ZSCORE", &SORTED, "km"),
    ("ZSCORE", &SORTED, "km"),
    ("PFADD", &LOGS, "km"),
    ("PFCOUNT", &LOGS, "k"),
    ("DBSIZE", &STRINGS, ""),
    ("PING", &STRINGS, ""),
];

/// Returns a number near the bounds, now and then, so that sums pass them.
fn number(random: &mut Random) -> String {
    match random.below(8) {
        0 => (i64::MAX - random.between(0, 2)).to_string(),
        1 => (i64::MIN + random.between(0, 2)).to_string(),
        _ => random.between(-3, 9).to_string(),
    }
}

fn call(random: &mut Random, favourites: &[usize]) -> Call {
    let (name, keys, shape) =
        if random.once_in(4) { *random.pick(&COMMANDS) } else { COMMANDS[*random.pick(favourites)] };
    let mut words = vec![name.to_owned()];
    for letter in shape.chars() {
        words.push(match letter {
            'k' if random.once_in(12) => {
                let keys = *random.pick(&ALL);
                random.pick(keys).to_string()
            }
            'k' => random.pick(keys).to_string(),
            'v' => format!("v{}", random.below(6)),
            'n' => number(random),
            'f' => format!("f{}", random.below(3)),
            'm' => format!("m{}", random.below(3)),
            'X' => "NX".to_owned(),
            _ => "1000".to_owned(),
        });
    }
    let fate = match random.below(10) {
        0 | 1 => Fate::Dropped,
        2 | 3 => Fate::Forgotten,
        _ => Fate::Read,
    };
    let database = if random.once_in(5) { 1 } else { 0 };
    Call { database, words, fate, flushes: random.once_in(12) }
}

/// Returns the calls of one run with their callers, in the order in which they are made.
fn history(seed: u64, length: usize) -> Vec<Call> {
    let random = &mut Random::new(seed);
    // A few commands make up most of the calls, so that they meet.
    let favourites: Vec<usize> = (0..6).map(|_| random.below(COMMANDS.len())).collect();
    (0..length).map(|_| call(random, &favourites)).collect()
}

fn send(asker: &impl Words, words: &[String]) -> Reply<Value> {
    asker.words(words)
}

/// The types that can send a command given by its words: the client, and a database of it.
trait Words {
    fn words(&self, words: &[String]) -> Reply<Value>;
}

impl Words for Coalescing {
    fn words(&self, words: &[String]) -> Reply<Value> {
        words[1..].iter().fold(self.cmd(&words[0]), |cmd, word| cmd.arg(word)).send()
    }
}

impl Words for Db {
    fn words(&self, words: &[String]) -> Reply<Value> {
        words[1..].iter().fold(self.cmd(&words[0]), |cmd, word| cmd.arg(word)).send()
    }
}

fn seen(result: Result<Value, Error>) -> Seen {
    Some(result.map_err(|error| error.message().to_owned()))
}

/// Makes the calls one by one: each after the reply to the one before.
fn one_by_one(client: &Client, calls: &[Call]) -> Vec<Seen> {
    let seen =
        |call: &Call| seen(send(&client.db(call.database), &call.words).wait()).filter(|_| call.fate == Fate::Read);
    calls.iter().map(seen).collect()
}

/// Makes the calls through coalescing handles, one for each database. Between two calls it sometimes waits for the reply of an
/// earlier one, in any order, and some calls give their replies up.
fn coalesced(client: &Client, seed: u64, calls: &[Call]) -> Vec<Seen> {
    let random = &mut Random::new(!seed);
    // Such a long delay ends only by a flush.
    let delay = if random.once_in(2) { Duration::ZERO } else { Duration::from_secs(3600) };
    let options = CoalesceOptions::new().delay(delay).calls_max(2 + random.below(40));
    let coalescing = client.coalescing_with(options);
    let callers: Vec<Coalescing> = (0..DATABASES).map(|database| coalescing.db(database)).collect();
    let mut all: Vec<Seen> = Vec::new();
    let mut open: Vec<(usize, Reply<Value>)> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let reply = send(&callers[call.database as usize], &call.words);
        all.push(None);
        match call.fate {
            Fate::Read => open.push((at, reply)),
            Fate::Dropped => drop(reply),
            Fate::Forgotten => reply.forget(),
        }
        if call.flushes {
            coalescing.flush();
            // A caller waits for one of its replies, in any order.
            if !open.is_empty() && random.once_in(2) {
                let (at, reply) = open.swap_remove(random.below(open.len()));
                all[at] = seen(reply.wait());
            }
        }
    }
    drop((coalescing, callers));
    for (at, reply) in open {
        all[at] = seen(reply.wait());
    }
    all
}

/// Returns all data of a database.
fn data(client: &Db) -> Vec<(String, Value)> {
    let mut keys: Vec<&str> = ALL.iter().flat_map(|keys| keys.iter().copied()).collect();
    keys.dedup();
    let look = |key: &str| {
        let kind = client.type_of(key).wait().expect("a type");
        let ask = |words: &[&str]| {
            send(client, &words.iter().map(|word| word.to_string()).collect::<Vec<_>>()).wait().expect("its value")
        };
        let value = match kind.as_str() {
            "string" => ask(&["GET", key]),
            "list" => ask(&["LRANGE", key, "0", "-1"]),
            "hash" => ask(&["HGETALL", key]),
            "set" => ask(&["SORT", key, "ALPHA"]),
            "zset" => ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
            _ => Value::Nil,
        };
        (format!("{key} {kind}"), value)
    };
    keys.into_iter().map(look).collect()
}

/// A way to execute calls.
type Executor = fn(&Client, u64, &[Call]) -> Vec<Seen>;

/// Returns the first difference between an executor and a twin that makes one call after the other: in the replies, or in the
/// data that they leave.
fn difference(client: &Client, executor: Executor, seed: u64, length: usize) -> Option<String> {
    let calls = history(seed, length);
    for database in (0..DATABASES).chain(TWIN..TWIN + DATABASES) {
        client.db(database).flushdb().wait().expect("empty");
    }
    let gathered = executor(client, seed, &calls);
    let twins: Vec<Call> =
        history(seed, length).into_iter().map(|call| Call { database: call.database + TWIN, ..call }).collect();
    let naive = one_by_one(client, &twins);
    for (at, (one, other)) in gathered.iter().zip(&naive).enumerate() {
        if one != other {
            let before: Vec<String> = calls[..at]
                .iter()
                .filter(|call| call.database == calls[at].database)
                .map(|call| call.words.join(" "))
                .collect();
            let before = before[before.len().saturating_sub(30)..].join(", ");
            return Some(format!(
                "seed {seed}, call {at} {:?}: {one:?}, one by one {other:?}; before it: {before}",
                calls[at].words
            ));
        }
    }
    for database in 0..DATABASES {
        let (one, other) = (data(&client.db(database)), data(&client.db(database + TWIN)));
        if one != other {
            return Some(format!("seed {seed}, the data: {one:?}, one by one {other:?}"));
        }
    }
    None
}

fn is_invisible(client: &Client, histories: usize) {
    let first = seed(1);
    for seed in first..first + histories as u64 {
        if let Some(difference) = difference(client, coalesced, seed, 200) {
            panic!("{difference}");
        }
    }
}

fn is_invisible_on(kind: Kind) {
    let server = Server::start(kind);
    for protocol in [3, 2] {
        let client = Client::connect(&format!("{}?protocol={protocol}", server.url())).expect("a client");
        is_invisible(&client, soak::count(5));
    }
}

#[test]
fn it_is_invisible_embedded() {
    is_invisible(&Client::embedded(), soak::count(60));
}

#[test]
fn it_is_invisible_on_redis() {
    is_invisible_on(Kind::Redis);
}

#[test]
fn it_is_invisible_on_valkey() {
    is_invisible_on(Kind::Valkey);
}

#[test]
fn it_is_invisible_on_sleeve() {
    is_invisible_on(Kind::Sleeve);
}

/// Executors with planted faults. Each makes one call after the other, a window at a time.
mod faulty {
    use super::*;

    const WINDOW: usize = 8;

    /// Makes each window's calls in the order that `order` returns; each caller gets its own replies.
    fn reordered(client: &Client, calls: &[Call], order: impl Fn(&[Call]) -> Vec<usize>) -> Vec<Seen> {
        let mut all: Vec<Seen> = calls.iter().map(|_| None).collect();
        for (number, window) in calls.chunks(WINDOW).enumerate() {
            for at in order(window) {
                all[number * WINDOW + at] = one_by_one(client, &window[at..=at]).remove(0);
            }
        }
        all
    }

    /// Makes the calls one by one, and falsifies each window's replies by `falsify`.
    fn falsified(client: &Client, calls: &[Call], falsify: impl Fn(&[Call], &mut [Seen])) -> Vec<Seen> {
        let mut all = one_by_one(client, calls);
        for (window, seen) in calls.chunks(WINDOW).zip(all.chunks_mut(WINDOW)) {
            falsify(window, seen);
        }
        all
    }

    fn is(call: &Call, names: &[&str]) -> bool {
        names.contains(&call.words[0].as_str())
    }

    /// Makes all calls of these names in the place of the first of them.
    pub fn gathers(names: &[&str], client: &Client, calls: &[Call]) -> Vec<Seen> {
        reordered(client, calls, |window| {
            let (gathered, others): (Vec<usize>, Vec<usize>) =
                (0..window.len()).partition(|at| is(&window[*at], names));
            let first = gathered.first().copied().unwrap_or(0);
            let (before, behind): (Vec<usize>, Vec<usize>) = others.into_iter().partition(|at| *at < first);
            [before, gathered, behind].concat()
        })
    }

    /// Gives every call of this name the reply to the last such call on the same key.
    pub fn gives_the_last(name: &str, client: &Client, calls: &[Call]) -> Vec<Seen> {
        falsified(client, calls, |window, seen| {
            for at in 0..window.len() {
                let same = |other: &usize| {
                    is(&window[*other], &[name]) && window[*other].words.get(1) == window[at].words.get(1)
                };
                let last = (at..window.len()).rev().filter(same).find(|other| seen[*other].is_some());
                if is(&window[at], &[name])
                    && seen[at].is_some()
                    && let Some(last) = last
                {
                    seen[at] = seen[last].clone();
                }
            }
        })
    }

    /// Gives GET a nil in place of the error for a value of another type.
    pub fn takes_errors_for_nil(client: &Client, calls: &[Call]) -> Vec<Seen> {
        falsified(client, calls, |window, seen| {
            for (call, seen) in window.iter().zip(seen) {
                if is(call, &["GET"]) && matches!(seen, Some(Err(_))) {
                    *seen = Some(Ok(Value::Nil));
                }
            }
        })
    }
}

#[test]
fn planted_faults_are_found() {
    let faults: [(&str, Executor); 8] = [
        ("SETs overtake", |client, _, calls| faulty::gathers(&["SET"], client, calls)),
        ("GETs overtake", |client, _, calls| faulty::gathers(&["GET"], client, calls)),
        ("INCRs overtake", |client, _, calls| faulty::gathers(&["INCR", "INCRBY", "DECR", "DECRBY"], client, calls)),
        ("DELs overtake", |client, _, calls| faulty::gathers(&["DEL", "UNLINK"], client, calls)),
        ("one sum for all", |client, _, calls| faulty::gives_the_last("INCR", client, calls)),
        ("one length for all", |client, _, calls| faulty::gives_the_last("LPUSH", client, calls)),
        ("one member for all", |client, _, calls| faulty::gives_the_last("SISMEMBER", client, calls)),
        ("a nil for an error", |client, _, calls| faulty::takes_errors_for_nil(client, calls)),
    ];
    let client = Client::embedded();
    for (fault, executor) in faults {
        let found = (1..=100).find_map(|seed| difference(&client, executor, seed, 200));
        assert!(found.is_some(), "not found: {fault}");
    }
    let naive: Executor = |client, _, calls| one_by_one(client, calls);
    assert_eq!(difference(&client, naive, 1, 300), None);
}

const THREADS: usize = 8;
const EACH: usize = 150;

/// Callers on threads wait for some replies and leave others open; all observations together fit one order.
fn callers_on_threads_see_one_order(client: &Client) {
    let coalescing = client.coalescing();
    let worker = |number: usize| {
        let coalescing = coalescing.clone();
        move || {
            let random = &mut Random::new(number as u64 + 7);
            let (mut sums, mut lengths): (Vec<Reply<i64>>, Vec<Reply<u64>>) = (Vec::new(), Vec::new());
            for round in 0..EACH {
                sums.push(coalescing.incr("sum"));
                lengths.push(coalescing.rpush("list", number * EACH + round));
                // A caller's own keys hold the values that it wrote, independently of the other callers.
                let own = format!("own:{number}:{}", random.below(5));
                coalescing.set(&own, round).forget();
                coalescing.sadd("seen", &own).forget();
                let back = coalescing.get::<usize>(&own);
                if random.once_in(10) {
                    assert_eq!(back.wait().expect("it is set"), round);
                    assert!(coalescing.sismember("seen", &own).wait().expect("an answer"));
                }
            }
            let sums: Vec<i64> = sums.into_iter().map(|reply| reply.wait().expect("a sum")).collect();
            let lengths: Vec<u64> = lengths.into_iter().map(|reply| reply.wait().expect("a length")).collect();
            assert!(sums.is_sorted() && lengths.is_sorted(), "a caller's own calls changed places");
            (sums, lengths)
        }
    };
    let threads: Vec<_> = (0..THREADS).map(|number| thread::spawn(worker(number))).collect();
    let (mut sums, mut places) = (Vec::new(), Vec::new());
    for (number, thread) in threads.into_iter().enumerate() {
        let (own, lengths) = thread.join().expect("it did not panic");
        sums.extend(own);
        places.extend(lengths.into_iter().enumerate().map(|(round, length)| (length, number * EACH + round)));
    }
    sums.sort_unstable();
    assert!(sums.into_iter().eq(1..=(THREADS * EACH) as i64), "a sum was told twice");
    // Each length that a call returned tells the place of its element.
    let list: Vec<usize> = client.lrange("list", 0, -1).wait().expect("the list");
    places.sort_unstable();
    assert!(places.into_iter().eq((1..).zip(list)), "a length was another's");
}

#[test]
fn callers_on_threads_see_one_order_everywhere() {
    callers_on_threads_see_one_order(&Client::embedded());
    for kind in [Kind::Redis, Kind::Valkey, Kind::Sleeve] {
        callers_on_threads_see_one_order(&Client::connect(&Server::start(kind).url()).expect("a client"));
    }
}
