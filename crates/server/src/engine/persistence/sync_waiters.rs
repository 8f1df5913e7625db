//! Programs and connections that wait for the journal to be fsynced up to an offset, or further than now. The clients of
//! WAITAOF are among those that wait for replicas (`replication/wait`).
//!
//! A waiter that is entered checks afterwards, or while the list is locked, whether its offset has been reached: the syncing
//! thread stores the offset first and then reads the lists. Any thread.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::messaging::mail::Mailbox;

/// A callback for the time at which the journal has been fsynced up to an offset; it gets false if that will never be known.
pub type SyncCall = Box<dyn FnOnce(bool) + Send>;

/// The waiters for an fsync, of two kinds.
#[derive(Default)]
pub struct SyncWaiters {
    /// The callbacks of programs that embed the engine, with their offsets.
    calls: Mutex<Vec<(u64, SyncCall)>>,
    /// The owners of connections with CLIENT JOURNAL; each is notified once.
    owners: Mutex<Vec<Arc<Mailbox>>>,
}

impl std::fmt::Debug for SyncWaiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SyncWaiters").field("owners", &self.owners).finish_non_exhaustive()
    }
}

impl SyncWaiters {
    /// Adds a callback for an offset.
    pub fn enter_call(&self, offset: u64, call: SyncCall) {
        self.calls.lock().push((offset, call));
    }

    /// Takes out the callbacks that are due: all of them if the offset will never be known.
    pub fn take_calls(&self, synced: Option<u64>) -> Vec<SyncCall> {
        let is_due = |(offset, _): &mut (u64, SyncCall)| synced.is_none_or(|synced| *offset <= synced);
        self.calls.lock().extract_if(.., is_due).map(|(_, call)| call).collect()
    }

    /// Enters an owner that is to get a letter at the next change, unless `is_news` returns true, because there was a change
    /// already; returns that.
    pub fn enter_owner(&self, owner: &Arc<Mailbox>, is_news: impl FnOnce() -> bool) -> bool {
        let mut owners = self.owners.lock();
        if is_news() {
            return true;
        }
        if !owners.iter().any(|known| Arc::ptr_eq(known, owner)) {
            owners.push(Arc::clone(owner));
        }
        false
    }

    /// Takes out the owners that are to be notified.
    pub fn take_owners(&self) -> Vec<Arc<Mailbox>> {
        std::mem::take(&mut *self.owners.lock())
    }
}
