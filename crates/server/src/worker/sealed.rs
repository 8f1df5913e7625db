//! Connections with TLS: what a worker does between its driver and a session.
//!
//! A token without a channel is a plain connection and costs one look into a table that is empty where there is no TLS.

use std::sync::Arc;

use super::Worker;
use crate::driver::{Driver, Token};
use crate::log;
use crate::output::Output;
use crate::tls::Channel;

/// The channels of a worker's connections, by token.
#[derive(Debug, Default)]
pub(super) struct Channels(Vec<Option<Box<Channel>>>);

impl Channels {
    /// Whether a connection speaks TLS.
    #[inline]
    pub fn has(&self, token: Token) -> bool {
        self.0.get(token).is_some_and(Option::is_some)
    }

    /// Puts a channel between a connection and its session.
    pub fn insert(&mut self, token: Token, channel: Box<Channel>) {
        if self.0.len() <= token {
            self.0.resize_with(token + 1, || None);
        }
        self.0[token] = Some(channel);
    }

    fn get(&mut self, token: Token) -> Option<&mut Channel> {
        self.0.get_mut(token)?.as_deref_mut()
    }

    fn remove(&mut self, token: Token) -> Option<Box<Channel>> {
        self.0.get_mut(token)?.take()
    }

    /// Has bytes leave with all else that the mail brings to a connection.
    #[inline]
    pub fn queue(&mut self, driver: &mut Driver, token: Token, bytes: &Arc<Vec<u8>>) {
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

impl Worker {
    /// Gives a session what its peer said, of what has arrived on a connection with TLS.
    pub(super) fn receive_sealed(&mut self, token: Token, count: usize) {
        let Some(mut channel) = self.channels.remove(token) else { return };
        let opened = self.with_session(token, |session, bytes, desk, output| match channel.open(&bytes[..count]) {
            Ok([]) => Ok(()),
            Ok(plain) => {
                desk.counters.reads.add(1);
                session.receive(plain, desk, output);
                Ok(())
            }
            Err(error) => Err(error),
        });
        let Some((opened, session)) = opened.zip(self.sessions[token].as_mut()) else { return };
        let (handshaking, has_ended) = (channel.is_handshaking(), channel.has_ended());
        self.channels.insert(token, channel);
        if let Err(error) = &opened {
            let peer = &session.state.peer;
            if handshaking {
                log::warning(&format!(
                    "Error accepting a client connection: {error} (addr={} laddr={})",
                    peer.address, peer.local_address
                ));
            }
            // What the channel has to say about it leaves before the connection ends.
            session.state.closing = true;
        }
        session.state.closing |= has_ended;
        self.send(token);
        if opened.is_err() || has_ended {
            self.close(token);
        }
    }

    /// Turns what is in the output into what is to be sent, with what the channel itself has to say.
    #[cold]
    pub(super) fn seal(&mut self, token: Token) {
        let Some(channel) = self.channels.get(token) else { return };
        if self.output.is_empty() && !channel.has_news() {
            return;
        }
        let mut replies = Vec::new();
        self.output.copy_to(&mut replies);
        channel.seal([replies.as_slice()], &mut self.output.bytes);
    }

    /// Takes leave of a peer with TLS, if its connection still takes anything.
    #[cold]
    pub(super) fn take_leave(&mut self, token: Token) {
        let Some(mut channel) = self.channels.remove(token) else { return };
        let mut farewell = Output::default();
        farewell.bytes = channel.farewell();
        _ = self.driver.send(token, &mut farewell);
    }
}
