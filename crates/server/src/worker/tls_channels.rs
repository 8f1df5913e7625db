//! The channels between connections with TLS and their sessions, by token; the table is empty if there is no TLS.
//!
//! Bytes from the driver go through a connection's channel before its session gets them, and outgoing bytes are encrypted
//! before the driver gets them. A token without a channel is a plain connection and costs one look into the table. The thread
//! that serves the worker.

use std::io;
use std::sync::Arc;

use super::reply_gate::ReplyGate;
use crate::engine::clients::client_info::{ClientInfo, ClientSocket};
use crate::host::log;
use crate::net::tls::Channel;
use crate::net::{Driver, Token};
use crate::request::output::Output;

/// The channels of a worker's connections, by token.
#[derive(Debug, Default)]
pub(super) struct Channels(Vec<Option<Box<Channel>>>);

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

    /// Returns whether a connection speaks TLS.
    #[inline]
    pub fn has(&self, token: Token) -> bool {
        self.0.get(token).is_some_and(Option::is_some)
    }

    /// Encrypts the bytes of the output, and adds those that the channel itself has to send.
    #[cold]
    pub fn seal(&mut self, token: Token, output: &mut Output) {
        let Some(channel) = self.get(token) else { return };
        if output.is_empty() && !channel.has_news() {
            return;
        }
        let mut replies = Vec::new();
        output.copy_to(&mut replies);
        channel.seal([replies.as_slice()], &mut output.bytes);
    }

    /// Removes the channel of a connection that is about to be closed; returns its last bytes, if it speaks TLS.
    pub fn end(&mut self, token: Token) -> Option<Output> {
        let mut channel = self.0.get_mut(token)?.take()?;
        let mut farewell = Output::default();
        farewell.bytes = channel.farewell();
        Some(farewell)
    }

    /// Queues bytes that are sent with the rest of the mail for a connection; behind its replies, if those are held.
    #[inline]
    pub fn queue(&mut self, (gate, driver): (&mut ReplyGate, &mut Driver), token: Token, bytes: &Arc<Vec<u8>>) {
        if gate.push_behind(token, bytes) {
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

/// The first bytes that a TLS record may have (RFC 8446, section 5.1).
const TLS_RECORDS: std::ops::RangeInclusive<u8> = 0x14..=0x17;

/// Logs that a client's handshake has failed; `bytes` are those that the client has sent.
pub(super) fn warn_of_handshake(client: &ClientInfo, error: &io::Error, bytes: &[u8]) {
    let is_plain = bytes.first().is_some_and(|first| !TLS_RECORDS.contains(first));
    let hint = if is_plain { "; the client does not speak TLS, and this port does" } else { "" };
    let ClientSocket { address, local_address, .. } = &client.socket;
    log::warning(&format!("Error accepting a client connection: {error}{hint} (addr={address} laddr={local_address})"));
}
