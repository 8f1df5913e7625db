//! A run of a script as the functions that it calls see it, and the way in which it runs a command.
//!
//! A command of a script runs by the same function value as those of EXEC, under the script's locks, with the script's own
//! protocol and database. In a cluster a script begins with the shard of its slot; all others are locked when it calls a
//! command that needs them. The reply is written to an output that only the script reads. The command itself records its
//! changes. Lives on the stack of the thread that runs the script.

use std::any::Any;
use std::sync::atomic::Ordering;

use sleeve_wire::arguments::{Args, Span};
use sleeve_wire::commands::{Flags, Reach, Row};
use sleeve_wire::reply::Protocol;

use crate::context::Cx;
use crate::context::lookahead;
use crate::context::lookahead::Found;
use crate::context::permission;
use crate::context::slot_gate;
use crate::engine::readiness::Hindrance;
use crate::engine::scripts::running::Run;
use crate::request::error::Error;
use crate::request::{KeyAt, Parts, hash_keys};

/// A run of a script, as the functions that it calls see it.
pub struct Invocation<'s, 'c> {
    /// The command that runs the script.
    pub cx: &'s mut Cx<'c>,
    /// The state of the run for other threads.
    pub run: &'s Run,
    /// The permissions of the script.
    pub permits: Permits,
    /// The protocol that `redis.setresp` asked for.
    pub protocol: Protocol,
    /// The script has changed data.
    pub has_written: bool,
    /// The arguments of its next command.
    pub words: Words,
    /// The error of the last call, until Lua has taken it.
    pub failure: Option<Vec<u8>>,
    /// A panic that happened in a command.
    pub panic: Option<Box<dyn Any + Send>>,
}

/// The permissions of a script beyond the checks of its commands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Permits {
    /// The script may not write.
    pub read_only: bool,
    /// Memory has run out, and the script may not run commands that need more.
    pub denies_growth: bool,
    /// The script may use keys of several slots, all of this node.
    pub allows_cross_slot: bool,
}

/// The arguments of a command, gathered before it runs. Their memory is reused by the whole script, and by the thread's next
/// ones.
#[derive(Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    keys: Vec<KeyAt>,
}

impl Words {
    /// Removes all arguments.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.keys.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }

    /// Adds an argument.
    pub fn push(&mut self, word: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(word);
        self.spans.push(Span { start, len: word.len() as u32 });
    }

    /// Returns whether one more argument of this length fits: positions are counted in 32 bits.
    pub fn has_room(&self, len: usize) -> bool {
        u32::try_from(self.bytes.len().saturating_add(len)).is_ok()
    }

    /// Returns the arguments.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }
}

/// The size up to which a buffer is kept; a larger one is given back.
const KEPT_BYTES: usize = 64 * 1024;

impl Invocation<'_, '_> {
    /// Forgets the arguments, the reply and the error of the last call.
    pub fn begin_call(&mut self) {
        self.words.clear();
        self.cx.out.clear();
        self.failure = None;
    }

    /// Finds the command with the gathered arguments, and hashes its keys.
    ///
    /// # Errors
    /// The reason why the script may not run this command at all.
    pub fn find(&mut self) -> Result<&'static Row, Error> {
        let found = lookahead::find(&self.cx.engine.names, self.words.args());
        if let Found::Arity(row) = found {
            self.cx.counters.commands[row.id as usize].rejected.add(1);
        }
        let row = row_of(found)?;
        let allowed = self.check(row);
        if allowed.is_err() {
            self.cx.counters.commands[row.id as usize].rejected.add(1);
            return allowed.map(|()| row);
        }
        let Words { bytes, spans, keys } = &mut self.words;
        hash_keys(&self.cx.engine.keyspace.store, row, Args::new(bytes, spans), keys);
        Ok(row)
    }

    /// Returns whether the found command needs shards that the script does not hold. It happens on nodes of a cluster only.
    #[inline]
    pub fn needs_others(&self, row: &Row) -> bool {
        let locks = &self.cx.locks;
        self.cx.engine.cluster.get().is_some()
            && (row.reach != Reach::Named || !self.words.keys.iter().all(|key| locks.holds(key.hash)))
            && !locks.holds_all()
    }

    /// Runs the found command with its locks held, and returns how many ticks that took. The reply is then in the output; the
    /// caller reads and clears it.
    ///
    /// # Errors
    /// This node does not serve the keys.
    pub fn run(&mut self, row: &'static Row) -> Result<u64, Error> {
        let Self { cx, run, words, protocol, permits, .. } = self;
        let args = Args::new(&words.bytes, &words.spans);
        if cx.engine.cluster.get().is_some() {
            let allowed = slot_gate::check_script(cx, (row, args, &words.keys), permits.allows_cross_slot);
            if allowed.is_err() {
                cx.counters.commands[row.id as usize].rejected.add(1);
                return allowed.map(|()| 0);
            }
        }
        if row.flags.contains(Flags::WRITE) {
            self.has_written = true;
            run.wrote();
        }
        let outer = std::mem::replace(&mut cx.state.protocol, *protocol);
        let denied = std::mem::replace(&mut cx.state.origin.denies_blocking, true);
        let begun = cx.timer.begin_nested();
        (cx.call)(cx, Parts { row, args, key_places: &words.keys }.request());
        let ticks = cx.timer.end_nested(begun, row, (cx.engine, cx.counters));
        cx.state.origin.denies_blocking = denied;
        cx.state.protocol = outer;
        Ok(ticks)
    }

    /// Checks whether a command may run, in Redis's order. The commands of an AOF or of the primary were checked when they
    /// were first run, and a script that has written is not stopped half-way.
    fn check(&mut self, row: &'static Row) -> Result<(), Error> {
        let denies = !self.cx.engine.debug.allows_all_to_scripts.load(Ordering::Relaxed);
        if row.flags.contains(Flags::NOSCRIPT) && denies {
            return Err(Error::fixed("ERR This Redis command is not allowed from script"));
        }
        let is_asked = !self.cx.state.origin.is_replaying;
        if is_asked && self.cx.engine.lifecycle.readiness.has(Hindrance::Stale) && !row.flags.contains(Flags::STALE) {
            return Err(Error::fixed("ERR Can not execute the command on a stale replica"));
        }
        permission::check_script(self.cx, row, self.words.args())?;
        // A command that may be replicated (PFCOUNT stores its estimate, PUBLISH sends its message) counts as a write here.
        let writes = row.flags.intersects(Flags::WRITE.or(Flags::MAY_REPLICATE));
        if writes && self.permits.read_only {
            return Err(Error::fixed("ERR Write commands are not allowed from read-only scripts."));
        }
        if self.has_written {
            return Ok(());
        }
        if is_asked && row.flags.contains(Flags::WRITE) && !self.cx.engine.lifecycle.readiness.refuses_nothing() {
            self.cx.engine.lifecycle.readiness.check_write()?;
        }
        if self.permits.denies_growth && row.flags.contains(Flags::DENYOOM) {
            return Err(Error::OUT_OF_MEMORY);
        }
        Ok(())
    }
}

fn row_of(found: Found) -> Result<&'static Row, Error> {
    match found {
        Found::Command(row) => Ok(row),
        Found::Unknown | Found::UnknownSubcommand(_) => {
            Err(Error::fixed("ERR Unknown Redis command called from script"))
        }
        Found::Arity(_) => Err(Error::fixed("ERR Wrong number of args calling Redis command from script")),
    }
}
