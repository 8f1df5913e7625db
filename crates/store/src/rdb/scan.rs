//! Reading the parts that all values are made of: lengths, strings, numbers.

use std::borrow::Cow;

use crate::types::list::lzf;
use crate::value::Digits;

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad;

/// What has not been read yet.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

/// A length, or how a string is encoded.
enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<'a> Input<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Bad> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Bad)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Bad> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        Ok(*self.take(N)?.first_chunk().ok_or(Bad)?)
    }

    /// Milliseconds, or any number of eight bytes, lowest first.
    pub fn number(&mut self) -> Result<i64, Bad> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A number of eight bytes, highest first.
    pub fn big_number(&mut self) -> Result<u64, Bad> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A double as such.
    pub fn double(&mut self) -> Result<f64, Bad> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A double as text, as old versions have it.
    pub fn double_text(&mut self) -> Result<f64, Bad> {
        match self.byte()? {
            253 => Ok(f64::NAN),
            254 => Ok(f64::INFINITY),
            255 => Ok(f64::NEG_INFINITY),
            length => {
                let text = std::str::from_utf8(self.take(usize::from(length))?).map_err(|_| Bad)?;
                text.trim().parse().map_err(|_| Bad)
            }
        }
    }

    fn length(&mut self) -> Result<Length, Bad> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => Length::Plain(u64::from(first & 63) << 8 | u64::from(self.byte()?)),
            2 if first == 0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
            2 => return Err(Bad),
            _ => Length::Encoded(first & 63),
        })
    }

    /// A length or count, which is only a claim.
    pub fn len(&mut self) -> Result<u64, Bad> {
        match self.length()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => Err(Bad),
        }
    }

    /// A string: plain, an integer, or compressed.
    pub fn string(&mut self) -> Result<Cow<'a, [u8]>, Bad> {
        let integer = |number: i64| Cow::Owned(Digits::default().write(number).to_vec());
        Ok(match self.length()? {
            Length::Plain(length) => Cow::Borrowed(self.take(usize::try_from(length).map_err(|_| Bad)?)?),
            Length::Encoded(0) => integer(i64::from(i8::from_le_bytes(self.array()?))),
            Length::Encoded(1) => integer(i64::from(i16::from_le_bytes(self.array()?))),
            Length::Encoded(2) => integer(i64::from(i32::from_le_bytes(self.array()?))),
            Length::Encoded(3) => {
                let (packed, len) = (self.len()?, self.len()?);
                let packed = self.take(usize::try_from(packed).map_err(|_| Bad)?)?;
                Cow::Owned(lzf::unpack(packed, usize::try_from(len).map_err(|_| Bad)?).ok_or(Bad)?)
            }
            Length::Encoded(_) => return Err(Bad),
        })
    }
}
