//! A small set of integers as one sorted run of bytes.
//!
//! The integers are those of Redis's intset: little-endian, in ascending order, all as wide as the widest one asks for (2,
//! 4 or 8 bytes), and a removal never makes them narrower. In front of them there is less than in Redis: one byte with the
//! width; the number of integers is the length divided by it. Redis's header of eight bytes comes back in
//! [`Integers::to_redis`].
//!
//! [`Integers`] reads, [`IntegerSet`] owns and changes. Both trust their bytes; foreign ones come in through
//! [`IntegerSet::from_redis`], which checks all of them. Plain data, usable from any thread.

/// Where the first integer begins: after the width.
const START: usize = 1;

/// The bytes in front of the integers in Redis: the width and the number of integers, 32 bits each.
const REDIS_HEADER_BYTES: usize = 8;

/// A sorted run of integers, borrowed from whoever keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Integers<'a> {
    bytes: &'a [u8],
}

/// A sorted run of integers that can be changed.
#[derive(Clone, Debug)]
pub struct IntegerSet {
    buffer: Vec<u8>,
}

/// The bytes that an integer needs.
fn width_of(number: i64) -> usize {
    if i16::try_from(number).is_ok() {
        2
    } else if i32::try_from(number).is_ok() {
        4
    } else {
        8
    }
}

/// Reads an integer of `bytes.len()` bytes.
#[inline]
fn read(bytes: &[u8]) -> i64 {
    match *bytes {
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => bytes.first_chunk().map_or(0, |chunk| i64::from_le_bytes(*chunk)),
    }
}

impl<'a> Integers<'a> {
    /// Reads `bytes`, which must be a run as [`IntegerSet::as_bytes`] gave it.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        debug_assert!(matches!(bytes, [2 | 4 | 8, ..]));
        Self { bytes }
    }

    #[inline]
    fn width(self) -> usize {
        usize::from(self.bytes[0])
    }

    /// The number of integers.
    #[inline]
    pub fn len(self) -> usize {
        (self.bytes.len() - START) / self.width()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.bytes.len() == START
    }

    /// The integer at `index` in ascending order.
    #[inline]
    pub fn get(self, index: usize) -> Option<i64> {
        let at = START + index * self.width();
        self.bytes.get(at..at + self.width()).map(read)
    }

    /// The integers in ascending order.
    #[inline]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + use<'a> {
        self.bytes[START..].chunks_exact(self.width()).map(read)
    }

    /// Whether `number` is there.
    #[inline]
    pub fn contains(self, number: i64) -> bool {
        self.search(number).is_ok()
    }

    /// The index of `number`, or the one where it would be.
    fn search(self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            let at = START + middle * self.width();
            match read(&self.bytes[at..at + self.width()]).cmp(&number) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// The integers as an intset of Redis, for files and for peers.
    pub fn to_redis(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(REDIS_HEADER_BYTES + self.bytes.len());
        out.extend_from_slice(&(self.width() as u32).to_le_bytes());
        // Redis counts in 32 bits, and a set is a table long before.
        out.extend_from_slice(&u32::try_from(self.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&self.bytes[START..]);
        out
    }
}

impl IntegerSet {
    /// No integers.
    pub fn new() -> Self {
        Self { buffer: vec![2] }
    }

    /// The run in `buffer`, as [`IntegerSet::as_bytes`] gave it.
    #[inline]
    pub fn from_bytes(buffer: Vec<u8>) -> Self {
        Self { buffer }
    }

    /// The buffer, with the run in it.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Reads an intset of Redis from foreign bytes; `None` unless every one of them is right.
    pub fn from_redis(bytes: &[u8]) -> Option<Self> {
        let (header, run) = bytes.split_first_chunk::<REDIS_HEADER_BYTES>()?;
        let [w0, w1, w2, w3, n0, n1, n2, n3] = *header;
        let width = match u32::from_le_bytes([w0, w1, w2, w3]) {
            width @ (2 | 4 | 8) => width as u8,
            _ => return None,
        };
        let count = u32::from_le_bytes([n0, n1, n2, n3]) as usize;
        if run.len() != count.checked_mul(usize::from(width))? {
            return None;
        }
        let mut buffer = Vec::with_capacity(START + run.len());
        buffer.push(width);
        buffer.extend_from_slice(run);
        let set = Self { buffer };
        set.as_integers().iter().is_sorted_by(|one, next| one < next).then_some(set)
    }

    /// The integers, to read.
    #[inline]
    pub fn as_integers(&self) -> Integers<'_> {
        Integers::new(&self.buffer)
    }

    /// The run itself, as [`Integers::new`] takes it.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The bytes of memory that it has asked for.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Adds an integer; whether it is new.
    pub fn insert(&mut self, number: i64) -> bool {
        if width_of(number) > self.as_integers().width() {
            self.widen(width_of(number));
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

    /// Removes an integer; whether it was there.
    pub fn remove(&mut self, number: i64) -> bool {
        let Ok(index) = self.as_integers().search(number) else { return false };
        let width = self.as_integers().width();
        let at = START + index * width;
        self.buffer.drain(at..at + width);
        true
    }

    /// Gives each integer so many bytes.
    fn widen(&mut self, width: usize) {
        let mut buffer = Vec::with_capacity(START + (self.as_integers().len() + 1) * width);
        buffer.push(width as u8);
        for number in self.as_integers().iter() {
            buffer.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        self.buffer = buffer;
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
        let width = numbers.iter().copied().map(width_of).max().unwrap_or(2);
        let mut buffer = Vec::with_capacity(START + numbers.len() * width);
        buffer.push(width as u8);
        numbers.iter().for_each(|number| buffer.extend_from_slice(&number.to_le_bytes()[..width]));
        Self { buffer }
    }
}
