//! What a thread still owes others for what it has published: to ring at their doors.
//!
//! Letters are put into boxes under locks, in their true order; their owners are woken later, once for many letters, when
//! the locks have been given back. What a client has published to itself waits here too, for its own reply comes first.
//! One thread.

use std::sync::Arc;

use crate::mail::Mailbox;

/// See the file's head.
#[derive(Debug, Default)]
pub struct Outbox {
    bells: Vec<Arc<Mailbox>>,
    /// Messages to the publishing client itself, as reply bytes.
    pub own: Vec<Arc<Vec<u8>>>,
}

impl Outbox {
    /// Remembers that the owner of this box has got a letter.
    pub fn remember(&mut self, mailbox: &Arc<Mailbox>) {
        if !self.bells.iter().any(|bell| Arc::ptr_eq(bell, mailbox)) {
            self.bells.push(Arc::clone(mailbox));
        }
    }

    /// Whether nobody is to be woken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bells.is_empty()
    }

    /// Wakes who has got letters, holding no lock. The owner of the mailbox `own` looks into it by itself.
    pub fn ring(&mut self, own: Option<&Arc<Mailbox>>) {
        for mailbox in self.bells.drain(..) {
            if !own.is_some_and(|own| Arc::ptr_eq(own, &mailbox)) {
                mailbox.ring();
            }
        }
    }
}
