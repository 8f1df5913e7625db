//! Looks whether calls have waited long enough, at the times that it is told.
//!
//! Over a connection it is a task of the reactor. What an engine in this process is given runs in the thread that gives
//! it, and the reactor must not stand still meanwhile, so there it is a thread. Either ends when nobody is there any
//! more for whom to look.

use std::thread::{self, Thread};
use std::time::Instant;

use crate::reactor::{self, Bell};

/// Whoever looks.
pub(super) enum Timer {
    Task(Bell),
    Thread(Thread),
    /// The system gave nothing that could.
    Nobody,
}

impl Timer {
    /// Starts it. `look` does what is to be done and says when to look again, or that there is nothing to look at any
    /// more; `collapsed` is told should it panic.
    pub(super) fn start(
        is_thread: bool,
        look: impl Fn() -> Option<Option<Instant>> + Send + 'static,
        collapsed: impl FnOnce() + Send + 'static,
    ) -> Self {
        if is_thread {
            let started = thread::Builder::new().name("sleeve-coalesce".to_owned()).spawn(move || attend(look));
            return started.map_or(Self::Nobody, |started| Self::Thread(started.thread().clone()));
        }
        let Ok(bell) = Bell::new() else { return Self::Nobody };
        let task = async move |post: reactor::post::Post| {
            while let Some(until) = look() {
                post.wait(until).await;
            }
        };
        match reactor::start(bell, task, move |_| collapsed()) {
            Ok(()) => Self::Task(bell),
            Err(_) => Self::Nobody,
        }
    }

    /// Has it look now. False when there is nobody who could.
    pub(super) fn ring(&self) -> bool {
        match self {
            Self::Task(bell) => bell.ring(),
            Self::Thread(thread) => thread.unpark(),
            Self::Nobody => return false,
        }
        true
    }
}

fn attend(look: impl Fn() -> Option<Option<Instant>>) {
    while let Some(until) = look() {
        match until {
            Some(until) => thread::park_timeout(until.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}
