//! The running scripts: their starts, and whether they have to end.
//!
//! A script holds all shards, or, in a cluster, the shard of its slot; so at most one script runs in each shard, and usually
//! one in the whole engine. The thread that runs it publishes when it began and whether it has written. A thread that wants
//! it to end notes that here, and the script's own thread checks it every so many instructions. Any thread may ask.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

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

/// The scripts that run in an engine.
#[derive(Debug)]
pub struct Running {
    /// The number of scripts that run.
    count: AtomicUsize,
    /// A place for each shard: a script has that of the first shard that it held when it began.
    runs: Box<[Run]>,
    /// The server is about to end, and waits for scripts that have written.
    spares_writers: AtomicBool,
    has_left_half: AtomicBool,
}

/// A running script: its start, whether it has written, and whether it has to end.
#[derive(Debug, Default)]
pub struct Run {
    /// The time at which it began, in monotonic milliseconds, plus one; 0 if none runs here.
    since_ms: AtomicU64,
    is_function: AtomicBool,
    has_written: AtomicBool,
    is_killed: AtomicBool,
    is_published: AtomicBool,
    /// The facts, published once the script has run for so long that others wait for it.
    facts: Mutex<Option<Facts>>,
}

impl Running {
    /// Makes the places for the scripts of an engine with so many shards.
    pub fn new(shards: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            runs: (0..shards.max(1)).map(|_| Run::default()).collect(),
            spares_writers: AtomicBool::new(false),
            has_left_half: AtomicBool::new(false),
        }
    }

    /// Notes that a script begins. `shard` is the first one that it holds.
    pub fn begin(&self, shard: usize, kind: ScriptKind, now_ms: u64) -> &Run {
        let run = &self.runs[shard];
        run.is_function.store(kind == ScriptKind::Function, Ordering::Relaxed);
        run.has_written.store(false, Ordering::Relaxed);
        run.is_killed.store(false, Ordering::Relaxed);
        run.since_ms.store(now_ms + 1, Ordering::Release);
        self.count.fetch_add(1, Ordering::Release);
        run
    }

    /// Notes that a script has ended.
    pub fn end(&self, run: &Run) {
        self.count.fetch_sub(1, Ordering::Release);
        run.since_ms.store(0, Ordering::Release);
        if run.is_published.load(Ordering::Relaxed) {
            run.is_published.store(false, Ordering::Relaxed);
            *run.facts.lock() = None;
        }
    }

    /// Returns the running scripts with their starts.
    fn all(&self) -> impl Iterator<Item = (u64, &Run)> {
        let runs = if self.is_any() { &*self.runs } else { &[] };
        runs.iter().map(|run| (run.since_ms.load(Ordering::Acquire), run)).filter(|(since_ms, _)| *since_ms != 0)
    }

    /// Returns the script that has been running for longest.
    pub fn longest(&self) -> Option<&Run> {
        self.all().min_by_key(|(since_ms, _)| *since_ms).map(|(_, run)| run)
    }

    /// Returns for how long a script has been running, in milliseconds; None if none runs.
    #[inline]
    pub fn elapsed_ms(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        self.longest()?.elapsed_ms(now_ms)
    }

    /// Sets whether the server is about to end. While it is, long scripts that have written nothing are ended, and those that
    /// have written are waited for.
    pub fn set_spares_writers(&self, spares: bool) {
        self.spares_writers.store(spares, Ordering::Relaxed);
    }

    /// If the server is about to end and waits for scripts that have written, returns whether this script has to end; None at
    /// any other time.
    pub fn ends_gently(&self, run: &Run) -> Option<bool> {
        self.spares_writers.load(Ordering::Relaxed).then(|| !run.has_written.load(Ordering::Relaxed))
    }

    /// Notes that a script is ended with the server. Returns whether it has written.
    pub fn break_off(&self, run: &Run) -> bool {
        let has_written = run.has_written.load(Ordering::Relaxed);
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
        self.count.load(Ordering::Acquire) != 0
    }

    /// Returns the error for clients that would have to wait for the script that has been running for longest.
    pub fn busy(&self) -> Error {
        self.longest().map_or(BUSY_SCRIPT, Run::busy)
    }

    /// Handles SCRIPT KILL and FUNCTION KILL: ends, of the scripts of this kind that have written nothing, the one that has
    /// been running for longest and is not being ended yet.
    ///
    /// # Errors
    /// No script runs, or each is of the other kind or has written already. The error is that for the longest one.
    pub fn kill(&self, kind: ScriptKind) -> Result<(), Error> {
        let Some(longest) = self.longest() else {
            return Err(Error::fixed("NOTBUSY No scripts in execution right now."));
        };
        let may_end = |(_, run): &(u64, &Run)| run.is(kind) && !run.has_written.load(Ordering::Relaxed);
        if let Some((_, run)) = self.all().filter(may_end).min_by_key(|(since_ms, run)| (run.is_killed(), *since_ms)) {
            run.is_killed.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if longest.has_written.load(Ordering::Relaxed) {
            return Err(Error::fixed(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait \
                 the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            ));
        }
        Err(longest.busy())
    }
}

