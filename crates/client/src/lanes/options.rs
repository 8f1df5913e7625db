//! Options of a handle with lanes: the size from which a call counts as large, and for how long the connection for such calls
//! is kept.
//!
//! Pure data; any thread.

use std::time::Duration;

/// How a [`Lanes`](crate::Lanes) handle recognizes large calls: see [`Client::lanes_with`](crate::Client::lanes_with).
///
/// ```
/// use std::time::Duration;
/// use sleeve::LaneOptions;
///
/// let options = LaneOptions::new().large_min(256 * 1024).idle_after(Duration::from_secs(60));
/// ```
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

    /// How many bytes a request or a reply has at least that is large; 64 KiB without this. A large request takes the second
    /// connection at once, a large reply teaches that those to calls of its kind are large.
    pub fn large_min(mut self, bytes: usize) -> Self {
        self.large_min = bytes.max(1);
        self
    }

    /// After how long without use the second connection is closed; 10 seconds without this. It is opened again when it is needed.
    pub fn idle_after(mut self, time: Duration) -> Self {
        self.idle_after = time;
        self
    }
}
