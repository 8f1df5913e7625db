//! Sets: adding, removing, testing, moving and walking over members.
//!
//! Random choices are in `random`, intersections, unions and differences in `algebra`. A member is copied from the set
//! directly into the reply.

pub mod algebra;
pub mod random;

use sleeve_store::{Collection, Digits, Set, ValueRef};
use sleeve_wire::pattern;
use sleeve_wire::reply::Writer;

use super::scan;
use super::scan::{Walk, Walked};
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::limits;
use crate::request::error::Outcome;
use crate::request::{Key, Request};

/// SADD key member \[member ...\]
pub fn sadd(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, limits, members) = (request.key(0), limits::of_sets(cx.engine), request.args.from(2));
    let added = cx.update::<Set, _>(key, |set| {
        set.prepare(request.arg(2), members.len(), &limits);
        members.iter().filter(|member| set.add(*member, &limits)).count()
    })?;
    let added = added.result;
    if added > 0 {
        cx.changed_by(key, added);
        cx.notify(EventClass::Set, "sadd", key);
    }
    cx.reply().integer(added as i64);
    Ok(())
}

/// SREM key member \[member ...\]
pub fn srem(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, members) = (request.key(0), request.args.from(2));
    let remove = |set: &mut Set| members.iter().filter(|member| set.remove(*member)).count();
    let updated = cx.update_present(key, remove)?;
    cx.reply_removed(key, EventClass::Set, "srem", updated);
    Ok(())
}

/// SISMEMBER key member
pub fn sismember(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let is_member = cx.read_as::<Set>(request.key(0))?.is_some_and(|set| set.contains(request.arg(2)));
    cx.reply().integer(i64::from(is_member));
    Ok(())
}

/// SMISMEMBER key member \[member ...\]
pub fn smismember(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let members = request.args.from(2);
    cx.reply_apart(|cx, reply| {
        cx.read_as::<Set>(request.key(0)).map(|set| {
            reply.array(members.len());
            for member in members.iter() {
                reply.integer(i64::from(set.is_some_and(|set| set.contains(member))));
            }
        })
    })
}

/// SCARD key
pub fn scard(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = cx.read_as::<Set>(request.key(0))?.map_or(0, |set| set.len());
    cx.reply().integer(count as i64);
    Ok(())
}

/// SMEMBERS key
pub fn smembers(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    reply_members(cx, request.key(0))
}

/// Replies with all members of a set that is read.
pub fn reply_members(cx: &mut Cx<'_>, key: Key<'_>) -> Outcome {
    cx.reply_apart(|cx, reply| {
        cx.read_as::<Set>(key).map(|set| {
            reply.set(set.map_or(0, |set| set.len()));
            set.into_iter().for_each(|set| set.for_each(|member| write_within(reply, member)));
        })
    })
}

/// SMOVE source destination member
pub fn smove(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (from, to, member) = (request.key(0), request.key(1), request.arg(3));
    let is_member = cx.look_as::<Set>(from).map(|set| set.map(|set| set.contains(member)));
    if matches!(is_member, Ok(None)) {
        cx.look(to);
        cx.reply().integer(0);
        return Ok(());
    }
    // Both keys count as used for every outcome. If the member is moved, adding it to the destination counts that use.
    let moves = matches!(is_member, Ok(Some(true))) && from.name != to.name;
    let fits = if moves { cx.probe_as::<Set>(to).map(drop) } else { cx.look_as::<Set>(to).map(drop) };
    let is_member = is_member?.unwrap_or(false);
    fits?;
    if moves {
        let removed = cx.update_seen::<Set, _>(from, |set| set.remove(member))?;
        cx.removed(from, EventClass::Set, "srem", (1, removed.is_some_and(|updated| updated.emptied)));
        let limits = limits::of_sets(cx.engine);
        let added = cx.update::<Set, _>(to, |set| {
            if set.is_empty() {
                set.prepare(member, 1, &limits);
            }
            set.add(member, &limits)
        })?;
        if added.result {
            cx.changed(to);
            cx.notify(EventClass::Set, "sadd", to);
        }
    }
    cx.reply().integer(i64::from(is_member));
    Ok(())
}

/// SSCAN key cursor \[MATCH pattern\] \[COUNT count\]
pub fn sscan(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let cursor = scan::parse_cursor(request.arg(2))?;
    let (protocol, len_max) = (cx.state.protocol, cx.out.room());
    let Some(set) = cx.read_as::<Set>(request.key(0))? else {
        scan::write_step(&mut cx.reply(), 0, 0);
        return Ok(());
    };
    let Walk { filter, count, .. } = Walk::parse(request.args.from(3), Walked::Set)?;
    let (mut members, mut shown) = (Vec::new(), 0);
    let mut writer = Writer::bounded(&mut members, protocol, len_max);
    let next = set.scan(cursor, count, |member| {
        let admits = |wanted| pattern::matches(wanted, member.bytes(&mut Digits::default()), false);
        if filter.pattern.is_none_or(admits) {
            write_within(&mut writer, member);
            shown += 1;
        }
    });
    scan::write_step(&mut cx.reply(), next, shown);
    cx.out.bytes.append(&mut members);
    Ok(())
}

/// Writes a member as a bulk string.
#[inline]
pub fn write(reply: &mut Writer<'_>, member: ValueRef<'_>) {
    match member {
        ValueRef::Integer(number) => reply.bulk_integer(number),
        ValueRef::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// Writes a member unless the reply is full.
#[inline]
pub fn write_within(reply: &mut Writer<'_>, member: ValueRef<'_>) {
    if !reply.is_full() {
        write(reply, member);
    }
}
