//! The requests that have not left: gathered in order, each with its entry, in the segments in which they leave.
//!
//! A SELECT goes in front of a request if the connection is in another database by then. A long request is copied by its
//! caller before the lock on the pipe is taken, so that no other caller waits for the lock during the copy; here it is only
//! moved, into a segment of its own. If an event concerns all requests, they are gathered again, which copies all of their
//! bytes. Pure data; the owner of the pipe has it.

use std::collections::VecDeque;
use std::mem;

use super::hold::{ends_script, may_end_script};
use super::in_flight::{
    Asker, Entry, Precedence, SELECT_LENGTH_MAX, Segment, Time, UNWATCH, is_before, select_length, write_select,
};
use super::slot::{Completions, Target};
use crate::error::Error;

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

/// The requests of one connection that have not left, and the databases in which they run.
pub(crate) struct SendQueue {
    /// Segments that go out before `out`.
    pub(super) backlog: VecDeque<Segment>,
    /// The segment in which requests are gathered.
    pub(super) out: Segment,
    /// The size of all unanswered requests, in flight or not, for the bound on the queue: their bytes, except those of
    /// `dead`, and [`HELD_BYTES`](super::in_flight::HELD_BYTES) for each.
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

    /// Splits the first request off from those behind it, so that it leaves alone. The connection is in its database.
    pub(super) fn detach_probe(&mut self) {
        let Some(mut alone) = self.first_segment().detach_first() else { return };
        if let Some(entry) = alone.entries.front_mut()
            && mem::take(&mut entry.selects)
        {
            let length = select_length(entry.database);
            (alone.start, entry.length, entry.replies) = (length, entry.length - length, entry.replies - 1);
            self.held -= length;
        }
        self.first_segment();
        self.backlog.push_front(alone);
    }

    /// Releases the requests after the server has recovered: those that were refused leave together, each in its database,
    /// and then those behind them.
    pub(super) fn release(&mut self) {
        let (mut released, mut selected) = (Segment::default(), self.wire_database);
        while self.first_segment().precedence == Precedence::Retry
            && let Some(segment) = self.backlog.pop_front()
        {
            self.held -= segment.held();
            segment.for_each(|entry, request| {
                let (frames, time) = (entry.frames(), entry.time());
                self.held += released.push(entry.asker, frames, (entry.database, &mut selected), request, time);
            });
        }
        let wire_database = mem::replace(&mut self.wire_database, selected);
        self.reselect();
        self.wire_database = wire_database;
        if !released.entries.is_empty() {
            self.backlog.push_front(released);
        }
    }

    /// Queues a request that leaves before all others, in any database.
    #[cold]
    pub(super) fn push_urgent(&mut self, asker: Asker, request: &[u8], time: Time) {
        let entry = Entry::new(asker, 1, false, self.wire_database, request.len(), time);
        self.held += entry.held();
        let segment = Segment { precedence: Precedence::Urgent, ..Segment::of_one(entry, request.to_vec()) };
        let (urgent, _) = self.ahead();
        self.backlog.insert(urgent, segment);
    }

    /// Moves the commands that end a script that holds up the server ahead of the gathered requests.
    pub(super) fn advance_urgent(&mut self) {
        if !self.entries().any(|entry| may_end_script(&entry.asker)) {
            return;
        }
        let mut urgent = Vec::new();
        self.gather_again(|entry, request| {
            let is_urgent = ends_script(&entry.asker, request);
            if is_urgent {
                urgent.push((mem::replace(&mut entry.asker, Asker::Nobody), request.to_vec(), entry.time()));
            }
            !is_urgent
        });
        urgent.into_iter().for_each(|(asker, request, time)| self.push_urgent(asker, &request, time));
    }

    /// Returns the number of urgent segments at the front, and the number of segments behind them that are sent again.
    pub(super) fn ahead(&mut self) -> (usize, usize) {
        self.first_segment();
        let count = |precedence, skipped| {
            self.backlog.iter().skip(skipped).take_while(|segment| segment.precedence == precedence).count()
        };
        let urgent = count(Precedence::Urgent, 0);
        (urgent, count(Precedence::Retry, urgent))
    }

    /// Adds or removes the SELECT of the first request in line, for the database in which the connection is by then.
    pub(super) fn reselect(&mut self) {
        let wire_database = self.wire_database;
        let segment = self.first_segment();
        let Some(first) = segment.entries.front() else {
            self.database = wire_database;
            return;
        };
        if first.selects || first.database == wire_database {
            return;
        }
        // The request gets a segment of its own, so that only its bytes are moved.
        let Some(mut alone) = segment.detach_first() else { return };
        self.first_segment();
        let mut bytes = Vec::with_capacity(alone.bytes.len() + SELECT_LENGTH_MAX);
        if let Some(entry) = alone.entries.front_mut() {
            write_select(&mut bytes, entry.database);
            let counted = if entry.has_timed_out() { &mut self.dead } else { &mut self.held };
            *counted += bytes.len();
            entry.length += bytes.len();
            entry.selects = true;
            entry.replies += 1;
        }
        bytes.extend_from_slice(&alone.bytes);
        self.backlog.push_front(Segment { bytes, ..alone });
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
