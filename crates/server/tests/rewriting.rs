//! Tests of an engine that serves only its own program. Its AOF is begun and rewritten as a server's is, also in place of an
//! older AOF.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::passing::{Between, PassingDisk};
use sleeve_disk::disk::{Disk, File, Open};
use sleeve_server::boot;
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Config, Engine, Local, Opt};

use crate::healing::{ask, wait_until};

/// Returns an engine that has loaded the data on this disk.
fn begin(disk: &MemoryDisk, options: &[(Opt, &str)]) -> Arc<Engine> {
    let config = Config::default();
    for (option, value) in options.iter().chain(&[(Opt::EnableDebugCommand, "yes")]) {
        config.assign(*option, &[value.as_bytes()]).expect("an option of the table");
    }
    let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(disk.clone())));
    boot::load(&engine).expect("what was left can be loaded");
    engine
}

/// Returns a number in INFO.
fn info(local: &mut Local, name: &str) -> u64 {
    number(&ask(local, "INFO persistence"), name)
}

fn number(text: &str, name: &str) -> u64 {
    let number = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} is not in {text}"))
}

/// Returns whether no rewrite or snapshot runs or is pending, and this many bases have been written.
fn is_over(local: &mut Local, bases: u64) -> bool {
    let names = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
    // Take all fields from one reply: between two calls of INFO another rewrite may begin.
    let text = ask(local, "INFO persistence");
    names.iter().all(|name| number(&text, name) == 0) && number(&text, "aof_rewrites") == bases
}

/// Makes a snapshot wait until it is released.
fn hold_snapshot(local: &mut Local) {
    assert_eq!(ask(local, "MSET a 1 b 2"), "+OK\r\n");
    assert_eq!(ask(local, "CONFIG SET rdb-key-save-delay 100000000"), "+OK\r\n");
    assert_eq!(ask(local, "BGSAVE"), "+Background saving started\r\n");
}

fn assert_is_there_again(disk: &MemoryDisk, engine: Arc<Engine>, options: &[(Opt, &str)]) {
    let digest = ask(&mut Local::open(&engine, || {}), "DEBUG DIGEST");
    engine.persistence.aof.finish(&engine);
    let again = begin(disk, options);
    assert_eq!(ask(&mut Local::open(&again, || {}), "DEBUG DIGEST"), digest);
    again.persistence.aof.finish(&again);
}

#[test]
fn a_log_that_has_grown_is_rewritten_by_itself() {
    let disk = MemoryDisk::new();
    let options = [(Opt::Appendonly, "yes"), (Opt::AutoAofRewriteMinSize, "1gb")];
    let engine = begin(&disk, &options);
    let mut local = Local::open(&engine, || {});
    write_much(&mut local);
    assert!(info(&mut local, "aof_current_size") > 20_000);
    assert_eq!(ask(&mut local, "CONFIG SET auto-aof-rewrite-min-size 10kb"), "+OK\r\n");
    wait_until("the rewrite", || is_over(&mut local, 2));
    assert!(info(&mut local, "aof_current_size") < 1_000);
    assert_is_there_again(&disk, engine, &options);
}

#[test]
fn a_log_is_begun_and_rewritten_behind_the_snapshot_that_is_being_written() {
    let disk = MemoryDisk::new();
    let engine = begin(&disk, &[]);
    let mut local = Local::open(&engine, || {});
    hold_snapshot(&mut local);
    assert_eq!(ask(&mut local, "CONFIG SET appendonly yes"), "+OK\r\n");
    assert_eq!(info(&mut local, "aof_rewrite_scheduled"), 1);
    assert_eq!(ask(&mut local, "CONFIG SET rdb-key-save-delay 0"), "+OK\r\n");
    wait_until("the first base", || is_over(&mut local, 1));
    assert_eq!(ask(&mut local, "SET later 1"), "+OK\r\n");
    hold_snapshot(&mut local);
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting scheduled\r\n");
    assert_eq!(ask(&mut local, "CONFIG SET rdb-key-save-delay 0"), "+OK\r\n");
    wait_until("the rewrite", || is_over(&mut local, 2));
    assert_is_there_again(&disk, engine, &[(Opt::Appendonly, "yes")]);
}

