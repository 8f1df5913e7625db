//! Keys to which clients of a replica have given a deadline (`replica-read-only no`).
//!
//! A replica expires nothing by itself, because its primary decides that. The primary does not know the keys that the
//! replica's own clients write. So the replica remembers those keys with the deadline that they were given, and removes them
//! by its own clock. If a key has another deadline by then, the primary has written it since and decides about it. As in
//! Redis (`expireSlaveKeys`). Entries are added under the lock of the key's shard. Any thread.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

/// A key to which a client has given a deadline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnDeadline {
    /// The deadline in milliseconds since the epoch.
    pub at_ms: i64,
    /// The key's database.
    pub database: u32,
    /// The key.
    pub name: Arc<[u8]>,
}

/// The keys with such a deadline.
#[derive(Debug, Default)]
pub struct OwnDeadlines(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_time: BTreeSet<OwnDeadline>,
    by_key: HashMap<(u32, Arc<[u8]>), i64>,
}

impl OwnDeadlines {
    /// Notes that a client has given this key a deadline. The lock of the key's shard is held.
    pub fn note(&self, database: u32, name: &[u8], at_ms: i64) {
        let mut inner = self.0.lock();
        let name: Arc<[u8]> = name.into();
        if let Some(before_ms) = inner.by_key.insert((database, Arc::clone(&name)), at_ms) {
            inner.by_time.remove(&OwnDeadline { at_ms: before_ms, database, name: Arc::clone(&name) });
        }
        inner.by_time.insert(OwnDeadline { at_ms, database, name });
    }

    /// Returns the first key that has expired, if there is one: a key expires after its deadline, not at it. It stays until
    /// [`OwnDeadlines::done`] is called for it.
    pub fn first_due(&self, now_ms: i64) -> Option<OwnDeadline> {
        self.0.lock().by_time.first().filter(|first| first.at_ms < now_ms).cloned()
    }

    /// Removes an entry that needs no more work. The lock of the key's shard is held.
    pub fn done(&self, own: &OwnDeadline) {
        let mut inner = self.0.lock();
        if inner.by_time.remove(own) {
            inner.by_key.remove(&(own.database, Arc::clone(&own.name)));
        }
    }

    /// Forgets all keys, because the data has been replaced, or because this server has become a primary, on which every key
    /// expires.
    pub fn clear(&self) {
        *self.0.lock() = Inner::default();
    }

    /// Returns the number of these keys.
    pub fn len(&self) -> usize {
        self.0.lock().by_time.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_deadline_which_is_the_last_that_it_was_given() {
        let own = OwnDeadlines::default();
        own.note(0, b"a", 10);
        own.note(1, b"a", 5);
        own.note(0, b"a", 7);
        assert_eq!((own.len(), own.first_due(4)), (2, None));
        assert_eq!(own.first_due(5), None, "in its last millisecond the key is still there");
        let first = own.first_due(100).expect("it is due");
        assert_eq!((first.at_ms, first.database, &*first.name), (5, 1, &b"a"[..]));
        own.done(&first);
        own.note(0, b"a", 8);
        let stale = OwnDeadline { at_ms: 7, database: 0, name: Arc::from(&b"a"[..]) };
        own.done(&stale);
        assert_eq!(
            (own.len(), own.first_due(100).map(|own| own.at_ms)),
            (1, Some(8)),
            "it was given another meanwhile"
        );
        own.clear();
        assert_eq!((own.len(), own.first_due(i64::MAX)), (0, None));
    }
}
