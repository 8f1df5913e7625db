//! The spine of the client: the bytes that are to be written, and the askers that wait for the replies.
//!
//! Requests are gathered in order into an out-buffer, each with an entry that names its asker. Writing moves the buffer out
//! and its entries to the in-flight queue; replies arrive in the same order and pop them. That is all of pipelining and
//! multiplexing. Three more things are decided here. A SELECT goes in front of a request if the database on the wire is
//! another. A transaction with conditions holds back the requests after it until its looks are answered. And when a
//! connection breaks, the bytes that had left are compared with the bytes of each entry: a request that had left whole is
//! lost with an unknown effect; a request that had not is kept and goes out first on the next connection.
//!
//! It takes bytes and gives bytes: no socket, no clock (times are arguments, in milliseconds), no thread. Its owner keeps it
//! under one short lock, from any thread; it runs no foreign code: wake-ups are collected and happen elsewhere.

mod cut;
pub(crate) mod driver_number;
pub(crate) mod in_flight;
pub(crate) mod ledger;
pub(crate) mod near;
pub(crate) mod payload;
pub(crate) mod queued;
pub(crate) mod refused;
pub(crate) mod reply_reader;
mod resend;
pub(crate) mod routed;
pub(crate) mod segment;
#[cfg(test)]
mod simulation;
pub(crate) mod slot;
pub(crate) mod synced;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub(crate) mod timeout;
pub(crate) mod transaction_state;

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;

use crate::error::Error;
use crate::request::EncodedRequest;
use crate::request::name::Name;
use in_flight::{Asker, Entry, HELD_BYTES, Time, Unit, call_task, is_before, issued};
use refused::hold::{Hold, Pause, ends_script};
use resend::{LastWritten, ReplayBuffer, RetryBudget};
use routed::Routed;
use segment::{Precedence, Segment};
use slot::{FIRST_CONNECTION, Handle, Source, Target};
use transaction_state::TransactionState;

/// An emptied out-buffer larger than this is given back to the allocator.
const KEPT_CAPACITY_MAX: usize = 1024 * 1024;

/// Releases the keys that a transaction watched.
pub(crate) const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";

/// An emptied in-flight queue with room for more entries than this is given back to the allocator.
const KEPT_ENTRIES_MAX: usize = 32 * 1024;

/// The state of writing: whether anything may leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteState {
    /// There is no connection.
    Closed,
    Open,
    /// A writer has the bytes and is writing them.
    Lent,
}

/// The queue of one connection.
pub(crate) struct Pipe {
    /// Segments that go out before `out`.
    backlog: VecDeque<Segment>,
    /// The segment in which requests are gathered.
    out: Segment,
    /// Bytes on their way to the socket; the first `written` of them have left. Lent to the writer.
    writing: Vec<u8>,
    written: usize,
    /// The bytes that were written last, whole, until others are to be written; and the replay buffer of earlier bytes that
    /// are not answered.
    last_written: Vec<u8>,
    replay_buffer: ReplayBuffer,
    retry_budget: RetryBudget,
    /// The reads that were sent again on this connection, because another broke, stand before this place of it.
    retried_until: u64,
    /// True if the oldest request in flight is not sent again: its reply cannot be taken.
    blames_oldest: bool,
    /// The precedence of the requests in `writing`.
    writing_precedence: Precedence,
    write_state: WriteState,
    in_flight: VecDeque<Entry>,
    /// The number of entries at the front of `in_flight` that have already been told that they timed out.
    expired: usize,
    /// The next deadline that a request has of its own, or an earlier time.
    next_due_ms: Option<u32>,
    /// Requests that were told that they timed out.
    pub(crate) timeouts: u64,
    /// Bytes that left on this connection, and how many of them belong to answered entries.
    sent: u64,
    answered: u64,
    /// The size of everything that is not answered: its bytes, except those of `dead`, and [`HELD_BYTES`] each.
    queued: usize,
    /// Bytes that are gathered for callers that were told that they timed out: they are taken out before they may leave.
    dead: usize,
    /// The reason why nothing may be written after the bytes in flight, if there is one.
    hold: Hold,
    pause: Pause,
    /// The end of the bytes on this connection that left alone last.
    probe_end: u64,
    /// True if the connection is not in the database that it should be in, because a SELECT was turned away.
    is_elsewhere: bool,
    /// The database that the last gathered request leaves the connection in.
    database: u32,
    /// The database that the connection is in when all that has begun to leave is executed.
    wire_database: u32,
    /// The database that a fresh connection is in.
    home: u32,
    /// True if a transaction with watched keys was taken out before it was executed: the keys are to be released.
    unwatches: bool,
    source: Source,
    /// The number of the connection that is there, or comes next.
    connection: u32,
}

