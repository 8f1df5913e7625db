//! A consumer group of a stream: how far it has read, who reads in it, and what each of them has not acknowledged.
//!
//! What is pending stands in two places: under the group with all that is known of it, and under its consumer with its id
//! alone, so that both are walked in order of the ids. A consumer's number stays the same as long as it lives. The group
//! does not know the entries themselves; an entry that was deleted stays pending until somebody notices. Plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::id::StreamId;

/// A consumer group: its position, its consumers, and the entries that wait to be acknowledged.
#[derive(Clone, Debug, Default)]
pub struct StreamGroup {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// How many entries were read since the stream began, if that can be told.
    pub entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Pending>,
    names: BTreeMap<Box<[u8]>, ConsumerId>,
    consumers: Vec<Option<Consumer>>,
    names_bytes: usize,
}

/// The number of a consumer in its group.
pub type ConsumerId = u32;

/// One who reads in a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Its name.
    pub name: Box<[u8]>,
    /// When it last tried to read, wall clock milliseconds.
    pub seen_ms: i64,
    /// When it last got something, likewise; none if it never did.
    pub active_ms: Option<i64>,
    pending: BTreeSet<StreamId>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Who has it.
    pub consumer: ConsumerId,
    /// When it was delivered last, wall clock milliseconds.
    pub delivered_ms: i64,
    /// How often.
    pub deliveries: u64,
}

/// About what one pending entry takes in both trees, in bytes.
const PENDING_BYTES: usize = 3 * size_of::<StreamId>() + size_of::<Pending>();

impl Consumer {
    /// The entries that it has not acknowledged, from this id on.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = StreamId> {
        self.pending.range(id..).copied()
    }

    /// How many those are in all.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

impl StreamGroup {
    /// A group that has read up to this id.
    pub fn new(last_id: StreamId, entries_read: Option<u64>) -> Self {
        Self { last_id, entries_read, ..Self::default() }
    }

    /// The bytes that it takes, nearly.
    pub fn memory(&self) -> usize {
        let of_consumer = size_of::<Consumer>() + size_of::<(Box<[u8]>, ConsumerId)>();
        size_of::<Self>() + self.pending.len() * PENDING_BYTES + self.consumers.len() * of_consumer + self.names_bytes
    }

    /// The consumers in the order of their names.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = &Consumer> {
        self.names.values().map(|&number| self.consumer(number))
    }

    /// The number of a consumer.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerId> {
        self.names.get(name).copied()
    }

    /// A consumer that is there.
    ///
    /// # Panics
    /// If no consumer has this number.
    pub fn consumer(&self, number: ConsumerId) -> &Consumer {
        self.consumers[number as usize].as_ref().expect("a number belongs to a consumer as long as it lives")
    }

    /// Likewise, to be changed.
    ///
    /// # Panics
    /// If no consumer has this number.
    pub fn consumer_mut(&mut self, number: ConsumerId) -> &mut Consumer {
        self.consumers[number as usize].as_mut().expect("a number belongs to a consumer as long as it lives")
    }

    /// Adds a consumer of a name that none has yet.
    pub fn add(&mut self, name: &[u8], seen_ms: i64) -> ConsumerId {
        let consumer = Consumer { name: name.into(), seen_ms, active_ms: None, pending: BTreeSet::new() };
        let number = match self.consumers.iter().position(Option::is_none) {
            // Searching is worth it only where some have gone.
            Some(free) if self.names.len() < self.consumers.len() => free,
            _ => {
                self.consumers.push(None);
                self.consumers.len() - 1
            }
        };
        self.consumers[number] = Some(consumer);
        self.names.insert(name.into(), number as ConsumerId);
        self.names_bytes += 2 * name.len();
        number as ConsumerId
    }

    /// Removes a consumer with all that it has not acknowledged; how many entries those were, if it was there.
    pub fn remove(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.names.remove(name)?;
        let consumer = self.consumers[number as usize].take()?;
        consumer.pending.iter().for_each(|id| _ = self.pending.remove(id));
        self.names_bytes -= 2 * name.len();
        while let Some(None) = self.consumers.last() {
            self.consumers.pop();
        }
        Some(consumer.pending.len())
    }

    /// What is known of a pending entry.
    pub fn pending(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(&id).copied()
    }

    /// How many entries are pending.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The pending entries of all consumers within these ids.
    pub fn pending_in(&self, ids: RangeInclusive<StreamId>) -> impl DoubleEndedIterator<Item = (StreamId, Pending)> {
        // A tree does not take a range that ends before it begins.
        let ids = if ids.is_empty() { None } else { Some(ids) };
        ids.into_iter().flat_map(|ids| self.pending.range(ids)).map(|(&id, &pending)| (id, pending))
    }

    /// Makes an entry pending, or changes what is known of one that is.
    pub fn set_pending(&mut self, id: StreamId, pending: Pending) {
        let before = self.pending.insert(id, pending);
        if before.is_none_or(|before| before.consumer != pending.consumer) {
            if let Some(before) = before {
                self.consumer_mut(before.consumer).pending.remove(&id);
            }
            self.consumer_mut(pending.consumer).pending.insert(id);
        }
    }

    /// Strikes out a pending entry; whether it was one.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else { return false };
        self.consumer_mut(pending.consumer).pending.remove(&id);
        true
    }
}
