//! The requests that have not left: gathered in order, each with its entry, in the segments in which they leave.
//!
//! A SELECT goes in front of a request if the connection is in another database by then. A long request is copied by its
//! caller before the lock on the pipe is taken, so that no other caller waits for the lock during the copy; here it is only
//! moved, into a segment of its own. Requests that are taken from the front of a segment are not moved away: the segment
//! remembers the position of its first request. If an event concerns all requests, they are gathered again, which copies all
//! of their bytes. Pure data; the owner of the pipe has it.

use std::collections::VecDeque;
use std::mem;

use super::asker::{Asker, Time, is_before};
use super::slot::{Completions, Target};
use crate::error::{Effect, Error};

/// The number of bytes from which on a request is long: it gets a segment of its own.
pub(crate) const LONG_MIN: usize = 32 * 1024;

/// A copy of a long request.
pub(crate) struct LongRequest {
    /// The request, behind room for a SELECT.
    bytes: Vec<u8>,
}

impl LongRequest {
    /// Copies the request.
    pub(crate) fn of(request: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(SELECT_LENGTH_MAX + request.len());
        bytes.resize(SELECT_LENGTH_MAX, 0);
        bytes.extend_from_slice(request);
        Self { bytes }
    }

    /// Copies the request if it is long.
    pub(crate) fn if_long(request: &[u8]) -> Option<Self> {
        (request.len() >= LONG_MIN).then(|| Self::of(request))
    }

    /// Returns the bytes with the SELECT of this database ahead of them, if one is given, and the offset at which they begin.
    fn behind(mut self, database: Option<u32>) -> (Vec<u8>, usize) {
        let mut select = Vec::new();
        database.into_iter().for_each(|database| write_select(&mut select, database));
        let start = SELECT_LENGTH_MAX - select.len();
        self.bytes.iter_mut().skip(start).zip(select).for_each(|(to, from)| *to = from);
        (self.bytes, start)
    }
}

/// The request that releases the keys that a transaction watched.
pub(crate) const UNWATCH: &[u8] = b"*1\r\n$7\r\nUNWATCH\r\n";

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

/// The requests of one connection that have not left, and the databases in which they run.
pub(crate) struct SendQueue {
    /// Segments that go out before `out`.
    pub(super) backlog: VecDeque<Segment>,
    /// The segment in which requests are gathered.
    pub(super) out: Segment,
    /// The size of all unanswered requests, in flight or not, for the bound on the queue: their bytes, except those of
    /// `dead`, and [`HELD_BYTES`] for each.
    pub(crate) held: usize,
    /// The number of gathered bytes of calls that have timed out: they are removed before they may leave.
    pub(super) dead: usize,
    /// The next deadline of a request with a deadline of its own, in flight or not, or an earlier time.
    pub(crate) next_due_ms: Option<u32>,
    /// The database in which the last gathered request leaves the connection.
    pub(super) database: u32,
    /// The database in which the connection is when all requests that have begun to leave are executed.
    pub(super) wire_database: u32,
    /// The database in which a fresh connection begins.
    home: u32,
    /// True if a transaction with watched keys was removed before it was executed: the keys have to be released.
    pub(super) unwatches: bool,
}

impl SendQueue {
    pub(super) fn new(home: u32) -> Self {
        Self {
            backlog: VecDeque::new(),
            out: Segment::default(),
            held: 0,
            dead: 0,
            next_due_ms: None,
            database: home,
            wire_database: home,
            home,
            unwatches: false,
        }
    }

    /// Gathers a request.
    #[inline]
    pub(super) fn push(&mut self, asker: Asker, frames: u32, database: u32, request: &[u8], time: Time) {
        self.held += self.out.push(asker, frames, (database, &mut self.database), request, time);
    }

    /// Gathers a long request, in a segment of its own.
    pub(super) fn push_long(&mut self, target: Target, database: u32, long: LongRequest, time: Time) {
        self.close_segment();
        let selects = mem::replace(&mut self.database, database) != database;
        let (bytes, start) = long.behind(selects.then_some(database));
        let length = bytes.len() - start;
        let entry = Entry::new(Asker::Slot(target), 1 + u32::from(selects), selects, database, length, time);
        self.held += entry.held();
        self.backlog.push_back(Segment { start, ..Segment::of_one(entry, bytes) });
    }

    /// Notes the time at which a request times out. Returns whether it is a deadline of its own and no earlier one is known.
    #[inline]
    pub(super) fn note(&mut self, time: Time) -> bool {
        let Time::Due(due_ms) = time else { return false };
        let is_next = self.next_due_ms.is_none_or(|next_ms| is_before(due_ms, next_ms));
        if is_next {
            self.next_due_ms = Some(due_ms);
        }
        is_next
    }

    /// Ends the segment in which requests are gathered.
    pub(super) fn close_segment(&mut self) {
        if !self.out.entries.is_empty() {
            self.backlog.push_back(mem::take(&mut self.out));
        }
    }

