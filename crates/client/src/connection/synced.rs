//! How whoever has a reply hears that its effect is synced, or replicated.
//!
//! On the connection that all share a Sleeve server says so in messages of its own, for which it is asked when the first wants
//! to know (`pipe/synced`). Where a connection has one owner, a lease for one, WAIT and WAITAOF say it on that very connection:
//! they are about what their own connection has written, and hold up nobody else.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Link, Shared};
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::in_flight::Asker;
use crate::pipe::queued::Sent;
use crate::pipe::slot::{Completions, Handle};
use crate::pipe::synced::Synced;
use crate::process::fork::inherited;
use crate::request::blocking_commands::BlockTimeout;
use crate::request::level::Level;
use crate::request::name::Name;
use crate::request::{EncodedRequest, Request};
use crate::sys::clock_ms;

impl Link {
    /// Has whoever asked for a command of this name, and has its answer, told when its effect is so safe. The command was sent
    /// on the connection of this number.
    pub(super) fn tell_safe(&self, level: Level, name: Name, sent_on: u32) -> Result<Handle, Error> {
        if !self.process.is_this() {
            return Err(inherited());
        }
        if self.is_common.load(Ordering::Relaxed) {
            return Err(Error::usage(format!(
                "{name} is done, but no node of a cluster says on a shared connection when it is {level}: send the command by \
                 client.lease(), and ask its reply there"
            )));
        }
        if !self.is_lasting() {
            return self.ask_alone(level, sent_on);
        }
        if self.is_blocking.load(Ordering::Relaxed) {
            // The command has its answer, so its own time is over.
            self.set_block_timeout(BlockTimeout::For(Duration::ZERO));
        }
        let mut reply_reader = self.reply_reader.lock();
        let mut shared = self.shared.lock();
        if sent_on != shared.pipe.connection() {
            return Err(Error::unsynced("the connection on which it was sent is not there any more"));
        }
        if shared.has_ended() {
            return Err(Error::unsynced(&self.ended()));
        }
        if let Some(refusal) = reply_reader.synced.refusal() {
            return Err(refusal.clone());
        }
        let (target, handle) = shared.pipe.pair(name);
        self.syncs.store(true, Ordering::Relaxed);
        let now_ms = clock_ms();
        let asks = reply_reader.synced.enter(level, target, now_ms);
        drop(reply_reader);
        if asks {
            shared.pipe.push_unasked(Asker::Follow(level.is_of_replicas()), level.question(), now_ms);
            self.pushed(shared);
        } else if shared.is_unwatched() {
            self.wake(shared);
        }
        Ok(handle)
    }

    /// Asks on a connection that its caller has for itself, and that is never made again: another one would know nothing of
    /// what this one has written.
    fn ask_alone(&self, level: Level, sent_on: u32) -> Result<Handle, Error> {
        if sent_on != self.connection.load(Ordering::Relaxed) {
            return Err(Error::unsynced(&self.ended()));
        }
        let milliseconds = self.limit_ms().unwrap_or(0);
        let write = |request: &mut Request| match level {
            Level::Synced => _ = request.begin_with("WAITAOF").arg((1, 0, milliseconds)),
            Level::Replicated(count) => _ = request.begin_with("WAIT").arg((count, milliseconds)),
            Level::SyncedOn(count) => _ = request.begin_with("WAITAOF").arg((0, count, milliseconds)),
        };
        let database = self.config.database;
        let send = |request: EncodedRequest<'_>| match self.send(database, request)? {
            Some(handle) => Ok(Sent::Slot(handle)),
            None => self.send_when_there_is_room(database, request, None),
        };
        match Request::with(write, send)?? {
            Sent::Slot(handle) => Ok(handle),
            Sent::Queued(queued) => queued.into_handle(false).ok_or_else(|| Error::unsynced(&self.ended())),
            Sent::Ready(..) => Err(Error::protocol("a connection never answers at once")),
        }
    }

    /// Tells those whose time is up that it is, and says how long the next has. For the connection's task.
    #[inline]
    pub(super) fn review_syncs(&self, done: &mut Completions) -> Option<Duration> {
        if self.syncs.load(Ordering::Relaxed) { self.review_waiting(done) } else { None }
    }

    #[cold]
    fn review_waiting(&self, done: &mut Completions) -> Option<Duration> {
        let mut reply_reader = self.reply_reader.lock();
        if reply_reader.synced.is_empty() {
            self.syncs.store(false, Ordering::Relaxed);
            return None;
        }
        let limit_ms = self.limit_ms()?;
        let late = |name: Name, level: Level| {
            let limit = Duration::from_millis(limit_ms.into());
            let message = format!(
                "{name} was answered by {}, but not {level} within the command timeout of {limit:?}; whether it will be is unknown",
                self.config.endpoint
            );
            Error::new(ErrorKind::Timeout, Effect::Unknown, message)
        };
        let left_ms = reply_reader.synced.expire(clock_ms(), limit_ms, late, done);
        left_ms.map(|left_ms| Duration::from_millis(left_ms.max(limit_ms / 16).into()))
    }

    /// Whether the connection may end as far as those are concerned who wait until something is synced.
    pub(super) fn owes_no_sync(&self) -> bool {
        !self.syncs.load(Ordering::Relaxed)
            || self.reply_reader.try_lock().is_some_and(|reply_reader| reply_reader.synced.is_empty())
    }

    /// The connection is lost: those who wait are told so. The pipe has been cut.
    pub(super) fn cut_syncs(&self, shared: &Shared, synced: &mut Synced, why: &str) -> Completions {
        self.connection.store(shared.pipe.connection(), Ordering::Relaxed);
        let mut done = Completions::default();
        synced.cut(why, &mut done);
        done
    }
}
