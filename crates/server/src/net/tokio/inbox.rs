//! The exchange between the tasks of a driver and its worker: the bytes that have arrived, and the connections that have
//! events.
//!
//! All connections receive into one buffer, so an idle one holds none. It is used from its start again when everything in it
//! has been taken; while it has no room, tasks wait. The tasks run in the thread that waits, so no thread ever waits for the
//! lock.

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

/// Bytes that one receive takes at most.
const RECEIVE_BYTES_MAX: usize = 64 * 1024;

/// With less room than this nothing is received.
const RECEIVE_BYTES_MIN: usize = 16 * 1024;

/// The most bytes that have arrived and have not been taken.
pub const BYTES_MAX: usize = 256 * 1024;

/// News for the worker.
#[derive(Debug)]
pub enum News {
    /// An event of this connection, which knows its kind.
    Connection(Token),
    /// Connections were accepted.
    Accepted(Vec<Accepted>),
    /// A connection could not be accepted.
    AcceptFailed(io::Error),
    /// There is mail.
    Woken,
}

/// Bytes that a connection has received.
#[derive(Debug)]
pub struct Received {
    /// Where they lie; empty where the peer says nothing more.
    pub place: Range<usize>,
    /// There may be more, which is not reported.
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
    /// The task that waits for news.
    waiting: Option<Waker>,
    spare_outputs: SpareOutputs,
    /// A task has panicked.
    is_broken: bool,
}

/// A guard that a task holds while it runs: a panic in it breaks the inbox.
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

    /// Returns the guard of a task. The result of a task is not looked at; so a task that panics makes the driver's wait
    /// fail.
    pub fn hold(&self) -> Held<'_> {
        Held(self)
    }

    /// Returns whether there is room to receive.
    #[inline]
    pub fn has_room(&self) -> bool {
        let contents = self.0.lock();
        contents.bytes.len() - contents.filled >= RECEIVE_BYTES_MIN
    }

    /// Receives from a socket that does not block. There must be room.
    ///
    /// # Errors
    /// Those of the kernel, also that nothing is there.
    #[inline]
    pub fn receive(&self, socket: impl AsFd) -> rustix::io::Result<Received> {
        let contents = &mut *self.0.lock();
        let start = contents.filled;
        let end = contents.bytes.len().min(start + RECEIVE_BYTES_MAX);
        let (count, _) = net::recv(socket, &mut contents.bytes[start..end], RecvFlags::empty())?;
        contents.filled += count;
        Ok(Received { place: start..start + count, is_cut: start + count == end })
    }

    /// Copies bytes that have arrived to the start of `into`, as many as there is room for, and takes them off `place`.
    /// Returns their number.
    #[inline]
    pub fn take(&self, place: &mut Range<usize>, into: &mut [u8]) -> usize {
        let count = place.len().min(into.len());
        into[..count].copy_from_slice(&self.0.lock().bytes[place.start..place.start + count]);
        place.start += count;
        count
    }

    /// Puts something behind all that is to be told.
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

    /// Returns the next news.
    #[inline]
    pub fn next(&self) -> Option<News> {
        self.0.lock().news.pop_front()
    }

    /// Begins to wait; returns whether there is news already. Without news the buffer counts as empty: bytes that still lie
    /// in it have been reported, and were not taken.
    #[inline]
    pub fn begin(&self) -> bool {
        let mut contents = self.0.lock();
        if contents.news.is_empty() {
            contents.filled = 0;
        }
        !contents.news.is_empty()
    }

    /// Returns whether something is to be told; if not, this task is woken when something is.
    #[inline]
    pub fn has_news(&self, cx: &Context<'_>) -> bool {
        let mut contents = self.0.lock();
        if contents.news.is_empty() {
            contents.waiting = Some(cx.waker().clone());
        }
        !contents.news.is_empty()
    }

    /// Ends waiting; returns how many news there are. Later news wake no task.
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

    /// Keeps an output after its bytes have left.
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
