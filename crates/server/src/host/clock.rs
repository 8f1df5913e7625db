//! Time, read once a wake-up and handed down.
//!
//! Commands never ask the machine for the time: they see the instant that their batch began ([`Instant`]), so that a
//! batch is consistent with itself and a simulation can turn the hands. The wall clock decides deadlines, as in
//! Redis; durations come from the monotonic clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Microseconds since the Unix epoch.
    pub wall_us: i64,
    /// Microseconds since an arbitrary start; never goes back.
    pub monotonic_us: u64,
}

impl Instant {
    /// Reads both clocks of this machine.
    pub fn now() -> Self {
        #[cfg(test)]
        if let Some(now) = super::simulated::now() {
            return now;
        }
        Self { wall_us: wall_us(), monotonic_us: monotonic_ns() / 1_000 }
    }

    /// Milliseconds since the Unix epoch.
    pub fn wall_ms(self) -> i64 {
        self.wall_us / 1_000
    }

    /// Milliseconds since an arbitrary start; never goes back.
    pub fn monotonic_ms(self) -> u64 {
        self.monotonic_us / 1_000
    }

    /// How much time has passed since.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// How much later this is than another; nothing where it is earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.monotonic_us.saturating_sub(earlier.monotonic_us))
    }
}

/// Where what takes long has a later time from than the instant at which it began: handed down with that instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// This machine's clocks.
    Machine,
    /// The clock stands at the instant that the caller has named.
    Stopped,
}

impl Clock {
    /// What time it is when `began` was the time before.
    #[inline]
    pub fn after(self, began: Instant) -> Instant {
        match self {
            Self::Machine => Instant::now(),
            Self::Stopped => began,
        }
    }

    /// The same in monotonic nanoseconds, for short spans.
    #[inline]
    pub fn nanoseconds_after(self, began: Instant) -> u64 {
        match self {
            Self::Machine => monotonic_ns(),
            Self::Stopped => began.monotonic_us * 1_000,
        }
    }
}

/// Milliseconds since an arbitrary start; never goes back.
pub fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// Nanoseconds since an arbitrary start; never goes back.
pub fn monotonic_ns() -> u64 {
    #[cfg(test)]
    if let Some(now) = super::simulated::now() {
        return now.monotonic_us * 1_000;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of the processor's time that this thread has taken.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn wall_us() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (time.tv_sec * 1_000_000 + time.tv_nsec / 1_000).max(0)
}

/// A cheap, fine counter of time in a unit of its own: the processor's time stamp where there is one. See [`Ticker`].
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    monotonic_ns()
}

/// Turns ticks into time, by how many there have been since it was made. Any thread.
#[derive(Debug)]
pub struct Ticker {
    ticks: u64,
    monotonic_ns: u64,
    /// How long a tick is, in nanoseconds of which 2^32 make one; 0 until enough time has passed to know that well.
    tick_length: AtomicU64,
}

/// A length that comes to nothing: less than a nanosecond for all ticks of a second.
const STOPPED: u64 = 1;

/// After so many nanoseconds the reading of the clock is no more than a millionth of them.
const KNOWN_AFTER_NS: u64 = 1_000_000_000;

impl Ticker {
    /// Begins to compare both.
    pub fn start() -> Self {
        Self { ticks: ticks(), monotonic_ns: monotonic_ns(), tick_length: AtomicU64::new(0) }
    }

    /// By which no number of ticks takes any time.
    pub fn stopped() -> Self {
        Self { ticks: 0, monotonic_ns: 0, tick_length: AtomicU64::new(STOPPED) }
    }

    /// How many nanoseconds so many ticks are.
    #[inline]
    pub fn nanoseconds(&self, count: u64) -> u64 {
        let known = self.tick_length.load(Ordering::Relaxed);
        let length = if known == 0 { self.measure() } else { known };
        ((u128::from(count) * u128::from(length)) >> 32) as u64
    }

    #[cold]
    fn measure(&self) -> u64 {
        let ticks = ticks().wrapping_sub(self.ticks).max(1);
        let elapsed_ns = monotonic_ns().saturating_sub(self.monotonic_ns).max(1);
        let length = ((u128::from(elapsed_ns) << 32) / u128::from(ticks)).max(1) as u64;
        if elapsed_ns >= KNOWN_AFTER_NS {
            self.tick_length.store(length, Ordering::Relaxed);
        }
        length
    }
}
