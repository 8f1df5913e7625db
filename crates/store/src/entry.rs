//! One key with its value in one block of memory.
//!
//! ```text
//! byte 0     1..4   4..6        6..8                            then                then        then
//! form,flags clock  key length  tail length  [deadline, 8 bytes][key length, 8 bytes]  key bytes   tail
//! ```
//!
//! The deadline is there if its flag is set, and the second key length if the key has 65,535 bytes or more. The tail
//! is the value: the bytes of a short string, the eight bytes of an integer, or the address of a longer string's
//! shared buffer. There is room for further kinds of values: a form whose tail is the address of the thing.
//!
//! An [`Entry`] is an address without a lifetime. This file says how the block is read and written; who owns it, and
//! when, is the table's business. Only code that holds the shard's lock gets here.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::body::{Body, Form};
use crate::bucket::{OUTSIDE, SPANS, VOLATILE};
use crate::heap::{Heap, block_bytes, is_cell};
use crate::value::{EMBEDDED_MAX, Encoding, ValueRef};

/// What a shared buffer takes besides its bytes: two counts, and the vector's three words.
const SHARED_BYTES: usize = 40;

const HEADER_BYTES: usize = 8;
const FORM_MASK: u8 = 0b0001_1111;
const HAS_DEADLINE: u8 = 0b0010_0000;
const HAS_LONG_KEY: u8 = 0b0100_0000;
const LONG_KEY: usize = u16::MAX as usize;

/// The first eight bytes, decoded.
#[derive(Clone, Copy)]
struct Header(u64);

/// The address of a living entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(NonNull<u8>);

impl Header {
    fn new(form: Form, clock: u32, deadline: bool, key_len: usize, tail_len: usize) -> Self {
        let flags = if deadline { HAS_DEADLINE } else { 0 } | if key_len >= LONG_KEY { HAS_LONG_KEY } else { 0 };
        let key = key_len.min(LONG_KEY) as u64;
        Self(u64::from(form as u8 | flags) | u64::from(clock & 0xff_ffff) << 8 | key << 32 | (tail_len as u64) << 48)
    }

    #[inline]
    fn form(self) -> Form {
        match self.0 as u8 & FORM_MASK {
            0 => Form::Integer,
            1 => Form::Whole,
            2 => Form::Edited,
            _ => Form::Shared,
        }
    }

    #[inline]
    fn has(self, flag: u8) -> bool {
        self.0 as u8 & flag != 0
    }

    #[inline]
    fn tail_len(self) -> usize {
        (self.0 >> 48) as usize
    }

    /// The bytes before the key.
    #[inline]
    fn key_offset(self) -> usize {
        HEADER_BYTES + 8 * usize::from(self.has(HAS_DEADLINE)) + 8 * usize::from(self.has(HAS_LONG_KEY))
    }
}

/// The size of an entry with these parts.
fn entry_bytes(deadline: bool, key_len: usize, tail_len: usize) -> usize {
    HEADER_BYTES + 8 * usize::from(deadline) + 8 * usize::from(key_len >= LONG_KEY) + key_len + tail_len
}

