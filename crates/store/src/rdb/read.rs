//! Reading values. What is read is put together element by element, as commands would, so that a value is kept as one
//! that was written here.

use std::borrow::Cow;

use super::scan::{Bad, Input};
use super::{kind, old};
use crate::packed::pack::Pack;
use crate::types::hash::{Map, MapLimits};
use crate::types::list::List;
use crate::types::list::limit::ListLimit;
use crate::types::set::intset::IntegerSet;
use crate::types::set::{Set, SetLimits};
use crate::types::sorted_set::{SortedSet, SortedSetLimits};
use crate::types::stream::block::BlockLimits;
use crate::types::stream::group::{Pending, StreamGroup};
use crate::types::stream::id::StreamId;
use crate::types::stream::{Stream, StreamCounters};
use crate::value::collection::Collection;
use crate::value::key_hash::HashKey;
use crate::value::{Deadline, Digits, ValueRef};

/// What decides how values are kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The secret of tables.
    pub hash_key: HashKey,
    /// Lists.
    pub list: ListLimit,
    /// Sets.
    pub set: SetLimits,
    /// Hashes.
    pub hash: MapLimits,
    /// Sorted sets.
    pub sorted_set: SortedSetLimits,
    /// Streams.
    pub stream: BlockLimits,
    /// The time, milliseconds since the epoch: what is over is not kept.
    pub now_ms: i64,
}

/// A value that was read.
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

/// Reads the type and the bytes of one value. A collection without elements is [`Bad`], except for a stream, and except
/// for a hash whose fields are all over.
///
/// # Errors
/// [`Bad`] when the bytes are not a value.
pub fn read(input: &mut Input<'_>, limits: &Limits) -> Result<Loaded, Bad> {
    let kind = input.byte()?;
    Ok(match kind {
        kind::STRING => Loaded::String(input.string()?.into_owned()),
        kind::LIST | kind::LIST_ZIPLIST | kind::LIST_QUICKLIST | kind::LIST_QUICKLIST_2 => {
            Loaded::List(filled(read_list(input, kind, limits)?)?)
        }
        kind::SET | kind::SET_INTSET | kind::SET_LISTPACK => Loaded::Set(filled(read_set(input, kind, limits)?)?),
        kind::SORTED_SET_TEXT | kind::SORTED_SET | kind::SORTED_SET_ZIPLIST | kind::SORTED_SET_LISTPACK => {
            Loaded::SortedSet(filled(read_sorted_set(input, kind, limits)?)?)
        }
        kind::HASH | kind::HASH_ZIPMAP | kind::HASH_ZIPLIST | kind::HASH_LISTPACK => {
            Loaded::Hash(filled(read_hash(input, kind, limits)?)?)
        }
        kind::HASH_TIMED | kind::HASH_TIMED_LISTPACK => Loaded::Hash(read_timed_hash(input, kind, limits)?),
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => Loaded::Stream(read_stream(input, kind, limits)?),
        _ => return Err(Bad),
    })
}

fn filled<C: Collection>(collection: C) -> Result<C, Bad> {
    if collection.is_empty() { Err(Bad) } else { Ok(collection) }
}

/// The elements of a listpack as strings.
fn unpacked(bytes: &[u8]) -> Result<Vec<Cow<'static, [u8]>>, Bad> {
    let pack = Pack::from_redis(bytes).ok_or(Bad)?;
    let mut digits = Digits::default();
    Ok(pack.as_packed().iter().map(|element| Cow::Owned(element.bytes(&mut digits).to_vec())).collect())
}

