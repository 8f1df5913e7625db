//! Long requests: copied by their callers before the lock on the pipe is taken, so that no other caller waits for the lock
//! during the copy.
//!
//! Under the lock such a request is only moved, into a segment of its own. Pure data; any thread.

use std::mem;

use super::super::Pipe;
use super::super::in_flight::{Asker, Entry, Time, is_before};
use super::super::slot::Handle;
use super::{SELECT_LENGTH_MAX, Segment, write_select};
use crate::request::name::Name;

/// Bytes from which on a request is long: it has a segment of its own.
pub(crate) const LONG_MIN: usize = 32 * 1024;

/// A copy of a long request.
pub(crate) struct LongRequest {
    /// Behind room for a SELECT.
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

    /// Creates a long request if the request is long.
    pub(crate) fn if_long(request: &[u8]) -> Option<Self> {
        (request.len() >= LONG_MIN).then(|| Self::of(request))
    }

    /// Its bytes, with the SELECT of this database, if there is one, and where they begin.
    fn behind(mut self, database: Option<u32>) -> (Vec<u8>, usize) {
        let mut select = Vec::new();
        database.into_iter().for_each(|database| write_select(&mut select, database));
        let start = SELECT_LENGTH_MAX - select.len();
        self.bytes.iter_mut().skip(start).zip(select).for_each(|(to, from)| *to = from);
        (self.bytes, start)
    }
}

impl Pipe {
    /// Queues a request as `push` and `push_due` do, if it is long: it moves here, in a segment of its own. Returns also
    /// whether it has a deadline, and none is known to be earlier.
    pub(crate) fn push_long(&mut self, database: u32, name: Name, long: LongRequest, time: Time) -> (Handle, bool) {
        let (target, handle) = self.source.pair(name);
        self.close_segment();
        let selects = mem::replace(&mut self.database, database) != database;
        let (bytes, start) = long.behind(selects.then_some(database));
        let length = bytes.len() - start;
        let entry = Entry::new(Asker::Slot(target), 1 + u32::from(selects), selects, database, length, time);
        self.queued += entry.held();
        self.backlog.push_back(Segment { start, ..Segment::of_one(entry, bytes) });
        let due_ms = if let Time::Due(due_ms) = time { Some(due_ms) } else { None };
        let is_next = due_ms.is_some_and(|due_ms| self.next_due_ms.is_none_or(|next_ms| is_before(due_ms, next_ms)));
        self.next_due_ms = due_ms.filter(|_| is_next).or(self.next_due_ms);
        (handle, is_next)
    }
}
