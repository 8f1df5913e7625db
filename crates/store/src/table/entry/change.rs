//! The making, changing and ending of entries.
//!
//! An [`Entry`] is an address of which there may be copies, so the compiler sees neither these nor the references that they
//! have lent. So every change of lent memory, and every end, is unsafe: the caller promises that no reader is left. The clock
//! and the epoch are never lent, and can be written at any time.
//!
//! Nothing here is visible outside of `table`. There an entry is made by [`Table::insert`](crate::table::Table::insert)
//! alone, changed through the [`EntryMut`](super::handle::EntryMut) that a search returned, and ended by the functions that
//! take it out. So a snapshot that lacks the entry's before-image learns of every change.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::body::Body;
use super::owned::{Outside, shared_bytes};
use super::{
    EPOCH, Entry, FORM_MASK, HAS_DEADLINE, HAS_LONG_KEY, HEADER_BYTES, Header, IN_CELL, MEMBER_MAX, entry_bytes,
};
use crate::memory::heap::{Block, Heap, block_bytes};
use crate::value::collection::Object;
use crate::value::form::Form;

impl Entry {
    /// Builds an entry of this epoch in `heap`.
    pub(in crate::table) fn create(
        heap: &mut Heap,
        key: &[u8],
        body: Body<'_>,
        deadline: Option<i64>,
        clock: u32,
        epoch: u8,
    ) -> Self {
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

    /// Gives the block back to `heap`, and returns the memory that it owned outside.
    ///
    /// # Safety
    /// The entry was made in `heap`. Neither it nor a copy of it nor a reference lent by these is used any more.
    pub(in crate::table) unsafe fn destroy(self, heap: &mut Heap) -> Outside {
        let mut outside = Outside::Nothing;
        // SAFETY: as the caller promises.
        unsafe { self.destroy_with(heap, |_, owned| outside = owned) };
        outside
    }

    /// Gives the block back to `heap`, after `last` has received the key and the memory that the entry owned outside.
    ///
    /// # Safety
    /// As for [`Entry::destroy`].
    pub(in crate::table) unsafe fn destroy_with(self, heap: &mut Heap, last: impl FnOnce(&[u8], Outside)) {
        // SAFETY: the value has no readers any more, as the caller promises.
        let outside = unsafe { self.release_outside(heap) };
        last(self.key(), outside);
        // SAFETY: the block came from this heap with this size, and the entry ends here.
        unsafe { heap.release(self.block(), self.size()) };
    }

    /// Gives back the block of an entry after its value was taken out ([`Entry::take_body`]).
    ///
    /// # Safety
    /// As for [`Entry::destroy`]; the value that was taken out may not refer to the block any more either.
    pub(in crate::table) unsafe fn destroy_taken(self, heap: &mut Heap) {
        // SAFETY: the block came from this heap with this size, and the entry ends here.
        unsafe { heap.release(self.block(), self.size()) };
    }

    /// Takes out the memory outside of the block; then the tail is meaningless until it is written again.
    ///
    /// # Safety
    /// The entry was made in `heap`. Its value is not read before it is written again, and references that it has lent to it
    /// are not used any more.
    unsafe fn release_outside(self, heap: &mut Heap) -> Outside {
        if let Some(buffer) = self.shared() {
            heap.disown(shared_bytes(&buffer));
            if let Some(watch) = heap.watch() {
                watch.let_go(&buffer);
            }
            // SAFETY: as the caller promises, the tail is not read before it is written again.
            return Outside::Buffer(unsafe { buffer.take() });
        }
        let Some(address) = self.object_address() else { return Outside::Nothing };
        // SAFETY: the address came from an object that the entry owned, and the entry lets go of it here.
        let object = unsafe { Object::from_address(address) };
        heap.disown(object.memory());
        Outside::Object(object)
    }

    /// Takes the value out to be stored again; then the tail may be meaningless until it is written again. The result may
    /// refer to the block.
    ///
    /// # Safety
    /// The entry was made in `heap`. Its value is not read again, and references that it has lent to it are not used any
    /// more; the block lives for as long as the result is used.
    pub(in crate::table) unsafe fn take_body<'a>(self, heap: &mut Heap) -> Body<'a> {
        // SAFETY: as the caller promises.
        match unsafe { self.release_outside(heap) } {
            Outside::Buffer(buffer) => Body::Shared(buffer),
            Outside::Object(object) => Body::Object(object),
            Outside::Nothing => self.inline_body(),
        }
    }

    /// Replaces value and deadline. The entry may move: the result is its new address. Returns the memory that the old value
    /// owned.
    ///
    /// # Safety
    /// The entry was made in `heap`, and `body` does not refer to it. From here on only the result is used, and no reference
    /// that the entry or a copy of it has lent.
    pub(in crate::table) unsafe fn assign(
        self,
        heap: &mut Heap,
        body: Body<'_>,
        deadline: Option<i64>,
        clock: u32,
    ) -> (Self, Outside) {
        // SAFETY: the old value has no readers any more, as the caller promises.
        let outside = unsafe { self.release_outside(heap) };
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
        // SAFETY: the block has room for `size` bytes, and key and deadline stay where they are. `body` does not refer to the
        // block, as the caller promises.
        unsafe {
            self.0.cast::<u64>().write(changed.0);
            if let Some(deadline) = deadline {
                self.0.add(HEADER_BYTES).cast::<i64>().write(deadline);
            }
            self.write_tail(heap, self.0.add(changed.key_offset() + key.len()), body);
        }
        (self, outside)
    }

    /// Overwrites value, deadline and clock in place, if nothing changes its size and nothing is left behind: the usual case,
    /// and a quick one. Otherwise returns false, and changes nothing.
    ///
    /// # Safety
    /// `body` does not refer to the entry, and nothing that the entry or a copy of it has lent is used any more.
    #[inline]
    pub(in crate::table) unsafe fn overwrite(self, body: &Body<'_>, deadline: Option<i64>, clock: u32) -> bool {
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
    ///
    /// # Safety
    /// The value is a number or a score. It has no reader during the call; numbers are not lent.
    #[inline]
    pub(in crate::table) unsafe fn overwrite_number(self, number: i64) {
        debug_assert!(matches!(self.header().form(), Form::Integer | Form::Scored));
        // SAFETY: the tail of these forms has eight bytes.
        unsafe { self.tail().cast::<i64>().write_unaligned(number) };
    }

    /// Adds or takes away the deadline. The entry may move.
    ///
    /// # Safety
    /// The entry was made in `heap`. From here on only the result is used, and nothing that the entry or a copy of it has
    /// lent.
    pub(in crate::table) unsafe fn set_deadline(self, heap: &mut Heap, deadline: Option<i64>) -> Self {
        let header = self.header();
        match deadline {
            None if !header.has(HAS_DEADLINE) => self,
            Some(deadline) if header.has(HAS_DEADLINE) => {
                // SAFETY: an entry with the flag has its deadline in the second word.
                unsafe { self.0.add(HEADER_BYTES).cast::<i64>().write(deadline) };
                self
            }
            _ => {
                // SAFETY: the value is not read again, and the block lives until the copy is made.
                let body = unsafe { self.take_body(heap) };
                let moved = Self::create(heap, self.key(), body, deadline, self.clock(), header.epoch());
                // SAFETY: the block came from this heap with this size, and its place is taken by `moved`.
                unsafe { heap.release(self.block(), self.size()) };
                moved
            }
        }
    }

    /// Makes an inline string longer by `extra` bytes of zero and marks it as changed. The entry may move.
    ///
    /// # Safety
    /// The value is an inline string. The entry was made in `heap`. From here on only the result is used, and nothing that the
    /// entry or a copy of it has lent.
    pub(in crate::table) unsafe fn grow_inline(self, heap: &mut Heap, extra: usize) -> Self {
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

    /// Returns the bytes of an inline string, to be changed.
    ///
    /// # Safety
    /// Nothing else refers to the entry while the result lives.
    pub(in crate::table) unsafe fn inline_mut<'a>(self) -> Option<&'a mut [u8]> {
        let header = self.header();
        match header.form() {
            Form::Whole | Form::Edited => {
                // SAFETY: the tail of an inline string has this many initialised bytes.
                Some(unsafe { std::slice::from_raw_parts_mut(self.tail().as_ptr(), header.tail_len()) })
            }
            _ => None,
        }
    }

    /// Replaces the shared buffer by the one that `change` makes of it, which changes these bytes or adds them.
    ///
    /// # Safety
    /// The entry was made in `heap`. Nothing that the entry or a copy of it has lent of its value is used any more.
    pub(in crate::table) unsafe fn change_shared(
        self,
        heap: &mut Heap,
        touched: &[Range<usize>],
        change: impl FnOnce(&mut Arc<Vec<u8>>),
    ) {
        let Some(buffer) = self.shared() else { return };
        if let Some(watch) = heap.watch() {
            touched.iter().for_each(|touched| watch.change(&buffer, touched.clone()));
        }
        heap.disown(shared_bytes(&buffer));
        // SAFETY: the tail is written below, and not read before.
        let mut buffer = unsafe { buffer.take() };
        change(&mut buffer);
        // SAFETY: the tail of this form has room for an address.
        unsafe { self.write_tail(heap, self.tail(), Body::Shared(buffer)) };
    }

    /// Changes the collection outside of the block, which must exist, and reports its new memory to `heap`.
    ///
    /// # Safety
    /// The entry was made in `heap`. No reference that the entry or a copy of it has lent to its value is used any more.
    pub(in crate::table) unsafe fn change_object<R>(
        self,
        heap: &mut Heap,
        change: impl FnOnce(&mut Object) -> R,
    ) -> Option<R> {
        // SAFETY: the object lives as long as the entry owns it, which it does afterwards as well.
        let mut object = ManuallyDrop::new(unsafe { Object::from_address(self.object_address()?) });
        heap.disown(object.memory());
        let result = change(&mut object);
        heap.own(object.memory());
        Some(result)
    }

    #[inline]
    pub(in crate::table) fn set_clock(self, clock: u32) {
        if self.header().is_member() {
            return;
        }
        let [low, middle, high, _] = clock.to_le_bytes();
        // SAFETY: bytes 1, 2 and 3 of the block are the clock, and no reference is ever made to them.
        unsafe { self.0.add(1).cast::<[u8; 3]>().write([low, middle, high]) };
    }

    pub(in crate::table) fn set_epoch(self, epoch: u8) {
        let header = self.header();
        // SAFETY: the first byte of the block is form and flags, and no reference is ever kept to it.
        unsafe { self.0.write(header.0 as u8 & !EPOCH | epoch) };
    }

    /// Returns the block that the entry is in.
    fn block(self) -> Block {
        Block { start: self.0, is_cell: self.header().has(IN_CELL) }
    }
}
