//! MEMORY USAGE: what a key weighs.

use sleeve_wire::commands::Command;
use sleeve_wire::number;

use super::help;
use crate::cx::Cx;
use crate::error::{Error, Outcome};
use crate::request::Request;

/// MEMORY HELP
pub fn help(cx: &mut Cx<'_>, _request: Request<'_>) -> Outcome {
    help::of(cx, Command::Memory)
}

/// MEMORY USAGE key \[SAMPLES count\]
pub fn usage(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let mut options = request.args.from(3).iter();
    while let Some(word) = options.next() {
        let count = options.next().filter(|_| word.eq_ignore_ascii_case(b"samples")).ok_or(Error::SYNTAX)?;
        // A string is one piece: however many samples are asked for, it is weighed whole.
        if number::parse_i64(count).ok_or(Error::NOT_INTEGER)? < 0 {
            return Err(Error::SYNTAX);
        }
    }
    let bytes = cx.peek(request.key(0)).map(|entry| entry.memory_usage());
    let mut reply = cx.reply();
    match bytes {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.null(),
    }
    Ok(())
}
