//! What a broken connection loses: the bytes that had left are compared with the bytes of each request.
//!
//! What had left whole is lost, and nobody knows whether it was executed; what had not is kept, and goes out first on the next
//! connection, which is in another database by then and watches nothing. Not so where whoever asked has been told meanwhile
//! that time was up: nobody waits for that any more.

use std::collections::VecDeque;
use std::mem;

use super::Pipe;
use super::in_flight::{Asker, Entry};
use super::segment::{SELECT_LENGTH_MAX, Segment, write_select};
use super::slot::FIRST_CONNECTION;

impl Pipe {
    /// The connection broke. Returns the entries whose requests had left whole; `taken` are those whose replies the reader was
    /// handing out. The others stay, to go out first on the next connection.
    pub(crate) fn cut(&mut self, taken: VecDeque<Entry>) -> Vec<Entry> {
        let mut lost: Vec<Entry> = taken.into_iter().collect();
        let mut position = self.answered;
        while let Some(entry) = self.in_flight.pop_front() {
            if position + entry.length as u64 > self.sent {
                self.in_flight.push_front(entry);
                break;
            }
            position += entry.length as u64;
            self.queued -= entry.length;
            lost.push(entry);
        }
        (self.wire_database, self.unwatches) = (self.home, false);
        self.keep_unsent(position);
        // A transaction whose looks were out has executed nothing: it begins again, ahead of what it held back.
        if let Some(Entry { asker: Asker::Exchange(exchange), .. }) = lost.last()
            && exchange.holds()
            && !exchange.is_over()
            && let Some(entry) = lost.pop()
        {
            self.queued += entry.length;
            self.backlog.push_front(Segment { holds: true, ..Segment::of_one(entry, Vec::new()) });
        }
        (self.connected, self.held) = (false, false);
        (self.sent, self.answered, self.expired) = (0, 0, 0);
        // A number is used again after four thousand million connections.
        self.connection = self.connection.wrapping_add(1).max(FIRST_CONNECTION);
        self.source.renew_for(self.connection);
        self.restart_exchange();
        self.reselect();
        lost
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
        self.backlog.push_front(Segment { bytes, start, entries, holds: self.held });
        if has_told {
            self.gather_again(|entry| !entry.asker.is_over());
        }
    }

    /// A transaction with conditions that is first in line watches again: the old connection's WATCH is gone.
    fn restart_exchange(&mut self) {
        let Some(segment) = self.backlog.front_mut() else { return };
        let Some(entry) = segment.entries.front_mut() else { return };
        let Asker::Exchange(exchange) = &mut entry.asker else { return };
        if let Some(request) = exchange.restart() {
            self.queued = self.queued + request.len() - entry.length;
            (entry.replies, entry.length, entry.selects) = (exchange.frames(), request.len(), false);
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
