//! Invalidation over an engine in this process: a session that receives the engine's invalidations.
//!
//! The session reads missing keys, in the caller's thread. The engine sets a flag when it has an invalidation, before the
//! write that changed a key returns. A caller that looks for a reply first checks the flag, and then takes the session's
//! invalidations. So a read that begins after a write has returned never finds the value from before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sleeve_server::{Engine, Local};
use sleeve_wire::frame::Scanner;

use super::shards::CacheRead;
use super::tracking::Connection;
use crate::pipe::cached_read::{Answer, Cache, KeyLifetime};
use crate::pipe::queue::write_select;
use crate::pipe::slot::Payload;
use crate::sys::lock::Mutex;
use crate::transport::embedded::clock::EngineClock;

/// The request for RESP3, the protocol that has messages.
const HELLO: &[u8] = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";

/// A session of an embedded engine that reads for the cache and receives invalidations.
pub(super) struct Listening {
    engine: Arc<Engine>,
    clock: EngineClock,
    /// True if the engine has messages for the session.
    has_mail: Arc<AtomicBool>,
    /// True while a thread takes in invalidations. In that time they may have been taken, so that the flag is down, and not
    /// be applied yet; a caller that checks then waits. It is set before the flag is cleared, so it is read after the flag.
    is_hearing: AtomicBool,
    connection: Connection,
    session: Mutex<Option<Session>>,
}

struct Session {
    local: Local,
    clock: EngineClock,
    database: u32,
    received: Vec<u8>,
}

/// The session answers no more requests, or does not answer at once.
struct Lost;

impl Listening {
    pub(super) fn new((engine, clock): (&Arc<Engine>, &EngineClock), connection: Connection) -> Self {
        let (engine, clock) = (Arc::clone(engine), clock.clone());
        let (has_mail, is_hearing, session) = Default::default();
        Self { engine, clock, has_mail, is_hearing, connection, session }
    }

    /// Applies the session's invalidations, if there are any.
    #[inline]
    pub(super) fn hear(&self) {
        if self.has_mail.load(Ordering::Acquire) || self.is_hearing.load(Ordering::Acquire) {
            self.hear_now();
        }
    }

    #[cold]
    fn hear_now(&self) {
        let mut session = self.session.lock();
        self.exchange(&mut session, &[]);
    }

    /// Reads a missing key. Returns none if the engine does not answer at once, because other callers would have to wait for
    /// it.
    pub(super) fn read(&self, wanted: CacheRead<'_>, requests: &[u8]) -> Option<Payload> {
        let tracking = &self.connection.tracking;
        let mut session = self.session.lock();
        if session.is_none() {
            *session = self.open();
        }
        // Another caller may have read it while this one waited for the session.
        if let Some(payload) = tracking.shards.find(wanted) {
            return Some(payload);
        }
        let mut travelling = Vec::with_capacity(requests.len() + 32);
        let selects = session.as_ref().is_some_and(|session| session.database != wanted.database);
        if selects {
            write_select(&mut travelling, wanted.database);
        }
        travelling.extend_from_slice(requests);
        let leading = usize::from(selects);
        let replies = self.exchange(&mut session, &travelling)?;
        let remembering = usize::from(tracking.opts_in());
        if replies.len() != leading + remembering + 2 {
            // The engine holds up the command. A later reply would be taken for the reply to the next request.
            self.lose(&mut session);
            return None;
        }
        let is_ok = |reply: Option<&Vec<u8>>| reply.is_some_and(|reply| reply == b"+OK\r\n");
        if selects && !is_ok(replies.first()) {
            return None;
        }
        if let Some(session) = session.as_mut() {
            session.database = wanted.database;
        }
        let mut replies = replies.into_iter().skip(leading);
        let is_remembered = remembering == 0 || is_ok(replies.next().as_ref());
        let payload = Payload::shared(&replies.next()?);
        let answer = Answer { payload, is_remembered, lifetime: KeyLifetime::of(&replies.next()?) };
        tracking.shards.keep(wanted, &answer, self.connection.is_tracked());
        Some(answer.payload)
    }

    /// Opens a session that receives invalidations.
    fn open(&self) -> Option<Session> {
        let clock = self.clock.clone();
        let local = clock.connect_with_flag(&self.engine, Arc::clone(&self.has_mail));
        let mut session = Some(Session { local, clock, database: 0, received: Vec::new() });
        let replies = self.exchange(&mut session, &[HELLO, self.connection.request()].concat())?;
        self.connection.asked(replies.get(1)?);
        session
    }

    /// Sends requests and returns their replies; messages that arrive between them are applied.
    fn exchange(&self, session: &mut Option<Session>, requests: &[u8]) -> Option<Vec<Vec<u8>>> {
        let open = session.as_mut()?;
        self.is_hearing.store(true, Ordering::Release);
        let replies = open.exchange(&self.connection, requests);
        if replies.is_err() {
            self.lose(session);
        }
        self.is_hearing.store(false, Ordering::Release);
        replies.ok()
    }

    /// Ends the session; its later invalidations are not received.
    fn lose(&self, session: &mut Option<Session>) {
        *session = None;
        self.connection.lost();
    }
}

impl Session {
    fn exchange(&mut self, connection: &Connection, requests: &[u8]) -> Result<Vec<Vec<u8>>, Lost> {
        self.received.clear();
        let outcome = self.clock.exchange(&mut self.local, requests, &mut self.received);
        let (mut rest, mut replies) = (self.received.as_slice(), Vec::new());
        while let Ok(Some(length)) = Scanner::new().scan(rest) {
            let (frame, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            match frame.first() {
                Some(b'>') => connection.told(frame),
                _ => replies.push(frame.to_vec()),
            }
            rest = after;
        }
        outcome.map(|()| replies).map_err(|_| Lost)
    }
}
