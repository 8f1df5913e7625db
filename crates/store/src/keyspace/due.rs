//! The hashes of one database in one shard that have fields that expire, in the order of the times when they are due.
//!
//! Each such hash is listed once, under a time that is not later than its earliest deadline; so a deadline that moves back
//! costs nothing until the old time has passed. The shard, which is the only user and holds its lock, takes out hashes that
//! are removed or overwritten. Keys are kept by copy; a hash of a key stands for it where only that is at hand.

use std::collections::{BTreeMap, HashMap};

use crate::value::key_hash::Hash;

/// The memory of one hash in this list, in bytes without its key: its shares of two tree nodes.
const BYTES_EACH: usize = 80;

/// The hashes of one database in one shard with fields that expire, by the time when their next field is due.
#[derive(Debug, Default)]
pub(crate) struct DueKeys {
    by_time: BTreeMap<(i64, u64), Box<[u8]>>,
    times: HashMap<u64, i64>,
    key_bytes: usize,
}

impl DueKeys {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub fn memory(&self) -> usize {
        self.times.len() * BYTES_EACH + self.key_bytes
    }

    /// Returns whether any hash is due.
    #[inline]
    pub fn has_due(&self, now_ms: i64) -> bool {
        self.by_time.first_key_value().is_some_and(|((due_ms, _), _)| now_ms > *due_ms)
    }

    /// Returns whether the hash under this key's hash is due.
    pub fn is_due(&self, hash: Hash, now_ms: i64) -> bool {
        self.times.get(&hash.0).is_some_and(|due_ms| now_ms > *due_ms)
    }

    /// Notes that a hash has a field with a deadline at `due_ms`.
    pub fn announce(&mut self, hash: Hash, key: &[u8], due_ms: i64) {
        match self.times.get(&hash.0) {
            Some(known_ms) if *known_ms <= due_ms => return,
            _ => self.forget(hash),
        }
        self.times.insert(hash.0, due_ms);
        self.by_time.insert((due_ms, hash.0), key.into());
        self.key_bytes += key.len();
    }

    /// Removes a hash that was deleted, or overwritten by a value of another type.
    pub fn forget(&mut self, hash: Hash) {
        if let Some(due_ms) = self.times.remove(&hash.0) {
            let key = self.by_time.remove(&(due_ms, hash.0)).unwrap_or_default();
            self.key_bytes -= key.len();
        }
    }

    /// Takes out a hash that is due.
    pub fn pop(&mut self, now_ms: i64) -> Option<(Hash, Box<[u8]>)> {
        let (&(due_ms, hash), _) = self.by_time.first_key_value()?;
        if now_ms <= due_ms {
            return None;
        }
        let key = self.by_time.remove(&(due_ms, hash)).unwrap_or_default();
        self.times.remove(&hash);
        self.key_bytes -= key.len();
        Some((Hash(hash), key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_stands_under_the_earliest_time_that_was_announced() {
        let mut due = DueKeys::default();
        due.announce(Hash(1), b"one", 50);
        due.announce(Hash(2), b"two", 40);
        due.announce(Hash(1), b"one", 30);
        due.announce(Hash(1), b"one", 90);
        assert!(!due.has_due(30) && due.has_due(31));
        assert!(due.is_due(Hash(1), 31) && !due.is_due(Hash(2), 31));
        assert_eq!(due.pop(100), Some((Hash(1), b"one".as_slice().into())));
        due.forget(Hash(2));
        assert_eq!(due.pop(100), None);
        assert!(due.is_empty());
        assert_eq!(due.memory(), 0);
    }
}
