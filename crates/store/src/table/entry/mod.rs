//! One key with its value in one block of memory.
//!
//! ```text
//! byte 0     1..4   4..6        6..8                            then                then        then
//! form,flags clock  key length  tail length  [deadline, 8 bytes][key length, 8 bytes]  key bytes   tail
//! ```
//!
//! The deadline is there if its flag is set, and the second key length if the key has 65,535 bytes or more. The tail is the
//! value: the bytes of a short string or of a small packed collection, the eight bytes of an integer, or the address of a
//! longer string's shared buffer or of a larger collection.
//!
//! ```text
//! byte 0     1           2..
//! form,flags key length  key bytes          a member of a set, of at most 255 bytes
//! form,flags key length  key bytes, score   a member of a sorted set, likewise
//! ```
//!
//! A member has no clock and nothing or eight bytes beside its name, and there may be millions in one set: its header is two
//! bytes, and the other six of the word are already the key's. A block has at least 16 bytes, so the whole word can be read
//! all the same.
//!
//! An [`Entry`] is an address without a lifetime. This file reads the block, `change` makes, changes and ends it; its owner
//! and its lifetime are the table's business. Only code that holds the shard's lock gets here.

pub mod body;
pub mod change;
pub mod handle;
pub mod owned;

use std::ptr::NonNull;
use std::sync::Arc;

use super::bucket::{OUTSIDE, SPANS, VOLATILE};
use crate::memory::heap::block_bytes;
use crate::value::collection::ObjectRef;
use crate::value::form::Form;
use crate::value::{EMBEDDED_MAX, Encoding, Kind, ValueRef};
use body::Body;
use owned::{SharedRef, shared_bytes};

pub(crate) const HEADER_BYTES: usize = 8;
pub(crate) const FORM_MASK: u8 = 0b0000_1111;
/// The bit that differs from the table's as long as a snapshot still lacks the entry.
pub(crate) const EPOCH: u8 = 0b0001_0000;
pub(crate) const HAS_DEADLINE: u8 = 0b0010_0000;
pub(crate) const HAS_LONG_KEY: u8 = 0b0100_0000;
/// The flag of a block that is a cell of the table's heap.
pub(crate) const IN_CELL: u8 = 0b1000_0000;
pub(crate) const LONG_KEY: usize = u16::MAX as usize;

/// The forms of strings: the bit of a form's number is set.
const STRINGS: u16 = {
    let (mut forms, mut number) = (0, 0);
    while number <= FORM_MASK {
        if matches!(Header(number as u64).form().kind(), Some(Kind::String)) {
            forms |= 1 << number;
        }
        number += 1;
    }
    forms
};

/// The longest key, in bytes, behind a member's header.
pub(crate) const MEMBER_MAX: usize = 255;
const MEMBER_HEADER_BYTES: usize = 2;

/// The address of a living entry, for reads. The code that made it vouches for it: see [`Entry::at`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(NonNull<u8>);

