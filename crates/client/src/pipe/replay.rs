//! The bytes that have left and may have to leave again, and the budget of bytes that are sent again.
//!
//! A read with a lost answer has changed nothing, so it may be sent again without its caller's knowledge. That is decided
//! only when a connection breaks. Until then the bytes that were written last stay in place. The bytes that were written
//! before them and are not answered yet are copied into the replay buffer when the next are written. If a caller waits for
//! each of its answers, nothing is ever copied. `retry` decides which requests are sent again. Pure data; the owner of the
//! pipe has it.

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
pub(super) struct ReplayBuffer {
    bytes: Vec<u8>,
    /// The position of its first byte among the bytes of the connection.
    start: u64,
}

/// The bytes that were written last on a connection, whole.
#[derive(Clone, Copy)]
pub(super) struct LastWritten<'a> {
    pub(super) bytes: &'a [u8],
    /// The number of bytes that have left, these included.
    pub(super) sent: u64,
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
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Copies the bytes that were written last, because the next are about to be written. `answered` of the bytes that have
    /// left are answered.
    pub(super) fn append(&mut self, written: LastWritten<'_>, answered: u64) {
        // The written bytes may start with requests that were removed before they left, so that they seem to begin within
        // this buffer. If they begin behind its end, the bytes in between are answered, and the buffer begins anew.
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
    pub(super) fn get<'a>(&'a self, from: u64, to: u64, written: LastWritten<'a>) -> Option<&'a [u8]> {
        if from >= self.end() {
            return written.get(from, to);
        }
        let index = |at: u64| usize::try_from(at.checked_sub(self.start)?).ok();
        self.bytes.get(index(from)?..index(to)?)
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
