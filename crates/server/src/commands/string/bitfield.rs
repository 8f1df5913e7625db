//! BITFIELD and BITFIELD_RO: integers of any width at any bit of a string.
//!
//! All operations are parsed before the first one runs. If one of them writes, the string is first made long enough for all
//! of them; otherwise the key is only read. A field spans at most nine bytes, which are handled as one 128-bit word. Sums are
//! made in 128 bits, where nothing overflows: a comparison finds a number that does not fit the field.

use std::ops::Range;

use sleeve_store::Digits;
use sleeve_wire::number;

use super::bitmap;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

const BAD_TYPE: Error =
    Error::fixed("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");

/// The most bytes that a field of 64 bits spans.
const SPAN_BYTES_MAX: usize = 9;

/// The type of a field, as in `i16` or `u8`: up to 64 bits signed, up to 63 unsigned.
#[derive(Clone, Copy)]
struct Width {
    signed: bool,
    bits: u32,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// The treatment of a number that does not fit its field.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
struct Operation {
    action: Action,
    width: Width,
    /// The place where the field begins, in bits.
    offset: usize,
    overflow: Overflow,
}

/// BITFIELD key \[GET type offset | \[OVERFLOW WRAP | SAT | FAIL\] SET type offset value | INCRBY type offset increment ...\]
pub fn bitfield(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let operations = parse(cx, request)?;
    match len_to_write(&operations) {
        None => read_only(cx, request, &operations),
        Some(len_min) => read_and_write(cx, request, &operations, len_min),
    }
}

/// BITFIELD_RO key \[GET type offset ...\]
pub fn bitfield_ro(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let operations = parse(cx, request)?;
    if len_to_write(&operations).is_some() {
        return Err(Error::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read_only(cx, request, &operations)
}

fn read_only(cx: &mut Cx<'_>, request: Request<'_>, operations: &[Operation]) -> Outcome {
    let value = cx.read_string(request.key(0))?.map(|entry| entry.value());
    let mut digits = Digits::default();
    let bytes = value.as_ref().map_or(&[][..], |value| value.bytes(&mut digits));
    let results: Vec<i64> = operations.iter().map(|operation| operation.width.read(bytes, operation.offset)).collect();
    let mut reply = cx.reply();
    reply.array(results.len());
    results.into_iter().for_each(|result| reply.integer(result));
    Ok(())
}

fn read_and_write(cx: &mut Cx<'_>, request: Request<'_>, operations: &[Operation], len_min: usize) -> Outcome {
    let key = request.key(0);
    let (mut changes, mut writes) = (0, 0);
    let touched: Vec<Range<usize>> = operations.iter().map(Operation::bytes).collect();
    let (results, grew) = bitmap::edit(cx, key, len_min, &touched, |bytes| {
        let mut run = |operation: &Operation| {
            let result = operation.run(bytes, &mut changes);
            writes += usize::from(result.is_some() && !matches!(operation.action, Action::Get));
            result
        };
        operations.iter().map(&mut run).collect::<Vec<_>>()
    })?;
    // As in Redis, if the string grew, every write counts as a change; if all writes failed, the growth counts as one.
    let changes = if grew { writes } else { changes };
    if grew || changes != 0 {
        cx.changed_by(key, changes.max(1));
    }
    if changes != 0 {
        cx.notify(EventClass::String, "setbit", key);
    }
    let mut reply = cx.reply();
    reply.array(results.len());
    for result in results {
        match result {
            Some(result) => reply.integer(result),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Returns how long the string must be for all writes, in bytes; None if there is no write.
fn len_to_write(operations: &[Operation]) -> Option<usize> {
    let writes = operations.iter().filter(|operation| !matches!(operation.action, Action::Get));
    writes.map(|write| write.bytes().end).max()
}

fn parse(cx: &Cx<'_>, request: Request<'_>) -> Result<Vec<Operation>, Error> {
    let mut operations = Vec::with_capacity(request.len() / 3);
    let mut overflow = Overflow::Wrap;
    let mut next = 2;
    while next < request.len() {
        let (word, rest) = (request.arg(next), request.len() - next - 1);
        let is = |name: &[u8], arguments: usize| rest >= arguments && word.eq_ignore_ascii_case(name);
        if is(b"overflow", 1) {
            overflow = overflow_of(request.arg(next + 1))?;
            next += 2;
            continue;
        }
        let action: Option<fn(i64) -> Action> = match () {
            () if is(b"get", 2) => None,
            () if is(b"set", 3) => Some(Action::Set),
            () if is(b"incrby", 3) => Some(Action::Add),
            () => return Err(Error::SYNTAX),
        };
        let width = Width::parse(request.arg(next + 1))?;
        let offset = bitmap::bit_offset(cx, request.arg(next + 2), Some(width.bits))?;
        next += 3;
        let action = match action {
            None => Action::Get,
            Some(action) => {
                next += 1;
                action(number::parse_i64(request.arg(next - 1)).ok_or(Error::NOT_INTEGER)?)
            }
        };
        operations.push(Operation { action, width, offset, overflow });
    }
    Ok(operations)
}

fn overflow_of(word: &[u8]) -> Result<Overflow, Error> {
    match word {
        _ if word.eq_ignore_ascii_case(b"wrap") => Ok(Overflow::Wrap),
        _ if word.eq_ignore_ascii_case(b"sat") => Ok(Overflow::Saturate),
        _ if word.eq_ignore_ascii_case(b"fail") => Ok(Overflow::Fail),
        _ => Err(Error::fixed("ERR Invalid OVERFLOW type specified")),
    }
}

impl Operation {
    /// Returns the bytes in which the field's bits lie.
    fn bytes(&self) -> Range<usize> {
        self.offset / 8..(self.offset + self.width.bits as usize).div_ceil(8)
    }

    /// Runs the operation on a string, which is long enough for a write, and counts its changes. Returns None if the number
    /// does not fit and OVERFLOW is FAIL.
    fn run(&self, bytes: &mut [u8], changes: &mut usize) -> Option<i64> {
        let old = self.width.read(bytes, self.offset);
        let wanted = match self.action {
            Action::Get => return Some(old),
            Action::Set(value) if self.width.signed => i128::from(value),
            // For an unsigned field, a negative number is the large one with the same bits.
            Action::Set(value) => i128::from(value as u64),
            Action::Add(increment) => i128::from(old) + i128::from(increment),
        };
        let new = self.width.fit(wanted, self.overflow)?;
        self.width.write(bytes, self.offset, new);
        *changes += usize::from(new != old);
        Some(if matches!(self.action, Action::Set(_)) { old } else { new })
    }
}

impl Width {
    fn parse(word: &[u8]) -> Result<Self, Error> {
        let (signed, digits, bits_max) = match word {
            [b'i', digits @ ..] => (true, digits, 64),
            [b'u', digits @ ..] => (false, digits, 63),
            _ => return Err(BAD_TYPE),
        };
        match number::parse_i64(digits) {
            Some(bits) if (1..=bits_max).contains(&bits) => Ok(Self { signed, bits: bits as u32 }),
            _ => Err(BAD_TYPE),
        }
    }

    /// Returns the number in the lowest bits of `word`.
    fn number(self, word: u64) -> i64 {
        let spare = 64 - self.bits;
        if self.signed { (word << spare) as i64 >> spare } else { (word << spare >> spare) as i64 }
    }

    /// Returns the number that the field gets for a wanted number, which may not fit.
    fn fit(self, wanted: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = match self.signed {
            true => (-1_i128 << (self.bits - 1), (1_i128 << (self.bits - 1)) - 1),
            false => (0, (1_i128 << self.bits) - 1),
        };
        match overflow {
            _ if (least..=most).contains(&wanted) => Some(wanted as i64),
            Overflow::Wrap => Some(self.number(wanted as u64)),
            Overflow::Saturate => Some(wanted.clamp(least, most) as i64),
            Overflow::Fail => None,
        }
    }

    /// Returns the field at a bit offset. Bits behind the end of the string are zero.
    fn read(self, bytes: &[u8], offset: usize) -> i64 {
        let span = bytes.get(offset / 8..).unwrap_or_default();
        self.number((word_of(span) << (offset % 8) >> (128 - self.bits)) as u64)
    }

    /// Writes the field at a bit offset; the string is long enough.
    fn write(self, bytes: &mut [u8], offset: usize, value: i64) {
        let span = &mut bytes[offset / 8..];
        let shift = 128 - self.bits - (offset % 8) as u32;
        let mask = ((1_u128 << self.bits) - 1) << shift;
        let word = word_of(span) & !mask | (value as u128) << shift & mask;
        let len = span.len().min(SPAN_BYTES_MAX);
        span[..len].copy_from_slice(&word.to_be_bytes()[..len]);
    }
}

/// Returns the first bytes of a field's span as the highest bits of a word, zeros behind them.
fn word_of(span: &[u8]) -> u128 {
    let mut word = [0; 16];
    let len = span.len().min(SPAN_BYTES_MAX);
    word[..len].copy_from_slice(&span[..len]);
    u128::from_be_bytes(word)
}
