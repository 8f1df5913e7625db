//! The share of the HTTP thread's time that answers may take, so that a flood of dear requests leaves it time for scrapes and
//! for accepting.
//!
//! The requests of the page may take half of the time, on average over a second or two; a page takes a hundredth. Metrics are
//! made at most a few times a second for each user, and are given again in between. Plain data: callers bring the time.

use std::time::{Duration, Instant};

/// The share of the time that may be spent.
const SHARE: f64 = 0.5;

/// The longest time that can be saved.
const SAVED_MAX: Duration = Duration::from_secs(1);

/// The time for which an answer is given again.
const RECENT: Duration = Duration::from_millis(250);

/// The number of answers that are kept.
const KEPT: usize = 4;

/// A budget of time, which grows as time passes.
#[derive(Debug)]
pub struct Budget {
    left_s: f64,
    at: Instant,
}

impl Budget {
    /// Returns a full budget.
    pub fn new(now: Instant) -> Self {
        Self { left_s: SAVED_MAX.as_secs_f64(), at: now }
    }

    /// Returns whether any of the budget is left at this time.
    pub fn has_some(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at);
        self.left_s = (self.left_s + SHARE * passed.as_secs_f64()).min(SAVED_MAX.as_secs_f64());
        self.at = now;
        self.left_s > 0.0
    }

    /// Subtracts the time that was spent, even if it is more than was left.
    pub fn spend(&mut self, time: Duration) {
        self.left_s = (self.left_s - time.as_secs_f64()).max(-SAVED_MAX.as_secs_f64());
    }
}

/// The latest few answers.
#[derive(Debug)]
pub struct Recent<T> {
    kept: Vec<(String, Instant, T)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { kept: Vec::new() }
    }
}

impl<T: Clone> Recent<T> {
    /// Returns the answer that was kept under this key a short time ago.
    pub fn find(&self, key: &str, now: Instant) -> Option<T> {
        let is_it = |kept: &&(String, Instant, T)| kept.0 == key && now.saturating_duration_since(kept.1) < RECENT;
        self.kept.iter().find(is_it).map(|(_, _, kept)| kept.clone())
    }

    /// Keeps an answer, in place of one under the same key or of the oldest.
    pub fn keep(&mut self, key: String, answer: T, now: Instant) {
        self.kept.retain(|(known, ..)| *known != key);
        if self.kept.len() >= KEPT {
            self.kept.remove(0);
        }
        self.kept.push((key, now, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gets_half_of_the_time_and_a_page_all_that_it_asks_for() {
        let began = Instant::now();
        let (mut budget, mut spent, step) = (Budget::new(began), Duration::ZERO, Duration::from_millis(5));
        let mut now = began;
        while now < began + Duration::from_secs(100) {
            if budget.has_some(now) {
                budget.spend(step);
                spent += step;
            }
            now += step;
        }
        assert!((50..53).contains(&spent.as_secs()), "{spent:?}");
        let mut budget = Budget::new(began);
        let page = (0..1_000).all(|second| {
            let is_let = budget.has_some(began + Duration::from_secs(second));
            budget.spend(Duration::from_millis(100));
            is_let
        });
        assert!(page);
    }

    #[test]
    fn an_answer_is_given_again_for_a_moment_to_the_same_user() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        recent.keep("a".to_owned(), 1, now);
        recent.keep("a".to_owned(), 2, now);
        assert_eq!(
            (recent.find("a", now), recent.find("b", now), recent.find("a", now + RECENT)),
            (Some(2), None, None)
        );
        (0..10).for_each(|number| recent.keep(number.to_string(), number, now));
        assert_eq!((recent.kept.len(), recent.find("a", now), recent.find("9", now)), (KEPT, None, Some(9)));
    }
}
