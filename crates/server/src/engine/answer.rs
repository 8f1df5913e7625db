//! Answering a client that waits for something other than a key: a snapshot, the disk, other servers.
//!
//! The first thread to answer claims the waiter, so that a timeout or the end of the client cannot answer once more. The
//! reply travels by letter to the thread that has the session. Any thread, with no shard locked.

use std::sync::Arc;

use sleeve_wire::reply::Writer;

use super::Engine;
use super::clients::blocking::Waiter;
use crate::messaging::mail::Letter;
use crate::request::error::Error;
use crate::request::output::{Mark, Output};

impl Engine {
    /// Ends the waiting of a client with an error, if it still waits. No shard is locked.
    pub fn refuse(&self, waiter: &Arc<Waiter>, error: &Error) {
        self.observe.stats.count_error(error.code());
        self.end(waiter, (0, true), |reply| reply.error(error.text()));
    }

    /// Ends the waiting of a client with a reply, if it still waits. No shard is locked.
    pub fn answer(&self, waiter: &Arc<Waiter>, write: impl FnOnce(&mut Writer<'_>)) {
        self.answer_showing(0, waiter, write);
    }

    /// Answers as [`Engine::answer`] does, with the reply to a change, which shows the journal up to this offset.
    pub fn answer_showing(&self, shown: u64, waiter: &Arc<Waiter>, write: impl FnOnce(&mut Writer<'_>)) {
        self.end(waiter, (shown, false), write);
    }

    fn end(&self, waiter: &Arc<Waiter>, (shown, is_refused): (u64, bool), write: impl FnOnce(&mut Writer<'_>)) {
        let Some(claim) = waiter.claim() else { return };
        let mut reply = Output::default();
        reply.shown = shown;
        write(&mut Writer::new(&mut reply.bytes, waiter.protocol));
        if shown != 0 {
            reply.note_write(Mark::default());
        }
        claim.finish(&self.clients.blocking);
        let letter = Letter::Unblock { id: waiter.client.id, ticket: waiter.ticket, reply, is_refused };
        waiter.client.mailbox.post(letter);
    }
}
