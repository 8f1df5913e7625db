//! HSCAN, which walks over a hash, and HRANDFIELD, which draws from it.

use std::collections::HashSet;

use sleeve_store::{Digits, MapRef, ValueRef};
use sleeve_wire::reply::{Protocol, Writer};
use sleeve_wire::{number, pattern};

use super::{read, write};
use crate::commands::scan::{Walk, Walked};
use crate::commands::{draws, scan};
use crate::context::Cx;
use crate::host::dice::Dice;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The divisor for random draws: if fewer than one in `SPARSE` fields of a hash are asked for, they are drawn one by one;
/// otherwise they are taken from a list of all fields.
const SPARSE: usize = 3;

const COUNT_RANGE: Error =
    Error::fixed("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");

/// HSCAN key cursor \[MATCH pattern\] \[COUNT count\] \[NOVALUES\]
pub fn hscan(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (cursor, now_ms) = (scan::parse_cursor(request.arg(2))?, cx.due_ms);
    let (mut elements, protocol, len_max) = (Vec::new(), cx.state.protocol, cx.out.room());
    let found = read(cx, request.key(0), |map, reply| {
        let Walk { filter, count: wanted, only_names } = Walk::parse(request.args.from(3), Walked::Hash)?;
        let (mut count, mut elements) = (0, Writer::bounded(&mut elements, protocol, len_max));
        let next = map.scan(cursor, wanted, now_ms, |field, value| {
            let matches = |pattern| pattern::matches(pattern, field.bytes(&mut Digits::default()), false);
            if !elements.is_full() && filter.pattern.is_none_or(matches) {
                write(&mut elements, field);
                if !only_names {
                    write(&mut elements, value);
                }
                count += 2 - usize::from(only_names);
            }
        });
        scan::write_step(reply, next, count);
        Ok::<(), Error>(())
    })?;
    match found {
        Some(step) => step?,
        None => scan::write_step(&mut cx.reply(), 0, 0),
    }
    cx.out.bytes.append(&mut elements);
    Ok(())
}

/// HRANDFIELD key \[count \[WITHVALUES\]\]
pub fn hrandfield(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (now_ms, dice) = (cx.due_ms, cx.dice);
    let Some(count) = request.args.get(2) else {
        let found = read(cx, request.key(0), |map, reply| match map.random(dice.number(), now_ms) {
            Some((field, _)) => write(reply, field),
            None => reply.null(),
        })?;
        if found.is_none() {
            cx.reply().null();
        }
        return Ok(());
    };
    let count = number::parse_i64(count).ok_or(Error::NOT_INTEGER)?;
    if count == i64::MIN {
        return Err(COUNT_RANGE);
    }
    let values = match (request.len(), request.args.get(3)) {
        (_, None) => false,
        (4, Some(word)) if word.eq_ignore_ascii_case(b"withvalues") => true,
        _ => return Err(Error::SYNTAX),
    };
    let many = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if values && many > i64::MAX as usize / 2 {
        return Err(Error::OUT_OF_RANGE);
    }
    let found = read(cx, request.key(0), |map, reply| {
        if count < 0 {
            return show_repeating((map, now_ms), many, values, (dice, reply));
        }
        write_pairs(reply, &distinct((map, now_ms), many, dice), values);
        Ok(())
    })?;
    found.unwrap_or_else(|| {
        cx.reply().array(0);
        Ok(())
    })
}

type Pair<'a> = (ValueRef<'a>, ValueRef<'a>);

fn write_pairs(reply: &mut Writer<'_>, pairs: &[Pair<'_>], values: bool) {
    write_head(reply, pairs.len(), values);
    for &pair in pairs {
        if reply.is_full() {
            return;
        }
        write_pair(reply, pair, values);
    }
}

/// Writes the head of `count` fields: with values, an array of pairs to RESP3 and of twice as many elements to RESP2.
fn write_head(reply: &mut Writer<'_>, count: usize, values: bool) {
    let is_flat = values && reply.protocol == Protocol::Resp2;
    reply.array(if is_flat { 2 * count } else { count });
}

fn write_pair(reply: &mut Writer<'_>, (field, value): Pair<'_>, values: bool) {
    if values && reply.protocol == Protocol::Resp3 {
        reply.array(2);
    }
    write(reply, field);
    if values {
        write(reply, value);
    }
}

fn all(map: MapRef<'_>, now_ms: i64) -> Vec<Pair<'_>> {
    let mut pairs = Vec::with_capacity(map.len());
    map.for_each(now_ms, |field, value| pairs.push((field, value)));
    pairs
}

/// Writes so many fields; each is drawn from all fields, so fields may repeat.
fn show_repeating(
    (map, now_ms): (MapRef<'_>, i64),
    count: usize,
    values: bool,
    (dice, reply): (&Dice, &mut Writer<'_>),
) -> Outcome {
    if count < map.len() / SPARSE {
        let chosen: Vec<_> = (0..count).filter_map(|_| map.random(dice.number(), now_ms)).collect();
        write_pairs(reply, &chosen, values);
        return Ok(());
    }
    let pairs = all(map, now_ms);
    let count = if pairs.is_empty() { 0 } else { count };
    let elements = 1 + usize::from(values);
    draws::judge(count.saturating_mul(elements), pairs.len() * elements, || {
        pairs.iter().map(|(field, value)| field.len() + if values { value.len() } else { 0 }).sum()
    })?;
    write_head(reply, count, values);
    let begin = reply.out.len();
    for _ in 0..count {
        if reply.is_full() {
            break;
        }
        write_pair(reply, pairs[dice.below(pairs.len())], values);
        draws::judge_written(reply.out.len() - begin)?;
    }
    Ok(())
}

fn shuffled<'a>((map, now_ms): (MapRef<'a>, i64), count: usize, dice: &Dice) -> Vec<Pair<'a>> {
    let mut pairs = all(map, now_ms);
    if count < pairs.len() {
        dice.shuffle(&mut pairs);
        pairs.truncate(count);
    }
    pairs
}

/// Returns up to so many different random fields.
fn distinct<'a>((map, now_ms): (MapRef<'a>, i64), count: usize, dice: &Dice) -> Vec<Pair<'a>> {
    if count >= map.len() / SPARSE {
        return shuffled((map, now_ms), count, dice);
    }
    let (mut seen, mut chosen) = (HashSet::new(), Vec::with_capacity(count));
    // If most fields have expired, fewer than `count` may be left, so the number of draws is limited.
    for _ in 0..8 * count + 64 {
        let Some((field, value)) = map.random(dice.number(), now_ms) else { break };
        if seen.insert(field.bytes(&mut Digits::default()).to_vec()) {
            chosen.push((field, value));
        }
        if chosen.len() == count {
            return chosen;
        }
    }
    shuffled((map, now_ms), count, dice)
}
