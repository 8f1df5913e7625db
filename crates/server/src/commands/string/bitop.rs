//! BITOP: strings combined bit by bit.
//!
//! The sources are folded one after the other into a buffer that becomes the destination's own. A shorter source counts
//! as filled up with zeros. The loops are plain enough for the compiler to use the widest registers there are.

use std::sync::Arc;

use sleeve_store::{Deadline, Digits, Value};

use crate::config::Opt;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

/// Results longer than this are given to the store as they are, without copying.
const COPIED_BYTES_MAX: usize = 4096;

/// BITOP AND | OR | XOR | NOT destkey key \[key ...\]
pub fn bitop(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let operation = operation(request.arg(1))?;
    if operation == Operation::Not && request.len() != 4 {
        return Err(Error::fixed("ERR BITOP NOT must be called with a single source key."));
    }
    let result = fold(cx, request, operation)?;
    let (destination, len) = (request.key(0), result.len());
    match len {
        0 if cx.remove(destination, Opt::LazyfreeLazyServerDel) => cx.notify(EventClass::Generic, "del", destination),
        0 => {}
        1..=COPIED_BYTES_MAX => cx.set(destination, &Value::Raw(&result), Deadline::Clear),
        _ => cx.set(destination, &Value::Shared(Arc::new(result)), Deadline::Clear),
    }
    if len != 0 {
        cx.notify(EventClass::String, "set", destination);
    }
    cx.reply().integer(len as i64);
    Ok(())
}

fn operation(word: &[u8]) -> Result<Operation, Error> {
    match word {
        _ if word.eq_ignore_ascii_case(b"and") => Ok(Operation::And),
        _ if word.eq_ignore_ascii_case(b"or") => Ok(Operation::Or),
        _ if word.eq_ignore_ascii_case(b"xor") => Ok(Operation::Xor),
        _ if word.eq_ignore_ascii_case(b"not") => Ok(Operation::Not),
        _ => Err(Error::SYNTAX),
    }
}

/// The sources combined; as long as the longest of them.
fn fold(cx: &mut Cx<'_>, request: Request<'_>, operation: Operation) -> Result<Vec<u8>, Error> {
    let mut result = Vec::new();
    for (index, source) in request.keys().skip(1).enumerate() {
        let entry = cx.read_string(source)?;
        let value = entry.map(|entry| entry.value());
        let mut digits = Digits::default();
        let bytes = value.as_ref().map_or(&[][..], |value| value.bytes(&mut digits));
        match index {
            0 => result.extend_from_slice(bytes),
            _ => combine(&mut result, bytes, operation),
        }
    }
    if operation == Operation::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(result)
}

fn combine(result: &mut Vec<u8>, bytes: &[u8], operation: Operation) {
    if result.len() < bytes.len() {
        result.resize(bytes.len(), 0);
    }
    let pairs = result.iter_mut().zip(bytes);
    match operation {
        Operation::And => {
            pairs.for_each(|(one, other)| *one &= other);
            result[bytes.len()..].fill(0);
        }
        Operation::Or => pairs.for_each(|(one, other)| *one |= other),
        Operation::Xor => pairs.for_each(|(one, other)| *one ^= other),
        // NOT has one source, and nothing to combine it with.
        Operation::Not => {}
    }
}
