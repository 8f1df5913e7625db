//! Which requests leave next: they are lent as bytes to whoever writes, and their entries are in flight from then on.
//!
//! One segment leaves after the other. While something is held back only what is urgent leaves; which requests those are, and
//! what is held back for how long, is decided by what the server turns away and by transactions. It takes bytes and gives bytes:
//! no socket, no clock, no thread.

use std::mem;

use super::super::in_flight::{Asker, Entry, Time};
use super::super::resend::LastWritten;
use super::super::segment::{Precedence, Segment};
use super::super::{KEPT_CAPACITY_MAX, Pipe, UNWATCH, WriteState};
use super::hold::Hold;

impl Pipe {
    /// Whether somebody has the bytes and is writing them.
    pub(crate) fn is_lent(&self) -> bool {
        self.write_state == WriteState::Lent
    }

    /// Whether there is something that may be written now, by somebody who is not writing yet.
    pub(crate) fn can_write(&self) -> bool {
        self.write_state == WriteState::Open && (!self.writing.is_empty() || self.may_begin())
    }

    /// Whether there is a segment that may leave now.
    #[inline]
    fn may_begin(&self) -> bool {
        (!self.out.bytes.is_empty() || !self.backlog.is_empty()) && (!self.hold.is_on() || self.is_urgent())
    }

    /// Whether the first in line leaves even while others are held back.
    fn is_urgent(&self) -> bool {
        self.backlog.front().is_some_and(|segment| segment.precedence == Precedence::Urgent)
    }

    /// Lends the bytes to be written and how many of them have left already. Give them back with [`Pipe::wrote`].
    pub(crate) fn lend(&mut self) -> Option<(Vec<u8>, usize)> {
        if !self.can_write() {
            return None;
        }
        if self.writing.is_empty() {
            if self.dead > 0 {
                self.gather_again(|_, _| true);
                if !self.may_begin() {
                    return None;
                }
            }
            self.next_segment();
        }
        self.write_state = WriteState::Lent;
        Some((mem::take(&mut self.writing), self.written))
    }

    /// Moves the next segment on its way.
    fn next_segment(&mut self) {
        if mem::take(&mut self.unwatches) {
            let (database, length) = (self.wire_database, UNWATCH.len());
            let time = self.first_segment().entries.front().map_or(Time::Issued(0), Entry::time);
            let entry = Entry::new(Asker::Nobody, 1, false, database, length, time);
            self.queued += length;
            self.backlog.push_front(Segment::of_one(entry, UNWATCH.to_vec()));
        } else if (self.hold != Hold::Nothing || self.is_elsewhere) && !self.is_urgent() {
            self.choose_next();
        }
        let mut segment = self.backlog.pop_front();
        let segment = segment.as_mut().unwrap_or(&mut self.out);
        mem::swap(&mut self.writing, &mut segment.bytes);
        self.written = mem::take(&mut segment.start);
        self.writing_precedence = segment.precedence;
        if mem::take(&mut segment.holds) {
            self.hold = Hold::Transaction;
        }
        if let Some(last) = segment.entries.back_mut() {
            if segment.precedence == Precedence::Urgent && !last.selects {
                // It was gathered for whichever database the connection is in.
                last.database = self.wire_database;
            }
            self.wire_database = last.database;
        }
        if self.in_flight.is_empty() {
            mem::swap(&mut self.in_flight, &mut segment.entries);
        } else {
            self.replay_buffer.append(LastWritten { bytes: &self.last_written, sent: self.sent }, self.answered);
            self.last_written.clear();
            self.in_flight.append(&mut segment.entries);
        }
        if self.writing_precedence == Precedence::Retry {
            self.reselect();
        }
    }

    /// Takes the lent bytes back, of which `count` more have left.
    pub(crate) fn wrote(&mut self, bytes: Vec<u8>, count: usize) {
        self.write_state = WriteState::Open;
        self.writing = bytes;
        self.written += count;
        self.sent += count as u64;
        if self.written >= self.writing.len() {
            self.written = 0;
            mem::swap(&mut self.writing, &mut self.last_written);
            self.writing.clear();
            if self.last_written.capacity() > KEPT_CAPACITY_MAX {
                self.last_written = Vec::new();
            }
        }
    }
}
