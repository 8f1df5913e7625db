//! The times at which tasks get a turn even without an event.
//!
//! Most deadlines are moved to a later time long before they pass. So a task has at most one entry here that counts: if it
//! asks for an earlier time, that is entered as well; a later time is entered only when the present entry is due. On the
//! reactor's thread alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Times with the numbers of their tasks, the next time first.
#[derive(Default)]
pub(super) struct Timers {
    entries: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Timers {
    /// Enters a time at which the task of this number gets a turn.
    pub(super) fn enter(&mut self, at: Instant, number: u64) {
        self.entries.push(Reverse((at, number)));
    }

    /// Returns the next time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the next entry that is due, with its time.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u64)> {
        if self.next()? > now {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry)
    }
}
