//! Blocks of a stream that are taken over from a file as they stand there.
//!
//! The bytes of a block have been checked as elements; here it is checked that they are entries, in order, each with what it
//! needs to be walked over from either end, and none deleted. Any other block is given back, to be read entry by entry.

use super::Stream;
use super::block::{Block, ENTRY_HEAD, SAME_NAMES};
use super::id::StreamId;
use crate::packed::listpack::{Elements, Packed};
use crate::packed::pack::Pack;
use crate::value::ValueRef;

/// What a block holds.
struct Contents {
    entries: u64,
    first_id: StreamId,
    last_id: StreamId,
}

impl Stream {
    /// Adds a block behind all others, which stands under the id `first`.
    ///
    /// # Errors
    /// The block itself, where it is not what it would be had it been written here.
    pub(crate) fn adopt(&mut self, first: StreamId, pack: Pack) -> Result<(), Pack> {
        let is_behind = self.len == 0 || first > self.last_id;
        let Some(contents) = contents(pack.as_packed(), first).filter(|_| is_behind) else {
            return Err(pack);
        };
        let block = Block::from_pack(pack);
        self.blocks_bytes += block.memory_bytes();
        self.first_id = if self.len == 0 { contents.first_id } else { self.first_id };
        self.last_id = contents.last_id;
        self.len += contents.entries;
        self.entries_added = self.entries_added.saturating_add(contents.entries);
        self.blocks.insert(first, block);
        Ok(())
    }
}

fn integer(elements: &mut Elements<'_>) -> Option<i64> {
    match elements.next()? {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Bytes(_) => None,
    }
}

/// Passes over so many elements.
fn pass(elements: &mut Elements<'_>, count: i64) -> Option<()> {
    match usize::try_from(count).ok()?.checked_sub(1) {
        Some(before) => elements.nth(before).map(|_| ()),
        None => Some(()),
    }
}

/// What is in a block under the id `first`; none if it is not as a block should be.
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
