//! The offset of the journal at which the next increment of the AOF begins.
//!
//! A rewrite sets it at its instant, while all shards are locked, and the thread that writes the AOF goes into the increment
//! when it gets there. The thread that holds the open AOF may be waiting for the disk, so the offset has a lock of its own,
//! which is held for moments.

use std::io;

use parking_lot::Mutex;
use sleeve_disk::aof::{AofWriter, Rotated};

/// At most one coming switch of an open AOF, and the outcome of the last.
#[derive(Debug, Default)]
pub struct Rotation(Mutex<RotationState>);

#[derive(Debug, Default)]
struct RotationState {
    /// The number of switches that were ordered.
    number: u64,
    /// The offset of the switch, and its new increment.
    coming: Option<Coming>,
    /// The number of the increment that was switched to, or why it was not.
    outcome: Option<io::Result<i64>>,
}

#[derive(Debug)]
struct Coming {
    at: u64,
    rotated: Rotated,
    /// The database that is selected there, where the journal does not say it.
    database: Option<u32>,
}

impl Rotation {
    /// Orders a switch at the end of the journal, where this database is selected if the journal does not say it, in place of
    /// an older one that no thread waits for any more. All shards are locked.
    pub fn order(&self, at: u64, rotated: Rotated, database: Option<u32>) {
        let mut state = self.0.lock();
        state.number += 1;
        state.coming = Some(Coming { at, rotated, database });
        state.outcome = None;
    }

    /// Returns how many bytes of the journal lie between this offset and the coming switch, if there is one. Asked after
    /// bytes are taken out of the journal: bytes behind the switch were appended after its order.
    pub fn room(&self, offset: u64) -> Option<u64> {
        self.0.lock().coming.as_ref().map(|coming| coming.at - offset)
    }

    /// Makes the coming switch; the database that the new increment has to begin with, if it has to say one.
    pub fn make(&self, log: &mut AofWriter) -> Option<u32> {
        let (number, coming) = {
            let mut state = self.0.lock();
            (state.number, state.coming.take())
        };
        let Coming { rotated, database, .. } = coming?;
        let outcome = log.switch(rotated);
        let mut state = self.0.lock();
        // The outcome of a switch that no thread waits for any more is not taken for that of the next.
        if state.number == number {
            state.outcome = Some(outcome);
        }
        database
    }

    /// Returns the outcome of the switch that was ordered last; none while it is still to come.
    pub fn take_outcome(&self) -> Option<io::Result<i64>> {
        self.0.lock().outcome.take()
    }
}
