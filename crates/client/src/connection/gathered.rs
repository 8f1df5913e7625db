//! Requests that were gathered before they arrive here: they were admitted then, so they neither wait for room nor are
//! refused.

use super::Link;
use crate::error::Error;
use crate::pipe::in_flight::{Unit, issued};
use crate::pipe::segment::long::LongRequest;
use crate::pipe::slot::Handle;
use crate::request::name::Name;
use crate::sys::clock_ms;

impl Link {
    /// Sends several requests with nothing in between, each with the time at which it was issued. It never waits, so that a
    /// thread that reads replies may call it.
    pub(crate) fn send_gathered(&self, units: Vec<Unit>, bytes: &[u8]) -> Result<(), (Error, Vec<Unit>)> {
        if let Err(error) = units.iter().try_for_each(|unit| self.check(unit.database)) {
            return Err((error, units));
        }
        let mut shared = self.shared.lock();
        // These were taken in before the client was closed.
        if shared.has_ended() {
            drop(shared);
            return Err((Error::closed(&self.ended()), units));
        }
        let is_next = shared.pipe.push_issued(units, bytes, clock_ms(), self.limit_ms());
        self.pushed_due(shared, is_next);
        self.near.observed(bytes);
        Ok(())
    }

    /// Sends a request as `send_gathered` does, if it was copied before; it leaves now as far as it can. Returns the end that
    /// its answer goes to.
    pub(crate) fn send_copied(
        &self,
        database: u32,
        name: Name,
        request: LongRequest,
        issued_ms: u32,
    ) -> Result<Handle, Error> {
        self.check(database)?;
        let mut shared = self.shared.lock();
        if shared.has_ended() {
            drop(shared);
            return Err(Error::closed(&self.ended()));
        }
        let time = issued(issued_ms, clock_ms(), self.limit_ms());
        let (handle, is_next) = shared.pipe.push_long(database, name, request, time);
        self.pushed_due(shared, is_next);
        let shared = self.shared.lock();
        if shared.may_write() {
            drop(self.write(shared));
        }
        Ok(handle)
    }

    /// Returns whether more is queued than should be.
    pub(crate) fn is_overfull(&self) -> bool {
        self.shared.lock().pipe.queued() > self.config.queue_bytes_max
    }
}
