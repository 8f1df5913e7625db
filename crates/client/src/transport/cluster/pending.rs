//! Work for the cluster's task: requests without a destination yet, and those that their nodes have returned: refused with a
//! redirect, or lost before they were sent.
//!
//! Pure data; the holder of its lock has all of it, for a moment. Any thread.

use crate::error::Error;
use crate::pipe::routed::Routed;
use crate::pipe::slot::Completions;

/// The requests that callers and connections have left to the cluster's task since its last turn.
#[derive(Default)]
pub(super) struct PendingRequests {
    /// Requests that could not be sent, oldest first.
    pub(super) arrived: Vec<Routed>,
    /// Requests that their nodes have returned, with the reasons, oldest first.
    pub(super) returned: Vec<(Routed, Error)>,
    /// True if the map may be wrong.
    pub(super) is_doubted: bool,
    /// The number of requests that wait here or with the task, and below it their bytes.
    waiting: usize,
    pub(super) bytes: usize,
    /// The reason why the task has ended; none while it runs.
    pub(super) closed: Option<Error>,
}

impl PendingRequests {
    pub(super) fn enter(&mut self, routed: &Routed) {
        self.waiting += 1;
        self.bytes += routed.bytes.len();
    }

    /// Adds a request that its node has returned. If the task has ended, gives the request back to the caller.
    pub(super) fn put_back(&mut self, routed: Routed, why: Error) -> Option<(Routed, Error)> {
        if self.closed.is_some() {
            return Some((routed, why));
        }
        self.enter(&routed);
        self.returned.push((routed, why));
        None
    }

    /// Notes that this many requests with this many bytes no longer wait.
    pub(super) fn leave(&mut self, requests: usize, bytes: usize) {
        self.waiting = self.waiting.saturating_sub(requests);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Notes that a request that waits has another number of bytes.
    pub(super) fn resize(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes.saturating_sub(before) + after;
    }

    /// Returns whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Ends the list: its requests fail with this reason.
    pub(super) fn close(&mut self, why: &str, done: &mut Completions) {
        let error = Error::closed(why);
        let arrived = self.arrived.drain(..);
        let returned = self.returned.drain(..).map(|(routed, _)| routed);
        arrived.chain(returned).for_each(|routed| routed.give_up(error.clone(), done));
        (self.waiting, self.bytes) = (0, 0);
        self.closed = Some(error);
    }
}
