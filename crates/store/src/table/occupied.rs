//! A key that was found in a table to be changed, taken out, or both in turn: it is looked up once.
//!
//! Under the shard's lock. The table is borrowed for as long, so the place of the key stays its own.

use super::entry::body::Body;
use super::entry::handle::{EntryMut, Garbage};
use super::{Lookup, SlotIndex, Table};
use crate::value::is_expired;

/// A key that was found.
pub(crate) struct Occupied<'t> {
    table: &'t mut Table,
    place: SlotIndex,
}

impl<'t> Occupied<'t> {
    /// Its entry, to be changed.
    #[inline]
    pub fn entry(&mut self) -> EntryMut<'_> {
        self.table.entry_at(self.place)
    }

    /// Its entry, to be changed, for as long as the table is lent.
    #[inline]
    pub fn into_entry(self) -> EntryMut<'t> {
        self.table.entry_at(self.place)
    }

    /// Takes it out, and returns its memory to be freed.
    #[inline]
    pub fn remove(self) -> Garbage {
        self.table.remove_found(self.place)
    }
}

impl Table {
    /// Looks for a key that is to be changed or taken out.
    #[inline]
    pub fn occupied(&mut self, position: u64, key: &[u8]) -> Option<Occupied<'_>> {
        let (place, _) = self.locate(position, key)?;
        Some(Occupied { table: self, place })
    }

    /// The entry of a key, to be changed.
    #[inline]
    pub fn find_mut(&mut self, position: u64, key: &[u8]) -> Option<EntryMut<'_>> {
        self.occupied(position, key).map(Occupied::into_entry)
    }

    /// As [`Table::lookup`], of a key that is to be changed or taken out.
    #[inline]
    pub fn lookup_occupied(
        &mut self,
        position: u64,
        key: &[u8],
        now_ms: i64,
        may_vanish: impl FnOnce() -> bool,
    ) -> Lookup<Occupied<'_>> {
        let Some((place, entry)) = self.locate(position, key) else { return Lookup::Missing };
        if is_expired(entry.deadline(), now_ms) {
            return Lookup::Expired(if may_vanish() { Some(self.remove_found(place)) } else { None });
        }
        Lookup::Live(Occupied { table: self, place })
    }

    /// Returns the entry of a key, to be changed. A missing key is added. A key with a deadline before `now_ms` is replaced,
    /// and its memory is returned to be freed.
    #[inline]
    pub fn entry_or_insert(
        &mut self,
        (position, key): (u64, &[u8]),
        body: Body<'_>,
        now_ms: i64,
        clock: u32,
    ) -> (EntryMut<'_>, Option<Garbage>) {
        let expired = match self.locate(position, key) {
            Some((place, entry)) if !is_expired(entry.deadline(), now_ms) => return (self.entry_at(place), None),
            Some((place, _)) => Some(self.remove_found(place)),
            None => None,
        };
        (self.insert(position, key, body, None, clock), expired)
    }

    /// The entry at a place where a key was found, to be changed.
    #[inline]
    fn entry_at(&mut self, place: SlotIndex) -> EntryMut<'_> {
        if self.before_images.is_some() {
            self.capture(place);
        }
        self.entry_mut(place)
    }

    fn remove_found(&mut self, place: SlotIndex) -> Garbage {
        let entry = self.take_found(place);
        // SAFETY: the entry is of this heap, it is in no slot any more, and references that were lent are gone while `self`
        // is borrowed.
        Garbage::new(unsafe { entry.destroy(&mut self.heap) })
    }
}
