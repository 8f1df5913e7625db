//! The pipe's part in a cache that a connection's messages invalidate: the reads that are sent for the cache.
//!
//! A read for the cache is one entry of the pipe, so that no other caller's command comes between its requests, and so that
//! all of them leave on one connection or are sent again together. Its requests are: the request that asks the server to
//! remember the key (CLIENT CACHING YES), if that is needed; the read itself; and PTTL of the key. The last reply completes
//! the entry. PTTL also settles the case of a key that changes after it was read: its invalidation arrives before the reply
//! to PTTL.
//!
//! Over a cluster such a read may be refused by a node (`routed`). It is then sent on by itself, and its reply is not kept:
//! the connection over which it arrives need not be the one that invalidates its slot.
//!
//! This module takes bytes and gives bytes: no socket, no clock, no thread. The cache decides how it uses the reply
//! (`cache`).

use std::sync::Arc;
use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use super::slot::{Completions, Payload, Target};
use super::transaction_state::Step;
use crate::error::Error;

/// A cache that is invalidated by the messages of a connection.
///
/// The reader calls it, in the order of the replies, with its own lock held, and with the pipe's lock too when the connection
/// is lost. It calls back into neither, and takes no lock under which a thread waits.
pub(crate) trait Cache: Send + Sync {
    /// Takes the server's reply to the request to report changed keys.
    fn asked(&self, reply: &[u8]);

    /// Takes a message that answers no request, which may be an invalidation.
    fn told(&self, message: &[u8]);

    /// Notes that the connection is lost: changes from now on are not reported.
    fn lost(&self);

    /// Takes the answer to a read. Its other waiting callers are answered as well, and the caller that sent it after them.
    fn landed(&self, id: ReadId, answer: &mut Answer, done: &mut Completions);

    /// Notes that these requests were sent, so the caller must not read the values from before them.
    fn wrote(&self, requests: &[u8]);

    /// Returns the request that asks the server to report changed keys.
    fn request(&self) -> &[u8];

    /// Notes the reason why the server reports no changes.
    fn refused(&self, why: Error);
}

/// The identity of a read in flight in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadId {
    /// The hash of its key.
    pub(crate) hash: u64,
    /// The number of the read among those with this hash.
    pub(crate) number: u64,
}

/// The outcome of a read.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) payload: Payload,
    /// True if the server remembers that the key was read on this connection, as far as it was asked to.
    pub(crate) is_remembered: bool,
    pub(crate) lifetime: KeyLifetime,
}

impl Answer {
    /// Creates an answer that no connection invalidates.
    fn unkept(payload: Payload) -> Self {
        Self { payload, is_remembered: false, lifetime: KeyLifetime::Unknown }
    }
}

/// The lifetime of a key, as its server states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyLifetime {
    /// The key lives until it is deleted, or it does not exist.
    Endless,
    /// The key lives for this time, from some time after the read was sent.
    For(Duration),
    /// The server has not stated the lifetime.
    Unknown,
}

impl KeyLifetime {
    /// Reads the reply to PTTL.
    pub(crate) fn of(reply: &[u8]) -> Self {
        match decode(reply) {
            Ok((Frame::Integer(..0), _)) => Self::Endless,
            Ok((Frame::Integer(left_ms), _)) => Self::For(Duration::from_millis(left_ms.unsigned_abs())),
            _ => Self::Unknown,
        }
    }
}

/// A read that is sent for a cache.
pub(crate) struct Read {
    /// The cache that gets the outcome, if it is not the cache of the connection.
    cache: Arc<dyn Cache>,
    id: ReadId,
    /// The end of the caller that sent the read; none once the caller was given another answer.
    target: Option<Target>,
    /// The number of replies that arrive before the read's own.
    leading: u32,
    received: u32,
    answer: Answer,
}

impl Read {
    /// Creates a read. If `leading`, a request ahead of it asks the server to remember its key.
    pub(crate) fn new(cache: Arc<dyn Cache>, id: ReadId, target: Target, leading: bool) -> Self {
        let payload = Payload::Failed(Error::closed("the read was given up"));
        let answer = Answer { is_remembered: !leading, ..Answer::unkept(payload) };
        Self { cache, id, target: Some(target), leading: leading.into(), received: 0, answer }
    }

    /// Returns the number of replies that the read takes.
    pub(crate) fn frames(&self) -> u32 {
        self.leading + 2
    }

    /// Returns the end of the caller that sent the read, if it still waits.
    pub(super) fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// Takes one reply.
    pub(super) fn accept(&mut self, reply: &[u8], done: &mut Completions) -> Step {
        if !self.take(reply) {
            return Step::More;
        }
        self.land(None, done);
        Step::Done
    }

    /// Takes one reply, and returns whether it is the last.
    pub(super) fn take(&mut self, reply: &[u8]) -> bool {
        let position = self.received;
        self.received += 1;
        if position < self.leading {
            self.answer.is_remembered = reply == b"+OK\r\n";
        } else if position == self.leading {
            self.answer.payload = Payload::shared(reply);
        } else {
            self.answer.lifetime = KeyLifetime::of(reply);
        }
        position > self.leading
    }

    /// Takes the reply to a read that was sent without the requests around it.
    pub(super) fn take_alone(&mut self, reply: &[u8]) {
        self.answer = Answer::unkept(Payload::shared(reply));
    }

    /// Returns the reply to the read itself, if it has arrived.
    pub(super) fn reply(&self) -> &[u8] {
        self.answer.payload.bytes()
    }

    /// Answers the waiting callers with an error. Replies that arrive later are taken and dropped.
    pub(crate) fn fail(&mut self, error: &Error, done: &mut Completions) {
        self.answer.payload = Payload::Failed(error.clone());
        self.land(None, done);
    }

    /// Hands the answer to the cache. `over` is the cache that the connection of the answer invalidates, if there is one.
    pub(super) fn land(&mut self, over: Option<&dyn Cache>, done: &mut Completions) {
        let Some(target) = self.target.take() else { return };
        over.unwrap_or(&*self.cache).landed(self.id, &mut self.answer, done);
        target.complete(self.answer.payload.clone(), done);
    }
}

impl Drop for Read {
    /// Answers the waiting callers, so that no caller waits for ever for a read that was given up.
    fn drop(&mut self) {
        let mut done = Completions::default();
        if self.target.is_some() {
            self.fail(&Error::closed("the read was given up"), &mut done);
        }
    }
}
