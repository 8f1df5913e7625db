//! The process in which a value was made, to notice a fork.
//!
//! A child that was forked has its parent's memory, and so its parent's connections, but none of its threads. Replies to the
//! child's requests would reach the parent's callers, and the child's callers would wait for ever. So every value with a
//! thread or a connection remembers the process in which it was made, and checks it before use. The check counts forks: the
//! system's fork calls a handler in the child, and the check costs one load. (A child made by `clone` itself, past the
//! system's library, is not noticed.) Any thread.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::error::{Effect, Error, ErrorKind};

/// The number of forks between the first process and this one, as far as they were counted.
static FORKS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The identity of a process, to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// Returns the identity of this process. Forks are counted from the first call on.
    pub(crate) fn this() -> Self {
        static COUNTING: Once = Once::new();
        COUNTING.call_once(|| {
            // SAFETY: the handler does nothing but add to an atomic, which a child may do; it fails only for want of memory,
            // and then forks are not noticed.
            unsafe { pthread_atfork(None, None, Some(in_child)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns whether this is still the same process.
    #[inline]
    pub(crate) fn is_this(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// Returns the error for a child that uses a connection of its parent.
#[cold]
pub(crate) fn inherited() -> Error {
    Error::unsent(
        ErrorKind::Closed,
        "this process was forked from the one that made this client, and the connection is the parent's: \
         make another client here",
    )
}

/// Returns the error for a child that waits for a reply to a request of its parent.
#[cold]
pub(crate) fn answered_to_parent() -> Error {
    Error::new(
        ErrorKind::Disconnected,
        Effect::Unknown,
        "this process was forked from the one that sent the command, and the answer goes to the parent",
    )
}

/// A value that each process makes for itself at its first use. A child leaves its parent's alone: work that the parent's
/// threads were about to do with it stays undone.
pub(crate) struct PerProcess<T: Sync + 'static> {
    place: AtomicPtr<Made<T>>,
    make: fn() -> T,
}

struct Made<T> {
    process: Process,
    thing: T,
}

impl<T: Sync + 'static> PerProcess<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self { place: AtomicPtr::new(std::ptr::null_mut()), make }
    }

    /// Returns the value of this process, which is made at the first use.
    pub(crate) fn get(&self) -> &'static T {
        loop {
            let found = self.place.load(Ordering::Acquire);
            // SAFETY: the stored address was made by `Box::into_raw` and is never freed.
            if let Some(made) = unsafe { found.as_ref() }
                && made.process.is_this()
            {
                return &made.thing;
            }
            let made = Box::into_raw(Box::new(Made { process: Process::this(), thing: (self.make)() }));
            if self.place.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: another thread was faster, so this one was never shared.
                drop(unsafe { Box::from_raw(made) });
            }
        }
    }
}
