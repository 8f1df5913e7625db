//! The output for one client that was not sent yet: reply bytes in order, large values by reference.
//!
//! Replies are appended to one buffer. A large value is not copied into it: the output notes the value's position and keeps a
//! reference, and the driver hands the pieces to the kernel together. If the store changes such a value while a reference
//! exists, it copies the value first.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use sleeve_store::{EntryRef, ValueRef};
use sleeve_wire::reply::{Protocol, Writer};

/// Reply bytes that have not left.
#[derive(Debug)]
pub struct Output {
    /// The reply bytes, appended at the end. The first `sent` of them have been sent.
    pub bytes: Vec<u8>,
    sent: usize,
    /// The shared values. Each is sent before the byte of `bytes` at its position.
    shared: VecDeque<Shared>,
    /// The number of bytes of shared values that have not been sent.
    shared_len: usize,
    /// The number of bytes from which on the output is too long.
    len_max: usize,
    /// The output was too long and has been dropped.
    is_cut: bool,
    /// The offset of the journal up to which these replies show changes: they are sent when the journal up to there is
    /// durable. 0 if no reply has to wait.
    pub shown: u64,
    /// The beginnings and ends of the replies to requests that have changed data, as long as `shown` makes them wait.
    writes: Vec<(Mark, Mark)>,
}

impl Default for Output {
    fn default() -> Self {
        let (bytes, shared) = (Vec::new(), VecDeque::new());
        Self { bytes, sent: 0, shared, shared_len: 0, len_max: usize::MAX, is_cut: false, shown: 0, writes: Vec::new() }
    }
}

#[derive(Debug)]
struct Shared {
    place: usize,
    value: Arc<Vec<u8>>,
    sent: usize,
}

/// The length from which on values are sent by reference.
pub const SHARED_LEN_MIN: usize = 16 * 1024;

/// The length from which on messages to many clients are sent by reference, so that the bytes that wait for slow readers are
/// held once.
const SHARED_PUSH_LEN_MIN: usize = 1024;

/// A buffer that has grown beyond this is given back when it is empty.
const KEPT_BYTES: usize = 256 * 1024;

/// The number of sent bytes at which they are cut off the front of the buffer, if they are at least as many as the waiting
/// ones.
const LEFT_BYTES_MAX: usize = 64 * 1024;

impl Output {
    /// Puts a value after the bytes written so far, without copying it.
    pub fn share(&mut self, value: Arc<Vec<u8>>) {
        self.shared_len += value.len();
        self.shared.push_back(Shared { place: self.bytes.len(), value, sent: 0 });
    }

    /// Appends bytes that other clients are sent too: copied if that is cheaper than to share them.
    pub fn push_shared(&mut self, bytes: &Arc<Vec<u8>>) {
        if bytes.len() < SHARED_PUSH_LEN_MIN {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.share(Arc::clone(bytes));
        }
    }

    /// Replies with the string of an entry, by reference if it is large. The form is the same in both protocols. Always inline:
    /// it has one caller.
    #[inline(always)]
    pub fn push_value(&mut self, entry: &EntryRef<'_>) {
        let mut reply = Writer::new(&mut self.bytes, Protocol::Resp2);
        match entry.value() {
            ValueRef::Integer(number) => reply.bulk_integer(number),
            ValueRef::Bytes(bytes) if bytes.len() < SHARED_LEN_MIN => reply.bulk(bytes),
            ValueRef::Bytes(bytes) => match entry.shared() {
                None => reply.bulk(bytes),
                Some(value) => {
                    reply.bulk_header(bytes.len());
                    self.share(value);
                    Writer::new(&mut self.bytes, Protocol::Resp2).bulk_end();
                }
            },
        }
    }

