//! A block of a stream: up to a hundred entries or so, packed one after the other.
//!
//! The run of elements is the one that Redis keeps in the nodes of its radix tree (described in its `t_stream.c`): a
//! master entry, then the entries.
//!
//! ```text
//! master:  live entries, deleted entries, number of names, names..., 0
//! entry:   flags, ms - first.ms, seq - first.seq,
//!          either values...                              (flag SAME_NAMES: the names are the master's)
//!          or number of names, name, value, name, value ...
//!          number of the entry's elements but this one   (read when going backwards)
//! ```
//!
//! `first` is the id under which the stream keeps the block: that of the first entry ever put in. A deleted entry stays and
//! is flagged, until the last live one goes and the block with it. Plain data, usable from any thread.

use super::before_images::BeforeImage;
use super::id::StreamId;
use crate::packed::listpack::{Elements, Packed};
use crate::packed::pack::Pack;
use crate::value::ValueRef;
use crate::value::capture::open_value::{OpenValue, Part};

pub(super) const DELETED: i64 = 1;
pub(super) const SAME_NAMES: i64 = 2;

/// Entries of a stream in one pack, with the common parts of their ids and fields stored once.
#[derive(Clone, Debug)]
pub(crate) struct Block(Pack);

/// The largest size of a block; Redis's `stream-node-max-bytes` and `stream-node-max-entries`, 0 being no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// The most bytes.
    pub bytes_max: usize,
    /// The most entries, with deleted ones.
    pub entries_max: usize,
}

/// The largest size of a block in bytes, for any limits.
const BYTES_MAX: usize = 1 << 30;

/// Elements of a master entry before its names.
const MASTER_HEAD: usize = 3;
/// Elements of every entry before its values: flags and id.
pub(super) const ENTRY_HEAD: i64 = 3;

/// An entry of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'a> {
    /// The id of the entry.
    pub id: StreamId,
    block: Packed<'a>,
    /// The offset of the entry's flags, and below it the offset of its first value, or of its first name if it has names of
    /// its own.
    at: usize,
    body: usize,
    len: usize,
    flags: i64,
}

impl<'a> StreamEntry<'a> {
    /// Returns the number of the entry's fields.
    pub fn fields_len(&self) -> usize {
        self.len
    }

    /// Returns the entry's fields in order, each a name and a value.
    pub fn fields(&self) -> impl Iterator<Item = (ValueRef<'a>, ValueRef<'a>)> + use<'a> {
        let is_same = self.flags & SAME_NAMES != 0;
        let mut values = self.block.iter_from(self.body);
        let mut names = names_of(self.block);
        (0..self.len).map_while(move |_| {
            let name = if is_same { names.next() } else { values.next() };
            Some((name?, values.next()?))
        })
    }

    fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    /// Returns the offset of the entry behind this one.
    fn end(&self) -> usize {
        let values = if self.flags & SAME_NAMES != 0 { self.len } else { 2 * self.len };
        // The step beyond the values is for the count of elements at the entry's end.
        (0..=values).fold(self.body, |at, _| self.block.after(at))
    }
}

/// Returns the integer of an element. In blocks of this server it is an integer wherever one is due.
fn number(value: ValueRef<'_>) -> i64 {
    value.integer().unwrap_or(0)
}

fn names_of(block: Packed<'_>) -> Elements<'_> {
    let mut elements = block.iter();
    elements.nth(MASTER_HEAD - 1);
    elements
}

impl Block {
    /// Returns a block for entries that mostly have these field names.
    pub fn new<'v>(names: impl ExactSizeIterator<Item = &'v [u8]>) -> Self {
        let mut pack = Pack::new();
        pack.push_back(0_i64);
        pack.push_back(0_i64);
        pack.push_back(names.len() as i64);
        names.for_each(|name| pack.push_back(name));
        pack.push_back(0_i64);
        Self(pack)
    }

    /// Makes a block of these elements, which are those of a block.
    pub fn from_pack(pack: Pack) -> Self {
        Self(pack)
    }

    pub fn packed(&self) -> Packed<'_> {
        self.0.as_packed()
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Returns the number of live entries, and the number of deleted ones.
    pub fn counts(&self) -> (u64, u64) {
        let mut elements = self.packed().iter();
        let mut count = || elements.next().map_or(0, number) as u64;
        (count(), count())
    }

    /// Returns whether an entry with so many bytes of names and values has to go into another block.
    pub fn is_full_for(&self, bytes: usize, limits: BlockLimits) -> bool {
        let bytes_max = if limits.bytes_max == 0 { BYTES_MAX } else { limits.bytes_max.min(BYTES_MAX) };
        let (live, deleted) = self.counts();
        self.packed().redis_bytes() + bytes >= bytes_max
            || limits.entries_max != 0 && live + deleted >= limits.entries_max as u64
    }

    /// Puts an entry at the end. `fields` are names and values in turn.
    pub fn push<'v>(&mut self, first: StreamId, id: StreamId, fields: impl ExactSizeIterator<Item = &'v [u8]> + Clone) {
        let len = fields.len() / 2;
        let is_same = self.has_names(fields.clone().step_by(2));
        self.0.push_back(if is_same { SAME_NAMES } else { 0 });
        self.0.push_back(id.ms.wrapping_sub(first.ms) as i64);
        self.0.push_back(id.seq.wrapping_sub(first.seq) as i64);
        if is_same {
            fields.skip(1).step_by(2).for_each(|value| self.0.push_back(value));
            self.0.push_back(ENTRY_HEAD + len as i64);
        } else {
            self.0.push_back(len as i64);
            fields.for_each(|element| self.0.push_back(element));
            self.0.push_back(ENTRY_HEAD + 1 + 2 * len as i64);
        }
        self.count(1, 0);
    }

    /// Returns whether these names are those of the block's master entry.
    fn has_names<'v>(&self, mut names: impl ExactSizeIterator<Item = &'v [u8]>) -> bool {
        let packed = self.packed();
        let len = packed.get(MASTER_HEAD - 1).map_or(0, number);
        let mut at = names_of(packed).offset();
        len as usize == names.len()
            && names.all(|name| {
                let is_same = packed.is_at(at, name);
                at = packed.after(at);
                is_same
            })
    }

    /// Adds to the number of live and of deleted entries.
    fn count(&mut self, live: i64, deleted: i64) {
        let at = self.packed().iter().offset();
        let (old_live, old_deleted) = self.counts();
        let at = self.0.replace_at(at, old_live as i64 + live);
        if deleted != 0 {
            self.0.replace_at(at, old_deleted as i64 + deleted);
        }
    }

    /// Flags the live entry with this id as deleted; returns whether there was one.
    pub fn delete(&mut self, first: StreamId, id: StreamId) -> bool {
        let mut cursor = Cursor::forward(self, first);
        let found = std::iter::from_fn(|| cursor.next()).find(|entry| entry.id >= id);
        let Some(entry) = found.filter(|entry| entry.id == id) else { return false };
        let (at, flags) = (entry.at, entry.flags);
        self.0.replace_at(at, flags | DELETED);
        self.count(-1, 1);
        true
    }

    /// Flags live entries from the first on as deleted, as long as `goes` returns true; returns their number.
    pub fn delete_while(&mut self, first: StreamId, mut goes: impl FnMut(StreamId, u64) -> bool) -> u64 {
        let mut flagged = Vec::new();
        let mut cursor = Cursor::forward(self, first);
        while let Some(entry) = cursor.next().filter(|entry| goes(entry.id, flagged.len() as u64)) {
            flagged.push((entry.at, entry.flags));
        }
        // Flags are integers of one byte, whatever their value, so no offset moves.
        for &(at, flags) in &flagged {
            self.0.replace_at(at, flags | DELETED);
        }
        let count = flagged.len() as i64;
        self.count(-count, count);
        count as u64
    }

    /// Returns the id of the last entry, deleted or not.
    pub fn last_id(&self, first: StreamId) -> StreamId {
        let entry = BlockWalk::backward(self, first).next();
        entry.map_or(first, |entry| entry.id)
    }
}

