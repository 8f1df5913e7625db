//! What the spine knows of a cache that is kept true by its connection: the reads that are made for it.
//!
//! A read for the cache is one entry of the pipe, so that no other caller's command comes between its requests, and so that
//! all of them leave on one connection or are sent again together: what asks the server to remember the key, where that has
//! to be said, the read itself, and the question for how long the key will live. The last reply lands it. Behind the
//! question stands the whole rule for a key that changes in between: its invalidation comes before the answer.
//!
//! Over a cluster such a read may be turned away (`routed`). It is sent on by itself then, and its reply is not kept: the
//! connection that it comes over need not be the one that keeps its slot true.
//!
//! It takes bytes and gives bytes: no socket, no clock, no thread. What the cache makes of it is the cache's (`route/near`).

use std::sync::Arc;
use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use super::slot::{Completions, Payload, Target};
use super::transaction_state::Step;
use crate::error::Error;

/// A cache that is kept true by what comes on a connection.
///
/// The reader calls it, in the order of what comes, with its own lock held and the pipe's too when the connection is lost. It
/// calls nobody back and waits for no lock under which anybody waits.
pub(crate) trait Cache: Send + Sync {
    /// The server was asked to say when keys change, and this is its answer.
    fn asked(&self, reply: &[u8]);

    /// A message has come that answers no request: perhaps that keys have changed.
    fn told(&self, message: &[u8]);

    /// The connection is lost: what changes from now on is not said.
    fn lost(&self);

    /// A read was answered. Whoever else waits for it is answered as well, and the one who sent it after that.
    fn landed(&self, id: ReadId, answer: &mut Answer, done: &mut Completions);

    /// These requests were sent, so the caller must not read what was there before them.
    fn wrote(&self, requests: &[u8]);

    /// The request by which the server is asked to say when keys change.
    fn request(&self) -> &[u8];

    /// The server cannot be asked, and why.
    fn refused(&self, why: Error);
}

/// Where a cache finds a read that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadId {
    /// The hash of its key.
    pub(crate) hash: u64,
    /// Which of the reads of such keys.
    pub(crate) number: u64,
}

/// How a read has ended.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) payload: Payload,
    /// Whether the server remembers that the key was read here, as far as it was asked to.
    pub(crate) is_remembered: bool,
    pub(crate) lifetime: KeyLifetime,
}

impl Answer {
    /// One that nobody keeps true.
    fn unkept(payload: Payload) -> Self {
        Self { payload, is_remembered: false, lifetime: KeyLifetime::Unknown }
    }
}

/// For how long a key lives, as its server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyLifetime {
    /// Until somebody removes it; or it is not there.
    Endless,
    /// For so long from some time after the read was sent.
    For(Duration),
    /// The server does not say.
    Unknown,
}

impl KeyLifetime {
    /// What PTTL has answered.
    pub(crate) fn of(reply: &[u8]) -> Self {
        match decode(reply) {
            Ok((Frame::Integer(..0), _)) => Self::Endless,
            Ok((Frame::Integer(left_ms), _)) => Self::For(Duration::from_millis(left_ms.unsigned_abs())),
            _ => Self::Unknown,
        }
    }
}

/// A read that is made for a cache.
pub(crate) struct Read {
    /// Which hears how it has ended, where it is not a connection's own that does.
    cache: Arc<dyn Cache>,
    id: ReadId,
    /// Who asked first; none once he was told something else.
    target: Option<Target>,
    /// Replies that come before the read's own.
    leading: u32,
    received: u32,
    answer: Answer,
}

impl Read {
    /// A read whose key the server is asked to remember by a request of its own, if `leading` says so.
    pub(crate) fn new(cache: Arc<dyn Cache>, id: ReadId, target: Target, leading: bool) -> Self {
        let payload = Payload::Failed(Error::closed("the read was given up"));
        let answer = Answer { is_remembered: !leading, ..Answer::unkept(payload) };
        Self { cache, id, target: Some(target), leading: leading.into(), received: 0, answer }
    }

    /// How many replies come for it.
    pub(crate) fn frames(&self) -> u32 {
        self.leading + 2
    }

    /// Who waits for it first, if he still does.
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

    /// Takes one reply; whether it is the last.
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

    /// Takes the reply to a read that was sent by itself, without what keeps it true.
    pub(super) fn take_alone(&mut self, reply: &[u8]) {
        self.answer = Answer::unkept(Payload::shared(reply));
    }

    /// The reply to the read itself, as far as one has come.
    pub(super) fn reply(&self) -> &[u8] {
        self.answer.payload.bytes()
    }

    /// Answers whoever waits with an error. Replies that come later are taken and dropped.
    pub(crate) fn fail(&mut self, error: &Error, done: &mut Completions) {
        self.answer.payload = Payload::Failed(error.clone());
        self.land(None, done);
    }

    /// Its answer is there. It came over the connection that keeps this cache true, where one is named.
    pub(super) fn land(&mut self, over: Option<&dyn Cache>, done: &mut Completions) {
        let Some(target) = self.target.take() else { return };
        over.unwrap_or(&*self.cache).landed(self.id, &mut self.answer, done);
        target.complete(self.answer.payload.clone(), done);
    }
}

impl Drop for Read {
    /// Nobody waits for ever for what was given up.
    fn drop(&mut self) {
        let mut done = Completions::default();
        if self.target.is_some() {
            self.fail(&Error::closed("the read was given up"), &mut done);
        }
    }
}
