//! The offset of the journal at which the next increment of the AOF begins.
//!
//! An AOF rewrite sets it at its instant, while all shards are locked. The thread that writes the AOF switches to the
//! increment when it reaches that offset. The thread that has the open AOF locked may be waiting for the disk, so the offset
//! has a lock of its own, which is held only for moments.

use std::io;

use parking_lot::Mutex;
use sleeve_disk::aof::{AofWriter, Rotated};

/// The next switch of an open AOF to a new increment, if one is ordered, and the outcome of the last.
#[derive(Debug, Default)]
pub struct Rotation(Mutex<RotationState>);

#[derive(Debug, Default)]
struct RotationState {
    /// The number of ordered switches.
    number: u64,
    /// The offset of the switch, and its new increment.
    coming: Option<Coming>,
    /// The number of the increment to which the AOF has switched, or the error.
    outcome: Option<io::Result<i64>>,
}

#[derive(Debug)]
struct Coming {
    at: u64,
    rotated: Rotated,
    /// The database that is selected at the offset, if the journal has no SELECT there.
    database: Option<u32>,
}

impl Rotation {
    /// Orders a switch at the end of the journal. It replaces an earlier order for which no thread waits any more. `database`
    /// is the database that is selected there, if the journal has no SELECT. All shards are locked.
    pub fn order(&self, at: u64, rotated: Rotated, database: Option<u32>) {
        let mut state = self.0.lock();
        state.number += 1;
        state.coming = Some(Coming { at, rotated, database });
        state.outcome = None;
    }

    /// Returns how many bytes of the journal lie between this offset and the ordered switch, if there is one. Called after
    /// bytes are taken from the journal, so that an order which came before these bytes were appended is seen.
    pub fn room(&self, offset: u64) -> Option<u64> {
        self.0.lock().coming.as_ref().map(|coming| coming.at - offset)
    }

    /// Makes the ordered switch. Returns the database for the SELECT with which the new increment has to begin, if it needs
    /// one.
    pub fn make(&self, log: &mut AofWriter) -> Option<u32> {
        let (number, coming) = {
            let mut state = self.0.lock();
            (state.number, state.coming.take())
        };
        let Coming { rotated, database, .. } = coming?;
        let outcome = log.switch(rotated);
        let mut state = self.0.lock();
        // The outcome of a switch for which no thread waits any more must not be taken for that of the next.
        if state.number == number {
            state.outcome = Some(outcome);
        }
        database
    }

    /// Returns the outcome of the last ordered switch; None while it is still to come.
    pub fn take_outcome(&self) -> Option<io::Result<i64>> {
        self.0.lock().outcome.take()
    }
}
