//! The loss of a broken connection: the bytes that had left are compared with the bytes of each request.
//!
//! A request that had left whole is lost, and it is unknown whether it was executed. A request that had not left whole is
//! kept, and goes out first on the next connection, which is in another database by then and watches nothing. Ahead of it go
//! the reads among the lost requests, and the others that are to be sent again (`resend`). Ahead of those go the requests
//! that the server had turned away before they left (`refused`). A request is not sent again if its caller has been told that
//! it timed out: no caller waits for it any more.

use std::collections::VecDeque;
use std::mem;

use sleeve_wire::commands::{Flags, OwnConnection};

use super::in_flight::{Asker, Entry};
use super::refused::hold::Hold;
use super::resend::{LastWritten, ReplayBuffer};
use super::segment::{Precedence, SELECT_LENGTH_MAX, Segment, select_length, write_select};
use super::slot::FIRST_CONNECTION;
use super::{Pipe, WriteState};
use crate::config::Resend;
use crate::request::name::Name;
use crate::request::words::Places;
use crate::sys::planted::{self, Fault};

/// The beginning of a SELECT that goes ahead of a request.
const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n";

impl Pipe {
    /// Handles the loss of the connection. Returns the entries with requests that had left whole and are not sent again;
    /// unless `resend` says so, none is sent again. `taken` are the entries with replies that the reader was handing out. The
    /// others stay, to go out first on the next connection, in the order in which they were gathered. So those that were
    /// turned away are ahead of all that left after them, except a probe.
    pub(crate) fn cut(&mut self, taken: VecDeque<Entry>, resend: Resend) -> Vec<Entry> {
        let mut lost: Vec<Entry> = taken.into_iter().collect();
        let (answered, mut again) = (self.answered, Segment::default());
        let mut position = answered;
        while let Some(entry) = self.in_flight.pop_front() {
            if position + entry.length as u64 > self.sent {
                self.in_flight.push_front(entry);
                break;
            }
            self.queued -= entry.held();
            let length = entry.length as u64;
            lost.extend(self.send_again(entry, position, resend, &mut again));
            position += length;
        }
        if let Hold::Probing { .. } = self.hold {
            again.precedence = Precedence::Retry;
        }
        let kept = [self.take_unsent(position), self.take_transaction(&mut lost)];
        let has_told = kept.iter().flatten().flat_map(|segment| &segment.entries).any(|entry| entry.asker.is_over());
        let (urgent, retries) = self.ahead();
        let (count, is_alone) = (again.entries.len(), urgent + retries == 0);
        let is_first = is_alone || (again.precedence == Precedence::Retry && urgent == 0);
        self.queued += again.held();
        for segment in kept.into_iter().flatten().chain((count > 0).then_some(again)) {
            let place = match segment.precedence {
                Precedence::Urgent => 0,
                Precedence::Retry => urgent,
                Precedence::Normal => urgent + retries,
            };
            self.backlog.insert(place, segment);
        }
        self.start_anew(answered);
        let has_login = self.backlog.iter().chain([&self.out]).any(|segment| segment.entries.iter().any(logs_in));
        if count > 0 || has_told || has_login || !is_alone {
            // Each is in its database on a connection that begins in another, and that has logged in itself.
            self.gather_again(|entry, _| !entry.asker.is_over() && !logs_in(entry));
        } else {
            self.reselect();
        }
        if is_first {
            let entries = self.backlog.iter().flat_map(|segment| &segment.entries);
            self.retried_until = entries.take(count).map(|entry| entry.length as u64).sum();
        }
        self.hold = Hold::Nothing;
        if self.ahead().1 > 0 {
            self.probe_next();
        }
        lost
    }

    /// Notes that the reply to the oldest request cannot be taken, so the connection ends: the request is then the first of
    /// those that [`Pipe::cut`] returns, and is not sent again.
    pub(crate) fn blame_oldest(&mut self) {
        self.blames_oldest = true;
    }

