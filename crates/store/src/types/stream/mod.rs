//! Streams: entries in the order of their ids, appended at the end, and consumer groups.
//!
//! Entries lie in blocks of a hundred or so ([`crate::types::stream::block`]), which are ordered by the id of their first
//! entry. Beside them stand the counters from which Redis (7.0 and later) tells how far a group lags behind: how many entries
//! were ever added, the first id there is, and the largest that was deleted. A stream without entries is still a stream, with
//! its last id and its groups, so it is kept. It knows no clock. Plain data, usable from any thread.

mod adopt;
pub mod before_images;
pub mod block;
mod by_id;
pub mod capture;
pub mod group;
pub mod id;
pub mod producers;

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::sync::Arc;

use crate::packed::listpack::Packed;
use crate::value::capture::open_value::{OpenValue, Outline};
use crate::value::capture::source::{Budget, CaptureSource};
use crate::value::collection::Collection;
use crate::value::form::Form;
use crate::value::key_hash::HashKey;
use crate::value::{Encoding, Kind};
use block::{Block, BlockLimits, Cursor, StreamEntry};
use by_id::ById;
use group::StreamGroup;
use id::StreamId;
use producers::{ProducerLimits, Producers};

/// A stream: its blocks, its counters and its groups.
#[derive(Debug, Default)]
pub struct Stream {
    blocks: ById<Block>,
    /// The bytes of all blocks.
    blocks_bytes: usize,
    len: u64,
    first_id: StreamId,
    last_id: StreamId,
    max_deleted_id: StreamId,
    entries_added: u64,
    groups: BTreeMap<Box<[u8]>, StreamGroup>,
    /// The bytes of all groups.
    groups_bytes: usize,
    /// The producers that number their messages, from the first of them on. Copies of the stream share them until one of them
    /// changes them.
    producers: Option<Arc<Producers>>,
}

/// The rule by which a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keeps the last so many entries.
    Last(u64),
    /// Keeps the entries from this id on.
    From(StreamId),
}

/// The counters that XSETID sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamCounters {
    /// The last id that was given.
    pub last_id: StreamId,
    /// The number of entries that were ever added.
    pub entries_added: u64,
    /// The largest id that was deleted.
    pub max_deleted_id: StreamId,
}

impl StreamCounters {
    /// The highest count of entries added, and of entries read by a group: the largest number that a command can return.
    pub const COUNT_MAX: u64 = i64::MAX as u64;

    /// Returns a count of entries plus so many more, at most [`Self::COUNT_MAX`].
    pub fn count(before: u64, more: u64) -> u64 {
        before.saturating_add(more).min(Self::COUNT_MAX)
    }
}

/// The methods that read.
impl Stream {
    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the stream has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the id of the first entry; zero if there is none.
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// Returns the last id that was given, whether or not its entry is still there.
    pub fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// Returns the id of the last entry that is there.
    pub fn last_entry_id(&self) -> Option<StreamId> {
        self.range_back(StreamId::MIN, StreamId::MAX).next().map(|entry| entry.id)
    }

    /// Returns the counters.
    pub fn counters(&self) -> StreamCounters {
        let Self { last_id, entries_added, max_deleted_id, .. } = *self;
        StreamCounters { last_id, entries_added, max_deleted_id }
    }

    /// Returns the number of blocks, and the approximate number of nodes of the radix tree in which Redis would keep them.
    pub fn blocks_len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the packed bytes of each block with its id, for writers of files.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = (StreamId, Packed<'_>)> {
        self.blocks.iter().map(|(&first, block)| (first, block.packed()))
    }

