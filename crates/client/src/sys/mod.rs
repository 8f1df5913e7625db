//! The machine: clocks, sockets, wake-ups, the process at a socket's other end, random numbers; and the process itself:
//! forks, locks, threads for blocking work, callbacks, traces.
//!
//! Linux has its own twin, because eventfd, flags at a socket's creation and a clock without access to the hardware are each
//! cheaper there. Every other Unix has the portable twin. Both are tested on Linux; a build of Linux with `--cfg
//! sleeve_portable` uses the portable twin throughout. In tests a thread may have a simulation in their place (`simulated`),
//! which provides the time and the servers to connect to. Any thread.

pub(crate) mod callback;
pub(crate) mod fork;
#[cfg(all(target_os = "linux", not(sleeve_portable)))]
mod linux;
pub(crate) mod lock;
#[cfg(feature = "embedded")]
pub(crate) mod off_thread;
pub(crate) mod planted;
#[cfg(any(not(target_os = "linux"), sleeve_portable, test))]
mod portable;
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
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

#[cfg(all(target_os = "linux", not(sleeve_portable)))]
use linux as machine;
#[cfg(not(all(target_os = "linux", not(sleeve_portable))))]
use portable as machine;

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
    // The coarse clock of a simulation stands still between two ticks, as that of a kernel does.
    simulated::clock_us().map_or_else(machine::clock_ms, |us| (us / 1000 / CLOCK_TICK_MS * CLOCK_TICK_MS) as u32)
}

/// Returns the time as [`clock_ms`] does, but reads the hardware: exact to the millisecond.
#[inline]
pub(crate) fn exact_clock_ms() -> u32 {
    simulated::clock_us().map_or_else(machine::exact_clock_ms, |us| (us / 1000) as u32)
}

/// Returns microseconds on the same clock, read from the hardware; they do not wrap.
#[inline]
pub(crate) fn clock_us() -> u64 {
    simulated::clock_us().unwrap_or_else(machine::clock_us)
}

/// Returns milliseconds on the clock of [`clock_ms`] that do not wrap.
#[inline]
pub(crate) fn uptime_ms() -> u64 {
    simulated::clock_us().map_or_else(machine::uptime_ms, |us| us / 1000 / CLOCK_TICK_MS * CLOCK_TICK_MS)
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
