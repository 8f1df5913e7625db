//! The exchange between the tasks of a driver and its worker: the bytes that have arrived, and the connections with events.
//!
//! All connections receive into one buffer, so an idle connection holds none. When all bytes in it have been taken, it is
//! used from its start again; while it has no room, tasks wait. The tasks run in the thread that waits for events, so no
//! thread ever waits for the lock.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::task::{Context, Waker};

use parking_lot::Mutex;
use rustix::net::{self, RecvFlags};

use crate::messaging::mail::Accepted;
use crate::net::event::Token;
use crate::net::spare_outputs::SpareOutputs;
use crate::request::output::Output;

/// The most bytes that one receive takes.
const RECEIVE_BYTES_MAX: usize = 64 * 1024;

/// The least room with which bytes are received.
const RECEIVE_BYTES_MIN: usize = 16 * 1024;

/// The most bytes that have arrived and have not been taken.
pub const BYTES_MAX: usize = 256 * 1024;

/// An event for the worker.
#[derive(Debug)]
pub enum News {
    /// An event of this connection, which knows the kind of the event.
    Connection(Token),
    /// Connections were accepted.
    Accepted(Vec<Accepted>),
    /// A connection could not be accepted.
    AcceptFailed(io::Error),
    /// There are letters in the mailbox.
    Woken,
}

/// Bytes that a connection has received.
#[derive(Debug)]
pub struct Received {
    /// The range of the bytes in the buffer; empty if the client sends no more.
    pub place: Range<usize>,
    /// There may be more bytes, which the kernel does not report again.
    pub is_cut: bool,
}

/// The bytes and events that have not been taken.
#[derive(Debug)]
pub struct Inbox(Mutex<Contents>);

#[derive(Debug)]
struct Contents {
    bytes: Box<[u8]>,
    filled: usize,
    news: VecDeque<News>,
    /// The task that waits for events.
    waiting: Option<Waker>,
    spare_outputs: SpareOutputs,
    /// A task has panicked.
    is_broken: bool,
}

/// A guard that a task holds while it runs: if the task panics, the guard marks the inbox as broken.
#[derive(Debug)]
pub struct Held<'a>(&'a Inbox);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.0.lock().is_broken = true;
            self.0.tell(News::Woken);
        }
    }
}

impl Inbox {
    /// Creates an empty inbox.
    pub fn new() -> Self {
        Self(Mutex::new(Contents {
            bytes: vec![0; BYTES_MAX].into_boxed_slice(),
            filled: 0,
            news: VecDeque::new(),
            waiting: None,
            spare_outputs: SpareOutputs::default(),
            is_broken: false,
        }))
    }

    /// Returns the guard of a task. No code looks at the result of a task, so the guard makes the driver's wait fail if the
    /// task panics.
    pub fn hold(&self) -> Held<'_> {
        Held(self)
    }

    /// Returns whether there is room to receive.
    #[inline]
    pub fn has_room(&self) -> bool {
        let contents = self.0.lock();
        contents.bytes.len() - contents.filled >= RECEIVE_BYTES_MIN
    }

    /// Receives from a non-blocking socket. There must be room.
    ///
    /// # Errors
    /// The errors of the kernel, including that there are no bytes.
    #[inline]
    pub fn receive(&self, socket: impl AsFd) -> rustix::io::Result<Received> {
        let contents = &mut *self.0.lock();
        let start = contents.filled;
        let end = contents.bytes.len().min(start + RECEIVE_BYTES_MAX);
        let (count, _) = net::recv(socket, &mut contents.bytes[start..end], RecvFlags::empty())?;
        contents.filled += count;
        Ok(Received { place: start..start + count, is_cut: start + count == end })
    }

    /// Copies bytes that have arrived to the start of `into`, as many as there is room for, and removes them from `place`.
    /// Returns their number.
    #[inline]
    pub fn take(&self, place: &mut Range<usize>, into: &mut [u8]) -> usize {
        let count = place.len().min(into.len());
        into[..count].copy_from_slice(&self.0.lock().bytes[place.start..place.start + count]);
        place.start += count;
        count
    }

    /// Adds an event after all others.
    #[inline]
    pub fn tell(&self, news: News) {
        let mut contents = self.0.lock();
        contents.news.push_back(news);
        let waiting = contents.waiting.take();
        drop(contents);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Takes the next event.
    #[inline]
    pub fn next(&self) -> Option<News> {
        self.0.lock().news.pop_front()
    }

    /// Begins to wait; returns whether there are events already. If there are none, the buffer counts as empty: bytes that
    /// still lie in it were reported and not taken.
    #[inline]
    pub fn begin(&self) -> bool {
        let mut contents = self.0.lock();
        if contents.news.is_empty() {
            contents.filled = 0;
        }
        !contents.news.is_empty()
    }

    /// Returns whether there are events; if not, this task is woken at the next one.
    #[inline]
    pub fn has_news(&self, cx: &Context<'_>) -> bool {
        let mut contents = self.0.lock();
        if contents.news.is_empty() {
            contents.waiting = Some(cx.waker().clone());
        }
        !contents.news.is_empty()
    }

    /// Ends the wait; returns the number of events. Later events wake no task.
    ///
    /// # Errors
    /// A task has panicked.
    #[inline]
    pub fn end(&self) -> io::Result<usize> {
        let mut contents = self.0.lock();
        contents.waiting = None;
        if contents.is_broken {
            return Err(io::Error::other("a task of the driver has panicked"));
        }
        Ok(contents.news.len())
    }

    /// Keeps an output that was sent.
    #[inline]
    pub fn keep(&self, output: Output) {
        self.0.lock().spare_outputs.keep(output);
    }

    /// Gives an empty output room, if it has none.
    #[inline]
    pub fn refill(&self, output: &mut Output) {
        self.0.lock().spare_outputs.refill(output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_panics_has_the_wait_fail() {
        let inbox = Inbox::new();
        drop(inbox.hold());
        assert_eq!(inbox.end().expect("nothing is wrong"), 0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = inbox.hold();
            std::panic::resume_unwind(Box::new("a fault of ours"));
        }));
        assert!(panicked.is_err() && inbox.next().is_some() && inbox.end().is_err());
    }
}
