//! Publish and subscribe: the subscribers of channels, counted by the threads that own them.
//!
//! One table for the engine says, for each channel, pattern and shard channel, how many subscribers there are and in which
//! mailboxes. To publish a message, a thread puts one letter with a shared [`Message`] into each of these mailboxes, under
//! the lock of the table. So all messages come to every thread in one order, and a publisher pays for threads, not for
//! subscribers. Each thread knows its own subscribers (`local_subscribers`) and gives them the message when it reads its
//! mail; a slow subscriber delays its own thread, never the publisher.
//!
//! If there are no subscribers at all, a message costs one relaxed load. Any thread may call it, also with shards locked.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use sleeve_wire::pattern;

use super::mail::Mailbox;
use super::message::{KINDS, Kind, Message};
use super::subscription::Subscriptions;
use super::wakeups::Wakeups;

/// The threads with subscribers, by channels and patterns.
#[derive(Debug, Default)]
pub struct PubSub {
    listened: AtomicUsize,
    /// The number of monitors: clients that are shown the commands of all others.
    pub monitors: AtomicUsize,
    subscribers: Mutex<Subscribers>,
}

#[derive(Debug, Default)]
struct Subscribers {
    /// The number of the last message.
    last_number: u64,
    names: [HashMap<Arc<[u8]>, Vec<ThreadCount>>; KINDS],
}

/// The number of subscribers of one thread.
#[derive(Debug)]
struct ThreadCount {
    mailbox: Arc<Mailbox>,
    count: usize,
}

/// The publishing client, if it has subscriptions.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// The client's id.
    pub id: u64,
    /// The client's subscriptions.
    pub subscriptions: &'a Subscriptions,
}

impl PubSub {
    /// Counts one more subscriber; returns the shared copy of the name, and the number of the last message before.
    pub fn subscribe(&self, kind: Kind, name: &[u8], mailbox: &Arc<Mailbox>) -> (Arc<[u8]>, u64) {
        let mut subscribers = self.subscribers.lock();
        self.counter(kind).fetch_add(1, Ordering::Relaxed);
        let since = subscribers.last_number;
        let names = &mut subscribers.names[kind as usize];
        let shared = names.get_key_value(name).map_or_else(|| Arc::from(name), |(shared, _)| Arc::clone(shared));
        let threads = names.entry(Arc::clone(&shared)).or_default();
        match threads.iter_mut().find(|thread| Arc::ptr_eq(&thread.mailbox, mailbox)) {
            Some(thread) => thread.count += 1,
            None => threads.push(ThreadCount { mailbox: Arc::clone(mailbox), count: 1 }),
        }
        (shared, since)
    }

    /// Counts one subscriber less.
    pub fn unsubscribe(&self, kind: Kind, name: &[u8], mailbox: &Arc<Mailbox>) {
        let mut subscribers = self.subscribers.lock();
        let names = &mut subscribers.names[kind as usize];
        let Some(threads) = names.get_mut(name) else { return };
        let Some(index) = threads.iter().position(|thread| Arc::ptr_eq(&thread.mailbox, mailbox)) else { return };
        threads[index].count -= 1;
        if threads[index].count == 0 {
            threads.swap_remove(index);
        }
        if threads.is_empty() {
            names.remove(name);
        }
        self.counter(kind).fetch_sub(1, Ordering::Relaxed);
    }

    /// Publishes a message and returns the number of its receivers. `wakeups` gets the threads to be woken, and the messages
    /// to the publisher itself. `waiting_bytes_max` bounds the bytes that may wait for an embedded subscriber (0 is no
    /// bound).
    #[inline]
    pub fn publish(
        &self,
        to: (Kind, &[u8]),
        payload: &[u8],
        (own, wakeups, waiting_bytes_max): (Option<Own<'_>>, &mut Wakeups, u64),
    ) -> usize {
        if self.counter(to.0).load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.publish_listened(to, payload, (own, wakeups, waiting_bytes_max))
    }

    fn publish_listened(
        &self,
        (kind, channel): (Kind, &[u8]),
        payload: &[u8],
        (own, wakeups, waiting_bytes_max): (Option<Own<'_>>, &mut Wakeups, u64),
    ) -> usize {
        let mut subscribers = self.subscribers.lock();
        let listened = subscribers.names[kind as usize].get_key_value(channel);
        let is_matched = |(pattern, _): &(&Arc<[u8]>, &Vec<ThreadCount>)| pattern::matches(pattern, channel, false);
        let takes_patterns = kind == Kind::Channel;
        let patterns = subscribers.names[Kind::Pattern as usize].iter().filter(|_| takes_patterns).filter(is_matched);
        let mut patterns: Vec<(&Arc<[u8]>, &Vec<ThreadCount>)> = patterns.collect();
        // The order of the hash table differs between processes.
        patterns.sort_unstable_by_key(|(pattern, _)| *pattern);
        let threads = || listened.iter().chain(&patterns).flat_map(|(_, threads)| threads.iter());
        let count = threads().map(|thread| thread.count).sum();
        if count == 0 {
            return 0;
        }
        let channel = listened.map_or_else(|| Arc::from(channel), |(shared, _)| Arc::clone(shared));
        let patterns_shared: Vec<Arc<[u8]>> = patterns.iter().map(|(pattern, _)| Arc::clone(pattern)).collect();
        let hears = |own: &Own<'_>| {
            own.subscriptions.contains(kind, &channel)
                || patterns_shared.iter().any(|pattern| own.subscriptions.contains(Kind::Pattern, pattern))
        };
        let own = own.filter(hears);
        let numbers = (subscribers.last_number + 1, own.map(|own| own.id));
        let mut mailboxes: Vec<&Arc<Mailbox>> = Vec::new();
        for ThreadCount { mailbox, .. } in threads() {
            if !mailboxes.iter().any(|known| Arc::ptr_eq(known, mailbox)) {
                mailboxes.push(mailbox);
            }
        }
        let message = Arc::new(Message::new((kind, channel), patterns_shared, payload, numbers));
        for mailbox in mailboxes {
            mailbox.put_message(Arc::clone(&message), waiting_bytes_max);
            wakeups.remember(mailbox);
        }
        subscribers.last_number = numbers.0;
        drop(subscribers);
        if let Some(own) = own {
            wakeups.own.extend(own.subscriptions.forms(&message).map(|form| (Arc::clone(&message), form)));
        }
        count
    }

    fn counter(&self, kind: Kind) -> &AtomicUsize {
        if kind == Kind::Monitor { &self.monitors } else { &self.listened }
    }

    /// Returns the names of one kind that have subscribers, in order; if there is a pattern, only those that match it.
    pub fn names(&self, kind: Kind, wanted: Option<&[u8]>) -> Vec<Arc<[u8]>> {
        let subscribers = self.subscribers.lock();
        let is_wanted = |name: &&Arc<[u8]>| wanted.is_none_or(|wanted| pattern::matches(wanted, name, false));
        let mut names: Vec<Arc<[u8]>> = subscribers.names[kind as usize].keys().filter(is_wanted).cloned().collect();
        // Publishers need not wait for the sorting.
        drop(subscribers);
        names.sort_unstable();
        names
    }

    /// Returns the number of subscribers of this name.
    pub fn listeners(&self, kind: Kind, name: &[u8]) -> usize {
        let subscribers = self.subscribers.lock();
        subscribers.names[kind as usize].get(name).into_iter().flatten().map(|thread| thread.count).sum()
    }

    /// Returns how many names of one kind have subscribers.
    pub fn len(&self, kind: Kind) -> usize {
        self.subscribers.lock().names[kind as usize].len()
    }
}
