//! Ranges of sorted sets, by rank, by score and by name: shown, counted, stored and removed.
//!
//! Every range is first turned into a range of ranks, by one or two searches; from there on all kinds are treated alike. A
//! range of names has a meaning only if all scores are equal.

use std::ops::Range;

use sleeve_store::{Collection, Digits, NameBound, NameRange, SortedSet, SortedSetLimits, SortedSetRef};
use sleeve_wire::number;

use super::{read, reply_head, reply_within};
use crate::commands::set;
use crate::config::Opt;
use crate::context::notifications::EventClass;
use crate::context::{Cx, ELEMENTS_MAX};
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

const NOT_A_SCORE: Error = Error::fixed("ERR min or max is not a float");
const NOT_A_NAME: Error = Error::fixed("ERR min or max not valid string range item");

/// The kind of a range: by rank, by score or by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Rank,
    Score,
    Name,
}

/// The ends of a range as the request gives them.
#[derive(Debug, Clone, Copy)]
enum Bounds<'a> {
    Rank(i64, i64),
    Score(ScoreBound, ScoreBound),
    Name(NameRange<'a>),
}

#[derive(Debug, Clone, Copy)]
struct ScoreBound {
    score: f64,
    is_exclusive: bool,
}

/// A range with its options.
#[derive(Debug, Clone, Copy)]
struct RangeQuery<'a> {
    bounds: Bounds<'a>,
    is_reverse: bool,
    offset: i64,
    /// LIMIT: the most members; a negative number stands for all.
    count: i64,
    with_scores: bool,
}

/// The properties of a range that the command's name or its options give.
#[derive(Debug, Clone, Copy, Default)]
struct Form {
    by: Option<By>,
    is_reverse: Option<bool>,
    may_have_scores: bool,
}

impl<'a> Bounds<'a> {
    /// Reads the two ends, the lower one first.
    fn parse(by: By, least: &'a [u8], most: &'a [u8]) -> Result<Self, Error> {
        let integer = |text| number::parse_i64(text).ok_or(Error::NOT_INTEGER);
        Ok(match by {
            By::Rank => Self::Rank(integer(least)?, integer(most)?),
            By::Score => Self::Score(parse_score_bound(least)?, parse_score_bound(most)?),
            By::Name => Self::Name(NameRange { least: parse_name_bound(least)?, most: parse_name_bound(most)? }),
        })
    }

    /// Returns the range of ranks: the first, and the one behind the last. If `is_reverse`, the ranks of the request count
    /// from the other end, as in Redis; the result never does.
    fn ranks(&self, set: SortedSetRef<'_>, is_reverse: bool) -> Range<usize> {
        match self {
            Self::Rank(start, stop) => {
                let ranks = absolute(*start, *stop, set.len());
                if is_reverse { set.len() - ranks.end..set.len() - ranks.start } else { ranks }
            }
            Self::Score(least, most) => {
                let start = set.count_below(least.score, least.is_exclusive);
                start..set.count_below(most.score, !most.is_exclusive).max(start)
            }
            Self::Name(range) => set.ranks_of_names(range, is_reverse),
        }
    }
}

/// Returns the range of ranks from `start` to `stop`, both included; negative ones count from the end.
fn absolute(start: i64, stop: i64, len: usize) -> Range<usize> {
    let from_front = |rank: i64| if rank < 0 { rank.saturating_add(len as i64) } else { rank };
    let start = from_front(start).max(0) as usize;
    let end = usize::try_from(from_front(stop).saturating_add(1)).unwrap_or(0).min(len);
    if start < end { start..end } else { 0..0 }
}

/// Reads one end of a range of scores as C's `strtod` does: leading spaces are skipped, an empty text is 0, and a number out
/// of range is an infinity.
fn parse_score_bound(text: &[u8]) -> Result<ScoreBound, Error> {
    let (is_exclusive, text) = match text {
        [b'(', rest @ ..] => (true, rest),
        text => (false, text),
    };
    let digits = text.trim_ascii_start();
    let plain = || std::str::from_utf8(digits).ok()?.parse::<f64>().ok().filter(|score| !score.is_nan());
    let score = if text.is_empty() { Some(0.0) } else { number::parse_f64(digits).or_else(plain) };
    score.map(|score| ScoreBound { score, is_exclusive }).ok_or(NOT_A_SCORE)
}

fn parse_name_bound(text: &[u8]) -> Result<NameBound<'_>, Error> {
    match text {
        b"-" => Ok(NameBound::Least),
        b"+" => Ok(NameBound::Most),
        [b'[', name @ ..] => Ok(NameBound::Inclusive(name)),
        [b'(', name @ ..] => Ok(NameBound::Exclusive(name)),
        _ => Err(NOT_A_NAME),
    }
}

