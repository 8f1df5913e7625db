//! The shared state of clients: their rows in CLIENT LIST, their memory, the keys that they wait for, watch or have read, the
//! pause that holds them, and the mailboxes of the threads that serve them.

pub(crate) mod blocking;
pub(crate) mod client_info;
pub(crate) mod client_list;
pub(crate) mod client_memory;
pub(crate) mod tracking;
pub(crate) mod watch;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::readiness::Pause;
use crate::messaging::mail::{Letter, Mailbox};
use blocking::Blocking;
use client_list::ClientList;
use client_memory::ClientMemory;
use tracking::Tracking;
use watch::Watches;

/// The clients of one engine.
#[derive(Default)]
pub struct Clients {
    /// The rows of CLIENT LIST.
    pub(crate) list: ClientList,
    /// The memory of all clients together.
    pub(crate) memory: ClientMemory,
    /// The watchers of each key.
    pub watches: Watches,
    /// The blocked clients of each key.
    pub(crate) blocking: Blocking,
    /// The clients that must be sent invalidations of the keys that they have read.
    pub(crate) tracking: Tracking,
    /// The state of CLIENT PAUSE.
    pub pause: Pause,
    /// The mailboxes that get letters for all threads.
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
}

impl Clients {
    /// Adds a mailbox that gets letters for all threads.
    pub fn enter_mailbox(&self, mailbox: &Arc<Mailbox>) {
        self.mailboxes.lock().push(Arc::clone(mailbox));
    }

    /// Removes the mailbox of an owner that has ended.
    pub fn leave_mailbox(&self, mailbox: &Arc<Mailbox>) {
        self.mailboxes.lock().retain(|other| !Arc::ptr_eq(other, mailbox));
    }

    /// Returns a copy of the list of mailboxes: posting calls the owner's code, which may add or remove mailboxes.
    pub(crate) fn mailboxes(&self) -> Vec<Arc<Mailbox>> {
        self.mailboxes.lock().clone()
    }

    /// Returns the number of mailboxes, for tests of their removal.
    #[cfg(test)]
    pub(crate) fn mailbox_count(&self) -> usize {
        self.mailboxes.lock().len()
    }

    /// Notifies all threads that a pause may have ended.
    pub fn post_resume(&self) {
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Resume));
    }

    /// Notifies all threads that users may have fewer permissions now.
    pub fn post_users(&self) {
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Users));
    }

    /// Notifies all threads to stop.
    pub fn post_stop(&self) {
        self.mailboxes().iter().for_each(|mailbox| mailbox.post(Letter::Stop));
        // Mailboxes that were added during the loop are notified too. The owner of one that is added later sees that others
        // have been notified.
        self.mailboxes().iter().filter(|mailbox| !mailbox.is_stopped()).for_each(|mailbox| mailbox.post(Letter::Stop));
    }
}
