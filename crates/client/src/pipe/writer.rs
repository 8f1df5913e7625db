//! The bytes that are on their way to the socket, and those that have left and may have to leave again.
//!
//! A read with a lost answer has changed nothing, so it may be sent again without its caller's knowledge. That is decided
//! only when a connection breaks. Until then the bytes that were written last stay in place. The bytes that were written
//! before them and are not answered yet are copied into the replay buffer when the next are written. If a caller waits for
//! each of its answers, nothing is ever copied. `retry` decides which requests are sent again. The writer takes bytes and
//! gives bytes: no socket, no clock, no thread.

use std::mem;

use super::in_flight::{Entry, Precedence, Segment, select_length};

/// The beginning of a SELECT that goes ahead of a request.
const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n";

/// The size above which an emptied out-buffer is given back to the allocator.
const KEPT_CAPACITY_MAX: usize = 1024 * 1024;

/// The largest size of the replay buffer, in bytes. Beyond it the oldest bytes are dropped, until half is left: those cannot
/// be sent again.
const REPLAY_BYTES_MAX: usize = 512 * 1024;

/// The retry budget of a fresh pipe, in bytes; below it its maximum.
const RETRY_BYTES_FIRST: u64 = 64 * 1024;
const RETRY_BYTES_MAX: u64 = 1024 * 1024;

/// The number of answered bytes for which one byte may be sent again.
const RETRY_SHARE: u64 = 5;

/// The bytes that have left on a connection, are not answered yet and may have to leave again, except those that were written
/// last.
#[derive(Default)]
struct ReplayBuffer {
    bytes: Vec<u8>,
    /// The position of its first byte among the bytes of the connection.
    start: u64,
}

/// The bytes that were written last on a connection, whole.
#[derive(Clone, Copy)]
struct LastWritten<'a> {
    bytes: &'a [u8],
    /// The number of bytes that have left, these included.
    sent: u64,
}

impl<'a> LastWritten<'a> {
    /// Returns the bytes that have left between two positions of the connection, if they are among these.
    fn get(self, from: u64, to: u64) -> Option<&'a [u8]> {
        let index = |at: u64| usize::try_from((at + self.bytes.len() as u64).checked_sub(self.sent)?).ok();
        self.bytes.get(index(from)?..index(to)?)
    }
}

impl ReplayBuffer {
    /// Returns the position at which its bytes end; the unanswered bytes behind it were written last.
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Copies the bytes that were written last, because the next are about to be written. `answered` of the bytes that have
    /// left are answered.
    fn append(&mut self, written: LastWritten<'_>, answered: u64) {
        // Bytes that were removed before they left stand ahead of those that have left, and the bytes between the two are
        // answered.
        let first = self.end().max(written.sent.saturating_sub(written.bytes.len() as u64));
        if first > self.end() {
            *self = Self { bytes: Vec::new(), start: first };
        }
        let fresh = written.get(first, written.sent).unwrap_or_default();
        let (length, length_before) = (self.bytes.len() + fresh.len(), self.bytes.len());
        let gone = usize::try_from(answered.saturating_sub(self.start)).unwrap_or(usize::MAX).min(length_before);
        // The bytes that are moved are no more than those that were removed since the last time.
        let dropped = if length > REPLAY_BYTES_MAX {
            gone.max(length - REPLAY_BYTES_MAX / 2)
        } else if gone > length_before / 2 {
            gone
        } else {
            0
        };
        self.bytes.drain(..dropped.min(length_before));
        self.bytes.extend_from_slice(fresh.get(dropped.saturating_sub(length_before)..).unwrap_or_default());
        self.start += dropped as u64;
    }

    /// Returns the bytes that have left between two positions of the connection, if they are still there.
    fn get<'a>(&'a self, from: u64, to: u64, written: LastWritten<'a>) -> Option<&'a [u8]> {
        if from >= self.end() {
            return written.get(from, to);
        }
        let index = |at: u64| usize::try_from(at.checked_sub(self.start)?).ok();
        self.bytes.get(index(from)?..index(to)?)
    }
}

