//! A connection that keeps a near cache true: the server is asked to announce changes, and reads for the cache go out in one
//! piece.
//!
//! The handling of the callers' writes is in `tracker`, the reader's half in the reply reader (`pipe/reply_reader`). Any
//! thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Link, Shared};
use crate::error::Error;
use crate::pipe::in_flight::{Asker, Time};
use crate::pipe::near::{Cache, Read};
use crate::request::name::Name;
use crate::sys::clock_ms;

impl Link {
    /// Attaches this cache, which is kept true from now on, on each connection. A link has one at most.
    pub(crate) fn attach(&self, cache: Arc<dyn Cache>) {
        self.shared.lock().observe();
        self.attach_common(cache);
    }

    /// Attaches a cache as `attach` does, to the connection to a node of a cluster, which itself tells the cache of the
    /// requests that are sent.
    pub(crate) fn attach_common(&self, cache: Arc<dyn Cache>) {
        self.reply_reader.lock().cache = Some(Arc::clone(&cache));
        if self.near.cache.set(cache).is_err() {
            return;
        }
        let mut shared = self.shared.lock();
        if shared.pipe.is_connected() {
            self.track(&mut shared);
            self.pushed(shared);
        }
    }

    /// Asks the server on this connection to announce changes, if there is a cache and it was not asked yet.
    pub(super) fn track(&self, shared: &mut Shared) {
        let Some(cache) = self.near.cache.get() else { return };
        let connection = shared.pipe.connection();
        if self.near.asked_on.swap(connection, Ordering::Relaxed) == connection {
            return;
        }
        if self.near.speaks_resp3.load(Ordering::Relaxed) {
            shared.pipe.push_unasked(Asker::Tracking, cache.request(), clock_ms());
        } else {
            cache.refused(Error::usage(format!(
                "{} speaks RESP2 only, in which a server cannot say what changes, so nothing can be cached: the near cache \
                 needs Redis 6 or later, Valkey or Sleeve; read through the client itself",
                self.config.endpoint
            )));
        }
    }

    /// Sends a read for the cache with all of its requests, or gives it back.
    pub(crate) fn send_read(
        &self,
        database: u32,
        name: Name,
        requests: &[u8],
        read: Box<Read>,
    ) -> Result<(), (Error, Box<Read>)> {
        match self.check(database).and_then(|()| self.admit_many(name, requests.len())) {
            Ok(mut shared) => {
                let frames = read.frames();
                shared.pipe.gather(Asker::Read(read), frames, database, requests, Time::Issued(clock_ms()));
                self.pushed(shared);
                Ok(())
            }
            Err(error) => Err((error, read)),
        }
    }
}
