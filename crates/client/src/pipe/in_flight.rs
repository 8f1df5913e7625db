//! What the pipe keeps of a request until it is answered: who asked, and what its bytes were worth.
//!
//! Pure data; whoever has the pipe or the reply reader has its entries.

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::near::{Cache, Read};
use super::routed::{Accepted, Routed};
use super::slot::{Completions, Payload, Target};
use super::transaction_state::{Step, TransactionState};
use crate::error::{Effect, Error};
use crate::request::name::Name;

/// How many requests are unanswered at least when a task is called to read for the others.
const COMPANY_MIN: usize = 4;

/// Among how many of the oldest requests a task is looked for that may read.
const CALLED_MAX: usize = 8;

/// A request that was issued before it is gathered may be told so much too late that its time is up: this part of the time.
pub(crate) const LATE_SHARE: u32 = 16;

/// Who gets the replies of an entry.
pub(crate) enum Asker {
    /// One caller, one reply.
    Slot(Target),
    /// A transaction: many replies.
    Transaction(Box<TransactionState>),
    /// A read for a cache: several replies.
    Read(Box<Read>),
    /// One caller, one reply, unless a node of a cluster turns the request away.
    Routed(Box<Routed>),
    /// Whoever is told how far the disk is; with true, the replicas too.
    Follow(bool),
    /// The cache that is to be told when keys change.
    Tracking,
    /// Nobody any more: the caller was told something else, or never cared.
    Nobody,
}

impl Asker {
    /// Whether nobody waits for the answer.
    pub(crate) fn is_abandoned(&self) -> bool {
        match self {
            Self::Slot(target) => target.is_abandoned(),
            Self::Routed(routed) => routed.is_abandoned(),
            Self::Transaction(transaction) => transaction.is_abandoned(),
            Self::Read(_) => false,
            Self::Follow(_) | Self::Tracking | Self::Nobody => true,
        }
    }

    /// Whether somebody may sleep until the answer comes.
    pub(super) fn is_awaited(&self) -> bool {
        match self {
            Self::Slot(target) => target.is_awaited(),
            Self::Read(read) => read.target().is_some_and(Target::is_awaited),
            Self::Routed(_) | Self::Transaction(_) => true,
            Self::Follow(_) | Self::Tracking | Self::Nobody => false,
        }
    }

    /// Whether nobody is told anything by the answer: whoever asked was told something else, or never cared.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Transaction(transaction) => transaction.is_over(),
            Self::Nobody => true,
            Self::Read(read) => read.target().is_none(),
            Self::Slot(_) | Self::Routed(_) | Self::Follow(_) | Self::Tracking => false,
        }
    }

    /// The waker of the task that waits for the answer, if a task does: see [`Target::call`].
    pub(crate) fn call(&self) -> Option<Waker> {
        match self {
            Self::Slot(target) => target.call(),
            Self::Read(read) => read.target()?.call(),
            // Whoever waits for one that was sent to another node before does not read here.
            Self::Routed(routed) if routed.is_first() => routed.target()?.call(),
            _ => None,
        }
    }

    /// The request left then, and its reply came then: noted where one caller wants to know.
    pub(super) fn stamp(&self, left_us: u64, came_us: u64) {
        match self {
            Self::Slot(target) => target.stamp(left_us, came_us),
            Self::Routed(routed) => routed.target().into_iter().for_each(|target| target.stamp(left_us, came_us)),
            _ => {}
        }
    }

    /// Which command was asked for; none when nobody asked.
    pub(crate) fn name(&self) -> Option<Name> {
        match self {
            Self::Slot(target) => Some(target.name()),
            Self::Transaction(transaction) => transaction.name(),
            Self::Read(read) => read.target().map(Target::name),
            Self::Routed(routed) => Some(routed.name),
            Self::Follow(_) | Self::Tracking | Self::Nobody => None,
        }
    }

    /// Takes a reply to a request of a cluster, over the connection that keeps this cache true, if it keeps one. Where the node
    /// has turned it away it comes back; otherwise the reply is the caller's, as any other.
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

    /// Gives an error to whoever asked. What takes several replies keeps its place, so that they are taken and its end is seen.
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

