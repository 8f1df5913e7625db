//! A small AOF with every bit turned and cut everywhere: damage is reported, or told, and never replayed.

use std::path::Path;

use sleeve_disk::aof::{AofWriter, Folder, Options};
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::{Disk, Open, read_small};
use sleeve_disk::format::annotation::{Block, Salt, write_block, write_salt};
use sleeve_disk::replay::{self, Step, request};

use std::io::IoSlice;
use std::sync::Arc;

use crate::base::{create, write_base};
use crate::exchange::{append, request as words};

pub fn options() -> Options {
    let (folder, name) = ("logs".into(), "a.aof".to_owned());
    Options { folder, name, checksums: true, timestamps: true, salt: 7 }
}

pub fn put(disk: &MemoryDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, Open::Create).expect("a file");
    file.append(&[IoSlice::new(bytes)]).expect("it is written");
}

fn sync(log: &mut AofWriter) {
    let job = log.sync_job().expect("there is something");
    job.run().expect("it is synced");
    log.synced(&job);
}

/// Returns a log with a base and an empty increment.
fn begin() -> (MemoryDisk, AofWriter) {
    let disk = MemoryDisk::new();
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("an empty folder");
    let base = write_base(&disk, &options(), 0, &[words(&["SET", "base", "0"])]).expect("a base");
    let log = create(folder, base).expect("a log");
    (disk, log)
}

/// Writes a base and two increments of two blocks each; the first increment was synced when the second was written.
pub fn write() -> MemoryDisk {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 1_700_000_000);
    append(&mut log, &[&["MULTI"], &["SET", "k", "2"], &["SET", "l", "2"], &["EXEC"]], 1_700_000_001);
    sync(&mut log);
    let rotated = log.rotation().run().expect("an increment");
    log.switch(rotated).expect("it is switched to");
    append(&mut log, &[&["SET", "k", "3"]], 1_700_000_002);
    append(&mut log, &[&["SET", "k", "4"], &["SET", "k", "5"]], 1_700_000_003);
    disk
}

pub const FILES: [&str; 4] =
    ["logs/a.aof.1.base.aof", "logs/a.aof.1.incr.aof", "logs/a.aof.2.incr.aof", "logs/a.aof.manifest"];

/// The content of an AOF and the messages about it.
#[derive(Debug, PartialEq)]
pub struct Read {
    pub keys: Vec<String>,
    pub is_told: bool,
}

pub fn read(disk: &MemoryDisk, load_truncated: bool) -> Result<Read, String> {
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).map_err(|error| error.to_string())?;
    let mut replay = folder.replay(replay::Options { load_truncated, read_until: None });
    let (mut bytes, mut keys) = (Vec::new(), Vec::new());
    let outcome = loop {
        match replay.next(&mut bytes).map_err(|damage| damage.to_string())? {
            Step::Requests => {}
            Step::Rdb(source) => replay.after_rdb(source.size, None).map_err(|damage| damage.to_string())?,
            Step::End(outcome) => break outcome,
        }
    };
    let parsed = request::for_each(&bytes, |words| {
        let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        keys.push(words.join(" "));
    });
    parsed.expect("what is given out is requests");
    let is_told = outcome.cut.is_some() || !outcome.told.is_empty() || !folder.told().is_empty();
    Ok(Read { keys, is_told })
}

#[test]
fn every_bit_that_is_turned_is_refused_or_told() {
    let disk = write();
    let whole = read(&disk, false).expect("nothing is wrong");
    assert_eq!((whole.keys.len(), whole.is_told), (9, false));
    for path in FILES.map(Path::new) {
        let bytes = read_small(&disk, path, 1 << 20).expect("it is there");
        for bit in 0..bytes.len() * 8 {
            let mut turned = bytes.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            put(&disk, path, &turned);
            for load_truncated in [false, true] {
                let Ok(read) = read(&disk, load_truncated) else { continue };
                let place = format!("{} byte {} bit {}", path.display(), bit / 8, bit % 8);
                assert!(read.is_told && whole.keys.starts_with(&read.keys), "{place}: {read:?}");
                // If the AOF was whole, no crash has cut it off, so none may be reported as cut; only a changed manifest can
                // have a line that says so.
                let is_manifest = path.extension().is_some_and(|end| end == "manifest");
                let is_salt = bytes[..bit / 8].iter().all(|&byte| byte != b'\n');
                assert!(is_manifest || is_salt, "{place} is cut off: {read:?}");
            }
        }
        put(&disk, path, &bytes);
    }
}

