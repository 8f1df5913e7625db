//! An AOF on a disk that fails at a given call, one that is healed, and one that is switched on while a server runs.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use sleeve_disk::aof::{AofWriter, Folder, Health, NewBase, Options};
use sleeve_disk::disk::crashing::{CrashingDisk, Fault, Plan};
use sleeve_disk::disk::{Disk, read_small};
use sleeve_disk::format::manifest::Manifest;
use sleeve_disk::replay::{self, Step, request};

use crate::base::{create, write_base};
use crate::exchange::{append, request as words};

pub fn options() -> Options {
    let (folder, name) = ("logs".into(), "a.aof".to_owned());
    Options { folder, name, checksums: true, timestamps: false, salt: 11 }
}

pub fn base(disk: &CrashingDisk, stands_for: u64, key: &str) -> io::Result<NewBase> {
    write_base(disk, &options(), stands_for, &[words(&["SET", key, "0"])])
}

pub fn begin() -> (CrashingDisk, AofWriter) {
    let disk = CrashingDisk::new(Plan::default());
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("an empty folder");
    let log = create(folder, base(&disk, 0, "base").expect("a base")).expect("a log");
    (disk, log)
}

/// The calls after the next `skipped` fail in these ways.
fn fail(disk: &CrashingDisk, skipped: u64, faults: &[Fault]) {
    let first = disk.calls() + skipped + 1;
    disk.fail((first..).zip(faults.iter().copied()).collect::<BTreeMap<_, _>>(), None);
}

pub fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let parsed = request::for_each(bytes, |words| {
        let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        lines.push(words.join(" "));
    });
    parsed.expect("requests");
    lines
}

fn read(disk: &CrashingDisk) -> Vec<String> {
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("a log");
    let mut replay = folder.replay(replay::Options::default());
    let mut bytes = Vec::new();
    loop {
        match replay.next(&mut bytes).unwrap_or_else(|damage| panic!("{damage}")) {
            Step::Requests => {}
            Step::Rdb(_) => panic!("nobody has written a snapshot"),
            Step::End(_) => return lines(&bytes),
        }
    }
}

fn manifest(disk: &CrashingDisk) -> Manifest {
    let bytes = read_small(disk, Path::new("logs/a.aof.manifest"), 1 << 20).expect("a manifest");
    Manifest::parse(&bytes).expect("a manifest").0
}

#[test]
fn an_append_that_fails_leaves_nothing_and_can_be_repeated() {
    // The cases: the disk is full; it is full and the file cannot be cut either; both fail once more.
    let faults: [&[Fault]; 3] = [
        &[Fault::Full(17)],
        &[Fault::Full(17), Fault::Broken],
        &[Fault::Full(17), Fault::Broken, Fault::Broken, Fault::Full(3)],
    ];
    for faults in faults {
        let (disk, mut log) = begin();
        append(&mut log, &[&["SET", "k", "1"]], 0);
        let (end, length) = (log.end(), log.increment_bytes());
        let bytes = words(&["SET", "k", "2"]);
        fail(&disk, 0, faults);
        let mut failures = 0;
        while let Err(error) = log.append(end + bytes.len() as u64, &[IoSlice::new(&bytes)], 0) {
            failures += 1;
            assert!(matches!(log.health(), Health::WriteFailed(_)), "{error}");
            assert_eq!((log.end(), log.increment_bytes()), (end, length));
            if faults.len() == 1 {
                let rotated = log.rotation().run().expect("an increment");
                assert!(log.switch(rotated).is_err(), "what is before must be whole");
            }
            assert!(failures < 5, "{error}");
        }
        assert!(failures > 0);
        assert_eq!(log.health(), &Health::Good);
        drop(log);
        assert_eq!(read(&disk), ["SET base 0", "SET k 1", "SET k 2"]);
    }
}

