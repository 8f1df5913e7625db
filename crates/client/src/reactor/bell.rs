//! How a task is reached from other threads: its bell, and the mail that the reactor's thread reads between its rounds.
//!
//! Mail is written under a short lock. The thread says that it sleeps before it looks at the mail for the last time, and
//! whoever writes looks at that afterwards, so one of the two always sees the other; a thread that is awake costs no system
//! call. Any thread.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::poller::Poller;
use super::state::{NOBODY, State};
use crate::process::fork::{PerProcess, Process};

/// What is left to do of a task.
pub(super) type Work = Pin<Box<dyn Future<Output = ()>>>;

/// Begins a task, on the reactor's thread.
pub(super) type Begin = Box<dyn FnOnce(Rc<State>) -> Work + Send>;

/// Is told why a task has panicked.
pub(super) type Collapsed = Box<dyn FnOnce(&str) + Send>;

/// A task that has not begun.
pub(super) struct Arrival {
    pub(super) number: u64,
    pub(super) begin: Begin,
    pub(super) collapsed: Collapsed,
}

/// What the thread finds when it looks up from its tasks.
#[derive(Default)]
pub(super) struct Mail {
    pub(super) arrivals: Vec<Arrival>,
    /// The tasks whose bells were rung.
    pub(super) rung: Vec<u64>,
    /// The thread is there, and will look.
    pub(super) is_read: bool,
}

/// The reactor of one process.
pub(super) struct Reactor {
    process: Process,
    pub(super) poller: Poller,
    pub(super) mail: Mutex<Mail>,
    /// The thread sleeps, or is about to, and must be woken for mail.
    pub(super) sleeps: AtomicBool,
    next: AtomicU64,
}

impl Reactor {
    /// This process's own. It is never given back: what a bell names is always there.
    fn this() -> io::Result<&'static Self> {
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
            mail: Mutex::default(),
            sleeps: AtomicBool::new(false),
            next: AtomicU64::new(NOBODY + 1),
        })
    }

    /// Has the thread look at its mail, which has just been changed.
    pub(super) fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            self.poller.wake();
        }
    }
}

/// Gives a task a turn, from any thread. It outlives its task, and is of no use then.
#[derive(Clone, Copy)]
pub(crate) struct Bell {
    pub(super) reactor: &'static Reactor,
    pub(super) number: u64,
}

impl Bell {
    /// The bell of a task that is yet to be started.
    pub(crate) fn new() -> io::Result<Self> {
        let reactor = Reactor::this()?;
        Ok(Self { reactor, number: reactor.next.fetch_add(1, Ordering::Relaxed) })
    }

    /// Gives the task a turn soon.
    pub(crate) fn ring(self) {
        // What a child has inherited belongs to its parent, and so do the locks.
        if !self.reactor.process.is_this() {
            return;
        }
        let mut mail = self.reactor.mail.lock();
        if mail.is_read && mail.rung.last() != Some(&self.number) {
            mail.rung.push(self.number);
        }
        drop(mail);
        self.reactor.wake();
    }
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bell {}", self.number)
    }
}
