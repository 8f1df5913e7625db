//! A sorted set: distinct members, each with a score, in the order of scores and of names where scores are equal.
//!
//! A sorted set is one pack while it is small, and a table with an order of its entries beyond (see `packed` and `large`).
//! The limits of a small set are an argument of the changes that can make it larger. A set that has become large stays so, as
//! in Redis; only commands that store a result ask for a fresh decision. Here are no keys and no commands. Ranks count from
//! the least score.

pub mod branch;
pub mod large;
pub mod leaf;
pub mod order;
pub mod packed;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::memory::prefetch::PrefetchStep;
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::value::capture::open_value::{OpenValue, Outline};
use crate::value::capture::source::Budget;
use crate::value::collection::{Collection, MemberPlace};
use crate::value::form::Form;
use crate::value::key_hash::HashKey;
use crate::value::{Encoding, Kind, ValueRef};
use large::Ranked;
use leaf::{Target, sortable};
use order::Span;

/// The room of a new set before it asks for memory again, in bytes.
const FIRST_BYTES: usize = 126;

/// The limits up to which a sorted set is packed.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetLimits {
    /// The most members.
    pub entries_max: usize,
    /// The longest member in bytes.
    pub value_max: usize,
}

/// The value of a key of type sorted set.
#[derive(Clone)]
pub struct SortedSet {
    hash_key: HashKey,
    members: Members,
}

#[derive(Clone)]
enum Members {
    Packed(Pack<Forwards>),
    Ranked(Box<Ranked>),
}

/// A [`SortedSet`] to be read.
#[derive(Clone, Copy)]
pub struct SortedSetRef<'a>(View<'a>);

#[derive(Clone, Copy)]
enum View<'a> {
    Packed(Packed<'a, Forwards>),
    Ranked(&'a Ranked),
}

/// An end of a range of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameBound<'k> {
    /// Below every name.
    Least,
    /// Above every name.
    Most,
    /// This name, itself included.
    Inclusive(&'k [u8]),
    /// This name, itself excluded.
    Exclusive(&'k [u8]),
}

/// A range of names. It has a meaning only if all scores are equal; otherwise the result is the one that Redis gives.
#[derive(Clone, Copy, Debug)]
pub struct NameRange<'k> {
    /// The beginning of the range.
    pub least: NameBound<'k>,
    /// The end of the range.
    pub most: NameBound<'k>,
}

impl NameRange<'_> {
    fn is_empty(&self) -> bool {
        use NameBound::{Exclusive, Inclusive, Least, Most};
        match (self.least, self.most) {
            (Most, _) | (_, Least) => true,
            (Least, _) | (_, Most) => false,
            (Inclusive(least), Inclusive(most)) => least > most,
            (Inclusive(least) | Exclusive(least), Inclusive(most) | Exclusive(most)) => least >= most,
        }
    }

    fn begins_before(&self, name: ValueRef<'_>) -> bool {
        match self.least {
            NameBound::Least => true,
            NameBound::Most => false,
            NameBound::Inclusive(least) => packed::compare_names(name, least) != Ordering::Less,
            NameBound::Exclusive(least) => packed::compare_names(name, least) == Ordering::Greater,
        }
    }

    fn ends_behind(&self, name: ValueRef<'_>) -> bool {
        match self.most {
            NameBound::Least => false,
            NameBound::Most => true,
            NameBound::Inclusive(most) => packed::compare_names(name, most) != Ordering::Greater,
            NameBound::Exclusive(most) => packed::compare_names(name, most) == Ordering::Less,
        }
    }
}

impl SortedSet {
    /// Returns an empty set that is packed if `count` members of which one has `length` bytes may be.
    pub fn with_room(hash_key: HashKey, count: usize, length: usize, limits: SortedSetLimits) -> Self {
        let mut set = <Self as Collection>::new(hash_key);
        if count > limits.entries_max || length > limits.value_max {
            set.unpack();
        }
        set
    }

