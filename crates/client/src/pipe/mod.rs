//! The pipe, the centre of the client: the bytes that are to be written, and the askers that wait for the replies.
//!
//! Requests are gathered in order into an out-buffer, each with an entry that names its asker. Writing moves the buffer out
//! and its entries to the in-flight queue; replies arrive in the same order and remove the entries. That is all of pipelining
//! and multiplexing. Three more things are decided here. A SELECT goes in front of a request if the connection is in another
//! database. A transaction with conditions holds back the requests after it until its conditions are checked. And when a
//! connection breaks, the number of bytes that had left is compared with the bytes of each entry: a request that had left
//! whole is lost with an unknown effect; a request that had not is kept and goes out first on the next connection.
//!
//! The pipe takes bytes and gives bytes: no socket, no clock (times are arguments, in milliseconds), no thread. Its owner
//! keeps it under one short lock, from any thread. It runs no foreign code: wake-ups are collected and happen elsewhere.

pub(crate) mod asker;
pub(crate) mod cached_read;
pub(crate) mod driver_number;
pub(crate) mod durability;
mod hold;
pub(crate) mod ledger;
pub(crate) mod queue;
pub(crate) mod queued;
mod replay;
pub(crate) mod reply_reader;
mod retry;
pub(crate) mod routed;
#[cfg(test)]
mod simulation;
pub(crate) mod slot;
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
use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;
use asker::{Asker, Time, Unit, issued};
use hold::{Hold, Refusals, ends_script};
use queue::{Entry, HELD_BYTES, LongRequest, Precedence, Segment, SendQueue, select_length};
use replay::{LastWritten, ReplayBuffer, RetryBudget};
use routed::Routed;
use slot::{FIRST_CONNECTION, Handle, Source, Target};
use transaction_state::TransactionState;

/// An emptied in-flight queue with room for more entries than this is given back to the allocator.
const KEPT_ENTRIES_MAX: usize = 32 * 1024;

/// The size above which an emptied out-buffer is given back to the allocator.
const KEPT_CAPACITY_MAX: usize = 1024 * 1024;

/// The least number of unanswered requests with which a task is woken to read on behalf of the others.
const COMPANY_MIN: usize = 4;

/// The number of the oldest requests among which a task is sought that may read.
const CALLED_MAX: usize = 8;

/// The beginning of a SELECT that goes ahead of a request.
const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n";

/// The state of writing: whether requests may leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteState {
    /// There is no connection.
    Closed,
    Open,
    /// A writer has the bytes and is writing them.
    Lent,
}

/// The bytes that one connection is writing or has written.
#[derive(Default)]
struct Writer {
    /// Bytes on their way to the socket; the first `written` of them have left. Lent to the thread that writes.
    bytes: Vec<u8>,
    written: usize,
    /// The precedence of the requests in `bytes`.
    precedence: Precedence,
    /// The number of bytes that left on this connection.
    sent: u64,
    /// The bytes that were written last, whole, until the next are written; below them the replay buffer of earlier bytes
    /// that are not answered.
    last_written: Vec<u8>,
    replay_buffer: ReplayBuffer,
}

impl Writer {
    /// Begins to write a segment.
    #[inline]
    fn begin(&mut self, segment: &mut Segment) {
        mem::swap(&mut self.bytes, &mut segment.bytes);
        self.written = mem::take(&mut segment.start);
        self.precedence = segment.precedence;
    }

    /// Copies the bytes that were written last into the replay buffer, because the next are written before those are
    /// answered. `answered` of the bytes that have left are answered.
    fn keep_last(&mut self, answered: u64) {
        self.replay_buffer.append(LastWritten { bytes: &self.last_written, sent: self.sent }, answered);
        self.last_written.clear();
    }

    /// Takes the lent bytes back, of which `count` more have left.
    #[inline]
    fn wrote(&mut self, bytes: Vec<u8>, count: usize) {
        self.bytes = bytes;
        self.written += count;
        self.sent += count as u64;
        if self.written >= self.bytes.len() {
            self.written = 0;
            mem::swap(&mut self.bytes, &mut self.last_written);
            self.bytes.clear();
            if self.last_written.capacity() > KEPT_CAPACITY_MAX {
                self.last_written = Vec::new();
            }
        }
    }

