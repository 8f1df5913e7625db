//! A hash: fields with their values, and a deadline for each field that has been given one.
//!
//! A hash is packed while it is small, and a table of its own beyond. Redis's options say which hashes are small
//! ([`MapLimits`]), and [`Map::encoding`] reports the encoding by these limits. A hash of few fields with a long value is not
//! small by these limits, but stays packed all the same up to [`WIDE_BYTES_MAX`], because a table is worth its memory only
//! for more. As in Redis, a hash does not become small again. Time is an argument: an expired field is never shown, is
//! counted until it is removed, and is removed by [`Map::expire`]. Here are no keys and no commands.

pub mod fields;
pub mod packed;

use crate::memory::prefetch::PrefetchStep;
use crate::packed::listpack::Packed;
use crate::packed::pack::Pack;
use crate::packed::ways::Forwards;
use crate::value::capture::open_value::{OpenValue, Outline};
use crate::value::capture::source::Budget;
use crate::value::collection::{Collection, MemberPlace};
use crate::value::form::Form;
use crate::value::key_hash::HashKey;
use crate::value::{Deadline, Digits, Encoding, Kind, ValueRef, is_expired};
use fields::Fields;
use packed::{Item, PackedMap, PackedMapRef, Shape};
use std::sync::Arc;

/// The most bytes in which fields stay packed that are not small by the limits.
const WIDE_BYTES_MAX: usize = 4096;

/// The number of random fields that are tried before a field that has not expired is searched for.
const RANDOM_TRIES: u64 = 100;

/// The limits up to which Redis calls a hash small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLimits {
    /// The most fields; `hash-max-listpack-entries`.
    pub entries_max: usize,
    /// The longest field or value, in bytes; `hash-max-listpack-value`.
    pub value_bytes_max: usize,
}

/// The value of a key of type hash.
#[derive(Clone)]
pub struct Map {
    hash_key: HashKey,
    inner: Inner,
}

#[derive(Clone)]
enum Inner {
    Packed(PackedMap),
    Table(Box<Fields>),
}

/// A [`Map`] to be read.
#[derive(Clone, Copy)]
pub struct MapRef<'a>(InnerRef<'a>);

#[derive(Clone, Copy)]
enum InnerRef<'a> {
    Packed(PackedMapRef<'a>),
    Table(&'a Fields),
}

impl Collection for Map {
    const KIND: Kind = Kind::Hash;

    type Ref<'a> = MapRef<'a>;

    fn new(hash_key: HashKey) -> Self {
        Self { hash_key, inner: Inner::Packed(PackedMap { pack: Pack::new(), shape: Shape::default() }) }
    }

    fn is_empty(&self) -> bool {
        self.as_ref().is_empty()
    }

    fn packed(&self) -> Option<(Form, &[u8])> {
        match &self.inner {
            Inner::Packed(small) => Some((small.shape.form(), small.pack.as_bytes())),
            Inner::Table(_) => None,
        }
    }

    fn from_packed(hash_key: HashKey, form: Form, bytes: Vec<u8>) -> Self {
        let shape = Shape::of(form).unwrap_or_default();
        Self { hash_key, inner: Inner::Packed(PackedMap { pack: Pack::from_bytes(bytes), shape }) }
    }

    fn into_buffer(self) -> Option<Vec<u8>> {
        match self.inner {
            Inner::Packed(small) => Some(small.pack.into_buffer()),
            Inner::Table(_) => None,
        }
    }

    #[inline]
    fn view(form: Form, bytes: &[u8]) -> Option<MapRef<'_>> {
        let shape = Shape::of(form)?;
        Some(MapRef(InnerRef::Packed(PackedMapRef { packed: Packed::new(bytes), shape })))
    }

    #[inline]
    fn as_ref(&self) -> MapRef<'_> {
        match &self.inner {
            Inner::Packed(small) => MapRef(InnerRef::Packed(small.as_ref())),
            Inner::Table(fields) => MapRef(InnerRef::Table(fields)),
        }
    }

    fn place_of(&self, field: &[u8]) -> Option<MemberPlace> {
        match &self.inner {
            Inner::Packed(_) => None,
            Inner::Table(fields) => Some(MemberPlace::At(fields.position(field))),
        }
    }

    fn prefetch(&self, place: MemberPlace, step: PrefetchStep) {
        if let (Inner::Table(fields), MemberPlace::At(position)) = (&self.inner, place) {
            fields.prefetch(position, step);
        }
    }

    fn encoding(&self) -> Encoding {
        match &self.inner {
            Inner::Packed(small) => small.shape.encoding(),
            Inner::Table(_) => Encoding::Hashtable,
        }
    }

    fn memory(&self) -> usize {
        match &self.inner {
            Inner::Packed(small) => small.pack.memory_bytes(),
            Inner::Table(fields) => fields.memory(),
        }
    }

    #[inline]
    fn due_ms(&self) -> Option<i64> {
        self.as_ref().due_ms()
    }

    fn outline(&self) -> Outline {
        match &self.inner {
            Inner::Packed(_) => Outline { parts: 0, walks: 0, extra: None },
            Inner::Table(fields) => fields.outline(),
        }
    }

    fn open(&mut self, open_value: &Arc<OpenValue>) {
        if let Inner::Table(fields) = &mut self.inner {
            fields.open(open_value);
        }
    }

    fn open_value(&self) -> Option<&Arc<OpenValue>> {
        match &self.inner {
            Inner::Packed(_) => None,
            Inner::Table(fields) => fields.open_value(),
        }
    }

    fn capture_more(&mut self, budget: &mut Budget) {
        if let Inner::Table(fields) = &mut self.inner {
            fields.capture_more(budget);
        }
    }
}

