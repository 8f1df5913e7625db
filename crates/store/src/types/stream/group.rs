//! A consumer group of a stream: its position, its consumers, and the entries that each has not acknowledged.
//!
//! A pending entry stands in two places: under the group with all its facts, and under its consumer with its id alone, so
//! that both are walked in order of the ids. A consumer's number stays the same as long as it lives. The group does not know
//! the entries themselves; an entry that was deleted stays pending until a command notices. Plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::before_images::BeforeImage;
use super::by_id::ById;
use super::id::StreamId;
use crate::value::capture::open_value::OpenValue;
use crate::value::capture::source::{Budget, CaptureSource};

/// A consumer group: its position, its consumers, and the entries that wait to be acknowledged.
#[derive(Debug, Default)]
pub struct StreamGroup {
    /// The id of the last entry that was delivered.
    pub last_id: StreamId,
    /// The number of entries that the group has read since the stream began, if it is known.
    pub entries_read: Option<u64>,
    pending: ById<Pending>,
    names: BTreeMap<Box<[u8]>, ConsumerId>,
    consumers: Vec<Option<Consumer>>,
    names_bytes: usize,
}

/// The number of a consumer in its group.
pub type ConsumerId = u32;

/// A consumer of a group.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// The name of the consumer.
    pub name: Box<[u8]>,
    /// The time of the consumer's last attempt to read, in wall clock milliseconds.
    pub seen_ms: i64,
    /// The time of its last successful read, in wall clock milliseconds; none if it has never read an entry.
    pub active_ms: Option<i64>,
    pending: BTreeSet<StreamId>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer that has it.
    pub consumer: ConsumerId,
    /// The time of the last delivery, in wall clock milliseconds.
    pub delivered_ms: i64,
    /// The number of deliveries.
    pub deliveries: u64,
}

/// The approximate memory of one pending entry in both trees, in bytes.
const PENDING_BYTES: usize = 3 * size_of::<StreamId>() + size_of::<Pending>();

impl Pending {
    /// The largest number of deliveries that is counted.
    pub const DELIVERIES_MAX: u64 = i64::MAX as u64;

    /// Returns the number of deliveries after another one.
    pub fn once_more(&self) -> u64 {
        self.deliveries.saturating_add(1).min(Self::DELIVERIES_MAX)
    }
}

impl Consumer {
    /// Returns the ids of the entries that the consumer has not acknowledged, from this id on.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = StreamId> {
        self.pending.range(id..).copied()
    }

    /// Returns the number of entries that the consumer has not acknowledged.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }
}

impl StreamGroup {
    /// Returns a group that has read up to this id.
    pub fn new(last_id: StreamId, entries_read: Option<u64>) -> Self {
        let mut group = Self::default();
        (group.last_id, group.entries_read) = (last_id, entries_read);
        group
    }

    /// Returns the approximate bytes that the group takes.
    pub fn memory(&self) -> usize {
        let of_consumer = size_of::<Consumer>() + size_of::<(Box<[u8]>, ConsumerId)>();
        size_of::<Self>() + self.pending.len() * PENDING_BYTES + self.consumers.len() * of_consumer + self.names_bytes
    }

    /// Returns the consumers in the order of their names.
    pub fn consumers(&self) -> impl ExactSizeIterator<Item = &Consumer> {
        self.names.values().map(|&number| self.consumer(number))
    }

    /// Returns the number of the consumer with this name.
    pub fn find(&self, name: &[u8]) -> Option<ConsumerId> {
        self.names.get(name).copied()
    }

    /// Returns the consumer with this number.
    ///
    /// # Panics
    /// If no consumer has this number.
    pub fn consumer(&self, number: ConsumerId) -> &Consumer {
        self.consumers[number as usize].as_ref().expect("a number belongs to a consumer as long as it lives")
    }

    /// Returns the consumer with this number, to be changed.
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
            // Searching for a free number is worth it only if a consumer was removed.
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

    /// Removes a consumer with all entries that it has not acknowledged; returns their number, if the consumer existed.
    pub fn remove(&mut self, name: &[u8]) -> Option<usize> {
        let number = self.names.remove(name)?;
        let consumer = self.consumers[number as usize].take()?;
        for id in &consumer.pending {
            self.pending.remove(*id);
        }
        self.names_bytes -= 2 * name.len();
        while let Some(None) = self.consumers.last() {
            self.consumers.pop();
        }
        Some(consumer.pending.len())
    }