impl Pipe {
    pub(crate) fn new(home: u32, source: Source) -> Self {
        Self {
            backlog: VecDeque::new(),
            out: Segment::default(),
            writing: Vec::new(),
            written: 0,
            last_written: Vec::new(),
            replay_buffer: ReplayBuffer::default(),
            retry_budget: RetryBudget::new(),
            retried_until: 0,
            blames_oldest: false,
            writing_precedence: Precedence::Normal,
            write_state: WriteState::Closed,
            in_flight: VecDeque::new(),
            expired: 0,
            next_due_ms: None,
            timeouts: 0,
            sent: 0,
            answered: 0,
            queued: 0,
            dead: 0,
            hold: Hold::Nothing,
            pause: Pause::default(),
            probe_end: 0,
            is_elsewhere: false,
            database: home,
            wire_database: home,
            home,
            unwatches: false,
            source,
            connection: FIRST_CONNECTION,
        }
    }

    /// Gathers one request and returns the end that its caller waits on.
    #[inline]
    pub(crate) fn push(&mut self, database: u32, request: EncodedRequest<'_>, now_ms: u32) -> Handle {
        let (target, handle) = self.source.pair(request.name);
        self.gather(Asker::Slot(target), 1, database, request.bytes, Time::Issued(now_ms));
        handle
    }

    /// Queues a request as `push` does, with a deadline of its own, which is no later than that of any other that is sent
    /// now. Returns also whether no deadline is known to be earlier: the watcher of deadlines has to be notified then.
    pub(crate) fn push_due(&mut self, database: u32, request: EncodedRequest<'_>, due_ms: u32) -> (Handle, bool) {
        let (target, handle) = self.source.pair(request.name);
        self.gather(Asker::Slot(target), 1, database, request.bytes, Time::Due(due_ms));
        let is_next = self.next_due_ms.is_none_or(|next_ms| is_before(due_ms, next_ms));
        if is_next {
            self.next_due_ms = Some(due_ms);
        }
        (handle, is_next)
    }

    /// Gathers several requests with nothing in between.
    pub(crate) fn push_units(&mut self, units: Vec<Unit>, bytes: &[u8], now_ms: u32) {
        self.push_units_at(units, bytes, |_| Time::Issued(now_ms));
    }

    /// Queues requests as `push_units` does, if they were issued earlier; they time out after `limit_ms`, if ever. Returns
    /// whether no deadline is known to be earlier than one of theirs: as in `push_due`.
    pub(crate) fn push_issued(&mut self, units: Vec<Unit>, bytes: &[u8], now_ms: u32, limit_ms: Option<u32>) -> bool {
        let mut next_ms = self.next_due_ms;
        self.push_units_at(units, bytes, |unit| {
            let time = issued(unit.issued_ms, now_ms, limit_ms);
            if let Time::Due(due_ms) = time {
                next_ms = next_ms.filter(|next_ms| !is_before(due_ms, *next_ms)).or(Some(due_ms));
            }
            time
        });
        let is_next = next_ms != self.next_due_ms;
        self.next_due_ms = next_ms;
        is_next
    }

    fn push_units_at(&mut self, units: Vec<Unit>, bytes: &[u8], mut time: impl FnMut(&Unit) -> Time) {
        let mut rest = bytes;
        for unit in units {
            let (request, after) = rest.split_at_checked(unit.length).unwrap_or((rest, &[]));
            rest = after;
            let time = time(&unit);
            self.gather(Asker::Slot(unit.target), 1, unit.database, request, time);
        }
    }

    /// Gathers a request of a cluster. Whether it has a deadline of its own, and none is known to be earlier.
    pub(crate) fn push_routed(&mut self, routed: Routed) -> bool {
        let (frames, database, request) = (routed.frames(), routed.database, routed.request());
        let (at_ms, is_due) = (routed.at_ms, routed.is_due);
        let time = if is_due { Time::Due(at_ms) } else { Time::Issued(at_ms) };
        self.gather(Asker::Routed(Box::new(routed)), frames, database, &request, time);
        let is_next = is_due && self.next_due_ms.is_none_or(|next_ms| is_before(at_ms, next_ms));
        if is_next {
            self.next_due_ms = Some(at_ms);
        }
        is_next
    }

    /// Gathers a transaction; one with conditions also holds back every request after it.
    pub(crate) fn push_transaction(&mut self, state: TransactionState, database: u32, request: &[u8], now_ms: u32) {
        let (holds, frames) = (state.holds(), state.frames());
        if holds {
            self.close_segment();
        }
        self.gather(Asker::Transaction(Box::new(state)), frames, database, request, Time::Issued(now_ms));
        if holds {
            self.out.holds = true;
            self.close_segment();
        }
    }

    /// Returns the two ends of an answer that is not the reply to a request.
    pub(crate) fn pair(&mut self, name: Name) -> (Target, Handle) {
        self.source.pair(name)
    }

