//! The inbox into which the task of a subscription puts the events, and in which its readers wait for them.
//!
//! It holds a bounded number of bytes: if the readers are slower than the publishers the task stops reading, and the server
//! then applies its own limit to the slow subscriber. Any thread.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use super::event::SubscriptionEvent;
use crate::error::Error;
use crate::reactor::TaskWaker;
use crate::sys::lock::{Condvar, Mutex};
use crate::sys::wake::wake_all;

/// Messages that wait for their reader, up to a bound.
pub(crate) struct Inbox {
    state: Mutex<EventQueue>,
    changed: Condvar,
    bytes_max: usize,
    /// The waker of the task, which waits while the inbox is full.
    task_waker: TaskWaker,
}

#[derive(Default)]
struct EventQueue {
    events: VecDeque<SubscriptionEvent>,
    bytes: usize,
    wakers: Vec<Waker>,
    /// The reason why no event will arrive any more, if there is one.
    ended: Option<Error>,
    /// True once the server has confirmed all names.
    begun: bool,
    /// True if there is no reader any more.
    dropped: bool,
    /// The tasks to wake when the subscription has begun or ended, for waiting async code.
    task_wakers: Vec<TaskWaker>,
}

impl EventQueue {
    /// Returns whether all names were confirmed once, or never will be.
    fn beginning(&self) -> Option<Result<(), Error>> {
        if self.begun { Some(Ok(())) } else { self.ended.clone().map(Err) }
    }
}

impl Inbox {
    pub(crate) fn new(bytes_max: usize, task_waker: TaskWaker) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), bytes_max, task_waker }
    }

    /// Returns whether the inbox has no room. The task is woken when there is room again.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.bytes > self.bytes_max && !state.dropped
    }

    /// Puts an event into the inbox. Returns false if there is no reader any more.
    pub(crate) fn put(&self, event: SubscriptionEvent) -> bool {
        let mut state = self.state.lock();
        state.bytes += weight(&event);
        state.events.push_back(event);
        let is_wanted = !state.dropped;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wake_all(wakers.into_iter());
        is_wanted
    }

    /// Notes that the server has confirmed all names.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        state.begun = true;
        state.task_wakers.drain(..).for_each(TaskWaker::wake);
        self.changed.notify_all();
    }

    /// Ends the inbox: no event will arrive any more.
    pub(crate) fn end(&self, error: Error) {
        let mut state = self.state.lock();
        state.ended.get_or_insert(error);
        state.task_wakers.drain(..).for_each(TaskWaker::wake);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wake_all(wakers.into_iter());
    }

    /// Notes that there is no reader any more.
    pub(crate) fn abandon(&self) {
        self.state.lock().dropped = true;
        self.task_waker.wake();
    }

    /// Returns whether there is no reader any more.
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

    /// Returns the outcome once all names are confirmed, or cannot be; until then the task is woken at the next change.
    pub(crate) fn look_begun(&self, task_waker: TaskWaker) -> Option<Result<(), Error>> {
        let mut state = self.state.lock();
        let begun = state.beginning();
        if begun.is_none() {
            state.task_wakers.push(task_waker);
        }
        begun
    }

    /// Returns the next event, or none at the deadline; waits forever without one.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<Option<SubscriptionEvent>, Error> {
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

    /// Returns the next event, if there is one; otherwise this waker is woken when there is one.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<SubscriptionEvent, Error>> {
        let mut state = self.state.lock();
        let taken = self.take(&mut state);
        if taken.is_none() && !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        taken
    }

    fn take(&self, state: &mut EventQueue) -> Option<Result<SubscriptionEvent, Error>> {
        match state.events.pop_front() {
            Some(event) => {
                let was_full = state.bytes > self.bytes_max;
                state.bytes -= weight(&event);
                if was_full && state.bytes <= self.bytes_max {
                    self.task_waker.wake();
                }
                Some(Ok(event))
            }
            None => state.ended.clone().map(Err),
        }
    }
}

fn weight(event: &SubscriptionEvent) -> usize {
    match event {
        SubscriptionEvent::Message(message) => 64 + message.channel.len() + message.payload.len(),
        SubscriptionEvent::Resumed => 64,
    }
}
