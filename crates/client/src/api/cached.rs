//! The handle with reads that are answered from the client's near cache.
//!
//! It takes the same commands as a client does. A command that only reads one key, and always gives the same reply for it, is
//! answered from the cache if its reply is there; any other command goes on to the server. The kept replies, and their
//! invalidation, are in `cache`.

use std::sync::Arc;

use super::cmd::Cmd;
use crate::api::origin::Origin;
use crate::cache::Near;
use crate::cache::stats::CacheStats;
use crate::commands::ask::Ask;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::Request;

/// A client or one of its databases, with replies that are kept in this process until the server reports that their keys have
/// changed.
///
/// Made by [`Client::cached`](crate::Client::cached). Cheap to clone; all handles of a client share one cache.
#[derive(Clone)]
pub struct Cached {
    origin: Arc<Origin>,
    near: Arc<Near>,
    database: u32,
}

impl Cached {
    pub(crate) fn new(origin: Arc<Origin>, near: Arc<Near>, database: u32) -> Self {
        Self { origin, near, database }
    }

    /// Returns a handle for another database of the server, with the same cache.
    pub fn db(&self, database: u32) -> Self {
        Self { database, ..self.clone() }
    }

    /// Begins a command by its name, for commands without a method of their own; see [`Cmd`].
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }

    /// Returns the hits and misses of the cache since it was created, and its present size.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// # use sleeve::{Client, prelude::*};
    /// # let cached = Client::embedded().cached()?;
    /// for _ in 0..4 {
    ///     cached.get::<Option<String>>("name").wait()?;
    /// }
    /// let stats = cached.stats();
    /// assert_eq!((stats.hits, stats.misses, stats.hit_rate()), (3, 1, 0.75));
    /// println!("{} replies in {} bytes", stats.entries, stats.bytes);
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    pub fn stats(&self) -> CacheStats {
        self.near.stats()
    }

    /// Drops all cached replies, in all databases; every later read goes to the server.
    pub fn clear(&self) {
        self.near.clear();
    }
}

impl Ask for Cached {
    #[inline]
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        let transport = &self.origin.transport;
        match Request::with(write, |request| self.near.send(transport, self.database, request)) {
            Ok(Ok(sent)) => Reply::sent(sent, transport.error_hook()),
            Ok(Err(error)) | Err(error) => Reply::failed(error, transport.error_hook()),
        }
    }

    fn ask_waiting<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.origin.ask_waiting(self.database, None, write)
    }
}

impl std::fmt::Debug for Cached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cached").field("database", &self.database).field("stats", &self.stats()).finish()
    }
}

/// A check at compile time that the handle can be used from any thread.
const _: () = {
    const fn any_thread<T: Send + Sync + Clone>() {}
    any_thread::<Cached>();
};
