//! The state that a consumer, its handle and its entries share: the names of the stream and the group, and the entries that
//! the program has.
//!
//! Any thread; a lock for a few instructions.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::api::handles::Db;
use crate::error::Error;
use crate::sys::lock::Mutex;
use crate::sys::wake::wake_all;

/// The state that a consumer, its handle and its entries share.
pub(crate) struct Held {
    pub(crate) place: Db,
    /// The names of the stream, of the group and of the consumer, or the reason why they cannot be sent.
    pub(crate) names: Result<[Vec<u8>; 3], Error>,
    state: Mutex<ConsumerState>,
}

#[derive(Default)]
struct ConsumerState {
    is_stopped: bool,
    /// The ids of received entries that are neither acknowledged nor dropped.
    ids: HashSet<Arc<str>>,
    /// The waker of the task that waits for the next entry.
    reader: Option<Waker>,
    /// The wakers of the tasks that wait until the program has no entry.
    finishers: Vec<Waker>,
}

impl Held {
    pub(crate) fn new(place: Db, names: Result<Vec<Vec<u8>>, Error>) -> Self {
        let three = |names: Vec<Vec<u8>>| {
            names.try_into().map_err(|_| Error::usage("a stream, a group and a consumer have one name each"))
        };
        Self { place, names: names.and_then(three), state: Mutex::default() }
    }

    /// Notes that the program has an entry of this id from now on. Returns false if it has one already.
    pub(crate) fn take(&self, id: &Arc<str>) -> bool {
        self.state.lock().ids.insert(Arc::clone(id))
    }

    /// Notes that the program has the entry of this id no longer.
    pub(crate) fn give_back(&self, id: &Arc<str>) {
        let mut state = self.state.lock();
        state.ids.remove(id);
        let finishers = if state.ids.is_empty() { std::mem::take(&mut state.finishers) } else { Vec::new() };
        drop(state);
        wake_all(finishers.into_iter());
    }

    pub(crate) fn count(&self) -> usize {
        self.state.lock().ids.len()
    }

    /// Returns ready when the program has no entry.
    pub(crate) fn poll_none(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.ids.is_empty() {
            return Poll::Ready(());
        }
        if !state.finishers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.finishers.push(context.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) fn enter_reader(&self, waker: &Waker) {
        let mut state = self.state.lock();
        if !state.reader.as_ref().is_some_and(|reader| reader.will_wake(waker)) {
            state.reader = Some(waker.clone());
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }

    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let reader = state.reader.take();
        drop(state);
        wake_all(reader.into_iter());
    }
}
