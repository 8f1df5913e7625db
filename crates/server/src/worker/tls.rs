//! Connections with TLS: what a worker does between its driver and a session.
//!
//! A token without a channel is a plain connection and costs one look into a table that is empty where there is no TLS.

use super::Worker;
use crate::driver::Token;
use crate::host::log;
use crate::request::output::Output;

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
