//! XGROUP and XACK: create, change and remove groups of consumers, and acknowledge entries.
//!
//! These commands change nothing that WATCH guards: as in Redis, that is a stream's entries and not its groups.

use sleeve_store::{Pending, Stream, StreamGroup, StreamId};
use sleeve_wire::number;

use super::id;
use super::parse_ids;
use super::reply;
use crate::context::Cx;
use crate::context::key_change::Cause;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// Returns the error for a stream that is missing, or that has no such group.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> Error {
    Error::naming("NOGROUP No such key '{}' or consumer group '{}'", &[key, group])
}

/// Returns the error for a group that a stream does not have.
pub(super) fn no_such_group(key: &[u8], group: &[u8]) -> Error {
    Error::naming("NOGROUP No such consumer group '{}' for key name '{}'", &[group, key])
}

const NO_STREAM: Error = Error::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to \
     create an empty stream automatically.",
);

/// Changes a group of a stream; the stream and the group must exist.
fn change<R>(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    change: impl FnOnce(&mut StreamGroup, &Stream) -> R,
) -> Result<R, Error> {
    let (key, name) = (request.key(0), request.arg(3));
    let updated = cx.update_present::<Stream, _>(key, |stream| stream.change_group(name, change))?;
    updated.ok_or(NO_STREAM)?.result.ok_or_else(|| no_such_group(key.name, name))
}

/// The options of CREATE and SETID.
struct GroupOptions {
    makes_stream: bool,
    entries_read: Option<u64>,
}

impl GroupOptions {
    fn parse(request: Request<'_>, is_create: bool) -> Result<Self, Error> {
        let mut parsed = Self { makes_stream: false, entries_read: None };
        let mut options = request.args.from(5).iter();
        while let Some(option) = options.next() {
            if is_create && option.eq_ignore_ascii_case(b"mkstream") {
                parsed.makes_stream = true;
            } else if option.eq_ignore_ascii_case(b"entriesread")
                && let Some(value) = options.next()
            {
                parsed.entries_read = match number::parse_i64(value).ok_or(Error::NOT_INTEGER)? {
                    -1 => None,
                    ..-1 => return Err(Error::fixed("ERR value for ENTRIESREAD must be positive or -1")),
                    count => Some(count as u64),
                };
            } else {
                return Err(Error::subcommand_syntax("XGROUP", request.arg(1)));
            }
        }
        Ok(parsed)
    }
}

/// XGROUP CREATE key group id | $ \[MKSTREAM\] \[ENTRIESREAD entries-read\]
pub fn create(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (options, key) = (GroupOptions::parse(request, true)?, request.key(0));
    let last_id = cx.probe_as::<Stream>(key)?.map(Stream::last_id);
    if last_id.is_none() && !options.makes_stream {
        return Err(NO_STREAM);
    }
    let id = match request.arg(4) {
        b"$" => last_id.unwrap_or_default(),
        text => match id::strict(text, 0) {
            Ok(id) => id,
            Err(error) => {
                cx.look(key);
                return Err(error);
            }
        },
    };
    let group = StreamGroup::new(id, options.entries_read);
    let updated = cx.update::<Stream, _>(key, |stream| stream.add_group(request.arg(3), group))?;
    if !updated.result {
        return Err(Error::fixed("BUSYGROUP Consumer Group name already exists"));
    }
    if updated.created {
        cx.changed(key);
    } else {
        cx.changed_many(1);
    }
    cx.notify(EventClass::Stream, "xgroup-create", key);
    cx.reply().ok();
    Ok(())
}

/// XGROUP SETID key group id | $ \[ENTRIESREAD entries-read\]
pub fn set_id(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (options, key) = (GroupOptions::parse(request, false)?, request.key(0));
    let set = change(cx, request, |group, stream| {
        group.last_id = match request.arg(4) {
            b"$" => stream.last_id(),
            text => id::relaxed(text, 0)?,
        };
        group.entries_read = options.entries_read;
        Ok::<(), Error>(())
    })?;
    set?;
    cx.changed_many(1);
    cx.notify(EventClass::Stream, "xgroup-setid", key);
    cx.reply().ok();
    Ok(())
}

/// XGROUP DESTROY key group
pub fn destroy(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, name) = (request.key(0), request.arg(3));
    let updated = cx.update_present::<Stream, _>(key, |stream| stream.remove_group(name))?;
    let is_gone = updated.ok_or(NO_STREAM)?.result;
    if is_gone {
        cx.tell(Cause::GroupRemoved, cx.state.database, key);
        cx.notify(EventClass::Stream, "xgroup-destroy", key);
    }
    cx.reply().integer(i64::from(is_gone));
    Ok(())
}

/// XGROUP CREATECONSUMER key group consumer
pub fn create_consumer(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, name, now_ms) = (request.key(0), request.arg(4), cx.now.wall_ms());
    let is_new = change(cx, request, |group, _| {
        let is_new = group.find(name).is_none();
        if is_new {
            group.add(name, now_ms);
        }
        is_new
    })?;
    if is_new {
        cx.changed_many(1);
        cx.notify(EventClass::Stream, "xgroup-createconsumer", key);
    }
    cx.reply().integer(i64::from(is_new));
    Ok(())
}

/// XGROUP DELCONSUMER key group consumer
pub fn delete_consumer(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, name) = (request.key(0), request.arg(4));
    let pending = change(cx, request, |group, _| group.remove(name))?;
    if pending.is_some() {
        cx.changed_many(1);
        cx.notify(EventClass::Stream, "xgroup-delconsumer", key);
    }
    cx.reply().integer(pending.unwrap_or(0) as i64);
    Ok(())
}

/// XACK key group id \[id ...\]
pub fn xack(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, name) = (request.key(0), request.arg(2));
    let has_group = cx.read_as::<Stream>(key)?.is_some_and(|stream| stream.group(name).is_some());
    let ids = if has_group { parse_ids(request, 3)? } else { Vec::new() };
    let acknowledged = cx.update_seen::<Stream, _>(key, |stream| {
        stream.change_group(name, |group, _| ids.iter().filter(|id| group.acknowledge(**id)).count())
    })?;
    let acknowledged = acknowledged.and_then(|updated| updated.result).unwrap_or(0);
    cx.changed_many(acknowledged as u64);
    cx.reply().integer(acknowledged as i64);
    Ok(())
}

/// Records that entries are pending for a consumer, with their delivery times and counts.
pub(super) fn record_pending(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    group: &[u8],
    consumer: &[u8],
    pending: &[(StreamId, Pending)],
) {
    let is_alike = |one: &(StreamId, Pending), other: &(StreamId, Pending)| one.1 == other.1;
    for run in pending.chunk_by(is_alike) {
        let Some((_, known)) = run.first() else { continue };
        let Some(mut words) = cx.effect(5 + run.len() + 6) else { return };
        words.bulks(&[b"XCLAIM", key.name, group, consumer, b"0"]);
        run.iter().for_each(|(id, _)| reply::id(&mut words, *id));
        words.bulk(b"TIME");
        words.bulk_integer(known.delivered_ms);
        words.bulk(b"RETRYCOUNT");
        // Redis counts no further either.
        words.bulk_integer(i64::try_from(known.deliveries).unwrap_or(i64::MAX));
        words.bulk(b"FORCE");
        words.bulk(b"JUSTID");
    }
}
