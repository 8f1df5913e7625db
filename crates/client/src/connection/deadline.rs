//! Requests with deadlines of their own: how one is sent, and how the connection's task hears of it.
//!
//! A deadline is kept in the pipe as a time on the wrapping clock of milliseconds, no later than any command may take. The task
//! sleeps until the next that it knows of, so it is woken for one alone that is earlier. Any thread.

use std::time::Instant;

use super::{Link, Shared};
use crate::error::Error;
use crate::pipe::in_flight::LIMIT_MS_MAX;
use crate::pipe::segment::long::LONG_MIN;
use crate::pipe::slot::Handle;
use crate::request::EncodedRequest;
use crate::sys::lock::MutexGuard;
use crate::sys::planted::{self, Fault};
use crate::sys::{exact_clock_ms, now};

impl Link {
    /// Sends a request as `send` does, with a deadline: also while it waits for room, or for a connection.
    pub(crate) fn send_until(
        &self,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Instant,
    ) -> Result<Option<Handle>, Error> {
        self.check(database)?;
        if deadline <= now() {
            return Err(self.too_late(request.name));
        }
        let due_ms = self.due_ms(deadline);
        if request.bytes.len() >= LONG_MIN {
            return self.send_long(database, request, Some(due_ms));
        }
        let mut shared = self.shared.lock();
        if !self.has_room(&shared, request.bytes.len()) {
            return Ok(None);
        }
        let (handle, is_next) = shared.pipe.push_due(database, request, due_ms);
        self.pushed_due(shared, is_next);
        Ok(Some(handle))
    }

    /// Decides on the writer as `pushed` does, for a request with a deadline of its own. If it is the next deadline, the task
    /// knows of none as early, and has to be notified if it sleeps.
    pub(super) fn pushed_due(&self, mut shared: MutexGuard<'_, Shared>, is_next: bool) {
        let wakes = is_next && !shared.is_awake() && !planted::has(Fault::ForgetsDeadline);
        if wakes {
            shared.wake_up();
        }
        self.pushed(shared);
        if wakes {
            self.task_waker.wake();
        }
    }

    /// Returns the time at which a request times out that is sent now, on the wrapping clock: at its deadline, or when no
    /// command may take any longer.
    pub(crate) fn due_ms(&self, deadline: Instant) -> u32 {
        due_ms(deadline, self.limit_ms())
    }
}

/// Returns a deadline on the wrapping clock: no later than `limit_ms` milliseconds from now.
pub(crate) fn due_ms(deadline: Instant, limit_ms: Option<u32>) -> u32 {
    let left = deadline.saturating_duration_since(now());
    let left_ms = u32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
    exact_clock_ms().wrapping_add(left_ms.min(limit_ms.unwrap_or(LIMIT_MS_MAX)))
}
