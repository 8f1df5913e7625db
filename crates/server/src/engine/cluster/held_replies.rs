//! Replies to commands of CLUSTER that wait for the thread of the bus.
//!
//! A command changes the state, and the thread carries out the actions: it writes nodes.conf, takes a role, sends packets. The
//! reply follows them. If it came before, a crash could undo a change that was confirmed: the last owner of a slot would have
//! it again, without its keys. Any thread.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::clients::blocking::Waiter;

/// The replies, oldest first, each with the client that waits for it.
#[derive(Debug, Default)]
pub struct HeldReplies(Mutex<Vec<(Arc<Waiter>, String)>>);

impl HeldReplies {
    /// Holds a simple string for a client. The state has the actions of its command already.
    pub fn hold(&self, waiter: Arc<Waiter>, reply: String) {
        self.0.lock().push((waiter, reply));
    }

    /// Takes the replies of which the actions are in the state by now, or were there before.
    pub fn take(&self) -> Vec<(Arc<Waiter>, String)> {
        std::mem::take(&mut *self.0.lock())
    }
}
