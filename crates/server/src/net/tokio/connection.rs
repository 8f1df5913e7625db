//! A connection of the driver `tokio`: a task that waits until its socket is ready, and receives and sends.
//!
//! The task has two halves, which wait for different things: one receives and one sends. Changes by the worker (it has taken
//! the bytes that arrived, holds the connection, wants bytes sent, closes) wake the task, and both halves check the state
//! then; so neither has to know which change it waits for, and the task has no state of its own. All of it runs in the thread
//! that waits for the driver's events.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::task::yield_now;

use super::inbox::{Inbox, News, Received};
use crate::net::event::{Event, Sending, Token};
use crate::net::held_input::HeldInput;
use crate::net::send_pieces::send_pieces;
use crate::request::output::Output;

/// The length above which replies are sent at once.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// A connection of the driver `tokio`.
#[derive(Debug)]
pub struct TokioConnection {
    token: Token,
    socket: AsyncFd<OwnedFd>,
    inbox: Arc<Inbox>,
    traffic: Mutex<Traffic>,
}

/// The state that the worker and the task share.
#[derive(Debug, Default)]
struct Traffic {
    /// The connection has a task.
    has_begun: bool,
    /// The waker of the task.
    task: Option<Waker>,
    incoming: Incoming,
    /// The unsent bytes.
    waiting: Output,
    /// The client takes no more bytes at present: the task waits until it does.
    is_full: bool,
    /// The connection can send no more.
    is_broken: bool,
    is_closed: bool,
    /// An event is due: waiting bytes have been sent, or bytes begin to wait.
    has_sent: bool,
    /// The client's end has been reported.
    is_end_told: bool,
    /// The connection is in the inbox.
    is_listed: bool,
    /// The next wait wakes the connection's task.
    is_noted: bool,
    /// The connection is in the driver's list of those for which bytes were queued.
    is_queued: bool,
}

/// The received bytes, and the state of receiving.
#[derive(Debug, Default)]
struct Incoming {
    /// The range in the inbox of the bytes that have arrived and have not been taken.
    arrived: Range<usize>,
    /// The bytes that had arrived when the connection was held.
    aside: HeldInput,
    /// Receiving is paused until the session can go on.
    is_held: bool,
    /// There may be bytes to receive that the kernel has reported already.
    is_unread: bool,
    /// The client has disconnected while the connection was held.
    has_gone: bool,
    /// The client sends no more bytes.
    has_ended: bool,
}

impl Incoming {
    #[inline]
    fn has_arrived(&self) -> bool {
        !self.arrived.is_empty() || !self.aside.is_empty()
    }
}

impl Traffic {
    /// Returns whether the connection's end is to be reported: after the bytes that the client has sent; for a held
    /// connection, when its replies have been sent.
    fn is_over(&self) -> bool {
        let is_last = self.incoming.is_held || !self.incoming.has_arrived();
        let has_ended = (self.incoming.has_ended || self.incoming.has_gone) && !(self.incoming.is_held && self.is_full);
        !self.is_end_told && is_last && (self.is_broken || has_ended)
    }

    fn has_news(&self) -> bool {
        self.incoming.has_arrived() && !self.incoming.is_held || self.has_sent || self.is_over()
    }
}

/// The functions for the driver.
impl TokioConnection {
    /// Makes a connection with a task that does not run yet; called within a runtime.
    ///
    /// # Errors
    /// The errors of the kernel; the connection is closed then.
    pub fn new(token: Token, socket: OwnedFd, inbox: &Arc<Inbox>) -> io::Result<Self> {
        // SAFETY: the value that is passed here owns the descriptor, and is never replaced: it is only borrowed later.
        let socket = unsafe { AsyncFd::register(socket)? };
        Ok(Self { token, socket, inbox: Arc::clone(inbox), traffic: Mutex::default() })
    }

    /// Returns the number of its socket.
    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Returns whether the connection has to be added to those with tasks that the next wait wakes.
    #[inline]
    pub fn note(&self) -> bool {
        !std::mem::replace(&mut self.traffic.lock().is_noted, true)
    }

    /// Wakes the connection's task; returns whether the task has to be started first.
    #[inline]
    pub fn wake(&self) -> bool {
        let mut traffic = self.traffic.lock();
        traffic.is_noted = false;
        if let Some(task) = &traffic.task {
            task.wake_by_ref();
        }
        !std::mem::replace(&mut traffic.has_begun, true)
    }

