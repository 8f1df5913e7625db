//! Commands that wait on the server, each on a connection that it has for itself: at the node of its slot, wherever that is.
//!
//! Where the slot moves while it waits, the node turns it away, and it goes to the new owner as every request does; only that
//! its seat goes with it, a connection for it alone. Dropped before it is answered, the command is given up with that
//! connection. Any thread.

use std::sync::Arc;
use std::time::Instant;

use super::seat::{Seat, Seats};
use super::slots::{Named, crossing, named};
use super::{Cluster, shard_for};
use crate::config::Endpoint;
use crate::connection::Link;
use crate::error::Error;
use crate::pipe::routed::{Aim, Routed};
use crate::pipe::slot::{Completions, Handle};
use crate::request::Written;
use crate::request::blocking_commands::Patience;

impl Cluster {
    /// Sends a command that waits on the server for so long. `idle` may give a connection to the endpoint that it is asked for.
    pub(crate) fn send_apart(
        &self,
        database: u32,
        request: Written<'_>,
        (patience, deadline): (Patience, Option<Instant>),
        idle: impl FnOnce(&Endpoint) -> Option<Arc<Link>>,
    ) -> Result<(Handle, Arc<Seat>), Error> {
        self.check_open()?;
        let aim = match named(request) {
            Named::One(slot) => Aim::Slot(slot),
            Named::None => Aim::Anybody,
            Named::Several(one, other) => return Err(crossing(&request.name.to_string(), one, other)),
        };
        let at = self.time(request.name, deadline)?;
        let mut routed = Routed::new(self.me.clone(), (request.bytes.into(), request.name), database, at, aim);
        let (target, handle) = self.source.lock().pair(request.name);
        routed.attach(target);
        let map = self.map.read();
        let node = shard_for(&map, aim).map(|shard| &shard.primary);
        let link = node.and_then(|node| idle(&node.address.endpoint()));
        link.iter().for_each(|link| link.be_patient(patience));
        let seat = Seats::enter(&self.seats, patience, link);
        routed.seat = Some(seat.number);
        let mut several = vec![routed];
        if let Some(node) = node
            && let Some(link) = seat.take_to(node, Instant::now())
        {
            several.iter_mut().for_each(|routed| routed.node = node.number);
            several = link.resend_routed(several).err().unwrap_or_default();
        }
        let mut done = Completions::default();
        self.leave_to_task(several, &mut done);
        drop(map);
        self.finish(&mut done);
        Ok((handle, seat))
    }
}
