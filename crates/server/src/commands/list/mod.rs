//! Lists: pushing, popping, reading and editing them.
//!
//! The commands that move elements between lists or take them from one of several are in `transfer` and `transfer_many`, with
//! their blocking forms in `wait`; LPOS is in `find`. An element goes from the list's bytes into the reply without a copy in
//! between.

pub mod find;
pub mod transfer;
pub mod transfer_many;
pub mod wait;

use sleeve_store::{Collection, End, List, ListLimit, ListRef, Updated, ValueRef};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// Answers LPUSH and RPUSH.
pub fn push(cx: &mut Cx<'_>, request: Request<'_>, end: End) -> Outcome {
    let (key, limit) = (request.key(0), limits::of_lists(cx.engine));
    let length = cx.update::<List, _>(key, |list| push_all(list, request, end, limit))?.result;
    pushed(cx, request, end, length);
    Ok(())
}

/// Answers LPUSHX and RPUSHX.
pub fn push_present(cx: &mut Cx<'_>, request: Request<'_>, end: End) -> Outcome {
    let (key, limit) = (request.key(0), limits::of_lists(cx.engine));
    match cx.update_present::<List, _>(key, |list| push_all(list, request, end, limit))? {
        Some(updated) => pushed(cx, request, end, updated.result),
        None => cx.reply().integer(0),
    }
    Ok(())
}

fn push_all(list: &mut List, request: Request<'_>, end: End, limit: ListLimit) -> usize {
    let elements = request.args.from(2);
    list.prepare(elements.iter().map(<[u8]>::len).sum(), elements.len(), limit);
    for element in elements.iter() {
        list.push(end, element, limit);
    }
    list.as_ref().len()
}

fn pushed(cx: &mut Cx<'_>, request: Request<'_>, end: End, length: usize) {
    let key = request.key(0);
    cx.changed_by(key, request.len() - 2);
    cx.notify(EventClass::List, push_event(end), key);
    cx.reply().integer(length as i64);
}

/// Returns the name of the event of pushing to an end.
pub fn push_event(end: End) -> &'static str {
    match end {
        End::Front => "lpush",
        End::Back => "rpush",
    }
}

/// Answers LPOP and RPOP.
pub fn pop(cx: &mut Cx<'_>, request: Request<'_>, end: End) -> Outcome {
    match request.len() {
        2 => pop_one(cx, request.key(0), end),
        3 => pop_some(cx, request, end),
        _ => Err(Error::arity(request.row.full_name)),
    }
}

fn pop_one(cx: &mut Cx<'_>, key: Key<'_>, end: End) -> Outcome {
    if !pop_element(cx, key, end)? {
        cx.reply().null();
    }
    Ok(())
}

/// Pops an element and replies with it; returns false, and writes no reply, if the key is missing.
pub fn pop_element(cx: &mut Cx<'_>, key: Key<'_>, end: End) -> Result<bool, Error> {
    let limit = limits::of_lists(cx.engine);
    let popped = change(cx, key, |list, reply| {
        if let Some(element) = list.as_ref().end(end) {
            write(reply, element);
        }
        list.pop(end);
        list.shrink(limit);
    })?;
    let Some(updated) = popped else { return Ok(false) };
    cx.removed(key, EventClass::List, pop_event(end), (1, updated.emptied));
    Ok(true)
}

fn pop_some(cx: &mut Cx<'_>, request: Request<'_>, end: End) -> Outcome {
    let key = request.key(0);
    let count = number::parse_i64(request.arg(2)).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(Error::fixed("ERR value is out of range, must be positive"))?;
    if count == 0 {
        match cx.look_as::<List>(key)? {
            Some(_) => cx.reply().array(0),
            None => cx.reply().null_array(),
        }
        return Ok(());
    }
    if !pop_many(cx, key, end, count)? {
        cx.reply().null_array();
    }
    Ok(())
}

