//! FUNCTION DUMP and RESTORE: all libraries as one value, in Redis's form.
//!
//! The form is that of its snapshot files: for each library the byte 245 and its text as a string, which may be compressed
//! (LZF); then the version of the format in 16 bits and a CRC-64 of all that stands before. It is foreign when it comes
//! back: nothing is reserved for what a length claims, and libraries are loaded before any takes the place of another.

use std::sync::Arc;

use super::function::publish;
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::lua::evaluate;
use crate::lua::flags::library_name;
use crate::lua::scripts::Libraries;
use crate::request::Request;

/// What stands before each library.
const LIBRARY: u8 = 245;
/// The version of the form that is written, and the newest that is read.
const VERSION: u16 = 11;

/// FUNCTION DUMP
pub fn dump(cx: &mut Cx<'_>) -> Outcome {
    let mut payload = Vec::new();
    for library in cx.engine.scripts.libraries().iter() {
        payload.push(LIBRARY);
        push_len(&mut payload, library.code.len());
        payload.extend_from_slice(&library.code);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    cx.reply().bulk(&payload);
    Ok(())
}

fn push_len(payload: &mut Vec<u8>, len: usize) {
    match (len, u32::try_from(len)) {
        (0..=0x3f, _) => payload.push(len as u8),
        (0x40..=0x3fff, _) => payload.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        (_, Ok(len)) => {
            payload.push(0x80);
            payload.extend_from_slice(&len.to_be_bytes());
        }
        (_, Err(_)) => {
            payload.push(0x81);
            payload.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
}

/// What becomes of libraries that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

/// FUNCTION RESTORE serialized-value \[FLUSH | APPEND | REPLACE\]
pub fn restore(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    if request.len() > 4 {
        return Err(Error::subcommand_syntax("FUNCTION", request.arg(1)));
    }
    let policy = match request.args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") => Policy::Append,
        Some(b"replace") => Policy::Replace,
        Some(b"flush") => Policy::Flush,
        Some(_) => {
            return Err(Error::fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let codes = codes_of(checked(request.arg(2))?)?;
    let mut libraries = if policy == Policy::Flush { Libraries::default() } else { cx.engine.scripts.libraries() };
    let mut restored = Libraries::default();
    for code in codes {
        let name = library_name(&code)?;
        let is_taken = policy == Policy::Append && libraries.get(&name).is_some();
        if is_taken || restored.get(&name).is_some() {
            return Err(Error::new(format!("ERR Library {name} already exists")));
        }
        let library = evaluate::load_library(cx, &code)?;
        if let Some(function) = restored.collision(&library) {
            return Err(Error::new(format!("ERR Function {function} already exists")));
        }
        restored.insert(library);
    }
    for library in restored.iter() {
        libraries.remove(&library.name);
    }
    for library in restored.iter() {
        if let Some(function) = libraries.collision(library) {
            return Err(Error::new(format!("ERR Function {function} already exists")));
        }
    }
    restored.iter().for_each(|library| libraries.insert(Arc::clone(library)));
    publish(cx, libraries);
    cx.reply().ok();
    Ok(())
}

/// The libraries' part of a payload whose version and sum are right.
fn checked(payload: &[u8]) -> Result<&[u8], Error> {
    const WRONG: Error = Error::fixed("ERR DUMP payload version or checksum are wrong");
    let (summed, sum) = payload.split_last_chunk::<8>().ok_or(WRONG)?;
    let (body, version) = summed.split_last_chunk::<2>().ok_or(WRONG)?;
    if u16::from_le_bytes(*version) > VERSION || crc64(summed) != u64::from_le_bytes(*sum) {
        return Err(WRONG);
    }
    Ok(body)
}

/// The texts of the libraries.
fn codes_of(mut body: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    const WRONG: Error = Error::fixed("ERR given type is not a function");
    let mut codes = Vec::new();
    while let Some((&kind, rest)) = body.split_first() {
        if kind != LIBRARY {
            return Err(WRONG);
        }
        let (code, rest) = string_of(rest).ok_or(Error::fixed("ERR Failed loading library data"))?;
        codes.push(code);
        body = rest;
    }
    Ok(codes)
}

/// A string, plain or compressed, and what follows it.
fn string_of(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first == 0xc3 {
        let (packed, rest) = len_of(rest)?;
        let (len, rest) = len_of(rest)?;
        let (packed, rest) = rest.split_at_checked(packed)?;
        return Some((unpack(packed, len)?, rest));
    }
    let (len, rest) = len_of(bytes)?;
    let (text, rest) = rest.split_at_checked(len)?;
    Some((text.to_vec(), rest))
}

fn len_of(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    match first {
        0..=0x3f => Some((usize::from(first), rest)),
        0x40..=0x7f => {
            let (&low, rest) = rest.split_first()?;
            Some((usize::from(first & 0x3f) << 8 | usize::from(low), rest))
        }
        0x80 => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((u32::from_be_bytes(*len) as usize, rest))
        }
        0x81 => {
            let (len, rest) = rest.split_first_chunk()?;
            Some((usize::try_from(u64::from_be_bytes(*len)).ok()?, rest))
        }
        _ => None,
    }
}

/// LZF: runs of plain bytes, and references to what was unpacked before. Grows with what it is given: a reference of three
/// bytes makes at most 264.
fn unpack(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while let Some((&control, rest)) = packed.split_first() {
        let control = usize::from(control);
        if control < 32 {
            let (plain, rest) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(plain);
            packed = rest;
        } else {
            let (more, rest) = if control >> 5 == 7 {
                let (&more, rest) = rest.split_first()?;
                (usize::from(more), rest)
            } else {
                (0, rest)
            };
            let (&low, rest) = rest.split_first()?;
            let back = ((control & 31) << 8 | usize::from(low)) + 1;
            let start = out.len().checked_sub(back)?;
            (start..start + (control >> 5) + more + 2).for_each(|index| out.push(out[index]));
            packed = rest;
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// CRC-64 with the polynomial of Jones, reflected, as in Redis's files.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u64::from(byte), |sum, _| sum >> 1 ^ (POLYNOMIAL & 0_u64.wrapping_sub(sum & 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_and_the_lengths_are_those_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert!(checked(b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda").is_ok_and(<[u8]>::is_empty));
        for len in [0, 63, 64, 16_383, 16_384, 1 << 20] {
            let mut bytes = Vec::new();
            push_len(&mut bytes, len);
            assert_eq!(len_of(&bytes), Some((len, [].as_slice())));
        }
    }

    #[test]
    fn packed_strings_are_unpacked_with_care() {
        assert_eq!(unpack(b"\x00a\xe0\x03\x00", 13), Some(b"a".repeat(13)));
        for (bytes, len) in [(b"\x05a".as_slice(), 6), (b"\x20\x05", 3), (b"\x00a\xe0", 13), (b"\x00a", 5)] {
            assert_eq!(unpack(bytes, len), None);
        }
    }
}
