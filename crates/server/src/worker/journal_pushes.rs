//! CLIENT JOURNAL: behind its replies a connection is told up to which offset they show the journal, and up to which the disk
//! has it.
//!
//! There is one form of message, `journal OFFSET SYNCED`: all replies before it show nothing behind OFFSET, and the disk has
//! the journal up to SYNCED, which is null where nobody will ever know (no log, or `appendfsync no`). It goes behind the
//! replies of each wake-up, and once more whenever the disk has got further, as long as OFFSET lies beyond that. So what a
//! client has to remember is the first OFFSET behind each reply.
//!
//! A message about the disk alone is only sent where all replies before it have been told of: behind replies that are held it
//! would seem to cover them. And only to a client that reads: who does not gets one for many.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Worker;
use super::journal_followers::Follower;
use crate::driver::Token;
use crate::execute::scratch::Scratch;
use crate::messaging::mail::Letter;
use crate::request::output::Output;

impl Worker {
    /// A client has said CLIENT JOURNAL ON: it is told how much all its replies so far show.
    pub(super) fn follow_journal(&mut self, id: u64) {
        let Some((token, session)) = self.session_of(id) else { return };
        let (client, shown) = (Arc::clone(&session.state.client), session.state.shown_offset);
        // It may have changed its mind, or have done so twice.
        if self.held.followers.get_mut(token).is_some() || !client.follows_journal.load(Ordering::Relaxed) {
            return;
        }
        let follower = Follower { client, shown, synced: self.engine.known_synced_offset(), is_owed: false };
        let mut bytes = Vec::new();
        follower.message(&mut bytes);
        let (waits, synced) = (follower.waits(), follower.synced);
        self.held.followers.insert(token, follower);
        self.held.count_uses();
        self.queue(token, &Arc::new(bytes));
        if waits {
            self.listen_for_sync(synced);
        }
    }

    /// Puts behind replies that are about to leave how much they show, if their client follows the journal.
    pub(super) fn cover(&mut self, token: Token, output: &mut Output) {
        let Some(follower) = self.held.followers.get_mut(token) else { return };
        if !follower.follows() {
            return self.held.forget_follower(token);
        }
        if output.is_empty() && output.shown <= follower.shown {
            return;
        }
        follower.shown = follower.shown.max(output.shown);
        if output.is_empty() && self.driver.waiting(token) != 0 {
            // It has no replies, and does not read.
            follower.is_owed = true;
            self.held.followers.has_late = true;
            return;
        }
        follower.synced = self.engine.known_synced_offset();
        follower.is_owed = false;
        follower.message(&mut output.bytes);
        if follower.waits() {
            let synced = follower.synced;
            self.listen_for_sync(synced);
        }
    }

    /// Tells those who wait for it that the disk has got further. What is told leaves with what the mail brings.
    pub(super) fn tell_synced(&mut self) {
        let synced = self.engine.known_synced_offset();
        let mut waits = false;
        for token in self.held.followers.tokens().to_vec() {
            let (has_held, is_behind) = (self.held.has(token), self.driver.waiting(token) != 0);
            let Some(follower) = self.held.followers.get_mut(token) else { continue };
            if !follower.follows() {
                self.held.forget_follower(token);
                continue;
            }
            waits |= synced.is_some_and(|synced| follower.shown > synced);
            let is_news = follower.is_owed || (follower.waits() && follower.synced != synced);
            if !is_news || has_held {
                continue;
            }
            follower.is_owed = is_behind;
            if is_behind {
                self.held.followers.has_late = true;
                continue;
            }
            follower.synced = synced;
            let mut bytes = Vec::new();
            follower.message(&mut bytes);
            self.queue(token, &Arc::new(bytes));
        }
        if waits {
            self.listen_for_sync(synced);
        }
    }

    /// Tells those who were not told because they had not read what came before.
    pub(super) fn tell_late_readers(&mut self, scratch: &mut Scratch) {
        if std::mem::take(&mut self.held.followers.has_late) {
            self.tell_synced();
            self.send_queued(scratch);
        }
    }

    /// Has a letter come when the disk has got further than `synced`.
    fn listen_for_sync(&mut self, synced: Option<u64>) {
        if std::mem::replace(&mut self.held.followers.is_listening, true) {
            return;
        }
        let (engine, mailbox) = (&self.engine, &self.home.mailbox);
        if engine.tell_when_synced(synced, mailbox) {
            mailbox.post_unheard(Letter::Synced);
        }
    }
}
