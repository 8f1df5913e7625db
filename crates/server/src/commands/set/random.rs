//! Random members of sets: SPOP removes them, SRANDMEMBER does not.
//!
//! The members that SPOP has removed are recorded as SREM, in pieces, or as DEL if all were removed, so that readers of the
//! journal make no random choices.

use std::collections::HashSet;
use std::ops::Range;

use sleeve_store::{Collection, Digits, Set, SetLimits, SetRef, ValueRef};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::{reply_members, write, write_within};
use crate::commands::draws;
use crate::config::Opt;
use crate::context::key_change;
use crate::context::notifications::EventClass;
use crate::context::{Cx, ELEMENTS_MAX};
use crate::engine::keyspace::limits;
use crate::host::dice::Dice;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The divisor for SPOP: if more than one in `MOVED_SHARE` members is removed, the remaining members are moved to a new set
/// instead.
const MOVED_SHARE: usize = 5;

/// The divisor for SRANDMEMBER: if more than one in `LISTED_SHARE` members is asked for, they are drawn from a list of all
/// members.
const LISTED_SHARE: usize = 3;

/// SPOP key \[count\]
pub fn spop(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    match request.len() {
        2 => pop_one(cx, request.key(0)),
        3 => pop_some(cx, request.key(0), request.arg(2)),
        _ => Err(Error::SYNTAX),
    }
}

fn pop_one(cx: &mut Cx<'_>, key: Key<'_>) -> Outcome {
    let (mut bytes, protocol) = (std::mem::take(&mut cx.out.bytes), cx.state.protocol);
    let dice = cx.dice;
    let popped = cx.update_present::<Set, _>(key, |set| {
        let member = set.as_ref().random(dice.number());
        let length = member.map_or(0, |member| member.len());
        member.into_iter().for_each(|member| write(&mut Writer::new(&mut bytes, protocol), member));
        // The member now lies in the reply, before the final line end.
        let end = bytes.len() - 2;
        set.remove(&bytes[end - length..end]);
        end - length..end
    });
    cx.out.bytes = bytes;
    match popped? {
        None => cx.reply().null(),
        Some(popped) => {
            record_removal(cx, key, &[popped.result]);
            cx.removed(key, EventClass::Set, "spop", (1, popped.emptied));
        }
    }
    Ok(())
}

fn pop_some(cx: &mut Cx<'_>, key: Key<'_>, count: &[u8]) -> Outcome {
    let count = number::parse_i64(count).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(Error::fixed("ERR value is out of range, must be positive"))?;
    let size = cx.look_as::<Set>(key)?.map_or(0, |set| set.len());
    if count == 0 || size == 0 {
        cx.reply().set(0);
        return Ok(());
    }
    if count >= size {
        return pop_all(cx, key, size);
    }
    let (mut bytes, protocol, limits) =
        (std::mem::take(&mut cx.out.bytes), cx.state.protocol, limits::of_sets(cx.engine));
    let mut places = Vec::with_capacity(count);
    let dice = cx.dice;
    let popped = cx.update_seen::<Set, _>(key, |set| {
        let mut reply = Writer::new(&mut bytes, protocol);
        reply.set(count);
        let mut show = |member: ValueRef<'_>| {
            write(&mut reply, member);
            let end = reply.out.len() - 2;
            places.push(end - member.len()..end);
        };
        if (size - count) * MOVED_SHARE > count {
            take_few(set, count, dice, &mut show);
        } else {
            let most = leave_few(set, size - count, dice, &limits);
            most.as_ref().for_each(show);
        }
    });
    cx.out.bytes = bytes;
    popped?;
    record_removal(cx, key, &places);
    cx.removed(key, EventClass::Set, "spop", (count, false));
    Ok(())
}