/// Pops up to `count` elements and replies with an array of them; returns false, and writes no reply, if the key is missing.
pub fn pop_many(cx: &mut Cx<'_>, key: Key<'_>, end: End, count: usize) -> Result<bool, Error> {
    let limit = limits::of_lists(cx.engine);
    let popped = change(cx, key, |list, reply| {
        let popped = count.min(list.as_ref().len());
        write_end(reply, list.as_ref(), end, count);
        list.pop_many(end, count);
        list.shrink(limit);
        popped
    })?;
    let Some(updated) = popped else { return Ok(false) };
    cx.removed(key, EventClass::List, pop_event(end), (updated.result, updated.emptied));
    Ok(true)
}

/// Records a pop as LPOP or RPOP of so many elements.
pub fn record_pop(cx: &mut Cx<'_>, key: Key<'_>, end: End, count: usize) {
    let name: &[u8] = if end == End::Front { b"LPOP" } else { b"RPOP" };
    match count {
        1 => cx.record(&[name, key.name]),
        _ => cx.record(&[name, key.name, number::Digits::new(count as i64).as_bytes()]),
    }
}

/// Writes an array of up to `count` elements from an end on.
fn write_end(reply: &mut Writer<'_>, list: ListRef<'_>, end: End, count: usize) {
    let length = list.len();
    reply.array(count.min(length));
    match end {
        End::Front => write_all(reply, list.iter().take(count)),
        End::Back => write_all(reply, list.iter_back_from(length.saturating_sub(1)).take(count)),
    }
}

/// Writes elements until the reply is full.
fn write_all<'a>(reply: &mut Writer<'_>, elements: impl Iterator<Item = ValueRef<'a>>) {
    for element in elements {
        if reply.is_full() {
            return;
        }
        write(reply, element);
    }
}

/// Returns the name of the event of popping from an end.
pub fn pop_event(end: End) -> &'static str {
    match end {
        End::Front => "lpop",
        End::Back => "rpop",
    }
}

/// LLEN key
pub fn llen(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let length = cx.read_as::<List>(request.key(0))?.map_or(0, ListRef::len);
    cx.reply().integer(length as i64);
    Ok(())
}

/// LINDEX key index
pub fn lindex(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let found = read(cx, request.key(0), |list, reply| {
        let index = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
        match place(index, list.len()).and_then(|index| list.get(index)) {
            Some(element) => write(reply, element),
            None => reply.null(),
        }
        Ok(())
    })?;
    found.unwrap_or_else(|| {
        cx.reply().null();
        Ok(())
    })
}

/// LRANGE key start stop
pub fn lrange(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (start, stop) = bounds(request)?;
    let found = read(cx, request.key(0), |list, reply| {
        let (start, count) = range(start, stop, list.len());
        reply.array(count);
        write_all(reply, list.iter_from(start).take(count));
    })?;
    if found.is_none() {
        cx.reply().array(0);
    }
    Ok(())
}

/// LTRIM key start stop
pub fn ltrim(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (start, stop) = bounds(request)?;
    let (key, limit) = (request.key(0), limits::of_lists(cx.engine));
    let trimmed = cx.update_present::<List, _>(key, |list| {
        let length = list.as_ref().len();
        let (start, count) = range(start, stop, length);
        list.trim(start, count);
        list.shrink(limit);
        length - count
    })?;
    if let Some(updated) = trimmed {
        cx.removed(key, EventClass::List, "ltrim", (updated.result, updated.emptied));
    }
    cx.reply().ok();
    Ok(())
}

/// LSET key index element
pub fn lset(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, element, limit) = (request.key(0), request.arg(3), limits::of_lists(cx.engine));
    let length = cx.look_as::<List>(key)?.map(ListRef::len).ok_or(Error::NO_SUCH_KEY)?;
    let index = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let set = cx.update_seen::<List, _>(key, |list| {
        list.prepare(element.len(), 1, limit);
        let is_set = place(index, length).is_some_and(|index| list.set(index, element, limit));
        if is_set {
            list.shrink(limit);
        }
        is_set
    })?;
    if !set.is_some_and(|updated| updated.result) {
        return Err(Error::fixed("ERR index out of range"));
    }
    cx.changed(key);
    cx.notify(EventClass::List, "lset", key);
    cx.reply().ok();
    Ok(())
}

