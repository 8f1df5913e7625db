//! Intersections, unions and differences of sets: as replies, stored as new sets, and counted.
//!
//! All sets are read in place. An intersection walks the smallest set and looks each member up in the others. A difference
//! either looks each member of the first set up in the others, or removes the members of the others from a copy of the first,
//! whichever is less work. A stored result is built in the order in which Redis 7.2 builds it, so that it has the same
//! encoding.

use std::cmp::Reverse;

use sleeve_store::{Collection, Digits, Set, SetLimits, SetRef, Sketch, ValueRef};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::{write, write_within};
use crate::config::Opt;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// SINTER key \[key ...\]
pub fn sinter(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (mut members, mut count) = (Vec::new(), 0);
    let mut reply = Writer::bounded(&mut members, cx.state.protocol, cx.out.room());
    let sets = read_all(cx, request, 0)?;
    intersect(&sets, |member| {
        write(&mut reply, member);
        count += 1;
        !reply.is_full()
    });
    cx.reply().set(count);
    cx.out.bytes.append(&mut members);
    Ok(())
}

/// SINTERCARD numkeys key \[key ...\] \[LIMIT limit\]
pub fn sintercard(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let Counting { limit, .. } = Counting::of(request, false)?;
    let sets = read_all(cx, request, 0)?;
    let mut count = 0;
    intersect(&sets, |_| {
        count += 1;
        count != limit
    });
    cx.reply().integer(count as i64);
    Ok(())
}

/// SUNIONCARD numkeys key \[key ...\] \[APPROX\] \[LIMIT limit\]
pub fn sunioncard(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let Counting { limit, is_approximate } = Counting::of(request, true)?;
    let (limits, hash_key) = (limits::of_sets(cx.engine), cx.engine.keyspace.store.hash_key());
    let sets = read_all(cx, request, 0)?;
    let count = if is_approximate {
        estimate(&sets)?
    } else {
        let mut result = Set::for_result(hash_key, true);
        for set in sets.iter().flatten() {
            set.try_for_each(|member| {
                result.add(member, &limits);
                result.as_ref().len() != limit
            });
            // The limit may be reached at the last member of a set.
            if result.as_ref().len() == limit && limit != 0 {
                break;
            }
        }
        result.as_ref().len()
    };
    cx.reply().integer(if limit == 0 { count } else { count.min(limit) } as i64);
    Ok(())
}

