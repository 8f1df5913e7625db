//! The delivery of invalidations: the notice to a client that keys which it has read have changed.
//!
//! The owner of the client's session decides about the form when the letter arrives. In RESP3 the notice is a push message on
//! the client's own connection. A client may redirect it to another client; in RESP2 that client has to have subscriptions.
//! Called by the owner of the session.

use std::sync::Arc;

use sleeve_wire::reply::{Protocol, Writer};

use super::session_state::SessionState;
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientInfo;

/// The outcome of a letter to a client that tracks.
#[derive(Debug)]
pub enum Delivery {
    /// The letter is dropped: the client does not track any more, or cannot receive invalidations.
    Nothing,
    /// The client itself gets these bytes.
    Push(Vec<u8>),
    /// Another client gets the notice about these keys.
    Forward(Arc<ClientInfo>, Arc<Vec<u8>>),
}

/// Returns how to deliver the notice that keys have changed: `keys` is an array of them, or None for all keys.
pub fn deliver(engine: &Engine, state: &mut SessionState, keys: Option<Arc<Vec<u8>>>) -> Delivery {
    let protocol = state.protocol;
    let Some(tracking) = &mut state.tracking else { return Delivery::Nothing };
    let keys = keys.unwrap_or_else(|| {
        let mut null = Vec::new();
        Writer::new(&mut null, protocol).null();
        Arc::new(null)
    });
    if tracking.redirect == 0 {
        return if protocol == Protocol::Resp3 { Delivery::Push(push_of(&keys)) } else { Delivery::Nothing };
    }
    match engine.clients.list.find(tracking.redirect) {
        Some(client) => Delivery::Forward(client, keys),
        None => {
            tracking.broken = true;
            if protocol == Protocol::Resp3 { Delivery::Push(broken(tracking.redirect)) } else { Delivery::Nothing }
        }
    }
}

/// Returns the message for a client that receives the letters of another.
pub fn forwarded(state: &SessionState, keys: &[u8]) -> Option<Vec<u8>> {
    if state.protocol == Protocol::Resp3 {
        return Some(push_of(keys));
    }
    state.is_listening().then(|| {
        let mut bytes = Vec::with_capacity(64 + keys.len());
        let mut reply = Writer::new(&mut bytes, Protocol::Resp2);
        reply.array(3);
        reply.bulk(b"message");
        reply.bulk(b"__redis__:invalidate");
        bytes.extend_from_slice(keys);
        bytes
    })
}

fn push_of(keys: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + keys.len());
    let mut reply = Writer::new(&mut bytes, Protocol::Resp3);
    reply.push(2);
    reply.bulk(b"invalidate");
    bytes.extend_from_slice(keys);
    bytes
}

fn broken(redirect: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut reply = Writer::new(&mut bytes, Protocol::Resp3);
    reply.push(2);
    reply.bulk(b"tracking-redir-broken");
    reply.integer(redirect as i64);
    bytes
}
