//! WATCH: who must hear that a key has changed.
//!
//! A session that watches hangs a [`Flag`] on each of its keys; whoever changes a key raises the flags that hang on it,
//! under the lock of the key's shard. EXEC looks at its own flag with the locks of its keys held, so a change comes
//! either before the look or after the whole transaction. While nobody watches anything a write pays one relaxed load.
//!
//! A key whose time was over when WATCH came, but which had not been removed yet, is marked: its removal changes nothing
//! that the client could have seen, so it raises no flag and only takes the mark away.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_store::Find;

/// Raised when a watched key has changed.
pub type Flag = Arc<AtomicBool>;

type DatabaseKey = (u32, Box<[u8]>);

/// Who watches a key, as the flag that is raised for him.
#[derive(Debug)]
struct Watcher {
    flag: Flag,
    /// The key's time is over, and was when the flag was hung.
    expired: bool,
}

/// What is under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nothing.
    Missing,
    /// A value whose time is over.
    Expired,
    /// A value.
    Live,
}

impl Presence {
    /// What a search has found.
    pub fn of(found: Find<'_>) -> Self {
        match found {
            Find::Missing => Self::Missing,
            Find::Expired(_) => Self::Expired,
            Find::Live(_) => Self::Live,
        }
    }
}

/// All watched keys of one engine.
#[derive(Debug, Default)]
pub struct Watches {
    watched: AtomicUsize,
    flags: Mutex<HashMap<DatabaseKey, Vec<Watcher>>>,
}

impl Watches {
    /// Hangs a flag on a key. `expired` says that the key is there although its time is over.
    pub fn add(&self, database: u32, key: &[u8], flag: &Flag, expired: bool) {
        let mut flags = self.flags.lock();
        flags.entry((database, key.into())).or_default().push(Watcher { flag: Arc::clone(flag), expired });
        self.watched.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a flag off a key.
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

    /// How many watches there are, over all clients.
    pub fn len(&self) -> usize {
        self.watched.load(Ordering::Relaxed)
    }

    /// Whether nobody watches anything.
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

    /// Raises the flags on one key that is removed because its time has come, except where it had come before WATCH.
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

    /// Whether a key's time was over when this flag was hung on it, and the key has not been removed since.
    pub fn was_expired(&self, database: u32, key: &[u8], flag: &Flag) -> bool {
        let flags = self.flags.lock();
        let mut watchers = flags.get(&(database, Box::from(key))).into_iter().flatten();
        watchers.any(|watcher| watcher.expired && Arc::ptr_eq(&watcher.flag, flag))
    }

    /// Raises the flags on the watched keys of a database whose content is about to be replaced (FLUSHDB, SWAPDB): on
    /// all that are there now or will be. `look` gives what is under a key now, and what will be.
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
    /// Raises the flag, unless the client cannot tell the difference: what is over stays over, or is gone.
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
