//! The view and the powers of a running command.
//!
//! A [`Cx`] lives as long as one batch. Commands reach the keyspace through it alone: it removes expired keys when they are
//! looked up, notifies watchers of changes and records effects, so no command can forget any of it.

mod changes;
pub mod command_log;
mod command_timer;
pub mod eviction;
pub mod key_change;
pub mod locking;
pub mod lookahead;
mod lookup;
pub mod notifications;
pub mod permission;
pub mod publish;
pub mod session_state;
pub mod slot_gate;
pub mod tracking_delivery;
pub mod worker_handoff;

use std::sync::Arc;

pub use changes::ELEMENTS_MAX;
pub use lookup::FIELDS_A_LOOK;

use sleeve_store::Moment;
use sleeve_wire::commands::Row;
use sleeve_wire::reply::Writer;

use crate::engine::Engine;
use crate::engine::clients::blocking::{Block, NewWaiter};
use crate::engine::journal::{BatchBuffer, Recorder};
use crate::engine::keyspace::key_clock;
use crate::engine::keyspace::locks::Locks;
use crate::engine::observe::stats::Counters;
use crate::host::clock::{Clock, Instant};
use crate::host::dice::Dice;
use crate::request::Request;
use crate::request::error::Error;
use crate::request::output::{Mark, Output};
use command_timer::CommandTimer;
use key_change::Pending;
use session_state::{Replies, SessionState};
use worker_handoff::WorkerHandoff;

/// The parts that the executor of a command has at hand: the engine, and the running thread's own.
#[derive(Clone, Copy)]
pub struct ThreadContext<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The thread's counters.
    pub counters: &'a Counters,
    /// The thread's source of random numbers.
    pub dice: &'a Dice,
    /// The time.
    pub now: Instant,
    /// The clock that tells how much time has passed since `now`.
    pub clock: Clock,
    /// The buffer in which effects are put into words.
    pub batch_buffer: &'a BatchBuffer,
}

/// The view that one batch of commands has of the engine, its client and its reply.
pub struct Cx<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The executing thread's counters.
    pub counters: &'a Counters,
    /// The client's own state.
    pub state: &'a mut SessionState,
    /// The output that replies go to.
    pub out: &'a mut Output,
    /// The time, the same for all commands of a batch.
    pub now: Instant,
    /// The time, in milliseconds since the epoch, up to which deadlines count as passed: a key or field with such a deadline
    /// is treated as missing. It is the present time, except while an AOF is applied: then nothing counts as expired until
    /// the AOF removes it.
    pub due_ms: i64,
    /// The clock that tells how much time has passed since `now`.
    pub clock: Clock,
    /// The executing thread's source of random numbers.
    pub dice: &'a Dice,
    /// The locks of the running command, and the recorder of its effects.
    pub locks: Locks<'a>,
    /// Runs another command inside the running one (EXEC), with the locks that are held.
    pub call: fn(&mut Cx<'_>, Request<'_>),
    /// The worker with the other clients of this thread; None while a running script has borrowed it, or in an embedded
    /// engine.
    pub(crate) others: Option<&'a mut dyn WorkerHandoff>,
    /// The timer of the commands, with the bounds for slow ones and for large requests and replies.
    pub(crate) timer: CommandTimer,
    /// The work that the commands' changes leave for later.
    pub(crate) pending: &'a mut Pending,
    /// The bytes that the command has written are not a reply but a message: CLIENT REPLY does not suppress it.
    pub(crate) is_message: bool,
    /// The client is in no special state, so its commands skip the checks for such states; see [`SessionState::is_ordinary`].
    /// Only commands that concern more than data change that.
    pub(crate) is_ordinary: bool,
    /// The last command that was over `maxmemory` found no key to evict. Meaningless while memory is below the limit.
    pub(crate) has_no_room: bool,
}

impl<'a> ThreadContext<'a> {
    /// Returns a recorder of effects, which go to the journal.
    #[inline]
    pub fn recorder(&self) -> Recorder<'a> {
        Recorder::new(&self.engine.journal, &self.engine.keyspace.offsets, self.batch_buffer)
    }
}

impl<'a> Cx<'a> {
    /// Makes the view of one batch.
    pub fn new(
        thread_context: ThreadContext<'a>,
        state: &'a mut SessionState,
        out: &'a mut Output,
        pending: &'a mut Pending,
        call: fn(&mut Cx<'_>, Request<'_>),
    ) -> Self {
        let ThreadContext { engine, counters, dice, now, clock, .. } = thread_context;
        let due_ms = due_ms(now, state);
        let is_ordinary = state.is_ordinary();
        debug_assert!(pending.wakeups.own.is_empty() && pending.wakeups.invalid.is_empty(), "meant for another client");
        Self {
            engine,
            counters,
            state,
            out,
            now,
            due_ms,
            clock,
            dice,
            locks: Locks::new(&engine.keyspace.store, &engine.keyspace.turns, thread_context.recorder()),
            call,
            others: None,
            timer: CommandTimer::new(engine),
            pending,
            is_message: false,
            is_ordinary,
            has_no_room: false,
        }
    }

