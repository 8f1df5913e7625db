//! LMOVE, RPOPLPUSH and LMPOP: commands that move an element from one list to another, or pop elements from the first
//! non-empty one of several lists.
//!
//! The blocking commands (`wait`) run the same functions. They find the shards of all their keys locked.

use sleeve_store::{End, List, ListRef, ValueRef};
use sleeve_wire::number;

use super::{pop_event, pop_many, push_event};
use crate::commands::list;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// LMOVE source destination LEFT | RIGHT LEFT | RIGHT
pub fn lmove(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let ends = (end(request.arg(3))?, end(request.arg(4))?);
    move_or_null(cx, request, ends)
}

/// Answers LMOVE and RPOPLPUSH.
pub fn move_or_null(cx: &mut Cx<'_>, request: Request<'_>, ends: (End, End)) -> Outcome {
    if !relocate(cx, (request.key(0), request.key(1)), ends)? {
        cx.reply().null();
    }
    Ok(())
}

/// Moves an element from one end of the first key's list to an end of the second's, and replies with it; returns false, and
/// writes no reply, if the first key has no list.
pub fn relocate(
    cx: &mut Cx<'_>,
    (source, destination): (Key<'_>, Key<'_>),
    (from, to): (End, End),
) -> Result<bool, Error> {
    let limit = limits::of_lists(cx.engine);
    let Some(list) = cx.look_as::<List>(source)? else { return Ok(false) };
    let Some(element) = list.end(from) else { return Ok(false) };
    let element = Taken::of(element);
    cx.probe_as::<List>(destination)?;
    let bytes = element.len();
    if source.name == destination.name {
        cx.update_present::<List, _>(source, |list| {
            list.pop(from);
            list.prepare(bytes, 1, limit);
            list.push(to, element.value(), limit);
            list.shrink(limit);
        })?;
        moved(cx, (source, destination), (from, to), (1, false));
    } else {
        cx.update::<List, _>(destination, |list| {
            list.prepare(bytes, 1, limit);
            list.push(to, element.value(), limit);
        })?;
        let popped = cx.update_seen::<List, _>(source, |list| {
            list.pop(from);
            list.shrink(limit);
        })?;
        let emptied = popped.is_some_and(|updated| updated.emptied);
        moved(cx, (source, destination), (from, to), (1, emptied));
    }
    element.write(cx);
    Ok(true)
}

/// Reports that so many elements were moved from one end to another; each counts as one change.
pub fn moved(
    cx: &mut Cx<'_>,
    (source, destination): (Key<'_>, Key<'_>),
    (from, to): (End, End),
    (count, emptied): (usize, bool),
) {
    cx.changed_by(destination, 0);
    cx.notify(EventClass::List, push_event(to), destination);
    cx.removed(source, EventClass::List, pop_event(from), (count, emptied));
}

/// Records a move as LMOVE.
pub fn record_move(cx: &mut Cx<'_>, (source, destination): (Key<'_>, Key<'_>), (from, to): (End, End)) {
    cx.record(&[b"LMOVE", source.name, destination.name, word(from), word(to)]);
}

fn word(end: End) -> &'static [u8] {
    match end {
        End::Front => b"LEFT",
        End::Back => b"RIGHT",
    }
}

/// An element on its way between two lists.
pub enum Taken {
    /// An element that is an integer in decimal digits.
    Integer(i64),
    /// Any other element.
    Bytes(Vec<u8>),
}

impl Taken {
    /// Makes a copy of an element.
    pub fn of(element: ValueRef<'_>) -> Self {
        match element {
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }

    /// Returns the element in the form that lists take.
    pub fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Bytes(bytes) => ValueRef::Bytes(bytes),
        }
    }

    /// Returns the length of the element in bytes.
    pub fn len(&self) -> usize {
        self.value().len()
    }

    fn write(&self, cx: &mut Cx<'_>) {
        list::write(&mut cx.reply(), self.value());
    }
}

/// LMPOP numkeys key \[key ...\] LEFT | RIGHT \[COUNT count\]
pub fn lmpop(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (end, count) = multiple(request, 1)?;
    if !pop_first(cx, request, end, count)? {
        cx.reply().null_array();
    }
    Ok(())
}

/// Reads the end and the count of LMPOP and BLMPOP; `at` is the argument with the number of keys. The default of the count is
/// 1.
pub fn multiple(request: Request<'_>, at: usize) -> Result<(End, usize), Error> {
    let keys = at_least_one(request.arg(at), "ERR numkeys should be greater than 0")?;
    let side = keys.checked_add(at + 1).and_then(|side| Some((side, request.args.get(side)?)));
    let (side, word) = side.ok_or(Error::SYNTAX)?;
    let end = end(word)?;
    let options = request.args.from(side + 1);
    match (options.get(0), options.get(1), options.len()) {
        (None, ..) => Ok((end, 1)),
        (Some(option), Some(count), length) if option.eq_ignore_ascii_case(b"count") => {
            let count = at_least_one(count, "ERR count should be greater than 0")?;
            if length == 2 { Ok((end, count)) } else { Err(Error::SYNTAX) }
        }
        _ => Err(Error::SYNTAX),
    }
}

/// Reads a number that is at least 1.
pub fn at_least_one(text: &[u8], refusal: &'static str) -> Result<usize, Error> {
    let number = number::parse_i64(text).and_then(|number| usize::try_from(number).ok());
    number.filter(|&number| number > 0).ok_or(Error::fixed(refusal))
}

/// Pops from the first key that has a list, and replies with the key and the elements; returns false, and writes no reply, if
/// no key has one.
pub fn pop_first(cx: &mut Cx<'_>, request: Request<'_>, end: End, count: usize) -> Result<bool, Error> {
    for key in request.keys() {
        let Some(length) = cx.probe_as::<List>(key)?.map(ListRef::len) else { continue };
        let mut reply = cx.reply();
        reply.array(2);
        reply.bulk(key.name);
        pop_many(cx, key, end, count)?;
        // The record always has the count, even if it is 1, as in Redis.
        let name: &[u8] = if end == End::Front { b"LPOP" } else { b"RPOP" };
        cx.record(&[name, key.name, number::Digits::new(count.min(length) as i64).as_bytes()]);
        return Ok(true);
    }
    Ok(false)
}

/// Reads LEFT or RIGHT.
pub fn end(word: &[u8]) -> Result<End, Error> {
    if word.eq_ignore_ascii_case(b"left") {
        Ok(End::Front)
    } else if word.eq_ignore_ascii_case(b"right") {
        Ok(End::Back)
    } else {
        Err(Error::SYNTAX)
    }
}
