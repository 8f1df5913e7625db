//! Where the keys of one shard stand: the one place that knows whether a store is placed by the hash or by the slot.
//!
//! A position is 64 bits. Its highest bits choose the shard, and the others the place in the shard's table, which is in the
//! order of positions.
//!
//! | placement | position of a key | for |
//! | --- | --- | --- |
//! | by hash | its keyed hash | a store without a cluster; the members of every collection |
//! | by slot | the 14 bits of its slot, lowest first, then the highest 50 bits of its keyed hash | a node of a cluster |
//!
//! So a slot is one interval of positions, inside one shard. The lowest bits come first because a node owns ranges of slots,
//! and the slots of a range differ in their lowest bits: they still spread over all shards and over each table.
//!
//! A store without a cluster must not pay for this. Several forms were weighed:
//!
//! - A type parameter of store, shard and table costs nothing, but every function of the server that takes a shard would exist
//!   twice, and so would its code in the instruction cache of a program that uses one of them.
//! - A pointer to the function that hashes is an indirect call for every key, which SipHash inlined in its caller avoids.
//! - The choice once a batch needs a second pass over the keys, because the server hashes them where it parses names.
//! - The choice at the hash of a key (chosen): one comparison that always goes the same way, paid for by four
//!   exclusive-ors of constants that [`HashKey`] now keeps done. Behind the hash nothing asks again: shard, position and
//!   SCAN's cursor are computed from 64 bits, whatever they mean, and the slot is read off them. In the table the check
//!   whether a place of the directory exists, which every look-up makes, sends a table that is placed by slot to the code for
//!   it; see `directory`.
//!
//! Measured on 2026-11-28, 16-byte keys, in instructions: a hash takes 137 as before, a hit 299 instead of 300, a miss 296, a
//! replaced value 436 instead of 450, three steps of a prefetch 108 instead of 107. By slot a GET takes 34.5 ns instead of
//! 22.8: 9.5 ns for the slot of the key, 2.2 ns for the way through the directory.

use super::entry::Entry;
use super::segment::DEPTH_MAX;
use crate::value::key_hash::{Hash, HashKey, Key, SLOT_BITS};

/// Returns the slot of a key: below 16,384, and the same for all keys with the same hash tag.
pub type SlotOf = fn(&[u8]) -> u16;

/// The parameters by which the keys of one shard are placed.
#[derive(Clone, Copy)]
pub(crate) struct Placement {
    pub hash_key: HashKey,
    slot_of: Option<SlotOf>,
    /// The highest bits of a hash, which are the same for all keys of a shard.
    pub shard_bits: u32,
}

impl Placement {
    /// Returns the placement of keys in so many shards, by their slots if there is a function for them.
    pub fn of_keys(hash_key: HashKey, shards: usize, slot_of: Option<SlotOf>) -> Self {
        Self { hash_key, slot_of, shard_bits: shards.trailing_zeros() }
    }

    /// Returns the placement of a collection's members.
    pub fn of_members(hash_key: HashKey) -> Self {
        Self { hash_key, slot_of: None, shard_bits: 0 }
    }

    /// Returns whether keys are placed by their slots.
    #[inline]
    pub fn is_by_slot(&self) -> bool {
        self.slot_of.is_some()
    }

    /// Returns the number of bits at the beginning of a position that are those of the slot; 0 if keys are placed by hash.
    pub fn slot_bits(&self) -> u8 {
        if self.is_by_slot() { (SLOT_BITS - self.shard_bits) as u8 } else { 0 }
    }

    /// Returns the depth at which a segment is enlarged rather than split, so that a cursor fits 48 bits: a boundary between
    /// two buckets has 16 bits more than the depth rounded down to a multiple of four.
    pub fn depth_max(&self) -> u8 {
        if self.is_by_slot() { (((32 - self.shard_bits) & !3) + 3) as u8 } else { DEPTH_MAX }
    }

    /// Returns the hash of a key.
    #[inline]
    pub fn hash(&self, name: &[u8]) -> Hash {
        let hash = self.hash_key.hash(name);
        match self.slot_of {
            None => hash,
            Some(slot_of) => in_slot(slot_of, name, hash),
        }
    }

    /// Returns a key by its name, with its hash.
    #[inline]
    pub fn key<'n>(&self, name: &'n [u8]) -> Key<'n> {
        Key { name, hash: self.hash(name) }
    }

    /// Returns the hash without the bits that chose the shard.
    #[inline]
    pub fn position(&self, hash: Hash) -> u64 {
        hash.0 << self.shard_bits
    }

    pub fn position_of(&self, entry: Entry) -> u64 {
        self.position(self.hash(entry.key()))
    }
}

/// Returns the hash of a key that is placed by its slot. Never inline: without a cluster no caller should carry this code.
#[cold]
#[inline(never)]
fn in_slot(slot_of: SlotOf, name: &[u8], hash: Hash) -> Hash {
    hash.in_slot(slot_of(name))
}
