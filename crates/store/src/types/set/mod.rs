//! A set: distinct strings in no order.
//!
//! A set of few integers is a sorted run of them (`intset`), a set of few other members a packed run (`listpack`), and every
//! other one a table with the members as its keys. It goes from one to the next when it outgrows the [`SetLimits`] that the
//! caller passes in, by the rules of Redis 7.2, and never goes back by itself. It knows neither keys nor commands. Plain
//! data; changed by the holder of its shard's lock.

pub mod intset;

use crate::memory::prefetch::PrefetchStep;
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::table::Table;
use crate::table::before_images::Recipient;
use crate::table::entry::body::Body;
use crate::table::entry::handle::EntryRef;
use crate::value::capture::open_value::{OpenValue, Outline};
use crate::value::capture::source::Budget;
use crate::value::collection::{Collection, MemberPlace};
use crate::value::form::Form;
use crate::value::key_hash::HashKey;
use crate::value::key_hash::Placement;
use crate::value::{Digits, Encoding, Kind, ValueRef};
use intset::{IntegerSet, Integers};
use std::iter;
use std::sync::Arc;

/// The size, in bytes, above which Redis keeps no listpack, at any limits.
const PACKED_BYTES_MAX: usize = 1 << 30;

/// The number of integers above which Redis keeps no sorted run, at any limits.
const INTEGERS_MAX: usize = 1 << 30;

/// The largest sizes at which a set is kept in a small encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// Most members of a sorted run of integers.
    pub integers_max: usize,
    /// Most members of a packed run.
    pub packed_max: usize,
    /// Longest member of a packed run, in bytes.
    pub packed_value_max: usize,
}

impl SetLimits {
    fn integers_max(&self) -> usize {
        self.integers_max.min(INTEGERS_MAX)
    }
}

/// The value of a key of type set.
#[derive(Clone)]
pub struct Set {
    members: Members,
    hash_key: HashKey,
}

#[derive(Clone)]
enum Members {
    Integers(IntegerSet),
    Packed(Pack<Forwards>),
    Table(Box<Table>),
}

/// A [`Set`] to be read.
#[derive(Clone, Copy)]
pub struct SetRef<'a>(Shown<'a>);

#[derive(Clone, Copy)]
enum Shown<'a> {
    Integers(Integers<'a>),
    Packed(Packed<'a, Forwards>),
    Table(&'a Table),
}

impl Collection for Set {
    const KIND: Kind = Kind::Set;

    type Ref<'a> = SetRef<'a>;

    fn new(hash_key: HashKey) -> Self {
        Self { members: Members::Integers(IntegerSet::new()), hash_key }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.as_ref().is_empty()
    }

    #[inline]
    fn packed(&self) -> Option<(Form, &[u8])> {
        match &self.members {
            Members::Integers(integers) => Some((Form::PackedIntegers, integers.as_bytes())),
            Members::Packed(pack) => Some((Form::PackedSet, pack.as_bytes())),
            Members::Table(_) => None,
        }
    }

    fn from_packed(hash_key: HashKey, form: Form, bytes: Vec<u8>) -> Self {
        let members = match form {
            Form::PackedIntegers => Members::Integers(IntegerSet::from_bytes(bytes)),
            _ => Members::Packed(Pack::from_bytes(bytes)),
        };
        Self { members, hash_key }
    }

    fn into_buffer(self) -> Option<Vec<u8>> {
        match self.members {
            Members::Integers(integers) => Some(integers.into_buffer()),
            Members::Packed(pack) => Some(pack.into_buffer()),
            Members::Table(_) => None,
        }
    }

    #[inline]
    fn view(form: Form, bytes: &[u8]) -> Option<SetRef<'_>> {
        match form {
            Form::PackedIntegers => Some(SetRef(Shown::Integers(Integers::new(bytes)))),
            Form::PackedSet => Some(SetRef(Shown::Packed(Packed::new(bytes)))),
            _ => None,
        }
    }

    #[inline]
    fn as_ref(&self) -> SetRef<'_> {
        SetRef(match &self.members {
            Members::Integers(integers) => Shown::Integers(integers.as_integers()),
            Members::Packed(pack) => Shown::Packed(pack.as_packed()),
            Members::Table(table) => Shown::Table(table),
        })
    }

    fn place_of(&self, member: &[u8]) -> Option<MemberPlace> {
        match &self.members {
            Members::Table(table) => Some(MemberPlace::At(table.position(member))),
            Members::Integers(_) | Members::Packed(_) => None,
        }
    }

    fn prefetch(&self, place: MemberPlace, step: PrefetchStep) {
        let Members::Table(table) = &self.members else { return };
        match place {
            MemberPlace::At(position) => table.prefetch(iter::once(position), step),
            MemberPlace::Random(random) => table.prefetch_random(random, step),
        }
    }

    fn encoding(&self) -> Encoding {
        self.as_ref().encoding()
    }

    #[inline]
    fn memory(&self) -> usize {
        match &self.members {
            Members::Integers(integers) => integers.memory_bytes(),
            Members::Packed(pack) => pack.memory_bytes(),
            Members::Table(table) => size_of::<Table>() + table.memory(),
        }
    }

    fn outline(&self) -> Outline {
        Outline { parts: self.table().map_or(0, Table::len), walks: 1, extra: None }
    }

    fn open(&mut self, open_value: &Arc<OpenValue>) {
        if let Members::Table(table) = &mut self.members {
            table.begin_capture(Recipient::Members(Arc::clone(open_value)));
        }
    }

    fn open_value(&self) -> Option<&Arc<OpenValue>> {
        self.table()?.open_value()
    }

    fn capture_more(&mut self, budget: &mut Budget) {
        if let Members::Table(table) = &mut self.members {
            table.capture_more(budget);
        }
    }
}