/// One request, or one unit of requests, from when it is gathered until it is answered.
pub(crate) struct Entry {
    pub(crate) asker: Asker,
    /// Replies that come for it, its SELECT's included.
    pub(crate) replies: u32,
    /// Whether a SELECT of its own goes ahead of it.
    pub(crate) selects: bool,
    /// The database that it runs in.
    pub(crate) database: u32,
    /// When its caller sent it, on the link's wrapping clock; where it has a deadline of its own, when that is.
    pub(crate) at_ms: u32,
    /// Whether it has a deadline of its own.
    pub(crate) has_deadline: bool,
    /// Whether it writes, had left on a connection that was lost, and is to be sent again: it may have been executed.
    pub(crate) had_left: bool,
    /// Bytes that it takes on the wire, its SELECT included.
    pub(crate) length: usize,
}

/// What is kept of a request beside its bytes while it is unanswered, about: its entry, the slot of its answer, and room that
/// grows ahead of what is in it.
pub(crate) const HELD_BYTES: usize = 128;

/// When the time of a request is up, on the link's wrapping clock of milliseconds.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    /// As long after this as any command may take.
    Issued(u32),
    /// At this time.
    Due(u32),
}

/// When the time of a request is up that was issued then, and is gathered now, if it may take so long.
pub(crate) fn issued(issued_ms: u32, now_ms: u32, limit_ms: Option<u32>) -> Time {
    match limit_ms {
        // What is older than those ahead of it has to be watched by its own time: of the others only the first are.
        Some(limit_ms) if is_before(issued_ms.wrapping_add(limit_ms / LATE_SHARE), now_ms) => {
            Time::Due(issued_ms.wrapping_add(limit_ms))
        }
        _ => Time::Issued(now_ms),
    }
}

/// Whether one time of a wrapping clock of milliseconds is before another.
#[inline]
pub(crate) fn is_before(time_ms: u32, other_ms: u32) -> bool {
    (time_ms.wrapping_sub(other_ms) as i32) < 0
}

/// How long it is until a time of a wrapping clock of milliseconds; nothing where that has come.
pub(crate) fn left_ms(until_ms: u32, now_ms: u32) -> u32 {
    if is_before(until_ms, now_ms) { 0 } else { until_ms.wrapping_sub(now_ms) }
}

/// The longest time that the wrapping clock can watch over, in milliseconds: twelve days.
pub(crate) const LIMIT_MS_MAX: u32 = u32::MAX / 4;

pub(crate) fn limit_ms(limit: Option<Duration>) -> u32 {
    limit.map_or(0, |limit| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).clamp(1, LIMIT_MS_MAX))
}

impl Entry {
    #[inline]
    pub(super) fn new(asker: Asker, replies: u32, selects: bool, database: u32, length: usize, time: Time) -> Self {
        let (at_ms, has_deadline) = match time {
            Time::Issued(at_ms) => (at_ms, false),
            Time::Due(at_ms) => (at_ms, true),
        };
        Self { asker, replies, selects, database, at_ms, has_deadline, had_left: false, length }
    }

    /// What it counts for, as long as it is unanswered.
    pub(super) fn held(&self) -> usize {
        self.length + HELD_BYTES
    }

    /// Replies that come for it, without its SELECT's.
    pub(super) fn frames(&self) -> u32 {
        self.replies - u32::from(self.selects)
    }

    /// Gives an error to whoever asked. One that says that nothing was sent is not true of what had left before.
    pub(crate) fn fail(&mut self, error: &Error, done: &mut Completions) {
        if self.had_left && error.effect() == Effect::None {
            let message = format!("{error}; it had left on a connection that was lost, so its effect is unknown");
            return self.asker.fail(&Error::new(error.kind(), Effect::Unknown, message), done);
        }
        self.asker.fail(error, done);
    }

    /// When its time is up.
    pub(crate) fn time(&self) -> Time {
        if self.has_deadline { Time::Due(self.at_ms) } else { Time::Issued(self.at_ms) }
    }
}

/// One request of a unit that goes out without anything in between.
pub(crate) struct Unit {
    pub(crate) database: u32,
    pub(crate) target: Target,
    /// How many bytes of the unit's buffer are this request's.
    pub(crate) length: usize,
    /// When it was issued, on the link's wrapping clock, where that was before it is sent; of no meaning elsewhere.
    pub(crate) issued_ms: u32,
}

/// The waker of a task that waits for one of the oldest replies, if one does, and others wait too: woken by it, the task comes
/// to read. So many at the front were told that time is up.
pub(crate) fn call_task(in_flight: &VecDeque<Entry>, expired: usize) -> Option<Waker> {
    if in_flight.len() - expired < COMPANY_MIN {
        return None;
    }
    in_flight.iter().skip(expired).take(CALLED_MAX).find_map(|entry| entry.asker.call())
}
