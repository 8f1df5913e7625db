//! A connection of the driver `async`: a task that waits until its socket is ready, and receives and sends.
//!
//! The task has two halves, which wait for different things: one receives and one sends. Changes by the worker (it has taken
//! the bytes that arrived, holds the connection, wants bytes sent, closes) wake the task, and both halves check the state
//! then; so neither has to say which change it waits for, and the task keeps nothing of its own. All of it runs in the thread
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
use crate::driver::aside::Aside;
use crate::driver::event::{Event, Sending, Token};
use crate::driver::send_pieces::send_pieces;
use crate::request::output::Output;

/// Replies that are longer leave on the spot.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    token: Token,
    socket: AsyncFd<OwnedFd>,
    inbox: Arc<Inbox>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// It has a task.
    has_begun: bool,
    /// Wakes the task.
    task: Option<Waker>,
    /// The unsent bytes.
    waiting: Output,
    /// The place in the inbox of the bytes that have arrived and have not been taken.
    arrived: Range<usize>,
    /// The bytes that had arrived when it was held.
    aside: Aside,
    /// The peer takes no more at present: the task waits until it does.
    is_full: bool,
    /// Receiving is paused until the session can go on.
    is_held: bool,
    /// There may be something to receive of which the kernel has told already.
    is_unread: bool,
    /// The peer has gone while it was held.
    has_gone: bool,
    /// The peer says nothing more.
    has_ended: bool,
    /// The connection can send no more.
    is_broken: bool,
    is_closed: bool,
    /// An event is due: bytes that waited have left, or begin to wait.
    has_sent: bool,
    /// The end of the peer has been reported.
    is_end_told: bool,
    /// Stands in the inbox.
    is_listed: bool,
    /// Is woken with the next wait.
    is_noted: bool,
    /// Stands in the driver's list of those to which something was queued.
    is_queued: bool,
}

impl State {
    #[inline]
    fn has_arrived(&self) -> bool {
        !self.arrived.is_empty() || !self.aside.is_empty()
    }

    /// Returns whether its end is to be reported: behind the bytes that the peer has sent, and for a connection that is held
    /// when its replies have left.
    fn is_over(&self) -> bool {
        let is_last = self.is_held || !self.has_arrived();
        let has_ended = (self.has_ended || self.has_gone) && !(self.is_held && self.is_full);
        !self.is_end_told && is_last && (self.is_broken || has_ended)
    }

    fn has_news(&self) -> bool {
        self.has_arrived() && !self.is_held || self.has_sent || self.is_over()
    }
}

/// The calls of the driver.
impl Connection {
    /// Creates a connection without a running task; within a runtime.
    ///
    /// # Errors
    /// Those of the kernel; the connection is closed then.
    pub fn new(token: Token, socket: OwnedFd, inbox: &Arc<Inbox>) -> io::Result<Self> {
        // SAFETY: the descriptor is owned by the value that is given here, which is never replaced: it is only lent out
        // again.
        let socket = unsafe { AsyncFd::register(socket)? };
        Ok(Self { token, socket, inbox: Arc::clone(inbox), state: Mutex::default() })
    }

    /// Returns the number of its socket.
    pub fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Returns whether it has to be put among those that the next wait wakes.
    #[inline]
    pub fn note(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().is_noted, true)
    }

    /// Wakes its task; whether that has to begin first.
    #[inline]
    pub fn wake(&self) -> bool {
        let mut state = self.state.lock();
        state.is_noted = false;
        if let Some(task) = &state.task {
            task.wake_by_ref();
        }
        !std::mem::replace(&mut state.has_begun, true)
    }

    /// Returns its event. Bytes that arrived are at the start of the buffer then.
    #[inline]
    pub fn event(&self, buffer: &mut [u8]) -> Event {
        let state = &mut *self.state.lock();
        if state.is_closed || !std::mem::take(&mut state.is_listed) {
            return Event::Nothing;
        }
        let event = if state.is_held && !state.arrived.is_empty() {
            let (place, inbox) = (&mut state.arrived, &self.inbox);
            state.aside.put(place.len(), |room| _ = inbox.take(place, room));
            Event::Nothing
        } else if state.has_arrived() && !state.is_held {
            let is_aside = !state.aside.is_empty();
            let count = if is_aside { state.aside.take(buffer) } else { self.inbox.take(&mut state.arrived, buffer) };
            Event::Received(self.token, count)
        } else if std::mem::take(&mut state.has_sent) {
            Event::Sent(self.token, if state.is_full { state.waiting.len() } else { 0 })
        } else if state.is_over() {
            state.is_end_told = true;
            Event::Closed(self.token)
        } else {
            Event::Nothing
        };
        self.list(state);
        event
    }

    /// Takes the bytes of `output`, behind those that already wait.
    #[inline]
    pub fn put(&self, output: &mut Output) {
        output.move_to(&mut self.state.lock().waiting);
    }

    /// Adds bytes to the unsent ones; returns whether they are the first that are queued.
    #[inline]
    pub fn queue(&self, bytes: &Arc<Vec<u8>>) -> bool {
        let mut state = self.state.lock();
        self.inbox.refill(&mut state.waiting);
        state.waiting.push_shared(bytes);
        !std::mem::replace(&mut state.is_queued, true)
    }

    /// Sends the unsent bytes: by its task if they are short, and otherwise at once as far as the peer takes them.
    #[inline]
    pub fn send_waiting(&self) -> Sending {
        let state = &mut *self.state.lock();
        state.is_queued = false;
        if state.is_broken {
            state.waiting.clear();
            return Sending::Broken;
        }
        if state.is_full {
            return Sending::Waiting(state.waiting.len());
        }
        if state.waiting.plain().is_some_and(|bytes| bytes.len() <= GATHERED_BYTES_MAX) {
            return Sending::Done;
        }
        self.try_send(state)
    }

    /// Sends on the spot as many of the unsent bytes as the peer takes.
    pub fn flush(&self) -> Sending {
        self.try_send(&mut self.state.lock())
    }

    /// Returns how many bytes wait for the peer to read.
    #[inline]
    pub fn waiting(&self) -> usize {
        let state = self.state.lock();
        if state.is_full { state.waiting.len() } else { 0 }
    }

    /// Returns how many bytes have not left.
    pub fn unsent(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Returns the unused room in the buffers of the unsent bytes.
    pub fn spare(&self) -> usize {
        self.state.lock().waiting.spare()
    }

    /// Stops or resumes receiving; whether that is a change.
    pub fn hold(&self, is_held: bool) -> bool {
        let state = &mut *self.state.lock();
        let is_change = state.is_held != is_held;
        if is_change {
            (state.is_held, state.has_gone, state.is_end_told) = (is_held, false, false);
            self.list(state);
        }
        is_change
    }

    /// Ends it, behind the bytes that can leave at once; its task releases the socket when it is woken.
    pub fn close(&self) {
        let state = &mut *self.state.lock();
        if !state.is_full {
            _ = send_pieces(self.socket.get_ref(), &mut state.waiting);
        }
        state.is_closed = true;
    }
}

