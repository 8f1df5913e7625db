//! Streams in the format: blocks, counters, and the groups of consumers, with the pending entries.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::super::bad::Bad;
use super::super::encoder::{Encoder, Version, raw_id};
use super::super::limits::Limits;
use super::super::packed::packed;
use super::super::pass;
use super::super::rdb_type::{Destination, Origin, RdbType};
use super::super::record::{Record, collection_of};
use super::super::scan::{Correction, Input, Source};
use crate::packed::listpack::Packed;
use crate::table::entry::handle::EntryRef;
use crate::types::stream::block::id_at;
use crate::types::stream::capture::StreamRest;
use crate::types::stream::group::{Consumer, Pending, PendingCopy, StreamGroup};
use crate::types::stream::id::StreamId;
use crate::types::stream::producers::{ProducerLimits, Producers};
use crate::types::stream::{Stream, StreamCounters};
use crate::value::capture::open_value::OpenValue;

const STREAM: u8 = 15;
const STREAM_2: u8 = 19;
const STREAM_3: u8 = 21;
/// The type number of a stream with the state that Redis 8.6 keeps of producers that number their messages (`XADD ... IDMP`).
const STREAM_4: u8 = 26;

const ID_BYTES: usize = 16;

impl RdbType for Stream {
    fn has_number(number: u8, origin: Origin) -> bool {
        matches!(number, STREAM | STREAM_2 | STREAM_3) || number == STREAM_4 && origin == Origin::Redis
    }

    fn read(input: &mut impl Source, number: u8, _: Origin, _: &Limits) -> Result<Self, Bad> {
        read_stream(input, number)
    }

    fn pass(input: &mut Input<'_>, number: u8, _: Origin) -> Result<(), Bad> {
        let (counters, counters_of_group) = if number == STREAM { (3, 2) } else { (8, 3) };
        let lengths = |input: &mut Input<'_>, count: usize| (0..count).try_for_each(|_| pass::length(input));
        pass::each(input, |input| pass::string(input).and_then(|()| pass::string(input)))?;
        lengths(input, counters)?;
        pass::each(input, |input| {
            pass::string(input)?;
            lengths(input, counters_of_group)?;
            pass::each(input, |input| pass::bytes(input, ID_BYTES + 8).and_then(|()| pass::length(input)))?;
            pass::each(input, |input| pass_consumer(input, number))
        })?;
        if number == STREAM_4 { pass_producers(input) } else { Ok(()) }
    }

    fn put(self, destination: impl Destination) -> bool {
        destination.collection(self)
    }

    fn write(record: Record<'_>, entry: &EntryRef<'_>, _: i64) {
        write_stream(record, collection_of::<Self>(entry));
    }

    fn open(record: Record<'_>, open_value: &OpenValue) {
        let rest: Option<&StreamRest> = open_value.extra();
        open(record, rest.map_or(0, |rest| rest.blocks as u64), rest.and_then(|rest| rest.rest.producers()).is_some());
    }

    fn write_part(encoder: &mut Encoder, place: u128, bytes: &[u8]) {
        write_block(encoder, id_at(place), Packed::new(bytes));
    }

    fn close(encoder: &mut Encoder, open_value: &OpenValue, pending: Vec<PendingCopy>) {
        if let Some(StreamRest { rest, .. }) = open_value.extra() {
            write_behind_blocks(encoder, rest, pending);
        }
    }
}

fn pass_consumer(input: &mut Input<'_>, number: u8) -> Result<(), Bad> {
    pass::string(input)?;
    pass::bytes(input, if number >= STREAM_3 { 16 } else { 8 })?;
    pass::each(input, |input| pass::bytes(input, ID_BYTES))
}

fn pass_producers(input: &mut Input<'_>) -> Result<(), Bad> {
    let numbers = |input: &mut Input<'_>| pass::length(input).and_then(|()| pass::length(input));
    numbers(input)?;
    pass::each(input, |input| {
        pass::string(input)?;
        pass::each(input, |input| pass::string(input).and_then(|()| numbers(input)))
    })?;
    numbers(input)
}