    /// Returns whether the bytes up to this position of the connection are kept, even while a thread writes later ones.
    fn keeps(&self, position: u64) -> bool {
        position <= self.replay_buffer.end()
    }

    /// Returns the request of an entry that begins at this position of the connection, without its SELECT; none if the bytes
    /// are gone.
    fn request_at(&self, entry: &Entry, position: u64, is_lent: bool) -> Option<&[u8]> {
        let bytes = match self.bytes.is_empty() {
            // The writer has the bytes that were written last; those before them are in the replay buffer already, or
            // answered.
            _ if is_lent => &[],
            true => self.last_written.as_slice(),
            false => self.bytes.get(..self.written).unwrap_or_default(),
        };
        let newest = LastWritten { bytes, sent: self.sent };
        let bytes = self.replay_buffer.get(position, position + entry.length as u64, newest)?;
        // The SELECT may be answered already, and have an entry of its own.
        bytes.get(if bytes.starts_with(SELECT) { select_length(entry.database) } else { 0 }..)
    }
}

/// The requests of one connection, from the time when they are gathered until they are answered.
pub(crate) struct Pipe {
    pub(crate) queue: SendQueue,
    writer: Writer,
    write_state: WriteState,
    in_flight: VecDeque<Entry>,
    /// The number of entries at the front of `in_flight` that have already timed out.
    expired: usize,
    /// The number of requests that timed out.
    pub(crate) timeouts: u64,
    /// The number of bytes that left on this connection and belong to answered entries.
    answered: u64,
    pub(crate) refusals: Refusals,
    budget: RetryBudget,
    source: Source,
    /// The number of the present connection, or of the next one if there is none.
    connection: u32,
}

impl Pipe {
    pub(crate) fn new(home: u32, source: Source) -> Self {
        Self {
            queue: SendQueue::new(home),
            writer: Writer::default(),
            write_state: WriteState::Closed,
            in_flight: VecDeque::new(),
            expired: 0,
            timeouts: 0,
            answered: 0,
            refusals: Refusals::default(),
            budget: RetryBudget::new(),
            source,
            connection: FIRST_CONNECTION,
        }
    }

    /// Gathers one request and returns the handle of its caller.
    #[inline]
    pub(crate) fn push(&mut self, database: u32, request: EncodedRequest<'_>, now_ms: u32) -> Handle {
        let (target, handle) = self.source.pair(request.name);
        self.gather(Asker::Slot(target), 1, database, request.bytes, Time::Issued(now_ms));
        handle
    }

    /// Gathers a request as `push` does, with a deadline of its own, which is no later than the timeout of any request that
    /// is sent now. Also returns whether no earlier deadline is known: the caller then has to notify the watch over
    /// deadlines.
    pub(crate) fn push_due(&mut self, database: u32, request: EncodedRequest<'_>, due_ms: u32) -> (Handle, bool) {
        let (target, handle) = self.source.pair(request.name);
        let time = Time::Due(due_ms);
        self.gather(Asker::Slot(target), 1, database, request.bytes, time);
        (handle, self.queue.note(time))
    }

    /// Gathers a long request as `push` and `push_due` do.
    pub(crate) fn push_long(&mut self, database: u32, name: Name, long: LongRequest, time: Time) -> (Handle, bool) {
        let (target, handle) = self.source.pair(name);
        self.queue.push_long(target, database, long, time);
        (handle, self.queue.note(time))
    }

    /// Gathers several requests without another request between them.
    pub(crate) fn push_units(&mut self, units: Vec<Unit>, bytes: &[u8], now_ms: u32) {
        self.push_units_at(units, bytes, |_| Time::Issued(now_ms));
    }

    /// Gathers requests as `push_units` does, if they were issued earlier. They time out after `limit_ms`, if it is given.
    /// Returns whether no earlier deadline than theirs is known, as `push_due` does.
    pub(crate) fn push_issued(&mut self, units: Vec<Unit>, bytes: &[u8], now_ms: u32, limit_ms: Option<u32>) -> bool {
        self.push_units_at(units, bytes, |unit| issued(unit.issued_ms, now_ms, limit_ms))
    }