impl Set {
    /// Returns a set for a result that is built by adding to it. It begins as a run of integers if `integers` says so,
    /// otherwise as a packed run.
    pub fn for_result(hash_key: HashKey, integers: bool) -> Self {
        let members = if integers { Members::Integers(IntegerSet::new()) } else { Members::Packed(Pack::new()) };
        Self { members, hash_key }
    }

    fn table(&self) -> Option<&Table> {
        match &self.members {
            Members::Table(table) => Some(table),
            Members::Integers(_) | Members::Packed(_) => None,
        }
    }

    /// Returns the secret with which its table hashes.
    pub fn hash_key(&self) -> HashKey {
        self.hash_key
    }

    /// Prepares for `count` members of which `first` is one. A set that must become too large for its encoding becomes a
    /// table at once, and an empty set chooses its first encoding.
    pub fn prepare(&mut self, first: &[u8], count: usize, limits: &SetLimits) {
        match &self.members {
            Members::Table(_) => {}
            _ if !self.is_empty() => {
                let is_too_many = match self.members {
                    Members::Integers(_) => count > limits.integers_max,
                    _ => count > limits.packed_max,
                };
                if is_too_many {
                    self.make_table();
                }
            }
            _ if ValueRef::Bytes(first).integer().is_some() && count <= limits.integers_max => {
                self.members = Members::Integers(IntegerSet::new());
            }
            _ if count <= limits.packed_max => self.members = Members::Packed(Pack::new()),
            _ => _ = self.make_table(),
        }
    }