    /// Returns the entry with this id.
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.range(id, id).next()
    }

    /// Returns the entries from `start` to `end`, both included, in order.
    pub fn range(&self, start: StreamId, end: StreamId) -> Entries<'_> {
        self.entries(start, end, false)
    }

    /// Returns the entries of a range, the last one first.
    pub fn range_back(&self, start: StreamId, end: StreamId) -> Entries<'_> {
        self.entries(start, end, true)
    }

    fn entries(&self, start: StreamId, end: StreamId, is_backward: bool) -> Entries<'_> {
        // The block before `start` may reach into the range.
        let from = self.blocks.range(..=start).next_back().map_or(start, |(&first, _)| first);
        let blocks = if from <= end { self.blocks.range(from..=end) } else { self.blocks.range(StreamId::MAX..) };
        Entries { blocks, cursor: None, start, end, is_backward }
    }

    /// Returns the groups in the order of their names.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&[u8], &StreamGroup)> {
        self.groups.iter().map(|(name, group)| (&**name, group))
    }

    /// Returns the group of this name.
    pub fn group(&self, name: &[u8]) -> Option<&StreamGroup> {
        self.groups.get(name)
    }

    /// Returns the producers that number their messages; none if there never was one, nor limits for them.
    pub fn producers(&self) -> Option<&Producers> {
        self.producers.as_deref()
    }

    /// Returns whether an entry from `start` on was deleted, as far as the largest deleted id tells.
    pub fn has_tombstones_from(&self, start: StreamId) -> bool {
        self.len != 0 && self.max_deleted_id != StreamId::MIN && start <= self.max_deleted_id
    }

    /// Returns the number of entries that were added up to this id since the stream began, if it is known.
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 {
            return Some(0);
        }
        if self.len == 0 && id <= self.last_id {
            return Some(self.entries_added);
        }
        if id != StreamId::MIN && id < self.max_deleted_id {
            return None;
        }
        if id >= self.last_id {
            return (id == self.last_id).then_some(self.entries_added);
        }
        let is_whole = self.max_deleted_id == StreamId::MIN || self.max_deleted_id < self.first_id;
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less if is_whole => Some(self.entries_added.saturating_sub(self.len)),
            std::cmp::Ordering::Equal if is_whole => {
                Some(self.entries_added.saturating_sub(self.len).saturating_add(1))
            }
            _ => None,
        }
    }

    /// Returns the number of entries that a group has not read yet, if it is known.
    pub fn lag(&self, group: &StreamGroup) -> Option<i64> {
        if self.entries_added == 0 || self.len == 0 {
            return Some(0);
        }
        if group.last_id < self.first_id && self.max_deleted_id < self.first_id {
            // The group has read none of the present entries, and no entry behind the beginning was deleted.
            return i64::try_from(self.len).ok();
        }
        let read = match group.entries_read {
            Some(read) if !self.has_tombstones_from(group.last_id) => Some(read),
            _ => self.entries_up_to(group.last_id),
        };
        read.map(|read| self.entries_added.wrapping_sub(read) as i64)
    }
}

/// The methods that change the stream.
impl Stream {
    /// Appends an entry. `fields` are names and values in turn; the id is above the last one.
    pub fn append<'v>(
        &mut self,
        id: StreamId,
        fields: impl ExactSizeIterator<Item = &'v [u8]> + Clone,
        limits: BlockLimits,
    ) {
        debug_assert!(id > self.last_id, "ids only grow");
        let bytes = fields.clone().map(<[u8]>::len).sum();
        match self.blocks.last_mut() {
            Some((first, block)) if !block.is_full_for(bytes, limits) => {
                let before = block.memory_bytes();
                block.push(first, id, fields);
                self.blocks_bytes += block.memory_bytes() - before;
            }
            full => {
                if let Some((_, block)) = full {
                    self.blocks_bytes -= block.memory_bytes();
                    block.shrink_to_fit();
                    self.blocks_bytes += block.memory_bytes();
                }
                let mut block = Block::new(fields.clone().step_by(2));
                block.push(id, id, fields);
                self.blocks_bytes += block.memory_bytes();
                self.blocks.insert(id, block);
            }
        }
        self.len += 1;
        self.entries_added = StreamCounters::count(self.entries_added, 1);
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
    }

    /// Deletes the entry with this id; returns whether it existed.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((&first, _)) = self.blocks.range(..=id).next_back() else { return false };
        let Some(block) = self.blocks.get_mut(first) else { return false };
        let before = block.memory_bytes();
        if !block.delete(first, id) {
            return false;
        }
        if block.counts().0 == 0 {
            self.blocks.remove(first);
            self.blocks_bytes -= before;
        } else {
            self.blocks_bytes = self.blocks_bytes - before + block.memory_bytes();
        }
        self.len -= 1;
        self.max_deleted_id = self.max_deleted_id.max(id);
        if id == self.first_id || self.len == 0 {
            self.find_first();
        }
        true
    }

    /// Removes entries from the front, at most `removed_max` of them if there is such a bound, and returns their number. With
    /// `in_blocks` only whole blocks go, so that more entries than requested may stay.
    pub fn trim(&mut self, keep: Keep, in_blocks: bool, removed_max: Option<u64>) -> u64 {
        let mut removed = 0;
        while let Some((&first, block)) = self.blocks.first_key_value() {
            if matches!(keep, Keep::Last(count) if self.len <= count) {
                break;
            }
            let live = block.counts().0;
            if removed_max.is_some_and(|removed_max| removed + live > removed_max) {
                break;
            }
            let goes_whole = match keep {
                Keep::Last(count) => self.len - live >= count,
                Keep::From(id) => block.last_id(first) < id,
            };
            if goes_whole {
                let block = self.blocks.remove(first);
                self.blocks_bytes -= block.map_or(0, |block| block.memory_bytes());
                self.len -= live;
                removed += live;
                continue;
            }
            if !in_blocks && let Some(block) = self.blocks.get_mut(first) {
                let (len, before) = (self.len, block.memory_bytes());
                let gone = block.delete_while(first, |id, gone| match keep {
                    Keep::Last(count) => len - gone > count,
                    Keep::From(from) => id < from,
                });
                self.blocks_bytes = self.blocks_bytes - before + block.memory_bytes();
                self.len -= gone;
                removed += gone;
            }
            break;
        }
        if removed != 0 {
            self.find_first();
        }
        removed
    }

    fn find_first(&mut self) {
        self.first_id = self.range(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |entry| entry.id);
    }

    /// Sets the counters of XSETID.
    pub fn set_counters(&mut self, counters: StreamCounters) {
        self.last_id = counters.last_id;
        self.entries_added = counters.entries_added;
        self.max_deleted_id = counters.max_deleted_id;
    }

    /// Returns the producers, to be changed. The first one sets these limits.
    pub fn producers_mut(&mut self, limits: ProducerLimits) -> &mut Producers {
        Arc::make_mut(self.producers.get_or_insert_with(|| Arc::new(Producers::new(limits))))
    }

    /// Adds a group; returns false if a group has this name.
    pub fn add_group(&mut self, name: &[u8], group: StreamGroup) -> bool {
        if self.groups.contains_key(name) {
            return false;
        }
        self.groups_bytes += group_bytes(name, &group);
        self.groups.insert(name.into(), group);
        true
    }

    /// Removes a group; returns whether it existed.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        let Some(group) = self.groups.remove(name) else { return false };
        self.groups_bytes -= group_bytes(name, &group);
        true
    }

    /// Returns whether any group has still to read this entry, or has it pending.
    pub fn is_awaited(&self, id: StreamId) -> bool {
        self.groups.values().any(|group| group.last_id < id || group.pending(id).is_some())
    }

    /// Removes an entry from the pending entries of every group; `struck` receives the name of each group that had it.
    pub fn acknowledge_everywhere(&mut self, id: StreamId, mut struck: impl FnMut(&[u8])) {
        for (name, group) in &mut self.groups {
            let before = group.memory();
            if group.acknowledge(id) {
                struck(name);
            }
            self.groups_bytes = self.groups_bytes - before + group.memory();
        }
    }

    /// Changes a group, with a view of its stream; returns none if no group has this name.
    pub fn change_group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut StreamGroup, &Self) -> R) -> Option<R> {
        let mut group = std::mem::take(self.groups.get_mut(name)?);
        let before = group_bytes(name, &group);
        let result = change(&mut group, self);
        self.groups_bytes = self.groups_bytes - before + group_bytes(name, &group);
        if let Some(place) = self.groups.get_mut(name) {
            *place = group;
        }
        Some(result)
    }
}

