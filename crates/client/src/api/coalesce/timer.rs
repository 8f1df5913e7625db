//! Looks whether calls have waited long enough, at the times that it is told.
//!
//! Over a connection it is a task of the reactor. A call to an engine in this process runs in the caller's thread, and the
//! reactor must not stand still for it, so there it is a thread. Either ends when no gatherer is left to look for.

use std::thread::{self, Thread};
use std::time::Instant;

use crate::reactor::{self, TaskWaker};
use crate::sys::now;

/// The task or thread that looks.
pub(super) enum Timer {
    Task(TaskWaker),
    Thread(Thread),
    /// The system gave nothing that could.
    Nobody,
}

impl Timer {
    /// Starts it. `look` does the due work and says when to look again, or that there is nothing to look at any more;
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

    /// Makes it look now. Returns false if there is no task or thread that could.
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