/// The bytes that one connection is writing or has written.
#[derive(Default)]
pub(crate) struct Writer {
    /// Bytes on their way to the socket; the first `written` of them have left. Lent to the thread that writes.
    pub(super) bytes: Vec<u8>,
    pub(super) written: usize,
    /// The precedence of the requests in `bytes`.
    pub(super) precedence: Precedence,
    /// The number of bytes that left on this connection.
    pub(super) sent: u64,
    /// The bytes that were written last, whole, until the next are written; below them the replay buffer of earlier bytes
    /// that are not answered.
    last_written: Vec<u8>,
    replay_buffer: ReplayBuffer,
}

impl Writer {
    /// Begins to write a segment.
    #[inline]
    pub(super) fn begin(&mut self, segment: &mut Segment) {
        mem::swap(&mut self.bytes, &mut segment.bytes);
        self.written = mem::take(&mut segment.start);
        self.precedence = segment.precedence;
    }

    /// Copies the bytes that were written last into the replay buffer, because the next are written before those are
    /// answered. `answered` of the bytes that have left are answered.
    pub(super) fn keep_last(&mut self, answered: u64) {
        self.replay_buffer.append(LastWritten { bytes: &self.last_written, sent: self.sent }, answered);
        self.last_written.clear();
    }

    /// Takes the lent bytes back, of which `count` more have left.
    #[inline]
    pub(super) fn wrote(&mut self, bytes: Vec<u8>, count: usize) {
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
    pub(super) fn keeps(&self, position: u64) -> bool {
        position <= self.replay_buffer.end()
    }

    /// Returns the request of an entry that begins at this position of the connection, without its SELECT; none if the bytes
    /// are gone.
    pub(super) fn request_at(&self, entry: &Entry, position: u64, is_lent: bool) -> Option<&[u8]> {
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

/// The number of bytes that may be sent again, and the requests that must not.
pub(super) struct RetryBudget {
    bytes: u64,
    /// The end of the requests that were sent again on this connection because another broke, as a position among its bytes.
    pub(super) retried_until: u64,
    /// True if the oldest request in flight is not sent again: its reply cannot be taken.
    pub(super) blames_oldest: bool,
}

impl RetryBudget {
    pub(super) fn new() -> Self {
        Self { bytes: RETRY_BYTES_FIRST, retried_until: 0, blames_oldest: false }
    }

    /// Returns whether the budget is enough for this number of bytes.
    pub(super) fn allows(&self, bytes: u64) -> bool {
        bytes <= self.bytes
    }

    /// Spends the budget on this number of bytes, which are sent again.
    pub(super) fn spend(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }

    /// Begins anew on the next connection: adds a share of the bytes that were answered on the one that has ended.
    pub(super) fn start_anew(&mut self, answered: u64) {
        self.bytes = (self.bytes + answered / RETRY_SHARE).min(RETRY_BYTES_MAX);
        (self.retried_until, self.blames_oldest) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a fault of the past: if one more request did not fit, all kept bytes were dropped.
    #[test]
    fn the_newest_bytes_are_kept_when_the_replay_buffer_is_full() {
        let (mut replay_buffer, mut sent) = (ReplayBuffer::default(), 0);
        let chunk = |number: usize| vec![number as u8; 10_000];
        for number in 0..200 {
            let bytes = chunk(number);
            sent += bytes.len() as u64;
            replay_buffer.append(LastWritten { bytes: &bytes, sent }, 0);
            assert!(replay_buffer.bytes.len() <= REPLAY_BYTES_MAX, "{}", replay_buffer.bytes.len());
            for recent in number.saturating_sub(24)..=number {
                let (from, to) = (recent as u64 * 10_000, (recent as u64 + 1) * 10_000);
                let kept = replay_buffer.get(from, to, LastWritten { bytes: &[], sent });
                assert!(kept == Some(&chunk(recent)), "{recent} of {number}");
            }
        }
        // Of a request that is longer than the buffer, only the end is kept.
        let long: Vec<u8> = (0..REPLAY_BYTES_MAX * 3).map(|at| (at % 251) as u8).collect();
        sent += long.len() as u64;
        replay_buffer.append(LastWritten { bytes: &long, sent }, 0);
        let kept = replay_buffer.get(sent - 200_000, sent, LastWritten { bytes: &[], sent });
        assert!(kept == Some(&long[long.len() - 200_000..]));
        assert_eq!(replay_buffer.end(), sent);
    }
}
