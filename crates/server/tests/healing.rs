//! Tests of an engine on a disk with a failing fsync: bytes that may be lost are written again, whether or not the journal
//! still has them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sleeve_disk::disk::crashing::{CrashingDisk, Fault, Plan};
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::passing::{Between, PassingDisk};
use sleeve_disk::disk::{Disk, File};
use sleeve_server::boot;
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Config, Engine, Local, Opt, Replay};

use crate::logged::Logged;

/// Returns an engine that has loaded the data on this disk.
pub(crate) fn begin(disk: &(impl Disk + Clone + 'static), policy: &str) -> Arc<Engine> {
    let config = Config::default();
    for (option, value) in [(Opt::Appendonly, "yes"), (Opt::Appendfsync, policy), (Opt::EnableDebugCommand, "yes")] {
        config.assign(option, &[value.as_bytes()]).expect("an option of the table");
    }
    let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(disk.clone())));
    boot::load(&engine).expect("what was left is a log");
    engine
}

pub(crate) fn ask(local: &mut Local, request: &str) -> String {
    let mut replies = Vec::new();
    local.exchange(format!("{request}\r\n").as_bytes(), &mut replies).expect("the session lives");
    String::from_utf8(replies).expect("text")
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Writes under one policy, lets the disk fail under another, and cuts the power after the disk works again.
fn heal(before: &str, after: &str) {
    let disk = CrashingDisk::new(Plan::default());
    let engine = begin(&disk, before);
    let (mut local, mut length) = (Local::open(&engine, || {}), 0);
    let mut is_synced = true;
    while is_synced {
        for _ in 0..500 {
            length += 1;
            assert_eq!(ask(&mut local, &format!("RPUSH list {length}")), format!(":{length}\r\n"));
        }
        // No more writes follow. The remaining calls are checks of file sizes, the fsync, and attempts to heal.
        let first = disk.calls() + 1;
        disk.fail((first..first + 8).map(|call| (call, Fault::Broken)).collect::<BTreeMap<_, _>>(), None);
        let offsets = ask(&mut local, "INFO persistence");
        let offset = |name: &str| offsets.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        is_synced = offset("aof_written_offset:") == offset("aof_synced_offset:");
    }
    assert_eq!(ask(&mut local, &format!("CONFIG SET appendfsync {after}")), "+OK\r\n");
    wait_until("the failure", || ask(&mut local, "INFO persistence").contains("aof_last_write_status:err"));
    wait_until("the healing", || ask(&mut local, "SET later 1") == "+OK\r\n");
    assert_eq!(ask(&mut local, "WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    let digest = ask(&mut local, "DEBUG DIGEST");
    for seed in 0..8 {
        let left = disk.survivors(seed, Plan::default());
        let again = begin(&left, after);
        assert_eq!(ask(&mut Local::open(&again, || {}), "DEBUG DIGEST"), digest, "{before}, then {after}, {seed}");
        again.persistence.aof.finish(&again);
    }
    engine.persistence.aof.finish(&engine);
}

#[test]
fn a_sync_that_fails_loses_nothing_of_what_was_written_before() {
    heal("everysec", "everysec");
    heal("everysec", "always");
}

#[test]
fn what_was_written_under_no_is_healed_when_a_later_sync_fails() {
    heal("no", "everysec");
    heal("no", "always");
}

/// A disk on which one fsync fails while another is in flight. As on a real system, only the first of them reports that bytes
/// could not be written.
#[derive(Debug)]
struct TellsOnce {
    disk: CrashingDisk,
    /// Whether the failure is due, and the number of fsyncs that have begun since it was.
    begun: Mutex<(bool, usize)>,
    more: Condvar,
}

impl Between for TellsOnce {
    fn sync(&self, file: &dyn File, _path: &Path) -> io::Result<()> {
        let mut begun = self.begun.lock().expect("nobody fails with it");
        if !begun.0 {
            return file.sync();
        }
        begun.1 += 1;
        self.more.notify_all();
        if begun.1 > 1 {
            // Wait until the first fsync has got the error.
            drop(self.more.wait_while(begun, |begun| begun.0));
            return file.sync();
        }
        // Wait for the second fsync. If the engine never calls two at a time, the second never begins, so the wait has a time
        // limit.
        let (mut begun, _) = self.more.wait_timeout_while(begun, SECOND_MAX, |begun| begun.1 < 2).expect("as above");
        self.disk.fail(BTreeMap::from([(self.disk.calls() + 1, Fault::Broken)]), None);
        let synced = file.sync();
        begun.0 = false;
        self.more.notify_all();
        synced
    }
}

const SECOND_MAX: Duration = Duration::from_millis(300);

#[test]
fn a_failed_sync_is_not_durable_for_another_sync_at_the_same_time() {
    let disk = CrashingDisk::new(Plan::default());
    let (begun, more) = (Mutex::new((false, 0)), Condvar::new());
    let passing = PassingDisk::new(Arc::new(disk.clone()), TellsOnce { disk: disk.clone(), begun, more });
    let engine = begin(&passing, "everysec");
    let mut local = Local::open(&engine, || {});
    assert_eq!(ask(&mut local, "SET before 1"), "+OK\r\n");
    assert_eq!(ask(&mut local, "WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    passing.between().begun.lock().expect("nobody fails with it").0 = true;
    assert_eq!(ask(&mut local, "SET key value"), "+OK\r\n");
    // The engine's thread calls fsync within a second, and now this thread does as well.
    wait_until("a sync", || passing.between().begun.lock().expect("nobody fails with it").1 > 0);
    engine.config.assign(Opt::Appendfsync, &[b"always"]).expect("a policy");
    engine.persistence.aof.write(&engine);
    wait_until("the healing", || ask(&mut local, "SET later 1") == "+OK\r\n");
    let digest = ask(&mut local, "DEBUG DIGEST");
    for seed in 0..8 {
        let again = begin(&disk.survivors(seed, Plan::default()), "always");
        assert_eq!(ask(&mut Local::open(&again, || {}), "DEBUG DIGEST"), digest, "{seed}");
        again.persistence.aof.finish(&again);
    }
    engine.persistence.aof.finish(&engine);
}

/// A disk that cannot fsync increments while a rewrite waits until the AOF is written up to the rewrite's beginning.
#[derive(Debug, Default)]
struct Stuck {
    state: Mutex<StuckState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct StuckState {
    is_failing: bool,
    /// The base is written, but its fsync has not been done.
    has_base: bool,
    /// The numbers of attempts to heal by the AOF thread, and by other threads.
    attempts: (usize, usize),
}

impl Between for Stuck {
    fn sync(&self, file: &dyn File, path: &Path) -> io::Result<()> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut state = self.state.lock().expect("nobody fails with it");
        if !state.is_failing || name.contains(".2.incr") {
            return file.sync();
        }
        if name.starts_with("temp-rewriteaof") {
            state.has_base = true;
            self.changed.notify_all();
            // Wait until the damage of the AOF is known; then the rewrite continues.
            drop(self.changed.wait_while(state, |state| state.attempts.0 == 0));
            return file.sync();
        }
        // The name of the first increment until its base exists.
        if name == "temp-appendonly.aof.incr" {
            drop(self.changed.wait_while(state, |state| !state.has_base));
            return Err(io::Error::other("it cannot be synced"));
        }
        if name.ends_with(".incr.aof") {
            let attempts = &mut state.attempts;
            let is_log = thread::current().name() == Some("log");
            *(if is_log { &mut attempts.0 } else { &mut attempts.1 }) += 1;
            self.changed.notify_all();
            return Err(io::Error::other("it cannot be synced"));
        }
        file.sync()
    }
}

#[test]
fn an_aof_that_cannot_be_healed_is_retried_even_while_a_rewrite_waits() {
    let disk = PassingDisk::new(Arc::new(MemoryDisk::new()), Stuck::default());
    let engine = begin(&disk, "everysec");
    let mut local = Local::open(&engine, || {});
    let state = || disk.between().state.lock().expect("nobody fails with it");
    state().is_failing = true;
    assert_eq!(ask(&mut local, "SET key value"), "+OK\r\n");
    // Wait for an fsync that waits for the base. Until it fails, no thread writes to the AOF.
    wait_until("a sync", || engine.persistence.aof.status().is_syncing);
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    wait_until("three attempts", || state().attempts.0 >= 3);
    let by_others = state().attempts.1;
    assert_eq!(by_others, 0, "whoever waits does not try by itself");
    let names = disk.list(&engine.persistence.aof.folder_path(&engine)).expect("the folder");
    assert!(names.iter().filter(|name| name.ends_with(".incr.aof")).count() <= 3, "{names:?}");
    state().is_failing = false;
    wait_until("the healing", || ask(&mut local, "SET later 1") == "+OK\r\n");
    let digest = ask(&mut local, "DEBUG DIGEST");
    engine.persistence.snapshots.close();
    engine.persistence.aof.finish(&engine);
    let again = begin(&disk, "everysec");
    assert_eq!(ask(&mut Local::open(&again, || {}), "DEBUG DIGEST"), digest);
    again.persistence.aof.finish(&again);
}

/// A disk that refuses a number of fsyncs, and counts the refused ones.
#[derive(Debug)]
struct Refusing {
    disk: CrashingDisk,
    left: AtomicUsize,
    refused: AtomicUsize,
}

impl Between for Refusing {
    fn sync(&self, file: &dyn File, _path: &Path) -> io::Result<()> {
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            self.disk.fail(BTreeMap::from([(self.disk.calls() + 1, Fault::Broken)]), None);
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
        file.sync()
    }
}

#[test]
fn an_aof_closed_after_a_failed_sync_is_healed_if_the_disk_works_again() {
    // Either the very last fsync fails, or an earlier one and the first attempt to heal.
    for (refused, waits_for) in [(1, 0), (usize::MAX, 2)] {
        let disk = CrashingDisk::new(Plan::default());
        let between = Refusing { disk: disk.clone(), left: AtomicUsize::new(0), refused: AtomicUsize::new(0) };
        let passing = PassingDisk::new(Arc::new(disk.clone()), between);
        let engine = begin(&passing, "everysec");
        let mut local = Local::open(&engine, || {});
        passing.between().left.store(refused, Ordering::SeqCst);
        assert_eq!(ask(&mut local, "SET key value"), "+OK\r\n");
        wait_until("the failures", || passing.between().refused.load(Ordering::SeqCst) >= waits_for);
        if waits_for > 0 {
            passing.between().left.store(0, Ordering::SeqCst);
        }
        let digest = ask(&mut local, "DEBUG DIGEST");
        engine.persistence.aof.finish(&engine);
        for seed in 0..8 {
            let again = begin(&disk.survivors(seed, Plan::default()), "everysec");
            assert_eq!(ask(&mut Local::open(&again, || {}), "DEBUG DIGEST"), digest, "{refused}, {seed}");
            again.persistence.aof.finish(&again);
        }
    }
}

#[test]
fn info_tells_of_a_log_while_somebody_uses_it_who_may_wait_for_the_disk() {
    let logged = Logged::new(&[]);
    let mut client = logged.open();
    assert_eq!(client.ask("SET k v"), "+OK\r\n");
    let used = logged.engine.persistence.aof.lock();
    let told = client.ask("INFO persistence");
    assert!(told.contains("aof_enabled:1") && !told.contains("aof_current_size:0"), "{told}");
    drop(used);
}

#[test]
fn what_is_healed_of_another_servers_journal_is_in_its_database() {
    let disk = CrashingDisk::new(Plan::default());
    let between = Refusing { disk: disk.clone(), left: AtomicUsize::new(0), refused: AtomicUsize::new(0) };
    let passing = PassingDisk::new(Arc::new(disk.clone()), between);
    let engine = begin(&passing, "everysec");
    let mut local = Local::open(&engine, || {});
    engine.journal.set_copy(true);
    let mut copy = Replay::copy(&engine, 0);
    let mut apply = |words: &[&str]| {
        let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let now = sleeve_server::host::clock::Instant::now();
        copy.apply(format!("*{}\r\n{bulks}", words.len()).as_bytes(), now).expect("it can be applied");
        // Write here: no client has sent a request, so no reply causes the write.
        engine.persistence.aof.write(&engine);
    };
    let offset = |local: &mut Local, name: &str| {
        let text = ask(local, "INFO persistence");
        text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
    };
    let is_synced = |local: &mut Local| offset(local, "aof_written_offset:") == offset(local, "aof_synced_offset:");
    apply(&["SELECT", "5"]);
    apply(&["SET", "before", "1"]);
    assert_eq!(ask(&mut local, "BGREWRITEAOF"), "+Background append only file rewriting started\r\n");
    wait_until("the base", || ask(&mut local, "INFO persistence").contains("aof_rewrite_in_progress:0"));
    // The failure concerns the first command in the new increment. The increment has to select the command's database before
    // it.
    passing.between().left.store(1, Ordering::SeqCst);
    apply(&["SET", "behind", "1"]);
    wait_until("the failure", || {
        ask(&mut local, "PING").contains("PONG") && passing.between().refused.load(Ordering::SeqCst) > 0
    });
    wait_until("the healing", || is_synced(&mut local));
    let digest = ask(&mut local, "DEBUG DIGEST");
    for seed in 0..8 {
        let again = begin(&disk.survivors(seed, Plan::default()), "everysec");
        assert_eq!(ask(&mut Local::open(&again, || {}), "DEBUG DIGEST"), digest, "{seed}");
        again.persistence.aof.finish(&again);
    }
    drop(copy);
    engine.persistence.aof.finish(&engine);
}
