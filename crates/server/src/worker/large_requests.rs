//! Large requests: where the driver can, their bytes are received where the session keeps them.
//!
//! Through the worker's buffer every byte would be copied once more, and a receive would take no more than that buffer holds.
//! A request counts as large when a receive has brought much and its session wants much more; once it is complete, bytes go
//! through the buffer again. Not for connections with TLS: their bytes are opened in between.

use super::Worker;
use crate::execute::scratch::Scratch;
use crate::net::{Event, Token};
use crate::session::LARGE_REQUEST_BYTES;

impl Worker {
    /// Switches to receiving the missing bytes of a request apart, if they are many.
    #[cold]
    pub(super) fn look_at_missing(&mut self, token: Token) {
        if self.sessions[token].as_ref().is_some_and(|session| session.missing() >= LARGE_REQUEST_BYTES) {
            self.driver.receive_apart(token, true);
        }
    }

    /// Receives bytes of a large request. If the session wants none now, they take the usual way.
    #[cold]
    pub(super) fn receive_large(
        mut self: Box<Self>,
        token: Token,
        is_lone: bool,
        scratch: &mut Scratch,
    ) -> Option<Box<Self>> {
        let Some(room) = self.sessions[token].as_mut().and_then(|session| session.room()) else {
            self.driver.receive_apart(token, false);
            return Some(self);
        };
        let event = self.driver.receive_into(token, room);
        let is_full = room.len() == room.capacity();
        let Event::Received(_, count) = event else { return self.handle(event, is_lone, scratch, &[]) };
        scratch.counters.reads.add(1);
        self = self.with_session(token, scratch, |session, scratch, others| {
            session.receive_kept(count, scratch, others);
        })?;
        let is_missing = self.sessions[token].as_ref().is_some_and(|session| session.missing() != 0);
        if is_full || !is_missing {
            self.driver.receive_apart(token, is_missing);
        }
        if is_lone {
            self.send(token, scratch)
        } else {
            self.send_later(token, scratch)
        }
        Some(self)
    }
}
