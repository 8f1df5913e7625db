//! The running script: its start, and whether it has to end.
//!
//! One script runs at a time in an engine, because each holds all shards. The thread that runs it publishes when it began and
//! whether it has written. A thread that wants it to end notes that here, and the script's own thread checks it every so many
//! instructions. Any thread may ask.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use sleeve_wire::request::OwnedArgs;

use crate::request::error::Error;

/// The command that began a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptKind {
    /// EVAL and its like.
    Script,
    /// FCALL and FCALL_RO.
    Function,
}

/// The facts about the running script for other threads.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The kind of command that runs it.
    pub kind: ScriptKind,
    /// The function's name or the script's digest.
    pub name: Vec<u8>,
    /// The request that began it.
    pub request: OwnedArgs,
}

/// The state of the running script: its start, whether it has written, and whether it has to end.
#[derive(Debug, Default)]
pub struct Running {
    /// The time at which it began, in monotonic milliseconds, plus one; 0 if none runs.
    since_ms: AtomicU64,
    is_function: AtomicBool,
    has_written: AtomicBool,
    is_killed: AtomicBool,
    /// The server is about to end, and waits for a script that has written.
    spares_writers: AtomicBool,
    has_left_half: AtomicBool,
    is_published: AtomicBool,
    /// The facts, published once the script has run for so long that others wait for it.
    facts: Mutex<Option<Facts>>,
}

impl Running {
    /// Notes that a script begins.
    pub fn begin(&self, kind: ScriptKind, now_ms: u64) {
        self.is_function.store(kind == ScriptKind::Function, Ordering::Relaxed);
        self.has_written.store(false, Ordering::Relaxed);
        self.is_killed.store(false, Ordering::Relaxed);
        self.since_ms.store(now_ms + 1, Ordering::Release);
    }

    /// Notes that the script has ended.
    pub fn end(&self) {
        self.since_ms.store(0, Ordering::Release);
        if self.is_published.load(Ordering::Relaxed) {
            self.is_published.store(false, Ordering::Relaxed);
            *self.facts.lock() = None;
        }
    }

    /// Returns for how long a script has been running, in milliseconds; None if none runs.
    #[inline]
    pub fn elapsed_ms(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        match self.since_ms.load(Ordering::Acquire) {
            0 => None,
            since => Some(now_ms().saturating_sub(since - 1)),
        }
    }

    /// Notes that the script has changed data: from now on it cannot be ended without leaving half of its changes.
    #[inline]
    pub fn wrote(&self) {
        if !self.has_written.load(Ordering::Relaxed) {
            self.has_written.store(true, Ordering::Relaxed);
        }
    }

    /// Sets whether the server is about to end. While it is, long scripts that have written nothing are ended, and those that
    /// have written are waited for.
    pub fn set_spares_writers(&self, spares: bool) {
        self.spares_writers.store(spares, Ordering::Relaxed);
    }

    /// If the server is about to end and waits for scripts that have written, returns whether the running script has to end;
    /// None at any other time.
    pub fn ends_gently(&self) -> Option<bool> {
        self.spares_writers.load(Ordering::Relaxed).then(|| !self.has_written.load(Ordering::Relaxed))
    }

    /// Notes that the running script is ended with the server. Returns whether it has written.
    pub fn break_off(&self) -> bool {
        let has_written = self.has_written.load(Ordering::Relaxed);
        self.has_left_half.fetch_or(has_written, Ordering::Relaxed);
        has_written
    }

    /// Returns whether a script that had written was ended with the server. None of its effects go to the journal, which has
    /// only complete pieces.
    pub fn has_left_half(&self) -> bool {
        self.has_left_half.load(Ordering::Relaxed)
    }

    /// Returns whether a script runs.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.since_ms.load(Ordering::Relaxed) != 0
    }

    /// Returns whether a client has asked for the script's end.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    /// Publishes the running script, from its own thread. Only the first call counts, and returns true.
    pub fn publish(&self, facts: impl FnOnce() -> Facts) -> bool {
        let is_first = !self.is_published.load(Ordering::Relaxed);
        if is_first {
            *self.facts.lock() = Some(facts());
            self.is_published.store(true, Ordering::Relaxed);
        }
        is_first
    }

    /// Returns the facts about the running script, if they were published.
    pub fn facts(&self) -> Option<Facts> {
        self.facts.lock().clone()
    }

    /// Returns the error for clients that would have to wait for the script.
    pub fn busy(&self) -> Error {
        if self.is_function.load(Ordering::Relaxed) { BUSY_FUNCTION } else { BUSY_SCRIPT }
    }

    /// Handles SCRIPT KILL and FUNCTION KILL.
    ///
    /// # Errors
    /// No script runs, a script of the other kind runs, or it has written already.
    pub fn kill(&self, kind: ScriptKind) -> Result<(), Error> {
        if self.since_ms.load(Ordering::Acquire) == 0 {
            return Err(Error::fixed("NOTBUSY No scripts in execution right now."));
        }
        if self.has_written.load(Ordering::Relaxed) {
            return Err(Error::fixed(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait \
                 the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            ));
        }
        if self.is_function.load(Ordering::Relaxed) != (kind == ScriptKind::Function) {
            return Err(self.busy());
        }
        self.is_killed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

const BUSY_SCRIPT: Error =
    Error::fixed("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
const BUSY_FUNCTION: Error =
    Error::fixed("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_script_that_runs_and_has_not_written_can_be_killed() {
        let running = Running::default();
        assert!(running.kill(ScriptKind::Script).is_err_and(|error| error.code() == "NOTBUSY"));
        running.begin(ScriptKind::Function, 5);
        assert_eq!(running.elapsed_ms(|| 9), Some(4));
        assert!(running.kill(ScriptKind::Script).is_err_and(|error| error.code() == "BUSY"));
        assert_eq!((running.kill(ScriptKind::Function), running.is_killed()), (Ok(()), true));
        running.begin(ScriptKind::Script, 6);
        running.wrote();
        assert!(running.kill(ScriptKind::Script).is_err_and(|error| error.code() == "UNKILLABLE"));
        running.end();
        assert_eq!((running.elapsed_ms(|| 9), running.is_killed()), (None, false));
    }
}
