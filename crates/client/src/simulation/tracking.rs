//! The servers' side of client-side caching: the keys that are tracked for each connection, and the messages that wait for
//! it.
//!
//! A node remembers the keys that were read over a connection behind CLIENT CACHING YES, or reports every key of the cache
//! (BCAST). It reports only the changes that it makes itself: changes of a slot that has moved are reported by the new owner.

use std::collections::{BTreeMap, BTreeSet};

/// The first byte of each key that is read through a cache.
pub(super) const PREFIX: &str = "c";

/// The connections that track keys, by their numbers.
#[derive(Default)]
pub(super) struct Trackers(BTreeMap<u64, Tracker>);

struct Tracker {
    node: usize,
    broadcasts: bool,
    remembered: BTreeSet<Vec<u8>>,
    messages: Vec<u8>,
}

impl Trackers {
    /// Begins to report changes to this connection to a node, and returns the reply. As in Redis, a connection that asks again
    /// keeps its remembered keys, and is refused if it named its prefix before.
    pub(super) fn track(&mut self, connection: u64, node: usize, broadcasts: bool) -> &'static str {
        let is_known = self.0.contains_key(&connection);
        let (remembered, messages) = Default::default();
        self.0.entry(connection).or_insert(Tracker { node, broadcasts, remembered, messages });
        if is_known && broadcasts { "-ERR Prefix 'c' overlaps with an existing prefix 'c'\r\n" } else { "+OK\r\n" }
    }

    /// Returns whether the keys that are read over this connection are remembered.
    pub(super) fn remembers(&self, connection: u64) -> bool {
        self.0.get(&connection).is_some_and(|tracker| !tracker.broadcasts)
    }

    /// Remembers a key that was read over this connection.
    pub(super) fn remember(&mut self, connection: u64, key: &[u8]) {
        self.0.entry(connection).and_modify(|tracker| _ = tracker.remembered.insert(key.to_vec()));
    }

    /// Queues the invalidation of a key that has changed at this node.
    pub(super) fn changed(&mut self, node: usize, key: &[u8]) {
        for tracker in self.0.values_mut().filter(|tracker| tracker.node == node) {
            let is_cached = tracker.broadcasts && key.starts_with(PREFIX.as_bytes());
            if tracker.remembered.remove(key) || is_cached {
                tracker.messages.extend(format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n", key.len()).as_bytes());
                tracker.messages.extend_from_slice(key);
                tracker.messages.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Queues the invalidation of all keys at this node.
    pub(super) fn flushed(&mut self, node: usize) {
        for tracker in self.0.values_mut().filter(|tracker| tracker.node == node) {
            tracker.remembered.clear();
            tracker.messages.extend_from_slice(b">2\r\n$10\r\ninvalidate\r\n_\r\n");
        }
    }

    /// Takes the messages that wait for a connection.
    pub(super) fn messages(&mut self, connection: u64) -> Vec<u8> {
        self.0.get_mut(&connection).map(|tracker| std::mem::take(&mut tracker.messages)).unwrap_or_default()
    }

    /// Forgets a connection that is gone.
    pub(super) fn leave(&mut self, connection: u64) {
        self.0.remove(&connection);
    }

    /// Forgets all connections to a node that has died.
    pub(super) fn die(&mut self, node: usize) {
        self.0.retain(|_, tracker| tracker.node != node);
    }
}