    /// Announces `count` members at once: a packed set is unpacked if all of them would be too many.
    pub fn prepare(&mut self, count: usize, limits: SortedSetLimits) {
        if count > limits.entries_max {
            self.unpack();
        }
    }

    /// Gives a member a score, which is a number; returns its former score.
    pub fn set(&mut self, name: &[u8], score: f64, limits: SortedSetLimits) -> Option<f64> {
        if let Members::Packed(pack) = &mut self.members {
            let found = packed::find(pack.as_packed(), name);
            if let Some((offset, old)) = found {
                if old != score {
                    pack.remove_range(offset, 2);
                    packed::insert(pack, name, score);
                }
                return Some(old);
            }
            if pack.len() / 2 < limits.entries_max && name.len() <= limits.value_max {
                packed::insert(pack, name, score);
                return None;
            }
        }
        self.unpack().set(name, score)
    }

    /// Removes a member; returns its score.
    pub fn remove(&mut self, name: &[u8]) -> Option<f64> {
        match &mut self.members {
            Members::Ranked(ranked) => ranked.remove(name),
            Members::Packed(pack) => {
                let (offset, score) = packed::find(pack.as_packed(), name)?;
                pack.remove_range(offset, 2);
                Some(score)
            }
        }
    }

    /// Removes the members with these ranks.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        match &mut self.members {
            Members::Ranked(ranked) => ranked.remove_ranks(ranks.start, ranks.len()),
            Members::Packed(pack) => {
                if let Some(offset) = pack.as_packed().offset_of(ranks.start.saturating_mul(2)) {
                    pack.remove_range(offset, ranks.len().saturating_mul(2));
                }
            }
        }
    }

    /// Packs the set if it is small enough: for results of commands that store.
    pub fn settle(&mut self, limits: SortedSetLimits) {
        if let Members::Packed(pack) = &mut self.members {
            return pack.shrink_to_fit();
        }
        let set = self.as_ref();
        let mut longest = 0;
        if set.len() <= limits.entries_max {
            set.visit(0..set.len(), false, |name, _| longest = longest.max(name.len()));
        }
        if set.len() > limits.entries_max || longest > limits.value_max {
            return;
        }
        let mut pack = Pack::new();
        set.visit(0..set.len(), false, |name, score| packed::insert(&mut pack, name_bytes(name), score));
        pack.shrink_to_fit();
        self.members = Members::Packed(pack);
    }

    fn unpack(&mut self) -> &mut Ranked {
        if let Members::Packed(pack) = &self.members {
            let mut ranked = Ranked::new(self.hash_key);
            let mut digits = crate::value::Digits::default();
            for (name, score) in packed::pairs(pack.as_packed()) {
                ranked.set(name.bytes(&mut digits), score);
            }
            self.members = Members::Ranked(Box::new(ranked));
        }
        self.members.ranked_mut().expect("it has just been unpacked")
    }
}

impl Members {
    fn ranked_mut(&mut self) -> Option<&mut Ranked> {
        match self {
            Self::Ranked(ranked) => Some(ranked),
            Self::Packed(_) => None,
        }
    }
}

/// Returns the name of a member of a table.
fn name_bytes(name: ValueRef<'_>) -> &[u8] {
    match name {
        ValueRef::Bytes(bytes) => bytes,
        ValueRef::Integer(_) => &[],
    }
}

