//! Waiting in async code, on any runtime, for the result of a connection's task: a task of the reactor checks for it,
//! whenever it is woken, and wakes the waiting future.
//!
//! If the future is dropped earlier, the check ends.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use super::task_context::TaskContext;
use super::{TaskWaker, start};
use crate::error::{Error, ErrorKind};
use crate::sys::lock::Mutex;
use crate::sys::now;
use crate::sys::wake::wake_all;

/// The state that the task and the future share.
struct Outcome<R> {
    result: Option<Result<R, Error>>,
    waker: Option<Waker>,
    /// True if the future was dropped.
    is_dropped: bool,
}

/// The receiving end: the future that awaits the result.
struct Awaited<R> {
    outcome: Arc<Mutex<Outcome<R>>>,
    task_waker: TaskWaker,
}

impl<R> Drop for Awaited<R> {
    fn drop(&mut self) {
        self.outcome.lock().is_dropped = true;
        self.task_waker.wake();
    }
}

/// Waits until `look` returns a result. `look` is called on the reactor's thread and must not block. As long as it returns
/// none, it has to ensure that the task is woken when there may be a result. After `until` it is called with the information
/// that time is up, and returns the error for that.
pub(crate) async fn watch_for<R: Send + 'static>(
    until: Option<Instant>,
    mut look: impl FnMut(TaskWaker, bool) -> Option<Result<R, Error>> + Send + 'static,
) -> Result<R, Error> {
    let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot wait for the connection: {error}"));
    let task_waker = TaskWaker::new().map_err(failed)?;
    let outcome = Arc::new(Mutex::new(Outcome { result: None, waker: None, is_dropped: false }));
    let (found, panicked) = (Arc::clone(&outcome), Arc::clone(&outcome));
    let task = async move |context: TaskContext| {
        while !found.lock().is_dropped {
            let is_late = until.is_some_and(|until| until <= now());
            if let Some(result) = look(task_waker, is_late) {
                return tell(&found, result);
            }
            context.wait(until).await;
        }
    };
    let on_panic = move |why: &str| {
        tell(&panicked, Err(Error::unsent(ErrorKind::Closed, format!("the task that waited for it panicked ({why})"))));
    };
    start(task_waker, task, on_panic).map_err(failed)?;
    let awaited = Awaited { outcome, task_waker };
    poll_fn(|context| {
        let mut outcome = awaited.outcome.lock();
        match outcome.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                outcome.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// Leaves the result to the future that awaits it.
fn tell<R>(outcome: &Mutex<Outcome<R>>, result: Result<R, Error>) {
    let mut outcome = outcome.lock();
    outcome.result = Some(result);
    let waker = outcome.waker.take();
    drop(outcome);
    wake_all(waker.into_iter());
}
