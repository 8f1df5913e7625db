//! Connections with TLS: the work of a worker between its driver and a session.
//!
//! A token without a channel is a plain connection and costs one look into a table that is empty where there is no TLS.

use super::Worker;
use crate::execute::scratch::Scratch;
use crate::host::log;
use crate::net::Token;
use crate::request::output::Output;

/// The bytes with which a record of TLS may begin (RFC 8446, section 5.1).
const TLS_RECORDS: std::ops::RangeInclusive<u8> = 0x14..=0x17;

impl Worker {
    /// Returns whether a connection speaks TLS: one look into a table that is empty where none does.
    #[inline]
    pub(super) fn is_sealed(&self, token: Token) -> bool {
        self.channels.0.get(token).is_some_and(Option::is_some)
    }

    /// Gives a session its peer's plain bytes, out of the bytes that have arrived on a connection with TLS.
    pub(super) fn receive_sealed(
        mut self: Box<Self>,
        token: Token,
        bytes: &[u8],
        scratch: &mut Scratch,
    ) -> Option<Box<Self>> {
        let Some(channel) = self.channels.get(token) else { return Some(self) };
        let opened = channel.open(bytes).map(|_| ());
        let plain = channel.take_plain();
        if opened.is_ok() && !plain.is_empty() {
            scratch.counters.reads.add(1);
            self =
                self.with_session(token, scratch, |session, scratch, others| session.receive(&plain, scratch, others))?;
        }
        let (Some(session), Some(channel)) = (&mut self.sessions[token], self.channels.get(token)) else {
            return Some(self);
        };
        channel.keep(plain);
        let has_ended = channel.has_ended();
        if let Err(error) = &opened
            && channel.is_handshaking()
        {
            let client = &session.state.client;
            let is_plain = bytes.first().is_some_and(|first| !TLS_RECORDS.contains(first));
            let hint = if is_plain { "; the client does not speak TLS, and this port does" } else { "" };
            log::warning(&format!(
                "Error accepting a client connection: {error}{hint} (addr={} laddr={})",
                client.socket.address, client.socket.local_address
            ));
        }
        // The channel's alert about it leaves before the connection ends.
        session.state.closing |= opened.is_err() || has_ended;
        self.send(token, scratch);
        if opened.is_err() || has_ended {
            self.close(token);
        }
        Some(self)
    }

    /// Turns the bytes of the output into those to send, with those of the channel itself.
    #[cold]
    pub(super) fn seal(&mut self, token: Token, output: &mut Output) {
        let Some(channel) = self.channels.get(token) else { return };
        if output.is_empty() && !channel.has_news() {
            return;
        }
        let mut replies = Vec::new();
        output.copy_to(&mut replies);
        channel.seal([replies.as_slice()], &mut output.bytes);
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
