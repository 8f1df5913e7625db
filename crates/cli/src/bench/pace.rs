//! `--rps`: when the next batch may leave.
//!
//! Each request has a moment of its own, one after the other at equal distances. A generator that falls behind catches up,
//! but never by more than a tenth of a second's requests, so that a server that stalls is not met with a flood.

use std::time::{Duration, Instant};

/// The longest delay that is caught up.
const BACKLOG_MAX: Duration = Duration::from_millis(100);

/// A limit on the requests a second.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    each: Duration,
    next: Instant,
}

impl Pace {
    /// Allows so many requests a second from now on.
    pub fn new(rate: f64, now: Instant) -> Self {
        Self { each: Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX), next: now }
    }

    /// Returns the time to wait for the next batch; zero if it may leave.
    pub fn wait(&self, now: Instant) -> Duration {
        self.next.saturating_duration_since(now)
    }

    /// Counts a batch that leaves.
    pub fn spend(&mut self, count: usize, now: Instant) {
        let from = now.checked_sub(BACKLOG_MAX).map_or(self.next, |oldest| self.next.max(oldest));
        let time = self.each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        self.next = from.checked_add(time).unwrap_or(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_spread_and_a_stall_is_caught_up_in_part() {
        let start = Instant::now();
        let mut pace = Pace::new(100.0, start);
        assert_eq!(pace.wait(start), Duration::ZERO);
        pace.spend(5, start);
        assert_eq!(pace.wait(start), Duration::from_millis(50));
        // Ten seconds later there is room for a tenth of a second's requests, and no more.
        let later = start + Duration::from_secs(10);
        let mut sent = 0;
        while pace.wait(later).is_zero() {
            pace.spend(1, later);
            sent += 1;
        }
        assert_eq!(sent, 11);
    }
}
