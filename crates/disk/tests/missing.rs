//! Files of an AOF's folder that are missing, renamed, empty, cut off, or not named: the present files are neither written
//! over nor served in part without a word.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use sleeve_disk::aof::Folder;
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::{Disk, Open, read_small};

use crate::base::{create, write_base};
use crate::damage::{FILES, options, put, read, write};
use crate::exchange::{append, request as words};

const BASE: &str = FILES[0];
const FIRST: &str = FILES[1];
const SECOND: &str = FILES[2];
const MANIFEST: &str = FILES[3];

fn bytes(disk: &MemoryDisk, path: &str) -> Vec<u8> {
    read_small(disk, Path::new(path), 1 << 20).expect("it is there")
}

fn rename(disk: &MemoryDisk, from: &str, to: &str) {
    disk.rename(Path::new(from), Path::new(to)).expect("it is there");
}

/// Removes the lines of the manifest that contain this word.
fn without(disk: &MemoryDisk, word: &str) {
    let text = String::from_utf8(bytes(disk, MANIFEST)).expect("text");
    let kept: String = text.split_inclusive('\n').filter(|line| !line.contains(word)).collect();
    put(disk, Path::new(MANIFEST), kept.as_bytes());
}

/// A name, the change of the folder, and the error of the start. If the error is empty, the start loads all of the AOF.
type Case = (&'static str, fn(&MemoryDisk), &'static str);

