//! Requests that are written in one go, as bytes and as a list of their askers.
//!
//! Requests that are taken from the front are not moved away: the segment remembers where its first request begins. Pure
//! data; the owner of the pipe has its segments.

pub(crate) mod long;
mod regather;

use std::collections::VecDeque;

use super::in_flight::{Asker, Entry, HELD_BYTES, Time};

/// Bytes of removed requests that are kept rather than move those behind them.
const GAP_KEPT_MAX: usize = 64 * 1024;

/// The longest SELECT, in bytes.
pub(crate) const SELECT_LENGTH_MAX: usize = 40;

/// The order of requests: which leave before which, and which of them leave while others are held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// Requests that leave first, and are never held back: they end the work that the server is busy with, or a transaction
    /// that has begun.
    Urgent,
    /// Requests that the server has turned away. They leave before those that were sent after them, and may lack SELECTs.
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
    /// True if nothing may be written after it until it is answered.
    pub(crate) holds: bool,
    pub(crate) precedence: Precedence,
}

impl Segment {
    /// Creates a segment of one request.
    pub(crate) fn of_one(entry: Entry, bytes: Vec<u8>) -> Self {
        Self { bytes, entries: VecDeque::from([entry]), ..Self::default() }
    }

    /// Appends a request, with a SELECT ahead of it if another database than its own is selected by then. Returns the bytes
    /// that it counts for, as long as it is unanswered.
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

    /// Hands out each of its requests, without its SELECT.
    pub(crate) fn for_each(self, mut take: impl FnMut(Entry, &[u8])) {
        let mut rest = self.bytes.get(self.start..).unwrap_or_default();
        for entry in self.entries {
            let (bytes, after) = rest.split_at_checked(entry.length).unwrap_or((rest, &[]));
            rest = after;
            let own = if entry.selects { select_length(entry.database) } else { 0 };
            take(entry, bytes.get(own..).unwrap_or_default());
        }
    }

    /// Bytes of its requests.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns the bytes that its requests count for, as long as they are unanswered.
    pub(crate) fn held(&self) -> usize {
        self.length() + self.entries.len() * HELD_BYTES
    }

    /// Returns the bytes of its requests.
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
            // No more is moved than was removed since the last time.
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

/// Bytes of the request that selects a database.
pub(crate) fn select_length(database: u32) -> usize {
    let mut select = Vec::new();
    write_select(&mut select, database);
    select.len()
}
