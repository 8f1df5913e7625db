//! Reading streams: their blocks, and the groups of those who read them.

use std::collections::BTreeMap;

use super::super::bad::Bad;
use super::super::kind;
use super::super::scan::{Input, Source};
use super::packed::packed;
use crate::packed::pack::Pack;
use crate::types::stream::block::BlockLimits;
use crate::types::stream::group::{Pending, StreamGroup};
use crate::types::stream::id::StreamId;
use crate::types::stream::{Stream, StreamCounters};
use crate::value::{Digits, ValueRef};

fn read_id(input: &mut impl Source) -> Result<StreamId, Bad> {
    Ok(StreamId { ms: input.length()?, seq: input.length()? })
}

/// An id of sixteen bytes, highest first.
fn read_raw_id(input: &mut impl Source) -> Result<StreamId, Bad> {
    Ok(StreamId { ms: input.big_number()?, seq: input.big_number()? })
}

/// Reads a stream of this type.
pub(super) fn read_stream(input: &mut impl Source, kind: u8, limits: BlockLimits) -> Result<Stream, Bad> {
    let (mut stream, mut name) = (Stream::default(), Vec::new());
    for _ in 0..input.length()? {
        input.string_into(&mut name)?;
        let first = read_raw_id(&mut Input::new(&name))?;
        if let Err(block) = stream.adopt(first, packed(input)?) {
            read_block(&mut stream, first, &block, limits)?;
        }
    }
    let length = input.length()?;
    let last_id = read_id(input)?;
    let mut counters = StreamCounters { last_id, entries_added: length, max_deleted_id: StreamId::MIN };
    if kind != kind::STREAM {
        read_id(input)?;
        counters.max_deleted_id = read_id(input)?;
        counters.entries_added = input.length()?;
    }
    if length != stream.len() || last_id < stream.last_id() {
        return Err(Bad::Stream);
    }
    stream.set_counters(counters);
    for _ in 0..input.length()? {
        input.string_into(&mut name)?;
        let group = read_group(input, kind, &stream)?;
        if !stream.add_group(&name, group) {
            return Err(Bad::Twice);
        }
    }
    if kind == kind::STREAM_4 {
        no_producers(input)?;
    }
    Ok(stream)
}

/// Reads what Redis 8.6 keeps of producers that number their messages: for how long and how many numbers of each, the
/// producers, and how many messages came with numbers and were there already.
pub fn no_producers(input: &mut impl Source) -> Result<(), Bad> {
    let [_, _, producers] = [input.length()?, input.length()?, input.length()?];
    if producers != 0 {
        return Err(Bad::Producers);
    }
    input.length().and_then(|_| input.length()).map(|_| ())
}

/// Reads the entries of a block: a master entry with counts and names, then for each entry flags, id less the block's, and
/// values or names and values. Deleted ones are left out.
fn read_block(stream: &mut Stream, first: StreamId, block: &Pack, limits: BlockLimits) -> Result<(), Bad> {
    const DELETED: i64 = 1;
    const SAME_NAMES: i64 = 2;
    let elements: Vec<ValueRef<'_>> = block.as_packed().iter().collect();
    let mut at = 0;
    let mut next = || {
        at += 1;
        elements.get(at - 1).copied().ok_or(Bad::Stream)
    };
    let number = |value: ValueRef<'_>| value.integer().ok_or(Bad::Stream);
    let count = |value: ValueRef<'_>| number(value).and_then(|number| usize::try_from(number).map_err(|_| Bad::Stream));
    let entries = count(next()?)?.checked_add(count(next()?)?).ok_or(Bad::Stream)?;
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
                return Err(Bad::Stream);
            }
            stream.append(id, fields.iter().map(Vec::as_slice), limits);
        }
    }
    Ok(())
}

fn read_group(input: &mut impl Source, kind: u8, stream: &Stream) -> Result<StreamGroup, Bad> {
    let last_id = read_id(input)?;
    let entries_read = if kind == kind::STREAM { stream.entries_up_to(last_id) } else { Some(input.length()?) };
    let mut group = StreamGroup::new(last_id, entries_read.filter(|&read| read != u64::MAX));
    let (mut pending, mut name) = (BTreeMap::new(), Vec::new());
    for _ in 0..input.length()? {
        let id = read_raw_id(input)?;
        pending.insert(id, (input.number()?, input.length()?));
    }
    for _ in 0..input.length()? {
        input.string_into(&mut name)?;
        let seen_ms = input.number()?;
        if group.find(&name).is_some() {
            return Err(Bad::Twice);
        }
        let consumer = group.add(&name, seen_ms);
        let active_ms = if kind >= kind::STREAM_3 { input.number()? } else { seen_ms };
        group.consumer_mut(consumer).active_ms = (active_ms != -1).then_some(active_ms);
        for _ in 0..input.length()? {
            let id = read_raw_id(input)?;
            let (delivered_ms, deliveries) = pending.remove(&id).ok_or(Bad::Stream)?;
            group.set_pending(id, Pending { consumer, delivered_ms, deliveries });
        }
    }
    // Every pending entry is somebody's.
    if pending.is_empty() { Ok(group) } else { Err(Bad::Stream) }
}
