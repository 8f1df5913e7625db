//! A near cache over a cluster: the connection that invalidates each slot, and the sending of its reads.
//!
//! Each node reports changes of the slots that it owns, on the shared connection. So the cache is told which connection that
//! is, slot by slot, whenever the map changes or a node has another connection (`transport/slot_cache`). It is told under the
//! map's write lock, so that a caller that sends by a map finds the matching state in the cache. Writes of callers are
//! reported to it after each sending.
//!
//! A read for the cache goes to the owner of its slot, even if other reads go to replicas, so that a caller reads its own
//! writes. Any thread, except for the task's part.

use std::sync::Arc;

use super::Cluster;
use super::batches::{make_room, send_attached};
use crate::error::Error;
use crate::pipe::cached_read::Read;
use crate::pipe::routed::{Destination, Routed};
use crate::resp::request::EncodedRequest;
use crate::sys::clock_ms;
use crate::transport::slot_cache::SlotCache;

/// Attaches a cache to a cluster, the connections of which invalidate it from now on.
pub(crate) fn attach_cache(cluster: &Cluster, cache: Arc<dyn SlotCache>) {
    cluster.cache.attach(cache);
    cluster.task_waker.wake();
}

/// Sends a read for the cache with all of its requests, or gives it back.
pub(crate) fn send_read(
    cluster: &Cluster,
    slot: u16,
    (database, request): (u32, EncodedRequest<'_>),
    whole: Vec<u8>,
    read: Box<Read>,
) -> Result<(), (Error, Box<Read>)> {
    let destination = Destination::Slot(slot);
    let checked = cluster.check(database).and_then(|()| make_room(cluster, destination, whole.len()));
    if let Err(error) = checked {
        return Err((error, read));
    }
    let (time, request) = ((clock_ms(), false), (request.bytes.into(), request.name));
    let mut routed = Routed::new(cluster.me.clone(), request, database, time, destination);
    routed.attach_read(read, whole.into());
    send_attached(cluster, destination, vec![routed]);
    Ok(())
}
