//! Threads that have to be woken once the locks are given back.
//!
//! Letters are put into mailboxes under locks, in their true order; their owners are woken later, once for many letters, when
//! the locks have been given back. The messages that a client has published to itself wait here too, because its own reply
//! comes first. One thread.

use std::sync::Arc;

use super::mail::Mailbox;
use super::message::{Form, Message};

/// Threads that have to be woken, and messages of the client to itself.
#[derive(Debug, Default)]
pub struct Wakeups {
    /// The mailboxes with owners that have to be woken.
    pub mailboxes: Vec<Arc<Mailbox>>,
    /// Keys that the client itself has read and changed, or None for all keys; see `tracking`.
    pub invalid: Vec<Option<Box<[u8]>>>,
    /// Keys of which the followers of prefixes have to be notified, and the clients that changed them; see `tracking`.
    pub changed: Vec<(Box<[u8]>, Option<u64>)>,
    /// Messages to the publishing client itself, each in one of its forms.
    pub own: Vec<(Arc<Message>, Form)>,
}

impl Wakeups {
    /// Remembers that the owner of this box has got a letter.
    pub fn remember(&mut self, mailbox: &Arc<Mailbox>) {
        if !self.mailboxes.iter().any(|known| Arc::ptr_eq(known, mailbox)) {
            self.mailboxes.push(Arc::clone(mailbox));
        }
    }

    /// Wakes the owners that have got letters; no lock is held. The owner of the mailbox `own` is the caller and reads it
    /// without being woken.
    pub fn ring(&mut self, own: Option<&Arc<Mailbox>>) {
        for mailbox in self.mailboxes.drain(..) {
            if !own.is_some_and(|own| Arc::ptr_eq(own, &mailbox)) {
                mailbox.ring();
            }
        }
    }
}
