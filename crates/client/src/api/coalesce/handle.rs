//! The handle whose calls are gathered: what callers have of all this.
//!
//! It puts no order of its own into anything and keeps nothing: a call is written as every other call, and then handed to the
//! gatherer that all clones share, which says what becomes of it. Any thread.

use std::fmt;
use std::sync::Arc;

use super::gatherer::Gatherer;
use crate::api::cmd::Cmd;
use crate::commands::ask::Ask;
use crate::options::coalesce::CoalesceOptions;
use crate::reply::Reply;
use crate::request::Request;
use crate::route::origin::Origin;
use crate::values::decode::FromReply;

/// A database whose calls are gathered for a moment, and leave as commands for many: SETs as one MSET, GETs as one MGET.
///
/// It takes the commands that a [`Client`](crate::Client) takes and gives the replies that each call would get alone; a
/// server has much less to do for them, because most of what a small command costs is not its work. It is for many
/// calls at a time, whoever makes them; where one caller waits for each reply, nothing is gathered and nothing lost.
/// Clones share what is gathered. See [`Client::coalescing`](crate::Client::coalescing).
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
/// Without a delay, as soon as nothing that was gathered before is unanswered: so the first leaves at once, and those
/// that come meanwhile leave together. With [`CoalesceOptions::delay`], when the first of them has waited for so long.
/// In both cases when there are many ([`CoalesceOptions::calls_max`], [`CoalesceOptions::bytes_max`]), or with
/// [`flush`](Coalescing::flush). Waiting for a reply does not hurry it.
///
/// # What is merged
///
/// | calls | leave as |
/// | --- | --- |
/// | SET without options | MSET |
/// | GET | MGET; those of the same key that leave together share an answer |
/// | HGET of one hash, SISMEMBER of one set, ZSCORE of one sorted set | HMGET, SMISMEMBER, ZMSCORE |
/// | LPUSH or RPUSH to one list | one, with all elements; each call is told its own length |
/// | INCR, INCRBY, DECR, DECRBY of one key in one direction | INCRBY; each call is told its own sum |
/// | DEL, UNLINK, EXISTS, TOUCH; SADD, SREM, HSET, HDEL, ZADD, ZREM, PFADD of one key | one, of those that nobody waits for |
///
/// A count does not say whose it is, so those of the last line are merged where their replies were dropped or forgotten
/// before they leave. Every other command leaves as it is: at once, or behind the calls on its keys that are still
/// gathered. A call longer than 8 KiB is not merged.
///
/// # What holds
///
/// - Calls on one key are executed in the order in which they were made through this handle and its clones, merged or
///   not. Calls on different keys may overtake each other. What is sent by another handle does not wait for what is
///   gathered here: [`flush`](Coalescing::flush) first.
/// - Each caller gets what the call would get alone. Where the server refuses the merged command, whatever the reason,
///   the calls are sent one by one; so does a nil of MGET, which may stand for a value of another type, and is asked
///   for again. A command that the server has not got, or not for this user, is not tried again on this connection.
///   Until such a question is settled, calls on the same keys wait.
/// - A merged command is one command: the server counts it as one, and others see all of it or nothing. When the
///   connection is lost amid it, all its calls fail with [`Effect::Unknown`](crate::Effect::Unknown).
/// - What is gathered when the last clone is dropped, or the client closed, is sent.
pub struct Coalescing {
    gatherer: Arc<Gatherer>,
    /// Counts the handles.
    guard: Arc<Guard>,
    database: u32,
}

/// Sends what is gathered when the last handle is gone.
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

    /// Another database of the same server. Its calls are gathered together with those of this one, and merged with
    /// their own kind.
    pub fn db(&self, database: u32) -> Self {
        Self { database, ..self.clone() }
    }

    /// The number of its database.
    pub fn number(&self) -> u32 {
        self.database
    }

    /// A command by its name, for those that have no method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }

    /// Has what is gathered leave now. It waits for nothing.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use std::time::Duration;
    /// use sleeve::{Client, CoalesceOptions, prelude::*};
    ///
    /// let client = Client::embedded();
    /// let coalescing = client.coalescing_with(CoalesceOptions::new().delay(Duration::from_secs(60)));
    /// let (one, two) = (coalescing.set("a", 1), coalescing.set("b", 2));
    /// coalescing.flush();
    /// (one.wait()?, two.wait()?);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
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

/// It is used from any thread; the build fails when that stops being so.
const _: () = {
    const fn any_thread<T: Send + Sync + Clone>() {}
    any_thread::<Coalescing>();
};