impl Map {
    /// Sets a field, with a deadline or without; returns whether it is new. An expired field counts as new, and has no
    /// deadline to keep.
    pub fn set(&mut self, field: &[u8], value: &[u8], deadline: Deadline, limits: MapLimits, now_ms: i64) -> bool {
        if let Inner::Packed(small) = &mut self.inner {
            let bytes = field.len() + value.len();
            small.shape.wide |= field.len().max(value.len()) > limits.value_bytes_max;
            if small.shape.wide && small.pack.as_bytes().len() + bytes > WIDE_BYTES_MAX {
                self.make_table();
            }
        }
        match &mut self.inner {
            Inner::Packed(small) => {
                let is_new = small.set(field, ValueRef::Bytes(value), deadline, now_ms);
                small.shape.wide |= is_new && small.as_ref().len() > limits.entries_max;
                is_new
            }
            Inner::Table(fields) => fields.set(field, ValueRef::Bytes(value), deadline, now_ms),
        }
    }

    /// Adds a field without a deadline; returns false if it is known to exist. While the hash is packed the field is not
    /// searched for: when all fields have been added, [`Map::is_distinct`] says whether any is there twice.
    pub(crate) fn add(&mut self, field: &[u8], value: &[u8], limits: MapLimits) -> bool {
        if let Inner::Packed(small) = &mut self.inner {
            let bytes = small.pack.as_bytes().len() + field.len() + value.len();
            small.shape.wide |= field.len().max(value.len()) > limits.value_bytes_max;
            if !small.shape.wide || bytes <= WIDE_BYTES_MAX {
                small.push(Item { field: ValueRef::Bytes(field), value: ValueRef::Bytes(value), deadline: None });
                small.shape.wide |= small.as_ref().len() > limits.entries_max;
                return true;
            }
            let count = small.as_ref().len();
            self.make_table();
            if self.as_ref().len() < count {
                return false;
            }
        }
        self.set(field, value, Deadline::Clear, limits, i64::MIN)
    }

    /// Returns whether no field is there twice; see [`Map::add`].
    pub(crate) fn is_distinct(&self) -> bool {
        match &self.inner {
            Inner::Packed(small) => {
                small.pack.as_packed().are_distinct(small.shape.stride(), |field| self.hash_key.hash(field).0)
            }
            Inner::Table(_) => true,
        }
    }

    /// Sets or removes the deadline of a field that is there.
    pub fn set_deadline(&mut self, field: &[u8], deadline: Option<i64>) {
        match &mut self.inner {
            Inner::Packed(small) => small.set_deadline(field, deadline),
            Inner::Table(fields) => fields.set_deadline(field, deadline),
        }
    }

    /// Removes a field; returns whether it was there. An expired field is removed, but counts as absent.
    pub fn remove(&mut self, field: &[u8], now_ms: i64) -> bool {
        let was_there = self.as_ref().get(field, now_ms).is_some();
        match &mut self.inner {
            Inner::Packed(small) => small.remove(field),
            Inner::Table(fields) => fields.remove(field),
        };
        was_there
    }

    /// Looks at some `budget` fields of a large hash, or at all of a small one, removes the expired ones, and shows each. The
    /// sweep is done when [`Collection::due_ms`] is later than `now_ms`.
    pub fn expire(&mut self, now_ms: i64, budget: usize, mut on_expired: impl FnMut(&[u8])) {
        let mut show = |field: ValueRef<'_>| on_expired(field.bytes(&mut Digits::default()));
        match &mut self.inner {
            Inner::Packed(small) => small.expire(now_ms, &mut show),
            Inner::Table(fields) => fields.expire(now_ms, budget, &mut show),
        }
    }

    fn make_table(&mut self) {
        let Inner::Packed(small) = &self.inner else { return };
        let mut fields = Fields::new(self.hash_key);
        for item in small.as_ref().items() {
            let deadline = item.deadline.map_or(Deadline::Clear, Deadline::At);
            fields.set(item.field.bytes(&mut Digits::default()), item.value, deadline, i64::MIN);
        }
        self.inner = Inner::Table(Box::new(fields));
    }
}

impl<'a> MapRef<'a> {
    /// Returns the number of fields, expired ones that are not removed yet included.
    #[inline]
    pub fn len(self) -> usize {
        match self.0 {
            InnerRef::Packed(small) => small.len(),
            InnerRef::Table(fields) => fields.len(),
        }
    }

