//! The channels between connections with TLS and their sessions, by token; an empty table where there is no TLS.
//!
//! Bytes from the driver go through a connection's channel before its session sees them, and outgoing bytes are sealed before
//! the driver has them. The thread that serves the worker.

use std::sync::Arc;

use super::held_replies::HeldReplies;
use crate::net::tls::Channel;
use crate::net::{Driver, Token};

/// The channels of a worker's connections, by token.
#[derive(Debug, Default)]
pub(super) struct Channels(pub Vec<Option<Box<Channel>>>);

impl Channels {
    /// Puts a channel between a connection and its session.
    pub fn insert(&mut self, token: Token, channel: Box<Channel>) {
        if self.0.len() <= token {
            self.0.resize_with(token + 1, || None);
        }
        self.0[token] = Some(channel);
    }

    /// Returns the channel of a connection, if it speaks TLS.
    pub fn get(&mut self, token: Token) -> Option<&mut Channel> {
        self.0.get_mut(token)?.as_deref_mut()
    }

    /// Takes a channel away.
    pub fn remove(&mut self, token: Token) -> Option<Box<Channel>> {
        self.0.get_mut(token)?.take()
    }

    /// Queues bytes that leave with the rest of the mail for a connection; behind its replies, if those are held.
    #[inline]
    pub fn queue(&mut self, (held, driver): (&mut HeldReplies, &mut Driver), token: Token, bytes: &Arc<Vec<u8>>) {
        if held.push_behind(token, bytes) {
            return;
        }
        match self.get(token) {
            None => driver.queue(token, bytes),
            Some(channel) => {
                let mut sealed = Vec::new();
                channel.seal([bytes.as_slice()], &mut sealed);
                driver.queue(token, &Arc::new(sealed));
            }
        }
    }
}
