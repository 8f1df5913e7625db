//! Accepting: a task for each listener, which waits for connections.
//!
//! If several drivers watch a listener, each is woken for every connection: tokio cannot ask the kernel to wake one of them.
//! The first takes the connection, and the others find nothing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, yield_now};

use super::inbox::{Inbox, News};
use crate::net::listeners::listener::Listener;

/// The listeners of one driver.
#[derive(Debug, Default)]
pub struct AcceptTasks {
    tasks: Vec<JoinHandle<()>>,
    /// The notification that accepting is to be tried again after a failure.
    again: Arc<Notify>,
}

/// A listener, as tokio asks for its descriptor.
#[derive(Debug)]
struct Watched(Arc<Listener>);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl AcceptTasks {
    /// Begins to accept from a listener from which other drivers may accept too.
    ///
    /// # Errors
    /// The errors of the kernel.
    pub fn listen(&mut self, runtime: &Runtime, listener: Arc<Listener>, inbox: &Arc<Inbox>) -> io::Result<()> {
        let _runtime = runtime.enter();
        // SAFETY: a listener owns its descriptor for its whole life, and is held here.
        let socket = unsafe { AsyncFd::register_with_interest(Watched(listener), Interest::READABLE)? };
        self.tasks.push(runtime.spawn(accept(socket, Arc::clone(inbox), Arc::clone(&self.again))));
        Ok(())
    }

    /// Stops accepting and releases the listeners.
    pub fn stop(&mut self, runtime: &Runtime) {
        self.tasks.iter().for_each(JoinHandle::abort);
        for task in self.tasks.drain(..) {
            // The only result is that the task was aborted.
            _ = runtime.block_on(task);
        }
    }

    /// Tries to accept again after a failure.
    pub fn again(&self) {
        self.again.notify_waiters();
    }
}

/// Accepts connections, until the listener is closed.
async fn accept(socket: AsyncFd<Watched>, inbox: Arc<Inbox>, again: Arc<Notify>) {
    let _held = inbox.hold();
    while let Ok(mut ready) = socket.readable().await {
        match socket.get_ref().0.accept_some() {
            Ok(accepted) if accepted.is_empty() => {
                if ready.ready().is_read_closed() {
                    return;
                }
                ready.clear_ready();
            }
            Ok(accepted) => {
                inbox.tell(News::Accepted(accepted));
                yield_now().await;
            }
            Err(error) => {
                inbox.tell(News::AcceptFailed(error));
                again.notified().await;
            }
        }
    }
}
