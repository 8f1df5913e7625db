//! The journal of any random run, replayed into an empty engine, gives the same data.
//!
//! Random commands over all types go to an embedded engine while a reader takes down its journal; keys and fields expire
//! on the way, scripts and functions run, members are chosen at random, clients wait for each other, memory runs short.
//! Then the journal is applied to a second engine, and both must hold the same keys, values, deadlines, groups and
//! functions, and have the same DEBUG DIGEST. Once from one thread, once from several that write the same keys at the same
//! time, once for each policy of eviction. Servers of other makers load it as a log of their own, and must hold the same too.

pub mod content;
pub mod peer;

use std::sync::{Arc, Mutex};
use std::thread;

use content::{ask, ask_text, contents, settle};
use peer::Peer;
use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local, Opt, Replay};
use sleeve_tests::Kind;
use sleeve_tests::generator::{Generator, Scope, Words};
use sleeve_tests::random::seed;
use sleeve_tests::transcript::escape::escape;
use sleeve_tests::transcript::frame::{children, split, text};
use sleeve_wire::commands::Group;

/// The number of threads that write at the same time.
const WRITERS: u64 = 4;

/// The number of bytes that are applied at once; it cuts requests anywhere.
const PIECE_BYTES: usize = 10_007;

/// The number of commands after which a writer records the data.
const TAKE_EVERY: usize = 50;

/// The largest number of effects that are shown.
const STORY_MAX: usize = 60;

/// The bytes that data and journal may take beyond an empty engine in runs that are short of memory.
const ROOM_BYTES: u64 = 150_000 + 1_048_576;

