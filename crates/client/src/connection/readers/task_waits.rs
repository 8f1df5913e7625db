//! The tasks of the application that wait for replies on a connection: whether they gather their requests, and whether all of
//! them run in the same runtime, which may then read for them (`runtime`).
//!
//! Pure data, under the lock of the link.

use crate::sys::runtime::RuntimeId;

/// The number of waits in a row, all of them by tasks of one runtime, after which that runtime reads.
const WAITS_MIN: u32 = 16;

/// The largest number of waits that is required, after a runtime has read for a short time only, or has failed to read.
const WAITS_MAX: u32 = 16 * 1024;

/// The waits of tasks for replies.
pub(crate) struct TaskWaits {
    /// True if the last replies arrived together: their callers are likely to send their next requests together.
    pub(crate) in_company: bool,
    /// True if a task is about to poll again, to write the requests that others have gathered by then.
    pub(crate) will_be_written: bool,
    /// The runtime of the task that waited last; none if the last waiter was no task of a runtime that can read.
    runtime: Option<RuntimeId>,
    /// The number of waits in a row by tasks of this runtime, since it was found or since it reads.
    streak: u32,
    /// The number of waits that is required before the runtime reads.
    enough: u32,
    /// The number of requests at the front of the pipe of which some may belong to waiters outside of the runtime.
    others_ahead: usize,
}

impl Default for TaskWaits {
    fn default() -> Self {
        let (in_company, will_be_written) = (false, false);
        Self { in_company, will_be_written, runtime: None, streak: 0, enough: WAITS_MIN, others_ahead: 0 }
    }
}

impl TaskWaits {
    /// Counts a wait by a task of this runtime, or by another waiter if none is given. `unanswered` returns the number of
    /// requests that are sent or gathered, and not answered.
    #[inline]
    pub(crate) fn count(&mut self, runtime: Option<RuntimeId>, unanswered: impl FnOnce() -> usize) {
        if runtime == self.runtime {
            self.streak = self.streak.saturating_add(1);
        } else {
            (self.runtime, self.streak, self.others_ahead) = (runtime, 0, unanswered());
        }
    }

    /// Notes that so many requests at the front of the pipe were answered.
    #[inline]
    pub(crate) fn answered(&mut self, count: usize) {
        self.others_ahead = self.others_ahead.saturating_sub(count);
    }

    /// Returns the runtime that may read from now on: all recent waiters are its tasks, and no other waiter is left.
    #[inline]
    pub(crate) fn next_reader(&self, unanswered: impl FnOnce() -> usize) -> Option<RuntimeId> {
        let is_habit = self.streak >= self.enough && (self.others_ahead == 0 || unanswered() == 0);
        self.runtime.filter(|_| is_habit)
    }

    /// Notes that the runtime reads from now on.
    pub(crate) fn begin(&mut self) {
        self.streak = 0;
    }

    /// Notes that the runtime reads no longer. If it has read for a short time only, or has left bytes unread (`has_failed`),
    /// more waits are required before it reads again.
    pub(crate) fn end(&mut self, has_failed: bool) {
        let has_paid = self.streak >= self.enough && !has_failed;
        self.enough = if has_paid { WAITS_MIN } else { (self.enough * 2).min(WAITS_MAX) };
        self.streak = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<RuntimeId> = Some(RuntimeId::Simulated(1));
    const OTHER: Option<RuntimeId> = Some(RuntimeId::Simulated(2));

    fn after(waits: &mut TaskWaits, count: u32, runtime: Option<RuntimeId>) -> Option<RuntimeId> {
        (0..count).for_each(|_| waits.count(runtime, || 1));
        waits.answered(1);
        waits.next_reader(|| 1)
    }

    #[test]
    fn a_runtime_reads_after_its_tasks_alone_have_waited_for_a_while() {
        let mut waits = TaskWaits::default();
        assert_eq!(after(&mut waits, WAITS_MIN, ONE), None);
        assert_eq!(after(&mut waits, 1, ONE), ONE);
        assert_eq!(after(&mut waits, 1, None), None);
        assert_eq!(after(&mut waits, WAITS_MIN, OTHER), None);
        assert_eq!(after(&mut waits, 1, OTHER), OTHER);
    }

    #[test]
    fn a_waiter_from_elsewhere_is_answered_before_the_runtime_reads() {
        let mut waits = TaskWaits::default();
        waits.count(ONE, || 5);
        (0..WAITS_MIN).for_each(|_| waits.count(ONE, || 5));
        waits.answered(4);
        assert_eq!(waits.next_reader(|| 1), None);
        waits.answered(1);
        assert_eq!(waits.next_reader(|| 1), ONE);
    }

    #[test]
    fn a_runtime_that_fails_to_read_has_to_wait_for_longer() {
        let mut waits = TaskWaits::default();
        assert_eq!(after(&mut waits, WAITS_MIN + 1, ONE), ONE);
        waits.begin();
        waits.end(true);
        assert_eq!(after(&mut waits, WAITS_MIN * 2 - 1, ONE), None);
        assert_eq!(after(&mut waits, 1, ONE), ONE);
        waits.begin();
        assert_eq!(after(&mut waits, WAITS_MIN * 2, ONE), ONE);
        waits.end(false);
        assert_eq!(after(&mut waits, WAITS_MIN, ONE), ONE);
    }
}
