//! The first word of an entry: what the entry is, and where its parts are.
//!
//! ```text
//! byte 0     1..4   4..6        6..8
//! form,flags clock  key length  tail length
//!
//! byte 0     1           2..
//! form,flags key length  key bytes          a member of a set, of at most 255 bytes
//! form,flags key length  key bytes, score   a member of a sorted set, likewise
//! ```
//!
//! A member has no clock and nothing or eight bytes beside its name, and there may be millions in one set: its header is
//! two bytes, and the other six of the word are already the key's. A block has at least 16 bytes, so the whole word can be
//! read all the same. Plain arithmetic on one word; only `entry` uses it.

use crate::value::form::Form;

pub(crate) const HEADER_BYTES: usize = 8;
pub(crate) const FORM_MASK: u8 = 0b0000_1111;
/// Differs from that of the table as long as a snapshot has not been given the entry.
pub(crate) const EPOCH: u8 = 0b0001_0000;
pub(crate) const HAS_DEADLINE: u8 = 0b0010_0000;
pub(crate) const HAS_LONG_KEY: u8 = 0b0100_0000;
/// The block is a cell of the table's heap.
pub(crate) const IN_CELL: u8 = 0b1000_0000;
pub(crate) const LONG_KEY: usize = u16::MAX as usize;

/// The longest key, in bytes, behind a member's header.
pub(crate) const MEMBER_MAX: usize = 255;
const MEMBER_HEADER_BYTES: usize = 2;

/// The first eight bytes, decoded.
#[derive(Clone, Copy)]
pub(crate) struct Header(pub u64);

impl Header {
    /// The header of an entry with these parts; a member has a key of at most [`MEMBER_MAX`] bytes and no deadline.
    pub fn new(form: Form, clock: u32, deadline: bool, key_len: usize, tail_len: usize) -> Self {
        if matches!(form, Form::Member | Form::Scored) {
            return Self(form as u64 | (key_len as u64) << 8);
        }
        let flags = if deadline { HAS_DEADLINE } else { 0 } | if key_len >= LONG_KEY { HAS_LONG_KEY } else { 0 };
        let key = key_len.min(LONG_KEY) as u64;
        Self(u64::from(form as u8 | flags) | u64::from(clock & 0xff_ffff) << 8 | key << 32 | (tail_len as u64) << 48)
    }

    /// The header of an entry of this epoch in a block of this kind.
    pub fn placed(self, is_cell: bool, epoch: u8) -> Self {
        Self(self.0 | u64::from(epoch) | if is_cell { u64::from(IN_CELL) } else { 0 })
    }

    /// The epoch: [`EPOCH`] or 0.
    #[inline]
    pub fn epoch(self) -> u8 {
        self.0 as u8 & EPOCH
    }

    #[inline]
    pub fn form(self) -> Form {
        match self.0 as u8 & FORM_MASK {
            0 => Form::Integer,
            1 => Form::Whole,
            2 => Form::Edited,
            3 => Form::Shared,
            4 => Form::Object,
            5 => Form::PackedList,
            6 => Form::PackedSet,
            7 => Form::PackedIntegers,
            8 => Form::PackedSortedSet,
            9 => Form::PackedHash,
            10 => Form::WideHash,
            11 => Form::TimedHash,
            12 => Form::WideTimedHash,
            13 => Form::Member,
            _ => Form::Scored,
        }
    }

    #[inline]
    pub fn has(self, flag: u8) -> bool {
        self.0 as u8 & flag != 0
    }

    /// Whether the entry is a member, with a score or without.
    #[inline]
    pub fn is_member(self) -> bool {
        self.0 as u8 & FORM_MASK >= Form::Member as u8
    }

    #[inline]
    pub fn tail_len(self) -> usize {
        if self.is_member() { member_tail_len(self.form()) } else { (self.0 >> 48) as usize }
    }

    /// The length of the key, unless it is a long one.
    #[inline]
    pub fn key_len(self) -> usize {
        if self.is_member() { (self.0 >> 8) as usize & MEMBER_MAX } else { (self.0 >> 32) as usize & LONG_KEY }
    }

    /// The access clock; 0 where there is none.
    #[inline]
    pub fn clock(self) -> u32 {
        if self.is_member() { 0 } else { (self.0 >> 8) as u32 & 0xff_ffff }
    }

    /// The bytes before the key.
    #[inline]
    pub fn key_offset(self) -> usize {
        if self.is_member() {
            return MEMBER_HEADER_BYTES;
        }
        HEADER_BYTES + 8 * usize::from(self.has(HAS_DEADLINE)) + 8 * usize::from(self.has(HAS_LONG_KEY))
    }
}

/// The bytes behind the key of a member.
#[inline]
fn member_tail_len(form: Form) -> usize {
    if form == Form::Scored { 8 } else { 0 }
}

/// The size of an entry with these parts.
pub(crate) fn entry_bytes(form: Form, deadline: bool, key_len: usize, tail_len: usize) -> usize {
    if matches!(form, Form::Member | Form::Scored) {
        return MEMBER_HEADER_BYTES + key_len + tail_len;
    }
    HEADER_BYTES + 8 * usize::from(deadline) + 8 * usize::from(key_len >= LONG_KEY) + key_len + tail_len
}