    /// Returns the number of bytes that are gathered and have not begun to leave.
    #[inline]
    pub(crate) fn gathered(&self) -> usize {
        let last = self.out.bytes.len() - self.out.start;
        if self.backlog.is_empty() { last } else { last + self.backlog.iter().map(Segment::length).sum::<usize>() }
    }

    /// Returns whether more than one request is gathered.
    #[inline]
    pub(crate) fn is_burst(&self) -> bool {
        let last = self.out.entries.len();
        let before = || self.backlog.iter().map(|segment| segment.entries.len()).sum::<usize>();
        last > 1 || (!self.backlog.is_empty() && last + before() > 1)
    }

    /// Returns whether the first segment leaves even while others are held back.
    pub(super) fn is_urgent(&self) -> bool {
        self.backlog.front().is_some_and(|segment| segment.precedence == Precedence::Urgent)
    }

    /// Returns whether no request is gathered.
    pub(super) fn is_empty(&self) -> bool {
        self.out.entries.is_empty() && self.backlog.is_empty()
    }

    /// Returns the entries of all gathered requests, in the order in which they leave.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.backlog.iter().chain([&self.out]).flat_map(|segment| &segment.entries)
    }

    /// Returns the entries as [`entries`](Self::entries) does, to be changed.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.backlog.iter_mut().chain([&mut self.out]).flat_map(|segment| &mut segment.entries)
    }

    /// Puts one request ahead of all others.
    pub(super) fn push_first(&mut self, entry: Entry, request: Vec<u8>, precedence: Precedence) {
        self.held += entry.held();
        self.backlog.push_front(Segment { precedence, ..Segment::of_one(entry, request) });
    }

    /// Queues the release of all watched keys ahead of all requests.
    pub(super) fn push_unwatch(&mut self) {
        let (time, length) = (self.first_time(), UNWATCH.len());
        let entry = Entry::new(Asker::Nobody, 1, false, self.wire_database, length, time);
        self.push_first(entry, UNWATCH.to_vec(), Precedence::Normal);
    }

    /// Returns the time of the first request in line.
    fn first_time(&mut self) -> Time {
        self.first_segment().entries.front().map_or(Time::Issued(0), Entry::time)
    }

    /// Queues SELECT for a database ahead of all requests.
    pub(super) fn push_select(&mut self, database: u32) {
        let time = self.first_time();
        let mut bytes = Vec::new();
        write_select(&mut bytes, database);
        let entry = Entry::new(Asker::Nobody, 1, true, database, bytes.len(), time);
        self.push_first(entry, bytes, Precedence::Normal);
    }

    /// Removes the gathered requests that `is_kept` does not select, and those with calls that have timed out. The others
    /// keep their order, each in its database.
    pub(super) fn gather_again(&mut self, mut is_kept: impl FnMut(&mut Entry, &[u8]) -> bool) {
        let mut segments = mem::take(&mut self.backlog);
        segments.push_back(mem::take(&mut self.out));
        self.database = self.wire_database;
        self.held += mem::take(&mut self.dead);
        for segment in segments {
            self.held -= segment.held();
            let (holds, precedence) = (segment.holds, segment.precedence);
            segment.for_each(|mut entry, request| {
                if entry.has_timed_out() || !is_kept(&mut entry, request) {
                    return;
                }
                let (frames, time) = (entry.frames(), entry.time());
                // A command that ends a script runs in any database, and must not wait for a SELECT.
                let needs_none = precedence == Precedence::Urgent && matches!(entry.asker, Asker::Slot(_));
                let database = if needs_none { self.database } else { entry.database };
                self.held += self.out.push(entry.asker, frames, (database, &mut self.database), request, time);
                self.out.entries.back_mut().into_iter().for_each(|last| last.had_left = entry.had_left);
            });
            if !self.out.entries.is_empty() {
                (self.out.holds, self.out.precedence) = (holds, precedence);
            }
            self.close_segment();
        }
    }

    /// Fails the gathered requests for databases that the server does not have. It is called only before they may leave.
    pub(crate) fn refuse_databases(&mut self, databases: u32, error: &Error, done: &mut Completions) {
        if self.entries().all(|entry| entry.database < databases) {
            return;
        }
        self.gather_again(|entry, _| {
            let is_refused = entry.database >= databases;
            if is_refused {
                entry.fail(error, done);
            }
            !is_refused
        });
    }

    /// Returns the first segment with requests, or the empty one in which they are gathered.
    pub(super) fn first_segment(&mut self) -> &mut Segment {
        while self.backlog.front().is_some_and(|segment| segment.entries.is_empty()) {
            self.backlog.pop_front();
        }
        self.backlog.front_mut().unwrap_or(&mut self.out)
    }

    /// Resets the state for the next connection, with nothing in flight.
    pub(super) fn start_anew(&mut self) {
        (self.wire_database, self.unwatches) = (self.home, false);
    }

    /// Empties the queue for good, and returns the entries of all requests that were never written.
    pub(crate) fn clear(&mut self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.backlog.drain(..).flat_map(|segment| segment.entries).collect();
        entries.extend(mem::take(&mut self.out).entries);
        (self.held, self.dead) = (0, 0);
        self.database = self.home;
        entries
    }
}