#[test]
fn a_sync_that_fails_is_healed_into_a_file_that_can_be_read_by_itself() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SELECT", "3"], &["SET", "k", "1"]], 0);
    let job = log.sync_job().expect("there is something");
    job.run().expect("it is synced");
    log.synced(&job);
    let synced = log.synced_end();
    let bytes = words(&["SET", "k", "2"]);
    log.append(synced + bytes.len() as u64, &[IoSlice::new(&bytes)], 0).expect("it is appended");
    fail(&disk, 0, &[Fault::Broken]);
    let job = log.sync_job().expect("there is something");
    let error = job.run().expect_err("the disk is broken");
    log.sync_failed(&error);
    assert!(matches!(log.health(), Health::SyncFailed(_)) && log.sync_job().is_none());
    let refused = log.append(log.end() + 14, &[IoSlice::new(b"*1\r\n$4\r\nPING\r\n")], 0);
    assert!(refused.is_err_and(|error| error.to_string().contains("sync has failed")));
    // The first attempt fails as well.
    for is_last in [false, true] {
        let mut healing = log.healing().expect("it is hurt");
        assert_eq!(healing.next(), synced);
        if !is_last {
            fail(&disk, 0, &[Fault::Broken]);
        }
        let appended = healing.append(log.end(), &[IoSlice::new(&bytes)]);
        assert_eq!(appended.is_ok(), is_last);
        if is_last {
            log.healed(healing.run().expect("the disk works"));
        }
    }
    assert_eq!((log.health(), log.synced_end()), (&Health::Good, log.end()));
    append(&mut log, &[&["SET", "k", "3"]], 0);
    drop(log);
    assert_eq!(read(&disk), ["SET base 0", "SELECT 3", "SET k 1", "SELECT 3", "SET k 2", "SET k 3"]);
    let last = manifest(&disk).increments.pop().expect("an increment");
    let file = read_small(&disk, &Path::new("logs").join(last.path()), 1 << 20).expect("it is there");
    assert!(String::from_utf8_lossy(&file).contains("\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*3"), "{last}");
}

#[test]
fn a_sync_that_runs_well_beside_one_that_fails_makes_nothing_durable() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 0);
    let (synced, jobs) = (log.synced_end(), [(); 2].map(|()| log.sync_job().expect("there is something")));
    fail(&disk, 0, &[Fault::Broken]);
    let error = jobs[0].run().expect_err("the disk is broken");
    // The disk has already reported, to the other job, which bytes it could not write.
    jobs[1].run().expect("nothing is left to be told");
    log.sync_failed(&error);
    log.synced(&jobs[1]);
    assert_eq!((log.synced_end(), log.healing().expect("it is hurt").next()), (synced, synced));
}

#[test]
fn healings_that_fail_leave_no_heap_of_files_behind() {
    let increments = |disk: &CrashingDisk| {
        let names = disk.list(Path::new("logs")).expect("the folder");
        names.iter().filter(|name| name.ends_with(".incr.aof")).count()
    };
    // Each call of an attempt fails in turn, and so does the folder's sync behind the new manifest.
    for skipped in 0..10 {
        let (disk, mut log) = begin();
        append(&mut log, &[&["SELECT", "3"], &["SET", "k", "1"]], 0);
        let job = log.sync_job().expect("there is something");
        job.run().expect("it is synced");
        log.synced(&job);
        let bytes = words(&["SET", "k", "2"]);
        let end = log.end() + bytes.len() as u64;
        log.append(end, &[IoSlice::new(&bytes)], 0).expect("it is appended");
        fail(&disk, 0, &[Fault::Broken]);
        log.sync_failed(&log.sync_job().expect("there is something").run().expect_err("the disk is broken"));
        for is_last in [false, false, false, false, true] {
            let mut healing = log.healing().expect("it is hurt");
            if !is_last {
                fail(&disk, skipped, &[Fault::Broken]);
            }
            let healed = healing.append(end, &[IoSlice::new(&bytes)]).and_then(|()| healing.run());
            assert_eq!(healed.is_ok(), is_last, "call {skipped}");
            match healed {
                Ok(healed) => log.healed(healed),
                Err(_) => log.not_healed(healing),
            }
            assert!(increments(&disk) <= 2, "call {skipped}: {:?}", disk.list(Path::new("logs")));
        }
        assert_eq!((log.health(), increments(&disk)), (&Health::Good, 2), "call {skipped}");
        drop(log);
        assert_eq!(read(&disk), ["SET base 0", "SELECT 3", "SET k 1", "SELECT 3", "SET k 2"], "call {skipped}");
    }
}