impl<'a> SortedSetRef<'a> {
    /// Returns the number of members.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            View::Packed(packed) => packed.len() / 2,
            View::Ranked(ranked) => ranked.len(),
        }
    }

    /// Returns whether there is no member.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the pack, if the set is packed.
    pub fn packed(self) -> Option<Packed<'a, Forwards>> {
        match self.0 {
            View::Packed(packed) => Some(packed),
            View::Ranked(_) => None,
        }
    }

    /// Returns the score of a member.
    #[inline]
    pub fn score(self, name: &[u8]) -> Option<f64> {
        match self.0 {
            View::Packed(packed) => packed::find(packed, name).map(|(_, score)| score),
            View::Ranked(ranked) => ranked.score(name),
        }
    }

    /// Returns rank and score of a member.
    pub fn rank(self, name: &[u8]) -> Option<(usize, f64)> {
        match self.0 {
            View::Ranked(ranked) => ranked.rank(name),
            View::Packed(packed) => {
                let mut all = packed::pairs(packed).enumerate();
                let is_it = |other: ValueRef<'_>| packed::compare_names(other, name) == Ordering::Equal;
                all.find(|(_, (other, _))| is_it(*other)).map(|(rank, (_, score))| (rank, score))
            }
        }
    }

    /// Returns the member with this rank, and its score.
    pub fn get(self, rank: usize) -> Option<(ValueRef<'a>, f64)> {
        match self.0 {
            View::Packed(packed) => packed::pairs(packed).nth(rank),
            View::Ranked(ranked) => ranked.get(rank).map(|(name, score)| (ValueRef::Bytes(name), score)),
        }
    }

    /// Returns how many members have a lower score than this one, or the same if `or_equal`.
    pub fn count_below(self, score: f64, or_equal: bool) -> usize {
        match self.0 {
            View::Packed(packed) => {
                packed::count_while(packed, |_, other| other < score || (or_equal && other == score))
            }
            View::Ranked(ranked) => ranked.count_before(&Target::Score { sortable: sortable(score), behind: or_equal }),
        }
    }

    /// Returns the ranks of a range of names. Where scores differ, the range is found by walking from the first member, or
    /// from the last if `is_reverse`, as Redis does it in a packed set.
    pub fn ranks_of_names(self, range: &NameRange<'_>, is_reverse: bool) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        match self.0 {
            View::Ranked(ranked) => {
                let start = ranked.count_before(&target(range.least, false));
                start..ranked.count_before(&target(range.most, true)).max(start)
            }
            View::Packed(packed) => packed_ranks(packed, range, is_reverse).unwrap_or(0..0),
        }
    }

    /// Shows the members with these ranks, from the first or, if `is_reverse`, from the last of them on.
    pub fn visit(self, ranks: Range<usize>, is_reverse: bool, mut show: impl FnMut(ValueRef<'a>, f64)) {
        let len = self.len();
        let ranks = ranks.start..ranks.end.min(len);
        match self.0 {
            View::Ranked(ranked) => {
                let start = if is_reverse { len - ranks.end } else { ranks.start };
                let span = Span { start, count: ranks.len(), is_reverse };
                ranked.visit(span, &mut |name, score| show(ValueRef::Bytes(name), score));
            }
            View::Packed(packed) => {
                let pairs = packed::pairs(packed).skip(ranks.start).take(ranks.len());
                let mut show = |(name, score)| show(name, score);
                if is_reverse {
                    // A pack can only be walked forwards.
                    pairs.collect::<Vec<_>>().into_iter().rev().for_each(&mut show);
                } else {
                    pairs.for_each(&mut show);
                }
            }
        }
    }

    /// Takes one step of a walk in no particular order: shows about `wanted` members from `cursor` on, all of them if the set
    /// is packed, and returns the next cursor, or 0 at the end. A member that stays is shown exactly once.
    pub fn walk(self, cursor: u64, wanted: usize, mut show: impl FnMut(ValueRef<'a>, f64)) -> u64 {
        match self.0 {
            View::Ranked(ranked) => ranked.walk(cursor, wanted, |name, score| show(ValueRef::Bytes(name), score)),
            View::Packed(packed) => {
                packed::pairs(packed).for_each(|(name, score)| show(name, score));
                0
            }
        }
    }
}

fn target(bound: NameBound<'_>, is_end: bool) -> Target<'_> {
    match bound {
        NameBound::Least => Target::Score { sortable: 0, behind: false },
        NameBound::Most => Target::Score { sortable: u64::MAX, behind: true },
        NameBound::Inclusive(name) => Target::Name { name, behind: is_end },
        NameBound::Exclusive(name) => Target::Name { name, behind: !is_end },
    }
}

fn packed_ranks(packed: Packed<'_, Forwards>, range: &NameRange<'_>, is_reverse: bool) -> Option<Range<usize>> {
    let (first, last) = (packed::pairs(packed).next()?.0, packed::last(packed)?.0);
    if !range.begins_before(last) || !range.ends_behind(first) {
        return None;
    }
    let names = packed::pairs(packed).map(|(name, _)| name);
    if is_reverse {
        // The ranks that end with the last name before the range's end, and begin behind the last one before its beginning.
        let (mut start, mut ranks) = (0, 0..0);
        for (rank, name) in names.enumerate() {
            if !range.begins_before(name) {
                start = rank + 1;
            }
            if range.ends_behind(name) {
                ranks = start..rank + 1;
            }
        }
        return Some(ranks);
    }
    let start = names.clone().take_while(|name| !range.begins_before(*name)).count();
    let inside = names.skip(start).take_while(|name| range.ends_behind(*name)).count();
    Some(start..start + inside)
}

impl Collection for SortedSet {
    const KIND: Kind = Kind::SortedSet;

    type Ref<'a> = SortedSetRef<'a>;

    fn new(hash_key: HashKey) -> Self {
        Self { hash_key, members: Members::Packed(Pack::with_room_behind(FIRST_BYTES)) }
    }

    fn is_empty(&self) -> bool {
        self.as_ref().is_empty()
    }

    fn packed(&self) -> Option<(Form, &[u8])> {
        match &self.members {
            Members::Packed(pack) => Some((Form::PackedSortedSet, pack.as_bytes())),
            Members::Ranked(_) => None,
        }
    }

    fn from_packed(hash_key: HashKey, _form: Form, bytes: Vec<u8>) -> Self {
        Self { hash_key, members: Members::Packed(Pack::from_bytes(bytes)) }
    }

    fn into_buffer(self) -> Option<Vec<u8>> {
        match self.members {
            Members::Packed(pack) => Some(pack.into_buffer()),
            Members::Ranked(_) => None,
        }
    }

    fn view(form: Form, bytes: &[u8]) -> Option<SortedSetRef<'_>> {
        (form == Form::PackedSortedSet).then(|| SortedSetRef(View::Packed(Packed::new(bytes))))
    }

    fn as_ref(&self) -> SortedSetRef<'_> {
        SortedSetRef(match &self.members {
            Members::Packed(pack) => View::Packed(pack.as_packed()),
            Members::Ranked(ranked) => View::Ranked(ranked),
        })
    }

    fn place_of(&self, member: &[u8]) -> Option<MemberPlace> {
        match &self.members {
            Members::Packed(_) => None,
            Members::Ranked(ranked) => Some(MemberPlace::At(ranked.position(member))),
        }
    }

    fn prefetch(&self, place: MemberPlace, step: PrefetchStep) {
        if let (Members::Ranked(ranked), MemberPlace::At(position)) = (&self.members, place) {
            ranked.prefetch(position, step);
        }
    }

    fn encoding(&self) -> Encoding {
        match &self.members {
            Members::Packed(_) => Encoding::Listpack,
            Members::Ranked(_) => Encoding::Skiplist,
        }
    }

    fn memory(&self) -> usize {
        match &self.members {
            Members::Packed(pack) => pack.memory_bytes(),
            Members::Ranked(ranked) => size_of::<Ranked>() + ranked.memory(),
        }
    }

    fn outline(&self) -> Outline {
        let parts = match &self.members {
            Members::Packed(_) => 0,
            Members::Ranked(ranked) => ranked.len(),
        };
        Outline { parts, walks: 1, extra: None }
    }

    fn open(&mut self, open_value: &Arc<OpenValue>) {
        if let Members::Ranked(ranked) = &mut self.members {
            ranked.open(open_value);
        }
    }

    fn open_value(&self) -> Option<&Arc<OpenValue>> {
        match &self.members {
            Members::Packed(_) => None,
            Members::Ranked(ranked) => ranked.open_value(),
        }
    }

    fn capture_more(&mut self, budget: &mut Budget) {
        if let Members::Ranked(ranked) = &mut self.members {
            ranked.capture_more(budget);
        }
    }
}
