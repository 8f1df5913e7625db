//! The asker of a request, which gets its reply: a caller, a transaction, a cache, or no receiver at all; and the time at which
//! the request times out.
//!
//! Times are those of a wrapping clock of milliseconds. Pure data; the owner of the pipe or of the reply reader has it.

use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::cached_read::{Cache, Read};
use super::routed::{Accepted, Routed};
use super::slot::{Completions, Payload, Target};
use super::transaction_state::{Step, TransactionState};
use crate::error::Error;
use crate::resp::request::name::Name;

/// The divisor of a request's timeout that gives the largest delay of its timeout error, if it was issued before it is
/// gathered.
pub(crate) const LATE_SHARE: u32 = 16;

/// The receiver of the replies of an entry.
pub(crate) enum Asker {
    /// One caller, one reply.
    Slot(Target),
    /// A transaction: many replies.
    Transaction(Box<TransactionState>),
    /// A read for a cache: several replies.
    Read(Box<Read>),
    /// One caller, one reply, unless a node of a cluster refuses the request.
    Routed(Box<Routed>),
    /// The callers that wait until the disk has their writes; with true, until replicas have them too.
    Follow(bool),
    /// The cache that is notified when keys change.
    Tracking,
    /// The absence of a receiver: the caller was given another answer, or never waited for one.
    Nobody,
}

impl Asker {
    /// Returns whether no caller waits for the answer.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Slot(target) => target.is_abandoned(),
            Self::Routed(routed) => routed.is_abandoned(),
            Self::Transaction(transaction) => transaction.is_abandoned(),
            Self::Read(_) => false,
            Self::Follow(_) | Self::Tracking | Self::Nobody => true,
        }
    }

    /// Returns whether a caller may sleep until the answer comes.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            Self::Slot(target) => target.is_awaited(),
            Self::Read(read) => read.target().is_some_and(Target::is_awaited),
            Self::Routed(_) | Self::Transaction(_) => true,
            Self::Follow(_) | Self::Tracking | Self::Nobody => false,
        }
    }

    /// Returns whether the answer goes to no caller: the caller was given another answer, or never waited for one.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Transaction(transaction) => transaction.is_over(),
            Self::Nobody => true,
            Self::Read(read) => read.target().is_none(),
            Self::Slot(_) | Self::Routed(_) | Self::Follow(_) | Self::Tracking => false,
        }
    }

    /// Returns the waker of the task that waits for the answer, if a task does: see [`Target::call`].
    pub(crate) fn call(&self) -> Option<Waker> {
        match self {
            Self::Slot(target) => target.call(),
            Self::Read(read) => read.target()?.call(),
            // A caller of a request that was sent to another node before does not read on this connection.
            Self::Routed(routed) if routed.is_first() => routed.target()?.call(),
            _ => None,
        }
    }

    /// Notes the times at which the request left and its reply arrived, if its call is timed.
    pub(super) fn stamp(&self, left_us: u64, came_us: u64) {
        match self {
            Self::Slot(target) => target.stamp(left_us, came_us),
            Self::Routed(routed) => routed.target().into_iter().for_each(|target| target.stamp(left_us, came_us)),
            _ => {}
        }
    }

    /// Returns the name of the command; none if there is no asker.
    pub(crate) fn name(&self) -> Option<Name> {
        match self {
            Self::Slot(target) => Some(target.name()),
            Self::Transaction(transaction) => transaction.name(),
            Self::Read(read) => read.target().map(Target::name),
            Self::Routed(routed) => Some(routed.name),
            Self::Follow(_) | Self::Tracking | Self::Nobody => None,
        }
    }

    /// Takes a reply to a request of a cluster. `over` is the cache that this connection invalidates, if there is one. A
    /// request that the node has refused comes back; otherwise the reply is the caller's.
    pub(super) fn accept_routed(&mut self, reply: &[u8], over: Option<&dyn Cache>, done: &mut Completions) -> Step {
        let Self::Routed(routed) = mem::replace(self, Self::Nobody) else { return Step::Done };
        match routed.accept(reply, over, done) {
            Accepted::More(routed) => {
                *self = Self::Routed(routed);
                return Step::More;
            }
            Accepted::Answered(target) => *self = Self::Slot(target),
            Accepted::Over => {}
        }
        Step::Done
    }

    /// Gives an error to the asker. An entry that takes several replies keeps its place, so that the replies are taken and
    /// its end is noticed.
    pub(crate) fn fail(&mut self, error: &Error, done: &mut Completions) {
        match mem::replace(self, Self::Nobody) {
            Self::Slot(target) => target.complete(Payload::Failed(error.clone()), done),
            Self::Routed(routed) => routed.fail(error, done),
            Self::Transaction(mut transaction) => {
                transaction.fail(error, done);
                *self = Self::Transaction(transaction);
            }
            Self::Read(mut read) => {
                read.fail(error, done);
                *self = Self::Read(read);
            }
            Self::Follow(_) | Self::Tracking | Self::Nobody => {}
        }
    }
}

/// The time at which a request times out, on the link's wrapping clock of milliseconds.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    /// The time at which the request was issued; it times out when the command timeout has passed since then.
    Issued(u32),
    /// The deadline of the request.
    Due(u32),
}

/// Returns the time that is watched for a request that was issued at `issued_ms`, is gathered now, and times out after
/// `limit_ms`.
pub(crate) fn issued(issued_ms: u32, now_ms: u32, limit_ms: Option<u32>) -> Time {
    match limit_ms {
        // A request that is older than those ahead of it needs a deadline of its own, because of the others only the first
        // are watched.
        Some(limit_ms) if is_before(issued_ms.wrapping_add(limit_ms / LATE_SHARE), now_ms) => {
            Time::Due(issued_ms.wrapping_add(limit_ms))
        }
        _ => Time::Issued(now_ms),
    }
}

/// Returns whether one time of a wrapping clock of milliseconds is before another.
#[inline]
pub(crate) fn is_before(time_ms: u32, other_ms: u32) -> bool {
    (time_ms.wrapping_sub(other_ms) as i32) < 0
}

/// Returns the time until a time of a wrapping clock of milliseconds; 0 if that has passed.
pub(crate) fn left_ms(until_ms: u32, now_ms: u32) -> u32 {
    if is_before(until_ms, now_ms) { 0 } else { until_ms.wrapping_sub(now_ms) }
}

/// The longest time for which the wrapping clock can be used, in milliseconds: twelve days.
pub(crate) const LIMIT_MS_MAX: u32 = u32::MAX / 4;

pub(crate) fn limit_ms(limit: Option<Duration>) -> u32 {
    limit.map_or(0, |limit| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).clamp(1, LIMIT_MS_MAX))
}

/// One of several requests that leave without another request between them.
pub(crate) struct Unit {
    pub(crate) database: u32,
    pub(crate) target: Target,
    /// The length of this request in the unit's buffer, in bytes.
    pub(crate) length: usize,
    /// The time at which the request was issued, on the link's wrapping clock, if that was before it is sent; otherwise it
    /// has no meaning.
    pub(crate) issued_ms: u32,
}
