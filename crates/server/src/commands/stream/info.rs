//! XINFO: facts about a stream, its groups and their consumers, in Redis's fields.
//!
//! It reads with the key's shard locked and changes nothing. FULL shows at most COUNT entries, so that no reply contains a
//! whole large stream.

use std::ops::Range;

use sleeve_store::{Consumer, Stream, StreamEntry, StreamGroup, StreamId};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::group::no_such_group;
use super::reply;
use crate::context::Cx;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The default of COUNT: the entries and the pending entries that FULL shows.
const COUNT_DEFAULT: usize = 10;

/// XINFO STREAM key \[FULL \[COUNT count\]\]
pub fn stream(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now_ms = cx.now.wall_ms();
    cx.reply_apart(|cx, reply| {
        let stream = cx.read_as::<Stream>(request.key(0))?.ok_or(Error::NO_SUCH_KEY)?;
        let of_producers = if stream.producers().is_some() { PRODUCER_FACTS } else { 0 };
        match full_count(request)? {
            None => {
                reply.map(10 + of_producers);
                facts(reply, stream, now_ms);
                reply.bulk(b"groups");
                reply.integer(stream.groups().len() as i64);
                edge(reply, b"first-entry", stream.range(StreamId::MIN, StreamId::MAX).next());
                edge(reply, b"last-entry", stream.range_back(StreamId::MIN, StreamId::MAX).next());
            }
            Some(count) => {
                reply.map(9 + of_producers);
                facts(reply, stream, now_ms);
                reply.bulk(b"entries");
                reply::entries(reply, stream.range(StreamId::MIN, StreamId::MAX), count);
                reply.bulk(b"groups");
                reply.array(stream.groups().len());
                stream.groups().for_each(|(name, group)| full_group(reply, stream, name, group, count));
            }
        }
        Ok(())
    })
}

/// Reads COUNT of FULL; None if FULL is not given.
fn full_count(request: Request<'_>) -> Result<Option<usize>, Error> {
    let is = |at: usize, word: &[u8]| request.arg(at).eq_ignore_ascii_case(word);
    match request.len() {
        3 => Ok(None),
        4 if is(3, b"full") => Ok(Some(COUNT_DEFAULT)),
        6 if is(3, b"full") && is(4, b"count") => {
            let count = number::parse_i64(request.arg(5)).ok_or(Error::NOT_INTEGER)?;
            Ok(Some(match count {
                ..0 => COUNT_DEFAULT,
                0 => usize::MAX,
                count => count as usize,
            }))
        }
        _ => Err(Error::subcommand_syntax("XINFO", request.arg(1))),
    }
}

/// The number of fields about producers that number their messages. They are shown if the stream has such producers.
const PRODUCER_FACTS: usize = 6;

