//! CLIENT PAUSE: until when, and whom it holds.
//!
//! It counts in the milliseconds of the monotonic clock, so that nobody who sets the machine's clock prolongs or ends it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The running pause of an engine. Any thread may look; while there is none, a look is one relaxed load.
#[derive(Debug, Default)]
pub struct Pause {
    /// 0 when nothing is held. Else when everybody goes on, times 2; plus 1 when all commands are held, not only those that
    /// may write. One word, so that nobody sees half of a change.
    word: AtomicU64,
}

/// Whom a pause holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseScope {
    /// Every command.
    All,
    /// Commands that may change the data.
    Writes,
}

impl Pause {
    /// Begins a pause, or prolongs the one that runs: an end never moves closer, and ALL never weakens to WRITE.
    pub fn begin(&self, scope: PauseScope, until_ms: u64) {
        let all = u64::from(scope == PauseScope::All);
        let until_ms = until_ms.min(u64::MAX >> 1);
        let longer = |word: u64| Some((word >> 1).max(until_ms) << 1 | (word & 1) | all);
        _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
    }

    /// Ends the pause.
    pub fn end(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    /// Whether a pause was begun and not ended; its time may be over.
    #[inline]
    pub fn is_begun(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// When the pause is over; 0 when there is none.
    pub fn until_ms(&self) -> u64 {
        self.word.load(Ordering::Relaxed) >> 1
    }

    /// Whom the pause holds now. Ends a pause whose time is over, but none that another thread begins meanwhile.
    pub fn held(&self, now_ms: u64) -> Option<PauseScope> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word != 0 && word >> 1 <= now_ms {
            match self.word.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => word = 0,
                Err(newer) => word = newer,
            }
        }
        match word {
            0 => None,
            word if word & 1 == 1 => Some(PauseScope::All),
            _ => Some(PauseScope::Writes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_only_grows_until_its_time_is_over() {
        let pause = Pause::default();
        assert_eq!((pause.held(0), pause.is_begun()), (None, false));
        pause.begin(PauseScope::Writes, 100);
        assert_eq!(pause.held(99), Some(PauseScope::Writes));
        pause.begin(PauseScope::All, 50);
        pause.begin(PauseScope::Writes, 70);
        assert_eq!((pause.held(99), pause.until_ms()), (Some(PauseScope::All), 100));
        assert_eq!((pause.held(100), pause.is_begun()), (None, false));
        pause.begin(PauseScope::Writes, 200);
        assert_eq!(pause.held(100), Some(PauseScope::Writes), "what the last pause held is forgotten");
        pause.begin(PauseScope::All, u64::MAX);
        assert_eq!(pause.held(u64::MAX >> 2), Some(PauseScope::All), "no length turns into a short one");
        pause.end();
        assert_eq!(pause.held(0), None);
    }

    #[test]
    fn a_pause_that_begins_while_another_is_found_over_is_not_lost() {
        let pause = Pause::default();
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                while pause.until_ms() != u64::MAX >> 1 {
                    pause.held(1);
                }
            });
            for _ in 0..10_000 {
                pause.begin(PauseScope::All, 1);
                pause.begin(PauseScope::Writes, 2);
                assert!(pause.held(1).is_some());
                pause.end();
            }
            pause.begin(PauseScope::All, u64::MAX);
            looks.join().expect("it ends");
        });
    }
}
