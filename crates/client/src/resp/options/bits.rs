//! Options of the bit commands: the part of a string, and the operations on its fields.
//!
//! Each writes the words of its command in the order that the server documents. Pure data; any thread.

use crate::resp::request::{Request, ToArgs};

/// A part of a string, for BITCOUNT and BITPOS. Negative positions count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRange {
    start: i64,
    end: Option<i64>,
    unit: Option<&'static str>,
}

impl BitRange {
    /// Selects the bytes from `start` to `end`, both included.
    pub fn new(start: i64, end: i64) -> Self {
        Self { start, end: Some(end), unit: None }
    }

    /// Selects the bytes from `start` to the end; for BITPOS only.
    pub fn starting(start: i64) -> Self {
        Self { start, end: None, unit: None }
    }

    /// Counts both positions in bits instead of bytes; since Redis 7.0.
    pub fn bits(mut self) -> Self {
        self.unit = Some("BIT");
        self
    }
}

impl ToArgs for BitRange {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.start).arg(self.end).arg(self.unit);
    }
}

/// The steps of BITFIELD, one after the other.
///
/// ```
/// use sleeve::BitField;
///
/// // A type is `u` or `i` and its bits; an offset counts bits, or with `#` whole fields.
/// let steps = BitField::new().overflow("SAT").incrby("u8", "#0", 10).get("i16", 8);
/// ```
#[derive(Clone, Debug, Default)]
pub struct BitField {
    words: Vec<String>,
}

impl BitField {
    /// Returns an empty list of steps.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, words: &[&dyn std::fmt::Display]) -> Self {
        self.words.extend(words.iter().map(ToString::to_string));
        self
    }

    /// Reads a field.
    pub fn get(self, encoding: &str, offset: impl std::fmt::Display) -> Self {
        self.with(&[&"GET", &encoding, &offset])
    }

    /// Writes a field; the answer is its former value.
    pub fn set(self, encoding: &str, offset: impl std::fmt::Display, value: i64) -> Self {
        self.with(&[&"SET", &encoding, &offset, &value])
    }

    /// Adds to a field; the answer is its new value, or nil if the addition overflows and `FAIL` is in force.
    pub fn incrby(self, encoding: &str, offset: impl std::fmt::Display, by: i64) -> Self {
        self.with(&[&"INCRBY", &encoding, &offset, &by])
    }

    /// Sets the behaviour at overflow for the steps that follow: `WRAP`, `SAT` or `FAIL`.
    pub fn overflow(self, behaviour: &str) -> Self {
        self.with(&[&"OVERFLOW", &behaviour])
    }
}

impl ToArgs for BitField {
    fn write_to(&self, request: &mut Request) {
        request.arg(&self.words);
    }
}