    /// Returns how many bytes have not been sent.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.shared_len
    }

    /// Sets the number of bytes from which on the output is too long; `usize::MAX` is no bound.
    #[inline]
    pub fn bound(&mut self, len_max: usize) {
        self.len_max = len_max;
    }

    /// Returns whether the output is too long.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.len_max
    }

    /// Returns how many bytes may still be appended.
    pub fn room(&self) -> usize {
        self.len_max.saturating_sub(self.len())
    }

    /// Returns the length of `bytes` at which the output is too long; see [`Writer::bounded`].
    #[inline]
    pub fn bytes_max(&self) -> usize {
        self.len_max.saturating_sub(self.shared_len).saturating_add(self.sent)
    }

    /// Drops all unsent bytes: they are too many, and the client is closed instead. Later replies find room again, so that a
    /// transaction can run to its end.
    #[cold]
    pub fn cut(&mut self) {
        self.clear();
        self.is_cut = true;
    }

    /// Returns whether output was dropped because it was too long, and forgets it.
    #[inline]
    pub fn take_cut(&mut self) -> bool {
        std::mem::take(&mut self.is_cut)
    }

    /// Returns the bytes of buffer capacity that hold no unsent output.
    pub fn spare(&self) -> usize {
        let places = self.shared.capacity() * size_of::<Shared>();
        places + self.bytes.capacity() - (self.bytes.len() - self.sent)
    }

    /// Returns whether everything has been sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent && self.shared.is_empty()
    }

    /// Returns a mark to which [`Output::rewind`] can go back.
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), shared: self.shared.len() }
    }

    /// Drops the bytes that were written since the mark. None of them may have been sent.
    pub fn rewind(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.shared
            .drain(mark.shared.min(self.shared.len())..)
            .for_each(|shared| self.shared_len -= shared.value.len());
        while self.writes.pop_if(|(start, _)| start.bytes >= mark.bytes).is_some() {}
    }

    /// Returns the text of the error reply that was written since the mark, if one was.
    pub fn error_since(&self, mark: Mark) -> Option<&[u8]> {
        self.bytes.get(mark.bytes..)?.strip_prefix(b"-").map(<[u8]>::trim_ascii_end)
    }

    /// Notes that the bytes written since the mark are the reply to a request that has changed data. None of them has been
    /// sent.
    pub fn note_write(&mut self, since: Mark) {
        let end = self.mark();
        if end.bytes != since.bytes {
            self.writes.push((since, end));
        }
    }

    /// Replaces every reply to a request that has changed data by an error: such a reply would not be true, because the
    /// change cannot be made durable. None of these replies has been sent.
    pub fn refuse_writes(&mut self, error: &[u8]) {
        let writes = std::mem::take(&mut self.writes);
        let (mut rest, mut at) = (Output::default(), Mark { bytes: 0, shared: 0 });
        for (start, end) in writes {
            self.copy_between(at, start, &mut rest);
            Writer::new(&mut rest.bytes, Protocol::Resp2).error(error);
            at = end;
        }
        self.copy_between(at, self.mark(), &mut rest);
        *self = rest;
    }

    fn copy_between(&self, start: Mark, end: Mark, into: &mut Output) {
        let mut at = start.bytes;
        for shared in self.shared.range(start.shared..end.shared) {
            into.bytes.extend_from_slice(&self.bytes[at..shared.place]);
            into.share(Arc::clone(&shared.value));
            at = shared.place;
        }
        into.bytes.extend_from_slice(&self.bytes[at..end.bytes]);
    }

    /// Returns the only piece, when no value is shared: the common case, for a plain write.
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        self.shared.is_empty().then(|| &self.bytes[self.sent..])
    }

    /// Returns the next pieces in order, at most as many as one system call takes.
    pub fn pieces(&self) -> Vec<IoSlice<'_>> {
        let mut pieces = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut at = self.sent;
        for shared in self.shared.iter().take(PIECES_MAX / 2 - 1) {
            if at < shared.place {
                pieces.push(IoSlice::new(&self.bytes[at..shared.place]));
                at = shared.place;
            }
            pieces.push(IoSlice::new(&shared.value[shared.sent..]));
        }
        if at < self.bytes.len() && self.shared.len() < PIECES_MAX / 2 {
            pieces.push(IoSlice::new(&self.bytes[at..]));
        }
        pieces
    }

    /// Drops `count` bytes that have been sent from the front.
    pub fn advance(&mut self, count: usize) {
        self.skip(count);
        if self.sent == self.bytes.len() && self.shared.is_empty() {
            self.clear();
        } else if self.sent >= LEFT_BYTES_MAX && self.sent >= self.bytes.len() / 2 {
            self.cut_off();
        }
    }

    fn skip(&mut self, mut count: usize) {
        while let Some(shared) = self.shared.front_mut() {
            let before = (shared.place - self.sent).min(count);
            self.sent += before;
            count -= before;
            let of_value = (shared.value.len() - shared.sent).min(count);
            shared.sent += of_value;
            self.shared_len -= of_value;
            count -= of_value;
            if self.sent < shared.place || shared.sent < shared.value.len() {
                return;
            }
            self.shared.pop_front();
        }
        self.sent += count;
    }

    /// Gives back the room of the bytes that have been sent; for a client that always lags a little it would be kept for ever
    /// otherwise. Fewer bytes are moved than have been sent since the last time.
    fn cut_off(&mut self) {
        self.bytes.drain(..self.sent);
        self.bytes.shrink_to(KEPT_BYTES.max(2 * self.bytes.len()));
        self.shared.iter_mut().for_each(|shared| shared.place -= self.sent);
        self.sent = 0;
    }

    /// Forgets everything, and gives back a buffer that has grown large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.shared.clear();
        self.shared_len = 0;
        self.sent = 0;
        self.shown = 0;
        self.writes.clear();
    }

    /// Moves everything to the end of `other`, leaving this output empty. If `other` is empty, as it is most of the time,
    /// nothing is copied.
    pub fn move_to(&mut self, other: &mut Output) {
        if other.is_empty() {
            std::mem::swap(self, other);
        } else {
            let (offset, before) = (other.bytes.len(), other.shared.len());
            other.shown = other.shown.max(self.shown);
            let moved = |mark: Mark| Mark { bytes: mark.bytes - self.sent + offset, shared: mark.shared + before };
            other.writes.extend(self.writes.drain(..).map(|(start, end)| (moved(start), moved(end))));
            other.bytes.extend_from_slice(&self.bytes[self.sent..]);
            let sent = self.sent;
            other.shared_len += self.shared_len;
            other.shared.extend(self.shared.drain(..).map(|mut shared| {
                shared.place = shared.place - sent + offset;
                shared
            }));
        }
        self.clear();
    }

    /// Appends everything to a plain buffer, copying shared values; leaves this output empty.
    pub fn copy_to(&mut self, into: &mut Vec<u8>) {
        while !self.is_empty() {
            let pieces = self.pieces();
            let mut copied = 0;
            for piece in &pieces {
                into.extend_from_slice(piece);
                copied += piece.len();
            }
            self.advance(copied);
        }
    }
}

