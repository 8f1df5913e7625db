//! What was gathered before it came here: it was admitted then, so it neither waits for room nor is refused any.

use super::Link;
use crate::error::Error;
use crate::pipe::in_flight::Unit;

impl Link {
    /// Sends several requests with nothing in between, which were issued at this time. It never waits, so that whoever reads
    /// replies may do it.
    pub(crate) fn send_gathered(
        &self,
        units: Vec<Unit>,
        bytes: &[u8],
        issued_ms: u32,
    ) -> Result<(), (Error, Vec<Unit>)> {
        if let Err(error) = units.iter().try_for_each(|unit| self.check(unit.database)) {
            return Err((error, units));
        }
        let mut shared = self.shared.lock();
        if !shared.is_wanted() {
            drop(shared);
            return Err((Error::closed(&self.ended()), units));
        }
        shared.pipe.push_units(units, bytes, issued_ms);
        self.pushed(shared);
        Ok(())
    }

    /// Whether more is queued than should be.
    pub(crate) fn is_overfull(&self) -> bool {
        self.shared.lock().pipe.queued() > self.config.queue_bytes_max
    }
}
