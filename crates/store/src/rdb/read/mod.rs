//! Reading values. What is read is put together element by element, as commands would, so that a value is kept as one
//! that was written here.

mod limits;
mod packed;
mod stream;
mod whole;

use super::bad::Bad;
use super::kind;
pub(super) use stream::no_producers;

use super::scan::{Input, Source};
use crate::packed::pack::Pack;
use crate::types::hash::Map;
use crate::types::list::List;
use crate::types::list::chain::End;
use crate::types::set::Set;
use crate::types::set::intset::IntegerSet;
use crate::types::sorted_set::SortedSet;
use crate::types::stream::Stream;
use crate::value::collection::Collection;
use crate::value::{Deadline, Kind, ValueRef};
pub use limits::Limits;
use packed::{for_each_group, for_each_group_of, for_each_of_ziplist, packed};

/// A value that was read.
#[derive(Clone)]
pub enum Loaded {
    /// A string.
    String(Vec<u8>),
    /// A list.
    List(List),
    /// A set.
    Set(Set),
    /// A hash.
    Hash(Map),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A stream.
    Stream(Stream),
}

/// Where a value goes that was read. What it answers says whether the value is there now.
pub trait Destination {
    /// Puts a string there.
    fn string(self, bytes: Vec<u8>) -> bool;

    /// Puts a collection there, in which there is nothing if it is a hash whose fields were all over.
    fn collection<C: Collection>(self, collection: C) -> bool;
}

impl Loaded {
    /// The type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::String(_) => Kind::String,
            Self::List(_) => Kind::List,
            Self::Set(_) => Kind::Set,
            Self::Hash(_) => Kind::Hash,
            Self::SortedSet(_) => Kind::SortedSet,
            Self::Stream(_) => Kind::Stream,
        }
    }

    /// Puts the value where it goes, whatever its type; what came of it.
    pub fn put(self, destination: impl Destination) -> bool {
        match self {
            Self::String(bytes) => destination.string(bytes),
            Self::List(list) => destination.collection(list),
            Self::Set(set) => destination.collection(set),
            Self::Hash(map) => destination.collection(map),
            Self::SortedSet(set) => destination.collection(set),
            Self::Stream(stream) => destination.collection(stream),
        }
    }
}

/// Reads the type and the bytes of one value as this server writes them. A collection without elements is [`Bad`], except for a
/// stream, and except for a hash whose fields are all over.
///
/// # Errors
/// [`Bad`] when the bytes are not a value.
pub fn read(input: &mut Input<'_>, origin: Origin, limits: &Limits) -> Result<Loaded, Bad> {
    let kind = input.byte()?;
    read_kind(input, kind, origin, limits)
}

/// Who numbers the types: what came after version 11 of the format has not the same numbers everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Redis.
    #[default]
    Redis,
    /// Valkey, from 9 on.
    Valkey,
}

/// Reads the bytes of a value of this type.
///
/// # Errors
/// [`Bad`] when the bytes are not a value.
pub(crate) fn read_kind(input: &mut impl Source, kind: u8, origin: Origin, limits: &Limits) -> Result<Loaded, Bad> {
    Ok(match (kind, origin) {
        (kind::STRING, _) => Loaded::String(input.owned()?),
        (kind::LIST | kind::LIST_ZIPLIST | kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2, _) => {
            Loaded::List(filled(read_list(input, kind, limits)?)?)
        }
        (kind::SET | kind::SET_INTSET | kind::SET_LISTPACK, _) => Loaded::Set(filled(read_set(input, kind, limits)?)?),
        (kind::SORTED_SET_TEXT | kind::SORTED_SET, _) => {
            Loaded::SortedSet(filled(read_sorted_set(input, kind, limits)?)?)
        }
        (kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK, _) => {
            Loaded::SortedSet(filled(read_packed_sorted_set(input, kind, limits)?)?)
        }
        (kind::HASH, _) => Loaded::Hash(filled(read_hash(input, limits)?)?),
        (kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK, _) => {
            Loaded::Hash(filled(read_packed_hash(input, kind, limits)?)?)
        }
        (kind::HASH_TIMED | kind::HASH_TIMED_EARLY, Origin::Redis) => {
            Loaded::Hash(read_timed_hash(input, kind, limits)?)
        }
        (kind::HASH_TIMED_LISTPACK | kind::HASH_TIMED_LISTPACK_EARLY, Origin::Redis) => {
            Loaded::Hash(read_timed_packed_hash(input, kind, limits)?)
        }
        (kind::HASH_TIMED_VALKEY, Origin::Valkey) => Loaded::Hash(read_valkey_hash(input, limits)?),
        (kind::STREAM | kind::STREAM_2 | kind::STREAM_3, _) | (kind::STREAM_4, Origin::Redis) => {
            Loaded::Stream(stream::read_stream(input, kind, limits.stream)?)
        }
        (kind::MODULE | kind::MODULE_2, _) => return Err(Bad::Module),
        _ => return Err(Bad::Kind(kind)),
    })
}

