//! The state that the reactor and a task share: the events since the task's last turn, and the time of its next one.
//!
//! Both write into shared cells, so a turn takes no argument, and returns only whether the task has ended. On the reactor's
//! thread alone.

use std::cell::Cell;
use std::time::Instant;

/// A number that stands for no task.
pub(super) const NOBODY: u64 = 0;

/// The events since the task's last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readiness {
    /// True if bytes, or the end of the stream, have arrived on a socket.
    pub(crate) readable: bool,
    /// True if a socket has room for writing again.
    pub(crate) writable: bool,
    /// True if the peer has closed a socket: the remaining bytes may be fewer than a receive has room for.
    pub(crate) hung_up: bool,
    /// True if the task's waker was called.
    pub(crate) woken: bool,
}

impl Readiness {
    pub(crate) const WOKEN: Self = Self { readable: false, writable: false, hung_up: false, woken: true };

    pub(crate) fn is_any(self) -> bool {
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
    /// The time at which the task gets a turn even without an event.
    pub(super) until: Cell<Option<Instant>>,
    /// True if the task asks for another turn after the other tasks have had theirs.
    pub(super) passes: Cell<bool>,
}