/// Several bytes that differ in one sector are no torn write, which leaves a prefix, or takes whole sectors.
#[test]
fn several_changed_bytes_of_the_last_block_are_refused() {
    let disk = write();
    let path = Path::new(FILES[2]);
    let bytes = read_small(&disk, path, 1 << 20).expect("it is there");
    assert!(bytes.len() < 512, "all blocks are in one sector");
    let line = memchr::memmem::rfind(&bytes, b"#SLV:B").expect("the last block");
    for length in 2..40 {
        // Enough of the line's front has to be left to recognize it.
        for start in line + 6..bytes.len() - length {
            let mut changed = bytes.clone();
            for (index, byte) in changed[start..start + length].iter_mut().enumerate() {
                *byte ^= 1 + ((start * 31 + length * 7 + index * 13) % 251) as u8;
            }
            put(&disk, path, &changed);
            let error = read(&disk, true).expect_err("no crash leaves it");
            assert!(error.contains("changed since"), "{start} and {length} bytes: {error}");
        }
    }
}

#[test]
fn sectors_that_a_crash_took_are_cut_off() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "small", "1"]], 0);
    append(&mut log, &[&["SET", "k", &"v".repeat(3_000)], &["SET", "l", &"w".repeat(300)]], 0);
    drop(log);
    let path = Path::new(FILES[1]);
    let bytes = read_small(&disk, path, 1 << 20).expect("it is there");
    let line = memchr::memmem::rfind(&bytes, b"#SLV:B").expect("the last block");
    for first in 1..bytes.len() / 512 {
        for last in first..=bytes.len() / 512 {
            for filler in [0, 0x5a] {
                let mut torn = bytes.clone();
                torn[first * 512..((last + 1) * 512).min(bytes.len())].fill(filler);
                put(&disk, path, &torn);
                let cut = read(&disk, true).unwrap_or_else(|error| panic!("{first} to {last}: {error}"));
                assert!(cut.is_told && cut.keys.len() == 2, "{first} to {last}: {cut:?}");
            }
        }
    }
    // Only the front of the write is there, with zeros behind it. (A single different byte would count as a change.)
    for length in line..bytes.len() - 1 {
        let mut torn = bytes.clone();
        torn[length..].fill(0);
        put(&disk, path, &torn);
        let cut = read(&disk, true).unwrap_or_else(|error| panic!("{length} bytes: {error}"));
        assert!(cut.is_told && cut.keys.len() == 2, "{length} bytes: {cut:?}");
    }
    // A header of a request in a sector of which the rest is right.
    let header = memchr::memmem::rfind(&bytes, b"$300").expect("the second value");
    let mut changed = bytes.clone();
    changed[header + 1..header + 4].copy_from_slice(b"999");
    put(&disk, path, &changed);
    assert!(read(&disk, true).is_err_and(|error| error.contains("changed since")));
}

#[test]
fn what_was_synced_is_never_cut_off() {
    let disk = write();
    for path in &FILES[..2] {
        let bytes = read_small(&disk, Path::new(path), 1 << 20).expect("it is there");
        for length in 0..bytes.len() {
            put(&disk, Path::new(path), &bytes[..length]);
            let error = read(&disk, true).expect_err("the files behind it say that it was whole");
            assert!(error.contains(".aof") && error.contains("backup"), "{error}");
        }
        put(&disk, Path::new(path), &bytes);
    }
}

#[test]
fn the_last_file_may_end_anywhere_and_keeps_whole_pieces() {
    let disk = write();
    let whole = read(&disk, false).expect("nothing is wrong");
    let path = Path::new(FILES[2]);
    let bytes = read_small(&disk, path, 1 << 20).expect("it is there");
    let mut counts = Vec::new();
    for length in 0..bytes.len() {
        put(&disk, path, &bytes[..length]);
        let cut = read(&disk, true).expect("it is cut off");
        assert!(whole.keys.starts_with(&cut.keys), "{length}: {cut:?}");
        counts.push(cut.keys.len());
        match read(&disk, false) {
            Ok(read) => assert!(!read.is_told && read == cut, "{length}: {read:?}"),
            Err(error) => assert!(error.contains("aof-load-truncated yes") && cut.is_told, "{error}"),
        }
    }
    counts.dedup();
    assert_eq!(counts, [6, 7], "the last block has two requests and is there whole or not at all");
}

