//! Decides when to poll for a peer's next bytes instead of sleeping until the peer rings.
//!
//! A wake-up costs both sides together several microseconds, on virtual machines several tens, and a peer that answers at
//! once needs one. So a poll that found something is followed by another one. A poll that found nothing makes the next one
//! rarer, down to one wait in some hundreds. A side that hears from its peer only now and then sleeps at once. So does a side
//! with a peer on the same processor, because the peer cannot run during the poll.
//!
//! The clock is not read while polls find something soon, because reading it takes as long as a large part of a request.

use std::time::{Duration, Instant};

/// The number of looks at the ring between two looks at the clock.
const LOOKS_A_CLOCK: u32 = 32;

/// The cap on the count of failed polls: after n failed polls in a row, 2^n - 1 waits pass without a poll.
const FAILURES_MAX: u32 = 8;

/// The history that decides whether polling pays.
#[derive(Debug)]
pub struct Patience {
    /// The longest duration of a poll.
    max: Duration,
    /// True if the last wait began with a poll.
    has_looked: bool,
    has_found: bool,
    /// The number of polls in a row that found nothing, up to [`FAILURES_MAX`].
    failures: u32,
    /// The number of waits that still pass without a poll.
    left_out: u32,
}

impl Patience {
    /// Starts without a history. A poll lasts at most `max`.
    pub fn new(max: Duration) -> Self {
        Self { max, has_looked: false, has_found: false, failures: 0, left_out: 0 }
    }

    /// Sets the longest duration of a poll.
    pub fn set_max(&mut self, max: Duration) {
        self.max = max;
    }

    /// Begins a wait, with a poll if one is likely to pay.
    #[inline]
    pub fn begin(&mut self) -> Option<Watch> {
        let has_found = std::mem::take(&mut self.has_found);
        if std::mem::take(&mut self.has_looked) {
            self.failures = if has_found { 0 } else { (self.failures + 1).min(FAILURES_MAX) };
            self.left_out = (1 << self.failures) - 1;
        }
        if self.left_out > 0 {
            self.left_out -= 1;
            return None;
        }
        self.has_looked = true;
        Some(Watch { max: self.max, until: None, looks: 0 })
    }

    /// Notes that the poll has found something.
    #[inline]
    pub fn found(&mut self) {
        self.has_found = true;
    }
}

/// A poll that is under way.
#[derive(Debug)]
pub struct Watch {
    max: Duration,
    /// The end of the poll, set at the first look at the clock.
    until: Option<Instant>,
    looks: u32,
}

impl Watch {
    /// Pauses a moment, and returns whether to look once more.
    #[inline]
    pub fn goes_on(&mut self) -> bool {
        std::hint::spin_loop();
        self.looks += 1;
        !self.looks.is_multiple_of(LOOKS_A_CLOCK) || self.has_time()
    }

    /// Returns whether to look once more, for a caller with a look that takes longer than reading the clock.
    #[inline]
    pub fn has_time(&mut self) -> bool {
        let now = Instant::now();
        now < *self.until.get_or_insert(now + self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of waits that pass before the next one that begins with a poll.
    fn left_out(patience: &mut Patience) -> u32 {
        (0..).find(|_| patience.begin().is_some()).expect("there is one in the end")
    }

    #[test]
    fn polls_that_find_nothing_become_rare_until_one_finds_something() {
        let mut patience = Patience::new(Duration::from_secs(3600));
        let mut watch = patience.begin().expect("nothing is known yet");
        assert!((0..1_000).all(|_| watch.goes_on()));
        for expected in [1, 3, 7, 15, 31, 63, 127, 255, 255] {
            assert_eq!(left_out(&mut patience), expected);
        }
        for _ in 0..10 {
            patience.found();
            assert_eq!(left_out(&mut patience), 0);
        }
        assert_eq!(left_out(&mut patience), 1);
    }

    #[test]
    fn a_look_is_over_when_its_time_is() {
        let mut patience = Patience::new(Duration::from_secs(3600));
        patience.set_max(Duration::ZERO);
        let mut watch = patience.begin().expect("nothing is known yet");
        while watch.goes_on() {}
        assert!(!watch.has_time());
    }
}
