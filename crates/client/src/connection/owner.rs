//! The operations of a connection's owner other than sending: waiting for it, lending it, checking it, ending it.
//!
//! Some connections belong to one caller for a while, and to others before and after it; the pool of their client
//! (`transport/pool`) keeps them in between. The present owner sets how long a reply may take, command by command; the
//! connection's task is woken when that changes. A connection is checked when it enters the pool and when it leaves it. Any
//! thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::link::Link;
use super::state::Shared;
use crate::config::Endpoint;
use crate::error::Error;
use crate::pipe::asker::{LIMIT_MS_MAX, limit_ms};
use crate::pipe::cached_read::Cache;
use crate::pipe::slot::Completions;
use crate::reactor::lifetime::Lifetime;
use crate::resp::request::blocking_commands::BlockTimeout;
use crate::sys::inherited;
use crate::sys::lock::{Condvar, Mutex};
use crate::sys::now;

impl Lifetime for Link {
    type Progress = Shared;

    fn progress(&self) -> (&Mutex<Shared>, &Condvar) {
        (&self.shared, &self.changed)
    }

    fn endpoint(&self) -> &Endpoint {
        &self.config.endpoint
    }
}

impl Link {
    /// Lets the task finish the queue and end, and waits for it for at most this long.
    pub(crate) fn close(&self, wait: Option<Duration>) -> Result<(), Error> {
        if !self.process.is_this() {
            return wait.map_or(Ok(()), |_| Err(inherited()));
        }
        let mut shared = self.shared.lock();
        shared.close();
        self.changed.notify_all();
        shared.wake_up();
        drop(shared);
        self.task_waker.wake();
        // A time beyond the range of the machine's clock never passes.
        wait.map_or(Ok(()), |wait| self.wait_end(now().checked_add(wait)))
    }

    /// Closes the connection as `close` does, in async code, and waits until the deadline, if there is one.
    pub(crate) async fn close_async(self: Arc<Self>, deadline: Option<Instant>) -> Result<(), Error> {
        if !self.process.is_this() {
            return Err(inherited());
        }
        self.close(None)?;
        self.await_end(deadline).await
    }

    /// Ends the connection at once: requests in flight are lost, and requests that were never written are not sent.
    pub(crate) fn abort(&self) {
        if !self.process.is_this() {
            return;
        }
        let mut shared = self.shared.lock();
        shared.close();
        let never_sent = match shared.socket() {
            Some(socket) => {
                socket.shut();
                Vec::new()
            }
            None => shared.pipe.queue.clear(),
        };
        drop(shared);
        self.changed.notify_all();
        self.task_waker.wake();
        let (error, mut done) = (Error::closed("the connection was given up"), Completions::default());
        never_sent.into_iter().for_each(|mut entry| entry.fail(&error, &mut done));
        self.finish(&mut done);
    }

    /// Returns whether nothing is in flight and the connection exists, or is still to be made.
    pub(crate) fn is_idle(&self) -> bool {
        if !self.process.is_this() {
            return false;
        }
        let shared = self.shared.lock();
        shared.pipe.is_idle() && !shared.has_ended()
    }

    /// Returns whether the connection exists, or will be made.
    pub(crate) fn is_open(&self) -> bool {
        self.process.is_this() && !self.shared.lock().has_ended()
    }
}

/// The operations on a connection that one caller owns for a while, and that others own before and after it.
impl Link {
    /// Sets the time for which the next command may wait on the server, in addition to the command timeout.
    pub(crate) fn set_block_timeout(&self, block_timeout: BlockTimeout) {
        let limit = match block_timeout {
            BlockTimeout::Endless => None,
            BlockTimeout::For(time) => self.config.command_timeout.and_then(|timeout| timeout.checked_add(time)),
        };
        self.tenure.is_blocking.store(true, Ordering::Relaxed);
        // A limit that is longer than the clock can watch is not watched.
        let limit_ms = limit_ms(limit.filter(|limit| limit.as_millis() < u128::from(LIMIT_MS_MAX)));
        self.limit(limit_ms);
    }

    fn limit(&self, limit_ms: u32) {
        if self.tenure.limit_ms.swap(limit_ms, Ordering::Relaxed) != limit_ms {
            self.task_waker.wake();
        }
    }

    /// Notes that no caller owns the connection any more. Returns whether it is connected, so that it may wait in the pool
    /// for the next owner.
    pub(crate) fn enter_pool(&self) -> bool {
        let shared = self.shared.lock();
        self.tenure.is_lasting.store(false, Ordering::Relaxed);
        shared.is_wanted() && shared.pipe.is_connected()
    }

    /// Notes that one caller owns the connection from now on. Returns false if it was lost.
    pub(crate) fn leave_pool(&self, lasting: bool) -> bool {
        if !self.process.is_this() {
            return false;
        }
        let shared = self.shared.lock();
        if !shared.is_wanted() || !shared.pipe.is_connected() {
            return false;
        }
        self.tenure.is_lasting.store(lasting, Ordering::Relaxed);
        self.tenure.is_blocking.store(false, Ordering::Relaxed);
        self.limit(limit_ms(self.config.command_timeout));
        true
    }

    /// Attaches a cache, which each connection of this link invalidates from now on. A link has at most one.
    pub(crate) fn attach(&self, cache: Arc<dyn Cache>) {
        self.shared.lock().observe();
        self.attach_common(cache);
    }

    /// Attaches a cache as `attach` does, to the connection to a node of a cluster; the cluster itself reports the requests
    /// that are sent to the cache.
    pub(crate) fn attach_common(&self, cache: Arc<dyn Cache>) {
        self.reply_reader.lock().cache = Some(Arc::clone(&cache));
        if self.tracker.cache.set(cache).is_err() {
            return;
        }
        let mut shared = self.shared.lock();
        if shared.pipe.is_connected() {
            self.ask_to_track(&mut shared);
            self.pushed(shared);
        }
    }

    /// Asks the server to report changed keys, if there is a cache.
    pub(super) fn ask_to_track(&self, shared: &mut Shared) {
        let speaks_resp3 = self.server.speaks_resp3.load(Ordering::Relaxed);
        self.tracker.ask(&mut shared.pipe, speaks_resp3, &self.config.endpoint);
    }

    /// Stops a caller from reading its own replies on this connection, because its request has been sent to another node.
    pub(crate) fn release_reader(&self) {
        let mut shared = self.shared.lock();
        self.end_lone(&mut shared);
    }
}