fn filled<C: Collection>(collection: C) -> Result<C, Bad> {
    if collection.is_empty() { Err(Bad::Empty) } else { Ok(collection) }
}

fn read_list(input: &mut impl Source, kind: u8, limits: &Limits) -> Result<List, Bad> {
    let (mut list, mut scratch) = (List::new(limits.hash_key), Vec::new());
    let mut push = |element: ValueRef<'_>| {
        list.prepare(element.len(), 1, limits.list);
        list.push(End::Back, element, limits.list);
    };
    match kind {
        kind::LIST => {
            for _ in 0..input.length()? {
                push(ValueRef::Bytes(input.string(&mut scratch)?));
            }
        }
        kind::LIST_QUICKLIST_2 => match whole::list(read_packs(input)?, limits) {
            Ok(whole) => list = whole,
            Err(packs) => packs.iter().for_each(|pack| pack.as_packed().iter().for_each(&mut push)),
        },
        _ => {
            let nodes = if kind == kind::LIST_ZIPLIST { 1 } else { input.length()? };
            for _ in 0..nodes {
                for_each_of_ziplist(input.string(&mut scratch)?, |element| push(ValueRef::Bytes(element)))?;
            }
        }
    }
    Ok(list)
}

/// The nodes of a quicklist: packs, and elements that are too large for one.
fn read_packs(input: &mut impl Source) -> Result<Vec<Pack>, Bad> {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let (mut packs, mut scratch) = (Vec::new(), Vec::new());
    for _ in 0..input.length()? {
        packs.push(match input.length()? {
            PACKED => packed(input)?,
            PLAIN => [input.string(&mut scratch)?].into_iter().collect(),
            _ => return Err(Bad::Packed),
        });
    }
    Ok(packs)
}

fn read_set(input: &mut impl Source, kind: u8, limits: &Limits) -> Result<Set, Bad> {
    let (mut set, mut scratch) = (Set::new(limits.hash_key), Vec::new());
    match kind {
        kind::SET => {
            let count = input.length()?;
            for place in 0..count {
                let member = input.string(&mut scratch)?;
                if place == 0 {
                    set.prepare(member, usize::try_from(count).unwrap_or(usize::MAX), &limits.set);
                }
                add(&mut set, member, limits)?;
            }
        }
        kind::SET_INTSET => {
            let integers = IntegerSet::from_redis(input.string(&mut scratch)?).ok_or(Bad::Packed)?;
            match whole::integer_set(integers, limits) {
                Ok(whole) => set = whole,
                Err(integers) => integers.as_integers().iter().try_for_each(|number| add(&mut set, number, limits))?,
            }
        }
        _ => match whole::set(packed(input)?, limits) {
            Ok(whole) => set = whole,
            Err(pack) => pack.as_packed().iter().try_for_each(|member| add(&mut set, member, limits))?,
        },
    }
    Ok(set)
}

fn add<'v>(set: &mut Set, member: impl Into<ValueRef<'v>>, limits: &Limits) -> Result<(), Bad> {
    if set.add(member, &limits.set) { Ok(()) } else { Err(Bad::Twice) }
}

fn score(set: &mut SortedSet, name: &[u8], score: f64, limits: &Limits) -> Result<(), Bad> {
    if score.is_nan() {
        return Err(Bad::Score);
    }
    if set.set(name, score, limits.sorted_set).is_some() { Err(Bad::Twice) } else { Ok(()) }
}

fn read_sorted_set(input: &mut impl Source, kind: u8, limits: &Limits) -> Result<SortedSet, Bad> {
    let (count, mut name) = (input.length()?, Vec::new());
    let expected = usize::try_from(count).unwrap_or(usize::MAX);
    let mut set = SortedSet::with_room(limits.hash_key, expected, 0, limits.sorted_set);
    for _ in 0..count {
        input.string_into(&mut name)?;
        let of_name = if kind == kind::SORTED_SET { input.double()? } else { input.double_text()? };
        score(&mut set, &name, of_name, limits)?;
    }
    Ok(set)
}

