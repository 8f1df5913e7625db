//! The shell's end of an engine in this process: bytes in, bytes out, and a wait for bytes that come later.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use sleeve_server::{Engine, Local};

/// The pause before an engine without threads is asked whether time alone has produced a reply (CLIENT PAUSE).
const PATIENCE: Duration = Duration::from_millis(5);

/// A session of the engine.
#[derive(Debug)]
pub struct Embedded {
    local: Local,
    /// The receiver of wake-ups: the engine sends one when it has more replies.
    wakes: Receiver<()>,
    replies: Vec<u8>,
    closed: bool,
}

impl Embedded {
    /// Opens a session.
    pub fn connect(engine: &Arc<Engine>) -> Self {
        let (waker, wakes) = channel();
        // The receiver is dropped with the session; after that no thread needs to be woken.
        let local = Local::open(engine, move || _ = waker.send(()));
        Self { local, wakes, replies: Vec::new(), closed: false }
    }

    /// Returns whether the session has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Executes requests; their replies wait to be received.
    pub fn send(&mut self, requests: &[u8]) {
        self.closed |= self.local.exchange(requests, &mut self.replies).is_err();
    }

    /// Appends at least one byte of replies to `buffer`, and waits for it if necessary.
    ///
    /// Fails with `UnexpectedEof` if the session has ended, or if `is_over` says that the caller waits no more.
    pub fn receive(&mut self, buffer: &mut Vec<u8>, is_over: impl Fn() -> bool) -> io::Result<()> {
        while self.replies.is_empty() {
            if is_over() {
                return Err(io::Error::other("Interrupted"));
            }
            if self.closed {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "Server closed the connection"));
            }
            // The session is asked whether woken or not, because wake-ups come from other threads, and there may be none.
            if self.wakes.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Disconnected) {
                self.closed = true;
            }
            self.send(&[]);
        }
        buffer.append(&mut self.replies);
        Ok(())
    }
}
