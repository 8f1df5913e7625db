//! HELLO with UNIXSOCKET and OFFERED: a client on this machine moves from TCP to the server's Unix socket. CLIENT RINGS: a
//! connection over that socket goes on through shared memory.
//!
//! Over TCP the client asks for the offer, which is in the reply of HELLO. The offer holds the socket's path; the running
//! kernel, namespace of processes and process of this server, by which the client can tell which process listens at that path
//! before it sends anything there; a ticket and a proof. Over the socket the client shows the ticket, once, before anything
//! else. The server answers with the proof, and with the two addresses of the TCP connection to which it gave the ticket. So
//! the client knows that it talks to the same server. It notices if a server has passed on the offer of another server: then
//! the addresses are not those of its own connection. Neither ticket nor proof gives any rights: a client with a ticket logs
//! in as any other does. Both belong to the TCP connection to which they were given, and end with it.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_rings::memory::Memory;
use sleeve_wire::number;

use crate::config::Opt;
use crate::context::Cx;
use crate::engine::clients::client_info::UnixRoute;
use crate::host::dice::secret_bytes;
use crate::host::facts::{self, Whereabouts};
use crate::messaging::mail::Letter;
use crate::net::RING_BYTES;
use crate::request::error::{Error, Outcome};

/// The offer to a client that may move to the Unix socket.
pub struct Offer {
    path: PathBuf,
    whereabouts: Whereabouts,
    ticket: String,
    proof: String,
}

/// Makes an offer for this client, if there is a Unix socket, the options allow the offer, and both ends of the client's
/// connection have the same address. An earlier offer becomes invalid.
pub fn make(cx: &Cx<'_>) -> Option<Offer> {
    let client = &cx.state.client;
    if !cx.engine.config.flag(Opt::UnixSocketOffer)
        || !is_same_host(&client.socket.address, &client.socket.local_address)
    {
        return None;
    }
    let path = cx.engine.network.listeners.unix_path()?;
    let whereabouts = facts::whereabouts()?;
    let (ticket, proof) = (secret(), secret());
    *client.unix_route.lock() = Some(Box::new(UnixRoute::Offered { ticket: ticket.clone(), proof: proof.clone() }));
    Some(Offer { path, whereabouts, ticket, proof })
}

/// Returns 32 unpredictable digits.
fn secret() -> String {
    let mut bytes = [0; 16];
    secret_bytes(&mut bytes);
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

fn is_same_host(peer: &str, local: &str) -> bool {
    let ip = |address: &str| address.parse::<SocketAddr>().ok().map(|address| address.ip());
    ip(peer).is_some_and(|peer| Some(peer) == ip(local))
}

impl Offer {
    /// Writes the offer as the value of a field of HELLO's reply.
    pub fn write(&self, cx: &mut Cx<'_>) {
        let mut reply = cx.reply();
        reply.map(6);
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
        reply.bulk(b"proof");
        reply.bulk(self.proof.as_bytes());
    }
}

/// Redeems the ticket that was given to another connection, and notes that connection as the origin of this one. The reply
/// shows that this is the server that gave the ticket: it holds the proof, the two addresses of that connection, the client's
/// first, and the network namespace of the addresses.
///
/// # Errors
/// This connection is no Unix socket, or no present connection has this ticket.
pub fn redeem(cx: &mut Cx<'_>, giver: &[u8], ticket: &[u8]) -> Outcome {
    let refusal = Error::fixed("ERR No such offer of the Unix socket");
    let giver = number::parse_i64(giver).and_then(|id| cx.engine.clients.list.find(id as u64));
    let giver = giver.filter(|_| cx.state.client.is_over_unix()).ok_or_else(|| refusal.clone())?;
    let mut route = giver.unix_route.lock();
    let proof = match route.as_deref() {
        Some(UnixRoute::Offered { ticket: offered, proof }) if offered.as_bytes() == ticket => proof.clone(),
        _ => return Err(refusal),
    };
    *route = None;
    drop(route);
    *cx.state.client.unix_route.lock() = Some(Box::new(UnixRoute::CameFrom(giver.socket.address.clone())));
    let network = facts::network().unwrap_or_default();
    let mut reply = cx.reply();
    reply.array(4);
    for word in [&proof, &giver.socket.address, &giver.socket.local_address, &network] {
        reply.bulk(word.as_bytes());
    }
    Ok(())
}

/// CLIENT RINGS
///
/// After the reply the server sends one more byte over the socket, and with it the descriptor of the memory (`sleeve-rings`).
/// All later bytes go through the memory, both ways. The client sends nothing in between. The worker that owns the connection
/// makes the change (`worker/mail`).
pub fn rings(cx: &mut Cx<'_>) -> Outcome {
    let client = Arc::clone(&cx.state.client);
    if !cx.engine.config.flag(Opt::UnixSocketRings) {
        return Err(Error::fixed("ERR CLIENT RINGS is switched off by the option 'unixsocket-rings'"));
    }
    if !client.is_over_unix() {
        return Err(Error::fixed(
            "ERR CLIENT RINGS is for connections over the Unix socket: no other can be handed memory",
        ));
    }
    if client.memory.has_rings.load(Ordering::Relaxed) {
        return Err(Error::fixed("ERR this connection shares memory already"));
    }
    let refused = |error| Error::new(format!("ERR there is no memory to share: {error}"));
    let memory = Memory::create(RING_BYTES).map_err(refused)?;
    client.memory.has_rings.store(true, Ordering::Relaxed);
    cx.reply().ok();
    cx.pending.post(&client.mailbox, Letter::ShareMemory { id: client.id, memory });
    Ok(())
}
