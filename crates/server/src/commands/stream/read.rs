//! XREAD and XREADGROUP: entries of several streams after given ids, for one reader or for the consumer of a group.
//!
//! A stream without new entries is left out of the reply. If no stream has any, the command may block (`BLOCK`); it waits for
//! each stream with a request for that stream alone. Reading in a group changes the group: delivered entries become pending,
//! and its last id advances. The journal gets these effects (XCLAIM with times and counts, XGROUP SETID), because a replay
//! must not deliver anything.

use sleeve_store::{Kind, Pending, Stream, StreamCounters, StreamGroup, StreamId};
use sleeve_wire::number;
use sleeve_wire::reply::{Protocol, Writer};
use sleeve_wire::request::OwnedArgs;

use super::group::no_group;
use super::id;
use super::reply;
use crate::commands::block_timeout;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::clients::blocking::{Block, OnTimeout, Wait};
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The least time after which a blocked command with CLAIM is run again, in milliseconds.
const LOOK_MS_MIN: i64 = 100;

/// The options of a read, for each stream.
#[derive(Debug, Default)]
struct ReadOptions<'a> {
    /// BLOCK: the deadline; the inner None stands for no timeout.
    deadline_ms: Option<Option<i64>>,
    /// COUNT: the most entries of one stream; 0 for all.
    count: usize,
    /// GROUP: the group and its consumer.
    reader: Option<(&'a [u8], &'a [u8])>,
    /// NOACK: the delivered entries count as acknowledged.
    no_ack: bool,
    /// CLAIM: entries that have been pending for other consumers for at least so many milliseconds are delivered too, before
    /// the new ones.
    claim_ms: Option<i64>,
    /// The index of the first key among the arguments.
    streams_at: usize,
}

/// The position after which a stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// After this id. In a group: those of the consumer's pending entries that are after this id.
    Id(StreamId),
    /// `>`: after the last entry that was delivered to the group.
    Delivered,
}

/// Answers XREAD and XREADGROUP.
pub fn read(cx: &mut Cx<'_>, request: Request<'_>, in_group: bool) -> Outcome {
    let options = parse(cx, request, in_group)?;
    let keys: Vec<Key<'_>> = request.keys().collect();
    let ids = request.args.from(options.streams_at + keys.len());
    let places = keys.iter().zip(ids.iter()).map(|(key, text)| place(cx, &options, *key, text));
    let places = places.collect::<Result<Vec<After>, Error>>()?;
    let served = cx.reply_apart(|cx, reply| {
        let (start, mut served) = (reply.out.len(), 0);
        for (key, after) in keys.iter().zip(&places) {
            let is_served = match options.reader {
                None => read_alone(cx, reply, *key, *after, options.count),
                Some(reader) => read_as(cx, reply, *key, *after, reader, &options),
            };
            served += usize::from(is_served?);
        }
        if served != 0 {
            reply::insert(reply, start, |head| match head.protocol {
                Protocol::Resp2 => head.array(served),
                Protocol::Resp3 => head.map(served),
            });
        }
        Ok::<usize, Error>(served)
    })?;
    if served != 0 {
        return Ok(());
    }
    match options.deadline_ms {
        Some(deadline_ms) if cx.may_block() => wait(cx, request, &options, deadline_ms, &keys, &places),
        _ => cx.reply().null_array(),
    }
    Ok(())
}

fn parse<'a>(cx: &Cx<'_>, request: Request<'a>, in_group: bool) -> Result<ReadOptions<'a>, Error> {
    let (mut options, mut at) = (ReadOptions::default(), 1);
    while at < request.len() {
        let (word, more) = (request.arg(at).to_ascii_lowercase(), request.len() - 1 - at);
        match word.as_slice() {
            b"block" if more != 0 => {
                options.deadline_ms = Some(block_timeout::deadline_of_milliseconds(cx, request.arg(at + 1))?);
                at += 2;
            }
            b"count" if more != 0 => {
                options.count = number::parse_i64(request.arg(at + 1)).ok_or(Error::NOT_INTEGER)?.max(0) as usize;
                at += 2;
            }
            b"streams" if more != 0 => {
                options.streams_at = at + 1;
                break;
            }
            b"group" if more >= 2 && in_group => {
                options.reader = Some((request.arg(at + 1), request.arg(at + 2)));
                at += 3;
            }
            b"group" if more >= 2 => return Err(only_in_group("GROUP")),
            b"noack" if in_group => {
                options.no_ack = true;
                at += 1;
            }
            b"noack" => return Err(only_in_group("NOACK")),
            b"claim" if more != 0 && in_group => {
                options.claim_ms = Some(min_idle_time(request.arg(at + 1))?);
                at += 2;
            }
            b"claim" if more != 0 => return Err(only_in_group("CLAIM")),
            _ => return Err(Error::SYNTAX),
        }
    }
    if options.streams_at == 0 {
        return Err(Error::SYNTAX);
    }
    if !(request.len() - options.streams_at).is_multiple_of(2) {
        let (name, id) = if in_group { ("xreadgroup", '>') } else { ("xread", '$') };
        return Err(Error::new(format!(
            "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{id}' must be specified."
        )));
    }
    if in_group && options.reader.is_none() {
        return Err(Error::fixed("ERR Missing GROUP option for XREADGROUP"));
    }
    Ok(options)
}

