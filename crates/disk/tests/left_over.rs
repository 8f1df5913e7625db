//! Files that no manifest names: a failing operation leaves none behind, and a start removes those that a process which died
//! has left.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use sleeve_disk::aof::{Folder, OpenError};
use sleeve_disk::disk::crashing::{CrashingDisk, Fault};
use sleeve_disk::disk::{Disk, Open, read_small};
use sleeve_disk::format::annotation::{Salt, write_salt};
use sleeve_disk::format::manifest::Manifest;

use crate::exchange::append;
use crate::states::{base, begin, options};

/// Returns the files of the folder that the manifest does not name, except for the manifest, the lock and files with a
/// temporary name.
fn nameless(disk: &CrashingDisk) -> Vec<String> {
    let bytes = read_small(disk, Path::new("logs/a.aof.manifest"), 1 << 20).expect("a manifest");
    let manifest = Manifest::parse(&bytes).expect("a manifest").0;
    let named = manifest.base.iter().chain(&manifest.increments).chain(&manifest.history).map(ToString::to_string);
    let named: Vec<String> = named.chain(["a.aof.manifest", "a.aof.lock"].map(str::to_owned)).collect();
    let mut names = disk.list(Path::new("logs")).expect("the folder");
    names.retain(|name| !named.contains(name) && !name.starts_with("temp-"));
    names
}

#[test]
fn an_increment_that_is_not_switched_to_goes_with_the_history() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 0);
    // One increment is given up; the other is refused, because the AOF has been switched in between.
    let rotated = log.rotation().run().expect("an increment");
    log.discard(rotated);
    let stale = log.rotation().run().expect("an increment");
    let rotated = log.rotation().run().expect("an increment");
    log.switch(rotated).expect("it is switched to");
    assert!(log.switch(stale).is_err());
    append(&mut log, &[&["SET", "k", "2"]], 0);
    let history = log.history().expect("two increments that were never used");
    assert_eq!(history.files().len(), 2);
    history.run().expect("they are removed");
    log.history_removed();
    assert!(log.history().is_none());
    let names = disk.list(Path::new("logs")).expect("the folder");
    let mut increments: Vec<&String> = names.iter().filter(|name| name.ends_with(".incr.aof")).collect();
    increments.sort_unstable();
    assert_eq!(increments, ["a.aof.1.incr.aof", "a.aof.4.incr.aof"]);
    assert_eq!(nameless(&disk), Vec::<String>::new());
}

#[test]
fn a_first_base_that_is_not_put_in_its_place_leaves_no_file() {
    // The calls are two names, the folder, and then the manifest: created, written, synced and renamed.
    for skipped in 0..7 {
        let (disk, log) = begin();
        drop(log);
        let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("the older log");
        let mut log = folder.wait(5_000).expect("a log to be");
        append(&mut log, &[&["SET", "k", "1"]], 0);
        let rewrite = log.rewrite(base(&disk, 5_000, "new").expect("a base"), 0).expect("it may end");
        let first = disk.calls() + skipped + 1;
        disk.fail(BTreeMap::from([(first, Fault::Broken)]), None);
        assert!(rewrite.run().is_err(), "call {skipped}");
        assert_eq!(nameless(&disk), Vec::<String>::new(), "call {skipped}");
    }
}

#[test]
fn a_start_removes_what_was_never_finished_and_nothing_else() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 0);
    drop(log);
    let (mut salt, mut used) = (Vec::new(), Vec::new());
    write_salt(&mut salt, Salt(17));
    used.extend_from_slice(&salt);
    used.extend_from_slice(b"*1\r\n$4\r\nPING\r\n");
    let goes: [(&str, &[u8]); 5] = [
        ("a.aof.8.incr.aof", b""),
        ("a.aof.9.incr.aof", &salt),
        ("temp-a.aof.manifest", b"file"),
        ("temp-rewriteaof-bg-a.aof.123-4.aof", b"*1"),
        ("temp-rewriteaof-bg-a.aof.123.aof", b"*1"),
    ];
    let stays: [(&str, &[u8]); 14] = [
        // Data that were written may be needed.
        ("a.aof.7.incr.aof", &used),
        ("a.aof.2.base.aof", b"*1"),
        ("temp-a.aof.incr", &used),
        ("a.aof.1.incr.aof.backup", b""),
        // These files belong to others: an AOF of another name, another server, and an unknown file.
        ("b.aof.9.incr.aof", b""),
        ("a.aof.b.9.incr.aof", b""),
        ("a.aof.-9.incr.aof", b""),
        ("a.aof..incr.aof", b""),
        ("temp-rewriteaof-bg-a.aof.5.123.aof", b"*1"),
        ("temp-rewriteaof-bg-a.aof.123-.aof", b"*1"),
        ("temp-rewriteaof-bg-123.aof", b"*1"),
        ("temp-rewriteaof-bg-b.aof.123.aof", b"*1"),
        ("temp-123.rdb", b"REDIS"),
        ("notes.txt", b""),
    ];
    let before = disk.list(Path::new("logs")).expect("the folder");
    for (name, content) in goes.iter().chain(&stays) {
        let file = disk.open(&Path::new("logs").join(name), Open::Create).expect("a file");
        file.append(&[IoSlice::new(content)]).expect("it is written");
    }
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("a log");
    assert_eq!(folder.remove_left_over().expect("they are removed"), goes.map(|(name, _)| name));
    let mut wanted: Vec<String> = before.into_iter().chain(stays.map(|(name, _)| name.to_owned())).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut names = disk.list(Path::new("logs")).expect("the folder");
    names.sort_unstable();
    assert_eq!(names, wanted);
    assert_eq!(folder.remove_left_over().expect("nothing is left"), Vec::<String>::new());
}

#[test]
fn nobody_else_has_the_folder_while_its_manifest_may_still_be_written() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 0);
    let rotation = log.rotation();
    drop(log);
    let open = || Folder::open(Arc::new(disk.clone()), options(), 1);
    assert!(matches!(open(), Err(OpenError::Held(_))));
    rotation.run().expect("an increment that no log goes into");
    drop(open().expect("nobody has it any more"));
}