impl<'a> RangeQuery<'a> {
    /// Reads a range from its ends, which are the argument `at` and the next one, and from the options behind them.
    fn parse(request: Request<'a>, at: usize, form: Form) -> Result<Self, Error> {
        let Form { mut by, mut is_reverse, may_have_scores } = form;
        let (mut offset, mut count, mut with_scores) = (0, -1, false);
        let mut next = at + 2;
        while let Some(word) = request.args.get(next) {
            if may_have_scores && word.eq_ignore_ascii_case(b"withscores") {
                with_scores = true;
            } else if word.eq_ignore_ascii_case(b"limit") && request.len() > next + 2 {
                offset = number::parse_i64(request.arg(next + 1)).ok_or(Error::NOT_INTEGER)?;
                count = number::parse_i64(request.arg(next + 2)).ok_or(Error::NOT_INTEGER)?;
                next += 2;
            } else if is_reverse.is_none() && word.eq_ignore_ascii_case(b"rev") {
                is_reverse = Some(true);
            } else if by.is_none() && word.eq_ignore_ascii_case(b"bylex") {
                by = Some(By::Name);
            } else if by.is_none() && word.eq_ignore_ascii_case(b"byscore") {
                by = Some(By::Score);
            } else {
                return Err(Error::SYNTAX);
            }
            next += 1;
        }
        let (by, is_reverse) = (by.unwrap_or(By::Rank), is_reverse.unwrap_or(false));
        if count != -1 && by == By::Rank {
            let text = "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
            return Err(Error::fixed(text));
        }
        // A range of ranks accepts a LIMIT that means all, and ignores its offset.
        offset = if by == By::Rank { 0 } else { offset };
        if with_scores && by == By::Name {
            return Err(Error::fixed("ERR syntax error, WITHSCORES not supported in combination with BYLEX"));
        }
        let (mut least, mut most) = (request.arg(at), request.arg(at + 1));
        if is_reverse && by != By::Rank {
            (least, most) = (most, least);
        }
        Ok(Self { bounds: Bounds::parse(by, least, most)?, is_reverse, offset, count, with_scores })
    }

    /// Returns the range of ranks that the reply shows.
    fn ranks(&self, set: SortedSetRef<'_>) -> Range<usize> {
        let Range { start, end } = self.bounds.ranks(set, self.is_reverse);
        let Ok(offset) = usize::try_from(self.offset) else { return 0..0 };
        let all = end - start;
        let skipped = offset.min(all);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(all - skipped);
        if self.is_reverse { end - skipped - count..end - skipped } else { start + skipped..start + skipped + count }
    }
}

/// Answers ZRANGE and its older forms. The name of an older form gives the kind of the range and whether it is reversed.
pub fn show(cx: &mut Cx<'_>, request: Request<'_>, named: Option<(By, bool)>) -> Outcome {
    let (by, is_reverse) = named.unzip();
    let form = Form { by, is_reverse, may_have_scores: true };
    let wanted = RangeQuery::parse(request, 2, form)?;
    read(cx, request.key(0), |set, reply| {
        let Some(set) = set else { return reply.array(0) };
        let ranks = wanted.ranks(set);
        reply_head(reply, ranks.len(), wanted.with_scores);
        set.visit(ranks, wanted.is_reverse, |name, score| {
            reply_within(reply, name, wanted.with_scores.then_some(score));
        });
    })
}

/// ZRANGESTORE dst src min max \[BYSCORE|BYLEX\] \[REV\] \[LIMIT offset count\]
pub fn zrangestore(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let wanted = RangeQuery::parse(request, 3, Form::default())?;
    let (limits, mut digits) = (limits::of_sorted_sets(cx.engine), Digits::default());
    let hash_key = cx.engine.keyspace.store.hash_key();
    let mut result = SortedSet::new(hash_key);
    if let Some(set) = cx.read_as::<SortedSet>(request.key(1))? {
        set.visit(wanted.ranks(set), false, |name, score| {
            result.set(name.bytes(&mut digits), score, limits);
        });
    }
    store(cx, request.key(0), result, "zrangestore");
    Ok(())
}

/// Stores a result under a key, or removes the key if the result is empty. Replies with the size of the result, and returns
/// it.
pub fn store(cx: &mut Cx<'_>, key: Key<'_>, mut result: SortedSet, event: &'static str) -> usize {
    let limits = limits::of_sorted_sets(cx.engine);
    result.settle(limits);
    let count = result.as_ref().len();
    if cx.locks.recorder.is_recording() {
        record_stored(cx, key, result.as_ref(), limits);
    }
    if count > 0 {
        cx.set_collection(key, result);
        cx.notify(EventClass::Zset, event, key);
    } else if cx.remove(key, Opt::LazyfreeLazyServerDel) {
        cx.notify(EventClass::Generic, "del", key);
    }
    cx.reply().integer(count as i64);
    count
}