/// Writes many values to one key, so that the AOF is much larger than the data.
fn write_much(local: &mut Local) {
    for number in 0..200 {
        assert_eq!(ask(local, &format!("SET key {}{number}", "v".repeat(100))), "+OK\r\n");
    }
}

#[test]
fn a_log_over_an_older_one_that_was_not_read_goes_on_where_that_ended() {
    let logged = [(Opt::Appendonly, "yes"), (Opt::AofDisableAutoGc, "yes")];
    for begins in ["CONFIG SET appendonly yes", "BGREWRITEAOF"] {
        let disk = MemoryDisk::new();
        let first = begin(&disk, &logged);
        write_much(&mut Local::open(&first, || {}));
        let end = first.journal.end();
        first.persistence.aof.finish(&first);
        let second = begin(&disk, &logged[1..]);
        let mut local = Local::open(&second, || {});
        assert_eq!(ask(&mut local, "SET other 1"), "+OK\r\n");
        assert!(ask(&mut local, begins).starts_with('+'));
        wait_until("the base", || is_over(&mut local, 1));
        assert!(second.journal.end() >= end, "{begins}");
        if begins != "BGREWRITEAOF" {
            assert_eq!(ask(&mut local, "SET later 1"), "+OK\r\n");
        }
        // The files of the first engine still exist, and the manifest lists them as history.
        assert_is_there_again(&disk, second, &logged);
    }
}

#[test]
fn an_old_base_in_requests_is_history_however_long_it_is() {
    let disk = MemoryDisk::new();
    let first = begin(&disk, &[]);
    let mut local = Local::open(&first, || {});
    assert_eq!(ask(&mut local, &format!("SET key {}", "v".repeat(10_000))), "+OK\r\n");
    assert_eq!(ask(&mut local, "BGSAVE"), "+Background saving started\r\n");
    wait_until("the snapshot", || is_over(&mut local, 0));
    let logged = [(Opt::Appendonly, "yes"), (Opt::AofDisableAutoGc, "yes"), (Opt::AofUseRdbPreamble, "no")];
    // The journal of the second engine is much shorter than the base with which it begins.
    let second = begin(&disk, &logged);
    let mut local = Local::open(&second, || {});
    assert_eq!(ask(&mut local, "SET other 1"), "+OK\r\n");
    assert!(ask(&mut local, "BGREWRITEAOF").starts_with('+'));
    wait_until("the rewrite", || is_over(&mut local, 2));
    assert_is_there_again(&disk, second, &logged);
}

#[test]
fn two_engines_that_write_one_snapshot_at_once_do_not_mix_their_bytes() {
    let disk = MemoryDisk::new();
    let engines = [begin(&disk, &[]), begin(&disk, &[])];
    let digests = engines.each_ref().map(|engine| {
        let mut local = Local::open(engine, || {});
        assert_eq!(ask(&mut local, &format!("SET name {}", engine.identity.run_id)), "+OK\r\n");
        hold_snapshot(&mut local);
        wait_until("the file", || info(&mut local, "current_save_keys_processed") > 0);
        ask(&mut local, "DEBUG DIGEST")
    });
    for engine in &engines {
        let mut local = Local::open(engine, || {});
        assert_eq!(ask(&mut local, "CONFIG SET rdb-key-save-delay 0"), "+OK\r\n");
        wait_until("the snapshot", || is_over(&mut local, 0));
        assert!(ask(&mut local, "INFO persistence").contains("rdb_last_bgsave_status:ok"));
    }
    let again = begin(&disk, &[]);
    assert!(digests.contains(&ask(&mut Local::open(&again, || {}), "DEBUG DIGEST")));
}

#[test]
fn an_engine_that_ends_snapshots_drops_the_running_and_the_queued_one() {
    let disk = MemoryDisk::new();
    let options = [(Opt::Appendonly, "yes")];
    let engine = begin(&disk, &options);
    let mut local = Local::open(&engine, || {});
    hold_snapshot(&mut local);
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting scheduled\r\n");
    engine.persistence.snapshots.close();
    assert_eq!(ask(&mut local, "BGSAVE"), "-ERR Background saving error: the engine ends\r\n");
    assert_eq!((info(&mut local, "rdb_saves"), info(&mut local, "aof_rewrites")), (0, 1));
    assert_is_there_again(&disk, engine, &options);
}

