//! The latest refusals of users' requests: the entries of ACL LOG, and the number of refusals of each kind.
//!
//! Equal refusals within a minute are one entry with a count. A new refusal is compared with the latest few entries only, so
//! that a flood of different ones costs little. Any thread may use the log, one at a time; the counters need no lock.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::denial::Reason;

/// The number of entries with which a new refusal is compared.
const COMPARED_MAX: usize = 10;
/// The greatest time between two refusals of one entry, in milliseconds.
const GROUPING_MS_MAX: i64 = 60_000;

/// The place from which a refused command was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The client itself.
    TopLevel,
    /// A client's transaction.
    Multi,
    /// A script.
    Lua,
}

impl Context {
    /// Returns the name of the context in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// A refusal, or several of the same kind.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The number of refusals.
    pub count: u64,
    /// The permission that was lacking.
    pub reason: Reason,
    /// The context of the request.
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The name of the user.
    pub username: Vec<u8>,
    /// The client of the last of these refusals, as CLIENT LIST shows it.
    pub client: String,
    /// The number of the entry, ascending from 0.
    pub id: u64,
    /// Wall clock at the first refusal, milliseconds.
    pub created_ms: i64,
    /// Wall clock at the last refusal, milliseconds.
    pub updated_ms: i64,
}

impl Entry {
    fn is_like(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && (self.updated_ms - other.updated_ms).abs() <= GROUPING_MS_MAX
            && self.object == other.object
            && self.username == other.username
    }
}

/// The latest refusals, the newest first.
#[derive(Debug, Default)]
pub struct Log {
    kept: Mutex<Kept>,
    /// Refusals by kind, in the order of [`Reason`].
    counts: [AtomicU64; Reason::ALL.len()],
}

#[derive(Debug, Default)]
struct Kept {
    /// The entries, the newest first.
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl Log {
    /// Adds a refusal, or counts it in an equal entry. At most `len_max` entries are kept.
    pub fn add(&self, entry: Entry, len_max: usize) {
        self.counts[entry.reason as usize].fetch_add(1, Ordering::Relaxed);
        let kept = &mut *self.kept.lock();
        let known = kept.entries.iter().take(COMPARED_MAX).position(|known| known.is_like(&entry));
        match known.and_then(|at| kept.entries.remove(at)) {
            Some(known) => kept.entries.push_front(Entry {
                count: known.count + 1,
                id: known.id,
                created_ms: known.created_ms,
                ..entry
            }),
            None if len_max == 0 => {}
            None => {
                kept.entries.push_front(Entry { id: kept.next_id, ..entry });
                kept.next_id += 1;
            }
        }
        kept.entries.truncate(len_max);
    }

    /// Returns the latest `count` entries, the newest first.
    pub fn latest(&self, count: usize) -> Vec<Entry> {
        self.kept.lock().entries.iter().take(count).cloned().collect()
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        self.kept.lock().entries.clear();
    }

    /// Returns the number of refusals for this reason since the counts were reset.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// Begins to count anew.
    pub fn reset_counts(&self) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, updated_ms: i64) -> Entry {
        Entry {
            count: 1,
            reason: Reason::Key,
            context: Context::TopLevel,
            object: object.into(),
            username: b"u".to_vec(),
            client: String::new(),
            id: 0,
            created_ms: updated_ms,
            updated_ms,
        }
    }

    #[test]
    fn like_refusals_within_a_minute_are_one_entry() {
        let log = Log::default();
        for (object, at_ms) in [("a", 0), ("b", 10), ("a", 60_000), ("a", 120_001)] {
            log.add(entry(object, at_ms), 128);
        }
        let seen: Vec<_> = log.latest(10).into_iter().map(|e| (e.object, e.count, e.id, e.created_ms)).collect();
        let expected = [(b"a", 1, 2, 120_001), (b"a", 2, 0, 0), (b"b", 1, 1, 10)];
        assert_eq!(seen, expected.map(|(object, count, id, created)| (object.to_vec(), count, id, created)));
        assert_eq!(log.count(Reason::Key), 4);
    }

    #[test]
    fn no_more_entries_are_kept_than_may_be() {
        let log = Log::default();
        (0..20).for_each(|n| log.add(entry(&n.to_string(), 0), 5));
        assert_eq!(log.latest(100).len(), 5);
        log.add(entry("x", 0), 0);
        assert_eq!(log.latest(100).len(), 0);
    }
}
