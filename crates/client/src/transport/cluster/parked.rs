//! Leaving a request without a destination to the cluster's task, and the wait for room among such requests.
//!
//! Senders leave a request here while they hold the map's read lock, so that the task, which changes the map under its write
//! lock, finds all of them before it opens a slot. Their bytes count against the bound on the queue, as those on a connection
//! do.

use std::time::Instant;

use super::Cluster;
use crate::config::QueueFull;
use crate::error::{Error, ErrorKind};
use crate::pipe::queued::{Queued, Sent, runs_tasks};
use crate::pipe::routed::Routed;
use crate::pipe::slot::Completions;
use crate::sys::now;

impl Cluster {
    /// Leaves a request to the task. The caller has a lock on the map.
    pub(super) fn wait_for_task(&self, mut routed: Routed) -> Result<Sent, Error> {
        let length = routed.bytes.len();
        let bytes_max = self.config.limits.queue_bytes_max;
        let mut pending = self.pending.lock();
        if let Some(error) = &pending.closed {
            return Err(error.clone());
        }
        let is_full = pending.bytes + length > bytes_max && !pending.is_empty();
        if is_full && self.config.limits.queue_full == QueueFull::Fail {
            let message = format!("{} bytes of requests wait for {} already", pending.bytes, self.config.endpoint);
            return Err(Error::unsent(ErrorKind::QueueFull, format!("{message}, so the command was not sent")));
        }
        let (target, handle) = self.source.lock().pair(routed.name);
        routed.attach(target);
        pending.enter(&routed);
        pending.arrived.push(routed);
        drop(pending);
        self.task_waker.wake();
        Ok(if is_full { Sent::Queued(Queued::new(handle, self.room_deadline())) } else { Sent::Slot(handle) })
    }

    /// Leaves requests that have their callers' slots to the task. The caller of this function has a lock on the map.
    pub(super) fn leave_to_task(&self, several: Vec<Routed>, done: &mut Completions) {
        let mut pending = self.pending.lock();
        for routed in several {
            match &pending.closed {
                Some(error) => routed.give_up(error.clone(), done),
                None => {
                    pending.enter(&routed);
                    pending.arrived.push(routed);
                }
            }
        }
        drop(pending);
        self.task_waker.wake();
    }

    pub(super) fn room_deadline(&self) -> Option<Instant> {
        self.config.command_timeout.and_then(|limit| now().checked_add(limit))
    }

    /// Holds up a caller that left a request while the waiting ones are above twice the bound, unless its thread runs async
    /// tasks. No lock may be held.
    pub(super) fn hold_up(&self, sent: Sent) -> Sent {
        if let Sent::Queued(_) = sent
            && !runs_tasks()
        {
            self.await_room(self.room_deadline(), true);
        }
        sent
    }

    /// Waits until the waiting requests are within the bound (for a task, twice the bound), or the deadline has passed.
    pub(super) fn await_room(&self, deadline: Option<Instant>, is_task: bool) {
        let bytes_max = self.config.limits.queue_bytes_max.saturating_mul(if is_task { 2 } else { 1 });
        let mut beginning = self.beginning.lock();
        while self.pending.lock().bytes > bytes_max && !beginning.has_ended {
            match deadline {
                None => self.changed.wait(&mut beginning),
                Some(deadline) if self.changed.wait_until(&mut beginning, deadline).timed_out() => return,
                Some(_) => {}
            }
        }
    }

    /// Returns whether the requests that wait for the task, or the queue of a connection, are above the bound.
    pub(crate) fn is_overfull(&self) -> bool {
        self.process.is_this()
            && (self.pending.lock().bytes > self.config.limits.queue_bytes_max
                || self.links().iter().any(|link| link.is_overfull()))
    }

    /// Notes that this many requests with this many bytes no longer wait.
    pub(super) fn left(&self, requests: usize, bytes: usize) {
        self.pending.lock().leave(requests, bytes);
        // A waiter holds this lock from its check until it waits.
        let _beginning = self.beginning.lock();
        self.changed.notify_all();
    }
}
