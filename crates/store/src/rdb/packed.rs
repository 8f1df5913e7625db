//! Reading packed collections: the listpacks of today, and their predecessors.
//!
//! Where a packed collection would look the same had it been written here, it is taken over as it stands in the file. Its
//! bytes have been checked already, as elements. Its type checks whether they are the elements of a collection: whether each
//! stands there once, scores are in order, the limits allow it. Where one of these is not so, the reader takes the pack apart
//! and puts it together element by element, which also finds the fault.

use super::bad::Bad;
use super::old;
use super::scan::Source;
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::packed::ways::{Forwards, Ways};
use crate::value::collection::Collection;
use crate::value::key_hash::HashKey;
use crate::value::{Digits, ValueRef};

/// The format of packed elements.
#[derive(Clone, Copy)]
pub(super) enum Packing {
    /// The listpack of Redis 7 and later.
    Listpack,
    /// The ziplist of Redis before version 7.
    Ziplist,
    /// The zipmap of the hashes of Redis 2.4.
    Zipmap,
}

/// Returns the collection, which must not be empty.
pub(super) fn filled<C: Collection>(collection: C) -> Result<C, Bad> {
    if collection.is_empty() { Err(Bad::Empty) } else { Ok(collection) }
}

/// Reads a listpack and checks every byte of it.
pub(super) fn packed<W: Ways>(input: &mut impl Source) -> Result<Pack<W>, Bad> {
    Pack::from_redis(input.string(&mut Vec::new())?).ok_or(Bad::Packed)
}

/// Shows the elements of a ziplist.
pub(super) fn for_each_of_ziplist(bytes: &[u8], show: impl FnMut(&[u8])) -> Result<(), Bad> {
    let elements = old::ziplist(bytes).map_err(|_| Bad::Packed)?;
    elements.iter().map(AsRef::as_ref).for_each(show);
    Ok(())
}

/// Shows the elements of a packed collection in groups of `N`.
pub(super) fn for_each_group<const N: usize>(
    input: &mut impl Source,
    packing: Packing,
    mut show: impl FnMut([&[u8]; N]) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let old = match packing {
        Packing::Listpack => return for_each_group_of(packed(input)?.as_packed(), show),
        Packing::Ziplist => old::ziplist,
        Packing::Zipmap => old::zipmap,
    };
    let mut scratch = Vec::new();
    let elements = old(input.string(&mut scratch)?).map_err(|_| Bad::Packed)?;
    let (groups, []) = elements.as_chunks::<N>() else { return Err(Bad::Packed) };
    groups.iter().try_for_each(|group| show(group.each_ref().map(AsRef::as_ref)))
}

/// Shows the elements of a pack in groups of `N`.
pub(super) fn for_each_group_of<const N: usize>(
    packed: Packed<'_, Forwards>,
    mut show: impl FnMut([&[u8]; N]) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let mut elements = packed.iter();
    if !packed.len().is_multiple_of(N) {
        return Err(Bad::Packed);
    }
    let mut digits: [Digits; N] = std::array::from_fn(|_| Digits::default());
    while let Some(first) = elements.next() {
        let group: [ValueRef<'_>; N] = std::array::from_fn(|at| match at {
            0 => first,
            _ => elements.next().unwrap_or(ValueRef::Bytes(&[])),
        });
        let mut digits = digits.iter_mut();
        show(group.each_ref().map(|element| match digits.next() {
            Some(digits) => element.bytes(digits),
            None => &[],
        }))?;
    }
    Ok(())
}

/// Returns whether there are at most `elements_max` elements, none of them longer than `longest`.
pub(super) fn is_small(packed: Packed<'_, Forwards>, elements_max: usize, longest: usize) -> bool {
    packed.len() <= elements_max && packed.iter().all(|element| element.len() <= longest)
}

/// Returns whether the first of every `stride` elements are distinct.
pub(super) fn are_distinct(packed: Packed<'_, Forwards>, stride: usize, key: HashKey) -> bool {
    packed.are_distinct(stride, |element| key.hash(element).0)
}
