//! The channels and patterns to which one client is subscribed.
//!
//! The client's own state keeps the names; `pubsub` counts them for the whole engine, and `local_subscribers` knows the
//! subscribers of each name for one thread. The command makes a change in the first two at once; the change waits here until
//! the thread has taken it over into its `local_subscribers`. One thread.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::message::{Form, KINDS, Kind, Message};

/// The channels and patterns to which one client is subscribed.
#[derive(Debug, Default)]
pub struct Subscriptions {
    names: [BTreeSet<Arc<[u8]>>; KINDS],
    changes: Vec<Change>,
    /// The memory of the names in bytes, although they are shared with other tables.
    bytes: usize,
}

/// The memory of a name in addition to its bytes: entries of tables that are not full, here, in `pubsub` and in
/// `local_subscribers`, and lists of subscribers.
const NAME_BYTES: usize = 270;

/// A change that `local_subscribers` of the thread has not taken over yet.
#[derive(Debug)]
pub struct Change {
    /// The kind of the name.
    pub kind: Kind,
    /// The name.
    pub name: Arc<[u8]>,
    /// The number of the last message before the subscription; None if the client has unsubscribed.
    pub since: Option<u64>,
}

impl Subscriptions {
    /// Adds a name that `pubsub` counts already, from message `since` on.
    pub fn enter(&mut self, kind: Kind, name: Arc<[u8]>, since: u64) {
        self.bytes += name.len() + NAME_BYTES;
        self.names[kind as usize].insert(Arc::clone(&name));
        self.changes.push(Change { kind, name, since: Some(since) });
    }

    /// Removes a name; returns whether it was there.
    pub fn strike_out(&mut self, kind: Kind, name: &[u8]) -> bool {
        let Some(name) = self.names[kind as usize].take(name) else { return false };
        self.bytes -= name.len() + NAME_BYTES;
        self.changes.push(Change { kind, name, since: None });
        true
    }

    /// Returns whether the client is subscribed to this name.
    pub fn contains(&self, kind: Kind, name: &[u8]) -> bool {
        self.names[kind as usize].contains(name)
    }

    /// Returns the names of one kind, in order.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &Arc<[u8]>> {
        self.names[kind as usize].iter()
    }

    /// Returns how many names of one kind there are.
    pub fn len(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// Returns the memory of the names, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the client is subscribed to no channel in any way.
    pub fn is_empty(&self) -> bool {
        [Kind::Channel, Kind::Pattern, Kind::Shard].iter().all(|kind| self.len(*kind) == 0)
    }

    /// Returns the changes since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the forms in which this client gets a message: one for each of its names that the message matches, or none.
    pub fn forms<'a>(&'a self, message: &'a Message) -> impl Iterator<Item = Form> + 'a {
        let plain = self.contains(message.kind, &message.channel).then_some(Form::Plain);
        let patterns = message.patterns.iter().enumerate();
        let matched = patterns.filter(|(_, pattern)| self.contains(Kind::Pattern, pattern));
        plain.into_iter().chain(matched.map(|(index, _)| Form::Matched(index)))
    }
}
