//! A reactor that a simulation steps, in place of a thread: for tests alone.
//!
//! Its rounds are those of the thread, and its poller is the machine's, which is asked without a wait. While a stepped
//! reactor exists, tasks that are started in its thread belong to it.

use std::cell::{Cell, LazyCell};
use std::time::{Duration, Instant};

use super::event_loop::EventLoop;
use super::poller::Events;
use super::waker::Reactor;
use crate::sys::now;

thread_local! {
    /// The stepped reactor of this thread. It is created once and never freed, because a waker may outlive all tasks.
    static OWN: LazyCell<&'static Reactor> = LazyCell::new(|| Box::leak(Box::new(Reactor::new().expect("a reactor"))));
    static REACTOR: Cell<Option<&'static Reactor>> = const { Cell::new(None) };
}

/// Returns the stepped reactor of this thread; none if no simulation is on.
pub(super) fn reactor() -> Option<&'static Reactor> {
    REACTOR.get()
}

/// Returns whether this is the stepped reactor of this thread.
pub(super) fn steps(reactor: &'static Reactor) -> bool {
    REACTOR.get().is_some_and(|own| std::ptr::eq(own, reactor))
}

/// The phase in which the reactor's thread would be.
enum Phase {
    /// The thread runs: it has ended a round of its loop, and begins the next one at once.
    Awake,
    /// The thread sleeps, until this time if one is given.
    Asleep(Option<Instant>),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The reactor had work, and has done it.
    Done,
    /// The reactor sleeps until an event arrives, or until this time.
    Sleeps(Option<Instant>),
    /// The reactor has no task left.
    Ended,
}

/// A reactor without a thread, until it is dropped.
pub(crate) struct Stepped {
    reactor: &'static Reactor,
    event_loop: EventLoop,
    events: Events,
    phase: Phase,
}

impl Stepped {
    /// Makes a stepped reactor that takes the tasks of this thread from now on.
    pub(crate) fn new() -> Self {
        let reactor = OWN.with(|own| **own);
        REACTOR.set(Some(reactor));
        Self { reactor, event_loop: EventLoop::new(reactor), events: Events::new(), phase: Phase::Awake }
    }

    /// Does the thread's next step: a round, or, if it sleeps, the event that ends the sleep.
    pub(crate) fn step(&mut self) -> Step {
        match self.phase {
            Phase::Awake if !self.reactor.submissions.lock().is_read || !self.event_loop.round() => Step::Ended,
            Phase::Awake => {
                let until = self.event_loop.fall_asleep().map(|timeout| now() + timeout);
                self.phase = Phase::Asleep(until);
                Step::Done
            }
            Phase::Asleep(until) => {
                let outcome = self.reactor.poller.wait(&mut self.events, Some(Duration::ZERO));
                let is_over = until.is_some_and(|until| until <= now());
                if self.events.is_empty() && !is_over && !self.reactor.was_woken() {
                    return Step::Sleeps(until);
                }
                self.event_loop.wake_up(outcome, &mut self.events);
                self.phase = Phase::Awake;
                Step::Done
            }
        }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let submissions = std::mem::take(&mut *self.reactor.submissions.lock());
        // A task that never began may wake others when it is dropped.
        drop(submissions);
        REACTOR.set(None);
    }
}
