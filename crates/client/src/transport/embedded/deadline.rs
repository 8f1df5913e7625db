//! Requests with deadlines of their own, in an engine: a deadline matters if the reply does not come with the call.
//!
//! The thread that asks for late replies also fails the calls with a deadline that has passed. Any thread.

use std::time::Instant;

use super::Embedded;
use crate::error::{Effect, Error};
use crate::pipe::queued::Sent;
use crate::pipe::timeout::Phase;
use crate::resp::request::EncodedRequest;
use crate::sys::exact_clock_ms;

impl Embedded {
    /// Sends a request as `send` does, with a deadline that matters if the reply is late.
    pub(crate) fn send_until(
        &self,
        database: u32,
        request: EncodedRequest<'_>,
        deadline: Instant,
    ) -> Result<Sent, Error> {
        self.check(database)?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.situation().timed_out(request.name, Phase::Sending, Effect::None));
        }
        let mut session = self.session();
        let has_begun = session.is_idle();
        if has_begun && let Some(payload) = session.answer(self, database, request.bytes) {
            return Ok(Sent::Ready(payload, self.number));
        }
        // A time that is too long for the clock never passes.
        let left_ms = u32::try_from(left.as_nanos().div_ceil(1_000_000)).ok().filter(|left_ms| *left_ms < u32::MAX / 4);
        let handle = match left_ms {
            Some(left_ms) => session.pipe.push_due(database, request, exact_clock_ms().wrapping_add(left_ms)).0,
            None => session.pipe.push(database, request, 0),
        };
        self.take_in(session, has_begun);
        // The thread that asks for late replies may sleep beyond this deadline, so it is woken.
        self.wakeup.wake();
        Ok(Sent::Slot(handle))
    }
}
