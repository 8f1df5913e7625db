//! A small set of integers as one sorted run of bytes.
//!
//! The integers are little-endian, in ascending order, all as wide as the widest one asks for (1 to 8 bytes), and a removal
//! never makes them narrower. In front of them stands one byte with the width; the number of integers is the length divided
//! by it. An intset of Redis knows the widths 2, 4 and 8 alone, so [`Integers::to_redis`] returns these widths, with Redis's
//! header of eight bytes. Each of our widths has one of them, and an integer that makes Redis widen a set makes this one
//! wider as well.
//!
//! [`Integers`] reads, [`IntegerSet`] owns and changes. Both trust their bytes; foreign bytes come in through
//! [`IntegerSet::from_redis`], which checks all of them. Plain data, usable from any thread.

/// The offset of the first integer: behind the width.
const START: usize = 1;

/// The bytes in front of the integers in Redis: the width and the number of integers, 32 bits each.
const REDIS_HEADER_BYTES: usize = 8;

/// A sorted run of integers, borrowed from its owner.
#[derive(Clone, Copy, Debug)]
pub struct Integers<'a> {
    bytes: &'a [u8],
}

/// A sorted run of integers that can be changed.
#[derive(Clone, Debug)]
pub struct IntegerSet {
    buffer: Vec<u8>,
}

/// Returns the number of bytes that an integer needs.
fn width_of(number: i64) -> usize {
    // The bits that differ from the sign, and one bit for the sign.
    let bits = 65 - (number ^ (number >> 63)).leading_zeros();
    bits.div_ceil(8) as usize
}

/// Returns the number of bytes that the same run has for each integer in Redis.
fn redis_width(width: usize) -> usize {
    width.next_power_of_two().max(2)
}

impl<'a> Integers<'a> {
    /// Reads `bytes`, which must be a run as [`IntegerSet::as_bytes`] gave it.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        debug_assert!(matches!(bytes, [1..=8, ..]));
        Self { bytes }
    }

    #[inline]
    fn width(self) -> usize {
        usize::from(self.bytes[0])
    }

    /// Returns the number of integers.
    #[inline]
    pub fn len(self) -> usize {
        (self.bytes.len() - START) / self.width()
    }

    /// Returns whether there is no integer.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.bytes.len() == START
    }

    /// Returns the integer at `index` in ascending order.
    #[inline]
    pub fn get(self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index, self.width()))
    }

    /// Returns the integer at `index`, which is there.
    #[inline]
    fn at(self, index: usize, width: usize) -> i64 {
        let until_end = &self.bytes[..START + (index + 1) * width];
        // The eight bytes that end with it, at any width; the bytes in front of it are shifted out.
        let word = until_end.last_chunk().copied().unwrap_or_else(|| {
            let mut word = [0; 8];
            word[8 - until_end.len()..].copy_from_slice(until_end);
            word
        });
        i64::from_le_bytes(word) >> (64 - 8 * width)
    }

    /// Returns the integers in ascending order.
    #[inline]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + use<'a> {
        let width = self.width();
        (0..self.len()).map(move |index| self.at(index, width))
    }

    /// Returns the least width that would do.
    fn needed_width(self) -> usize {
        let mut numbers = self.iter();
        let ends = [numbers.next(), numbers.next_back()];
        ends.into_iter().flatten().map(width_of).max().unwrap_or(1)
    }

    /// Returns whether `number` is there.
    #[inline]
    pub fn contains(self, number: i64) -> bool {
        self.search(number).is_ok()
    }

    /// Returns the index of `number`, or the index at which it would be inserted.
    fn search(self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high, width) = (0, self.len(), self.width());
        while low < high {
            let middle = (low + high) / 2;
            match self.at(middle, width).cmp(&number) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Returns the integers as an intset of Redis, for files and for peers.
    pub fn to_redis(self) -> Vec<u8> {
        let (width, count) = (redis_width(self.width()), self.len());
        let mut out = Vec::with_capacity(REDIS_HEADER_BYTES + count * width);
        out.extend_from_slice(&(width as u32).to_le_bytes());
        // Redis counts in 32 bits; a set becomes a table long before that.
        out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        self.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()[..width]));
        out
    }
}

impl IntegerSet {
    /// Returns a set without integers.
    pub fn new() -> Self {
        Self { buffer: vec![1] }
    }

    /// Returns the run in `buffer`, as [`IntegerSet::as_bytes`] gave it.
    #[inline]
    pub fn from_bytes(buffer: Vec<u8>) -> Self {
        Self { buffer }
    }

    /// Returns the buffer, with the run in it.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Reads an intset of Redis from foreign bytes; `None` unless every one of them is right.
    pub fn from_redis(bytes: &[u8]) -> Option<Self> {
        let (header, run) = bytes.split_first_chunk::<REDIS_HEADER_BYTES>()?;
        let [w0, w1, w2, w3, n0, n1, n2, n3] = *header;
        let width = match u32::from_le_bytes([w0, w1, w2, w3]) {
            width @ (2 | 4 | 8) => width as usize,
            _ => return None,
        };
        let count = u32::from_le_bytes([n0, n1, n2, n3]) as usize;
        if run.len() != count.checked_mul(width)? {
            return None;
        }
        let mut buffer = Vec::with_capacity(START + run.len());
        buffer.push(width as u8);
        buffer.extend_from_slice(run);
        let set = Self { buffer };
        let numbers = set.as_integers();
        if !numbers.iter().is_sorted_by(|one, next| one < next) {
            return None;
        }
        // The width is the narrowest one that the numbers need and that Redis stores with this width: the set may have had a
        // wider number.
        let narrow = (numbers.needed_width()..=width).find(|&narrow| redis_width(narrow) == width)?;
        Some(Self::with_width(narrow, numbers.iter()))
    }

    /// Returns the integers, to read.
    #[inline]
    pub fn as_integers(&self) -> Integers<'_> {
        Integers::new(&self.buffer)
    }

    /// Returns the run itself, as [`Integers::new`] takes it.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the bytes of memory that it has asked for.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Adds an integer; returns whether it is new.
    pub fn insert(&mut self, number: i64) -> bool {
        if width_of(number) > self.as_integers().width() {
            *self = Self::with_width(width_of(number), self.as_integers().iter());
        }
        let Err(index) = self.as_integers().search(number) else { return false };
        let width = self.as_integers().width();
        let (at, length) = (START + index * width, self.buffer.len());
        if self.buffer.capacity() - length < width {
            self.buffer.reserve_exact(width + length / 4);
        }
        self.buffer.resize(length + width, 0);
        self.buffer.copy_within(at..length, at + width);
        self.buffer[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        true
    }

    /// Removes an integer; returns whether it was there.
    pub fn remove(&mut self, number: i64) -> bool {
        let Ok(index) = self.as_integers().search(number) else { return false };
        let width = self.as_integers().width();
        let at = START + index * width;
        self.buffer.drain(at..at + width);
        true
    }

    /// Returns a run of these integers, which are in order, each with so many bytes.
    fn with_width(width: usize, numbers: impl ExactSizeIterator<Item = i64>) -> Self {
        let mut buffer = Vec::with_capacity(START + numbers.len() * width);
        buffer.push(width as u8);
        numbers.for_each(|number| buffer.extend_from_slice(&number.to_le_bytes()[..width]));
        Self { buffer }
    }
}

impl Default for IntegerSet {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<i64> for IntegerSet {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Self {
        let mut numbers: Vec<i64> = numbers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let width = numbers.iter().copied().map(width_of).max().unwrap_or(1);
        Self::with_width(width, numbers.into_iter())
    }
}