    /// Returns the facts of a pending entry.
    pub fn pending(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(&id).copied()
    }

    /// Returns the number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// Returns the pending entries of all consumers within these ids.
    pub fn pending_in(&self, ids: RangeInclusive<StreamId>) -> impl DoubleEndedIterator<Item = (StreamId, Pending)> {
        // A tree does not take a range that ends before it begins.
        let ids = if ids.is_empty() { None } else { Some(ids) };
        ids.into_iter().flat_map(|ids| self.pending.range(ids)).map(|(&id, &pending)| (id, pending))
    }

    /// Makes an entry pending, or replaces the facts of a pending entry.
    pub fn set_pending(&mut self, id: StreamId, pending: Pending) {
        let before = self.pending.insert(id, pending);
        if before.is_none_or(|before| before.consumer != pending.consumer) {
            if let Some(before) = before {
                self.consumer_mut(before.consumer).pending.remove(&id);
            }
            self.consumer_mut(pending.consumer).pending.insert(id);
        }
    }

    /// Removes an entry from the pending ones; returns whether it was pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(id) else { return false };
        self.consumer_mut(pending.consumer).pending.remove(&id);
        true
    }
}

/// A pending entry as it was captured for a snapshot: the number of its group, its id, and its facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCopy {
    /// The number of the group, in the order of their names.
    pub group: u32,
    /// The id of the entry.
    pub id: StreamId,
    /// The facts of the entry.
    pub pending: Pending,
}

impl PendingCopy {
    /// The number of bytes of one captured entry.
    pub(crate) const BYTES: usize = 40;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let Self { group, id, pending: Pending { consumer, delivered_ms, deliveries } } = self;
        let numbers = u64::from(group) << 32 | u64::from(consumer);
        let words = [numbers, id.ms, id.seq, delivered_ms as u64, deliveries];
        let mut bytes = [0; Self::BYTES];
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_ne_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        let numbers = next();
        let id = StreamId { ms: next(), seq: next() };
        let pending = Pending { consumer: numbers as u32, delivered_ms: next() as i64, deliveries: next() };
        Self { group: (numbers >> 32) as u32, id, pending }
    }
}

impl BeforeImage for Pending {
    fn deliver(&self, id: StreamId, group: u32, open_value: &OpenValue) -> usize {
        open_value.deliver_loose(&PendingCopy { group, id, pending: *self }.to_bytes());
        PendingCopy::BYTES
    }
}

/// The capture for a snapshot.
impl StreamGroup {
    /// Returns a copy without the pending entries.
    pub(crate) fn without_pending(&self) -> Self {
        let bare =
            |consumer: &Consumer| Consumer { name: consumer.name.clone(), pending: BTreeSet::new(), ..*consumer };
        Self {
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending: ById::default(),
            names: self.names.clone(),
            consumers: self.consumers.iter().map(|consumer| consumer.as_ref().map(bare)).collect(),
            names_bytes: self.names_bytes,
        }
    }

    /// Begins the capture: from now on every entry is captured before it changes.
    pub(crate) fn begin_capture(&mut self, number: u32, open_value: &Arc<OpenValue>) {
        self.pending.begin_capture(number, open_value);
    }

    /// Returns the snapshot's unfinished copy of this stream, while entries of the group are pending capture.
    pub(crate) fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.pending.open_value()
    }
}

impl CaptureSource for StreamGroup {
    fn capture_more(&mut self, budget: &mut Budget) {
        self.pending.capture_more(budget, |_, _| ());
    }
}

impl Drop for StreamGroup {
    fn drop(&mut self) {
        if let Some(open_value) = self.open_value().map(Arc::clone) {
            open_value.end_of(self, |group| group.pending.forget());
        }
    }
}

impl Clone for StreamGroup {
    fn clone(&self) -> Self {
        let mut copy = self.without_pending();
        copy.pending = self.pending.clone();
        copy.consumers.clone_from(&self.consumers);
        copy
    }
}