/// A place in an output; see [`Output::mark`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    bytes: usize,
    shared: usize,
}

/// Pieces that one system call takes; the kernel's own limit is 1,024.
const PIECES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_leave_in_order_however_they_are_cut() {
        for step in 1..40 {
            let mut output = Output::default();
            let mut expected = Vec::new();
            for round in 0..100_u8 {
                output.bytes.extend_from_slice(&[round; 3]);
                expected.extend_from_slice(&[round; 3]);
                if round % 3 == 0 {
                    output.share(Arc::new(vec![round; 7]));
                    expected.extend_from_slice(&[round; 7]);
                }
            }
            let mut moved = Output::default();
            moved.bytes.extend_from_slice(b"before");
            output.advance(5);
            output.move_to(&mut moved);
            assert!(output.is_empty());
            assert_eq!(moved.len(), expected.len() - 5 + 6);
            let mut left = Vec::new();
            while !moved.is_empty() {
                let flat: Vec<u8> = moved.pieces().iter().flat_map(|piece| piece.to_vec()).collect();
                let count = step.min(flat.len());
                left.extend_from_slice(&flat[..count]);
                moved.advance(count);
            }
            assert_eq!(left, [b"before", &expected[5..]].concat());
        }
    }

    #[test]
    fn what_has_left_is_given_back_although_a_little_always_waits() {
        let mut output = Output::default();
        output.bytes.extend_from_slice(&[0; 100]);
        for round in 0..10_000 {
            output.bytes.extend_from_slice(&[0; 500]);
            output.share(Arc::new(vec![0; 500]));
            output.advance(1_000);
            assert_eq!(output.len(), 100, "round {round}");
        }
        assert!(output.bytes.capacity() <= 2 * KEPT_BYTES, "{} are held", output.bytes.capacity());
    }

    #[test]
    fn what_moves_to_a_connection_is_not_held_by_the_worker() {
        for already_waiting in [0, 1] {
            let (mut output, mut waiting) = (Output::default(), Output::default());
            waiting.bytes.resize(already_waiting, 0);
            output.bytes.resize(10_000_000, 0);
            output.advance(1);
            output.move_to(&mut waiting);
            assert_eq!(waiting.len(), 10_000_000 - 1 + already_waiting);
            assert!(output.is_empty() && output.bytes.capacity() <= KEPT_BYTES);
        }
    }

    #[test]
    fn replies_of_lost_changes_become_errors_and_the_others_stay() {
        let (mut output, mut before) = (Output::default(), Output::default());
        for (text, is_write) in
            [("+a\r\n", true), ("+b\r\n", false), ("$3\r\n", false), ("+c\r\n", true), ("+d\r\n", true)]
        {
            let mark = output.mark();
            output.bytes.extend_from_slice(text.as_bytes());
            if text == "$3\r\n" {
                output.share(Arc::new(b"xyz".to_vec()));
                output.bytes.extend_from_slice(b"\r\n");
            }
            if is_write {
                output.note_write(mark);
            }
        }
        let mark = output.mark();
        output.bytes.extend_from_slice(b"+gone\r\n");
        output.note_write(mark);
        output.rewind(mark);
        before.share(Arc::new(b"before".to_vec()));
        before.bytes.extend_from_slice(b"|");
        output.move_to(&mut before);
        before.refuse_writes(b"NO");
        let mut bytes = Vec::new();
        before.copy_to(&mut bytes);
        assert_eq!(String::from_utf8_lossy(&bytes), "before|-NO\r\n+b\r\n$3\r\nxyz\r\n-NO\r\n-NO\r\n");
    }

    #[test]
    fn rewinding_forgets_bytes_and_values() {
        let mut output = Output::default();
        output.bytes.extend_from_slice(b"+OK\r\n");
        let mark = output.mark();
        output.share(Arc::new(vec![1; 10]));
        output.bytes.extend_from_slice(b"\r\n");
        output.rewind(mark);
        assert_eq!(output.plain(), Some(b"+OK\r\n".as_slice()));
    }
}
