//! Streams: adding, counting, reading, deleting and trimming their entries.
//!
//! XREAD and XREADGROUP are in `read`, the commands of groups in `group` and `pending`, deletion that takes account of groups
//! in `delete`, giving entries back in `release`, messages that producers number in `producers`, XINFO in `info`. The record
//! of XADD and XTRIM names the exact id that the entry got and the exact bound of the trimming.

pub mod delete;
pub mod group;
pub mod id;
pub mod info;
pub mod pending;
pub mod producers;
pub mod read;
pub mod release;
pub mod reply;
pub mod trim;

use sleeve_store::{Keep, Stream, StreamCounters, StreamId};
use sleeve_wire::arguments::Args;
use sleeve_wire::number;

use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};
use producers::Numbered;
use trim::{StreamOptions, Trimmed};

/// The most bytes of names and values in one entry.
const ENTRY_BYTES_MAX: usize = 1 << 30;

/// The outcome of adding an entry.
struct Added {
    id: StreamId,
    /// The message had been added before (IDMP), so no entry was added.
    is_known: bool,
    trimmed: Option<Trimmed>,
}

/// XADD key \[NOMKSTREAM\] \[KEEPREF | DELREF | ACKED\] \[IDMPAUTO producer | IDMP producer message\] \[MAXLEN | MINID \[= | ~\]
/// threshold \[LIMIT count\]\] * | id field value \[field value ...\]
pub fn xadd(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let options = StreamOptions::parse(cx, request, true)?;
    let fields = request.args.from(options.fields_at);
    let Some(new_id) = options.id.filter(|_| fields.len() >= 2 && fields.len().is_multiple_of(2)) else {
        return Err(Error::arity(request.row.full_name));
    };
    if new_id == id::NewId::Exactly(StreamId::MIN) {
        return Err(Error::fixed("ERR The ID specified in XADD must be greater than 0-0"));
    }
    if fields.bytes_len() > ENTRY_BYTES_MAX {
        return Err(Error::fixed("ERR Elements are too large to be stored"));
    }
    let (key, limits, now_ms) = (request.key(0), limits::of_streams(cx.engine), cx.now.wall_ms());
    let numbered = options.numbered.map(|numbered| numbered.ids(fields));
    let (producer_limits, known_by_ms) =
        (limits::of_producers(cx.engine), (!cx.state.origin.is_replaying).then_some(now_ms));
    let add = |stream: &mut Stream| -> Result<Added, Error> {
        if let Some((producer, message)) = &numbered
            && let Some(id) = producers::entry_of(stream, (producer, message), (new_id, known_by_ms), producer_limits)
        {
            return Ok(Added { id, is_known: true, trimmed: None });
        }
        if stream.last_id() == StreamId::MAX {
            return Err(Error::fixed("ERR The stream has exhausted the last possible ID, unable to add more items"));
        }
        let id = new_id
            .after(stream.last_id(), now_ms)
            .ok_or(Error::fixed("ERR The ID specified in XADD is equal or smaller than the target stream top item"))?;
        stream.append(id, fields.iter(), limits);
        if let Some((producer, message)) = &numbered {
            stream.producers_mut(producer_limits).add(producer, message, id, now_ms);
        }
        Ok(Added { id, is_known: false, trimmed: options.trim.map(|trim| trim.run(stream)) })
    };
    let added = if options.no_stream {
        match cx.update_present::<Stream, _>(key, add)? {
            Some(updated) => updated.result?,
            None => {
                cx.reply().null();
                return Ok(());
            }
        }
    } else {
        cx.update::<Stream, _>(key, add)?.result?
    };
    tell_added(cx, key, &added, options.numbered, fields);
    reply::id(&mut cx.reply(), added.id);
    Ok(())
}

fn tell_added(cx: &mut Cx<'_>, key: Key<'_>, added: &Added, numbered: Option<Numbered<'_>>, fields: Args<'_>) {
    let kept = match &added.trimmed {
        Some(Trimmed::Front(removed, kept)) => Some((*removed, *kept)),
        _ => None,
    };
    if added.is_known {
        // Only a counter has changed.
        cx.changed_many(1);
    } else {
        cx.changed(key);
        cx.notify(EventClass::Stream, "xadd", key);
        if kept.is_some_and(|(removed, _)| removed != 0) {
            cx.notify(EventClass::Stream, "xtrim", key);
        }
    }
    let trim_words = if kept.is_some() { trim::WORDS } else { 0 };
    let numbered_words = numbered.map_or(0, |numbered| numbered.words());
    if let Some(mut words) = cx.effect(2 + numbered_words + trim_words + 1 + fields.len()) {
        words.bulks(&[b"XADD", key.name]);
        numbered.iter().for_each(|numbered| numbered.write(&mut words));
        kept.iter().for_each(|(_, kept)| trim::write(&mut words, *kept));
        reply::id(&mut words, added.id);
        fields.iter().for_each(|word| words.bulk(word));
    }
    if let Some(Trimmed::Each(done)) = &added.trimmed {
        // Only the added entry counts as a change, not the trimming.
        delete::tell(cx, key, done, ("xtrim", 0));
    }
}

/// XTRIM key MAXLEN | MINID \[= | ~\] threshold \[LIMIT count\] \[KEEPREF | DELREF | ACKED\]
pub fn xtrim(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let options = StreamOptions::parse(cx, request, false)?;
    let key = request.key(0);
    let Some(trim) = options.trim else { return Err(Error::SYNTAX) };
    let trimmed = cx.update_present::<Stream, _>(key, |stream| trim.run(stream))?;
    let removed = match trimmed.map(|updated| updated.result) {
        None => 0,
        Some(Trimmed::Front(removed, kept)) => {
            tell_trimmed(cx, key, removed, kept);
            removed
        }
        Some(Trimmed::Each(done)) => {
            delete::tell(cx, key, &done, ("xtrim", done.changes()));
            done.deleted.len() as u64
        }
    };
    cx.reply().integer(removed as i64);
    Ok(())
}

