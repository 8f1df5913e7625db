//! Unions, intersections and differences of sorted sets: as replies, stored as new sorted sets, and counted.
//!
//! Plain sets may be among the inputs: their members have the score 1. Inputs are read in place. A union gathers the members
//! of all inputs and sorts them by name, so that equal ones are neighbours; an intersection walks the smallest input and
//! looks each member up in the others. Scores are added in the order of Redis, from the smallest input to the largest,
//! because the order decides the last digits.

use std::borrow::Cow;

use sleeve_store::{Digits, Set, SetRef, SortedSet, SortedSetRef, ValueRef};
use sleeve_wire::number;
use sleeve_wire::reply::Writer;

use super::range::store;
use super::{reply_head, reply_within};
use crate::context::Cx;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The number of members after which an intersection checks whether its limit is reached.
const RUN: usize = 1024;

/// The way in which the inputs are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The way in which the scores of a member that is in several inputs are combined.
#[derive(Debug, Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// An input of the operation, with its weight.
#[derive(Clone, Copy)]
struct Input<'a> {
    members: Members<'a>,
    weight: f64,
}

#[derive(Clone, Copy)]
enum Members<'a> {
    None,
    Set(SetRef<'a>),
    SortedSet(SortedSetRef<'a>),
}

/// Members with their scores.
type Scored<'a> = Vec<(Cow<'a, [u8]>, f64)>;

/// The options behind the input keys.
struct CombineOptions {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// LIMIT: the most members that are counted; 0 for no limit.
    limit: usize,
}

/// The options that a command of this family takes.
#[derive(Debug, Clone, Copy)]
struct Takes {
    weights: bool,
    scores: bool,
    limit: bool,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // The sum of infinities of both signs counts as 0.
            Self::Sum => Some(one + other).filter(|sum| !sum.is_nan()).unwrap_or(0.0),
            Self::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Self::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

impl<'a> Members<'a> {
    fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
        }
    }

    fn score(self, name: &[u8]) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Set(set) => set.contains(name).then_some(1.0),
            Self::SortedSet(set) => set.score(name),
        }
    }

    /// Passes members to `show` until it returns false.
    fn try_for_each(self, mut show: impl FnMut(ValueRef<'a>, f64) -> bool) {
        match self {
            Self::None => {}
            Self::Set(set) => set.try_for_each(|name| show(name, 1.0)),
            Self::SortedSet(set) => {
                let mut wants_more = true;
                for start in (0..set.len()).step_by(RUN) {
                    set.visit(start..start + RUN, false, |name, score| wants_more = wants_more && show(name, score));
                    if !wants_more {
                        return;
                    }
                }
            }
        }
    }
}

impl Input<'_> {
    fn weighted(&self, score: f64) -> f64 {
        let weighted = self.weight * score;
        if weighted.is_nan() { 0.0 } else { weighted }
    }
}

