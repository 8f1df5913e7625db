//! A stream's memory of producers that number their messages, so that a message that is sent again is not added again: XADD
//! with IDMP and IDMPAUTO of Redis 8.6.
//!
//! A producer has a name and gives each message an id of its own; this file maps that id to the entry. An id is known for a
//! number of seconds that the stream sets, counted from the time in the entry's id, and of each producer a number of the
//! newest ids is known, whether or not their entries are still there. An expired id is not seen any more, and is removed with
//! the next message of any producer. It knows no clock. Plain data, usable from any thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::id::StreamId;

/// The limits of a stream's memory of message ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerLimits {
    /// The number of seconds for which an id is known.
    pub duration_s: u64,
    /// The number of ids that are known of each producer.
    pub ids_max: u64,
}

impl ProducerLimits {
    /// The durations that a command may set, in seconds.
    pub const DURATION_S: std::ops::RangeInclusive<i64> = 1..=86_400;

    /// The numbers of ids of each producer that a command may set.
    pub const IDS: std::ops::RangeInclusive<i64> = 1..=10_000;
}

impl Default for ProducerLimits {
    fn default() -> Self {
        Self { duration_s: 100, ids_max: 100 }
    }
}

/// The number of producers and messages that a stream remembers at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// The number of producers with a known message.
    pub producers: u64,
    /// The number of messages of all producers.
    pub messages: u64,
}

type Name = Arc<[u8]>;

/// The producers of a stream, and their messages.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    limits: ProducerLimits,
    by_name: BTreeMap<Name, Producer>,
    /// The messages of all producers in the order of their entries: the entry, the producer, the message's own id.
    by_entry: BTreeSet<(StreamId, Name, Name)>,
    /// Bytes of all names and ids of messages.
    names_bytes: usize,
    /// The number of messages of all producers that have ever become entries (`iids-added` of XINFO STREAM).
    pub added: u64,
    /// The number of messages that were sent again and not added again (`iids-duplicates` of XINFO STREAM).
    pub duplicates: u64,
}

/// The messages of one producer.
#[derive(Clone, Debug, Default)]
struct Producer {
    entries: BTreeMap<Name, StreamId>,
    by_entry: BTreeSet<(StreamId, Name)>,
}

/// The approximate memory of one message in all trees beside its id, in bytes.
const MESSAGE_BYTES: usize = 3 * size_of::<(StreamId, Name, Name)>();

impl Producers {
    /// Returns a memory without producers.
    pub fn new(limits: ProducerLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the limits of the memory.
    pub fn limits(&self) -> ProducerLimits {
        self.limits
    }

    /// Sets the limits, and forgets all messages. Returns false if the limits do not change.
    pub fn set_limits(&mut self, limits: ProducerLimits) -> bool {
        let is_other = limits != self.limits;
        if is_other {
            *self = Self { added: self.added, duplicates: self.duplicates, ..Self::new(limits) };
        }
        is_other
    }

    /// Returns the approximate bytes that this takes.
    pub fn memory(&self) -> usize {
        let of_producer = size_of::<Name>() + size_of::<Producer>();
        size_of::<Self>() + self.names_bytes + self.by_entry.len() * MESSAGE_BYTES + self.by_name.len() * of_producer
    }

    fn is_over(&self, entry: StreamId, now_ms: i64) -> bool {
        entry.ms.saturating_add(self.limits.duration_s.saturating_mul(1_000)) < now_ms.max(0) as u64
    }

    /// Returns the entry that this message has become, if the message is known and not expired.
    pub fn entry_of(&self, producer: &[u8], message: &[u8], now_ms: i64) -> Option<StreamId> {
        let entry = *self.by_name.get(producer)?.entries.get(message)?;
        (!self.is_over(entry, now_ms)).then_some(entry)
    }

    /// Returns whether this message is known, expired or not.
    pub(crate) fn knows(&self, producer: &[u8], message: &[u8]) -> bool {
        self.by_name.get(producer).is_some_and(|producer| producer.entries.contains_key(message))
    }

    /// Notes that a message has become an entry.
    pub fn add(&mut self, producer: &[u8], message: &[u8], entry: StreamId, now_ms: i64) {
        while self.by_entry.first().is_some_and(|(first, ..)| self.is_over(*first, now_ms)) {
            self.forget_first();
        }
        self.know(producer, message, entry);
        self.added = self.added.saturating_add(1);
    }

    /// Takes note of a message and its entry, and forgets the oldest one of its producer where that has too many.
    pub(crate) fn know(&mut self, producer: &[u8], message: &[u8], entry: StreamId) {
        let name = match self.by_name.get_key_value(producer) {
            Some((name, _)) => Arc::clone(name),
            None => {
                self.names_bytes += producer.len();
                producer.into()
            }
        };
        let of_producer = self.by_name.entry(Arc::clone(&name)).or_default();
        let message: Name = message.into();
        if let Some(before) = of_producer.entries.insert(Arc::clone(&message), entry) {
            of_producer.by_entry.remove(&(before, Arc::clone(&message)));
            self.by_entry.remove(&(before, Arc::clone(&name), Arc::clone(&message)));
        } else {
            self.names_bytes += message.len();
        }
        of_producer.by_entry.insert((entry, Arc::clone(&message)));
        self.by_entry.insert((entry, Arc::clone(&name), message));
        if of_producer.by_entry.len() as u64 > self.limits.ids_max
            && let Some((entry, message)) = of_producer.by_entry.first().cloned()
        {
            self.forget(&(entry, name, message));
        }
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.by_entry.first().cloned() {
            self.forget(&first);
        }
    }

    fn forget(&mut self, known: &(StreamId, Name, Name)) {
        self.by_entry.remove(known);
        let (entry, name, message) = known;
        if let Some(of_producer) = self.by_name.get_mut(name) {
            of_producer.entries.remove(message);
            of_producer.by_entry.remove(&(*entry, Arc::clone(message)));
            self.names_bytes -= message.len();
            if of_producer.entries.is_empty() {
                self.by_name.remove(name);
                self.names_bytes -= name.len();
            }
        }
    }

    /// Returns the number of producers and messages that are known at this time.
    pub fn tracked(&self, now_ms: i64) -> Tracked {
        let is_known = |entry: StreamId| !self.is_over(entry, now_ms);
        let has_known = |of: &&Producer| of.by_entry.last().is_some_and(|(last, _)| is_known(*last));
        Tracked {
            producers: self.by_name.values().filter(has_known).count() as u64,
            messages: self.by_entry.iter().rev().take_while(|(entry, ..)| is_known(*entry)).count() as u64,
        }
    }

    /// Returns the number of producers, including those with expired messages only.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns an iterator over the producers in the order of their names, each with its messages in the order of their
    /// entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], impl ExactSizeIterator<Item = (&[u8], StreamId)>)> {
        self.by_name.iter().map(|(name, of_producer)| {
            (&**name, of_producer.by_entry.iter().map(|(entry, message)| (&**message, *entry)))
        })
    }

