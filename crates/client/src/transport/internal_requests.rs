//! Requests that a task of the reactor sends for itself: for a node's role, or for the owners of slots.
//!
//! A task must not wait as callers do, so each answer has a waker that gives the task a turn, and the task then takes the
//! answer without waiting. The requests are admitted to a full queue as well: the client's own requests do not wait behind
//! its callers' requests. On the reactor's thread alone.

use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use crate::connection::Link;
use crate::pipe::asker::Unit;
use crate::pipe::slot::{Driver, Handle, Source, Waiter};
use crate::reactor::TaskWaker;
use crate::resp::request::name::Name;
use crate::sys::clock_ms;

/// The waker of an answer, which gives the task a turn.
struct WakeTask(TaskWaker);

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// The sender of one task's requests.
pub(super) struct InternalRequests {
    source: Source,
    waker: Waker,
    task_waker: TaskWaker,
    database: u32,
}

impl InternalRequests {
    /// Creates the sender for the task of this waker, in this database.
    pub(super) fn new(driver: Weak<dyn Driver>, task_waker: TaskWaker, database: u32) -> Self {
        Self { source: Source::new(driver), waker: Waker::from(Arc::new(WakeTask(task_waker))), task_waker, database }
    }

    /// Sends a request; returns none if the connection takes no more requests.
    pub(super) fn send(&mut self, link: &Arc<Link>, request: &[u8], name: Name) -> Option<Handle> {
        let (target, mut handle) = self.source.pair(name);
        let unit = Unit { database: self.database, target, length: request.len(), issued_ms: clock_ms() };
        link.send_gathered(vec![unit], request).ok()?;
        link.flush(Waiter::Other);
        if handle.poll_ready(&mut Context::from_waker(&self.waker), false).is_ready() {
            self.task_waker.wake();
        }
        Some(handle)
    }
}
