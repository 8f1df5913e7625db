//! The beginning and the end of a worker's connections: each goes to the worker that has the fewest, and a connection that is
//! not served is sent the reason.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Worker;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::clients::client_info::ClientSocket;
use crate::execute::scratch::Scratch;
use crate::messaging::mail::{Accepted, Letter};
use crate::net::{Sending, Token};
use crate::session::Session;

impl Worker {
    /// Gives a new connection to the worker that has the fewest, of those that are wanted.
    pub(super) fn place(&mut self, accepted: Accepted, scratch: &Scratch) {
        // If all have ended, so will this one.
        let Some(member) = self.pool.choose() else { return };
        if Arc::ptr_eq(&member, &self.home) {
            self.adopt(accepted, scratch);
        } else {
            member.mailbox.post(Letter::Adopt(accepted));
        }
    }

    /// When the first of its clients stops waiting for a key.
    pub(super) fn first_deadline_ms(&self) -> u64 {
        self.deadlines.first().map_or(u64::MAX, |(deadline_ms, _)| *deadline_ms)
    }

    /// Takes over a connection that was counted as this worker's.
    pub(super) fn adopt(&mut self, accepted: Accepted, scratch: &Scratch) {
        let engine = Arc::clone(&self.engine);
        let clients = &self.home.clients;
        let refusal = refusal_of(&engine, &accepted);
        if let Some(text) = refusal {
            scratch.counters.connections_rejected.add(1);
            if !accepted.is_tls {
                _ = rustix::net::send(&accepted.socket, text.as_bytes(), rustix::net::SendFlags::NOSIGNAL);
            }
            clients.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let channel = if accepted.is_tls { engine.network.tls.channel() } else { None };
        let adopted = if accepted.is_tls && channel.is_none() { None } else { self.driver.adopt(accepted.socket).ok() };
        let Some(token) = adopted else {
            clients.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        if let Some(channel) = channel {
            self.channels.insert(token, channel);
        }
        scratch.counters.connections.add(1);
        let socket = ClientSocket {
            address: accepted.address,
            local_address: accepted.local_address,
            descriptor: self.driver.descriptor(token),
        };
        let client = engine.clients.list.enter(socket, Arc::clone(&self.home.mailbox), scratch.now.wall_ms());
        if self.sessions.len() <= token {
            self.sessions.resize_with(token + 1, || None);
        }
        self.tokens.insert(client.id, token);
        self.sessions[token] = Some(Box::new(Session::new(&engine, client)));
    }

    /// Closes everything.
    pub(super) fn end(&mut self) {
        self.driver.stop_listening();
        for token in 0..self.sessions.len() {
            self.close(token);
        }
        if self.pool.leave(&self.home) {
            self.engine.outlive_workers();
        }
    }

    /// Closes a connection without further replies: at once, unless its peer does not take the bytes that were sent.
    #[cold]
    pub(super) fn close_when_sent(&mut self, token: Token) {
        match (self.driver.flush(token), &self.sessions[token]) {
            (Sending::Waiting(count), Some(session)) => {
                session.state.client.memory.output.store(count, Ordering::Relaxed);
                self.driver.hold(token, true);
            }
            _ => self.close(token),
        }
    }

    /// Closes a connection and drops all state of its client; later, if its session is away.
    pub(super) fn close(&mut self, token: Token) {
        if self.close_when_back(token) {
            return;
        }
        if self.is_sealed(token) {
            self.take_leave(token);
        }
        if !self.feeds.is_empty() {
            self.end_feeding(token);
        }
        if let Some(mut session) = self.sessions[token].take() {
            self.note_large(session.state.client.memory.sum());
            self.tokens.remove(&session.state.client.id);
            forget_deadline(&mut self.deadlines, &session);
            if let Some(subscriptions) = &mut session.state.subscriptions {
                self.subscribers.update(token, session.state.client.id, subscriptions);
                self.subscribers.forget(session.state.client.id, subscriptions);
            }
            session.close();
            self.home.clients.fetch_sub(1, Ordering::Relaxed);
        }
        self.held.forget(token);
        self.held.forget_follower(token);
        // Last, because a peer that sees the end of the connection may rely on nothing being done for it any more.
        self.driver.close(token);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.engine.clients.leave_mailbox(&self.home.mailbox);
    }
}

/// Strikes out when this session stops waiting for a key, if it does.
pub(super) fn forget_deadline(deadlines: &mut BTreeSet<(u64, u64)>, session: &Session) {
    if let Some(waiter) = session.waiter()
        && let Some(deadline_ms) = waiter.due_ms()
    {
        deadlines.remove(&(deadline_ms, waiter.client.id));
    }
}

/// Returns the reason why a connection is not served, as a reply.
fn refusal_of(engine: &Engine, accepted: &Accepted) -> Option<&'static str> {
    if engine.clients.list.len() as i64 >= engine.config.number(Opt::Maxclients) {
        return Some("-ERR max number of clients reached\r\n");
    }
    let from_elsewhere = match accepted.address.parse::<std::net::SocketAddr>() {
        Ok(address) => !address.ip().is_loopback(),
        Err(_) => false,
    };
    let protects = engine.config.flag(Opt::ProtectedMode) && engine.acl.default_user().no_password;
    (from_elsewhere && protects).then_some(PROTECTED)
}

const PROTECTED: &str = "-DENIED Sleeve is in protected mode: it has no password, so it serves clients of its own machine \
only. To connect from elsewhere set one with 'requirepass', or, where every host that can reach the port may be trusted, \
say 'protected-mode no' in the configuration file.\r\n";
