//! The turn of a task that waits for a reply: whether the task has let the other tasks have theirs first.
//!
//! When many tasks of a runtime are about to send, one of them polls again after the others and writes for all
//! ([`Flush::Yield`](crate::pipe::slot::Flush)); the others rely on that. If the task is cancelled in between, the drop of this
//! value writes in its place.

use std::sync::Arc;

use crate::pipe::slot::{Driver, Waiter};

/// A task's turn.
#[derive(Default)]
pub(crate) struct Turn {
    /// The connection to which the task has promised to write.
    promised_to: Option<Arc<dyn Driver>>,
    has_yielded: bool,
}

impl Turn {
    /// Returns the kind of waiter that polls now, and ends the promise: the poll keeps it.
    #[inline]
    pub(super) fn waiter(&mut self, is_task: bool) -> Waiter {
        self.promised_to = None;
        match (is_task, self.has_yielded) {
            (true, false) => Waiter::FreshTask,
            (true, true) => Waiter::Task,
            (false, _) => Waiter::Other,
        }
    }

    /// Notes that the task polls again after the others.
    pub(super) fn yields_to(&mut self, driver: Option<Arc<dyn Driver>>) {
        (self.promised_to, self.has_yielded) = (driver, true);
    }
}

impl Turn {
    /// Keeps the promise of a task that will not poll again: writes for the others.
    pub(super) fn keep(&mut self) {
        if let Some(driver) = self.promised_to.take() {
            _ = driver.flush(Waiter::Task);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keep();
    }
}