#[test]
fn a_start_removes_a_base_that_a_process_which_died_has_left() {
    let (disk, options) = (MemoryDisk::new(), [(Opt::Appendonly, "yes")]);
    let engine = begin(&disk, &options);
    assert_eq!(ask(&mut Local::open(&engine, || {}), "SET key value"), "+OK\r\n");
    engine.persistence.aof.finish(&engine);
    let names = ["temp-rewriteaof-bg-appendonly.aof.12345.aof", "temp-rewriteaof-bg-12345.aof"];
    let [own, another_servers] = names.map(|name| engine.persistence.aof.folder_path(&engine).join(name));
    for path in [&own, &another_servers] {
        disk.open(path, Open::Create).expect("a file");
    }
    let again = begin(&disk, &options);
    assert!(disk.size(&own).is_err() && disk.size(&another_servers).is_ok());
    assert_eq!(ask(&mut Local::open(&again, || {}), "GET key"), "$5\r\nvalue\r\n");
    again.persistence.aof.finish(&again);
}

/// A disk that holds appends to one increment back. It also holds the rewrite back, before its instant, until such an append
/// waits.
#[derive(Debug)]
struct Held {
    /// The name of the increment at the time at which it was opened.
    increment: &'static str,
    state: Mutex<HeldState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct HeldState {
    is_holding: bool,
    /// The number of waiting appends.
    waiting: usize,
    /// A manifest is about to be renamed to its final name.
    is_renaming: bool,
    /// The base has been begun.
    has_base: bool,
}

impl Held {
    fn new(increment: &'static str) -> Self {
        Self { increment, state: Mutex::default(), changed: Condvar::new() }
    }

    fn with<R>(&self, change: impl FnOnce(&mut HeldState) -> R) -> R {
        let result = change(&mut self.state.lock().expect("nobody fails with it"));
        self.changed.notify_all();
        result
    }

    fn wait_while(&self, is_so: impl Fn(&HeldState) -> bool) {
        let state = self.state.lock().expect("nobody fails with it");
        drop(self.changed.wait_while(state, |state| is_so(state)));
    }

    /// Begins to hold calls back, with a new state.
    fn hold(&self) {
        self.with(|state| *state = HeldState { is_holding: true, ..HeldState::default() });
    }
}

impl Between for Held {
    fn rename(&self, disk: &dyn Disk, from: &Path, to: &Path) -> io::Result<()> {
        // The renamed file is the manifest that names the next increment.
        self.with(|state| state.is_renaming = true);
        self.wait_while(|state| state.is_holding && state.waiting == 0);
        disk.rename(from, to)
    }

