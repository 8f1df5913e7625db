//! Time, read once a wake-up and handed down.
//!
//! Commands never ask the machine for the time: they see the instant at which their batch began ([`Instant`]), so that all of
//! a batch sees one time and a simulation can set the clock. The wall clock decides deadlines, as in Redis; durations come
//! from the monotonic clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A reading of both clocks.
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
        Self { wall_us: (wall_ns() / 1_000).max(0), monotonic_us: monotonic_ns() / 1_000 }
    }

    /// Returns milliseconds since the Unix epoch.
    pub fn wall_ms(self) -> i64 {
        self.wall_us / 1_000
    }

    /// Returns milliseconds since an arbitrary start; never goes back.
    pub fn monotonic_ms(self) -> u64 {
        self.monotonic_us / 1_000
    }

    /// Returns how much time has passed since this instant.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    /// Returns how much later this instant is than another; zero if it is earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.monotonic_us.saturating_sub(earlier.monotonic_us))
    }
}

/// Reads both clocks for a thread that does so often. It reads the wall clock once in a millisecond.
///
/// The two clocks run equally fast, including corrections of their rate. Their difference changes only if the wall clock is
/// set, which is noticed up to a millisecond later.
#[derive(Debug, Default)]
pub struct Clocks {
    /// The nanoseconds by which the wall clock is ahead of the monotonic clock.
    ahead_ns: i64,
    /// The time until which this difference counts as valid, in nanoseconds of the monotonic clock.
    until_ns: u64,
}

/// The time for which the difference of the clocks counts as valid.
const BELIEVED_NS: u64 = 1_000_000;

/// The longest time for a comparison of the clocks. If the thread was held up for longer, it compares them again, a few
/// times.
const HELD_UP_NS: u64 = 1_000;

impl Clocks {
    /// Returns the present time.
    #[inline]
    pub fn read(&mut self) -> Instant {
        #[cfg(test)]
        if let Some(now) = super::simulated::now() {
            return now;
        }
        let now_ns = monotonic_ns();
        if now_ns >= self.until_ns {
            self.compare();
            self.until_ns = now_ns + BELIEVED_NS;
        }
        Instant { wall_us: ((now_ns as i64 + self.ahead_ns) / 1_000).max(0), monotonic_us: now_ns / 1_000 }
    }

    #[cold]
    fn compare(&mut self) {
        for _ in 0..4 {
            let (before, wall, after) = (monotonic_ns(), wall_ns(), monotonic_ns());
            self.ahead_ns = wall - (before + (after - before) / 2) as i64;
            if after - before < HELD_UP_NS {
                break;
            }
        }
    }
}

/// The source of the present time for a long operation that began at a given instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The machine's clocks.
    Machine,
    /// A clock that stands still at the instant that the caller has named.
    Stopped,
}

impl Clock {
    /// Returns the present time; `began` is the instant at which the operation began.
    #[inline]
    pub fn after(self, began: Instant) -> Instant {
        match self {
            Self::Machine => Instant::now(),
            Self::Stopped => began,
        }
    }

    /// Returns the present time in monotonic nanoseconds, for short spans.
    #[inline]
    pub fn nanoseconds_after(self, began: Instant) -> u64 {
        match self {
            Self::Machine => monotonic_ns(),
            Self::Stopped => began.monotonic_us * 1_000,
        }
    }
}

/// Returns milliseconds since an arbitrary start; never goes back.
pub fn monotonic_ms() -> u64 {
    monotonic_ns() / 1_000_000
}

/// Returns nanoseconds since an arbitrary start; never goes back.
pub fn monotonic_ns() -> u64 {
    #[cfg(test)]
    if let Some(now) = super::simulated::now() {
        return now.monotonic_us * 1_000;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the nanoseconds of processor time that this thread has used.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn wall_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Returns a cheap, fine counter of time in its own unit: the processor's time stamp if there is one. See [`Ticker`].
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

/// The conversion of ticks into time: it compares the ticks and the nanoseconds since it was made. Any thread.
#[derive(Debug)]
pub struct Ticker {
    ticks: u64,
    monotonic_ns: u64,
    /// The length of a tick, in units of 2^-32 nanoseconds; 0 until enough time has passed to know it well.
    tick_length: AtomicU64,
}

/// A tick so short that even the ticks of a whole second are less than a nanosecond together.
const STOPPED: u64 = 1;

/// The time after which the length of a tick is taken as known: by then the time for reading the clocks is at most a
/// millionth of the measured time.
const KNOWN_AFTER_NS: u64 = 1_000_000_000;

impl Ticker {
    /// Begins to compare the ticks with the clock.
    pub fn start() -> Self {
        Self { ticks: ticks(), monotonic_ns: monotonic_ns(), tick_length: AtomicU64::new(0) }
    }

    /// Returns a ticker for which any number of ticks takes no time.
    pub fn stopped() -> Self {
        Self { ticks: 0, monotonic_ns: 0, tick_length: AtomicU64::new(STOPPED) }
    }

    /// Returns how many nanoseconds so many ticks take.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the clocks in both ways, alternating: both return the same time, and neither clock goes back from one to the
    /// other.
    #[test]
    fn clocks_that_are_read_often_say_what_the_machine_says() {
        let mut clocks = Clocks::default();
        let begun = Instant::now();
        let mut last = begun;
        while last.since(begun) < Duration::from_millis(5) {
            let (before, read, after) = (Instant::now(), clocks.read(), Instant::now());
            assert!((before.monotonic_us..=after.monotonic_us).contains(&read.monotonic_us));
            // Clocks that were read together agree to a microsecond.
            assert!((before.wall_us - 1..=after.wall_us + 1).contains(&read.wall_us), "{before:?} {read:?} {after:?}");
            assert!(read.wall_us >= last.wall_us - 1);
            last = read;
        }
    }

    #[test]
    fn what_lies_between_the_clocks_is_looked_at_again_when_its_time_is_over() {
        const HOUR_US: i64 = 3_600_000_000;
        let mut clocks = Clocks::default();
        let read = clocks.read();
        let is_late = |now: Instant| now.wall_us < read.wall_us - HOUR_US / 2;
        clocks = Clocks { ahead_ns: clocks.ahead_ns - HOUR_US * 1_000, until_ns: u64::MAX };
        assert!(is_late(clocks.read()));
        clocks.until_ns = 0;
        assert!(!is_late(clocks.read()));
        assert!((1..=read.monotonic_us * 1_000 + HOUR_US as u64).contains(&clocks.until_ns));
    }
}
