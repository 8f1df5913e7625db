//! Options of a coalescing handle: the time for which calls wait for others, and the largest number of calls that leave
//! together.
//!
//! Pure data; any thread.

use std::time::Duration;

/// The largest value of the option `calls_max`.
const CALLS_MAX: usize = 16 * 1024;

/// The largest value of the option `bytes_max`.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Options of a [`Coalescing`](crate::Coalescing) handle, which say how it gathers calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct CoalesceOptions {
    pub(crate) delay: Duration,
    pub(crate) calls_max: usize,
    pub(crate) bytes_max: usize,
}

impl Default for CoalesceOptions {
    fn default() -> Self {
        Self { delay: Duration::ZERO, calls_max: 512, bytes_max: 64 * 1024 }
    }
}

impl CoalesceOptions {
    /// Returns the defaults, without a delay: calls are gathered while those before them are unanswered. At most 512 calls,
    /// or 64 KiB, leave together.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time for which a call waits for others, even if no call is in flight; at most half of the command timeout.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the number of gathered calls that leave at once. At most 16,384.
    pub fn calls_max(mut self, calls: usize) -> Self {
        self.calls_max = calls.clamp(1, CALLS_MAX);
        self
    }

    /// Sets the number of bytes of gathered calls that leave at once. At most 4 MiB.
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes.clamp(1, BYTES_MAX);
        self
    }
}
