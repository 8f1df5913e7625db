//! The conditions that keep an engine from serving all requests: it loads its data, its disk fails or is behind, or it is a
//! replica.
//!
//! The gates ask with one load; the answer is nearly always "none". Any thread may ask or change it.

use std::sync::atomic::{AtomicU16, Ordering};

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
