//! LMOVEM: moves several elements from one list to another at once; BLMOVEM (`wait`) runs the same functions.
//!
//! All elements are taken, in the order in which they are popped, and then put at the other list's end as one block, which is
//! the reply too. The record consists of commands of Redis 7.0: a push and a pop for two lists; for one list, moves, or the
//! elements that have changed their positions. The shards of both keys are locked.

use sleeve_store::{End, List, ListLimit, ListRef};
use sleeve_wire::number::Digits;

use super::record_pop;
use super::transfer::{Taken, at_least_one, end, moved, record_move};
use crate::context::{Cx, ELEMENTS_MAX};
use crate::engine::keyspace::limits;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The arguments of LMOVEM and BLMOVEM.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    /// The end from which elements are taken, and the end at which they are put.
    ends: (End, End),
    /// The most elements that are moved.
    count: usize,
    /// EXACTLY: if the list has fewer elements, none is moved.
    pub is_exact: bool,
    /// OBO: each element is put before the next one is taken; otherwise all are put as one block.
    is_one_by_one: bool,
}

impl Move {
    /// Reads the ends, and the words from argument `at` on: \[COUNT | EXACTLY count OBO | BULK\]
    pub fn parse(request: Request<'_>, at: usize) -> Result<Self, Error> {
        let ends = (end(request.arg(3))?, end(request.arg(4))?);
        if request.len() == at {
            return Ok(Self { ends, count: 1, is_exact: false, is_one_by_one: true });
        }
        if request.len() != at + 3 {
            return Err(Error::SYNTAX);
        }
        let (selector, order) = (request.arg(at), request.arg(at + 2));
        let choice = |word: &[u8], [no, yes]: [&str; 2]| match word {
            _ if word.eq_ignore_ascii_case(no.as_bytes()) => Ok(false),
            _ if word.eq_ignore_ascii_case(yes.as_bytes()) => Ok(true),
            _ => Err(Error::SYNTAX),
        };
        let is_exact = choice(selector, ["count", "exactly"])?;
        let is_one_by_one = choice(order, ["bulk", "obo"])?;
        let count = at_least_one(request.arg(at + 1), "ERR count should be greater than 0")?;
        Ok(Self { ends, count, is_exact, is_one_by_one })
    }

    /// Returns whether the block is reversed: the last element that is taken comes first in it.
    fn turns_round(&self) -> bool {
        let (from, to) = self.ends;
        if self.is_one_by_one { to == End::Front } else { from == End::Back }
    }
}

/// LMOVEM source destination LEFT | RIGHT LEFT | RIGHT \[COUNT | EXACTLY count OBO | BULK\]
pub fn lmovem(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let wanted = Move::parse(request, 5)?;
    if !relocate_many(cx, (request.key(0), request.key(1)), wanted)? {
        if wanted.is_exact {
            cx.reply().null_array();
        } else {
            cx.reply().array(0);
        }
    }
    Ok(())
}

/// Moves elements and replies with them; returns false, and writes no reply, if there are none or not enough.
pub fn relocate_many(cx: &mut Cx<'_>, keys: (Key<'_>, Key<'_>), wanted: Move) -> Result<bool, Error> {
    let Some(list) = cx.look_as::<List>(keys.0)? else { return Ok(false) };
    if wanted.is_exact && list.len() < wanted.count {
        return Ok(false);
    }
    let mut block = take(list, wanted.ends.0, wanted.count);
    cx.probe_as::<List>(keys.1)?;
    if wanted.turns_round() {
        block.reverse();
    }
    if keys.0.name == keys.1.name {
        within(cx, keys.0, wanted, &block)?;
    } else {
        across(cx, keys, wanted, &block)?;
    }
    let mut reply = cx.reply();
    reply.array(block.len());
    block.iter().for_each(|element| super::write(&mut reply, element.value()));
    Ok(true)
}

/// Returns up to so many elements from an end, in the order in which they would be popped.
fn take(list: ListRef<'_>, from: End, count: usize) -> Vec<Taken> {
    match from {
        End::Front => list.iter().take(count).map(Taken::of).collect(),
        End::Back => list.iter_back_from(list.len().saturating_sub(1)).take(count).map(Taken::of).collect(),
    }
}

/// Puts a block at an end of a list.
fn put(limit: ListLimit, list: &mut List, to: End, block: &[Taken]) {
    list.prepare(block.iter().map(Taken::len).sum(), block.len(), limit);
    match to {
        End::Front => block.iter().rev().for_each(|element| list.push(to, element.value(), limit)),
        End::Back => block.iter().for_each(|element| list.push(to, element.value(), limit)),
    }
}

fn across(cx: &mut Cx<'_>, keys: (Key<'_>, Key<'_>), wanted: Move, block: &[Taken]) -> Outcome {
    let ((source, destination), (from, to), limit) = (keys, wanted.ends, limits::of_lists(cx.engine));
    cx.update::<List, _>(destination, |list| put(limit, list, to, block))?;
    let popped = cx.update_seen::<List, _>(source, |list| {
        list.pop_many(from, block.len());
        list.shrink(limit);
    })?;
    moved(cx, keys, wanted.ends, (block.len(), popped.is_some_and(|updated| updated.emptied)));
    record_push(cx, destination, to, block);
    record_pop(cx, source, from, block.len());
    Ok(())
}

fn within(cx: &mut Cx<'_>, key: Key<'_>, wanted: Move, block: &[Taken]) -> Outcome {
    let ((from, to), limit) = (wanted.ends, limits::of_lists(cx.engine));
    if from == to && (!wanted.is_one_by_one || block.len() == 1) {
        // Every element is where it was, so nothing is recorded.
        return Ok(());
    }
    cx.update_present::<List, _>(key, |list| {
        list.pop_many(from, block.len());
        put(limit, list, to, block);
        list.shrink(limit);
    })?;
    moved(cx, (key, key), wanted.ends, (block.len(), false));
    for (index, element) in block.iter().enumerate() {
        if from != to {
            record_move(cx, (key, key), wanted.ends);
        } else if let Some(mut words) = cx.effect(4) {
            let index = if to == End::Front { index as i64 } else { index as i64 - block.len() as i64 };
            words.bulks(&[b"LSET", key.name, Digits::new(index).as_bytes()]);
            super::write(&mut words, element.value());
        }
    }
    Ok(())
}

/// Records that a block was put at an end of a list.
fn record_push(cx: &mut Cx<'_>, key: Key<'_>, to: End, block: &[Taken]) {
    let name: &[u8] = if to == End::Front { b"LPUSH" } else { b"RPUSH" };
    for start in (0..block.len()).step_by(ELEMENTS_MAX) {
        let count = ELEMENTS_MAX.min(block.len() - start);
        let Some(mut words) = cx.effect(2 + count) else { return };
        words.bulks(&[name, key.name]);
        let mut write = |element: &Taken| super::write(&mut words, element.value());
        match to {
            End::Front => block.iter().rev().skip(start).take(count).for_each(&mut write),
            End::Back => block[start..start + count].iter().for_each(&mut write),
        }
    }
}
