//! An engine with a log, and beside it the model: an empty engine to which the journal is applied as far as a snapshot goes.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use sleeve_disk::BASE_OFFSET_FIELD;
use sleeve_disk::disk::{Disk, read_small};
use sleeve_server::boot;
use sleeve_server::engine::journal::Reader;
use sleeve_server::engine::origin::Origin;
use sleeve_server::host::clock::Instant;
use sleeve_server::{Config, Engine, Local, Opt, Replay};
use sleeve_store::Store;
use sleeve_store::dump_file::Inserter;
use sleeve_store::rdb::Limits;
use sleeve_store::rdb::file::{Batch, Event, Reader as BaseReader};

use crate::persistence::replay::content::{ask_text, contents_at, without_numbers};

/// The most bytes of a base.
const BASE_BYTES_MAX: u64 = 16 << 30;

/// The number of bytes of the journal that are applied at once.
const PIECE_BYTES: usize = 1 << 20;

/// A time at which nothing has expired.
const LONG_AGO: Instant = Instant { wall_us: 1_000_000, monotonic_us: 1_000_000 };

/// An engine and the model of its snapshots.
pub struct Rig {
    pub engine: Arc<Engine>,
    disk: Arc<dyn Disk>,
    local: Local,
    reader: Reader,
    /// The journal behind the model's offset.
    journal: Vec<u8>,
    model: Arc<Engine>,
    replay: Replay,
}

/// A snapshot: its bytes, and an engine that has loaded it.
pub struct Taken {
    pub bytes: Vec<u8>,
    pub loaded: Arc<Engine>,
    /// The journal's offset that the snapshot stands for.
    offset: u64,
}