    /// Adds a member; returns whether it is new.
    #[inline]
    pub fn add<'v>(&mut self, member: impl Into<ValueRef<'v>>, limits: &SetLimits) -> bool {
        let member = member.into();
        match &mut self.members {
            Members::Table(table) => add_to_table(table, member),
            Members::Packed(pack) => {
                if pack.as_packed().find(member, 0).is_some() {
                    return false;
                }
                // In Redis each element has its length behind it.
                let is_small = pack.len() < limits.packed_max
                    && member.len() <= limits.packed_value_max
                    && pack.as_bytes().len() + pack.len() + member.len() <= PACKED_BYTES_MAX;
                if is_small {
                    pack.push_back(member);
                    return true;
                }
                add_to_table(self.make_table(), member)
            }
            Members::Integers(integers) => match member.integer() {
                Some(number) => {
                    let is_new = integers.insert(number);
                    if is_new && integers.as_integers().len() > limits.integers_max() {
                        self.make_table();
                    }
                    is_new
                }
                None => self.add_first_string(member, limits),
            },
        }
    }

    /// Adds the first member that is no integer.
    fn add_first_string(&mut self, member: ValueRef<'_>, limits: &SetLimits) -> bool {
        let longest = |integers: Integers<'_>| {
            let ends = [integers.iter().next(), integers.iter().next_back()];
            ends.into_iter().flatten().map(|number| ValueRef::Integer(number).len()).max().unwrap_or(0)
        };
        if let Members::Integers(integers) = &self.members {
            let integers = integers.as_integers();
            let is_small = integers.len() < limits.packed_max
                && member.len().max(longest(integers)) <= limits.packed_value_max
                && integers.len() * PACKED_INTEGER_BYTES_MAX + member.len() <= PACKED_BYTES_MAX;
            if is_small {
                let mut pack: Pack<Forwards> = integers.iter().collect();
                pack.push_back(member);
                self.members = Members::Packed(pack);
                return true;
            }
        }
        add_to_table(self.make_table(), member)
    }

    /// Removes a member; returns whether it was there.
    #[inline]
    pub fn remove<'v>(&mut self, member: impl Into<ValueRef<'v>>) -> bool {
        let member = member.into();
        match &mut self.members {
            Members::Table(table) => {
                let mut digits = Digits::default();
                let member = member.bytes(&mut digits);
                table.discard(table.position(member), member)
            }
            Members::Packed(pack) => match pack.as_packed().find(member, 0) {
                Some(offset) => pack.remove_range(offset, 1) == 1,
                None => false,
            },
            Members::Integers(integers) => member.integer().is_some_and(|number| integers.remove(number)),
        }
    }

    /// Makes a small set of integers only a run of integers, if the limits allow it.
    pub fn compact_integers(&mut self, limits: &SetLimits) {
        let shown = self.as_ref();
        if matches!(shown.0, Shown::Integers(_)) || shown.len() > limits.integers_max() {
            return;
        }
        let mut numbers = Vec::with_capacity(shown.len());
        shown.for_each(|member| numbers.push(member.integer()));
        if let Some(integers) = numbers.into_iter().collect() {
            self.members = Members::Integers(integers);
        }
    }

    /// Gives back the room that is left in a packed run.
    pub fn shrink_to_fit(&mut self) {
        if let Members::Packed(pack) = &mut self.members {
            pack.shrink_to_fit();
        }
    }

    /// Makes the set a table.
    fn make_table(&mut self) -> &mut Table {
        if !matches!(self.members, Members::Table(_)) {
            let mut table = Box::new(Table::new(Placement::of_members(self.hash_key)));
            self.as_ref().for_each(|member| _ = add_to_table(&mut table, member));
            self.members = Members::Table(table);
        }
        match &mut self.members {
            Members::Table(table) => table,
            _ => unreachable!("it has just been made a table"),
        }
    }
}

/// The most that one integer takes in a listpack of Redis.
const PACKED_INTEGER_BYTES_MAX: usize = 10;

fn add_to_table(table: &mut Table, member: ValueRef<'_>) -> bool {
    let mut digits = Digits::default();
    let member = member.bytes(&mut digits);
    let position = table.position(member);
    if table.find(position, member).is_some() {
        return false;
    }
    table.insert(position, member, Body::Member, None, 0);
    true
}

