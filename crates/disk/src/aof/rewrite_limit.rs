//! The limit on automatic AOF rewrites that keep failing: after three failures in a row the server waits one minute before
//! the next attempt, then two, four and so on, at most an hour, as in Redis. Without the limit a full disk would fill up with
//! increments.
//!
//! It holds no clock: the caller gives the time, in seconds.

/// The number of failures in a row from which on a rewrite waits.
const FAILURES: u32 = 3;

/// The longest wait, in minutes.
const MINUTES_MAX: u32 = 60;

/// The record of rewrites that failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RewriteLimit {
    failures: u32,
    delay_minutes: u32,
    /// The earliest time of the next attempt, in seconds; 0 if no wait is set or the last wait has passed.
    next: i64,
}

impl RewriteLimit {
    /// Notes that a rewrite has failed.
    pub fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes that a rewrite has succeeded, or that a user has asked for one.
    pub fn reset(&mut self) {
        *self = RewriteLimit::default();
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns whether a rewrite has to wait at this time. If a wait begins with this call, the second value is its length in
    /// minutes, for the server log.
    pub fn is_limited(&mut self, now: i64) -> (bool, Option<u32>) {
        if self.failures < FAILURES {
            (self.delay_minutes, self.next) = (0, 0);
            return (false, None);
        }
        if self.next != 0 {
            if now < self.next {
                return (true, None);
            }
            self.next = 0;
            return (false, None);
        }
        self.delay_minutes = (self.delay_minutes * 2).clamp(1, MINUTES_MAX);
        self.next = now + i64::from(self.delay_minutes) * 60;
        (true, Some(self.delay_minutes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_with_each_failure_up_to_an_hour() {
        let (mut limit, mut now) = (RewriteLimit::default(), 1_000_000);
        for _ in 0..2 {
            limit.failed();
            assert_eq!(limit.is_limited(now), (false, None));
        }
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            limit.failed();
            assert_eq!(limit.is_limited(now), (true, Some(minutes)));
            assert_eq!(limit.is_limited(now + i64::from(minutes) * 60 - 1), (true, None));
            now += i64::from(minutes) * 60;
            assert_eq!(limit.is_limited(now), (false, None), "one attempt");
        }
        limit.reset();
        assert_eq!((limit.is_limited(now), limit.failures()), ((false, None), 0));
    }
}
