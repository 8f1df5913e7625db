//! The outcome of sending a request, and the wait for room in a queue that is above its bound.
//!
//! A caller that waits for the answer waits for it alone; a caller that drops it waits for room. Any thread.

use std::cell::Cell;
use std::time::Instant;

use super::driver_number::DriverNumber;
use super::slot::Handle;
use super::slot::Payload;

/// The outcome of sending a request.
pub(crate) enum Sent {
    /// The answer arrives in this slot.
    Slot(Handle),
    /// The answer arrives in a slot, but the queue is above its bound, and the caller has to wait for room.
    Queued(Queued),
    /// The call itself answered it: by an engine in this process, or from the near cache.
    Ready(Payload, DriverNumber),
}

/// A request beyond the bound on the queue. A caller that does not wait for its answer waits for room instead.
pub(crate) struct Queued {
    handle: Option<Handle>,
    deadline: Option<Instant>,
}

thread_local! {
    /// True if this thread was seen to run async tasks, which must not be held up.
    static RUNS_TASKS: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread was seen to run async tasks.
pub(crate) fn runs_tasks() -> bool {
    RUNS_TASKS.get()
}

impl Queued {
    pub(crate) fn new(handle: Handle, deadline: Option<Instant>) -> Self {
        Self { handle: Some(handle), deadline }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.handle.as_ref().is_some_and(Handle::is_done)
    }

    /// Ends the wait for room, because the owner is going to wait for the answer: on this thread, or as a task.
    pub(crate) fn into_handle(mut self, is_task: bool) -> Option<Handle> {
        if is_task {
            RUNS_TASKS.set(true);
        }
        self.handle.take()
    }

    /// Waits for room. A thread that runs async tasks does so only when the queue is far above its bound.
    pub(crate) fn wait_for_room(mut self) -> Option<Handle> {
        let handle = self.handle.take()?;
        if let Some(driver) = handle.driver().filter(|_| !handle.is_done()) {
            driver.wait_for_room(self.deadline, runs_tasks());
        }
        Some(handle)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            drop(Self::new(handle, self.deadline).wait_for_room());
        }
    }
}
