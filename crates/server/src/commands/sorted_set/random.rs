//! ZRANDMEMBER, which returns random members of a sorted set, and ZSCAN, which walks over all of them.

use std::collections::HashSet;

use sleeve_store::{Digits, SortedSet, SortedSetRef};
use sleeve_wire::reply::Writer;
use sleeve_wire::{number, pattern};

use super::{read, reply_head, reply_within};
use crate::commands::scan::{Walk, Walked};
use crate::commands::{draws, scan};
use crate::context::Cx;
use crate::host::dice::Dice;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The divisor for ZRANDMEMBER: if more than one in `LISTED_SHARE` members is asked for, they are drawn from a list of all
/// members.
const LISTED_SHARE: usize = 3;

/// ZRANDMEMBER key \[count \[WITHSCORES\]\]
pub fn zrandmember(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let dice = cx.dice;
    if request.len() == 2 {
        return read(cx, request.key(0), |set, reply| match set.and_then(|set| set.get(dice.below(set.len()))) {
            Some((name, _)) => crate::commands::set::write(reply, name),
            None => reply.null(),
        });
    }
    let (count, with_scores) = parse_count(request)?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let mut outcome = Ok(());
    read(cx, request.key(0), |set, reply| match set {
        None => reply.array(0),
        Some(set) if count < 0 => outcome = show_repeating(set, wanted, with_scores, (dice, reply)),
        Some(set) => show_different(set, wanted, with_scores, (dice, reply)),
    })?;
    outcome
}

/// Reads the number of wanted members, which is negative if members may repeat, and whether scores are wanted.
fn parse_count(request: Request<'_>) -> Result<(i64, bool), Error> {
    let count = number::parse_i64(request.arg(2)).ok_or(Error::NOT_INTEGER)?;
    if count == i64::MIN {
        return Err(Error::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ));
    }
    let with_scores = match request.args.get(3) {
        None => false,
        Some(word) if request.len() == 4 && word.eq_ignore_ascii_case(b"withscores") => true,
        Some(_) => return Err(Error::SYNTAX),
    };
    if with_scores && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(Error::OUT_OF_RANGE);
    }
    Ok((count, with_scores))
}

/// Writes `count` random members, which may repeat; refuses a reply that would be too long.
fn show_repeating(
    set: SortedSetRef<'_>,
    count: usize,
    with_scores: bool,
    (dice, reply): (&Dice, &mut Writer<'_>),
) -> Outcome {
    draws::judge(count, set.len(), || {
        let mut bytes = 0;
        set.visit(0..set.len(), false, |name, _| bytes += name.len());
        bytes
    })?;
    reply_head(reply, count, with_scores);
    let begin = reply.out.len();
    for _ in 0..count {
        if reply.is_full() {
            break;
        }
        show_rank(set, dice.below(set.len()), with_scores, reply);
        draws::judge_written(reply.out.len() - begin)?;
    }
    Ok(())
}

/// Writes up to `count` different members.
fn show_different(set: SortedSetRef<'_>, count: usize, with_scores: bool, (dice, reply): (&Dice, &mut Writer<'_>)) {
    let size = set.len();
    let count = count.min(size);
    reply_head(reply, count, with_scores);
    if count == size {
        set.visit(0..size, false, |name, score| reply_within(reply, name, with_scores.then_some(score)));
    } else if count * LISTED_SHARE <= size {
        let mut seen = HashSet::with_capacity(count);
        while seen.len() < count {
            let rank = dice.below(size);
            if seen.insert(rank) {
                show_rank(set, rank, with_scores, reply);
            }
        }
    } else {
        let mut members = Vec::with_capacity(size);
        set.visit(0..size, false, |name, score| members.push((name, score)));
        for index in 0..count {
            members.swap(index, index + dice.below(size - index));
            let (name, score) = members[index];
            reply_within(reply, name, with_scores.then_some(score));
        }
    }
}

fn show_rank(set: SortedSetRef<'_>, rank: usize, with_scores: bool, reply: &mut Writer<'_>) {
    if let Some((name, score)) = set.get(rank) {
        reply_within(reply, name, with_scores.then_some(score));
    }
}

/// ZSCAN key cursor \[MATCH pattern\] \[COUNT count\] \[NOSCORES\]
pub fn zscan(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let cursor = scan::parse_cursor(request.arg(2))?;
    let (protocol, len_max) = (cx.state.protocol, cx.out.room());
    let Some(set) = cx.read_as::<SortedSet>(request.key(0))? else {
        scan::write_step(&mut cx.reply(), 0, 0);
        return Ok(());
    };
    let Walk { filter, count, only_names } = Walk::parse(request.args.from(3), Walked::SortedSet)?;
    let (mut members, mut shown, mut digits) = (Vec::new(), 0, Digits::default());
    let mut writer = Writer::bounded(&mut members, protocol, len_max);
    let is_packed = set.packed().is_some();
    let next = set.walk(cursor, count, |name, score| {
        let matches = |pattern| pattern::matches(pattern, name.bytes(&mut digits), false);
        if !writer.is_full() && filter.pattern.is_none_or(matches) {
            crate::commands::set::write(&mut writer, name);
            if !only_names {
                write_walked(&mut writer, score, is_packed);
            }
            shown += 2 - usize::from(only_names);
        }
    });
    scan::write_step(&mut cx.reply(), next, shown);
    cx.out.bytes.append(&mut members);
    Ok(())
}

/// Writes a score as ZSCAN shows it: that of a packed set in the fewest digits, any other with seventeen, as in Redis.
fn write_walked(reply: &mut Writer<'_>, score: f64, is_packed: bool) {
    if is_packed {
        return reply.bulk_double(score);
    }
    let mut text = Vec::with_capacity(24);
    number::push_f64_17(&mut text, score);
    reply.bulk(&text);
}
