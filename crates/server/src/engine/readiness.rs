//! The conditions that keep an engine from serving all requests: it loads its data, its disk fails or is behind, it is a
//! replica, or a pause holds its clients.
//!
//! A [`Hindrance`] lasts as long as its cause. A [`Pause`] is that of CLIENT PAUSE, or another hold: the end of the server
//! holds all clients, and a server that waits for its replicas before its end holds those that write. Times of a pause are in
//! milliseconds of the monotonic clock, so that setting the machine's clock neither prolongs nor ends it.
//!
//! The gates ask with one load for each of the two; the answer is nearly always "none". Any thread may ask or change it.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::request::error::Error;

/// A condition that keeps the engine from serving some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Hindrance {
    /// The data is being loaded: commands that need it are refused.
    Loading = 1,
    /// The AOF cannot be written: commands that write are refused.
    LogFails = 2,
    /// The last snapshot could not be written, and `stop-writes-on-bgsave-error` has commands that write refused.
    SnapshotFails = 4,
    /// The changes that wait for the disk have reached their limit: clients that write are held.
    DiskBehind = 8,
    /// A snapshot is being written: a client that is about to write checks how many bytes wait for it.
    SnapshotRuns = 16,
    /// Fewer replicas can be relied on than `min-replicas-to-write` asks for: commands that write are refused.
    FewReplicas = 32,
    /// This is a replica, and because of `replica-read-only` commands of clients that write are refused.
    ReadOnly = 64,
    /// This is a replica without a link, and because of `replica-serve-stale-data` commands that read data are refused.
    Stale = 128,
    /// Other data is being loaded beside the present data, which can still be read: commands that would disturb the loading
    /// are refused.
    LoadingBeside = 256,
    /// This is a replica: clients that support it are redirected to its primary.
    Follows = 512,
    /// This is a node of a cluster: commands with keys of slots that it does not serve are refused.
    Clustered = 1_024,
}

/// The set of present hindrances.
#[derive(Debug, Default)]
pub struct Readiness {
    bits: AtomicU16,
    /// The system's error for the AOF that cannot be written.
    log_failure: Mutex<String>,
}

