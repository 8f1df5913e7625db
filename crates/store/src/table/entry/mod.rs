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
//! An [`Entry`] is an address without a lifetime. This file says how the block is read and written; who owns it, and
//! when, is the table's business. Only code that holds the shard's lock gets here.

pub mod body;
pub mod handle;
pub mod header;
pub mod owned;
pub mod same_bytes;

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::bucket::{OUTSIDE, SPANS, VOLATILE};
use crate::memory::heap::{Block, Heap, block_bytes};
use crate::value::collection::{Object, ObjectRef};
use crate::value::form::Form;
use crate::value::{EMBEDDED_MAX, Encoding, Kind, ValueRef};
use body::Body;
use header::{EPOCH, FORM_MASK, HAS_DEADLINE, HAS_LONG_KEY, HEADER_BYTES, Header, IN_CELL, MEMBER_MAX, entry_bytes};
use owned::{Outside, shared_bytes};
use same_bytes::same_bytes;

/// The address of a living entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(NonNull<u8>);

// All methods but `create` and `at` rely on one fact: an `Entry` is the address of a block that `create` filled and
// that was not destroyed since, and that nobody else uses at the same time.
impl Entry {
    /// The entry at an address that came from [`Entry::address`].
    ///
    /// # Safety
    /// The entry at `address` is alive for as long as the result is used.
    #[inline]
    pub unsafe fn at(address: usize) -> Self {
        // SAFETY: an entry's address is not null, as the caller promises that there is one.
        Self(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) })
    }

    #[inline]
    pub fn address(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// Builds an entry of this epoch in `heap`.
    pub fn create(heap: &mut Heap, key: &[u8], body: Body<'_>, deadline: Option<i64>, clock: u32, epoch: u8) -> Self {
        let body = match body {
            Body::Member if key.len() > MEMBER_MAX || deadline.is_some() => Body::Whole(&[]),
            Body::Scored(score) if key.len() > MEMBER_MAX || deadline.is_some() => Body::Integer(score),
            body => body,
        };
        let (form, has_deadline, tail_len) = (body.form(), deadline.is_some(), body.tail_len());
        let Block { start: block, is_cell } = heap.allocate(entry_bytes(form, has_deadline, key.len(), tail_len));
        let header = Header::new(form, clock, has_deadline, key.len(), tail_len).placed(is_cell, epoch);
        let entry = Self(block);
        // SAFETY: the block is as large as the parts together; the header and the words after it are aligned to 8.
        unsafe {
            block.cast::<u64>().write(header.0);
            if let Some(deadline) = deadline {
                block.add(HEADER_BYTES).cast::<i64>().write(deadline);
            }
            let start = header.key_offset();
            if header.has(HAS_LONG_KEY) {
                block.add(start - 8).cast::<u64>().write(key.len() as u64);
            }
            block.add(start).copy_from_nonoverlapping(NonNull::from(key).cast(), key.len());
            entry.write_tail(heap, block.add(start + key.len()), body);
        }
        entry
    }

    /// Writes `body` at `tail`.
    ///
    /// # Safety
    /// There are `body.tail_len()` bytes at `tail`, and the body does not borrow from them.
    unsafe fn write_tail(self, heap: &mut Heap, tail: NonNull<u8>, body: Body<'_>) {
        // SAFETY: as the caller promises.
        unsafe {
            match body {
                Body::Integer(number) | Body::Scored(number) => tail.cast::<i64>().write_unaligned(number),
                Body::Whole(bytes) | Body::Edited(bytes) | Body::Packed(_, bytes) => {
                    tail.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
                }
                Body::Zeros(length) => tail.write_bytes(0, length),
                Body::Member => {}
                Body::Shared(buffer) => {
                    heap.own(shared_bytes(&buffer));
                    tail.cast::<usize>().write_unaligned(Arc::into_raw(buffer).expose_provenance());
                }
                Body::Object(object) => {
                    heap.own(object.memory());
                    tail.cast::<usize>().write_unaligned(object.into_address());
                }
            }
        }
    }

    /// Gives the block back to `heap`, and returns what it owned outside.
    pub fn destroy(self, heap: &mut Heap) -> Outside {
        let mut outside = Outside::Nothing;
        self.destroy_with(heap, |_, owned| outside = owned);
        outside
    }

    /// Gives the block back to `heap`, after `last` has seen the key and been given what the entry owned outside.
    pub fn destroy_with(self, heap: &mut Heap, last: impl FnOnce(&[u8], Outside)) {
        let outside = self.release_outside(heap);
        last(self.key(), outside);
        // SAFETY: the block came from this heap with this size, and the entry ends here.
        unsafe { heap.release(self.block(), self.size()) };
    }

    /// Gives back the block of an entry whose value was taken out.
    pub fn destroy_taken(self, heap: &mut Heap) {
        // SAFETY: the block came from this heap with this size, and the entry ends here.
        unsafe { heap.release(self.block(), self.size()) };
    }

    /// Takes out what lies outside; then the tail is meaningless until it is written again.
    fn release_outside(self, heap: &mut Heap) -> Outside {
        if let Some(buffer) = self.shared() {
            heap.disown(shared_bytes(&buffer));
            if let Some(watch) = heap.watch() {
                watch.let_go(&buffer);
            }
            return Outside::Buffer(ManuallyDrop::into_inner(buffer));
        }
        let Some(address) = self.object_address() else { return Outside::Nothing };
        // SAFETY: the address came from an object that the entry owned, and the entry lets go of it here.
        let object = unsafe { Object::from_address(address) };
        heap.disown(object.memory());
        Outside::Object(object)
    }

    /// Takes the value out to be stored again; then the tail may be meaningless until it is written again.
    pub fn take_body<'a>(self, heap: &mut Heap) -> Body<'a> {
        match self.release_outside(heap) {
            Outside::Buffer(buffer) => Body::Shared(buffer),
            Outside::Object(object) => Body::Object(object),
            Outside::Nothing => self.inline_body(),
        }
    }

    /// Replaces value and deadline. The entry may move: the result is its new address. Returns what the old value owned.
    pub fn assign(self, heap: &mut Heap, body: Body<'_>, deadline: Option<i64>, clock: u32) -> (Self, Outside) {
        let outside = self.release_outside(heap);
        let (header, key) = (self.header(), self.key());
        let size = entry_bytes(body.form(), deadline.is_some(), key.len(), body.tail_len());
        let is_alike = deadline.is_some() == header.has(HAS_DEADLINE)
            && !header.is_member()
            && !matches!(body, Body::Member | Body::Scored(_))
            && block_bytes(size) == block_bytes(self.size());
        if !is_alike {
            let moved = Self::create(heap, key, body, deadline, clock, header.epoch());
            // SAFETY: the block came from this heap with this size, and its place is taken by `moved`.
            unsafe { heap.release(self.block(), self.size()) };
            return (moved, outside);
        }
        let changed = Header::new(body.form(), clock, deadline.is_some(), key.len(), body.tail_len());
        let changed = changed.placed(header.has(IN_CELL), header.epoch());
        // SAFETY: the block has room for `size` bytes, and key and deadline stay where they are. `body` cannot borrow
        // from the block: the table gives no reference to an entry while it is being changed.
        unsafe {
            self.0.cast::<u64>().write(changed.0);
            if let Some(deadline) = deadline {
                self.0.add(HEADER_BYTES).cast::<i64>().write(deadline);
            }
            self.write_tail(heap, self.0.add(changed.key_offset() + key.len()), body);
        }
        (self, outside)
    }

    /// Writes value, deadline and clock over the old ones where nothing changes its size and nothing is left behind:
    /// the usual case, and a quick one. False, and nothing is done, if this is not so.
    #[inline]
    pub fn overwrite(self, body: &Body<'_>, deadline: Option<i64>, clock: u32) -> bool {
        let header = self.header();
        let fits = match body {
            Body::Integer(_) => header.form() == Form::Integer,
            Body::Whole(bytes) | Body::Edited(bytes) => {
                matches!(header.form(), Form::Whole | Form::Edited) && bytes.len() == header.tail_len()
            }
            Body::Packed(form, bytes) => header.form() == *form && bytes.len() == header.tail_len(),
            Body::Zeros(_) | Body::Shared(_) | Body::Object(_) | Body::Member | Body::Scored(_) => false,
        };
        if !fits || deadline.is_some() != header.has(HAS_DEADLINE) {
            return false;
        }
        let kept = header.0 & !(0xff_ffff << 8 | u64::from(FORM_MASK));
        let tail = self.tail();
        // SAFETY: form, length and deadline flag are those of the entry, so every part has its old place and size.
        unsafe {
            self.0.cast::<u64>().write(kept | u64::from(clock & 0xff_ffff) << 8 | body.form() as u64);
            if let Some(deadline) = deadline {
                self.0.add(HEADER_BYTES).cast::<i64>().write(deadline);
            }
            match body {
                Body::Integer(number) => tail.cast::<i64>().write_unaligned(*number),
                Body::Whole(bytes) | Body::Edited(bytes) | Body::Packed(_, bytes) => {
                    tail.copy_from_nonoverlapping(NonNull::from(*bytes).cast(), bytes.len());
                }
                Body::Zeros(_) | Body::Shared(_) | Body::Object(_) | Body::Member | Body::Scored(_) => {}
            }
        }
        true
    }

    /// Replaces the eight bytes of a number or of a score where they lie.
    #[inline]
    pub fn overwrite_number(self, number: i64) {
        debug_assert!(matches!(self.header().form(), Form::Integer | Form::Scored));
        // SAFETY: the tail of these forms has eight bytes.
        unsafe { self.tail().cast::<i64>().write_unaligned(number) };
    }

    /// Adds or takes away the deadline. The entry may move.
    pub fn set_deadline(self, heap: &mut Heap, deadline: Option<i64>) -> Self {
        let header = self.header();
        match deadline {
            None if !header.has(HAS_DEADLINE) => self,
            Some(deadline) if header.has(HAS_DEADLINE) => {
                // SAFETY: an entry with the flag has its deadline in the second word.
                unsafe { self.0.add(HEADER_BYTES).cast::<i64>().write(deadline) };
                self
            }
            _ => {
                let body = self.take_body(heap);
                let moved = Self::create(heap, self.key(), body, deadline, self.clock(), header.epoch());
                // SAFETY: the block came from this heap with this size, and its place is taken by `moved`.
                unsafe { heap.release(self.block(), self.size()) };
                moved
            }
        }
    }

    /// Makes an inline string longer by `extra` bytes of zero and marks it as changed. The entry may move.
    pub fn grow_inline(self, heap: &mut Heap, extra: usize) -> Self {
        let (header, old_size) = (self.header(), self.size());
        debug_assert!(matches!(header.form(), Form::Whole | Form::Edited));
        let changed = Header::new(
            Form::Edited,
            self.clock(),
            header.has(HAS_DEADLINE),
            self.key().len(),
            header.tail_len() + extra,
        );
        // SAFETY: the old block has `old_size` bytes, the new one `extra` more; the old one is released only after it
        // was copied, and only if the block had to change.
        unsafe {
            let mut block = self.block();
            if block_bytes(old_size) != block_bytes(old_size + extra) {
                let moved = heap.allocate(old_size + extra);
                moved.start.copy_from_nonoverlapping(self.0, old_size);
                heap.release(std::mem::replace(&mut block, moved), old_size);
            }
            block.start.cast::<u64>().write(changed.placed(block.is_cell, header.epoch()).0);
            block.start.add(old_size).write_bytes(0, extra);
            Self(block.start)
        }
    }

    /// The bytes of an inline string, to be changed.
    ///
    /// # Safety
    /// Nothing else refers to the entry while the result lives.
    pub unsafe fn inline_mut<'a>(self) -> Option<&'a mut [u8]> {
        let header = self.header();
        match header.form() {
            Form::Whole | Form::Edited => {
                // SAFETY: the tail of an inline string has this many initialised bytes.
                Some(unsafe { std::slice::from_raw_parts_mut(self.tail().as_ptr(), header.tail_len()) })
            }
            _ => None,
        }
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

    /// Replaces the shared buffer by the one that `change` makes of it, which changes these bytes or adds them.
    pub fn change_shared(self, heap: &mut Heap, touched: &[Range<usize>], change: impl FnOnce(&mut Arc<Vec<u8>>)) {
        let Some(buffer) = self.shared() else { return };
        if let Some(watch) = heap.watch() {
            touched.iter().for_each(|touched| watch.change(&buffer, touched.clone()));
        }
        heap.disown(shared_bytes(&buffer));
        let mut buffer = ManuallyDrop::into_inner(buffer);
        change(&mut buffer);
        // SAFETY: the tail of this form has room for an address.
        unsafe { self.write_tail(heap, self.tail(), Body::Shared(buffer)) };
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

    /// Changes the collection outside of the block, which there is, and tells `heap` what it takes then.
    ///
    /// # Safety
    /// Nothing else refers to the entry's value meanwhile.
    pub unsafe fn change_object<R>(self, heap: &mut Heap, change: impl FnOnce(&mut Object) -> R) -> Option<R> {
        // SAFETY: the object lives as long as the entry owns it, which it does afterwards as well.
        let mut object = ManuallyDrop::new(unsafe { Object::from_address(self.object_address()?) });
        heap.disown(object.memory());
        let result = change(&mut object);
        heap.own(object.memory());
        Some(result)
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

    /// The block that the entry is in.
    fn block(self) -> Block {
        Block { start: self.0, is_cell: self.header().has(IN_CELL) }
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

    #[inline]
    pub fn set_clock(self, clock: u32) {
        if self.header().is_member() {
            return;
        }
        let [low, middle, high, _] = clock.to_le_bytes();
        // SAFETY: bytes 1, 2 and 3 of the block are the clock, and no reference is ever made to them.
        unsafe { self.0.add(1).cast::<[u8; 3]>().write([low, middle, high]) };
    }

    /// The epoch in which the entry was made, or in which a snapshot was given it.
    #[inline]
    pub fn epoch(self) -> u8 {
        self.header().epoch()
    }

    pub fn set_epoch(self, epoch: u8) {
        let header = self.header();
        // SAFETY: the first byte of the block is form and flags, and no reference is ever kept to it.
        unsafe { self.0.write(header.0 as u8 & !EPOCH | epoch) };
    }

    /// The bytes of the block, for a moment: nothing of the entry may be changed meanwhile.
    pub fn block_bytes<'a>(self) -> &'a [u8] {
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
