//! All elements that SCAN and its relatives return, one after the other: an iterator for threads, a stream for tasks.
//!
//! The server returns a page at a time with a cursor for the next. The next page is requested as soon as one has arrived, so
//! that it is in flight while the present one is read. An element that exists all the time is seen at least once; an element
//! that is added or removed during the scan may be seen or not, and SCAN itself may return an element twice. In a cluster
//! SCAN goes through one node after the other; a key that moves from one to another during the scan counts as removed and
//! added.

pub(crate) mod commands;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use futures_core::Stream;

use crate::commands::ask::Ask;
use crate::error::Error;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::name::Name;
use crate::resp::request::{Request, ToArgs};

/// All elements of a scan. In async code it is a [`Stream`]; a `for` loop makes it an iterator, which waits for each page.
///
/// Both end after an error. See [`ScanCommands`](crate::api::scan::commands::ScanCommands) for how to begin one.
#[must_use = "nothing is asked for until it is read"]
pub struct Scan<'a, A, T> {
    place: &'a A,
    /// The words before the cursor, and those behind it.
    words: Result<[Vec<Vec<u8>>; 2], Error>,
    page: IntoIter<T>,
    next: Next<T>,
    /// The node of a cluster that is scanned, and below it those that come after it; none for a single server.
    node: Option<u32>,
    nodes: VecDeque<u32>,
}

/// The state of the next page.
enum Next<T> {
    /// The beginning: no page was requested yet.
    Begin,
    /// The page is in flight.
    Coming(Reply<(u64, Vec<T>)>),
    /// There is no further page.
    Ended,
}

impl<'a, A: Ask, T: FromReply> Scan<'a, A, T> {
    pub(crate) fn new(place: &'a A, before: impl ToArgs, behind: impl ToArgs) -> Self {
        let words = Request::words_of(before).and_then(|before| Ok([before, Request::words_of(behind)?]));
        let (node, nodes) = (None, VecDeque::new());
        Self { place, words, page: Vec::new().into_iter(), next: Next::Begin, node, nodes }
    }

    /// Requests the first page of all.
    fn begin(&mut self) -> Next<T> {
        // The elements of one key are on one node; only SCAN goes through all nodes.
        let is_of_all = matches!(&self.words, Ok([before, _]) if before.len() == 1);
        match if is_of_all { self.place.nodes() } else { Ok(Vec::new()) } {
            Ok(nodes) => self.nodes = nodes.into(),
            Err(error) => return Next::Coming(Reply::failed(error, None)),
        }
        self.node = self.nodes.pop_front();
        self.ask(0)
    }

    /// Requests the page at this cursor.
    fn ask(&self, cursor: u64) -> Next<T> {
        let place = self.place;
        Next::Coming(match &self.words {
            Ok([before, behind]) => {
                let name = Name::find(&before.iter().map(Vec::as_slice).collect::<Vec<_>>());
                let write = |request: &mut Request| _ = request.call(name).arg(before).arg(cursor).arg(behind);
                match self.node {
                    None => place.ask(write),
                    Some(node) => place.ask_node(node, write),
                }
            }
            Err(error) => Reply::failed(error.clone(), None),
        })
    }

    /// Takes a page that has arrived, and requests the next one.
    fn turn(&mut self, answer: Result<(u64, Vec<T>), Error>) -> Result<(), Error> {
        self.next = Next::Ended;
        let (cursor, page) = answer?;
        self.page = page.into_iter();
        if cursor != 0 {
            self.next = self.ask(cursor);
        } else if let Some(node) = self.nodes.pop_front() {
            self.node = Some(node);
            self.next = self.ask(0);
        }
        Ok(())
    }

    /// Returns the next element, for which this thread waits.
    fn wait_next(&mut self) -> Option<Result<T, Error>> {
        loop {
            if let Some(item) = self.page.next() {
                return Some(Ok(item));
            }
            let answer = match std::mem::replace(&mut self.next, Next::Ended) {
                Next::Begin => {
                    self.next = self.begin();
                    continue;
                }
                Next::Coming(reply) => reply.wait(),
                Next::Ended => return None,
            };
            if let Err(error) = self.turn(answer) {
                return Some(Err(error));
            }
        }
    }
}

impl<A: Ask, T: FromReply> Scan<'_, A, T> {
    /// Returns the next element once it has arrived, and `None` after the last: as a stream's `next`, without another crate.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

// Nothing in it is ever pinned, because each reply is moved out to be awaited.
impl<A, T> Unpin for Scan<'_, A, T> {}

impl<A: Ask, T: FromReply> Stream for Scan<'_, A, T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.page.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            let polled = match &mut self.next {
                Next::Begin => {
                    self.next = self.begin();
                    continue;
                }
                Next::Coming(reply) => Pin::new(reply).poll(context),
                Next::Ended => return Poll::Ready(None),
            };
            let Poll::Ready(answer) = polled else { return Poll::Pending };
            if let Err(error) = self.turn(answer) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl<'a, A: Ask, T: FromReply> IntoIterator for Scan<'a, A, T> {
    type Item = Result<T, Error>;
    type IntoIter = ScanIter<'a, A, T>;

    fn into_iter(self) -> Self::IntoIter {
        ScanIter(self)
    }
}

impl<A, T> std::fmt::Debug for Scan<'_, A, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

/// A [`Scan`] as an iterator, which waits for each page.
#[derive(Debug)]
pub struct ScanIter<'a, A, T>(Scan<'a, A, T>);

impl<A: Ask, T: FromReply> Iterator for ScanIter<'_, A, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.wait_next()
    }
}