    fn append(&self, file: &dyn File, path: &Path, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let name = path.to_string_lossy();
        if name.contains("temp-rewriteaof") {
            self.with(|state| state.has_base = true);
        } else if name.contains(self.increment) {
            self.with(|state| state.waiting += 1);
            self.wait_while(|state| state.is_holding);
            self.with(|state| state.waiting -= 1);
        }
        file.append(slices)
    }
}

#[test]
fn the_instant_of_a_rewrite_does_not_wait_for_who_waits_for_the_disk() {
    let disk = PassingDisk::new(Arc::new(MemoryDisk::new()), Held::new("temp-appendonly.aof.incr"));
    let config = Config::default();
    config.assign(Opt::Appendonly, &[b"yes"]).expect("an option of the table");
    // Use many shards: a client that reads a key waits for the disk if its shard also has the data that is being written.
    config.assign(Opt::Shards, &[b"256"]).expect("an option of the table");
    let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(disk.clone())));
    boot::load(&engine).expect("a log begins");
    let (mut local, mut writer) = (Local::open(&engine, || {}), Local::open(&engine, || {}));
    assert_eq!(ask(&mut local, "SET a 1"), "+OK\r\n");
    // Begin here, after the first base, so that the state has no trace of it.
    disk.between().hold();
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    let has_base = || disk.between().with(|state| state.has_base);
    let mut came = false;
    thread::scope(|scope| {
        scope.spawn(|| {
            // Write only after this: before it, the rewrite needs the AOF, which the writing thread would have.
            disk.between().wait_while(|state| state.is_holding && !state.is_renaming);
            assert_eq!(ask(&mut writer, "SET b 2"), "+OK\r\n");
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while !has_base() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        if has_base() {
            assert_eq!(ask(&mut local, "GET a"), "$1\r\n1\r\n");
        }
        came = has_base();
        // Release the appends even if the base was not begun: otherwise the writer would never end.
        disk.between().with(|state| state.is_holding = false);
    });
    assert!(came, "the base was not begun while the disk was waited for");
    wait_until("its end", || is_over(&mut local, 2));
    assert_eq!(ask(&mut local, "GET b"), "$1\r\n2\r\n");
    engine.persistence.aof.finish(&engine);
}

#[test]
fn what_a_new_base_stands_for_is_on_the_disk() {
    let disk = MemoryDisk::new();
    // With this policy no thread fsyncs the increment.
    let engine = begin(&disk, &[(Opt::Appendonly, "yes"), (Opt::Appendfsync, "no")]);
    let mut local = Local::open(&engine, || {});
    wait_until("the first base", || is_over(&mut local, 1));
    assert_eq!(ask(&mut local, "SET a 1"), "+OK\r\n");
    assert!(info(&mut local, "aof_synced_offset") < info(&mut local, "aof_written_offset"));
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    wait_until("the rewrite", || is_over(&mut local, 2));
    assert_eq!(info(&mut local, "aof_synced_offset"), info(&mut local, "aof_written_offset"));
    assert_eq!(ask(&mut local, "WAITAOF 1 0 10000"), "*2\r\n:1\r\n:0\r\n");
    engine.persistence.aof.finish(&engine);
}

#[test]
fn options_of_the_log_are_changed_while_the_disk_is_waited_for() {
    let disk = PassingDisk::new(Arc::new(MemoryDisk::new()), Held::new(".2.incr.aof"));
    let config = Config::default();
    for (option, value) in [(Opt::Appendonly, "yes"), (Opt::AofDisableAutoGc, "yes")] {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(disk.clone())));
    boot::load(&engine).expect("a log begins");
    let (mut local, mut writer, mut other) =
        (Local::open(&engine, || {}), Local::open(&engine, || {}), Local::open(&engine, || {}));
    assert_eq!(ask(&mut local, "SET a 1"), "+OK\r\n");
    // Its history is a file that is not needed any more.
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    wait_until("its end", || is_over(&mut local, 2));
    disk.between().hold();
    let (done, is_done) = mpsc::channel();
    let mut came = true;
    thread::scope(|scope| {
        scope.spawn(move || assert_eq!(ask(&mut writer, "SET b 2"), "+OK\r\n"));
        disk.between().wait_while(|state| state.waiting == 0);
        scope.spawn(move || {
            for words in ["appendfsync always", "appendfsync no", "aof-checksums no", "aof-timestamp-enabled yes"] {
                assert_eq!(ask(&mut other, &format!("CONFIG SET {words}")), "+OK\r\n");
            }
            assert_eq!(ask(&mut other, "CONFIG SET aof-disable-auto-gc no"), "+OK\r\n");
            done.send(()).expect("the test waits");
        });
        came = is_done.recv_timeout(Duration::from_secs(60)).is_ok();
        disk.between().with(|state| state.is_holding = false);
    });
    assert!(came, "an option waited for the disk");
    engine.persistence.aof.finish(&engine);
}

#[test]
fn what_an_older_log_has_said_of_its_end_is_not_said_of_a_new_one() {
    let disk = MemoryDisk::new();
    let engine = begin(&disk, &[]);
    let mut local = Local::open(&engine, || {});
    assert_eq!(ask(&mut local, "SET a 1"), "+OK\r\n");
    let stale = engine.persistence.aof.folder_path(&engine).join("appendonly.aof.stream");
    drop(engine.persistence.aof.open_folder(&engine).expect("it is made"));
    disk.open(&stale, Open::Create).and_then(|file| file.append(&[IoSlice::new(b"id 1 0")])).expect("a file");
    assert_eq!(ask(&mut local, "CONFIG SET appendonly yes"), "+OK\r\n");
    wait_until("its first base", || is_over(&mut local, 1));
    assert!(disk.open(&stale, Open::Read).is_err(), "it is still there");
    engine.persistence.aof.finish(&engine);
}