    /// Returns whether there is no field.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self.0 {
            InnerRef::Packed(small) => small.packed.is_empty(),
            InnerRef::Table(fields) => fields.len() == 0,
        }
    }

    /// Returns the number of fields that are not expired. It counts them one by one if any has a deadline.
    pub fn live_len(self, now_ms: i64) -> usize {
        let has_deadlines = match self.0 {
            InnerRef::Packed(small) => small.shape.timed,
            InnerRef::Table(fields) => fields.due_ms().is_some(),
        };
        if !has_deadlines {
            return self.len();
        }
        let mut live = 0;
        self.for_each(now_ms, |_, _| live += 1);
        live
    }

    /// Returns the pack of fields and values, if the hash is a small one in which no field ever had a deadline.
    pub(crate) fn packed(self) -> Option<Packed<'a, Forwards>> {
        match self.0 {
            InnerRef::Packed(small) if small.shape == Shape::default() => Some(small.packed),
            _ => None,
        }
    }

    /// Returns when [`Map::expire`] has something to do, in milliseconds since the epoch; never if no field has a deadline.
    #[inline]
    pub fn due_ms(self) -> Option<i64> {
        match self.0 {
            InnerRef::Packed(small) => small.earliest_ms(),
            InnerRef::Table(fields) => fields.due_ms(),
        }
    }

    #[inline]
    fn find(self, field: &[u8]) -> Option<(ValueRef<'a>, Option<i64>)> {
        match self.0 {
            InnerRef::Packed(small) => small.find(field),
            InnerRef::Table(fields) => fields.find(field),
        }
    }

    /// Returns the value of a field.
    #[inline]
    pub fn get(self, field: &[u8], now_ms: i64) -> Option<ValueRef<'a>> {
        self.get_with_deadline(field, now_ms).map(|(value, _)| value)
    }

    /// Returns the value of a field and its deadline, in milliseconds since the epoch.
    #[inline]
    pub fn get_with_deadline(self, field: &[u8], now_ms: i64) -> Option<(ValueRef<'a>, Option<i64>)> {
        self.find(field).filter(|&(_, deadline)| !is_expired(deadline, now_ms))
    }

    /// Shows all fields with their values, in no particular order.
    #[inline]
    pub fn for_each(self, now_ms: i64, mut show: impl FnMut(ValueRef<'a>, ValueRef<'a>)) {
        self.for_each_with_deadline(now_ms, |field, value, _| show(field, value));
    }

    /// Shows all fields with their values and deadlines (milliseconds since the epoch), in no particular order.
    #[inline]
    pub fn for_each_with_deadline(self, now_ms: i64, mut show: impl FnMut(ValueRef<'a>, ValueRef<'a>, Option<i64>)) {
        let mut pass = |item: Item<'a>| {
            if !item.is_over(now_ms) {
                show(item.field, item.value, item.deadline);
            }
        };
        match self.0 {
            InnerRef::Packed(small) => small.items().for_each(pass),
            InnerRef::Table(fields) => fields.for_each(&mut pass),
        }
    }

    /// Takes one step of a walk: shows about `count` fields from `cursor` on and returns the next cursor, below 2^48. The
    /// walk begins with cursor 0 and has ended when 0 is returned. In a table, a field that is there from the first step to
    /// the last is shown exactly once, even if other fields come and go in between; a packed hash is shown whole in one step.
    pub fn scan(self, cursor: u64, count: usize, now_ms: i64, mut show: impl FnMut(ValueRef<'a>, ValueRef<'a>)) -> u64 {
        match self.0 {
            InnerRef::Packed(_) => {
                self.for_each(now_ms, show);
                0
            }
            InnerRef::Table(fields) => fields.scan(cursor, count, |item| {
                if !item.is_over(now_ms) {
                    show(item.field, item.value);
                }
            }),
        }
    }

    /// Returns a field with its value that `random` chooses; all are about equally likely. None if there are none.
    pub fn random(self, random: u64, now_ms: i64) -> Option<(ValueRef<'a>, ValueRef<'a>)> {
        match self.0 {
            InnerRef::Packed(small) => {
                let is_live = |item: &Item<'_>| !item.is_over(now_ms);
                let live = if small.shape.timed { small.items().filter(is_live).count() } else { small.len() };
                let chosen = ((u128::from(random) * live as u128) >> 64) as usize;
                small.items().filter(is_live).nth(chosen).map(|item| (item.field, item.value))
            }
            InnerRef::Table(fields) => {
                let guess = (0..RANDOM_TRIES)
                    .filter_map(|again| fields.random(random.wrapping_add(again.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
                    .find(|item| !item.is_over(now_ms));
                let found = guess.map(|item| (item.field, item.value));
                found.or_else(|| self.first(now_ms))
            }
        }
    }

    fn first(self, now_ms: i64) -> Option<(ValueRef<'a>, ValueRef<'a>)> {
        let mut first = None;
        self.for_each(now_ms, |field, value| first = first.or(Some((field, value))));
        first
    }
}
