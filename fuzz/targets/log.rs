//! Arbitrary bytes as the files of an AOF: a base, an increment that begins with a salt, and an increment that does not.
//!
//! For all bytes, the reading ends and returns only complete requests. An AOF that is continued after it is read again to the
//! same end. The first byte selects the file that gets the rest. It also states whether the lines of blocks in it get correct
//! sums for their numbers. The salt is known, so that the fuzzer can find such blocks without that, too.

#![no_main]

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::{Disk, Open};
use sleeve_disk::format::annotation::{self, Block, Salt};
use sleeve_disk::aof::{Folder, Options};
use sleeve_disk::replay::{self, Outcome, Step, request};

const MANIFEST: &[u8] = b"file base seq 1 type b\nfile one seq 1 type i\nfile two seq 2 type i\n";

fuzz_target!(|input: &[u8]| {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let disk = MemoryDisk::new();
    let summed = if choice & SUMMED == 0 { Vec::new() } else { with_right_sums(bytes) };
    let bytes = if summed.is_empty() { bytes } else { summed.as_slice() };
    let salted = [b"#SLV:F 0000000000000001 ".as_slice(), SALT_SUM, b"\r\n", bytes].concat();
    let files: [&[u8]; 3] = match choice % 4 {
        0 => [bytes, b"", b""],
        1 => [b"", bytes, b""],
        2 => [b"", &salted, b""],
        _ => [b"", &salted, bytes],
    };
    for (name, content) in ["base", "one", "two"].into_iter().zip(files) {
        put(&disk, name, content);
    }
    put(&disk, "a.manifest", MANIFEST);
    let Some((requests, outcome, folder)) = read(&disk) else { return };
    let end = outcome.end;
    if end > annotation::NUMBER_MAX / 2 {
        // No real journal reaches this offset, and the number of a block after it may be too long for the block's line.
        return;
    }
    let mut log = folder.resume(outcome).expect("memory takes everything");
    assert_eq!(log.end(), end);
    let more = b"*1\r\n$4\r\nPING\r\n";
    log.append(end + more.len() as u64, &[IoSlice::new(more)], 0).expect("memory takes everything");
    drop(log);
    let (again, outcome, _) = read(&disk).expect("what was cut off was all that was wrong");
    assert!(outcome.cut.is_none());
    assert_eq!(again, [requests.as_slice(), more].concat());
});

/// The sum of the line that states the salt 1.
const SALT_SUM: &[u8] = b"8f886360";

/// The bit of the first byte that asks for correct sums.
const SUMMED: u8 = 0x40;

/// Returns the bytes with a new, correct sum in each line of a block's numbers.
fn with_right_sums(bytes: &[u8]) -> Vec<u8> {
    let (mut summed, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        match block_of(line) {
            Some(block) => {
                let length = usize::try_from(block.length).unwrap_or(usize::MAX).min(behind.len());
                annotation::write_block(&mut summed, Salt(1), &block, std::iter::once(&behind[..length]));
            }
            None => summed.extend_from_slice(line),
        }
        rest = behind;
    }
    summed
}

fn block_of(line: &[u8]) -> Option<Block> {
    let mut words = std::str::from_utf8(line.strip_prefix(b"#SLV:B ")?).ok()?.split(' ');
    let mut number = || words.next().and_then(|word| word.parse().ok());
    Some(Block { number: number()?, from: number()?, covered: number()?, length: number()?, unsynced: number()? })
}

fn put(disk: &MemoryDisk, name: &str, content: &[u8]) {
    let file = disk.open(&Path::new("log").join(name), Open::Create).expect("memory takes everything");
    file.append(&[IoSlice::new(content)]).expect("memory takes everything");
}

fn read(disk: &MemoryDisk) -> Option<(Vec<u8>, Outcome, Folder)> {
    let options = Options { folder: "log".into(), name: "a".to_owned(), checksums: true, timestamps: true, salt: 3 };
    let folder = Folder::open(Arc::new(disk.clone()), options, 1).expect("the manifest is one");
    let mut replay = folder.replay(replay::Options { load_truncated: true, read_until: None });
    let (mut requests, mut all) = (Vec::new(), Vec::new());
    loop {
        match replay.next(&mut requests).ok()? {
            Step::Requests => request::for_each(&requests, |_| {}).expect("whole requests"),
            // The end of a snapshot does not depend on the bytes after it.
            Step::Rdb(source) => replay.after_rdb(source.size.min(12), Some(0)).ok()?,
            Step::End(outcome) => return Some((all, outcome, folder)),
        }
        all.append(&mut requests);
    }
}
