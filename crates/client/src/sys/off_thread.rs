//! Blocking work on a thread of its own, for callers that must not block: an async runtime's threads.
//!
//! It serves operations of an engine in this process that may take long (opening a folder, subscribing, closing). They are
//! rare, so a thread for each is cheap enough. The future may be dropped; the work is then finished, and its result dropped
//! on its thread. Any runtime.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;

use super::lock::Mutex;
use crate::error::{Error, ErrorKind};

/// The state that the thread and the future share.
struct Outcome<R> {
    result: Option<R>,
    waker: Option<Waker>,
    /// True once the thread has ended, with a result or by a panic.
    over: bool,
}

/// A guard that reports the end of the thread, however it ends.
struct End<R>(Arc<Mutex<Outcome<R>>>);

impl<R> Drop for End<R> {
    fn drop(&mut self) {
        let mut outcome = self.0.lock();
        outcome.over = true;
        let waker = outcome.waker.take();
        drop(outcome);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Does the work on a thread of this name, and awaits its result.
pub(crate) async fn apart<R: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> Result<R, Error> + Send + 'static,
) -> Result<R, Error> {
    let outcome = Arc::new(Mutex::new(Outcome { result: None, waker: None, over: false }));
    let end = End(Arc::clone(&outcome));
    let run = move || {
        let result = work();
        end.0.lock().result = Some(result);
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map_err(|error| Error::unsent(ErrorKind::Connect, format!("the system gives no thread: {error}")))?;
    poll_fn(move |context| {
        let mut outcome = outcome.lock();
        if !outcome.over {
            outcome.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let died = || Err(Error::unsent(ErrorKind::Closed, "the thread that did it panicked"));
        Poll::Ready(outcome.result.take().unwrap_or_else(died))
    })
    .await
}
