//! HyperLogLogs: strings that count different elements approximately, in the format of Redis to the byte.
//!
//! ```text
//! 0..4    4          5..8   8..16                               16..
//! "HYLL"  0 dense,   zero   the last count, little-endian; the  16,384 registers
//!         1 sparse          highest bit is set if it is stale
//! ```
//!
//! Dense registers have six bits each, the lowest bits first. Sparse ones are runs: `00nnnnnn` is n + 1 registers of zero,
//! `01nnnnnn nnnnnnnn` likewise, `1vvvvvnn` is n + 1 registers of value v + 1. A sparse one becomes dense when a value does
//! not fit five bits or when it would outgrow the limit that the caller passes in. The format is that of Redis's
//! `hyperloglog.c`; the choices between equivalent runs are Redis's too, so that equal histories give equal strings.
//!
//! [`SketchRef`] reads, [`Sketch`] owns and changes. Any string may claim to be one, so nothing here trusts its bytes beyond
//! the header that [`SketchRef::new`] has checked: runs that do not add up are [`Corrupt`]. Plain data, any thread.

pub mod cardinality;
pub mod murmur;

use cardinality::{Histogram, INDEX_BITS, REGISTERS, VALUE_BITS, estimate};
use murmur::murmur64a;

/// The registers of a HyperLogLog, a byte each.
pub type Registers = [u8; REGISTERS];

const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING: usize = 4;
const CACHE: usize = 8;
const HEADER_BYTES: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const STALE: u8 = 0x80;
const SEED: u64 = 0xadc8_3b19;

/// Bits of a dense register.
const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;

/// The longest runs, and the highest value of one.
const ZEROS_MAX: usize = 64;
const VALUES_MAX: usize = 4;
const SPARSE_VALUE_MAX: u8 = 32;

/// The number of runs, from the one before a change on, in which equal neighbours are joined.
const JOINED_RUNS: usize = 5;

/// The error of runs that cover fewer or more registers than there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Equal registers of a sparse HyperLogLog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// This many registers of zero, in one byte.
    Zeros(usize),
    /// This many registers of zero, in two bytes.
    ManyZeros(usize),
    /// A value, and the number of registers that have it.
    Values(u8, usize),
}

impl Run {
    /// Returns the run at `at`. A second byte that is missing counts as zero.
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let first = *bytes.get(at)?;
        let low = usize::from(first & 0x3f);
        Some(match first {
            0..=0x3f => Self::Zeros(low + 1),
            0x40..=0x7f => Self::ManyZeros((low << 8 | usize::from(bytes.get(at + 1).copied().unwrap_or(0))) + 1),
            _ => Self::Values((first >> 2 & 0x1f) + 1, usize::from(first & 3) + 1),
        })
    }

    fn zeros(count: usize) -> Self {
        if count > ZEROS_MAX { Self::ManyZeros(count) } else { Self::Zeros(count) }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Zeros(count) => out.push((count - 1) as u8),
            Self::ManyZeros(count) => out.extend_from_slice(&[0x40 | ((count - 1) >> 8) as u8, (count - 1) as u8]),
            Self::Values(value, count) => out.push(0x80 | (value - 1) << 2 | (count - 1) as u8),
        }
    }

    /// Returns the number of bytes that it takes.
    fn bytes(self) -> usize {
        if matches!(self, Self::ManyZeros(_)) { 2 } else { 1 }
    }

    /// Returns the value of its registers, and their number.
    fn value(self) -> (u8, usize) {
        match self {
            Self::Zeros(count) | Self::ManyZeros(count) => (0, count),
            Self::Values(value, count) => (value, count),
        }
    }

    /// Returns a run of the same registers, but only of `count`.
    fn part(self, count: usize) -> Self {
        match self {
            Self::Zeros(_) | Self::ManyZeros(_) => Self::zeros(count),
            Self::Values(value, _) => Self::Values(value, count),
        }
    }
}

/// A HyperLogLog to be read.
#[derive(Clone, Copy, Debug)]
pub struct SketchRef<'a> {
    bytes: &'a [u8],
}

