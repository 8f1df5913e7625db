//! The view and the powers of a running command.
//!
//! A [`Cx`] lives as long as one batch. Commands reach the keyspace through it alone: that is where keys expire when they are
//! looked at, where watchers are notified of changes and where effects are recorded, so no command can forget any of it.

mod account;
mod changes;
mod effects;
mod eviction;
pub mod field_expiry;
pub mod key_change;
mod keyspace;
pub mod locking;
pub mod lookahead;
pub mod notifications;
pub mod others;
mod output_limit;
pub mod permission;
pub mod publish;
pub mod session_state;
pub mod tracking_delivery;

pub use effects::ELEMENTS_MAX;
pub use eviction::Room;

use sleeve_store::{Collection, EntryMut, EntryRef, Find, Garbage, Hash, Lookup, Moment, Value};
use sleeve_wire::commands::Row;
use sleeve_wire::reply::Writer;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::journal::{BatchBuffer, Recorder};
use crate::engine::keyspace::key_clock;
use crate::engine::keyspace::locks::Locks;
use crate::engine::observe::stats::Counters;
use crate::host::clock::{Clock, Instant};
use crate::host::dice::Dice;
use crate::request::error::Error;
use crate::request::output::Output;
use crate::request::{Key, Request};
use field_expiry::FIELDS_A_LOOK;
use key_change::{Cause, Pending, Source};
use notifications::EventClass;
use others::Others;
use session_state::State;

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
    /// The clock that tells how much time has passed since then.
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
    pub state: &'a mut State,
    /// The output that replies go to.
    pub out: &'a mut Output,
    /// The time, the same for all that runs at once.
    pub now: Instant,
    /// A key or field with a deadline up to this time is not there, in milliseconds since the epoch. This is now, except for
    /// an AOF that is applied: for it everything is there until the AOF removes it.
    pub due_ms: i64,
    /// The clock that tells how much time has passed since then.
    pub clock: Clock,
    /// The executing thread's source of random numbers.
    pub dice: &'a Dice,
    /// The locks of the running command.
    locks: Locks<'a>,
    /// Runs another command inside the running one (EXEC), with the locks that are held.
    pub call: fn(&mut Cx<'_>, Request<'_>),
    /// The other clients of this thread; None while a running script has borrowed them, or when embedded.
    pub(crate) others: Option<&'a mut dyn Others>,
    /// The row that is being timed, since `ticks`.
    timed: Option<&'static Row>,
    /// The number of its runs since then.
    timed_calls: u64,
    /// The running command is part of another command, which is being timed.
    is_within: bool,
    ticks: u64,
    /// Ticks from which on a command may have been slow; 0 has every command looked at.
    slow_ticks: u64,
    /// Bytes of a request and its reply from which on either may be large.
    large_bytes: usize,
    /// The running command has recorded its effect in its own words.
    is_recorded: bool,
    /// A script has asked that its effects are not recorded.
    is_unrecorded: bool,
    /// The work that its changes leave.
    pub(crate) pending: &'a mut Pending,
    /// The bytes that were written are no reply but a message: CLIENT REPLY does not suppress it.
    pub(crate) is_message: bool,
    /// The client needs nothing more than to run the commands that it sends; see [`State::is_ordinary`]. Only commands that
    /// concern more than data change that.
    pub(crate) is_ordinary: bool,
    /// The last command that was over the limit of memory found none to free. Says nothing while there is enough.
    pub(crate) has_no_room: bool,
}

impl<'a> ThreadContext<'a> {
    /// Returns the way into the journal.
    #[inline]
    pub fn recorder(&self) -> Recorder<'a> {
        Recorder::new(&self.engine.journal, &self.engine.offsets, self.batch_buffer)
    }
}

