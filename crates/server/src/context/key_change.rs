//! One door for "a key changed or vanished".
//!
//! Whatever the [`Cause`], [`tell`] lets everybody hear of it who must: those who watch the key (WATCH), those who wait for
//! it (BLPOP and its like), those who have it in a cache of their own (CLIENT TRACKING), the statistics; and where nobody
//! asked for it, keyspace notifications and the journal. A command says its own events and effects itself, through the same
//! [`Pending`] (`effects`).
//!
//! Whether anything may vanish that nobody asked to vanish is asked here too ([`may_vanish`]). All of this is called under
//! the lock of the key's shard. While nobody watches, waits or tracks, a change costs three relaxed loads.

use std::collections::VecDeque;

use sleeve_store::ExpiredFields;
use sleeve_wire::request::OwnedArgs;

use super::notifications;
use super::notifications::Class;
use super::session_state::State;
use crate::engine::Engine;
use crate::engine::clients::blocking::Place;
use crate::host::clock::Instant;
use crate::messaging::wakeups::Outbox;
use crate::observe::stats::Counters;
use crate::request::Key;

/// Why a key is another now, or gone.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// A command changed or removed it.
    Command,
    /// A command changed it, and the change is counted elsewhere: the old name of a key that is renamed.
    Uncounted,
    /// A command removed a group of a stream, which only those can tell who wait for its entries.
    GroupRemoved,
    /// Its time had come.
    Expired,
    /// The time of these fields of it had come.
    FieldsExpired(&'a ExpiredFields),
    /// It went to make room.
    Evicted,
}

/// On whose behalf a key changes, and where what follows from that is noted.
pub struct Source<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The thread's counters.
    pub counters: &'a Counters,
    /// The client whose command runs; none where time alone is at work.
    pub state: Option<&'a State>,
    /// What is to be done about it later.
    pub pending: &'a mut Pending,
}

/// What changes leave to be done when the command or the transaction is over, or when the locks have been given back.
#[derive(Debug, Default)]
pub struct Pending {
    /// Changes of the running command.
    pub changes: u64,
    /// Keys that have changed and that somebody waits for; they are served when the outermost command is over.
    pub marked: VecDeque<Place>,
    /// Who is to be woken for what was published, and what the client published to itself.
    pub outbox: Outbox,
    /// Effects since EXEC began, while one runs that is recorded.
    pub transaction: Option<Vec<(u32, OwnedArgs)>>,
}

impl Pending {
    /// Whether effects are wanted at all.
    #[inline]
    pub fn is_recording(&self, engine: &Engine, state: Option<&State>) -> bool {
        match state.and_then(|state| state.executing) {
            None => engine.journal.is_read(),
            // Who begins to read while a transaction runs sees none of it, never the second half.
            Some(_) => self.transaction.is_some(),
        }
    }

    /// Records an effect, if effects are wanted.
    pub fn append(&mut self, engine: &Engine, state: Option<&State>, database: u32, effect: &[&[u8]]) {
        if !self.is_recording(engine, state) {
            return;
        }
        match &mut self.transaction {
            Some(effects) => effects.push((database, OwnedArgs::collect(effect.iter().copied()))),
            None => engine.journal.append(database, effect.iter().copied()),
        }
    }
}

/// Tells everybody that a key has changed or vanished, after it has. Always inline: the cause is known where it is called,
/// and what does not concern it falls away.
#[inline(always)]
pub fn tell(source: Source<'_>, cause: Cause<'_>, database: u32, key: Key<'_>) {
    let Source { engine, counters, state, pending } = source;
    let is_seen = !matches!(cause, Cause::GroupRemoved);
    match cause {
        Cause::Expired => engine.watches.raise_expired(database, key.name),
        _ if is_seen => engine.watches.raise(database, key.name),
        _ => {}
    }
    if let Some(place) = engine.blocking.mark(database, key) {
        pending.marked.push_back(place);
    }
    if is_seen && engine.tracking.is_used() {
        engine.tracking.changed(key.name, state.and_then(State::changer), &mut pending.outbox);
    }
    match cause {
        Cause::Command | Cause::GroupRemoved => pending.changes += 1,
        Cause::Uncounted => {}
        Cause::Expired | Cause::FieldsExpired(_) | Cause::Evicted => {
            tell_unasked(Source { engine, counters, state, pending }, cause, database, key.name);
        }
    }
}

/// Counts, publishes and records what no command has asked for.
#[cold]
fn tell_unasked(source: Source<'_>, cause: Cause<'_>, database: u32, name: &[u8]) {
    let Source { engine, counters, state, pending } = source;
    let mut publish = |class: Class, event: &'static str| {
        let by = (engine, state.and_then(State::own), &mut pending.outbox);
        notifications::publish(by, database, (class, event), name);
    };
    match cause {
        Cause::Command | Cause::Uncounted | Cause::GroupRemoved => return,
        Cause::Expired => {
            counters.expired.add(1);
            publish(Class::Expired, "expired");
        }
        Cause::Evicted => {
            counters.evicted.add(1);
            publish(Class::Evicted, "evicted");
        }
        Cause::FieldsExpired(expired) => {
            publish(Class::Hash, "hexpired");
            if expired.emptied {
                publish(Class::Generic, "del");
            }
            let fields = expired.fields.iter().map(|field| &**field);
            let effect: Vec<&[u8]> = [b"HDEL".as_slice(), name].into_iter().chain(fields).collect();
            return pending.append(engine, state, database, &effect);
        }
    }
    pending.append(engine, state, database, &[b"DEL", name]);
}

/// Whether keys and fields may vanish that nobody asked to remove: because their time has come, or to make room. Nothing
/// does during a pause, for that is what a failover relies on; what is due only looks gone meanwhile. A pause begins with
/// all shards locked, so whoever asks under the lock of the key's shard, and acts before giving it back, is not overtaken.
pub fn may_vanish(engine: &Engine, now: Instant) -> bool {
    engine.pause.held(now.monotonic_ms()).is_none()
}
