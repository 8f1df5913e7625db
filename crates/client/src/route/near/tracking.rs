//! How the cache is kept true: what it hears from the connection, and what it makes of it.
//!
//! The server is asked to say which keys change (CLIENT TRACKING), on each connection anew. By default it remembers what was
//! read behind CLIENT CACHING YES (OPTIN); or it says everything about certain prefixes (BCAST). Whatever was read before it has
//! agreed is not kept. A connection that is lost takes everything with it.
//!
//! The server names keys and no databases, so a key that has changed goes in all of them. The client's own writes are not left to
//! the server: it would tell soon, but a caller who has written and then reads must not find what was there before. So what
//! the shared connection carries is looked through for writes, and their keys go at once, behind the sending: a read that was
//! sent before the write is not kept and takes in nobody else, and one that comes later travels behind the write.
//!
//! Called by the connection's reader and by whoever sends; any thread.

use sleeve_wire::frame::{Frame, decode};

use super::requests::{Change, changes};
use super::shards::Shards;
use crate::error::{Effect, Error, ErrorKind};
use crate::options::cache::CacheOptions;
use crate::pipe::near::{Answer, Cache, ReadId};
use crate::pipe::slot::Completions;
use crate::pipe::slot::Payload;
use crate::process::lock::Mutex;
use crate::request::Request;

/// Has the server remember the keys of the next command.
pub(super) const CACHING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

/// The cache, and what is known of its server.
pub(super) struct Tracking {
    pub(super) shards: Shards,
    pub(super) options: CacheOptions,
    /// What asks the server to say which keys change.
    request: Vec<u8>,
    /// Why it does not.
    refusal: Mutex<Option<Error>>,
}

impl Tracking {
    pub(super) fn new(shards: Shards, options: CacheOptions) -> Result<Self, Error> {
        let prefixes = options.prefixes.as_deref();
        let request = Request::bytes_of(|request| {
            request.arg(("CLIENT", "TRACKING", "ON"));
            match prefixes {
                None => _ = request.word("OPTIN"),
                Some(prefixes) => {
                    request.word("BCAST");
                    prefixes.iter().for_each(|prefix| _ = request.word("PREFIX").bytes(prefix));
                }
            }
        })?;
        Ok(Self { shards, options, request, refusal: Mutex::new(None) })
    }

    /// Whether the server is to be told which reads to remember.
    pub(super) fn opts_in(&self) -> bool {
        self.options.prefixes.is_none()
    }

    /// Why nothing can be cached, if the server has said so.
    pub(super) fn refusal(&self) -> Option<Error> {
        if self.shards.is_tracked() { None } else { self.refusal.lock().clone() }
    }

    /// Some keys are true no longer.
    fn forget(&self, keys: Frame<'_>) {
        match keys {
            Frame::Array(keys) => keys.for_each(|key| match key {
                Ok(Frame::Bulk(key)) => self.shards.forget(key, true),
                _ => self.shards.forget_all(),
            }),
            // FLUSHALL and FLUSHDB name none; what cannot be understood may mean any.
            _ => self.shards.forget_all(),
        }
    }
}

impl Cache for Tracking {
    fn asked(&self, reply: &[u8]) {
        match Payload::of(reply).into_error() {
            None => {
                *self.refusal.lock() = None;
                self.shards.track(true);
            }
            Some(error) => self.refused(Error::new(
                ErrorKind::Server,
                Effect::None,
                format!(
                    "the server does not say which keys change ({}), so nothing can be cached: the near cache needs Redis 6 \
                     or later, Valkey or Sleeve, and the right to CLIENT TRACKING; without them read through the client \
                     itself",
                    error.message()
                ),
            )),
        }
    }

    fn told(&self, message: &[u8]) {
        let Ok((Frame::Push(mut items), _)) = decode(message) else { return };
        if let Some(Ok(Frame::Bulk(b"invalidate") | Frame::Simple(b"invalidate"))) = items.next() {
            self.forget(items.next().and_then(Result::ok).unwrap_or(Frame::Null));
        }
    }

    fn lost(&self) {
        *self.refusal.lock() = None;
        self.shards.track(false);
    }

    fn landed(&self, place: ReadId, answer: &mut Answer, done: &mut Completions) {
        if let Some(refusal) = self.refusal()
            && answer.payload.frame().is_ok()
        {
            answer.payload = Payload::Failed(refusal);
        }
        self.shards.land(place, answer, done);
    }

    fn wrote(&self, requests: &[u8]) {
        changes(requests, |change| match change {
            Change::Key(key) => self.shards.forget(key, false),
            Change::Everything => self.shards.forget_all(),
        });
    }

    fn request(&self) -> &[u8] {
        &self.request
    }

    fn refused(&self, why: Error) {
        // A server that was asked twice and is already telling has nothing to refuse.
        if !self.shards.is_tracked() {
            *self.refusal.lock() = Some(why);
        }
    }
}
