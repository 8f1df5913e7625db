//! Conditions on the string at a key: that it equals a given one or not, or has a given digest or not. SET, DELEX and DELIFEQ
//! check the condition under the lock under which they change the key.
//!
//! The digest is XXH3 with 64 bits, as in Redis 8.4, in 16 hexadecimal digits. It distinguishes values that changed by
//! accident; a client that chooses values can find two with the same digest.

use sleeve_store::Digits;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::Opt;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The condition on the string at a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition<'a> {
    /// The operand is a digest.
    by_digest: bool,
    /// The condition demands equality; otherwise it demands a difference.
    wants_same: bool,
    operand: &'a [u8],
}

impl<'a> Condition<'a> {
    /// Returns the condition that the word names, with its operand; None if the word names none.
    pub fn named(word: &[u8], operand: &'a [u8]) -> Option<Self> {
        let (by_digest, wants_same) = match word {
            _ if word.eq_ignore_ascii_case(b"ifeq") => (false, true),
            _ if word.eq_ignore_ascii_case(b"ifne") => (false, false),
            _ if word.eq_ignore_ascii_case(b"ifdeq") => (true, true),
            _ if word.eq_ignore_ascii_case(b"ifdne") => (true, false),
            _ => return None,
        };
        Some(Self { by_digest, wants_same, operand })
    }

    /// Returns whether a value meets the condition.
    ///
    /// # Errors
    /// The operand should be a digest and is none.
    fn holds(&self, value: &[u8]) -> Result<bool, Error> {
        let is_same = if !self.by_digest {
            self.operand == value
        } else if self.operand.len() == DIGEST_DIGITS {
            self.operand.eq_ignore_ascii_case(&digest_of(value))
        } else {
            return Err(Error::fixed("ERR must be exactly 16 hexadecimal characters"));
        };
        Ok(is_same == self.wants_same)
    }

    /// Returns whether a missing key meets the condition: it differs from every value.
    pub fn holds_without(&self) -> bool {
        !self.wants_same
    }

    /// Reads a key, and returns whether its string meets the condition.
    ///
    /// # Errors
    /// The key holds another type; the operand should be a digest and is none.
    pub fn holds_at(&self, cx: &mut Cx<'_>, key: Key<'_>) -> Result<bool, Error> {
        let mut digits = Digits::default();
        match cx.read_string(key)? {
            Some(entry) => self.holds(entry.value().bytes(&mut digits)),
            None => Ok(self.holds_without()),
        }
    }
}

/// The number of hexadecimal digits of a digest.
const DIGEST_DIGITS: usize = 16;

/// Returns the digest of a value in hexadecimal digits.
fn digest_of(value: &[u8]) -> [u8; DIGEST_DIGITS] {
    let digest = xxh3_64(value);
    std::array::from_fn(|place| b"0123456789abcdef"[(digest >> (60 - 4 * place)) as usize & 15])
}

/// DIGEST key
pub fn digest(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let mut digits = Digits::default();
    let digest = cx.read_string(request.key(0))?.map(|entry| digest_of(entry.value().bytes(&mut digits)));
    match digest {
        Some(digest) => cx.reply().bulk(&digest),
        None => cx.reply().null(),
    }
    Ok(())
}

/// DELEX key \[IFEQ value | IFNE value | IFDEQ digest | IFDNE digest\]
pub fn delex(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    let conditional = match request.len() {
        2 => false,
        4 => true,
        _ => return Err(Error::arity(request.row.name)),
    };
    let is_met = if conditional { meets_condition(cx, request)? } else { cx.peek(key).is_some() };
    remove_if(cx, key, is_met);
    Ok(())
}

/// Returns whether the string at the key of DELEX meets its condition. The errors say more than those of other commands.
fn meets_condition(cx: &mut Cx<'_>, request: Request<'_>) -> Result<bool, Error> {
    let mut digits = Digits::default();
    let Some(entry) = cx.read(request.key(0)) else { return Ok(false) };
    if !entry.is_string() {
        return Err(Error::fixed("ERR Key should be of string type if conditions are specified"));
    }
    let condition = Condition::named(request.arg(2), request.arg(3))
        .ok_or(Error::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?;
    condition.holds(entry.value().bytes(&mut digits))
}

/// DELIFEQ key value
pub fn delifeq(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, mut digits) = (request.key(0), Digits::default());
    let condition = Condition { by_digest: false, wants_same: true, operand: request.arg(2) };
    let is_met = match cx.look_string(key)? {
        Some(entry) => condition.holds(entry.value().bytes(&mut digits))?,
        None => false,
    };
    remove_if(cx, key, is_met);
    Ok(())
}

/// Removes an existing key if its condition is met, and replies with the number of removed keys.
fn remove_if(cx: &mut Cx<'_>, key: Key<'_>, is_met: bool) {
    if is_met {
        cx.remove(key, Opt::LazyfreeLazyUserDel);
        cx.notify(EventClass::Generic, "del", key);
        cx.record(&[b"DEL", key.name]);
    }
    cx.reply().integer(i64::from(is_met));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_redis() {
        let digest = |value: &[u8]| String::from_utf8_lossy(&digest_of(value)).into_owned();
        assert_eq!(digest(b""), "2d06800538d394c2");
        assert_eq!(digest(b"v"), "f7042be43fb80714");
        assert_eq!(digest(b"12345"), "f34099ede96b5581");
    }
}