fn facts(reply: &mut Writer<'_>, stream: &Stream, now_ms: i64) {
    let counters = stream.counters();
    let firsts: Vec<[u8; 16]> = stream.blocks().map(|(first, _)| bytes_of(first)).collect();
    for (name, value) in [
        ("length", stream.len() as i64),
        ("radix-tree-keys", firsts.len() as i64),
        ("radix-tree-nodes", tree_nodes(&firsts, 0..firsts.len(), 0) as i64),
    ] {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    reply.bulk(b"last-generated-id");
    reply::id(reply, counters.last_id);
    reply.bulk(b"max-deleted-entry-id");
    reply::id(reply, counters.max_deleted_id);
    reply.bulk(b"entries-added");
    reply.integer(counters.entries_added as i64);
    reply.bulk(b"recorded-first-entry-id");
    reply::id(reply, stream.first_id());
    let Some(producers) = stream.producers() else { return };
    let (limits, tracked) = (producers.limits(), producers.tracked(now_ms));
    let facts: [(&str, u64); PRODUCER_FACTS] = [
        ("idmp-duration", limits.duration_s),
        ("idmp-maxsize", limits.ids_max),
        ("pids-tracked", tracked.producers),
        ("iids-tracked", tracked.messages),
        ("iids-added", producers.added),
        ("iids-duplicates", producers.duplicates),
    ];
    for (name, value) in facts {
        reply.bulk(name.as_bytes());
        reply.integer(value as i64);
    }
}

fn edge(reply: &mut Writer<'_>, name: &[u8], entry: Option<StreamEntry<'_>>) {
    reply.bulk(name);
    match entry {
        Some(entry) => reply::entry(reply, &entry),
        None => reply.null(),
    }
}

fn bytes_of(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

/// Returns how many nodes Redis's radix tree has for the sorted keys in `range`, which are equal up to `depth`: one for a run
/// of bytes without a branch, one for a branch, one for the end of each key.
fn tree_nodes(keys: &[[u8; 16]], range: Range<usize>, depth: usize) -> usize {
    let Some((first, last)) = keys[range.clone()].first().zip(keys[range.clone()].last()) else { return 1 };
    let alike = first.iter().zip(last).take_while(|(one, other)| one == other).count();
    let run = usize::from(alike > depth);
    if range.len() == 1 {
        return run + 1;
    }
    let branches = keys[range.clone()].chunk_by(|one, other| one[alike] == other[alike]);
    let mut at = range.start;
    let below = branches.map(|branch| {
        at += branch.len();
        tree_nodes(keys, at - branch.len()..at, alike + 1)
    });
    run + 1 + below.sum::<usize>()
}

/// XINFO GROUPS key
pub fn groups(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    cx.reply_apart(|cx, reply| {
        let stream = cx.read_as::<Stream>(request.key(0))?.ok_or(Error::NO_SUCH_KEY)?;
        reply.array(stream.groups().len());
        for (name, group) in stream.groups() {
            reply.map(6);
            reply.bulk(b"name");
            reply.bulk(name);
            reply.bulk(b"consumers");
            reply.integer(group.consumers().len() as i64);
            reply.bulk(b"pending");
            reply.integer(group.pending_len() as i64);
            progress(reply, stream, group);
        }
        Ok(())
    })
}

/// Writes how many entries a group has read, and how many it has still to read.
fn progress(reply: &mut Writer<'_>, stream: &Stream, group: &StreamGroup) {
    reply.bulk(b"last-delivered-id");
    reply::id(reply, group.last_id);
    reply.bulk(b"entries-read");
    integer_or_null(reply, group.entries_read.map(|read| read as i64));
    reply.bulk(b"lag");
    integer_or_null(reply, stream.lag(group));
}

fn integer_or_null(reply: &mut Writer<'_>, value: Option<i64>) {
    match value {
        Some(value) => reply.integer(value),
        None => reply.null(),
    }
}

fn full_group(reply: &mut Writer<'_>, stream: &Stream, name: &[u8], group: &StreamGroup, count: usize) {
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(name);
    progress(reply, stream, group);
    reply.bulk(b"pel-count");
    reply.integer(group.pending_len() as i64);
    reply.bulk(b"pending");
    let pending = group.pending_in(StreamId::MIN..=StreamId::MAX).take(count);
    reply::counted_array(reply, |reply| {
        let write = |(id, pending): (StreamId, sleeve_store::Pending)| {
            reply.array(4);
            reply::id(reply, id);
            reply.bulk(&group.consumer(pending.consumer).name);
            reply.integer(pending.delivered_ms);
            reply.integer(pending.deliveries as i64);
        };
        pending.map(write).count()
    });
    reply.bulk(b"consumers");
    reply.array(group.consumers().len());
    group.consumers().for_each(|consumer| full_consumer(reply, group, consumer, count));
}

fn full_consumer(reply: &mut Writer<'_>, group: &StreamGroup, consumer: &Consumer, count: usize) {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(&consumer.name);
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen_ms);
    reply.bulk(b"active-time");
    reply.integer(consumer.active_ms.unwrap_or(-1));
    reply.bulk(b"pel-count");
    reply.integer(consumer.pending_len() as i64);
    reply.bulk(b"pending");
    let pending = consumer.pending_from(StreamId::MIN).take(count);
    reply::counted_array(reply, |reply| {
        let write = |(id, pending): (StreamId, sleeve_store::Pending)| {
            reply.array(3);
            reply::id(reply, id);
            reply.integer(pending.delivered_ms);
            reply.integer(pending.deliveries as i64);
        };
        pending.filter_map(|id| Some((id, group.pending(id)?))).map(write).count()
    });
}

/// XINFO CONSUMERS key group
pub fn consumers(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, name, now_ms) = (request.key(0), request.arg(3), cx.now.wall_ms());
    cx.reply_apart(|cx, reply| {
        let stream = cx.read_as::<Stream>(key)?.ok_or(Error::NO_SUCH_KEY)?;
        let group = stream.group(name).ok_or_else(|| no_such_group(key.name, name))?;
        reply.array(group.consumers().len());
        for consumer in group.consumers() {
            reply.map(4);
            reply.bulk(b"name");
            reply.bulk(&consumer.name);
            reply.bulk(b"pending");
            reply.integer(consumer.pending_len() as i64);
            reply.bulk(b"idle");
            reply.integer(now_ms.saturating_sub(consumer.seen_ms).max(0));
            reply.bulk(b"inactive");
            reply.integer(consumer.active_ms.map_or(-1, |active_ms| now_ms.saturating_sub(active_ms).max(0)));
        }
        Ok(())
    })
}