    /// Returns the producer and the own id of the message that became this entry.
    pub fn message_of(&self, entry: StreamId) -> Option<(&[u8], &[u8])> {
        let least = (entry, Name::default(), Name::default());
        let (found, producer, message) = self.by_entry.range(least..).next()?;
        (*found == entry).then_some((&**producer, &**message))
    }

    /// Returns an iterator over all messages in the order of their entries: the entry, the producer, the message's own id.
    pub fn messages(&self) -> impl Iterator<Item = (StreamId, &[u8], &[u8])> {
        self.by_entry.iter().map(|(entry, producer, message)| (*entry, &**producer, &**message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> StreamId {
        StreamId::new(ms, 0)
    }

    fn producers() -> Producers {
        Producers::new(ProducerLimits { duration_s: 1, ids_max: 2 })
    }

    #[test]
    fn a_message_is_known_for_its_time() {
        let mut producers = producers();
        producers.add(b"p", b"1", at(500), 500);
        producers.add(b"q", b"1", at(600), 600);
        assert_eq!(producers.entry_of(b"p", b"1", 1_500), Some(at(500)));
        assert_eq!((producers.entry_of(b"p", b"1", 1_501), producers.entry_of(b"q", b"2", 600)), (None, None));
        assert_eq!(producers.tracked(1_501), Tracked { producers: 1, messages: 1 });
        producers.add(b"q", b"2", at(1_700), 1_700);
        assert_eq!((producers.len(), producers.messages().count(), producers.added), (1, 1, 3));
    }

    #[test]
    fn of_each_producer_the_newest_are_known() {
        let mut producers = producers();
        for (number, message) in [b"1", b"2", b"3"].into_iter().enumerate() {
            producers.add(b"p", message, at(number as u64), 0);
        }
        producers.add(b"q", b"1", at(3), 0);
        assert_eq!((producers.entry_of(b"p", b"1", 0), producers.entry_of(b"p", b"2", 0)), (None, Some(at(1))));
        assert_eq!(producers.tracked(0), Tracked { producers: 2, messages: 3 });
    }

    #[test]
    fn a_message_that_is_added_again_stands_at_its_new_place() {
        let mut producers = producers();
        producers.add(b"p", b"1", at(1), 0);
        producers.add(b"p", b"2", at(2), 0);
        producers.add(b"p", b"1", at(3), 0);
        producers.add(b"p", b"3", at(4), 0);
        let messages: Vec<_> = producers.messages().map(|(entry, _, message)| (entry.ms, message[0])).collect();
        assert_eq!(messages, [(3, b'1'), (4, b'3')]);
        assert!(producers.set_limits(ProducerLimits::default()) && producers.is_empty());
        assert_eq!((producers.names_bytes, producers.added), (0, 4));
        assert!(!producers.set_limits(ProducerLimits::default()));
    }
}
