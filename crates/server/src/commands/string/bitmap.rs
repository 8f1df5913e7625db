//! SETBIT, GETBIT, BITCOUNT and BITPOS: strings as rows of bits.
//!
//! Bit 0 is the highest bit of the first byte, and a string goes on with zeros behind its end. Ranges of bytes and of bits
//! are brought to one form, a range of bits, before they are counted or searched; both loops take eight bytes at a time and
//! trim the ends. `bitop` and `bitfield` use the offsets and the editing of this module.

use std::ops::Range;
use std::slice;

use sleeve_store::{Digits, Value};
use sleeve_wire::number;

use super::population::count_ones;
use crate::config::Opt;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The error for an offset that is no number, negative, or past the longest string that `proto-max-bulk-len` allows.
const BAD_OFFSET: Error = Error::fixed("ERR bit offset is not an integer or out of range");

/// SETBIT key offset value
pub fn setbit(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let offset = bit_offset(cx, request.arg(2), None)?;
    let on = match number::parse_i64(request.arg(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(Error::fixed("ERR bit is not an integer or out of range")),
    };
    let (byte, mask) = (offset / 8, 0x80_u8 >> (offset % 8));
    let key = request.key(0);
    let (was_on, grew) = edit(cx, key, byte + 1, slice::from_ref(&(byte..byte + 1)), |bytes| {
        let was_on = bytes[byte] & mask != 0;
        bytes[byte] = if on { bytes[byte] | mask } else { bytes[byte] & !mask };
        was_on
    })?;
    if grew || was_on != on {
        cx.changed(key);
        cx.notify(EventClass::String, "setbit", key);
    }
    cx.reply().integer(i64::from(was_on));
    Ok(())
}

/// GETBIT key offset
pub fn getbit(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let offset = bit_offset(cx, request.arg(2), None)?;
    let byte = cx.read_string(request.key(0))?.and_then(|entry| {
        let mut digits = Digits::default();
        entry.value().bytes(&mut digits).get(offset / 8).copied()
    });
    let bit = byte.unwrap_or(0) >> (7 - offset % 8) & 1;
    cx.reply().integer(i64::from(bit));
    Ok(())
}

/// BITCOUNT key \[start \[end \[BYTE | BIT\]\]\]
pub fn bitcount(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let range = counted_range(request)?;
    let count = cx.read_string(request.key(0))?.map_or(0, |entry| {
        let (value, mut digits) = (entry.value(), Digits::default());
        let bytes = value.bytes(&mut digits);
        range.counted(bytes.len()).map_or(0, |bits| count_ones_in(bytes, bits))
    });
    cx.reply().integer(count as i64);
    Ok(())
}

/// Reads the range of BITCOUNT.
fn counted_range(request: Request<'_>) -> Result<BitRange, Error> {
    if request.len() > 5 {
        return Err(Error::SYNTAX);
    }
    let start = request.args.get(2).map_or(Ok(0), integer)?;
    let end = request.args.get(3).map_or(Ok(-1), integer)?;
    Ok(BitRange { start, end, unit: unit(request.args.get(4))? })
}

/// BITPOS key bit \[start \[end \[BYTE | BIT\]\]\]
///
/// If no end is given, the zeros behind the string count as well, so a clear bit is always found.
pub fn bitpos(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let wanted = match integer(request.arg(2))? {
        0 => false,
        1 => true,
        _ => return Err(Error::fixed("ERR The bit argument must be 1 or 0.")),
    };
    let range = sought_range(request)?;
    let position = match cx.read_string(request.key(0))? {
        None if wanted => None,
        None => Some(0),
        Some(entry) => {
            let (value, mut digits) = (entry.value(), Digits::default());
            let bytes = value.bytes(&mut digits);
            let behind = (!wanted && request.len() <= 4).then_some(bytes.len() * 8);
            range.within(bytes.len()).and_then(|bits| find_bit(bytes, wanted, bits).or(behind))
        }
    };
    cx.reply().integer(position.map_or(-1, |position| position as i64));
    Ok(())
}

/// Reads the range of BITPOS.
fn sought_range(request: Request<'_>) -> Result<BitRange, Error> {
    if request.len() > 6 {
        return Err(Error::SYNTAX);
    }
    let start = request.args.get(3).map_or(Ok(0), integer)?;
    let unit = unit(request.args.get(5))?;
    Ok(BitRange { start, end: request.args.get(4).map_or(Ok(-1), integer)?, unit })
}

/// A range of bits as the request gives it.
struct BitRange {
    start: i64,
    end: i64,
    unit: Unit,
}

impl BitRange {
    /// Returns the range of BITPOS in a string of `len` bytes; None if it is empty.
    fn within(&self, len: usize) -> Option<Range<usize>> {
        self.unit.range(self.start, self.end, len)
    }

    /// Returns the range of BITCOUNT. Unlike BITPOS it compares the ends before it moves them into the string.
    fn counted(&self, len: usize) -> Option<Range<usize>> {
        let is_empty = self.start < 0 && self.end < 0 && self.start > self.end;
        if is_empty { None } else { self.within(len) }
    }
}

/// The unit in which the ends of a range count.
#[derive(Clone, Copy)]
enum Unit {
    Byte,
    Bit,
}

fn unit(word: Option<&[u8]>) -> Result<Unit, Error> {
    match word {
        None => Ok(Unit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"byte") => Ok(Unit::Byte),
        Some(word) if word.eq_ignore_ascii_case(b"bit") => Ok(Unit::Bit),
        Some(_) => Err(Error::SYNTAX),
    }
}

impl Unit {
    /// Returns the bits from `start` to `end`, both included and counted from the end if negative, as far as a string of
    /// `len` bytes has them. None if it has none of them.
    fn range(self, start: i64, end: i64, len: usize) -> Option<Range<usize>> {
        let bits = match self {
            Self::Byte => 8,
            Self::Bit => 1,
        };
        let total = (len * 8 / bits) as i64;
        let from_front = |place: i64| if place < 0 { (total + place).max(0) } else { place };
        let (first, last) = (from_front(start), from_front(end).min(total - 1));
        (first <= last).then(|| first as usize * bits..(last as usize + 1) * bits)
    }
}

/// Returns how many bits of a range, which is not empty and lies within `bytes`, are set.
fn count_ones_in(bytes: &[u8], bits: Range<usize>) -> u64 {
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let before = bytes[first] & !(0xff >> (bits.start % 8));
    let behind = bytes[last] & (0x7f >> ((bits.end - 1) % 8));
    count_ones(&bytes[first..=last]) - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

/// Returns the first bit of a range, which is not empty and lies within `bytes`, that is `wanted`.
fn find_bit(bytes: &[u8], wanted: bool, bits: Range<usize>) -> Option<usize> {
    // The bits are inverted if need be, so that the search is always for the first set bit.
    let turn = if wanted { 0 } else { u64::MAX };
    let (first, last) = (bits.start / 8, (bits.end - 1) / 8);
    let head = (bytes[first] ^ turn as u8) & (0xff >> (bits.start % 8));
    let position = if head != 0 {
        first * 8 + head.leading_zeros() as usize
    } else {
        (first + 1) * 8 + find_set(&bytes[first + 1..=last], turn)?
    };
    (position < bits.end).then_some(position)
}

/// Returns the first bit of `bytes` that is set after each word was combined with `turn` by exclusive or.
fn find_set(bytes: &[u8], turn: u64) -> Option<usize> {
    // Whole blocks without such a bit are skipped with a test for which the compiler uses wide instructions.
    let (blocks, _) = bytes.as_chunks::<64>();
    let is_bare = |block: &&[u8; 64]| {
        let (words, _) = block.as_chunks::<8>();
        words.iter().fold(0, |any, word| any | (u64::from_ne_bytes(*word) ^ turn)) == 0
    };
    let passed = blocks.iter().take_while(is_bare).count() * 64;
    let (words, rest) = bytes[passed..].as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_be_bytes(*word) ^ turn;
        if word != 0 {
            return Some((passed + index * 8) * 8 + word.leading_zeros() as usize);
        }
    }
    let behind_words = bytes.len() - rest.len();
    let index = rest.iter().position(|byte| byte ^ turn as u8 != 0)?;
    Some((behind_words + index) * 8 + (rest[index] ^ turn as u8).leading_zeros() as usize)
}

fn integer(argument: &[u8]) -> Result<i64, Error> {
    number::parse_i64(argument).ok_or(Error::NOT_INTEGER)
}

/// Reads a bit offset; with a width, `#n` is the n-th field of that width.
pub(super) fn bit_offset(cx: &Cx<'_>, argument: &[u8], width: Option<u32>) -> Result<usize, Error> {
    let offset = match (argument, width) {
        // Redis multiplies without a check: a product that wraps around into the allowed range is accepted.
        ([b'#', index @ ..], Some(width)) => number::parse_i64(index).map(|index| index.wrapping_mul(i64::from(width))),
        _ => number::parse_i64(argument),
    };
    let len_max = cx.engine.config.number(Opt::ProtoMaxBulkLen);
    match offset {
        Some(offset) if offset >= 0 && offset >> 3 < len_max => Ok(offset as usize),
        _ => Err(BAD_OFFSET),
    }
}

/// Makes a string at least `len_min` bytes long and lets `change` edit the bytes in `touched`; returns whether the string was
/// created or grew.
pub(super) fn edit<R>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    len_min: usize,
    touched: &[Range<usize>],
    change: impl FnOnce(&mut [u8]) -> R,
) -> Result<(R, bool), Error> {
    if let Some(mut entry) = cx.edit_string(key)? {
        let grew = entry.value().len() < len_min;
        return Ok((entry.with_bytes_mut(len_min, touched, change), grew));
    }
    let mut entry = cx.edit_or_insert(key, &Value::Zeros(len_min));
    Ok((entry.with_bytes_mut(len_min, touched, change), true))
}
