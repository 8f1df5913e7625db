//! Reading the parts of all values: lengths, strings, numbers.
//!
//! [`Source`] is where bytes come from: a slice that has them all ([`Input`]), or a file that is read as it goes
//! (`file::feed`). The reader reserves no memory for a length that the bytes claim; the buffer of a long string grows with
//! the bytes that have arrived.

use std::fmt;

use super::bad::Bad;
use crate::types::list::lzf;
use crate::value::Digits;

/// The most bytes that a source has to show in one piece.
pub(crate) const FEW_MAX: usize = 1 << 16;

/// A length, or the encoding of a string.
enum Length {
    Plain(u64),
    Encoded(u8),
}

/// The correction of a value that was read, the least first. Other servers load such values as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Correction {
    /// A stream stated a wrong number of entries.
    Length,
    /// A stream stated a last id below that of its last entry.
    LastId,
    /// Blocks of a stream made false statements about their entries.
    Blocks,
    /// Pending entries of a stream that belonged to no consumer are left out; those that belonged to several belong to the
    /// last one.
    Pending,
}

impl Correction {
    /// Returns whether RESTORE accepts a dump with this fault, as other servers do when they check dumps in depth.
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Length | Self::LastId)
    }
}

impl fmt::Display for Correction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Length => "the stream's length was not the number of its entries",
            Self::LastId => "the stream's last id was below that of its last entry",
            Self::Blocks => "Stream listpack integrity check failed: the counts in it were not those of its entries",
            Self::Pending => "pending entries of the stream belonged to no consumer, or to several",
        })
    }
}

/// A source of the bytes of values, one after the other.
pub trait Source {
    /// Notes that something was put right in the value that is being read.
    fn correct(&mut self, correction: Correction);

    /// Returns the next `count` bytes, at most 64 KiB; they are valid until the next call.
    ///
    /// # Errors
    /// [`Bad::End`] if there are not so many, [`Bad::Unreadable`] if they cannot be read.
    fn few(&mut self, count: usize) -> Result<&[u8], Bad>;

    /// Appends the next `count` bytes to `out`. Its room grows with the bytes that arrive, not with `count`.
    ///
    /// # Errors
    /// The errors of [`Source::few`].
    fn many(&mut self, count: u64, out: &mut Vec<u8>) -> Result<(), Bad>;

    /// Reads the next byte.
    ///
    /// # Errors
    /// The errors of [`Source::few`]. The methods below have the same errors; for bytes of the wrong form they return another
    /// [`Bad`].
    fn byte(&mut self) -> Result<u8, Bad> {
        Ok(self.few(1)?[0])
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// As [`Source::byte`].
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        Ok(*self.few(N)?.first_chunk().ok_or(Bad::End)?)
    }

    /// Reads a number of eight bytes, lowest first, such as a time in milliseconds.
    ///
    /// # Errors
    /// The errors of [`Source::byte`].
    fn number(&mut self) -> Result<i64, Bad> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads a number of eight bytes, highest first.
    ///
    /// # Errors
    /// As [`Source::byte`].
    fn big_number(&mut self) -> Result<u64, Bad> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Reads a double of eight bytes.
    ///
    /// # Errors
    /// The errors of [`Source::byte`].
    fn double(&mut self) -> Result<f64, Bad> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// Reads a double as text, as old versions have it.
    ///
    /// # Errors
    /// As [`Source::byte`].
    fn double_text(&mut self) -> Result<f64, Bad> {
        match self.byte()? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            length => {
                let text = std::str::from_utf8(self.few(usize::from(length))?).map_err(|_| Bad::Score)?;
                text.trim().parse().map_err(|_| Bad::Score)
            }
        }
    }

    /// Reads a length or count, which is only a claim.
    ///
    /// # Errors
    /// As [`Source::byte`].
    fn length(&mut self) -> Result<u64, Bad> {
        match length_or_form(self)? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => Err(Bad::Length),
        }
    }

    /// Reads a string: plain, an integer, or compressed. The result borrows from the source or from `scratch`, whichever
    /// costs less.
    ///
    /// # Errors
    /// The errors of [`Source::byte`].
    fn string<'a>(&'a mut self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], Bad> {
        match length_or_form(self)? {
            Length::Plain(length) if length <= FEW_MAX as u64 => self.few(length as usize),
            length => {
                scratch.clear();
                text(self, length, scratch)?;
                Ok(scratch)
            }
        }
    }

    /// Reads a string into a buffer of its own.
    ///
    /// # Errors
    /// As [`Source::byte`].
    fn owned(&mut self) -> Result<Vec<u8>, Bad> {
        let mut string = Vec::new();
        let length = length_or_form(self)?;
        text(self, length, &mut string)?;
        Ok(string)
    }

    /// Reads a string into `out` in place of its contents.
    ///
    /// # Errors
    /// As [`Source::byte`].
    fn string_into(&mut self, out: &mut Vec<u8>) -> Result<(), Bad> {
        out.clear();
        let length = length_or_form(self)?;
        text(self, length, out)
    }
}

#[inline]
fn length_or_form(source: &mut (impl Source + ?Sized)) -> Result<Length, Bad> {
    let first = source.byte()?;
    Ok(match first >> 6 {
        0 => Length::Plain(u64::from(first)),
        1 => Length::Plain(u64::from(first & 63) << 8 | u64::from(source.byte()?)),
        2 if first == 0x80 => Length::Plain(u64::from(u32::from_be_bytes(source.array()?))),
        2 if first == 0x81 => Length::Plain(u64::from_be_bytes(source.array()?)),
        2 => return Err(Bad::Length),
        _ => Length::Encoded(first & 63),
    })
}

