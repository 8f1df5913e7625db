//! The connections of a worker that follow the journal (CLIENT JOURNAL ON), and the offsets that each was sent.
//!
//! Pure data: `journal_pushes` decides when messages are sent, and their contents. One thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sleeve_wire::reply::{Protocol, Writer};

use crate::engine::clients::client_info::ClientInfo;
use crate::engine::replication::AckedByCount;
use crate::net::Token;

/// The connections of a worker that follow the journal, by token.
#[derive(Debug, Default)]
pub(super) struct JournalFollowers {
    rows: Vec<Option<Follower>>,
    tokens: Vec<Token>,
    /// One of them was not sent a message because it does not read.
    pub has_late: bool,
    /// A letter is asked for when the disk has got further.
    pub is_listening: bool,
    /// A letter is asked for when a replica has got further.
    pub is_listening_to_replicas: bool,
}

/// The offsets that a client was sent.
#[derive(Debug)]
pub(super) struct Follower {
    /// The client.
    pub client: Arc<ClientInfo>,
    /// Up to which offset its replies show the journal.
    pub shown: u64,
    /// Up to which the disk has it.
    pub synced: Option<u64>,
    /// Up to which the replicas have it; none where it was not told of them.
    pub acked: Option<AckedByCount>,
    /// It has not read the last message, and was not sent a newer one.
    pub is_owed: bool,
}

impl Follower {
    /// Returns whether it still follows.
    pub fn follows(&self) -> bool {
        self.client.settings.follows_journal.load(Ordering::Relaxed)
    }

    /// Returns whether its replies show changes that the disk does not have, as far as it knows.
    pub fn waits(&self) -> bool {
        self.synced.is_some_and(|synced| self.shown > synced)
    }

    /// Returns whether its messages include replicas.
    pub fn follows_replicas(&self) -> bool {
        self.client.settings.follows_replicas.load(Ordering::Relaxed)
    }

    /// Returns whether its replies show changes that some replica does not have, as far as it knows, or may not have.
    pub fn waits_for_replicas(&self) -> bool {
        self.follows_replicas() && self.acked.as_ref().is_none_or(|acked| !acked.all_have(self.shown))
    }

    /// Appends the message with these offsets.
    pub fn message(&self, out: &mut Vec<u8>) {
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
}

impl JournalFollowers {
    /// Returns the connections.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Strikes a connection out that follows no longer, or is closed; whether it was there.
    pub fn remove(&mut self, token: Token) -> bool {
        let was_there = self.rows.get_mut(token).and_then(Option::take).is_some();
        if was_there {
            self.tokens.retain(|&other| other != token);
        }
        was_there
    }

    /// Enters a connection.
    pub fn insert(&mut self, token: Token, follower: Follower) {
        if self.rows.len() <= token {
            self.rows.resize_with(token + 1, || None);
        }
        if self.rows[token].replace(follower).is_none() {
            self.tokens.push(token);
        }
    }

    /// Returns the offsets that the client of a connection was sent, if it follows.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut Follower> {
        self.rows.get_mut(token)?.as_mut()
    }
}