#[test]
fn a_cut_that_failed_is_remembered_over_the_next_healing() {
    let (disk, mut log) = begin();
    for (key, skipped) in [("first", Some(3)), ("second", None)] {
        let bytes = words(&["SET", key, "1"]);
        let end = log.end() + bytes.len() as u64;
        log.append(end, &[IoSlice::new(&bytes)], 0).expect("it is appended");
        fail(&disk, 0, &[Fault::Broken]);
        let error = log.sync_job().expect("there is something").run().expect_err("the disk is broken");
        log.sync_failed(&error);
        let mut healing = log.healing().expect("it is hurt");
        healing.append(end, &[IoSlice::new(&bytes)]).expect("it is appended");
        if let Some(skipped) = skipped {
            // After the sync of the new file, and the two calls that put the manifest in its place, the old file is cut.
            fail(&disk, skipped, &[Fault::Broken]);
        }
        log.healed(healing.run().expect("what cannot be cut now is later"));
        let lengths: Vec<_> = manifest(&disk).increments.iter().map(|entry| entry.length.is_some()).collect();
        assert!(lengths[0], "the manifest says how much of the first file counts: {lengths:?}");
        // The AOF goes on with the content of the manifest.
        let rotated = log.rotation().run().expect("an increment");
        log.switch(rotated).expect("it is switched to");
    }
    drop(log);
    assert_eq!(read(&disk), ["SET base 0", "SELECT 0", "SET first 1", "SELECT 0", "SET second 1"]);
}

#[test]
fn a_log_that_is_switched_on_is_none_before_its_first_base() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "before", "1"]], 0);
    drop(log);
    let before = manifest(&disk);
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("the older log");
    let mut log = folder.wait(5_000).expect("a log to be");
    append(&mut log, &[&["SET", "k", "1"]], 0);
    assert!(log.is_waiting() && manifest(&disk) == before && log.history().is_none());
    // A rewrite that fails is begun again.
    let rewrite = log.rewrite(base(&disk, 5_000, "fails").expect("a base"), 0).expect("it may end");
    fail(&disk, 0, &[Fault::Broken]);
    assert!(rewrite.run().is_err());
    let mut log = Folder::from(log).wait(6_000).expect("a log to be");
    append(&mut log, &[&["SET", "k", "2"]], 0);
    let rewritten =
        log.rewrite(base(&disk, 6_000, "data").expect("a base"), 0).and_then(|rewrite| rewrite.run()).expect("a base");
    log.rewritten(rewritten);
    assert!(!log.is_waiting());
    append(&mut log, &[&["SET", "k", "3"]], 0);
    let history = log.history().expect("the older log");
    assert_eq!(history.files().len(), 2);
    history.run().expect("it is removed");
    log.history_removed();
    let job = log.sync_job().expect("there is something");
    job.run().expect("it is synced");
    log.synced(&job);
    drop(log);
    assert_eq!(read(&disk), ["SET data 0", "SET k 2", "SET k 3"]);
    let names = disk.list(Path::new("logs")).expect("the folder");
    assert!(!names.iter().any(|name| name.starts_with("temp-")), "{names:?}");
}

