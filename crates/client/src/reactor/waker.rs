//! The ways in which other threads reach a task: its waker, and the submissions to the reactor's thread, which it takes
//! between its rounds.
//!
//! Submissions are written under a short lock. The thread announces its sleep before it checks them for the last time, and a
//! submitting thread checks the announcement after it has written. So one of the two always sees the other. A thread that is
//! awake costs no system call. Any thread.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::poller::Poller;
use super::state::{NOBODY, TaskCells};
use crate::sys::lock::Mutex;
use crate::sys::{PerProcess, Process};

/// The future of a task: the rest of its work.
pub(super) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// A function that begins a task, on the reactor's thread.
pub(super) type Begin = Box<dyn FnOnce(Rc<TaskCells>) -> Work + Send>;

/// A function that is called with the message if a task panics.
pub(super) type OnPanic = Box<dyn FnOnce(&str) + Send>;

/// A task that has not begun.
pub(super) struct NewTask {
    pub(super) number: u64,
    pub(super) begin: Begin,
    pub(super) on_panic: OnPanic,
}

/// The submissions of other threads, which the reactor's thread takes between its rounds.
#[derive(Default)]
pub(super) struct Submissions {
    pub(super) new_tasks: Vec<NewTask>,
    /// The tasks that were woken.
    pub(super) woken: Vec<u64>,
    /// True if the thread exists, and will take the submissions.
    pub(super) is_read: bool,
}

/// The reactor of one process.
pub(super) struct Reactor {
    process: Process,
    pub(super) poller: Poller,
    pub(super) submissions: Mutex<Submissions>,
    /// True if the thread sleeps, or is about to, so that a submitting thread must wake it.
    pub(super) sleeps: AtomicBool,
    next: AtomicU64,
}

impl Reactor {
    /// Returns this process's own reactor. It is never freed: the target of a waker always exists.
    fn this() -> io::Result<&'static Self> {
        #[cfg(test)]
        if let Some(reactor) = super::stepped::reactor() {
            return Ok(reactor);
        }
        static REACTOR: PerProcess<Mutex<Option<&'static Reactor>>> = PerProcess::new(Mutex::default);
        let mut place = REACTOR.get().lock();
        if let Some(reactor) = *place {
            return Ok(reactor);
        }
        let reactor: &'static Self = Box::leak(Box::new(Self::new()?));
        *place = Some(reactor);
        Ok(reactor)
    }

    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            process: Process::this(),
            poller: Poller::new()?,
            submissions: Mutex::default(),
            sleeps: AtomicBool::new(false),
            next: AtomicU64::new(NOBODY + 1),
        })
    }

    /// Returns whether the reactor was woken since its thread fell asleep.
    #[cfg(test)]
    pub(super) fn was_woken(&self) -> bool {
        !self.sleeps.load(Ordering::SeqCst)
    }

    /// Wakes the thread to take its submissions, which have just been changed.
    pub(super) fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            self.poller.wake();
        }
    }
}

/// Gives a task a turn, from any thread. A waker may outlive its task; then it does nothing.
#[derive(Clone, Copy)]
pub(crate) struct TaskWaker {
    pub(super) reactor: &'static Reactor,
    pub(super) number: u64,
}

impl TaskWaker {
    /// Creates the waker of a task that is started later.
    pub(crate) fn new() -> io::Result<Self> {
        let reactor = Reactor::this()?;
        Ok(Self { reactor, number: reactor.next.fetch_add(1, Ordering::Relaxed) })
    }

    /// Gives the task a turn soon.
    pub(crate) fn wake(self) {
        // In a forked child the reactor and its locks belong to the parent.
        if !self.reactor.process.is_this() {
            return;
        }
        let mut submissions = self.reactor.submissions.lock();
        if submissions.is_read && submissions.woken.last() != Some(&self.number) {
            submissions.woken.push(self.number);
        }
        drop(submissions);
        self.reactor.wake();
    }
}

impl std::fmt::Debug for TaskWaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "waker of task {}", self.number)
    }
}
