//! The facts that a state machine asks its caller for.

use crate::slots::Slot;

/// A point of time, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    /// Milliseconds of a clock that never goes back. All timeouts are measured by it.
    pub ms: u64,
    /// Milliseconds since 1970. Only reports and nodes.conf show it.
    pub unix_ms: u64,
}

/// The link of a replica to its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicationLink {
    /// The link is up.
    Up,
    /// The link is down since this many milliseconds, or has never been up (`u64::MAX`).
    Down {
        /// Milliseconds since the last byte of the primary.
        for_ms: u64,
    },
}

/// The server around the state machine: its data, its replication and its source of chance. The state machine calls it
/// within calls of its own, so an implementation must not call the state machine.
pub trait Host {
    /// Returns the server's replication offset, in bytes.
    fn replication_offset(&self) -> u64;

    /// Returns the state of the link to the primary. Asked only of a replica.
    fn replication_link(&self) -> ReplicationLink;

    /// Returns the number of keys of a slot, over all databases.
    fn keys_in_slot(&self, slot: Slot) -> u64;

    /// Returns whether the server holds no key at all.
    fn is_empty(&self) -> bool;

    /// Returns random bits.
    fn random(&mut self) -> u64;
}