    /// Returns whether the reply to the oldest request in flight cannot be taken.
    pub(crate) fn blames_oldest(&self) -> bool {
        self.blames_oldest
    }

    /// Begins the next connection, with nothing in flight. `answered` is the number of bytes that were answered on the last.
    fn start_anew(&mut self, answered: u64) {
        self.write_state = WriteState::Closed;
        (self.wire_database, self.unwatches, self.is_elsewhere) = (self.home, false, false);
        (self.sent, self.answered, self.expired) = (0, 0, 0);
        (self.pause.until_ms, self.probe_end, self.retried_until) = (None, 0, 0);
        self.blames_oldest = false;
        (self.last_written, self.replay_buffer) = (Vec::new(), ReplayBuffer::default());
        self.retry_budget.refill(answered);
        // A number is used again after four thousand million connections.
        self.connection = self.connection.wrapping_add(1).max(FIRST_CONNECTION);
        self.source.renew_for(self.connection);
    }

    /// Empties the queue for good: returns everything that was never written. Cut the connection first.
    pub(crate) fn clear(&mut self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.backlog.drain(..).flat_map(|segment| segment.entries).collect();
        entries.extend(mem::take(&mut self.out).entries);
        (self.queued, self.dead) = (0, 0);
        self.database = self.home;
        entries
    }

    /// Takes the requests in flight that did not leave whole. `position` is how many bytes had left whole.
    fn take_unsent(&mut self, position: u64) -> Option<Segment> {
        let bytes = mem::take(&mut self.writing);
        let written = mem::take(&mut self.written) as u64;
        let entries = mem::take(&mut self.in_flight);
        if entries.is_empty() {
            return None;
        }
        // The bytes before `written` are those that `sent` ends with.
        let start = usize::try_from(position + written - self.sent).unwrap_or(usize::MAX);
        let (holds, precedence) = (self.hold == Hold::Transaction, self.writing_precedence);
        let mut segment = Segment { bytes, start, entries, holds, precedence };
        self.restart_transaction(&mut segment);
        Some(segment)
    }

    /// Takes a transaction with conditions that has begun, and has not been executed because no part of its second phase had
    /// left: it begins again, ahead of the requests that it held back.
    fn take_transaction(&mut self, lost: &mut Vec<Entry>) -> Option<Segment> {
        let is_transaction = |entry: &Entry| matches!(entry.asker, Asker::Transaction(_));
        let mut segment = if let Some(Entry { asker: Asker::Transaction(transaction), .. }) = lost.last()
            && transaction.holds()
            && !transaction.is_over()
        {
            let entry = lost.pop()?;
            self.queued += entry.held();
            Segment::of_one(entry, Vec::new())
        } else {
            let first = self.backlog.front().filter(|first| first.precedence == Precedence::Urgent)?;
            first.entries.front().filter(|entry| is_transaction(entry))?;
            self.backlog.pop_front()?
        };
        self.restart_transaction(&mut segment);
        Some(segment)
    }

    /// Makes a transaction with conditions watch again: the old connection's WATCH is gone.
    fn restart_transaction(&mut self, segment: &mut Segment) {
        let Some(entry) = segment.entries.front_mut() else { return };
        let Asker::Transaction(transaction) = &mut entry.asker else { return };
        if let Some(request) = transaction.restart() {
            self.queued = self.queued + request.len() - entry.length;
            (entry.replies, entry.length, entry.selects) = (transaction.frames(), request.len(), false);
            (segment.bytes, segment.start, segment.holds) = (request, 0, true);
            segment.precedence = Precedence::Normal;
        }
    }

