//! Tests of an engine under `appendfsync always` that loses its power while some clients write and others read. All changes
//! that replies have shown are there afterwards.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sleeve_disk::disk::File;
use sleeve_disk::disk::crashing::{CrashingDisk, Plan};
use sleeve_disk::disk::passing::{Between, PassingDisk};
use sleeve_server::{Engine, Local};

use crate::healing::{ask, begin};

/// A disk that loses its power at one of the next fsyncs.
#[derive(Debug)]
struct Doomed {
    disk: CrashingDisk,
    /// The number of fsyncs before the loss of power.
    left: AtomicU64,
}

impl Between for Doomed {
    fn sync(&self, file: &dyn File, _path: &Path) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.disk.cut();
        }
        file.sync()
    }
}

/// Sends a request repeatedly until the power is lost. Returns the highest number in the replies.
fn told(mut local: Local, disk: &CrashingDisk, request: &str) -> u64 {
    let mut told = 0;
    loop {
        let reply = ask(&mut local, request);
        if disk.is_cut() {
            return told;
        }
        let number = reply.trim_end().rsplit(['\n', ':']).next().and_then(|number| number.parse().ok());
        told = told.max(number.unwrap_or(0));
    }
}

/// Runs an engine until its disk loses its power, and starts another on the surviving bytes. Returns an error if a change is
/// missing that a reply has shown.
fn live(seed: u64, plant: fn(&Engine)) -> Result<(), String> {
    let disk = CrashingDisk::new(Plan::default());
    let passing = PassingDisk::new(Arc::new(disk.clone()), Doomed { disk: disk.clone(), left: AtomicU64::new(0) });
    let engine = begin(&passing, "always");
    plant(&engine);
    passing.between().left.store(3 + seed % 13, Ordering::SeqCst);
    let clients = ["INCR counter", "GET counter", "GET counter"].map(|request| {
        let (local, disk) = (Local::open(&engine, || {}), disk.clone());
        thread::spawn(move || told(local, &disk, request))
    });
    let [written, first, second] = clients.map(|client| client.join().expect("it ends"));
    engine.persistence.aof.finish(&engine);
    let again = begin(&disk.survivors(seed, Plan::default()), "always");
    let found = ask(&mut Local::open(&again, || {}), "INCRBY counter 0");
    again.persistence.aof.finish(&again);
    let found: u64 = found.trim_end().trim_start_matches(':').parse().expect("a number");
    match first.max(second) {
        _ if written > found => Err(format!("{written} was answered to who has written it, {found} is there")),
        read if read > found => Err(format!("{read} was read, {found} is there")),
        _ => Ok(()),
    }
}

#[test]
fn what_was_answered_or_read_is_there_when_the_power_has_gone() {
    let wrong: Vec<String> = (0..100).filter_map(|seed| live(seed, |_| ()).err()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
#[cfg(debug_assertions)]
fn a_read_that_does_not_wait_is_found() {
    let plant = |engine: &Engine| engine.debug.reads_do_not_wait.store(true, Ordering::Relaxed);
    let found = (0..1_000).find_map(|seed| live(seed, plant).err());
    assert!(found.as_ref().is_some_and(|wrong| wrong.contains("was read")), "{found:?}");
}