    /// Returns the connection's event. If it is received bytes, they are at the start of the buffer.
    #[inline]
    pub fn event(&self, buffer: &mut [u8]) -> Event {
        let traffic = &mut *self.traffic.lock();
        if traffic.is_closed || !std::mem::take(&mut traffic.is_listed) {
            return Event::Nothing;
        }
        let event = if traffic.incoming.is_held && !traffic.incoming.arrived.is_empty() {
            let (place, inbox) = (&mut traffic.incoming.arrived, &self.inbox);
            traffic.incoming.aside.put(place.len(), |room| _ = inbox.take(place, room));
            Event::Nothing
        } else if traffic.incoming.has_arrived() && !traffic.incoming.is_held {
            let is_aside = !traffic.incoming.aside.is_empty();
            let count = if is_aside {
                traffic.incoming.aside.take(buffer)
            } else {
                self.inbox.take(&mut traffic.incoming.arrived, buffer)
            };
            Event::Received(self.token, count)
        } else if std::mem::take(&mut traffic.has_sent) {
            Event::Sent(self.token, if traffic.is_full { traffic.waiting.len() } else { 0 })
        } else if traffic.is_over() {
            traffic.is_end_told = true;
            Event::Closed(self.token)
        } else {
            Event::Nothing
        };
        self.list(traffic);
        event
    }

    /// Takes the bytes of `output`, behind those that already wait.
    #[inline]
    pub fn put(&self, output: &mut Output) {
        output.move_to(&mut self.traffic.lock().waiting);
    }

    /// Adds bytes to the unsent ones; returns whether they are the first that are queued.
    #[inline]
    pub fn queue(&self, bytes: &Arc<Vec<u8>>) -> bool {
        let mut traffic = self.traffic.lock();
        self.inbox.refill(&mut traffic.waiting);
        traffic.waiting.push_shared(bytes);
        !std::mem::replace(&mut traffic.is_queued, true)
    }

    /// Sends the unsent bytes: by its task if they are short, and otherwise at once as far as the client takes them.
    #[inline]
    pub fn send_waiting(&self) -> Sending {
        let traffic = &mut *self.traffic.lock();
        traffic.is_queued = false;
        if traffic.is_broken {
            traffic.waiting.clear();
            return Sending::Broken;
        }
        if traffic.is_full {
            return Sending::Waiting(traffic.waiting.len());
        }
        if traffic.waiting.plain().is_some_and(|bytes| bytes.len() <= GATHERED_BYTES_MAX) {
            return Sending::Done;
        }
        self.try_send(traffic)
    }

    /// Sends at once as many of the unsent bytes as the client takes.
    pub fn flush(&self) -> Sending {
        self.try_send(&mut self.traffic.lock())
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self) -> usize {
        let traffic = self.traffic.lock();
        if traffic.is_full { traffic.waiting.len() } else { 0 }
    }

    /// Returns how many bytes have not left.
    pub fn unsent(&self) -> usize {
        self.traffic.lock().waiting.len()
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self) -> usize {
        self.traffic.lock().waiting.spare()
    }

    /// Stops or resumes receiving; returns whether that is a change.
    pub fn hold(&self, is_held: bool) -> bool {
        let traffic = &mut *self.traffic.lock();
        let is_change = traffic.incoming.is_held != is_held;
        if is_change {
            (traffic.incoming.is_held, traffic.incoming.has_gone, traffic.is_end_told) = (is_held, false, false);
            self.list(traffic);
        }
        is_change
    }

    /// Ends the connection after the bytes that can be sent at once; its task releases the socket when it is woken.
    pub fn close(&self) {
        let traffic = &mut *self.traffic.lock();
        if !traffic.is_full {
            _ = send_pieces(self.socket.get_ref(), &mut traffic.waiting);
        }
        traffic.is_closed = true;
    }
}

/// The future that transports the bytes of a connection until it is closed: the connection's task consists of this future
/// alone, and all for which it waits is in the state. Two futures that wait for the same took 176 bytes a connection, and
/// tokio rounds a task up to a multiple of 128 bytes.
#[derive(Debug)]
pub struct Carrying(pub Arc<TokioConnection>);

