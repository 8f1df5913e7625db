//! A disk in memory that takes what snapshots write at so many bytes a second, or for now not at all; everything else is as
//! fast as it can be.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_disk::disk::{Disk, File, Lock, Open};

/// What the name of a base begins with while it is written.
const SLOW: &str = "temp-rewriteaof";

#[derive(Debug)]
pub struct SlowDisk {
    disk: MemoryDisk,
    bytes_per_second: u64,
    stop: Arc<Stop>,
}

/// Whether nothing is taken.
#[derive(Debug, Default)]
struct Stop {
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl SlowDisk {
    pub fn new(bytes_per_second: u64) -> SlowDisk {
        SlowDisk { disk: MemoryDisk::new(), bytes_per_second, stop: Arc::default() }
    }

    /// Has it take nothing of a snapshot, or go on.
    pub fn stop(&self, is_stopped: bool) {
        *self.stop.is_stopped.lock().expect("nobody fails with it") = is_stopped;
        self.stop.changed.notify_all();
    }
}

impl Disk for SlowDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        let is_slow = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(SLOW));
        if !is_slow {
            return Ok(file);
        }
        Ok(Arc::new(SlowFile { file, bytes_per_second: self.bytes_per_second, stop: Arc::clone(&self.stop) }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.disk.size(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.make_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.disk.sync_folder(folder)
    }

    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path, holder)
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn File>,
    bytes_per_second: u64,
    stop: Arc<Stop>,
}

impl File for SlowFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, into)
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let is_stopped = self.stop.is_stopped.lock().expect("nobody fails with it");
        drop(self.stop.changed.wait_while(is_stopped, |is_stopped| *is_stopped).expect("as above"));
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        // It is what this disk is for: nothing else is waited for here.
        thread::sleep(Duration::from_micros(bytes as u64 * 1_000_000 / self.bytes_per_second));
        self.file.append(slices)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}
