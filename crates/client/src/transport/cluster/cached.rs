//! A near cache over a cluster: which connection invalidates which slot, and how its reads are sent.
//!
//! Each node reports changes of the slots that it owns, on the shared connection. So the cache is told which connection that
//! is, slot by slot, whenever the map changes or a node has another connection (`transport/slot_cache`). It is told under the
//! map's write lock, so that a caller that sends by a map finds the matching state in the cache. Writes of callers are
//! reported to it behind each sending.
//!
//! A read for the cache goes to the owner of its slot, also where other reads go to replicas, so that a caller reads its own
//! writes. Any thread, but for the task's part.

use std::sync::Arc;

use sleeve_wire::commands::Flags;

use super::Cluster;
use super::map::Map;
use super::task::ClusterTask;
use crate::error::Error;
use crate::pipe::cached_read::Read;
use crate::pipe::routed::{Destination, Routed};
use crate::request::EncodedRequest;
use crate::request::name::Name;
use crate::sys::clock_ms;
use crate::transport::slot_cache::SlotCache;

impl Cluster {
    /// Attaches this cache, which is invalidated from now on. A cluster has one at most.
    pub(crate) fn attach_cache(&self, cache: Arc<dyn SlotCache>) {
        // The code that opens one checks beforehand whether there is one.
        let _ = self.cache.set(cache);
        self.task_waker.wake();
    }

    /// Sends a read for the cache with all of its requests, or gives it back.
    pub(crate) fn send_read(
        &self,
        slot: u16,
        (database, request): (u32, EncodedRequest<'_>),
        whole: Vec<u8>,
        read: Box<Read>,
    ) -> Result<(), (Error, Box<Read>)> {
        let destination = Destination::Slot(slot);
        let checked = self.check(database).and_then(|()| self.make_room(destination, whole.len()));
        if let Err(error) = checked {
            return Err((error, read));
        }
        let (time, request) = ((clock_ms(), false), (request.bytes.into(), request.name));
        let mut routed = Routed::new(self.me.clone(), request, database, time, destination);
        routed.attach_read(read, whole.into());
        self.send_attached(destination, vec![routed]);
        Ok(())
    }

    /// Whether a cache is to be told of a request of this name.
    #[inline]
    fn tells_of(&self, name: Name) -> Option<&Arc<dyn SlotCache>> {
        let only_reads = || name.row().is_some_and(|row| row.flags.contains(Flags::READONLY));
        self.cache.get().filter(|_| !only_reads())
    }

    /// Tells the cache the keys that a request may have changed, once it was sent or left to the task.
    #[inline]
    pub(super) fn wrote(&self, request: EncodedRequest<'_>) {
        if let Some(cache) = self.tells_of(request.name) {
            cache.wrote(request.bytes);
        }
    }

    /// The bytes of a request that is about to be sent, if the cache is to be told of it.
    pub(super) fn written(&self, routed: &Routed) -> Option<Arc<[u8]>> {
        self.tells_of(routed.name).map(|_| Arc::clone(&routed.bytes))
    }

    /// These requests were sent.
    pub(super) fn wrote_all(&self, requests: impl IntoIterator<Item = Arc<[u8]>>) {
        if let Some(cache) = self.cache.get() {
            requests.into_iter().for_each(|request| cache.wrote(&request));
        }
    }
}

impl ClusterTask<'_> {
    /// Tells the cache, if there is one, which connections invalidate which slots.
    pub(super) fn keep_cache_true(&mut self, map: &Map) {
        let Some(cache) = self.cluster.cache.get() else { return };
        let owners: Vec<_> = map.shards.iter().map(|shard| &shard.primary).collect();
        self.cache_links.tell(cache, (&owners, map.version()), |slot| map.place(slot));
    }
}