impl Entry {
    /// Returns the entry at an address that came from [`Entry::address`].
    ///
    /// # Safety
    /// For as long as the result, a copy of it or a reference lent by these is used, the entry at `address` is alive, no
    /// other thread changes it, and no lent part of it is changed.
    #[inline]
    pub unsafe fn at(address: usize) -> Self {
        // SAFETY: an entry's address is not null, as the caller promises that there is one.
        Self(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) })
    }

    #[inline]
    pub fn address(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// Returns the shared buffer, still owned by the entry. The code that made the entry bounds the lifetime.
    #[inline]
    pub fn shared<'a>(self) -> Option<SharedRef<'a>> {
        if self.header().form() != Form::Shared {
            return None;
        }
        // SAFETY: the tail of this form is the address that `Arc::into_raw` gave, and the entry owns one count of it.
        Some(unsafe { SharedRef::at(self.tail().cast::<usize>().read_unaligned()) })
    }

    #[inline]
    fn object_address(self) -> Option<usize> {
        // SAFETY: the tail of this form is an address.
        (self.header().form() == Form::Object).then(|| unsafe { self.tail().cast::<usize>().read_unaligned() })
    }

    /// Returns the collection outside of the block, if the value is one. The code that made the entry bounds the lifetime.
    #[inline]
    pub fn object<'a>(self) -> Option<ObjectRef<'a>> {
        // SAFETY: the object lives as long as the entry owns it.
        self.object_address().map(|address| unsafe { ObjectRef::at(address) })
    }

    /// Returns the form and the bytes of a packed collection in the block, if the value is one.
    #[inline]
    pub fn packed<'a>(self) -> Option<(Form, &'a [u8])> {
        let header = self.header();
        match header.form() {
            Form::Integer | Form::Whole | Form::Edited | Form::Shared | Form::Object => None,
            Form::Member | Form::Scored => None,
            // SAFETY: the tail of these forms has this many initialised bytes.
            form => Some((form, unsafe { std::slice::from_raw_parts(self.tail().as_ptr(), header.tail_len()) })),
        }
    }

    /// Returns the type of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.header().form().kind() {
            Some(kind) => kind,
            None => self.object().map_or(Kind::String, ObjectRef::kind),
        }
    }

    /// Returns whether the value is kept as an integer.
    #[inline]
    pub fn is_integer(self) -> bool {
        self.header().form() == Form::Integer
    }

    /// Returns whether the value is a string.
    #[inline]
    pub fn is_string(self) -> bool {
        STRINGS >> (self.header().0 as u8 & FORM_MASK) & 1 != 0
    }

    #[inline]
    fn header(self) -> Header {
        // SAFETY: the first word of a living entry is its header.
        Header(unsafe { self.0.cast::<u64>().read() })
    }

    #[inline]
    fn key_len(self, header: Header) -> usize {
        if header.has(HAS_LONG_KEY) {
            // SAFETY: an entry with the flag has the length in the word before the key.
            unsafe { self.0.add(header.key_offset() - 8).cast::<u64>().read() as usize }
        } else {
            header.key_len()
        }
    }

    #[inline]
    fn tail(self) -> NonNull<u8> {
        self.tail_behind(self.header())
    }

    /// Returns the tail, of an entry with this header.
    #[inline]
    fn tail_behind(self, header: Header) -> NonNull<u8> {
        // SAFETY: the tail follows the key inside the block.
        unsafe { self.0.add(header.key_offset() + self.key_len(header)) }
    }

    #[inline]
    fn size(self) -> usize {
        let header = self.header();
        header.key_offset() + self.key_len(header) + header.tail_len()
    }

    #[inline]
    pub fn key<'a>(self) -> &'a [u8] {
        let header = self.header();
        // SAFETY: the key has this many bytes at this place. The code that made the entry bounds the lifetime.
        unsafe { std::slice::from_raw_parts(self.0.add(header.key_offset()).as_ptr(), self.key_len(header)) }
    }

    #[inline]
    pub fn has_key(self, key: &[u8]) -> bool {
        same_bytes(self.key(), key)
    }

    #[inline]
    pub fn deadline(self) -> Option<i64> {
        // SAFETY: an entry with the flag has its deadline in the second word.
        self.header().has(HAS_DEADLINE).then(|| unsafe { self.0.add(HEADER_BYTES).cast::<i64>().read() })
    }

    #[inline]
    pub fn clock(self) -> u32 {
        self.header().clock()
    }

    /// Returns the epoch in which the entry was made, or in which a snapshot captured it.
    #[inline]
    pub fn epoch(self) -> u8 {
        self.header().epoch()
    }

    /// Returns the bytes of the block.
    ///
    /// # Safety
    /// Nothing of the entry is changed while the result is used, not even its clock or its epoch.
    pub unsafe fn block_bytes<'a>(self) -> &'a [u8] {
        // SAFETY: so many bytes were written when the entry was made.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.size()) }
    }

    /// Returns the value of a string; no bytes for a collection.
    #[inline]
    pub fn value<'a>(self) -> ValueRef<'a> {
        let header = self.header();
        // SAFETY: the form tells the kind of the tail. The buffer lives as long as the entry owns it.
        unsafe {
            let tail = self.tail_behind(header);
            match header.form() {
                Form::Integer | Form::Scored => ValueRef::Integer(tail.cast::<i64>().read_unaligned()),
                Form::Whole | Form::Edited => {
                    ValueRef::Bytes(std::slice::from_raw_parts(tail.as_ptr(), header.tail_len()))
                }
                Form::Shared => {
                    let address = tail.cast::<usize>().read_unaligned();
                    ValueRef::Bytes(&*std::ptr::with_exposed_provenance::<Vec<u8>>(address))
                }
                _ => ValueRef::Bytes(&[]),
            }
        }
    }

    /// Returns the value in the shape in which it could be stored again; a shared buffer is counted once more, and a
    /// collection outside of the block is copied.
    pub fn copy_body<'a>(self) -> Body<'a> {
        match (self.shared(), self.object()) {
            (Some(buffer), _) => Body::Shared(Arc::clone(&buffer)),
            (_, Some(object)) => Body::Object(object.copy()),
            _ => self.inline_body(),
        }
    }

    /// Returns the value of an entry that owns nothing outside of its block.
    fn inline_body<'a>(self) -> Body<'a> {
        if let Some((form, bytes)) = self.packed() {
            return Body::Packed(form, bytes);
        }
        match (self.header().form(), self.value()) {
            (Form::Member, _) => Body::Member,
            (Form::Scored, ValueRef::Integer(number)) => Body::Scored(number),
            (_, ValueRef::Integer(number)) => Body::Integer(number),
            (Form::Edited, ValueRef::Bytes(bytes)) => Body::Edited(bytes),
            (_, ValueRef::Bytes(bytes)) => Body::Whole(bytes),
        }
    }

    pub fn encoding(self) -> Encoding {
        let header = self.header();
        match header.form() {
            Form::Integer | Form::Scored => Encoding::Integer,
            Form::Whole if header.tail_len() <= EMBEDDED_MAX => Encoding::Embedded,
            Form::Whole | Form::Edited | Form::Shared | Form::Member => Encoding::Raw,
            Form::PackedIntegers => Encoding::Intset,
            Form::PackedList | Form::PackedSet | Form::PackedSortedSet | Form::PackedHash => Encoding::Listpack,
            Form::TimedHash => Encoding::ListpackEx,
            Form::WideHash | Form::WideTimedHash => Encoding::Hashtable,
            Form::Object => self.object().map_or(Encoding::Raw, ObjectRef::encoding),
        }
    }

    /// Returns the flags that the entry's slot carries.
    #[inline]
    pub fn slot_flags(self) -> u64 {
        let (header, size) = (self.header(), self.size());
        let volatile = if header.has(HAS_DEADLINE) { VOLATILE } else { 0 };
        let outside =
            if header.has(IN_CELL) && !matches!(header.form(), Form::Shared | Form::Object) { 0 } else { OUTSIDE };
        let spans = if self.0.addr().get() % 64 + size.min(128) > 64 { SPANS } else { 0 };
        volatile | outside | spans
    }

    /// Returns the bytes of the entry, with the memory that it owns outside of its block.
    pub fn memory(self) -> usize {
        let outside = match (self.shared(), self.object()) {
            (Some(buffer), _) => shared_bytes(&buffer),
            (_, Some(object)) => object.memory(),
            _ => 0,
        };
        block_bytes(self.size()) + outside
    }
}

