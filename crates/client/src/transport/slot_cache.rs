//! A cluster's view of a near cache that its connections invalidate, and the owners that the cache was told last.
//!
//! `cluster/cached` decides when it is told. Pure data; it belongs to the cluster's task.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::node::Node;
use crate::connection::Link;
use crate::pipe::cached_read::Cache;

/// In the place of a connection: none.
const NOBODY: u32 = 0;

/// A cache that the connections to the owners of slots keep true together.
pub(crate) trait SlotCache: Send + Sync {
    /// One more connection keeps it true: by which number it is known, and the cache as it has to do with it.
    fn join(self: Arc<Self>) -> (u32, Arc<dyn Cache>);

    /// From now on each slot is kept true by the connection of this number, or by none where that is 0.
    fn follow(&self, connection_of: &mut dyn FnMut(u16) -> u32);

    /// Tells the cache that these requests were sent, so that the caller does not read the values before them.
    fn wrote(&self, requests: &[u8]);
}

/// Which connections keep a cache true, as its task has told it last.
#[derive(Default)]
pub(super) struct CacheLinks {
    /// By the numbers of their nodes, and with their own.
    links: HashMap<u32, (Weak<Link>, u32)>,
    /// Which state of the map it was told.
    version: Option<u64>,
}

impl CacheLinks {
    /// By which number the connection to a node is known. One that is new keeps the cache true from now on.
    fn number_of(&mut self, node: &Node, cache: &Arc<dyn SlotCache>) -> u32 {
        let Some(link) = node.link() else { return NOBODY };
        match self.links.get(&node.number) {
            Some((known, number)) if known.as_ptr() == Arc::as_ptr(&link) => *number,
            _ => {
                let (number, own) = Arc::clone(cache).join();
                link.attach_common(own);
                self.links.insert(node.number, (Arc::downgrade(&link), number));
                self.version = None;
                number
            }
        }
    }

    /// Tells the cache which connection invalidates which slots, if that has changed: these nodes by this version of a map,
    /// each with its slots.
    pub(super) fn tell(
        &mut self,
        cache: &Arc<dyn SlotCache>,
        (owners, version): (&[&Arc<Node>], u64),
        place: impl Fn(u16) -> Option<usize>,
    ) {
        let numbers: Vec<u32> = owners.iter().map(|owner| self.number_of(owner, cache)).collect();
        if self.version == Some(version) {
            return;
        }
        self.version = Some(version);
        self.links.retain(|node, _| owners.iter().any(|owner| owner.number == *node));
        cache.follow(&mut |slot| place(slot).and_then(|place| numbers.get(place)).copied().unwrap_or(NOBODY));
    }
}
