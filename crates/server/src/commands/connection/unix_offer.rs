//! HELLO with UNIXSOCKET and OFFERED: a client on this machine moves from TCP to the server's Unix socket.
//!
//! Over TCP it asks for the offer, which is in the reply of HELLO: the socket's path; what running kernel, namespace of
//! processes and process this server is, by which the client can tell who listens at that path before it says anything there;
//! and a ticket. Over the socket it shows the ticket, once. A ticket proves to both that the two connections lead to the same
//! server, and gives no rights: whoever comes with it logs in as anybody else does. It is kept with the connection that it
//! was given to, and goes with it.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sleeve_wire::number;

use crate::config::Opt;
use crate::context::Cx;
use crate::engine::clients::client_info::UnixRoute;
use crate::host::facts::{self, Whereabouts};
use crate::request::error::{Error, Outcome};

/// What a client is told that may move.
pub struct Offer {
    path: PathBuf,
    whereabouts: Whereabouts,
    ticket: String,
}

/// An offer for this client, if there is a socket, the operator lets it be offered, and both ends of its connection have the
/// same address. An earlier one counts no longer.
pub fn make(cx: &Cx<'_>) -> Option<Offer> {
    let client = &cx.state.client;
    if !cx.engine.config.flag(Opt::UnixSocketOffer) || !is_same_host(&client.address, &client.local_address) {
        return None;
    }
    let path = cx.engine.listeners.unix_path()?;
    let whereabouts = facts::whereabouts()?;
    let ticket = format!("{:016x}{:016x}", cx.dice.number(), cx.dice.number());
    *client.unix_route.lock() = Some(Box::new(UnixRoute::Offered(ticket.clone())));
    Some(Offer { path, whereabouts, ticket })
}

fn is_same_host(peer: &str, local: &str) -> bool {
    let ip = |address: &str| address.parse::<SocketAddr>().ok().map(|address| address.ip());
    ip(peer).is_some_and(|peer| Some(peer) == ip(local))
}

impl Offer {
    /// Writes it as the value of a field of HELLO's reply.
    pub fn write(&self, cx: &mut Cx<'_>) {
        let mut reply = cx.reply();
        reply.map(5);
        reply.bulk(b"path");
        reply.bulk(self.path.as_os_str().as_bytes());
        reply.bulk(b"boot");
        reply.bulk(self.whereabouts.boot.as_bytes());
        reply.bulk(b"processes");
        reply.bulk(self.whereabouts.processes.as_bytes());
        reply.bulk(b"process");
        reply.integer(i64::from(self.whereabouts.process));
        reply.bulk(b"ticket");
        reply.bulk(self.ticket.as_bytes());
    }
}

/// Takes the ticket that was given to another connection, and remembers of this one where it came from.
///
/// # Errors
/// This is no Unix socket, or nobody here has this ticket, or not any more.
pub fn redeem(cx: &mut Cx<'_>, giver: &[u8], ticket: &[u8]) -> Outcome {
    let refusal = Error::fixed("ERR No such offer of the Unix socket");
    let giver = number::parse_i64(giver).and_then(|id| cx.engine.clients.find(id as u64));
    let giver = giver.filter(|_| cx.state.client.is_over_unix()).ok_or_else(|| refusal.clone())?;
    let mut route = giver.unix_route.lock();
    match route.as_deref() {
        Some(UnixRoute::Offered(offered)) if offered.as_bytes() == ticket => *route = None,
        _ => return Err(refusal),
    }
    drop(route);
    *cx.state.client.unix_route.lock() = Some(Box::new(UnixRoute::CameFrom(giver.address.clone())));
    Ok(())
}
