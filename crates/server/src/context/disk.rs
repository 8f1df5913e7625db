//! Whether the disk lets data be changed, and what a client is told where it does not.
//!
//! Whoever writes a file and fails says so in the engine's `readiness`; here that is put into Redis's words, which are others
//! for a script than for a command. Any thread, whatever it has locked.

use crate::engine::Engine;
use crate::engine::readiness::Hindrance;
use crate::request::error::Error;

/// Why a write is refused while the disk fails.
///
/// # Errors
/// MISCONF with what fails, the snapshot or the log.
pub fn check(engine: &Engine) -> Result<(), Error> {
    let readiness = &engine.readiness;
    if readiness.has(Hindrance::SnapshotFails) {
        return Err(Error::SNAPSHOT_FAILED);
    }
    if readiness.has(Hindrance::LogFails) {
        return Err(Error::new(format!("MISCONF Errors writing to the AOF file: {}", readiness.log_failure())));
    }
    Ok(())
}

/// Why a script that may write is refused while the disk fails.
///
/// # Errors
/// MISCONF with what fails, the snapshot or the log.
pub fn check_script(engine: &Engine) -> Result<(), Error> {
    const ADVICE: &str = "Writable scripts are blocked. Use 'no-writes' flag for read only scripts.";
    let readiness = &engine.readiness;
    if readiness.has(Hindrance::SnapshotFails) {
        return Err(Error::new(format!(
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. {ADVICE}"
        )));
    }
    if readiness.has(Hindrance::LogFails) {
        return Err(Error::new(format!(
            "MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. {ADVICE} \
             AOF error: {}",
            readiness.log_failure()
        )));
    }
    Ok(())
}
