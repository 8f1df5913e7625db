//! How long a record is, without reading what is in it: the lengths that stand in it lead from part to part.
//!
//! A file is cut into records by one thread at a time and read by several. What cannot be measured so is no error here: the
//! bytes may end too soon, or be none of a type that there is, and whoever reads them properly says what is wrong. What can
//! be measured ends where [`read`](super::read) ends, unless the reading fails before. Plain functions, any thread.

use super::bad::Bad;
use super::kind;
use super::read::{Origin, no_producers};
use super::scan::{Input, Source};

/// Passes over a value of this type.
///
/// # Errors
/// [`Bad::End`] where there are not enough bytes, another where the value has no form that is known.
pub(super) fn pass_value(input: &mut Input<'_>, kind: u8, origin: Origin) -> Result<(), Bad> {
    match (kind, origin) {
        (kind::STRING, _) => string(input),
        (kind::LIST_ZIPLIST | kind::SET_INTSET | kind::SET_LISTPACK, _) => string(input),
        (kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK, _) => string(input),
        (kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK, _) => string(input),
        (kind::LIST | kind::LIST_QUICKLIST | kind::SET, _) => each(input, string),
        (kind::LIST_QUICKLIST_2, _) => each(input, |input| length(input).and_then(|()| string(input))),
        (kind::HASH, _) => each(input, |input| string(input).and_then(|()| string(input))),
        (kind::SORTED_SET, _) => each(input, |input| string(input).and_then(|()| bytes(input, 8))),
        (kind::SORTED_SET_TEXT, _) => each(input, |input| string(input).and_then(|()| score_text(input))),
        (kind::HASH_TIMED, Origin::Redis) => bytes(input, 8).and_then(|()| each(input, timed_field)),
        (kind::HASH_TIMED_EARLY, Origin::Redis) => each(input, timed_field),
        (kind::HASH_TIMED_LISTPACK, Origin::Redis) => bytes(input, 8).and_then(|()| string(input)),
        (kind::HASH_TIMED_LISTPACK_EARLY, Origin::Redis) => string(input),
        (kind::HASH_TIMED_VALKEY, Origin::Valkey) => each(input, |input| {
            string(input)?;
            string(input)?;
            bytes(input, 8)
        }),
        (kind::STREAM | kind::STREAM_2 | kind::STREAM_3, _) | (kind::STREAM_4, Origin::Redis) => stream(input, kind),
        _ => Err(Bad::Kind(kind)),
    }
}

fn string(input: &mut Input<'_>) -> Result<(), Bad> {
    input.stored().map(|_| ())
}

fn length(input: &mut Input<'_>) -> Result<(), Bad> {
    input.length().map(|_| ())
}

fn bytes(input: &mut Input<'_>, count: usize) -> Result<(), Bad> {
    input.take(count).map(|_| ())
}

/// As many parts as the length in front of them says. Each has at least one byte, so there are no more than bytes.
fn each(input: &mut Input<'_>, part: impl Fn(&mut Input<'_>) -> Result<(), Bad>) -> Result<(), Bad> {
    for _ in 0..input.length()? {
        part(input)?;
    }
    Ok(())
}

fn score_text(input: &mut Input<'_>) -> Result<(), Bad> {
    match input.byte()? {
        // Not a number, and the two infinities.
        253.. => Ok(()),
        length => bytes(input, usize::from(length)),
    }
}

fn timed_field(input: &mut Input<'_>) -> Result<(), Bad> {
    length(input)?;
    string(input)?;
    string(input)
}

/// Blocks, counters, and groups with what is pending and who reads.
fn stream(input: &mut Input<'_>, kind: u8) -> Result<(), Bad> {
    const ID_BYTES: usize = 16;
    let (counters, counters_of_group) = if kind == kind::STREAM { (3, 2) } else { (8, 3) };
    let seen_bytes = if kind >= kind::STREAM_3 { 16 } else { 8 };
    let lengths = |input: &mut Input<'_>, count: usize| (0..count).try_for_each(|_| length(input));
    each(input, |input| string(input).and_then(|()| string(input)))?;
    lengths(input, counters)?;
    each(input, |input| {
        string(input)?;
        lengths(input, counters_of_group)?;
        each(input, |input| bytes(input, ID_BYTES + 8).and_then(|()| length(input)))?;
        each(input, |input| {
            string(input)?;
            bytes(input, seen_bytes)?;
            each(input, |input| bytes(input, ID_BYTES))
        })
    })?;
    if kind == kind::STREAM_4 { no_producers(input) } else { Ok(()) }
}