fn owned(name: ValueRef<'_>) -> Cow<'_, [u8]> {
    match name {
        ValueRef::Bytes(bytes) => Cow::Borrowed(bytes),
        ValueRef::Integer(number) => Cow::Owned(Digits::default().write(number).to_vec()),
    }
}

/// Answers ZUNION, ZINTER and ZDIFF.
pub fn reply_combined(cx: &mut Cx<'_>, request: Request<'_>, operation: Operation) -> Outcome {
    let keys = key_count(request, 1)?;
    let (protocol, len_max) = (cx.state.protocol, cx.out.room());
    let inputs = read_all(cx, request, 0)?;
    let takes = Takes { weights: operation != Operation::Difference, scores: true, limit: false };
    let options = CombineOptions::parse(request, 2 + keys, keys, takes)?;
    let result = combine(inputs, &options, operation);
    let mut bytes = Vec::new();
    let mut reply = Writer::bounded(&mut bytes, protocol, len_max);
    reply_head(&mut reply, result.len(), options.with_scores);
    for (name, score) in result {
        reply_within(&mut reply, ValueRef::Bytes(&name), options.with_scores.then_some(score));
    }
    cx.out.bytes.append(&mut bytes);
    Ok(())
}

/// Answers ZUNIONSTORE, ZINTERSTORE and ZDIFFSTORE.
pub fn store_combined(cx: &mut Cx<'_>, request: Request<'_>, operation: Operation, event: &'static str) -> Outcome {
    let keys = key_count(request, 2)?;
    let limits = limits::of_sorted_sets(cx.engine);
    let hash_key = cx.engine.keyspace.store.hash_key();
    let inputs = read_all(cx, request, 1)?;
    let takes = Takes { weights: operation != Operation::Difference, scores: false, limit: false };
    let options = CombineOptions::parse(request, 3 + keys, keys, takes)?;
    let result = combine(inputs, &options, operation);
    let longest = result.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut stored = SortedSet::with_room(hash_key, result.len(), longest, limits);
    for (name, score) in result {
        stored.set(&name, score, limits);
    }
    store(cx, request.key(0), stored, event);
    Ok(())
}

/// ZINTERCARD numkeys key \[key ...\] \[LIMIT limit\]
pub fn zintercard(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let keys = key_count(request, 1)?;
    let mut inputs = read_all(cx, request, 0)?;
    let takes = Takes { weights: false, scores: false, limit: true };
    let limit = CombineOptions::parse(request, 2 + keys, keys, takes)?.limit;
    inputs.sort_by_key(|input| input.members.len());
    let mut count = 0;
    intersect(&inputs, Aggregate::Sum, |_, _| {
        count += 1;
        count != limit
    });
    cx.reply().integer(count as i64);
    Ok(())
}

/// Reads the number of input keys from the argument `at`.
fn key_count(request: Request<'_>, at: usize) -> Result<usize, Error> {
    let count = number::parse_i64(request.arg(at)).ok_or(Error::NOT_INTEGER)?;
    if count < 1 {
        let name = request.row.full_name;
        return Err(Error::new(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    usize::try_from(count).ok().filter(|count| *count < request.len() - at).ok_or(Error::SYNTAX)
}

/// Returns the inputs under all keys but the first `skipped`, counted as read.
fn read_all<'c>(cx: &'c mut Cx<'_>, request: Request<'_>, skipped: usize) -> Result<Vec<Input<'c>>, Error> {
    for key in request.keys().skip(skipped) {
        let entry = cx.read(key);
        let is_input = |entry: &sleeve_store::EntryRef<'_>| {
            entry.collection::<SortedSet>().is_some() || entry.collection::<Set>().is_some()
        };
        if entry.is_some_and(|entry| !is_input(&entry)) {
            return Err(Error::WRONG_TYPE);
        }
    }
    let (cx, database, keys) = (&*cx, cx.state.database, request.keys().skip(skipped));
    let find = |key: Key<'_>| {
        let Some(entry) = cx.view(database, key) else { return Members::None };
        match entry.collection::<SortedSet>() {
            Some(set) => Members::SortedSet(set),
            None => entry.collection::<Set>().map_or(Members::None, Members::Set),
        }
    };
    Ok(keys.map(|key| Input { members: find(key), weight: 1.0 }).collect())
}