impl<'a> SketchRef<'a> {
    /// Reads a string; None if it is no HyperLogLog by its header and length.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let is_one = bytes.len() >= HEADER_BYTES
            && bytes.starts_with(MAGIC)
            && (bytes[ENCODING] == SPARSE || (bytes[ENCODING] == DENSE && bytes.len() == DENSE_BYTES));
        is_one.then_some(Self { bytes })
    }

    /// Returns whether the registers have six bits each.
    pub fn is_dense(self) -> bool {
        self.bytes[ENCODING] == DENSE
    }

    /// Returns the last count, if nothing has changed since.
    pub fn cached_count(self) -> Option<u64> {
        let cache = self.bytes[CACHE..].first_chunk::<8>()?;
        (cache[7] & STALE == 0).then(|| u64::from_le_bytes(*cache))
    }

    /// Estimates how many different elements it has counted, regardless of the cached count.
    ///
    /// # Errors
    /// [`Corrupt`] when the runs do not cover all registers.
    pub fn count(self) -> Result<u64, Corrupt> {
        let mut histogram: Histogram = [0; 64];
        self.for_each(|_, value, count| histogram[usize::from(value)] += count as u32)?;
        Ok(estimate(&histogram))
    }

    /// Raises each of `registers` to its value here.
    ///
    /// # Errors
    /// [`Corrupt`] when the runs do not cover all registers; some of `registers` may have been raised then.
    pub fn merge_into(self, registers: &mut Registers) -> Result<(), Corrupt> {
        self.for_each(|first, value, count| {
            registers[first..first + count].iter_mut().for_each(|register| *register = value.max(*register));
        })
    }

    /// Returns the runs of a sparse one.
    pub fn runs(self) -> impl Iterator<Item = Run> + use<'a> {
        let (bytes, mut at) = (self.bytes, HEADER_BYTES);
        std::iter::from_fn(move || {
            let run = Run::read(bytes, at)?;
            at += run.bytes();
            Some(run)
        })
    }

    /// Shows all registers, equal neighbours together if they are a run: the first index, the value, the number.
    fn for_each(self, mut show: impl FnMut(usize, u8, usize)) -> Result<(), Corrupt> {
        if self.is_dense() {
            dense_registers(&self.bytes[HEADER_BYTES..]).enumerate().for_each(|(index, value)| show(index, value, 1));
            return Ok(());
        }
        let mut first = 0;
        for run in self.runs() {
            let (value, count) = run.value();
            if first + count > REGISTERS {
                return Err(Corrupt);
            }
            show(first, value, count);
            first += count;
        }
        if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
    }
}

/// Returns the registers in groups of four, which are three bytes.
fn dense_registers(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.chunks_exact(3).flat_map(|three| {
        let four = u32::from(three[0]) | u32::from(three[1]) << 8 | u32::from(three[2]) << 16;
        [0, 6, 12, 18].map(|shift| (four >> shift) as u8 & REGISTER_MAX)
    })
}

/// Returns the register that an element belongs to, and the value that it asks for.
fn place_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, SEED);
    let rest = hash >> INDEX_BITS | 1 << VALUE_BITS;
    (hash as usize % REGISTERS, rest.trailing_zeros() as u8 + 1)
}

/// Raises a register of a dense HyperLogLog; returns whether it was lower.
fn raise_dense(bytes: &mut [u8], index: usize, value: u8) -> bool {
    let (at, shift) = (HEADER_BYTES + index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    // The last register ends with the last byte, so there is none behind to read.
    let high = bytes.get(at + 1).copied().unwrap_or(0);
    let pair = u16::from_le_bytes([bytes[at], high]);
    let old = (pair >> shift) as u8 & REGISTER_MAX;
    if old >= value {
        return false;
    }
    let changed = pair & !(u16::from(REGISTER_MAX) << shift) | u16::from(value) << shift;
    let [low, high] = changed.to_le_bytes();
    bytes[at] = low;
    if let Some(place) = bytes.get_mut(at + 1) {
        *place = high;
    }
    true
}

/// Counts elements into the bytes of a dense HyperLogLog, where they lie; returns whether any register has changed.
pub fn add_dense<'e>(bytes: &mut [u8], elements: impl Iterator<Item = &'e [u8]>) -> usize {
    let mut raised = 0;
    for element in elements {
        let (index, value) = place_of(element);
        raised += usize::from(raise_dense(bytes, index, value));
    }
    if raised != 0 {
        bytes[CACHE + 7] |= STALE;
    }
    raised
}

/// Writes the count into the bytes of a HyperLogLog, to be found there next time.
pub fn cache_count(bytes: &mut [u8], count: u64) {
    bytes[CACHE..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
}

/// Returns the estimate for registers that belong to no HyperLogLog.
pub fn count_registers(registers: &Registers) -> u64 {
    let mut histogram: Histogram = [0; 64];
    registers.iter().for_each(|value| histogram[usize::from(value & REGISTER_MAX)] += 1);
    estimate(&histogram)
}

/// A HyperLogLog to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    bytes: Vec<u8>,
}

