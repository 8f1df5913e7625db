//! The connection's task while a runtime reads: it checks now and then whether the runtime does.

use std::time::{Duration, Instant};

use crate::connection::driver::suits;
use crate::connection::link::Link;
use crate::connection::state::Shared;
use crate::sys::now;
use crate::sys::planted::{self, Fault};

/// The time between two checks of the reactor whether the runtime reads: the first, and the longest.
const TICK_MIN: Duration = Duration::from_millis(1);
const TICK_MAX: Duration = Duration::from_millis(20);

/// The number of checks in a row with nothing in flight after which there are no more until a request is sent.
const IDLE_CHECKS_MAX: u32 = 25;

/// The checks of the connection's task whether the runtime reads.
pub(super) struct RuntimeWatch {
    /// True while a runtime reads, as far as the task knows.
    is_on: bool,
    /// The time of the next check, and the pause before it.
    at: Instant,
    pause: Duration,
    /// The number of bytes that had been received at the last check.
    received: u64,
    idle_checks: u32,
}

impl RuntimeWatch {
    pub(super) fn new() -> Self {
        Self { is_on: false, at: now(), pause: TICK_MIN, received: 0, idle_checks: 0 }
    }

    /// Prepares the task's next wait. Returns whether a runtime reads, and the time until the next check.
    pub(super) fn prepare(&mut self, link: &Link, shared: &mut Shared) -> (bool, Option<Duration>) {
        if shared.reading_runtime().is_some() && !suits(shared) {
            link.end_runtime(shared, false);
        }
        let was_on = std::mem::replace(&mut self.is_on, shared.reading_runtime().is_some());
        if !self.is_on {
            return (false, None);
        }
        if !shared.pipe.is_idle() {
            if self.rests() {
                self.at = now() + self.pause;
            }
            self.idle_checks = 0;
        }
        if !was_on {
            (self.pause, self.at, self.idle_checks) = (TICK_MIN, now() + TICK_MIN, 0);
        }
        (true, (!self.rests()).then(|| self.at.saturating_duration_since(now())))
    }

    /// Returns whether there are no checks until a request is sent. The check after a rest comes later than the reply to that
    /// request, which the runtime reads.
    fn rests(&self) -> bool {
        self.idle_checks >= IDLE_CHECKS_MAX
    }

    /// Returns whether it is time for a check.
    pub(super) fn is_due(&self) -> bool {
        self.is_on && !self.rests() && self.at <= now() && !planted::has(Fault::TrustsRuntime)
    }

    /// Notes the number of received bytes at a check. Returns whether the runtime may have left bytes unread: none were read
    /// since the last check.
    pub(super) fn check(&mut self, received: u64) -> bool {
        let has_read = std::mem::replace(&mut self.received, received) != received;
        self.pause = if has_read { (self.pause * 2).min(TICK_MAX) } else { self.pause };
        self.at = now() + self.pause;
        self.idle_checks = if has_read { 0 } else { self.idle_checks.saturating_add(1) };
        !has_read
    }
}
