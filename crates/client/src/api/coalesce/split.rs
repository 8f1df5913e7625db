//! The parts of the reply to a merged command: each caller gets its own, or its call is sent again alone.
//!
//! An error of the server to a merged command belongs to no single call: each call is sent by itself, and gets its own reply.
//! (No command of the table has done a part of its work when it gives an error.) An error of the transport, after which it is
//! unknown whether the command was executed, goes to all callers. Pure functions; foreign bytes.

use std::mem;
use std::ops::Range;

use sleeve_wire::commands::Share;
use sleeve_wire::frame::{Frame, decode};
use sleeve_wire::number::push_i64;

use super::group::{Group, GroupCall};
use crate::error::{Error, ErrorKind};
use crate::pipe::slot::{Completions, Payload};

/// The way in which a reply is handled.
enum Verdict {
    /// Every caller gets this reply.
    Same,
    /// Each caller gets one of these ranges of the reply.
    Elements(Vec<Range<usize>>),
    /// As `Elements`, but a call that would get nil is sent again.
    ElementsButNil(Vec<Range<usize>>),
    /// The first call gets this number plus its amount, and each later call the number of the one before plus its own amount.
    Numbers(i128, fn(&GroupCall) -> i64),
    /// Every call fails with this error.
    Failed(Error),
    /// Every call is sent again, alone.
    Retry,
}

/// Hands a reply out. Returns the group of the calls that have to be sent again one by one.
pub(super) fn hand_out(payload: Payload, mut group: Group, done: &mut Completions) -> Option<Group> {
    let verdict = judge(&payload, &group);
    let bytes = payload.bytes();
    let element = |ranges: &[Range<usize>], part: &GroupCall| {
        ranges.get(part.place as usize).and_then(|range| bytes.get(range.clone())).unwrap_or_default().to_vec()
    };
    let mut again = Vec::new();
    let mut total = if let Verdict::Numbers(before, _) = verdict { before } else { 0 };
    for part in mem::take(&mut group.parts) {
        let answer = match &verdict {
            Verdict::Same => Payload::of(bytes),
            Verdict::Elements(ranges) => Payload::of(&element(ranges, &part)),
            Verdict::ElementsButNil(ranges) => {
                let element = element(ranges, &part);
                if is_nil(&element) {
                    again.push(part);
                    continue;
                }
                Payload::of(&element)
            }
            Verdict::Numbers(_, adds) => {
                total += i128::from(adds(&part));
                number(total)
            }
            Verdict::Failed(error) => Payload::Failed(error.clone()),
            Verdict::Retry => {
                again.push(part);
                continue;
            }
        };
        part.target.complete(answer, done);
    }
    group.parts = again;
    (!group.parts.is_empty()).then_some(group)
}

/// Returns whether a reply means that calls of this kind cannot be merged on this server: it does not have the command, does
/// not allow it to this user, or has the keys on several nodes.
pub(super) fn is_refusal(payload: &Payload) -> bool {
    let text = match payload {
        Payload::Failed(_) => return false,
        payload => match payload.frame() {
            Err(error) if error.kind() == ErrorKind::Server => error,
            _ => return false,
        },
    };
    match text.code() {
        Some("CROSSSLOT") => true,
        Some("NOPERM") => text.message().contains(" to run the "),
        _ => text.message().starts_with("ERR unknown command"),
    }
}

fn judge(payload: &Payload, group: &Group) -> Verdict {
    let frame = match (payload, payload.frame()) {
        (Payload::Failed(error), _) => return Verdict::Failed(error.clone()),
        (_, Err(error)) if error.kind() == ErrorKind::Server => return Verdict::Retry,
        (_, Err(error)) => return Verdict::Failed(error),
        (_, Ok(frame)) => frame,
    };
    let odd = || Verdict::Failed(Error::protocol("a merged command was answered with something else than its replies"));
    match (group.rule.map(|rule| rule.share), frame) {
        (Some(Share::Same), Frame::Simple(_)) | (Some(Share::Nobody), Frame::Integer(_)) => Verdict::Same,
        (Some(Share::Each), Frame::Array(_)) => elements(payload, group).map_or_else(odd, Verdict::Elements),
        (Some(Share::EachOrError), Frame::Array(_)) => {
            elements(payload, group).map_or_else(odd, Verdict::ElementsButNil)
        }
        (Some(Share::Length), Frame::Integer(length)) => before(length, group, |part| part.arguments.into()),
        (Some(Share::Sum), Frame::Integer(sum)) => before(sum, group, |part| part.amount),
        _ => odd(),
    }
}

/// Returns the number from before the first call, computed from the number after the last.
fn before(last: i64, group: &Group, adds: fn(&GroupCall) -> i64) -> Verdict {
    let added: i128 = group.parts.iter().map(|part| i128::from(adds(part))).sum();
    Verdict::Numbers(i128::from(last) - added, adds)
}

/// Returns the ranges of the elements of an array, if it has one for each index.
fn elements(payload: &Payload, group: &Group) -> Option<Vec<Range<usize>>> {
    let bytes = payload.bytes();
    let mut at = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    let mut ranges = Vec::with_capacity(group.elements());
    while at < bytes.len() {
        let (_, length) = decode(bytes.get(at..)?).ok()?;
        ranges.push(at..at + length);
        at += length;
    }
    (ranges.len() == group.elements()).then_some(ranges)
}

fn is_nil(element: &[u8]) -> bool {
    matches!(element, b"$-1\r\n" | b"_\r\n")
}

/// Returns an integer as a reply. A number beyond the range of a reply is a fault of the server.
fn number(number: i128) -> Payload {
    let Ok(number) = i64::try_from(number) else {
        return Payload::Failed(Error::protocol("a merged command was answered with a number that cannot be"));
    };
    let mut bytes = Vec::with_capacity(24);
    bytes.push(b':');
    push_i64(&mut bytes, number);
    bytes.extend_from_slice(b"\r\n");
    Payload::of(&bytes)
}
