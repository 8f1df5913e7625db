//! One element of a packed collection: its bytes, and, if a run is walked both ways, its length behind it.
//!
//! The encoding is exactly that of the listpack of Redis (<https://github.com/antirez/listpack>): integers of 7, 13, 16, 24,
//! 32 and 64 bits, strings with a length of 6, 12 and 32 bits, then the length of all that in one to five bytes that are read
//! backwards; runs that are walked forwards alone leave these out (see `ways`). Text that reads as a 64-bit integer becomes
//! one, always in the shortest form, so two elements are equal exactly when their bytes are. Only `listpack` and `pack` use
//! it; [`checked_element`] is the one that reads foreign bytes, the others trust theirs. Plain functions, usable from any
//! thread.

use super::ways::{BothWays, Ways};
use crate::value::{ValueRef, parse_integer};

const STRING_32: u8 = 0xF0;
const INTEGER_16: u8 = 0xF1;
const INTEGER_24: u8 = 0xF2;
const INTEGER_32: u8 = 0xF3;
const INTEGER_64: u8 = 0xF4;

impl<'a> From<&'a [u8]> for ValueRef<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for ValueRef<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<i64> for ValueRef<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

/// Reads the element at `at`, and says where the next one begins.
#[inline]
pub(crate) fn decode<W: Ways>(bytes: &[u8], at: usize) -> (ValueRef<'_>, usize) {
    let first = bytes[at];
    if first & 0xC0 == 0x80 {
        let length = 1 + usize::from(first & 0x3F);
        return (ValueRef::Bytes(&bytes[at + 1..at + length]), at + length + behind::<W>(length));
    }
    if first < 0x80 {
        return (ValueRef::Integer(i64::from(first)), at + 1 + behind::<W>(1));
    }
    decode_long::<W>(bytes, at)
}

fn decode_long<W: Ways>(bytes: &[u8], at: usize) -> (ValueRef<'_>, usize) {
    let length = length_at(bytes, at);
    let end = at + length;
    let value = match bytes[at] {
        high @ 0xC0..=0xDF => {
            let number = i16::from_be_bytes([high & 0x1F, bytes[at + 1]]);
            // The sign is bit 12.
            ValueRef::Integer(i64::from(number << 3 >> 3))
        }
        0xE0..=0xEF => ValueRef::Bytes(&bytes[at + 2..end]),
        STRING_32 => ValueRef::Bytes(&bytes[at + 5..end]),
        _ => {
            let mut number = [0; 8];
            number[9 - length..].copy_from_slice(&bytes[at + 1..end]);
            ValueRef::Integer(i64::from_le_bytes(number) >> (8 * (9 - length)))
        }
    };
    (value, end + behind::<W>(length))
}

/// Returns the length of the element at `at` with the length field behind it.
#[inline]
pub(crate) fn size_at<W: Ways>(bytes: &[u8], at: usize) -> usize {
    let first = bytes[at];
    let length = if first & 0xC0 == 0x80 { 1 + usize::from(first & 0x3F) } else { length_at(bytes, at) };
    length + behind::<W>(length)
}

/// Returns the length of the element at `at` without the length field behind it.
#[inline]
fn length_at(bytes: &[u8], at: usize) -> usize {
    let first = bytes[at];
    match first {
        0..=0x7F => 1,
        0x80..=0xBF => 1 + usize::from(first & 0x3F),
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 2 + usize::from(u16::from_be_bytes([first & 0x0F, bytes[at + 1]])),
        STRING_32 => 5 + u32_at(bytes, at + 1),
        INTEGER_16 => 3,
        INTEGER_24 => 4,
        INTEGER_32 => 5,
        _ => 9,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

/// Returns the beginning of the element that ends before `offset`, in a run that is walked both ways.
#[inline]
pub(crate) fn previous(bytes: &[u8], offset: usize) -> usize {
    let (mut length, mut shift, mut at) = (0, 0, offset - 1);
    loop {
        let byte = bytes[at];
        length |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return at - length;
        }
        shift += 7;
        at -= 1;
    }
}

/// Returns the size of the length field behind an element, in bytes. The limits are one short of the range of seven bits
/// each, as they are in Redis, because its readers count on it.
#[inline]
fn back_len(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..=16382 => 2,
        16383..=2_097_150 => 3,
        2_097_151..=268_435_454 => 4,
        _ => 5,
    }
}

/// Returns the number of bytes that stand behind an element of this length.
#[inline]
fn behind<W: Ways>(length: usize) -> usize {
    if W::BACKWARDS { back_len(length) } else { 0 }
}

/// Returns the bytes of the length field behind an element of this length, and their number.
#[inline]
fn back(length: usize) -> ([u8; 5], usize) {
    let (mut bytes, count) = ([0; 5], back_len(length));
    for (place, byte) in bytes[..count].iter_mut().enumerate() {
        let seven = (length >> (7 * (count - 1 - place))) as u8 & 0x7F;
        *byte = if place == 0 { seven } else { seven | 0x80 };
    }
    (bytes, count)
}

