//! Requests that are written in one go, as bytes and as who asked for them.
//!
//! What is taken from the front is not moved away: the segment remembers where its first request begins. Pure data; whoever
//! has the pipe has its segments.

pub(crate) mod long;

use std::collections::VecDeque;

use super::in_flight::Entry;

/// Bytes of removed requests that are kept rather than move those behind them.
const GAP_KEPT_MAX: usize = 64 * 1024;

/// The longest SELECT, in bytes.
pub(crate) const SELECT_LENGTH_MAX: usize = 40;

/// The bytes of requests that leave together, and who waits for their replies.
#[derive(Default)]
pub(crate) struct Segment {
    pub(crate) bytes: Vec<u8>,
    /// Where in `bytes` the first of `entries` begins.
    pub(crate) start: usize,
    pub(crate) entries: VecDeque<Entry>,
    /// Whether nothing may be written after it until it is answered.
    pub(crate) holds: bool,
    /// Whether the server has turned away what is in it, and it goes again.
    pub(crate) again: bool,
}

impl Segment {
    /// A segment of one request.
    pub(crate) fn of_one(entry: Entry, bytes: Vec<u8>) -> Self {
        Self { bytes, start: 0, entries: VecDeque::from([entry]), holds: false, again: false }
    }

    /// Bytes of its requests.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The bytes of its requests.
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
        let again = self.again;
        let entry = self.remove_first()?;
        Some(Self { holds, again, ..Self::of_one(entry, bytes) })
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