#[test]
fn files_that_are_missing_doubled_or_exchanged_are_refused() {
    let written = || {
        let disk = write();
        let bytes = |path: &str| read_small(&disk, Path::new(path), 1 << 20).expect("it is there");
        let files = FILES.map(bytes);
        (disk, files)
    };
    let cases: [(&str, &[&str], &str); 4] = [
        ("the first increment is not named", &[FILES[0], FILES[2]], "missing"),
        ("an increment is named twice", &[FILES[0], FILES[1], FILES[1], FILES[2]], "twice"),
        ("increments are exchanged", &[FILES[0], FILES[2], FILES[1]], "missing"),
        ("the last increment is called history", &[FILES[0], FILES[1], "h"], "history"),
    ];
    for (case, files, sentence) in cases {
        let (disk, contents) = written();
        let mut manifest = String::new();
        for (number, file) in files.iter().enumerate() {
            let is_history = *file == "h";
            let from = if is_history { FILES[2] } else { file };
            let content = &contents[FILES.iter().position(|name| name == &from).expect("one of them")];
            let name = format!("x.{number}");
            put(&disk, Path::new(&format!("logs/{name}")), content);
            let kind = if is_history {
                'h'
            } else if number == 0 {
                'b'
            } else {
                'i'
            };
            manifest += &format!("file {name} seq {} type {kind}\n", number + 1);
        }
        put(&disk, Path::new(FILES[3]), manifest.as_bytes());
        let error = read(&disk, true).expect_err(case);
        assert!(error.contains(sentence), "{case}: {error}");
    }
}

#[test]
fn blocks_that_users_imitate_are_words_like_others() {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "k", "1"]], 0);
    let imitation =
        String::from_utf8(read_small(&disk, Path::new(FILES[1]), 1 << 20).expect("it is there")).expect("text");
    append(&mut log, &[&["SET", "k", &imitation]], 0);
    drop(log);
    // The line in front of the block with the imitation was not written: the block's content then proves nothing.
    let bytes = read_small(&disk, Path::new(FILES[1]), 1 << 20).expect("it is there");
    let mut damaged = bytes.clone();
    let line = bytes[imitation.len()..].iter().position(|&byte| byte == b'\n').expect("the line ends");
    damaged[imitation.len()..imitation.len() + line].fill(0);
    put(&disk, Path::new(FILES[1]), &damaged);
    let cut = read(&disk, true).expect("an end that was never synced");
    assert_eq!((cut.keys.as_slice(), cut.is_told), (["SET base 0".to_owned(), "SET k 1".to_owned()].as_slice(), true));
    put(&disk, Path::new(FILES[1]), &bytes);
    let whole = read(&disk, false).expect("it is whole");
    assert_eq!((whole.keys.len(), whole.is_told), (3, false));
}

/// Checks an AOF that goes on behind empty files, which Redis makes when there is nothing to write.
#[test]
fn a_log_that_goes_on_behind_empty_files_of_another_server_is_read_again() {
    let base = b"file a.aof.1.base.aof seq 1 type b\n".as_slice();
    let both = [base, b"file a.aof.1.incr.aof seq 1 type i\n"].concat();
    for (manifest, torn) in [(base, b"".as_slice()), (&both, b""), (base, b"*1\r\n$4\r\nPI")] {
        let disk = MemoryDisk::new();
        put(&disk, Path::new(FILES[3]), manifest);
        put(&disk, Path::new(FILES[0]), torn);
        put(&disk, Path::new(FILES[1]), b"");
        for round in 0..3 {
            let folder = Folder::open(Arc::new(disk.clone()), options(), 1).expect("a log");
            let mut replay = folder.replay(replay::Options { load_truncated: true, read_until: None });
            let mut bytes = Vec::new();
            let outcome = loop {
                match replay.next(&mut bytes).unwrap_or_else(|damage| panic!("{damage}")) {
                    Step::End(outcome) => break outcome,
                    Step::Requests => {}
                    Step::Rdb(_) => panic!("nobody has written a snapshot"),
                }
            };
            assert_eq!(bytes, words(&["SET", "k", "v"]).repeat(round));
            let mut log = folder.resume(outcome).expect("it goes on");
            append(&mut log, &[&["SET", "k", "v"]], 0);
        }
    }
}

/// Checks a line with a length that leads back to the line itself if lengths are added without a check: a search for blocks
/// would never end.
#[test]
fn a_block_whose_length_leads_back_to_its_line_is_none() {
    let (mut content, salt) = (Vec::new(), Salt(5));
    write_salt(&mut content, salt);
    let start = content.len();
    let block = |length| Block { number: 0, from: 0, covered: 0, length, unsynced: 0 };
    write_block(&mut content, salt, &block(u64::MAX), std::iter::empty());
    let length = (content.len() - start) as u64;
    content.truncate(start);
    write_block(&mut content, salt, &block(length.wrapping_neg()), std::iter::empty());
    for is_history in [true, false] {
        let disk = write();
        let manifest = read_small(&disk, Path::new(FILES[3]), 1 << 20).expect("it is there");
        put(&disk, Path::new("logs/x"), &content);
        let kind = if is_history { "h" } else { "i" };
        put(&disk, Path::new(FILES[3]), &[manifest, format!("file x seq 3 type {kind}\n").into_bytes()].concat());
        match read(&disk, true) {
            Ok(read) => assert!(is_history && read.keys.len() == 9, "{read:?}"),
            Err(error) => assert!(!is_history && error.contains("changed since"), "{error}"),
        }
    }
}