/// LINSERT key BEFORE | AFTER pivot element
pub fn linsert(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let side = match request.arg(2) {
        word if word.eq_ignore_ascii_case(b"before") => End::Front,
        word if word.eq_ignore_ascii_case(b"after") => End::Back,
        _ => return Err(Error::SYNTAX),
    };
    let (key, pivot, element, limit) = (request.key(0), request.arg(3), request.arg(4), limits::of_lists(cx.engine));
    let inserted = cx.update_present::<List, _>(key, |list| {
        list.prepare(element.len(), 1, limit);
        list.insert(pivot.into(), side, element.into(), limit).then(|| list.as_ref().len())
    })?;
    let reply = match inserted {
        None => 0,
        Some(Updated { result: None, .. }) => -1,
        Some(Updated { result: Some(length), .. }) => {
            cx.changed(key);
            cx.notify(EventClass::List, "linsert", key);
            length as i64
        }
    };
    cx.reply().integer(reply);
    Ok(())
}

/// LREM key count element
pub fn lrem(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, element, limit) = (request.key(0), request.arg(3), limits::of_lists(cx.engine));
    let count = long(request.arg(2))?;
    let end = if count < 0 { End::Back } else { End::Front };
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let removal = cx.update_present::<List, _>(key, |list| {
        let removed = list.remove(end, element, most);
        list.shrink(limit);
        removed
    })?;
    let mut count = 0;
    if let Some(updated) = removal
        && updated.result > 0
    {
        count = updated.result;
        cx.removed(key, EventClass::List, "lrem", (count, updated.emptied));
    }
    cx.reply().integer(count as i64);
    Ok(())
}

/// Reads an integer other than `i64::MIN`: Redis refuses that one where it negates the number.
pub fn long(text: &[u8]) -> Result<i64, Error> {
    match number::parse_i64(text).ok_or(Error::NOT_INTEGER)? {
        i64::MIN => Err(Error::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        number => Ok(number),
    }
}

/// Calls `see` with the list of a key, to write the reply; returns None if the key is missing.
pub fn read<R>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    see: impl FnOnce(ListRef<'_>, &mut Writer<'_>) -> R,
) -> Result<Option<R>, Error> {
    cx.reply_apart(|cx, reply| cx.read_as::<List>(key).map(|list| list.map(|list| see(list, reply))))
}

/// Calls `change` with the list of a key, to edit it and write the reply; returns None if the key is missing.
fn change<R>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    change: impl FnOnce(&mut List, &mut Writer<'_>) -> R,
) -> Result<Option<Updated<R>>, Error> {
    cx.reply_apart(|cx, reply| cx.update_present::<List, _>(key, |list| change(list, reply)))
}

/// Writes an element as a bulk string.
#[inline]
pub fn write(reply: &mut Writer<'_>, element: ValueRef<'_>) {
    match element {
        ValueRef::Integer(number) => reply.bulk_integer(number),
        ValueRef::Bytes(bytes) => reply.bulk(bytes),
    }
}

fn bounds(request: Request<'_>) -> Result<(i64, i64), Error> {
    let start = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    let stop = number::parse_i64(request.arg(3)).ok_or(Error::NOT_INTEGER)?;
    Ok((start, stop))
}

/// Returns the position that an index stands for; a negative index counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let from_front = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(from_front).ok()
}

/// Returns the first element and the number of elements between two indexes, both included.
fn range(start: i64, stop: i64, length: usize) -> (usize, usize) {
    let from_front = |index: i64| if index < 0 { index.saturating_add(length as i64) } else { index };
    let first = from_front(start).max(0) as usize;
    let last = from_front(stop).min(length as i64 - 1);
    match usize::try_from(last) {
        Ok(last) if first <= last => (first, last + 1 - first),
        _ => (0, 0),
    }
}
