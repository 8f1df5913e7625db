//! A disk in memory that takes a snapshot's bytes at a limited rate, or for now not at all; all other files are unlimited.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use sleeve_disk::disk::File;
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::passing::{Between, PassingDisk};

/// The prefix of a base's name while it is written.
const SLOW: &str = "temp-rewriteaof";

/// A slow disk.
pub type SlowDisk = PassingDisk<Brake>;

/// The limit of the disk's speed.
#[derive(Debug)]
pub struct Brake {
    bytes_per_second: u64,
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

/// Returns a disk in memory with this speed.
pub fn slow_disk(bytes_per_second: u64) -> SlowDisk {
    let brake = Brake { bytes_per_second, is_stopped: Mutex::default(), changed: Condvar::new() };
    PassingDisk::new(Arc::new(MemoryDisk::new()), brake)
}

impl Brake {
    /// Stops taking bytes of a snapshot, or resumes.
    pub fn stop(&self, is_stopped: bool) {
        *self.is_stopped.lock().expect("nobody fails with it") = is_stopped;
        self.changed.notify_all();
    }
}

impl Between for Brake {
    fn append(&self, file: &dyn File, path: &Path, slices: &[IoSlice<'_>]) -> io::Result<()> {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SLOW)) {
            let is_stopped = self.is_stopped.lock().expect("nobody fails with it");
            drop(self.changed.wait_while(is_stopped, |is_stopped| *is_stopped).expect("as above"));
            let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
            // The delay is the purpose of this disk: no condition is waited for here.
            thread::sleep(Duration::from_micros(bytes as u64 * 1_000_000 / self.bytes_per_second));
        }
        file.append(slices)
    }
}
