//! Options of a handle with lanes: the size from which a call counts as large, and for how long the connection for such calls
//! is kept.
//!
//! Pure data; any thread.

use std::time::Duration;

/// Options of a [`Lanes`](crate::Lanes) handle, which say when a call is large: see
/// [`Client::lanes_with`](crate::Client::lanes_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LaneOptions {
    pub(crate) large_min: usize,
    pub(crate) idle_after: Duration,
}

impl Default for LaneOptions {
    fn default() -> Self {
        Self { large_min: 64 * 1024, idle_after: Duration::from_secs(10) }
    }
}

impl LaneOptions {
    /// Returns the defaults: 64 KiB or more is large; the connection for large calls is closed after 10 seconds without use.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of bytes from which on a request or a reply is large; 64 KiB without this. A large request takes the
    /// second connection at once. A large reply teaches that later replies to calls of its kind are large.
    pub fn large_min(mut self, bytes: usize) -> Self {
        self.large_min = bytes.max(1);
        self
    }

    /// Sets the idle time after which the second connection is closed; 10 seconds without this. It is opened again when it is
    /// needed.
    pub fn idle_after(mut self, time: Duration) -> Self {
        self.idle_after = time;
        self
    }
}
