//! Waiters for the disk to have the journal up to an offset, or to have more of it.
//!
//! A waiter that enters checks afterwards, or while the list is locked, whether its offset has been reached: the syncing
//! thread stores the offset first and reads the lists then. Any thread.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::clients::blocking::Waiter;
use crate::messaging::mail::Mailbox;

/// A callback for the time when the disk has an offset of the journal: with false where that will never be known.
pub type SyncCall = Box<dyn FnOnce(bool) + Send>;

/// All waiters for the disk, each in one of three ways.
#[derive(Default)]
pub struct SyncWaiters {
    /// Clients of WAITAOF.
    clients: Mutex<Vec<(u64, Arc<Waiter>)>>,
    /// Programs that embed the engine.
    calls: Mutex<Vec<(u64, SyncCall)>>,
    /// Owners of connections that follow the journal; each is told once.
    owners: Mutex<Vec<Arc<Mailbox>>>,
}

impl std::fmt::Debug for SyncWaiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SyncWaiters").field("owners", &self.owners).finish_non_exhaustive()
    }
}

impl SyncWaiters {
    /// Notes a client that waits for an offset.
    pub fn enter_client(&self, offset: u64, waiter: &Arc<Waiter>) {
        self.clients.lock().push((offset, Arc::clone(waiter)));
    }

    /// Takes out the clients that have waited long enough, and forgets clients that have stopped waiting otherwise.
    pub fn take_clients(&self, synced: u64) -> Vec<(u64, Arc<Waiter>)> {
        let mut clients = self.clients.lock();
        clients.retain(|(_, waiter)| waiter.claim().is_some());
        clients.extract_if(.., |(offset, _)| *offset <= synced).collect()
    }

    /// Adds a callback for an offset.
    pub fn enter_call(&self, offset: u64, call: SyncCall) {
        self.calls.lock().push((offset, call));
    }

    /// Takes out the callbacks that are due; all, where the synced offset will never be known.
    pub fn take_calls(&self, synced: Option<u64>) -> Vec<SyncCall> {
        let is_due = |(offset, _): &mut (u64, SyncCall)| synced.is_none_or(|synced| *offset <= synced);
        self.calls.lock().extract_if(.., is_due).map(|(_, call)| call).collect()
    }

    /// Notes an owner that wants one letter when there is news, unless there `is_news` already; whether there is.
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

    /// Takes out the owners that are to be told.
    pub fn take_owners(&self) -> Vec<Arc<Mailbox>> {
        std::mem::take(&mut *self.owners.lock())
    }
}
