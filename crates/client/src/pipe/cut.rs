//! What a broken connection loses: the bytes that had left are compared with the bytes of each request.
//!
//! What had left whole is lost, and nobody knows whether it was executed; what had not is kept, and goes out first on the next
//! connection, which is in another database by then and watches nothing. Ahead of it go the reads among what is lost, and
//! what else is to be sent again (`resend`). Not so where whoever asked has been told meanwhile that time was up: nobody waits
//! for that any more.

use std::collections::VecDeque;
use std::mem;

use sleeve_wire::commands::{Flags, OwnConnection};

use super::in_flight::{Asker, Entry};
use super::resend::Left;
use super::segment::{SELECT_LENGTH_MAX, Segment, select_length, write_select};
use super::slot::FIRST_CONNECTION;
use super::{Pipe, WriteState};
use crate::config::Resend;
use crate::request::name::Name;
use crate::request::words::Places;

/// What a SELECT begins with that goes ahead of a request.
const SELECT: &[u8] = b"*2\r\n$6\r\nSELECT\r\n";

impl Pipe {
    /// The connection broke. Returns the entries whose requests had left whole and are not sent again, which none is unless
    /// `resend` says so; `taken` are those whose replies the reader was handing out. The others stay, to go out first on the next
    /// connection.
    pub(crate) fn cut(&mut self, taken: VecDeque<Entry>, resend: Resend) -> Vec<Entry> {
        self.end_pause();
        let mut lost: Vec<Entry> = taken.into_iter().collect();
        let (answered, mut again) = (self.answered, Segment::default());
        let mut position = answered;
        while let Some(entry) = self.in_flight.pop_front() {
            if position + entry.length as u64 > self.sent {
                self.in_flight.push_front(entry);
                break;
            }
            self.queued -= entry.length;
            let length = entry.length as u64;
            lost.extend(self.send_again(entry, position, resend, &mut again));
            position += length;
        }
        (self.wire_database, self.unwatches) = (self.home, false);
        self.keep_unsent(position);
        // A transaction whose looks were out has executed nothing: it begins again, ahead of what it held back.
        if let Some(Entry { asker: Asker::Transaction(transaction), .. }) = lost.last()
            && transaction.holds()
            && !transaction.is_over()
            && let Some(entry) = lost.pop()
        {
            self.queued += entry.length;
            self.backlog.push_front(Segment { holds: true, ..Segment::of_one(entry, Vec::new()) });
        }
        (self.write_state, self.held) = (WriteState::Closed, false);
        (self.sent, self.answered, self.expired) = (0, 0, 0);
        // A number is used again after four thousand million connections.
        self.connection = self.connection.wrapping_add(1).max(FIRST_CONNECTION);
        self.source.renew_for(self.connection);
        self.restart_transaction();
        // A fresh connection has logged in for itself, with what holds by then.
        if self.backlog.iter().chain([&self.out]).any(|segment| segment.entries.iter().any(logs_in)) {
            self.gather_again(|entry| !logs_in(entry));
        }
        self.reselect();
        self.queue_again(again, answered);
        lost
    }

    /// Empties the queue for good: returns everything that was never written. Cut the connection first.
    pub(crate) fn clear(&mut self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.backlog.drain(..).flat_map(|segment| segment.entries).collect();
        entries.extend(mem::take(&mut self.out).entries);
        (self.queued, self.dead) = (0, 0);
        self.database = self.home;
        entries
    }

    /// What was on its way and did not leave whole becomes the first segment again.
    fn keep_unsent(&mut self, position: u64) {
        let bytes = mem::take(&mut self.writing);
        let written = mem::take(&mut self.written) as u64;
        let entries = mem::take(&mut self.in_flight);
        if entries.is_empty() {
            return;
        }
        let has_told = entries.iter().any(|entry| entry.asker.is_over());
        // The bytes before `written` are those that `sent` ends with.
        let start = usize::try_from(position + written - self.sent).unwrap_or(usize::MAX);
        self.backlog.push_front(Segment { bytes, start, entries, holds: self.held, again: false });
        if has_told {
            self.gather_again(|entry| !entry.asker.is_over());
        }
    }