fn write_stream(record: Record<'_>, stream: &Stream) {
    let encoder = begin_stream(record, stream.blocks_len() as u64, stream.producers().is_some());
    for (first, packed) in stream.blocks() {
        write_block(encoder, first, packed);
    }
    write_stream_counters(encoder, stream.len(), stream.first_id(), stream.counters(), stream.groups().len() as u64);
    for (name, group) in stream.groups() {
        write_whole_group(encoder, name, group);
    }
    write_producers(encoder, stream.producers());
}

fn write_whole_group(encoder: &mut Encoder, name: &[u8], group: &StreamGroup) {
    write_group(encoder, name, group.last_id, group.entries_read, group.pending_len() as u64);
    group.pending_in(StreamId::MIN..=StreamId::MAX).for_each(|(id, pending)| write_pending(encoder, id, pending));
    write_consumers(encoder, group.consumers().len() as u64);
    for consumer in group.consumers() {
        let Consumer { name, seen_ms, active_ms, .. } = consumer;
        write_consumer(encoder, name, *seen_ms, *active_ms, consumer.pending_len() as u64);
        consumer.pending_from(StreamId::MIN).for_each(|id| write_consumer_pending(encoder, id));
    }
}

/// Writes the parts of a stream that stand behind its blocks.
fn write_behind_blocks(encoder: &mut Encoder, stream: &Stream, mut pending: Vec<PendingCopy>) {
    write_stream_counters(encoder, stream.len(), stream.first_id(), stream.counters(), stream.groups().len() as u64);
    pending.sort_unstable_by_key(|copy| (copy.group, copy.id));
    let mut rest = pending.as_mut_slice();
    for (number, (name, group)) in (0..).zip(stream.groups()) {
        let (of_group, behind) = rest.split_at_mut(rest.partition_point(|copy| copy.group <= number));
        rest = behind;
        write_group(encoder, name, group.last_id, group.entries_read, of_group.len() as u64);
        of_group.iter().for_each(|copy| write_pending(encoder, copy.id, copy.pending));
        write_consumers(encoder, group.consumers().len() as u64);
        of_group.sort_unstable_by_key(|copy| (copy.pending.consumer, copy.id));
        for consumer in group.consumers() {
            let number = group.find(&consumer.name);
            let start = of_group.partition_point(|copy| Some(copy.pending.consumer) < number);
            let count = of_group[start..].partition_point(|copy| Some(copy.pending.consumer) == number);
            write_consumer(encoder, &consumer.name, consumer.seen_ms, consumer.active_ms, count as u64);
            of_group[start..start + count].iter().for_each(|copy| write_consumer_pending(encoder, copy.id));
        }
    }
    write_producers(encoder, stream.producers());
}

/// Opens a stream of so many blocks. `has_producers` says whether it has state of producers that number its messages.
pub fn open(record: Record<'_>, blocks: u64, has_producers: bool) {
    begin_stream(record, blocks, has_producers);
}

fn begin_stream<'a>(record: Record<'a>, blocks: u64, has_producers: bool) -> &'a mut Encoder {
    let (number, needed) = match record.encoder.version {
        Version::Ten => (STREAM_2, 10),
        Version::Thirteen if has_producers => (STREAM_4, 13),
        Version::Twelve | Version::Thirteen | Version::Valkey80 => (STREAM_3, 11),
    };
    record.encoder.need(needed);
    let encoder = record.begin(number);
    encoder.len(blocks);
    encoder
}

/// Writes a block of a stream, and the id of the block.
pub fn write_block(encoder: &mut Encoder, first: StreamId, packed: Packed<'_>) {
    encoder.text(&raw_id(first));
    encoder.packed(packed);
}

/// Writes the part behind the blocks of a stream: the number of its entries, the id of the first of them, its counters
/// and the number of its groups.
pub fn write_stream_counters(
    encoder: &mut Encoder,
    entries: u64,
    first_id: StreamId,
    counters: StreamCounters,
    groups: u64,
) {
    encoder.len(entries);
    encoder.id(counters.last_id);
    encoder.id(first_id);
    encoder.id(counters.max_deleted_id);
    encoder.len(counters.entries_added);
    encoder.len(groups);
}

