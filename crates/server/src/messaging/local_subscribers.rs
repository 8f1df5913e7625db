//! The subscribers of one thread: the sessions of the thread that get a message.
//!
//! A worker takes the changes of a session over when the session has run, and looks here when a letter brings a message. The
//! table belongs to the thread: it has no lock, and no other thread uses it.

use std::collections::HashMap;
use std::sync::Arc;

use super::message::{Form, KINDS, Kind, Message};
use super::subscription::Subscriptions;

/// The sessions of one thread, by the channels and patterns that they are subscribed to.
#[derive(Debug, Default)]
pub struct LocalSubscribers {
    subscribers: [HashMap<Arc<[u8]>, Vec<Subscriber>>; KINDS],
}

/// A subscriber of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscriber {
    /// The place of its session in the thread's table.
    pub place: usize,
    /// The client's id.
    pub id: u64,
    /// The number of the last message before it subscribed.
    since: u64,
}

impl LocalSubscribers {
    /// Takes over the changes of the client with this id, which has its session at `place`.
    pub fn update(&mut self, place: usize, id: u64, subscriptions: &mut Subscriptions) {
        for change in subscriptions.take_changes() {
            match change.since {
                Some(since) => {
                    let subscribers = self.subscribers[change.kind as usize].entry(change.name).or_default();
                    subscribers.push(Subscriber { place, id, since });
                }
                None => self.leave(change.kind, &change.name, id),
            }
        }
    }

    /// Removes a client that has no subscriptions any more.
    pub fn forget(&mut self, id: u64, subscriptions: &Subscriptions) {
        for kind in Kind::ALL {
            subscriptions.names(kind).for_each(|name| self.leave(kind, name, id));
        }
    }

    /// Returns the places of the sessions that are subscribed to a name.
    pub fn places(&self, kind: Kind, name: &[u8]) -> Vec<usize> {
        let subscribers = self.subscribers[kind as usize].get(name);
        subscribers.into_iter().flatten().map(|subscriber| subscriber.place).collect()
    }

    fn leave(&mut self, kind: Kind, name: &[u8], id: u64) {
        let Some(subscribers) = self.subscribers[kind as usize].get_mut(name) else { return };
        if let Some(index) = subscribers.iter().position(|subscriber| subscriber.id == id) {
            subscribers.swap_remove(index);
        }
        if subscribers.is_empty() {
            self.subscribers[kind as usize].remove(name);
        }
    }

    /// Calls `show` with the subscribers that get a message, and with the form for each.
    pub fn for_each(&self, message: &Message, mut show: impl FnMut(Subscriber, Form)) {
        let plain =
            self.subscribers[message.kind as usize].get(&message.channel).map(|subscribers| (Form::Plain, subscribers));
        let patterns = message.patterns.iter().enumerate().filter_map(|(index, pattern)| {
            Some((Form::Matched(index), self.subscribers[Kind::Pattern as usize].get(pattern)?))
        });
        for (form, subscribers) in plain.into_iter().chain(patterns) {
            let hears =
                |subscriber: &&Subscriber| subscriber.since < message.number && Some(subscriber.id) != message.except;
            subscribers.iter().filter(hears).for_each(|subscriber| show(*subscriber, form));
        }
    }
}