    /// Gathers a request of the connection itself, in whichever database it is, and returns the end that its answer comes to.
    pub(crate) fn push_here(&mut self, request: EncodedRequest<'_>, now_ms: u32) -> Handle {
        self.push(self.database, request, now_ms)
    }

    /// Gathers a request with an answer that no caller waits for.
    pub(crate) fn push_unasked(&mut self, asker: Asker, request: &[u8], now_ms: u32) {
        self.gather(asker, 1, self.database, request, Time::Issued(now_ms));
    }

    /// Gathers a request that takes `frames` replies.
    #[inline]
    pub(crate) fn gather(&mut self, asker: Asker, frames: u32, database: u32, request: &[u8], time: Time) {
        if self.is_held() && self.hold.is_refusing() && ends_script(&asker, request) {
            return self.gather_urgent(asker, request, time);
        }
        self.queued += self.out.push(asker, frames, (database, &mut self.database), request, time);
    }

    fn close_segment(&mut self) {
        if !self.out.entries.is_empty() {
            self.backlog.push_back(mem::take(&mut self.out));
        }
    }

    /// Returns the size of the requests that are not answered yet, for the bound on the queue.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the number of bytes that are gathered and not on their way.
    #[inline]
    pub(crate) fn gathered(&self) -> usize {
        let last = self.out.bytes.len() - self.out.start;
        if self.backlog.is_empty() { last } else { last + self.backlog.iter().map(Segment::length).sum::<usize>() }
    }

    /// Returns whether more is gathered than one request.
    #[inline]
    pub(crate) fn is_burst(&self) -> bool {
        let last = self.out.entries.len();
        let before = || self.backlog.iter().map(|segment| segment.entries.len()).sum::<usize>();
        last > 1 || (!self.backlog.is_empty() && last + before() > 1)
    }