impl CombineOptions {
    fn parse(request: Request<'_>, at: usize, keys: usize, takes: Takes) -> Result<Self, Error> {
        let mut options = Self { weights: Vec::new(), aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        let mut at = at;
        while let Some(word) = request.args.get(at) {
            let remaining = request.len() - at;
            at += if takes.weights && remaining > keys && word.eq_ignore_ascii_case(b"weights") {
                options.weights = parse_weights(request, at + 1, keys)?;
                1 + keys
            } else if takes.weights && remaining >= 2 && word.eq_ignore_ascii_case(b"aggregate") {
                options.aggregate = parse_aggregate(request.arg(at + 1))?;
                2
            } else if takes.scores && word.eq_ignore_ascii_case(b"withscores") {
                options.with_scores = true;
                1
            } else if takes.limit && remaining >= 2 && word.eq_ignore_ascii_case(b"limit") {
                let limit = number::parse_i64(request.arg(at + 1)).and_then(|limit| usize::try_from(limit).ok());
                options.limit = limit.ok_or(Error::fixed("ERR LIMIT can't be negative"))?;
                2
            } else {
                return Err(Error::SYNTAX);
            };
        }
        Ok(options)
    }
}

fn parse_weights(request: Request<'_>, at: usize, keys: usize) -> Result<Vec<f64>, Error> {
    let parse = |at| number::parse_f64(request.arg(at)).ok_or(Error::fixed("ERR weight value is not a float"));
    (at..at + keys).map(parse).collect()
}

fn parse_aggregate(word: &[u8]) -> Result<Aggregate, Error> {
    match word {
        _ if word.eq_ignore_ascii_case(b"sum") => Ok(Aggregate::Sum),
        _ if word.eq_ignore_ascii_case(b"min") => Ok(Aggregate::Min),
        _ if word.eq_ignore_ascii_case(b"max") => Ok(Aggregate::Max),
        _ => Err(Error::SYNTAX),
    }
}

/// Returns the result of the operation on the inputs, in the order of a sorted set.
fn combine<'a>(mut inputs: Vec<Input<'a>>, options: &CombineOptions, operation: Operation) -> Scored<'a> {
    for (input, weight) in inputs.iter_mut().zip(&options.weights) {
        input.weight = *weight;
    }
    if operation != Operation::Difference {
        inputs.sort_by_key(|input| input.members.len());
    }
    let mut result = match operation {
        Operation::Union => unite(&inputs, options.aggregate),
        Operation::Difference => subtract(&inputs),
        Operation::Intersection => {
            let mut common = Vec::new();
            intersect(&inputs, options.aggregate, |name, score| {
                common.push((owned(name), score));
                true
            });
            common
        }
    };
    // No score is NaN, and both zeros are one score.
    result.sort_unstable_by(|(name, score), (other, other_score)| {
        (score + 0.0).total_cmp(&(other_score + 0.0)).then_with(|| name.cmp(other))
    });
    result
}

fn unite<'a>(inputs: &[Input<'a>], aggregate: Aggregate) -> Scored<'a> {
    let mut all: Scored<'a> = Vec::with_capacity(inputs.iter().map(|input| input.members.len()).sum());
    for input in inputs {
        input.members.try_for_each(|name, score| {
            all.push((owned(name), input.weighted(score)));
            true
        });
    }
    // The sort is stable: equal names stay in the order of the inputs.
    all.sort_by(|(name, _), (other, _)| name.cmp(other));
    all.dedup_by(|(name, score), (kept, kept_score)| {
        let is_same = name == kept;
        if is_same {
            *kept_score = aggregate.of(*kept_score, *score);
        }
        is_same
    });
    all
}

/// Passes the members that all inputs have in common to `show`, until it returns false. The first input is the smallest.
fn intersect<'a>(inputs: &[Input<'a>], aggregate: Aggregate, mut show: impl FnMut(ValueRef<'a>, f64) -> bool) {
    let Some((first, others)) = inputs.split_first() else { return };
    let mut digits = Digits::default();
    first.members.try_for_each(|name, score| {
        let bytes = name.bytes(&mut digits);
        let joined = others.iter().try_fold(first.weighted(score), |sum, other| {
            Some(aggregate.of(sum, other.weight * other.members.score(bytes)?))
        });
        joined.is_none_or(|score| show(name, score))
    });
}

/// Returns the members of the first input that are in none of the others.
fn subtract<'a>(inputs: &[Input<'a>]) -> Scored<'a> {
    let (mut left, mut digits) = (Vec::new(), Digits::default());
    let Some((first, others)) = inputs.split_first() else { return left };
    first.members.try_for_each(|name, score| {
        let bytes = name.bytes(&mut digits);
        if others.iter().all(|other| other.members.score(bytes).is_none()) {
            left.push((owned(name), score));
        }
        true
    });
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinities_of_both_signs_are_nothing_together() {
        assert_eq!(Aggregate::Sum.of(f64::INFINITY, f64::NEG_INFINITY), 0.0);
        assert_eq!(Aggregate::Min.of(1.0, -2.0), -2.0);
        assert_eq!(Aggregate::Max.of(1.0, -2.0), 1.0);
    }
}
