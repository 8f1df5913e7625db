//! The dedicated connection of a command that waits on the server: only this command uses it, to the node of its slot.
//!
//! It moves with the command from node to node. If it is dropped with an answer in flight, it is given up, and with it the
//! command. Any thread.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::connection::Link;
use crate::resp::request::blocking_commands::BlockTimeout;
use crate::sys::lock::Mutex;
use crate::transport::node::Node;

/// The connections of the commands that wait at present, by number.
#[derive(Default)]
pub(super) struct DedicatedConnections {
    next: u64,
    taken: HashMap<u64, Weak<DedicatedConnection>>,
}

impl DedicatedConnections {
    /// Adds a connection for one more command. It may begin with an existing connection.
    pub(super) fn enter(
        all: &Arc<Mutex<Self>>,
        block_timeout: BlockTimeout,
        link: Option<Arc<Link>>,
    ) -> Arc<DedicatedConnection> {
        let mut entered = all.lock();
        let number = entered.next;
        entered.next += 1;
        let place = Mutex::new(Place { link, sent: None, is_left: false, block_timeout });
        let dedicated = Arc::new(DedicatedConnection { all: Arc::clone(all), number, place });
        entered.taken.insert(number, Arc::downgrade(&dedicated));
        dedicated
    }

    /// Returns the connection of this number, if a caller still waits for its command.
    pub(super) fn numbered(&self, number: u64) -> Option<Arc<DedicatedConnection>> {
        self.taken.get(&number)?.upgrade()
    }

    /// Returns whether no command waits.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

/// The connection of one command that waits, which may move from node to node.
pub(crate) struct DedicatedConnection {
    all: Arc<Mutex<DedicatedConnections>>,
    pub(super) number: u64,
    place: Mutex<Place>,
}

/// The present place of the command.
struct Place {
    link: Option<Arc<Link>>,
    /// The time at which it was sent there.
    sent: Option<Instant>,
    /// True if its caller waits no more: the command then gets no further connection.
    is_left: bool,
    /// The time for which the command may wait there.
    block_timeout: BlockTimeout,
}

impl DedicatedConnection {
    /// Returns a connection to this node, which is made if there is none; none if the node cannot be reached now.
    pub(super) fn take_to(&self, node: &Node, now: Instant) -> Option<Arc<Link>> {
        if node.rests(now).is_some() {
            return None;
        }
        let mut place = self.place.lock();
        if place.is_left {
            return None;
        }
        place.sent = Some(now);
        if let Some(link) =
            place.link.as_ref().filter(|link| link.is_open() && link.config.endpoint == node.address.endpoint())
        {
            link.set_block_timeout(place.block_timeout);
            return Some(Arc::clone(link));
        }
        let fresh = node.separate().ok()?;
        fresh.set_block_timeout(place.block_timeout);
        if let Some(left) = place.link.replace(Arc::clone(&fresh)) {
            // A close without a wait cannot fail.
            let _ = left.close(None);
        }
        Some(fresh)
    }

    /// Returns the time for which the command has been at its present node.
    pub(super) fn stay(&self, now: Instant) -> Duration {
        self.place.lock().sent.map_or(Duration::ZERO, |sent| now.saturating_duration_since(sent))
    }

    /// Sets the time for which the command may wait at its next node.
    pub(super) fn wait_for(&self, time: Duration) {
        self.place.lock().block_timeout = BlockTimeout::For(time);
    }

    /// Gives up the command. Returns the connection, if it has no calls in flight and may serve another caller.
    pub(crate) fn leave(&self) -> Option<Arc<Link>> {
        let mut place = self.place.lock();
        place.is_left = true;
        let link = place.link.take()?;
        drop(place);
        if link.is_idle() {
            return Some(link);
        }
        link.abort();
        None
    }
}

impl Drop for DedicatedConnection {
    fn drop(&mut self) {
        self.all.lock().taken.remove(&self.number);
        if let Some(link) = self.leave() {
            // A close without a wait cannot fail.
            let _ = link.close(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::transport::node::Address;

    /// Returns a node without a listener.
    fn nobody() -> Node {
        Node::new(1, Address { host: "127.0.0.1".to_owned(), port: 1 }, &Config::default())
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn one_that_was_left_gets_no_connection_again() {
        let (all, node) = (Arc::default(), nobody());
        let dedicated = DedicatedConnections::enter(&all, BlockTimeout::Endless, None);
        let link = dedicated.take_to(&node, Instant::now()).expect("a connection");
        // The cluster's task has found the connection, and is about to send the returned request on it.
        let found = all.lock().numbered(dedicated.number).expect("it is taken");
        if let Some(idle) = dedicated.leave() {
            idle.close(None).expect("it waits for nothing");
        }
        drop(dedicated);
        assert!(found.take_to(&node, Instant::now()).is_none());
        drop(found);
        assert!(all.lock().is_empty());
        assert!(link.shared.lock().is_closing() || !link.is_open());
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an event descriptor")]
    fn one_that_is_dropped_ends_its_connection() {
        let (all, node) = (Arc::default(), nobody());
        let dedicated = DedicatedConnections::enter(&all, BlockTimeout::Endless, None);
        let link = dedicated.take_to(&node, Instant::now()).expect("a connection");
        drop(dedicated);
        assert!(link.shared.lock().is_closing() || !link.is_open());
    }
}
