//! Operations that are done to an AOF once and not again and again, interrupted at each of their calls: switching it on, and
//! mending it by hand.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use sleeve_disk::aof::{self, Folder};
use sleeve_disk::disk::crashing::{CrashingDisk, Plan, Side};
use sleeve_disk::disk::{Disk, Open, read_small};
use sleeve_disk::format::manifest::Manifest;
use sleeve_disk::replay::{self, Cut, Replay, Step};

use crate::exchange::{append, request as words};
use crate::states::{base, begin, lines, options};

/// Reads the AOF after a start that may cut off an unfinished end.
fn read(disk: &CrashingDisk) -> Result<Vec<String>, String> {
    let folder = Folder::open(Arc::new(disk.clone()), options(), 1).map_err(|error| error.to_string())?;
    let mut replay = folder.replay(replay::Options { load_truncated: true, read_until: None });
    let mut bytes = Vec::new();
    loop {
        match replay.next(&mut bytes).map_err(|damage| damage.to_string())? {
            Step::Requests => {}
            Step::Rdb(_) => return Err("nobody has written a snapshot".to_owned()),
            Step::End(_) => return Ok(lines(&bytes)),
        }
    }
}

/// Runs an operation on a disk once for each of its calls, with a power cut before or after that call; `check` sees the
/// remains of each.
fn interrupt(
    prepare: impl Fn() -> CrashingDisk,
    act: impl Fn(&CrashingDisk) -> io::Result<()>,
    check: impl Fn(&CrashingDisk, &str),
) {
    let whole = prepare().survivors(0, Plan::default());
    act(&whole).expect("nothing is in its way");
    let calls = whole.calls();
    assert!(calls > 5, "it does something");
    for (call, side, seed) in (1..=calls).flat_map(|call| {
        [Side::Before, Side::After].into_iter().flat_map(move |side| (0..8).map(move |seed| (call, side, seed)))
    }) {
        let disk = prepare().survivors(0, Plan { cut: Some((call, side)), ..Plan::default() });
        // The operation may or may not notice the cut.
        let _ = act(&disk);
        assert!(disk.is_cut(), "call {call} of {calls}");
        let survivor = disk.survivors(seed, Plan::default());
        check(&survivor, &format!("call {call}, {side:?}, seed {seed}"));
    }
}

/// Writes an AOF with two increments, all of it durable.
fn written() -> CrashingDisk {
    let (disk, mut log) = begin();
    append(&mut log, &[&["SET", "a", "1"]], 0);
    let rotated = log.rotation().run().expect("an increment");
    log.switch(rotated).expect("it is switched to");
    append(&mut log, &[&["SET", "b", "2"]], 0);
    append(&mut log, &[&["SET", "c", "3"]], 0);
    let job = log.sync_job().expect("there is something");
    job.run().expect("it is synced");
    log.synced(&job);
    log.close().expect("it is closed");
    disk
}

#[test]
fn a_log_that_is_being_switched_on_is_the_old_one_or_the_new_one() {
    let switch_on = |disk: &CrashingDisk| {
        let folder = Folder::open(Arc::new(disk.clone()), options(), 1);
        let mut log = folder.map_err(|error| io::Error::other(error.to_string()))?.wait(9_000)?;
        let piece = words(&["SET", "k", "1"]);
        log.append(9_000 + piece.len() as u64, &[IoSlice::new(&piece)], 0)?;
        let rewritten = log.rewrite(base(disk, 9_000, "new")?, 0)?.run()?;
        log.rewritten(rewritten);
        if let Some(job) = log.sync_job() {
            job.run()?;
            log.synced(&job);
        }
        log.history().map_or(Ok(()), aof::History::run)
    };
    let old: &[&str] = &["SET base 0", "SET a 1", "SET b 2", "SET c 3"];
    interrupt(written, switch_on, |disk, when| {
        let found = read(disk).unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
        let is_new = found.first().is_some_and(|line| line == "SET new 0");
        assert!(found == old || (is_new && found.len() <= 2), "{when}: {found:?}");
    });
}

/// Returns the damage of an AOF, and the part to cut off to be rid of it.
fn damage(disk: &CrashingDisk) -> Option<(Manifest, Cut)> {
    let bytes = read_small(disk, Path::new("logs/a.aof.manifest"), 1 << 20).ok()?;
    let manifest = Manifest::parse(&bytes).ok()?.0;
    let options = replay::Options { load_truncated: true, read_until: None };
    let mut replay = Replay::new(Arc::new(disk.clone()), Path::new("logs"), manifest.clone(), options);
    loop {
        match replay.next(&mut Vec::new()) {
            Ok(Step::End(outcome)) => return outcome.cut.map(|cut| (manifest, cut)),
            Ok(_) => {}
            Err(damage) => return replay.cut_before(damage).map(|cut| (manifest, cut)),
        }
    }
}

#[test]
fn a_log_that_is_being_mended_can_be_mended_again() {
    let mend = |disk: &CrashingDisk| {
        let Some((manifest, cut)) = damage(disk) else { return Ok(()) };
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        aof::repair(&disk, Path::new("logs"), Some(&options()), &manifest, &cut).map(|_| ())
    };
    // The damage is in the first increment, so that the second goes with it.
    let damaged = || {
        let disk = written();
        let path = Path::new("logs/a.aof.1.incr.aof");
        let mut bytes = read_small(&disk, path, 1 << 20).expect("it is there");
        let at = bytes.len() - 3;
        bytes[at] ^= 1;
        let file = disk.open(path, Open::Create).expect("it is there");
        file.append(&[IoSlice::new(&bytes)]).and_then(|()| file.sync()).expect("it is written");
        disk
    };
    assert!(read(&damaged()).is_err_and(|wrong| wrong.contains("was whole on the disk")));
    interrupt(damaged, mend, |disk, when| {
        mend(disk).unwrap_or_else(|error| panic!("{when}: {error}"));
        assert_eq!(read(disk).unwrap_or_else(|wrong| panic!("{when}: {wrong}")), ["SET base 0"], "{when}");
        let names = disk.list(Path::new("logs")).expect("the folder");
        let kept = names.iter().filter(|name| name.contains(".incr.aof.backup"));
        let contents = kept.map(|name| read_small(disk, &Path::new("logs").join(name), 1 << 20).expect("it is there"));
        let contents: Vec<Vec<u8>> = contents.collect();
        for word in [b"$1\r\na\r\n".as_slice(), b"$1\r\nc\r\n"] {
            let is_kept = contents.iter().any(|bytes| bytes.windows(word.len()).any(|part| part == word));
            let is_there = names.iter().filter(|name| name.ends_with(".incr.aof")).any(|name| {
                let bytes = read_small(disk, &Path::new("logs").join(name), 1 << 20).expect("it is there");
                bytes.windows(word.len()).any(|part| part == word)
            });
            assert!(is_kept || is_there, "{when}: {names:?}");
        }
    });
}
