//! A disk with syncs that wait at a gate: for tests that must see the state before a sync ends, however long that takes.
//!
//! Every other call is passed on to another disk. While the gate is closed a sync waits; it fails if the gate goes to
//! failing.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::passing::{Between, PassingDisk};
use super::{Disk, File};

/// The fate of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The sync runs.
    Open,
    /// The sync waits until the gate is no longer closed.
    Closed,
    /// The sync fails.
    Failing,
}

/// The gate, and the number of syncs that wait at it.
#[derive(Debug)]
pub struct Keeper {
    state: Mutex<(Gate, usize)>,
    changed: Condvar,
}

impl Between for Keeper {
    fn sync(&self, file: &dyn File, _path: &Path) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        self.changed.notify_all();
        while state.0 == Gate::Closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 -= 1;
        let fails = state.0 == Gate::Failing;
        drop(state);
        if fails { Err(io::Error::other("the gate fails")) } else { file.sync() }
    }
}

/// A disk with a gate before its syncs; clones have the same gate.
pub type GatedDisk = PassingDisk<Keeper>;

impl GatedDisk {
    /// Puts this disk behind an open gate.
    pub fn gated(disk: Arc<dyn Disk>) -> Self {
        Self::new(disk, Keeper { state: Mutex::new((Gate::Open, 0)), changed: Condvar::new() })
    }

    /// Sets the gate. If it is not closed now, the syncs that wait at it go on.
    pub fn set(&self, gate: Gate) {
        let keeper = self.between();
        keeper.state.lock().unwrap_or_else(PoisonError::into_inner).0 = gate;
        keeper.changed.notify_all();
    }

    /// Waits until a sync waits at the closed gate.
    pub fn wait_for_sync(&self) {
        let keeper = self.between();
        let mut state = keeper.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.1 == 0 {
            state = keeper.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
