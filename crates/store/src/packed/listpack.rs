//! A small collection as one run of bytes: elements one after another.
//!
//! Every type keeps its small values like this, and a long list is a chain of such runs. The elements are encoded as in the
//! listpack of Redis (see `element`), with the length behind each only where a run is walked both ways (see `ways`); around
//! them there is less than in Redis: `[count: u16][elements]`, where a count of 65535 means "count them". The other parts of
//! Redis's form, the total length and the terminator, come back in [`Packed::to_redis`].
//!
//! [`Packed`] reads and never changes; `Pack` owns and changes. Both trust their bytes: foreign ones come in through
//! `Pack::from_redis`, which checks all of them. A place is an *offset* in bytes from the beginning of the run, as
//! [`Packed::offset_of`], [`Packed::find`] and [`Elements::offset`] give it, and is void after any change. Plain data, usable
//! from any thread.

use std::marker::PhantomData;

use super::element::{Encoded, append_both_ways, decode, previous, size_at};
use super::ways::{BothWays, Ways};
use crate::value::ValueRef;

/// The offset of the first element: behind the count.
pub(crate) const START: usize = 2;

/// The count that means "too many to be stored here".
pub(crate) const COUNT_UNKNOWN: u16 = u16::MAX;

/// The bytes that Redis has around the elements and this form does not have: a total length of 32 bits, and one byte behind
/// the last element.
const REDIS_EXTRA_BYTES: usize = 5;

/// The byte that ends the listpack of Redis; no element begins with it.
pub(crate) const REDIS_END: u8 = 0xFF;

/// A run of elements, borrowed from its owner.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a, W = BothWays> {
    bytes: &'a [u8],
    ways: PhantomData<W>,
}

impl<'a, W: Ways> Packed<'a, W> {
    /// The run without elements.
    pub const EMPTY: Packed<'static, W> = Packed { bytes: &[0, 0], ways: PhantomData };

