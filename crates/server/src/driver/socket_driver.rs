//! The three that carry bytes between sockets and a worker, behind the same calls, of which the option `io` chooses here: `async`
//! on tokio, `hybrid` on epoll and `completion` on io_uring.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::asynchronous::Async;
use super::completion::Completion;
use super::epoll::Hybrid;
use super::event::{Event, Sending, Token, Waker};
use super::listen::Listener;
use crate::request::output::Output;

/// The carrier of bytes between the sockets of one worker and the worker.
#[derive(Debug)]
pub enum SocketDriver {
    /// Tasks of tokio receive and send.
    Async(Async),
    /// The driver waits for ready sockets, and receives and sends by itself.
    Hybrid(Hybrid),
    /// The kernel receives and sends.
    Completion(Completion),
}

/// A kind of driver, as the option `io` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Every read and every write is awaited.
    Async,
    /// Waiting is asynchronous; receiving and sending are not.
    Hybrid,
    /// The kernel receives and sends.
    Completion,
}

impl Kind {
    /// All of them.
    #[cfg(test)]
    pub const ALL: [Self; 3] = [Self::Async, Self::Hybrid, Self::Completion];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Hybrid => "hybrid",
            Self::Completion => "completion",
        }
    }

    /// Returns the name of the interface that reports readiness.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Async => "tokio",
            Self::Hybrid => "epoll",
            Self::Completion => "io_uring",
        }
    }
}

/// Calls the same of whichever it is.
macro_rules! any {
    ($driver:expr, $name:ident => $call:expr) => {
        match $driver {
            SocketDriver::Async($name) => $call,
            SocketDriver::Hybrid($name) => $call,
            SocketDriver::Completion($name) => $call,
        }
    };
}

impl SocketDriver {
    /// Creates so many drivers of the kind that the option `io` names. If the kernel refuses io_uring, they are of the kind
    /// `hybrid`, and the reason is returned.
    ///
    /// # Errors
    /// Those of the kernel about the kind.
    pub fn chosen(io: &str, count: usize) -> io::Result<(Vec<Self>, Option<io::Error>)> {
        let all = |make: fn() -> io::Result<Self>| (0..count).map(|_| make()).collect::<io::Result<Vec<_>>>();
        match io {
            "completion" => match all(Self::completion) {
                Ok(drivers) => Ok((drivers, None)),
                Err(refusal) => Ok((all(Self::hybrid)?, Some(refusal))),
            },
            "async" => Ok((all(Self::asynchronous)?, None)),
            _ => Ok((all(Self::hybrid)?, None)),
        }
    }

