//! WATCH: who must hear that a key has changed.
//!
//! A session that watches hangs a [`Flag`] on each of its keys; whoever changes a key raises the flags that hang on it,
//! under the lock of the key's shard. EXEC looks at its own flag with the locks of its keys held, so a change comes
//! either before the look or after the whole transaction. While nobody watches anything a write pays one relaxed load.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Raised when a watched key has changed.
pub type Flag = Arc<AtomicBool>;

type Place = (u32, Box<[u8]>);

/// All watched keys of one engine.
#[derive(Debug, Default)]
pub struct Watches {
    watched: AtomicUsize,
    flags: Mutex<HashMap<Place, Vec<Flag>>>,
}

impl Watches {
    /// Hangs a flag on a key.
    pub fn add(&self, database: u32, key: &[u8], flag: &Flag) {
        let mut flags = self.flags.lock();
        flags.entry((database, key.into())).or_default().push(Arc::clone(flag));
        self.watched.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a flag off a key.
    pub fn remove(&self, database: u32, key: &[u8], flag: &Flag) {
        let mut flags = self.flags.lock();
        let place = (database, Box::from(key));
        if let Some(hung) = flags.get_mut(&place)
            && let Some(index) = hung.iter().position(|other| Arc::ptr_eq(other, flag))
        {
            hung.swap_remove(index);
            if hung.is_empty() {
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
            self.raise_hung(database, key);
        }
    }

    #[cold]
    fn raise_hung(&self, database: u32, key: &[u8]) {
        let flags = self.flags.lock();
        for flag in flags.get(&(database, Box::from(key))).into_iter().flatten() {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Raises the flags on every watched key of a database for which `concerned` says so (FLUSHDB, SWAPDB).
    pub fn raise_all(&self, database: u32, mut concerned: impl FnMut(&[u8]) -> bool) {
        if self.is_empty() {
            return;
        }
        let flags = self.flags.lock();
        for ((_, key), hung) in flags.iter().filter(|((place, _), _)| *place == database) {
            if concerned(key) {
                hung.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
            }
        }
    }
}
