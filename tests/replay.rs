//! The journal of any random run, replayed into an empty engine, gives the same data.
//!
//! Random commands go to an embedded engine while a reader takes down its journal; some of their keys expire on the way.
//! Then a second engine executes the journal as requests, and both must hold the same keys, values and deadlines, and
//! have the same DEBUG DIGEST. Once from one thread, once from several that write the same keys at the same time.

use std::sync::Arc;
use std::thread;

use sleeve_server::clock::Instant;
use sleeve_server::{Config, Engine, Local, Opt};
use sleeve_tests::connection::request;
use sleeve_tests::generator::{Generator, Words};
use sleeve_tests::random::seed;
use sleeve_tests::transcript::escape::escape;
use sleeve_tests::transcript::frame::{children, split};

/// Databases that the generator uses, and one more.
const DATABASES: usize = 4;

/// Keys that the generator uses.
const KEYS: usize = 8;

/// Threads that write at the same time.
const WRITERS: u64 = 4;

/// The time at which a journal is replayed.
const EPOCH: Instant = Instant { wall_us: 0, monotonic_us: 0 };

/// Commands after which the reader takes down what is there.
const TAKE_EVERY: usize = 100;

fn engine() -> Arc<Engine> {
    let config = Config::default();
    config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("an option of the table");
    Engine::new(config)
}

fn ask(local: &mut Local, words: &[Vec<u8>]) -> Vec<u8> {
    let mut replies = Vec::new();
    local.exchange(&request(words), &mut replies).expect("nothing here ends a session");
    replies
}

fn ask_text(local: &mut Local, text: &str) -> Vec<u8> {
    let words: Words = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    ask(local, &words)
}

/// Sends random commands; some values live for a moment only.
fn write(engine: &Arc<Engine>, seed: u64, commands: usize, mut each: impl FnMut(usize)) {
    let mut local = engine.connect(|| {});
    let mut generator = Generator::new(seed);
    let mut in_transaction = false;
    for index in 0..commands {
        if generator.random().once_in(50) {
            let (key, value) = (generator.random().below(KEYS), generator.random().below(100));
            let milliseconds = 1 + generator.random().below(3);
            ask_text(&mut local, &format!("SET k{key} {value} PX {milliseconds}"));
        }
        let words = if in_transaction { generator.command_in_transaction() } else { generator.command() };
        in_transaction = ask(&mut local, &words) == b"+QUEUED\r\n";
        each(index);
    }
}

/// Everything that the engine holds: each key of each database with its value and its deadline, and the digest.
fn contents(engine: &Arc<Engine>) -> Vec<String> {
    let mut local = engine.connect(|| {});
    let mut lines = Vec::new();
    for database in 0..DATABASES {
        ask_text(&mut local, &format!("SELECT {database}"));
        for key in 0..KEYS {
            // The first touch removes what has expired.
            let value = ask_text(&mut local, &format!("GET k{key}"));
            let deadline = ask_text(&mut local, &format!("PEXPIRETIME k{key}"));
            lines.push(format!("db{database} k{key} {} {}", escape(&value), escape(&deadline)));
        }
        let keys = ask_text(&mut local, "KEYS *");
        lines.push(format!("db{database} {} keys", children(&keys).map_or(0, |keys| keys.len())));
    }
    lines.push(escape(&ask_text(&mut local, "DEBUG DIGEST")));
    lines
}

/// Waits until no key is about to expire, so that both engines are asked about the same keys.
fn settle(engine: &Arc<Engine>) {
    let mut local = engine.connect(|| {});
    for database in 0..DATABASES {
        ask_text(&mut local, &format!("SELECT {database}"));
        for key in 0..KEYS {
            while is_soon(&ask_text(&mut local, &format!("PTTL k{key}"))) {
                thread::yield_now();
            }
        }
    }
}

/// Whether a reply of PTTL is a time of less than a second.
fn is_soon(reply: &[u8]) -> bool {
    let digits = std::str::from_utf8(reply).unwrap_or_default().trim_start_matches(':').trim_end();
    digits.parse::<i64>().is_ok_and(|milliseconds| (0..1000).contains(&milliseconds))
}

/// Executes a journal in an empty engine, one effect after the other; none of them may be refused. The clock stands still,
/// so that keys expire where the journal says so and nowhere else.
fn replay(journal: &[u8], seed: u64) -> Arc<Engine> {
    let engine = engine();
    let mut local = engine.connect(|| {});
    for effect in split(journal) {
        let mut reply = Vec::new();
        local.exchange_at(EPOCH, effect, &mut reply).expect("a journal ends no session");
        let refused = reply.starts_with(b"-")
            || children(&reply).is_some_and(|parts| parts.iter().any(|part| part.starts_with(b"-")));
        assert!(!refused, "seed {seed}: {} was answered by {}", escape(effect), escape(&reply));
    }
    engine
}

/// Checks that what the journal gives is what the engine holds.
fn assert_equal(engine: &Arc<Engine>, journal: &[u8], seed: u64) {
    let replayed = replay(journal, seed);
    let (held, given) = (contents(engine), contents(&replayed));
    let differing: Vec<_> = held.iter().zip(&given).filter(|(held, given)| held != given).collect();
    assert!(differing.is_empty(), "seed {seed}: what was held, what the journal gives: {differing:#?}");
}

#[test]
fn the_journal_of_one_writer_gives_the_same_data() {
    for seed in seed(100)..seed(100) + 10 {
        let engine = engine();
        let mut reader = engine.journal.subscribe();
        let mut journal = Vec::new();
        write(&engine, seed, 5_000, |index| {
            if index % TAKE_EVERY == 0 {
                reader.read(&mut journal).expect("the reader keeps up");
            }
        });
        settle(&engine);
        contents(&engine);
        reader.read(&mut journal).expect("the reader keeps up");
        assert_equal(&engine, &journal, seed);
    }
}

#[test]
fn the_journal_of_many_writers_gives_the_same_data() {
    for seed in (seed(1000)..seed(1000) + 5 * WRITERS).step_by(WRITERS as usize) {
        let engine = engine();
        let mut reader = engine.journal.subscribe();
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let engine = &engine;
                scope.spawn(move || write(engine, seed + writer, 5_000, |_| {}));
            }
        });
        settle(&engine);
        contents(&engine);
        let mut journal = Vec::new();
        reader.read(&mut journal).expect("the journal keeps this much");
        assert_equal(&engine, &journal, seed);
    }
}
