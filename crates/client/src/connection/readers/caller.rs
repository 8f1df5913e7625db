//! The threads that read their own replies: how one is woken, and whether received bytes are left to awake tasks.
//!
//! Any thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::sys::Event;

/// The state, outside of the link's lock, of callers that read their own replies; see `read`.
#[derive(Default)]
pub(crate) struct CallerReads {
    /// The event that wakes a lone caller that reads its replies itself; it is created for the first such caller.
    pub(crate) event: OnceLock<Event>,
    /// The number of threads that wait for replies.
    pub(crate) threads: AtomicU32,
    /// True if the received bytes are left to the tasks that are awake.
    left: AtomicBool,
}

impl CallerReads {
    /// Returns whether a lone caller can be woken.
    pub(crate) fn has_event(&self) -> bool {
        self.event.get().is_some() || Event::new().is_ok_and(|event| self.event.set(event).is_ok())
    }

    /// Wakes the lone caller that reads, if there is one.
    pub(crate) fn wake(&self) {
        if let Some(event) = self.event.get() {
            event.raise();
        }
    }

    /// Leaves the received bytes to the tasks that are awake.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Returns whether the received bytes are left to the tasks that are awake.
    #[inline]
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes over the reading of the bytes that were left. Returns false if another reader has.
    pub(crate) fn take_left(&self) -> bool {
        self.left.swap(false, Ordering::AcqRel)
    }
}
