//! CLIENT PAUSE and other holds: which clients are held, and until when. The end of the server holds all clients; a server
//! that waits for its replicas before its end holds those that write.
//!
//! Times are in milliseconds of the monotonic clock, so that setting the machine's clock neither prolongs nor ends a pause.

use std::sync::atomic::{AtomicU64, Ordering};

/// The running pause of an engine. Any thread may check it; while there is none, a check is one relaxed load.
#[derive(Debug, Default)]
pub struct Pause {
    /// The state in one word, so that no thread sees half of a change: 0 if no client is held; else the time at which the
    /// pause ends, times 16, plus the bits [`ALL`], [`ENDING`] and those of [`Hold`].
    word: AtomicU64,
    /// The number of times that the server was about to end, and did not.
    ends_given_up: AtomicU64,
}

/// CLIENT PAUSE holds all commands, not only those that may write.
const ALL: u64 = 1;

/// The server is about to end: all clients are held for that, regardless of CLIENT PAUSE and UNPAUSE.
const ENDING: u64 = 2;

/// The bits that CLIENT PAUSE and UNPAUSE do not touch.
const KEPT: u64 = ENDING | Hold::Shutdown as u64 | Hold::Failover as u64;

/// The number of bits below the time.
const BITS: u32 = 4;

/// A reason why clients that write are held, as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Hold {
    /// The server is to end as soon as its replicas have all data.
    Shutdown = 4,
    /// The server hands its role over to a replica.
    Failover = 8,
}

/// The clients that a pause holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseScope {
    /// Every command.
    All,
    /// Commands that may change the data.
    Writes,
}

impl Pause {
    /// Begins a pause, or prolongs the present one: its end never moves closer, and ALL never becomes WRITE.
    pub fn begin(&self, scope: PauseScope, until_ms: u64) {
        let all = if scope == PauseScope::All { ALL } else { 0 };
        let until_ms = until_ms.min(u64::MAX >> BITS);
        let longer = |word: u64| Some((word >> BITS).max(until_ms) << BITS | (word & (ALL | KEPT)) | all);
        _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
    }

    /// Ends CLIENT PAUSE.
    pub fn end(&self) {
        self.word.fetch_and(KEPT, Ordering::Relaxed);
    }

    /// Begins or ends the hold of all clients before the end of the server.
    pub fn set_ending(&self, is_ending: bool) {
        // If the server does not end, it no longer waits for replicas either.
        self.set(if is_ending { ENDING } else { ENDING | Hold::Shutdown as u64 }, is_ending);
    }

    /// Begins or ends the hold of clients that write, for this reason.
    pub fn hold_writes(&self, hold: Hold, is_held: bool) {
        self.set(hold as u64, is_held);
    }

    fn set(&self, bits: u64, is_set: bool) {
        if is_set {
            self.word.fetch_or(bits, Ordering::Relaxed);
        } else {
            self.word.fetch_and(!bits, Ordering::Relaxed);
        }
    }

    /// Returns whether the server is about to end, and writes its last snapshot.
    pub fn is_ending(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ENDING != 0
    }

    /// Returns whether the server is about to end, or to hand its role over.
    pub fn is_leaving(&self) -> bool {
        self.word.load(Ordering::Relaxed) & KEPT != 0
    }

    /// Counts that the server was about to end, and does not.
    pub fn give_up_end(&self) {
        self.ends_given_up.fetch_add(1, Ordering::Relaxed);
        self.set_ending(false);
    }

    /// Returns how often the server was about to end, and did not.
    pub fn ends_given_up(&self) -> u64 {
        self.ends_given_up.load(Ordering::Relaxed)
    }

    /// Returns whether a pause was begun and not ended; the time of its end may have passed.
    #[inline]
    pub fn is_begun(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Returns the time at which the pause ends: 0 if there is none, and the largest number while the server is about to end
    /// or to hand its role over.
    pub fn until_ms(&self) -> u64 {
        let word = self.word.load(Ordering::Relaxed);
        if word & KEPT == 0 { word >> BITS } else { u64::MAX >> BITS }
    }

    /// Returns the clients that CLIENT PAUSE holds now, without regard to other holds.
    pub fn asked_for(&self, now_ms: u64) -> Option<PauseScope> {
        let word = self.word.load(Ordering::Relaxed);
        let scope = if word & ALL == 0 { PauseScope::Writes } else { PauseScope::All };
        (word >> BITS > now_ms).then_some(scope)
    }

    /// Returns the clients that are held now. If the time of a pause has passed, ends it; but does not end a pause that
    /// another thread begins at the same time.
    pub fn held(&self, now_ms: u64) -> Option<PauseScope> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & !KEPT != 0 && word >> BITS <= now_ms {
            match self.word.compare_exchange(word, word & KEPT, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => word &= KEPT,
                Err(newer) => word = newer,
            }
        }
        match word {
            0 => None,
            word if word & (ALL | ENDING) != 0 => Some(PauseScope::All),
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
        assert_eq!(pause.held(u64::MAX >> (BITS + 1)), Some(PauseScope::All), "no length turns into a short one");
        pause.end();
        assert_eq!(pause.held(0), None);
    }

    #[test]
    fn an_aborted_shutdown_restores_the_pause_and_no_command_ends_it() {
        let pause = Pause::default();
        pause.begin(PauseScope::Writes, 100);
        pause.set_ending(true);
        assert_eq!((pause.held(99), pause.until_ms()), (Some(PauseScope::All), u64::MAX >> BITS));
        pause.set_ending(false);
        assert_eq!((pause.held(99), pause.until_ms()), (Some(PauseScope::Writes), 100));
        pause.set_ending(true);
        assert_eq!(pause.held(100), Some(PauseScope::All), "its own time is over, the end's is not");
        pause.end();
        assert_eq!((pause.held(0), pause.is_begun()), (Some(PauseScope::All), true));
        pause.set_ending(false);
        assert_eq!((pause.held(0), pause.is_begun()), (None, false));
    }

    #[test]
    fn a_wait_for_replicas_holds_writes_to_its_end_whatever_a_pause_does() {
        let pause = Pause::default();
        pause.hold_writes(Hold::Failover, true);
        assert_eq!((pause.held(99), pause.until_ms()), (Some(PauseScope::Writes), u64::MAX >> BITS));
        assert_eq!(pause.asked_for(99), None);
        pause.begin(PauseScope::All, 100);
        assert_eq!((pause.asked_for(99), pause.asked_for(100)), (Some(PauseScope::All), None));
        pause.hold_writes(Hold::Shutdown, true);
        assert_eq!((pause.held(99), pause.held(100)), (Some(PauseScope::All), Some(PauseScope::Writes)));
        pause.end();
        pause.hold_writes(Hold::Failover, false);
        assert!(pause.held(100) == Some(PauseScope::Writes) && pause.is_leaving());
        pause.hold_writes(Hold::Shutdown, false);
        assert!(!pause.is_begun() && !pause.is_leaving());
    }

    #[test]
    fn a_pause_that_begins_while_another_is_found_over_is_not_lost() {
        let pause = Pause::default();
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                while pause.until_ms() != u64::MAX >> BITS {
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
