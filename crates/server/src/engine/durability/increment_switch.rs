//! Where in the journal the next increment of the log begins.
//!
//! A rewrite says so at its instant, while all shards are locked, and whoever writes the log goes into the increment when it
//! gets there. Whoever has the open log may be waiting for the disk, so this has a lock of its own, which is held for moments.

use std::io;

use parking_lot::Mutex;
use sleeve_disk::log::{Log, Rotated};

/// One coming switch of an open log at the most, and what has become of the last.
#[derive(Debug, Default)]
pub struct IncrementSwitch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How often one was ordered.
    number: u64,
    /// Where it is to happen, and into what.
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

impl IncrementSwitch {
    /// Orders a switch at the end of the journal, where this database is selected if the journal does not say it, in place of an
    /// older one that nobody waits for any more. All shards are locked.
    pub fn order(&self, at: u64, rotated: Rotated, database: Option<u32>) {
        let mut state = self.0.lock();
        state.number += 1;
        state.coming = Some(Coming { at, rotated, database });
        state.outcome = None;
    }

    /// How many bytes of the journal there are between this offset and the coming switch, if there is one. Asked behind taking
    /// bytes out of the journal: what lies behind the switch was appended behind its order.
    pub fn room(&self, offset: u64) -> Option<u64> {
        self.0.lock().coming.as_ref().map(|coming| coming.at - offset)
    }

    /// Makes the coming switch; the database that the new increment has to begin with, if it has to say one.
    pub fn make(&self, log: &mut Log) -> Option<u32> {
        let (number, coming) = {
            let mut state = self.0.lock();
            (state.number, state.coming.take())
        };
        let Coming { rotated, database, .. } = coming?;
        let outcome = log.switch(rotated);
        let mut state = self.0.lock();
        // What has become of one that nobody waits for any more is not taken for that of the next.
        if state.number == number {
            state.outcome = Some(outcome);
        }
        database
    }

    /// What has become of the last that was ordered; none while it is still to come.
    pub fn take_outcome(&self) -> Option<io::Result<i64>> {
        self.0.lock().outcome.take()
    }
}