    fn push_units_at(&mut self, units: Vec<Unit>, bytes: &[u8], time: impl Fn(&Unit) -> Time) -> bool {
        let (mut rest, mut is_next) = (bytes, false);
        for unit in units {
            let (request, after) = rest.split_at_checked(unit.length).unwrap_or((rest, &[]));
            rest = after;
            let time = time(&unit);
            self.gather(Asker::Slot(unit.target), 1, unit.database, request, time);
            is_next |= self.queue.note(time);
        }
        is_next
    }

    /// Gathers a request of a cluster. Returns whether it has a deadline of its own and no earlier one is known.
    pub(crate) fn push_routed(&mut self, routed: Routed) -> bool {
        let (frames, database, request) = (routed.frames(), routed.database, routed.request());
        let time = if routed.is_due { Time::Due(routed.at_ms) } else { Time::Issued(routed.at_ms) };
        self.gather(Asker::Routed(Box::new(routed)), frames, database, &request, time);
        self.queue.note(time)
    }

    /// Gathers a transaction; one with conditions also holds back every request after it.
    pub(crate) fn push_transaction(&mut self, state: TransactionState, database: u32, request: &[u8], now_ms: u32) {
        let (holds, frames) = (state.holds(), state.frames());
        if holds {
            self.queue.close_segment();
        }
        self.gather(Asker::Transaction(Box::new(state)), frames, database, request, Time::Issued(now_ms));
        if holds {
            self.queue.out.holds = true;
            self.queue.close_segment();
        }
    }

    /// Returns the two ends of an answer that is not the reply to a single request.
    pub(crate) fn pair(&mut self, name: Name) -> (Target, Handle) {
        self.source.pair(name)
    }

    /// Gathers a request of the connection itself, which runs in any database, and returns the handle for its answer.
    pub(crate) fn push_here(&mut self, request: EncodedRequest<'_>, now_ms: u32) -> Handle {
        self.push(self.queue.database, request, now_ms)
    }

    /// Gathers a request with an answer that no caller waits for.
    pub(crate) fn push_unasked(&mut self, asker: Asker, request: &[u8], now_ms: u32) {
        self.gather(asker, 1, self.queue.database, request, Time::Issued(now_ms));
    }

    /// Gathers a request that takes `frames` replies.
    #[inline]
    pub(crate) fn gather(&mut self, asker: Asker, frames: u32, database: u32, request: &[u8], time: Time) {
        if self.is_held() && self.refusals.is_refusing() && ends_script(&asker, request) {
            return self.queue.push_urgent(asker, request, time);
        }
        self.queue.push(asker, frames, database, request, time);
    }

    /// Returns the number of requests that are written or being written, and not answered yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the number of requests that are gathered or sent, and not answered yet.
    pub(crate) fn unanswered(&self) -> usize {
        self.in_flight.len() + self.queue.entries().count()
    }

