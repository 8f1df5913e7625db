//! Reads that are sent again when their connection breaks: what is kept of what has left, and how much of it may leave again.
//!
//! A read whose answer was lost has changed nothing, so it may be asked again, and its caller need not know. Nothing is
//! decided before a connection breaks. Until then the bytes that were written last stay where they are, and what was written
//! before them and is not answered yet is kept here, when the next are written; where a caller waits for each of his answers
//! nothing is ever moved. A command that writes is not sent again, whatever is known of it, but where its user has said that
//! those which only overwrite may be: which these are, the command table says.
//!
//! A server that fails is not to be asked twice as much. So what is sent again is paid for, byte by byte, out of a bank into
//! which a share of what is answered goes. And where a connection has answered nothing at all, its oldest request is not sent a
//! third time: it may be what breaks them. What a server turns away for the moment goes after a pause, which is longer with
//! every time in a row, and is not paid for: each leaves no more than twice a second then. It takes bytes and gives bytes: no
//! socket, no clock, no thread.

use super::in_flight::is_before;

/// Bytes that are kept beside those that were written last. What leaves beyond them cannot be sent again.
const KEPT_MAX: usize = 512 * 1024;

/// What the bank of a fresh pipe holds, in bytes, and what it never holds more than.
const BANK_FIRST: u64 = 64 * 1024;
const BANK_MAX: u64 = 1024 * 1024;

/// Of so many bytes that are answered one goes into the bank.
const BANK_SHARE: u64 = 5;

/// What has left on a connection and may have to leave again.
pub(super) struct Kept {
    bytes: Vec<u8>,
    /// How much had left on the connection before them.
    from: u64,
    /// How many bytes may be sent again.
    pub(super) bank: u64,
    /// The requests that were sent again on this connection stand before this.
    pub(super) again_until: u64,
}

/// Bytes whose last is the last that has left on a connection.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) bytes: &'a [u8],
    /// How much has left.
    pub(super) sent: u64,
}

impl<'a> Left<'a> {
    /// What has left from one place of the connection to another, if it is among these.
    fn get(self, from: u64, to: u64) -> Option<&'a [u8]> {
        let index = |at: u64| usize::try_from((at + self.bytes.len() as u64).checked_sub(self.sent)?).ok();
        self.bytes.get(index(from)?..index(to)?)
    }
}

impl Kept {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new(), from: 0, bank: BANK_FIRST, again_until: 0 }
    }

    /// Where the bytes end that are kept; whatever is not answered and stands behind it was written last.
    pub(super) fn end(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }

    /// Keeps what was written last, because something else is to be written now. So much of what has left is answered.
    pub(super) fn keep(&mut self, written: Left<'_>, answered: u64) {
        // What was taken out before it left stands ahead of what has left, and what is between the two is answered.
        let first = self.end().max(written.sent.saturating_sub(written.bytes.len() as u64));
        if first > self.end() {
            (self.bytes, self.from) = (Vec::new(), first);
        }
        let gone = usize::try_from(answered.saturating_sub(self.from)).unwrap_or(usize::MAX).min(self.bytes.len());
        // No more is moved than was removed since the last time.
        if gone > self.bytes.len() / 2 {
            self.bytes.drain(..gone);
            self.from += gone as u64;
        }
        let fresh = written.get(first, written.sent).unwrap_or_default();
        if self.bytes.len() + fresh.len() > KEPT_MAX {
            (self.bytes, self.from) = (Vec::new(), written.sent);
        } else {
            self.bytes.extend_from_slice(fresh);
        }
    }

    /// So much was answered on a connection that is over: what may be sent again grows by a share of that, and what is kept is
    /// of no more use.
    pub(super) fn start_anew(&mut self, answered: u64) {
        let bank = (self.bank + answered / BANK_SHARE).min(BANK_MAX);
        *self = Self { bank, ..Self::new() };
    }

    /// What has left from one place of the connection to another, if it is still there.
    pub(super) fn get<'a>(&'a self, from: u64, to: u64, written: Left<'a>) -> Option<&'a [u8]> {
        if from >= self.end() {
            return written.get(from, to);
        }
        let index = |at: u64| usize::try_from(at.checked_sub(self.from)?).ok();
        self.bytes.get(index(from)?..index(to)?)
    }
}

/// How long nothing leaves after a refusal: at first, and at most.
const PAUSE_MS_MIN: u32 = 10;
const PAUSE_MS_MAX: u32 = 500;

/// After so long without a refusal the next pause is a first one.
const QUIET_MS: u32 = 1000;

/// When what was turned away may leave again.
#[derive(Default)]
pub(super) struct Pause {
    /// Nothing leaves until then.
    pub(super) until_ms: Option<u32>,
    /// How long the last one was, and when it ended.
    last: Option<(u32, u32)>,
}

impl Pause {
    /// As long as the first one again, or twice as long as the last, where that was just over.
    pub(super) fn begin(&mut self, now_ms: u32) {
        let length_ms = match self.last {
            Some((length_ms, ended_ms)) if is_before(now_ms, ended_ms.wrapping_add(QUIET_MS)) => {
                (length_ms * 2).min(PAUSE_MS_MAX)
            }
            _ => PAUSE_MS_MIN,
        };
        self.until_ms = Some(now_ms.wrapping_add(length_ms));
        self.last = Some((length_ms, now_ms.wrapping_add(length_ms)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_begin_anew_when_it_was_quiet() {
        let mut pause = Pause::default();
        let mut now_ms = u32::MAX - 100;
        let mut lengths = Vec::new();
        for _ in 0..8 {
            pause.begin(now_ms);
            let until_ms = pause.until_ms.take().expect("it has begun");
            lengths.push(until_ms.wrapping_sub(now_ms));
            now_ms = until_ms.wrapping_add(1);
        }
        assert_eq!(lengths, [10, 20, 40, 80, 160, 320, 500, 500]);
        pause.begin(now_ms.wrapping_add(QUIET_MS));
        assert_eq!(pause.last.map(|(length_ms, _)| length_ms), Some(PAUSE_MS_MIN));
    }
}