/// The bytes that a shared buffer takes.
pub(crate) fn shared_bytes(buffer: &Arc<Vec<u8>>) -> usize {
    block_bytes(SHARED_BYTES) + block_bytes(buffer.capacity())
}

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

    /// Builds an entry in `heap`.
    pub fn create(heap: &mut Heap, key: &[u8], body: Body<'_>, deadline: Option<i64>, clock: u32) -> Self {
        let header = Header::new(body.form(), clock, deadline.is_some(), key.len(), body.tail_len());
        let block = heap.allocate(entry_bytes(deadline.is_some(), key.len(), body.tail_len()));
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
                Body::Integer(number) => tail.cast::<i64>().write_unaligned(number),
                Body::Whole(bytes) | Body::Edited(bytes) => {
                    tail.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
                }
                Body::Zeros(length) => tail.write_bytes(0, length),
                Body::Shared(buffer) => {
                    heap.own(shared_bytes(&buffer));
                    tail.cast::<usize>().write_unaligned(Arc::into_raw(buffer).expose_provenance());
                }
            }
        }
    }

    /// Gives the block back to `heap`, and returns the shared buffer if there is one.
    pub fn destroy(self, heap: &mut Heap) -> Option<Arc<Vec<u8>>> {
        let mut buffer = None;
        self.destroy_with(heap, |_, shared| buffer = shared);
        buffer
    }

    /// Gives the block back to `heap`, after `last` has seen the key and been given the shared buffer.
    pub fn destroy_with(self, heap: &mut Heap, last: impl FnOnce(&[u8], Option<Arc<Vec<u8>>>)) {
        let buffer = self.release_shared(heap);
        last(self.key(), buffer);
        // SAFETY: the block came from this heap with this size, and the entry ends here.
        unsafe { heap.release(self.0, self.size()) };
    }

    /// Takes the shared buffer out; the tail is meaningless until it is written again.
    fn release_shared(self, heap: &mut Heap) -> Option<Arc<Vec<u8>>> {
        let buffer = ManuallyDrop::into_inner(self.shared()?);
        heap.disown(shared_bytes(&buffer));
        Some(buffer)
    }

    /// Replaces value and deadline. The entry may move: the result is its new address. Returns the old buffer too.
    pub fn assign(
        self,
        heap: &mut Heap,
        body: Body<'_>,
        deadline: Option<i64>,
        clock: u32,
    ) -> (Self, Option<Arc<Vec<u8>>>) {
        let buffer = self.release_shared(heap);
        let (header, key) = (self.header(), self.key());
        let size = entry_bytes(deadline.is_some(), key.len(), body.tail_len());
        if deadline.is_some() != header.has(HAS_DEADLINE) || block_bytes(size) != block_bytes(self.size()) {
            let moved = Self::create(heap, key, body, deadline, clock);
            // SAFETY: the block came from this heap with this size, and its place is taken by `moved`.
            unsafe { heap.release(self.0, self.size()) };
            return (moved, buffer);
        }
        let changed = Header::new(body.form(), clock, deadline.is_some(), key.len(), body.tail_len());
        // SAFETY: the block has room for `size` bytes, and key and deadline stay where they are. `body` cannot borrow
        // from the block: the table gives no reference to an entry while it is being changed.
        unsafe {
            self.0.cast::<u64>().write(changed.0);
            if let Some(deadline) = deadline {
                self.0.add(HEADER_BYTES).cast::<i64>().write(deadline);
            }
            self.write_tail(heap, self.0.add(changed.key_offset() + key.len()), body);
        }
        (self, buffer)
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
            Body::Zeros(_) | Body::Shared(_) => false,
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
                Body::Whole(bytes) | Body::Edited(bytes) => {
                    tail.copy_from_nonoverlapping(NonNull::from(*bytes).cast(), bytes.len());
                }
                Body::Zeros(_) | Body::Shared(_) => {}
            }
        }
        true
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
                let body = match self.release_shared(heap) {
                    Some(buffer) => Body::Shared(buffer),
                    None => self.body(),
                };
                let moved = Self::create(heap, self.key(), body, deadline, self.clock());
                // SAFETY: the block came from this heap with this size, and its place is taken by `moved`.
                unsafe { heap.release(self.0, self.size()) };
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
            let mut block = self.0;
            if block_bytes(old_size) != block_bytes(old_size + extra) {
                block = heap.allocate(old_size + extra);
                block.copy_from_nonoverlapping(self.0, old_size);
                heap.release(self.0, old_size);
            }
            block.cast::<u64>().write(changed.0);
            block.add(old_size).write_bytes(0, extra);
            Self(block)
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
            Form::Integer | Form::Shared => None,
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

    /// Replaces the shared buffer by the one that `change` makes of it.
    pub fn change_shared(self, heap: &mut Heap, change: impl FnOnce(&mut Arc<Vec<u8>>)) {
        debug_assert!(self.header().form() == Form::Shared);
        let Some(mut buffer) = self.release_shared(heap) else { return };
        change(&mut buffer);
        // SAFETY: the tail of this form has room for an address.
        unsafe { self.write_tail(heap, self.tail(), Body::Shared(buffer)) };
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
            (header.0 >> 32) as usize & LONG_KEY
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
        if !self.header().has(HAS_DEADLINE) {
            return None;
        }
        // SAFETY: an entry with the flag has its deadline in the second word.
        Some(unsafe { self.0.add(HEADER_BYTES).cast::<i64>().read() })
    }

    #[inline]
    pub fn clock(self) -> u32 {
        (self.header().0 >> 8) as u32 & 0xff_ffff
    }

    #[inline]
    pub fn set_clock(self, clock: u32) {
        let [low, middle, high, _] = clock.to_le_bytes();
        // SAFETY: bytes 1, 2 and 3 of the block are the clock, and no reference is ever made to them.
        unsafe { self.0.add(1).cast::<[u8; 3]>().write([low, middle, high]) };
    }

    #[inline]
    pub fn value<'a>(self) -> ValueRef<'a> {
        let header = self.header();
        // SAFETY: the form says what the tail is. The buffer lives as long as the entry owns it.
        unsafe {
            match header.form() {
                Form::Integer => ValueRef::Integer(self.tail().cast::<i64>().read_unaligned()),
                Form::Whole | Form::Edited => {
                    ValueRef::Bytes(std::slice::from_raw_parts(self.tail().as_ptr(), header.tail_len()))
                }
                Form::Shared => {
                    let address = self.tail().cast::<usize>().read_unaligned();
                    ValueRef::Bytes(&*std::ptr::with_exposed_provenance::<Vec<u8>>(address))
                }
            }
        }
    }

    /// The value in the shape in which it could be stored again; a shared buffer is counted once more.
    pub fn body<'a>(self) -> Body<'a> {
        if let Some(buffer) = self.shared() {
            return Body::Shared(Arc::clone(&buffer));
        }
        match (self.header().form(), self.value()) {
            (_, ValueRef::Integer(number)) => Body::Integer(number),
            (Form::Edited, ValueRef::Bytes(bytes)) => Body::Edited(bytes),
            (_, ValueRef::Bytes(bytes)) => Body::Whole(bytes),
        }
    }

    pub fn encoding(self) -> Encoding {
        let header = self.header();
        match header.form() {
            Form::Integer => Encoding::Integer,
            Form::Whole if header.tail_len() <= EMBEDDED_MAX => Encoding::Embedded,
            Form::Whole | Form::Edited | Form::Shared => Encoding::Raw,
        }
    }

    /// The flags that the entry's slot carries.
    #[inline]
    pub fn slot_flags(self) -> u64 {
        let (header, size) = (self.header(), self.size());
        let volatile = if header.has(HAS_DEADLINE) { VOLATILE } else { 0 };
        let outside = if is_cell(size) && header.form() != Form::Shared { 0 } else { OUTSIDE };
        let spans = if self.0.addr().get() % 64 + size.min(128) > 64 { SPANS } else { 0 };
        volatile | outside | spans
    }

    /// The bytes that the entry takes, with its shared buffer.
    pub fn memory(self) -> usize {
        block_bytes(self.size()) + self.shared().map_or(0, |buffer| shared_bytes(&buffer))
    }
}

/// Compares two byte strings; quick for the lengths that keys have.
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
