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

/// What carries bytes between the sockets of one worker and the worker.
#[derive(Debug)]
pub enum SocketDriver {
    /// Has tasks of tokio receive and send.
    Async(Async),
    /// Waits for what is ready; receives and sends by itself.
    Hybrid(Hybrid),
    /// Has the kernel receive and send.
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

    /// What it asks for what can be received or sent.
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
    /// So many drivers of the kind that the option `io` names; where the kernel refuses io_uring, of the kind `hybrid`, and why.
    ///
    /// # Errors
    /// What the kernel says against the kind.
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

    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Async(_) => Kind::Async,
            Self::Hybrid(_) => Kind::Hybrid,
            Self::Completion(_) => Kind::Completion,
        }
    }

    /// A driver of the kind `async`, without connections.
    ///
    /// # Errors
    /// What the kernel says, such as too many open files.
    pub fn asynchronous() -> io::Result<Self> {
        Async::new().map(Self::Async)
    }

    /// A driver of the kind `hybrid`, without connections.
    ///
    /// # Errors
    /// What the kernel says, such as too many open files.
    pub fn hybrid() -> io::Result<Self> {
        Hybrid::new().map(Self::Hybrid)
    }

    /// A driver of the kind `completion`, without connections.
    ///
    /// # Errors
    /// What the kernel says: it knows no io_uring as new as 6.1, or does not let this process have it.
    pub fn completion() -> io::Result<Self> {
        Completion::new().map(Self::Completion)
    }

    /// What wakes this driver.
    pub fn waker(&self) -> Waker {
        any!(self, driver => driver.waker())
    }

    /// Begins to accept from a listener that other drivers may accept from too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(&mut self, listener: Arc<Listener>) -> io::Result<()> {
        any!(self, driver => driver.listen(listener))
    }

    /// Stops accepting and lets go of the listeners.
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
    /// What the kernel says; the connection is closed then.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<Token> {
        match self {
            Self::Async(driver) => driver.adopt(socket),
            Self::Hybrid(driver) => driver.adopt(socket),
            Self::Completion(driver) => Ok(driver.adopt(socket)),
        }
    }

    /// The number of a connection's socket.
    pub fn descriptor(&self, token: Token) -> i32 {
        any!(self, driver => driver.descriptor(token))
    }

    /// Waits until something happens or the time is over; returns how many events [`SocketDriver::event`] has.
    ///
    /// # Errors
    /// What the kernel says; an interruption is no error.
    #[inline]
    pub fn wait(&mut self, timeout_ms: u64) -> io::Result<usize> {
        any!(self, driver => driver.wait(timeout_ms))
    }

    /// What event `index` of this wake-up was, asked for in their order. Bytes that arrived are at the start of the buffer then.
    #[inline]
    pub fn event(&mut self, index: usize, buffer: &mut [u8]) -> Event {
        match self {
            Self::Async(driver) => driver.event(buffer),
            Self::Hybrid(driver) => driver.event(index, buffer),
            Self::Completion(driver) => driver.event(buffer),
        }
    }

    /// Takes what is in `output`, behind what already waits, and leaves it empty, even where the connection is broken: the next
    /// connection's replies go into the same buffer.
    #[inline]
    pub fn send(&mut self, token: Token, output: &mut Output) -> Sending {
        any!(self, driver => driver.send(token, output))
    }

    /// Sends of each output what can leave at once and is cheaper to send together; returns how many sends that were, and how
    /// many bytes have left. The rest, and what concerns the connections, is for [`SocketDriver::send`].
    #[inline]
    pub fn send_together(&mut self, outputs: &mut [(Token, Output)]) -> (usize, usize) {
        match self {
            Self::Hybrid(driver) => driver.send_together(outputs),
            Self::Async(_) | Self::Completion(_) => (0, 0),
        }
    }

    /// Adds bytes that others are sent too to what waits, without sending: [`SocketDriver::send_queued`] follows.
    #[inline]
    pub fn queue(&mut self, token: Token, bytes: &Arc<Vec<u8>>) {
        any!(self, driver => driver.queue(token, bytes));
    }

    /// The connections to which something was queued since the last call; each is for [`SocketDriver::send_queued`].
    pub fn take_queued(&mut self) -> Vec<Token> {
        any!(self, driver => driver.take_queued())
    }

    /// Sends what was queued, behind what already waits.
    pub fn send_queued(&mut self, token: Token) -> Sending {
        any!(self, driver => driver.send_queued(token))
    }

    /// Has leave at once what [`Sending::Done`] has only promised: asked where nothing else is to follow.
    pub fn flush(&mut self, token: Token) -> Sending {
        match self {
            Self::Async(driver) => driver.flush(token),
            Self::Hybrid(_) => Sending::Done,
            Self::Completion(driver) => driver.flush(token),
        }
    }

    /// How many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self, token: Token) -> usize {
        any!(self, driver => driver.waiting(token))
    }

    /// How many bytes have not left, also where they only wait for the end of the wake-up.
    pub fn unsent(&self, token: Token) -> usize {
        match self {
            Self::Async(driver) => driver.unsent(token),
            Self::Hybrid(driver) => driver.waiting(token),
            Self::Completion(driver) => driver.unsent(token),
        }
    }

    /// Room in the buffers of what waits that holds nothing.
    pub fn spare(&self, token: Token) -> usize {
        any!(self, driver => driver.spare(token))
    }

    /// Stops or resumes receiving from a connection; nothing is lost of what it has sent.
    pub fn hold(&mut self, token: Token, held: bool) {
        any!(self, driver => driver.hold(token, held));
    }

    /// Closes a connection and drops what the peer does not take.
    pub fn close(&mut self, token: Token) {
        any!(self, driver => driver.close(token));
    }

    /// Gets ready to be used by another thread than before.
    ///
    /// # Errors
    /// What the kernel says; the same thread may go on with it then.
    pub fn change_thread(&mut self) -> io::Result<()> {
        match self {
            Self::Async(_) | Self::Hybrid(_) => Ok(()),
            Self::Completion(driver) => driver.change_thread(),
        }
    }
}