fn engine(options: &[(Opt, &str)], disk: &Arc<dyn Disk>) -> Arc<Engine> {
    let config = Config::default();
    for &(option, value) in options {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    Engine::begin(config, Origin::of_machine().on(Arc::clone(disk)))
}

impl Rig {
    /// Returns an empty engine with an AOF on this disk.
    pub fn new(options: &[(Opt, &str)], disk: Arc<dyn Disk>) -> Rig {
        let debug = (Opt::EnableDebugCommand, "yes");
        let log = [(Opt::Appendonly, "yes"), (Opt::Appendfsync, "no"), (Opt::AutoAofRewritePercentage, "0")];
        let engine_of_test = engine(&[&[debug], log.as_slice(), options].concat(), &disk);
        boot::load(&engine_of_test).expect("a log begins");
        let reader = engine_of_test.journal.subscribe();
        let model = engine(&[debug], &disk);
        let replay = Replay::begin(&model, reader.offset());
        let local = Local::open(&engine_of_test, || {});
        Rig { engine: engine_of_test, disk, local, reader, journal: Vec::new(), model, replay }
    }

    /// Sends a command that is written with spaces between its words.
    pub fn ask(&mut self, text: &str) -> String {
        String::from_utf8_lossy(&ask_text(&mut self.local, text)).into_owned()
    }

    /// Returns a line of INFO.
    pub fn info(&mut self, name: &str) -> String {
        let text = self.ask("INFO everything");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{name} is not in {text}"))
    }

    /// Begins a snapshot.
    pub fn begin_snapshot(&mut self) {
        assert_eq!(self.ask("BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    }

    /// Waits for the snapshot that has begun, and compares it with the model.
    pub fn end_snapshot(&mut self) -> Taken {
        while self.info("aof_rewrite_in_progress") == "1" {
            self.reader.wait(Duration::from_millis(1));
            self.reader.read(&mut self.journal);
        }
        self.reader.read(&mut self.journal);
        assert_eq!(self.info("aof_last_bgrewrite_status"), "ok");
        let taken = self.load();
        self.compare(&taken);
        taken
    }

    fn load(&self) -> Taken {
        let folder = self.engine.persistence.aof.folder_path(&self.engine);
        let names = self.disk.list(&folder).expect("the log's folder");
        let bases: Vec<&String> = names.iter().filter(|name| name.ends_with(".base.rdb")).collect();
        let [base] = bases[..] else { panic!("one base is left of {names:?}") };
        let bytes = read_small(self.disk.as_ref(), &folder.join(Path::new(base)), BASE_BYTES_MAX).expect("the base");
        let loaded = engine(&[(Opt::EnableDebugCommand, "yes")], &self.disk);
        let offset = put_into(&loaded.keyspace.store, &bytes);
        Taken { bytes, loaded, offset: offset.expect("a base names its offset") }
    }

    /// Brings the model to the offset of the snapshot, and checks that both hold the same data.
    fn compare(&mut self, taken: &Taken) {
        let length = usize::try_from(taken.offset - self.replay.offset()).expect("it fits into memory");
        assert!(length <= self.journal.len(), "it stands beyond the journal");
        let mut used = 0;
        while used < length {
            let end = length.min(used + PIECE_BYTES);
            let applied = self.replay.apply(&self.journal[used..end], Instant::now());
            let applied = applied.unwrap_or_else(|refused| panic!("{refused}"));
            assert!(applied > 0 || end < length, "it ends within a request");
            used += applied;
            if applied == 0 {
                used += self.replay.apply(&self.journal[used..length], Instant::now()).expect("a long request");
            }
        }
        assert_eq!((self.replay.offset(), self.replay.open_transaction()), (taken.offset, None));
        self.journal.drain(..length);
        let [expected, found] = [&self.model, &taken.loaded].map(lines);
        let differing = expected.iter().zip(&found).filter(|(expected, found)| expected != found);
        let (zeros, mut differing): (Vec<_>, Vec<_>) =
            differing.partition(|lines| differ_by_signs_of_zero(lines, [&self.model, &taken.loaded]));
        if !zeros.is_empty() {
            differing.retain(|(expected, _)| !expected.starts_with("digest "));
        }
        let is_same = differing.is_empty() && expected.len() == found.len();
        assert!(is_same, "offset {}: what was there, what the snapshot has: {differing:#?}", taken.offset);
    }
}

/// Returns whether these lines describe a sorted set with scores that differ by the sign of a zero alone. As in Redis only a
/// large one keeps that sign, and one that has become small again stays large until it is loaded from a file.
fn differ_by_signs_of_zero((expected, found): &(&String, &String), engines: [&Arc<Engine>; 2]) -> bool {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let [expected, found] = [words(expected), words(found)];
    let is_digest = |word: &str| word.starts_with(r"*1\r\n+");
    let [database, key, kind, ..] = &expected[..] else { return false };
    let are_else_equal = expected.len() == found.len()
        && expected.iter().zip(&found).all(|(one, other)| one == other || (is_digest(one) && is_digest(other)));
    if kind != "zset" || !are_else_equal {
        return false;
    }
    let request = format!("SELECT {}\r\nZRANGE {key} 0 -1 WITHSCORES\r\n", database.trim_start_matches("db"));
    let [expected, found] = engines.map(|engine| {
        let mut replies = Vec::new();
        Local::open(engine, || {}).exchange(request.as_bytes(), &mut replies).expect("the session lives");
        String::from_utf8_lossy(&replies).into_owned()
    });
    let unsigned = |replies: &str| replies.replace("$2\r\n-0\r\n", "$1\r\n0\r\n");
    expected != found && unsigned(&expected) == unsigned(&found)
}

/// Loads a base into an empty store, expired keys too, and returns the journal's offset that the base names.
fn put_into(store: &Store, base: &[u8]) -> Option<u64> {
    let limits = Limits { now_ms: i64::MIN, ..Limits::usual(store.hash_key()) };
    let (mut reader, mut batch, mut offset) = (BaseReader::new(base, limits), Batch::default(), None);
    let mut inserter = Inserter::new(limits, i64::MIN);
    loop {
        let event = reader.next_batch(&mut batch, PIECE_BYTES);
        let put = inserter.insert(store, &mut batch, &|_| 0);
        put.unwrap_or_else(|error| panic!("the base has {error}"));
        match event.unwrap_or_else(|error| panic!("the base cannot be read: {error}")) {
            Some(Event::Aux { name, value }) if name == BASE_OFFSET_FIELD.as_bytes() => {
                offset = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
            }
            Some(Event::End) => return offset,
            _ => {}
        }
    }
}

/// Fields about the layout of a stream's blocks, which depends on the history of the stream.
const LAYOUT: [&str; 2] = ["radix-tree-keys\\r\\n:", "radix-tree-nodes\\r\\n:"];

/// Returns the data of an engine, without functions, which are not kept by the store.
fn lines(engine: &Arc<Engine>) -> Vec<String> {
    let lines = contents_at(engine, LONG_AGO).into_iter().filter(|line| !line.starts_with("functions"));
    lines.map(|line| without_numbers(&line, &LAYOUT)).collect()
}

/// The number of changes that writers may still make. It keeps them at work while snapshots are taken, and stops them in
/// between.
#[derive(Default)]
pub struct Allowance {
    /// The number of changes, and whether the run has ended.
    left: Mutex<(usize, bool)>,
    more: Condvar,
}

impl Allowance {
    /// Waits until one more change may be made; returns false if the run has ended.
    pub fn take(&self) -> bool {
        let left = self.left.lock().expect("nobody fails with it");
        let mut left = self.more.wait_while(left, |(count, is_over)| *count == 0 && !*is_over).expect("as above");
        left.0 = left.0.saturating_sub(1);
        !left.1
    }

    /// Returns the number of changes that are left, and whether the run has ended.
    pub fn left(&self) -> (usize, bool) {
        *self.left.lock().expect("nobody fails with it")
    }

    /// Lets writers make so many changes, or none ever again.
    pub fn set(&self, count: usize, is_over: bool) {
        *self.left.lock().expect("nobody fails with it") = (count, is_over);
        self.more.notify_all();
    }
}

/// Ends the writers when it is dropped, even if the test has failed.
pub struct End<'a>(pub &'a Allowance);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.set(0, true);
    }
}

/// The work of a thread beside snapshots, for as long as it is allowed; called with the number of the thread.
pub type Writer<'a> = &'a (dyn Fn(&Arc<Engine>, u64, &Allowance) + Sync);

/// Takes so many snapshots while so many threads write. During each snapshot the threads may make so many changes.
pub fn take_beside(
    rig: &mut Rig,
    (writer, threads): (Writer<'_>, u64),
    (snapshots, changes): (usize, usize),
    check: &mut dyn FnMut(&mut Rig, Taken),
) {
    let allowance = Allowance::default();
    let engine = Arc::clone(&rig.engine);
    thread::scope(|scope| {
        let _end = End(&allowance);
        for number in 0..threads {
            let (engine, allowance) = (&engine, &allowance);
            scope.spawn(move || writer(engine, number, allowance));
        }
        for _ in 0..snapshots {
            allowance.set(changes, false);
            rig.begin_snapshot();
            let taken = rig.end_snapshot();
            check(rig, taken);
        }
    });
}
