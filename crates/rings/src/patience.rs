//! How long it pays to look for what a peer is about to write, instead of sleeping until it rings.
//!
//! To ring and to be woken costs both sides together several microseconds, on virtual machines several tens, and a peer that
//! answers at once needs one. So there is a look where the last wait was short enough for it, whether it was found by looking
//! or by being woken, and none where it was not: who hears of a peer now and then sleeps at once. On a machine with one
//! processor the peer could not run meanwhile.
//!
//! As long as looking finds something soon, nobody reads the clock, which takes as long as much of a request.

use std::sync::OnceLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Looks between two at the clock.
const LOOKS_A_CLOCK: u32 = 32;

/// What is known of whether it pays.
#[derive(Debug)]
pub struct Patience {
    /// The longest look.
    max: Duration,
    /// Whether the last look found something.
    has_found: bool,
    /// When the last wait began, where that is known.
    since: Option<Instant>,
}

impl Patience {
    /// Nothing is known yet of a peer for which to look for so long at most.
    pub fn new(max: Duration) -> Self {
        Self { max, has_found: false, since: None }
    }

    /// Begins a wait; none where no look pays.
    pub fn begin(&mut self) -> Option<Watch> {
        if !has_company() {
            return None;
        }
        let watch = Watch { max: self.max, until: None, looks: 0 };
        if std::mem::take(&mut self.has_found) {
            self.since = None;
            return Some(watch);
        }
        let now = Instant::now();
        let last = self.since.replace(now)?;
        (now.saturating_duration_since(last) <= self.max).then_some(watch)
    }

    /// Looking has found something.
    pub fn found(&mut self) {
        self.has_found = true;
    }
}

/// Whether another processor can run the peer.
fn has_company() -> bool {
    static HAS_COMPANY: OnceLock<bool> = OnceLock::new();
    *HAS_COMPANY.get_or_init(|| available_parallelism().is_ok_and(|count| count.get() > 1))
}

/// One look.
#[derive(Debug)]
pub struct Watch {
    max: Duration,
    /// Known from the first look at the clock.
    until: Option<Instant>,
    looks: u32,
}

impl Watch {
    /// Pauses a moment; whether to look once more.
    pub fn goes_on(&mut self) -> bool {
        std::hint::spin_loop();
        self.looks += 1;
        if !self.looks.is_multiple_of(LOOKS_A_CLOCK) {
            return true;
        }
        let now = Instant::now();
        now < *self.until.get_or_insert(now + self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_waited_briefly_looks_and_who_has_waited_long_does_not() {
        if !has_company() {
            return;
        }
        let mut patience = Patience::new(Duration::from_secs(3600));
        assert!(patience.begin().is_none(), "nothing is known yet");
        let mut watch = patience.begin().expect("the last wait was short");
        assert!((0..1_000).all(|_| watch.goes_on()));
        let mut hurried = Patience::new(Duration::ZERO);
        hurried.begin();
        std::thread::sleep(Duration::from_millis(1));
        assert!(hurried.begin().is_none(), "the last wait was long");
        let mut over = Watch { max: Duration::ZERO, until: None, looks: 0 };
        while over.goes_on() {}
        hurried.found();
        assert!(hurried.begin().is_some(), "a look has found something");
        assert!(hurried.begin().is_none(), "another has not");
    }
}