fn group_bytes(name: &[u8], group: &StreamGroup) -> usize {
    size_of::<Box<[u8]>>() + name.len() + group.memory()
}

/// The entries of a stream between two ids, forwards or backwards.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    blocks: Range<'a, StreamId, Block>,
    cursor: Option<Cursor<'a>>,
    start: StreamId,
    end: StreamId,
    is_backward: bool,
}

impl<'a> Iterator for Entries<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let Some(cursor) = &mut self.cursor else {
                let (&first, block) = if self.is_backward { self.blocks.next_back() } else { self.blocks.next() }?;
                self.cursor = Some(match self.is_backward {
                    true => Cursor::backward(block, first),
                    false => Cursor::forward(block, first),
                });
                continue;
            };
            let Some(entry) = cursor.next() else {
                self.cursor = None;
                continue;
            };
            let (is_before, is_behind) = (entry.id < self.start, entry.id > self.end);
            if !is_before && !is_behind {
                return Some(entry);
            }
            if is_before == self.is_backward {
                self.blocks = Range::default();
                self.cursor = None;
                return None;
            }
        }
    }
}

impl Clone for Stream {
    fn clone(&self) -> Self {
        let blocks = self.blocks.clone();
        Self {
            // A copy has no spare room.
            blocks_bytes: blocks.values().map(Block::memory_bytes).sum(),
            blocks,
            groups: self.groups.clone(),
            producers: self.producers.clone(),
            ..*self
        }
    }
}

impl Collection for Stream {
    const KIND: Kind = Kind::Stream;

    type Ref<'a> = &'a Self;

    fn new(_hash_key: HashKey) -> Self {
        Self::default()
    }

    /// Returns false always, because a stream without entries is kept.
    fn is_empty(&self) -> bool {
        false
    }

    fn packed(&self) -> Option<(Form, &[u8])> {
        None
    }

    fn from_packed(hash_key: HashKey, _form: Form, _bytes: Vec<u8>) -> Self {
        Self::new(hash_key)
    }

    fn into_buffer(self) -> Option<Vec<u8>> {
        None
    }

    fn view(_form: Form, _bytes: &[u8]) -> Option<&Self> {
        None
    }

    fn as_ref(&self) -> &Self {
        self
    }

    fn encoding(&self) -> Encoding {
        Encoding::Stream
    }

    fn memory(&self) -> usize {
        let of_block = size_of::<StreamId>() + size_of::<Block>();
        let of_producers = self.producers().map_or(0, Producers::memory);
        self.blocks_bytes + self.blocks.len() * of_block + self.groups_bytes + of_producers
    }

    fn needs_newest_format(&self) -> bool {
        self.producers.is_some()
    }

    fn outline(&self) -> Outline {
        self.outline_all()
    }

    fn open(&mut self, open_value: &Arc<OpenValue>) {
        self.begin_capture(open_value);
    }

    fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.opened()
    }

    fn capture_more(&mut self, budget: &mut Budget) {
        CaptureSource::capture_more(self, budget);
    }
}