/// Removes `count` random members one by one.
fn take_few(set: &mut Set, count: usize, dice: &Dice, show: &mut impl FnMut(ValueRef<'_>)) {
    let mut taken = Vec::new();
    for _ in 0..count {
        let Some(member) = set.as_ref().random(dice.number()) else { return };
        show(member);
        copy(member, &mut taken);
        set.remove(taken.as_slice());
    }
}

/// Leaves `count` random members in the set, in the smallest encoding that they fit; returns the set of the others.
fn leave_few(set: &mut Set, count: usize, dice: &Dice, limits: &SetLimits) -> Set {
    let mut left = Set::for_result(set.hash_key(), set.as_ref().integers().is_some());
    let mut taken = Vec::new();
    for _ in 0..count {
        let Some(member) = set.as_ref().random(dice.number()) else { break };
        copy(member, &mut taken);
        left.add(taken.as_slice(), limits);
        set.remove(taken.as_slice());
    }
    std::mem::replace(set, left)
}

fn copy(member: ValueRef<'_>, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(member.bytes(&mut Digits::default()));
}

fn pop_all(cx: &mut Cx<'_>, key: Key<'_>, size: usize) -> Outcome {
    reply_members(cx, key)?;
    cx.remove(key, Opt::LazyfreeLazyServerDel);
    cx.changed_many(size as u64 - 1);
    cx.record(&[key_change::removal(cx.engine, Opt::LazyfreeLazyServerDel), key.name]);
    cx.notify(EventClass::Set, "spop", key);
    cx.notify(EventClass::Generic, "del", key);
    Ok(())
}

/// Records the removal of the members that lie in these ranges of the reply.
fn record_removal(cx: &mut Cx<'_>, key: Key<'_>, places: &[Range<usize>]) {
    let bytes = std::mem::take(&mut cx.out.bytes);
    for piece in places.chunks(ELEMENTS_MAX) {
        cx.record_with(&[b"SREM", key.name], piece.iter().map(|place| &bytes[place.clone()]));
    }
    cx.out.bytes = bytes;
}

/// SRANDMEMBER key \[count\]
pub fn srandmember(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    match request.len() {
        2 => show_one(cx, request.key(0)),
        3 => show_some(cx, request.key(0), request.arg(2)),
        _ => Err(Error::SYNTAX),
    }
}

fn show_one(cx: &mut Cx<'_>, key: Key<'_>) -> Outcome {
    cx.reply_apart(|cx, reply| {
        let dice = cx.dice;
        cx.read_as::<Set>(key).map(|set| match set.and_then(|set| set.random(dice.number())) {
            Some(member) => write(reply, member),
            None => reply.null(),
        })
    })
}

fn show_some(cx: &mut Cx<'_>, key: Key<'_>, count: &[u8]) -> Outcome {
    let count = number::parse_i64(count).ok_or(Error::NOT_INTEGER)?;
    if count == i64::MIN {
        return Err(Error::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    cx.reply_apart(|cx, reply| {
        let dice = cx.dice;
        let Some(set) = cx.read_as::<Set>(key)?.filter(|_| count != 0) else {
            reply.array(0);
            return Ok(());
        };
        let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        if count < 0 { show_repeating(set, wanted, dice, reply) } else { show_different(set, wanted, dice, reply) }
    })
}

/// Writes `count` members, some perhaps more than once.
fn show_repeating(set: SetRef<'_>, count: usize, dice: &Dice, reply: &mut Writer<'_>) -> Outcome {
    draws::judge(count, set.len(), || {
        let mut bytes = 0;
        set.for_each(|member| bytes += member.len());
        bytes
    })?;
    reply.array(count);
    let begin = reply.out.len();
    for _ in 0..count {
        if reply.is_full() {
            break;
        }
        set.random(dice.number()).into_iter().for_each(|member| write(reply, member));
        draws::judge_written(reply.out.len() - begin)?;
    }
    Ok(())
}

/// Writes up to `count` different members.
fn show_different(set: SetRef<'_>, count: usize, dice: &Dice, reply: &mut Writer<'_>) -> Outcome {
    let size = set.len();
    if count >= size {
        reply.array(size);
        set.for_each(|member| write_within(reply, member));
        return Ok(());
    }
    reply.array(count);
    let is_table = set.integers().is_none() && set.packed().is_none();
    if is_table && count * LISTED_SHARE <= size {
        let mut seen = HashSet::with_capacity(count);
        while seen.len() < count {
            let Some(ValueRef::Bytes(member)) = set.random(dice.number()) else { break };
            if seen.insert(member) {
                write_within(reply, ValueRef::Bytes(member));
            }
        }
        return Ok(());
    }
    let mut members = Vec::with_capacity(size);
    set.for_each(|member| members.push(member));
    for index in 0..count {
        members.swap(index, index + dice.below(size - index));
        write_within(reply, members[index]);
    }
    Ok(())
}
