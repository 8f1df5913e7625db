//! The state that the reactor and a task share: the events since the task's last turn, and the time of its next one.
//!
//! Both write into shared cells, so a turn takes no argument and returns nothing but whether the task is over. On the
//! reactor's thread alone.

use std::cell::Cell;
use std::time::Instant;

/// The number that no task has.
pub(super) const NOBODY: u64 = 0;

/// The events since the task's last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// Something has come on a socket, or its end.
    pub(crate) readable: bool,
    /// A socket takes something again.
    pub(crate) writable: bool,
    /// The peer has closed a socket: the rest may be less than a receive has room for.
    pub(crate) hung_up: bool,
    /// The task's waker was called.
    pub(crate) woken: bool,
}

impl Readiness {
    pub(crate) const WOKEN: Self = Self { readable: false, writable: false, hung_up: false, woken: true };

    pub(super) fn is_any(self) -> bool {
        self != Self::default()
    }

    /// Returns the union of both events.
    pub(super) fn with(self, more: Self) -> Self {
        Self {
            readable: self.readable || more.readable,
            writable: self.writable || more.writable,
            hung_up: self.hung_up || more.hung_up,
            woken: self.woken || more.woken,
        }
    }
}

/// The cells that the reactor and a task share.
#[derive(Default)]
pub(super) struct TaskCells {
    pub(super) ready: Cell<Readiness>,
    /// When it is to have a turn in any case.
    pub(super) until: Cell<Option<Instant>>,
    /// It is to have another turn when the others have had theirs.
    pub(super) passes: Cell<bool>,
}