impl Run {
    /// Returns for how long the script has been running, in milliseconds; None if it has ended.
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

    /// Returns whether a client has asked for the script's end.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    fn is(&self, kind: ScriptKind) -> bool {
        self.is_function.load(Ordering::Relaxed) == (kind == ScriptKind::Function)
    }

    fn busy(&self) -> Error {
        if self.is(ScriptKind::Function) { BUSY_FUNCTION } else { BUSY_SCRIPT }
    }

    /// Publishes the facts about the script, from its own thread. Only the first call counts, and returns true.
    pub fn publish(&self, facts: impl FnOnce() -> Facts) -> bool {
        let is_first = !self.is_published.load(Ordering::Relaxed);
        if is_first {
            *self.facts.lock() = Some(facts());
            self.is_published.store(true, Ordering::Relaxed);
        }
        is_first
    }

    /// Returns the facts about the script, if they were published.
    pub fn facts(&self) -> Option<Facts> {
        self.facts.lock().clone()
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
        let running = Running::new(1);
        assert!(running.kill(ScriptKind::Script).is_err_and(|error| error.code() == "NOTBUSY"));
        let run = running.begin(0, ScriptKind::Function, 5);
        assert_eq!(running.elapsed_ms(|| 9), Some(4));
        assert!(running.kill(ScriptKind::Script).is_err_and(|error| error.code() == "BUSY"));
        assert_eq!((running.kill(ScriptKind::Function), run.is_killed()), (Ok(()), true));
        running.end(run);
        let run = running.begin(0, ScriptKind::Script, 6);
        run.wrote();
        assert!(running.kill(ScriptKind::Script).is_err_and(|error| error.code() == "UNKILLABLE"));
        running.end(run);
        assert_eq!((running.elapsed_ms(|| 9), run.is_killed()), (None, false));
    }

    #[test]
    fn of_several_scripts_the_longest_that_may_end_is_killed() {
        let running = Running::new(4);
        let writer = running.begin(2, ScriptKind::Script, 1);
        writer.wrote();
        let [second, third] = [(3, 5), (0, 7)].map(|(shard, now_ms)| running.begin(shard, ScriptKind::Script, now_ms));
        assert_eq!(running.elapsed_ms(|| 9), Some(8));
        let killed = || [writer, second, third].map(Run::is_killed);
        assert_eq!((running.kill(ScriptKind::Script), killed()), (Ok(()), [false, true, false]));
        assert_eq!((running.kill(ScriptKind::Script), killed()), (Ok(()), [false, true, true]));
        running.end(second);
        running.end(third);
        assert!(running.kill(ScriptKind::Script).is_err_and(|error| error.code() == "UNKILLABLE"));
        running.end(writer);
        assert!(!running.is_any());
    }
}
