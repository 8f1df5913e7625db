//! A reactor that a simulation steps, in place of a thread: for tests alone.
//!
//! Its rounds are those of the thread, and its poller is the machine's, which is asked without a wait. While one is there, the
//! tasks that are made in its thread are its own.

use std::cell::{Cell, LazyCell};
use std::time::{Duration, Instant};

use super::event_loop::EventLoop;
use super::poller::Events;
use super::waker::Reactor;
use crate::sys::now;

thread_local! {
    /// Made once and never given back, because a waker may outlive all tasks.
    static OWN: LazyCell<&'static Reactor> = LazyCell::new(|| Box::leak(Box::new(Reactor::new().expect("a reactor"))));
    static REACTOR: Cell<Option<&'static Reactor>> = const { Cell::new(None) };
}

/// The reactor of this thread's simulation, if one is on.
pub(super) fn reactor() -> Option<&'static Reactor> {
    REACTOR.get()
}

/// Whether this is that reactor.
pub(super) fn steps(reactor: &'static Reactor) -> bool {
    REACTOR.get().is_some_and(|own| std::ptr::eq(own, reactor))
}

/// How the reactor's thread would stand.
enum Phase {
    /// Between two rounds.
    Awake,
    /// Asleep, for no longer than until then.
    Asleep(Option<Instant>),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There was something to do.
    Done,
    /// The reactor sleeps until something happens, or until then.
    Sleeps(Option<Instant>),
    /// There is no task.
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
    /// The reactor of this thread from now on.
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
