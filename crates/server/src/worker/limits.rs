//! The limits of a worker's clients: idle time, unread replies, memory, and the channels to which their user may subscribe.
//! And the return of memory that they have released.
//!
//! The worker checks all of its own clients from time to time; other workers check theirs.

use std::sync::atomic::Ordering;

use super::connections::{Connections, LARGE_BYTES};
use crate::config::Opt;
use crate::execute::scratch::Scratch;
use crate::host::allocator;
use crate::host::log;
use crate::net::Token;
use crate::session::Session;

impl Connections {
    /// Closes a client after its output was dropped because it was too long.
    #[cold]
    pub fn close_cut(&mut self, token: Token, scratch: &mut Scratch) {
        scratch.output.clear();
        self.close_for_output(token, scratch);
    }

    /// Closes clients that have been idle for longer than `timeout`, if that is set. A blocked client, a subscriber or a
    /// replica may be idle.
    pub fn close_idle(&mut self, scratch: &Scratch) {
        let timeout_s = self.engine.config.number(Opt::Timeout);
        if timeout_s == 0 {
            return;
        }
        let oldest_ms = scratch.now.wall_ms() - timeout_s * 1_000;
        self.close_where(|session| {
            let is_silent = session.state.client.activity.active_ms.load(Ordering::Relaxed) < oldest_ms;
            is_silent && session.waiter().is_none() && !session.state.is_listening() && !session.state.is_replica()
        });
    }

    /// Closes clients with subscriptions that their user is no longer permitted.
    pub fn close_forbidden(&mut self) {
        self.close_where(|session| !session.may_listen());
    }

    fn close_where(&mut self, is_meant: impl Fn(&Session) -> bool) {
        for token in 0..self.sessions.len() {
            if self.sessions[token].as_deref().is_some_and(&is_meant) {
                self.close(token);
            }
        }
    }

    /// Closes clients that have left too much unread for too long.
    pub fn close_unread(&mut self, scratch: &Scratch) {
        for token in 0..self.sessions.len() {
            let Some(session) = &self.sessions[token] else { continue };
            let waiting = session.state.client.memory.output.load(Ordering::Relaxed);
            self.close_if_unread(token, waiting, scratch);
        }
    }

    /// Closes a client if `waiting` bytes are more than may be unread. A replica has more bytes to get than those in its
    /// connection, and is checked where it is fed.
    #[cold]
    pub fn close_if_unread(&mut self, token: Token, waiting: usize, scratch: &Scratch) {
        if let Some(session) = &mut self.sessions[token]
            && !session.state.is_replica()
            && session.is_output_exceeded(waiting, scratch.now)
        {
            self.close_for_output(token, scratch);
        }
    }

    /// Closes a client because its output is too long.
    #[cold]
    pub fn close_for_output(&mut self, token: Token, scratch: &Scratch) {
        let Some(session) = &self.sessions[token] else { return };
        log::warning(&format!(
            "Client {} is closed for overcoming of output buffer limits.",
            session.state.client.line(scratch.now.wall_ms()).trim_end()
        ));
        scratch.counters.output_buffer_closed.add(1);
        self.close(token);
    }

    /// Weighs all clients of this worker, if a limit needs that.
    pub fn weigh_all(&mut self, scratch: &Scratch) {
        let engine = &self.engine;
        if engine.config.bounds_memory() {
            self.sessions.iter().flatten().for_each(|session| engine.clients.memory.weigh(&session.state.client));
            self.make_room(scratch);
        }
    }

    /// Weighs a client that has just been served.
    pub fn weigh(&self, token: Token, scratch: &Scratch) {
        if let Some(session) = &self.sessions[token] {
            self.engine.clients.memory.weigh(&session.state.client);
            self.make_room(scratch);
        }
    }

    fn make_room(&self, scratch: &Scratch) {
        let (engine, now_ms) = (&self.engine, scratch.now.wall_ms());
        let bytes_max = engine.config.client_bytes_max();
        engine.clients.memory.evict(&engine.clients.list, bytes_max, (now_ms, &scratch.counters));
    }

    /// Returns the memory of large replies to the system when they have been sent: allocators keep memory that a thread has
    /// freed until it asks for more, and an idle thread never does.
    pub fn give_back(&mut self) {
        let is_large = |session: &Session| session.state.client.memory.output.load(Ordering::Relaxed) >= LARGE_BYTES;
        if !self.owes_purge || self.sessions.iter().flatten().any(|session| is_large(session)) {
            return;
        }
        self.owes_purge = false;
        if let Some(allocator) = allocator::chosen() {
            (allocator.purge)();
        }
    }
}