/// The first eight bytes, decoded: the kind of the entry, and the places of its parts.
#[derive(Clone, Copy)]
pub(crate) struct Header(pub u64);

impl Header {
    /// Returns the header of an entry with these parts; a member has a key of at most [`MEMBER_MAX`] bytes and no deadline.
    pub fn new(form: Form, clock: u32, deadline: bool, key_len: usize, tail_len: usize) -> Self {
        if matches!(form, Form::Member | Form::Scored) {
            return Self(form as u64 | (key_len as u64) << 8);
        }
        let flags = if deadline { HAS_DEADLINE } else { 0 } | if key_len >= LONG_KEY { HAS_LONG_KEY } else { 0 };
        let key = key_len.min(LONG_KEY) as u64;
        Self(u64::from(form as u8 | flags) | u64::from(clock & 0xff_ffff) << 8 | key << 32 | (tail_len as u64) << 48)
    }

    /// Returns the header of an entry of this epoch in a block of this kind.
    pub fn placed(self, is_cell: bool, epoch: u8) -> Self {
        Self(self.0 | u64::from(epoch) | if is_cell { u64::from(IN_CELL) } else { 0 })
    }

    /// Returns the epoch: [`EPOCH`] or 0.
    #[inline]
    pub fn epoch(self) -> u8 {
        self.0 as u8 & EPOCH
    }

    #[inline]
    pub const fn form(self) -> Form {
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

    /// Returns whether the entry is a member, with a score or without.
    #[inline]
    pub fn is_member(self) -> bool {
        self.0 as u8 & FORM_MASK >= Form::Member as u8
    }

    #[inline]
    pub fn tail_len(self) -> usize {
        if self.is_member() { member_tail_len(self.form()) } else { (self.0 >> 48) as usize }
    }

    /// Returns the length of the key, unless it is a long one.
    #[inline]
    pub fn key_len(self) -> usize {
        if self.is_member() { (self.0 >> 8) as usize & MEMBER_MAX } else { (self.0 >> 32) as usize & LONG_KEY }
    }

    /// Returns the access clock; 0 where there is none.
    #[inline]
    pub fn clock(self) -> u32 {
        if self.is_member() { 0 } else { (self.0 >> 8) as u32 & 0xff_ffff }
    }

    /// Returns the number of bytes before the key.
    #[inline]
    pub fn key_offset(self) -> usize {
        if self.is_member() {
            return MEMBER_HEADER_BYTES;
        }
        HEADER_BYTES + 8 * usize::from(self.has(HAS_DEADLINE)) + 8 * usize::from(self.has(HAS_LONG_KEY))
    }
}

/// Returns the number of bytes behind the key of a member.
#[inline]
fn member_tail_len(form: Form) -> usize {
    if form == Form::Scored { 8 } else { 0 }
}

/// Returns the size of an entry with these parts, in bytes.
pub(crate) fn entry_bytes(form: Form, deadline: bool, key_len: usize, tail_len: usize) -> usize {
    if matches!(form, Form::Member | Form::Scored) {
        return MEMBER_HEADER_BYTES + key_len + tail_len;
    }
    HEADER_BYTES + 8 * usize::from(deadline) + 8 * usize::from(key_len >= LONG_KEY) + key_len + tail_len
}

/// Returns whether two keys are equal, the last step of every look-up; quick for the lengths that keys have.
#[inline]
fn same_bytes(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let word = |bytes: &[u8], at: usize| bytes[at..].first_chunk::<8>().map(|chunk| u64::from_le_bytes(*chunk));
    match one.len() {
        8..=64 => {
            let last = one.len() - 8;
            let mut at = 0;
            while at < last {
                if word(one, at) != word(other, at) {
                    return false;
                }
                at += 8;
            }
            word(one, last) == word(other, last)
        }
        _ => one == other,
    }
}
