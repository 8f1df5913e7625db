//! Commands that wait on the server, each on a connection of its own to the node of its slot.
//!
//! If the slot moves while the command waits, the node refuses it, and it goes to the new owner as every request does, with
//! its dedicated connection. If its reply is dropped before the answer, the command is given up with that connection. Any
//! thread.

use std::sync::Arc;
use std::time::Instant;

use super::Cluster;
use super::dedicated::{DedicatedConnection, DedicatedConnections};
use super::slots::{Named, crossing, named};
use crate::config::Endpoint;
use crate::connection::Link;
use crate::error::Error;
use crate::pipe::routed::{Destination, Routed};
use crate::pipe::slot::{Completions, Handle};
use crate::resp::request::EncodedRequest;
use crate::resp::request::blocking_commands::BlockTimeout;
use crate::sys::now;

/// Sends a command that may wait on the server for this time. `idle` may return an idle connection to the endpoint that it is
/// given.
pub(crate) fn send_blocking(
    cluster: &Cluster,
    database: u32,
    request: EncodedRequest<'_>,
    (block_timeout, deadline): (BlockTimeout, Option<Instant>),
    idle: impl FnOnce(&Endpoint) -> Option<Arc<Link>>,
) -> Result<(Handle, Arc<DedicatedConnection>), Error> {
    cluster.check_open()?;
    let destination = match named(request) {
        Named::One(slot) => Destination::Slot(slot),
        Named::None => Destination::Anybody,
        Named::Several(one, other) => return Err(crossing(&request.name.to_string(), one, other)),
    };
    let at = cluster.time(request.name, deadline)?;
    let mut routed = Routed::new(cluster.me.clone(), (request.bytes.into(), request.name), database, at, destination);
    let (target, handle) = cluster.source.lock().pair(request.name);
    routed.attach(target);
    let map = cluster.map.read();
    let node = cluster.node_for(&map, destination);
    let link = node.and_then(|node| idle(&node.address.endpoint()));
    link.iter().for_each(|link| link.set_block_timeout(block_timeout));
    let dedicated = DedicatedConnections::enter(&cluster.dedicated, block_timeout, link);
    routed.dedicated = Some(dedicated.number);
    let mut several = vec![routed];
    if let Some(node) = node
        && let Some(link) = dedicated.take_to(node, now())
    {
        several.iter_mut().for_each(|routed| routed.node = node.number);
        several = link.resend_routed(several).err().unwrap_or_default();
    }
    let mut done = Completions::default();
    cluster.leave_to_task(several, &mut done);
    drop(map);
    cluster.finish(&mut done);
    Ok((handle, dedicated))
}