impl<'a> Cx<'a> {
    /// Makes the view of one batch.
    pub fn new(
        thread_context: ThreadContext<'a>,
        state: &'a mut State,
        out: &'a mut Output,
        pending: &'a mut Pending,
        call: fn(&mut Cx<'_>, Request<'_>),
    ) -> Self {
        let ThreadContext { engine, counters, dice, now, clock, .. } = thread_context;
        let due_ms = due_ms(now, state);
        let (slow_ticks, large_bytes) = engine.conspicuous();
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
            locks: Locks::new(&engine.store, &engine.all_or_each, thread_context.recorder()),
            call,
            others: None,
            timed: None,
            timed_calls: 0,
            is_within: false,
            ticks: 0,
            slow_ticks,
            large_bytes,
            is_recorded: false,
            is_unrecorded: false,
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

    /// Answers an error, and counts it.
    #[cold]
    pub fn refuse(&mut self, error: &Error) {
        self.counters.errors_replied.add(1);
        if !self.state.is_unobserved {
            self.engine.stats.count_error(error.code());
        }
        self.reply().error(error.text());
    }

    /// Returns whether the client is on this machine.
    pub fn is_local(&self) -> bool {
        match self.state.client.address.parse::<std::net::SocketAddr>() {
            Ok(address) => address.ip().is_loopback(),
            Err(_) => true,
        }
    }

    /// Returns the selected database, as the store counts.
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

#[inline]
fn due_ms(now: Instant, state: &State) -> i64 {
    if state.is_replaying { i64::MIN } else { now.wall_ms() }
}

/// The parts that a look for a key reports to, while the key is lent from under the locks.
struct Looker<'c> {
    engine: &'c Engine,
    counters: &'c Counters,
    state: &'c State,
    dice: &'c Dice,
    pending: &'c mut Pending,
    out: &'c mut Output,
    now: Instant,
    due_ms: i64,
}

impl Looker<'_> {
    /// Looks a key up, once. An expired one is removed, except during a pause: then nothing changes, and the key only looks
    /// gone.
    #[inline(always)]
    fn lookup<'l>(&mut self, locks: &'l mut Locks<'_>, key: Key<'_>) -> Option<EntryRef<'l>> {
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        match shard.lookup(database, key, self.due_ms, || key_change::may_vanish(engine, now)) {
            Lookup::Live(entry) => Some(entry),
            Lookup::Missing => None,
            Lookup::Expired(garbage) => {
                self.expired(recorder, key.name, key.hash, garbage);
                None
            }
        }
    }

    /// Returns the entry as [`Looker::lookup`] does, to be changed.
    #[inline(always)]
    fn lookup_mut<'l>(&mut self, locks: &'l mut Locks<'_>, key: Key<'_>) -> Option<EntryMut<'l>> {
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        match shard.lookup_mut(database, key, self.due_ms, || key_change::may_vanish(engine, now)) {
            Lookup::Live(entry) => Some(entry),
            Lookup::Missing => None,
            Lookup::Expired(garbage) => {
                self.expired(recorder, key.name, key.hash, garbage);
                None
            }
        }
    }

    /// Reports a key that is gone, if it could vanish. Like all functions that are seldom called here, it is given the words
    /// of the key one by one: as three words the key would lie in memory on the common path, for the sake of this call.
    #[cold]
    fn expired(&mut self, recorder: &mut Recorder<'_>, name: &[u8], hash: Hash, garbage: Option<Garbage>) {
        if let Some(garbage) = garbage {
            let (engine, counters, state) = (self.engine, self.counters, self.state);
            engine.lazy_free.now_or_later(garbage, engine.config.flag(Opt::LazyfreeLazyExpire));
            let source = Source { engine, counters, state: Some(state), pending: self.pending, recorder };
            key_change::tell(source, Cause::Expired, state.database, Key { name, hash });
        }
    }

    /// Renews the access clock, as long as the client has not said NO-TOUCH.
    #[inline]
    fn touch(&self, entry: &EntryRef<'_>) {
        if !self.state.no_touch {
            key_clock::touch((&self.engine.config, self.dice), entry, self.now);
        }
    }

    #[inline]
    fn note_hit(&self, entry: &EntryRef<'_>) {
        self.counters.hits.add(1);
        self.touch(entry);
    }

    /// Counts a look for a key that is not there, and publishes it where that is asked for: no part of the way of a hit.
    #[inline(never)]
    fn note_miss(&mut self, name: &[u8]) {
        self.counters.misses.add(1);
        let by = (self.engine, self.state.own(), &mut self.pending.wakeups);
        notifications::publish(by, self.state.database, (EventClass::KeyMiss, "keymiss"), name);
    }
}

/// Looking keys up. An expired key is removed, recorded and counted as it is found, so no command sees it. A command that
/// reads or edits a key renews its access clock, as long as the client has not said NO-TOUCH.
impl<'a> Cx<'a> {
    /// Returns the locks, and the parts that a look under them reports to.
    #[inline(always)]
    fn parted(&mut self) -> (&mut Locks<'a>, Looker<'_>) {
        let looker = Looker {
            engine: self.engine,
            counters: self.counters,
            state: self.state,
            dice: self.dice,
            pending: self.pending,
            out: self.out,
            now: self.now,
            due_ms: self.due_ms,
        };
        (&mut self.locks, looker)
    }

    /// Returns the value of a key, for a command that reads it: counted as hit or miss, and its access clock renewed.
    #[inline]
    pub fn read(&mut self, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.expire_due_fields(key);
        let (locks, mut looker) = self.parted();
        let Some(entry) = looker.lookup(locks, key) else {
            looker.note_miss(key.name);
            return None;
        };
        looker.note_hit(&entry);
        Some(entry)
    }

    /// Returns the string of a key, for a command that reads it; see [`Cx::read`].
    #[inline]
    pub fn read_string(&mut self, key: Key<'_>) -> Result<Option<EntryRef<'_>>, Error> {
        string(self.read(key))
    }

    /// Returns the string of a key, without a trace; see [`Cx::peek`].
    #[inline]
    pub fn peek_string(&mut self, key: Key<'_>) -> Result<Option<EntryRef<'_>>, Error> {
        string(self.peek(key))
    }

    /// Returns the collection of a key, for a command that reads it; see [`Cx::read`].
    #[inline]
    pub fn read_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        collection::<C>(self.read(key))
    }

    /// Returns the collection of a key, without a trace; see [`Cx::peek`].
    #[inline]
    pub fn peek_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<C::Ref<'_>>, Error> {
        collection::<C>(self.peek(key))
    }