const CASES: &[Case] = &[
    ("nothing", |_| (), ""),
    (
        "no manifest",
        |disk| disk.remove(Path::new(MANIFEST)).expect("it is there"),
        "the manifest logs/a.aof.manifest is not there",
    ),
    (
        "the manifest is renamed",
        |disk| rename(disk, MANIFEST, "logs/x.manifest"),
        "the manifest logs/a.aof.manifest is not there",
    ),
    ("an empty manifest", |disk| put(disk, Path::new(MANIFEST), b""), "Found an empty AOF manifest"),
    (
        "a manifest of comments",
        |disk| put(disk, Path::new(MANIFEST), b"#\n"),
        "the manifest logs/a.aof.manifest is not there",
    ),
    (
        "half a manifest",
        |disk| put(disk, Path::new(MANIFEST), b"file a.aof.1.base.aof seq 1 type b\nfile a.a"),
        "too long line",
    ),
    ("no line of the base", |disk| without(disk, "type b"), "a.aof.1.base.aof, byte 0: the manifest does not name it"),
    (
        "no line of the last increment",
        |disk| without(disk, "seq 2 type i"),
        "a.aof.2.incr.aof, byte 0: the manifest does not name it",
    ),
    ("no line of the first increment", |disk| without(disk, "a.aof.1.incr.aof"), "something is missing"),
    (
        "no lines of increments",
        |disk| without(disk, "type i"),
        "a.aof.1.incr.aof, byte 0: the manifest does not name it",
    ),
    ("no base", |disk| disk.remove(Path::new(BASE)).expect("it is there"), "not there"),
    ("no first increment", |disk| disk.remove(Path::new(FIRST)).expect("it is there"), "not there"),
    ("no last increment", |disk| disk.remove(Path::new(SECOND)).expect("it is there"), "not there"),
    ("the last increment is renamed", |disk| rename(disk, SECOND, "logs/a.aof.3.incr.aof"), "not there"),
    (
        "the increments have each other's names",
        |disk| {
            rename(disk, FIRST, "logs/x");
            rename(disk, SECOND, FIRST);
            rename(disk, "logs/x", SECOND);
        },
        "is missing",
    ),
    ("the base is empty", |disk| put(disk, Path::new(BASE), b""), "a.aof.1.base.aof, byte 0"),
    ("the first increment is empty", |disk| put(disk, Path::new(FIRST), b""), "is missing"),
    (
        "an older increment is left over",
        |disk| {
            rename(disk, SECOND, "logs/a.aof.5.incr.aof");
            let text =
                String::from_utf8(bytes(disk, MANIFEST)).expect("text").replace("2.incr.aof seq 2", "5.incr.aof seq 5");
            put(disk, Path::new(MANIFEST), text.as_bytes());
            put(disk, Path::new("logs/a.aof.3.incr.aof"), &bytes(disk, FIRST));
        },
        "",
    ),
    (
        "a later increment of another server",
        |disk| {
            put(disk, Path::new("logs/a.aof.3.incr.aof"), b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n");
        },
        "a.aof.3.incr.aof, byte 0: the manifest does not name it",
    ),
    ("an increment in which there is nothing", |disk| put(disk, Path::new("logs/a.aof.3.incr.aof"), b""), ""),
    ("a base that is left over", |disk| put(disk, Path::new("logs/a.aof.2.base.aof"), b"*1\r\n$4\r\nPING\r\n"), ""),
    ("a base that was never finished", |disk| put(disk, Path::new("logs/temp-rewriteaof-bg-a.aof.7.aof"), b"*1"), ""),
    ("a manifest that was never finished", |disk| put(disk, Path::new("logs/temp-a.aof.manifest"), b"file"), ""),
    ("no lock", |disk| _ = disk.remove(Path::new("logs/a.aof.lock")), ""),
];

#[test]
fn what_is_missing_or_not_named_is_refused_with_its_name_and_a_remedy() {
    let whole = read(&write(), false).expect("nothing is wrong").keys;
    for &(case, change, refusal) in CASES {
        let disk = write();
        change(&disk);
        let names = disk.list(Path::new("logs")).expect("the folder");
        let before: Vec<_> = names.iter().map(|name| (name, bytes(&disk, &format!("logs/{name}")))).collect();
        for load_truncated in [true, false] {
            match read(&disk, load_truncated) {
                Ok(read) => assert_eq!((read.keys.as_slice(), refusal), (whole.as_slice(), ""), "{case}"),
                Err(error) => assert!(!refusal.is_empty() && error.contains(refusal), "{case}: {error}"),
            }
        }
        for (name, before) in before.iter().filter(|(name, _)| !name.ends_with(".lock")) {
            assert_eq!(&bytes(&disk, &format!("logs/{name}")), before, "{case}: {name} has changed");
        }
    }
}

/// Checks that the lines in the error make a manifest with which the AOF can be read.
#[test]
fn the_lines_of_a_missing_manifest_bring_the_log_back() {
    let disk = write();
    let whole = read(&disk, false).expect("nothing is wrong").keys;
    disk.remove(Path::new(MANIFEST)).expect("it is there");
    let error = read(&disk, true).expect_err("it has no manifest");
    let lines: String =
        error.split_inclusive('\n').filter(|line| line.starts_with("file ")).map(str::to_owned).collect();
    put(&disk, Path::new(MANIFEST), format!("{}\n", lines.trim_end()).as_bytes());
    assert_eq!(read(&disk, false).expect("nothing is wrong").keys, whole);
}

/// Checks that an AOF goes on with new names only.
#[test]
fn no_file_that_is_there_is_written_over() {
    let disk = write();
    let left = ["logs/a.aof.2.base.aof", "logs/a.aof.9.base.rdb"];
    left.iter().for_each(|path| put(&disk, Path::new(path), b"somebody's"));
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("a log");
    let base = write_base(&disk, &options(), 5_000, &[words(&["SET", "new", "0"])]).expect("a base");
    let mut log = create(folder, base).expect("a log");
    append(&mut log, &[&["SET", "k", "1"]], 0);
    drop(log);
    assert!(left.iter().all(|path| bytes(&disk, path) == b"somebody's"));
    assert_eq!(read(&disk, false).expect("the new one").keys, ["SET new 0", "SET k 1"]);
    let file = disk.open(Path::new("logs/a.aof.10.base.aof"), Open::Append).expect("the new base");
    file.append(&[IoSlice::new(b"x")]).expect("it is written");
    assert!(read(&disk, true).is_err(), "it is the one that is read");
}