/// The future that carries the bytes of a connection until it is closed: its task has this alone, and all that it waits for
/// stands in the state. Two futures that wait for the same took 176 bytes a connection, and tokio rounds a task up to a
/// multiple of 128 bytes.
#[derive(Debug)]
pub struct Carrying(pub Arc<Connection>);

impl Future for Carrying {
    type Output = ();

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let connection = &*self.0;
        let _held = connection.inbox.hold();
        let state = &mut *connection.state.lock();
        if state.is_closed {
            return Poll::Ready(());
        }
        state.task.get_or_insert_with(|| cx.waker().clone());
        // Neither comes to an end by itself.
        connection.send(state, cx);
        connection.receive(state, cx);
        Poll::Pending
    }
}

/// The work of its task.
impl Connection {
    /// Sends the unsent bytes, as far as the peer takes them.
    #[inline]
    fn send(&self, state: &mut State, cx: &mut Context<'_>) {
        while !state.waiting.is_empty() && !state.is_broken {
            let Poll::Ready(ready) = self.socket.poll_write_ready(cx) else { return };
            let Ok(mut ready) = ready else {
                state.is_broken = true;
                return self.list(state);
            };
            let (was_full, before) = (state.is_full, state.waiting.len());
            let sending = self.try_send(state);
            // The worker knows of bytes that have left at once.
            state.has_sent |= state.is_full != was_full || was_full && state.waiting.len() != before;
            self.list(state);
            if matches!(sending, Sending::Waiting(_)) {
                ready.clear_ready();
            }
        }
    }

    /// Receives bytes, as long as the worker takes them.
    #[inline]
    fn receive(&self, state: &mut State, cx: &mut Context<'_>) {
        while !state.has_ended {
            let Poll::Ready(ready) = self.poll_receivable(state, cx) else { return };
            let Ok(ready) = ready else { return self.end(state) };
            if !self.inbox.has_room() {
                // Once the others have had a turn, this task is polled again.
                _ = pin!(yield_now()).poll(cx);
                return;
            }
            let received = self.inbox.receive(self.socket.get_ref());
            let is_all = received.as_ref().map_or_else(|error| *error == Errno::AGAIN, |received| !received.is_cut);
            if is_all {
                state.is_unread = false;
                ready.into_iter().for_each(|mut ready| ready.clear_ready());
            }
            match received {
                Ok(Received { place, .. }) if !place.is_empty() => state.arrived = place,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(_) | Err(_) => return self.end(state),
            }
            self.list(state);
        }
    }

    /// Notes that nothing more is received.
    fn end(&self, state: &mut State) {
        state.has_ended = true;
        self.list(state);
    }

    /// Polls for readiness: ready when there may be something to receive, and the worker takes it. Returns the readiness
    /// guard, if there is one.
    #[inline]
    fn poll_receivable(
        &self,
        state: &mut State,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<AsyncFdReadyGuard<'_, OwnedFd>>>> {
        loop {
            if state.has_arrived() || state.has_gone {
                return Poll::Pending;
            }
            let mut ready = match self.socket.poll_read_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending if state.is_unread && !state.is_held => return Poll::Ready(Ok(None)),
                Poll::Pending => return Poll::Pending,
            };
            if !state.is_held {
                return Poll::Ready(Ok(Some(ready)));
            }
            // Bytes of the peer stay with the kernel, and only its end is reported.
            if ready.ready().is_read_closed() {
                state.has_gone = true;
                self.list(state);
            } else {
                state.is_unread = true;
                ready.clear_ready();
            }
        }
    }

    /// Sends until everything has left or the peer takes no more.
    fn try_send(&self, state: &mut State) -> Sending {
        let sending = send_pieces(self.socket.get_ref(), &mut state.waiting);
        state.is_full = matches!(sending, Sending::Waiting(_));
        match sending {
            Sending::Done => self.inbox.keep(std::mem::take(&mut state.waiting)),
            Sending::Waiting(_) => {}
            Sending::Broken => {
                state.is_broken = true;
                state.waiting.clear();
            }
        }
        sending
    }

    /// Lists the connection in the inbox if it has an event.
    #[inline]
    fn list(&self, state: &mut State) {
        if state.has_news() && !std::mem::replace(&mut state.is_listed, true) {
            self.inbox.tell(News::Connection(self.token));
        }
    }
}
