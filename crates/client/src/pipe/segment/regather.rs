//! Requests that are gathered again: without those that need not leave any more, and each in its database.
//!
//! All gathered bytes are copied for that, so it is done when something has changed for all of them. Called by the owner of
//! the pipe.

use std::mem;

use super::super::Pipe;
use super::super::in_flight::{Asker, Entry};
use super::Precedence;

impl Pipe {
    /// Takes those of the gathered requests out that are not kept, or that have callers that were told that they timed out.
    /// The others keep their order, and are each in their database.
    pub(in super::super) fn gather_again(&mut self, mut is_kept: impl FnMut(&mut Entry, &[u8]) -> bool) {
        let mut segments = mem::take(&mut self.backlog);
        segments.push_back(mem::take(&mut self.out));
        self.database = self.wire_database;
        self.queued += mem::take(&mut self.dead);
        for segment in segments {
            self.queued -= segment.held();
            let (holds, precedence) = (segment.holds, segment.precedence);
            segment.for_each(|mut entry, request| {
                if entry.was_told() || !is_kept(&mut entry, request) {
                    return;
                }
                let (frames, time) = (entry.frames(), entry.time());
                // One that ends a script needs no database, and should not wait for one.
                let needs_none = precedence == Precedence::Urgent && matches!(entry.asker, Asker::Slot(_));
                let database = if needs_none { self.database } else { entry.database };
                self.queued += self.out.push(entry.asker, frames, (database, &mut self.database), request, time);
                self.out.entries.back_mut().into_iter().for_each(|last| last.had_left = entry.had_left);
            });
            if !self.out.entries.is_empty() {
                (self.out.holds, self.out.precedence) = (holds, precedence);
            }
            self.close_segment();
        }
    }
}
