//! CLIENT JOURNAL: after its replies a connection is sent the offset of the journal that they show, and the offsets up to
//! which the disk and the replicas have the journal.
//!
//! There are two forms of message. `journal OFFSET SYNCED`: all replies before it show nothing behind OFFSET, and the disk
//! has the journal up to SYNCED, which is null if that will never be known (no AOF, or `appendfsync no`). A client that has
//! asked for replicas gets two more arrays: the offsets up to which at least one replica, two, three ... have applied the
//! journal, and have fsynced it. The message is sent after the replies of each wake-up, and again when the disk or a replica
//! has advanced, as long as OFFSET is beyond that. So a client has to remember only the first OFFSET after each reply.
//!
//! A message on its own is sent only if all replies before it have been sent: after held replies it would seem to cover them.
//! And it is sent only to a client that reads: a client that does not read gets one message in place of many. One thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_wire::reply::{Protocol, Writer};

use crate::engine::Engine;
use crate::engine::clients::client_info::ClientInfo;
use crate::engine::replication::AckedByCount;
use crate::messaging::mail::{Letter, Mailbox};
use crate::net::Token;
use crate::request::output::Output;

/// The connections of a worker that follow the journal, by token.
#[derive(Debug, Default)]
pub(super) struct JournalFollowers {
    rows: Vec<Option<JournalFollower>>,
    tokens: Vec<Token>,
    /// A follower was not sent a message, because it does not read.
    has_late: bool,
    /// A letter is ordered for the next advance of the disk.
    is_listening: bool,
    /// A letter is ordered for the next advance of a replica.
    is_listening_to_replicas: bool,
}

/// The source of the offsets, and the mailbox that gets the letters about them.
pub(super) type Progress<'a> = (&'a Engine, &'a Arc<Mailbox>);

/// The state of a follower: the offsets that it was sent.
#[derive(Debug)]
struct JournalFollower {
    /// The client.
    client: Arc<ClientInfo>,
    /// The offset of the journal that its replies show.
    shown: u64,
    /// The offset up to which the disk has the journal.
    synced: Option<u64>,
    /// The offsets up to which the replicas have the journal; None if it has not asked for them.
    acked: Option<AckedByCount>,
    /// The client has not read the last message, and was not sent a newer one.
    is_owed: bool,
}

impl JournalFollower {
    /// Returns whether the client still follows the journal.
    fn follows(&self) -> bool {
        self.client.settings.follows_journal.load(Ordering::Relaxed)
    }

    /// Returns whether its replies show changes that the disk does not have, by the offsets that it was sent.
    fn waits(&self) -> bool {
        self.synced.is_some_and(|synced| self.shown > synced)
    }

    /// Returns whether its messages include replicas.
    fn follows_replicas(&self) -> bool {
        self.client.settings.follows_replicas.load(Ordering::Relaxed)
    }

    /// Returns whether its replies show changes that some replica does not have or may not have, by the offsets that it was
    /// sent.
    fn waits_for_replicas(&self) -> bool {
        self.follows_replicas() && self.acked.as_ref().is_none_or(|acked| !acked.all_have(self.shown))
    }

    /// Appends the message with these offsets.
    fn message(&self, out: &mut Vec<u8>) {
        let mut message = Writer::new(out, Protocol::Resp3);
        message.push(if self.acked.is_some() { 5 } else { 3 });
        message.bulk(b"journal");
        message.integer(self.shown as i64);
        match self.synced {
            Some(synced) => message.integer(synced as i64),
            None => message.null(),
        }
        for offsets in self.acked.iter().flat_map(|acked| [&acked.applied, &acked.synced]) {
            message.array(offsets.len());
            offsets.iter().for_each(|offset| message.integer(*offset as i64));
        }
    }

    /// Updates the next message to the present offsets.
    fn update(&mut self, engine: &Engine) {
        self.synced = engine.persistence.known_synced_offset(engine);
        self.acked = self.follows_replicas().then(|| engine.replication.replicas.acked_by_count());
        self.is_owed = false;
    }
}

impl JournalFollowers {
    /// Returns the number of followers.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Removes a connection that follows no longer, or is closed; returns whether it was a follower.
    pub fn remove(&mut self, token: Token) -> bool {
        let was_there = self.rows.get_mut(token).and_then(Option::take).is_some();
        if was_there {
            self.tokens.retain(|&other| other != token);
        }
        was_there
    }

    fn get_mut(&mut self, token: Token) -> Option<&mut JournalFollower> {
        self.rows.get_mut(token)?.as_mut()
    }

