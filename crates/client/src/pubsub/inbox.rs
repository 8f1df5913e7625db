//! Where the task of a subscription leaves what has come, and where its readers wait for it.
//!
//! It holds a bounded number of bytes: when the readers are slower than the publishers the task stops reading, and the
//! server's own limit decides what becomes of so slow a subscriber. Any thread.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::news::News;
use crate::error::Error;
use crate::process::wake::wake_all;
use crate::reactor::Bell;

/// Messages that wait for their reader, up to a bound.
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    bytes_max: usize,
    /// Of the task, which waits while it is full.
    bell: Bell,
}

#[derive(Default)]
struct State {
    news: VecDeque<News>,
    bytes: usize,
    wakers: Vec<Waker>,
    /// Nothing will come any more, and why.
    ended: Option<Error>,
    /// The server has confirmed all names at least once.
    begun: bool,
    /// Nobody reads any more.
    dropped: bool,
    /// Rung when it has begun or ended, for those who wait for that in async code.
    bells: Vec<Bell>,
}

impl State {
    /// Whether all names were confirmed once, or never will be.
    fn beginning(&self) -> Option<Result<(), Error>> {
        if self.begun { Some(Ok(())) } else { self.ended.clone().map(Err) }
    }
}

impl Inbox {
    pub(crate) fn new(bytes_max: usize, bell: Bell) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), bytes_max, bell }
    }

    /// Whether nothing may be left at present. When that is no longer so, the bell rings.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.bytes > self.bytes_max && !state.dropped
    }

    /// Leaves something for the readers; false when nobody reads any more.
    pub(crate) fn put(&self, news: News) -> bool {
        let mut state = self.state.lock();
        state.bytes += weight(&news);
        state.news.push_back(news);
        let is_wanted = !state.dropped;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wake_all(wakers.into_iter());
        is_wanted
    }

    /// All names are confirmed.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        state.begun = true;
        state.bells.drain(..).for_each(Bell::ring);
        self.changed.notify_all();
    }

    /// Nothing will come any more.
    pub(crate) fn end(&self, error: Error) {
        let mut state = self.state.lock();
        state.ended.get_or_insert(error);
        state.bells.drain(..).for_each(Bell::ring);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wake_all(wakers.into_iter());
    }

    /// Nobody reads any more.
    pub(crate) fn abandon(&self) {
        self.state.lock().dropped = true;
        self.bell.ring();
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.lock().dropped
    }

    /// Waits until all names are confirmed for the first time.
    pub(crate) fn wait_begun(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        loop {
            match state.beginning() {
                Some(begun) => return begun,
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Whether all names are confirmed, once that is known; until then the bell is rung when it may be.
    pub(crate) fn look_begun(&self, bell: Bell) -> Option<Result<(), Error>> {
        let mut state = self.state.lock();
        let begun = state.beginning();
        if begun.is_none() {
            state.bells.push(bell);
        }
        begun
    }

    /// The next, or none when the time is up; forever without a time.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<Option<News>, Error> {
        let mut state = self.state.lock();
        loop {
            if let Some(taken) = self.take(&mut state) {
                return taken.map(Some);
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) if self.changed.wait_until(&mut state, deadline).timed_out() => {
                    return self.take(&mut state).transpose();
                }
                Some(_) => {}
            }
        }
    }

    /// The next, if it is there; else this waker is woken when it is.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<News, Error>> {
        let mut state = self.state.lock();
        let taken = self.take(&mut state);
        if taken.is_none() && !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        taken
    }

    fn take(&self, state: &mut State) -> Option<Result<News, Error>> {
        match state.news.pop_front() {
            Some(news) => {
                let was_full = state.bytes > self.bytes_max;
                state.bytes -= weight(&news);
                if was_full && state.bytes <= self.bytes_max {
                    self.bell.ring();
                }
                Some(Ok(news))
            }
            None => state.ended.clone().map(Err),
        }
    }
}

fn weight(news: &News) -> usize {
    match news {
        News::Message(message) => 64 + message.channel.len() + message.payload.len(),
        News::Resumed => 64,
    }
}
