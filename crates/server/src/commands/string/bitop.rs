//! BITOP: strings combined bit by bit.
//!
//! The sources are combined one after the other in a buffer that becomes the destination's value. A shorter source counts as
//! filled up with zeros. The loops are simple enough for the compiler to use the widest registers of the processor.

use std::sync::Arc;

use sleeve_store::{Deadline, Digits, Value};

use crate::config::Opt;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// The bits that only the first source has.
    Diff,
    /// The bits that at least one of the other sources has and the first has not.
    Diff1,
    /// The bits that the first source and at least one of the others have.
    AndOr,
    /// The bits that exactly one source has.
    One,
}

impl Operation {
    /// Returns whether other servers may not know the operation: then the record is the result.
    fn is_newer_than_7(self) -> bool {
        self.sets_the_first_apart() || self == Operation::One
    }

    /// Returns whether the operation treats the first source differently from the others.
    fn sets_the_first_apart(self) -> bool {
        matches!(self, Operation::Diff | Operation::Diff1 | Operation::AndOr)
    }
}

/// The length up to which results are copied into the store; a longer buffer is handed over.
const COPIED_BYTES_MAX: usize = 4096;

/// BITOP AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destkey key \[key ...\]
pub fn bitop(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let operation = operation(request.arg(1))?;
    if operation == Operation::Not && request.len() != 4 {
        return Err(Error::fixed("ERR BITOP NOT must be called with a single source key."));
    }
    if operation.sets_the_first_apart() && request.len() < 5 {
        let name = request.arg(1).to_ascii_uppercase();
        return Err(Error::naming("ERR BITOP {} must be called with at least two source keys.", &[&name]));
    }
    let result = fold(cx, request, operation)?;
    let (destination, len) = (request.key(0), result.len());
    let is_told = operation.is_newer_than_7();
    match len {
        0 if cx.remove(destination, Opt::LazyfreeLazyServerDel) => {
            cx.notify(EventClass::Generic, "del", destination);
            if is_told {
                cx.record(&[b"DEL", destination.name]);
            }
        }
        0 => {}
        _ => {
            if is_told {
                // A destination that has expired is removed and reported before it is set.
                _ = cx.peek(destination);
                cx.record(&[b"SET", destination.name, &result]);
            }
            set(cx, destination, result);
        }
    }
    cx.reply().integer(len as i64);
    Ok(())
}

/// Sets the destination to a result that is not empty.
fn set(cx: &mut Cx<'_>, destination: Key<'_>, result: Vec<u8>) {
    if result.len() <= COPIED_BYTES_MAX {
        cx.set(destination, &Value::Raw(&result), Deadline::Clear);
    } else {
        cx.set(destination, &Value::Shared(Arc::new(result)), Deadline::Clear);
    }
    cx.notify(EventClass::String, "set", destination);
}

fn operation(word: &[u8]) -> Result<Operation, Error> {
    match word {
        _ if word.eq_ignore_ascii_case(b"and") => Ok(Operation::And),
        _ if word.eq_ignore_ascii_case(b"or") => Ok(Operation::Or),
        _ if word.eq_ignore_ascii_case(b"xor") => Ok(Operation::Xor),
        _ if word.eq_ignore_ascii_case(b"not") => Ok(Operation::Not),
        _ if word.eq_ignore_ascii_case(b"diff") => Ok(Operation::Diff),
        _ if word.eq_ignore_ascii_case(b"diff1") => Ok(Operation::Diff1),
        _ if word.eq_ignore_ascii_case(b"andor") => Ok(Operation::AndOr),
        _ if word.eq_ignore_ascii_case(b"one") => Ok(Operation::One),
        _ => Err(Error::SYNTAX),
    }
}

/// Returns the combined sources; the result is as long as the longest of them.
fn fold(cx: &mut Cx<'_>, request: Request<'_>, operation: Operation) -> Result<Vec<u8>, Error> {
    let mut result = Vec::new();
    // A second buffer: the first source if the operation treats it differently; for ONE, the bits that more than one source
    // has had.
    let mut beside = Vec::new();
    for (index, source) in request.keys().skip(1).enumerate() {
        let entry = cx.read_string(source)?;
        let value = entry.map(|entry| entry.value());
        let mut digits = Digits::default();
        let bytes = value.as_ref().map_or(&[][..], |value| value.bytes(&mut digits));
        match index {
            0 if operation.sets_the_first_apart() => beside.extend_from_slice(bytes),
            0 => result.extend_from_slice(bytes),
            _ => combine(&mut result, bytes, operation, &mut beside),
        }
    }
    finish(&mut result, operation, &mut beside);
    Ok(result)
}

fn combine(result: &mut Vec<u8>, bytes: &[u8], operation: Operation, beside: &mut Vec<u8>) {
    lengthen(result, bytes.len());
    let pairs = result.iter_mut().zip(bytes);
    match operation {
        Operation::And => {
            pairs.for_each(|(one, other)| *one &= other);
            result[bytes.len()..].fill(0);
        }
        Operation::Or | Operation::Diff | Operation::Diff1 | Operation::AndOr => {
            pairs.for_each(|(one, other)| *one |= other);
        }
        Operation::Xor => pairs.for_each(|(one, other)| *one ^= other),
        Operation::One => {
            lengthen(beside, bytes.len());
            for ((one, other), several) in pairs.zip(beside) {
                *several |= *one & other;
                *one |= other;
            }
        }
        // NOT has one source, and nothing to combine it with.
        Operation::Not => {}
    }
}

/// Does the last step of the operation, after all sources were read.
fn finish(result: &mut Vec<u8>, operation: Operation, beside: &mut Vec<u8>) {
    if operation.sets_the_first_apart() {
        lengthen(result, beside.len());
        lengthen(beside, result.len());
    }
    let pairs = result.iter_mut().zip(beside);
    match operation {
        Operation::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        Operation::Diff => pairs.for_each(|(others, first)| *others = *first & !*others),
        Operation::Diff1 => pairs.for_each(|(others, first)| *others &= !*first),
        Operation::AndOr => pairs.for_each(|(others, first)| *others &= *first),
        Operation::One => pairs.for_each(|(any, several)| *any &= !*several),
        Operation::And | Operation::Or | Operation::Xor => {}
    }
}

/// Fills a string up with zeros to a length.
fn lengthen(bytes: &mut Vec<u8>, length: usize) {
    if bytes.len() < length {
        bytes.resize(length, 0);
    }
}
