//! The timer of a gatherer: it checks at given times whether calls have waited for the delay.
//!
//! Over a connection it is a task of the reactor. A call to an engine in this process runs in the thread that sends it, and
//! must not hold up the reactor, so there the timer is a thread. Either ends when its gatherer is dropped.

use std::thread::{self, Thread};
use std::time::Instant;

use crate::reactor::{self, TaskWaker};
use crate::sys::now;

/// The task or thread that checks.
pub(super) enum Timer {
    Task(TaskWaker),
    Thread(Thread),
    /// The system could create neither.
    Nobody,
}

impl Timer {
    /// Starts the timer. `look` does the due work and returns the time of the next check, or none to end the timer;
    /// `on_panic` is called if it panics.
    pub(super) fn start(
        is_thread: bool,
        look: impl Fn() -> Option<Option<Instant>> + Send + 'static,
        on_panic: impl FnOnce() + Send + 'static,
    ) -> Self {
        if is_thread {
            let started = thread::Builder::new().name("sleeve-coalesce".to_owned()).spawn(move || attend(look));
            return started.map_or(Self::Nobody, |started| Self::Thread(started.thread().clone()));
        }
        let Ok(task_waker) = TaskWaker::new() else { return Self::Nobody };
        let task = async move |context: reactor::task_context::TaskContext| {
            while let Some(until) = look() {
                context.wait(until).await;
            }
        };
        match reactor::start(task_waker, task, move |_| on_panic()) {
            Ok(()) => Self::Task(task_waker),
            Err(_) => Self::Nobody,
        }
    }

    /// Makes the timer check now. Returns false if there is no task or thread.
    pub(super) fn wake(&self) -> bool {
        match self {
            Self::Task(task_waker) => task_waker.wake(),
            Self::Thread(thread) => thread.unpark(),
            Self::Nobody => return false,
        }
        true
    }
}

fn attend(look: impl Fn() -> Option<Option<Instant>>) {
    while let Some(until) = look() {
        match until {
            Some(until) => thread::park_timeout(until.saturating_duration_since(now())),
            None => thread::park(),
        }
    }
}