impl Readiness {
    /// Returns whether no hindrance is set.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bits.load(Ordering::Relaxed) == 0
    }

    /// Returns whether no hindrance is set for which commands are refused.
    #[inline]
    pub fn refuses_nothing(&self) -> bool {
        const REFUSING: u16 = Readiness::REFUSING | Hindrance::Clustered as u16;
        self.bits.load(Ordering::Relaxed) & REFUSING == 0
    }

    /// Returns whether the only commands that are refused are those for slots of other nodes.
    #[inline]
    pub fn refuses_only_slots(&self) -> bool {
        self.bits.load(Ordering::Relaxed) & Self::REFUSING == 0
    }

    /// The hindrances for which commands are refused, besides that of a node of a cluster.
    const REFUSING: u16 = {
        const OF_DISK: u16 = Hindrance::LogFails as u16 | Hindrance::SnapshotFails as u16;
        const OF_PRIMARY: u16 = Hindrance::Follows as u16 | Hindrance::ReadOnly as u16 | Hindrance::Stale as u16;
        const OF_ROLE: u16 = Hindrance::FewReplicas as u16 | OF_PRIMARY;
        const OF_LOADING: u16 = Hindrance::Loading as u16 | Hindrance::LoadingBeside as u16;
        OF_LOADING | OF_DISK | OF_ROLE
    };

    /// Returns whether this is the only hindrance, besides that of a node of a cluster.
    #[inline]
    pub fn has_only(&self, hindrance: Hindrance) -> bool {
        self.bits.load(Ordering::Relaxed) & !(Hindrance::Clustered as u16) == hindrance as u16
    }

    /// Returns whether no hindrance is set besides that of a node of a cluster.
    #[inline]
    pub fn hinders_only_slots(&self) -> bool {
        self.bits.load(Ordering::Relaxed) & !(Hindrance::Clustered as u16) == 0
    }

    /// Returns whether this hindrance is set.
    pub fn has(&self, hindrance: Hindrance) -> bool {
        self.bits.load(Ordering::Relaxed) & hindrance as u16 != 0
    }

    /// Sets or clears a hindrance. Returns whether that changed it.
    pub fn set(&self, hindrance: Hindrance, is_so: bool) -> bool {
        let bit = hindrance as u16;
        let before = if is_so {
            self.bits.fetch_or(bit, Ordering::Relaxed)
        } else {
            self.bits.fetch_and(!bit, Ordering::Relaxed)
        };
        (before & bit != 0) != is_so
    }

    /// Notes the reason why the AOF cannot be written.
    pub fn note_log_failure(&self, why: &str) {
        why.clone_into(&mut self.log_failure.lock());
    }

    /// Returns the reason why the AOF cannot be written.
    fn log_failure(&self) -> String {
        self.log_failure.lock().clone()
    }

    /// Refuses a write while the disk fails.
    ///
    /// # Errors
    /// MISCONF with the name of the part that fails, the snapshot or the AOF.
    pub fn check_disk(&self) -> Result<(), Error> {
        if self.has(Hindrance::SnapshotFails) {
            return Err(Error::SNAPSHOT_FAILED);
        }
        if self.has(Hindrance::LogFails) {
            return Err(Error::new(format!("MISCONF Errors writing to the AOF file: {}", self.log_failure())));
        }
        Ok(())
    }

    /// Refuses a write while there are too few replicas.
    ///
    /// # Errors
    /// NOREPLICAS.
    pub fn check_replicas(&self) -> Result<(), Error> {
        if self.has(Hindrance::FewReplicas) { Err(Error::NO_REPLICAS) } else { Ok(()) }
    }

    /// Refuses a write on a replica.
    ///
    /// # Errors
    /// READONLY.
    pub fn check_role(&self) -> Result<(), Error> {
        if self.has(Hindrance::ReadOnly) { Err(Error::READ_ONLY) } else { Ok(()) }
    }

    /// Refuses a write of a script on a replica, while the disk fails, or while there are too few replicas.
    ///
    /// # Errors
    /// READONLY, MISCONF or NOREPLICAS.
    pub fn check_write(&self) -> Result<(), Error> {
        self.check_role()?;
        self.check_disk()?;
        self.check_replicas()
    }

    /// Refuses a script that declares that it writes: as [`Readiness::check_write`] except for the number of replicas, with
    /// error texts of its own.
    ///
    /// # Errors
    /// READONLY, or MISCONF with the name of the part that fails, the snapshot or the AOF.
    pub fn check_script_that_writes(&self) -> Result<(), Error> {
        if self.has(Hindrance::ReadOnly) {
            return Err(Error::fixed("READONLY Can not run script with write flag on readonly replica"));
        }
        const ADVICE: &str = "Writable scripts are blocked. Use 'no-writes' flag for read only scripts.";
        if self.has(Hindrance::SnapshotFails) {
            return Err(Error::new(format!(
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. {ADVICE}"
            )));
        }
        if self.has(Hindrance::LogFails) {
            return Err(Error::new(format!(
                "MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. {ADVICE} \
                 AOF error: {}",
                self.log_failure()
            )));
        }
        Ok(())
    }
}

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
    fn each_hindrance_comes_and_goes_by_itself() {
        let readiness = Readiness::default();
        assert!(readiness.is_full());
        assert!(readiness.set(Hindrance::Loading, true) && !readiness.set(Hindrance::Loading, true));
        assert!(readiness.set(Hindrance::LogFails, true));
        assert!(readiness.set(Hindrance::Loading, false) && !readiness.set(Hindrance::Loading, false));
        assert!(readiness.has(Hindrance::LogFails) && !readiness.has(Hindrance::Loading) && !readiness.is_full());
    }

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