/// Writes the beginning of a group: its name, its position, and the number of its pending entries.
pub fn write_group(encoder: &mut Encoder, name: &[u8], last_id: StreamId, entries_read: Option<u64>, pending: u64) {
    encoder.text(name);
    encoder.id(last_id);
    // An unknown number is -1, which as a length is the largest number.
    encoder.len(entries_read.unwrap_or(u64::MAX));
    encoder.len(pending);
}

/// Writes a pending entry of a group.
pub fn write_pending(encoder: &mut Encoder, id: StreamId, pending: Pending) {
    encoder.raw_id(id);
    encoder.number(pending.delivered_ms);
    encoder.len(pending.deliveries);
}

/// Writes the number of a group's consumers, behind its pending entries.
pub fn write_consumers(encoder: &mut Encoder, count: u64) {
    encoder.len(count);
}

/// Writes the part in front of a consumer's entries: its name, its times, and the number of the entries.
pub fn write_consumer(encoder: &mut Encoder, name: &[u8], seen_ms: i64, active_ms: Option<i64>, pending: u64) {
    encoder.text(name);
    encoder.number(seen_ms);
    // Version 10 has only one time: a consumer counts as active whenever it was seen.
    if encoder.version != Version::Ten {
        encoder.number(active_ms.unwrap_or(-1));
    }
    encoder.len(pending);
}

/// Writes the id of an entry that a consumer has, which is one of the group's pending entries.
pub fn write_consumer_pending(encoder: &mut Encoder, id: StreamId) {
    encoder.raw_id(id);
}

/// Writes the state of producers that number their messages, behind the groups, if there is any and the version can express
/// it.
pub fn write_producers(encoder: &mut Encoder, producers: Option<&Producers>) {
    let Some(producers) = producers.filter(|_| encoder.version == Version::Thirteen) else { return };
    let ProducerLimits { duration_s, ids_max } = producers.limits();
    encoder.len(duration_s);
    encoder.len(ids_max);
    encoder.len(producers.len() as u64);
    for (name, messages) in producers.iter() {
        encoder.text(name);
        encoder.len(messages.len() as u64);
        for (message, entry) in messages {
            encoder.text(message);
            encoder.id(entry);
        }
    }
    encoder.len(producers.added);
    encoder.len(producers.duplicates);
}

fn read_id(input: &mut impl Source) -> Result<StreamId, Bad> {
    Ok(StreamId { ms: input.length()?, seq: input.length()? })
}

/// Reads an id of sixteen bytes, highest first.
fn read_raw_id(input: &mut impl Source) -> Result<StreamId, Bad> {
    Ok(StreamId { ms: input.big_number()?, seq: input.big_number()? })
}

/// Reads a stream of this type.
fn read_stream(input: &mut impl Source, number: u8) -> Result<Stream, Bad> {
    let (mut stream, mut name) = (Stream::default(), Vec::new());
    let blocks = input.length()?;
    for _ in 0..blocks {
        input.string_into(&mut name)?;
        let first = read_raw_id(&mut Input::new(&name))?;
        if let Err(block) = stream.adopt(first, packed(input)?) {
            let is_as_it_says = stream.adopt_live(first, block.as_packed()).ok_or(Bad::Packed)?;
            if !is_as_it_says {
                input.correct(Correction::Blocks);
            }
        }
    }
    let stated = input.length()?;
    let (length, stated_last) = (stream.len(), read_id(input)?);
    let last_id = stated_last.max(stream.last_id());
    let mut counters = StreamCounters { last_id, entries_added: length, max_deleted_id: StreamId::MIN };
    if number != STREAM {
        read_id(input)?;
        counters.max_deleted_id = read_id(input)?;
        counters.entries_added = input.length()?.min(StreamCounters::COUNT_MAX);
    }
    if stated != length {
        // If there is no block at all, data is missing. Otherwise some servers have counted wrongly.
        (blocks > 0).then(|| input.correct(Correction::Length)).ok_or(Bad::Stream)?;
    }
    if last_id != stated_last {
        input.correct(Correction::LastId);
    }
    stream.set_counters(counters);
    for _ in 0..input.length()? {
        input.string_into(&mut name)?;
        let group = read_group(input, number, &stream)?;
        if !stream.add_group(&name, group) {
            return Err(Bad::Twice);
        }
    }
    if number == STREAM_4 {
        read_producers(input, &mut stream)?;
    }
    Ok(stream)
}

