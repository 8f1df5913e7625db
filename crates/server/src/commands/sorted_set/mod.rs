//! Sorted sets: adding, scoring, removing and asking about single members.
//!
//! Ranges are in `range`, the commands that take members from either end in `pop`, random members and walks in `random`,
//! unions and the like in `algebra`. A member goes from the set's bytes into the reply without a copy in between.

pub mod algebra;
pub mod pop;
pub mod random;
pub mod range;

use sleeve_store::{SortedSet, SortedSetLimits, SortedSetRef};
use sleeve_wire::number;
use sleeve_wire::reply::{Protocol, Writer};

use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

const NOT_A_NUMBER: Error = Error::fixed("ERR resulting score is not a number (NaN)");

/// The options of ZADD.
#[derive(Debug, Clone, Copy, Default)]
pub struct AddOptions {
    /// NX: existing members stay as they are.
    pub only_new: bool,
    /// XX: no member is added.
    pub only_present: bool,
    /// GT: scores only become greater.
    pub only_greater: bool,
    /// LT: scores only become less.
    pub only_less: bool,
    /// CH: the reply counts changed scores too.
    pub counts_changes: bool,
    /// INCR: the score is added to the present one.
    pub increments: bool,
}

/// The outcome of one ZADD for its members.
#[derive(Debug, Default)]
struct Added {
    added: i64,
    changed: i64,
    /// The new score of the last member, unless it was left as it was.
    score: Option<f64>,
    /// A sum was undefined: infinities of both signs were added.
    is_undefined: bool,
}

impl AddOptions {
    /// Reads the options; returns them, and the index of the first argument after them.
    fn parse(request: Request<'_>) -> (Self, usize) {
        let (mut options, mut at) = (Self::default(), 2);
        while let Some(word) = request.args.get(at) {
            let option = match word {
                _ if word.eq_ignore_ascii_case(b"nx") => &mut options.only_new,
                _ if word.eq_ignore_ascii_case(b"xx") => &mut options.only_present,
                _ if word.eq_ignore_ascii_case(b"gt") => &mut options.only_greater,
                _ if word.eq_ignore_ascii_case(b"lt") => &mut options.only_less,
                _ if word.eq_ignore_ascii_case(b"ch") => &mut options.counts_changes,
                _ if word.eq_ignore_ascii_case(b"incr") => &mut options.increments,
                _ => break,
            };
            *option = true;
            at += 1;
        }
        (options, at)
    }