/// Appends an element of a forward run, at `at`, in the form that it has in a run that is walked both ways.
#[inline]
pub(crate) fn append_both_ways(bytes: &[u8], at: usize, out: &mut Vec<u8>) {
    let length = length_at(bytes, at);
    let (back, count) = back(length);
    out.extend_from_slice(&bytes[at..at + length]);
    out.extend_from_slice(&back[..count]);
}

/// An element as it is about to be written: the head, the bytes of a string, and the length behind, if there is one.
pub(crate) struct Encoded<'v> {
    head: [u8; 9],
    head_len: u8,
    tail_len: u8,
    tail: [u8; 5],
    body: &'v [u8],
}

impl<'v> Encoded<'v> {
    /// Encodes `value`; bytes that read as an integer become one.
    #[inline]
    pub(crate) fn new<W: Ways>(value: ValueRef<'v>) -> Self {
        match value {
            ValueRef::Integer(number) => Self::integer::<W>(number),
            ValueRef::Bytes(bytes) => match parse_integer(bytes) {
                Some(number) => Self::integer::<W>(number),
                None => Self::string::<W>(bytes),
            },
        }
    }

    fn string<W: Ways>(bytes: &'v [u8]) -> Self {
        let length = bytes.len();
        let mut head = [0; 9];
        let head_len = match length {
            0..=63 => {
                head[0] = 0x80 | length as u8;
                1
            }
            64..=4095 => {
                head[0] = 0xE0 | (length >> 8) as u8;
                head[1] = length as u8;
                2
            }
            _ => {
                head[0] = STRING_32;
                let length = u32::try_from(length).expect("no request carries 4 GiB in one argument");
                head[1..5].copy_from_slice(&length.to_le_bytes());
                5
            }
        };
        Self::finish::<W>(head, head_len, bytes)
    }

    fn integer<W: Ways>(number: i64) -> Self {
        let mut head = [0; 9];
        let length = match number {
            0..=127 => {
                head[0] = number as u8;
                return Self::finish::<W>(head, 1, &[]);
            }
            -4096..=4095 => {
                head[0] = 0xC0 | ((number >> 8) as u8 & 0x1F);
                head[1] = number as u8;
                return Self::finish::<W>(head, 2, &[]);
            }
            -0x8000..=0x7FFF => 2,
            -0x80_0000..=0x7F_FFFF => 3,
            -0x8000_0000..=0x7FFF_FFFF => 4,
            _ => 8,
        };
        head[0] = match length {
            2 => INTEGER_16,
            3 => INTEGER_24,
            4 => INTEGER_32,
            _ => INTEGER_64,
        };
        head[1..=length].copy_from_slice(&number.to_le_bytes()[..length]);
        Self::finish::<W>(head, 1 + length, &[])
    }

    #[inline]
    fn finish<W: Ways>(head: [u8; 9], head_len: usize, body: &'v [u8]) -> Self {
        let (tail, tail_len) = if W::BACKWARDS { back(head_len + body.len()) } else { ([0; 5], 0) };
        Self { head, head_len: head_len as u8, tail_len: tail_len as u8, tail, body }
    }

    /// Returns the number of bytes that the encoded element takes.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        usize::from(self.head_len) + self.body.len() + usize::from(self.tail_len)
    }

    /// Returns the bytes of the encoded element, in three parts.
    #[inline]
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        [&self.head[..usize::from(self.head_len)], self.body, &self.tail[..usize::from(self.tail_len)]]
    }

    /// Returns whether the element at `at` is this one. Equal elements have equal bytes, because each has one form only.
    #[inline]
    pub(crate) fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        let head_len = usize::from(self.head_len);
        bytes[at] == self.head[0]
            && bytes[at..].starts_with(&self.head[..head_len])
            && bytes[at + head_len..].starts_with(self.body)
    }
}

/// Reads one element of a foreign listpack at `at`, trusting nothing: the value and where the next one begins, or `None` if the
/// bytes are no element.
pub(crate) fn checked_element(bytes: &[u8], at: usize) -> Option<(ValueRef<'_>, usize)> {
    let rest = bytes.get(at..)?;
    let head_len = match *rest.first()? {
        0xE0..=0xEF => 2,
        STRING_32 => 5,
        INTEGER_64 => 9,
        0xF5.. => return None,
        _ => 1,
    };
    rest.get(..head_len)?;
    let length = length_at(rest, 0);
    let end = length.checked_add(back_len(length))?;
    let element = rest.get(..end)?;
    // A wrong length behind the element would break the walk from the back.
    let mut behind = 0;
    for (place, &byte) in element[length..].iter().enumerate() {
        if (place == 0) == (byte & 0x80 != 0) {
            return None;
        }
        behind = behind << 7 | usize::from(byte & 0x7F);
    }
    (behind == length).then(|| (decode::<BothWays>(element, 0).0, at + end))
}