fn engine(options: &[(Opt, &str)]) -> Arc<Engine> {
    let config = Config::default();
    let debug = (Opt::EnableDebugCommand, "yes");
    for (option, value) in [&[debug], options].concat() {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    Engine::new(config)
}

/// Sends random commands; some keys and fields live for a moment only.
fn write(engine: &Arc<Engine>, (seed, scope): (u64, &Scope), commands: usize, take: &(dyn Fn() + Sync)) {
    let mut local = Local::open(engine, || {});
    let mut generator = Generator::new(seed, scope.clone());
    let times_fields = scope.rows.iter().any(|row| row.full_name == "hpexpire");
    let mut in_transaction = false;
    for index in 0..commands {
        if !in_transaction && generator.random().once_in(20) {
            trouble(&mut local, &mut generator, times_fields);
        }
        let words = if in_transaction { generator.command_in_transaction() } else { generator.command() };
        in_transaction = ask(&mut local, &words) == b"+QUEUED\r\n";
        if index % TAKE_EVERY == 0 {
            take();
        }
    }
    ask_text(&mut local, "EXEC");
}

/// Sends the commands that the generator leaves out because two servers would not execute them alike.
pub fn trouble(local: &mut Local, generator: &mut Generator, times_fields: bool) {
    let random = generator.random();
    let (pool, key, other) = (*random.pick(&["k", "l", "s", "h", "z", "x"]), random.below(3), random.below(3));
    let (milliseconds, number) = (1 + random.below(3), random.below(500));
    match random.below(8) {
        0 => ask_text(local, &format!("SET k{key} {number} PX {milliseconds}")),
        1 => ask_text(local, &format!("PEXPIRE {pool}{key} {milliseconds}")),
        2 | 3 if !times_fields => return,
        2 => ask_text(local, &format!("HPEXPIRE h{key} {milliseconds} FIELDS 3 1 m1 m2")),
        3 => ask_text(local, &format!("HSETEX h{key} PX {milliseconds} FIELDS 2 m3 a m4 b")),
        4 => ask_text(local, &format!("SPOP s{key} {}", 1 + number % 5)),
        5 => ask_text(local, &format!("SET filler:{number} {}", "x".repeat(number * 40))),
        6 => ask_text(local, &format!("XADD x{key} MAXLEN ~ 100 * field {number}")),
        _ => {
            let dump = ask_text(local, &format!("DUMP {pool}{key}"));
            let Some(payload) = text(&dump) else { return };
            let words = [b"RESTORE".to_vec(), format!("{pool}{other}").into_bytes(), b"100000000".to_vec()];
            ask(local, &words.into_iter().chain([payload.to_vec(), b"REPLACE".to_vec()]).collect::<Words>())
        }
    };
}

/// Applies a journal to an empty engine, a piece at a time; no request may be refused.
fn replay(journal: &[u8], seed: u64) -> Arc<Engine> {
    let engine = engine(&[]);
    let mut replay = Replay::begin(&engine, 0);
    for end in (0..journal.len()).step_by(PIECE_BYTES).chain([journal.len()]) {
        let from = replay.offset() as usize;
        if let Err(refused) = replay.apply(&journal[from..end], Instant::now()) {
            let effect = split(&journal[refused.offset as usize..]).first().copied();
            let key = effect.and_then(children).and_then(|words| words.get(1).map(|word| escape(word)));
            let story = story(journal, &key.unwrap_or_default(), effect);
            panic!("seed {seed}: {refused}\n{story:#?}");
        }
    }
    assert_eq!((replay.offset(), replay.open_transaction()), (journal.len() as u64, None), "seed {seed}");
    drop(replay);
    engine
}

/// Returns the effects in which a text comes up, up to one of them, for a person to read.
fn story(journal: &[u8], text: &str, last: Option<&[u8]>) -> Vec<String> {
    let before = |effect: &&[u8]| last.is_none_or(|last| effect.as_ptr() != last.as_ptr());
    let is_about_all =
        |effect: &str| ["SELECT", "SWAPDB", "FLUSH"].iter().any(|name| effect.to_uppercase().contains(name));
    let effects = split(journal).into_iter().take_while(before).map(escape);
    let story: Vec<String> = effects.filter(|effect| effect.contains(text) || is_about_all(effect)).collect();
    story[story.len().saturating_sub(STORY_MAX)..].to_vec()
}

/// Checks that the replayed journal gives the engine's data.
fn assert_equal(engine: &Arc<Engine>, journal: &[u8], seed: u64) {
    let replayed = replay(journal, seed);
    let (held, given) = (contents(engine), contents(&replayed));
    let differing: Vec<_> = held.iter().zip(&given).filter(|(held, given)| held != given).collect();
    let last = differing.first().and_then(|(held, _)| held.split(' ').nth(1)).unwrap_or_default();
    let story = story(journal, &format!("\\n{last}\\r"), None);
    let is_same = differing.is_empty() && held.len() == given.len();
    assert!(is_same, "seed {seed}: what was held, what the journal gives: {differing:#?}\n{story:#?}");
}

/// Runs random writers on an engine, and returns its journal.
fn written(
    options: &[(Opt, &str)],
    (seed, scope): (u64, &Scope),
    writers: u64,
    commands: usize,
) -> (Arc<Engine>, Vec<u8>) {
    let engine = engine(options);
    let taker = Mutex::new((engine.journal.subscribe(), Vec::new()));
    let take = || {
        let (reader, journal) = &mut *taker.lock().expect("no writer fails while it takes");
        reader.read(journal);
    };
    thread::scope(|threads| {
        for writer in 0..writers {
            let (engine, take) = (&engine, &take);
            threads.spawn(move || write(engine, (seed + writer, scope), commands, take));
        }
    });
    settle(&engine);
    contents(&engine);
    take();
    let (_, journal) = taker.into_inner().expect("no writer failed");
    (engine, journal)
}

fn run(options: &[(Opt, &str)], seed: u64, writers: u64, commands: usize) {
    let (engine, journal) = written(options, (seed, &Scope::default()), writers, commands);
    assert_equal(&engine, &journal, seed);
}

#[test]
fn the_journal_of_a_stream_with_counts_at_their_maximum_replays() {
    let engine = engine(&[]);
    let (mut reader, mut journal) = (engine.journal.subscribe(), Vec::new());
    let mut local = Local::open(&engine, || {});
    for line in [
        "XADD x 1-0 a 1",
        "XGROUP CREATE x g 0 ENTRIESREAD 9223372036854775807",
        "XREADGROUP GROUP g c STREAMS x >",
        "XSETID x 1-0 ENTRIESADDED 9223372036854775807",
        "XADD x 2-0 a 2",
        "XGROUP CREATE x h 1-0",
        "XREADGROUP GROUP h c STREAMS x >",
    ] {
        ask_text(&mut local, line);
    }
    let info = escape(&ask_text(&mut local, "XINFO STREAM x"));
    assert!(info.contains(r"entries-added\r\n:9223372036854775807\r\n"), "{info}");
    reader.read(&mut journal);
    assert_equal(&engine, &journal, 0);
}

#[test]
fn the_journal_of_a_sorted_set_with_a_negative_zero_gives_the_same_data() {
    let engine = engine(&[]);
    let (mut reader, mut journal) = (engine.journal.subscribe(), Vec::new());
    let (mut local, long) = (Local::open(&engine, || {}), "m".repeat(100));
    ask_text(&mut local, &format!("SADD s a b {long}"));
    ask_text(&mut local, "ZUNIONSTORE z 1 s WEIGHTS -0");
    assert_eq!(ask_text(&mut local, "ZSCORE z a"), b"$2\r\n-0\r\n");
    reader.read(&mut journal);
    assert_equal(&engine, &journal, 0);
}

#[test]
fn the_journal_of_a_result_over_an_expired_key_gives_the_same_data() {
    let engine = engine(&[]);
    let (mut reader, mut journal) = (engine.journal.subscribe(), Vec::new());
    let (mut local, now, mut replies) = (Local::open(&engine, || {}), Instant::now(), Vec::new());
    let later = Instant { wall_us: now.wall_us + 1_000_000, monotonic_us: now.monotonic_us + 1_000_000 };
    for (time, lines) in [(now, "SET to b PX 1\r\nSET one a\r\n"), (later, "BITOP ANDOR to one one\r\n")] {
        local.exchange_at(time, lines.as_bytes(), &mut replies).expect("nothing here ends a session");
    }
    assert_eq!(escape(&replies), r"+OK\r\n+OK\r\n:1\r\n");
    reader.read(&mut journal);
    assert_equal(&engine, &journal, 0);
}

#[test]
fn the_journal_of_one_writer_gives_the_same_data() {
    for seed in seed(100)..seed(100) + 10 {
        run(&[(Opt::Workers, "1")], seed, 1, 5_000);
    }
}

#[test]
fn the_journal_of_many_writers_gives_the_same_data() {
    for seed in (seed(1000)..seed(1000) + 8 * WRITERS).step_by(WRITERS as usize) {
        run(&[(Opt::Workers, "2")], seed, WRITERS, 3_000);
    }
}

#[test]
fn the_journal_of_a_run_that_evicts_gives_the_same_data() {
    let policies = [
        "noeviction",
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ];
    for (policy, workers) in policies.iter().flat_map(|policy| [(policy, "1"), (policy, "2")]) {
        let empty = engine(&[(Opt::Workers, workers)]).used_bytes();
        let limit = (empty + ROOM_BYTES).to_string();
        let options = [(Opt::Workers, workers), (Opt::MaxmemoryPolicy, policy), (Opt::Maxmemory, &limit)];
        run(&options, seed(7), 2, 2_000);
    }
}

/// Runs journals that another server loads as its own AOF.
fn runs_for_peers(kind: Kind, scope: &Scope) {
    let mut peer = Peer::start(kind);
    let scope = match peer.knows("xcfgset") {
        true => scope.clone(),
        false => scope.clone().without_producers(),
    };
    for seed in seed(500)..seed(500) + 6 {
        let (engine, journal) = written(&[(Opt::Workers, "2")], (seed, &scope), 2, 2_500);
        peer.load(&journal);
        let (held, loaded) = (peer.contents_of(&engine), peer.contents());
        let differing: Vec<_> = held.iter().zip(&loaded).filter(|(held, loaded)| held != loaded).collect();
        let key = differing.first().and_then(|(held, _)| held.split(' ').nth(1)).unwrap_or_default();
        let story = story(&journal, &format!("\\n{key}\\r"), None);
        let is_same = differing.is_empty() && held.len() == loaded.len();
        assert!(is_same, "seed {seed}: what was held, what {} made of it: {differing:#?}\n{story:#?}", kind.name());
    }
}

#[test]
fn redis_7_loads_the_journal_of_commands_that_it_knows() {
    let mut scope = Scope::default();
    // Deadlines of fields are newer than Redis 7, which does not know their commands.
    scope.rows.retain(|row| row.group != Group::Hash || row.docs.since < "7.4" || row.full_name == "hgetdel");
    runs_for_peers(Kind::Redis, &scope);
}

#[test]
fn redis_8_loads_the_journal() {
    // Redis 8 bounds a group's entries-read by the stream's length, which no other server does.
    runs_for_peers(Kind::Redis8, &Scope { entries_read: false, ..Scope::default() });
}

#[test]
fn valkey_9_loads_the_journal() {
    runs_for_peers(Kind::Valkey, &Scope::default());
}
