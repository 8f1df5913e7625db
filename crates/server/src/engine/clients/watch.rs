//! WATCH: the clients that have to be notified that a key has changed.
//!
//! A session that watches attaches a [`Flag`] to each of its keys. A thread that changes a key raises the flags attached to
//! it, under the lock of the key's shard. EXEC reads its own flag with the locks of its keys held, so a change is either
//! before that read or after the whole transaction. While no key is watched, a write pays one relaxed load.
//!
//! A key that was past its deadline at the time of WATCH, but had not been removed yet, is marked: its removal changes
//! nothing that the client could have seen, so it raises no flag and only clears the mark.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_store::Find;

/// A flag that is raised when a watched key has changed.
pub type Flag = Arc<AtomicBool>;

type DatabaseKey = (u32, Box<[u8]>);

/// A client that watches a key, as the flag that is raised for it.
#[derive(Debug)]
struct Watcher {
    flag: Flag,
    /// The key had expired when the flag was attached, and still exists.
    expired: bool,
}

/// The presence of a value under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The key does not exist.
    Missing,
    /// A value that is past its deadline.
    Expired,
    /// A value.
    Live,
}

impl Presence {
    /// Converts the result of a lookup.
    pub fn of(found: Find<'_>) -> Self {
        match found {
            Find::Missing => Self::Missing,
            Find::Expired(_) => Self::Expired,
            Find::Live(_) => Self::Live,
        }
    }
}

/// The watched keys of one engine.
#[derive(Debug, Default)]
pub struct Watches {
    watched: AtomicUsize,
    flags: Mutex<HashMap<DatabaseKey, Vec<Watcher>>>,
}

impl Watches {
    /// Attaches a flag to a key. `expired` states that the key exists although it is past its deadline.
    pub fn add(&self, database: u32, key: &[u8], flag: &Flag, expired: bool) {
        let mut flags = self.flags.lock();
        flags.entry((database, key.into())).or_default().push(Watcher { flag: Arc::clone(flag), expired });
        self.watched.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a flag from a key.
    pub fn remove(&self, database: u32, key: &[u8], flag: &Flag) {
        let mut flags = self.flags.lock();
        let place = (database, Box::from(key));
        if let Some(watchers) = flags.get_mut(&place)
            && let Some(index) = watchers.iter().position(|other| Arc::ptr_eq(&other.flag, flag))
        {
            watchers.swap_remove(index);
            if watchers.is_empty() {
                flags.remove(&place);
            }
            self.watched.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of watches of all clients.
    pub fn len(&self) -> usize {
        self.watched.load(Ordering::Relaxed)
    }

    /// Returns whether no key is watched.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Raises the flags on one key that is being changed.
    #[inline]
    pub fn raise(&self, database: u32, key: &[u8]) {
        if !self.is_empty() {
            self.raise_flags(database, key);
        }
    }

    #[cold]
    fn raise_flags(&self, database: u32, key: &[u8]) {
        let flags = self.flags.lock();
        flags.get(&(database, Box::from(key))).into_iter().flatten().for_each(Watcher::raise);
    }

    /// Raises the flags on one key that is removed because it is past its deadline, except for flags that were attached after
    /// the deadline.
    #[inline]
    pub fn raise_expired(&self, database: u32, key: &[u8]) {
        if !self.is_empty() {
            self.raise_flags_of_expired(database, key);
        }
    }

    #[cold]
    fn raise_flags_of_expired(&self, database: u32, key: &[u8]) {
        let mut flags = self.flags.lock();
        for watcher in flags.get_mut(&(database, Box::from(key))).into_iter().flatten() {
            if !std::mem::take(&mut watcher.expired) {
                watcher.raise();
            }
        }
    }

    /// Returns whether a key was past its deadline when this flag was attached to it, and the key has not been removed since.
    pub fn was_expired(&self, database: u32, key: &[u8], flag: &Flag) -> bool {
        let flags = self.flags.lock();
        let mut watchers = flags.get(&(database, Box::from(key))).into_iter().flatten();
        watchers.any(|watcher| watcher.expired && Arc::ptr_eq(&watcher.flag, flag))
    }

    /// Raises the flags on the watched keys of a database with content that is about to be replaced (FLUSHDB, SWAPDB): on all
    /// keys that exist now or will exist. `look` returns the present and the future value under a key.
    pub fn replace_all(&self, database: u32, mut look: impl FnMut(&[u8]) -> (Presence, Presence)) {
        if self.is_empty() {
            return;
        }
        let mut flags = self.flags.lock();
        for ((_, key), watchers) in flags.iter_mut().filter(|((place, _), _)| *place == database) {
            let (present, next) = look(key);
            if (present, next) != (Presence::Missing, Presence::Missing) {
                watchers.iter_mut().for_each(|watcher| watcher.replace(present, next));
            }
        }
    }
}

impl Watcher {
    /// Raises the flag, unless the client cannot tell the difference: an expired key stays expired, or is removed.
    fn replace(&mut self, present: Presence, next: Presence) {
        match (self.expired, present, next) {
            (true, _, Presence::Missing) => self.expired = false,
            (true, _, Presence::Expired) => {}
            (false, Presence::Missing, Presence::Expired) => self.expired = true,
            _ => self.raise(),
        }
    }

    fn raise(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}
