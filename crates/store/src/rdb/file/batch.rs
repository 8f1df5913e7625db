//! Many keys on their way from the thread that reads a file to the one that keeps them.
//!
//! Keys and short strings lie one after the other in one buffer, so that a key costs no allocation; a batch that was taken in
//! goes back to be filled again.

use super::Access;
use crate::rdb::read::Loaded;

/// Keys with their values, in the order of the file.
#[derive(Default)]
pub struct Batch {
    /// Each key and, behind it, its value if that is a short string.
    pub(super) bytes: Vec<u8>,
    pub(super) items: Vec<Item>,
    /// The values of the other keys, in their order.
    pub(super) others: Vec<Loaded>,
}

/// What is known of one key.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub database: usize,
    pub deadline: Option<i64>,
    pub access: Access,
    pub offset: u64,
    /// Where in the buffer the key ends; it begins where the item before it ends.
    pub key_end: usize,
    pub end: usize,
    /// Whether the value stands in the buffer.
    pub is_short: bool,
}

/// A key of a batch.
pub struct BatchKey<'a> {
    /// Its database.
    pub database: usize,
    /// The key.
    pub key: &'a [u8],
    /// When it expires, milliseconds since the epoch.
    pub deadline: Option<i64>,
    /// How it was used.
    pub access: Access,
    /// The byte of the file at which its record begins.
    pub offset: u64,
}

/// The value of a key of a batch.
pub enum BatchValue<'a> {
    /// A short string.
    Short(&'a [u8]),
    /// Any other; a hash may have no fields, if the time of all of them was over.
    Loaded(Loaded),
}

impl Batch {
    /// How many keys are in it.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The key at this place.
    pub fn key(&self, at: usize) -> BatchKey<'_> {
        let Item { database, deadline, access, offset, key_end, .. } = self.items[at];
        BatchKey { database, key: &self.bytes[self.begin(at)..key_end], deadline, access, offset }
    }

    fn begin(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.items[before].end)
    }

    /// Takes all keys out, with their values.
    pub fn drain(&mut self, mut take: impl FnMut(BatchKey<'_>, BatchValue<'_>)) {
        let mut others = std::mem::take(&mut self.others);
        let mut values = others.drain(..);
        for at in 0..self.items.len() {
            let Item { key_end, end, is_short, .. } = self.items[at];
            let value = if is_short { None } else { values.next() };
            take(self.key(at), value.map_or(BatchValue::Short(&self.bytes[key_end..end]), BatchValue::Loaded));
        }
        drop(values);
        self.others = others;
        self.clear();
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(ROOM_KEPT);
        self.items.clear();
        self.others.clear();
    }
}

/// So many bytes of room stay for what follows.
const ROOM_KEPT: usize = 1 << 20;
