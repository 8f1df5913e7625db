//! A near cache as a cluster sees it, which the connections to the nodes invalidate, and the owners that the cache was told
//! last.
//!
//! `cluster/cached` decides when the cache is told. Pure data; it belongs to the cluster's task.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use sleeve_wire::commands::Flags;

use super::node::Node;
use crate::connection::Link;
use crate::pipe::cached_read::Cache;
use crate::pipe::routed::Routed;
use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;

/// The number that stands for no connection.
const NOBODY: u32 = 0;

/// A cache that is invalidated by the connections to the owners of slots.
pub(crate) trait SlotCache: Send + Sync {
    /// Adds a connection that invalidates the cache. Returns the connection's number, and the cache as this connection
    /// invalidates it.
    fn join(self: Arc<Self>) -> (u32, Arc<dyn Cache>);

    /// Notes which connection, by its number, invalidates each slot from now on; 0 stands for none.
    fn follow(&self, connection_of: &mut dyn FnMut(u16) -> u32);

    /// Tells the cache that these requests were sent, so that the caller does not read the values before them.
    fn wrote(&self, requests: &[u8]);
}

/// The connections that invalidate a cache, as the cluster's task has told the cache last.
#[derive(Default)]
pub(super) struct CacheLinks {
    /// The connection to each node, by the node's number, with the number that [`SlotCache::join`] gave the connection.
    links: HashMap<u32, (Weak<Link>, u32)>,
    /// The version of the slot map that the task has reported to the cache last.
    version: Option<u64>,
}

impl CacheLinks {
    /// Returns the number of the connection to a node. A new connection invalidates the cache from now on.
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

    /// Tells the cache which connection invalidates each slot, if that has changed. `owners` are the nodes in this version of
    /// the map, `place` the index of a slot's owner among them.
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

/// The cache of a cluster's client, once there is one.
#[derive(Default)]
pub(in crate::transport) struct AttachedCache(OnceLock<Arc<dyn SlotCache>>);

impl AttachedCache {
    /// Attaches this cache. A cluster has at most one.
    pub(in crate::transport) fn attach(&self, cache: Arc<dyn SlotCache>) {
        // This cannot fail, because the code that opens a cache checks beforehand that there is none.
        let _ = self.0.set(cache);
    }

    /// Returns the cache.
    pub(in crate::transport) fn attached(&self) -> Option<&Arc<dyn SlotCache>> {
        self.0.get()
    }

    /// Returns the cache if a request of this name has to be reported to it.
    #[inline]
    fn to_tell(&self, name: Name) -> Option<&Arc<dyn SlotCache>> {
        let only_reads = || name.row().is_some_and(|row| row.flags.contains(Flags::READONLY));
        self.0.get().filter(|_| !only_reads())
    }

    /// Reports a request to the cache, which drops the keys that it may have changed, once it was sent or left to the task.
    #[inline]
    pub(in crate::transport) fn wrote(&self, request: EncodedRequest<'_>) {
        if let Some(cache) = self.to_tell(request.name) {
            cache.wrote(request.bytes);
        }
    }

    /// Returns the bytes of a request that is about to be sent, if it has to be reported to the cache.
    pub(in crate::transport) fn written(&self, routed: &Routed) -> Option<Arc<[u8]>> {
        self.to_tell(routed.name).map(|_| Arc::clone(&routed.bytes))
    }

    /// Reports to the cache that these requests were sent.
    pub(in crate::transport) fn wrote_all(&self, requests: impl IntoIterator<Item = Arc<[u8]>>) {
        if let Some(cache) = self.0.get() {
            requests.into_iter().for_each(|request| cache.wrote(&request));
        }
    }
}
