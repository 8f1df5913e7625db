//! The handle with calls that are gathered: the callers' side.
//!
//! It adds no order of its own and keeps nothing: a call is written as every other call, and then handed to the gatherer that
//! all clones share, which decides on it. Any thread.

use std::fmt;
use std::sync::Arc;

use super::gatherer::Gatherer;
use crate::api::cmd::Cmd;
use crate::api::coalesce::options::CoalesceOptions;
use crate::api::origin::Origin;
use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;

/// A database with calls that are gathered for a moment, and leave as commands for many: SETs as one MSET, GETs as one MGET.
///
/// It takes the commands that a [`Client`](crate::Client) takes and gives the replies that each call would get alone. A
/// server has much less to do for them, because most of the cost of a small command is not its work. It is for many calls at
/// a time, from one caller or many; if one caller waits for each reply, nothing is gathered and nothing lost. Clones share
/// the gathered calls. See [`Client::coalescing`](crate::Client::coalescing).
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, prelude::*};
///
/// let client = Client::embedded();
/// let coalescing = client.coalescing();
/// for number in 0..1000 {
///     coalescing.set(format!("user:{number}"), number).forget();
/// }
/// let replies: Vec<_> = (0..1000).map(|number| coalescing.get::<u32>(format!("user:{number}"))).collect();
/// for (number, reply) in (0..).zip(replies) {
///     assert_eq!(reply.wait()?, number);
/// }
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// # When calls leave
///
/// Without a delay, as soon as nothing that was gathered before is unanswered: so the first leaves at once, and those that
/// are made before its answer leave together. With [`CoalesceOptions::delay`], when the first of them has waited for so long.
/// In both cases when there are many ([`CoalesceOptions::calls_max`], [`CoalesceOptions::bytes_max`]), or with
/// [`flush`](Coalescing::flush). Waiting for a reply does not hurry it.
///
/// # Merged calls
///
/// | calls | leave as |
/// | --- | --- |
/// | SET without options | MSET |
/// | GET | MGET; those of the same key that leave together share an answer |
/// | HGET of one hash, SISMEMBER of one set, ZSCORE of one sorted set | HMGET, SMISMEMBER, ZMSCORE |
/// | LPUSH or RPUSH to one list | one, with all elements; each call is told its own length |
/// | INCR, INCRBY, DECR, DECRBY of one key in one direction | INCRBY; each call is told its own sum |
/// | DEL, UNLINK, EXISTS, TOUCH; SADD, SREM, HSET, HDEL, ZADD, ZREM, PFADD of one key | one, of those without a waiter |
///
/// A count does not tell the calls apart, so those of the last line are merged if their replies were dropped or forgotten
/// before they leave. Every other command leaves as it is: at once, or behind the calls on its keys that are still gathered.
/// A call longer than 8 KiB is not merged.
///
/// # Guarantees
///
/// - Calls on one key are executed in the order in which they were made through this handle and its clones, merged or not.
///   Calls on different keys may overtake each other. A command that is sent by another handle does not wait for the calls
///   that are gathered here: [`flush`](Coalescing::flush) first.
/// - Each caller gets the reply that the call would get alone. If the server refuses the merged command, for any reason, the
///   calls are sent one by one. A nil of MGET, which may stand for a value of another type, is asked for again in the same
///   way. A command that the server has not got, or not for this user, is not tried again on this connection. Until such a
///   question is settled, calls on the same keys wait.
/// - A merged command is one command: the server counts it as one, and others see all of it or nothing. When the connection
///   is lost amid it, all its calls fail with [`Effect::Unknown`](crate::Effect::Unknown).
/// - Calls that are still gathered when the last clone is dropped, or the client closed, are sent.
pub struct Coalescing {
    gatherer: Arc<Gatherer>,
    /// The guard that counts the handles.
    guard: Arc<Guard>,
    database: u32,
}

/// A guard that sends the gathered calls when the last handle is dropped.
struct Guard(Arc<Gatherer>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.flush();
    }
}

impl Coalescing {
    pub(crate) fn new(origin: Arc<Origin>, database: u32, options: CoalesceOptions) -> Self {
        let gatherer = Gatherer::new(origin, options);
        Self { guard: Arc::new(Guard(Arc::clone(&gatherer))), gatherer, database }
    }

    /// Returns another database of the same server. Its calls are gathered together with those of this one, and merged with
    /// their own kind.
    pub fn db(&self, database: u32) -> Self {
        Self { database, ..self.clone() }
    }

    /// Returns the number of its database.
    pub fn number(&self) -> u32 {
        self.database
    }

    /// Begins a command by its name, for commands without a method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }

    /// Sends the gathered calls now, and does not wait.
    pub fn flush(&self) {
        self.gatherer.flush();
    }
}

impl Ask for Coalescing {
    #[inline]
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.gatherer.ask(self.database, write)
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.gatherer.ask_waiting(self.database, write)
    }
}

impl Clone for Coalescing {
    fn clone(&self) -> Self {
        Self { gatherer: Arc::clone(&self.gatherer), guard: Arc::clone(&self.guard), database: self.database }
    }
}

impl fmt::Debug for Coalescing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalescing").field("database", &self.database).finish_non_exhaustive()
    }
}

/// A check at compile time that the handle can be used from any thread.
const _: () = {
    const fn any_thread<T: Send + Sync + Clone>() {}
    any_thread::<Coalescing>();
};