#[test]
fn a_rewrite_that_fails_leaves_the_log_as_it_was() {
    // Each of its calls fails once.
    for skipped in 0..8 {
        let (disk, mut log) = begin();
        append(&mut log, &[&["SET", "k", "1"]], 0);
        let rotated = log.rotation().run().expect("an increment");
        let stands_for = log.end();
        let since = log.switch(rotated).expect("it is switched to");
        append(&mut log, &[&["SET", "k", "2"]], 0);
        let base = base(&disk, stands_for, "new").expect("a base");
        fail(&disk, skipped, &[Fault::Broken]);
        let rewritten = log.rewrite(base, since).and_then(|rewrite| rewrite.run());
        let failed = rewritten.is_err();
        if let Ok(rewritten) = rewritten {
            log.rewritten(rewritten);
        }
        append(&mut log, &[&["SET", "k", "3"]], 0);
        assert!(!failed || manifest(&disk).history.is_empty() || manifest(&disk).base.is_some());
        drop(log);
        let expected: &[&str] = match manifest(&disk).base_number {
            1 => &["SET base 0", "SET k 1", "SET k 2", "SET k 3"],
            _ => &["SET new 0", "SET k 2", "SET k 3"],
        };
        assert_eq!(read(&disk), expected, "call {skipped}");
    }
}

#[test]
fn jobs_that_would_undo_each_other_are_refused() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 0);
    // Two jobs are taken at once.
    let first = log.rotation();
    assert!(log.rotation().run().is_err());
    let stale = first.run().expect("an increment");
    // The log is healed between the making of an increment and the switch to it.
    fail(&disk, 0, &[Fault::Broken]);
    let job = log.sync_job().expect("there is something");
    log.sync_failed(&job.run().expect_err("the disk is broken"));
    let rotation = log.rotation();
    assert!(log.healing().is_none(), "that is out");
    drop(rotation);
    let mut healing = log.healing().expect("it is hurt");
    healing.append(log.end(), &[IoSlice::new(&words(&["SET", "k", "1"]))]).expect("it is written");
    log.healed(healing.run().expect("it is healed"));
    assert!(log.switch(stale).is_err(), "it knows nothing of what was healed");
    // The result of a rewrite was not given back to the AOF.
    let rotated = log.rotation().run().expect("an increment");
    let stands_for = log.end();
    let since = log.switch(rotated).expect("it is switched to");
    let rewrite = log.rewrite(base(&disk, stands_for, "new").expect("a base"), since).expect("it may end");
    let rewritten = rewrite.run().expect("a rewrite");
    assert!(log.rotation().run().is_err() && log.history().is_none());
    log.rewritten(rewritten);
    append(&mut log, &[&["SET", "k", "2"]], 0);
    let history = log.history().expect("the old files");
    assert!(log.rotation().run().is_err());
    history.run().expect("they are removed");
    log.history_removed();
    drop(log);
    assert_eq!(read(&disk), ["SET new 0", "SET k 2"]);
}

#[test]
fn a_log_that_is_healed_where_its_base_stands_is_read() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 0);
    let job = log.sync_job().expect("there is something");
    let rotated = log.rotation().run().expect("an increment");
    let stands_for = log.end();
    let since = log.switch(rotated).expect("it is switched to");
    fail(&disk, 0, &[Fault::Broken]);
    log.sync_failed(&job.run().expect_err("the disk is broken"));
    // The base is durable, so only the selected database has to be written once more.
    let base = base(&disk, stands_for, "new").expect("a base");
    let rewritten = log.rewrite(base, since).and_then(|rewrite| rewrite.run()).expect("a rewrite");
    log.rewritten(rewritten);
    let mut healing = log.healing().expect("it is hurt");
    assert_eq!(healing.next(), log.end());
    log.healed(healing.run().expect("it is healed"));
    append(&mut log, &[&["SET", "k", "2"]], 0);
    drop(log);
    assert_eq!(read(&disk), ["SET new 0", "SELECT 0", "SET k 2"]);
}
