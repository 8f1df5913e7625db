//! The list commands that block if there is no element to take yet.
//!
//! A blocked command waits under each of its keys with a request that is narrowed to that key; the request runs when the key
//! has a list. The record is the effect, as a command that does not block.

use sleeve_store::{End, Kind, List};
use sleeve_wire::request::OwnedArgs;

use super::transfer::{end, multiple, pop_first, record_move, relocate};
use super::transfer_many::{Move, relocate_many};
use super::{pop_element, record_pop};
use crate::commands::block_timeout;
use crate::context::Cx;
use crate::engine::clients::blocking::{Block, OnTimeout, Wait};
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// Answers BLPOP and BRPOP.
pub fn pop_or_wait(cx: &mut Cx<'_>, request: Request<'_>, end: End) -> Outcome {
    let deadline_ms = block_timeout::deadline(cx, request)?;
    for key in request.keys() {
        if cx.probe_as::<List>(key)?.is_some() {
            let mut reply = cx.reply();
            reply.array(2);
            reply.bulk(key.name);
            pop_element(cx, key, end)?;
            record_pop(cx, key, end, 1);
            return Ok(());
        }
    }
    if !cx.may_block() {
        cx.reply().null_array();
        return Ok(());
    }
    let name = request.arg(0);
    wait(cx, request, deadline_ms, request.keys().collect(), |key| OwnedArgs::collect([name, key.name, b"0"]));
    Ok(())
}

/// BLMPOP timeout numkeys key \[key ...\] LEFT | RIGHT \[COUNT count\]
pub fn blmpop(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let (end, count) = multiple(request, 2)?;
    let deadline_ms = block_timeout::deadline(cx, request)?;
    if pop_first(cx, request, end, count)? {
        return Ok(());
    }
    if !cx.may_block() {
        cx.reply().null_array();
        return Ok(());
    }
    let (name, keys) = (request.arg(0), request.keys().collect::<Vec<_>>());
    let options = request.args.from(3 + keys.len());
    wait(cx, request, deadline_ms, keys, |key| {
        let head: [&[u8]; 4] = [name, b"0", b"1", key.name];
        OwnedArgs::collect(head.into_iter().chain(options.iter()))
    });
    Ok(())
}

/// BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout
pub fn blmove(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let ends = (end(request.arg(3))?, end(request.arg(4))?);
    move_or_wait(cx, request, ends, |cx, keys| record_move(cx, keys, ends))
}

/// BLMOVEM source destination LEFT | RIGHT LEFT | RIGHT timeout \[COUNT | EXACTLY count OBO | BULK\]
pub fn blmovem(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let wanted = Move::parse(request, 6)?;
    let deadline_ms = block_timeout::deadline(cx, request)?;
    let keys = (request.key(0), request.key(1));
    if relocate_many(cx, keys, wanted)? {
        return Ok(());
    }
    if cx.may_block() {
        wait(cx, request, deadline_ms, vec![keys.0], |_| request.args.to_owned());
    } else {
        cx.reply().null_array();
    }
    Ok(())
}

/// BRPOPLPUSH source destination timeout
pub fn brpoplpush(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    move_or_wait(cx, request, (End::Back, End::Front), |cx, (source, destination)| {
        cx.record(&[b"RPOPLPUSH", source.name, destination.name]);
    })
}

/// Moves an element, or blocks; the move is recorded as a command that does not block.
fn move_or_wait(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    ends: (End, End),
    record: impl FnOnce(&mut Cx<'_>, (Key<'_>, Key<'_>)),
) -> Result<(), Error> {
    let deadline_ms = block_timeout::deadline(cx, request)?;
    let keys = (request.key(0), request.key(1));
    // As in Redis this lookup counts as a use of the key.
    cx.look_as::<List>(keys.0)?;
    if relocate(cx, keys, ends)? {
        record(cx, keys);
    } else if cx.may_block() {
        wait(cx, request, deadline_ms, vec![keys.0], |_| request.args.to_owned());
    } else {
        cx.reply().null();
    }
    Ok(())
}

/// Blocks the client until there is a list under one of the keys. A key that is named twice is waited for once.
fn wait<'a>(
    cx: &mut Cx<'_>,
    request: Request<'_>,
    deadline_ms: Option<i64>,
    keys: Vec<Key<'a>>,
    narrowed: impl Fn(Key<'a>) -> OwnedArgs,
) {
    let mut waits: Vec<Wait<'a>> = Vec::with_capacity(keys.len());
    for key in keys {
        if !waits.iter().any(|wait| wait.key.name == key.name) {
            waits.push(Wait { key, kind: Kind::List, even_gone: false, request: narrowed(key) });
        }
    }
    cx.block(request.row, Block { deadline_ms, waits, on_timeout: OnTimeout::NullArray });
}
