//! The queues of the links of the bus, as CLUSTER LINKS and CLUSTER INFO show them.
//!
//! The thread of the bus notes them; commands read them. Any thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sleeve_cluster::LinkId;

/// The bytes that wait to be sent over a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkQueue {
    /// The bytes that wait.
    pub used_bytes: u64,
    /// The memory that they take.
    pub allocated_bytes: u64,
}

/// The queues of all links.
#[derive(Debug, Default)]
pub struct LinkGauges {
    queues: Mutex<BTreeMap<LinkId, LinkQueue>>,
    closed: AtomicU64,
}

impl LinkGauges {
    /// Notes the queue of a link.
    pub fn note(&self, link: LinkId, queue: LinkQueue) {
        self.queues.lock().insert(link, queue);
    }

    /// Forgets a link that is closed.
    pub fn forget(&self, link: LinkId) {
        self.queues.lock().remove(&link);
    }

    /// Counts a link that was closed because more than `cluster-link-sendbuf-limit` waited for it.
    pub fn count_closed(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the queues of all links.
    pub fn queues(&self) -> BTreeMap<LinkId, LinkQueue> {
        self.queues.lock().clone()
    }

    /// Returns the memory of all queues, in bytes.
    pub fn allocated_bytes(&self) -> u64 {
        self.queues.lock().values().map(|queue| queue.allocated_bytes).sum()
    }

    /// Returns the number of links that were closed because too much waited for them.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }
}
