//! The only way in which the server's code starts a thread, so that a test can have the system refuse it.
//!
//! If a thread cannot start, the caller gets an error; it is never a panic. `docs/threads.md` lists each caller's reaction.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread with a name that `ps` and a debugger show.
///
/// # Errors
/// Errors of the operating system: too many threads, or too little memory.
pub fn start<T: Send + 'static>(name: &str, run: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    #[cfg(test)]
    refusal::check()?;
    Builder::new().name(name.to_owned()).spawn(run)
}

/// Starts a thread that is never joined.
///
/// # Errors
/// As [`start`].
pub fn detach(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(test)]
    if super::simulated::is_on() {
        super::simulated::start(name, run);
        return Ok(());
    }
    start(name, run).map(drop)
}

/// Starts a thread that ends before `scope` does.
///
/// # Errors
/// As [`start`].
pub fn start_within<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    run: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    #[cfg(test)]
    refusal::check()?;
    Builder::new().name(name.to_owned()).spawn_scoped(scope, run)
}

/// Makes the calling thread one of background work (`SCHED_BATCH`): when it wakes, it does not take the processor from a thread
/// that serves clients. It gets as much of the processors as before. A system that refuses leaves it as it is.
pub fn give_way() {
    // SAFETY: a `sched_param` consists of plain numbers, for which zero is a value.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: it reads the parameter, which lives until it returns, and 0 means the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const param) };
}

/// Lets the threads that wait for this processor run first. A thread of background work calls this between its steps, because
/// Linux lets a running thread go on for some 3 ms before a worker or a client that wakes on its processor, even if another
/// processor is idle.
#[inline]
pub fn yield_to_clients() {
    std::thread::yield_now();
}

/// A system that refuses threads, for tests: it refuses those that the calling thread wants to start.
#[cfg(test)]
pub mod refusal {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static ALLOWED: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Runs `work`, during which this thread may start so many threads and no more.
    pub fn after<T>(allowed: usize, work: impl FnOnce() -> T) -> T {
        ALLOWED.set(allowed);
        let result = work();
        ALLOWED.set(usize::MAX);
        result
    }

    pub(super) fn check() -> io::Result<()> {
        match ALLOWED.get() {
            // A simulation has only the one thread.
            _ if super::super::simulated::is_on() => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            usize::MAX => Ok(()),
            allowed => {
                ALLOWED.set(allowed - 1);
                Ok(())
            }
        }
    }
}
