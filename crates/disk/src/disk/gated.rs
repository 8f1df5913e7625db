//! A disk whose syncs wait at a gate: for tests that must see what happens before a sync is over, however long that takes.
//!
//! Everything else is passed on to another disk. While the gate is closed a sync waits; it fails if it is opened so.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::{Disk, File, Lock, Open};

/// What becomes of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It runs.
    Open,
    /// It waits until the gate is another.
    Closed,
    /// It fails.
    Failing,
}

/// The gate, and how many wait at it.
#[derive(Debug)]
struct Keeper {
    state: Mutex<(Gate, usize)>,
    changed: Condvar,
}

impl Keeper {
    fn pass(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        self.changed.notify_all();
        while state.0 == Gate::Closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 -= 1;
        if state.0 == Gate::Failing { Err(io::Error::other("the gate fails")) } else { Ok(()) }
    }
}

/// A disk with a gate before its syncs; clones have the same gate.
#[derive(Clone, Debug)]
pub struct GatedDisk {
    disk: Arc<dyn Disk>,
    keeper: Arc<Keeper>,
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn File>,
    keeper: Arc<Keeper>,
}

impl GatedDisk {
    /// This disk, behind an open gate.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, keeper: Arc::new(Keeper { state: Mutex::new((Gate::Open, 0)), changed: Condvar::new() }) }
    }

    /// Sets the gate. Whoever waits at it goes on, if it is not closed.
    pub fn set(&self, gate: Gate) {
        self.keeper.state.lock().unwrap_or_else(PoisonError::into_inner).0 = gate;
        self.keeper.changed.notify_all();
    }

    /// Waits until somebody waits at the closed gate.
    pub fn wait_for_sync(&self) {
        let mut state = self.keeper.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.1 == 0 {
            state = self.keeper.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Disk for GatedDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, how)?;
        Ok(Arc::new(GatedFile { file, keeper: self.keeper.clone() }))
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

impl File for GatedFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(at, into)
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        self.file.append(slices)
    }

    fn sync(&self) -> io::Result<()> {
        self.keeper.pass()?;
        self.file.sync()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}
