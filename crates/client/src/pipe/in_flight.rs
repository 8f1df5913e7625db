//! The pipe's record of a request until it is answered: its asker, and the length of its bytes; and segments, the bytes of
//! requests that are written in one go, with their entries.
//!
//! Requests that are taken from the front of a segment are not moved away: the segment remembers the position of its first
//! request. Pure data; the owner of the pipe or of the reply reader has its entries.

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;
use std::time::Duration;

use super::cached_read::{Cache, Read};
use super::routed::{Accepted, Routed};
use super::slot::{Completions, Payload, Target};
use super::transaction_state::{Step, TransactionState};
use crate::error::{Effect, Error};
use crate::request::name::Name;

/// The least number of unanswered requests with which a task is woken to read on behalf of the others.
const COMPANY_MIN: usize = 4;

/// The number of the oldest requests among which a task is sought that may read.
const CALLED_MAX: usize = 8;

/// The divisor of a request's timeout that gives the largest delay of its timeout error, if it was issued before it is
/// gathered.
pub(crate) const LATE_SHARE: u32 = 16;

/// The request that releases the keys that a transaction watched.
pub(crate) const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";

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

/// One request, or one unit of requests, from the time when it is gathered until it is answered.
pub(crate) struct Entry {
    pub(crate) asker: Asker,
    /// The number of replies that the entry takes, its SELECT's included.
    pub(crate) replies: u32,
    /// True if the entry has a SELECT of its own ahead of it.
    pub(crate) selects: bool,
    /// The database in which the request runs.
    pub(crate) database: u32,
    /// The time at which its caller sent it, on the link's wrapping clock; for a request with a deadline of its own, that
    /// deadline.
    pub(crate) at_ms: u32,
    /// True if the request has a deadline of its own.
    pub(crate) has_deadline: bool,
    /// True if the request writes, had left on a connection that was lost, and is to be sent again: it may have been
    /// executed.
    pub(crate) had_left: bool,
    /// The number of bytes that the entry takes on the wire, its SELECT included.
    pub(crate) length: usize,
}

/// The approximate memory that an unanswered request takes beyond its bytes: its entry, the slot of its answer, and spare
/// capacity of the queues.
pub(crate) const HELD_BYTES: usize = 128;

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

impl Entry {
    #[inline]
    pub(super) fn new(asker: Asker, replies: u32, selects: bool, database: u32, length: usize, time: Time) -> Self {
        let (at_ms, has_deadline) = match time {
            Time::Issued(at_ms) => (at_ms, false),
            Time::Due(at_ms) => (at_ms, true),
        };
        Self { asker, replies, selects, database, at_ms, has_deadline, had_left: false, length }
    }

    /// Returns the number of bytes that the entry counts against the bound on the queue, as long as it is unanswered.
    pub(super) fn held(&self) -> usize {
        self.length + HELD_BYTES
    }

    /// Returns the number of replies that the entry takes, without its SELECT's.
    pub(super) fn frames(&self) -> u32 {
        self.replies - u32::from(self.selects)
    }

    /// Gives an error to the asker. If the request had left before, an error that says that it was not sent is replaced.
    pub(crate) fn fail(&mut self, error: &Error, done: &mut Completions) {
        if self.had_left && error.effect() == Effect::None {
            let message = format!("{error}; it had left on a connection that was lost, so its effect is unknown");
            return self.asker.fail(&Error::new(error.kind(), Effect::Unknown, message), done);
        }
        self.asker.fail(error, done);
    }

    /// Returns whether the request has no deadline of its own, and was issued before this time.
    pub(super) fn was_issued_before(&self, before_ms: u32) -> bool {
        !self.has_deadline && is_before(self.at_ms, before_ms)
    }

    /// Returns whether the request had a deadline of its own, and has timed out.
    pub(super) fn has_timed_out(&self) -> bool {
        self.has_deadline && matches!(self.asker, Asker::Nobody)
    }

