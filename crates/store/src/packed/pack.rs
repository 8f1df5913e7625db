//! A packed collection that is owned and changed.
//!
//! The run of `listpack` lies in one buffer, with free room in front of it as well as behind: a push or pop at the front
//! moves the count, two bytes, and not the elements. It grows by a quarter of itself at the end that needs it, or exactly by
//! the room that [`Pack::with_room_behind`] and [`Pack::with_room_in_front`] reserve. It knows no limits of size: its owner
//! asks [`Packed::redis_bytes`] and [`Packed::len`]. Plain data, usable from any thread.

use std::fmt;
use std::marker::PhantomData;

use super::element::{Encoded, checked_element};
use super::listpack::{COUNT_UNKNOWN, Packed, REDIS_END, START};
use super::ways::{BothWays, Ways};
use crate::value::ValueRef;

/// The size in bytes up to which a pack gets no room in front: moving its bytes each time costs less.
const SMALL_BYTES: usize = 1024;

/// The ratio of room to used bytes beyond which a replacement or removal gives room back.
const SPARE_TIMES_MAX: usize = 4;

/// A run of elements that can be changed. Offsets are those of its [`Packed`], and void after any change.
pub struct Pack<W = BothWays> {
    buffer: Vec<u8>,
    /// The offset in the buffer at which the run begins.
    start: usize,
    ways: PhantomData<W>,
}

impl<W: Ways> Pack<W> {
    /// Returns an empty pack.
    pub fn new() -> Self {
        Self::with_room_behind(0)
    }

    /// Returns an empty pack with `room` free bytes behind its elements: elements that are pushed to the back use them before
    /// the buffer grows.
    pub fn with_room_behind(room: usize) -> Self {
        let mut buffer = Vec::with_capacity(START + room);
        buffer.extend_from_slice(&[0; START]);
        Self::from_bytes(buffer)
    }

    /// Returns an empty pack with `room` free bytes in front of its elements: elements that are pushed to the front use them
    /// before the buffer grows.
    pub fn with_room_in_front(room: usize) -> Self {
        Self { buffer: vec![0; room + START], start: room, ways: PhantomData }
    }

    /// Returns a copy of `packed`, in a buffer of its length.
    pub fn from_packed(packed: Packed<'_, W>) -> Self {
        Self::from_bytes(packed.as_bytes().to_vec())
    }

    /// Takes over a buffer that holds a run and nothing else.
    pub fn from_bytes(buffer: Vec<u8>) -> Self {
        debug_assert!(buffer.len() >= START);
        Self { buffer, start: 0, ways: PhantomData }
    }

    /// Returns the buffer, to be used again; its contents are undefined.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Returns the run without free room, as [`Pack::from_bytes`] takes it.
    pub(crate) fn into_run(mut self) -> Vec<u8> {
        self.buffer.drain(..self.start);
        self.buffer
    }

    /// Reads a listpack of Redis from foreign bytes; `None` unless every byte is right. Elements that Redis would have
    /// written in a shorter form are written in that form.
    pub fn from_redis(bytes: &[u8]) -> Option<Self> {
        let total = u32::from_le_bytes(*bytes.first_chunk()?);
        let (&end, body) = bytes.split_last()?;
        let run = body.get(4..)?;
        if total as usize != bytes.len() || end != REDIS_END || run.len() < START {
            return None;
        }
        let (mut pack, mut at, mut count) = (Self::with_room_behind(run.len() - START), START, 0usize);
        while at < run.len() {
            let (value, next) = checked_element(run, at)?;
            pack.append_element(&Encoded::new::<W>(value));
            (at, count) = (next, count + 1);
        }
        let stated = u16::from_le_bytes(*run.first_chunk()?);
        if stated != COUNT_UNKNOWN && usize::from(stated) != count {
            return None;
        }
        pack.write_count(count);
        pack.shrink_to_fit();
        Some(pack)
    }