impl Sketch {
    /// Returns an empty HyperLogLog, sparse.
    pub fn new() -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING] = SPARSE;
        Run::ManyZeros(REGISTERS).write(&mut bytes);
        Self { bytes }
    }

    /// Returns a copy.
    pub fn from_ref(sketch: SketchRef<'_>) -> Self {
        Self { bytes: sketch.bytes.to_vec() }
    }

    /// Returns the string.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the HyperLogLog, to read.
    pub fn as_ref(&self) -> SketchRef<'_> {
        SketchRef { bytes: &self.bytes }
    }

    /// Counts an element; returns whether a register has changed. Beyond `sparse_max` bytes it becomes dense.
    ///
    /// # Errors
    /// [`Corrupt`] when the runs do not cover all registers.
    pub fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<bool, Corrupt> {
        let (index, value) = place_of(element);
        self.raise(index, value, sparse_max)
    }

    /// Raises registers to those of others.
    ///
    /// # Errors
    /// As [`Sketch::add`].
    pub fn raise_all(&mut self, registers: &Registers, sparse_max: usize) -> Result<(), Corrupt> {
        for (index, &value) in registers.iter().enumerate().filter(|(_, value)| **value != 0) {
            self.raise(index, value, sparse_max)?;
        }
        Ok(())
    }

    /// Marks the stored count as stale.
    pub fn forget_count(&mut self) {
        self.bytes[CACHE + 7] |= STALE;
    }

    /// Makes the HyperLogLog dense: gives each register six bits. Returns whether it was sparse.
    ///
    /// # Errors
    /// The errors of [`Sketch::add`].
    pub fn make_dense(&mut self) -> Result<bool, Corrupt> {
        if self.as_ref().is_dense() {
            return Ok(false);
        }
        let mut dense = vec![0; DENSE_BYTES];
        dense[..HEADER_BYTES].copy_from_slice(&self.bytes[..HEADER_BYTES]);
        dense[ENCODING] = DENSE;
        self.as_ref().for_each(|first, value, count| {
            (first..first + count).for_each(|index| _ = raise_dense(&mut dense, index, value));
        })?;
        self.bytes = dense;
        Ok(true)
    }

    fn raise(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupt> {
        if !self.as_ref().is_dense() {
            return self.raise_sparse(index, value, sparse_max);
        }
        let is_changed = raise_dense(&mut self.bytes, index, value);
        if is_changed {
            self.forget_count();
        }
        Ok(is_changed)
    }

    fn raise_sparse(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupt> {
        if value > SPARSE_VALUE_MAX {
            return self.raise_as_dense(index, value);
        }
        let Found { at, previous, first, run } = self.find(index)?;
        let (old, count) = run.value();
        if old >= value {
            return Ok(false);
        }
        let (before, behind) = (index - first, first + count - 1 - index);
        let mut split = Vec::with_capacity(5);
        [(before, run), (1, Run::Values(value, 1)), (behind, run)]
            .into_iter()
            .filter(|(count, _)| *count != 0)
            .for_each(|(count, run)| run.part(count).write(&mut split));
        if split.len() > run.bytes() && self.bytes.len() + split.len() - run.bytes() > sparse_max {
            return self.raise_as_dense(index, value);
        }
        self.bytes.splice(at..at + run.bytes(), split);
        self.join(previous.unwrap_or(HEADER_BYTES));
        self.forget_count();
        Ok(true)
    }

    fn raise_as_dense(&mut self, index: usize, value: u8) -> Result<bool, Corrupt> {
        self.make_dense()?;
        self.raise(index, value, 0)
    }

    /// Returns the run with the register at `index`.
    fn find(&self, index: usize) -> Result<Found, Corrupt> {
        let (mut at, mut previous, mut first) = (HEADER_BYTES, None, 0);
        while let Some(run) = Run::read(&self.bytes, at) {
            let (_, count) = run.value();
            if at + run.bytes() > self.bytes.len() {
                return Err(Corrupt);
            }
            if index < first + count {
                return Ok(Found { at, previous, first, run });
            }
            (previous, at, first) = (Some(at), at + run.bytes(), first + count);
        }
        Err(Corrupt)
    }

    /// Joins equal values in the few runs from `at` on.
    fn join(&mut self, mut at: usize) {
        for _ in 0..JOINED_RUNS {
            let (Some(run), next) = (Run::read(&self.bytes, at), Run::read(&self.bytes, at + 1)) else { return };
            match (run, next) {
                (Run::Values(value, count), Some(Run::Values(other, more)))
                    if value == other && count + more <= VALUES_MAX =>
                {
                    self.bytes[at] = 0x80 | (value - 1) << 2 | (count + more - 1) as u8;
                    self.bytes.remove(at + 1);
                }
                _ => at += run.bytes(),
            }
        }
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self::new()
    }
}

/// The place of a register in the sparse form.
struct Found {
    /// The offset of its run.
    at: usize,
    /// The offset of the run before.
    previous: Option<usize>,
    /// The first register of its run.
    first: usize,
    run: Run,
}