    /// Reads the clock again.
    #[inline]
    pub fn look_at_clock(&mut self) {
        self.now = self.clock.after(self.now);
        self.due_ms = due_ms(self.now, self.state);
    }

    /// Makes a writer for the reply, in the client's protocol.
    #[inline]
    pub fn reply(&mut self) -> Writer<'_> {
        let len_max = self.out.bytes_max();
        Writer::bounded(&mut self.out.bytes, self.state.protocol, len_max)
    }

    /// Calls `write` with the context and a writer for the reply. During the call the reply buffer is taken out of the
    /// context.
    #[inline]
    pub fn reply_apart<R>(&mut self, write: impl FnOnce(&mut Self, &mut Writer<'_>) -> R) -> R {
        let (mut bytes, len_max, protocol) =
            (std::mem::take(&mut self.out.bytes), self.out.bytes_max(), self.state.protocol);
        let result = write(self, &mut Writer::bounded(&mut bytes, protocol, len_max));
        self.out.bytes = bytes;
        result
    }

    /// Handles a reply beyond the output limit of its client's class: drops the bytes that the command has written since
    /// `mark` and has the client closed. A command that writes many elements stops when its writer is full. A transaction or
    /// a script runs to its end all the same, because its effects concern other clients too.
    #[cold]
    pub(crate) fn cut_reply(&mut self, mark: Mark) {
        match self.state.replies {
            // A client that is sent no replies is not closed for one that is too long.
            Replies::Off | Replies::Skip | Replies::Stream => self.out.rewind(mark),
            Replies::On | Replies::SkipNext => self.cut_replies(),
        }
    }

    /// Drops all replies of a client that is owed more than its limit, and has the client closed.
    #[cold]
    pub(crate) fn cut_replies(&mut self) {
        self.out.cut();
        self.state.closing = true;
    }

    /// Answers an error, and counts it.
    #[cold]
    pub fn refuse(&mut self, error: &Error) {
        self.counters.errors_replied.add(1);
        if !self.state.origin.is_unobserved {
            self.engine.observe.stats.count_error(error.code());
        }
        self.reply().error(error.text());
    }

    /// Returns whether the client is on this machine.
    pub fn is_local(&self) -> bool {
        match self.state.client.socket.address.parse::<std::net::SocketAddr>() {
            Ok(address) => address.ip().is_loopback(),
            Err(_) => true,
        }
    }

    /// Returns the index of the selected database in the store.
    #[inline]
    pub fn database(&self) -> usize {
        self.state.database as usize
    }

    /// Returns the time and access clock of a write.
    #[inline]
    pub fn moment(&self) -> Moment {
        Moment { now_ms: self.due_ms, clock: key_clock::fresh(&self.engine.config, self.now) }
    }
}

/// Blocking.
impl Cx<'_> {
    /// Returns whether the running command may block. In a transaction and in a script it may not, and gives the reply that
    /// it would give at the timeout.
    pub fn may_block(&self) -> bool {
        self.state.multi.executing.is_none() && !self.state.origin.denies_blocking
    }

    /// Blocks the client. The running command, which has the row `row`, returns without a reply; its requests for single keys
    /// will be run later to give the reply.
    pub fn block(&mut self, row: &'static Row, block: Block<'_>) {
        debug_assert!(self.may_block(), "the command answers for itself");
        let state = &mut *self.state;
        if let Some(waiter) = &state.origin.serving {
            // The request of a waiter found nothing, so the waiter stays at its place in the order.
            state.blocked = Some(Arc::clone(waiter));
            return;
        }
        // From now on the client is counted as blocked, and CLIENT LIST shows its command.
        state.publish_command();
        let left_ms = |deadline_ms: i64| deadline_ms.saturating_sub(self.now.wall_ms()).max(0) as u64;
        let arrival = NewWaiter {
            client: &state.client,
            row,
            database: state.database,
            protocol: state.protocol,
            user: &state.login.user,
            no_touch: state.no_touch,
            deadline_ms: block
                .deadline_ms
                .map(|deadline_ms| self.now.monotonic_ms().saturating_add(left_ms(deadline_ms))),
        };
        state.blocked = Some(self.engine.clients.blocking.enter(arrival, block));
    }

    /// Runs the blocked command again in at most so many milliseconds, because the passing of time alone may make the present
    /// data usable.
    pub fn look_again_in(&mut self, milliseconds: u64) {
        let at_ms = self.now.monotonic_ms().saturating_add(milliseconds);
        self.state.blocked.iter().for_each(|waiter| waiter.look_at(at_ms));
    }
}

#[inline]
fn due_ms(now: Instant, state: &SessionState) -> i64 {
    if state.origin.is_replaying { i64::MIN } else { now.wall_ms() }
}
