//! The runtime of the tasks that wait as the reader of a connection.
//!
//! A task that awaits a single reply would be woken by the reactor's thread: two switches between threads for each call, which
//! cost more than the call. But the runtime of the task sleeps in an event loop of its own. So when all recent waiters were
//! tasks of one runtime (`task_waits`), this runtime watches the socket too, and the reactor watches it no longer. When bytes
//! arrive, the runtime calls a waker that belongs to the connection and to no task. The waker reads, answers the callers and
//! wakes their tasks, all on the runtime's own thread. No task is created, and no task of the application has to have a turn.
//!
//! The reactor keeps everything else: timeouts, heartbeats, the loss of the connection. It takes the socket back
//!
//! - at once, if a caller outside of the runtime waits or sends: a thread, a callback, a task of another runtime;
//! - at once, if the runtime ends, which the waker is told by the runtime;
//! - after 20 ms at most, if bytes have arrived and the runtime did not read them: a task may hold it up, or nothing
//!   drives it at the moment. Then more waits are required before the runtime reads again;
//! - after a large reply, which would hold up the runtime, and whenever the socket is full or closing.
//!
//! It is not used for connections that share memory with the server, for those of commands that wait on the server, and for
//! those with a cache, whose invalidations must not depend on a runtime.

use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use crate::connection::connect::socket::Socket;
use crate::sys::lock::Mutex;
use crate::sys::runtime::Watched;

/// A connection that reads when it is told of bytes.
pub(crate) trait Reads: Send + Sync {
    /// Reads the bytes that have arrived.
    fn arrived(&self);
}

/// The runtime's hold on a connection.
pub(crate) struct RuntimeReader {
    connection: Weak<dyn Reads>,
    watched: Mutex<Option<Arc<WatchedSocket>>>,
}

/// A socket that the runtime watches.
pub(crate) struct WatchedSocket {
    pub(crate) watched: Watched,
    pub(crate) socket: Arc<Socket>,
    waker: Waker,
}

/// The waker that the runtime calls when bytes have arrived.
struct Arrival(Weak<dyn Reads>);

impl Wake for Arrival {
    fn wake(self: Arc<Self>) {
        if let Some(connection) = self.0.upgrade() {
            connection.arrived();
        }
    }
}

impl RuntimeReader {
    pub(crate) fn new(connection: Weak<dyn Reads>) -> Self {
        Self { connection, watched: Mutex::new(None) }
    }

    /// Watches a socket in the runtime of the calling task. Returns whether that succeeded.
    pub(crate) fn watch(&self, socket: &Arc<Socket>) -> bool {
        let Ok(watched) = Watched::new(socket) else { return false };
        let waker = Waker::from(Arc::new(Arrival(self.connection.clone())));
        let held = WatchedSocket { watched, socket: Arc::clone(socket), waker };
        // No event was taken yet, so nothing but an error can be reported.
        let is_watched = held.poll_readable().is_pending();
        if is_watched {
            *self.watched.lock() = Some(Arc::new(held));
        }
        is_watched
    }

    /// Returns the socket that is watched.
    pub(crate) fn held(&self) -> Option<Arc<WatchedSocket>> {
        self.watched.lock().clone()
    }

    /// Ends the watch.
    pub(crate) fn stop(&self) {
        drop(self.watched.lock().take());
    }
}

impl WatchedSocket {
    /// Returns whether bytes have arrived; if not, asks for the report of the next. An error means that the runtime has ended.
    pub(crate) fn poll_readable(&self) -> Poll<std::io::Result<()>> {
        self.watched.poll_readable(&mut Context::from_waker(&self.waker))
    }
}