    /// Makes the first request in line right for the database that the connection is in by then.
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
        // It gets a segment of its own, so that only its bytes are moved.
        let Some(mut alone) = segment.detach_first() else { return };
        self.first_segment();
        let mut bytes = Vec::with_capacity(alone.bytes.len() + SELECT_LENGTH_MAX);
        if let Some(entry) = alone.entries.front_mut() {
            write_select(&mut bytes, entry.database);
            let counted = if entry.was_told() { &mut self.dead } else { &mut self.queued };
            *counted += bytes.len();
            entry.length += bytes.len();
            entry.selects = true;
            entry.replies += 1;
        }
        bytes.extend_from_slice(&alone.bytes);
        self.backlog.push_front(Segment { bytes, ..alone });
    }
}

/// Requests that are sent again.
impl Pipe {
    /// Puts a request that had left, and stands at `position` in the bytes that have, among those that are to be sent again;
    /// or gives it back.
    fn send_again(&mut self, mut entry: Entry, position: u64, resend: Resend, again: &mut Segment) -> Option<Entry> {
        // Where nothing at all was answered the oldest may be the one that breaks connections.
        let is_suspect = (position == 0 && self.retried_until > 0) || (self.blames_oldest && position == self.answered);
        let length = entry.length as u64;
        if is_suspect || !self.retry_budget.allows(length) || entry.was_told() || resend == Resend::Nothing {
            return Some(entry);
        }
        match self.request_at(&entry, position) {
            Some(request) if only_reads(&entry) || may_repeat(&entry, request, resend) => {
                again.bytes.extend_from_slice(request);
                entry.length = request.len();
            }
            _ => return Some(entry),
        }
        entry.replies -= u32::from(mem::take(&mut entry.selects));
        entry.had_left |= !only_reads(&entry) && !planted::has(Fault::ForgetsThatItLeft);
        again.entries.push_back(entry);
        self.retry_budget.spend(length);
        None
    }

    /// Returns the request of an entry with bytes that had left from this position of the connection on, without its SELECT;
    /// none if the bytes are gone.
    pub(super) fn request_at(&self, entry: &Entry, position: u64) -> Option<&[u8]> {
        let bytes = match self.writing.is_empty() {
            // The writer has them; the bytes that were written before are kept by now, or answered.
            _ if self.is_lent() => &[],
            true => self.last_written.as_slice(),
            false => self.writing.get(..self.written).unwrap_or_default(),
        };
        let newest = LastWritten { bytes, sent: self.sent };
        let bytes = self.replay_buffer.get(position, position + entry.length as u64, newest)?;
        // Its SELECT may be answered, and have an entry of its own by now.
        bytes.get(if bytes.starts_with(SELECT) { select_length(entry.database) } else { 0 }..)
    }
}

/// Returns whether it authenticates the connection, which only the connection itself does.
fn logs_in(entry: &Entry) -> bool {
    let row = entry.asker.name().and_then(Name::row);
    row.is_some_and(|row| row.sharing.connection == Some(OwnConnection::Greeting))
}

/// Returns whether a caller waits for a reply that can be asked for again: the command only reads, and does not wait on the
/// server.
fn only_reads(entry: &Entry) -> bool {
    let is_awaited = match &entry.asker {
        Asker::Slot(target) => !target.is_abandoned(),
        Asker::Read(read) => read.target().is_some(),
        _ => false,
    };
    let row = entry.asker.name().and_then(Name::row);
    is_awaited && row.is_some_and(|row| row.flags.contains(Flags::READONLY) && row.timeout.is_none())
}

/// Returns whether a command that writes may be sent again though it had left.
fn may_repeat(entry: &Entry, request: &[u8], resend: Resend) -> bool {
    let Some(row) = entry.asker.name().and_then(Name::row).filter(|_| matches!(entry.asker, Asker::Slot(_))) else {
        return false;
    };
    let places = Places::of(request);
    let args = || places.args(request);
    match resend {
        _ if planted::has(Fault::RepeatsWrites) => true,
        Resend::Overwrites => row.sharing.repeat.is_some_and(|repeat| repeat.allows(args())),
        _ => row.sharing.repeat.is_some_and(|repeat| repeat.is_numbered(args())),
    }
}