/// Reads the state that Redis 8.6 keeps of producers that number their messages: the limits of that memory, the producers
/// with their message ids and the entries of these, the number of messages that came with ids, and the number of those that
/// were duplicates.
fn read_producers(input: &mut impl Source, stream: &mut Stream) -> Result<(), Bad> {
    let limits = ProducerLimits { duration_s: input.length()?, ids_max: input.length()? };
    let is_within =
        |number: u64, range: RangeInclusive<i64>| i64::try_from(number).is_ok_and(|number| range.contains(&number));
    if !is_within(limits.duration_s, ProducerLimits::DURATION_S) || !is_within(limits.ids_max, ProducerLimits::IDS) {
        return Err(Bad::Producers);
    }
    let (mut producers, mut name, mut message) = (Producers::new(limits), Vec::new(), Vec::new());
    let mut known = 0;
    for _ in 0..input.length()? {
        input.string_into(&mut name)?;
        let messages = input.length()?;
        if messages > limits.ids_max {
            return Err(Bad::Producers);
        }
        for _ in 0..messages {
            input.string_into(&mut message)?;
            let entry = read_id(input)?;
            if producers.knows(&name, &message) {
                return Err(Bad::Twice);
            }
            producers.know(&name, &message, entry);
        }
        known += usize::from(messages > 0);
        if producers.len() != known {
            return Err(Bad::Twice);
        }
    }
    (producers.added, producers.duplicates) = (input.length()?, input.length()?);
    let is_used = limits != ProducerLimits::default() || producers.added > 0 || !producers.is_empty();
    if is_used {
        *stream.producers_mut(limits) = producers;
    }
    Ok(())
}

fn read_group(input: &mut impl Source, number: u8, stream: &Stream) -> Result<StreamGroup, Bad> {
    let last_id = read_id(input)?;
    let entries_read = if number == STREAM { stream.entries_up_to(last_id) } else { Some(input.length()?) };
    let mut group = StreamGroup::new(
        last_id,
        entries_read.filter(|&read| read != u64::MAX).map(|read| read.min(StreamCounters::COUNT_MAX)),
    );
    let (mut pending, mut name) = (BTreeMap::new(), Vec::new());
    for _ in 0..input.length()? {
        let id = read_raw_id(input)?;
        let delivered = (input.number()?, input.length()?.min(Pending::DELIVERIES_MAX));
        if pending.insert(id, (delivered, false)).is_some() {
            return Err(Bad::Twice);
        }
    }
    for _ in 0..input.length()? {
        input.string_into(&mut name)?;
        let seen_ms = input.number()?;
        if group.find(&name).is_some() {
            return Err(Bad::Consumer);
        }
        let consumer = group.add(&name, seen_ms);
        let active_ms = if number >= STREAM_3 { input.number()? } else { seen_ms };
        group.consumer_mut(consumer).active_ms = (active_ms != -1).then_some(active_ms);
        for _ in 0..input.length()? {
            let id = read_raw_id(input)?;
            let ((delivered_ms, deliveries), is_owned) = pending.get_mut(&id).ok_or(Bad::Stream)?;
            if std::mem::replace(is_owned, true) {
                if group.pending(id).is_some_and(|before| before.consumer == consumer) {
                    return Err(Bad::Twice);
                }
                input.correct(Correction::Pending);
            }
            let pending = Pending { consumer, delivered_ms: *delivered_ms, deliveries: *deliveries };
            group.set_pending(id, pending);
        }
    }
    if pending.values().any(|(_, is_owned)| !is_owned) {
        input.correct(Correction::Pending);
    }
    Ok(group)
}
