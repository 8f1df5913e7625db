//! The wait of a caller that has a reply until the command's effect is synced, or replicated.
//!
//! On the shared connection a Sleeve server reports that in messages of its own; it is asked for them when the first caller
//! waits (`pipe/durability`). If a connection has one owner, for example a lease, WAIT and WAITAOF on that very connection
//! answer the question: they are about the writes of their own connection, and hold up no other caller.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::link::Link;
use super::state::Shared;
use crate::error::{Effect, Error, ErrorKind};
use crate::pipe::asker::Asker;
use crate::pipe::durability::DurabilityWaits;
use crate::pipe::queued::Sent;
use crate::pipe::slot::{Completions, Handle};
use crate::resp::request::blocking_commands::BlockTimeout;
use crate::resp::request::level::Level;
use crate::resp::request::name::Name;
use crate::resp::request::{EncodedRequest, Request};
use crate::sys::clock_ms;
use crate::sys::inherited;

/// Returns a handle that is done when the effect of an answered command of this name has reached this level of durability.
/// The command was sent on the connection of this number.
pub(super) fn tell_safe(link: &Link, level: Level, name: Name, sent_on: u32) -> Result<Handle, Error> {
    if !link.process.is_this() {
        return Err(inherited());
    }
    if link.tenure.is_common.load(Ordering::Relaxed) {
        return Err(Error::usage(format!(
            "{name} is done, but no node of a cluster says on a shared connection when it is {level}: send the command by \
             client.lease(), and ask its reply there"
        )));
    }
    if !link.is_lasting() {
        return ask_alone(link, level, sent_on);
    }
    if link.tenure.is_blocking.load(Ordering::Relaxed) {
        // The command has its answer, so the time for which it might wait on the server no longer counts.
        link.set_block_timeout(BlockTimeout::For(Duration::ZERO));
    }
    let mut reply_reader = link.reply_reader.lock();
    let mut shared = link.shared.lock();
    if sent_on != shared.pipe.connection() {
        return Err(Error::unsynced("the connection on which it was sent is not there any more"));
    }
    if shared.has_ended() {
        return Err(Error::unsynced(&link.ended()));
    }
    if let Some(refusal) = reply_reader.durability.refusal() {
        return Err(refusal.clone());
    }
    let (target, handle) = shared.pipe.pair(name);
    link.syncs.store(true, Ordering::Relaxed);
    let now_ms = clock_ms();
    let asks = reply_reader.durability.enter(level, target, now_ms);
    drop(reply_reader);
    if asks {
        shared.pipe.push_unasked(Asker::Follow(level.is_of_replicas()), level.question(), now_ms);
        link.pushed(shared);
    } else if shared.is_unwatched() {
        link.wake(shared);
    }
    Ok(handle)
}

/// Sends WAIT or WAITAOF on a connection that one caller owns and that is never made again: another connection would know
/// nothing of the writes of this one.
fn ask_alone(link: &Link, level: Level, sent_on: u32) -> Result<Handle, Error> {
    if sent_on != link.connection.load(Ordering::Relaxed) {
        return Err(Error::unsynced(&link.ended()));
    }
    let milliseconds = link.limit_ms().unwrap_or(0);
    let write = |request: &mut Request| match level {
        Level::Synced => _ = request.begin_with("WAITAOF").arg((1, 0, milliseconds)),
        Level::Replicated(count) => _ = request.begin_with("WAIT").arg((count, milliseconds)),
        Level::SyncedOn(count) => _ = request.begin_with("WAITAOF").arg((0, count, milliseconds)),
    };
    let database = link.config.database;
    let send = |request: EncodedRequest<'_>| match link.send(database, request)? {
        Some(handle) => Ok(Sent::Slot(handle)),
        None => link.send_when_there_is_room(database, request, None),
    };
    match Request::with(write, send)?? {
        Sent::Slot(handle) => Ok(handle),
        Sent::Queued(queued) => queued.into_handle(false).ok_or_else(|| Error::unsynced(&link.ended())),
        Sent::Ready(..) => Err(Error::protocol("a connection never answers at once")),
    }
}

/// Fails the callers that timed out, and returns the time that the next one has left. Called by the connection's task.
#[inline]
pub(super) fn review(link: &Link, done: &mut Completions) -> Option<Duration> {
    if link.syncs.load(Ordering::Relaxed) { review_waiting(link, done) } else { None }
}

#[cold]
fn review_waiting(link: &Link, done: &mut Completions) -> Option<Duration> {
    let mut reply_reader = link.reply_reader.lock();
    if reply_reader.durability.is_empty() {
        link.syncs.store(false, Ordering::Relaxed);
        return None;
    }
    let limit_ms = link.limit_ms()?;
    let late = |name: Name, level: Level| {
        let limit = Duration::from_millis(limit_ms.into());
        let message = format!(
            "{name} was answered by {}, but not {level} within the command timeout of {limit:?} (Config::command_timeout); \
             whether it will be is unknown",
            link.config.endpoint
        );
        Error::new(ErrorKind::Timeout, Effect::Unknown, message)
    };
    let left_ms = reply_reader.durability.expire(clock_ms(), limit_ms, late, done);
    left_ms.map(|left_ms| Duration::from_millis(left_ms.max(limit_ms / 16).into()))
}

/// Returns whether no caller waits on this connection until an effect is synced, so that the connection may end.
pub(super) fn owes_no_sync(link: &Link) -> bool {
    !link.syncs.load(Ordering::Relaxed)
        || link.reply_reader.try_lock().is_some_and(|reply_reader| reply_reader.durability.is_empty())
}

/// Fails the waiting callers, because the connection is lost. The pipe has been cut before.
pub(super) fn cut(link: &Link, shared: &Shared, waits: &mut DurabilityWaits, why: &str) -> Completions {
    link.connection.store(shared.pipe.connection(), Ordering::Relaxed);
    let mut done = Completions::default();
    waits.cut(why, &mut done);
    done
}
