//! Reading packed collections: the listpacks of today, and what came before them.

use super::super::bad::Bad;
use super::super::scan::Source;
use super::super::{kind, old};
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::value::{Digits, ValueRef};

/// A listpack, every byte of which is right.
pub(super) fn packed(input: &mut impl Source) -> Result<Pack, Bad> {
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
    kind: u8,
    mut show: impl FnMut([&[u8]; N]) -> Result<(), Bad>,
) -> Result<(), Bad> {
    if let kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::SORTED_SET_ZIPLIST = kind {
        let mut scratch = Vec::new();
        let bytes = input.string(&mut scratch)?;
        let elements = if kind == kind::HASH_ZIPMAP { old::zipmap(bytes) } else { old::ziplist(bytes) };
        let elements = elements.map_err(|_| Bad::Packed)?;
        let (groups, []) = elements.as_chunks::<N>() else { return Err(Bad::Packed) };
        return groups.iter().try_for_each(|group| show(group.each_ref().map(AsRef::as_ref)));
    }
    for_each_group_of(packed(input)?.as_packed(), show)
}

/// Shows the elements of a pack in groups of `N`.
pub(super) fn for_each_group_of<const N: usize>(
    packed: Packed<'_>,
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