fn read_packed_sorted_set(input: &mut impl Source, kind: u8, limits: &Limits) -> Result<SortedSet, Bad> {
    let mut set = SortedSet::new(limits.hash_key);
    let add = |[name, text]: [&[u8]; 2]| {
        let of_name = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        score(&mut set, name, of_name.ok_or(Bad::Score)?, limits)
    };
    match kind {
        kind::SORTED_SET_LISTPACK => match whole::sorted_set(packed(input)?, limits) {
            Ok(whole) => return Ok(whole),
            Err(pack) => for_each_group_of(pack.as_packed(), add)?,
        },
        _ => for_each_group(input, kind, add)?,
    }
    Ok(set)
}

/// Sets a new field; at 0 it has no deadline, and one whose time is over is left out.
fn set_field(map: &mut Map, field: &[u8], value: &[u8], at_ms: i64, limits: &Limits) -> Result<(), Bad> {
    let deadline = if at_ms == 0 { Deadline::Clear } else { Deadline::At(at_ms) };
    if at_ms != 0 && at_ms <= limits.now_ms {
        return Ok(());
    }
    let is_new = map.set(field, value, deadline, limits.hash, i64::MIN);
    if is_new { Ok(()) } else { Err(Bad::Twice) }
}

fn read_hash(input: &mut impl Source, limits: &Limits) -> Result<Map, Bad> {
    let (mut map, mut field, mut scratch) = (Map::new(limits.hash_key), Vec::new(), Vec::new());
    for _ in 0..input.length()? {
        input.string_into(&mut field)?;
        if !map.add(&field, input.string(&mut scratch)?, limits.hash) {
            return Err(Bad::Twice);
        }
    }
    if map.is_distinct() { Ok(map) } else { Err(Bad::Twice) }
}

fn read_packed_hash(input: &mut impl Source, kind: u8, limits: &Limits) -> Result<Map, Bad> {
    let mut map = Map::new(limits.hash_key);
    let set = |[field, value]: [&[u8]; 2]| set_field(&mut map, field, value, 0, limits);
    match kind {
        kind::HASH_LISTPACK => match whole::hash(packed(input)?, limits) {
            Ok(whole) => return Ok(whole),
            Err(pack) => for_each_group_of(pack.as_packed(), set)?,
        },
        _ => for_each_group(input, kind, set)?,
    }
    Ok(map)
}

/// Deadlines count from the earliest, plus one; 0 is none. Before Redis 7.4 was finished they stood there as they are.
fn read_timed_hash(input: &mut impl Source, kind: u8, limits: &Limits) -> Result<Map, Bad> {
    let from_ms = if kind == kind::HASH_TIMED { input.number()? } else { 1 };
    let (mut map, mut field, mut scratch) = (Map::new(limits.hash_key), Vec::new(), Vec::new());
    for _ in 0..input.length()? {
        let from_first = i64::try_from(input.length()?).map_err(|_| Bad::Deadline)?;
        let at_ms = match from_first {
            0 => 0,
            _ => from_ms.checked_add(from_first - 1).filter(|&at_ms| at_ms > 0).ok_or(Bad::Deadline)?,
        };
        input.string_into(&mut field)?;
        set_field(&mut map, &field, input.string(&mut scratch)?, at_ms, limits)?;
    }
    Ok(map)
}

fn read_timed_packed_hash(input: &mut impl Source, kind: u8, limits: &Limits) -> Result<Map, Bad> {
    if kind == kind::HASH_TIMED_LISTPACK {
        // The earliest deadline, which the elements say again.
        input.number()?;
    }
    let mut map = Map::new(limits.hash_key);
    for_each_group(input, kind, |[field, value, at_ms]: [&[u8]; 3]| {
        let at_ms = ValueRef::Bytes(at_ms).integer().filter(|&at_ms| at_ms >= 0).ok_or(Bad::Deadline)?;
        set_field(&mut map, field, value, at_ms, limits)
    })?;
    Ok(map)
}

/// Deadlines stand behind the values as they are; -1 is none.
fn read_valkey_hash(input: &mut impl Source, limits: &Limits) -> Result<Map, Bad> {
    let (mut map, mut field, mut value) = (Map::new(limits.hash_key), Vec::new(), Vec::new());
    for _ in 0..input.length()? {
        input.string_into(&mut field)?;
        input.string_into(&mut value)?;
        let at_ms = match input.number()? {
            -1 => 0,
            at_ms @ 1.. => at_ms,
            _ => return Err(Bad::Deadline),
        };
        set_field(&mut map, &field, &value, at_ms, limits)?;
    }
    Ok(map)
}
