//! Waiting for the two events in a task's life: the end of its first attempt to connect, and its own end. A connection has
//! such a life, and so has a cluster.
//!
//! The progress stands under a lock of its own, with the wakers of async code that waits for it; threads wait at the
//! condition variable. The task notifies both whenever the progress changes, so that no waiter polls. Any thread but the
//! reactor's.

use std::sync::Arc;
use std::time::Instant;

use super::TaskWaker;
use super::watcher::watch_for;
use crate::config::Endpoint;
use crate::error::{Effect, Error, ErrorKind};
use crate::sys::lock::{Condvar, Mutex};

/// The progress of a task's life.
pub(crate) trait Progress {
    /// Returns the result of the first attempt; none while it lasts.
    fn first(&self) -> Option<Result<(), Error>>;

    /// Returns whether the task has ended.
    fn has_ended(&self) -> bool;

    /// Returns the tasks to wake when the first attempt or the life ends.
    fn watchers(&mut self) -> &mut Vec<TaskWaker>;
}

/// A life that begins and ends once.
pub(crate) trait Lifetime: Send + Sync + 'static {
    /// The progress of this life.
    type Progress: Progress;

    /// Returns the progress, and the condition variable that is notified when it changes.
    fn progress(&self) -> (&Mutex<Self::Progress>, &Condvar);

    /// Returns the endpoint to which the task connects, for errors.
    fn endpoint(&self) -> &Endpoint;

    /// Waits until the first attempt has ended.
    fn wait_first(&self) -> Result<(), Error> {
        let (progress, changed) = self.progress();
        let mut progress = progress.lock();
        loop {
            match progress.first() {
                Some(result) => return result,
                None => changed.wait(&mut progress),
            }
        }
    }

    /// Waits in async code as `wait_first` does on a thread.
    fn await_first(self: Arc<Self>) -> impl Future<Output = Result<(), Error>> + Send {
        let look = move |task_waker, _| {
            let mut progress = self.progress().0.lock();
            let first = progress.first();
            if first.is_none() {
                progress.watchers().push(task_waker);
            }
            first
        };
        watch_for(None, look)
    }

    /// Waits until the task has ended, but no longer than until the deadline.
    fn wait_end(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let (progress, changed) = self.progress();
        let mut progress = progress.lock();
        while !progress.has_ended() {
            match deadline {
                None => changed.wait(&mut progress),
                Some(deadline) => {
                    if changed.wait_until(&mut progress, deadline).timed_out() && !progress.has_ended() {
                        return Err(still_unanswered(self.endpoint()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits in async code as `wait_end` does on a thread.
    fn await_end(self: Arc<Self>, deadline: Option<Instant>) -> impl Future<Output = Result<(), Error>> + Send {
        let look = move |task_waker, is_late: bool| {
            let mut progress = self.progress().0.lock();
            if progress.has_ended() {
                return Some(Ok(()));
            }
            progress.watchers().push(task_waker);
            is_late.then(|| Err(still_unanswered(self.endpoint())))
        };
        watch_for(deadline, look)
    }
}

fn still_unanswered(endpoint: &Endpoint) -> Error {
    let message = format!("some commands are still not answered by {endpoint}");
    Error::new(ErrorKind::Timeout, Effect::Unknown, message)
}
