//! Commands that take members from either end of sorted sets, at once or, if they block, as soon as there are any.
//!
//! A request for one of several keys is recorded as ZPOPMIN or ZPOPMAX of the key that it took from.

use sleeve_store::{Collection, Kind, SortedSet};
use sleeve_wire::commands::Flags;
use sleeve_wire::number::{self, Digits};
use sleeve_wire::reply::{Protocol, Writer};
use sleeve_wire::request::OwnedArgs;

use crate::commands::block_timeout;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::clients::blocking::{Block, OnTimeout, Wait};
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The end from which members are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The lowest scores.
    Min,
    /// The highest scores.
    Max,
}

/// The form of the reply with the members that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Member and score in turn.
    Flat,
    /// To RESP3 an array of pairs, to RESP2 as [`Shape::Flat`].
    Pairs,
    /// The key first, then member and score.
    Keyed,
    /// The key and an array of pairs, in either protocol.
    KeyedPairs,
}

impl Side {
    /// Returns the name of the command that takes from this end, which is also the name of the event.
    fn command(self) -> &'static str {
        match self {
            Self::Min => "zpopmin",
            Self::Max => "zpopmax",
        }
    }

    fn word(self) -> &'static [u8] {
        match self {
            Self::Min => b"MIN",
            Self::Max => b"MAX",
        }
    }

    fn parse(word: &[u8]) -> Option<Self> {
        [Self::Min, Self::Max].into_iter().find(|side| word.eq_ignore_ascii_case(side.word()))
    }
}

/// Answers ZPOPMIN and ZPOPMAX.
pub fn pop_counted(cx: &mut Cx<'_>, request: Request<'_>, side: Side) -> Outcome {
    let (count, shape) = match request.len() {
        2 => (1, Shape::Flat),
        3 => (parse_count(request.arg(2))?, Shape::Pairs),
        _ => return Err(Error::SYNTAX),
    };
    if count == 0 {
        cx.look_as::<SortedSet>(request.key(0))?;
        cx.reply().array(0);
    } else if !pop(cx, request.key(0), side, count, shape)? {
        cx.reply().array(0);
    }
    Ok(())
}

fn parse_count(text: &[u8]) -> Result<usize, Error> {
    let count = number::parse_i64(text).and_then(|count| usize::try_from(count).ok());
    count.ok_or(Error::fixed("ERR value is out of range, must be positive"))
}

/// ZMPOP numkeys key \[key ...\] MIN|MAX \[COUNT count\]
pub fn zmpop(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (side, count) = parse_many(request, 1)?;
    if !pop_first(cx, request, side, count, Shape::KeyedPairs)? {
        cx.reply().null_array();
    }
    Ok(())
}

/// Reads `numkeys key [key ...] MIN|MAX [COUNT count]` from the argument `at` on: the side and the count.
fn parse_many(request: Request<'_>, at: usize) -> Result<(Side, usize), Error> {
    let positive = |text: &[u8], error| match number::parse_i64(text) {
        Some(count @ 1..) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(Error::fixed(error)),
    };
    let keys = positive(request.arg(at), "ERR numkeys should be greater than 0")?;
    let side_at = keys.saturating_add(at + 1);
    let side = request.args.get(side_at).and_then(Side::parse).ok_or(Error::SYNTAX)?;
    let mut count = None;
    let mut options = request.args.from(side_at + 1).iter();
    while let Some(word) = options.next() {
        let value = options.next().ok_or(Error::SYNTAX)?;
        if count.is_some() || !word.eq_ignore_ascii_case(b"count") {
            return Err(Error::SYNTAX);
        }
        count = Some(positive(value, "ERR count should be greater than 0")?);
    }
    Ok((side, count.unwrap_or(1)))
}

/// Answers BZPOPMIN and BZPOPMAX.
pub fn pop_or_wait(cx: &mut Cx<'_>, request: Request<'_>, side: Side) -> Outcome {
    let deadline_ms = block_timeout::deadline(cx, request)?;
    if !pop_first(cx, request, side, 1, Shape::Keyed)? {
        wait(cx, request, deadline_ms, |key| OwnedArgs::collect([request.arg(0), key, b"0"]));
    }
    Ok(())
}

