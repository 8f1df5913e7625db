//! HSCAN, which walks over a hash, and HRANDFIELD, which draws from it.

use std::collections::HashSet;

use sleeve_store::{Digits, MapRef, ValueRef};
use sleeve_wire::reply::{Protocol, Writer};
use sleeve_wire::{number, pattern};

use super::hash::{read, write};
use super::iteration;
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

/// Draws with repetition of more fields than this are refused: no peer can mean them, and no reply could hold them.
const DRAWS_MAX: usize = 1 << 26;

/// Up to one field in so many of a hash is drawn by chance; more are what is left when others are taken out.
const SPARSE: usize = 3;

const COUNT_RANGE: Error =
    Error::fixed("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");

/// HSCAN key cursor \[MATCH pattern\] \[COUNT count\] \[NOVALUES\]
pub fn hscan(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (cursor, now_ms) = (iteration::parse_cursor(request.arg(2))?, cx.now.wall_ms());
    let (mut elements, protocol) = (Vec::new(), cx.state.protocol);
    let found = read(cx, request.key(0), |map, reply| {
        let options = ScanOptions::of(request)?;
        let (mut count, mut elements) = (0, Writer::new(&mut elements, protocol));
        let next = map.scan(cursor, options.count, now_ms, |field, value| {
            if options.admits(field) {
                write(&mut elements, field);
                if options.values {
                    write(&mut elements, value);
                }
                count += 1 + usize::from(options.values);
            }
        });
        write_step(reply, next, count);
        Ok::<(), Error>(())
    })?;
    match found {
        Some(step) => step?,
        None => write_step(&mut cx.reply(), 0, 0),
    }
    cx.out.bytes.append(&mut elements);
    Ok(())
}

/// The head of a reply with the next cursor and `count` elements, which follow.
fn write_step(reply: &mut Writer<'_>, next: u64, count: usize) {
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(count);
}

struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    values: bool,
}

impl<'a> ScanOptions<'a> {
    fn of(request: Request<'a>) -> Result<Self, Error> {
        let mut options = Self { pattern: None, count: 10, values: true };
        let mut words = request.args.from(3).iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"count") {
                options.count = iteration::parse_count(words.next().ok_or(Error::SYNTAX)?)?;
            } else if word.eq_ignore_ascii_case(b"match") {
                options.pattern = Some(words.next().ok_or(Error::SYNTAX)?);
            } else if word.eq_ignore_ascii_case(b"novalues") {
                options.values = false;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }

    fn admits(&self, field: ValueRef<'_>) -> bool {
        let matches =
            |pattern: &[u8]| pattern == b"*" || pattern::matches(pattern, field.bytes(&mut Digits::default()), false);
        self.pattern.is_none_or(matches)
    }
}

/// HRANDFIELD key \[count \[WITHVALUES\]\]
pub fn hrandfield(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let now_ms = cx.now.wall_ms();
    let Some(count) = request.args.get(2) else {
        let found = read(cx, request.key(0), |map, reply| match map.random(fastrand::u64(..), now_ms) {
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
    if values && many > i64::MAX as usize / 2 || count < 0 && many > DRAWS_MAX {
        return Err(Error::OUT_OF_RANGE);
    }
    let found = read(cx, request.key(0), |map, reply| {
        let chosen = if count < 0 { repeated(map, many, now_ms) } else { distinct(map, many, now_ms) };
        write_pairs(reply, &chosen, values);
    })?;
    if found.is_none() {
        cx.reply().array(0);
    }
    Ok(())
}

type Pair<'a> = (ValueRef<'a>, ValueRef<'a>);

fn write_pairs(reply: &mut Writer<'_>, pairs: &[Pair<'_>], values: bool) {
    let nested = values && reply.protocol == Protocol::Resp3;
    reply.array(pairs.len() * if values && !nested { 2 } else { 1 });
    for &(field, value) in pairs {
        if nested {
            reply.array(2);
        }
        write(reply, field);
        if values {
            write(reply, value);
        }
    }
}

fn all(map: MapRef<'_>, now_ms: i64) -> Vec<Pair<'_>> {
    let mut pairs = Vec::with_capacity(map.len());
    map.for_each(now_ms, |field, value| pairs.push((field, value)));
    pairs
}

/// So many fields, each drawn from all of them.
fn repeated(map: MapRef<'_>, count: usize, now_ms: i64) -> Vec<Pair<'_>> {
    if count < map.len() / SPARSE {
        return (0..count).filter_map(|_| map.random(fastrand::u64(..), now_ms)).collect();
    }
    let pairs = all(map, now_ms);
    if pairs.is_empty() {
        return pairs;
    }
    (0..count).map(|_| pairs[fastrand::usize(..pairs.len())]).collect()
}

fn shuffled(map: MapRef<'_>, count: usize, now_ms: i64) -> Vec<Pair<'_>> {
    let mut pairs = all(map, now_ms);
    if count < pairs.len() {
        fastrand::shuffle(&mut pairs);
        pairs.truncate(count);
    }
    pairs
}

/// Up to so many different fields.
fn distinct(map: MapRef<'_>, count: usize, now_ms: i64) -> Vec<Pair<'_>> {
    if count >= map.len() / SPARSE {
        return shuffled(map, count, now_ms);
    }
    let (mut seen, mut chosen) = (HashSet::new(), Vec::with_capacity(count));
    // Where the time of most fields is over, fewer than `count` may be left: then the draws do not go on for ever.
    for _ in 0..8 * count + 64 {
        let Some((field, value)) = map.random(fastrand::u64(..), now_ms) else { break };
        if seen.insert(field.bytes(&mut Digits::default()).to_vec()) {
            chosen.push((field, value));
        }
        if chosen.len() == count {
            return chosen;
        }
    }
    shuffled(map, count, now_ms)
}