impl Future for Carrying {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let connection = &*self.0;
        let _held = connection.inbox.hold();
        let traffic = &mut *connection.traffic.lock();
        if traffic.is_closed {
            return Poll::Ready(());
        }
        traffic.task.get_or_insert_with(|| cx.waker().clone());
        // Neither half ends by itself.
        connection.send(traffic, cx);
        connection.receive(traffic, cx);
        Poll::Pending
    }
}

/// The work of the connection's task.
impl TokioConnection {
    /// Sends the unsent bytes, as far as the peer takes them.
    #[inline]
    fn send(&self, traffic: &mut Traffic, cx: &mut Context<'_>) {
        while !traffic.waiting.is_empty() && !traffic.is_broken {
            let Poll::Ready(ready) = self.socket.poll_write_ready(cx) else { return };
            let Ok(mut ready) = ready else {
                traffic.is_broken = true;
                return self.list(traffic);
            };
            let (was_full, before) = (traffic.is_full, traffic.waiting.len());
            let sending = self.try_send(traffic);
            // The worker knows already of bytes that were sent at once.
            traffic.has_sent |= traffic.is_full != was_full || was_full && traffic.waiting.len() != before;
            self.list(traffic);
            if matches!(sending, Sending::Waiting(_)) {
                ready.clear_ready();
            }
        }
    }

    /// Receives bytes, as long as the worker takes them.
    #[inline]
    fn receive(&self, traffic: &mut Traffic, cx: &mut Context<'_>) {
        while !traffic.incoming.has_ended {
            let Poll::Ready(ready) = self.poll_receivable(traffic, cx) else { return };
            let Ok(ready) = ready else { return self.end(traffic) };
            if !self.inbox.has_room() {
                // When other tasks have had a turn, this task is polled again.
                _ = pin!(yield_now()).poll(cx);
                return;
            }
            let received = self.inbox.receive(self.socket.get_ref());
            let is_all = received.as_ref().map_or_else(|error| *error == Errno::AGAIN, |received| !received.is_cut);
            if is_all {
                traffic.incoming.is_unread = false;
                ready.into_iter().for_each(|mut ready| ready.clear_ready());
            }
            match received {
                Ok(Received { place, .. }) if !place.is_empty() => traffic.incoming.arrived = place,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(_) | Err(_) => return self.end(traffic),
            }
            self.list(traffic);
        }
    }

    /// Notes that nothing more is received.
    fn end(&self, traffic: &mut Traffic) {
        traffic.incoming.has_ended = true;
        self.list(traffic);
    }

    /// Polls for readiness to receive: ready if there may be bytes to receive and the worker takes them. Returns the
    /// readiness guard, if there is one.
    #[inline]
    fn poll_receivable(
        &self,
        traffic: &mut Traffic,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<AsyncFdReadyGuard<'_, OwnedFd>>>> {
        loop {
            if traffic.incoming.has_arrived() || traffic.incoming.has_gone {
                return Poll::Pending;
            }
            let mut ready = match self.socket.poll_read_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending if traffic.incoming.is_unread && !traffic.incoming.is_held => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Pending => return Poll::Pending,
            };
            if !traffic.incoming.is_held {
                return Poll::Ready(Ok(Some(ready)));
            }
            // The client's bytes stay with the kernel, and only its end is reported.
            if ready.ready().is_read_closed() {
                traffic.incoming.has_gone = true;
                self.list(traffic);
            } else {
                traffic.incoming.is_unread = true;
                ready.clear_ready();
            }
        }
    }

    /// Sends until everything has left or the peer takes no more.
    fn try_send(&self, traffic: &mut Traffic) -> Sending {
        let sending = send_pieces(self.socket.get_ref(), &mut traffic.waiting);
        traffic.is_full = matches!(sending, Sending::Waiting(_));
        match sending {
            Sending::Done => self.inbox.keep(std::mem::take(&mut traffic.waiting)),
            Sending::Waiting(_) => {}
            Sending::Broken => {
                traffic.is_broken = true;
                traffic.waiting.clear();
            }
        }
        sending
    }

    /// Lists the connection in the inbox if it has an event.
    #[inline]
    fn list(&self, traffic: &mut Traffic) {
        if traffic.has_news() && !std::mem::replace(&mut traffic.is_listed, true) {
            self.inbox.tell(News::Connection(self.token));
        }
    }
}