    /// Enters the connection of a client of CLIENT JOURNAL ON. Returns the first message for it, with the offset that all its
    /// replies so far show; None if it follows already, or has switched the messages off.
    pub fn insert(
        &mut self,
        token: Token,
        (client, shown): (Arc<ClientInfo>, u64),
        progress: Progress<'_>,
    ) -> Option<Vec<u8>> {
        // The client may have switched the messages off again, or on twice.
        if self.get_mut(token).is_some() || !client.settings.follows_journal.load(Ordering::Relaxed) {
            return None;
        }
        let mut follower = JournalFollower { client, shown, synced: None, acked: None, is_owed: false };
        follower.update(progress.0);
        let mut bytes = Vec::new();
        follower.message(&mut bytes);
        let wants = Wants::of(&follower);
        if self.rows.len() <= token {
            self.rows.resize_with(token + 1, || None);
        }
        self.rows[token] = Some(follower);
        self.tokens.push(token);
        self.listen_to_progress(wants, progress);
        Some(bytes)
    }

    /// Appends the message to replies that are about to be sent, if their client follows the journal. `is_behind` says
    /// whether the client has left earlier bytes unread. Returns whether the client follows no longer.
    pub fn cover(
        &mut self,
        token: Token,
        output: &mut Output,
        is_behind: impl FnOnce() -> bool,
        progress: Progress<'_>,
    ) -> bool {
        let Some(follower) = self.get_mut(token) else { return false };
        if !follower.follows() {
            return self.remove(token);
        }
        if output.is_empty() && output.shown <= follower.shown {
            return false;
        }
        follower.shown = follower.shown.max(output.shown);
        if output.is_empty() && is_behind() {
            follower.is_owed = true;
            self.has_late = true;
            return false;
        }
        follower.update(progress.0);
        follower.message(&mut output.bytes);
        let wants = Wants::of(follower);
        self.listen_to_progress(wants, progress);
        false
    }

    /// Notes that the letter about progress has arrived.
    pub fn end_listening(&mut self) {
        (self.is_listening, self.is_listening_to_replicas) = (false, false);
    }

    /// Returns whether a follower was left out since the last call, because it had not read earlier bytes.
    pub fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.has_late)
    }

    /// Returns the messages for followers that wait for an advance of the disk or of a replica. `state` returns, for a
    /// connection, whether replies are held for it, and whether it has left earlier bytes unread.
    pub fn messages(&mut self, state: impl Fn(Token) -> (bool, bool), progress: Progress<'_>) -> Vec<(Token, Vec<u8>)> {
        let engine = progress.0;
        let synced = engine.persistence.known_synced_offset(engine);
        let (mut wants, mut messages) = (Wants::default(), Vec::new());
        for token in self.tokens.clone() {
            let Some(follower) = self.rows[token].as_mut() else { continue };
            if !follower.follows() {
                self.remove(token);
                continue;
            }
            let (has_held, is_behind) = state(token);
            let known = Wants::of(follower);
            let acked = known.acked.as_ref().map(|_| engine.replication.replicas.acked_by_count());
            let is_news_of_replicas = acked.is_some() && follower.acked != acked;
            let is_news = follower.is_owed || (follower.waits() && follower.synced != synced) || is_news_of_replicas;
            if !is_news || has_held {
                wants.add(known);
                continue;
            }
            follower.is_owed = is_behind;
            if is_behind {
                self.has_late = true;
                continue;
            }
            follower.update(engine);
            wants.add(Wants::of(follower));
            let mut bytes = Vec::new();
            follower.message(&mut bytes);
            messages.push((token, bytes));
        }
        self.listen_to_progress(wants, progress);
        messages
    }

    /// Orders a letter for the wanted advance.
    fn listen_to_progress(&mut self, wants: Wants, (engine, mailbox): Progress<'_>) {
        let mut is_there = false;
        if let Some(synced) = wants.synced
            && !std::mem::replace(&mut self.is_listening, true)
        {
            is_there |= engine.persistence.tell_when_synced(engine, synced, mailbox);
        }
        if let Some(acked) = wants.acked
            && !std::mem::replace(&mut self.is_listening_to_replicas, true)
        {
            let replicas = &engine.replication.replicas;
            replicas.tell_when_acknowledged(mailbox);
            // A replica may have acknowledged more since the offsets were read.
            is_there |= replicas.acked_by_count() != acked;
        }
        if is_there {
            mailbox.post_unheard(Letter::Synced);
        }
    }
}

/// The advances for which a worker's followers wait.
#[derive(Debug, Default)]
struct Wants {
    /// The disk's offset that has to be passed.
    synced: Option<Option<u64>>,
    /// The replicas' offsets that have to be passed.
    acked: Option<AckedByCount>,
}

impl Wants {
    fn of(follower: &JournalFollower) -> Self {
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
