//! Packed collections that are taken over as they stand in a file, because they would look the same had they been written here.
//!
//! Their bytes have been checked already, as elements; here it is checked that they are the elements of a collection: that
//! none stands there twice, that scores are in order, that the limits allow it. Where one of these is not so the pack is given
//! back, to be taken apart and put together element by element, which also finds out what is wrong.

use super::limits::Limits;
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::types::hash::Map;
use crate::types::list::List;
use crate::types::set::Set;
use crate::types::set::intset::IntegerSet;
use crate::types::sorted_set::SortedSet;
use crate::types::sorted_set::packed::are_in_order;
use crate::value::ValueRef;
use crate::value::collection::Collection;
use crate::value::form::Form;
use crate::value::key_hash::HashKey;

/// The hash whose fields and values these are, in turn.
pub(super) fn hash(pack: Pack, limits: &Limits) -> Result<Map, Pack> {
    let packed = pack.as_packed();
    let is_one = packed.len().is_multiple_of(2)
        && is_small(packed, limits.hash.entries_max.saturating_mul(2), limits.hash.value_bytes_max)
        && are_distinct(packed, 2, limits.hash_key);
    if is_one { Ok(Map::from_packed(limits.hash_key, Form::PackedHash, pack.into_run())) } else { Err(pack) }
}

/// The set whose members these are. Nothing but integers would be another form of set.
pub(super) fn set(pack: Pack, limits: &Limits) -> Result<Set, Pack> {
    let packed = pack.as_packed();
    let is_one = is_small(packed, limits.set.packed_max, limits.set.packed_value_max)
        && packed.iter().any(|member| matches!(member, ValueRef::Bytes(_)))
        && are_distinct(packed, 1, limits.hash_key);
    if is_one { Ok(Set::from_packed(limits.hash_key, Form::PackedSet, pack.into_run())) } else { Err(pack) }
}

/// The set of these integers.
pub(super) fn integer_set(integers: IntegerSet, limits: &Limits) -> Result<Set, IntegerSet> {
    if integers.as_integers().len() > limits.set.integers_max {
        return Err(integers);
    }
    Ok(Set::from_packed(limits.hash_key, Form::PackedIntegers, integers.into_buffer()))
}

/// The sorted set whose members and scores these are, in turn.
pub(super) fn sorted_set(pack: Pack, limits: &Limits) -> Result<SortedSet, Pack> {
    let packed = pack.as_packed();
    let is_one = is_small(packed, limits.sorted_set.entries_max.saturating_mul(2), limits.sorted_set.value_max)
        && are_in_order(packed)
        && are_distinct(packed, 2, limits.hash_key);
    if is_one { Ok(SortedSet::from_packed(limits.hash_key, Form::PackedSortedSet, pack.into_run())) } else { Err(pack) }
}

/// The list of these packs, where none is larger than it would be here.
pub(super) fn list(packs: Vec<Pack>, limits: &Limits) -> Result<List, Vec<Pack>> {
    if packs.iter().all(|pack| limits.list.allows_pack(pack.as_packed())) {
        return Ok(List::from_packs(packs, limits.list));
    }
    Err(packs)
}

/// Whether there are no more elements than that, none of them longer.
fn is_small(packed: Packed<'_>, elements_max: usize, longest: usize) -> bool {
    packed.len() <= elements_max && packed.iter().all(|element| element.len() <= longest)
}

fn are_distinct(packed: Packed<'_>, stride: usize, key: HashKey) -> bool {
    packed.are_distinct(stride, |element| key.hash(element).0)
}
