//! Options of the stream commands, as types that cannot be mistaken for each other.
//!
//! Each writes the words of its command in the order that the server documents. Pure data; any thread.

use std::time::Duration;

use crate::resp::request::{Request, ToArgs};

/// The rule by which XADD and XTRIM trim a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTrim {
    words: [String; 2],
    roughly: bool,
    limit: Option<u64>,
}

impl StreamTrim {
    /// Keeps the last `count` entries.
    pub fn last(count: u64) -> Self {
        Self { words: ["MAXLEN".to_owned(), count.to_string()], roughly: false, limit: None }
    }

    /// Keeps the entries from this id on.
    pub fn from_id(id: impl Into<String>) -> Self {
        Self { words: ["MINID".to_owned(), id.into()], roughly: false, limit: None }
    }

    /// Allows the server to keep a few more entries, if that saves it work.
    pub fn roughly(mut self) -> Self {
        self.roughly = true;
        self
    }

    /// Removes at most this many entries at once; only together with [`StreamTrim::roughly`].
    pub fn at_most(mut self, count: u64) -> Self {
        self.limit = Some(count);
        self
    }
}

impl ToArgs for StreamTrim {
    fn write_to(&self, request: &mut Request) {
        let [strategy, threshold] = &self.words;
        request.arg(strategy).arg(self.roughly.then_some("~")).arg(threshold);
        request.arg(self.limit.map(|limit| ("LIMIT", limit)));
    }
}

/// Options of XREAD and XREADGROUP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    count: Option<u64>,
    block: Option<Duration>,
    no_ack: bool,
}

impl ReadOptions {
    /// Returns the defaults: all entries that exist, without waiting.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns at most this many entries of each stream.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Waits at most this time if there are no entries; zero waits for ever. The command then has a connection of its own, as
    /// [`BlockingCommands`](crate::commands::blocking::BlockingCommands) have.
    pub fn block(mut self, time: Duration) -> Self {
        self.block = Some(time);
        self
    }

    /// Counts delivered entries as acknowledged (XREADGROUP only).
    pub fn no_ack(mut self) -> Self {
        self.no_ack = true;
        self
    }
}

impl ToArgs for ReadOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.count.map(|count| ("COUNT", count)));
        request.arg(self.block.map(|time| ("BLOCK", time.as_nanos().div_ceil(1_000_000))));
        request.arg(self.no_ack.then_some("NOACK"));
    }
}

/// The place in a stream from which a new group begins to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStart {
    id: String,
    makes_stream: bool,
}

impl GroupStart {
    /// Begins with the first entry.
    pub fn first() -> Self {
        Self::after("0")
    }

    /// Begins with entries that are added from now on.
    pub fn new_entries() -> Self {
        Self::after("$")
    }

    /// Begins after this id.
    pub fn after(id: impl Into<String>) -> Self {
        Self { id: id.into(), makes_stream: false }
    }

    /// Creates the stream if it does not exist (MKSTREAM).
    pub fn make_stream(mut self) -> Self {
        self.makes_stream = true;
        self
    }
}

impl ToArgs for GroupStart {
    fn write_to(&self, request: &mut Request) {
        request.arg(&self.id).arg(self.makes_stream.then_some("MKSTREAM"));
    }
}

/// Options of XCLAIM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimOptions {
    idle: Option<Duration>,
    deliveries: Option<u64>,
    force: bool,
}

impl ClaimOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time since the last delivery that counts for the entries.
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = Some(time);
        self
    }

    /// Sets the number of deliveries that counts for the entries.
    pub fn deliveries(mut self, count: u64) -> Self {
        self.deliveries = Some(count);
        self
    }

    /// Claims entries that are pending for no consumer, too.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }
}

impl ToArgs for ClaimOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.idle.map(|time| ("IDLE", time.as_millis())));
        request.arg(self.deliveries.map(|count| ("RETRYCOUNT", count)));
        request.arg(self.force.then_some("FORCE"));
    }
}

/// Options of a [`Consumer`](crate::Consumer) of a group.
///
/// ```
/// use std::time::Duration;
/// use sleeve::{ConsumerOptions, GroupStart};
///
/// let options = ConsumerOptions::new()
///     .start(GroupStart::new_entries()) // if there is no such group yet
///     .count(100)
///     .claim_after(Duration::from_secs(300));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    pub(crate) start: GroupStart,
    pub(crate) count: u64,
    pub(crate) claim_after: Option<Duration>,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self { start: GroupStart::first(), count: 10, claim_after: None }
    }
}

impl ConsumerOptions {
    /// Returns the defaults: a group that begins with the first entry, ten entries at a time, no claims.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the place from which the group begins to read, if it does not exist yet. The stream is created, too.
    pub fn start(mut self, start: GroupStart) -> Self {
        self.start = start;
        self
    }

    /// Sets the number of entries that are requested at once, at least one. They count as delivered to this consumer from
    /// then on.
    pub fn count(mut self, count: u64) -> Self {
        self.count = count.max(1);
        self
    }

    /// Claims entries that any consumer of the group has had for this long without acknowledging them: because it has ended,
    /// or has dropped the entry. Without this no entry is claimed.
    ///
    /// The time should be far longer than the work on an entry takes: an entry that is claimed too early is worked on twice.
    pub fn claim_after(mut self, idle: Duration) -> Self {
        self.claim_after = Some(idle);
        self
    }
}
