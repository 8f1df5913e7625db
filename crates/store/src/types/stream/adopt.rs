//! The takeover of a stream's blocks from a file, as they stand there.
//!
//! The bytes of a block have been checked as elements. This file checks that they are entries, in order, each with the marks
//! that are needed to walk over it from either end, and none deleted. Of any other block the live entries are put together
//! anew. That makes one block again, for any limits: each block has the names of its fields, so that a small file of blocks
//! with long names and many entries would become gigabytes were they divided.

use super::block::{Block, DELETED, ENTRY_HEAD, SAME_NAMES};
use super::id::StreamId;
use super::{Stream, StreamCounters};
use crate::packed::listpack::{Elements, Packed};
use crate::packed::pack::Pack;
use crate::value::ValueRef;

/// The contents of a block.
struct Contents {
    entries: u64,
    first_id: StreamId,
    last_id: StreamId,
}

impl Stream {
    /// Adds a block behind all others, under the id `first`.
    ///
    /// # Errors
    /// The block itself, if it differs from one that this server would have written.
    pub(crate) fn adopt(&mut self, first: StreamId, pack: Pack) -> Result<(), Pack> {
        let is_behind = self.len == 0 || first > self.last_id;
        let Some(contents) = contents(pack.as_packed(), first).filter(|_| is_behind) else {
            return Err(pack);
        };
        self.add_block(first, pack, &contents);
        Ok(())
    }

    /// Adds the live entries of a block that stands under the id `first`, as one block. Returns whether the statements of the
    /// block about itself are true; none if its contents are no entries behind all others.
    pub(crate) fn adopt_live(&mut self, first: StreamId, packed: Packed<'_>) -> Option<bool> {
        let (pack, contents, is_as_it_says) = live(packed, first, self.last_id)?;
        if contents.entries > 0 {
            self.add_block(contents.first_id, pack, &contents);
        }
        Some(is_as_it_says)
    }

    fn add_block(&mut self, first: StreamId, pack: Pack, contents: &Contents) {
        let block = Block::from_pack(pack);
        self.blocks_bytes += block.memory_bytes();
        self.first_id = if self.len == 0 { contents.first_id } else { self.first_id };
        self.last_id = contents.last_id;
        self.len += contents.entries;
        self.entries_added = StreamCounters::count(self.entries_added, contents.entries);
        self.blocks.insert(first, block);
    }
}

fn integer(elements: &mut Elements<'_>) -> Option<i64> {
    match elements.next()? {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Bytes(_) => None,
    }
}

fn is_integer(element: ValueRef<'_>, wanted: i64) -> bool {
    matches!(element, ValueRef::Integer(number) if number == wanted)
}

/// Copies so many elements.
fn copy(elements: &mut Elements<'_>, count: i64, into: &mut Pack) -> Option<()> {
    // If fewer elements are there than claimed, the copy ends at the first missing one.
    (0..usize::try_from(count).ok()?).try_for_each(|_| elements.next().map(|element| into.push_back(element)))
}

/// Passes over so many elements.
fn pass(elements: &mut Elements<'_>, count: i64) -> Option<()> {
    match usize::try_from(count).ok()?.checked_sub(1) {
        Some(before) => elements.nth(before).map(|_| ()),
        None => Some(()),
    }
}

/// Returns the contents of a block under the id `first`; none if it is not as a block should be.
fn contents(packed: Packed<'_>, first: StreamId) -> Option<Contents> {
    let mut elements = packed.iter();
    let (entries, deleted, names) = (integer(&mut elements)?, integer(&mut elements)?, integer(&mut elements)?);
    pass(&mut elements, names)?;
    if integer(&mut elements)? != 0 || deleted != 0 || entries < 1 {
        return None;
    }
    let mut ids: Option<(StreamId, StreamId)> = None;
    for _ in 0..entries {
        let (flags, ms, seq) = (integer(&mut elements)?, integer(&mut elements)?, integer(&mut elements)?);
        let id = StreamId { ms: first.ms.wrapping_add(ms as u64), seq: first.seq.wrapping_add(seq as u64) };
        let is_in_order = ids.map_or(id >= first && id > StreamId::MIN, |(_, last)| id > last);
        let is_same = flags & SAME_NAMES != 0;
        let (fields, values, head) = match is_same {
            true => (names, names, ENTRY_HEAD),
            false => {
                let fields = integer(&mut elements)?;
                (fields, fields.checked_mul(2)?, ENTRY_HEAD + 1)
            }
        };
        pass(&mut elements, values)?;
        let is_right = is_in_order && ms >= 0 && fields > 0 && flags & !SAME_NAMES == 0;
        if !is_right || integer(&mut elements)? != head.checked_add(values)? {
            return None;
        }
        ids = Some((ids.map_or(id, |(first, _)| first), id));
    }
    let (first_id, last_id) = ids.filter(|_| elements.next().is_none())?;
    Some(Contents { entries: entries as u64, first_id, last_id })
}

/// Returns the live entries of a block under the id `first`, as a block under the id of the first of them; none if they are
/// not entries behind `last_id`, in order. The last value says whether all other statements of the block about itself are
/// true.
fn live(packed: Packed<'_>, first: StreamId, mut last_id: StreamId) -> Option<(Pack, Contents, bool)> {
    let mut elements = packed.iter();
    let [live, deleted, names] = [integer(&mut elements)?, integer(&mut elements)?, integer(&mut elements)?];
    let entries = u64::try_from(live).ok()?.checked_add(u64::try_from(deleted).ok()?)?;
    let mut pack = Pack::new();
    [0, 0, names].into_iter().for_each(|number| pack.push_back(number));
    copy(&mut elements, names, &mut pack)?;
    let mut is_as_it_says = is_integer(elements.next()?, 0);
    pack.push_back(0_i64);
    let (mut first_id, mut count) = (None, 0_i64);
    for _ in 0..entries {
        let (flags, ms, seq) = (integer(&mut elements)?, integer(&mut elements)?, integer(&mut elements)?);
        let id = StreamId { ms: first.ms.wrapping_add(ms as u64), seq: first.seq.wrapping_add(seq as u64) };
        let is_same = flags & SAME_NAMES != 0;
        let fields = if is_same { names } else { integer(&mut elements)? };
        let (values, head) = if is_same { (fields, ENTRY_HEAD) } else { (fields.checked_mul(2)?, ENTRY_HEAD + 1) };
        if flags & DELETED != 0 {
            pass(&mut elements, values)?;
            is_as_it_says &= is_integer(elements.next()?, head.checked_add(values)?);
            continue;
        }
        if id <= last_id || fields < 1 {
            return None;
        }
        let begin = *first_id.get_or_insert(id);
        pack.push_back(flags & SAME_NAMES);
        pack.push_back(id.ms.wrapping_sub(begin.ms) as i64);
        pack.push_back(id.seq.wrapping_sub(begin.seq) as i64);
        if !is_same {
            pack.push_back(fields);
        }
        copy(&mut elements, values, &mut pack)?;
        is_as_it_says &= is_integer(elements.next()?, head.checked_add(values)?);
        pack.push_back(head.checked_add(values)?);
        (last_id, count) = (id, count + 1);
    }
    let at = pack.as_packed().iter().offset();
    pack.replace_at(at, count);
    is_as_it_says &= elements.next().is_none();
    Some((pack, Contents { entries: count as u64, first_id: first_id.unwrap_or_default(), last_id }, is_as_it_says))
}