/// BZMPOP timeout numkeys key \[key ...\] MIN|MAX \[COUNT count\]
pub fn bzmpop(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (side, count) = parse_many(request, 2)?;
    let deadline_ms = block_timeout::deadline(cx, request)?;
    if !pop_first(cx, request, side, count, Shape::KeyedPairs)? {
        let (side, count) = (side.word(), Digits::new(count as i64));
        wait(cx, request, deadline_ms, |key| {
            OwnedArgs::collect([request.arg(0), b"0", b"1", key, side, b"COUNT", count.as_bytes()])
        });
    }
    Ok(())
}

/// Blocks the client until one of the request's keys is a sorted set; then the request runs that `narrow` makes for this key.
fn wait(cx: &mut Cx<'_>, request: Request<'_>, deadline_ms: Option<i64>, narrow: impl Fn(&[u8]) -> OwnedArgs) {
    if !cx.may_block() {
        return cx.reply().null_array();
    }
    let waits =
        request.keys().map(|key| Wait { key, kind: Kind::SortedSet, even_gone: false, request: narrow(key.name) });
    cx.block(request.row, Block { deadline_ms, waits: waits.collect(), on_timeout: OnTimeout::NullArray });
}

/// Takes up to `count` members from the first of the request's keys that holds any, records that and replies; returns false,
/// and writes no reply, if none holds any. As in Redis the lookup of a blocking command counts as a use of the key.
fn pop_first(cx: &mut Cx<'_>, request: Request<'_>, side: Side, count: usize, shape: Shape) -> Result<bool, Error> {
    let waits = request.row.flags.contains(Flags::BLOCKING);
    for key in request.keys() {
        let size = if waits { cx.look_as::<SortedSet>(key)? } else { cx.probe_as::<SortedSet>(key)? };
        if let Some(size) = size.map(|set| set.len()) {
            record(cx, key, side, count.min(size), shape);
            return pop(cx, key, side, count, shape);
        }
    }
    Ok(false)
}

fn record(cx: &mut Cx<'_>, key: Key<'_>, side: Side, count: usize, shape: Shape) {
    let name = match side {
        Side::Min => b"ZPOPMIN",
        Side::Max => b"ZPOPMAX",
    };
    if shape == Shape::KeyedPairs {
        cx.record(&[name, key.name, Digits::new(count as i64).as_bytes()]);
    } else {
        cx.record(&[name, key.name]);
    }
}

/// Takes up to `count` members from a key and replies; returns false, and writes no reply, if the key is missing.
fn pop(cx: &mut Cx<'_>, key: Key<'_>, side: Side, count: usize, shape: Shape) -> Result<bool, Error> {
    let popped = cx.reply_apart(|cx, reply| {
        cx.update_present::<SortedSet, _>(key, |set| take(set, side, count, shape, key.name, reply))
    });
    let Some(popped) = popped? else { return Ok(false) };
    cx.removed(key, EventClass::Zset, side.command(), (popped.result, popped.emptied));
    Ok(true)
}

/// Takes up to `count` members and writes them; returns how many.
fn take(set: &mut SortedSet, side: Side, count: usize, shape: Shape, key: &[u8], reply: &mut Writer<'_>) -> usize {
    let len = set.as_ref().len();
    let count = count.min(len);
    let ranks = match side {
        Side::Min => 0..count,
        Side::Max => len - count..len,
    };
    let is_resp3 = reply.protocol == Protocol::Resp3;
    let is_paired = shape == Shape::KeyedPairs || (shape == Shape::Pairs && is_resp3);
    match shape {
        Shape::KeyedPairs => reply.array(2),
        Shape::Keyed => reply.array(1 + 2 * count),
        Shape::Flat | Shape::Pairs => {}
    }
    if matches!(shape, Shape::Keyed | Shape::KeyedPairs) {
        reply.bulk(key);
    }
    if shape != Shape::Keyed {
        reply.array(if is_paired { count } else { 2 * count });
    }
    set.as_ref().visit(ranks.clone(), side == Side::Max, |name, score| {
        if reply.is_full() {
            return;
        }
        if is_paired {
            reply.array(2);
        }
        crate::commands::set::write(reply, name);
        reply.double(score);
    });
    set.remove_ranks(ranks);
    count
}