    fn check(&self, pairs: usize) -> Outcome {
        if self.only_new && self.only_present {
            return Err(Error::fixed("ERR XX and NX options at the same time are not compatible"));
        }
        let exclusive = [self.only_greater, self.only_less, self.only_new];
        if exclusive.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err(Error::fixed("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if self.increments && pairs > 1 {
            return Err(Error::fixed("ERR INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// Returns whether a member with the score `old` may get this score instead.
    fn admits(&self, old: f64, score: f64) -> bool {
        !(self.only_new || (self.only_greater && score <= old) || (self.only_less && score >= old))
    }
}

impl Added {
    fn add(&mut self, set: &mut SortedSet, (score, name): (f64, &[u8]), options: AddOptions, limits: SortedSetLimits) {
        if options.is_plain() {
            match set.set(name, score, limits) {
                None => self.added += 1,
                Some(old) => self.changed += i64::from(old != score),
            }
            return;
        }
        let Some(old) = sleeve_store::Collection::as_ref(set).score(name) else {
            if !options.only_present {
                set.set(name, score, limits);
                self.added += 1;
                self.score = Some(score);
            }
            return;
        };
        let score = if options.increments { old + score } else { score };
        if options.only_new {
            return;
        }
        if score.is_nan() {
            self.is_undefined = true;
        } else if options.admits(old, score) {
            self.changed += i64::from(set.set(name, score, limits) != Some(score));
            self.score = Some(score);
        }
    }
}

impl AddOptions {
    /// Returns whether no option applies, so that every member simply gets its score.
    fn is_plain(&self) -> bool {
        !(self.only_new || self.only_present || self.only_greater || self.only_less || self.increments)
    }
}

/// ZADD key \[NX|XX\] \[GT|LT\] \[CH\] \[INCR\] score member \[score member ...\]
pub fn zadd(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (options, at) = AddOptions::parse(request);
    let pairs = request.len() - at;
    if pairs == 0 || !pairs.is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    options.check(pairs / 2)?;
    add_pairs(cx, request, options, at)
}

/// ZINCRBY key increment member
pub fn zincrby(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    add_pairs(cx, request, AddOptions { increments: true, ..AddOptions::default() }, 2)
}

/// Adds the scores and members from the argument `at` on.
fn add_pairs(cx: &mut Cx<'_>, request: Request<'_>, options: AddOptions, at: usize) -> Outcome {
    let pairs = (at..request.len()).step_by(2);
    let scores = pairs.clone().map(|at| parse_score(request.arg(at))).collect::<Result<Vec<f64>, Error>>()?;
    let members = pairs.map(|at| request.arg(at + 1));
    add(cx, request.key(0), options, scores.into_iter().zip(members))
}

/// Adds members with their scores to a sorted set, and replies.
pub fn add<'a>(
    cx: &mut Cx<'_>,
    key: Key<'_>,
    options: AddOptions,
    members: impl ExactSizeIterator<Item = (f64, &'a [u8])>,
) -> Outcome {
    let limits = limits::of_sorted_sets(cx.engine);
    let result = cx.update::<SortedSet, _>(key, |set| {
        let mut result = Added::default();
        set.prepare(members.len(), limits);
        members.for_each(|member| result.add(set, member, options, limits));
        result
    })?;
    let result = result.result;
    let changes = result.added + result.changed;
    if changes > 0 {
        cx.changed_by(key, changes as usize);
        cx.notify(EventClass::Zset, if options.increments { "zincr" } else { "zadd" }, key);
    }
    if result.is_undefined {
        return Err(NOT_A_NUMBER);
    }
    match (options.increments, result.score) {
        (true, Some(score)) => cx.reply().double(score),
        (true, None) => cx.reply().null(),
        (false, _) => {
            let changed = if options.counts_changes { result.changed } else { 0 };
            cx.reply().integer(result.added + changed);
        }
    }
    Ok(())
}

/// ZREM key member \[member ...\]
pub fn zrem(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (key, members) = (request.key(0), request.args.from(2));
    let remove = |set: &mut SortedSet| members.iter().filter(|member| set.remove(member).is_some()).count();
    let updated = cx.update_present(key, remove)?;
    cx.reply_removed(key, EventClass::Zset, "zrem", updated);
    Ok(())
}

/// ZCARD key
pub fn zcard(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let count = cx.read_as::<SortedSet>(request.key(0))?.map_or(0, |set| set.len());
    cx.reply().integer(count as i64);
    Ok(())
}

/// ZSCORE key member
pub fn zscore(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let score = cx.read_as::<SortedSet>(request.key(0))?.and_then(|set| set.score(request.arg(2)));
    reply_score(&mut cx.reply(), score);
    Ok(())
}

/// ZMSCORE key member \[member ...\]
pub fn zmscore(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    reply_scores(cx, request, reply_score)
}

/// Replies with an array: for each member that the request names, `write` writes its score, if it has one.
pub fn reply_scores(cx: &mut Cx<'_>, request: Request<'_>, write: impl Fn(&mut Writer<'_>, Option<f64>)) -> Outcome {
    let members = request.args.from(2);
    read(cx, request.key(0), |set, reply| {
        reply.array(members.len());
        members.iter().for_each(|member| write(reply, set.and_then(|set| set.score(member))));
    })
}

fn reply_score(reply: &mut Writer<'_>, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// Answers ZRANK and ZREVRANK.
pub fn rank(cx: &mut Cx<'_>, request: Request<'_>, is_reverse: bool) -> Outcome {
    let with_score = match request.args.get(3) {
        None => false,
        Some(word) if request.len() == 4 && word.eq_ignore_ascii_case(b"withscore") => true,
        Some(_) => return Err(if request.len() == 4 { Error::SYNTAX } else { Error::arity(request.row.full_name) }),
    };
    let found = cx.read_as::<SortedSet>(request.key(0))?.and_then(|set| {
        let (rank, score) = set.rank(request.arg(2))?;
        Some((if is_reverse { set.len() - 1 - rank } else { rank }, score))
    });
    let mut reply = cx.reply();
    match (found, with_score) {
        (Some((rank, score)), true) => {
            reply.array(2);
            reply.integer(rank as i64);
            reply.double(score);
        }
        (Some((rank, _)), false) => reply.integer(rank as i64),
        (None, true) => reply.null_array(),
        (None, false) => reply.null(),
    }
    Ok(())
}

/// Calls `write` with the sorted set of a key, or None if the key is missing, to write the reply.
pub fn read(cx: &mut Cx<'_>, key: Key<'_>, write: impl FnOnce(Option<SortedSetRef<'_>>, &mut Writer<'_>)) -> Outcome {
    cx.reply_apart(|cx, reply| cx.read_as::<SortedSet>(key).map(|set| write(set, reply)))
}

/// Writes the head of `count` members: with scores, an array of pairs to RESP3 and of twice as many elements to RESP2.
pub fn reply_head(reply: &mut Writer<'_>, count: usize, with_scores: bool) {
    let is_flat = with_scores && reply.protocol == Protocol::Resp2;
    reply.array(if is_flat { 2 * count } else { count });
}

/// Writes one member, with its score if it is wanted.
#[inline]
pub fn reply_member(reply: &mut Writer<'_>, name: sleeve_store::ValueRef<'_>, score: Option<f64>) {
    if score.is_some() && reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    super::set::write(reply, name);
    if let Some(score) = score {
        reply.double(score);
    }
}

/// Writes a member unless the reply is full.
#[inline]
pub fn reply_within(reply: &mut Writer<'_>, name: sleeve_store::ValueRef<'_>, score: Option<f64>) {
    if !reply.is_full() {
        reply_member(reply, name, score);
    }
}

/// Reads a score, which is any number or an infinity.
pub fn parse_score(text: &[u8]) -> Result<f64, Error> {
    number::parse_f64(text).ok_or(Error::NOT_FLOAT)
}
