//! The records of a snapshot: small keys, each whole, and large values part by part.
//!
//! All data is raw, as it lay in the store. Parts of one large value come between its opening and its close, with nothing
//! else between them, in an order in which a file may have them. Plain data; borrowed for one call.

use std::borrow::Cow;
use std::sync::Arc;

use crate::packed::pack::Pack;
use crate::table::entry::Entry;
use crate::table::entry::handle::EntryRef;
use crate::types::list::lzf;
use crate::types::stream::Stream;
use crate::types::stream::block::{self, Block, Cursor, StreamEntry};
use crate::types::stream::capture::StreamRest;
use crate::types::stream::group::PendingCopy;
use crate::types::stream::id::StreamId;
use crate::value::Kind;
use crate::value::capture::entry_batch::EntryBatch;
use crate::value::capture::open_value::{OpenValue, Part};
use crate::value::collection::Collection;
use crate::value::form::Form;

/// The next piece of a snapshot to be written.
pub enum Record<'a> {
    /// Keys of a database with their values.
    Keys(Keys<'a>),
    /// A large value begins.
    Open(&'a Large),
    /// Members of a set or sorted set, or fields of a hash.
    Members(&'a Large, Members<'a>),
    /// A pack of a list, a block of a stream, a page of a string, or a whole collection that is packed.
    Part(&'a Large, Bytes<'a>),
    /// Pending entries of a stream's groups, in no order.
    Pending(&'a Large, Pendings<'a>),
    /// A large value ends: all of its parts have been given out.
    Close(&'a Large),
}

/// Keys of a database with their values.
pub struct Keys<'a> {
    db: usize,
    batch: &'a mut EntryBatch,
}

impl<'a> Keys<'a> {
    pub(super) fn new(db: usize, batch: &'a mut EntryBatch) -> Self {
        Self { db, batch }
    }

    /// Returns the number of the database at the instant of the snapshot.
    pub fn db(&self) -> usize {
        self.db
    }

    /// Shows each key.
    pub fn for_each(self, show: impl FnMut(EntryRef<'_>)) {
        show_entries(self.batch, show);
    }
}

/// Members of a set or sorted set, or fields of a hash.
pub struct Members<'a>(&'a mut EntryBatch);

impl<'a> Members<'a> {
    pub(super) fn new(batch: &'a mut EntryBatch) -> Self {
        Self(batch)
    }

    /// Shows each member or field as an entry: the key is the member or field, the value is that of the field, or the bits of
    /// the score.
    pub fn for_each(self, show: impl FnMut(EntryRef<'_>)) {
        show_entries(self.0, show);
    }
}

fn show_entries(batch: &mut EntryBatch, mut show: impl FnMut(EntryRef<'_>)) {
    for block in batch.blocks() {
        // SAFETY: the block is a copy of a living entry's; the batch, which is borrowed, keeps the buffers that it refers to.
        show(unsafe { EntryRef::new(Entry::at(block.expose_provenance().get())) });
    }
}

/// A run of bytes of a large value.
pub struct Bytes<'a> {
    at: u128,
    part: &'a Part,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(at: u128, part: &'a Part) -> Self {
        Self { at, part }
    }

    /// Returns the place of the part among the value's parts.
    pub(super) fn place(&self) -> u128 {
        self.at
    }

    /// Returns the id of a stream's block.
    pub fn id(&self) -> StreamId {
        block::id_at(self.at)
    }

    /// Returns the bytes, unpacked.
    ///
    /// # Panics
    /// If bytes that were compressed here cannot be unpacked.
    pub fn bytes(&self) -> Cow<'a, [u8]> {
        match self.part.unpacked_len {
            0 => Cow::Borrowed(&self.part.bytes),
            length => Cow::Owned(lzf::unpack(&self.part.bytes, length).expect("these bytes were compressed here")),
        }
    }

    /// Returns the packed collection that a value is, if it is of this type.
    pub fn collection<C: Collection>(&self, large: &Large) -> Option<C::Ref<'a>> {
        C::view(large.packed_form()?, &self.part.bytes)
    }

    /// Shows each entry of a block of a stream.
    pub fn for_each_entry(&self, mut show: impl FnMut(&StreamEntry<'_>)) {
        let block = Block::from_pack(self.pack());
        let mut entries = Cursor::forward(&block, self.id());
        while let Some(entry) = entries.next() {
            show(&entry);
        }
    }

    /// Returns the elements of a pack or of a block.
    pub fn pack(&self) -> Pack {
        Pack::from_bytes(self.bytes().into_owned())
    }
}

/// Pending entries of a stream's groups.
pub struct Pendings<'a>(&'a [u8]);

impl<'a> Pendings<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns an iterator over the pending entries.
    pub fn iter(&self) -> impl Iterator<Item = PendingCopy> + use<'a> {
        self.0.as_chunks().0.iter().map(PendingCopy::from_bytes)
    }
}

/// A large value: its key, database, type and deadline.
pub struct Large(Arc<OpenValue>);

impl Large {
    pub(super) fn new(open_value: &Arc<OpenValue>) -> Self {
        Self(Arc::clone(open_value))
    }

    /// Returns the number of the database at the instant of the snapshot.
    pub fn db(&self) -> usize {
        self.0.metadata().db
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.0.metadata().key
    }

    /// Returns the key's deadline, in milliseconds since the epoch.
    pub fn deadline(&self) -> Option<i64> {
        self.0.metadata().deadline
    }

    /// Returns the access clock.
    pub fn clock(&self) -> u32 {
        self.0.metadata().clock
    }

    /// Returns the type.
    pub fn kind(&self) -> Kind {
        self.0.metadata().kind
    }

    /// Returns the facts that were captured of it.
    pub(super) fn open_value(&self) -> &OpenValue {
        &self.0
    }

    /// Returns the number of members, packs, blocks and pending entries that follow; 1 if the value is packed.
    pub fn parts_len(&self) -> usize {
        self.0.parts_len()
    }

    /// Returns whether the value is a packed collection that comes as one part.
    pub fn is_packed(&self) -> bool {
        self.packed_form().is_some()
    }

    /// The form, if the value is a packed collection.
    pub(super) fn packed_form(&self) -> Option<Form> {
        self.0.extra().copied()
    }

    /// Returns the number of blocks or packs that follow, without pending entries.
    pub fn blocks_len(&self) -> usize {
        self.0.extra().map_or(self.parts_len(), |StreamRest { blocks, .. }| *blocks)
    }

    /// Returns a stream without its blocks and pending entries.
    pub fn stream(&self) -> Option<&Stream> {
        self.0.extra().map(|StreamRest { rest, .. }| rest)
    }
}