fn min_idle_time(text: &[u8]) -> Result<i64, Error> {
    let not_integer = Error::fixed("ERR min-idle-time is not an integer or out of range");
    let milliseconds = number::parse_i64(text).ok_or(not_integer)?;
    let is_time = milliseconds >= 0;
    is_time.then_some(milliseconds).ok_or(Error::fixed("ERR min-idle-time must be a positive integer"))
}

fn only_in_group(option: &str) -> Error {
    Error::new(format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."))
}

/// Reads the id of one stream. Refuses a key that holds no stream, and a stream without the group.
fn place(cx: &mut Cx<'_>, options: &ReadOptions<'_>, key: Key<'_>, text: &[u8]) -> Result<After, Error> {
    // This lookup counts as a read, as the later one that reads the entries does.
    let stream = cx.read_as::<Stream>(key)?;
    if let Some((group, _)) = options.reader
        && stream.is_none_or(|stream| stream.group(group).is_none())
    {
        let error = no_group(key.name, group);
        return Err(Error::naming("{} in XREADGROUP with GROUP option", &[error.text()]));
    }
    match (text, options.reader.is_some()) {
        (b"$", false) => Ok(After::Id(stream.map_or(StreamId::MIN, Stream::last_id))),
        (b"$", true) => Err(Error::fixed(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
             specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        )),
        (b"+", false) => {
            let last = stream.and_then(Stream::last_entry_id).and_then(StreamId::previous);
            Ok(After::Id(last.unwrap_or_else(|| stream.map_or(StreamId::MIN, Stream::last_id))))
        }
        (b"+", true) => Err(Error::fixed(
            "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
             specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.",
        )),
        (b">", false) => Err(Error::fixed(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        (b">", true) => Ok(After::Delivered),
        _ => id::strict(text, 0).map(After::Id),
    }
}

/// Returns the most entries for a COUNT, of which 0 stands for all.
fn most(count: usize) -> usize {
    if count == 0 { usize::MAX } else { count }
}

/// Writes the name of a stream before its entries.
fn name(reply: &mut Writer<'_>, key: Key<'_>) {
    if reply.protocol == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key.name);
}

/// Replies with a stream's entries after an id; returns false if there are none.
fn read_alone(
    cx: &mut Cx<'_>,
    reply: &mut Writer<'_>,
    key: Key<'_>,
    after: After,
    count: usize,
) -> Result<bool, Error> {
    let stream = cx.read_as::<Stream>(key)?;
    let After::Id(id) = after else { return Ok(false) };
    let (Some(stream), Some(start)) = (stream, id.next()) else { return Ok(false) };
    let mut found = stream.range(start, StreamId::MAX).peekable();
    if found.peek().is_none() {
        return Ok(false);
    }
    name(reply, key);
    reply::entries(reply, found, most(count));
    Ok(true)
}

/// The effects of reading in a group.
#[derive(Default)]
struct Done {
    is_served: bool,
    is_new_consumer: bool,
    /// The entries that became pending, or were delivered again, with their delivery times and counts.
    pending: Vec<(StreamId, Pending)>,
    /// The group's new last id and its count of read entries, if they have advanced.
    went_on: Option<(StreamId, Option<u64>)>,
}

/// Replies with a stream's entries for the consumer of a group; returns false if there are none.
fn read_as(
    cx: &mut Cx<'_>,
    reply: &mut Writer<'_>,
    key: Key<'_>,
    after: After,
    (group_name, consumer): (&[u8], &[u8]),
    options: &ReadOptions<'_>,
) -> Result<bool, Error> {
    let now_ms = cx.now.wall_ms();
    let updated = cx.update_present::<Stream, _>(key, |stream| {
        stream.change_group(group_name, |group, stream| {
            let mut done = Done::default();
            let known = group.find(consumer);
            done.is_new_consumer = known.is_none();
            let number = known.unwrap_or_else(|| group.add(consumer, now_ms));
            group.consumer_mut(number).seen_ms = now_ms;
            let fresh = Pending { consumer: number, delivered_ms: now_ms, deliveries: 1 };
            match after {
                After::Id(id) => {
                    name(reply, key);
                    done.is_served = true;
                    deliver_again(reply, group, stream, (id, fresh), options, &mut done);
                }
                After::Delivered => {
                    let due = options.claim_ms.map_or(Vec::new(), |min| due(group, stream, now_ms, min));
                    if !due.is_empty() || stream.last_entry_id().is_some_and(|last| last > group.last_id) {
                        name(reply, key);
                        done.is_served = true;
                        deliver(reply, group, stream, (&due, fresh), options, &mut done);
                    }
                }
            }
            done
        })
    })?;
    if updated.is_some() {
        cx.counters.hits.add(1);
    }
    let done = updated.and_then(|updated| updated.result).unwrap_or_default();
    if done.is_new_consumer {
        cx.notify(EventClass::Stream, "xgroup-createconsumer", key);
    }
    record(cx, key, (group_name, consumer), &done);
    Ok(done.is_served)
}

/// Replies with claimed entries and then with those that were delivered to no consumer yet, and makes them pending.
fn deliver(
    reply: &mut Writer<'_>,
    group: &mut StreamGroup,
    stream: &Stream,
    (due, fresh): (&[(StreamId, Pending)], Pending),
    options: &ReadOptions<'_>,
    done: &mut Done,
) {
    let (most, start) = (most(options.count), group.last_id.next());
    reply::counted_array(reply, |reply| {
        let claimed = due.iter().take(most).filter_map(|(id, before)| Some((stream.get(*id)?, before)));
        let mut count = 0;
        for (entry, before) in claimed {
            if !reply.is_full() {
                let idle_ms = fresh.delivered_ms.saturating_sub(before.delivered_ms);
                reply::entry_with_history(reply, &entry, idle_ms, before.deliveries);
            }
            let pending = Pending { deliveries: before.once_more(), ..fresh };
            group.set_pending(entry.id, pending);
            done.pending.push((entry.id, pending));
            count += 1;
        }
        let new = start.into_iter().flat_map(|start| stream.range(start, StreamId::MAX));
        for entry in new.take(most - count) {
            go_on(group, stream, entry.id);
            // An entry that does not fit into the reply is delivered all the same: the group advances by the number that was
            // asked for.
            match options.claim_ms {
                _ if reply.is_full() => {}
                None => reply::entry(reply, &entry),
                Some(_) => reply::entry_with_history(reply, &entry, 0, 0),
            }
            if !options.no_ack {
                group.set_pending(entry.id, fresh);
                done.pending.push((entry.id, fresh));
            }
            done.went_on = Some((group.last_id, group.entries_read));
            count += 1;
        }
        count
    });
    if !done.pending.is_empty() {
        group.consumer_mut(fresh.consumer).active_ms = Some(fresh.delivered_ms);
    }
}

/// Advances the group by one entry.
fn go_on(group: &mut StreamGroup, stream: &Stream, id: StreamId) {
    group.entries_read = match group.entries_read {
        // If entries were trimmed before the group has read them, they are counted as read when the group advances, as in
        // Redis 8 and Valkey 9.
        Some(read) if group.last_id >= stream.first_id() && !stream.has_tombstones_from(id) => {
            Some(StreamCounters::count(read, 1))
        }
        _ => stream.entries_up_to(id),
    };
    group.last_id = id;
}

/// Replies with the consumer's pending entries; for a deleted entry, only with its id.
fn deliver_again(
    reply: &mut Writer<'_>,
    group: &mut StreamGroup,
    stream: &Stream,
    (after, fresh): (StreamId, Pending),
    options: &ReadOptions<'_>,
    done: &mut Done,
) {
    let consumer = group.consumer(fresh.consumer);
    let start = after.next();
    let ids = start.into_iter().flat_map(|start| consumer.pending_from(start)).take(most(options.count));
    reply::counted_array(reply, |reply| {
        let mut count = 0;
        for id in ids {
            match stream.get(id) {
                Some(entry) => {
                    if !reply.is_full() {
                        reply::entry(reply, &entry);
                    }
                    let deliveries = group.pending(id).map_or(1, |pending| pending.once_more());
                    done.pending.push((id, Pending { deliveries, ..fresh }));
                }
                None => {
                    reply.array(2);
                    reply::id(reply, id);
                    reply.null_array();
                }
            }
            count += 1;
        }
        count
    });
    for &(id, pending) in &done.pending {
        group.set_pending(id, pending);
    }
}

/// Counts and records the changes of a read: each stream with delivered entries counts once, as in Redis.
fn record(cx: &mut Cx<'_>, key: Key<'_>, (group, consumer): (&[u8], &[u8]), done: &Done) {
    cx.changed_many(u64::from(done.is_new_consumer) + u64::from(done.is_served));
    cx.locks.recorder.record_nothing();
    if !cx.locks.recorder.is_recording() {
        return;
    }
    if done.is_new_consumer {
        cx.record(&[b"XGROUP", b"CREATECONSUMER", key.name, group, consumer]);
    }
    super::group::record_pending(cx, key, group, consumer, &done.pending);
    if let Some((last_id, entries_read)) = done.went_on {
        // The count is one of added entries, so it fits.
        let read = entries_read.map_or(-1, |read| read as i64);
        if let Some(mut words) = cx.effect(7) {
            words.bulks(&[b"XGROUP", b"SETID", key.name, group]);
            reply::id(&mut words, last_id);
            words.bulk(b"ENTRIESREAD");
            words.bulk_integer(read);
        }
    }
}

/// Blocks the client: it waits for each stream with a request for that stream alone.
fn wait(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    options: &ReadOptions<'_>,
    deadline_ms: Option<i64>,
    keys: &[Key<'_>],
    places: &[After],
) {
    let (count, claim_ms) = (options.count.to_string(), options.claim_ms.map(|min| min.to_string()));
    let narrowed = |key: &Key<'_>, after: &After| {
        let id = match after {
            After::Id(id) => id.to_string(),
            After::Delivered => ">".to_owned(),
        };
        let mut words: Vec<&[u8]> = vec![request.arg(0)];
        if let Some((group, consumer)) = options.reader {
            words.extend([&b"GROUP"[..], group, consumer]);
        }
        if options.no_ack {
            words.push(b"NOACK");
        }
        if let Some(min) = &claim_ms {
            words.extend([&b"CLAIM"[..], min.as_bytes()]);
        }
        words.extend([&b"COUNT"[..], count.as_bytes(), b"BLOCK", b"0", b"STREAMS", key.name, id.as_bytes()]);
        OwnedArgs::collect(words)
    };
    let even_gone = options.reader.is_some();
    let waits = keys.iter().zip(places).map(|(key, after)| Wait {
        key: *key,
        kind: Kind::Stream,
        even_gone,
        request: narrowed(key, after),
    });
    let waits = waits.collect();
    cx.block(request.row, Block { deadline_ms, waits, on_timeout: OnTimeout::NullArray });
    if let (Some(min), Some((group, _))) = (options.claim_ms, options.reader) {
        let read = keys.iter().zip(places).filter(|(_, after)| **after == After::Delivered).map(|(key, _)| *key);
        look_again(cx, read, group, min);
    }
}

/// Returns the entries that were delivered at least so many milliseconds ago and still exist, the longest pending first.
fn due(group: &StreamGroup, stream: &Stream, now_ms: i64, min_idle_ms: i64) -> Vec<(StreamId, Pending)> {
    let is_due = |pending: &Pending| now_ms.saturating_sub(pending.delivered_ms) >= min_idle_ms;
    let pending = group.pending_in(StreamId::MIN..=StreamId::MAX);
    let mut due: Vec<_> = pending.filter(|(id, pending)| is_due(pending) && stream.get(*id).is_some()).collect();
    due.sort_by_key(|(id, pending)| (pending.delivered_ms, *id));
    due
}

/// Runs a blocked command again when the next entry of these streams has been pending for long enough. An entry that is
/// delivered later cannot be due before `min_idle_ms` has passed, and after that time the command is run again in any case.
fn look_again<'k>(cx: &mut Cx<'_>, keys: impl Iterator<Item = Key<'k>>, group: &[u8], min_idle_ms: i64) {
    let now_ms = cx.now.wall_ms();
    let mut left_ms = min_idle_ms.max(LOOK_MS_MIN);
    for key in keys {
        let Ok(Some(stream)) = cx.peek_as::<Stream>(key) else { continue };
        let pending = stream.group(group).into_iter().flat_map(|group| group.pending_in(StreamId::MIN..=StreamId::MAX));
        // An entry that has been pending for longer no longer exists in the stream.
        let left = pending.map(|(_, pending)| pending.delivered_ms.saturating_add(min_idle_ms).saturating_sub(now_ms));
        left_ms = left.filter(|&left| left > 0).fold(left_ms, i64::min);
    }
    cx.look_again_in(left_ms as u64);
}
