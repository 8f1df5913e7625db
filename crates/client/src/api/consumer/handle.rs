//! A handle to a consumer for use while another thread reads it: it ends the reading, waits for the threads that work on
//! entries, and acknowledges several entries at once.
//!
//! Any thread.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::entry::{Entry, ack};
use super::held::Held;
use crate::error::{Effect, Error, ErrorKind};
use crate::reply::mapped::Mapped;
use crate::reply::parked;
use crate::sys::now;

/// Ends a [`Consumer`](crate::Consumer), waits for the threads that work on its entries, and acknowledges several of them at
/// once.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use std::time::Duration;
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::embedded();
/// for number in 0..100 {
///     client.xadd("events", ("number", number)).forget();
/// }
/// let mut events = client.group("events", "sums", "worker-1");
/// let handle = events.handle();
/// let mut batch = Vec::new();
/// for entry in &mut events {
///     batch.push(entry?);
///     if batch.len() == 50 {
///         assert_eq!(handle.ack(batch.drain(..)).wait()?, 50); // one XACK
///         handle.stop(); // what has come meanwhile still comes
///     }
/// }
/// drop(batch); // for the next of this name
/// handle.finish(Duration::from_secs(10))?;
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
#[derive(Clone)]
pub struct ConsumerHandle {
    held: Arc<Held>,
}

impl ConsumerHandle {
    pub(crate) fn of(held: Arc<Held>) -> Self {
        Self { held }
    }

    /// Ends the consumer: it requests no more entries, hands out those that the server has given to it, and then its loop
    /// ends.
    pub fn stop(&self) {
        self.held.stop();
    }

    /// Returns the number of entries that the program has neither acknowledged nor dropped.
    pub fn unfinished(&self) -> usize {
        self.held.count()
    }

    /// Acknowledges several entries of the same consumer at once; the answer is the number of those that were still pending.
    pub fn ack<I: IntoIterator<Item = Entry>>(
        &self,
        entries: I,
    ) -> Mapped<u64, impl FnOnce(u64) -> Result<u64, Error> + Send + use<I>> {
        ack(&self.held, Vec::from_iter(entries))
    }

    /// Waits until all entries that were handed out are acknowledged or dropped, but for no longer than this. It does not
    /// stop the consumer.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) with the number of those that are not.
    pub fn finish(&self, timeout: Duration) -> Result<(), Error> {
        let deadline = now().checked_add(timeout);
        parked(deadline, |context| self.held.poll_none(context)).ok_or_else(|| {
            let count = self.unfinished();
            let message = format!("{count} entries are still neither acknowledged nor dropped");
            Error::new(ErrorKind::Timeout, Effect::Unknown, message)
        })
    }

    /// Waits as [`finish`](Self::finish) does, in async code and without a limit.
    pub async fn finish_async(&self) {
        poll_fn(|context| self.held.poll_none(context)).await;
    }
}

impl std::fmt::Debug for ConsumerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerHandle").field("unfinished", &self.unfinished()).finish_non_exhaustive()
    }
}