    /// Returns the number of requests that are written or being written, and not answered yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns whether nothing waits to be written or answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.out.entries.is_empty() && self.backlog.is_empty()
    }

    /// Returns whether a writer has the bytes and is writing them.
    pub(crate) fn is_lent(&self) -> bool {
        self.write_state == WriteState::Lent
    }

    /// Returns whether there are bytes that may be written now, and no writer has them yet.
    #[inline]
    pub(crate) fn can_write(&self) -> bool {
        self.write_state == WriteState::Open && (!self.writing.is_empty() || self.may_begin())
    }

    /// Returns whether there is a segment that may leave now.
    #[inline]
    fn may_begin(&self) -> bool {
        (!self.out.bytes.is_empty() || !self.backlog.is_empty())
            && (!self.is_held() || !self.hold.is_on() || self.is_urgent())
    }

    /// Returns whether anything but the order of the gathered requests decides which may leave.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.hold, Hold::Nothing)
    }

    /// Returns whether the first in line leaves even while others are held back.
    fn is_urgent(&self) -> bool {
        self.backlog.front().is_some_and(|segment| segment.precedence == Precedence::Urgent)
    }

    /// Lends the bytes to be written and how many of them have left already. Give them back with [`Pipe::wrote`].
    #[inline]
    pub(crate) fn lend(&mut self) -> Option<(Vec<u8>, usize)> {
        if self.can_write() { self.lend_what_is_next() } else { None }
    }

    fn lend_what_is_next(&mut self) -> Option<(Vec<u8>, usize)> {
        if self.writing.is_empty() {
            if self.dead > 0 {
                self.gather_again(|_, _| true);
                if !self.may_begin() {
                    return None;
                }
            }
            self.next_segment();
        }
        self.write_state = WriteState::Lent;
        Some((mem::take(&mut self.writing), self.written))
    }

    /// Begins to write the next segment.
    fn next_segment(&mut self) {
        if mem::take(&mut self.unwatches) {
            let (database, length) = (self.wire_database, UNWATCH.len());
            let time = self.first_segment().entries.front().map_or(Time::Issued(0), Entry::time);
            let entry = Entry::new(Asker::Nobody, 1, false, database, length, time);
            self.queued += entry.held();
            self.backlog.push_front(Segment::of_one(entry, UNWATCH.to_vec()));
        } else if (self.is_held() || self.is_elsewhere) && !self.is_urgent() {
            self.choose_next();
        }
        let mut segment = self.backlog.pop_front();
        let segment = segment.as_mut().unwrap_or(&mut self.out);
        mem::swap(&mut self.writing, &mut segment.bytes);
        self.written = mem::take(&mut segment.start);
        self.writing_precedence = segment.precedence;
        if mem::take(&mut segment.holds) {
            self.hold = Hold::Transaction;
        }
        if let Some(last) = segment.entries.back_mut() {
            if segment.precedence == Precedence::Urgent && !last.selects {
                // It was gathered for whichever database the connection is in.
                last.database = self.wire_database;
            }
            self.wire_database = last.database;
        }
        if self.in_flight.is_empty() {
            mem::swap(&mut self.in_flight, &mut segment.entries);
        } else {
            self.replay_buffer.append(LastWritten { bytes: &self.last_written, sent: self.sent }, self.answered);
            self.last_written.clear();
            self.in_flight.append(&mut segment.entries);
        }
        if self.writing_precedence == Precedence::Retry {
            self.reselect();
        }
    }

    /// Takes the lent bytes back, of which `count` more have left.
    pub(crate) fn wrote(&mut self, bytes: Vec<u8>, count: usize) {
        self.write_state = WriteState::Open;
        self.writing = bytes;
        self.written += count;
        self.sent += count as u64;
        if self.written >= self.writing.len() {
            self.written = 0;
            mem::swap(&mut self.writing, &mut self.last_written);
            self.writing.clear();
            if self.last_written.capacity() > KEPT_CAPACITY_MAX {
                self.last_written = Vec::new();
            }
        }
    }

    /// Moves the entries with replies that are all among the first `replies` into `pending`, which is empty. An entry that
    /// waits for more stays in flight, where its time is watched.
    ///
    /// Returns false if there are replies without an asker.
    pub(crate) fn take(&mut self, replies: usize, pending: &mut VecDeque<Entry>) -> bool {
        let (mut rest, mut count, mut length) = (replies, 0, 0);
        for entry in &self.in_flight {
            let Some(after) = rest.checked_sub(entry.replies as usize) else { break };
            rest = after;
            length += entry.length;
            count += 1;
        }
        self.expired = self.expired.saturating_sub(count);
        self.answered += length as u64;
        if let Hold::Probing { selects } = self.hold
            && self.answered >= self.probe_end
        {
            // If it was turned away that is said next, before anything may leave.
            self.hold = if selects { Hold::ProbeNext } else { Hold::Recovered };
        }
        self.queued -= length + count * HELD_BYTES;
        if count == self.in_flight.len() && self.in_flight.capacity() <= KEPT_ENTRIES_MAX {
            mem::swap(pending, &mut self.in_flight);
        } else {
            pending.extend(self.in_flight.drain(..count));
        }
        if self.in_flight.is_empty() && self.in_flight.capacity() > KEPT_ENTRIES_MAX {
            self.in_flight = VecDeque::new();
        }
        rest == 0 || self.take_select(pending)
    }

    /// Takes replies as `take` does, if the replies that are left are only a part of those that the first entry waits for:
    /// its SELECT's becomes an entry of its own. The other replies of a transaction wait for the last.
    #[cold]
    fn take_select(&mut self, pending: &mut VecDeque<Entry>) -> bool {
        let Some(first) = self.in_flight.front_mut() else { return false };
        // A request that has not left whole may be sent again, with its SELECT.
        if first.selects && self.answered + first.length as u64 <= self.sent {
            (first.selects, first.replies) = (false, first.replies - 1);
            pending.push_back(Entry::new(Asker::Nobody, 1, true, first.database, 0, first.time()));
        }
        true
    }

    /// Returns the database that the last gathered request leaves the connection in.
    #[cfg(feature = "embedded")]
    pub(crate) fn database(&self) -> u32 {
        self.database
    }

    /// Notes that a SELECT was executed that did not go through this pipe.
    #[cfg(feature = "embedded")]
    pub(crate) fn set_database(&mut self, database: u32) {
        self.database = database;
    }

    /// Begins a fresh connection: the gathered requests may leave.
    pub(crate) fn connect(&mut self) {
        self.write_state = WriteState::Open;
    }

    /// Returns the number of the connection that is there, or is made next.
    pub(crate) fn connection(&self) -> u32 {
        self.connection
    }

    /// Returns whether requests can leave at once.
    pub(crate) fn is_connected(&self) -> bool {
        self.write_state != WriteState::Closed
    }

    /// Returns whether a caller may sleep until one of the requests in flight is answered.
    pub(crate) fn is_awaited(&self) -> bool {
        self.in_flight.iter().any(|entry| entry.asker.is_awaited())
    }

    /// Calls a task to read; see [`call_task`].
    pub(crate) fn call_task(&self) -> Option<Waker> {
        call_task(&self.in_flight, self.expired)
    }

    /// Returns the first segment with requests in it, or the empty one where they are gathered.
    fn first_segment(&mut self) -> &mut Segment {
        while self.backlog.front().is_some_and(|segment| segment.entries.is_empty()) {
            self.backlog.pop_front();
        }
        self.backlog.front_mut().unwrap_or(&mut self.out)
    }
}

/// Returns the error of a request with a database that could not be selected.
pub(crate) fn select_failed(reply: &[u8]) -> Error {
    Error::protocol(format_args!("SELECT was answered with {}", reply.escape_ascii()))
}