/// Appends a string of this length or form.
fn text(source: &mut (impl Source + ?Sized), length: Length, out: &mut Vec<u8>) -> Result<(), Bad> {
    let integer = match length {
        Length::Plain(length) => return source.many(length, out),
        Length::Encoded(0) => i64::from(i8::from_le_bytes(source.array()?)),
        Length::Encoded(1) => i64::from(i16::from_le_bytes(source.array()?)),
        Length::Encoded(2) => i64::from(i32::from_le_bytes(source.array()?)),
        Length::Encoded(3) => return compressed(source, out),
        Length::Encoded(_) => return Err(Bad::Length),
    };
    out.extend_from_slice(Digits::default().write(integer));
    Ok(())
}

fn compressed(source: &mut (impl Source + ?Sized), out: &mut Vec<u8>) -> Result<(), Bad> {
    let (packed, length) = (source.length()?, source.length()?);
    let length = usize::try_from(length).map_err(|_| Bad::Length)?;
    let is_right = if packed <= FEW_MAX as u64 {
        lzf::unpack_onto(source.few(packed as usize)?, length, out)
    } else {
        let mut whole = Vec::new();
        source.many(packed, &mut whole)?;
        lzf::unpack_onto(&whole, length, out)
    };
    if is_right { Ok(()) } else { Err(Bad::Compressed) }
}

/// A slice of bytes, and the position up to which it has been read.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    corrected: Option<Correction>,
    /// The number of parts of collections that may still be passed over.
    parts_left: u64,
}

/// A string as it stands in the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stored<'a> {
    Plain(&'a [u8]),
    Integer(i64),
    /// The compressed bytes, and the stated length of the string.
    Compressed(&'a [u8], u64),
}

impl<'a> Input<'a> {
    /// Returns an input of all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, corrected: None, parts_left: u64::MAX }
    }

    /// Returns whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the worst correction of the values that have been read.
    pub fn corrected(&self) -> Option<Correction> {
        self.corrected
    }

    /// Limits the number of parts that may be passed over from here on.
    pub(crate) fn limit_parts(&mut self, parts_max: u64) {
        self.parts_left = parts_max;
    }

    /// Returns how many parts may still be passed over.
    pub(crate) fn parts_left(&self) -> u64 {
        self.parts_left
    }

    /// Counts a part that is passed over.
    ///
    /// # Errors
    /// [`Bad::Length`] when there were more than the limit allows.
    pub(crate) fn count_part(&mut self) -> Result<(), Bad> {
        self.parts_left = self.parts_left.checked_sub(1).ok_or(Bad::Length)?;
        Ok(())
    }

    /// Returns how many bytes have not been read.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// [`Bad::End`] when there are not so many.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Bad::End)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Reads the next string, in its stored form.
    ///
    /// # Errors
    /// The errors of [`Source::byte`].
    #[inline]
    pub(crate) fn stored(&mut self) -> Result<Stored<'a>, Bad> {
        let counted = |count: u64| usize::try_from(count).map_err(|_| Bad::End);
        Ok(match length_or_form(self)? {
            Length::Plain(length) => Stored::Plain(self.take(counted(length)?)?),
            Length::Encoded(0) => Stored::Integer(i64::from(i8::from_le_bytes(self.array()?))),
            Length::Encoded(1) => Stored::Integer(i64::from(i16::from_le_bytes(self.array()?))),
            Length::Encoded(2) => Stored::Integer(i64::from(i32::from_le_bytes(self.array()?))),
            Length::Encoded(3) => {
                let (packed, length) = (self.length()?, self.length()?);
                Stored::Compressed(self.take(counted(packed)?)?, length)
            }
            Length::Encoded(_) => return Err(Bad::Length),
        })
    }
}

impl Stored<'_> {
    /// Returns whether the string can be wrong in nothing but its bytes: it is not compressed.
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self, Self::Compressed(..))
    }

    /// Appends the string itself to `out`.
    ///
    /// # Errors
    /// [`Bad::Compressed`] if a compressed string cannot be unpacked.
    pub(crate) fn append_to(self, out: &mut Vec<u8>) -> Result<(), Bad> {
        match self {
            Stored::Plain(bytes) => out.extend_from_slice(bytes),
            Stored::Integer(integer) => out.extend_from_slice(Digits::default().write(integer)),
            Stored::Compressed(packed, length) => {
                let length = usize::try_from(length).map_err(|_| Bad::Length)?;
                if !lzf::unpack_onto(packed, length, out) {
                    return Err(Bad::Compressed);
                }
            }
        }
        Ok(())
    }
}

impl Source for Input<'_> {
    fn correct(&mut self, correction: Correction) {
        self.corrected = self.corrected.max(Some(correction));
    }

    #[inline]
    fn few(&mut self, count: usize) -> Result<&[u8], Bad> {
        self.take(count)
    }

    fn many(&mut self, count: u64, out: &mut Vec<u8>) -> Result<(), Bad> {
        let count = usize::try_from(count).map_err(|_| Bad::End)?;
        out.extend_from_slice(self.take(count)?);
        Ok(())
    }
}