    /// Returns the elements, to read.
    #[inline]
    pub fn as_packed(&self) -> Packed<'_, W> {
        Packed::new(&self.buffer[self.start..])
    }

    /// Returns the run itself, as [`Packed::new`] takes it.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns the number of elements; see [`Packed::len`].
    #[inline]
    pub fn len(&self) -> usize {
        self.as_packed().len()
    }

    /// Returns whether the pack has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.as_packed().is_empty()
    }

    /// Returns the bytes of memory that the pack has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Appends `value`.
    #[inline]
    pub fn push_back<'v>(&mut self, value: impl Into<ValueRef<'v>>) {
        let element = Encoded::new::<W>(value.into());
        self.room_behind(element.size());
        self.append_element(&element);
        self.count_up(1);
    }

    /// Puts `value` before the first element.
    #[inline]
    pub fn push_front<'v>(&mut self, value: impl Into<ValueRef<'v>>) {
        let element = Encoded::new::<W>(value.into());
        let size = element.size();
        if self.start < size {
            self.room_in_front(size);
        }
        let count = self.as_packed().count();
        self.start -= size;
        self.write(self.start + START, &element);
        self.buffer[self.start..self.start + START].copy_from_slice(&count.to_le_bytes());
        self.count_up(1);
    }

    /// Puts `value` before the element at `offset`, or behind the last one. Returns the offset behind the new element.
    pub fn insert_at<'v>(&mut self, offset: usize, value: impl Into<ValueRef<'v>>) -> usize {
        let element = Encoded::new::<W>(value.into());
        let size = element.size();
        self.resize_gap(offset, 0, size);
        self.write(self.start + offset, &element);
        self.count_up(1);
        offset + size
    }

    /// Puts `value` in the place of the element at `offset`. Returns the offset behind the new element.
    pub fn replace_at<'v>(&mut self, offset: usize, value: impl Into<ValueRef<'v>>) -> usize {
        let element = Encoded::new::<W>(value.into());
        let old = self.as_packed().after(offset) - offset;
        let size = element.size();
        self.resize_gap(offset, old, size);
        self.write(self.start + offset, &element);
        offset + size
    }

    /// Removes up to `count` elements from the one at `offset` on; returns the number removed. The element behind them is at
    /// `offset` then.
    pub fn remove_range(&mut self, offset: usize, count: usize) -> usize {
        let packed = self.as_packed();
        let (mut end, mut removed) = (offset, 0);
        while removed < count && end < packed.bytes_len() {
            end = packed.after(end);
            removed += 1;
        }
        if offset == START {
            self.drop_front(end - offset, removed);
        } else {
            self.resize_gap(offset, end - offset, 0);
            self.count_down(removed);
        }
        removed
    }

    /// Removes up to `count` elements equal to `value` from the front on; returns the number removed.
    pub fn remove_equal<'v>(&mut self, value: impl Into<ValueRef<'v>>, count: usize) -> usize {
        let value = value.into();
        let (mut removed, mut offset) = (0, START);
        while removed < count {
            let Some(found) = self.as_packed().find_from(offset, value, 0) else { break };
            self.remove_range(found, 1);
            (removed, offset) = (removed + 1, found);
        }
        removed
    }

    /// Removes the first element, if there is one.
    #[inline]
    pub fn pop_front(&mut self) -> bool {
        let packed = self.as_packed();
        if packed.is_empty() {
            return false;
        }
        let size = packed.after(START) - START;
        self.drop_front(size, 1);
        true
    }

    /// Keeps the first `count` elements.
    pub fn truncate(&mut self, count: usize) {
        if let Some(offset) = self.as_packed().offset_of(count) {
            self.buffer.truncate(self.start + offset);
            self.write_count(count);
        }
    }

    /// Removes all elements and keeps the memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; START]);
        self.start = 0;
    }

    /// Takes the elements from the one at `offset` on into a run of their own.
    pub fn split_off(&mut self, offset: usize) -> Self {
        let (run, total) = (self.as_bytes(), self.len());
        let mut tail = Self::with_room_behind(run.len() - offset);
        tail.buffer.extend_from_slice(&run[offset..]);
        let moved = tail.as_packed().walk().count();
        tail.write_count(moved);
        self.buffer.truncate(self.start + offset);
        self.write_count(total - moved);
        tail
    }

    /// Appends all elements of `other`.
    pub fn append(&mut self, other: Packed<'_, W>) {
        let total = self.len() + other.len();
        let elements = &other.as_bytes()[START..];
        self.room_behind(elements.len());
        self.buffer.extend_from_slice(elements);
        self.write_count(total);
    }

    /// Gives back the memory that the elements do not need.
    pub fn shrink_to_fit(&mut self) {
        if self.buffer.capacity() > self.as_bytes().len() {
            self.buffer = self.as_bytes().to_vec();
            self.start = 0;
        }
    }

    /// Appends an element that is not counted yet.
    #[inline]
    fn append_element(&mut self, element: &Encoded<'_>) {
        for part in element.parts() {
            self.buffer.extend_from_slice(part);
        }
    }

    fn write(&mut self, mut at: usize, element: &Encoded<'_>) {
        for part in element.parts() {
            self.buffer[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    /// Removes the first `count` elements, which take `size` bytes: the count moves behind them.
    #[inline]
    fn drop_front(&mut self, size: usize, count: usize) {
        let written = self.as_packed().count();
        self.start += size;
        self.buffer[self.start..self.start + START].copy_from_slice(&written.to_le_bytes());
        self.count_down(count);
    }

    /// Makes the `old` bytes at `offset` into `new` bytes, moving the bytes behind them.
    fn resize_gap(&mut self, offset: usize, old: usize, new: usize) {
        self.room_behind(new.saturating_sub(old));
        let (at, length) = (self.start + offset, self.buffer.len());
        self.buffer.resize(length + new.saturating_sub(old), 0);
        self.buffer.copy_within(at + old..length, at + new);
        self.buffer.truncate(length - old + new);
        if new < old && self.buffer.capacity() > SMALL_BYTES.max(SPARE_TIMES_MAX * self.as_bytes().len()) {
            self.shrink_to_fit();
        }
    }

    /// Ensures `more` bytes of room behind the run. If at least as much is free in front as is used, the run is moved, so
    /// that each move is paid for by as many bytes popped; otherwise the room comes from the allocator.
    #[inline]
    fn room_behind(&mut self, more: usize) {
        if self.buffer.capacity() - self.buffer.len() < more {
            self.make_room_behind(more);
        }
    }

    #[cold]
    fn make_room_behind(&mut self, more: usize) {
        let used = self.buffer.len() - self.start;
        if self.start >= used.max(more) {
            self.buffer.copy_within(self.start.., 0);
            self.buffer.truncate(used);
            self.start = 0;
        } else {
            self.buffer.reserve_exact(more + used / 4);
        }
    }

    /// Ensures `more` bytes of room in front of the run: by moving a small run, otherwise from the allocator, with room for a
    /// quarter of the used bytes beyond.
    #[cold]
    fn room_in_front(&mut self, more: usize) {
        let used = self.buffer.len() - self.start;
        let free = self.buffer.capacity() - self.buffer.len();
        let missing = more - self.start;
        if used <= SMALL_BYTES && free >= missing {
            let length = self.buffer.len();
            self.buffer.resize(length + missing, 0);
            self.buffer.copy_within(self.start..length, more);
            self.start = more;
            return;
        }
        let room = more + used / 4;
        let mut buffer = Vec::with_capacity(room + used + free);
        buffer.resize(room, 0);
        buffer.extend_from_slice(self.as_bytes());
        *self = Self { buffer, start: room, ways: PhantomData };
    }

    #[inline]
    fn count_up(&mut self, more: u16) {
        let count = self.as_packed().count().saturating_add(more);
        self.buffer[self.start..self.start + START].copy_from_slice(&count.to_le_bytes());
    }

    #[inline]
    fn count_down(&mut self, less: usize) {
        // A count that is too large to be stored stays so: otherwise each removal would count all elements.
        let count = match self.as_packed().count() {
            COUNT_UNKNOWN if !self.is_empty() => return,
            COUNT_UNKNOWN => 0,
            count => usize::from(count) - less,
        };
        self.write_count(count);
    }

    #[inline]
    fn write_count(&mut self, count: usize) {
        let count = u16::try_from(count).unwrap_or(COUNT_UNKNOWN);
        self.buffer[self.start..self.start + START].copy_from_slice(&count.to_le_bytes());
    }
}

impl Pack<BothWays> {
    /// Removes up to `count` elements equal to `value` from the back on; returns the number removed.
    pub fn remove_equal_back<'v>(&mut self, value: impl Into<ValueRef<'v>>, count: usize) -> usize {
        let wanted = Encoded::new::<BothWays>(value.into());
        let (mut removed, mut offset) = (0, self.as_bytes().len());
        while removed < count {
            let Some(before) = self.as_packed().before(offset) else { break };
            offset = before;
            if wanted.is_at(self.as_bytes(), offset) {
                self.remove_range(offset, 1);
                removed += 1;
            }
        }
        removed
    }

    /// Removes the last element, if there is one.
    #[inline]
    pub fn pop_back(&mut self) -> bool {
        let packed = self.as_packed();
        let Some(offset) = packed.before(packed.bytes_len()) else { return false };
        self.buffer.truncate(self.start + offset);
        self.count_down(1);
        true
    }
}

impl<W: Ways> Default for Pack<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Ways> Clone for Pack<W> {
    fn clone(&self) -> Self {
        Self::from_packed(self.as_packed())
    }
}

impl<W: Ways> PartialEq for Pack<W> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes()[START..] == other.as_bytes()[START..]
    }
}

impl<W: Ways> Eq for Pack<W> {}

impl<W: Ways> fmt::Debug for Pack<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_packed().iter()).finish()
    }
}

impl<'v, V: Into<ValueRef<'v>>, W: Ways> FromIterator<V> for Pack<W> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        let mut pack = Self::new();
        values.into_iter().for_each(|value| pack.push_back(value));
        pack
    }
}
