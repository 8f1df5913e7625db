//! Requests of a cluster on the connection to one of its nodes: each keeps its bytes and its caller's end, so that it can be
//! sent to another.
//!
//! Requests that the connection does not take any more, because it is lost and not made again, go back to their sender. Any
//! thread.

use std::time::Instant;

use super::{Link, Shared};
use crate::error::{Error, ErrorKind};
use crate::pipe::queued::{Queued, Sent};
use crate::pipe::routed::Routed;
use crate::pipe::slot::Handle;
use crate::sys::lock::MutexGuard;

/// The reason why a request was not sent; if it may be sent elsewhere, the request itself.
pub(crate) enum Unsent {
    /// The queue has no room for it.
    Full(Routed),
    /// The connection is not there any more.
    Ended(Routed),
    /// This is to be told to the caller.
    Refused(Error),
}

impl Link {
    /// Sends a request of a cluster for the first time, if there is room for it: the caller's end is made here. It never waits.
    #[inline]
    pub(crate) fn send_routed(&self, mut routed: Routed) -> Result<Handle, Unsent> {
        if let Err(error) = self.check(routed.database) {
            return Err(Unsent::Refused(error));
        }
        let mut shared = self.shared.lock();
        if !self.has_room(&shared, routed.bytes.len()) {
            let is_wanted = shared.is_wanted();
            return Err(if is_wanted { Unsent::Full(routed) } else { Unsent::Ended(routed) });
        }
        let (target, handle) = shared.pipe.pair(routed.name);
        routed.attach(target);
        self.push_routed(shared, [routed]);
        Ok(handle)
    }

    /// Sends a request as `send_routed` does, once there is room. It may have a deadline of its own.
    pub(crate) fn send_routed_when_there_is_room(
        &self,
        mut routed: Routed,
        own: Option<Instant>,
    ) -> Result<Sent, Unsent> {
        let room_deadline = self.room_deadline(own);
        let (mut shared, fits) =
            match self.admit(self.shared.lock(), routed.name, routed.bytes.len(), &room_deadline, true) {
                Ok(admitted) => admitted,
                Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::Connect) => {
                    return Err(Unsent::Ended(routed));
                }
                Err(error) => return Err(Unsent::Refused(error)),
            };
        let (target, handle) = shared.pipe.pair(routed.name);
        routed.attach(target);
        self.push_routed(shared, [routed]);
        Ok(if fits { Sent::Slot(handle) } else { Sent::Queued(Queued::new(handle, room_deadline.until)) })
    }

    /// Sends requests with callers that have their ends already, with nothing in between. They neither wait for room nor are
    /// refused. All of them are returned if the connection is lost.
    pub(crate) fn resend_routed(&self, several: Vec<Routed>) -> Result<(), Vec<Routed>> {
        let shared = self.shared.lock();
        if !shared.is_wanted() {
            return Err(several);
        }
        self.push_routed(shared, several);
        Ok(())
    }

    fn push_routed(&self, mut shared: MutexGuard<'_, Shared>, several: impl IntoIterator<Item = Routed>) {
        let mut is_next = false;
        for routed in several {
            is_next |= shared.pipe.push_routed(routed);
        }
        self.pushed_due(shared, is_next);
    }

    /// Stops a caller from reading its own replies if it waits here for the answer to a request that has gone elsewhere.
    pub(crate) fn release_reader(&self) {
        let mut shared = self.shared.lock();
        self.end_lone(&mut shared);
    }
}
