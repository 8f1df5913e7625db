//! CLIENT JOURNAL: behind its replies a connection is sent the offset up to which they show the journal, and the offsets up
//! to which the disk has it, and replicas.
//!
//! There are two forms of message. `journal OFFSET SYNCED`: all replies before it show nothing behind OFFSET, and the disk
//! has the journal up to SYNCED, which is null where that will never be known (no AOF, or `appendfsync no`). A client that
//! has asked for replicas gets two more arrays: the offsets up to which at least one replica, two, three ... have applied it,
//! and have it on their disks. The message goes behind the replies of each wake-up, and once more when the disk or a replica
//! has got further, as long as OFFSET lies beyond that. So a client has to remember only the first OFFSET behind each reply.
//!
//! A message by itself is only sent where all replies before it have been covered: behind replies that are held it would seem
//! to cover them. And only to a client that reads: a client that does not read gets one for many.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Worker;
use super::journal_followers::Follower;
use crate::engine::Engine;
use crate::engine::replication::AckedByCount;
use crate::execute::scratch::Scratch;
use crate::messaging::mail::Letter;
use crate::net::Token;
use crate::request::output::Output;

impl Worker {
    /// Begins to follow the journal for a client of CLIENT JOURNAL ON: it is sent the offset that all its replies so far
    /// show.
    pub(super) fn follow_journal(&mut self, id: u64) {
        let Some((token, session)) = self.session_of(id) else { return };
        let (client, shown) = (Arc::clone(&session.state.client), session.state.journal.shown_offset);
        // It may have changed its mind, or have done so twice.
        if self.held.followers.get_mut(token).is_some() || !client.settings.follows_journal.load(Ordering::Relaxed) {
            return;
        }
        let mut follower = Follower { client, shown, synced: None, acked: None, is_owed: false };
        bring_up_to_date(&mut follower, &self.engine);
        let mut bytes = Vec::new();
        follower.message(&mut bytes);
        let wants = Wants::of(&follower);
        self.held.followers.insert(token, follower);
        self.held.count_uses();
        self.queue(token, &Arc::new(bytes));
        self.listen_to_progress(wants);
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
        bring_up_to_date(follower, &self.engine);
        follower.message(&mut output.bytes);
        let wants = Wants::of(follower);
        self.listen_to_progress(wants);
    }

    /// Tells the followers that wait for it that the disk or a replica has got further. The messages leave with the rest of
    /// the mail.
    pub(super) fn tell_synced(&mut self) {
        let synced = self.engine.persistence.known_synced_offset(&self.engine);
        let mut wants = Wants::default();
        for token in self.held.followers.tokens().to_vec() {
            let (has_held, is_behind) = (self.held.has(token), self.driver.waiting(token) != 0);
            let Some(follower) = self.held.followers.get_mut(token) else { continue };
            if !follower.follows() {
                self.held.forget_follower(token);
                continue;
            }
            let has_told = Wants::of(follower);
            let acked = has_told.acked.as_ref().map(|_| self.engine.replication.replicas.acked_by_count());
            let is_news_of_replicas = acked.is_some() && follower.acked != acked;
            let is_news = follower.is_owed || (follower.waits() && follower.synced != synced) || is_news_of_replicas;
            if !is_news || has_held {
                wants.add(has_told);
                continue;
            }
            follower.is_owed = is_behind;
            if is_behind {
                self.held.followers.has_late = true;
                continue;
            }
            bring_up_to_date(follower, &self.engine);
            wants.add(Wants::of(follower));
            let mut bytes = Vec::new();
            follower.message(&mut bytes);
            self.queue(token, &Arc::new(bytes));
        }
        self.listen_to_progress(wants);
    }

    /// Tells the followers that were left out because they had not read earlier bytes.
    pub(super) fn tell_late_readers(&mut self, scratch: &mut Scratch) {
        if std::mem::take(&mut self.held.followers.has_late) {
            self.tell_synced();
            self.send_queued(scratch);
        }
    }

    /// Asks for a letter when the wanted progress is there.
    fn listen_to_progress(&mut self, wants: Wants) {
        let (engine, mailbox, followers) = (&self.engine, &self.home.mailbox, &mut self.held.followers);
        let mut is_there = false;
        if let Some(synced) = wants.synced
            && !std::mem::replace(&mut followers.is_listening, true)
        {
            is_there |= engine.persistence.tell_when_synced(engine, synced, mailbox);
        }
        if let Some(acked) = wants.acked
            && !std::mem::replace(&mut followers.is_listening_to_replicas, true)
        {
            let replicas = &engine.replication.replicas;
            replicas.tell_when_acknowledged(mailbox);
            // One may have said so since it was looked at.
            is_there |= replicas.acked_by_count() != acked;
        }
        if is_there {
            mailbox.post_unheard(Letter::Synced);
        }
    }
}

/// The progress that a worker's followers wait for.
#[derive(Debug, Default)]
struct Wants {
    /// That the disk has got further than this.
    synced: Option<Option<u64>>,
    /// That replicas have.
    acked: Option<AckedByCount>,
}

impl Wants {
    fn of(follower: &Follower) -> Self {
        Self {
            synced: follower.waits().then_some(follower.synced),
            acked: follower.waits_for_replicas().then(|| follower.acked.clone().unwrap_or_default()),
        }
    }

    fn add(&mut self, other: Self) {
        self.synced = self.synced.or(other.synced);
        self.acked = self.acked.take().or(other.acked);
    }
}

/// Updates the next message for a follower to the present offsets.
fn bring_up_to_date(follower: &mut Follower, engine: &Engine) {
    follower.synced = engine.persistence.known_synced_offset(engine);
    follower.acked = follower.follows_replicas().then(|| engine.replication.replicas.acked_by_count());
    follower.is_owed = false;
}