/// Returns the place of a block among a value's parts.
pub(crate) fn place(first: StreamId) -> u128 {
    u128::from(first.ms) << 64 | u128::from(first.seq)
}

/// Returns the id of the first entry of the block at this place.
pub(crate) fn id_at(place: u128) -> StreamId {
    StreamId { ms: (place >> 64) as u64, seq: place as u64 }
}

impl BeforeImage for Block {
    fn deliver(&self, id: StreamId, _group: u32, open_value: &OpenValue) -> usize {
        let bytes = self.0.as_bytes();
        open_value.deliver_part(place(id), Part { bytes: bytes.into(), unpacked_len: 0 });
        bytes.len()
    }
}

/// A walk over the entries of a block, those that were deleted included.
#[derive(Clone, Debug)]
struct BlockWalk<'a> {
    block: Packed<'a>,
    first: StreamId,
    /// The offset at which the next entry begins, or, going backwards, at which it ends.
    at: usize,
    is_backward: bool,
}

impl<'a> BlockWalk<'a> {
    fn forward(block: &'a Block, first: StreamId) -> Self {
        let block = block.packed();
        let mut names = names_of(block);
        let len = block.get(MASTER_HEAD - 1).map_or(0, number) as usize;
        // Skips the names and the end of the master entry.
        names.nth(len);
        Self { block, first, at: names.offset(), is_backward: false }
    }

    fn backward(block: &'a Block, first: StreamId) -> Self {
        let block = block.packed();
        Self { block, first, at: block.bytes_len(), is_backward: true }
    }

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        if !self.is_backward {
            let entry = self.read(self.at)?;
            self.at = entry.end();
            return Some(entry);
        }
        let mut at = self.block.before(self.at)?;
        let count = number(self.block.read(at)?.0);
        if count == 0 {
            return None;
        }
        for _ in 0..count {
            at = self.block.before(at)?;
        }
        self.at = at;
        self.read(at)
    }

    /// Reads the entry with its flags at `at`.
    fn read(&self, at: usize) -> Option<StreamEntry<'a>> {
        let block = self.block;
        let (flags, next) = block.read(at)?;
        let (ms, next) = block.read(next)?;
        let (seq, mut body) = block.read(next)?;
        let flags = number(flags);
        let len = if flags & SAME_NAMES != 0 {
            block.get(MASTER_HEAD - 1)?
        } else {
            let (len, next) = block.read(body)?;
            body = next;
            len
        };
        let id = StreamId {
            ms: self.first.ms.wrapping_add(number(ms) as u64),
            seq: self.first.seq.wrapping_add(number(seq) as u64),
        };
        Some(StreamEntry { id, block, at, body, len: number(len) as usize, flags })
    }
}

/// A walk over the live entries of a block, from either end.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a>(BlockWalk<'a>);

impl<'a> Cursor<'a> {
    /// Returns a cursor that walks from the first entry on.
    pub fn forward(block: &'a Block, first: StreamId) -> Self {
        Self(BlockWalk::forward(block, first))
    }

    /// Returns a cursor that walks from the last entry back.
    pub fn backward(block: &'a Block, first: StreamId) -> Self {
        Self(BlockWalk::backward(block, first))
    }

    /// Returns the next entry.
    pub fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            let entry = self.0.next()?;
            if !entry.is_deleted() {
                return Some(entry);
            }
        }
    }
}
