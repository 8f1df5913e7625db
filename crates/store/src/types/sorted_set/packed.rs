//! A small sorted set: members and their scores in turn, in one pack, in order.
//!
//! A score that is a whole number is packed as one; others are text with the fewest digits that read back the same, as in the
//! listpack of Redis. Each lookup walks from the first member on: there are a hundred or so. These functions take packs with
//! trusted bytes; usable from any thread.

use std::cmp::Ordering;

use crate::packed::listpack::{Elements, Packed};
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::value::{Digits, ValueRef};

/// The largest magnitude up to which whole scores are packed as integers, as in Redis.
const WHOLE_MAX: f64 = 4_611_686_018_427_387_904.0;

/// The number of digits that express any score exactly.
const DIGITS_MAX: usize = 17;

/// The members with their scores.
#[derive(Clone, Copy)]
pub(crate) struct Pairs<'a>(Elements<'a, Forwards>);

/// Returns the members of `packed` in order.
pub(crate) fn pairs(packed: Packed<'_, Forwards>) -> Pairs<'_> {
    Pairs(packed.iter())
}

/// Returns the last member. No score but its own is read.
pub(crate) fn last(packed: Packed<'_, Forwards>) -> Option<(ValueRef<'_>, f64)> {
    let offset = packed.walk().step_by(2).last()?;
    Pairs(packed.iter_from(offset)).next()
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (ValueRef<'a>, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.next()?;
        Some((name, score_of(self.0.next()?)))
    }

    #[inline]
    fn nth(&mut self, skipped: usize) -> Option<Self::Item> {
        let name = self.0.nth(skipped.saturating_mul(2))?;
        Some((name, score_of(self.0.next()?)))
    }
}

/// Reads a packed score.
fn score_of(value: ValueRef<'_>) -> f64 {
    match value {
        ValueRef::Integer(number) => number as f64,
        ValueRef::Bytes(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0),
    }
}

/// Returns the order of two names as bytes.
#[inline]
pub(crate) fn compare_names(name: ValueRef<'_>, other: &[u8]) -> Ordering {
    match name {
        ValueRef::Bytes(bytes) => bytes.cmp(other),
        ValueRef::Integer(number) => Digits::default().write(number).cmp(other),
    }
}

/// Returns the offset of a member, and its score.
pub(crate) fn find(packed: Packed<'_, Forwards>, name: &[u8]) -> Option<(usize, f64)> {
    let offset = packed.find(name, 1)?;
    let (score, _) = packed.read(packed.after(offset))?;
    Some((offset, score_of(score)))
}

/// Adds a member that is not there yet.
pub(crate) fn insert(pack: &mut Pack<Forwards>, name: &[u8], score: f64) {
    let offset = place_of(pack.as_packed(), name, score);
    let offset = pack.insert_at(offset, name);
    insert_score(pack, offset, score);
}

/// Returns where the first member begins that is not before this one.
fn place_of(packed: Packed<'_, Forwards>, name: &[u8], score: f64) -> usize {
    // Scores often come in order: then the place is behind the last member.
    if last(packed).is_none_or(|last| is_before(last, name, score)) {
        return packed.bytes_len();
    }
    let mut at = packed.iter();
    loop {
        let offset = at.offset();
        let (Some(other), Some(value)) = (at.next(), at.next()) else { return offset };
        if !is_before((other, score_of(value)), name, score) {
            return offset;
        }
    }
}

/// Returns whether each member stands behind the one before it, with its score as [`insert`] writes it.
pub(crate) fn are_in_order(packed: Packed<'_, Forwards>) -> bool {
    let (mut elements, mut digits, mut before) = (packed.iter(), Digits::default(), None);
    while let Some(name) = elements.next() {
        let Some(score) = elements.next().and_then(written_score) else { return false };
        if before.is_some_and(|before| !is_before(before, name.bytes(&mut digits), score)) {
            return false;
        }
        before = Some((name, score));
    }
    true
}

/// Returns a score from a file, if the file has it in the form in which it would be written here.
fn written_score(value: ValueRef<'_>) -> Option<f64> {
    let is_whole = |score: f64| score.fract() == 0.0 && score.abs() <= WHOLE_MAX;
    match value {
        ValueRef::Integer(number) => Some(number as f64).filter(|&score| is_whole(score) && score as i64 == number),
        ValueRef::Bytes(text) => {
            let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            // Redis 7.0 writes seventeen digits even if fewer read back the same.
            let is_short = text.len() < DIGITS_MAX || text_of(score).len() == text.len();
            (is_short && !is_whole(score) && !score.is_nan()).then_some(score)
        }
    }
}

fn is_before((other, value): (ValueRef<'_>, f64), name: &[u8], score: f64) -> bool {
    value < score || (value == score && compare_names(other, name) == Ordering::Less)
}

fn insert_score(pack: &mut Pack<Forwards>, offset: usize, score: f64) {
    if score.fract() == 0.0 && score.abs() <= WHOLE_MAX {
        pack.insert_at(offset, score as i64);
        return;
    }
    pack.insert_at(offset, text_of(score).as_bytes());
}

fn text_of(score: f64) -> String {
    let magnitude = score.abs();
    let is_short = magnitude.is_infinite() || (1e-5..1e17).contains(&magnitude);
    if is_short { format!("{score}") } else { format!("{score:e}") }
}

/// Returns the number of members, from the first on, for which `is_before` returns true.
pub(crate) fn count_while(packed: Packed<'_, Forwards>, mut is_before: impl FnMut(ValueRef<'_>, f64) -> bool) -> usize {
    pairs(packed).take_while(|(name, score)| is_before(*name, *score)).count()
}