impl<'a> SetRef<'a> {
    /// Returns the number of members.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            Shown::Integers(integers) => integers.len(),
            Shown::Packed(packed) => packed.len(),
            Shown::Table(table) => table.len(),
        }
    }

    /// Returns whether there is no member.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self.0 {
            Shown::Integers(integers) => integers.is_empty(),
            Shown::Packed(packed) => packed.is_empty(),
            Shown::Table(table) => table.len() == 0,
        }
    }

    /// Returns the encoding, as OBJECT ENCODING names it.
    pub fn encoding(self) -> Encoding {
        match self.0 {
            Shown::Integers(_) => Encoding::Intset,
            Shown::Packed(_) => Encoding::Listpack,
            Shown::Table(_) => Encoding::Hashtable,
        }
    }

    /// Returns whether `member` is there.
    #[inline]
    pub fn contains<'v>(self, member: impl Into<ValueRef<'v>>) -> bool {
        let member = member.into();
        match self.0 {
            Shown::Integers(integers) => member.integer().is_some_and(|number| integers.contains(number)),
            Shown::Packed(packed) => packed.find(member, 0).is_some(),
            Shown::Table(table) => {
                let mut digits = Digits::default();
                let member = member.bytes(&mut digits);
                table.find(table.position(member), member).is_some()
            }
        }
    }

    /// Shows all members: integers in ascending order, those of a packed run as they came, others in no order.
    pub fn for_each(self, mut show: impl FnMut(ValueRef<'a>)) {
        self.try_for_each(|member| {
            show(member);
            true
        });
    }

    /// Shows members as [`SetRef::for_each`] does, until `show` returns false.
    pub fn try_for_each(self, mut show: impl FnMut(ValueRef<'a>) -> bool) {
        match self.0 {
            Shown::Integers(integers) => _ = integers.iter().all(|number| show(ValueRef::Integer(number))),
            Shown::Packed(packed) => _ = packed.iter().all(show),
            Shown::Table(table) => {
                let (mut position, mut goes_on) = (Some(0), true);
                while let Some(from) = position.filter(|_| goes_on) {
                    let show = |entry: EntryRef<'a>| {
                        goes_on = goes_on && show(ValueRef::Bytes(entry.key()));
                    };
                    position = table.walk(from, WALK_ENTRIES, show).next;
                }
            }
        }
    }

    /// Returns a member that `random` chooses; all are equally likely. None if there are none.
    #[inline]
    pub fn random(self, random: u64) -> Option<ValueRef<'a>> {
        let below = |count: usize| ((u128::from(random) * count as u128) >> 64) as usize;
        match self.0 {
            Shown::Integers(integers) => integers.get(below(integers.len())).map(ValueRef::Integer),
            Shown::Packed(packed) => packed.get(below(packed.len())),
            Shown::Table(table) => table.random(random).map(|entry| ValueRef::Bytes(entry.key())),
        }
    }

    /// Takes one step of a walk: shows about `count` members from `cursor` on and returns the next cursor, below 2^48; 0 when
    /// the walk has ended. A small set is shown whole. A member that stays from the first step to the last is shown.
    pub fn scan(self, cursor: u64, count: usize, mut show: impl FnMut(ValueRef<'a>)) -> u64 {
        let Shown::Table(table) = self.0 else {
            self.for_each(show);
            return 0;
        };
        let (mut position, mut wanted) = (Some(cursor << CURSOR_SHIFT), count.max(1));
        let mut buckets_left = wanted.saturating_mul(SCAN_BUCKETS_PER_MEMBER);
        while let Some(from) = position {
            let step = table.walk(from, wanted, |entry| show(ValueRef::Bytes(entry.key())));
            position = step.next;
            wanted = wanted.saturating_sub(step.shown);
            buckets_left = buckets_left.saturating_sub(step.buckets.max(1));
            if wanted == 0 || buckets_left == 0 {
                break;
            }
        }
        position.map_or(0, |position| position >> CURSOR_SHIFT)
    }

    /// Returns the members of a run of integers, in Redis's form for files and peers.
    pub fn integers(self) -> Option<Integers<'a>> {
        match self.0 {
            Shown::Integers(integers) => Some(integers),
            _ => None,
        }
    }

    /// Returns the members of a packed run.
    pub fn packed(self) -> Option<Packed<'a, Forwards>> {
        match self.0 {
            Shown::Packed(packed) => Some(packed),
            _ => None,
        }
    }
}

/// The number of members that a step of a walk over all asks for: little enough that stopping early costs little.
const WALK_ENTRIES: usize = 512;

/// A cursor is the upper 48 bits of a position: the boundaries between buckets never need more.
const CURSOR_SHIFT: u32 = 16;

/// The largest number of buckets that a scan visits for each member that it was asked for.
const SCAN_BUCKETS_PER_MEMBER: usize = 10;
