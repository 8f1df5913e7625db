//! An INCR with a race, for tests only: it gives its lock back between reading and writing.
//!
//! With it a test shows that the check for linearizability finds such a race. It runs only in an engine in which a test has
//! switched it on (`Engine::debug`). A build without debug assertions, so every build that serves clients, does not contain
//! it.

use sleeve_store::{Deadline, Value};

use crate::context::Cx;
use crate::request::Key;
use crate::request::error::{Error, Outcome};

/// INCR and its like, outside of transactions.
pub(super) fn add(cx: &mut Cx<'_>, key: Key<'_>, increment: i64) -> Outcome {
    let old = match cx.peek_string(key)? {
        Some(entry) => entry.value().integer().ok_or(Error::NOT_INTEGER)?,
        None => 0,
    };
    cx.locks.clear();
    std::thread::yield_now();
    cx.locks.take_one(key.hash);
    let sum = old.checked_add(increment).ok_or(Error::OVERFLOW)?;
    cx.set(key, &Value::Integer(sum), Deadline::Keep);
    cx.reply().integer(sum);
    Ok(())
}
