//! The packed forms of Redis before version 7: ziplists, and the zipmaps of version 2.4. They are read, never written.
//!
//! A ziplist is its length in bytes (32 bits), the place of its last element (32), their number (16), the elements and the
//! byte 255. An element begins with the length of the one before it, in one byte or, after a 254, in four.

use std::borrow::Cow;

use super::bad::Bad;
use super::scan::{Input, Source};
use crate::value::Digits;

/// The count of a ziplist that means "too many to be stored here".
const COUNT_UNKNOWN: u16 = u16::MAX;

/// The least count of a zipmap that means the same.
const ZIPMAP_COUNT_UNKNOWN: u8 = 254;

/// Returns the elements of a ziplist. Its statements about itself have to be true: its length, the place of its last element,
/// the number of elements, and in front of each element the length of the one before.
pub fn ziplist(bytes: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, Bad> {
    let mut input = Input::new(bytes);
    let total = u32::from_le_bytes(input.array()?) as usize;
    let last_at = u32::from_le_bytes(input.array()?) as usize;
    let stated = u16::from_le_bytes(input.array()?);
    if total != bytes.len() || last_at >= total {
        return Err(Bad::Packed);
    }
    let mut elements = Vec::new();
    // The beginning of the element before; none in front of the first.
    let mut before = None;
    loop {
        let begin = total - input.left();
        let before_len = match input.byte()? {
            255 if input.is_empty() => break,
            255 => return Err(Bad::Packed),
            254 => u32::from_le_bytes(input.array()?) as usize,
            length => usize::from(length),
        };
        if before_len != before.map_or(0, |before| begin - before) {
            return Err(Bad::Packed);
        }
        elements.push(element(&mut input)?);
        before = Some(begin);
    }
    let is_counted = stated == COUNT_UNKNOWN || usize::from(stated) == elements.len();
    if is_counted && before.is_none_or(|before| before == last_at) { Ok(elements) } else { Err(Bad::Packed) }
}

fn element<'a>(input: &mut Input<'a>) -> Result<Cow<'a, [u8]>, Bad> {
    let head = input.byte()?;
    let length = match head >> 6 {
        0 => usize::from(head & 63),
        1 => usize::from(head & 63) << 8 | usize::from(input.byte()?),
        2 => input.take(4)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)),
        _ => {
            let number = match head {
                0xc0 => little_endian(input.take(2)?),
                0xd0 => little_endian(input.take(4)?),
                0xe0 => little_endian(input.take(8)?),
                0xf0 => little_endian(input.take(3)?),
                0xfe => little_endian(input.take(1)?),
                0xf1..=0xfd => i64::from(head & 15) - 1,
                _ => return Err(Bad::Packed),
            };
            return Ok(Cow::Owned(Digits::default().write(number).to_vec()));
        }
    };
    input.take(length).map(Cow::Borrowed)
}

/// Returns a signed number of up to eight bytes, lowest first.
fn little_endian(bytes: &[u8]) -> i64 {
    let unused_bits = 64 - 8 * bytes.len() as u32;
    let number = bytes.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    (number << unused_bits) as i64 >> unused_bits
}

/// Returns the fields and values of a zipmap in turn. A zipmap is a count, then for each string its length in one byte or,
/// after a 254, in four; behind the length of a value stands the number of unused bytes behind the value. The count has to be
/// right, and no server wrote an empty zipmap.
pub fn zipmap(bytes: &[u8]) -> Result<Vec<Cow<'_, [u8]>>, Bad> {
    let mut input = Input::new(bytes);
    let stated = input.byte()?;
    let mut elements = Vec::new();
    loop {
        let is_value = elements.len() % 2 == 1;
        let length = match input.byte()? {
            255 if !is_value && input.is_empty() => break,
            255 => return Err(Bad::Packed),
            254 => input.take(4)?.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte)),
            length => usize::from(length),
        };
        let unused = if is_value { usize::from(input.byte()?) } else { 0 };
        elements.push(Cow::Borrowed(input.take(length)?));
        input.take(unused)?;
    }
    let is_counted = stated >= ZIPMAP_COUNT_UNKNOWN || usize::from(stated) == elements.len() / 2;
    if is_counted && !elements.is_empty() { Ok(elements) } else { Err(Bad::Packed) }
}
