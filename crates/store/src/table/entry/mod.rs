//! One key with its value in one block of memory.
//!
//! ```text
//! byte 0     1..4   4..6        6..8                            then                then        then
//! form,flags clock  key length  tail length  [deadline, 8 bytes][key length, 8 bytes]  key bytes   tail
//! ```
//!
//! The deadline is there if its flag is set, and the second key length if the key has 65,535 bytes or more. The tail
//! is the value: the bytes of a short string or of a small packed collection, the eight bytes of an integer, or the
//! address of a longer string's shared buffer or of a larger collection. A member of a set has neither, and a header of two
//! bytes (see `header`).
//!
//! An [`Entry`] is an address without a lifetime. This file says how the block is read, `change` how it is made, changed and
//! ended; who owns it, and when, is the table's business. Only code that holds the shard's lock gets here.

pub mod body;
pub mod change;
pub mod handle;
pub mod header;
pub mod owned;
pub mod same_bytes;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::bucket::{OUTSIDE, SPANS, VOLATILE};
use crate::memory::heap::block_bytes;
use crate::value::collection::ObjectRef;
use crate::value::form::Form;
use crate::value::{EMBEDDED_MAX, Encoding, Kind, ValueRef};
use body::Body;
use header::{HAS_DEADLINE, HAS_LONG_KEY, HEADER_BYTES, Header, IN_CELL};
use owned::shared_bytes;
use same_bytes::same_bytes;

/// The address of a living entry, to be read. Who made it vouches for it: see [`Entry::at`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(NonNull<u8>);

impl Entry {
    /// The entry at an address that came from [`Entry::address`].
    ///
    /// # Safety
    /// For as long as the result, a copy of it or what these have lent is used, the entry at `address` is alive, no other thread
    /// changes it, and nothing of it is changed that was lent.
    #[inline]
    pub unsafe fn at(address: usize) -> Self {
        // SAFETY: an entry's address is not null, as the caller promises that there is one.
        Self(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) })
    }

    #[inline]
    pub fn address(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// The shared buffer, still owned by the entry.
    #[inline]
    pub fn shared(self) -> Option<ManuallyDrop<Arc<Vec<u8>>>> {
        if self.header().form() != Form::Shared {
            return None;
        }
        // SAFETY: the tail of this form is the address that `Arc::into_raw` gave, and the entry owns one count of it.
        // `ManuallyDrop` keeps the count with the entry.
        unsafe {
            let address = self.tail().cast::<usize>().read_unaligned();
            Some(ManuallyDrop::new(Arc::from_raw(std::ptr::with_exposed_provenance(address))))
        }
    }

    #[inline]
    fn object_address(self) -> Option<usize> {
        // SAFETY: the tail of this form is an address.
        (self.header().form() == Form::Object).then(|| unsafe { self.tail().cast::<usize>().read_unaligned() })
    }

    /// The collection outside of the block, if the value is one. The lifetime is bounded by whoever made the entry.
    #[inline]
    pub fn object<'a>(self) -> Option<ObjectRef<'a>> {
        // SAFETY: the object lives as long as the entry owns it.
        self.object_address().map(|address| unsafe { ObjectRef::at(address) })
    }

    /// The form and the bytes of a packed collection in the block, if the value is one.
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

    /// The type of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.header().form() {
            Form::Integer | Form::Whole | Form::Edited | Form::Shared | Form::Member | Form::Scored => Kind::String,
            Form::PackedList => Kind::List,
            Form::PackedSet | Form::PackedIntegers => Kind::Set,
            Form::PackedSortedSet => Kind::SortedSet,
            Form::PackedHash | Form::WideHash | Form::TimedHash | Form::WideTimedHash => Kind::Hash,
            Form::Object => self.object().map_or(Kind::String, ObjectRef::kind),
        }
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
        let header = self.header();
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
        // SAFETY: the key has this many bytes at this place. The lifetime is bounded by whoever made the entry.
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

    /// The epoch in which the entry was made, or in which a snapshot was given it.
    #[inline]
    pub fn epoch(self) -> u8 {
        self.header().epoch()
    }

    /// The bytes of the block.
    ///
    /// # Safety
    /// Nothing of the entry is changed while the result is used, not even its clock or its epoch.
    pub unsafe fn block_bytes<'a>(self) -> &'a [u8] {
        // SAFETY: so many bytes were written when the entry was made.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.size()) }
    }

    /// The value of a string; of a collection no bytes.
    #[inline]
    pub fn value<'a>(self) -> ValueRef<'a> {
        let header = self.header();
        // SAFETY: the form says what the tail is. The buffer lives as long as the entry owns it.
        unsafe {
            match header.form() {
                Form::Integer | Form::Scored => ValueRef::Integer(self.tail().cast::<i64>().read_unaligned()),
                Form::Whole | Form::Edited => {
                    ValueRef::Bytes(std::slice::from_raw_parts(self.tail().as_ptr(), header.tail_len()))
                }
                Form::Shared => {
                    let address = self.tail().cast::<usize>().read_unaligned();
                    ValueRef::Bytes(&*std::ptr::with_exposed_provenance::<Vec<u8>>(address))
                }
                _ => ValueRef::Bytes(&[]),
            }
        }
    }

    /// The value in the shape in which it could be stored again; a shared buffer is counted once more, and a collection
    /// outside of the block is copied.
    pub fn copy_body<'a>(self) -> Body<'a> {
        match (self.shared(), self.object()) {
            (Some(buffer), _) => Body::Shared(Arc::clone(&buffer)),
            (_, Some(object)) => Body::Object(object.copy()),
            _ => self.inline_body(),
        }
    }

    /// The value of an entry that owns nothing outside of its block.
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

    /// The flags that the entry's slot carries.
    #[inline]
    pub fn slot_flags(self) -> u64 {
        let (header, size) = (self.header(), self.size());
        let volatile = if header.has(HAS_DEADLINE) { VOLATILE } else { 0 };
        let outside =
            if header.has(IN_CELL) && !matches!(header.form(), Form::Shared | Form::Object) { 0 } else { OUTSIDE };
        let spans = if self.0.addr().get() % 64 + size.min(128) > 64 { SPANS } else { 0 };
        volatile | outside | spans
    }

    /// The bytes that the entry takes, with what it owns outside of its block.
    pub fn memory(self) -> usize {
        let outside = match (self.shared(), self.object()) {
            (Some(buffer), _) => shared_bytes(&buffer),
            (_, Some(object)) => object.memory(),
            _ => 0,
        };
        block_bytes(self.size()) + outside
    }
}
