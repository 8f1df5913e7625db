//! Invalidation over connections: the messages and events that arrive, and their effect on the cache.
//!
//! The server is asked to report changed keys (CLIENT TRACKING), on each connection anew. By default it remembers the keys
//! that were read behind CLIENT CACHING YES (OPTIN); or it reports every key with certain prefixes (BCAST). Replies that
//! arrive before its confirmation are not kept. A lost connection empties the cache.
//!
//! The server names keys and no databases, so the replies of a changed key are removed in all databases. The client's own
//! writes do not wait for the server's report: it would come soon, but a caller that has written and then reads must not find
//! the old value. So the requests on the shared connection are searched for writes, and the replies of their keys are removed
//! at once, after the request is queued. A read that was sent before the write is then not kept and takes in no more waiters,
//! and a later read travels behind the write.
//!
//! Over a cluster each node reports changes of the slots that it owns, on the connection to it. If that connection is lost,
//! only its replies are removed. `owners` knows which connection invalidates a slot.
//!
//! Called by the connections' readers and by senders; any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sleeve_wire::frame::{Frame, decode};

use super::owners::NOBODY;
use super::requests::{Change, changes};
use super::shards::{Over, Shards};
use crate::cache::options::CacheOptions;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::cached_read::{Answer, Cache, ReadId};
use crate::pipe::slot::Completions;
use crate::pipe::slot::Payload;
use crate::resp::request::Request;
use crate::sys::lock::Mutex;
use crate::sys::planted::{self, Fault};
use crate::transport::slot_cache::SlotCache;

/// Makes the server remember the keys of the next command.
pub(super) const CACHING: &[u8] = b"*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$3\r\nYES\r\n";

/// The cache, and the request that makes servers report changes.
pub(super) struct Tracking {
    pub(super) shards: Shards,
    pub(super) options: CacheOptions,
    /// The request for reports of changed keys.
    request: Vec<u8>,
    /// The number of the last connection that was added.
    last: AtomicU32,
}

impl Tracking {
    pub(super) fn new(shards: Shards, options: CacheOptions) -> Result<Arc<Self>, Error> {
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
        Ok(Arc::new(Self { shards, options, request, last: AtomicU32::new(NOBODY) }))
    }

    /// Returns whether each read has to tell the server to remember its key (OPTIN).
    pub(super) fn opts_in(&self) -> bool {
        self.options.prefixes.is_none()
    }

    /// Adds a connection that invalidates replies.
    pub(super) fn connect(self: &Arc<Self>) -> Connection {
        // The first connection gets the number of [`Tenure::ENDLESS`].
        Connection::new(Arc::clone(self), self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Returns a connection for replies that no connection invalidates.
    pub(super) fn nobody(self: &Arc<Self>) -> Connection {
        Connection::new(Arc::clone(self), NOBODY)
    }

    fn forget_written(&self, requests: &[u8]) {
        if planted::has(Fault::LeavesOwnWrites) {
            return;
        }
        changes(requests, |change| match change {
            Change::Key(key) => self.shards.forget(key, false),
            Change::Everything => self.shards.forget_all(),
        });
    }
}

impl SlotCache for Tracking {
    fn join(self: Arc<Self>) -> (u32, Arc<dyn Cache>) {
        let connection = self.connect();
        (connection.number(), Arc::new(connection))
    }

    fn follow(&self, connection_of: &mut dyn FnMut(u16) -> u32) {
        self.shards.owners.iter().for_each(|owners| owners.follow(connection_of));
    }

    fn wrote(&self, requests: &[u8]) {
        self.forget_written(requests);
    }
}

/// The cache as one connection invalidates it, and the state of its server.
pub(super) struct Connection {
    pub(super) tracking: Arc<Tracking>,
    number: u32,
    /// True if the server reports changes. The connection's reader sets it, in the order of the messages.
    is_tracked: AtomicBool,
    /// The reason why the server does not report changes.
    refusal: Mutex<Option<Error>>,
}

impl Connection {
    fn new(tracking: Arc<Tracking>, number: u32) -> Self {
        Self { tracking, number, is_tracked: AtomicBool::new(false), refusal: Mutex::new(None) }
    }

    /// Returns the connection's number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether the server reports changes.
    pub(super) fn is_tracked(&self) -> bool {
        self.is_tracked.load(Ordering::Relaxed)
    }

    pub(super) fn set_tracked(&self, is_tracked: bool) {
        self.is_tracked.store(is_tracked, Ordering::Relaxed);
    }

    /// Returns the reason why nothing can be cached, if the server refuses to report changes.
    pub(super) fn refusal(&self) -> Option<Error> {
        if self.is_tracked() { None } else { self.refusal.lock().clone() }
    }

    /// Applies an invalidation message: removes the replies of its keys.
    fn forget(&self, keys: Frame<'_>) {
        let shards = &self.tracking.shards;
        match keys {
            Frame::Array(_) if planted::has(Fault::MissesInvalidations) => {}
            Frame::Null if planted::has(Fault::MissesFlushes) => {}
            Frame::Array(keys) => keys.for_each(|key| match key {
                Ok(Frame::Bulk(key)) => shards.forget(key, true),
                _ => shards.forget_all(),
            }),
            // FLUSHALL and FLUSHDB name no keys. They, and a message that cannot be read, may concern any key.
            _ => shards.forget_all(),
        }
    }
}

impl Cache for Connection {
    fn asked(&self, reply: &[u8]) {
        match Payload::of(reply).into_error() {
            None => {
                *self.refusal.lock() = None;
                self.set_tracked(true);
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
        self.set_tracked(false);
        if !planted::has(Fault::StaysAcrossConnections) {
            self.tracking.shards.forget_of(self.number);
        }
    }

    fn landed(&self, place: ReadId, answer: &mut Answer, done: &mut Completions) {
        if let Some(refusal) = self.refusal()
            && answer.payload.frame().is_ok()
        {
            answer.payload = Payload::Failed(refusal);
        }
        let over = Over { connection: self.number, is_tracked: self.is_tracked() };
        self.tracking.shards.land(place, over, answer, done);
    }

    fn wrote(&self, requests: &[u8]) {
        self.tracking.forget_written(requests);
    }

    fn request(&self) -> &[u8] {
        &self.tracking.request
    }

    fn refused(&self, why: Error) {
        // A server that was asked twice may refuse the second request although it reports changes; that is no refusal.
        if !self.is_tracked() {
            *self.refusal.lock() = Some(why);
        }
    }
}