    /// Reads `bytes`, which must be a run as [`Packed::as_bytes`] gave it.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() >= START);
        Self { bytes, ways: PhantomData }
    }

    /// Returns the run itself: the count and the elements.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the length of the run in bytes, with the count.
    #[inline]
    pub fn bytes_len(self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of elements. Costs nothing up to 65534, a walk beyond.
    #[inline]
    pub fn len(self) -> usize {
        match self.count() {
            COUNT_UNKNOWN => self.walk().count(),
            count => usize::from(count),
        }
    }

    /// Returns whether the run has no elements.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.bytes.len() <= START
    }

    /// Returns the count as it is stored in the run.
    #[inline]
    pub(crate) fn count(self) -> u16 {
        u16::from_le_bytes([self.bytes[0], self.bytes[1]])
    }

    /// Returns an iterator over all elements, in order.
    #[inline]
    pub fn iter(self) -> Elements<'a, W> {
        self.iter_between(START, self.bytes.len())
    }

    /// Returns the elements from the one at `offset` to the last.
    #[inline]
    pub fn iter_from(self, offset: usize) -> Elements<'a, W> {
        self.iter_between(offset, self.bytes.len())
    }

    /// Returns the elements from the first to the one before `offset`.
    #[inline]
    pub fn iter_to(self, offset: usize) -> Elements<'a, W> {
        self.iter_between(START, offset)
    }

    #[inline]
    fn iter_between(self, front: usize, back: usize) -> Elements<'a, W> {
        Elements { bytes: self.bytes, front, back, ways: PhantomData }
    }

    /// Returns the first element.
    #[inline]
    pub fn first(self) -> Option<ValueRef<'a>> {
        self.iter().next()
    }

    /// Returns the element at `index`, reached as by [`Packed::offset_of`].
    pub fn get(self, index: usize) -> Option<ValueRef<'a>> {
        Some(decode::<W>(self.bytes, self.offset_of(index)?).0)
    }

    /// Returns the offset of the element at `index`; `None` if there is no such element. If the run can be walked both ways,
    /// the element is reached from the nearer end.
    pub fn offset_of(self, index: usize) -> Option<usize> {
        let count = self.len();
        if index >= count {
            return None;
        }
        if index <= count / 2 || !W::BACKWARDS {
            return self.walk().nth(index);
        }
        let mut offset = self.bytes.len();
        for _ in index..count {
            offset = previous(self.bytes, offset);
        }
        Some(offset)
    }

    /// Returns the element at `offset`, and the offset of the next one; `None` at the end.
    #[inline]
    pub fn read(self, offset: usize) -> Option<(ValueRef<'a>, usize)> {
        (offset < self.bytes.len()).then(|| decode::<W>(self.bytes, offset))
    }

    /// Returns the offset of the element after the one at `offset`; after the last one, the run's length.
    #[inline]
    pub fn after(self, offset: usize) -> usize {
        offset + size_at::<W>(self.bytes, offset)
    }

    /// Returns the offset of the first element equal to `value`, looking at every `1 + skip`-th: with a skip of one, at the
    /// fields of fields and values.
    #[inline]
    pub fn find<'v>(self, value: impl Into<ValueRef<'v>>, skip: usize) -> Option<usize> {
        self.find_from(START, value, skip)
    }

    /// Does the same as [`Packed::find`], beginning with the element at `offset`.
    pub fn find_from<'v>(self, offset: usize, value: impl Into<ValueRef<'v>>, skip: usize) -> Option<usize> {
        let wanted = Encoded::new::<W>(value.into());
        let mut at = offset;
        while at < self.bytes.len() {
            if wanted.is_at(self.bytes, at) {
                return Some(at);
            }
            for _ in 0..=skip {
                if at < self.bytes.len() {
                    at += size_at::<W>(self.bytes, at);
                }
            }
        }
        None
    }

    /// Returns whether the element at `offset` equals `value`.
    pub fn is_at<'v>(self, offset: usize, value: impl Into<ValueRef<'v>>) -> bool {
        offset < self.bytes.len() && Encoded::new::<W>(value.into()).is_at(self.bytes, offset)
    }

    /// Returns whether the first of every `stride` elements are distinct. It compares keyed hashes instead of every pair, so
    /// a client that cannot predict the hashes cannot choose elements that take long.
    pub(crate) fn are_distinct(self, stride: usize, hash: impl Fn(&[u8]) -> u64) -> bool {
        let hash_at = |at: usize| (hash(&self.bytes[at..self.after(at)]), at);
        let mut hashes: Vec<(u64, usize)> = self.walk().step_by(stride).map(hash_at).collect();
        hashes.sort_unstable();
        let is_same =
            |one: usize, other: usize| self.bytes[one..self.after(one)] == self.bytes[other..self.after(other)];
        hashes.chunk_by(|one, other| one.0 == other.0).all(|same| {
            same.iter().enumerate().all(|(place, one)| same[..place].iter().all(|other| !is_same(one.1, other.1)))
        })
    }

    /// Returns the elements as a listpack of Redis, for files and for peers.
    pub fn to_redis(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_redis(&mut out);
        out
    }

    /// Appends the elements as a listpack of Redis.
    pub(crate) fn append_redis(self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.reserve(self.bytes.len() + REDIS_EXTRA_BYTES);
        out.extend_from_slice(&[0; 4]);
        if W::BACKWARDS {
            out.extend_from_slice(self.bytes);
        } else {
            out.extend_from_slice(&self.bytes[..START]);
            self.walk().for_each(|at| append_both_ways(self.bytes, at, out));
        }
        out.push(REDIS_END);
        // Redis keeps the total in 32 bits; no list, set, hash or stream node comes near that.
        let total = u32::try_from(out.len() - begin).unwrap_or(u32::MAX);
        out[begin..begin + 4].copy_from_slice(&total.to_le_bytes());
    }

    /// Returns an iterator over the offsets of the elements.
    pub(crate) fn walk(self) -> impl Iterator<Item = usize> {
        let (bytes, mut at) = (self.bytes, START);
        std::iter::from_fn(move || {
            let here = at;
            (here < bytes.len()).then(|| {
                at += size_at::<W>(bytes, at);
                here
            })
        })
    }
}

impl<'a> Packed<'a, BothWays> {
    /// Returns the length that the same elements have in Redis, in bytes: Redis's limits of size refer to it.
    #[inline]
    pub fn redis_bytes(self) -> usize {
        self.bytes.len() + REDIS_EXTRA_BYTES
    }

    /// Returns the last element.
    #[inline]
    pub fn last(self) -> Option<ValueRef<'a>> {
        self.iter().next_back()
    }

    /// Returns the offset of the element before `offset`; `None` at the beginning.
    #[inline]
    pub fn before(self, offset: usize) -> Option<usize> {
        (offset > START).then(|| previous(self.bytes, offset))
    }
}

/// The elements of a run.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a, W = BothWays> {
    bytes: &'a [u8],
    front: usize,
    back: usize,
    ways: PhantomData<W>,
}

impl<W> Elements<'_, W> {
    /// Returns the offset of the next element from the front.
    #[inline]
    pub fn offset(&self) -> usize {
        self.front
    }
}

impl<'a, W: Ways> Iterator for Elements<'a, W> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        let (value, next) = decode::<W>(self.bytes, self.front);
        self.front = next;
        Some(value)
    }

    #[inline]
    fn nth(&mut self, skipped: usize) -> Option<Self::Item> {
        for _ in 0..skipped {
            if self.front >= self.back {
                return None;
            }
            self.front += size_at::<W>(self.bytes, self.front);
        }
        self.next()
    }
}

impl DoubleEndedIterator for Elements<'_, BothWays> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        self.back = previous(self.bytes, self.back);
        Some(decode::<BothWays>(self.bytes, self.back).0)
    }
}

/// Returns the number of bytes that `value` takes in a run.
pub fn packed_size<W: Ways>(value: ValueRef<'_>) -> usize {
    Encoded::new::<W>(value).size()
}