/// Records the value that is about to be stored, instead of the command that made it: another server may add scores up in
/// another order, or measure a distance a little differently.
fn record_stored(cx: &mut Cx<'_>, key: Key<'_>, result: SortedSetRef<'_>, limits: SortedSetLimits) {
    if cx.peek(key).is_some() {
        cx.record(&[b"DEL", key.name]);
    }
    let (mut text, mut digits) = (Vec::new(), Digits::default());
    if result.len() <= limits.entries_max {
        // A member that is too long for a packed set is recorded first, so that the set is not packed: packed scores lose the
        // sign of a zero.
        let mut long: Option<(Vec<u8>, f64)> = None;
        result.visit(0..result.len(), false, |name, score| {
            let name = name.bytes(&mut digits);
            if long.is_none() && name.len() > limits.value_max {
                long = Some((name.to_vec(), score));
            }
        });
        if let Some((name, score)) = long {
            number::push_f64(&mut text, score);
            cx.record(&[b"ZADD", key.name, &text, &name]);
        }
    }
    for start in (0..result.len()).step_by(ELEMENTS_MAX) {
        let ranks = start..result.len().min(start + ELEMENTS_MAX);
        let Some(mut words) = cx.effect(2 + 2 * ranks.len()) else { return };
        words.bulks(&[b"ZADD", key.name]);
        result.visit(ranks, false, |name, score| {
            text.clear();
            number::push_f64(&mut text, score);
            words.bulk(&text);
            set::write(&mut words, name);
        });
    }
}

/// Answers ZCOUNT and ZLEXCOUNT.
pub fn count(cx: &mut Cx<'_>, request: Request<'_>, by: By) -> Outcome {
    let bounds = Bounds::parse(by, request.arg(2), request.arg(3))?;
    let found = cx.read_as::<SortedSet>(request.key(0))?.map_or(0, |set| bounds.ranks(set, false).len());
    cx.reply().integer(found as i64);
    Ok(())
}

/// Answers ZREMRANGEBYRANK, ZREMRANGEBYSCORE and ZREMRANGEBYLEX.
pub fn remove(cx: &mut Cx<'_>, request: Request<'_>, by: By, event: &'static str) -> Outcome {
    let (key, bounds) = (request.key(0), Bounds::parse(by, request.arg(2), request.arg(3))?);
    let is_recorded = cx.locks.recorder.is_recording();
    let mut removed_names = Vec::new();
    let updated = cx.update_present::<SortedSet, _>(key, |set| {
        let ranks = bounds.ranks(set.as_ref(), false);
        if is_recorded && by == By::Name && !is_of_one_score(set.as_ref()) {
            removed_names = names(set.as_ref(), ranks.clone());
        }
        set.remove_ranks(ranks.clone());
        ranks.len()
    })?;
    for names in removed_names.chunks(ELEMENTS_MAX) {
        cx.record_with(&[b"ZREM", key.name], names.iter().map(Vec::as_slice));
    }
    cx.reply_removed(key, EventClass::Zset, event, updated);
    Ok(())
}

/// Returns whether all scores are equal. If not, a range of names has no meaning, and its result depends on the server.
fn is_of_one_score(set: SortedSetRef<'_>) -> bool {
    let (mut scores, last) = (Vec::new(), set.len().saturating_sub(1));
    for rank in [0, last] {
        set.visit(rank..rank + 1, false, |_, score| scores.push(score));
    }
    scores.first() == scores.last()
}

fn names(set: SortedSetRef<'_>, ranks: Range<usize>) -> Vec<Vec<u8>> {
    let mut names = Vec::with_capacity(ranks.len());
    set.visit(ranks, false, |name, _| names.push(name.bytes(&mut Digits::default()).to_vec()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_from_either_end() {
        let cases = [(0, -1, 0..5), (1, 2, 1..3), (-2, -1, 3..5), (-100, 1, 0..2), (4, 100, 4..5), (5, 9, 0..0)];
        for (start, stop, expected) in cases.into_iter().chain([(3, 1, 0..0), (-1, -100, 0..0), (0, i64::MAX, 0..5)]) {
            assert_eq!(absolute(start, stop, 5), expected, "{start} {stop}");
        }
        assert_eq!(absolute(i64::MIN, i64::MIN, 5), 0..0);
    }

    #[test]
    fn ends_of_score_ranges_are_read_as_strtod_reads_them() {
        let read = |text: &str| parse_score_bound(text.as_bytes()).ok().map(|bound| (bound.score, bound.is_exclusive));
        assert_eq!(read("(1.5"), Some((1.5, true)));
        assert_eq!(read(""), Some((0.0, false)));
        assert_eq!(read(" 3"), Some((3.0, false)));
        assert_eq!(read("1e999"), Some((f64::INFINITY, false)));
        assert_eq!(read("-inf"), Some((f64::NEG_INFINITY, false)));
        for text in ["nan", "(nan", "1x", "((1", " ", "1 "] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