    /// Returns the time at which the request times out.
    pub(crate) fn time(&self) -> Time {
        if self.has_deadline { Time::Due(self.at_ms) } else { Time::Issued(self.at_ms) }
    }
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

/// Takes the waker of a task that waits for one of the oldest replies, if there is such a task and other callers wait too:
/// the woken task then reads for all. `expired` requests at the front have timed out.
pub(crate) fn call_task(in_flight: &VecDeque<Entry>, expired: usize) -> Option<Waker> {
    if in_flight.len() - expired < COMPANY_MIN {
        return None;
    }
    in_flight.iter().skip(expired).take(CALLED_MAX).find_map(|entry| entry.asker.call())
}

/// The number of bytes of removed requests that stay in a segment, so that the bytes behind them are not moved.
const GAP_KEPT_MAX: usize = 64 * 1024;

/// The longest SELECT, in bytes.
pub(crate) const SELECT_LENGTH_MAX: usize = 40;

/// The precedence of requests: the order in which they leave, and whether they leave while others are held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// Requests that leave first, and are never held back: they end the script that holds up the server, or a transaction
    /// that has begun.
    Urgent,
    /// Requests that the server has refused for the moment. They leave before those that were sent after them, and may lack
    /// SELECTs.
    Retry,
    #[default]
    Normal,
}

/// The bytes of requests that leave together, and the entries that wait for their replies.
#[derive(Default)]
pub(crate) struct Segment {
    pub(crate) bytes: Vec<u8>,
    /// The position in `bytes` at which the first of `entries` begins.
    pub(crate) start: usize,
    pub(crate) entries: VecDeque<Entry>,
    /// True if no segment may be written after this one until it is answered.
    pub(crate) holds: bool,
    pub(crate) precedence: Precedence,
}

impl Segment {
    /// Creates a segment of one request.
    pub(crate) fn of_one(entry: Entry, bytes: Vec<u8>) -> Self {
        Self { bytes, entries: VecDeque::from([entry]), ..Self::default() }
    }

    /// Appends a request, with a SELECT ahead of it if the connection is in another database by then. Returns the number of
    /// bytes that it counts against the bound on the queue.
    #[inline]
    pub(crate) fn push(
        &mut self,
        asker: Asker,
        frames: u32,
        (database, selected): (u32, &mut u32),
        request: &[u8],
        time: Time,
    ) -> usize {
        let before = self.bytes.len();
        let selects = database != *selected;
        if selects {
            write_select(&mut self.bytes, database);
            *selected = database;
        }
        self.bytes.extend_from_slice(request);
        let length = self.bytes.len() - before;
        let replies = frames + u32::from(selects);
        self.entries.push_back(Entry::new(asker, replies, selects, database, length, time));
        length + HELD_BYTES
    }

    /// Passes each request of the segment to `take`, without its SELECT.
    pub(crate) fn for_each(self, mut take: impl FnMut(Entry, &[u8])) {
        let mut rest = self.bytes.get(self.start..).unwrap_or_default();
        for entry in self.entries {
            let (bytes, after) = rest.split_at_checked(entry.length).unwrap_or((rest, &[]));
            rest = after;
            let own = if entry.selects { select_length(entry.database) } else { 0 };
            take(entry, bytes.get(own..).unwrap_or_default());
        }
    }

    /// Returns the number of bytes of the segment's requests.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns the number of bytes that the segment's requests count against the bound on the queue.
    pub(crate) fn held(&self) -> usize {
        self.length() + self.entries.len() * HELD_BYTES
    }

    /// Returns the bytes of the segment's requests.
    pub(crate) fn rest(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Takes the first request out, without its bytes.
    pub(crate) fn remove_first(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.start += entry.length;
        if self.entries.is_empty() {
            *self = Self::default();
        } else if self.start > GAP_KEPT_MAX && self.start > self.bytes.len() / 2 {
            // The bytes that are moved are no more than those that were removed since the last time.
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        Some(entry)
    }

    /// Takes the first request out, with its bytes.
    pub(crate) fn detach_first(&mut self) -> Option<Self> {
        let length = self.entries.front()?.length;
        let bytes = self.rest().get(..length).unwrap_or_default().to_vec();
        let holds = self.holds && self.entries.len() == 1;
        let precedence = self.precedence;
        let entry = self.remove_first()?;
        Some(Self { holds, precedence, ..Self::of_one(entry, bytes) })
    }
}

/// Appends the request that selects a database.
pub(crate) fn write_select(out: &mut Vec<u8>, database: u32) {
    let digits = sleeve_wire::number::Digits::new(i64::from(database));
    let digits = digits.as_bytes();
    // A u32 has at most ten digits.
    if let 0..10 = digits.len() {
        out.extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n$");
        out.push(b'0' + digits.len() as u8);
    } else {
        out.extend_from_slice(b"*2\r\n$6\r\nSELECT\r\n$10");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(digits);
    out.extend_from_slice(b"\r\n");
}

/// Returns the number of bytes of the request that selects a database.
pub(crate) fn select_length(database: u32) -> usize {
    let mut select = Vec::new();
    write_select(&mut select, database);
    select.len()
}