    /// A transaction with conditions that is first in line watches again: the old connection's WATCH is gone.
    fn restart_transaction(&mut self) {
        let Some(segment) = self.backlog.front_mut() else { return };
        let Some(entry) = segment.entries.front_mut() else { return };
        let Asker::Transaction(transaction) = &mut entry.asker else { return };
        if let Some(request) = transaction.restart() {
            self.queued = self.queued + request.len() - entry.length;
            (entry.replies, entry.length, entry.selects) = (transaction.frames(), request.len(), false);
            (segment.bytes, segment.start, segment.holds) = (request, 0, true);
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
    /// Puts a request that had left, and stands here in what has, among those that are to be sent again; or gives it back.
    fn send_again(&mut self, mut entry: Entry, position: u64, resend: Resend, again: &mut Segment) -> Option<Entry> {
        // Where nothing at all was answered the oldest may be the one that breaks connections.
        let is_suspect = position == 0 && self.kept.again_until > 0;
        let length = entry.length as u64;
        if is_suspect || length > self.kept.bank || entry.was_told() || resend == Resend::Nothing {
            return Some(entry);
        }
        match self.request_at(&entry, position) {
            Some(request) if only_reads(&entry) || (resend == Resend::Overwrites && overwrites(&entry, request)) => {
                again.bytes.extend_from_slice(request);
                entry.length = request.len();
            }
            _ => return Some(entry),
        }
        entry.replies -= u32::from(mem::take(&mut entry.selects));
        again.entries.push_back(entry);
        self.kept.bank -= length;
        None
    }

    /// The request of an entry whose bytes had left from this place of the connection on, without its SELECT; none where the
    /// bytes are gone.
    pub(super) fn request_at(&self, entry: &Entry, position: u64) -> Option<&[u8]> {
        let bytes = match self.writing.is_empty() {
            // Whoever writes has them; what was written before is kept by now, or answered.
            _ if self.is_lent() => &[],
            true => self.last.as_slice(),
            false => self.writing.get(..self.written).unwrap_or_default(),
        };
        let newest = Left { bytes, sent: self.sent };
        let bytes = self.kept.get(position, position + entry.length as u64, newest)?;
        // Its SELECT may be answered, and have an entry of its own by now.
        bytes.get(if bytes.starts_with(SELECT) { select_length(entry.database) } else { 0 }..)
    }

    /// Puts what is to be sent again first in line, on the next connection. So much was answered on the last.
    fn queue_again(&mut self, again: Segment, answered: u64) {
        let count = again.entries.len();
        self.last = Vec::new();
        self.kept.start_anew(answered);
        if count == 0 {
            return;
        }
        self.queued += again.length();
        self.backlog.push_front(again);
        // Each is in its database on a connection that begins in another.
        self.gather_again(|_| true);
        let entries = self.backlog.iter().flat_map(|segment| &segment.entries);
        self.kept.again_until = entries.take(count).map(|entry| entry.length as u64).sum();
    }
}

/// Whether it shows the server who speaks, which nobody but the connection itself does.
fn logs_in(entry: &Entry) -> bool {
    let row = entry.asker.name().and_then(Name::row);
    row.is_some_and(|row| row.connection == Some(OwnConnection::Greeting))
}

/// Whether somebody waits for a reply that can be asked for again: the command only reads, and does not wait on the server.
fn only_reads(entry: &Entry) -> bool {
    let is_awaited = match &entry.asker {
        Asker::Slot(target) => !target.is_abandoned(),
        Asker::Read(read) => read.target().is_some(),
        _ => false,
    };
    let row = entry.asker.name().and_then(Name::row);
    is_awaited && row.is_some_and(|row| row.flags.contains(Flags::READONLY) && row.timeout.is_none())
}

/// Whether a command writes, and leaves and answers the same when it is executed twice in a row.
fn overwrites(entry: &Entry, request: &[u8]) -> bool {
    let row = entry.asker.name().and_then(Name::row);
    matches!(entry.asker, Asker::Slot(_)) && row.is_some_and(|row| row.may_repeat(Places::of(request).args(request)))
}