    /// Returns its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Async(_) => Kind::Async,
            Self::Hybrid(_) => Kind::Hybrid,
            Self::Completion(_) => Kind::Completion,
        }
    }

    /// Creates a driver of the kind `async`, without connections.
    ///
    /// # Errors
    /// Those of the kernel, such as too many open files.
    pub fn asynchronous() -> io::Result<Self> {
        Async::new().map(Self::Async)
    }

    /// Creates a driver of the kind `hybrid`, without connections.
    ///
    /// # Errors
    /// Those of the kernel, such as too many open files.
    pub fn hybrid() -> io::Result<Self> {
        Hybrid::new().map(Self::Hybrid)
    }

    /// Creates a driver of the kind `completion`, without connections.
    ///
    /// # Errors
    /// Those of the kernel: it knows no io_uring as new as 6.1, or does not let this process have it.
    pub fn completion() -> io::Result<Self> {
        Completion::new().map(Self::Completion)
    }

    /// Returns a waker of this driver.
    pub fn waker(&self) -> Waker {
        any!(self, driver => driver.waker())
    }

    /// Begins to accept from a listener that other drivers may accept from too.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        any!(self, driver => driver.listen(listener))
    }

    /// Stops accepting and releases the listeners.
    pub fn stop_listening(&mut self) {
        any!(self, driver => driver.stop_listening());
    }

    /// Tries to accept again after [`Event::AcceptFailed`].
    pub fn accept_again(&mut self) {
        any!(self, driver => driver.accept_again());
    }

    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// Those of the kernel; the connection is closed then.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        match self {
            Self::Async(driver) => driver.adopt(socket),
            Self::Hybrid(driver) => driver.adopt(socket),
            Self::Completion(driver) => Ok(driver.adopt(socket)),
        }
    }

    /// Returns the number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        any!(self, driver => driver.descriptor(token))
    }

    /// Waits until something happens or until the timeout; returns how many events [`SocketDriver::event`] has.
    ///
    /// # Errors
    /// Those of the kernel; an interruption is no error.
    #[inline]
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        any!(self, driver => driver.wait(timeout_ms))
    }

    /// Returns event `index` of this wake-up; they are asked for in their order. Bytes that arrived are at the start of the
    /// buffer then.
    #[inline]
    pub fn event(&mut self, index: usize, buffer: &mut [u8]) -> Event {
        match self {
            Self::Async(driver) => driver.event(buffer),
            Self::Hybrid(driver) => driver.event(index, buffer),
            Self::Completion(driver) => driver.event(buffer),
        }
    }

    /// Takes the bytes of `output`, behind those that already wait, and leaves it empty, even where the connection is broken:
    /// the next connection's replies go into the same buffer.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        any!(self, driver => driver.send(token, output))
    }

    /// Sends of each output the bytes that can leave at once and are cheaper to send together; returns how many sends that
    /// were, and how many bytes have left. The rest, and the state of the connections, are for [`SocketDriver::send`].
    #[inline]
    pub fn send_together(&mut self, outputs: &mut [(Token, Output)]) -> (usize, usize) {
        match self {
            Self::Hybrid(driver) => driver.send_together(outputs),
            Self::Async(_) | Self::Completion(_) => (0, 0),
        }
    }

    /// Adds bytes that other connections share to the unsent bytes, without sending: [`SocketDriver::send_queued`] follows.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        any!(self, driver => driver.queue(token, bytes));
    }

    /// Returns the connections to which something was queued since the last call; each is for [`SocketDriver::send_queued`].
    pub fn take_queued(&mut self) -> Vec<Token> {
        any!(self, driver => driver.take_queued())
    }

    /// Sends the queued bytes, behind those that already wait.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        any!(self, driver => driver.send_queued(token))
    }

    /// Sends at once the bytes that [`Sending::Done`] has only promised: called where nothing else is to follow.
    pub fn flush(&mut self, token: Token) -> Sending {
        match self {
            Self::Async(driver) => driver.flush(token),
            Self::Hybrid(_) => Sending::Done,
            Self::Completion(driver) => driver.flush(token),
        }
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        any!(self, driver => driver.waiting(token))
    }

    /// Returns how many bytes have not left, also where they only wait for the end of the wake-up.
    pub fn unsent(&self, token: Token) -> usize {
        match self {
            Self::Async(driver) => driver.unsent(token),
            Self::Hybrid(driver) => driver.waiting(token),
            Self::Completion(driver) => driver.unsent(token),
        }
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self, token: Token) -> usize {
        any!(self, driver => driver.spare(token))
    }

    /// Stops or resumes receiving from a connection; no bytes that it has sent are lost.
    pub fn hold(&mut self, token: Token, held: bool) {
        any!(self, driver => driver.hold(token, held));
    }

    /// Closes a connection and drops the bytes that the peer does not take.
    pub fn close(&mut self, token: Token) {
        any!(self, driver => driver.close(token));
    }

    /// Prepares the driver for another thread than before.
    ///
    /// # Errors
    /// Those of the kernel; the same thread may go on with the driver then.
    pub fn change_thread(&mut self) -> io::Result<()> {
        match self {
            Self::Async(_) | Self::Hybrid(_) => Ok(()),
            Self::Completion(driver) => driver.change_thread(),
        }
    }
}
