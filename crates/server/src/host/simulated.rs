//! A simulation's time, threads and network, in place of the machine's: for tests alone.
//!
//! While a simulation is on in a thread, code that would start threads there makes [`Task`]s instead. A task runs on a stack
//! of its own when the simulation resumes it, until it waits. The clocks return the simulation's time. A connection to
//! another server is one end of a pair of sockets; the simulation has the other end. So many engines run in one thread, and
//! do the same again from the same seed.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use parking_lot::MutexGuard;

use super::clock::Instant;

/// The size of a task's stack, in bytes.
const STACK_BYTES: usize = 1 << 20;

/// The function that makes a connection. It gets the owner, the host and the port.
type Connect = Box<dyn FnMut(usize, &str, u16) -> io::Result<OwnedFd>>;

thread_local! {
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    static OWNER: Cell<usize> = const { Cell::new(0) };
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    static STARTED: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
    static CONNECT: RefCell<Option<Connect>> = const { RefCell::new(None) };
}

/// A simulation in this thread, until it is dropped.
pub struct On(());

impl On {
    /// Begins a simulation at this time; `connect` makes its connections.
    pub fn begin(now: Instant, connect: Connect) -> Self {
        NOW.set(Some(now));
        CONNECT.replace(Some(connect));
        Self(())
    }

    /// Sets the time.
    pub fn set_now(&self, now: Instant) {
        NOW.set(Some(now));
    }

    /// Sets the owner of all tasks and connections that are made from now on.
    pub fn set_owner(&self, owner: usize) {
        OWNER.set(owner);
    }

    /// Returns the tasks that were started since the last call.
    pub fn started(&self) -> Vec<Task> {
        STARTED.take()
    }
}

impl Drop for On {
    fn drop(&mut self) {
        NOW.set(None);
        CONNECT.take();
        STARTED.take();
    }
}

/// Returns whether a simulation is on in this thread.
pub fn is_on() -> bool {
    NOW.get().is_some()
}

/// Returns the time of the simulation, if one is on.
pub fn now() -> Option<Instant> {
    NOW.get()
}

/// Makes a connection in the simulation; returns None if no simulation is on.
pub fn connect(host: &str, port: u16) -> Option<io::Result<OwnedFd>> {
    CONNECT.with_borrow_mut(|connect| connect.as_mut().map(|connect| connect(OWNER.get(), host, port)))
}

/// A task, which stands for a thread.
pub struct Task {
    /// The owner of the task.
    pub owner: usize,
    /// The name of the task.
    pub name: String,
    coroutine: Coroutine<(), (), ()>,
}

impl Task {
    fn new(name: &str, run: impl FnOnce() + 'static) -> Self {
        let stack = DefaultStack::new(STACK_BYTES).expect("room for a stack");
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            YIELDER.set(yielder);
            run();
        });
        Self { owner: OWNER.get(), name: name.to_owned(), coroutine }
    }

    /// Resumes the task until it waits. Returns whether it has ended.
    pub fn resume(&mut self) -> bool {
        OWNER.set(self.owner);
        let result = self.coroutine.resume(());
        YIELDER.set(std::ptr::null());
        matches!(result, CoroutineResult::Return(()))
    }
}

/// Starts a task.
pub fn start(name: &str, run: impl FnOnce() + 'static) {
    let task = Task::new(name, run);
    STARTED.with_borrow_mut(|started| started.push(task));
}

/// Suspends the running task, so that others can run.
fn pause() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "whoever waits in a simulation is one of its tasks");
    // SAFETY: it was set by the task that runs, and lives on that task's stack until the task has ended.
    unsafe { &*yielder }.suspend(());
    YIELDER.set(yielder);
}

/// Suspends the running task until the condition holds, or so much time has passed; returns whether it holds.
pub fn wait_until(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let until_us = now_us().saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    while !is_so() {
        if now_us() >= until_us {
            return false;
        }
        pause();
    }
    true
}

fn now_us() -> u64 {
    now().map_or(0, |now| now.monotonic_us)
}

/// A counter of notifications: the simulation's part of a condition variable.
#[derive(Debug, Default)]
pub struct Told(AtomicU64);

impl Told {
    /// Counts a notification.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a notification, with the mutex released. Returns false if the timeout passed first.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>, time: Option<Duration>) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        let has_changed = || self.0.load(Ordering::Relaxed) != before;
        MutexGuard::unlocked(guard, || wait_until(time.unwrap_or(Duration::MAX), has_changed))
    }
}