    /// Returns whether no request waits to be written or answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.queue.is_empty()
    }

    /// Returns whether a writer has the bytes and is writing them.
    pub(crate) fn is_lent(&self) -> bool {
        self.write_state == WriteState::Lent
    }

    /// Returns whether there are bytes that may be written now, and no writer has them yet.
    #[inline]
    pub(crate) fn can_write(&self) -> bool {
        self.write_state == WriteState::Open && (!self.writer.bytes.is_empty() || self.may_begin())
    }

    /// Returns whether a refusal or a transaction decides which gathered requests may leave, and not their order alone.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        !matches!(self.refusals.hold, Hold::Nothing)
    }

    /// Returns whether there is a segment that may leave now.
    #[inline]
    fn may_begin(&self) -> bool {
        (!self.queue.out.bytes.is_empty() || !self.queue.backlog.is_empty())
            && (!self.is_held() || !self.refusals.hold.is_on() || self.queue.is_urgent())
    }

    /// Lends the bytes to be written, with the number of them that have left already. The writer gives them back with
    /// [`Pipe::wrote`].
    #[inline]
    pub(crate) fn lend(&mut self) -> Option<(Vec<u8>, usize)> {
        if self.can_write() { self.lend_what_is_next() } else { None }
    }

    fn lend_what_is_next(&mut self) -> Option<(Vec<u8>, usize)> {
        if self.writer.bytes.is_empty() {
            if self.queue.dead > 0 {
                self.queue.gather_again(|_, _| true);
                if !self.may_begin() {
                    return None;
                }
            }
            self.next_segment();
        }
        self.write_state = WriteState::Lent;
        Some((mem::take(&mut self.writer.bytes), self.writer.written))
    }

    /// Begins to write the next segment.
    fn next_segment(&mut self) {
        if mem::take(&mut self.queue.unwatches) {
            self.queue.push_unwatch();
        } else if (self.is_held() || self.refusals.is_elsewhere) && !self.queue.is_urgent() {
            self.choose_next();
        }
        let mut segment = self.queue.backlog.pop_front();
        let segment = segment.as_mut().unwrap_or(&mut self.queue.out);
        self.writer.begin(segment);
        if mem::take(&mut segment.holds) {
            self.refusals.hold = Hold::Transaction;
        }
        if let Some(last) = segment.entries.back_mut() {
            if segment.precedence == Precedence::Urgent && !last.selects {
                // The request was gathered for any database, so it runs in that of the connection.
                last.database = self.queue.wire_database;
            }
            self.queue.wire_database = last.database;
        }
        if self.in_flight.is_empty() {
            mem::swap(&mut self.in_flight, &mut segment.entries);
        } else {
            self.writer.keep_last(self.answered);
            self.in_flight.append(&mut segment.entries);
        }
        if self.writer.precedence == Precedence::Retry {
            self.queue.reselect();
        }
    }

    /// Takes the lent bytes back, of which `count` more have left.
    pub(crate) fn wrote(&mut self, bytes: Vec<u8>, count: usize) {
        self.write_state = WriteState::Open;
        self.writer.wrote(bytes, count);
    }

    /// Moves the entries with replies that are all among the first `replies` into `pending`, which is empty. An entry that
    /// waits for further replies stays in flight, where its timeout is watched.
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
        if let Hold::Probing { selects } = self.refusals.hold
            && self.answered >= self.refusals.probe_end
        {
            // If the probe was refused, `put_off` notes that next, before any request may leave.
            self.refusals.hold = if selects { Hold::ProbeNext } else { Hold::Recovered };
        }
        self.queue.held -= length + count * HELD_BYTES;
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

    /// Handles replies that are only a part of those that the first entry takes: the reply to its SELECT is split off as an
    /// entry of its own. A transaction takes its replies only when the last has arrived.
    #[cold]
    fn take_select(&mut self, pending: &mut VecDeque<Entry>) -> bool {
        let Some(first) = self.in_flight.front_mut() else { return false };
        // A request that has not left whole may be sent again, with its SELECT.
        if first.selects && self.answered + first.length as u64 <= self.writer.sent {
            (first.selects, first.replies) = (false, first.replies - 1);
            pending.push_back(Entry::new(Asker::Nobody, 1, true, first.database, 0, first.time()));
        }
        true
    }

    /// Returns the database in which the last gathered request leaves the connection.
    #[cfg(feature = "embedded")]
    pub(crate) fn database(&self) -> u32 {
        self.queue.database
    }

    /// Notes that a SELECT was executed which was not sent through this pipe.
    #[cfg(feature = "embedded")]
    pub(crate) fn set_database(&mut self, database: u32) {
        self.queue.database = database;
    }

    /// Begins a fresh connection: the gathered requests may leave.
    pub(crate) fn connect(&mut self) {
        self.write_state = WriteState::Open;
    }

    /// Returns the number of the present connection, or of the next one.
    pub(crate) fn connection(&self) -> u32 {
        self.connection
    }

    /// Returns whether there is a connection on which requests can leave.
    pub(crate) fn is_connected(&self) -> bool {
        self.write_state != WriteState::Closed
    }

    /// Returns whether a caller may sleep until one of the requests in flight is answered.
    pub(crate) fn is_awaited(&self) -> bool {
        self.in_flight.iter().any(|entry| entry.asker.is_awaited())
    }

    /// Takes the waker of a task that waits for one of the oldest replies, if there is such a task and other callers wait too:
    /// the woken task then reads for all.
    pub(crate) fn call_task(&self) -> Option<Waker> {
        if self.in_flight.len() - self.expired < COMPANY_MIN {
            return None;
        }
        self.in_flight.iter().skip(self.expired).take(CALLED_MAX).find_map(|entry| entry.asker.call())
    }
}

/// Returns the error of a request with a database that could not be selected.
pub(crate) fn select_failed(reply: &[u8]) -> Error {
    Error::protocol(format_args!("SELECT was answered with {}", reply.escape_ascii()))
}
