//! Options of a coalescing handle: how long calls wait for others, and how many leave together at most.
//!
//! Pure data; any thread.

use std::time::Duration;

/// The largest number of calls that leave together, for every setting.
const CALLS_MAX: usize = 16 * 1024;

/// The largest number of bytes that leave together, for every setting.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a [`Coalescing`](crate::Coalescing) handle gathers calls.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use std::time::Duration;
/// use sleeve::{Client, CoalesceOptions, prelude::*};
///
/// let client = Client::embedded();
/// let options = CoalesceOptions::new().delay(Duration::from_millis(1)).calls_max(1000).bytes_max(128 * 1024);
/// let coalescing = client.coalescing_with(options);
/// let (one, two) = (coalescing.incr("visits"), coalescing.incr("visits")); // leave as INCRBY visits 2
/// assert_eq!((one.wait()?, two.wait()?), (1, 2));
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
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

    /// Calls wait for company for this long, even where nothing is on its way; and for no longer. At most half of the command
    /// timeout.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// So many calls leave at once. At most 16,384.
    pub fn calls_max(mut self, calls: usize) -> Self {
        self.calls_max = calls.clamp(1, CALLS_MAX);
        self
    }

    /// Calls of so many bytes leave at once. At most 4 MiB.
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes.clamp(1, BYTES_MAX);
        self
    }
}