/// So many strings, each at once where it is wanted.
fn strings<'a>(
    input: &mut Input<'a>,
    each: usize,
    mut take: impl FnMut(&[Cow<'a, [u8]>]) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let count = input.len()?;
    let mut group = Vec::with_capacity(each);
    for _ in 0..count {
        group.clear();
        for _ in 0..each {
            group.push(input.string()?);
        }
        take(&group)?;
    }
    Ok(())
}

fn read_list(input: &mut Input<'_>, kind: u8, limits: &Limits) -> Result<List, Bad> {
    const PLAIN: u64 = 1;
    const PACKED: u64 = 2;
    let mut list = List::new(limits.hash_key);
    let mut push = |element: &[u8]| {
        list.prepare(element.len(), 1, limits.list);
        list.push(crate::types::list::chain::End::Back, element, limits.list);
    };
    match kind {
        kind::LIST => strings(input, 1, |element| {
            push(&element[0]);
            Ok(())
        })?,
        kind::LIST_ZIPLIST => old::ziplist(&input.string()?)?.iter().for_each(|element| push(element)),
        kind::LIST_QUICKLIST => strings(input, 1, |node| {
            old::ziplist(&node[0])?.iter().for_each(|element| push(element));
            Ok(())
        })?,
        _ => {
            for _ in 0..input.len()? {
                match (input.len()?, input.string()?) {
                    (PLAIN, element) => push(&element),
                    (PACKED, node) => unpacked(&node)?.iter().for_each(|element| push(element)),
                    _ => return Err(Bad),
                }
            }
        }
    }
    Ok(list)
}

fn read_set(input: &mut Input<'_>, kind: u8, limits: &Limits) -> Result<Set, Bad> {
    let mut set = Set::new(limits.hash_key);
    let mut add = |member: ValueRef<'_>| if set.add(member, &limits.set) { Ok(()) } else { Err(Bad) };
    match kind {
        kind::SET => strings(input, 1, |member| add(ValueRef::Bytes(&member[0])))?,
        kind::SET_INTSET => {
            let integers = IntegerSet::from_redis(&input.string()?).ok_or(Bad)?;
            integers.as_integers().iter().try_for_each(|number| add(ValueRef::Integer(number)))?;
        }
        _ => {
            let pack = Pack::from_redis(&input.string()?).ok_or(Bad)?;
            pack.as_packed().iter().try_for_each(&mut add)?;
        }
    }
    Ok(set)
}

fn read_sorted_set(input: &mut Input<'_>, kind: u8, limits: &Limits) -> Result<SortedSet, Bad> {
    let mut set = SortedSet::new(limits.hash_key);
    let mut add = |name: &[u8], score: f64| match set.set(name, score, limits.sorted_set) {
        None if !score.is_nan() => Ok(()),
        _ => Err(Bad),
    };
    match kind {
        kind::SORTED_SET_TEXT | kind::SORTED_SET => {
            for _ in 0..input.len()? {
                let name = input.string()?;
                let score = if kind == kind::SORTED_SET { input.double()? } else { input.double_text()? };
                add(&name, score)?;
            }
        }
        _ => {
            let packed = input.string()?;
            let elements = if kind == kind::SORTED_SET_ZIPLIST { old::ziplist(&packed)? } else { unpacked(&packed)? };
            let (pairs, []) = elements.as_chunks::<2>() else { return Err(Bad) };
            for [name, score] in pairs {
                let score = std::str::from_utf8(score).ok().and_then(|text| text.parse().ok());
                add(name, score.ok_or(Bad)?)?;
            }
        }
    }
    Ok(set)
}

fn read_hash(input: &mut Input<'_>, kind: u8, limits: &Limits) -> Result<Map, Bad> {
    let mut map = Map::new(limits.hash_key);
    let mut set = |field: &[u8], value: &[u8]| {
        let is_new = map.set(field, value, Deadline::Clear, limits.hash, limits.now_ms);
        if is_new { Ok(()) } else { Err(Bad) }
    };
    if kind == kind::HASH {
        strings(input, 2, |pair| set(&pair[0], &pair[1]))?;
        return Ok(map);
    }
    let packed = input.string()?;
    let elements = match kind {
        kind::HASH_ZIPMAP => old::zipmap(&packed)?,
        kind::HASH_ZIPLIST => old::ziplist(&packed)?,
        _ => unpacked(&packed)?,
    };
    let (pairs, []) = elements.as_chunks::<2>() else { return Err(Bad) };
    pairs.iter().try_for_each(|[field, value]| set(field, value))?;
    Ok(map)
}

fn read_timed_hash(input: &mut Input<'_>, kind: u8, limits: &Limits) -> Result<Map, Bad> {
    let due_ms = input.number()?;
    let mut map = Map::new(limits.hash_key);
    let mut set = |field: &[u8], value: &[u8], at_ms: i64| {
        let deadline = if at_ms == 0 { Deadline::Clear } else { Deadline::At(at_ms) };
        if at_ms != 0 && at_ms <= limits.now_ms {
            return Ok(());
        }
        let is_new = map.set(field, value, deadline, limits.hash, limits.now_ms);
        if is_new { Ok(()) } else { Err(Bad) }
    };
    if kind == kind::HASH_TIMED {
        for _ in 0..input.len()? {
            let from_due = i64::try_from(input.len()?).map_err(|_| Bad)?;
            let (field, value) = (input.string()?, input.string()?);
            let at_ms = if from_due == 0 { 0 } else { due_ms.checked_add(from_due - 1).ok_or(Bad)? };
            set(&field, &value, at_ms)?;
        }
        return Ok(map);
    }
    let elements = unpacked(&input.string()?)?;
    let (triples, []) = elements.as_chunks::<3>() else { return Err(Bad) };
    for [field, value, at_ms] in triples {
        let at_ms = ValueRef::Bytes(at_ms).integer().filter(|&at_ms| at_ms >= 0).ok_or(Bad)?;
        set(field, value, at_ms)?;
    }
    Ok(map)
}

fn read_id(input: &mut Input<'_>) -> Result<StreamId, Bad> {
    Ok(StreamId { ms: input.len()?, seq: input.len()? })
}

/// An id of sixteen bytes, highest first.
fn read_raw_id(input: &mut Input<'_>) -> Result<StreamId, Bad> {
    Ok(StreamId { ms: input.big_number()?, seq: input.big_number()? })
}

fn read_stream(input: &mut Input<'_>, kind: u8, limits: &Limits) -> Result<Stream, Bad> {
    let mut stream = Stream::new(limits.hash_key);
    for _ in 0..input.len()? {
        let name = input.string()?;
        let mut name = Input::new(&name);
        let first = read_raw_id(&mut name)?;
        let block = Pack::from_redis(&input.string()?).ok_or(Bad)?;
        read_block(&mut stream, first, &block, limits)?;
    }
    let length = input.len()?;
    let last_id = read_id(input)?;
    let mut counters = StreamCounters { last_id, entries_added: length, max_deleted_id: StreamId::MIN };
    if kind != kind::STREAM {
        read_id(input)?;
        counters.max_deleted_id = read_id(input)?;
        counters.entries_added = input.len()?;
    }
    if length != stream.len() || last_id < stream.last_id() {
        return Err(Bad);
    }
    stream.set_counters(counters);
    for _ in 0..input.len()? {
        let name = input.string()?;
        let group = read_group(input, kind, &stream)?;
        if !stream.add_group(&name, group) {
            return Err(Bad);
        }
    }
    Ok(stream)
}

/// Reads the entries of a block: a master entry with counts and names, then for each entry flags, id less the block's, and
/// values or names and values. Deleted ones are left out.
fn read_block(stream: &mut Stream, first: StreamId, block: &Pack, limits: &Limits) -> Result<(), Bad> {
    const DELETED: i64 = 1;
    const SAME_NAMES: i64 = 2;
    let elements: Vec<ValueRef<'_>> = block.as_packed().iter().collect();
    let mut at = 0;
    let mut next = || {
        at += 1;
        elements.get(at - 1).copied().ok_or(Bad)
    };
    let number = |value: ValueRef<'_>| value.integer().ok_or(Bad);
    let count = |value: ValueRef<'_>| number(value).and_then(|number| usize::try_from(number).map_err(|_| Bad));
    let entries = count(next()?)?.checked_add(count(next()?)?).ok_or(Bad)?;
    let names = count(next()?)?;
    let names: Vec<ValueRef<'_>> = (0..names).map(|_| next()).collect::<Result<_, _>>()?;
    next()?;
    for _ in 0..entries {
        let (flags, ms, seq) = (number(next()?)?, number(next()?)?, number(next()?)?);
        let id = StreamId { ms: first.ms.wrapping_add(ms as u64), seq: first.seq.wrapping_add(seq as u64) };
        let mut fields = Vec::new();
        let mut push = |value: ValueRef<'_>| fields.push(value.bytes(&mut Digits::default()).to_vec());
        if flags & SAME_NAMES != 0 {
            for name in &names {
                push(*name);
                push(next()?);
            }
        } else {
            for _ in 0..count(next()?)? {
                push(next()?);
                push(next()?);
            }
        }
        next()?;
        if flags & DELETED == 0 {
            if id <= stream.last_id() || fields.is_empty() {
                return Err(Bad);
            }
            stream.append(id, fields.iter().map(Vec::as_slice), limits.stream);
        }
    }
    Ok(())
}

fn read_group(input: &mut Input<'_>, kind: u8, stream: &Stream) -> Result<StreamGroup, Bad> {
    let last_id = read_id(input)?;
    let entries_read = if kind == kind::STREAM { stream.entries_up_to(last_id) } else { Some(input.len()?) };
    let mut group = StreamGroup::new(last_id, entries_read.filter(|&read| read != u64::MAX));
    let mut pending = std::collections::BTreeMap::new();
    for _ in 0..input.len()? {
        let id = read_raw_id(input)?;
        pending.insert(id, (input.number()?, input.len()?));
    }
    for _ in 0..input.len()? {
        let (name, seen_ms) = (input.string()?, input.number()?);
        if group.find(&name).is_some() {
            return Err(Bad);
        }
        let consumer = group.add(&name, seen_ms);
        let active_ms = if kind == kind::STREAM_3 { input.number()? } else { seen_ms };
        group.consumer_mut(consumer).active_ms = (active_ms != -1).then_some(active_ms);
        for _ in 0..input.len()? {
            let id = read_raw_id(input)?;
            let (delivered_ms, deliveries) = pending.remove(&id).ok_or(Bad)?;
            group.set_pending(id, Pending { consumer, delivered_ms, deliveries });
        }
    }
    // Every pending entry is somebody's.
    if pending.is_empty() { Ok(group) } else { Err(Bad) }
}