fn tell_trimmed(cx: &mut Cx<'_>, key: Key<'_>, removed: u64, kept: Keep) {
    if removed == 0 {
        return;
    }
    cx.changed(key);
    cx.changed_many(removed - 1);
    cx.notify(EventClass::Stream, "xtrim", key);
    if let Some(mut words) = cx.effect(2 + trim::WORDS) {
        words.bulks(&[b"XTRIM", key.name]);
        trim::write(&mut words, kept);
    }
}

/// XLEN key
pub fn xlen(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let len = cx.read_as::<Stream>(request.key(0))?.map_or(0, Stream::len);
    cx.reply().integer(len as i64);
    Ok(())
}

/// Answers XRANGE and XREVRANGE.
pub fn range(cx: &mut Cx<'_>, request: Request<'_>, is_backward: bool) -> Outcome {
    let (start_at, end_at) = if is_backward { (3, 2) } else { (2, 3) };
    let (start, end) = (id::start(request.arg(start_at))?, id::end(request.arg(end_at))?);
    let mut count = None;
    let mut options = request.args.from(4).iter();
    while let Some(option) = options.next() {
        let Some(value) = options.next().filter(|_| option.eq_ignore_ascii_case(b"count")) else {
            return Err(Error::SYNTAX);
        };
        count = Some(number::parse_i64(value).ok_or(Error::NOT_INTEGER)?.max(0) as usize);
    }
    cx.reply_apart(|cx, reply| {
        match cx.read_as::<Stream>(request.key(0))? {
            None => reply.array(0),
            Some(_) if count == Some(0) => reply.null_array(),
            Some(stream) => {
                let found = if is_backward { stream.range_back(start, end) } else { stream.range(start, end) };
                reply::entries(reply, found, count.unwrap_or(usize::MAX));
            }
        }
        Ok(())
    })
}

/// XDEL key id \[id ...\]
pub fn xdel(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let key = request.key(0);
    if cx.look_as::<Stream>(key)?.is_none() {
        cx.reply().integer(0);
        return Ok(());
    }
    let ids = parse_ids(request, 2)?;
    let deleted = cx.update_seen::<Stream, _>(key, |stream| ids.iter().filter(|id| stream.delete(**id)).count())?;
    let deleted = deleted.map_or(0, |updated| updated.result);
    if deleted != 0 {
        cx.changed_by(key, deleted);
        cx.notify(EventClass::Stream, "xdel", key);
    }
    cx.reply().integer(deleted as i64);
    Ok(())
}

/// Reads the ids in all arguments from `from` on.
pub(super) fn parse_ids(request: Request<'_>, from: usize) -> Result<Vec<StreamId>, Error> {
    request.args.from(from).iter().map(|text| id::strict(text, 0)).collect()
}

/// XSETID key last-id \[ENTRIESADDED entries-added\] \[MAXDELETEDID max-deleted-id\]
pub fn xsetid(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let last_id = id::strict(request.arg(2), 0)?;
    let (mut entries_added, mut max_deleted_id) = (None, None);
    // Redis 7.0 may set an id below that of the last deleted entry, and sends the command so to its replicas and its AOF.
    let may_be_below_deleted = cx.state.origin.is_replaying;
    let mut options = request.args.from(3).iter();
    while let Some(option) = options.next() {
        let value = options.next().ok_or(Error::SYNTAX)?;
        if option.eq_ignore_ascii_case(b"entriesadded") {
            let count = number::parse_i64(value).ok_or(Error::NOT_INTEGER)?;
            let count = u64::try_from(count).map_err(|_| Error::fixed("ERR entries_added must be positive"))?;
            entries_added = Some(count);
        } else if option.eq_ignore_ascii_case(b"maxdeletedid") {
            let id = id::strict(value, 0)?;
            if last_id < id && !may_be_below_deleted {
                return Err(Error::fixed(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
            max_deleted_id = Some(id).filter(|id| *id != StreamId::MIN);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let key = request.key(0);
    let set = cx.update_present::<Stream, _>(key, |stream| {
        if last_id < stream.counters().max_deleted_id && !may_be_below_deleted {
            return Err(Error::fixed("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"));
        }
        set_id(stream, last_id, entries_added, max_deleted_id)
    })?;
    set.ok_or(Error::NO_SUCH_KEY)?.result?;
    cx.changed_many(1);
    cx.notify(EventClass::Stream, "xsetid", key);
    cx.reply().ok();
    Ok(())
}

fn set_id(
    stream: &mut Stream,
    last_id: StreamId,
    entries_added: Option<u64>,
    max_deleted_id: Option<StreamId>,
) -> Result<(), Error> {
    let current = stream.counters();
    if stream.last_entry_id().is_some_and(|top| last_id < top) {
        return Err(Error::fixed("ERR The ID specified in XSETID is smaller than the target stream top item"));
    }
    if !stream.is_empty() && entries_added.is_some_and(|count| count < stream.len()) {
        return Err(Error::fixed("ERR The entries_added specified in XSETID is smaller than the target stream length"));
    }
    stream.set_counters(StreamCounters {
        last_id,
        entries_added: entries_added.unwrap_or(current.entries_added),
        max_deleted_id: max_deleted_id.unwrap_or(current.max_deleted_id),
    });
    Ok(())
}
