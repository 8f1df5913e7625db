//! The seat of a command that waits on the server: a connection that it has for itself, at the node of its slot.
//!
//! It goes with the command from node to node. Dropped with an answer on its way, it is given up, and with it the command. Any
//! thread.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use super::node::Node;
use crate::connection::Link;
use crate::request::blocking_commands::Patience;

/// The seats of commands that wait now, by number.
#[derive(Default)]
pub(super) struct Seats {
    next: u64,
    taken: HashMap<u64, Weak<Seat>>,
}

impl Seats {
    /// A seat for one more command. It may begin with a connection that was there before.
    pub(super) fn enter(seats: &Arc<Mutex<Self>>, patience: Patience, link: Option<Arc<Link>>) -> Arc<Seat> {
        let mut entered = seats.lock();
        let number = entered.next;
        entered.next += 1;
        let seat = Arc::new(Seat { seats: Arc::clone(seats), number, patience, link: Mutex::new(link) });
        entered.taken.insert(number, Arc::downgrade(&seat));
        seat
    }

    /// The seat of this number, while somebody waits for it.
    pub(super) fn numbered(&self, number: u64) -> Option<Arc<Seat>> {
        self.taken.get(&number)?.upgrade()
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// The place of one command that waits.
pub(crate) struct Seat {
    seats: Arc<Mutex<Seats>>,
    pub(super) number: u64,
    patience: Patience,
    link: Mutex<Option<Arc<Link>>>,
}

impl Seat {
    /// The connection, at this node; none where it cannot be had now.
    pub(super) fn take_to(&self, node: &Node, now: Instant) -> Option<Arc<Link>> {
        if node.rests(now).is_some() {
            return None;
        }
        let mut link = self.link.lock();
        if let Some(link) =
            link.as_ref().filter(|link| link.is_open() && link.config.endpoint == node.address.endpoint())
        {
            return Some(Arc::clone(link));
        }
        let fresh = node.separate().ok()?;
        fresh.be_patient(self.patience);
        if let Some(left) = link.replace(Arc::clone(&fresh)) {
            // Without a wait it cannot fail.
            let _ = left.close(None);
        }
        Some(fresh)
    }

    /// The connection, if nothing is on its way there and it may serve somebody else.
    pub(crate) fn take_idle(&self) -> Option<Arc<Link>> {
        let link = self.link.lock().take()?;
        if link.is_idle() {
            return Some(link);
        }
        link.abort();
        None
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.lock().taken.remove(&self.number);
        drop(self.take_idle());
    }
}
