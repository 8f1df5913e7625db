//! When which task is to have a turn in any case.
//!
//! Most times are moved on long before they come, so a task has one entry here at most that counts: an earlier time gets
//! another, a later one waits until the entry is due and is entered then. On the reactor's thread alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// Times and the numbers of tasks, the next time first.
#[derive(Default)]
pub(super) struct Timers {
    entries: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Timers {
    /// Enters a time.
    pub(super) fn enter(&mut self, at: Instant, number: u64) {
        self.entries.push(Reverse((at, number)));
    }

    /// The next time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse((at, _))| *at)
    }

    /// How many there are.
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
