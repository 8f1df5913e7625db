//! What keeps an engine from doing all that is asked of it: it loads its data, its disk fails or is behind, or it is a replica.
//!
//! The gates ask with one load; the answer is nearly always "nothing". Any thread may ask or change it.

use std::sync::atomic::{AtomicU16, Ordering};

use parking_lot::Mutex;

use crate::request::error::Error;

/// One thing that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Hindrance {
    /// The data is being loaded: commands that need it are refused.
    Loading = 1,
    /// The log cannot be written: commands that write are refused.
    LogFails = 2,
    /// The last snapshot could not be written, and `stop-writes-on-bgsave-error` has commands that write refused.
    SnapshotFails = 4,
    /// What has been done waits for the disk, and is as much as may wait: clients that write are held.
    DiskBehind = 8,
    /// A snapshot is being written: whoever is about to write looks how much waits for it.
    SnapshotRuns = 16,
    /// Fewer replicas can be relied on than `min-replicas-to-write` asks for: commands that write are refused.
    FewReplicas = 32,
    /// This is a replica, and `replica-read-only` has commands of clients that write refused.
    ReadOnly = 64,
    /// This is a replica without a link, and `replica-serve-stale-data` has commands refused that look at data.
    Stale = 128,
    /// Other data is being loaded beside what there is, which can be read meanwhile: commands that would disturb it are refused.
    LoadingBeside = 256,
    /// This is a replica: clients that can are sent to its primary.
    Follows = 512,
}

/// What is in the way.
#[derive(Debug, Default)]
pub struct Readiness {
    bits: AtomicU16,
    /// Why the log cannot be written, in the system's words.
    log_failure: Mutex<String>,
}

impl Readiness {
    /// Whether nothing is in the way.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.bits.load(Ordering::Relaxed) == 0
    }

    /// Whether nothing is in the way of which commands are refused.
    #[inline]
    pub fn refuses_nothing(&self) -> bool {
        const OF_DISK: u16 = Hindrance::LogFails as u16 | Hindrance::SnapshotFails as u16;
        const OF_PRIMARY: u16 = Hindrance::Follows as u16 | Hindrance::ReadOnly as u16 | Hindrance::Stale as u16;
        const OF_ROLE: u16 = Hindrance::FewReplicas as u16 | OF_PRIMARY;
        const OF_LOADING: u16 = Hindrance::Loading as u16 | Hindrance::LoadingBeside as u16;
        const REFUSING: u16 = OF_LOADING | OF_DISK | OF_ROLE;
        self.bits.load(Ordering::Relaxed) & REFUSING == 0
    }

    /// Whether this is in the way and nothing else is.
    #[inline]
    pub fn has_only(&self, hindrance: Hindrance) -> bool {
        self.bits.load(Ordering::Relaxed) == hindrance as u16
    }

    /// Whether this is in the way.
    pub fn has(&self, hindrance: Hindrance) -> bool {
        self.bits.load(Ordering::Relaxed) & hindrance as u16 != 0
    }

    /// Says whether this is in the way; whether that is news.
    pub fn set(&self, hindrance: Hindrance, is_so: bool) -> bool {
        let bit = hindrance as u16;
        let before = if is_so {
            self.bits.fetch_or(bit, Ordering::Relaxed)
        } else {
            self.bits.fetch_and(!bit, Ordering::Relaxed)
        };
        (before & bit != 0) != is_so
    }

    /// Says why the log cannot be written.
    pub fn note_log_failure(&self, why: &str) {
        why.clone_into(&mut self.log_failure.lock());
    }

    /// Why the log cannot be written.
    fn log_failure(&self) -> String {
        self.log_failure.lock().clone()
    }

    /// Why a write is refused while the disk fails.
    ///
    /// # Errors
    /// MISCONF with what fails, the snapshot or the log.
    pub fn check_disk(&self) -> Result<(), Error> {
        if self.has(Hindrance::SnapshotFails) {
            return Err(Error::SNAPSHOT_FAILED);
        }
        if self.has(Hindrance::LogFails) {
            return Err(Error::new(format!("MISCONF Errors writing to the AOF file: {}", self.log_failure())));
        }
        Ok(())
    }

    /// Why a write is refused while there are too few replicas.
    ///
    /// # Errors
    /// NOREPLICAS.
    pub fn check_replicas(&self) -> Result<(), Error> {
        if self.has(Hindrance::FewReplicas) { Err(Error::NO_REPLICAS) } else { Ok(()) }
    }

    /// Why a write is refused on a replica.
    ///
    /// # Errors
    /// READONLY.
    pub fn check_role(&self) -> Result<(), Error> {
        if self.has(Hindrance::ReadOnly) { Err(Error::READ_ONLY) } else { Ok(()) }
    }

    /// Why a write in a script is refused: this is a replica, the disk fails, or there are too few replicas.
    ///
    /// # Errors
    /// READONLY, MISCONF or NOREPLICAS.
    pub fn check_write(&self) -> Result<(), Error> {
        self.check_role()?;
        self.check_disk()?;
        self.check_replicas()
    }

    /// Why a script is refused that says of itself that it writes: as [`Readiness::check_write`] but for the number of
    /// replicas, in words of its own.
    ///
    /// # Errors
    /// READONLY, or MISCONF with what fails, the snapshot or the log.
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
}