    /// Replies with the string of a key that is read; false, and no reply, when the key is missing. Always inline: a returned
    /// value would go through memory.
    #[inline(always)]
    pub fn reply_value(&mut self, key: Key<'_>) -> Result<bool, Error> {
        let (locks, mut looker) = self.parted();
        match looker.lookup(locks, key) {
            Some(entry) if entry.is_string() => {
                looker.note_hit(&entry);
                looker.out.push_value(&entry);
                Ok(true)
            }
            Some(_) => self.read_collection(key.name, key.hash),
            None => {
                looker.note_miss(key.name);
                Ok(false)
            }
        }
    }

    /// Returns the outcome of reading a collection as a string: a hash may end as it is looked at.
    #[cold]
    fn read_collection(&mut self, name: &[u8], hash: Hash) -> Result<bool, Error> {
        self.read_string(Key { name, hash }).map(|string| string.is_some())
    }

    /// Returns the value of a key, without a trace: neither counted nor touched.
    #[inline]
    pub fn peek(&mut self, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.expire_due_fields(key);
        let (locks, mut looker) = self.parted();
        looker.lookup(locks, key)
    }

    /// Returns the entry of a key, to be changed. The caller reports its changes with [`Cx::changed`]. Always inline, as
    /// [`Cx::reply_value`].
    #[inline(always)]
    pub fn edit(&mut self, key: Key<'_>) -> Option<EntryMut<'_>> {
        self.expire_due_fields(key);
        let (locks, mut looker) = self.parted();
        let entry = looker.lookup_mut(locks, key)?;
        looker.touch(&entry.view());
        Some(entry)
    }

    /// Returns the string of a key, to be changed; see [`Cx::edit`].
    #[inline(always)]
    pub fn edit_string(&mut self, key: Key<'_>) -> Result<Option<EntryMut<'_>>, Error> {
        match self.edit(key) {
            Some(entry) if !entry.view().is_string() => Err(Error::WRONG_TYPE),
            entry => Ok(entry),
        }
    }

    /// Returns the entry of a key, to be changed; a key that is missing is first set to `value`. The caller has looked at the
    /// key, which has renewed its access clock.
    #[inline]
    pub fn edit_or_insert(&mut self, key: Key<'_>, value: &Value<'_>) -> EntryMut<'_> {
        self.expire_due_fields(key);
        if notifications::is_wanted(&self.engine.config, EventClass::New) && self.peek(key).is_none() {
            self.notify(EventClass::New, "new", key);
        }
        let (engine, now, database) = (self.engine, self.now, self.state.database as usize);
        let moment = self.moment();
        let (locks, mut looker) = self.parted();
        let (shard, recorder) = locks.shard_and_recorder(key.hash);
        let (entry, expired) = shard.entry_or_insert(database, key, value, moment);
        if expired.is_some() && key_change::may_vanish(engine, now) {
            looker.expired(recorder, key.name, key.hash, expired);
        }
        entry
    }

    /// Removes the expired fields of a hash. Always inline: nearly always it is two looks.
    #[inline(always)]
    fn expire_due_fields(&mut self, key: Key<'_>) {
        if self.locks.shard(key.hash).has_due_fields(self.state.database as usize, self.due_ms) {
            self.expire_fields(key.name, key.hash);
        }
    }

    /// Removes the expired fields of a hash, all of a small one and some of a large one, unless it goes as a whole. They are
    /// recorded apart from the command's own effects.
    #[cold]
    fn expire_fields(&mut self, name: &[u8], hash: Hash) {
        let key = Key { name, hash };
        let (database, now_ms) = (self.state.database, self.due_ms);
        let shard = self.locks.shard(key.hash);
        let is_due = shard.is_due(database as usize, key.hash, now_ms);
        let goes = matches!(shard.find(database as usize, key, now_ms), Find::Expired(_));
        if !is_due || goes || !key_change::may_vanish(self.engine, self.now) {
            return;
        }
        let expired = self.locks.shard(key.hash).expire_fields(database as usize, key, now_ms, FIELDS_A_LOOK);
        if let Some(expired) = expired {
            self.tell(Cause::FieldsExpired(&expired), database, key);
        }
    }
}

#[inline]
fn string(entry: Option<EntryRef<'_>>) -> Result<Option<EntryRef<'_>>, Error> {
    match entry {
        Some(entry) if !entry.is_string() => Err(Error::WRONG_TYPE),
        entry => Ok(entry),
    }
}

#[inline]
fn collection<C: Collection>(entry: Option<EntryRef<'_>>) -> Result<Option<C::Ref<'_>>, Error> {
    match entry {
        None => Ok(None),
        Some(entry) => entry.collection::<C>().map(Some).ok_or(Error::WRONG_TYPE),
    }
}
