//! CLIENT RINGS: a connection over the Unix socket that goes on through shared memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_rings::memory::Memory;

use crate::config::Opt;
use crate::context::Cx;
use crate::messaging::mail::Letter;
use crate::net::RING_BYTES;
use crate::request::error::{Error, Outcome};

/// CLIENT RINGS
///
/// Behind the reply the socket brings one more byte, and with it the descriptor of the memory (`sleeve-rings`). All bytes
/// after that go through the memory, both ways. The client sends nothing in between. The worker that owns the connection does
/// the change (`worker/mail_handler`).
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
