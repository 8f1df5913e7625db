//! The machine: clocks, sockets, wake-ups, the process at a socket's other end, random numbers; and the process itself:
//! forks, locks, threads for blocking work, callbacks, traces.
//!
//! Linux has its own twin, because eventfd, flags at a socket's creation and a clock without access to the hardware are each
//! cheaper there. Every other Unix has the portable twin. Both are tested on Linux; a build of Linux with `--cfg
//! sleeve_portable` uses the portable twin throughout. In tests a thread may have a simulation in their place (`simulated`),
//! which provides the time and the servers to connect to. Any thread.
//!
//! A child that was forked has its parent's memory, and so its parent's connections, but none of its threads. Replies to the
//! child's requests would reach the parent's callers, and the child's callers would wait for ever. So every value with a
//! thread or a connection remembers the process in which it was made ([`Process`]), and checks it before use. The check
//! counts forks: the system's fork calls a handler in the child, and the check costs one load. (A child made by `clone`
//! itself, past the system's library, is not noticed.)

pub(crate) mod callback;
#[cfg(all(target_os = "linux", not(sleeve_portable)))]
mod linux;
pub(crate) mod lock;
#[cfg(feature = "embedded")]
pub(crate) mod off_thread;
pub(crate) mod planted;
#[cfg(any(not(target_os = "linux"), sleeve_portable, test))]
mod portable;
pub(crate) mod runtime;
#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
mod tests;
#[cfg(not(feature = "tracing"))]
#[path = "no_trace.rs"]
pub(crate) mod trace;
#[cfg(feature = "tracing")]
pub(crate) mod trace;
pub(crate) mod wake;

use std::collections::hash_map::RandomState;
use std::ffi::c_int;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

#[cfg(all(target_os = "linux", not(sleeve_portable)))]
use linux as machine;
#[cfg(not(all(target_os = "linux", not(sleeve_portable))))]
use portable as machine;
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Effect, Error, ErrorKind};

use machine::COARSE_CLOCK;
pub(crate) use machine::{CLOCK_TICK_MS, Event, SEND_FLAGS, network, peer_process, stream, timespec, whereabouts};

/// The twin of `simulated` in builds without a simulation: all calls go to the machine.
#[cfg(not(test))]
mod simulated {
    use super::{Instant, OwnedFd, SocketAddr, io};

    #[inline(always)]
    pub(super) fn now() -> Option<Instant> {
        None
    }

    #[inline(always)]
    pub(super) fn clock_us() -> Option<u64> {
        None
    }

    #[inline(always)]
    pub(super) fn chance() -> Option<u64> {
        None
    }

    #[inline(always)]
    pub(super) fn connect(_address: &SocketAddr) -> Option<io::Result<OwnedFd>> {
        None
    }
}

/// Returns the present time.
#[inline]
pub(crate) fn now() -> Instant {
    simulated::now().unwrap_or_else(Instant::now)
}

/// Returns the time since this instant.
pub(crate) fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}

/// Returns milliseconds on a coarse clock with an arbitrary start, which wraps and never goes back.
#[inline]
pub(crate) fn clock_ms() -> u32 {
    uptime_ms() as u32
}

/// Returns the time as [`clock_ms`] does, but reads the hardware: exact to the millisecond.
#[inline]
pub(crate) fn exact_clock_ms() -> u32 {
    (clock_us() / 1000) as u32
}

/// Returns microseconds on the same clock, read from the hardware; they do not wrap.
#[inline]
pub(crate) fn clock_us() -> u64 {
    simulated::clock_us().unwrap_or_else(|| {
        let now = clock_gettime(ClockId::Monotonic);
        (now.tv_sec as u64) * 1_000_000 + (now.tv_nsec as u64) / 1000
    })
}

/// Returns milliseconds on the clock of [`clock_ms`] that do not wrap.
#[inline]
pub(crate) fn uptime_ms() -> u64 {
    let of_system = || {
        let now = clock_gettime(COARSE_CLOCK);
        (now.tv_sec as u64) * 1000 + (now.tv_nsec / 1_000_000) as u64
    };
    // The coarse clock of a simulation stands still between two ticks, as that of a kernel does.
    simulated::clock_us().map_or_else(of_system, |us| us / 1000 / CLOCK_TICK_MS * CLOCK_TICK_MS)
}

/// Returns an unpredictable number, for rare uses.
pub(crate) fn chance() -> u64 {
    // A fresh RandomState is seeded by the system.
    simulated::chance().unwrap_or_else(|| RandomState::new().hash_one(0))
}

/// Opens a connection to this address in the simulation; none if no simulation is on in this thread.
#[inline]
pub(crate) fn simulated_stream(address: &SocketAddr) -> Option<io::Result<OwnedFd>> {
    simulated::connect(address)
}

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