/// Returns an estimate of the number of members of the union, by a HyperLogLog, which takes little memory.
fn estimate(sets: &[Option<SetRef<'_>>]) -> Result<usize, Error> {
    let mut sketch = Sketch::new();
    sketch.make_dense()?;
    let mut added = Ok(true);
    for set in sets.iter().flatten() {
        set.try_for_each(|member| {
            added = sketch.add(member.bytes(&mut Digits::default()), 0);
            added.is_ok()
        });
    }
    added?;
    Ok(sketch.as_ref().count()? as usize)
}

/// SDIFFCARD numkeys key \[key ...\] \[LIMIT limit\]
pub fn sdiffcard(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let Counting { limit, .. } = Counting::of(request, false)?;
    let sets = read_all(cx, request, 0)?;
    let mut count = 0;
    if let Some((Some(first), others)) = sets.split_first() {
        first.try_for_each(|member| {
            count += usize::from(!others.iter().flatten().any(|other| other.contains(member)));
            limit == 0 || count != limit
        });
    }
    cx.reply().integer(count as i64);
    Ok(())
}

/// The options of the counting commands, behind the keys.
struct Counting {
    /// LIMIT: the count at which counting ends; 0 for no limit.
    limit: usize,
    /// APPROX: an estimate is enough.
    is_approximate: bool,
}

impl Counting {
    /// Reads the options; the number of keys has been checked before.
    fn of(request: Request<'_>, may_estimate: bool) -> Result<Self, Error> {
        let keys =
            number::parse_i64(request.arg(1)).and_then(|keys| usize::try_from(keys).ok()).filter(|keys| *keys > 0);
        let keys = keys.ok_or(Error::fixed("ERR numkeys should be greater than 0"))?;
        if keys > request.len() - 2 {
            return Err(Error::fixed("ERR Number of keys can't be greater than number of args"));
        }
        let mut counting = Self { limit: 0, is_approximate: false };
        let mut options = request.args.from(2 + keys).iter();
        while let Some(option) = options.next() {
            if may_estimate && option.eq_ignore_ascii_case(b"approx") {
                counting.is_approximate = true;
                continue;
            }
            let value = options.next().filter(|_| option.eq_ignore_ascii_case(b"limit")).ok_or(Error::SYNTAX)?;
            let value = number::parse_i64(value).and_then(|value| usize::try_from(value).ok());
            counting.limit = value.ok_or(Error::fixed("ERR LIMIT can't be negative"))?;
        }
        Ok(counting)
    }
}

/// SINTERSTORE destination key \[key ...\]
pub fn sinterstore(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let limits = limits::of_sets(cx.engine);
    let hash_key = cx.engine.keyspace.store.hash_key();
    let sets = read_all(cx, request, 1)?;
    let begins_with_integers = smallest(&sets).is_some_and(|set| set.integers().is_some());
    let (mut result, mut only_integers) = (Set::for_result(hash_key, begins_with_integers), true);
    intersect(&sets, |member| {
        only_integers = only_integers && member.integer().is_some();
        result.add(member, &limits);
        true
    });
    if only_integers {
        result.compact_integers(&limits);
    }
    store(cx, request.key(0), result, "sinterstore");
    Ok(())
}

/// A set operation, which adds its result to an empty set. A missing input is None.
pub type SetOperation = fn(&mut Set, &[Option<SetRef<'_>>], &SetLimits);

/// Answers SUNION and SDIFF.
pub fn reply_with(cx: &mut Cx<'_>, request: Request<'_>, operation: SetOperation) -> Outcome {
    let limits = limits::of_sets(cx.engine);
    let hash_key = cx.engine.keyspace.store.hash_key();
    let sets = read_all(cx, request, 0)?;
    let mut result = Set::for_result(hash_key, true);
    operation(&mut result, &sets, &limits);
    let mut reply = cx.reply();
    reply.set(result.as_ref().len());
    result.as_ref().for_each(|member| write_within(&mut reply, member));
    Ok(())
}

/// Answers SUNIONSTORE and SDIFFSTORE.
pub fn store_with(cx: &mut Cx<'_>, request: Request<'_>, operation: SetOperation, event: &'static str) -> Outcome {
    let limits = limits::of_sets(cx.engine);
    let hash_key = cx.engine.keyspace.store.hash_key();
    let sets = read_all(cx, request, 1)?;
    let mut result = Set::for_result(hash_key, true);
    operation(&mut result, &sets, &limits);
    store(cx, request.key(0), result, event);
    Ok(())
}

/// Stores a result under a key, or removes the key if the result is empty, and replies with the number of members.
fn store(cx: &mut Cx<'_>, key: Key<'_>, mut result: Set, event: &'static str) {
    result.shrink_to_fit();
    let count = result.as_ref().len();
    if count > 0 {
        cx.set_collection(key, result);
        cx.notify(EventClass::Set, event, key);
    } else if cx.remove(key, Opt::LazyfreeLazyServerDel) {
        cx.notify(EventClass::Generic, "del", key);
    }
    cx.reply().integer(count as i64);
}

/// Returns the sets of all keys but the first `skipped`, at once, counted as read; None for a missing key.
fn read_all<'c>(cx: &'c mut Cx<'_>, request: Request<'_>, skipped: usize) -> Result<Vec<Option<SetRef<'c>>>, Error> {
    for key in request.keys().skip(skipped) {
        cx.read_as::<Set>(key)?;
    }
    let (cx, database, keys) = (&*cx, cx.state.database, request.keys().skip(skipped));
    let find = |key: Key<'_>| cx.view(database, key)?.collection::<Set>();
    Ok(keys.map(find).collect())
}

/// Returns the set with the fewest members; None if one is missing.
fn smallest<'s>(sets: &[Option<SetRef<'s>>]) -> Option<SetRef<'s>> {
    let sets: Option<Vec<_>> = sets.iter().copied().collect();
    sets?.into_iter().min_by_key(|set| set.len())
}

/// Shows the members that all sets have in common, until `show` says no.
fn intersect(sets: &[Option<SetRef<'_>>], mut show: impl FnMut(ValueRef<'_>) -> bool) {
    let sets: Option<Vec<_>> = sets.iter().copied().collect();
    let Some(mut sets) = sets else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    smallest.try_for_each(|member| !others.iter().all(|other| other.contains(member)) || show(member));
}

pub fn union(result: &mut Set, sets: &[Option<SetRef<'_>>], limits: &SetLimits) {
    for set in sets.iter().flatten() {
        set.for_each(|member| _ = result.add(member, limits));
    }
}

pub fn difference(result: &mut Set, sets: &[Option<SetRef<'_>>], limits: &SetLimits) {
    let Some((Some(first), others)) = sets.split_first() else { return };
    let mut others: Vec<_> = others.iter().flatten().copied().collect();
    let asking = first.len() * (others.len() + 1) / 2;
    let removing = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if asking <= removing {
        others.sort_by_key(|set| Reverse(set.len()));
        first.for_each(|member| {
            if !others.iter().any(|other| other.contains(member)) {
                result.add(member, limits);
            }
        });
        return;
    }
    first.for_each(|member| _ = result.add(member, limits));
    for other in others {
        other.try_for_each(|member| {
            result.remove(member);
            !result.is_empty()
        });
    }
}
